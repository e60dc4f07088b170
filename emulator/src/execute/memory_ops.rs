//! What loads, stores and atomics do in each lane, and the loops over lanes: global memory, LDS, scratch, and flat addresses that may
//! be any of the three. Addresses come in ready; no opcode and no encoding is known here. Where lanes of one instruction hit the same
//! byte, the highest lane's store stays: the architecture defines no order.

use super::atomics::{Op32, Op64};
use super::place::{Global, Place, Words};
use crate::fault::{Access, Fault};
use crate::memory::{Memory, Region};
use crate::watch::{Accessed, Moved, Space};
use crate::wave::{Cx, Lanes, PRIVATE_APERTURE, SHARED_APERTURE};

/// The vector file.
type Vgprs = [Lanes; 256];

/// What an instruction does in one lane, whatever the space.
pub trait LaneOp {
    /// How the access is called in a fault.
    const ACCESS: Access;
    /// Bytes touched.
    fn bytes(&self) -> u32;
    /// Which registers go to memory or come from it.
    fn moved(&self) -> Moved;
    /// Does it for one lane; bounds and alignment have been checked.
    fn run<P: Place>(&self, place: &mut P, at: u64, lane: usize, vgpr: &mut Vgprs);
    /// Bytes of a lane, where lanes that follow one another have a short way; 0 where they have none.
    const ROW: u32 = 0;
    /// Does it for all lanes at `at` and behind, each [`LaneOp::ROW`] bytes after the other; false, and nothing done, where it cannot.
    #[inline(always)]
    fn run_row<P: Place>(&self, _place: &mut P, _at: u64, _vgpr: &mut Vgprs) -> bool {
        false
    }
    /// Whether there is a short way for lanes anywhere at multiples of 16.
    const SPREAD: bool = false;
    /// Does it for all lanes at `base` plus an index each; bounds have been checked, and that all of it is multiples of 16. Only where
    /// [`LaneOp::SPREAD`] says so.
    #[inline(always)]
    fn run_spread<P: Place>(&self, _place: &mut P, _base: u64, _indices: &Lanes, _vgpr: &mut Vgprs) {}
    /// Does it for all lanes.
    #[inline(always)]
    fn run_all<P: Place>(&self, place: &mut P, at: &[u64; 32], vgpr: &mut Vgprs) {
        for (lane, &at) in at.iter().enumerate() {
            self.run(place, at, lane, vgpr);
        }
    }
}

/// Whether each lane's N dwords follow those of the lane before.
#[inline(always)]
fn consecutive<const N: usize>(at: &[u64; 32]) -> bool {
    let mut differences = 0;
    for (lane, &at_lane) in at.iter().enumerate() {
        differences |= at_lane ^ at[0].wrapping_add(4 * (N * lane) as u64);
    }
    differences == 0
}

/// Size, extension and destination half of a load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Load {
    bytes: u32,
    signed: bool,
    /// d16: which half is written, the other one stays.
    high: Option<bool>,
}

#[allow(missing_docs, reason = "the mnemonics' suffixes")]
impl Load {
    pub const U8: Load = Load { bytes: 1, signed: false, high: None };
    pub const I8: Load = Load { bytes: 1, signed: true, high: None };
    pub const U16: Load = Load { bytes: 2, signed: false, high: None };
    pub const I16: Load = Load { bytes: 2, signed: true, high: None };
    pub const D16_U8: Load = Load { bytes: 1, signed: false, high: Some(false) };
    pub const D16_I8: Load = Load { bytes: 1, signed: true, high: Some(false) };
    pub const D16_B16: Load = Load { bytes: 2, signed: false, high: Some(false) };
    pub const D16_HI_U8: Load = Load { bytes: 1, signed: false, high: Some(true) };
    pub const D16_HI_I8: Load = Load { bytes: 1, signed: true, high: Some(true) };
    pub const D16_HI_B16: Load = Load { bytes: 2, signed: false, high: Some(true) };
    pub const B32: Load = Load { bytes: 4, signed: false, high: None };
    pub const B64: Load = Load { bytes: 8, signed: false, high: None };
    pub const B96: Load = Load { bytes: 12, signed: false, high: None };
    pub const B128: Load = Load { bytes: 16, signed: false, high: None };

