//! What the one device says of itself: attributes by number and the two layouts of `hipDeviceProp_t`. The facts are an R9700's where
//! they bound a launch; clocks are 0, because this machine has no time. Offsets are of AMD's headers (ROCm 5.2 and 6).

use std::ffi::CStr;

/// Marketing name, so that nobody takes it for a card.
pub const NAME: &CStr = c"zynfer emulator (gfx1201)";
/// Architecture.
pub const ARCH: &CStr = c"gfx1201";
/// Unique id, digits as AMD cards give them.
pub const UUID: [u8; 16] = *b"7a796e6665720001";
/// PCI address as HIP writes it.
pub const PCI_BUS_ID: &CStr = c"0000:00:00.0";
/// Device memory of the card. Pages exist when touched.
pub const MEMORY_BYTES: u64 = 32 << 30;
/// LDS of one workgroup.
pub const LDS_BYTES: u32 = 64 << 10;
/// Work-items of one workgroup.
pub const MAX_WORKGROUP_ITEMS: u32 = 1024;
/// Largest grid along x, in workgroups.
pub const MAX_GRID_X: u32 = i32::MAX as u32;
/// Largest grid along y and z that a launch accepts.
pub const MAX_GRID_YZ: u32 = 65_536;
/// Bytes of `hipDeviceProp_tR0600`.
pub const R0600_BYTES: usize = 1472;
/// Bytes of the struct of ROCm 5.
pub const R0000_BYTES: usize = 792;

const MULTIPROCESSORS: i32 = 32;
const WAVE: i32 = 32;
const REGISTERS: i32 = 1536 * 32 * 4;
const L2_BYTES: i32 = 8 << 20;
const BUS_BITS: i32 = 256;
const RESIDENT_ITEMS: i32 = 64 * WAVE;

/// The value of `hipDeviceAttribute_t` number `attribute`, where this device has an answer. Attributes that ask for an ability it
/// lacks answer 0 as a card without it does.
pub fn attribute(attribute: i32) -> Option<i32> {
    Some(match attribute {
        // Abilities that are not there: ECC 0, mapped host memory 3, integrated 16, multi-GPU board 17, timeout 18, managed 24, …
        0..=4 | 6..=18 | 20 | 24 => 0,
        5 | 60 | 10000 => 0, // clocks: there is no time here
        19 => L2_BYTES,
        23 => 12, // compute capability major: the 12 of gfx1201
        61 => 0,
        25 => 32,
        26 | 27 | 28 | 56 => MAX_WORKGROUP_ITEMS as i32,
        29 => MAX_GRID_X as i32,
        30 | 31 => MAX_GRID_YZ as i32 - 1,
        57 => RESIDENT_ITEMS,
        58 => i32::MAX,
        59 => BUS_BITS,
        63 | 10015 => MULTIPROCESSORS,
        67..=69 => 0, // PCI bus, device, domain
        71 | 72 => REGISTERS,
        74 => LDS_BYTES as i32,
        76 | 10002 => 2 * LDS_BYTES as i32,
        83 => i32::MAX,
        87 => WAVE,
        _ => return None,
    })
}

struct Layout {
    bytes: usize,
    total_global_mem: usize,
    shared_mem_per_block: usize,
    warp_size: usize,
    max_threads_per_block: usize,
    max_threads_dim: usize,
    max_grid_size: usize,
    major: usize,
    multi_processor_count: usize,
    l2_cache_size: usize,
    memory_bus_width: usize,
    max_threads_per_multi_processor: usize,
    gcn_arch_name: usize,
    uuid: Option<usize>,
}

const R0600: Layout = Layout {
    bytes: R0600_BYTES,
    total_global_mem: 288,
    shared_mem_per_block: 296,
    warp_size: 308,
    max_threads_per_block: 320,
    max_threads_dim: 324,
    max_grid_size: 336,
    major: 360,
    multi_processor_count: 388,
    l2_cache_size: 616,
    memory_bus_width: 612,
    max_threads_per_multi_processor: 624,
    gcn_arch_name: 1160,
    uuid: Some(256),
};

const R0000: Layout = Layout {
    bytes: R0000_BYTES,
    total_global_mem: 256,
    shared_mem_per_block: 264,
    warp_size: 276,
    max_threads_per_block: 280,
    max_threads_dim: 284,
    max_grid_size: 296,
    major: 328,
    multi_processor_count: 336,
    l2_cache_size: 340,
    memory_bus_width: 316,
    max_threads_per_multi_processor: 344,
    gcn_arch_name: 396,
    uuid: None,
};

/// The bytes of `hipDeviceProp_tR0600`.
pub fn r0600(total_memory: u64) -> Vec<u8> {
    fill(&R0600, total_memory)
}

/// The bytes of ROCm 5's `hipDeviceProp_t`.
pub fn r0000(total_memory: u64) -> Vec<u8> {
    fill(&R0000, total_memory)
}

fn fill(layout: &Layout, total_memory: u64) -> Vec<u8> {
    let mut bytes = vec![0u8; layout.bytes];
    let mut put = |offset: usize, value: &[u8]| bytes[offset..offset + value.len()].copy_from_slice(value);
    put(0, NAME.to_bytes());
    put(layout.gcn_arch_name, ARCH.to_bytes());
    put(layout.total_global_mem, &total_memory.to_le_bytes());
    put(layout.shared_mem_per_block, &u64::from(LDS_BYTES).to_le_bytes());
    let items = MAX_WORKGROUP_ITEMS as i32;
    let ints = [
        (layout.warp_size, WAVE),
        (layout.max_threads_per_block, items),
        (layout.max_threads_dim, items),
        (layout.max_threads_dim + 4, items),
        (layout.max_threads_dim + 8, items),
        (layout.max_grid_size, MAX_GRID_X as i32),
        (layout.max_grid_size + 4, MAX_GRID_YZ as i32 - 1),
        (layout.max_grid_size + 8, MAX_GRID_YZ as i32 - 1),
        (layout.major, 12),
        (layout.multi_processor_count, MULTIPROCESSORS),
        (layout.l2_cache_size, L2_BYTES),
        (layout.memory_bus_width, BUS_BITS),
        (layout.max_threads_per_multi_processor, RESIDENT_ITEMS),
    ];
    for (offset, value) in ints {
        put(offset, &value.to_le_bytes());
    }
    if let Some(offset) = layout.uuid {
        put(offset, &UUID);
    }
    bytes
}
