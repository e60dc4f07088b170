//! The code object's own word about its kernels, compared with the host's layout of their arguments before anything is launched. It
//! reads the metadata note through the emulator's parser, which refuses what is malformed; it does not look at instructions.

use device_ops::{Field, Kernel};
use emulator::CodeObject;

use super::kernels::LoadError;

/// Parses `image` and checks that it has every kernel the host knows, with the layout the host packs.
///
/// # Errors
/// [`LoadError::CodeObject`], [`LoadError::Missing`] or [`LoadError::Layout`].
pub fn check(image: &[u8]) -> Result<CodeObject, LoadError> {
    let object = CodeObject::parse(image).map_err(|error| LoadError::CodeObject(error.to_string()))?;
    for kernel in device_ops::KERNELS {
        let found = object.kernel(kernel.name).ok_or(LoadError::Missing { kernel: kernel.name })?;
        compare(kernel, found)?;
    }
    Ok(object)
}

/// Bytes of the block the host packs: the arguments, rounded up to 8 as `Args` is.
pub fn block_bytes(kernel: &Kernel) -> usize {
    kernel.args_bytes().next_multiple_of(8)
}

/// Compares one kernel's metadata with the host's fields: count, order, offsets, sizes, which are addresses, and that nothing else is
/// expected in the block; and whether it was compiled for workgroups as large as the launches have.
pub fn compare(kernel: &Kernel, found: &emulator::code_object::Kernel) -> Result<(), LoadError> {
    let differ = |what: String, found: String, expected: String| {
        Err(LoadError::Layout { kernel: kernel.name, what, found, expected })
    };
    if let Some(hidden) = found.args.iter().find(|arg| arg.is_hidden()) {
        return differ("a hidden argument".into(), hidden.value_kind.clone(), "none".into());
    }
    if found.args.len() != kernel.fields.len() {
        return differ("argument count".into(), found.args.len().to_string(), kernel.fields.len().to_string());
    }
    for (index, (arg, field)) in found.args.iter().zip(kernel.fields).enumerate() {
        let Field { name, offset, size, pointer } = *field;
        let numbers = [("offset", arg.offset as usize, offset), ("size", arg.size as usize, size)];
        if let Some((what, found, expected)) = numbers.into_iter().find(|(_, found, expected)| found != expected) {
            return differ(format!("{what} of argument {index} `{name}`"), found.to_string(), expected.to_string());
        }
        let kind = if pointer { "global_buffer" } else { "by_value" };
        if arg.value_kind != kind {
            return differ(format!("kind of argument {index} `{name}`"), arg.value_kind.clone(), kind.into());
        }
        if arg.name.as_ref().is_some_and(|found| found != name) {
            let found = arg.name.clone().unwrap_or_default();
            return differ(format!("name of argument {index}"), found, name.into());
        }
    }
    let items = kernel.waves * amdgpu_target::LANES;
    if found.max_flat_workgroup_size < items {
        let most = found.max_flat_workgroup_size.to_string();
        return differ("most work-items of a workgroup".into(), most, items.to_string());
    }
    let block = block_bytes(kernel);
    if found.kernarg_segment_size as usize > block {
        return differ("kernarg segment size".into(), found.kernarg_segment_size.to_string(), block.to_string());
    }
    Ok(())
}