    /// The plain load of so many bytes; 16 where there is none.
    pub const fn of(bytes: u32) -> Load {
        Load { bytes: if matches!(bytes, 1 | 2 | 4 | 8 | 12) { bytes } else { 16 }, ..Load::B128 }
    }
    /// Bytes read.
    pub const fn bytes(self) -> u32 {
        self.bytes
    }

    /// Bits of the register that are written.
    pub const fn bits(self) -> u32 {
        match self.high {
            None => u32::MAX,
            Some(false) => 0xffff,
            Some(true) => 0xffff_0000,
        }
    }

    /// The register after the narrow value `raw` came in.
    #[inline(always)]
    pub fn extend(self, raw: u32, old: u32) -> u32 {
        let value = match (self.bytes, self.signed) {
            (1, true) => raw as u8 as i8 as u32,
            (2, true) => raw as u16 as i16 as u32,
            _ => raw,
        };
        match self.high {
            None => value,
            Some(false) => old & 0xffff_0000 | value & 0xffff,
            Some(true) => old & 0xffff | value << 16,
        }
    }
}

/// A load of any size into registers from `dst` on.
pub struct LoadTo {
    /// What is read.
    pub load: Load,
    /// First destination register.
    pub dst: u8,
}

impl LaneOp for LoadTo {
    const ACCESS: Access = Access::Load;
    #[inline(always)]
    fn bytes(&self) -> u32 {
        self.load.bytes
    }
    fn moved(&self) -> Moved {
        Moved::Load { load: self.load, dst: self.dst }
    }
    #[inline(always)]
    fn run<P: Place>(&self, place: &mut P, at: u64, lane: usize, vgpr: &mut Vgprs) {
        match self.load.bytes {
            1 | 2 => {
                let raw = if self.load.bytes == 1 { place.load8(at) } else { place.load16(at) };
                let out = &mut vgpr[self.dst as usize][lane];
                *out = self.load.extend(raw, *out);
            }
            4 => LoadWords::<1> { dst: self.dst }.run(place, at, lane, vgpr),
            8 => LoadWords::<2> { dst: self.dst }.run(place, at, lane, vgpr),
            12 => LoadWords::<3> { dst: self.dst }.run(place, at, lane, vgpr),
            _ => LoadWords::<4> { dst: self.dst }.run(place, at, lane, vgpr),
        }
    }
}

/// A load of N dwords into registers from `dst` on. The number is in the type, so that loops over it are compiled for it.
pub struct LoadWords<const N: usize> {
    /// First destination register.
    pub dst: u8,
}

impl<const N: usize> LoadWords<N> {
    /// The same as the metadata of other loads has it.
    const LOAD: Load = Load { bytes: 4 * N as u32, signed: false, high: None };
}

