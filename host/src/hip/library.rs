//! Finding and opening a library with HIP's C ABI: AMD's own, or the emulator's. One written order, and when nothing opens one
//! error that lists every path tried and why. It deliberately does not ask for cards: a library without one still opens.

use std::ffi::{OsStr, OsString, c_int, c_void};
use std::fmt;
use std::mem::ManuallyDrop;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::error::{HipError, text};
use super::ffi::{Hip, Symbols};

/// Names tried through the dynamic loader (so also `LD_LIBRARY_PATH` and the system's folders), newest major first. ROCm 7 and 6
/// are the ones that know gfx1201; 5 is what Debian 12 packages, it opens so that the message can say what it lacks.
pub const SONAMES: [&str; 4] = ["libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5", "libamdhip64.so"];
/// Names the emulator's library.
pub const EMULATOR_SONAME: &str = "libamdhip64_emulator.so";
/// The environment variable that names AMD's library.
pub const LIBRARY_VARIABLE: &str = "ZYNFER_HIP_LIBRARY";
/// The environment variable that names the emulator's library.
pub const EMULATOR_VARIABLE: &str = "ZYNFER_EMULATOR_LIBRARY";
/// Oldest HIP whose symbols and structs were checked.
const OLDEST_MAJOR: u32 = 5;
/// First HIP, major and minor, that knows gfx1201.
pub const KNOWS_GFX1201: (u32, u32) = (6, 4);

/// Which files to try, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Search {
    candidates: Vec<PathBuf>,
    /// What names the only candidate, when the user named one.
    named_by: Option<&'static str>,
}

impl Search {
    /// AMD's library: `flag` (`--hip-library`), else `ZYNFER_HIP_LIBRARY`, and then only that one; else [`SONAMES`], then the
    /// `rocm*/lib` folders under `/opt`.
    pub fn amd(flag: Option<&OsStr>) -> Self {
        let variable = std::env::var_os(LIBRARY_VARIABLE);
        Self::amd_from(flag, variable.as_deref(), &SONAMES.map(PathBuf::from), Path::new("/opt"))
    }

    /// [`Search::amd`] with everything it reads from its surroundings given.
    pub fn amd_from(flag: Option<&OsStr>, variable: Option<&OsStr>, sonames: &[PathBuf], rocm_parent: &Path) -> Self {
        if let Some(path) = flag {
            return Self { candidates: vec![path.into()], named_by: Some("--hip-library") };
        }
        if let Some(path) = variable.filter(|value| !value.is_empty()) {
            return Self { candidates: vec![path.into()], named_by: Some(LIBRARY_VARIABLE) };
        }
        let mut candidates = sonames.to_vec();
        let mut folders = rocm_folders(rocm_parent);
        if folders.is_empty() {
            // Named although it is not there, so that the error says where was looked.
            folders.push(rocm_parent.join("rocm"));
        }
        for folder in folders {
            let lib = folder.join("lib");
            let before = candidates.len();
            candidates.extend(SONAMES.iter().map(|name| lib.join(name)).filter(|path| path.exists()));
            if candidates.len() == before {
                candidates.push(lib.join("libamdhip64.so"));
            }
        }
        Self { candidates, named_by: None }
    }

    /// The emulator's library: `ZYNFER_EMULATOR_LIBRARY` and then only that one, else beside the executable, in the folder above
    /// it, or in `deps` below it (where cargo puts it for tests and while it is built for them alone).
    pub fn emulator() -> Self {
        let variable = std::env::var_os(EMULATOR_VARIABLE);
        let executable = std::env::current_exe().ok();
        Self::emulator_from(variable.as_deref(), executable.as_deref())
    }

    /// [`Search::emulator`] with everything it reads from its surroundings given.
    pub fn emulator_from(variable: Option<&OsStr>, executable: Option<&Path>) -> Self {
        if let Some(path) = variable.filter(|value| !value.is_empty()) {
            return Self { candidates: vec![path.into()], named_by: Some(EMULATOR_VARIABLE) };
        }
        let beside = executable.and_then(Path::parent);
        let above = beside.and_then(Path::parent);
        let below = beside.map(|folder| folder.join("deps"));
        let folders = [beside.map(Path::to_owned), above.map(Path::to_owned), below];
        let candidates = folders.into_iter().flatten().map(|folder| folder.join(EMULATOR_SONAME)).collect();
        Self { candidates, named_by: None }
    }

