//! The one table of HIP symbols: vendor names, vendor types, no wrapping. A macro makes the struct of function pointers and its
//! loader out of the rows. It deliberately knows no search order ([`super::library`]) and no ownership (the other siblings).
#![allow(
    non_snake_case,
    non_camel_case_types,
    reason = "the vendor's names are kept so that its manual can be searched"
)]

use std::ffi::{c_char, c_int, c_uint, c_void};

/// Status of a call; 0 is success.
pub type hipError_t = c_int;
/// Ordinal of a device.
pub type hipDevice_t = c_int;
/// Opaque handle of a stream; null is the default stream.
pub type hipStream_t = *mut c_void;
/// Opaque handle of an event.
pub type hipEvent_t = *mut c_void;
/// Opaque handle of a loaded code object.
pub type hipModule_t = *mut c_void;
/// Opaque handle of a kernel.
pub type hipFunction_t = *mut c_void;
/// Opaque handle of a graph of work.
pub type hipGraph_t = *mut c_void;
/// Opaque handle of a node of one.
pub type hipGraphNode_t = *mut c_void;
/// Opaque handle of a graph that can be launched.
pub type hipGraphExec_t = *mut c_void;

/// `hipUUID`: 16 bytes, on AMD cards the ASCII digits of the card's unique id.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct hipUUID {
    /// The bytes, not terminated.
    pub bytes: [u8; 16],
}

/// What [`Hip::load`] needs of a library: an address for a name.
pub(super) trait Symbols {
    /// The address of `name`, or why there is none.
    fn address(&self, name: &str) -> Result<*mut c_void, String>;
}

/// A symbol that the library does not have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("symbol `{symbol}` is missing ({reason})")]
pub struct MissingSymbol {
    /// The vendor's name.
    pub symbol: &'static str,
    /// What the loader said.
    pub reason: String,
}

