//! Cards: what a library reports about each, and which one is used. It deliberately never takes a card it was not asked for: an
//! architecture without machine code here is left out, and said so.

use std::ffi::{c_char, c_int};
use std::fmt;
use std::sync::Arc;

use super::error::HipError;
use super::ffi::{attribute, hipUUID, properties, status};
use super::library::Library;

/// Facts about one card, from calls that keep their meaning between majors.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct DeviceInfo {
    /// Number by which HIP calls it, after environment variables hid others.
    pub ordinal: u32,
    /// Marketing name; it varies between drivers, so nothing is decided by it.
    pub name: String,
    /// Architecture with its features, as `gfx1201` or `gfx90a:sramecc+:xnack-`.
    pub arch: String,
    /// `GPU-` and the card's unique id, where the library tells it.
    pub uuid: Option<String>,
    /// PCI address `domain:bus:device.0`.
    pub pci: String,
    /// Device memory.
    pub vram_bytes: u64,
    /// Whether it shares the CPU's memory.
    pub integrated: bool,
    /// What HIP calls multiprocessors: workgroup processors on RDNA.
    pub multiprocessor_count: u32,
}

impl DeviceInfo {
    /// The architecture without features.
    pub fn base_arch(&self) -> &str {
        self.arch.split(':').next().unwrap_or_default()
    }
}

impl fmt::Display for DeviceInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let gib = self.vram_bytes as f64 / (1u64 << 30) as f64;
        write!(f, "device {} ({}, {}, {gib:.1} GiB)", self.ordinal, self.name, self.arch)
    }
}

/// Every card the library sees; empty when it sees none.
///
/// # Errors
/// A call that fails for another reason than "no device".
pub fn devices(library: &Arc<Library>) -> Result<Vec<DeviceInfo>, HipError> {
    let hip = &library.hip;
    // SAFETY: takes a plain integer, 0 is the only flag defined.
    match unsafe { (hip.hipInit)(0) } {
        status::NO_DEVICE | status::INVALID_DEVICE => return Ok(Vec::new()),
        other => library.check("hipInit", other)?,
    }
    let mut count: c_int = 0;
    // SAFETY: writes one int to a live local.
    match unsafe { (hip.hipGetDeviceCount)(&raw mut count) } {
        status::NO_DEVICE | status::INVALID_DEVICE => return Ok(Vec::new()),
        other => library.check("hipGetDeviceCount", other)?,
    }
    (0..count).map(|ordinal| describe(library, ordinal)).collect()
}

fn describe(library: &Library, ordinal: c_int) -> Result<DeviceInfo, HipError> {
    let hip = &library.hip;
    let mut name = [0u8; 256];
    // SAFETY: writes at most the given length to a live local of that length.
    let status = unsafe { (hip.hipDeviceGetName)(name.as_mut_ptr().cast::<c_char>(), 256, ordinal) };
    library.check("hipDeviceGetName", status)?;
    let mut vram_bytes = 0usize;
    // SAFETY: writes one size to a live local.
    let status = unsafe { (hip.hipDeviceTotalMem)(&raw mut vram_bytes, ordinal) };
    library.check("hipDeviceTotalMem", status)?;
    let domain = query(library, attribute::PCI_DOMAIN_ID, ordinal)?;
    let bus = query(library, attribute::PCI_BUS_ID, ordinal)?;
    let device = query(library, attribute::PCI_DEVICE_ID, ordinal)?;
    Ok(DeviceInfo {
        ordinal: ordinal.unsigned_abs(),
        name: until_nul(&name),
        arch: arch_name(library, ordinal)?,
        uuid: uuid(library, ordinal),
        pci: format!("{domain:04x}:{bus:02x}:{device:02x}.0"),
        vram_bytes: vram_bytes as u64,
        integrated: query(library, attribute::INTEGRATED, ordinal)? != 0,
        multiprocessor_count: query(library, attribute::MULTIPROCESSOR_COUNT, ordinal)?.unsigned_abs(),
    })
}

