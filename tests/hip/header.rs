//! AMD's header as text: prototypes, enumerations, fields. Every exported function is compared with its prototype parameter by parameter;
//! what is printed by a C program generated from the header is compared with what the library answers, so that no number is typed twice.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use amdhip64_emulator::abi::SIGNATURES;
use amdhip64_emulator::properties::{FIELDS, R0000_BYTES, R0600_BYTES};

use crate::abi::{compile, run_program};

/// The headers without comments and macros that say nothing of types: AMD's of 5.2, and ours of what 6.4 adds.
static HEADERS: LazyLock<[String; 4]> = LazyLock::new(|| {
    let ours = Path::new(env!("CARGO_MANIFEST_DIR")).join("hip/hip64.h");
    let amd = Path::new("/usr/include/hip");
    let per_thread = amd.join("amd_detail/amd_hip_runtime_pt_api.h");
    [amd.join("hip_runtime_api.h"), amd.join("hip_ext.h"), ours, per_thread].map(|path| {
        let text = std::fs::read_to_string(&path)
            .unwrap_or_else(|error| panic!("{}: {error} (Debian's libamdhip64-dev has it)", path.display()));
        plain(&text)
    })
});

/// Without comments, and without the calls of macros named here.
fn plain(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    loop {
        let next = ["/*", "//"].iter().filter_map(|start| Some((rest.find(start)?, *start))).min();
        let Some((at, start)) = next else { break };
        out.push_str(&rest[..at]);
        let end = if start == "/*" { rest[at..].find("*/").map(|end| end + 2) } else { rest[at..].find('\n') };
        rest = end.map_or("", |end| &rest[at + end..]);
        out.push(' ');
    }
    out.push_str(rest);
    for name in ["__dparm", "DEPRECATED", "__attribute__"] {
        while let Some(at) = out.find(&format!("{name}(")).or_else(|| out.find(&format!("{name} ("))) {
            let open = at + out[at..].find('(').expect("found with it");
            out.replace_range(at..=closing(&out, open), " ");
        }
    }
    out
}

/// Where the parenthesis that opens at `open` closes.
fn closing(text: &str, open: usize) -> usize {
    let mut depth = 0;
    for (at, byte) in text.bytes().enumerate().skip(open) {
        match byte {
            b'(' => depth += 1,
            b')' if depth == 1 => return at,
            b')' => depth -= 1,
            _ => {}
        }
    }
    text.len() - 1
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// Every prototype of a function that returns `hipError_t`, a string, a handle, an `int`, a count or nothing: name to parameters, result first.
fn prototypes(text: &str) -> BTreeMap<String, Vec<String>> {
    let mut found = BTreeMap::new();
    for result in ["hipError_t", "const char*", "const char *", "int", "uint64_t", "void", "hipFatBinaryHandle_t"] {
        let mut from = 0;
        while let Some(at) = text[from..].find(result).map(|at| at + from) {
            from = at + result.len();
            let before = text[..at].trim_end();
            let statement = before.is_empty()
                || before.ends_with([';', '}', '{', '\n', '"', '>'])
                || text[..at].ends_with(['\n', ' ']);
            let rest = text[from..].trim_start();
            let name: String = rest.chars().take_while(|&c| is_word(c)).collect();
            let after = rest[name.len()..].trim_start();
            let known = ["hip", "__hip", "zynfer"].iter().any(|start| name.starts_with(start));
            if !statement || !known || !after.starts_with('(') {
                continue;
            }
            let end = closing(after, 0);
            if !after[end + 1..].trim_start().starts_with(';') {
                continue;
            }
            let parameters = after[1..end].split(',').map(|p| p.split('=').next().unwrap_or(p).trim().to_owned());
            let parameters = parameters.filter(|p| !p.is_empty() && p != "void");
            let mut all = vec![result.to_owned()];
            all.extend(parameters);
            found.entry(name).or_insert(all);
        }
    }
    found
}

/// Types that are pointers to a struct nobody sees, and functions.
fn handles() -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for text in HEADERS.iter() {
        for part in text.split(';').filter(|part| part.contains("typedef struct") && part.contains('*')) {
            let Some(start) = part.rfind("typedef") else { continue };
            let name = part.trim_end().rsplit(|c: char| !is_word(c)).next().unwrap_or("");
            if !part[start..].contains('{') && name.ends_with("_t") {
                found.insert(name.to_owned());
            }
        }
    }
    found
}

