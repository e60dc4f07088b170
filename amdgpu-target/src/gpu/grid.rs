//! What the workgroups of one launch pass to each other: numbers in memory that all of them see, and a barrier over the whole grid. It
//! works only where all workgroups run at once; who launches sees to that. Weights and tables, which nobody writes, stay with the plain
//! access of `memory`.

use super::machine::{Shared, arrive, barrier, item_idx, observe, pause, stores_done, wave_idx};

impl Shared {
    /// Four f32.
    ///
    /// # Safety
    /// As [`Shared::load_b32`].
    #[inline(always)]
    pub unsafe fn load_f32x4(self, offset: u32) -> [f32; 4] {
        // SAFETY: the caller's.
        unsafe { self.load_b128(offset) }.words().map(f32::from_bits)
    }
    /// Two f32.
    ///
    /// # Safety
    /// As [`Shared::load_b32`].
    #[inline(always)]
    pub unsafe fn load_f32x2(self, offset: u32) -> [f32; 2] {
        // SAFETY: the caller's.
        unsafe { self.load_b64(offset) }.words().map(f32::from_bits)
    }

    /// One f32.
    ///
    /// # Safety
    /// As [`Shared::store_b16`].
    #[inline(always)]
    pub unsafe fn store_f32(self, offset: u32, x: f32) {
        // SAFETY: the caller's.
        unsafe { self.store_b32(offset, x.to_bits()) }
    }
}

/// A barrier over all workgroups of the launch, in two halves: between [`GridBarrier::arrive`] and [`GridBarrier::wait`] a workgroup may
/// do what needs nothing of the others. One counter in memory, 0 before the launch and after it.
pub struct GridBarrier {
    counter: Shared,
    workgroups: u32,
    /// What the counter reads once all have arrived as often as this workgroup.
    target: u32,
}

impl GridBarrier {
    /// The barrier of a launch of `workgroups`.
    ///
    /// # Safety
    /// 1. The first 4 bytes of `memory` are 0 when the launch begins, and nothing else touches them.  2. `workgroups` is the whole grid, and all of
    ///    it runs at once.  3. Every workgroup calls [`GridBarrier::arrive`] and [`GridBarrier::wait`] equally often, in turn, with all
    ///    its lanes, and then [`GridBarrier::leave`] once; the last wait may be left out.
    #[inline(always)]
    pub unsafe fn new(memory: Shared, workgroups: u32) -> Self {
        Self { counter: memory, workgroups, target: 0 }
    }

    /// What this workgroup stored through [`Shared`] is in memory, and it says so. A workgroup barrier as well.
    ///
    /// # Safety
    /// 1. Point 3 of [`GridBarrier::new`].
    #[inline(always)]
    pub unsafe fn arrive(&mut self) {
        stores_done();
        // SAFETY: all waves come here.
        unsafe { barrier() };
        self.target = self.target.wrapping_add(self.workgroups);
        if item_idx() == 0 {
            // SAFETY: the counter is this barrier's.
            unsafe { arrive(self.counter) };
        }
    }

    /// All workgroups have arrived as often as this one. A workgroup barrier as well.
    ///
    /// # Safety
    /// 1. Point 3 of [`GridBarrier::new`].
    #[inline(always)]
    pub unsafe fn wait(&self) {
        if wave_idx() == 0 {
            loop {
                // SAFETY: the counter is this barrier's.
                let seen = unsafe { observe(self.counter) };
                if seen.wrapping_sub(self.target) as i32 >= 0 {
                    break;
                }
                pause();
            }
        }
        // SAFETY: all waves come here.
        unsafe { barrier() };
    }

    /// The last workgroup to leave sets the counter back to 0 for the next launch. Stores before it are not ordered by it.
    ///
    /// # Safety
    /// 1. Point 3 of [`GridBarrier::new`].
    #[inline(always)]
    pub unsafe fn leave(self) {
        if item_idx() == 0 {
            // SAFETY: the counter is this barrier's.
            let before = unsafe { arrive(self.counter) };
            if before.wrapping_add(1) == self.target.wrapping_add(self.workgroups) {
                // SAFETY: as above; all others have made their last access.
                unsafe { self.counter.store_b32(0, 0) };
            }
        }
    }
}
