//! An HTTP server on this machine that answers what a test tells it to, and remembers what it was asked.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// What was asked.
#[derive(Debug, Clone)]
pub struct Request {
    /// Path and query.
    pub path: String,
    headers: Vec<(String, String)>,
}

impl Request {
    /// A header's value.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| &**value)
    }

    /// Where a `Range` begins.
    pub fn from(&self) -> Option<usize> {
        self.header("Range")?.strip_prefix("bytes=")?.strip_suffix('-')?.parse().ok()
    }
}

/// What is answered.
#[derive(Debug, Clone, Default)]
pub struct Answer {
    pub status: u16,
    pub headers: Vec<(&'static str, String)>,
    pub body: Vec<u8>,
    /// Close after so many bytes of the body; its length is announced whole.
    pub cut: Option<usize>,
}

impl Answer {
    pub fn status(status: u16) -> Self {
        Answer { status, ..Default::default() }
    }

    pub fn ok(body: impl Into<Vec<u8>>) -> Self {
        Answer { status: 200, body: body.into(), ..Default::default() }
    }

    /// `whole` or, where a range is asked for, the rest of it.
    pub fn ranged(request: &Request, whole: &[u8]) -> Self {
        let Some(from) = request.from() else { return Answer::ok(whole) };
        let range = format!("bytes {from}-{}/{}", whole.len() - 1, whole.len());
        Answer { status: 206, headers: vec![("Content-Range", range)], body: whole[from..].to_vec(), cut: None }
    }
}

/// The server; its thread ends with the test program.
pub struct Server {
    port: u16,
    asked: Arc<Mutex<Vec<Request>>>,
}

impl Server {
    pub fn new(mut answer: impl FnMut(&Request) -> Answer + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let log = asked.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let Some(request) = read(&stream) else { continue };
                log.lock().expect("no panic").push(request.clone());
                // Whoever does not read to the end is what some tests are about.
                let _ = write(stream, &answer(&request));
            }
        });
        Server { port, asked }
    }

    /// `http://HOST:PORT`.
    pub fn url(&self, host: &str) -> String {
        format!("http://{host}:{}", self.port)
    }

    /// What was asked since the last call.
    pub fn asked(&self) -> Vec<Request> {
        std::mem::take(&mut *self.asked.lock().expect("no panic"))
    }
}

fn read(stream: &TcpStream) -> Option<Request> {
    let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
    let path = lines.next()?.split(' ').nth(1)?.to_string();
    let header = |line: String| line.split_once(':').map(|(name, value)| (name.to_string(), value.trim().to_string()));
    let headers = lines.take_while(|line| !line.is_empty()).filter_map(header).collect();
    Some(Request { path, headers })
}

fn write(mut stream: TcpStream, answer: &Answer) -> std::io::Result<()> {
    let mut head = format!("HTTP/1.1 {} .\r\nContent-Length: {}\r\n", answer.status, answer.body.len());
    for (name, value) in &answer.headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    stream.write_all(format!("{head}Connection: close\r\n\r\n").as_bytes())?;
    stream.write_all(&answer.body[..answer.cut.unwrap_or(answer.body.len())])
}