/// How C passes a parameter, in a word.
fn c_class(parameter: &str, handles: &BTreeSet<String>) -> String {
    if parameter.contains('*') {
        return "pointer".into();
    }
    let skipped = ["const", "struct", "enum"];
    let words: Vec<&str> = parameter.split_whitespace().filter(|word| !skipped.contains(word)).collect();
    let unsigned = words.first() == Some(&"unsigned");
    match words.as_slice() {
        ["unsigned", "long", "long", ..] => "u64".into(),
        ["unsigned", "char", ..] => "u8".into(),
        ["unsigned", "short", ..] => "u16".into(),
        _ if unsigned => "uint".into(),
        [name, ..] if handles.contains(*name) => "handle".into(),
        ["hipDeviceptr_t" | "hipHostFn_t" | "hipStreamCallback_t", ..] => "pointer".into(),
        ["size_t", ..] => "size".into(),
        ["uint32_t", ..] => "uint".into(),
        ["uint64_t", ..] => "u64".into(),
        ["float", ..] => "float".into(),
        ["dim3", ..] => "dim3".into(),
        ["hipPitchedPtr", ..] => "pitched".into(),
        ["hipExtent", ..] => "extent".into(),
        // What is left is an int, a device's number, or an enumeration.
        [name, ..] if *name == "int" || name.starts_with("hip") => "int".into(),
        _ => format!("? {parameter}"),
    }
}

/// The same of a parameter of ours.
fn rust_class(parameter: &str) -> String {
    let class = match parameter {
        "Handle" => "handle",
        "c_int" => "int",
        "c_uint" => "uint",
        "usize" => "size",
        "c_ulonglong" | "u64" => "u64",
        "c_uchar" => "u8",
        "c_ushort" => "u16",
        "f32" => "float",
        "Dim3" => "dim3",
        "PitchedPtr" => "pitched",
        "Extent" => "extent",
        "()" => "nothing",
        pointer if pointer.starts_with('*') || pointer.starts_with("Option") => "pointer",
        other => panic!("a type nobody compared yet: {other}"),
    };
    class.into()
}

#[test]
fn every_exported_function_has_the_header_s_parameters() {
    let handles = handles();
    assert!(handles.len() >= 10 && handles.contains("hipStream_t"), "{handles:?}");
    let known: BTreeMap<String, Vec<String>> = HEADERS.iter().rev().flat_map(|text| prototypes(text)).collect();
    assert!(known.len() > 300, "{} prototypes", known.len());
    let mut compared = 0;
    for ours in SIGNATURES.iter().copied().flatten() {
        let theirs = known.get(ours.name).unwrap_or_else(|| panic!("no header knows {}", ours.name));
        let (result, theirs) = theirs.split_first().expect("a result");
        let theirs: Vec<String> = theirs.iter().map(|parameter| c_class(parameter, &handles)).collect();
        let mine: Vec<String> = ours.parameters.iter().map(|parameter| rust_class(parameter)).collect();
        assert_eq!(mine, theirs, "{}", ours.name);
        let result = if result == "void" { "nothing".into() } else { c_class(result, &handles) };
        assert_eq!(rust_class(ours.result), result, "result of {}", ours.name);
        compared += 1;
    }
    assert!(compared > 250, "{compared}");
}

#[test]
fn the_list_of_signatures_is_what_the_library_exports() {
    let listed: BTreeSet<&str> = SIGNATURES.iter().copied().flatten().map(|signature| signature.name).collect();
    let data = std::fs::read(crate::abi::emulator()).expect("it was opened");
    let exported: BTreeSet<&str> = exported(&data).into_iter().filter(|name| !name.starts_with("rust_")).collect();
    assert_eq!(exported, listed);
}