impl<const N: usize> LaneOp for LoadWords<N> {
    const ACCESS: Access = Access::Load;
    #[inline(always)]
    fn bytes(&self) -> u32 {
        4 * N as u32
    }
    fn moved(&self) -> Moved {
        Moved::Load { load: Self::LOAD, dst: self.dst }
    }
    #[inline(always)]
    fn run<P: Place>(&self, place: &mut P, at: u64, lane: usize, vgpr: &mut Vgprs) {
        for (k, word) in place.load_words::<N>(at).into_iter().enumerate() {
            vgpr[self.dst.wrapping_add(k as u8) as usize][lane] = word;
        }
    }
    const SPREAD: bool = N == 4;
    #[inline(always)]
    fn run_spread<P: Place>(&self, place: &mut P, base: u64, indices: &Lanes, vgpr: &mut Vgprs) {
        if let Some(registers) = vgpr.get_mut(self.dst as usize..).and_then(|rest| rest.first_chunk_mut::<4>()) {
            place.load_spread(base, indices, registers);
        }
    }
    const ROW: u32 = 4 * N as u32;
    #[inline(always)]
    fn run_row<P: Place>(&self, place: &mut P, at: u64, vgpr: &mut Vgprs) -> bool {
        let registers = vgpr.get_mut(self.dst as usize..).and_then(|rest| rest.first_chunk_mut::<N>());
        registers.is_some_and(|registers| place.load_row(at, registers))
    }
    #[inline(always)]
    fn run_all<P: Place>(&self, place: &mut P, at: &[u64; 32], vgpr: &mut Vgprs) {
        let registers = vgpr.get_mut(self.dst as usize..).and_then(|rest| rest.first_chunk_mut::<N>());
        let Some(registers) = registers else {
            // No decoded instruction gets here: its registers do not pass the last one.
            return at.iter().enumerate().for_each(|(lane, &at)| self.run(place, at, lane, vgpr));
        };
        if consecutive::<N>(at) && place.load_row(at[0], registers) {
            return;
        }
        place.load_all(at, registers);
    }
}

/// Size and source half of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Store {
    bytes: u32,
    high: bool,
}

#[allow(missing_docs, reason = "the mnemonics' suffixes")]
impl Store {
    pub const B8: Store = Store { bytes: 1, high: false };
    pub const B16: Store = Store { bytes: 2, high: false };
    pub const D16_HI_B8: Store = Store { bytes: 1, high: true };
    pub const D16_HI_B16: Store = Store { bytes: 2, high: true };
    pub const B32: Store = Store { bytes: 4, high: false };
    pub const B64: Store = Store { bytes: 8, high: false };
    pub const B96: Store = Store { bytes: 12, high: false };
    pub const B128: Store = Store { bytes: 16, high: false };

    /// The plain store of so many bytes; 16 where there is none.
    pub const fn of(bytes: u32) -> Store {
        Store { bytes: if matches!(bytes, 1 | 2 | 4 | 8 | 12) { bytes } else { 16 }, ..Store::B128 }
    }
    /// Bytes written.
    pub const fn bytes(self) -> u32 {
        self.bytes
    }

    /// Whether the upper half of the register is written.
    pub const fn high(self) -> bool {
        self.high
    }
}

/// A store of any size of registers from `data` on.
pub struct StoreFrom {
    /// What is written.
    pub store: Store,
    /// First data register.
    pub data: u8,
}

impl LaneOp for StoreFrom {
    const ACCESS: Access = Access::Store;
    #[inline(always)]
    fn bytes(&self) -> u32 {
        self.store.bytes
    }
    fn moved(&self) -> Moved {
        Moved::Store { store: self.store, data: self.data }
    }
    #[inline(always)]
    fn run<P: Place>(&self, place: &mut P, at: u64, lane: usize, vgpr: &mut Vgprs) {
        let value = vgpr[self.data as usize][lane] >> if self.store.high { 16 } else { 0 };
        match self.store.bytes {
            1 => place.store8(at, value),
            2 => place.store16(at, value),
            bytes => {
                for k in 0..bytes / 4 {
                    place.store32(at + 4 * k as u64, vgpr[self.data.wrapping_add(k as u8) as usize][lane]);
                }
            }
        }
    }
}

/// A store of N registers from `data` on.
pub struct StoreWords<const N: usize> {
    /// First data register.
    pub data: u8,
}

impl<const N: usize> StoreWords<N> {
    /// The same as the metadata of other stores has it.
    const STORE: Store = Store { bytes: 4 * N as u32, high: false };
}