    /// The files in the order in which they are tried.
    pub fn candidates(&self) -> &[PathBuf] {
        &self.candidates
    }

    /// Opens the first candidate that is a usable HIP library and new enough to know gfx1201; failing that, the first usable one: a
    /// distribution's old package on the loader's path must not hide a newer tree under `/opt`.
    ///
    /// # Errors
    /// Every path tried with its reason: not there, not loadable, a symbol missing, a version too old.
    pub fn open(&self) -> Result<Arc<Library>, LibraryError> {
        let mut tried = Vec::new();
        let mut older = None;
        for path in &self.candidates {
            match Library::open(path) {
                Ok(library) if library.knows_gfx1201() => return Ok(Arc::new(library)),
                Ok(library) => older = older.or(Some(library)),
                Err(reason) => tried.push((path.clone(), reason)),
            }
        }
        older.map(Arc::new).ok_or(LibraryError { tried, named_by: self.named_by })
    }
}

/// `rocm*` folders of `parent`: plain `rocm` first (the one the administrator linked), then the highest version.
fn rocm_folders(parent: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(parent) else { return Vec::new() };
    let mut names: Vec<OsString> = entries
        .filter_map(|entry| entry.ok().map(|entry| entry.file_name()))
        .filter(|name| name.to_string_lossy().starts_with("rocm"))
        .collect();
    let version = |name: &OsString| -> Vec<u64> {
        name.to_string_lossy().split(|c: char| !c.is_ascii_digit()).filter_map(|part| part.parse().ok()).collect()
    };
    names.sort_by(|a, b| (b == "rocm").cmp(&(a == "rocm")).then(version(b).cmp(&version(a))).then(a.cmp(b)));
    names.into_iter().map(|name| parent.join(name)).collect()
}

/// No usable library: each path tried and why it was not taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LibraryError {
    /// Paths in the order of the search.
    pub tried: Vec<(PathBuf, String)>,
    /// The flag or variable that named the only candidate.
    pub named_by: Option<&'static str>,
}

impl fmt::Display for LibraryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no usable HIP library")?;
        if let Some(source) = self.named_by {
            write!(f, " (only the path named by {source} was tried)")?;
        }
        for (index, (path, reason)) in self.tried.iter().enumerate() {
            write!(f, "{} {}: {reason}", if index == 0 { ":" } else { ";" }, path.display())?;
        }
        Ok(())
    }
}
impl std::error::Error for LibraryError {}

/// An opened library: its symbols, where it came from and its version. Never closed: AMD's runtime keeps threads and exit handlers
/// in it.
pub struct Library {
    pub(super) hip: Hip,
    path: PathBuf,
    version: Version,
    _handle: ManuallyDrop<libloading::Library>,
}

/// A HIP runtime's version as it reports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
pub struct Version {
    /// Major: decides the device-properties struct.
    pub major: u32,
    /// Minor.
    pub minor: u32,
    /// Patch.
    pub patch: u32,
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

impl Version {
    /// From `HIP_VERSION`: major · 10⁷ + minor · 10⁵ + patch.
    pub fn from_number(number: u32) -> Self {
        Self { major: number / 10_000_000, minor: number / 100_000 % 100, patch: number % 100_000 }
    }
}

impl fmt::Debug for Library {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Library").field("path", &self.path).field("version", &self.version).finish_non_exhaustive()
    }
}

impl Symbols for libloading::Library {
    fn address(&self, name: &str) -> Result<*mut c_void, String> {
        // SAFETY: the address is only read here; `Hip::load` is where it gets its type, and argues for it.
        let symbol = unsafe { self.get::<*mut c_void>(name) }.map_err(|error| error.to_string())?;
        if symbol.is_null() { Err("its address is null".into()) } else { Ok(*symbol) }
    }
}

