//! One file by HTTP: resumed where an earlier try ended, tried again where the connection ends, checked, then renamed. TLS, proxies
//! (`HTTPS_PROXY`, `NO_PROXY`) and redirects are the crate's.
//!
//! What waits for its rest is called NAME.VERSION.part. Once another commit has another file there, what waits of the old one is neither
//! used nor removed.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use ureq::config::RedirectAuthHeaders;
use ureq::http::{Response, StatusCode};
use ureq::tls::{RootCerts, TlsConfig};
use ureq::{Agent, Body};

use super::{FetchError, FetchResult, check_hash, publish, sha256};

/// Longest wait for a connection, and for the next bytes of one.
const PATIENCE: Duration = Duration::from_secs(30);
/// Tries that may end without a byte before a file is given up.
const TRIES: u32 = 4;
/// Pause before the first of them; each later one is twice as long.
const PAUSE: Duration = Duration::from_millis(250);

/// Asks servers.
pub struct Client {
    agent: Agent,
    token: Option<String>,
}

/// A file on a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remote {
    /// Its name for people.
    pub name: String,
    /// Where it is.
    pub url: String,
    /// Its size, if known.
    pub bytes: Option<u64>,
    /// Its sha256 in hexadecimal digits, if known.
    pub sha256: Option<String>,
    /// Something that changes with its contents: only what came under the same word is gone on with.
    pub version: String,
}

/// A file on its way here.
struct Partial<'a> {
    remote: &'a Remote,
    /// Where it waits for its rest.
    path: PathBuf,
    file: File,
    /// Bytes from the beginning that are here.
    there: u64,
    /// Sees them.
    progress: &'a mut dyn FnMut(u64),
}

/// How a try to read on ended.
enum Try {
    /// No more bytes are to come.
    Whole,
    /// The connection ended too early.
    Broken(String),
}

impl Client {
    /// `token` goes to the host that is asked and to no other one.
    pub fn new(token: Option<String>) -> Self {
        let tls = TlsConfig::builder().root_certs(RootCerts::PlatformVerifier).build();
        let config = Agent::config_builder()
            .tls_config(tls)
            .http_status_as_error(false)
            .redirect_auth_headers(RedirectAuthHeaders::SameHost)
            .user_agent(concat!("zynfer/", env!("CARGO_PKG_VERSION")))
            .timeout_connect(Some(PATIENCE))
            .timeout_recv_response(Some(PATIENCE))
            .timeout_per_read(Some(PATIENCE));
        Self { agent: config.build().into(), token }
    }

    /// The text at `url`, at most 10 MB; `Err` of the status where it is no success.
    pub fn text(&self, url: &str) -> FetchResult<Result<String, u16>> {
        let mut response = self.get(url, None)?;
        if !response.status().is_success() {
            return Ok(Err(response.status().as_u16()));
        }
        let text = response.body_mut().read_to_string();
        text.map(Ok).map_err(|error| FetchError::Answer { url: url.into(), detail: error.to_string() })
    }

    fn get(&self, url: &str, from: Option<u64>) -> FetchResult<Response<Body>> {
        let mut request = self.agent.get(url);
        if let Some(token) = &self.token {
            request = request.header("Authorization", format!("Bearer {token}"));
        }
        if let Some(from) = from {
            request = request.header("Range", format!("bytes={from}-"));
        }
        request.call().map_err(|error| FetchError::Unreachable { url: url.into(), detail: error.to_string() })
    }

    /// Fetches `remote` to `target`, in a folder that is there; `false` if it was there already, by its hash. `progress` sees bytes that are
    /// there.
    pub fn file(&self, remote: &Remote, target: &Path, progress: &mut dyn FnMut(u64)) -> FetchResult<bool> {
        if let Some(expected) = &remote.sha256
            && sha256(target).is_ok_and(|found| found == *expected)
        {
            return Ok(false);
        }
        let mut partial = Partial::open(remote, target, progress)?;
        self.complete(&mut partial)?;
        if let Some(expected) = &remote.sha256 {
            check_hash(&partial.path, &remote.name, expected)?;
        }
        publish(&partial.path, target)?;
        Ok(true)
    }

