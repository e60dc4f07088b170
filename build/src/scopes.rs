//! Scopes of atomics. Rust has one kind of atomic, and LLVM lowers it for the whole system: a release writes the GPU's L2 back to memory
//! and an acquire throws it away, as if the host took part. Our kernels never talk to the host while they run, so every atomic and
//! fence may be of agent scope, which is the GPU. rustc cannot say so; this step does, on the bitcode behind all optimisation, and
//! changes nothing else: `llvm-dis`, the scopes in the text, `llvm-as`, then the same code generator as before (rustc's own LLVM inside
//! its `rust-lld`), which verifies the module first. What is made without it is the plain code object.

use crate::{Outcome, process, root};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The scope atomics get, as LLVM writes it.
const AGENT: &str = "syncscope(\"agent\") ";
const ORDERINGS: [&str; 6] = ["unordered", "monotonic", "acquire", "release", "acq_rel", "seq_cst"];

/// Gives each atomic and fence of a module's text agent scope where it has none; returns the text and how many were changed. A scope
/// that is there already (a compiler fence is of one thread) stays.
///
/// # Errors
/// An atomic whose ordering is not found: LLVM writes it in a way this does not know.
pub fn to_agent(module: &str) -> Outcome<(String, usize)> {
    let mut text = String::with_capacity(module.len());
    let mut changed = 0;
    for line in module.lines() {
        if is_atomic(line) && !line.contains("syncscope(") {
            let at = ordering_at(line).ok_or_else(|| format!("no ordering in `{}`", line.trim()))?;
            text.extend([&line[..at], AGENT, &line[at..]]);
            changed += 1;
        } else {
            text.push_str(line);
        }
        text.push('\n');
    }
    Ok((text, changed))
}

/// Whether a line of LLVM's text is an instruction with an ordering. Instructions are indented; nothing else that is indented begins so.
fn is_atomic(line: &str) -> bool {
    let Some(instruction) = line.strip_prefix("  ") else { return false };
    let operation = match instruction.split_once(" = ") {
        Some((name, rest)) if name.starts_with('%') => rest,
        _ => instruction,
    };
    ["fence ", "load atomic ", "store atomic ", "cmpxchg ", "atomicrmw "].iter().any(|name| operation.starts_with(name))
}

/// Where the (first) ordering begins: the first whole word that is one, behind the operands.
fn ordering_at(line: &str) -> Option<usize> {
    let mut at = 0;
    for word in line.split(' ') {
        if ORDERINGS.contains(&word.trim_end_matches(',')) {
            return Some(at);
        }
        at += word.len() + 1;
    }
    None
}

/// The tools this step needs beside rustc.
pub struct Tools {
    dis: String,
    r#as: String,
    lld: PathBuf,
}

