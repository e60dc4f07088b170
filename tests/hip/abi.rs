//! The emulator's C ABI, judged by a C program compiled against AMD's own header and linked to our library as if it were AMD's. What
//! the program checks stands in `abi.c`, one function per part; each runs in a process of its own, so a crash is one failure.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::LazyLock;

use zynfer::hip::{Search, ffi};

/// The compiled program.
static PROGRAM: LazyLock<(tempfile::TempDir, PathBuf)> = LazyLock::new(|| {
    let folder = tempfile::tempdir().expect("temporary folder");
    let program = folder.path().join("abi");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("hip/abi.c");
    let library = emulator();
    let output = Command::new("cc")
        .args(["-std=c11", "-Wall", "-Werror", "-O1", "-D__HIP_PLATFORM_AMD__", "-isystem", "/usr/include", "-o"])
        .args([&program, &source, &library])
        .arg("-lm")
        .output()
        .expect("`cc` is there: rustc links with it too");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "abi.c against AMD's header (Debian's libamdhip64-dev, ./x test installs it): {text}"
    );
    (folder, program)
});

fn emulator() -> PathBuf {
    Search::emulator().open().expect("cargo builds the emulator's library with this test").path().to_owned()
}

fn run(part: &str, variables: &[(&str, &str)]) -> Output {
    let (_, program) = &*PROGRAM;
    let mut command = Command::new(program);
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/kernels");
    command.arg(part).arg(fixtures).env("LD_LIBRARY_PATH", emulator().parent().expect("it lies in a folder"));
    command.envs(variables.iter().copied()).output().expect("it was compiled")
}

fn passes(part: &str) -> Output {
    let output = run(part, &[]);
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{part}: {}\n{out}\n{err}", output.status);
    // Every part prints how many checks it made, so an empty one cannot pass.
    assert!(out.lines().any(|line| line.starts_with(&format!("{part}: ")) && !line.ends_with(": 0 checks")), "{out}");
    output
}

#[test]
fn device_facts_and_both_properties_structs() {
    passes("device");
}

#[test]
fn memory_lifecycle_ranges_and_double_free() {
    passes("memory");
}

#[test]
fn streams_events_and_stale_handles() {
    passes("streams");
}

#[test]
fn modules_functions_and_images_that_are_none() {
    passes("modules");
}

#[test]
fn a_launch_computes_with_either_form_of_arguments() {
    passes("launch");
}

#[test]
fn every_refusal_of_a_launch_has_hip_s_status() {
    passes("refusals");
}

#[test]
fn a_trap_is_a_launch_failure_with_a_report_and_the_device_goes_on() {
    let output = passes("trap");
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(err.contains("bad_oob_global_write") && err.contains("outside every allocation"), "{err}");
}

#[test]
fn counters_are_printed_when_asked_for_and_only_then() {
    let quiet = String::from_utf8_lossy(&passes("launch").stderr).into_owned();
    assert!(!quiet.contains("launches"), "{quiet}");
    let output = run("launch", &[("ZYNFER_EMULATOR_STATS", "1")]);
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(err.lines().any(|line| line.contains("launches") && line.contains("wave-instructions")), "{err}");
}

#[test]
fn offsets_and_attribute_numbers_are_those_of_the_header() {
    let output = passes("layout");
    let text = String::from_utf8_lossy(&output.stdout);
    let value = |name: &str| -> usize {
        let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_else(|| panic!("{name} in {text}"));
        line.trim().parse().expect("a number")
    };
    assert_eq!(value("gcnArchName "), ffi::properties::ARCH_NAME_OFFSET_R0000);
    assert!(value("sizeof ") <= ffi::properties::BUFFER_BYTES);
    let attributes = [
        ("hipDeviceAttributeIntegrated ", ffi::attribute::INTEGRATED),
        ("hipDeviceAttributeMaxSharedMemoryPerBlock ", ffi::attribute::MAX_SHARED_MEMORY_PER_BLOCK),
        ("hipDeviceAttributeMultiprocessorCount ", ffi::attribute::MULTIPROCESSOR_COUNT),
        ("hipDeviceAttributePciBusId ", ffi::attribute::PCI_BUS_ID),
        ("hipDeviceAttributePciDeviceId ", ffi::attribute::PCI_DEVICE_ID),
        ("hipDeviceAttributePciDomainID ", ffi::attribute::PCI_DOMAIN_ID),
        ("hipDeviceAttributeWarpSize ", ffi::attribute::WARP_SIZE),
    ];
    for (name, number) in attributes {
        assert_eq!(value(name), number as usize, "{name}");
    }
}
