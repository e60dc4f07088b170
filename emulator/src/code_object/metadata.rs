//! The AMDGPU note: a MessagePack map. Depth and sizes are limited, unknown keys are ignored as the format's growth needs.

use super::{Arg, CodeObjectError, Descriptor, Kernel};
use rmpv::Value;

/// Nesting of a well-formed note is 6.
const MAX_DEPTH: usize = 16;
/// Longest note that is read.
const MAX_BYTES: usize = 16 << 20;

fn fail(reason: impl Into<String>) -> CodeObjectError {
    CodeObjectError::Metadata(reason.into())
}

/// Target and kernels, the latter still without descriptors.
pub(super) fn read(note: &[u8]) -> Result<(String, Vec<Kernel>), CodeObjectError> {
    if note.len() > MAX_BYTES {
        return Err(fail(format!("the note has {} bytes, at most {MAX_BYTES} are read", note.len())));
    }
    let mut rest = note;
    let root = rmpv::decode::read_value_with_max_depth(&mut rest, MAX_DEPTH).map_err(|e| fail(format!("{e}")))?;
    let version = get(&root, "amdhsa.version").and_then(Value::as_array).map(Vec::as_slice);
    match version.map(|v| v.iter().map(Value::as_u64).collect::<Vec<_>>()).as_deref() {
        Some([Some(1), Some(_)]) => {}
        other => return Err(fail(format!("amdhsa.version is {other:?}, [1, 2] is needed"))),
    }
    let target = get(&root, "amdhsa.target").and_then(Value::as_str).unwrap_or_default().to_owned();
    // Feature suffixes (`:sramecc+`) do not exist on this chip.
    if target != "amdgcn-amd-amdhsa--gfx1201" {
        return Err(fail(format!("amdhsa.target is {target:?}, \"amdgcn-amd-amdhsa--gfx1201\" is needed")));
    }
    let list = match get(&root, "amdhsa.kernels") {
        None => &[][..],
        Some(value) => value.as_array().ok_or_else(|| fail("amdhsa.kernels is not a list"))?,
    };
    let mut kernels: Vec<Kernel> = Vec::new();
    let mut names = std::collections::HashSet::new();
    for value in list {
        let kernel = kernel(value)?;
        if !names.insert(kernel.name.clone()) {
            return Err(fail(format!("kernel {} is listed twice", kernel.name)));
        }
        kernels.push(kernel);
    }
    Ok((target, kernels))
}

fn get<'a>(map: &'a Value, key: &str) -> Option<&'a Value> {
    map.as_map()?.iter().find(|(k, _)| k.as_str() == Some(key)).map(|(_, v)| v)
}

fn text(map: &Value, key: &str, whose: &str) -> Result<String, CodeObjectError> {
    let value = get(map, key).and_then(Value::as_str).filter(|s| !s.is_empty());
    Ok(value.ok_or_else(|| fail(format!("{whose}: {key} is missing or not text")))?.to_owned())
}

fn number(map: &Value, key: &str, whose: &str) -> Result<u32, CodeObjectError> {
    let value = get(map, key).and_then(Value::as_u64).and_then(|v| u32::try_from(v).ok());
    value.ok_or_else(|| fail(format!("{whose}: {key} is missing or no 32-bit number")))
}

fn optional(map: &Value, key: &str, default: u32, whose: &str) -> Result<u32, CodeObjectError> {
    if get(map, key).is_none() { Ok(default) } else { number(map, key, whose) }
}

fn kernel(value: &Value) -> Result<Kernel, CodeObjectError> {
    let name = text(value, ".name", "a kernel")?;
    let size = number(value, ".kernarg_segment_size", &name)?;
    let mut args = Vec::new();
    if let Some(list) = get(value, ".args") {
        for (index, entry) in
            list.as_array().ok_or_else(|| fail(format!("{name}: .args is not a list")))?.iter().enumerate()
        {
            args.push(argument(entry, &format!("{name} argument {index}"), size)?);
        }
    }
    args.sort_by_key(|a| a.offset);
    let wavefront_size = number(value, ".wavefront_size", &name)?;
    if wavefront_size != 32 {
        return Err(fail(format!("{name}: .wavefront_size is {wavefront_size}, 32 is needed")));
    }
    let max_flat_workgroup_size = number(value, ".max_flat_workgroup_size", &name)?;
    if !(1..=1024).contains(&max_flat_workgroup_size) {
        return Err(fail(format!("{name}: .max_flat_workgroup_size is {max_flat_workgroup_size}, 1 to 1024 exist")));
    }
    if size > 65_536 {
        return Err(fail(format!("{name}: .kernarg_segment_size is {size}, at most 65536 is given")));
    }
    Ok(Kernel {
        symbol: text(value, ".symbol", &name)?,
        entry: 0,
        code_bytes: 0,
        descriptor: Descriptor {
            address: 0,
            group_segment_fixed_size: 0,
            private_segment_fixed_size: 0,
            kernarg_size: 0,
            rsrc1: 0,
            rsrc2: 0,
            rsrc3: 0,
            properties: 0,
        },
        args,
        kernarg_segment_size: size,
        kernarg_segment_align: optional(value, ".kernarg_segment_align", 8, &name)?,
        group_segment_fixed_size: number(value, ".group_segment_fixed_size", &name)?,
        private_segment_fixed_size: number(value, ".private_segment_fixed_size", &name)?,
        max_flat_workgroup_size,
        wavefront_size,
        sgpr_count: optional(value, ".sgpr_count", 0, &name)?,
        vgpr_count: optional(value, ".vgpr_count", 0, &name)?,
        sgpr_spill_count: optional(value, ".sgpr_spill_count", 0, &name)?,
        vgpr_spill_count: optional(value, ".vgpr_spill_count", 0, &name)?,
        uses_dynamic_stack: get(value, ".uses_dynamic_stack").and_then(Value::as_bool).unwrap_or(false),
        name,
    })
}

fn argument(value: &Value, whose: &str, segment: u32) -> Result<Arg, CodeObjectError> {
    let (offset, size) = (number(value, ".offset", whose)?, number(value, ".size", whose)?);
    if offset.checked_add(size).is_none_or(|end| end > segment) {
        return Err(fail(format!("{whose}: {size} bytes at {offset} pass the kernarg segment of {segment} bytes")));
    }
    Ok(Arg {
        name: get(value, ".name").and_then(Value::as_str).map(str::to_owned),
        offset,
        size,
        value_kind: text(value, ".value_kind", whose)?,
        address_space: get(value, ".address_space").and_then(Value::as_str).map(str::to_owned),
    })
}
