//! Undefined bits on their way through memory: LDS and scratch carry them by the bit, global memory knows which bytes were written.
//! Loads and stores move them by the same code that moves values.

use super::shadow::Shadow;
use super::{Accessed, Class, Init, Moved, Purpose, Space, Use, need_vector};
use crate::arch::Arch;
use crate::execute::memory_ops::{LaneOp, LoadTo, StoreFrom, lanes_of};
use crate::execute::place::{Place, Words};
use crate::memory::{Memory, Region};
use crate::wave::Wave;

impl Init {
    /// An access that is about to happen.
    pub(in crate::watch) fn accessed(
        &mut self,
        memory: &Memory,
        wave: &Wave,
        accessed: &Accessed,
        found: &mut Vec<Use>,
    ) {
        let Init { waves, lds, lds_dirty, lds_origins, lds_written, .. } = self;
        let shadow = &mut waves[wave.index as usize];
        let (mask, bytes) = (accessed.mask, accessed.bytes);
        match accessed.space {
            Space::Global => global(shadow, memory, accessed, found),
            Space::Lds => {
                let place = &mut Words { words: lds, stride: 1, first: 0, arch: Arch::portable() };
                match accessed.moved {
                    Moved::Load { load, dst } if !*lds_dirty => {
                        unwritten(lds_written, accessed, found);
                        for k in 0..bytes.div_ceil(4) as u8 {
                            shadow.clear_vector(dst.wrapping_add(k), mask, load.bits());
                        }
                    }
                    Moved::Load { load, dst } => {
                        unwritten(lds_written, accessed, found);
                        move_lanes(shadow, place, accessed, &LoadTo { load, dst });
                        settle_load(shadow, dst, bytes);
                        let never = Class::UninitializedRegisterRead;
                        take_origins(shadow, accessed, dst, |at, _| lds_origins.at(at).unwrap_or(never));
                    }
                    Moved::Store { store, data } => {
                        let dirty = (0..bytes.div_ceil(4) as u8).any(|k| shadow.dirty_vector(data.wrapping_add(k)));
                        *lds_dirty |= dirty;
                        if *lds_dirty {
                            move_lanes(shadow, place, accessed, &StoreFrom { store, data });
                            give_origins(shadow, accessed, data, |at, _, class| lds_origins.set(at, class));
                        }
                        for lane in lanes_of(mask) {
                            note_written(lds_written, accessed.addresses[lane], bytes);
                        }
                    }
                    Moved::Atomic { data, second, dst } => {
                        unwritten(lds_written, accessed, found);
                        operands(shadow, accessed, [data, second], found);
                        for lane in lanes_of(mask) {
                            note_written(lds_written, accessed.addresses[lane], bytes);
                        }
                        settle_atomic(shadow, mask, bytes, dst);
                    }
                    Moved::Scalar { .. } => {}
                }
            }
            Space::Scratch => {
                let mut scratch = std::mem::take(&mut shadow.scratch);
                let mut origins = std::mem::take(&mut shadow.scratch_origins);
                for lane in lanes_of(mask) {
                    let place = &mut Words { words: &mut scratch, stride: 32, first: lane, arch: Arch::portable() };
                    match accessed.moved {
                        Moved::Load { load, dst } => {
                            LoadTo { load, dst }.run(place, accessed.addresses[lane], lane, &mut shadow.vgpr);
                        }
                        Moved::Store { store, data } => {
                            StoreFrom { store, data }.run(place, accessed.addresses[lane], lane, &mut shadow.vgpr);
                        }
                        _ => {}
                    }
                }
                shadow.scratch = scratch;
                // A lane's dwords lie 32 apart, as its scratch does.
                let index = |at: u64, lane: usize| at * 32 + lane as u64;
                match accessed.moved {
                    Moved::Load { dst, .. } => {
                        settle_load(shadow, dst, bytes);
                        let never = Class::UninitializedScratchRead;
                        take_origins(shadow, accessed, dst, |at, lane| origins.at(index(at, lane)).unwrap_or(never));
                    }
                    Moved::Store { data, .. } => {
                        give_origins(shadow, accessed, data, |at, lane, class| origins.set(index(at, lane), class));
                    }
                    Moved::Atomic { dst, .. } => settle_atomic(shadow, mask, bytes, dst),
                    Moved::Scalar { .. } => {}
                }
                shadow.scratch_origins = origins;
            }
        }
    }
}

