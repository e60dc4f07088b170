//! The undefined bits of one wave: a 1 where the register's bit was never written or comes from such bits. A register that has any is
//! noted in a set, so that instructions on clean registers cost a look at a few bits.

use super::super::finding::Class;
use crate::isa::Src;
use crate::isa::effects::Set;
use crate::wave::{EXEC, Lanes, NULL, TTMP0};
use std::collections::HashMap;

/// Where undefined bits that LDS or scratch hold come from, by dword. Only stores of undefined bits are noted, and nothing is taken
/// back: what is defined needs no origin.
#[derive(Debug, Default)]
pub(super) struct Origins(HashMap<u64, Class>);

impl Origins {
    /// Undefined bits of this origin are stored to a dword.
    pub fn set(&mut self, dword: u64, class: Class) {
        self.0.insert(dword, class);
    }
    /// The origin of a dword's undefined bits; none where nobody stored any.
    pub fn at(&self, dword: u64) -> Option<Class> {
        self.0.get(&dword).copied()
    }
    pub fn clear(&mut self) {
        self.0.clear();
    }
}

/// Shadow registers of one wave.
#[derive(Debug)]
pub(super) struct Shadow {
    /// Undefined bits of the scalar file.
    pub sgpr: [u32; 128],
    /// Whether SCC is undefined.
    pub scc: bool,
    /// Undefined bits of the vector file.
    pub vgpr: Box<[Lanes; 256]>,
    /// Undefined bits of scratch, laid out as [`crate::wave::Wave::scratch`].
    pub scratch: Vec<u32>,
    /// Where undefined bits that were stored in scratch come from.
    pub scratch_origins: Origins,
    /// Where undefined bits of a vector register come from.
    pub vector_origin: [Class; 256],
    /// Where undefined bits of a scalar register come from.
    pub scalar_origin: [Class; 128],
    /// Where undefined bits in SCC come from.
    pub scc_origin: Class,
    /// Registers with undefined bits.
    pub dirty: Set,
}

impl Shadow {
    pub fn new() -> Shadow {
        let registers: Box<[Lanes]> = vec![[0; 32]; 256].into_boxed_slice();
        let vgpr = registers.try_into().unwrap_or_else(|_| unreachable!("the slice has 256 registers"));
        let never = Class::UninitializedRegisterRead;
        Shadow {
            sgpr: [0; 128],
            scc: false,
            vgpr,
            scratch: Vec::new(),
            scratch_origins: Origins::default(),
            vector_origin: [never; 256],
            scalar_origin: [never; 128],
            scc_origin: never,
            dirty: Set::default(),
        }
    }

    /// A wave begins: all is undefined but its arguments, ids, v0 and EXEC. No instruction names a register from `vgprs` on.
    pub fn start(&mut self, user_sgprs: u8, vgprs: u16, scratch_words: usize) {
        let never = Class::UninitializedRegisterRead;
        self.sgpr = [u32::MAX; 128];
        self.dirty.scalar = u128::MAX;
        for defined in (0..user_sgprs).chain(TTMP0 + 7..TTMP0 + 10).chain([NULL, EXEC, EXEC + 1]) {
            self.set_scalar(defined, 0, never);
        }
        self.scc = true;
        self.vgpr[..vgprs as usize].fill([u32::MAX; 32]);
        self.vgpr[0] = [0; 32];
        self.dirty.vector = [0; 4];
        for index in 1..vgprs {
            self.dirty.vector[(index >> 6) as usize] |= 1 << (index & 63);
        }
        self.vector_origin = [never; 256];
        self.scalar_origin = [never; 128];
        self.scc_origin = never;
        self.scratch_origins.clear();
        self.scratch.clear();
        self.scratch.resize(scratch_words, u32::MAX);
    }

