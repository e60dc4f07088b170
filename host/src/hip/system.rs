//! What the operating system says about the card's driver, for `doctor` and for the message when no card is there: the device
//! nodes, who may open them, and the variables that hide cards. It deliberately decides nothing: whether there is a card is asked
//! of HIP alone, since under WSL there is no `/dev/kfd` and yet a card.

use std::ffi::OsString;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// What became of opening `/dev/kfd`.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case", tag = "state")]
pub enum Driver {
    /// It opens: the amdgpu kernel driver with compute is there.
    Present,
    /// WSL: the driver is Windows', reached through `/dev/dxg`.
    Wsl,
    /// It is not there.
    Absent {
        /// Whether this looks like the inside of a container.
        container: bool,
    },
    /// It is there and may not be opened.
    Denied {
        /// The group that owns it, by name where known, else its number.
        group: String,
        /// Whether this process is in that group.
        member: bool,
    },
    /// It is there and opening fails for another reason, as out of memory.
    Failed {
        /// The system's words.
        reason: String,
    },
}

/// What is looked at; given apart so that each case can be tried without the hardware.
#[derive(Debug)]
pub struct Surroundings {
    /// Result of opening `/dev/kfd` for reading and writing.
    pub kfd: Result<(), io::Error>,
    /// Owner group of `/dev/kfd`.
    pub kfd_group: Option<u32>,
    /// Whether `/dev/dxg` exists.
    pub dxg: bool,
    /// Groups of this process.
    pub groups: Vec<u32>,
    /// Content of `/etc/group`.
    pub group_file: String,
    /// Whether a container's marker file is there.
    pub container: bool,
}

impl Surroundings {
    /// This machine.
    pub fn here() -> Self {
        let kfd = Path::new("/dev/kfd");
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let groups = status.lines().filter(|line| line.starts_with("Groups:") || line.starts_with("Gid:"));
        Self {
            kfd: std::fs::OpenOptions::new().read(true).write(true).open(kfd).map(drop),
            kfd_group: std::fs::metadata(kfd).ok().map(|metadata| metadata.gid()),
            dxg: Path::new("/dev/dxg").exists(),
            groups: groups.flat_map(str::split_whitespace).filter_map(|word| word.parse().ok()).collect(),
            group_file: std::fs::read_to_string("/etc/group").unwrap_or_default(),
            container: ["/.dockerenv", "/run/.containerenv"].iter().any(|path| Path::new(path).exists()),
        }
    }

    /// The driver's state.
    pub fn driver(&self) -> Driver {
        match &self.kfd {
            Ok(()) => Driver::Present,
            Err(error) if error.kind() == io::ErrorKind::NotFound && self.dxg => Driver::Wsl,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Driver::Absent { container: self.container },
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                let id = self.kfd_group;
                let group = id.map_or_else(|| "render".into(), |id| group_name(&self.group_file, id));
                Driver::Denied { group, member: id.is_some_and(|id| self.groups.contains(&id)) }
            }
            Err(error) => Driver::Failed { reason: error.to_string() },
        }
    }
}

fn group_name(group_file: &str, id: u32) -> String {
    let named = group_file.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)?.parse() == Ok(id)).then(|| name.to_owned())
    });
    named.unwrap_or_else(|| id.to_string())
}

impl Driver {
    /// One line for the user: what is wrong and the exact fix; `None` when nothing is.
    pub fn advice(&self) -> Option<String> {
        match self {
            Self::Present => None,
            Self::Wsl => Some("WSL (ROCDXG): /dev/dxg is there and stands for /dev/kfd".into()),
            Self::Absent { container: true } => Some(
                "/dev/kfd is not in this container: start it with --device /dev/kfd --device /dev/dri --group-add render"
                    .into(),
            ),
            Self::Absent { container: false } => Some(
                "/dev/kfd does not exist: no amdgpu kernel driver is loaded (sudo modprobe amdgpu), or there is no AMD GPU"
                    .into(),
            ),
            Self::Denied { group, member: false } => Some(format!(
                "/dev/kfd may not be opened: add yourself to its group with sudo usermod -aG {group} $USER and log in again"
            )),
            Self::Denied { group, member: true } => Some(format!(
                "/dev/kfd may not be opened although this process is in its group {group}: look at its mode with ls -l /dev/kfd, \
                 in a container also at --device /dev/kfd"
            )),
            Self::Failed { reason } => Some(format!("/dev/kfd cannot be opened: {reason}")),
        }
    }
}

/// Variables by which HIP and ROCr leave cards out.
pub const HIDING_VARIABLES: [&str; 4] =
    ["HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL"];

/// One line for each variable that is set, also to nothing, and so may hide cards or renumber them.
pub fn hiding_variables(get: impl Fn(&str) -> Option<OsString>) -> Vec<String> {
    HIDING_VARIABLES
        .iter()
        .filter_map(|name| get(name).map(|value| (name, value)))
        .map(|(name, value)| {
            let value = value.to_string_lossy().into_owned();
            if value.is_empty() {
                format!("{name} is set and empty: it may hide every GPU")
            } else {
                format!("{name}={value} hides the GPUs it does not name and renumbers the rest")
            }
        })
        .collect()
}
