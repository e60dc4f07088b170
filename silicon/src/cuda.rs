//! The one table of the driver's symbols, opened once per process. Names and signatures are those of NVIDIA's `cuda.h` for 12.0 and
//! later (the suffix `_v2` is part of the symbol). It wraps nothing.
#![allow(non_snake_case, reason = "the vendor's names are kept so that its manual can be searched")]

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::sync::OnceLock;

/// Status of a call; 0 is success.
pub type Status = c_int;
/// An opaque handle of the driver.
pub type Handle = *mut c_void;

/// Names the driver's library, for machines where the loader does not find it.
pub const LIBRARY_VARIABLE: &str = "ZYNFER_CUDA_LIBRARY";
const SONAME: &str = "libcuda.so.1";

macro_rules! symbols {
    ($( fn $name:ident($($arg:ident: $ty:ty),* $(,)?); )*) => {
        /// Function pointers into the driver.
        pub struct Cuda {
            $( pub $name: unsafe extern "C" fn($($ty),*) -> Status, )*
        }

        impl Cuda {
            fn load(library: &'static libloading::Library) -> Result<Self, String> {
                Ok(Self { $( $name: {
                    // SAFETY: the symbol is the function of this name in `cuda.h`, whose signature the row repeats.
                    let symbol = unsafe { library.get::<unsafe extern "C" fn($($ty),*) -> Status>(stringify!($name)) };
                    *symbol.map_err(|error| format!("symbol `{}`: {error}", stringify!($name)))?
                }, )* })
            }
        }
    };
}

symbols! {
    fn cuInit(flags: c_uint);
    fn cuGetErrorName(status: Status, name: *mut *const c_char);
    fn cuDeviceGetCount(count: *mut c_int);
    fn cuDeviceGet(device: *mut c_int, ordinal: c_int);
    fn cuDeviceGetName(name: *mut c_char, len: c_int, device: c_int);
    fn cuDeviceTotalMem_v2(bytes: *mut usize, device: c_int);
    fn cuDeviceGetAttribute(value: *mut c_int, attribute: c_int, device: c_int);
    fn cuDeviceGetUuid_v2(uuid: *mut c_void, device: c_int);
    fn cuDevicePrimaryCtxRetain(context: *mut Handle, device: c_int);
    fn cuCtxSetCurrent(context: Handle);
    fn cuCtxSynchronize();
    fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize);
    fn cuMemAlloc_v2(out: *mut u64, bytes: usize);
    fn cuMemFree_v2(pointer: u64);
    fn cuMemcpyAsync(dst: u64, src: u64, bytes: usize, stream: Handle);
    fn cuMemsetD8Async(dst: u64, value: u8, bytes: usize, stream: Handle);
    fn cuStreamCreate(out: *mut Handle, flags: c_uint);
    fn cuStreamDestroy_v2(stream: Handle);
    fn cuStreamSynchronize(stream: Handle);
    fn cuEventCreate(out: *mut Handle, flags: c_uint);
    fn cuEventDestroy_v2(event: Handle);
    fn cuEventRecord(event: Handle, stream: Handle);
    fn cuEventSynchronize(event: Handle);
    fn cuEventElapsedTime(ms: *mut f32, start: Handle, stop: Handle);
    fn cuModuleLoadDataEx(
        out: *mut Handle, image: *const c_void, count: c_uint, options: *mut c_int, values: *mut *mut c_void,
    );
    fn cuModuleUnload(module: Handle);
    fn cuModuleGetFunction(out: *mut Handle, module: Handle, name: *const c_char);
    fn cuFuncGetAttribute(value: *mut c_int, attribute: c_int, function: Handle);
    fn cuFuncSetAttribute(function: Handle, attribute: c_int, value: c_int);
    fn cuOccupancyMaxActiveBlocksPerMultiprocessor(
        blocks: *mut c_int, function: Handle, block_size: c_int, shared_bytes: usize,
    );
    fn cuLaunchKernel(
        function: Handle,
        grid_x: c_uint, grid_y: c_uint, grid_z: c_uint,
        block_x: c_uint, block_y: c_uint, block_z: c_uint,
        shared_bytes: c_uint, stream: Handle, params: *mut *mut c_void, extra: *mut *mut c_void,
    );
    fn cuStreamBeginCapture_v2(stream: Handle, mode: c_int);
    fn cuStreamEndCapture(stream: Handle, out: *mut Handle);
    fn cuGraphInstantiateWithFlags(out: *mut Handle, graph: Handle, flags: u64);
    fn cuGraphLaunch(exec: Handle, stream: Handle);
    fn cuGraphDestroy(graph: Handle);
    fn cuGraphExecDestroy(exec: Handle);
}

/// The driver, or why there is none.
pub fn cuda() -> Result<&'static Cuda, &'static str> {
    static CUDA: OnceLock<Result<Cuda, String>> = OnceLock::new();
    CUDA.get_or_init(open).as_ref().map_err(String::as_str)
}

fn open() -> Result<Cuda, String> {
    let name = std::env::var_os(LIBRARY_VARIABLE).unwrap_or_else(|| SONAME.into());
    let shown = name.to_string_lossy().into_owned();
    // SAFETY: the driver's library by its name or by the user's word; running its initialisers is what opening it means.
    let library = unsafe { libloading::Library::new(&name) }.map_err(|error| {
        let reason = std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string);
        format!("{shown} cannot be opened: {reason}")
    })?;
    // Never closed: the driver keeps threads.
    Cuda::load(Box::leak(Box::new(library))).map_err(|error| format!("{shown}: {error}"))
}
