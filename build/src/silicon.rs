//! `./x silicon`: the kernels as PTX, the test-only library that gives HIP's C ABI over NVIDIA's driver, and one folder with
//! everything that a machine with such a GPU needs to run the operation tests, the tiny models and the timings (docs/SILICON.md).
//! It runs nothing on a GPU itself: `run.sh` in that folder does.

use crate::{Outcome, process, root, rust_src, say};
use amdgpu_target::LANES;
use device_ops::KERNELS;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const TARGET: &str = "nvptx64-nvidia-cuda";
/// The GPU that PTX is compiled for, and the version of PTX: what its matrix and copy instructions need.
const CPU: &str = "sm_90";
const FEATURES: &str = "+ptx83";
/// Kernels keep arrays in registers, so every loop over them has to be unrolled and every closure inlined: NVPTX's own limits are
/// those of large programs.
const UNROLL: &str = "-unroll-threshold=5000";
const INLINE: &str = "-inline-threshold=100000";
/// Test programs that run on the card with `HW=1`.
const TESTS: &[&str] = &["ops", "model", "hip_graph"];
/// Largest archive of the folder that may be carried elsewhere.
const MOST_BYTES: u64 = 55 << 20;

fn folder() -> PathBuf {
    root().join("target/silicon")
}

/// The kernels as PTX, in the folder that is packed.
pub fn ptx() -> Outcome<PathBuf> {
    let folder = folder();
    fs::create_dir_all(&folder).map_err(|err| format!("{}: {err}", folder.display()))?;
    let path = folder.join("zynfer.ptx");
    compile(&path).map(|()| path)
}

/// Builds everything and packs it.
pub fn pack() -> Outcome {
    let folder = folder();
    let _ = fs::remove_dir_all(&folder);
    ptx()?;
    say("the host, the two HIP libraries and the tests (release; minutes the first time)");
    let packages = ["-p", "zynfer", "-p", "emulator-hip", "-p", "zynfer-hip-over-cuda"];
    process::run(process::cargo().args(["build", "--quiet", "--release"]).args(packages))?;
    let example = ["-p", "zynfer-hip-over-cuda", "--example", "kernels"];
    process::run(process::cargo().args(["build", "--quiet", "--release"]).args(example))?;
    let release = target().join("release");
    for name in ["zynfer", "libamdhip64_emulator.so", "libzynfer_hip_over_cuda.so"] {
        copy_stripped(&release.join(name), &folder.join(name))?;
    }
    copy_stripped(&release.join("examples/kernels"), &folder.join("kernels"))?;
    for (name, path) in test_programs()? {
        copy_stripped(&path, &folder.join(name))?;
    }
    let fixtures = folder.join("tests/fixtures");
    fs::create_dir_all(&fixtures).map_err(|err| format!("{}: {err}", fixtures.display()))?;
    for from in fixtures_needed()? {
        process::output(Command::new("cp").arg("-r").arg(from).arg(&fixtures))?;
    }
    for script in ["silicon/run.sh", "silicon/record.py", "benches/peers/peers.py"] {
        let script = root().join(script);
        copy(&script, &folder.join(script.file_name().expect("a file")))?;
    }
    let git = |words: &[&str]| process::output(Command::new("git").args(words).current_dir(root()));
    let commit = git(&["rev-parse", "HEAD"])?;
    let changed = if git(&["status", "--porcelain", "--untracked-files=no"])?.is_empty() { "" } else { " and changes" };
    fs::write(folder.join("commit"), format!("{}{changed}\n", commit.trim()))
        .map_err(|err| format!("commit: {err}"))?;
    let archive = target().join("silicon.tar.xz");
    let mut tar = Command::new("tar");
    // 31 MB, where -2 makes 36 of it.
    tar.env("XZ_OPT", "-6 -T0").arg("-cJf").arg(&archive).arg("-C").arg(target()).arg("silicon");
    process::output(&mut tar)?;
    let bytes = fs::metadata(&archive).map_err(|err| format!("{}: {err}", archive.display()))?.len();
    if bytes > MOST_BYTES {
        return Err(format!("{} has {bytes} bytes, at most {MOST_BYTES} are meant to be", archive.display()));
    }
    say(&format!(
        "{} ({bytes} bytes): unpack it beside an NVIDIA GPU and run silicon/run.sh RESULTS",
        archive.display()
    ));
    Ok(())
}

fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), Into::into)
}

/// The kernels as one PTX module at `out`.
fn compile(out: &Path) -> Outcome {
    for tool in ["llvm-ar-22", "llvm-dis-22", "opt-22", "llc-22"] {
        if !process::found(tool) {
            return Err(format!("{tool} is not there: ./x setup-tests installs llvm-22"));
        }
    }
    rust_src::ensure()?;
    say("the kernels for nvptx64-nvidia-cuda");
    let target_dir = root().join("target/nvptx");
    let mut build = process::cargo();
    build.args(["build", "--release", "--quiet", "-p", "device-ops", "-Zbuild-std=core", "--target", TARGET]);
    build.arg("--target-dir").arg(&target_dir);
    build.env("RUSTFLAGS", format!("-Ctarget-cpu={CPU} -Cllvm-args={UNROLL} -Cllvm-args={INLINE}"));
    process::output(&mut build)?;
    // Objects of this target are bitcode. There is no bitcode linker in the toolchain, and nothing to link: all of the kernels'
    // code is inlined into their crate, and what were left of `core` would be a panic.
    let library = target_dir.join(TARGET).join("release/libdevice_ops.rlib");
    let members = process::output(Command::new("llvm-ar-22").arg("t").arg(&library))?;
    let objects: Vec<&str> = members.lines().filter(|name| name.ends_with(".o")).collect();
    let [object] = objects[..] else {
        return Err(format!("{}: {} objects, one is expected", library.display(), objects.len()));
    };
    let work = target_dir.join("link");
    let _ = fs::remove_dir_all(&work);
    fs::create_dir_all(&work).map_err(|err| format!("{}: {err}", work.display()))?;
    process::output(Command::new("llvm-ar-22").arg("x").arg("--output").arg(&work).arg(&library).arg(object))?;
    let bitcode = work.join(object);
    let text = process::output(Command::new("llvm-dis-22").arg(&bitcode).args(["-o", "-"]))?;
    let module = work.join("kernels.ll");
    fs::write(&module, without_compiler_fences(&text)?).map_err(|err| format!("{}: {err}", module.display()))?;
    let bounds = work.join("bounds.csv");
    let rows = KERNELS.iter().map(|kernel| format!("{},nvvm.maxntid={}\n", kernel.name, kernel.waves * LANES));
    fs::write(&bounds, rows.collect::<String>()).map_err(|err| format!("{}: {err}", bounds.display()))?;
    let optimised = work.join("kernels.bc");
    let mut opt = Command::new("opt-22");
    opt.arg("-passes=forceattrs,internalize,globaldce,default<O3>").arg(UNROLL).arg(INLINE);
    opt.arg(format!("-forceattrs-csv-path={}", bounds.display()));
    let names: Vec<&str> = KERNELS.iter().map(|kernel| kernel.name).collect();
    opt.arg(format!("-internalize-public-api-list={}", names.join(",")));
    process::output(opt.arg(&module).arg("-o").arg(&optimised))?;
    let mut llc = Command::new("llc-22");
    llc.args(["-O3", &format!("-mcpu={CPU}"), &format!("-mattr={FEATURES}")]);
    process::output(llc.arg(&optimised).arg("-o").arg(out))?;
    check(out)
}

/// The module without fences of one thread, which only bind the compiler and have done so by now: NVPTX has no code for them. What else
/// Rust could order by is refused: the kernels pass data on by [`amdgpu_target`]'s own instructions, and LLVM 22's NVPTX backend drops the
/// ordering of a read-modify-write without a word.
fn without_compiler_fences(module: &str) -> Outcome<String> {
    let mut text = String::with_capacity(module.len());
    for line in module.lines().filter(|line| !line.starts_with("  fence syncscope(\"singlethread\")")) {
        let atomic = ["fence ", "load atomic ", "store atomic ", "cmpxchg ", "atomicrmw "];
        let instruction = line.strip_prefix("  ").unwrap_or_default();
        let operation = instruction.split_once(" = ").map_or(instruction, |(_, operation)| operation);
        if atomic.iter().any(|name| operation.starts_with(name)) {
            return Err(format!("an atomic of Rust's, whose order PTX would not keep: `{}`", line.trim()));
        }
        text.push_str(line);
        text.push('\n');
    }
    Ok(text)
}

