//! ELF code objects for gfx1201: segments, symbols, relocations, kernel descriptors and the AMDGPU metadata note, checked once, here.
//! Whatever the bytes are, the answer is a [`CodeObject`] that the loader can trust or an error that names what is wrong and both
//! numbers. It does not load anything (`launch` does) and does not look at instructions.

mod metadata;

use crate::lines::Lines;
use object::LittleEndian as Le;
use object::elf::{self, FileHeader64};
use object::read::elf::{FileHeader as _, ProgramHeader as _, Rela as _, SectionHeader as _, Sym as _};
use std::collections::HashMap;
use std::ops::Range;

/// Most bytes that the segments may span once loaded.
pub const MAX_IMAGE_BYTES: u64 = 1 << 30;
/// Most loadable segments; linkers make four.
const MAX_SEGMENTS: usize = 64;
/// Most relocations. Sections may name the same bytes any number of times, so the file's size is no bound.
const MAX_RELOCATIONS: usize = 1 << 20;
/// Most bytes of all symbol names together, which may share their characters as well.
const MAX_NAME_BYTES: usize = 64 << 20;
/// Bytes of a kernel descriptor.
const DESCRIPTOR_BYTES: usize = 64;

/// Why bytes are not a code object that can run here.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CodeObjectError {
    /// The bytes are no ELF file, or a table of it lies outside the file.
    #[error("not a readable ELF file: {0}")]
    Elf(String),
    /// An ELF file, for something else.
    #[error("{field} is {found}, {expected} is needed")]
    Header {
        /// Which header field.
        field: &'static str,
        /// In the file.
        found: String,
        /// Needed.
        expected: &'static str,
    },
    /// A loadable segment that does not fit.
    #[error("segment {index}: {reason}")]
    Segment {
        /// Position among the loadable segments.
        index: usize,
        /// What is wrong.
        reason: String,
    },
    /// A relocation that cannot be applied.
    #[error("relocation at {offset:#x}: {reason}")]
    Relocation {
        /// Address it would change.
        offset: u64,
        /// What is wrong.
        reason: String,
    },
    /// The metadata note is missing or says something impossible.
    #[error("metadata: {0}")]
    Metadata(String),
    /// A kernel whose descriptor is missing, out of range or asks for what is not executed here.
    #[error("kernel {kernel}: {reason}")]
    Kernel {
        /// Its name.
        kernel: String,
        /// What is wrong.
        reason: String,
    },
}

/// One argument of a kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Arg {
    /// Name in the source, where the metadata gives one.
    pub name: Option<String>,
    /// Byte offset in the kernarg segment.
    pub offset: u32,
    /// Bytes.
    pub size: u32,
    /// `by_value`, `global_buffer`, `hidden_…`.
    pub value_kind: String,
    /// `global`, `generic`, …, for pointers.
    pub address_space: Option<String>,
}

impl Arg {
    /// Whether the launcher fills it in, not the caller.
    pub fn is_hidden(&self) -> bool {
        self.value_kind.starts_with("hidden_")
    }
}

/// The 64 bytes that tell the hardware how to start a kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Descriptor {
    /// Address of the descriptor relative to the loaded image.
    pub address: u64,
    /// Fixed LDS bytes per workgroup.
    pub group_segment_fixed_size: u32,
    /// Fixed scratch bytes per work-item.
    pub private_segment_fixed_size: u32,
    /// Bytes of kernel arguments.
    pub kernarg_size: u32,
    /// COMPUTE_PGM_RSRC1.
    pub rsrc1: u32,
    /// COMPUTE_PGM_RSRC2.
    pub rsrc2: u32,
    /// COMPUTE_PGM_RSRC3.
    pub rsrc3: u32,
    /// Which user SGPRs exist, and wave32.
    pub properties: u16,
}

impl Descriptor {
    /// VGPRs allocated to a wave.
    pub fn vgprs(&self) -> u32 {
        ((self.rsrc1 & 63) + 1) * 8
    }
    /// Initial MODE: rounding `[3:0]`, denormals `[7:4]`, FP16_OVFL 23.
    pub fn mode(&self) -> u32 {
        self.rsrc1 >> 12 & 0xff | (self.rsrc1 >> 26 & 1) << 23
    }
    /// Whether a workgroup's waves may be on both compute units of a WGP, which then order memory by waits only.
    pub fn wgp_mode(&self) -> bool {
        self.rsrc1 >> 29 & 1 != 0
    }
    /// Number of work-item ids in v0, less one.
    pub fn workitem_dims(&self) -> u32 {
        self.rsrc2 >> 11 & 3
    }
}