/// Finds them: `llvm-dis` and `llvm-as` of the LLVM that rustc has inside, and rustc's own linker.
///
/// # Errors
/// Which one is missing, in one line.
pub fn tools() -> Outcome<Tools> {
    let version = process::output(process::rustc().arg("-vV"))?;
    let field =
        |name: &str| version.lines().find_map(|line| line.strip_prefix(name)).map(str::trim).unwrap_or_default();
    let (llvm, host) = (field("LLVM version:"), field("host:"));
    let major = llvm.split('.').next().unwrap_or_default();
    let tool = |name: &str| {
        let says = format!("LLVM version {major}.");
        [format!("{name}-{major}"), name.to_string()]
            .into_iter()
            .find(|name| process::output(Command::new(name).arg("--version")).is_ok_and(|text| text.contains(&says)))
            .ok_or_else(|| format!("no {name} of LLVM {major} was found (Debian's package llvm-{major} has it)"))
    };
    let sysroot = process::output(process::rustc().args(["--print", "sysroot"]))?;
    let lld = Path::new(sysroot.trim()).join("lib/rustlib").join(host).join("bin/rust-lld");
    if !lld.is_file() {
        return Err(format!("the toolchain has no {}", lld.display()));
    }
    Ok(Tools { dis: tool("llvm-dis")?, r#as: tool("llvm-as")?, lld })
}

/// Makes `elf` from `bitcode`, with all scopes set; not again while it is newer than what it is made from.
///
/// # Errors
/// A tool fails, or says that the module is not valid.
pub fn link(tools: &Tools, bitcode: &Path, elf: &Path) -> Outcome {
    let age = |path: &Path| fs::metadata(path).and_then(|data| data.modified()).ok();
    if let (Some(made), Some(source)) = (age(elf), age(bitcode))
        && made > source
    {
        return Ok(());
    }
    let work = |extension: &str| elf.with_extension(extension);
    let (text, changed, part) = (work("ll"), work("agent.bc"), work("part"));
    process::output(Command::new(&tools.dis).arg(bitcode).arg("-o").arg(&text))?;
    let failed = |path: &Path, err: std::io::Error| format!("{}: {err}", path.display());
    let module = fs::read_to_string(&text).map_err(|err| failed(&text, err))?;
    let (module, _) = to_agent(&module)?;
    fs::write(&text, module).map_err(|err| failed(&text, err))?;
    process::output(Command::new(&tools.r#as).arg(&text).arg("-o").arg(&changed))?;
    let mut lld = Command::new(&tools.lld);
    lld.args(["-flavor", "gnu", "-shared", "--gc-sections", "-z", "noexecstack", "--strip-debug"]);
    // The module is optimised: what is left is to verify it and to make machine code, as rustc does at its highest level.
    lld.args([
        "--lto-newpm-passes=verify",
        "--lto-O3",
        "--lto-CGO3",
        &format!("-plugin-opt=mcpu={}", amdgpu_target::ARCH),
    ]);
    for flag in code_generator_flags()? {
        lld.args(["-mllvm", &flag]);
    }
    process::output(lld.arg(&changed).arg("-o").arg(&part))?;
    fs::rename(&part, elf).map_err(|err| failed(elf, err))
}

/// What `.cargo/config.toml` tells LLVM through rustc.
fn code_generator_flags() -> Outcome<Vec<String>> {
    let path = root().join(".cargo/config.toml");
    let config = fs::read_to_string(&path).map_err(|err| format!("{}: {err}", path.display()))?;
    let flags: Vec<String> = config
        .lines()
        .filter_map(|line| line.split_once("\"-Cllvm-args=")?.1.split_once('"'))
        .map(|(flag, _)| flag.to_string())
        .collect();
    if flags.is_empty() { Err(format!("{}: no -Cllvm-args found", path.display())) } else { Ok(flags) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MODULE: &str = r#"@text = constant [20 x i8] c"  fence acquire     "
define amdgpu_kernel void @k(ptr %p) {
  fence syncscope("singlethread") seq_cst
  fence release
  %1 = atomicrmw add ptr %p, i32 1 monotonic, align 4
  %old = atomicrmw volatile fadd ptr addrspace(1) %q, float %acquire seq_cst, align 4, !noalias !3
  %2 = cmpxchg weak ptr %p, i32 0, i32 1 acq_rel monotonic, align 4
  %3 = load atomic i32, ptr %p acquire, align 4
  %4 = load i32, ptr %p, align 4
  store atomic i32 %3, ptr %p release, align 4
  store i32 %3, ptr %p, align 4
  %5 = load atomic i64, ptr %p syncscope("workgroup") monotonic, align 8
  ret void
}
"#;

    #[test]
    fn each_form_gets_a_scope_and_nothing_else_changes() {
        let (text, changed) = to_agent(MODULE).expect("known forms");
        assert_eq!(changed, 6);
        let wanted = MODULE
            .replace("  fence release", "  fence syncscope(\"agent\") release")
            .replace("i32 1 monotonic", "i32 1 syncscope(\"agent\") monotonic")
            .replace("%acquire seq_cst", "%acquire syncscope(\"agent\") seq_cst")
            .replace("i32 1 acq_rel", "i32 1 syncscope(\"agent\") acq_rel")
            .replace("ptr %p acquire", "ptr %p syncscope(\"agent\") acquire")
            .replace("ptr %p release", "ptr %p syncscope(\"agent\") release");
        assert_eq!(text, wanted);
        assert_eq!(to_agent(&text), Ok((text.clone(), 0)), "a second time");
    }

    /// What the step is for, in the listing of a release, an atomic and an acquire.
    #[test]
    fn linked_code_has_the_scope() {
        let tools = tools().expect("LLVM's tools; Debian's llvm-22 has them");
        let folder = std::env::temp_dir().join(format!("zynfer-scopes-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a temporary folder");
        let module = r#"target triple = "amdgcn-amd-amdhsa"
define protected amdgpu_kernel void @k(ptr addrspace(1) %p, ptr addrspace(1) %q) "target-cpu"="gfx1201" {
  store i32 7, ptr addrspace(1) %q, align 4
  fence release
  %1 = atomicrmw add ptr addrspace(1) %p, i32 1 monotonic, align 4
  fence acquire
  store i32 %1, ptr addrspace(1) %p, align 4
  ret void
}
"#;
        let (text, bitcode, elf) = (folder.join("k.in.ll"), folder.join("k.bc"), folder.join("k.elf"));
        fs::write(&text, module).expect("written");
        process::output(Command::new(&tools.r#as).arg(&text).arg("-o").arg(&bitcode)).expect("a valid module");
        link(&tools, &bitcode, &elf).expect("it links");
        let mut objdump = Command::new("llvm-objdump-22");
        let listing = process::output(objdump.args(["-d", "--mcpu=gfx1201"]).arg(&elf)).expect("a listing");
        fs::remove_dir_all(&folder).expect("ours");
        // A release to the GPU waits for its stores, which are in the L2 then: nothing is written back.
        for wanted in ["s_wait_storecnt 0x0", "th:TH_ATOMIC_RETURN scope:SCOPE_DEV", "global_inv scope:SCOPE_DEV"] {
            assert!(listing.contains(wanted), "{wanted} in {listing}");
        }
        assert!(!listing.contains("SCOPE_SYS") && !listing.contains("global_wb"), "{listing}");
    }

    #[test]
    fn an_unknown_form_is_an_error() {
        let error = to_agent("  fence sometimes\n").expect_err("no such ordering");
        assert!(error.contains("fence sometimes"), "{error}");
    }
}
