//! The library as the host's own loader sees it, on a machine without NVIDIA's driver: every symbol is there, there is no card, and
//! nothing crashes. What it does with a driver is shown by `./x silicon` (docs/SILICON.md).

use std::path::PathBuf;

use zynfer::hip::{Search, devices};

/// Cargo builds the library beside the test.
fn library() -> PathBuf {
    let test = std::env::current_exe().expect("a test knows its own path");
    test.with_file_name("libzynfer_hip_over_cuda.so")
}

#[test]
fn host_opens_it_and_sees_no_card_without_a_driver() {
    // SAFETY: this is the only test of the process, and nothing has read the environment yet.
    unsafe { std::env::set_var("ZYNFER_CUDA_LIBRARY", "/nonexistent/libcuda.so.1") };
    let library = Search::amd_from(Some(library().as_os_str()), None, &[], &PathBuf::new()).open();
    let library = library.unwrap_or_else(|error| panic!("{error}"));
    assert!(library.knows_gfx1201());
    assert_eq!(devices(&library), Ok(Vec::new()));
}