fn query(library: &Library, attribute: c_int, ordinal: c_int) -> Result<c_int, HipError> {
    let mut value: c_int = 0;
    // SAFETY: writes one int to a live local; any attribute number is allowed, an unknown one is a status.
    let status = unsafe { (library.hip.hipDeviceGetAttribute)(&raw mut value, attribute, ordinal) };
    library.check("hipDeviceGetAttribute", status).map_err(|error| error.about(format!("attribute {attribute}")))?;
    Ok(value)
}

/// `gcnArchName`: the only fact that has no call of its own. The struct that holds it differs between majors, so the versioned
/// symbol is taken, and the unversioned one only from a library whose major is the one whose header gave the offset.
fn arch_name(library: &Library, ordinal: c_int) -> Result<String, HipError> {
    let (call, function, offset) = match (library.hip.hipGetDevicePropertiesR0600, library.hip.hipGetDeviceProperties) {
        (Some(function), _) => ("hipGetDevicePropertiesR0600", function, properties::ARCH_NAME_OFFSET_R0600),
        (None, Some(function)) => ("hipGetDeviceProperties", function, properties::ARCH_NAME_OFFSET_R0000),
        (None, None) => {
            let detail = "neither hipGetDevicePropertiesR0600 nor hipGetDeviceProperties is in the library".into();
            return Err(HipError { call: "hipGetDeviceProperties", status: status::NOT_FOUND, detail });
        }
    };
    // u64s, because the struct holds pointers and sizes.
    let mut buffer = vec![0u64; properties::BUFFER_BYTES / 8];
    // SAFETY: writes one properties struct; the buffer is aligned for it and larger than any known version of it.
    let status = unsafe { function(buffer.as_mut_ptr().cast(), ordinal) };
    library.check(call, status)?;
    Ok(until_nul(&bytemuck::cast_slice::<u64, u8>(&buffer)[offset..offset + properties::ARCH_NAME_BYTES]))
}

/// The card's unique id in the spelling of `ROCR_VISIBLE_DEVICES` and `rocminfo`.
fn uuid(library: &Library, ordinal: c_int) -> Option<String> {
    let function = library.hip.hipDeviceGetUuid?;
    let mut uuid = hipUUID::default();
    // SAFETY: writes 16 bytes to a live local of that size.
    if unsafe { function(&raw mut uuid, ordinal) } != status::SUCCESS || uuid.bytes == [0; 16] {
        return None;
    }
    let digits = match std::str::from_utf8(&uuid.bytes) {
        Ok(text) if text.bytes().all(|byte| byte.is_ascii_hexdigit()) => text.to_ascii_lowercase(),
        _ => uuid.bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
    };
    Some(format!("GPU-{digits}"))
}

fn until_nul(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes.split(|&byte| byte == 0).next().unwrap_or_default()).into_owned()
}

/// Which card the user wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Selector {
    /// The supported card with the most memory.
    Auto,
    /// HIP's number.
    Ordinal(u32),
    /// The unique id, `GPU-` and hexadecimal digits.
    Uuid(String),
}

impl std::str::FromStr for Selector {
    type Err = DeviceError;
    fn from_str(text: &str) -> Result<Self, DeviceError> {
        if text.eq_ignore_ascii_case("auto") {
            return Ok(Self::Auto);
        }
        let digits = text.strip_prefix("GPU-").or_else(|| text.strip_prefix("gpu-"));
        match digits {
            Some(digits) if !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_hexdigit()) => {
                Ok(Self::Uuid(format!("GPU-{}", digits.to_ascii_lowercase())))
            }
            None => text.parse().map(Self::Ordinal).map_err(|_| DeviceError::Selector(text.into())),
            Some(_) => Err(DeviceError::Selector(text.into())),
        }
    }
}