/// One kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kernel {
    /// Its name, which `hipModuleGetFunction` takes.
    pub name: String,
    /// Symbol of its descriptor, `NAME.kd`.
    pub symbol: String,
    /// Address of its first instruction relative to the loaded image.
    pub entry: u64,
    /// Bytes of its code where its symbol says so, else 0.
    pub code_bytes: u64,
    /// The descriptor.
    pub descriptor: Descriptor,
    /// Arguments in order of offset.
    pub args: Vec<Arg>,
    /// Bytes of kernel arguments, hidden ones included.
    pub kernarg_segment_size: u32,
    /// Alignment of the kernel arguments.
    pub kernarg_segment_align: u32,
    /// Fixed LDS bytes per workgroup.
    pub group_segment_fixed_size: u32,
    /// Fixed scratch bytes per work-item.
    pub private_segment_fixed_size: u32,
    /// Most work-items of a workgroup.
    pub max_flat_workgroup_size: u32,
    /// Lanes of a wave; 32, others are refused.
    pub wavefront_size: u32,
    /// SGPRs used.
    pub sgpr_count: u32,
    /// VGPRs used.
    pub vgpr_count: u32,
    /// SGPRs spilled.
    pub sgpr_spill_count: u32,
    /// VGPRs spilled.
    pub vgpr_spill_count: u32,
    /// Whether calls may need more scratch than the fixed size.
    pub uses_dynamic_stack: bool,
}

impl Kernel {
    /// Bytes that the caller has to give: the end of the last argument that is not hidden.
    pub fn explicit_bytes(&self) -> u32 {
        self.args.iter().filter(|a| !a.is_hidden()).map(|a| a.offset + a.size).max().unwrap_or(0)
    }
}

/// An exported variable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Global {
    /// Symbol name.
    pub name: String,
    /// Address relative to the loaded image.
    pub address: u64,
    /// Bytes.
    pub size: u64,
}

/// A function symbol: where a kernel or a callee starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Function {
    /// Symbol name.
    pub name: String,
    /// Address relative to the loaded image.
    pub address: u64,
    /// Bytes, 0 if unknown.
    pub size: u64,
}

/// A part of the image that the file fills in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segment {
    /// Address relative to the loaded image.
    pub address: u64,
    /// Contents; the rest of `memory_bytes` is zero.
    pub bytes: Vec<u8>,
    /// Bytes in memory.
    pub memory_bytes: u64,
    /// Whether it holds code.
    pub executable: bool,
}

/// What a relocation stores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RelocationKind {
    /// The 64-bit address `target`.
    Abs64,
    /// The low half of the address `target`.
    Low32,
    /// The high half of the address `target`.
    High32,
    /// The address `target`, which must fit 32 bits.
    Abs32,
    /// `target` minus the place, 32 bits.
    Rel32,
}

/// A place in the image that holds an address. Targets are relative to the loaded image; the loader adds its base.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Relocation {
    /// The place.
    pub offset: u64,
    /// What to store.
    pub kind: RelocationKind,
    /// Address the place refers to.
    pub target: u64,
}

/// A checked code object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CodeObject {
    target: String,
    segments: Vec<Segment>,
    relocations: Vec<Relocation>,
    kernels: Vec<Kernel>,
    globals: Vec<Global>,
    functions: Vec<Function>,
    code: Range<u64>,
    image_bytes: u64,
    lines: Lines,
}

