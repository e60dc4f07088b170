//! What the one device says of itself: one table of fields with their offsets in both layouts of `hipDeviceProp_t`, and attributes that
//! name a field, so that the three answers cannot differ. The facts are an R9700's where they bound a launch; clocks are 0, because this
//! machine has no time, and so are images, caches of L1 and peers, because it has none. Offsets are judged by tests/hip against headers.

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
/// LDS of a workgroup processor, which HIP calls a multiprocessor.
pub const MULTIPROCESSOR_LDS_BYTES: u32 = 2 * LDS_BYTES;
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
/// Workgroup processors.
pub const MULTIPROCESSORS: i32 = 32;
/// Work-items of a workgroup processor: 4 SIMDs of 16 waves.
pub const RESIDENT_ITEMS: i32 = 64 * WAVE;
/// Lanes of a wave.
pub const WAVE: i32 = 32;

const REGISTERS: i32 = 1536 * 32 * 4;
const L2_BYTES: i32 = 8 << 20;
const BUS_BITS: i32 = 256;
const ITEMS: i32 = MAX_WORKGROUP_ITEMS as i32;
const GRID_YZ: i32 = MAX_GRID_YZ as i32 - 1;
/// Bits of `hipDeviceArch_t`: atomics of 32 and 64 bits, doubles, votes, ballots and shuffles (0 to 10), system fence (12), 3D grids (15).
const ARCH_FLAGS: i32 = 0x7ff | 1 << 12 | 1 << 15;