/// Runs a load or store on shadows instead of values.
fn move_lanes<O: LaneOp, P: Place>(shadow: &mut Shadow, place: &mut P, accessed: &Accessed, op: &O) {
    for lane in lanes_of(accessed.mask) {
        op.run(place, accessed.addresses[lane], lane, &mut shadow.vgpr);
    }
}

fn settle_load(shadow: &mut Shadow, dst: u8, bytes: u32) {
    for k in 0..bytes.div_ceil(4) as u8 {
        shadow.settle(dst.wrapping_add(k));
    }
}

/// Registers just loaded with undefined bits take the origin that `of` says for their dword (an index) in the first lane that has any.
fn take_origins(shadow: &mut Shadow, accessed: &Accessed, dst: u8, of: impl Fn(u64, usize) -> Class) {
    for k in 0..accessed.bytes.div_ceil(4) as u8 {
        let register = dst.wrapping_add(k);
        if !shadow.dirty_vector(register) {
            continue;
        }
        let undefined = &shadow.vgpr[register as usize];
        if let Some(lane) = lanes_of(accessed.mask).find(|&lane| undefined[lane] != 0) {
            let dword = (accessed.addresses[lane] + 4 * k as u64) / 4;
            shadow.vector_origin[register as usize] = of(dword, lane);
        }
    }
}

/// Tells `note` the origin of each dword that is stored with undefined bits.
fn give_origins(shadow: &Shadow, accessed: &Accessed, data: u8, mut note: impl FnMut(u64, usize, Class)) {
    for k in 0..accessed.bytes.div_ceil(4) as u8 {
        let register = data.wrapping_add(k);
        if !shadow.dirty_vector(register) {
            continue;
        }
        let (undefined, class) = (&shadow.vgpr[register as usize], shadow.vector_origin[register as usize]);
        for lane in lanes_of(accessed.mask).filter(|&lane| undefined[lane] != 0) {
            // Where it is not aligned it lies in two.
            let first = accessed.addresses[lane] + 4 * k as u64;
            for dword in first / 4..=(first + accessed.bytes.min(4) as u64 - 1) / 4 {
                note(dword, lane, class);
            }
        }
    }
}

fn settle_atomic(shadow: &mut Shadow, mask: u32, bytes: u32, dst: Option<u8>) {
    if let Some(dst) = dst {
        for k in 0..bytes.div_ceil(4) as u8 {
            shadow.clear_vector(dst.wrapping_add(k), mask, u32::MAX);
        }
    }
}

/// The operands of an atomic become memory, so they must be defined.
fn operands(shadow: &mut Shadow, accessed: &Accessed, registers: [u8; 2], found: &mut Vec<Use>) {
    for first in registers {
        for k in 0..accessed.bytes.div_ceil(4) as u8 {
            let purpose = Purpose { what: "it is an atomic's operand", lanes: accessed.mask, bits: u32::MAX };
            need_vector(shadow, first.wrapping_add(k), &purpose, found);
        }
    }
}

/// Runs `each` on the words of a byte set and the bits in them that stand for `bytes` bytes from `address` on.
#[inline(always)]
fn byte_set(address: u64, bytes: u32, mut each: impl FnMut(usize, u32)) {
    let (word, shift) = ((address >> 5) as usize, (address & 31) as u32);
    let bits = (1u64 << bytes) - 1 << shift;
    each(word, bits as u32);
    if bits >> 32 != 0 {
        each(word + 1, (bits >> 32) as u32);
    }
}

fn note_written(written: &mut [u32], address: u64, bytes: u32) {
    byte_set(address, bytes, |word, bits| written[word] |= bits);
}

/// LDS bytes that are read and were never written; they count as written afterwards.
fn unwritten(written: &mut [u32], accessed: &Accessed, found: &mut Vec<Use>) {
    for lane in lanes_of(accessed.mask) {
        let address = accessed.addresses[lane];
        let mut missing = None;
        byte_set(address, accessed.bytes, |word, bits| {
            let absent = bits & !written[word];
            if absent != 0 {
                missing.get_or_insert(32 * word as u32 + absent.trailing_zeros());
            }
        });
        if let Some(byte) = missing {
            let message = format!(
                "{} of {} bytes at LDS {address:#x}: nothing in this workgroup wrote byte {byte:#x}",
                accessed.access, accessed.bytes
            );
            found.push(Use { class: Class::UninitializedLdsRead, lane: Some(lane as u32), message });
            note_written(written, address, accessed.bytes);
        }
    }
}

