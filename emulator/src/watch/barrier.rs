//! Barriers inside a wave. The hardware counts waves, so a barrier in a branch that only some lanes take does its part for all of them;
//! the lanes that were off then go on as if they had met it. That shows when such a lane later touches memory or takes a barrier. Lanes
//! that leave for good (`if (i >= n) return;`) are never seen again and are no defect. What waves do to each other's barriers is
//! judged where the barrier is performed, in `launch/group.rs`.

/// Which lanes of a wave have missed a barrier.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Barriers {
    lanes: u32,
    missed: u32,
    at: u64,
}

impl Barriers {
    /// A wave begins with these lanes.
    pub fn start(&mut self, exec: u32) {
        *self = Barriers { lanes: exec, missed: 0, at: 0 };
    }

    /// The wave signals at `pc` with these lanes on. The lanes among them that missed an earlier barrier, and where it was.
    pub fn signal(&mut self, pc: u64, exec: u32) -> Option<(u32, u64)> {
        let back = self.uses(exec);
        self.missed |= self.lanes & !exec;
        self.at = pc;
        back
    }

    /// These lanes touch memory. Those among them that missed a barrier, and where it was.
    #[inline]
    pub fn uses(&self, mask: u32) -> Option<(u32, u64)> {
        let back = mask & self.missed;
        (back != 0).then_some((back, self.at))
    }
}
