//! What compiled host code registers before `main`: its code objects, and which address of the host stands for which kernel or variable.
//! All safe code. A code object is loaded when something of it is first used, as the device need not be there earlier.

use std::collections::HashMap;
use std::sync::Arc;

use crate::launch::Module;
use crate::runtime::{Outcome, Runtime, memory_status};
use crate::status::Status;

/// A variable of the host that stands for one of the device.
#[derive(Debug, Clone)]
struct Variable {
    binary: u64,
    name: String,
}

/// A code object, and the module it became.
#[derive(Debug)]
struct Binary {
    image: Outcome<Vec<u8>>,
    module: Option<u64>,
}

/// Everything registered.
#[derive(Debug, Default)]
pub struct Registered {
    binaries: HashMap<u64, Binary>,
    kernels: HashMap<u64, Variable>,
    variables: HashMap<u64, Variable>,
    managed: Vec<(Variable, u64)>,
}

impl Registered {
    /// Keeps a code object, or why there is none for this device: programs may hold code they never use.
    pub fn add(&mut self, handle: u64, image: Outcome<Vec<u8>>) {
        self.binaries.insert(handle, Binary { image, module: None });
    }

    /// `host` stands for the kernel `name`.
    pub fn kernel(&mut self, binary: u64, host: u64, name: &str) {
        self.kernels.insert(host, Variable { binary, name: name.to_owned() });
    }

    /// `host` stands for the variable `name`.
    pub fn variable(&mut self, binary: u64, host: u64, name: &str) {
        self.variables.insert(host, Variable { binary, name: name.to_owned() });
    }

    /// The variable `name` of the device is a pointer to managed memory at `address`.
    pub fn managed(&mut self, binary: u64, name: &str, address: u64) {
        self.managed.push((Variable { binary, name: name.to_owned() }, address));
    }

    /// Forgets which modules were loaded, but not what was registered.
    pub fn unload(&mut self) {
        for binary in self.binaries.values_mut() {
            binary.module = None;
        }
    }
}

impl Runtime {
    /// Forgets a code object and what stands for its parts.
    pub fn unregister(&mut self, handle: u64) {
        let Some(binary) = self.static_code.binaries.remove(&handle) else { return };
        self.static_code.kernels.retain(|_, kernel| kernel.binary != handle);
        self.static_code.variables.retain(|_, variable| variable.binary != handle);
        self.static_code.managed.retain(|(variable, _)| variable.binary != handle);
        if let Some(module) = binary.module {
            let _ = self.unload(module);
        }
    }

    /// Loads a code object.
    pub fn load(&mut self, image: &[u8]) -> Outcome<u64> {
        let module = Module::load(image, &mut self.memory)?;
        let handle = self.handle();
        self.modules.insert(handle, Arc::new(module));
        Ok(handle)
    }

    /// Unloads a module; its functions are stale from then on.
    pub fn unload(&mut self, module: u64) -> Outcome<Arc<Module>> {
        let unloaded = self.modules.remove(&module).ok_or(Status::INVALID_HANDLE)?;
        self.functions.retain(|_, (owner, _)| *owner != module);
        // Its image was allocated by its load, and nothing else frees it, so this cannot fail.
        let _ = self.memory.free(unloaded.base());
        if crate::stats::lines() {
            eprint!("{}", unloaded.counters());
        }
        crate::stats::write();
        Ok(unloaded)
    }

    /// The handle of a module's kernel.
    pub fn function_of(&mut self, module: u64, name: &str) -> Outcome<u64> {
        let kernel = self.modules.get(&module).ok_or(Status::INVALID_HANDLE)?.kernel(name).ok_or(Status::NOT_FOUND)?;
        let known = self.functions.iter().find(|(_, (owner, held))| *owner == module && Arc::ptr_eq(held, &kernel));
        if let Some((handle, _)) = known {
            return Ok(*handle);
        }
        let handle = self.handle();
        self.functions.insert(handle, (module, kernel));
        Ok(handle)
    }

    fn static_module(&mut self, binary: u64) -> Outcome<u64> {
        let found = self.static_code.binaries.get(&binary).ok_or(Status::INVALID_DEVICE_FUNCTION)?;
        if let Some(module) = found.module {
            return Ok(module);
        }
        let image = found.image.clone()?;
        let module = self.load(&image)?;
        for (variable, address) in self.static_code.managed.iter().filter(|(variable, _)| variable.binary == binary) {
            let pointer = self.modules.get(&module).and_then(|module| module.global(&variable.name));
            let (place, _) = pointer.ok_or(Status::INVALID_SYMBOL)?;
            self.memory.write(place, &address.to_le_bytes()).map_err(|error| memory_status(&error))?;
        }
        if let Some(found) = self.static_code.binaries.get_mut(&binary) {
            found.module = Some(module);
        }
        Ok(module)
    }

    /// The function that a handle or a registered address of the host stands for.
    pub fn any_function(&mut self, address: u64) -> Outcome<u64> {
        if self.functions.contains_key(&address) {
            return Ok(address);
        }
        let Variable { binary, name } =
            self.static_code.kernels.get(&address).cloned().ok_or(Status::INVALID_DEVICE_FUNCTION)?;
        let module = self.static_module(binary)?;
        self.function_of(module, &name).map_err(|_| Status::INVALID_DEVICE_FUNCTION)
    }

    /// Address and bytes of the device's variable that a registered address of the host stands for.
    pub fn symbol(&mut self, address: u64) -> Outcome<(u64, u64)> {
        let Variable { binary, name } =
            self.static_code.variables.get(&address).cloned().ok_or(Status::INVALID_SYMBOL)?;
        let module = self.static_module(binary)?;
        let module = self.modules.get(&module).ok_or(Status::INVALID_SYMBOL)?;
        module.global(&name).ok_or(Status::INVALID_SYMBOL)
    }
}