impl CodeObject {
    /// Checks and reads a code object.
    pub fn parse(bytes: &[u8]) -> Result<CodeObject, CodeObjectError> {
        // The ELF structures want 8-byte alignment, which a slice does not promise.
        let mut aligned = vec![0u64; bytes.len().div_ceil(8)];
        let data = &mut bytemuck::cast_slice_mut::<u64, u8>(&mut aligned)[..bytes.len()];
        data.copy_from_slice(bytes);
        parse(data)
    }
    /// `amdgcn-amd-amdhsa--gfx1201`.
    pub fn target(&self) -> &str {
        &self.target
    }
    /// Its kernels, in the order of the metadata.
    pub fn kernels(&self) -> &[Kernel] {
        &self.kernels
    }
    /// The kernel called `name`.
    pub fn kernel(&self, name: &str) -> Option<&Kernel> {
        self.kernels.iter().find(|k| k.name == name)
    }
    /// Exported variables.
    pub fn globals(&self) -> &[Global] {
        &self.globals
    }
    /// The exported variable called `name`.
    pub fn global(&self, name: &str) -> Option<&Global> {
        self.globals.iter().find(|g| g.name == name)
    }
    /// Function symbols by address.
    pub fn functions(&self) -> &[Function] {
        &self.functions
    }
    /// Loadable segments by address.
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }
    /// What to patch after loading.
    pub fn relocations(&self) -> &[Relocation] {
        &self.relocations
    }
    /// Addresses of the code, relative to the loaded image.
    pub fn code_range(&self) -> Range<u64> {
        self.code.clone()
    }
    /// The code before relocation, for the disassembler; its first byte is at `code_range().start`.
    pub fn code_bytes(&self) -> &[u8] {
        self.segments.iter().find(|s| s.executable).map_or(&[], |s| &s.bytes)
    }
    /// Its line tables, empty where it was built without.
    pub fn lines(&self) -> &Lines {
        &self.lines
    }
    /// Bytes that the image needs in memory.
    pub fn image_bytes(&self) -> u64 {
        self.image_bytes
    }
    /// The function that holds `address`, and the distance from its start.
    pub fn function_at(&self, address: u64) -> Option<(&Function, u64)> {
        let index = self.functions.partition_point(|f| f.address <= address).checked_sub(1)?;
        let function = &self.functions[index];
        (address < function.address + function.size.max(1)).then(|| (function, address - function.address))
    }
}

fn elf_error(what: &str) -> impl Fn(object::read::Error) -> CodeObjectError + '_ {
    move |error| CodeObjectError::Elf(format!("{what}: {error}"))
}

fn parse(data: &[u8]) -> Result<CodeObject, CodeObjectError> {
    let header = check_header(data)?;
    let segments = read_segments(header, data)?;
    let image_bytes = segments.last().map_or(0, |s| s.address + s.memory_bytes);
    let code = code_range(&segments)?;
    let symbols = read_symbols(header, data, image_bytes)?;
    let relocations = read_relocations(header, data, &segments, &symbols)?;
    let note = find_note(header, data)?;
    let (target, kernels) = metadata::read(note)?;
    let kernels = attach_descriptors(kernels, &symbols, &segments, &code)?;
    let mut globals = Vec::new();
    let mut functions = Vec::new();
    for symbol in symbols.into_iter().flatten().filter(|s| s.defined) {
        match symbol.kind {
            elf::STT_FUNC => {
                functions.push(Function { name: symbol.name, address: symbol.address, size: symbol.size });
            }
            elf::STT_OBJECT if !symbol.name.ends_with(".kd") && symbol.size > 0 => {
                globals.push(Global { name: symbol.name, address: symbol.address, size: symbol.size });
            }
            _ => {}
        }
    }
    functions.sort_by_key(|f| f.address);
    let lines = read_lines(header, data);
    Ok(CodeObject { target, segments, relocations, kernels, globals, functions, code, image_bytes, lines })
}

fn check_header(data: &[u8]) -> Result<&FileHeader64<Le>, CodeObjectError> {
    let header = FileHeader64::<Le>::parse(data).map_err(elf_error("header"))?;
    let ident = header.e_ident();
    let need = |field, found: String, expected, ok: bool| {
        if ok { Ok(()) } else { Err(CodeObjectError::Header { field, found, expected }) }
    };
    let machine = header.e_machine(Le).0;
    need("machine", machine.to_string(), "224 (AMDGPU)", machine == 224)?;
    need("object type", header.e_type(Le).0.to_string(), "3 (shared object)", header.e_type(Le) == elf::ET_DYN)?;
    need("OS ABI", ident.os_abi.0.to_string(), "64 (HSA)", ident.os_abi.0 == 64)?;
    need("ABI version", ident.abi_version.to_string(), "4 (code object v6)", ident.abi_version == 4)?;
    let flags = header.e_flags(Le).0;
    need("target", target_name(flags), "gfx1201", flags & 0xff == 0x4e)?;
    Ok(header)
}

/// The processor in `e_flags`, by name where it is one that people may try.
fn target_name(flags: u32) -> String {
    let name = match flags & 0xff {
        0x36 => "gfx1030",
        0x41 => "gfx1100",
        0x46 => "gfx1101",
        0x47 => "gfx1102",
        0x44 => "gfx1103",
        0x43 => "gfx1150",
        0x4a => "gfx1151",
        0x48 => "gfx1200",
        0x49 => "gfx1250",
        0x4c => "gfx942",
        0x4f => "gfx950",
        0x59 => "gfx12-generic",
        other => return format!("processor {other:#x}"),
    };
    name.into()
}

