//! From a [`Launch`] to what every wave starts with: checked sizes, kernel arguments with the hidden ones, the dispatch packet, user
//! SGPRs.

use super::{Launch, LaunchError, LoadedModule, MAX_LDS_BYTES, MAX_WORKGROUP, Options};
use crate::code_object::Kernel;
use crate::memory::{ArgumentBlock, Memory};
use crate::wave::{LaunchInfo, PRIVATE_APERTURE, SHARED_APERTURE};

/// Bytes of the dispatch packet.
const PACKET_BYTES: u64 = 64;
/// Bytes of zeros that stand for the queue.
const QUEUE_BYTES: u64 = 256;
const AXES: [char; 3] = ['x', 'y', 'z'];

/// A launch that can start.
pub(super) struct Plan<'a> {
    pub kernel: &'a Kernel,
    pub info: LaunchInfo,
    pub options: Options,
    /// User SGPRs from s0.
    pub user: Vec<u32>,
    /// Address of the first instruction.
    pub entry: u64,
    /// LDS bytes of a workgroup.
    pub lds_bytes: u32,
    /// Scratch bytes of a work-item.
    pub scratch_bytes: u32,
    /// Work-items of a workgroup.
    pub items: u32,
    /// Waves of a workgroup.
    pub waves: u32,
    /// Workgroups in all.
    pub groups: u64,
    /// First address of the arguments, and one past what may be read with them: padding, packet and queue.
    pub arguments: (u64, u64),
    _arguments: ArgumentBlock<'a>,
}

pub(super) fn plan<'a>(memory: &'a Memory, module: &'a LoadedModule, launch: &Launch) -> Result<Plan<'a>, LaunchError> {
    let kernel = module.kernel(launch.kernel).ok_or_else(|| unknown(module, launch.kernel))?;
    check(kernel, launch)?;
    let explicit = kernel.explicit_bytes();
    if launch.kernarg.len() < explicit as usize || launch.kernarg.len() > kernel.kernarg_segment_size as usize {
        return Err(LaunchError::Kernarg {
            given: launch.kernarg.len(),
            needed: explicit,
            segment: kernel.kernarg_segment_size,
        });
    }
    // Scalar loads of whole dwords reach into the padding (GFX1201.md H20), so the segment is rounded up to 64 bytes.
    let segment = u64::from(kernel.kernarg_segment_size).next_multiple_of(64);
    let block = memory.arguments(segment + PACKET_BYTES + QUEUE_BYTES)?;
    let kernarg = block.address();
    let (packet, queue) = (kernarg + segment, kernarg + segment + PACKET_BYTES);
    let mut bytes: Vec<u8> = launch.options.fill.to_le_bytes().into_iter().cycle().take(segment as usize).collect();
    bytes[..launch.kernarg.len()].copy_from_slice(launch.kernarg);
    for arg in kernel.args.iter().filter(|a| a.is_hidden()) {
        let value = hidden(&arg.value_kind, launch, queue)?;
        let (at, size) = (arg.offset as usize, (arg.size as usize).min(8));
        bytes[at..at + size].copy_from_slice(&value.to_le_bytes()[..size]);
    }
    memory.write(kernarg, &bytes)?;
    memory.write(packet, &dispatch_packet(module, kernel, launch, kernarg))?;
    memory.fill(queue, QUEUE_BYTES, 0)?;
    let items = launch.block.iter().product::<u32>();
    let scratch_bytes = scratch_bytes(kernel, launch)?;
    Ok(Plan {
        kernel,
        info: LaunchInfo {
            grid: launch.grid,
            block: launch.block,
            code_start: module.code.start,
            code_end: module.code.end,
        },
        options: launch.options.clone(),
        user: user_sgprs(kernel, packet, queue, kernarg, scratch_bytes),
        entry: module.base() + kernel.entry,
        lds_bytes: kernel.group_segment_fixed_size + launch.dynamic_lds,
        scratch_bytes,
        items,
        waves: items.div_ceil(32),
        groups: launch.grid.iter().map(|&n| n as u64).product(),
        arguments: (kernarg, queue + QUEUE_BYTES),
        _arguments: block,
    })
}

fn unknown(module: &LoadedModule, name: &str) -> LaunchError {
    let kernels = module.object().kernels();
    let mut known = kernels.iter().take(8).map(|k| k.name.as_str()).collect::<Vec<_>>().join(", ");
    if kernels.len() > 8 {
        known += &format!(" and {} more", kernels.len() - 8);
    }
    LaunchError::UnknownKernel { name: name.into(), known: if known.is_empty() { "none".into() } else { known } }
}