/// Contents of a field.
#[derive(Debug, Clone, Copy)]
pub enum Value {
    /// `int` or `unsigned`.
    Int(i32),
    /// An array of them.
    Ints(&'static [i32]),
    /// `size_t` or a pointer.
    Size(u64),
    /// `size_t`: bytes of device memory.
    Memory,
    /// An array of characters, terminated.
    Text(&'static CStr),
    /// An array of characters, not terminated.
    Bytes(&'static [u8]),
}

use Value::{Bytes, Int, Ints, Memory, Size, Text};

/// A field of the properties struct.
#[derive(Debug, Clone, Copy)]
pub struct Field {
    /// The header's name.
    pub name: &'static str,
    /// Offset in `hipDeviceProp_tR0600`, where it has the field.
    pub r0600: Option<usize>,
    /// Offset in the struct of ROCm 5, where it has the field.
    pub r0000: Option<usize>,
    /// Contents.
    pub value: Value,
}

const fn field(name: &'static str, r0600: Option<usize>, r0000: Option<usize>, value: Value) -> Field {
    Field { name, r0600, r0000, value }
}

/// Every field of both layouts, reserved ones excepted.
#[rustfmt::skip]
pub const FIELDS: &[Field] = &[
    field("name", Some(0), Some(0), Text(NAME)),
    field("uuid", Some(256), None, Bytes(&UUID)),
    field("luid", Some(272), None, Bytes(&[0; 8])),
    field("luidDeviceNodeMask", Some(280), None, Int(0)),
    field("totalGlobalMem", Some(288), Some(256), Memory),
    field("sharedMemPerBlock", Some(296), Some(264), Size(LDS_BYTES as u64)),
    field("regsPerBlock", Some(304), Some(272), Int(REGISTERS)),
    field("warpSize", Some(308), Some(276), Int(WAVE)),
    field("memPitch", Some(312), Some(712), Size(i32::MAX as u64)),
    field("maxThreadsPerBlock", Some(320), Some(280), Int(ITEMS)),
    field("maxThreadsDim", Some(324), Some(284), Ints(&[ITEMS; 3])),
    field("maxGridSize", Some(336), Some(296), Ints(&[MAX_GRID_X as i32, GRID_YZ, GRID_YZ])),
    field("clockRate", Some(348), Some(308), Int(0)),
    field("totalConstMem", Some(352), Some(320), Size(i32::MAX as u64)),
    field("major", Some(360), Some(328), Int(12)),
    field("minor", Some(364), Some(332), Int(0)),
    field("textureAlignment", Some(368), Some(720), Size(256)),
    field("texturePitchAlignment", Some(376), Some(728), Size(256)),
    field("deviceOverlap", Some(384), None, Int(0)),
    field("multiProcessorCount", Some(388), Some(336), Int(MULTIPROCESSORS)),
    field("kernelExecTimeoutEnabled", Some(392), Some(736), Int(0)),
    field("integrated", Some(396), Some(652), Int(0)),
    field("canMapHostMemory", Some(400), Some(388), Int(1)),
    field("computeMode", Some(404), Some(348), Int(0)),
    field("maxTexture1D", Some(408), Some(668), Int(0)),
    field("maxTexture1DMipmap", Some(412), None, Int(0)),
    field("maxTexture1DLinear", Some(416), Some(664), Int(0)),
    field("maxTexture2D", Some(420), Some(672), Ints(&[0; 2])),
    field("maxTexture2DMipmap", Some(428), None, Ints(&[0; 2])),
    field("maxTexture2DLinear", Some(436), None, Ints(&[0; 3])),
    field("maxTexture2DGather", Some(448), None, Ints(&[0; 2])),
    field("maxTexture3D", Some(456), Some(680), Ints(&[0; 3])),
    field("maxTexture3DAlt", Some(468), None, Ints(&[0; 3])),
    field("maxTextureCubemap", Some(480), None, Int(0)),
    field("maxTexture1DLayered", Some(484), None, Ints(&[0; 2])),
    field("maxTexture2DLayered", Some(492), None, Ints(&[0; 3])),
    field("maxTextureCubemapLayered", Some(504), None, Ints(&[0; 2])),
    field("maxSurface1D", Some(512), None, Int(0)),
    field("maxSurface2D", Some(516), None, Ints(&[0; 2])),
    field("maxSurface3D", Some(524), None, Ints(&[0; 3])),
    field("maxSurface1DLayered", Some(536), None, Ints(&[0; 2])),
    field("maxSurface2DLayered", Some(544), None, Ints(&[0; 3])),
    field("maxSurfaceCubemap", Some(556), None, Int(0)),
    field("maxSurfaceCubemapLayered", Some(560), None, Ints(&[0; 2])),
    field("surfaceAlignment", Some(568), None, Size(256)),
    field("concurrentKernels", Some(576), Some(360), Int(0)),
    field("ECCEnabled", Some(580), Some(740), Int(0)),
    field("pciBusID", Some(584), Some(368), Int(0)),
    field("pciDeviceID", Some(588), Some(372), Int(0)),
    field("pciDomainID", Some(592), Some(364), Int(0)),
    field("tccDriver", Some(596), Some(744), Int(0)),
    field("asyncEngineCount", Some(600), None, Int(0)),
    field("unifiedAddressing", Some(604), None, Int(1)),
    field("memoryClockRate", Some(608), Some(312), Int(0)),
    field("memoryBusWidth", Some(612), Some(316), Int(BUS_BITS)),
    field("l2CacheSize", Some(616), Some(340), Int(L2_BYTES)),
    field("persistingL2CacheMaxSize", Some(620), None, Int(0)),
    field("maxThreadsPerMultiProcessor", Some(624), Some(344), Int(RESIDENT_ITEMS)),
    field("streamPrioritiesSupported", Some(628), None, Int(1)),
    field("globalL1CacheSupported", Some(632), None, Int(0)),
    field("localL1CacheSupported", Some(636), None, Int(0)),
    field("sharedMemPerMultiprocessor", Some(640), None, Size(MULTIPROCESSOR_LDS_BYTES as u64)),
    field("regsPerMultiprocessor", Some(648), None, Int(REGISTERS)),
    field("managedMemory", Some(652), Some(772), Int(1)),
    field("isMultiGpuBoard", Some(656), Some(384), Int(0)),
    field("multiGpuBoardGroupID", Some(660), None, Int(0)),
    field("hostNativeAtomicSupported", Some(664), None, Int(0)),
    field("singleToDoublePrecisionPerfRatio", Some(668), None, Int(0)),
    field("pageableMemoryAccess", Some(672), Some(784), Int(0)),
    field("concurrentManagedAccess", Some(676), Some(780), Int(1)),
    field("computePreemptionSupported", Some(680), None, Int(0)),
    field("canUseHostPointerForRegisteredMem", Some(684), None, Int(0)),
    field("cooperativeLaunch", Some(688), Some(656), Int(1)),
    field("cooperativeMultiDeviceLaunch", Some(692), Some(660), Int(0)),
    field("sharedMemPerBlockOptin", Some(696), None, Size(LDS_BYTES as u64)),
    field("pageableMemoryAccessUsesHostPageTables", Some(704), Some(788), Int(0)),
    field("directManagedMemAccessFromHost", Some(708), Some(776), Int(1)),
    field("maxBlocksPerMultiProcessor", Some(712), None, Int(32)),
    field("accessPolicyMaxWindowSize", Some(716), None, Int(0)),
    field("reservedSharedMemPerBlock", Some(720), None, Size(0)),
    field("hostRegisterSupported", Some(728), None, Int(1)),
    field("sparseHipArraySupported", Some(732), None, Int(0)),
    field("hostRegisterReadOnlySupported", Some(736), None, Int(0)),
    field("timelineSemaphoreInteropSupported", Some(740), None, Int(0)),
    field("memoryPoolsSupported", Some(744), None, Int(1)),
    field("gpuDirectRDMASupported", Some(748), None, Int(0)),
    field("gpuDirectRDMAFlushWritesOptions", Some(752), None, Int(0)),
    field("gpuDirectRDMAWritesOrdering", Some(756), None, Int(0)),
    field("memoryPoolSupportedHandleTypes", Some(760), None, Int(0)),
    field("deferredMappingHipArraySupported", Some(764), None, Int(0)),
    field("ipcEventSupported", Some(768), None, Int(0)),
    field("clusterLaunch", Some(772), None, Int(0)),
    field("unifiedFunctionPointers", Some(776), None, Int(0)),
    field("gcnArchName", Some(1160), Some(396), Text(ARCH)),
    field("maxSharedMemoryPerMultiProcessor", Some(1416), Some(376), Size(MULTIPROCESSOR_LDS_BYTES as u64)),
    field("clockInstructionRate", Some(1424), Some(352), Int(0)),
    field("arch", Some(1428), Some(356), Int(ARCH_FLAGS)),
    field("hdpMemFlushCntl", Some(1432), Some(696), Size(0)),
    field("hdpRegFlushCntl", Some(1440), Some(704), Size(0)),
    field("cooperativeMultiDeviceUnmatchedFunc", Some(1448), Some(748), Int(0)),
    field("cooperativeMultiDeviceUnmatchedGridDim", Some(1452), Some(752), Int(0)),
    field("cooperativeMultiDeviceUnmatchedBlockDim", Some(1456), Some(756), Int(0)),
    field("cooperativeMultiDeviceUnmatchedSharedMem", Some(1460), Some(760), Int(0)),
    field("isLargeBar", Some(1464), Some(764), Int(0)),
    field("gcnArch", None, Some(392), Int(1201)),
    field("asicRevision", Some(1468), Some(768), Int(0)),
];

/// Attributes that are a field: number, name of the field, which of its ints.
#[rustfmt::skip]
pub const ATTRIBUTES: &[(i32, &str, usize)] = &[
    (0, "ECCEnabled", 0), // EccEnabled
    (1, "accessPolicyMaxWindowSize", 0), // AccessPolicyMaxWindowSize
    (2, "asyncEngineCount", 0), // AsyncEngineCount
    (3, "canMapHostMemory", 0), // CanMapHostMemory
    (4, "canUseHostPointerForRegisteredMem", 0), // CanUseHostPointerForRegisteredMem
    (5, "clockRate", 0), // ClockRate
    (6, "computeMode", 0), // ComputeMode
    (7, "computePreemptionSupported", 0), // ComputePreemptionSupported
    (8, "concurrentKernels", 0), // ConcurrentKernels
    (9, "concurrentManagedAccess", 0), // ConcurrentManagedAccess
    (10, "cooperativeLaunch", 0), // CooperativeLaunch
    (11, "cooperativeMultiDeviceLaunch", 0), // CooperativeMultiDeviceLaunch
    (12, "deviceOverlap", 0), // DeviceOverlap
    (13, "directManagedMemAccessFromHost", 0), // DirectManagedMemAccessFromHost
    (14, "globalL1CacheSupported", 0), // GlobalL1CacheSupported
    (15, "hostNativeAtomicSupported", 0), // HostNativeAtomicSupported
    (16, "integrated", 0), // Integrated
    (17, "isMultiGpuBoard", 0), // IsMultiGpuBoard
    (18, "kernelExecTimeoutEnabled", 0), // KernelExecTimeout
    (19, "l2CacheSize", 0), // L2CacheSize
    (20, "localL1CacheSupported", 0), // LocalL1CacheSupported
    (22, "luidDeviceNodeMask", 0), // LuidDeviceNodeMask
    (23, "major", 0), // ComputeCapabilityMajor
    (24, "managedMemory", 0), // ManagedMemory
    (25, "maxBlocksPerMultiProcessor", 0), // MaxBlocksPerMultiProcessor
    (26, "maxThreadsDim", 0), // MaxBlockDimX
    (27, "maxThreadsDim", 1), // MaxBlockDimY
    (28, "maxThreadsDim", 2), // MaxBlockDimZ
    (29, "maxGridSize", 0), // MaxGridDimX
    (30, "maxGridSize", 1), // MaxGridDimY
    (31, "maxGridSize", 2), // MaxGridDimZ
    (32, "maxSurface1D", 0), // MaxSurface1D
    (33, "maxSurface1DLayered", 0), // MaxSurface1DLayered
    (34, "maxSurface2D", 0), // MaxSurface2D
    (35, "maxSurface2DLayered", 0), // MaxSurface2DLayered
    (36, "maxSurface3D", 0), // MaxSurface3D
    (37, "maxSurfaceCubemap", 0), // MaxSurfaceCubemap
    (38, "maxSurfaceCubemapLayered", 0), // MaxSurfaceCubemapLayered
    (39, "maxTexture1D", 0), // MaxTexture1DWidth
    (40, "maxTexture1DLayered", 0), // MaxTexture1DLayered
    (41, "maxTexture1DLinear", 0), // MaxTexture1DLinear
    (42, "maxTexture1DMipmap", 0), // MaxTexture1DMipmap
    (43, "maxTexture2D", 0), // MaxTexture2DWidth
    (44, "maxTexture2D", 1), // MaxTexture2DHeight
    (45, "maxTexture2DGather", 0), // MaxTexture2DGather
    (46, "maxTexture2DLayered", 0), // MaxTexture2DLayered
    (47, "maxTexture2DLinear", 0), // MaxTexture2DLinear
    (48, "maxTexture2DMipmap", 0), // MaxTexture2DMipmap
    (49, "maxTexture3D", 0), // MaxTexture3DWidth
    (50, "maxTexture3D", 1), // MaxTexture3DHeight
    (51, "maxTexture3D", 2), // MaxTexture3DDepth
    (52, "maxTexture3DAlt", 0), // MaxTexture3DAlt
    (53, "maxTextureCubemap", 0), // MaxTextureCubemap
    (54, "maxTextureCubemapLayered", 0), // MaxTextureCubemapLayered
    (55, "maxThreadsDim", 0), // MaxThreadsDim
    (56, "maxThreadsPerBlock", 0), // MaxThreadsPerBlock
    (57, "maxThreadsPerMultiProcessor", 0), // MaxThreadsPerMultiProcessor
    (58, "memPitch", 0), // MaxPitch
    (59, "memoryBusWidth", 0), // MemoryBusWidth
    (60, "memoryClockRate", 0), // MemoryClockRate
    (61, "minor", 0), // ComputeCapabilityMinor
    (62, "multiGpuBoardGroupID", 0), // MultiGpuBoardGroupID
    (63, "multiProcessorCount", 0), // MultiprocessorCount
    (65, "pageableMemoryAccess", 0), // PageableMemoryAccess
    (66, "pageableMemoryAccessUsesHostPageTables", 0), // PageableMemoryAccessUsesHostPageTables
    (67, "pciBusID", 0), // PciBusId
    (68, "pciDeviceID", 0), // PciDeviceId
    (69, "pciDomainID", 0), // PciDomainID
    (70, "persistingL2CacheMaxSize", 0), // PersistingL2CacheMaxSize
    (71, "regsPerBlock", 0), // MaxRegistersPerBlock
    (72, "regsPerMultiprocessor", 0), // MaxRegistersPerMultiprocessor
    (73, "reservedSharedMemPerBlock", 0), // ReservedSharedMemPerBlock
    (74, "sharedMemPerBlock", 0), // MaxSharedMemoryPerBlock
    (75, "sharedMemPerBlockOptin", 0), // SharedMemPerBlockOptin
    (76, "sharedMemPerMultiprocessor", 0), // SharedMemPerMultiprocessor
    (77, "singleToDoublePrecisionPerfRatio", 0), // SingleToDoublePrecisionPerfRatio
    (78, "streamPrioritiesSupported", 0), // StreamPrioritiesSupported
    (79, "surfaceAlignment", 0), // SurfaceAlignment
    (80, "tccDriver", 0), // TccDriver
    (81, "textureAlignment", 0), // TextureAlignment
    (82, "texturePitchAlignment", 0), // TexturePitchAlignment
    (83, "totalConstMem", 0), // TotalConstantMemory
    (84, "totalGlobalMem", 0), // TotalGlobalMem
    (85, "unifiedAddressing", 0), // UnifiedAddressing
    (87, "warpSize", 0), // WarpSize
    (88, "memoryPoolsSupported", 0), // MemoryPoolsSupported
    (90, "hostRegisterSupported", 0), // HostRegisterSupported
    (91, "memoryPoolSupportedHandleTypes", 0), // MemoryPoolSupportedHandleTypes
    (10000, "clockInstructionRate", 0), // ClockInstructionRate
    (10002, "maxSharedMemoryPerMultiProcessor", 0), // MaxSharedMemoryPerMultiprocessor
    (10007, "cooperativeMultiDeviceUnmatchedFunc", 0), // CooperativeMultiDeviceUnmatchedFunc
    (10008, "cooperativeMultiDeviceUnmatchedGridDim", 0), // CooperativeMultiDeviceUnmatchedGridDim
    (10009, "cooperativeMultiDeviceUnmatchedBlockDim", 0), // CooperativeMultiDeviceUnmatchedBlockDim
    (10010, "cooperativeMultiDeviceUnmatchedSharedMem", 0), // CooperativeMultiDeviceUnmatchedSharedMem
    (10011, "isLargeBar", 0), // IsLargeBar
    (10012, "asicRevision", 0), // AsicRevision
    (10015, "multiProcessorCount", 0), // PhysicalMultiProcessorCount
];

/// Attributes that are no field: virtual memory management, waiting for a value in a stream and images are not there (0), memory is
/// coherent (1), and the clock that kernels read runs at 100 MHz.
pub const OTHER_ATTRIBUTES: [(i32, i32); 5] = [(89, 0), (10013, 0), (10014, 0), (10016, 1), (10017, 100_000)];

/// The value of `hipDeviceAttribute_t` number `attribute`, where an `int` can hold one. A size beyond an `int` is the largest `int`.
pub fn attribute(attribute: i32, total_memory: u64) -> Option<i32> {
    if let Some((_, value)) = OTHER_ATTRIBUTES.iter().find(|(number, _)| *number == attribute) {
        return Some(*value);
    }
    let (_, name, index) = ATTRIBUTES.iter().find(|(number, ..)| *number == attribute)?;
    let clamp = |size: u64| i32::try_from(size).unwrap_or(i32::MAX);
    match FIELDS.iter().find(|field| field.name == *name)?.value {
        Int(value) => Some(value),
        Ints(values) => values.get(*index).copied(),
        Size(value) => Some(clamp(value)),
        Memory => Some(clamp(total_memory)),
        Bytes(_) | Text(_) => None,
    }
}

/// The bytes of `hipDeviceProp_tR0600`.
pub fn r0600(total_memory: u64) -> Vec<u8> {
    fill(R0600_BYTES, |field| field.r0600, total_memory)
}

/// The bytes of ROCm 5's `hipDeviceProp_t`.
pub fn r0000(total_memory: u64) -> Vec<u8> {
    fill(R0000_BYTES, |field| field.r0000, total_memory)
}

fn fill(bytes: usize, offset: impl Fn(&Field) -> Option<usize>, total_memory: u64) -> Vec<u8> {
    let mut out = vec![0u8; bytes];
    for field in FIELDS {
        let Some(at) = offset(field) else { continue };
        let mut put = |at: usize, value: &[u8]| out[at..at + value.len()].copy_from_slice(value);
        match field.value {
            Int(value) => put(at, &value.to_le_bytes()),
            Ints(values) => {
                for (index, value) in values.iter().enumerate() {
                    put(at + 4 * index, &value.to_le_bytes());
                }
            }
            Size(value) => put(at, &value.to_le_bytes()),
            Memory => put(at, &total_memory.to_le_bytes()),
            Text(text) => put(at, text.to_bytes()),
            Bytes(value) => put(at, value),
        }
    }
    out
}