/// The sections with line tables. What cannot be read of them is left out: a report then has no source lines.
fn read_lines(header: &FileHeader64<Le>, data: &[u8]) -> Lines {
    let Ok(sections) = header.sections(Le, data) else { return Lines::default() };
    let named = sections.iter().filter_map(|section| {
        let name = std::str::from_utf8(sections.section_name(Le, section).ok()?).ok()?;
        let bytes = section.data(Le, data).ok()?;
        Lines::wants(name).then(|| (name.to_string(), bytes.to_vec()))
    });
    Lines::new(named.collect())
}

fn read_segments(header: &FileHeader64<Le>, data: &[u8]) -> Result<Vec<Segment>, CodeObjectError> {
    let headers = header.program_headers(Le, data).map_err(elf_error("program headers"))?;
    let mut segments: Vec<Segment> = Vec::new();
    let mut copied = 0;
    let loads = headers.iter().filter(|p| p.p_type(Le) == elf::PT_LOAD && p.p_memsz(Le) > 0);
    for (index, p) in loads.enumerate() {
        let fail = |reason: String| CodeObjectError::Segment { index, reason };
        let (address, memory_bytes, file_bytes) = (p.p_vaddr(Le), p.p_memsz(Le), p.p_filesz(Le));
        if index == MAX_SEGMENTS {
            return Err(fail(format!("there are more than the {MAX_SEGMENTS} that are read")));
        }
        if file_bytes > memory_bytes {
            return Err(fail(format!("{file_bytes} bytes in the file, {memory_bytes} in memory")));
        }
        let end = address.checked_add(memory_bytes).filter(|&end| end <= MAX_IMAGE_BYTES);
        if end.is_none() {
            return Err(fail(format!(
                "{memory_bytes} bytes at {address:#x} pass the limit of {MAX_IMAGE_BYTES} bytes"
            )));
        }
        if let Some(last) = segments.last()
            && address < last.address + last.memory_bytes
        {
            return Err(fail(format!(
                "starts at {address:#x}, the one before ends at {:#x}",
                last.address + last.memory_bytes
            )));
        }
        let bytes = p.data(Le, data).map_err(|()| {
            fail(format!(
                "{file_bytes} bytes at file offset {} are outside the file of {} bytes",
                p.p_offset(Le),
                data.len()
            ))
        })?;
        copied += bytes.len();
        if copied > data.len() {
            return Err(fail(format!("the segments hold {copied} bytes so far, the file has {}", data.len())));
        }
        let executable = p.p_flags(Le).contains(elf::PF_X);
        segments.push(Segment { address, bytes: bytes.to_vec(), memory_bytes, executable });
    }
    Ok(segments)
}

fn code_range(segments: &[Segment]) -> Result<Range<u64>, CodeObjectError> {
    let mut executable = segments.iter().enumerate().filter(|(_, s)| s.executable);
    let (index, code) = executable.next().ok_or_else(|| CodeObjectError::Elf("no executable segment".into()))?;
    if let Some((second, _)) = executable.next() {
        return Err(CodeObjectError::Segment {
            index: second,
            reason: format!("executable, as is segment {index}; one is needed"),
        });
    }
    if code.address % 4 != 0 {
        return Err(CodeObjectError::Segment {
            index,
            reason: format!("code at {:#x} is not a multiple of 4", code.address),
        });
    }
    Ok(code.address..code.address + code.bytes.len() as u64)
}

struct Symbol {
    name: String,
    address: u64,
    size: u64,
    kind: elf::SymbolType,
    defined: bool,
}

/// Dynamic symbols by index; `None` for those without a name, sections and the like.
fn read_symbols(
    header: &FileHeader64<Le>,
    data: &[u8],
    image_bytes: u64,
) -> Result<Vec<Option<Symbol>>, CodeObjectError> {
    let sections = header.sections(Le, data).map_err(elf_error("section headers"))?;
    let table = sections.symbols(Le, data, elf::SHT_DYNSYM).map_err(elf_error("dynamic symbols"))?;
    let mut symbols = Vec::new();
    let mut name_bytes = 0;
    for symbol in table.iter() {
        let name = symbol.name(Le, table.strings()).map_err(elf_error("symbol name"))?;
        name_bytes += name.len();
        if name_bytes > MAX_NAME_BYTES {
            return Err(CodeObjectError::Elf(format!("symbol names have more than {MAX_NAME_BYTES} bytes")));
        }
        let name = std::str::from_utf8(name)
            .map_err(|_| CodeObjectError::Elf(format!("symbol {} has a name that is not UTF-8", symbols.len())))?;
        if name.is_empty() {
            symbols.push(None);
            continue;
        }
        let (address, size) = (symbol.st_value(Le), symbol.st_size(Le));
        let defined = symbol.st_shndx(Le).0 != 0;
        if defined && address.checked_add(size).is_none_or(|end| end > image_bytes) {
            return Err(CodeObjectError::Elf(format!(
                "symbol {name}: {size} bytes at {address:#x} are outside the image of {image_bytes} bytes"
            )));
        }
        symbols.push(Some(Symbol { name: name.into(), address, size, kind: symbol.st_type(), defined }));
    }
    Ok(symbols)
}

