//! How an artifact gets its name: checked before any work is done, given when the file is complete. Until then it has none, where the file
//! system can hold such a file, or a temporary one. It knows nothing of what is in the file.

use std::{
    fs::File,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use super::{error::LoadError, source::Source};
use crate::disk;

/// The final name, checked before any work is done.
pub(super) struct Target<'a> {
    out: &'a Path,
    folder: &'a Path,
}

impl<'a> Target<'a> {
    pub(super) fn check(sources: &Source, src: &Path, out: &'a Path) -> Result<Self, LoadError> {
        if out.file_name().is_none() {
            return Err(LoadError::new(out, "names no file to write"));
        }
        let folder = match out.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        match std::fs::metadata(folder) {
            Ok(meta) if meta.is_dir() => {}
            Ok(_) => {
                return Err(LoadError::new(folder, format!("is not a folder, so {} cannot lie in it", out.display())));
            }
            Err(e) => return Err(LoadError::io(folder, "the output's folder cannot be opened", e)),
        }
        // Renaming replaces whatever bears the name, so only a file may.
        let Ok(meta) = std::fs::metadata(out) else { return Ok(Self { out, folder }) };
        if meta.is_dir() {
            return Err(LoadError::new(out, "is a folder, name a file to write"));
        }
        if !meta.is_file() {
            return Err(LoadError::new(out, "is no regular file and is not replaced"));
        }
        for path in &sources.source_paths {
            let same =
                std::fs::metadata(path).is_ok_and(|other| (other.dev(), other.ino()) == (meta.dev(), meta.ino()));
            if same {
                return Err(LoadError::new(
                    out,
                    format!(
                        "is {} of the source {}{}",
                        file_name(path),
                        if src.is_dir() { "folder " } else { "" },
                        src.display()
                    ),
                ));
            }
        }
        Ok(Self { out, folder })
    }

    /// Compares free space, where the file system tells it, with what is needed.
    pub(super) fn check_space(&self, needed: u64) -> Result<(), LoadError> {
        if let Some(free) = disk::free_space(self.folder).filter(|&free| free < needed) {
            return Err(LoadError::new(self.out, "not enough free space")
                .numbers(format_args!("{needed} bytes"), format_args!("{free} bytes free")));
        }
        Ok(())
    }

    /// A file in the output's folder that is not under any lasting name.
    pub(super) fn create(&self) -> Result<(File, Pending), LoadError> {
        let failed = |e| LoadError::io(self.out, "cannot be created", e);
        // Linux can hold a file without any name: then even a killed process leaves nothing behind.
        if Path::new("/proc/self/fd").is_dir() {
            use rustix::fs::{CWD, Mode, OFlags};
            let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
            if let Ok(fd) = rustix::fs::openat(CWD, self.folder, flags, Mode::from_raw_mode(0o666)) {
                return Ok((File::from(fd), Pending::Unnamed { folder: self.folder.to_owned() }));
            }
        }
        use std::os::unix::fs::PermissionsExt;
        let permissions = std::fs::Permissions::from_mode(0o666); // less the umask, as any file
        let named = temporary().permissions(permissions).tempfile_in(self.folder).map_err(failed)?;
        let (file, path) = named.into_parts();
        Ok((file, Pending::Named(path)))
    }
}

fn temporary() -> tempfile::Builder<'static, 'static> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(".zynfer-").suffix(".partial");
    builder
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// A written file that does not yet bear its name.
pub(super) enum Pending {
    Unnamed {
        folder: PathBuf,
    },
    /// Removed when dropped.
    Named(tempfile::TempPath),
}

impl Pending {
    /// A path under which the file can be opened anew.
    pub(super) fn readable_path(&self, file: &File) -> PathBuf {
        match self {
            Self::Unnamed { .. } => descriptor_path(file),
            Self::Named(path) => path.to_path_buf(),
        }
    }

    /// Gives the complete file its name, replacing what bore it, and makes the name last.
    pub(super) fn publish(self, file: &File, out: &Path) -> Result<(), LoadError> {
        let failed = |e| LoadError::io(out, "the finished file cannot be renamed to this", e);
        let path = match self {
            Self::Named(path) => path,
            Self::Unnamed { folder } => {
                use rustix::fs::{AtFlags, CWD, linkat};
                let linked = temporary().make_in(&folder, |name| {
                    linkat(CWD, descriptor_path(file), CWD, name, AtFlags::SYMLINK_FOLLOW).map_err(std::io::Error::from)
                });
                linked.map_err(failed)?.into_temp_path()
            }
        };
        path.persist(out).map_err(|e| failed(e.error))?;
        // The rename itself must reach the disk. A file system that cannot sync folders says so here; the file is complete then.
        disk::sync_folder(out)
            .map_err(|e| LoadError::io(out, "written and complete, but its folder cannot be synced", e))
    }
}

fn descriptor_path(file: &File) -> PathBuf {
    use std::os::fd::AsRawFd;
    PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

#[cfg(test)]
mod tests {
    //! The way of a file system that cannot hold a file without a name. Everything else is tested from outside.
    use std::io::Write;

    use super::*;

    fn named(folder: &Path) -> (File, Pending) {
        let (mut file, path) = temporary().tempfile_in(folder).unwrap().into_parts();
        file.write_all(b"complete").unwrap();
        (file, Pending::Named(path))
    }

    #[test]
    fn a_named_temporary_file_goes_away_unless_published() {
        let folder = tempfile::tempdir().unwrap();
        let entries = || std::fs::read_dir(folder.path()).unwrap().count();
        let (file, pending) = named(folder.path());
        assert_eq!(std::fs::read(pending.readable_path(&file)).unwrap(), b"complete");
        assert_eq!(entries(), 1);
        drop(pending);
        assert_eq!(entries(), 0);

        let out = folder.path().join("out.zynfer");
        std::fs::write(&out, "an older half file").unwrap();
        let (file, pending) = named(folder.path());
        pending.publish(&file, &out).unwrap();
        assert_eq!((std::fs::read(&out).unwrap().as_slice(), entries()), (b"complete".as_slice(), 1));
    }

    #[test]
    fn a_file_without_a_name_is_invisible_until_published() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("out.zynfer");
        let target = Target { out: &out, folder: folder.path() };
        let (mut file, pending) = target.create().unwrap();
        file.write_all(b"complete").unwrap();
        if matches!(pending, Pending::Unnamed { .. }) {
            assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        }
        assert_eq!(std::fs::read(pending.readable_path(&file)).unwrap(), b"complete");
        pending.publish(&file, &out).unwrap();
        assert_eq!(std::fs::read(&out).unwrap(), b"complete");
    }
}