impl<const N: usize> LaneOp for StoreWords<N> {
    const ACCESS: Access = Access::Store;
    #[inline(always)]
    fn bytes(&self) -> u32 {
        4 * N as u32
    }
    fn moved(&self) -> Moved {
        Moved::Store { store: Self::STORE, data: self.data }
    }
    #[inline(always)]
    fn run<P: Place>(&self, place: &mut P, at: u64, lane: usize, vgpr: &mut Vgprs) {
        for k in 0..N {
            place.store32(at + 4 * k as u64, vgpr[self.data.wrapping_add(k as u8) as usize][lane]);
        }
    }
    const SPREAD: bool = N == 4;
    #[inline(always)]
    fn run_spread<P: Place>(&self, place: &mut P, base: u64, indices: &Lanes, vgpr: &mut Vgprs) {
        if let Some(registers) = vgpr.get(self.data as usize..).and_then(|rest| rest.first_chunk::<4>()) {
            place.store_spread(base, indices, registers);
        }
    }
    const ROW: u32 = 4 * N as u32;
    #[inline(always)]
    fn run_row<P: Place>(&self, place: &mut P, at: u64, vgpr: &mut Vgprs) -> bool {
        let registers = vgpr.get(self.data as usize..).and_then(|rest| rest.first_chunk::<N>());
        registers.is_some_and(|registers| place.store_row(at, registers))
    }
    #[inline(always)]
    fn run_all<P: Place>(&self, place: &mut P, at: &[u64; 32], vgpr: &mut Vgprs) {
        let Some(registers) = vgpr.get(self.data as usize..).and_then(|rest| rest.first_chunk::<N>()) else {
            return at.iter().enumerate().for_each(|(lane, &at)| self.run(place, at, lane, vgpr));
        };
        if !(consecutive::<N>(at) && place.store_row(at[0], registers)) {
            place.store_all(at, registers);
        }
    }
}

/// A read-modify-write of a dword.
pub struct Atomic32 {
    /// Old value, data, second operand → new value.
    pub op: Op32,
    /// Data register.
    pub data: u8,
    /// Register of the second operand (the comparand), where the operation has one.
    pub second: u8,
    /// Where the old value goes.
    pub dst: Option<u8>,
}

impl LaneOp for Atomic32 {
    const ACCESS: Access = Access::Atomic;
    fn bytes(&self) -> u32 {
        4
    }
    fn moved(&self) -> Moved {
        Moved::Atomic { data: self.data, second: self.second, dst: self.dst }
    }
    fn run<P: Place>(&self, place: &mut P, at: u64, lane: usize, vgpr: &mut Vgprs) {
        let (data, second) = (vgpr[self.data as usize][lane], vgpr[self.second as usize][lane]);
        let old = place.modify32(at, |old| (self.op)(old, data, second));
        if let Some(dst) = self.dst {
            vgpr[dst as usize][lane] = old;
        }
    }
}

/// A read-modify-write of a qword.
pub struct Atomic64 {
    /// Old value, data, second operand → new value.
    pub op: Op64,
    /// First data register.
    pub data: u8,
    /// First register of the second operand.
    pub second: u8,
    /// Where the old value goes.
    pub dst: Option<u8>,
}

impl LaneOp for Atomic64 {
    const ACCESS: Access = Access::Atomic;
    fn bytes(&self) -> u32 {
        8
    }
    fn moved(&self) -> Moved {
        Moved::Atomic { data: self.data, second: self.second, dst: self.dst }
    }
    fn run<P: Place>(&self, place: &mut P, at: u64, lane: usize, vgpr: &mut Vgprs) {
        let pair =
            |first: u8| vgpr[first as usize][lane] as u64 | (vgpr[first.wrapping_add(1) as usize][lane] as u64) << 32;
        let (data, second) = (pair(self.data), pair(self.second));
        let old = place.modify64(at, |old| (self.op)(old, data, second));
        if let Some(dst) = self.dst {
            vgpr[dst as usize][lane] = old as u32;
            vgpr[dst.wrapping_add(1) as usize][lane] = (old >> 32) as u32;
        }
    }
}