/// Why no card was chosen.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DeviceError {
    /// Not a number, an id or `auto`.
    #[error("device `{0}` is neither a number nor GPU-<hexadecimal id> nor auto")]
    Selector(String),
    /// The library sees none.
    #[error("no AMD GPU is visible to HIP")]
    NoDevice,
    /// The number asked for is too large.
    #[error("device {asked} was asked for, but HIP sees {count} device(s), numbered from 0")]
    NoSuchOrdinal {
        /// What was asked.
        asked: u32,
        /// How many there are.
        count: usize,
    },
    /// No card has that id.
    #[error("device {asked} was asked for, but HIP sees {seen}")]
    NoSuchUuid {
        /// What was asked.
        asked: String,
        /// The ids there are.
        seen: String,
    },
    /// The card asked for, or every card, is of another architecture.
    #[error("{found} has no machine code in this build, which holds {supported}")]
    Unsupported {
        /// The card or cards.
        found: String,
        /// Architectures of the code object.
        supported: String,
    },
}

/// A chosen card, and why the others were not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    /// The card.
    pub device: DeviceInfo,
    /// The others, each with the reason.
    pub left_out: Vec<(DeviceInfo, String)>,
}

/// Chooses by `selector` among cards whose architecture is one of `supported`; among several the one with most memory, then the
/// lowest number.
///
/// # Errors
/// [`DeviceError`]: nothing there, nothing that fits, or the card asked for is not there or does not fit.
pub fn choose(devices: &[DeviceInfo], selector: &Selector, supported: &[&str]) -> Result<Choice, DeviceError> {
    if devices.is_empty() {
        return Err(DeviceError::NoDevice);
    }
    let fits = |device: &DeviceInfo| supported.contains(&device.base_arch());
    let list = |devices: &mut dyn Iterator<Item = String>| devices.collect::<Vec<_>>().join(", ");
    let device = match selector {
        Selector::Auto => devices
            .iter()
            .filter(|device| fits(device))
            .max_by_key(|device| (device.vram_bytes, std::cmp::Reverse(device.ordinal)))
            .ok_or_else(|| DeviceError::Unsupported {
                found: list(&mut devices.iter().map(ToString::to_string)),
                supported: supported.join(", "),
            })?,
        Selector::Ordinal(ordinal) => devices
            .iter()
            .find(|device| device.ordinal == *ordinal)
            .ok_or(DeviceError::NoSuchOrdinal { asked: *ordinal, count: devices.len() })?,
        Selector::Uuid(uuid) => {
            devices.iter().find(|device| device.uuid.as_ref() == Some(uuid)).ok_or_else(|| DeviceError::NoSuchUuid {
                asked: uuid.clone(),
                seen: list(&mut devices.iter().map(|device| match &device.uuid {
                    Some(id) => id.clone(),
                    None => format!("device {} without an id", device.ordinal),
                })),
            })?
        }
    };
    if !fits(device) {
        return Err(DeviceError::Unsupported { found: device.to_string(), supported: supported.join(", ") });
    }
    let left_out = devices
        .iter()
        .filter(|other| other.ordinal != device.ordinal)
        .map(|other| (other.clone(), reason_left_out(other, device, selector, supported)))
        .collect();
    Ok(Choice { device: device.clone(), left_out })
}

fn reason_left_out(other: &DeviceInfo, chosen: &DeviceInfo, selector: &Selector, supported: &[&str]) -> String {
    if !supported.contains(&other.base_arch()) {
        format!("{} has no machine code in this build ({} has)", other.base_arch(), supported.join(", "))
    } else if *selector != Selector::Auto {
        format!("device {} was asked for", chosen.ordinal)
    } else if other.vram_bytes < chosen.vram_bytes {
        format!("{} bytes of memory, the chosen one has {}", other.vram_bytes, chosen.vram_bytes)
    } else {
        format!("equal to device {}, which comes first", chosen.ordinal)
    }
}
