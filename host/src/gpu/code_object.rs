//! The code objects of this build: the kernels of `device` for gfx1201, inside the binary. They are deliberately not searched for at run
//! time: host and kernels agree on arguments because they come from one build. There are one or two of the same kernels, which differ
//! in the scope of atomics; `ZYNFER_CODE_OBJECT` chooses.

use std::fmt;

/// Architectures they hold machine code for: one, by the flags they were linked with (tests/hip/packing.rs compares).
pub const ARCHITECTURES: &[&str] = &[amdgpu_target::ARCH];

/// The variable that chooses: `agent`, `plain`, or nothing for the first of the two that is there.
pub const VARIABLE: &str = "ZYNFER_CODE_OBJECT";

/// How a code object was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// As rustc links it: atomics and fences order the whole system, and write back and throw away the L2 for it.
    Plain,
    /// The same with atomics and fences of agent scope, which is the GPU.
    Agent,
}

/// A code object.
#[derive(Debug, Clone, Copy)]
pub struct CodeObject {
    /// How it was made.
    pub kind: Kind,
    /// Its ELF image.
    pub image: &'static [u8],
}

/// The plain one; every build has it.
pub const PLAIN: CodeObject = CodeObject { kind: Kind::Plain, image: include_bytes!(env!("ZYNFER_PLAIN_CODE_OBJECT")) };

/// The one of agent scope, or why this build has none.
pub const AGENT: Result<CodeObject, &str> = agent();

#[cfg(agent_code_object)]
const fn agent() -> Result<CodeObject, &'static str> {
    Ok(CodeObject { kind: Kind::Agent, image: include_bytes!(env!("ZYNFER_AGENT_CODE_OBJECT")) })
}
#[cfg(not(agent_code_object))]
const fn agent() -> Result<CodeObject, &'static str> {
    Err(env!("ZYNFER_NO_AGENT_CODE_OBJECT"))
}

/// What is used unless something else is asked for.
pub const DEFAULT: CodeObject = match AGENT {
    Ok(object) => object,
    Err(_) => PLAIN,
};

/// The image of [`DEFAULT`].
pub const IMAGE: &[u8] = DEFAULT.image;

/// A choice that cannot be had.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChoiceError {
    /// The word means nothing.
    #[error("{VARIABLE}=`{0}` is neither `plain` nor `agent`")]
    Unknown(String),
    /// This build has no such code object.
    #[error("{VARIABLE}=`agent`: this program was built without it: {0}")]
    Absent(&'static str),
}

/// The code object that [`VARIABLE`] asks for.
///
/// # Errors
/// As [`choose`].
pub fn chosen() -> Result<CodeObject, ChoiceError> {
    let value = std::env::var_os(VARIABLE);
    choose(value.as_ref().map(|value| value.to_string_lossy()).as_deref())
}

/// The code object of this name; [`DEFAULT`] for none.
///
/// # Errors
/// [`ChoiceError`]: another word, or this build lacks it.
pub fn choose(value: Option<&str>) -> Result<CodeObject, ChoiceError> {
    match value {
        None | Some("") => Ok(DEFAULT),
        Some("plain") => Ok(PLAIN),
        Some("agent") => AGENT.map_err(ChoiceError::Absent),
        Some(value) => Err(ChoiceError::Unknown(value.into())),
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Plain => "plain",
            Self::Agent => "agent",
        })
    }
}