/// The lanes of a mask, lowest first.
pub fn lanes_of(mut mask: u32) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let lane = mask.trailing_zeros();
        mask &= mask.wrapping_sub(1);
        (lane < 32).then_some(lane as usize)
    })
}

/// Atomics must be aligned to their size; the fault of the first lane that is not.
fn aligned<O: LaneOp>(op: &O, addresses: &[u64; 32], mask: u32) -> Result<(), Box<Fault>> {
    if O::ACCESS != Access::Atomic {
        return Ok(());
    }
    let bytes = op.bytes();
    match lanes_of(mask).find(|&lane| !addresses[lane].is_multiple_of(bytes as u64)) {
        None => Ok(()),
        Some(lane) => {
            let (access, address) = (O::ACCESS, addresses[lane]);
            Err(Box::new(Fault::Misaligned { access, address, bytes, lane: lane as u32 }))
        }
    }
}

/// Tells the watch of an access before it happens. Global bounds are checked first: the watch only hears of bytes that exist.
#[cold]
#[inline(never)]
fn tell<O: LaneOp>(cx: &mut Cx, space: Space, addresses: &[u64; 32], mask: u32, op: &O) -> Result<(), Box<Fault>> {
    let one_region = |region: &Region| all_inside(addresses, mask, region.base(), region.len(), op.bytes() as u64);
    let first = addresses[mask.trailing_zeros() as usize & 31];
    if space == Space::Global && !cx.memory.region(first).is_some_and(one_region) {
        for lane in lanes_of(mask) {
            cx.memory.access(O::ACCESS, addresses[lane], op.bytes(), lane as u32)?;
        }
    }
    let Some(watch) = cx.watch.as_deref_mut() else { return Ok(()) };
    let accessed = Accessed { space, access: O::ACCESS, bytes: op.bytes(), addresses, mask, moved: op.moved() };
    watch.accessed(cx.memory, cx.wave, &accessed)
}

/// Global memory at `base` plus an index per lane, the commonest form of all: where lanes follow one another, one look at the first and the
/// last is enough. False, and nothing done, where they do not, or where it is not that simple.
#[inline(always)]
pub fn global_row<O: LaneOp>(cx: &mut Cx, base: u64, indices: u8, op: &O) -> bool {
    if O::ROW == 0 || cx.wave.exec() != u32::MAX || cx.watch.is_some() {
        return false;
    }
    let lanes = &cx.wave.vgpr[indices as usize];
    let (first, mut differences) = (lanes[0], 0);
    for (lane, &index) in lanes.iter().enumerate() {
        differences |= index ^ first.wrapping_add(O::ROW * lane as u32);
    }
    if differences != 0 || first > u32::MAX - 32 * O::ROW {
        return false;
    }
    let address = base.wrapping_add(first as u64);
    match cx.memory.region(address) {
        Some(region) if region.contains(address, 32 * O::ROW as u64) => {
            op.run_row(&mut Global(region), address - region.base(), &mut cx.wave.vgpr)
        }
        _ => false,
    }
}

/// Smallest and largest index, and the low bits of all of them and `base`.
#[inline(always)]
fn extent(indices: &Lanes, base: u64) -> (u32, u32, u32) {
    let (mut least, mut most, mut bits) = (u32::MAX, 0, base as u32);
    for &index in indices {
        least = least.min(index);
        most = most.max(index);
        bits |= index;
    }
    (least, most, bits)
}

