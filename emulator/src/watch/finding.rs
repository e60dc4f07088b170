//! What the checks report. A [`Finding`] is a defect of the kernel that execution survives; what it does not survive is a
//! [`crate::Fault`].

use std::sync::{Mutex, PoisonError};

/// Kinds of defect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Class {
    /// A register, or a lane of it, that nothing wrote decides an address, EXEC, a branch or a stored value.
    UninitializedRegisterRead,
    /// A byte of LDS is read that nothing wrote in this workgroup.
    UninitializedLdsRead,
    /// A byte of an allocation is used that neither host nor kernel wrote.
    UninitializedGlobalRead,
    /// A byte of scratch is used that nothing wrote.
    UninitializedScratchRead,
}

/// One defect with its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Kind.
    pub class: Class,
    /// Address of the instruction.
    pub pc: u64,
    /// Workgroup id.
    pub workgroup: [u32; 3],
    /// Wave within the workgroup.
    pub wave: u32,
    /// Lane, where one is to blame.
    pub lane: Option<u32>,
    /// What happened, in words.
    pub message: String,
}

/// The findings of a launch: one for each place and kind.
#[derive(Debug, Default)]
pub struct Findings(Mutex<Vec<Finding>>);

impl Findings {
    /// Notes one, unless its place is known for it already.
    pub fn report(&self, finding: Finding) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !all.iter().any(|known| (known.class, known.pc) == (finding.class, finding.pc)) {
            all.push(finding);
        }
    }
    /// All of them, in the order they came.
    pub fn take(&self) -> Vec<Finding> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