    /// Whether any of the vector registers has undefined bits in the lanes given.
    pub fn dirty_in(&self, registers: &Set, lanes: u32) -> bool {
        let mut bits = 0;
        for (word, (&asked, &dirty)) in registers.vector.iter().zip(&self.dirty.vector).enumerate() {
            let mut both = asked & dirty;
            while both != 0 {
                let index = 64 * word + both.trailing_zeros() as usize;
                both &= both - 1;
                for (lane, register) in self.vgpr[index].iter().enumerate() {
                    bits |= register & (lanes >> lane & 1).wrapping_neg();
                }
            }
        }
        bits != 0
    }

    #[inline]
    pub fn dirty_vector(&self, index: u8) -> bool {
        self.dirty.vector[(index >> 6) as usize] >> (index & 63) & 1 != 0
    }

    /// Notes whether a vector register, changed in place, has undefined bits.
    pub fn settle(&mut self, index: u8) {
        let dirty = self.vgpr[index as usize].iter().any(|&bits| bits != 0);
        let set = &mut self.dirty.vector[(index >> 6) as usize];
        *set = *set & !(1 << (index & 63)) | (dirty as u64) << (index & 63);
    }

    /// Sets the undefined bits of a vector register in the lanes and bits given.
    pub fn set_vector(&mut self, index: u8, lanes: u32, bits: u32, value: &Lanes, origin: Class) {
        if !self.dirty_vector(index) && value.iter().all(|&undefined| undefined == 0) {
            return;
        }
        for (lane, register) in self.vgpr[index as usize].iter_mut().enumerate() {
            if lanes >> lane & 1 != 0 {
                *register = *register & !bits | value[lane] & bits;
            }
        }
        if value.iter().any(|&undefined| undefined != 0) {
            self.vector_origin[index as usize] = origin;
        }
        self.settle(index);
    }

    /// A vector register is written in these lanes and bits.
    #[inline]
    pub fn clear_vector(&mut self, index: u8, lanes: u32, bits: u32) {
        if !self.dirty_vector(index) {
            return;
        }
        if lanes & bits == u32::MAX {
            self.vgpr[index as usize] = [0; 32];
            self.dirty.vector[(index >> 6) as usize] &= !(1 << (index & 63));
            return;
        }
        let mut left = 0;
        for (lane, register) in self.vgpr[index as usize].iter_mut().enumerate() {
            *register &= !(bits & (lanes >> lane & 1).wrapping_neg());
            left |= *register;
        }
        if left == 0 {
            self.dirty.vector[(index >> 6) as usize] &= !(1 << (index & 63));
        }
    }

    /// Sets the undefined bits of a scalar register.
    pub fn set_scalar(&mut self, index: u8, value: u32, origin: Class) {
        let index = index & 127;
        if index == NULL {
            return;
        }
        self.sgpr[index as usize] = value;
        self.dirty.scalar = self.dirty.scalar & !(1 << index) | ((value != 0) as u128) << index;
        if value != 0 {
            self.scalar_origin[index as usize] = origin;
        }
    }

    /// Undefined bits of a source, one dword of it, in all lanes.
    pub fn lanes(&self, src: Src, dword: u8) -> Lanes {
        match src {
            Src::Vgpr(first) => self.vgpr[first.wrapping_add(dword) as usize],
            other => [self.scalar(other, dword); 32],
        }
    }

    /// Undefined bits of a scalar source, one dword of it.
    pub fn scalar(&self, src: Src, dword: u8) -> u32 {
        match src {
            Src::Sgpr(NULL) | Src::Const(_) | Src::Vgpr(_) => 0,
            Src::Sgpr(first) => self.sgpr[(first.wrapping_add(dword) & 127) as usize],
            Src::Scc => {
                if self.scc {
                    u32::MAX
                } else {
                    0
                }
            }
        }
    }

    /// Where the undefined bits of a source come from.
    pub fn origin(&self, src: Src) -> Class {
        match src {
            Src::Vgpr(first) => self.vector_origin[first as usize],
            Src::Sgpr(first) => self.scalar_origin[(first & 127) as usize],
            Src::Scc => self.scc_origin,
            Src::Const(_) => Class::UninitializedRegisterRead,
        }
    }
}