/// Global memory at `base` plus an index per lane, lanes anywhere at multiples of 16: one look at the least and the largest index. False,
/// and nothing done, where it is not that simple.
#[inline(always)]
pub fn global_spread<O: LaneOp>(cx: &mut Cx, base: u64, indices: u8, op: &O) -> bool {
    if !O::SPREAD || cx.wave.exec() != u32::MAX || cx.watch.is_some() {
        return false;
    }
    // Copied: a load may overwrite them.
    let indices = cx.wave.vgpr[indices as usize];
    let (least, most, bits) = extent(&indices, base);
    let address = base.wrapping_add(least as u64);
    let bytes = (most - least) as u64 + op.bytes() as u64;
    match cx.memory.region(address) {
        Some(region)
            if (bits | region.base() as u32) & 15 == 0 && base <= address && region.contains(address, bytes) =>
        {
            op.run_spread(&mut Global(region), base.wrapping_sub(region.base()), &indices, &mut cx.wave.vgpr);
            true
        }
        _ => false,
    }
}

/// LDS likewise, at `offset` plus an index per lane.
#[inline(always)]
pub fn lds_spread<O: LaneOp>(cx: &mut Cx, offset: u32, indices: u8, op: &O) -> bool {
    if !O::SPREAD || cx.wave.exec() != u32::MAX || cx.watch.is_some() {
        return false;
    }
    let indices = cx.wave.vgpr[indices as usize];
    let (_, most, bits) = extent(&indices, offset as u64);
    let end = most as u64 + offset as u64 + op.bytes() as u64;
    if bits & 15 != 0 || end > lds_bytes(cx) as u64 {
        return false;
    }
    let arch = cx.arch;
    let place = &mut Words { words: &mut cx.lds.words, stride: 1, first: 0, arch };
    op.run_spread(place, offset as u64, &indices, &mut cx.wave.vgpr);
    true
}

/// Bytes of LDS that may be addressed.
#[inline(always)]
fn lds_bytes(cx: &Cx) -> u32 {
    (cx.lds.bytes as usize).min(cx.lds.words.len() * 4) as u32
}

/// Global memory. The common case looks the allocation up once for the whole wave.
#[inline(always)]
pub fn global<O: LaneOp>(cx: &mut Cx, addresses: &[u64; 32], mask: u32, op: &O) -> Result<(), Box<Fault>> {
    if mask == 0 {
        return Ok(());
    }
    aligned(op, addresses, mask)?;
    if cx.watch.is_some() {
        tell(cx, Space::Global, addresses, mask, op)?;
    }
    let (memory, vgpr) = (cx.memory, &mut *cx.wave.vgpr);
    let first = addresses[mask.trailing_zeros() as usize];
    let bytes = op.bytes() as u64;
    if let Some(region) = memory.region(first)
        && all_inside(addresses, mask, region.base(), region.len(), bytes)
    {
        let (base, place) = (region.base(), &mut Global(region));
        if mask == u32::MAX {
            let mut offsets = *addresses;
            for offset in &mut offsets {
                *offset -= base;
            }
            op.run_all(place, &offsets, vgpr);
        } else {
            for lane in lanes_of(mask) {
                op.run(place, addresses[lane] - base, lane, vgpr);
            }
        }
        return Ok(());
    }
    scattered(memory, vgpr, addresses, mask, op)
}

/// Whether the bytes of every lane that is on lie within `len` bytes at `base`. `len` is below 2⁶³, so signs tell: of the offset, and
/// of what is left behind it.
#[inline(always)]
fn all_inside(addresses: &[u64; 32], mask: u32, base: u64, len: u64, bytes: u64) -> bool {
    let Some(last) = len.checked_sub(bytes) else { return false };
    let mut signs = 0;
    if mask == u32::MAX {
        for &address in addresses {
            let offset = address.wrapping_sub(base);
            signs |= offset | last.wrapping_sub(offset);
        }
    } else {
        for lane in lanes_of(mask) {
            let offset = addresses[lane].wrapping_sub(base);
            signs |= offset | last.wrapping_sub(offset);
        }
    }
    signs >> 63 == 0
}

