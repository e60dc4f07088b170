//! What `zynfer devices` and `zynfer doctor` say about GPUs: facts as data, their wording for people is the command line's. Opens
//! libraries and asks; loads nothing onto a card.

use std::ffi::OsString;
use std::path::PathBuf;

use crate::hip::system::{Driver, Surroundings, hiding_variables};
use crate::hip::{DeviceInfo, Selector, Version, choose, devices as list};

use super::code_object;
use super::load::GpuKind;

/// What one backend's library says.
#[derive(Debug, Clone, serde::Serialize)]
pub struct LibraryFacts {
    /// `amd-hip` or `emulator`.
    pub backend: &'static str,
    /// The path or soname that opened.
    pub library: Option<PathBuf>,
    /// Its version.
    pub version: Option<Version>,
    /// Its cards.
    pub devices: Vec<DeviceFacts>,
    /// Why there is no library or no list.
    pub error: Option<String>,
}

/// One card.
#[derive(Debug, Clone, serde::Serialize)]
pub struct DeviceFacts {
    /// What the library reports.
    #[serde(flatten)]
    pub device: DeviceInfo,
    /// Whether `--device auto` would take it.
    pub chosen: bool,
    /// Why not.
    pub left_out: Option<String>,
}

/// Everything about GPUs on this machine.
#[derive(Debug, Clone, serde::Serialize)]
pub struct Facts {
    /// AMD's library.
    pub amd_hip: LibraryFacts,
    /// The emulator's.
    pub emulator: LibraryFacts,
    /// The kernel driver's device node.
    pub driver: Driver,
    /// What to do about the driver, one line.
    pub driver_advice: Option<String>,
    /// Variables that may hide cards, a line each.
    pub hiding_variables: Vec<String>,
    /// Architectures this build has machine code for.
    pub code_object_architectures: &'static [&'static str],
    /// Bytes of that code object.
    pub code_object_bytes: usize,
}

/// The cards behind one backend; never fails: an absent library is a fact too.
pub fn devices(kind: GpuKind, hip_library: Option<&OsString>) -> LibraryFacts {
    let mut facts =
        LibraryFacts { backend: kind.name(), library: None, version: None, devices: Vec::new(), error: None };
    let library = match kind.search(hip_library).open() {
        Ok(library) => library,
        Err(error) => {
            facts.error = Some(error.to_string());
            return facts;
        }
    };
    facts.library = Some(library.path().to_owned());
    facts.version = Some(library.version());
    let seen = match list(&library) {
        Ok(seen) => seen,
        Err(error) => {
            facts.error = Some(error.to_string());
            return facts;
        }
    };
    let choice = choose(&seen, &Selector::Auto, code_object::ARCHITECTURES);
    facts.devices = seen
        .iter()
        .map(|device| match &choice {
            Ok(choice) => DeviceFacts {
                device: device.clone(),
                chosen: choice.device.ordinal == device.ordinal,
                left_out: choice
                    .left_out
                    .iter()
                    .find(|(other, _)| other.ordinal == device.ordinal)
                    .map(|(_, why)| why.clone()),
            },
            Err(error) => DeviceFacts { device: device.clone(), chosen: false, left_out: Some(error.to_string()) },
        })
        .collect();
    facts
}

/// All facts for `doctor`.
pub fn facts(hip_library: Option<&OsString>) -> Facts {
    let driver = Surroundings::here().driver();
    Facts {
        amd_hip: devices(GpuKind::AmdHip, hip_library),
        emulator: devices(GpuKind::Emulator, None),
        driver_advice: driver.advice(),
        driver,
        hiding_variables: hiding_variables(|name| std::env::var_os(name)),
        code_object_architectures: code_object::ARCHITECTURES,
        code_object_bytes: code_object::IMAGE.len(),
    }
}
