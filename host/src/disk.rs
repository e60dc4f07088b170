//! What a file system is asked by whoever writes a large file and gives it a lasting name: [`crate::artifact`] and [`crate::fetch`].

use std::fs::File;
use std::io;
use std::path::Path;

/// Bytes free for this user on the file system of `folder`, where it tells.
pub(crate) fn free_space(folder: &Path) -> Option<u64> {
    let stat = rustix::fs::statvfs(folder).ok()?;
    Some(stat.f_bavail.saturating_mul(stat.f_frsize))
}

/// Makes a name last that `path` was given: syncs the folder it is in.
pub(crate) fn sync_folder(path: &Path) -> io::Result<()> {
    let Some(folder) = path.parent() else { return Ok(()) };
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    File::open(folder)?.sync_all()
}
