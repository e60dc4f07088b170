//! The argument blocks the host packs against the metadata of the code object it launches: the real one, and layouts bent one fact
//! at a time, so that the comparison is known to see each.

use device_ops::{Field, Kernel};
use emulator::CodeObject;
use zynfer::gpu::code_object::{ARCHITECTURES, IMAGE};
use zynfer::hip::kernels::LoadError;
use zynfer::hip::metadata::{block_bytes, check, compare};

fn object() -> CodeObject {
    CodeObject::parse(IMAGE).expect("the build's own code object")
}

#[test]
fn every_kernel_is_packed_as_its_metadata_says() {
    let checked = check(IMAGE).unwrap_or_else(|error| panic!("{error}"));
    let known: Vec<&str> = device_ops::KERNELS.iter().map(|kernel| kernel.name).collect();
    for kernel in checked.kernels() {
        assert!(known.contains(&kernel.name.as_str()), "the host cannot launch {}", kernel.name);
    }
    assert_eq!(checked.kernels().len(), known.len());
}

#[test]
fn args_structs_are_as_large_as_the_block() {
    // A kernel whose Args are another size than its block could not be launched; each file of device_ops has one Args.
    let sizes = [
        (device_ops::embed::NAME, size_of::<device_ops::embed::Args>()),
        (device_ops::rmsnorm::NAME_WAVE, size_of::<device_ops::rmsnorm::Args>()),
        (device_ops::linear::NAME_GEMV, size_of::<device_ops::linear::Args>()),
        (device_ops::bias_add::NAME, size_of::<device_ops::bias_add::Args>()),
        (device_ops::head_norm::NAME_D64, size_of::<device_ops::head_norm::Args>()),
        (device_ops::rope::NAME_D64, size_of::<device_ops::rope::Args>()),
        (device_ops::kv_append::NAME, size_of::<device_ops::kv_append::Args>()),
        (device_ops::attention::NAME_DECODE_D64, size_of::<device_ops::attention::Args>()),
        (device_ops::kv_formats::append::NAME_D64, size_of::<device_ops::kv_formats::append::Args>()),
        (device_ops::kv_formats::prepare::NAME_D64, size_of::<device_ops::kv_formats::prepare::Args>()),
        (device_ops::attention::formats::NAME_PLAIN_D64, size_of::<device_ops::attention::formats::Args>()),
        (device_ops::swiglu::NAME, size_of::<device_ops::swiglu::Args>()),
        (device_ops::residual_add::NAME, size_of::<device_ops::residual_add::Args>()),
        (device_ops::argmax::NAME, size_of::<device_ops::argmax::Args>()),
        (device_ops::top_k::NAME_SLICES, size_of::<device_ops::top_k::Args>()),
    ];
    for (name, size) in sizes {
        let kernel = device_ops::KERNELS.iter().find(|kernel| kernel.name == name).expect(name);
        assert_eq!(size, block_bytes(kernel), "{name}");
    }
}

#[test]
fn the_code_object_is_for_the_architecture_the_host_chooses_cards_by() {
    let [arch] = ARCHITECTURES else { panic!("{ARCHITECTURES:?}") };
    assert_eq!(object().target(), format!("amdgcn-amd-amdhsa--{arch}"));
}

/// A layout with one fact changed, as a difference between host and kernel would look.
fn bent(name: &'static str, change: impl FnOnce(&mut Vec<Field>)) -> LoadError {
    let kernel = device_ops::KERNELS.iter().find(|kernel| kernel.name == name).expect(name);
    let mut fields = kernel.fields.to_vec();
    change(&mut fields);
    let bent = Kernel { fields: fields.leak(), ..*kernel };
    compare(&bent, object().kernel(name).expect(name)).expect_err("one fact differs")
}

#[test]
fn each_kind_of_difference_is_seen_and_named() {
    let name = device_ops::attention::NAME_PREFILL_D128;
    let kernel = device_ops::KERNELS.iter().find(|kernel| kernel.name == name).expect(name);
    let larger = Kernel { waves: kernel.waves + 1, ..*kernel };
    let cases: [(LoadError, &str); 7] = [
        (bent(name, |fields| fields.swap(0, 1)), "argument 0"),
        (bent(name, |fields| fields[4].offset += 4), "offset of argument 4"),
        (bent(name, |fields| fields[5].size = 8), "size of argument 5"),
        (bent(name, |fields| fields[2].pointer = false), "kind of argument 2"),
        (bent(name, |fields| fields.truncate(9)), "argument count"),
        (
            bent(name, |fields| fields.push(Field { name: "more", offset: 64, size: 4, pointer: false })),
            "argument count",
        ),
        (
            compare(&larger, object().kernel(name).expect(name)).expect_err("too many work-items"),
            "work-items of a workgroup",
        ),
    ];
    for (error, part) in cases {
        let text = error.to_string();
        assert!(text.contains(name) && text.contains(part), "{part} in {text}");
    }
}

#[test]
fn a_damaged_image_is_refused_before_the_runtime_sees_it() {
    for length in [0, 1, 63, 64, 200, IMAGE.len() / 2, IMAGE.len() - 1] {
        assert!(matches!(check(&IMAGE[..length]), Err(LoadError::CodeObject(_))), "{length} bytes");
    }
    let mut other = IMAGE.to_vec();
    other[48] = 0x41; // e_flags: gfx1100
    assert!(matches!(check(&other), Err(LoadError::CodeObject(_))));
}