/// Names of the functions that a shared library defines.
fn exported(data: &[u8]) -> BTreeSet<&str> {
    use object::{Object as _, ObjectSymbol as _};
    let file = object::File::parse(data).expect("a library");
    let functions = file.dynamic_symbols().filter(|symbol| symbol.is_definition() && symbol.is_global());
    functions.filter_map(|symbol| symbol.name().ok()).collect()
}

/// Parts of HIP that are not offered, by how the names of their functions start or what they hold; docs/EMULATOR.md lists the same.
const NOT_OFFERED: &[&str] = &[
    "Array",
    "Tex",
    "Surface",
    "Mipmap",
    "ChannelDesc",
    "GL",
    "Graphics",
    "External",
    "Ipc",
    "Export",
    "Import",
    "hipMemAddress",
    "hipMemCreate",
    "hipMemGetA",
    "hipMemMap",
    "hipMemRelease",
    "hipMemRetain",
    "hipMemSetAccess",
    "hipMemUnmap",
    "hipMemRange",
    "MultiDevice",
    "CUMask",
    "StreamWaitValue",
    "StreamWriteValue",
    "ApiCallback",
    "ActivityCallback",
    "hipConfigureCall",
    "hipSetupArgument",
    "hipLaunchByPtr",
    "PeerAccess",
    "LinkTypeAndHopCount",
    "KernelNodeSetAttribute",
    "KernelNodeGetAttribute",
    "hipDrvMemcpy3D",
    "hipMemcpyAtoH",
    "hipMemcpyHtoA",
    "hipApiName",
    "hipKernelNameRefByPtr",
    "hip_init",
    "__hipGetPCH",
];

#[test]
fn what_the_header_declares_is_offered_or_listed_as_not() {
    let ours: BTreeSet<&str> = SIGNATURES.iter().copied().flatten().map(|signature| signature.name).collect();
    let theirs = prototypes(&HEADERS[0]);
    let listed = |name: &str| NOT_OFFERED.iter().any(|part| name.contains(part));
    let missing: Vec<&String> = theirs.keys().filter(|name| !ours.contains(name.as_str()) && !listed(name)).collect();
    assert!(missing.is_empty(), "{missing:?}");
    let docs = include_str!("../../docs/EMULATOR.md");
    assert!(
        NOT_OFFERED.iter().filter(|part| part.starts_with("hip")).all(|part| docs.contains(part)),
        "docs/EMULATOR.md"
    );
}

/// The enumerators of an enumeration, in order.
fn enumerators(text: &str, name: &str) -> Vec<String> {
    let end = text.find(&format!("}} {name};")).unwrap_or_else(|| panic!("no {name}"));
    let start = text[..end].rfind('{').expect("it opens");
    let words = text[start + 1..end].split(',').map(|item| item.split('=').next().unwrap_or(item).trim().to_owned());
    words.filter(|word| !word.is_empty() && word.chars().all(is_word)).collect()
}

/// The names of a struct's fields.
fn fields(text: &str, name: &str) -> Vec<String> {
    let end = text.find(&format!("}} {name};")).unwrap_or_else(|| panic!("no {name}"));
    let start = text[..end].rfind('{').expect("it opens");
    let names = text[start + 1..end].split(';').map(|field| field.split('[').next().unwrap_or(field).trim());
    let names = names.map(|field| field.rsplit(|c: char| !is_word(c)).next().unwrap_or("").to_owned());
    names.filter(|name| !name.is_empty()).collect()
}

/// Compiles and runs a generated program with `body` in its `main`, and gives what it prints.
fn ask(body: &str) -> String {
    let folder = tempfile::tempdir().expect("temporary folder");
    let source = folder.path().join("ask.c");
    let include = concat!(env!("CARGO_MANIFEST_DIR"), "/hip/hip64.h");
    let head = format!("#include \"{include}\"\n#include <stddef.h>\n#include <stdio.h>\n");
    std::fs::write(&source, format!("{head}int main(void) {{\n{body}\nreturn 0;\n}}\n")).expect("written");
    let program: PathBuf = folder.path().join("ask");
    compile(&[source], &program);
    let output = run_program(&program, &[], &[]);
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).expect("text")
}