fn read_relocations(
    header: &FileHeader64<Le>,
    data: &[u8],
    segments: &[Segment],
    symbols: &[Option<Symbol>],
) -> Result<Vec<Relocation>, CodeObjectError> {
    let sections = header.sections(Le, data).map_err(elf_error("section headers"))?;
    let mut relocations = Vec::new();
    for section in sections.iter() {
        if section.rel(Le, data).map_err(elf_error("relocations"))?.is_some_and(|(rels, _)| !rels.is_empty()) {
            return Err(CodeObjectError::Elf("relocations without addends (REL) are not used by this target".into()));
        }
        let Some((entries, _)) = section.rela(Le, data).map_err(elf_error("relocations"))? else { continue };
        if relocations.len() + entries.len() > MAX_RELOCATIONS {
            let count = relocations.len() + entries.len();
            return Err(CodeObjectError::Elf(format!(
                "{count} relocations or more, at most {MAX_RELOCATIONS} are read"
            )));
        }
        for entry in entries {
            relocations.push(read_relocation(entry, segments, symbols)?);
        }
    }
    Ok(relocations)
}

fn read_relocation(
    entry: &elf::Rela64<Le>,
    segments: &[Segment],
    symbols: &[Option<Symbol>],
) -> Result<Relocation, CodeObjectError> {
    let offset = entry.r_offset(Le);
    let fail = |reason: String| CodeObjectError::Relocation { offset, reason };
    let addend = entry.r_addend(Le);
    let (kind, bytes, symbolic) = match entry.r_type(Le, false).0 {
        13 => (RelocationKind::Abs64, 8, false),
        3 => (RelocationKind::Abs64, 8, true),
        1 => (RelocationKind::Low32, 4, true),
        2 => (RelocationKind::High32, 4, true),
        4 => (RelocationKind::Rel32, 4, true),
        6 => (RelocationKind::Abs32, 4, true),
        other => return Err(fail(format!("type {other} is not known"))),
    };
    let inside = |s: &Segment| offset >= s.address && offset - s.address + bytes <= s.memory_bytes;
    if !offset.is_multiple_of(4) || !offset.checked_add(bytes).is_some_and(|_| segments.iter().any(inside)) {
        return Err(fail(format!("its {bytes} bytes are not inside a segment or not aligned")));
    }
    let target = if symbolic {
        let index = entry.r_sym(Le, false) as usize;
        match symbols.get(index).and_then(Option::as_ref) {
            Some(symbol) if symbol.defined => symbol.address.wrapping_add_signed(addend),
            Some(symbol) => return Err(fail(format!("symbol {} is not defined", symbol.name))),
            None => return Err(fail(format!("symbol {index} does not exist, there are {}", symbols.len()))),
        }
    } else {
        addend as u64
    };
    Ok(Relocation { offset, kind, target })
}

fn find_note<'a>(header: &FileHeader64<Le>, data: &'a [u8]) -> Result<&'a [u8], CodeObjectError> {
    let headers = header.program_headers(Le, data).map_err(elf_error("program headers"))?;
    for p in headers {
        let Some(mut notes) = p.notes(Le, data).map_err(elf_error("notes"))? else { continue };
        while let Some(note) = notes.next().map_err(elf_error("note"))? {
            if note.name() == b"AMDGPU" && note.n_type(Le).0 == 32 {
                return Ok(note.desc());
            }
        }
    }
    Err(CodeObjectError::Metadata("there is no AMDGPU note".into()))
}