/// Refuses a module with a call, a local array, other kernels than ours or other bounds.
fn check(ptx: &Path) -> Outcome {
    let text = fs::read_to_string(ptx).map_err(|err| format!("{}: {err}", ptx.display()))?;
    let entries: Vec<&str> = text.split(".visible .entry ").skip(1).collect();
    if entries.len() != KERNELS.len() {
        return Err(format!("{}: {} kernels, {} are ours", ptx.display(), entries.len(), KERNELS.len()));
    }
    for kernel in KERNELS {
        let entry = entries.iter().find(|entry| entry.starts_with(&format!("{}(", kernel.name)));
        let bound = format!(".maxntid {}", kernel.waves * LANES);
        match entry {
            None => return Err(format!("{}: no kernel `{}`", ptx.display(), kernel.name)),
            Some(entry) if !entry.contains(&bound) => {
                return Err(format!("{}: kernel `{}` without `{bound}`", ptx.display(), kernel.name));
            }
            Some(_) => {}
        }
    }
    let forbidden = [
        (".extern .func", "code outside the kernels, such as a panic"),
        ("__local_depot", "an array in local memory"),
        ("call.uni", "a call"),
    ];
    match forbidden
        .iter()
        .find_map(|(mark, what)| text.lines().find(|line| line.contains(mark)).map(|line| (line, what)))
    {
        Some((line, what)) => Err(format!("{}: {what}: `{}`", ptx.display(), line.trim())),
        None => Ok(()),
    }
}

/// The test programs, by name, built for release.
fn test_programs() -> Outcome<Vec<(String, PathBuf)>> {
    let mut build = process::cargo();
    build.args(["test", "--release", "--no-run", "--message-format=json", "-p", "zynfer-tests"]);
    for name in TESTS {
        build.args(["--test", name]);
    }
    let messages = process::output(&mut build)?;
    let program = |line: &str| -> Option<(String, PathBuf)> {
        let message: Value = serde_json::from_str(line).ok()?;
        let path = message["executable"].as_str()?;
        Some((message["target"]["name"].as_str()?.to_owned(), path.into()))
    };
    let found: Vec<_> = messages.lines().filter_map(program).collect();
    match TESTS.iter().find(|name| !found.iter().any(|(found, _)| found == *name)) {
        Some(missing) => Err(format!("cargo made no test program `{missing}`")),
        None => Ok(found),
    }
}

fn copy(from: &Path, to: &Path) -> Outcome {
    fs::copy(from, to).map(drop).map_err(|err| format!("{} to {}: {err}", from.display(), to.display()))
}

fn copy_stripped(from: &Path, to: &Path) -> Outcome {
    copy(from, to)?;
    process::output(Command::new("strip").arg("--strip-all").arg(to)).map(drop)
}

/// What the packed tests read: every checkpoint, and the goldens of the tokenizer.
fn fixtures_needed() -> Result<Vec<PathBuf>, String> {
    let folder = root().join("tests/fixtures");
    let entries = fs::read_dir(&folder).map_err(|err| format!("{}: {err}", folder.display()))?;
    let mut needed: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    needed.retain(|path| path.join("config.json").is_file() || path.ends_with("qwen3-goldens"));
    needed.sort();
    Ok(needed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compiler_fences_go_and_atomics_are_refused() {
        let module = "\
define ptx_kernel void @k(ptr %p) {
  fence syncscope(\"singlethread\") seq_cst
  %4 = load i32, ptr %p, align 4
}
";
        let wanted = module.replace("  fence syncscope(\"singlethread\") seq_cst\n", "");
        assert_eq!(without_compiler_fences(module), Ok(wanted));
        for atomic in [
            "fence acquire",
            "%1 = atomicrmw add ptr %p, i32 1 monotonic, align 4",
            "store atomic i32 %3, ptr %p release",
        ] {
            let error = without_compiler_fences(&format!("  {atomic}\n")).expect_err("an atomic");
            assert!(error.contains(atomic), "{error}");
        }
    }
}