/// The rules of `hipModuleLaunchKernel` (GFX1201.md §3.6), in its order.
fn check(kernel: &Kernel, launch: &Launch) -> Result<(), LaunchError> {
    for (axis, limit) in AXES.into_iter().zip([i32::MAX as u32, 65_536, 65_536]) {
        let value = launch.grid[AXES.iter().position(|&a| a == axis).unwrap_or(0)];
        if value == 0 || value > limit {
            return Err(LaunchError::Grid { axis, value, limit });
        }
    }
    for (axis, &value) in AXES.into_iter().zip(&launch.block) {
        if value == 0 {
            return Err(LaunchError::Block { axis });
        }
    }
    let items = launch.block.iter().fold(1u64, |product, &n| product.saturating_mul(n as u64));
    if items > MAX_WORKGROUP {
        return Err(LaunchError::Workgroup { items, limit: MAX_WORKGROUP });
    }
    if items > u64::from(kernel.max_flat_workgroup_size) {
        return Err(LaunchError::KernelWorkgroup { items, limit: kernel.max_flat_workgroup_size });
    }
    for ((axis, &groups), &items) in AXES.into_iter().zip(&launch.grid).zip(&launch.block) {
        let items = groups as u64 * items as u64;
        let limit = u32::MAX as u64;
        if items > limit {
            return Err(LaunchError::GridItems { axis, items, limit });
        }
    }
    let fixed = kernel.group_segment_fixed_size;
    if fixed.saturating_add(launch.dynamic_lds) > MAX_LDS_BYTES {
        return Err(LaunchError::Lds { fixed, dynamic: launch.dynamic_lds, limit: MAX_LDS_BYTES });
    }
    Ok(())
}

/// Scratch bytes of a work-item, if a workgroup's fit the limit.
fn scratch_bytes(kernel: &Kernel, launch: &Launch) -> Result<u32, LaunchError> {
    let dynamic = if kernel.uses_dynamic_stack { launch.options.stack_bytes } else { 0 };
    let bytes = (u64::from(kernel.private_segment_fixed_size) + u64::from(dynamic)).next_multiple_of(4);
    let waves = launch.block.iter().product::<u32>().div_ceil(32);
    let (all, limit) = (bytes * 32 * u64::from(waves), launch.options.scratch_limit);
    match u32::try_from(bytes) {
        Ok(bytes) if all <= limit => Ok(bytes),
        _ => Err(LaunchError::Scratch { bytes: all, limit }),
    }
}

/// The value of a hidden argument; zero where the runtime feature behind it is not in use.
fn hidden(kind: &str, launch: &Launch, queue: u64) -> Result<u64, LaunchError> {
    let [gx, gy, gz] = launch.grid.map(u64::from);
    let [bx, by, bz] = launch.block.map(u64::from);
    let dims = if gz * bz > 1 {
        3
    } else if gy * by > 1 {
        2
    } else {
        1
    };
    Ok(match kind {
        "hidden_block_count_x" => gx,
        "hidden_block_count_y" => gy,
        "hidden_block_count_z" => gz,
        "hidden_group_size_x" => bx,
        "hidden_group_size_y" => by,
        "hidden_group_size_z" => bz,
        // There are no partial workgroups: the grid is given in whole ones.
        "hidden_remainder_x" | "hidden_remainder_y" | "hidden_remainder_z" => 0,
        "hidden_global_offset_x" | "hidden_global_offset_y" | "hidden_global_offset_z" => 0,
        "hidden_grid_dims" => dims,
        "hidden_dynamic_lds_size" => launch.dynamic_lds as u64,
        "hidden_queue_ptr" => queue,
        "hidden_private_base" => PRIVATE_APERTURE as u64,
        "hidden_shared_base" => SHARED_APERTURE as u64,
        "hidden_none"
        | "hidden_printf_buffer"
        | "hidden_hostcall_buffer"
        | "hidden_default_queue"
        | "hidden_completion_action"
        | "hidden_multigrid_sync_arg"
        | "hidden_heap_v1" => 0,
        other => return Err(LaunchError::Hidden(other.into())),
    })
}

/// The AQL packet as far as device code reads it.
fn dispatch_packet(module: &LoadedModule, kernel: &Kernel, launch: &Launch, kernarg: u64) -> [u8; 64] {
    let mut packet = [0; 64];
    let mut put = |at: usize, bytes: &[u8]| packet[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, &2u16.to_le_bytes()); // kernel dispatch
    put(2, &3u16.to_le_bytes()); // dimensions
    for (i, (&items, &groups)) in launch.block.iter().zip(&launch.grid).enumerate() {
        put(4 + 2 * i, &(items as u16).to_le_bytes());
        put(12 + 4 * i, &(items.wrapping_mul(groups)).to_le_bytes());
    }
    put(24, &kernel.private_segment_fixed_size.to_le_bytes());
    put(28, &(kernel.group_segment_fixed_size + launch.dynamic_lds).to_le_bytes());
    put(32, &(module.base() + kernel.descriptor.address).to_le_bytes());
    put(40, &kernarg.to_le_bytes());
    packet
}

/// User SGPRs in ABI order, each only if its property asks for it.
fn user_sgprs(kernel: &Kernel, packet: u64, queue: u64, kernarg: u64, scratch_bytes: u32) -> Vec<u32> {
    let asks = |bit: u32| kernel.descriptor.properties >> bit & 1 != 0;
    let dispatch_id = 0;
    let mut user = Vec::new();
    for (bit, value) in [(1, packet), (2, queue), (3, kernarg), (4, dispatch_id)] {
        if asks(bit) {
            user.extend([value as u32, (value >> 32) as u32]);
        }
    }
    if asks(6) {
        user.push(scratch_bytes);
    }
    user
}