/// Lines of words.
fn table(text: &str) -> Vec<Vec<&str>> {
    text.lines().map(|line| line.split('|').collect()).collect()
}

#[test]
fn every_error_has_the_header_s_number_name_and_a_text() {
    let mut names = enumerators(&HEADERS[0], "hipError_t");
    assert_eq!(names.len(), 78, "a number of the header is not read");
    names.extend(["hip64ErrorInvalidChannelDescriptor".into(), "hip64ErrorInvalidTexture".into()]);
    let mut body = String::from("const char *name, *text;\n");
    for name in &names {
        let _ = writeln!(
            body,
            "name = text = \"\"; int n{name} = hipDrvGetErrorName({name}, &name), t{name} = hipDrvGetErrorString({name}, &text);\n\
             printf(\"{name}|%d|%s|%s|%d|%d|%s|%s\\n\", {name}, hipGetErrorName({name}), hipGetErrorString({name}), n{name}, t{name}, name, text);"
        );
    }
    let out = ask(&body);
    let rows = table(&out);
    assert_eq!(rows.len(), names.len());
    let number = |name: &str| rows.iter().find(|row| row[0].replace("hip64", "hip") == name).map(|row| row[1]);
    for row in &rows {
        let [header, value, name, text, named, meant, again, same] = row[..] else { panic!("{row:?}") };
        // A number may have two names, of which one is deprecated: the answer is one of them.
        assert_eq!(number(name), Some(value), "{header} is called {name}");
        assert_eq!((named, meant, again, same), ("0", "0", name, text), "{header}");
        let unknown = matches!(header, "hipErrorUnknown" | "hipErrorTbd");
        assert_eq!(text == "unknown error", unknown, "{header}: {text}");
    }
    let distinct: BTreeSet<&str> = rows.iter().map(|row| row[1]).collect();
    let answered: BTreeSet<&str> = rows.iter().map(|row| row[2]).collect();
    assert_eq!(distinct.len(), answered.len(), "each number has its own name");
}

/// Attributes that no `int` can hold or that HIP 6 took back; AMD's own library refuses them or writes beyond the `int`.
const REFUSED: [&str; 8] =
    ["Luid", "Name", "Uuid", "Arch", "GcnArch", "GcnArchName", "HdpMemFlushCntl", "HdpRegFlushCntl"];

/// Attributes and the field of the properties struct that says the same.
const SAME: [(&str, &str); 34] = [
    ("EccEnabled", "ECCEnabled"),
    ("CanMapHostMemory", "canMapHostMemory"),
    ("ClockRate", "clockRate"),
    ("ComputeMode", "computeMode"),
    ("ConcurrentKernels", "concurrentKernels"),
    ("ConcurrentManagedAccess", "concurrentManagedAccess"),
    ("CooperativeLaunch", "cooperativeLaunch"),
    ("CooperativeMultiDeviceLaunch", "cooperativeMultiDeviceLaunch"),
    ("DirectManagedMemAccessFromHost", "directManagedMemAccessFromHost"),
    ("Integrated", "integrated"),
    ("IsMultiGpuBoard", "isMultiGpuBoard"),
    ("KernelExecTimeout", "kernelExecTimeoutEnabled"),
    ("L2CacheSize", "l2CacheSize"),
    ("ComputeCapabilityMajor", "major"),
    ("ComputeCapabilityMinor", "minor"),
    ("ManagedMemory", "managedMemory"),
    ("MaxBlockDimX", "maxThreadsDim[0]"),
    ("MaxBlockDimZ", "maxThreadsDim[2]"),
    ("MaxGridDimX", "maxGridSize[0]"),
    ("MaxGridDimY", "maxGridSize[1]"),
    ("MaxThreadsPerBlock", "maxThreadsPerBlock"),
    ("MaxThreadsPerMultiProcessor", "maxThreadsPerMultiProcessor"),
    ("MaxPitch", "memPitch"),
    ("MemoryBusWidth", "memoryBusWidth"),
    ("MemoryClockRate", "memoryClockRate"),
    ("MultiprocessorCount", "multiProcessorCount"),
    ("PageableMemoryAccess", "pageableMemoryAccess"),
    ("MaxRegistersPerBlock", "regsPerBlock"),
    ("MaxSharedMemoryPerBlock", "sharedMemPerBlock"),
    ("TextureAlignment", "textureAlignment"),
    ("TotalConstantMemory", "totalConstMem"),
    ("WarpSize", "warpSize"),
    ("MaxSharedMemoryPerMultiprocessor", "maxSharedMemoryPerMultiProcessor"),
    ("AsicRevision", "asicRevision"),
];

