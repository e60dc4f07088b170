//! Code objects on a card, their kernels, and the launch. Before a kernel may be launched its metadata is compared with the argument
//! layout the host packs; a difference is an error at load, not a wrong answer later. It deliberately does not know what an operation
//! means: [`super::kernels`] does.

use std::ffi::{CString, c_void};
use std::sync::Arc;

use amdgpu_target::Geometry;

use super::error::HipError;
use super::ffi::{
    LAUNCH_PARAM_BUFFER_POINTER, LAUNCH_PARAM_BUFFER_SIZE, LAUNCH_PARAM_END, hipFunction_t, hipModule_t, status,
};
use super::memory::Context;
use super::stream::Stream;

/// A code object loaded on a card.
pub struct Module {
    context: Arc<Context>,
    handle: hipModule_t,
    /// The image, kept because the runtime may read it again, and in u64s because ELF structures are aligned.
    _image: Vec<u64>,
}

// SAFETY: HIP allows a module to be used from any thread; each use enters the context on its own thread. Nothing changes after load.
unsafe impl Send for Module {}
// SAFETY: as above; shared use only looks functions up.
unsafe impl Sync for Module {}

impl Module {
    /// Loads `image`, a whole ELF code object as [`emulator::CodeObject::parse`] accepts it.
    ///
    /// # Errors
    /// The runtime refuses it, as when it holds nothing for this card.
    pub(super) fn load(
        context: &Arc<Context>,
        image: &[u8],
        checked: &emulator::CodeObject,
    ) -> Result<Arc<Self>, HipError> {
        // Having `checked` is the proof that the image is a whole ELF file: the runtime is given no length.
        let _ = checked;
        let mut copy = vec![0u64; image.len().div_ceil(8)];
        bytemuck::cast_slice_mut::<u64, u8>(&mut copy)[..image.len()].copy_from_slice(image);
        context.enter()?;
        let mut handle: hipModule_t = std::ptr::null_mut();
        // SAFETY: writes one handle to a live local; the image is a whole ELF file, so every offset in it stays inside, and it lives
        // as long as the module.
        let status = unsafe { (context.library.hip.hipModuleLoadData)(&raw mut handle, copy.as_ptr().cast()) };
        context.check("hipModuleLoadData", status).map_err(|error| match status {
            status::NO_BINARY_FOR_GPU => error.about(format!("the code object has nothing for {}", context.device())),
            _ => error.about(format!("{} bytes", image.len())),
        })?;
        Ok(Arc::new(Self { context: Arc::clone(context), handle, _image: copy }))
    }

    /// The kernel `name`; `kernarg_bytes` is the size of its argument block, already compared with its metadata.
    pub(super) fn function(self: &Arc<Self>, name: &'static str, kernarg_bytes: usize) -> Result<Function, HipError> {
        self.context.enter()?;
        let c_name = CString::new(name).map_err(|_| HipError {
            call: "hipModuleGetFunction",
            status: status::NOT_FOUND,
            detail: format!("kernel name `{name}` holds a NUL"),
        })?;
        let mut handle: hipFunction_t = std::ptr::null_mut();
        // SAFETY: writes one handle to a live local; the module is loaded and the name is terminated.
        let status =
            unsafe { (self.context.library.hip.hipModuleGetFunction)(&raw mut handle, self.handle, c_name.as_ptr()) };
        self.context.check("hipModuleGetFunction", status).map_err(|error| error.about(format!("kernel `{name}`")))?;
        Ok(Function { module: Arc::clone(self), handle, name, kernarg_bytes })
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        // A launch may still be queued, and code must outlive it. If the wait fails the device is lost and nothing runs any more.
        let _ = self.context.synchronize();
        if self.context.enter().is_ok() {
            // SAFETY: the handle is this value's own, unloaded once, here; every Function holds the module, so none is left, and the
            // wait above ended what they had queued. A failure leaves nothing to be done.
            let _ = unsafe { (self.context.library.hip.hipModuleUnload)(self.handle) };
        }
    }
}

/// A kernel of a loaded module.
pub struct Function {
    module: Arc<Module>,
    handle: hipFunction_t,
    name: &'static str,
    kernarg_bytes: usize,
}

// SAFETY: as for `Module`: a function's handle may be used from any thread and is never changed.
unsafe impl Send for Function {}
// SAFETY: as above.
unsafe impl Sync for Function {}

