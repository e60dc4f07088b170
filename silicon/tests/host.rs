//! The library as the host's own loader sees it, on a machine without NVIDIA's driver: every symbol is there, there is no card, and
//! nothing crashes. What it does with a driver is shown by `./x silicon` (docs/SILICON.md).

use std::path::PathBuf;

use emulator::CodeObject;
use zynfer::gpu::code_object;
use zynfer::hip::{Search, devices};
use zynfer_hip_over_cuda::{compare, entries};

/// Cargo builds the library beside the test.
fn library() -> PathBuf {
    let test = std::env::current_exe().expect("a test knows its own path");
    test.with_file_name("libzynfer_hip_over_cuda.so")
}

#[test]
fn host_opens_it_and_sees_no_card_without_a_driver() {
    // SAFETY: no other test of this process reads or writes the environment.
    unsafe { std::env::set_var("ZYNFER_CUDA_LIBRARY", "/nonexistent/libcuda.so.1") };
    let library = Search::amd_from(Some(library().as_os_str()), None, &[], &PathBuf::new()).open();
    let library = library.unwrap_or_else(|error| panic!("{error}"));
    assert!(library.knows_gfx1201());
    assert_eq!(devices(&library), Ok(Vec::new()));
}

/// Declarations as LLVM writes them for the kernels of this build; `widened` has its last parameter 8 bytes long.
fn declarations(widened: Option<&str>) -> String {
    let mut text = String::new();
    for kernel in device_ops::KERNELS {
        let last = kernel.fields.len() - 1;
        let parameters = kernel.fields.iter().enumerate().map(|(index, field)| {
            let bits = if widened == Some(kernel.name) && index == last { 64 } else { field.size * 8 };
            format!("\t.param .{}{bits} {}_param_{index}", if field.pointer { "u" } else { "b" }, kernel.name)
        });
        text +=
            &format!(".visible .entry {}(\n{}\n)\n{{\n}}\n", kernel.name, parameters.collect::<Vec<_>>().join(",\n"));
    }
    text
}

#[test]
fn layouts_of_the_code_object_and_of_the_ptx_must_agree() {
    let object = CodeObject::parse(code_object::IMAGE).expect("our own code object");
    let right = entries(&declarations(None)).expect("declarations");
    assert_eq!(compare(&object, &right), Ok(()));
    let error = compare(&object, &right[1..]).expect_err("a kernel is missing");
    assert!(error.contains(&right[0].name), "{error}");
    let wrong = entries(&declarations(Some("linear_bf16_gemv"))).expect("declarations");
    let error = compare(&object, &wrong).expect_err("a parameter has another size");
    assert!(error.contains("linear_bf16_gemv") && error.contains("(32, 4)") && error.contains("(32, 8)"), "{error}");
}
