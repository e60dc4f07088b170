//! The Hugging Face hub: which files a repository has, and those that make a checkpoint. Two of its addresses are all that is used; the crate
//! `hf-hub` is not, because it neither goes on with an interrupted file safely nor checks a hash (0.5), or brings an asynchronous runtime
//! and a C library for TLS with it (1.0).
//!
//! Environment: `HF_ENDPOINT` names another hub, `HF_TOKEN` is sent to it; else the token that Hugging Face's own tools keep in
//! `HF_HOME/token` (`HF_HOME` is `$XDG_CACHE_HOME/huggingface` unless set,
//! `XDG_CACHE_HOME` is `~/.cache`).

use std::path::{Component, Path, PathBuf};

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, PercentEncode, utf8_percent_encode};
use serde::Deserialize;

use super::http::{Client, Remote, waiting};
use super::{FetchError, FetchResult, check_space};

const ENDPOINT: &str = "https://huggingface.co";
/// What does not stand for itself in a URL: all but the unreserved characters (RFC 3986, section 2.3).
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
/// Files of a checkpoint beside its weights, as far as they are there.
const SMALL: [&str; 6] = [
    "config.json",
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "chat_template.jinja",
    "model.safetensors.index.json",
];

/// A hub.
pub struct Hub {
    endpoint: String,
    client: Client,
}

/// A repository's files at one of its commits.
#[derive(Debug)]
pub struct Listing {
    /// Owner and name.
    pub repository: String,
    /// The commit, which names these very contents.
    pub commit: String,
    files: Vec<Remote>,
}

#[derive(Deserialize)]
struct Info {
    sha: String,
    siblings: Vec<Sibling>,
}

#[derive(Deserialize)]
struct Sibling {
    rfilename: String,
    size: Option<u64>,
    lfs: Option<Large>,
}

/// A file that the hub keeps by its hash.
#[derive(Deserialize)]
struct Large {
    sha256: String,
    size: u64,
}

impl Hub {
    /// The hub that the environment names, with its token.
    pub fn from_environment() -> Self {
        let value = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let home = value("HF_HOME").map(PathBuf::from).or_else(|| {
            let cache = value("XDG_CACHE_HOME").map(PathBuf::from);
            Some(cache.or_else(|| Some(PathBuf::from(value("HOME")?).join(".cache")))?.join("huggingface"))
        });
        let kept = || std::fs::read_to_string(home?.join("token")).ok();
        let token = value("HF_TOKEN").or_else(kept).map(|token| token.trim().to_string());
        let endpoint = value("HF_ENDPOINT").unwrap_or(ENDPOINT.into());
        Self {
            endpoint: endpoint.trim_end_matches('/').into(),
            client: Client::new(token.filter(|token| !token.is_empty())),
        }
    }

    /// The files of `repository` (owner/name) at `revision`: a branch, a tag or a commit.
    pub fn list(&self, repository: &str, revision: &str) -> FetchResult<Listing> {
        let endpoint = &self.endpoint;
        let url = format!("{endpoint}/api/models/{repository}/revision/{}?blobs=true", escaped(revision));
        let text = self.client.text(&url)?.map_err(|status| {
            let meaning = match status {
                401 | 403 => format!(
                    "gated, private or not there: accept its terms at {endpoint}/{repository} and set HF_TOKEN to a token that may read it"
                ),
                404 => format!("the hub has no model {repository} with a revision {revision}"),
                _ => "the hub does not answer this".into(),
            };
            FetchError::Status { url: format!("{endpoint}/{repository}"), status, meaning }
        })?;
        let info: Info = serde_json::from_str(&text)
            .map_err(|error| FetchError::Answer { url, detail: format!("no list of files: {error}") })?;
        let remote = |sibling: Sibling| {
            let sha256 = sibling.lfs.as_ref().map(|large| large.sha256.clone());
            Remote {
                url: format!("{endpoint}/{repository}/resolve/{}/{}", info.sha, escaped_path(&sibling.rfilename)),
                bytes: sibling.lfs.as_ref().map(|large| large.size).or(sibling.size),
                version: sha256.clone().unwrap_or_else(|| info.sha.clone()),
                sha256,
                name: sibling.rfilename,
            }
        };
        let files = info.siblings.into_iter().map(remote).collect();
        Ok(Listing { repository: repository.into(), commit: info.sha.clone(), files })
    }

    /// Fetches `files` below `folder`, which is made. `progress` sees bytes of all of them. The result says of each whether it came, or was
    /// there.
    pub fn fetch(
        &self,
        files: &[&Remote],
        folder: &Path,
        progress: &mut dyn FnMut(u64, u64),
    ) -> FetchResult<Vec<bool>> {
        let target = |remote: &Remote| folder.join(&remote.name);
        for file in files {
            let parent = target(file).parent().unwrap_or(folder).to_path_buf();
            std::fs::create_dir_all(&parent).map_err(FetchError::file(&parent))?;
        }
        let missing = files.iter().filter(|file| !target(file).exists());
        let needed = missing.map(|file| file.bytes.unwrap_or(0).saturating_sub(waiting(file, &target(file)))).sum();
        check_space(folder, needed)?;
        let total = files.iter().filter_map(|file| file.bytes).sum();
        let mut before = 0;
        let mut came = Vec::new();
        for file in files {
            came.push(self.client.file(file, &target(file), &mut |there| progress(before + there, total))?);
            before += file.bytes.unwrap_or(0);
            progress(before, total);
        }
        Ok(came)
    }
}

/// One segment of a URL's path, as it is whatever it holds.
fn escaped(segment: &str) -> PercentEncode<'_> {
    utf8_percent_encode(segment, RESERVED)
}

/// The same of each segment of a file's name, which may lie in folders.
fn escaped_path(name: &str) -> String {
    name.split('/').map(|segment| escaped(segment).to_string()).collect::<Vec<_>>().join("/")
}

impl Listing {
    /// What makes the checkpoint: configuration, tokenizer, template and safetensors.
    pub fn checkpoint(&self) -> FetchResult<Vec<&Remote>> {
        let weights = |name: &str| name.starts_with("model") && name.ends_with(".safetensors") && !name.contains('/');
        let files = self.files.iter().filter(|file| SMALL.contains(&&*file.name) || weights(&file.name));
        let files: Vec<&Remote> = files.collect();
        let has = |wanted: &dyn Fn(&str) -> bool| files.iter().any(|file| wanted(&file.name));
        if has(&|name| name == "config.json") && has(&weights) {
            return Ok(files);
        }
        let gguf: Vec<&str> =
            self.files.iter().map(|file| &*file.name).filter(|name| name.ends_with(".gguf")).collect();
        let advice = match gguf[..] {
            [] => "only safetensors and GGUF files can be used".to_string(),
            _ => format!("take one of its GGUF files by --file: {}", gguf.join(", ")),
        };
        Err(FetchError::Choice(format!("{}: no config.json with safetensors; {advice}", self.repository)))
    }

    /// The files of these names.
    pub fn named(&self, names: &[String]) -> FetchResult<Vec<&Remote>> {
        let find = |name: &String| {
            let inside = Path::new(name).components().all(|part| matches!(part, Component::Normal(_)));
            let file = self.files.iter().find(|file| inside && file.name == *name);
            file.ok_or_else(|| FetchError::Choice(format!("{}: has no file {name:?}", self.repository)))
        };
        names.iter().map(find).collect()
    }
}