/// Bytes of an allocation as undefined bits: all ones where nothing wrote.
struct Unwritten<'a>(&'a Region);

impl Place for Unwritten<'_> {
    fn load8(&self, at: u64) -> u32 {
        if self.0.written(at, 1) { 0 } else { 0xff }
    }
    fn load16(&self, at: u64) -> u32 {
        self.load8(at) | self.load8(at + 1) << 8
    }
    fn load32(&self, at: u64) -> u32 {
        if self.0.written(at, 4) { 0 } else { self.load16(at) | self.load16(at + 2) << 16 }
    }
    fn store8(&mut self, _: u64, _: u32) {}
    fn store16(&mut self, _: u64, _: u32) {}
    fn store32(&mut self, _: u64, _: u32) {}
    fn modify32(&mut self, _: u64, _: impl FnMut(u32) -> u32) -> u32 {
        0
    }
    fn modify64(&mut self, _: u64, _: impl FnOnce(u64) -> u64) -> u64 {
        0
    }
}

fn global(shadow: &mut Shadow, memory: &Memory, accessed: &Accessed, found: &mut Vec<Use>) {
    let (mask, bytes) = (accessed.mask, accessed.bytes);
    match accessed.moved {
        Moved::Load { load, dst } if whole(memory, accessed) => {
            for k in 0..bytes.div_ceil(4) as u8 {
                shadow.clear_vector(dst.wrapping_add(k), mask, load.bits());
            }
        }
        Moved::Load { load, dst } => {
            for lane in lanes_of(mask) {
                let address = accessed.addresses[lane];
                if let Some(region) = memory.region(address) {
                    LoadTo { load, dst }.run(&mut Unwritten(region), address - region.base(), lane, &mut shadow.vgpr);
                }
            }
            settle_load(shadow, dst, bytes);
            take_origins(shadow, accessed, dst, |_, _| Class::UninitializedGlobalRead);
        }
        Moved::Scalar { dst, dwords } => {
            let address = accessed.addresses[0];
            let Some(region) = memory.region(address) else { return };
            let at = address - region.base();
            if region.written(at, bytes) {
                return;
            }
            for k in 0..dwords {
                let here = bytes.min(4);
                let bits = (0..here).fold(0, |bits, byte| {
                    bits | Unwritten(region).load8(at + 4 * k as u64 + byte as u64) << (8 * byte)
                });
                let bits = if here < 4 && bits != 0 { u32::MAX } else { bits };
                shadow.set_scalar(dst.wrapping_add(k), bits, Class::UninitializedGlobalRead);
            }
        }
        Moved::Store { store, data } => {
            let narrow = if bytes >= 4 { u32::MAX } else { (1 << (8 * bytes)) - 1 };
            let bits = if store.high() { narrow << 16 } else { narrow };
            for k in 0..bytes.div_ceil(4) as u8 {
                let purpose = Purpose { what: "it is stored", lanes: mask, bits };
                need_vector(shadow, data.wrapping_add(k), &purpose, found);
            }
            mark(memory, accessed);
        }
        Moved::Atomic { data, second, dst } => {
            operands(shadow, accessed, [data, second], found);
            for lane in lanes_of(mask) {
                let address = accessed.addresses[lane];
                let Some(region) = memory.region(address) else { continue };
                if !region.written(address - region.base(), bytes) {
                    let message = format!("atomic of {bytes} bytes at {address:#x}, which nothing wrote before");
                    found.push(Use { class: Class::UninitializedGlobalRead, lane: Some(lane as u32), message });
                }
            }
            mark(memory, accessed);
            settle_atomic(shadow, mask, bytes, dst);
        }
    }
}

/// Whether all lanes are in one allocation of which every byte has been written: the usual case, told without a look at each lane's
/// bytes.
fn whole(memory: &Memory, accessed: &Accessed) -> bool {
    let Some(region) = memory.region(accessed.addresses[accessed.mask.trailing_zeros() as usize & 31]) else {
        return false;
    };
    region.all_written()
        && lanes_of(accessed.mask).all(|lane| region.contains(accessed.addresses[lane], accessed.bytes as u64))
}

fn mark(memory: &Memory, accessed: &Accessed) {
    if whole(memory, accessed) {
        return;
    }
    for lane in lanes_of(accessed.mask) {
        let address = accessed.addresses[lane];
        if let Some(region) = memory.region(address) {
            region.mark_written(address - region.base(), accessed.bytes as u64);
        }
    }
}
