//! What is loaded in place of the host's code object: the PTX beside this library, once its kernels are known to be the host's, with
//! the same arguments at the same places.

use std::ffi::OsString;
use std::path::PathBuf;

use emulator::CodeObject;

use crate::ptx::{Entry, entries};

/// Names the PTX file; without it, it is `zynfer.ptx` in this library's folder.
pub const PTX_VARIABLE: &str = "ZYNFER_SILICON_PTX";
/// Names a cubin assembled from that PTX, to be loaded in its place.
pub const CUBIN_VARIABLE: &str = "ZYNFER_SILICON_CUBIN";
const PTX_NAME: &str = "zynfer.ptx";
const LIBRARY_NAME: &str = "libzynfer_hip_over_cuda.so";

/// The image to load, and the kernels it has.
pub struct Image {
    /// PTX with its terminating NUL, or a cubin.
    pub bytes: Vec<u8>,
    /// The PTX's kernels.
    pub entries: Vec<Entry>,
}

/// Reads the PTX and compares it with `object`, the host's code object.
///
/// # Errors
/// A file that cannot be read, or the first kernel that differs.
pub fn find(object: &[u8]) -> Result<Image, String> {
    let variable = |name| std::env::var_os(name).filter(|value: &OsString| !value.is_empty()).map(PathBuf::from);
    let path = match variable(PTX_VARIABLE) {
        Some(path) => path,
        None => own_folder().ok_or("this library's folder is not in /proc/self/maps")?.join(PTX_NAME),
    };
    let read = |path: &PathBuf| std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()));
    let mut bytes = read(&path)?;
    let text = std::str::from_utf8(&bytes).map_err(|error| format!("{}: {error}", path.display()))?;
    let object = CodeObject::parse(object).map_err(|error| error.to_string())?;
    let entries = entries(text)?;
    compare(&object, &entries).map_err(|error| format!("{}: {error}", path.display()))?;
    bytes.push(0);
    if let Some(cubin) = variable(CUBIN_VARIABLE) {
        bytes = read(&cubin)?;
    }
    Ok(Image { bytes, entries })
}

/// Whether `entries` has every kernel of `object`, with each argument where `object` has it.
///
/// # Errors
/// The first difference, naming the kernel and both sides.
pub fn compare(object: &CodeObject, entries: &[Entry]) -> Result<(), String> {
    for kernel in object.kernels() {
        let name = &kernel.name;
        let Some(entry) = entries.iter().find(|entry| entry.name == *name) else {
            return Err(format!("kernel `{name}` of the code object is not there"));
        };
        let wanted: Vec<(u32, u32)> = kernel.args.iter().map(|arg| (arg.offset, arg.size)).collect();
        let found = entry.layout();
        if found != wanted {
            return Err(format!(
                "kernel `{name}` has arguments (offset, bytes) {found:?}, the code object has {wanted:?}"
            ));
        }
    }
    Ok(())
}

/// The folder this library was loaded from, by the process's map of files.
fn own_folder() -> Option<PathBuf> {
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    let paths = maps.lines().filter_map(|line| line.find('/').map(|at| PathBuf::from(&line[at..])));
    paths
        .filter(|path| path.file_name().is_some_and(|name| name == LIBRARY_NAME))
        .find_map(|mut path| path.pop().then_some(path))
}

/// Bytes of a whole ELF image, by its header: the end of its last table.
pub fn elf_bytes(header: &[u8; 64]) -> Option<usize> {
    let word =
        |at: usize, bytes: usize| header[at..at + bytes].iter().rev().fold(0usize, |v, b| v << 8 | usize::from(*b));
    let table = |start: usize, size: usize, count: usize| start.checked_add(size.checked_mul(count)?);
    let magic = header.starts_with(&[0x7f, b'E', b'L', b'F', 2, 1]);
    let programs = table(word(32, 8), word(54, 2), word(56, 2))?;
    let sections = table(word(40, 8), word(58, 2), word(60, 2))?;
    magic.then_some(programs.max(sections).max(header.len()))
}