/// Completes the kernels of the metadata by their descriptors.
fn attach_descriptors(
    kernels: Vec<Kernel>,
    symbols: &[Option<Symbol>],
    segments: &[Segment],
    code: &Range<u64>,
) -> Result<Vec<Kernel>, CodeObjectError> {
    let mut by_name: HashMap<&str, &Symbol> = HashMap::new();
    for symbol in symbols.iter().flatten().filter(|s| s.defined) {
        by_name.entry(&symbol.name).or_insert(symbol);
    }
    kernels.into_iter().map(|kernel| attach_descriptor(kernel, &by_name, segments, code)).collect()
}

fn attach_descriptor(
    mut kernel: Kernel,
    symbols: &HashMap<&str, &Symbol>,
    segments: &[Segment],
    code: &Range<u64>,
) -> Result<Kernel, CodeObjectError> {
    let name = kernel.name.clone();
    let fail = |reason: String| CodeObjectError::Kernel { kernel: name.clone(), reason };
    let symbol = symbols
        .get(kernel.symbol.as_str())
        .ok_or_else(|| fail(format!("its descriptor {} is not among the symbols", kernel.symbol)))?;
    let at = symbol.address;
    let bytes = segments
        .iter()
        .find_map(|s| {
            let start = usize::try_from(at.checked_sub(s.address)?).ok()?;
            s.bytes.get(start..start.checked_add(DESCRIPTOR_BYTES)?)
        })
        .ok_or_else(|| fail(format!("its descriptor at {at:#x} is outside the file's segments")))?;
    let u16_at = |o: usize| u16::from_le_bytes([bytes[o], bytes[o + 1]]);
    let u32_at = |o: usize| u32::from(u16_at(o)) | u32::from(u16_at(o + 2)) << 16;
    let entry_offset = (u64::from(u32_at(16)) | u64::from(u32_at(20)) << 32) as i64;
    let descriptor = Descriptor {
        address: at,
        group_segment_fixed_size: u32_at(0),
        private_segment_fixed_size: u32_at(4),
        kernarg_size: u32_at(8),
        rsrc3: u32_at(44),
        rsrc1: u32_at(48),
        rsrc2: u32_at(52),
        properties: u16_at(56),
    };
    let entry = at.wrapping_add_signed(entry_offset);
    if !entry.is_multiple_of(4) || !code.contains(&entry) {
        return Err(fail(format!("its entry {entry:#x} is not in the code {:#x}..{:#x}", code.start, code.end)));
    }
    check_descriptor(&kernel, &descriptor, u16_at(58)).map_err(fail)?;
    kernel.entry = entry;
    kernel.code_bytes = symbols.get(kernel.name.as_str()).filter(|s| s.address == entry).map_or(0, |s| s.size);
    kernel.descriptor = descriptor;
    Ok(kernel)
}

/// What the descriptor asks for against the metadata and against what exists here.
fn check_descriptor(kernel: &Kernel, descriptor: &Descriptor, preload: u16) -> Result<(), String> {
    let pairs = [
        ("fixed LDS bytes", descriptor.group_segment_fixed_size, kernel.group_segment_fixed_size),
        ("fixed scratch bytes", descriptor.private_segment_fixed_size, kernel.private_segment_fixed_size),
        ("kernarg bytes", descriptor.kernarg_size, kernel.kernarg_segment_size),
    ];
    for (what, ours, metadata) in pairs {
        if ours != metadata {
            return Err(format!("{what}: {ours} in the descriptor, {metadata} in the metadata"));
        }
    }
    if descriptor.group_segment_fixed_size > 65_536 {
        return Err(format!("{} bytes of fixed LDS, at most 65536 exist", descriptor.group_segment_fixed_size));
    }
    if descriptor.private_segment_fixed_size > 1 << 20 {
        return Err(format!(
            "{} bytes of fixed scratch, at most 1048576 are given",
            descriptor.private_segment_fixed_size
        ));
    }
    if descriptor.vgprs() > 256 {
        return Err(format!("{} VGPRs, at most 256 exist", descriptor.vgprs()));
    }
    if preload != 0 {
        return Err(format!("kernarg preload {preload:#x} does not exist on gfx1201"));
    }
    if descriptor.rsrc2 & 1 << 6 != 0 {
        return Err("dynamic VGPRs are not executed here".into());
    }
    if descriptor.properties & 1 << 10 == 0 {
        return Err("wave64, only wave32 is executed here".into());
    }
    // Known: dispatch packet, queue, kernarg, dispatch id, private size, wave32, dynamic stack.
    let unknown = descriptor.properties & !0b1100_0101_1110;
    if unknown != 0 {
        return Err(format!("descriptor properties {unknown:#x} do not exist on gfx1201"));
    }
    Ok(())
}