impl Library {
    /// Opens `path` (a soname or a file) and checks symbols and version.
    fn open(path: &Path) -> Result<Self, String> {
        // SAFETY: the file is a HIP library by its name or by the user's word; running its initialisers is what opening one means,
        // and the same as if the program were linked to it.
        let handle = unsafe { libloading::Library::new(path) }.map_err(|error| loader_reason(path, &error))?;
        // Closing is never safe again once its initialisers ran (threads, exit handlers), not even when it is refused below.
        let handle = ManuallyDrop::new(handle);
        // SAFETY: 1. a HIP library has HIP's signatures under these names, as in the headers the rows were checked against;
        // 2. `handle` is never closed.
        let hip = unsafe { Hip::load(&*handle) }.map_err(|error| error.to_string())?;
        let mut number: c_int = 0;
        // SAFETY: writes one int to a live local.
        let status = unsafe { (hip.hipRuntimeGetVersion)(&raw mut number) };
        hip.check("hipRuntimeGetVersion", status).map_err(|error| error.to_string())?;
        let version = Version::from_number(u32::try_from(number).map_err(|_| format!("reports version {number}"))?);
        if version.major < OLDEST_MAJOR {
            return Err(format!("HIP {version} is too old, {OLDEST_MAJOR}.0.0 or later is needed"));
        }
        if hip.hipGetDevicePropertiesR0600.is_none() && version.major >= 6 {
            return Err(format!("HIP {version} without symbol `hipGetDevicePropertiesR0600`"));
        }
        Ok(Self { hip, path: path.into(), version, _handle: handle })
    }

    /// The path or soname that opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What `hipRuntimeGetVersion` said.
    pub fn version(&self) -> Version {
        self.version
    }

    /// Whether its version can drive the cards this program is for.
    pub fn knows_gfx1201(&self) -> bool {
        (self.version.major, self.version.minor) >= KNOWS_GFX1201
    }

    /// Whether this is the emulator: it alone can report a trap.
    pub fn is_emulator(&self) -> bool {
        self.hip.zynferEmulatorLastReport.is_some()
    }

    /// Why the emulator's device is lost or this thread's last launch was refused; `None` on a card and when nothing went wrong.
    pub fn emulator_report(&self) -> Option<String> {
        let report = self.hip.zynferEmulatorLastReport?;
        // SAFETY: takes nothing; the signature is the row's in `ffi`.
        let pointer = unsafe { report() };
        // SAFETY: a string that stays until this thread asks again, which it does not do during this call.
        unsafe { text(pointer) }.filter(|report| !report.is_empty())
    }

    /// Has the emulator count launches from now on, forgetting what it counted before; `false` where this is no emulator that can.
    pub fn count(&self) -> bool {
        let (Some(counting), Some(_)) = (self.hip.zynferEmulatorCounting, self.hip.zynferEmulatorCounters) else {
            return false;
        };
        // SAFETY: takes a number; the signature is the row's in `ffi`.
        unsafe { counting(1) == 0 }
    }

    /// What was counted since [`Library::count`], as JSON.
    pub fn counted(&self) -> Option<String> {
        let counters = self.hip.zynferEmulatorCounters?;
        // SAFETY: takes nothing; the signature is the row's in `ffi`.
        let pointer = unsafe { counters() };
        // SAFETY: a string that stays until this thread asks again, which it does not do during this call.
        unsafe { text(pointer) }
    }

    /// Wave-instructions that this process has had the emulator execute; `None` on a card.
    pub fn emulator_instructions(&self) -> Option<u64> {
        let instructions = self.hip.zynferEmulatorInstructions?;
        // SAFETY: takes nothing; the signature is the row's in `ffi`.
        Some(unsafe { instructions() })
    }

    pub(super) fn check(&self, call: &'static str, status: c_int) -> Result<(), HipError> {
        self.hip.check(call, status)
    }
}

/// Why the loader refused, without the path that the caller prints anyway.
fn loader_reason(path: &Path, error: &libloading::Error) -> String {
    use std::error::Error;
    let text = error.source().map_or_else(|| error.to_string(), ToString::to_string);
    let prefix = format!("{}: ", path.display());
    text.strip_prefix(&prefix).map_or(text.clone(), str::to_owned)
}
