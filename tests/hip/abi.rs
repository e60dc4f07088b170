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
    let sources =
        ["abi.c", "runtime.c", "graphs.c"].map(|name| Path::new(env!("CARGO_MANIFEST_DIR")).join("hip").join(name));
    compile(&sources, &program);
    (folder, program)
});

/// Compiles C sources against AMD's header and links them to the emulator's library as if it were AMD's.
pub fn compile(sources: &[PathBuf], program: &Path) {
    let output = Command::new("cc")
        .args(["-std=c11", "-Wall", "-Werror", "-Wno-deprecated-declarations", "-O1", "-D__HIP_PLATFORM_AMD__"])
        .args(["-isystem", "/usr/include", "-o"])
        .arg(program)
        .args(sources)
        .arg(emulator())
        .args(["-lm", "-lpthread"])
        .output()
        .expect("`cc` is there: rustc links with it too");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{sources:?} against AMD's header (Debian's libamdhip64-dev, ./x test installs it): {text}"
    );
}

/// The emulator's library.
pub fn emulator() -> PathBuf {
    Search::emulator().open().expect("cargo builds the emulator's library with this test").path().to_owned()
}

/// Runs a program that is linked to it.
pub fn run_program(program: &Path, arguments: &[&str], variables: &[(&str, &str)]) -> Output {
    let mut command = Command::new(program);
    command.args(arguments).env("LD_LIBRARY_PATH", emulator().parent().expect("it lies in a folder"));
    command.envs(variables.iter().copied()).output().expect("it was compiled")
}

fn run(part: &str, variables: &[(&str, &str)]) -> Output {
    let (_, program) = &*PROGRAM;
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/kernels");
    run_program(program, &[part, fixtures.to_str().expect("a plain path")], variables)
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
fn a_trap_ends_the_device_until_it_is_reset_and_has_a_report() {
    let output = passes("trap");
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(err.contains("bad_oob_global_write") && err.contains("outside every allocation"), "{err}");
}

#[test]
fn checks_that_the_environment_asks_for_end_the_device_as_a_trap_does() {
    let quiet = passes("defects");
    assert!(quiet.stderr.is_empty(), "{}", String::from_utf8_lossy(&quiet.stderr));
    let checked = run("defects", &[("ZYNFER_EMULATOR_CHECK", "all")]);
    let err = String::from_utf8_lossy(&checked.stderr);
    assert!(checked.status.success(), "{}\n{err}", String::from_utf8_lossy(&checked.stdout));
    for part in ["missing_wait_dscnt_before_barrier (wait)", "kernel bad_nowait +0x", "workgroup 0,0,0 wave 0"] {
        assert!(err.contains(part), "{part}: {err}");
    }
    let wrong = run("defects", &[("ZYNFER_EMULATOR_CHECK", "rase")]);
    assert!(wrong.status.success(), "{}", String::from_utf8_lossy(&wrong.stdout));
}

#[test]
fn host_and_managed_memory_pitches_pools_and_what_a_pointer_is() {
    passes("host_memory");
}

#[test]
fn rows_and_boxes_are_copied_and_set() {
    passes("boxes");
}

#[test]
fn default_streams_priorities_callbacks_and_contexts() {
    passes("callbacks");
}

#[test]
fn facts_of_kernels_variables_occupancy_and_other_launches() {
    passes("kernels");
}

#[test]
fn a_compiled_program_s_registrations_lead_to_its_kernels() {
    passes("registered");
}

#[test]
fn a_capture_becomes_a_graph_that_is_launched_updated_and_launched_again() {
    passes("captured");
}

#[test]
fn a_graph_made_by_hand_keeps_its_nodes_edges_and_parameters() {
    passes("by_hand");
}

#[test]
fn forks_and_joins_are_captured_and_every_misuse_has_hip_s_status() {
    passes("misuse");
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
