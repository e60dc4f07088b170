//! The geometry of a launch: how many workgroups, of how many waves, with how much workgroup memory. Not the launch itself.

use core::fmt;

use crate::{LANES, MAX_LDS_BYTES, MAX_WAVES, MAX_WORKGROUPS};

/// How a kernel is launched. Workgroups are one-dimensional: work-item `i` is lane `i % 32` of wave `i / 32`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Geometry {
    /// Workgroups along x, y, z; none may be 0.
    pub workgroups: [u32; 3],
    /// Waves of each workgroup, 1 to 32.
    pub waves: u32,
    /// Workgroup memory given to each workgroup, in bytes.
    pub lds_bytes: u32,
}

/// Which limit a geometry breaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GeometryError {
    /// What was counted.
    pub what: &'static str,
    /// What the geometry asks for.
    pub asked: u64,
    /// What the machine or the runtime allows.
    pub allowed: u64,
}

impl fmt::Display for GeometryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "launch geometry: {} is {}, allowed is 1 to {}", self.what, self.asked, self.allowed)
    }
}

impl core::error::Error for GeometryError {}

impl Geometry {
    /// Work-items of a workgroup along x; y and z are 1.
    pub const fn workgroup_size(&self) -> u32 {
        self.waves * LANES
    }

    /// Refuses what the machine or the runtime would refuse, naming the number.
    ///
    /// # Errors
    /// A count of 0, more than [`MAX_WORKGROUPS`] workgroups, more than 2³² − 1 work-items along x, more than [`MAX_WAVES`] waves
    /// or more than [`MAX_LDS_BYTES`] of workgroup memory.
    pub fn check(&self) -> Result<(), GeometryError> {
        let names = ["workgroups along x", "workgroups along y", "workgroups along z"];
        for ((what, &asked), &allowed) in names.into_iter().zip(&self.workgroups).zip(&MAX_WORKGROUPS) {
            within(what, u64::from(asked), 1, u64::from(allowed))?;
        }
        within("waves of a workgroup", u64::from(self.waves), 1, u64::from(MAX_WAVES))?;
        let items = u64::from(self.workgroups[0]) * u64::from(self.workgroup_size());
        within("work-items along x", items, 1, u64::from(u32::MAX))?;
        within("LDS bytes", u64::from(self.lds_bytes), 0, u64::from(MAX_LDS_BYTES))
    }
}

fn within(what: &'static str, asked: u64, least: u64, allowed: u64) -> Result<(), GeometryError> {
    if asked < least || asked > allowed { Err(GeometryError { what, asked, allowed }) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OK: Geometry = Geometry { workgroups: [1, 1, 1], waves: 1, lds_bytes: 0 };

    #[test]
    fn limits_hold_at_each_edge() {
        let edge = Geometry { workgroups: [1 << 22, 65_535, 65_535], waves: 31, lds_bytes: 65_536 };
        assert_eq!(edge.check(), Ok(()));
        let wrong = [
            (Geometry { workgroups: [0, 1, 1], ..OK }, 0, i32::MAX as u64),
            (Geometry { workgroups: [1, 65_536, 1], ..OK }, 65_536, 65_535),
            (Geometry { workgroups: [1, 1, 65_536], ..OK }, 65_536, 65_535),
            (Geometry { waves: 33, ..OK }, 33, 32),
            (Geometry { waves: 0, ..OK }, 0, 32),
            (Geometry { lds_bytes: 65_537, ..OK }, 65_537, 65_536),
            (Geometry { workgroups: [1 << 27, 1, 1], waves: 1, lds_bytes: 0 }, 1 << 32, (1 << 32) - 1),
        ];
        for (geometry, asked, allowed) in wrong {
            let err = geometry.check().expect_err("past a limit");
            assert_eq!((err.asked, err.allowed), (asked, allowed), "{geometry:?}");
        }
    }
}