#[test]
fn every_attribute_of_the_header_is_answered_and_agrees_with_both_structs() {
    let names = enumerators(&HEADERS[0], "hipDeviceAttribute_t");
    assert!(names.len() > 105, "{}", names.len());
    let mut body = String::from(
        "hipDeviceProp_t p; hipDeviceProp_tR0600 q; int v, s;\n\
         if (hipGetDeviceProperties(&p, 0) || hipGetDevicePropertiesR0600(&q, 0)) return 1;\n",
    );
    for name in &names {
        let _ = writeln!(body, "v = -7; s = hipDeviceGetAttribute(&v, {name}, 0); printf(\"{name}|%d|%d\\n\", s, v);");
    }
    for (attribute, field) in SAME {
        let _ = writeln!(
            body,
            "v = -7; s = hipDeviceGetAttribute(&v, hipDeviceAttribute{attribute}, 0);\n\
             printf(\"={attribute}|%d|%d|%lld|%lld\\n\", s, v, (long long)p.{field}, (long long)q.{field});"
        );
    }
    let out = ask(&body);
    let rows = table(&out);
    assert_eq!(rows.len(), names.len() + SAME.len());
    for row in &rows {
        let name = row[0].trim_start_matches("hipDeviceAttribute");
        if let Some(name) = name.strip_prefix('=') {
            assert_eq!((row[1], row[2], row[3]), ("0", row[3], row[4]), "{name}");
            continue;
        }
        // Marks are no attributes; two of them share the number of the first attribute behind them.
        let mark = name.ends_with("End") || name == "VendorSpecificBegin";
        let (status, value) = if mark || REFUSED.contains(&name) { ("1", "-7") } else { ("0", row[2]) };
        assert_eq!((row[1], row[2]), (status, value), "{name}");
        assert!(status == "1" || value != "-7", "{name} was not written");
    }
}

#[test]
fn every_field_of_both_properties_structs_stands_where_the_compiler_puts_it() {
    let layouts = [("hipDeviceProp_t", 0, R0000_BYTES), ("hipDeviceProp_tR0600", 2, R0600_BYTES)];
    for (name, header, bytes) in layouts {
        let mut theirs = fields(&HEADERS[header], name);
        theirs.retain(|field| !matches!(field.as_str(), "reserved" | "hipReserved"));
        assert!(theirs.len() > 50, "{}", theirs.len());
        let mut body = String::new();
        for field in &theirs {
            let _ = writeln!(body, "printf(\"{field}|%zu\\n\", offsetof({name}, {field}));");
        }
        let _ = writeln!(body, "printf(\"sizeof|%zu\\n\", sizeof({name}));");
        let out = ask(&body);
        let mut expected: BTreeMap<&str, usize> =
            table(&out).iter().map(|row| (row[0], row[1].parse().expect("a number"))).collect();
        assert_eq!(expected.remove("sizeof"), Some(bytes), "{name}");
        let offset = |field: &amdhip64_emulator::properties::Field| if header == 0 { field.r0000 } else { field.r0600 };
        let ours: BTreeMap<&str, usize> = FIELDS.iter().filter_map(|f| Some((f.name, offset(f)?))).collect();
        assert_eq!(ours, expected, "{name}");
    }
}