    /// Reads until all of it is there.
    fn complete(&self, partial: &mut Partial<'_>) -> FetchResult<()> {
        let remote = partial.remote;
        let mut fruitless = 0;
        loop {
            if remote.bytes == Some(partial.there) {
                return partial.cut();
            }
            let before = partial.there;
            let detail = match self.read_on(partial)? {
                Try::Whole if remote.bytes.is_none_or(|bytes| bytes == partial.there) => return Ok(()),
                Try::Whole => "the server ended".to_string(),
                Try::Broken(detail) => detail,
            };
            fruitless = if partial.there > before { 0 } else { fruitless + 1 };
            if fruitless == TRIES {
                let expected = remote.bytes.map_or("unknown many".into(), |bytes| bytes.to_string());
                let (file, found) = (remote.name.clone(), partial.there);
                return Err(FetchError::Truncated { file, found, expected, detail });
            }
            std::thread::sleep(PAUSE * 2u32.pow(fruitless));
        }
    }

    /// One request for what is missing.
    fn read_on(&self, partial: &mut Partial<'_>) -> FetchResult<Try> {
        let (url, there) = (&partial.remote.url, partial.there);
        let response = match self.get(url, (there > 0).then_some(there)) {
            Ok(response) => response,
            // Who has answered before may answer again.
            Err(error) if there > 0 => return Ok(Try::Broken(error.to_string())),
            Err(error) => return Err(error),
        };
        let status = response.status();
        if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS {
            return Ok(Try::Broken(format!("status {}", status.as_u16())));
        }
        if status == StatusCode::RANGE_NOT_SATISFIABLE && there > 0 {
            partial.there = 0; // the file is shorter than what is here: it is another one
            return Ok(Try::Broken("status 416".into()));
        }
        if !status.is_success() {
            let (url, status) = (url.clone(), status.as_u16());
            return Err(FetchError::Status { url, status, meaning: "this file cannot be had".into() });
        }
        if status != StatusCode::PARTIAL_CONTENT {
            partial.there = 0; // the whole file comes, whatever was asked for
        } else if !continues(&response, there) {
            let detail = format!("bytes from {there} on asked for, others came");
            return Err(FetchError::Answer { url: url.clone(), detail });
        }
        partial.cut()?;
        partial.append(response.into_body())
    }
}

impl<'a> Partial<'a> {
    /// What came of `remote` by an earlier try, else nothing.
    fn open(remote: &'a Remote, target: &Path, progress: &'a mut dyn FnMut(u64)) -> FetchResult<Self> {
        let path = part(remote, target);
        let file = OpenOptions::new().create(true).truncate(false).write(true).open(&path);
        let mut file = file.map_err(FetchError::file(&path))?;
        let there = file.seek(SeekFrom::End(0)).map_err(FetchError::file(&path))?;
        // More than there should be is of no use.
        let there = if remote.bytes.is_some_and(|bytes| there > bytes) { 0 } else { there };
        Ok(Self { remote, path, file, there, progress })
    }

    /// Cuts off what the file has beyond what is there; the next bytes come at its end.
    fn cut(&mut self) -> FetchResult<()> {
        let cut = self.file.seek(SeekFrom::Start(self.there)).and_then(|_| self.file.set_len(self.there));
        cut.map_err(FetchError::file(&self.path))
    }

    /// Appends a body, and no more than the file has on its server.
    fn append(&mut self, body: Body) -> FetchResult<Try> {
        let (mut body, mut buffer) = (body.into_reader(), vec![0; 1 << 16]);
        loop {
            let count = match body.read(&mut buffer) {
                Ok(0) => return Ok(Try::Whole),
                Ok(count) => count,
                Err(error) => return Ok(Try::Broken(error.to_string())),
            };
            if let Some(bytes) = self.remote.bytes.filter(|&bytes| self.there + count as u64 > bytes) {
                let detail = format!("more than the {bytes} bytes that are published");
                return Err(FetchError::Answer { url: self.remote.url.clone(), detail });
            }
            self.file.write_all(&buffer[..count]).map_err(FetchError::file(&self.path))?;
            self.there += count as u64;
            (self.progress)(self.there);
        }
    }
}

/// Whether an answer of status 206 begins at byte `start`.
fn continues(response: &Response<Body>, start: u64) -> bool {
    let range = response.headers().get("Content-Range").and_then(|range| range.to_str().ok());
    range.is_some_and(|range| range.starts_with(&format!("bytes {start}-")))
}

/// Where what came of `remote` waits for the rest.
fn part(remote: &Remote, target: &Path) -> PathBuf {
    let mut name = target.file_name().unwrap_or_default().to_os_string();
    let version: String = remote.version.chars().filter(char::is_ascii_alphanumeric).take(12).collect();
    name.push(format!(".{version}.part"));
    target.with_file_name(name)
}

/// Bytes of `remote` that wait beside `target`.
pub(super) fn waiting(remote: &Remote, target: &Path) -> u64 {
    std::fs::metadata(part(remote, target)).map_or(0, |metadata| metadata.len())
}