/// Lanes in several allocations, or one outside.
#[inline(never)]
fn scattered<O: LaneOp>(
    memory: &Memory,
    vgpr: &mut Vgprs,
    addresses: &[u64; 32],
    mask: u32,
    op: &O,
) -> Result<(), Box<Fault>> {
    for lane in lanes_of(mask) {
        let region = memory.access(O::ACCESS, addresses[lane], op.bytes(), lane as u32)?;
        op.run(&mut Global(region), addresses[lane] - region.base(), lane, vgpr);
    }
    Ok(())
}

/// The fault of the first lane whose bytes are not inside `size`.
#[inline(always)]
fn inside<O: LaneOp>(
    space: &'static str,
    size: u32,
    addresses: &[u64; 32],
    mask: u32,
    op: &O,
) -> Result<(), Box<Fault>> {
    aligned(op, addresses, mask)?;
    let bytes = op.bytes();
    if all_inside(addresses, mask, 0, size as u64, bytes as u64) {
        return Ok(());
    }
    for lane in lanes_of(mask) {
        let address = addresses[lane];
        if address > size as u64 || size as u64 - address < bytes as u64 {
            let (access, lane) = (O::ACCESS, lane as u32);
            return Err(Box::new(Fault::LocalOutOfBounds { space, access, address, bytes, lane, size }));
        }
    }
    Ok(())
}

/// LDS, against the exact bytes of the launch.
#[inline(always)]
pub fn lds<O: LaneOp>(cx: &mut Cx, addresses: &[u64; 32], mask: u32, op: &O) -> Result<(), Box<Fault>> {
    let size = lds_bytes(cx);
    inside("LDS", size, addresses, mask, op)?;
    if cx.watch.is_some() {
        tell(cx, Space::Lds, addresses, mask, op)?;
    }
    let (lds, vgpr, arch) = (&mut *cx.lds, &mut *cx.wave.vgpr, cx.arch);
    let place = &mut Words { words: &mut lds.words, stride: 1, first: 0, arch };
    if mask == u32::MAX {
        op.run_all(place, addresses, vgpr);
    } else {
        for lane in lanes_of(mask) {
            op.run(place, addresses[lane], lane, vgpr);
        }
    }
    Ok(())
}

/// Scratch of the wave, by byte offset within a lane's part.
pub fn scratch<O: LaneOp>(cx: &mut Cx, addresses: &[u64; 32], mask: u32, op: &O) -> Result<(), Box<Fault>> {
    let size = (cx.wave.scratch_bytes as usize).min(cx.wave.scratch.len() / 32 * 4) as u32;
    inside("scratch", size, addresses, mask, op)?;
    if cx.watch.is_some() {
        tell(cx, Space::Scratch, addresses, mask, op)?;
    }
    let (wave, arch) = (&mut *cx.wave, cx.arch);
    for lane in lanes_of(mask) {
        let place = &mut Words { words: &mut wave.scratch, stride: 32, first: lane, arch };
        op.run(place, addresses[lane], lane, &mut wave.vgpr);
    }
    Ok(())
}

/// Flat addresses: the high half of each lane's base picks LDS, scratch or global memory before `offset` is added.
pub fn flat<O: LaneOp>(cx: &mut Cx, bases: &[u64; 32], offset: i64, mask: u32, op: &O) -> Result<(), Box<Fault>> {
    let (mut shared, mut private) = (0u32, 0u32);
    for (lane, base) in bases.iter().enumerate() {
        shared |= ((base >> 32 == SHARED_APERTURE as u64) as u32) << lane;
        private |= ((base >> 32 == PRIVATE_APERTURE as u64) as u32) << lane;
    }
    let (shared, private) = (shared & mask, private & mask);
    if shared | private != 0 {
        // Within an aperture an address has 32 bits, so a negative sum is far outside.
        let local = bases.map(|base| (base as u32).wrapping_add(offset as u32) as u64);
        lds(cx, &local, shared, op)?;
        scratch(cx, &local, private, op)?;
    }
    let addresses = bases.map(|base| base.wrapping_add_signed(offset));
    global(cx, &addresses, mask & !(shared | private), op)
}