macro_rules! hip_symbols {
    (
        required { $( fn $name:ident($($arg:ident: $ty:ty),* $(,)?) $(-> $ret:ty)?; )* }
        optional { $( fn $oname:ident($($oarg:ident: $oty:ty),* $(,)?) $(-> $oret:ty)?; )* }
    ) => {
        /// Function pointers into one opened library.
        pub struct Hip {
            $( #[doc = concat!("`", stringify!($name), "`")] pub $name: unsafe extern "C" fn($($arg: $ty),*) -> hip_symbols!(@ret $($ret)?), )*
            $( #[doc = concat!("`", stringify!($oname), "`, absent in some versions")] pub $oname: Option<unsafe extern "C" fn($($oarg: $oty),*) -> hip_symbols!(@ret $($oret)?)>, )*
        }

        /// Every symbol without which a library is refused.
        pub const REQUIRED: &[&str] = &[$(stringify!($name)),*];

        impl Hip {
            /// Looks up each row.
            ///
            /// # Safety
            /// 1. Each name that `library` has is the function of that name in AMD's headers, with the signature of its row.
            /// 2. The library stays loaded for as long as the result or a copy of its pointers is used.
            pub(super) unsafe fn load(library: &impl Symbols) -> Result<Self, MissingSymbol> {
                Ok(Self {
                    $( $name: {
                        let address = library
                            .address(stringify!($name))
                            .map_err(|reason| MissingSymbol { symbol: stringify!($name), reason })?;
                        // SAFETY: point 1 gives the address this signature; data and function pointers are alike on this target.
                        unsafe { std::mem::transmute::<*mut c_void, unsafe extern "C" fn($($ty),*) -> hip_symbols!(@ret $($ret)?)>(address) }
                    }, )*
                    $( $oname: library.address(stringify!($oname)).ok().map(|address| {
                        // SAFETY: as above: point 1 holds for optional rows too.
                        unsafe { std::mem::transmute::<*mut c_void, unsafe extern "C" fn($($oty),*) -> hip_symbols!(@ret $($oret)?)>(address) }
                    }), )*
                })
            }
        }
    };
    (@ret) => { hipError_t };
    (@ret $ret:ty) => { $ret };
}

hip_symbols! {
    required {
        fn hipInit(flags: c_uint);
        fn hipRuntimeGetVersion(version: *mut c_int);
        fn hipGetErrorName(status: hipError_t) -> *const c_char;
        fn hipGetDeviceCount(count: *mut c_int);
        fn hipSetDevice(device: c_int);
        fn hipDeviceGetName(name: *mut c_char, len: c_int, device: hipDevice_t);
        fn hipDeviceTotalMem(bytes: *mut usize, device: hipDevice_t);
        fn hipDeviceGetAttribute(value: *mut c_int, attribute: c_int, device: c_int);
        fn hipMemGetInfo(free: *mut usize, total: *mut usize);
        fn hipMalloc(out: *mut *mut c_void, bytes: usize);
        fn hipFree(pointer: *mut c_void);
        fn hipMemcpyAsync(dst: *mut c_void, src: *const c_void, bytes: usize, kind: c_int, stream: hipStream_t);
        fn hipMemsetAsync(dst: *mut c_void, value: c_int, bytes: usize, stream: hipStream_t);
        fn hipStreamCreateWithFlags(out: *mut hipStream_t, flags: c_uint);
        fn hipStreamDestroy(stream: hipStream_t);
        fn hipStreamSynchronize(stream: hipStream_t);
        fn hipEventCreate(out: *mut hipEvent_t);
        fn hipEventDestroy(event: hipEvent_t);
        fn hipEventRecord(event: hipEvent_t, stream: hipStream_t);
        fn hipEventSynchronize(event: hipEvent_t);
        fn hipEventElapsedTime(ms: *mut f32, start: hipEvent_t, stop: hipEvent_t);
        fn hipModuleLoadData(out: *mut hipModule_t, image: *const c_void);
        fn hipModuleUnload(module: hipModule_t);
        fn hipModuleGetFunction(out: *mut hipFunction_t, module: hipModule_t, name: *const c_char);
        fn hipModuleLaunchKernel(
            function: hipFunction_t,
            grid_x: c_uint, grid_y: c_uint, grid_z: c_uint,
            block_x: c_uint, block_y: c_uint, block_z: c_uint,
            lds_bytes: c_uint, stream: hipStream_t, kernel_params: *mut *mut c_void, extra: *mut *mut c_void,
        );
        fn hipStreamBeginCapture(stream: hipStream_t, mode: c_int);
        fn hipStreamEndCapture(stream: hipStream_t, out: *mut hipGraph_t);
        fn hipGraphInstantiate(
            out: *mut hipGraphExec_t, graph: hipGraph_t, error_node: *mut hipGraphNode_t, log: *mut c_char, log_bytes: usize,
        );
        fn hipGraphLaunch(exec: hipGraphExec_t, stream: hipStream_t);
        fn hipGraphDestroy(graph: hipGraph_t);
        fn hipGraphExecDestroy(exec: hipGraphExec_t);
        fn hipDeviceSynchronize();
    }
    optional {
        // ROCm 5.2 has it as well; where it is missing one workgroup is taken to fit.
        fn hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(
            blocks: *mut c_int, function: hipFunction_t, block_size: c_int, lds_bytes: usize,
        );
        // The struct behind a properties call differs between majors: the versioned name says which one it fills.
        fn hipGetDevicePropertiesR0600(properties: *mut c_void, device: c_int);
        fn hipGetDeviceProperties(properties: *mut c_void, device: c_int);
        fn hipDeviceGetUuid(uuid: *mut hipUUID, device: hipDevice_t);
        // Only the emulator has it: why the device is lost or this thread's last launch was refused; valid until this thread asks again.
        fn zynferEmulatorLastReport() -> *const c_char;
        // Likewise: counts launches from now on (not 0) or no longer, and what was counted, as JSON valid until this thread asks again.
        fn zynferEmulatorCounting(on: c_int);
        fn zynferEmulatorCounters() -> *const c_char;
        // Only the emulator has it: wave-instructions of all launches of this process so far.
        fn zynferEmulatorInstructions() -> u64;
    }
}

/// `hipMemcpyHostToDevice`.
pub const COPY_HOST_TO_DEVICE: c_int = 1;
/// `hipMemcpyDeviceToHost`.
pub const COPY_DEVICE_TO_HOST: c_int = 2;
/// `hipMemcpyDeviceToDevice`.
pub const COPY_DEVICE_TO_DEVICE: c_int = 3;
/// `hipStreamNonBlocking`: no implicit order with the null stream.
pub const STREAM_NON_BLOCKING: c_uint = 1;
/// `hipStreamCaptureModeThreadLocal`: calls that could wait for the card are refused on the capturing thread, not on others.
pub const CAPTURE_THREAD_LOCAL: c_int = 1;
/// `HIP_LAUNCH_PARAM_BUFFER_POINTER`.
pub const LAUNCH_PARAM_BUFFER_POINTER: *mut c_void = std::ptr::without_provenance_mut(1);
/// `HIP_LAUNCH_PARAM_BUFFER_SIZE`.
pub const LAUNCH_PARAM_BUFFER_SIZE: *mut c_void = std::ptr::without_provenance_mut(2);
/// `HIP_LAUNCH_PARAM_END`.
pub const LAUNCH_PARAM_END: *mut c_void = std::ptr::without_provenance_mut(3);

/// Attribute numbers of `hipDeviceAttribute_t`; the same in the headers of ROCm 5.2 and 6 (tests/hip/abi.rs asks a compiler).
pub mod attribute {
    use std::ffi::c_int;
    /// 1 on a GPU that shares the CPU's memory.
    pub const INTEGRATED: c_int = 16;
    /// LDS bytes one workgroup may use.
    pub const MAX_SHARED_MEMORY_PER_BLOCK: c_int = 74;
    /// Multiprocessors: workgroup processors on RDNA.
    pub const MULTIPROCESSOR_COUNT: c_int = 63;
    /// PCI bus.
    pub const PCI_BUS_ID: c_int = 67;
    /// PCI device.
    pub const PCI_DEVICE_ID: c_int = 68;
    /// PCI domain.
    pub const PCI_DOMAIN_ID: c_int = 69;
    /// Lanes per wave as the compiler sees them.
    pub const WARP_SIZE: c_int = 87;
}

/// Layout facts of `hipDeviceProp_t`, of which only `gcnArchName` is read: all else has a call of its own.
pub mod properties {
    /// Bytes given to the call: more than any known version of the struct (1472 for R0600, 792 for 5.2), so that a longer one
    /// of a later version still lands inside.
    pub const BUFFER_BYTES: usize = 8192;
    /// Length of the name array.
    pub const ARCH_NAME_BYTES: usize = 256;
    /// Offset of `gcnArchName` in `hipDeviceProp_tR0600`.
    pub const ARCH_NAME_OFFSET_R0600: usize = 1160;
    /// Offset of `gcnArchName` in the struct of ROCm 5 behind `hipGetDeviceProperties`.
    pub const ARCH_NAME_OFFSET_R0000: usize = 396;
}

/// Status numbers the host tells apart.
pub mod status {
    use super::hipError_t;
    /// Done.
    pub const SUCCESS: hipError_t = 0;
    /// Not enough device memory.
    pub const OUT_OF_MEMORY: hipError_t = 2;
    /// No card at all.
    pub const NO_DEVICE: hipError_t = 100;
    /// What `hipInit` of ROCm 5 says when there is no card.
    pub const INVALID_DEVICE: hipError_t = 101;
    /// The code object has nothing for this card.
    pub const NO_BINARY_FOR_GPU: hipError_t = 209;
    /// A name is not in the module.
    pub const NOT_FOUND: hipError_t = 500;
    /// An exception on the device.
    pub const LAUNCH_FAILURE: hipError_t = 719;
}