impl Function {
    /// Its symbol.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Workgroups of this geometry that one multiprocessor surely runs at once; 1 where the runtime does not tell.
    ///
    /// # Errors
    /// The runtime says that not even one fits, or fails.
    pub(super) fn resident(&self, geometry: Geometry) -> Result<u32, HipError> {
        let call = "hipModuleOccupancyMaxActiveBlocksPerMultiprocessor";
        let context = &self.module.context;
        let Some(occupancy) = context.library.hip.hipModuleOccupancyMaxActiveBlocksPerMultiprocessor else {
            return Ok(1);
        };
        context.enter()?;
        let mut blocks = 0;
        let (size, lds_bytes) = (geometry.workgroup_size() as i32, geometry.lds_bytes as usize);
        // SAFETY: writes one int to a live local; the handle is live: its owner is borrowed.
        let status = unsafe { occupancy(&raw mut blocks, self.handle, size, lds_bytes) };
        let about = || format!("kernel `{}`, {geometry:?}", self.name);
        context.check(call, status).map_err(|error| error.about(about()))?;
        match u32::try_from(blocks) {
            Ok(blocks) if blocks > 0 => Ok(blocks),
            _ => Err(HipError { call, status, detail: format!("{}: no workgroup fits a multiprocessor", about()) }),
        }
    }
}

impl Stream {
    /// Queues a kernel, or records it in a capture. `kernarg` is its argument block; HIP copies it during the call (into the queue, or
    /// into the graph's node), so it need not outlive it.
    ///
    /// # Errors
    /// A geometry the machine refuses, an argument block of another size than the kernel's, or HIP's refusal; the detail names the
    /// kernel.
    ///
    /// # Safety
    /// What the kernel's own `# Safety` list asks:
    /// 1. The block holds the kernel's arguments in order, each of its type.
    /// 2. Every address in it points to device memory of this stream's card with at least as many elements, alignment and, where
    ///    read, defined content as the contract says; nothing overlaps what must not.
    /// 3. `geometry` is what the contract's geometry function gives for these sizes, LDS bytes included.
    /// 4. Earlier work that writes what the kernel reads is on this stream, and the memory stays allocated until the stream is idle;
    ///    all of it was given to [`Stream::keep`] before, so that a capture keeps it for as long as the graph can be launched.
    pub(super) unsafe fn launch(
        &self,
        function: &Function,
        geometry: Geometry,
        kernarg: &[u8],
    ) -> Result<(), HipError> {
        let refuse = |detail: String| HipError { call: "hipModuleLaunchKernel", status: status::SUCCESS, detail };
        geometry.check().map_err(|error| refuse(format!("kernel `{}`: {error}", function.name)))?;
        if kernarg.len() != function.kernarg_bytes {
            return Err(refuse(format!(
                "kernel `{}`: {} bytes of arguments, {} expected",
                function.name,
                kernarg.len(),
                function.kernarg_bytes
            )));
        }
        if !Arc::ptr_eq(self.context(), &function.module.context) {
            return Err(refuse(format!("kernel `{}` belongs to another card than the stream", function.name)));
        }
        self.context().enter()?;
        let mut bytes = kernarg.len();
        let mut extra: [*mut c_void; 5] = [
            LAUNCH_PARAM_BUFFER_POINTER,
            kernarg.as_ptr().cast_mut().cast(),
            LAUNCH_PARAM_BUFFER_SIZE,
            (&raw mut bytes).cast(),
            LAUNCH_PARAM_END,
        ];
        let [x, y, z] = geometry.workgroups;
        let launch = self.context().library.hip.hipModuleLaunchKernel;
        // SAFETY: the handles are live (their owners are borrowed); `extra` is the five values HIP asks for and the blob behind it
        // lives through the call, which only reads it; what the kernel then does is the caller's points 1 to 4.
        let status = unsafe {
            launch(
                function.handle,
                x,
                y,
                z,
                geometry.workgroup_size(),
                1,
                1,
                geometry.lds_bytes,
                self.handle(),
                std::ptr::null_mut(),
                extra.as_mut_ptr(),
            )
        };
        self.context()
            .check("hipModuleLaunchKernel", status)
            .map_err(|error| error.about(format!("kernel `{}`, {geometry:?}", function.name)))?;
        self.keep_kernel(&function.module);
        Ok(())
    }
}
