//! Device memory: allocations at addresses of our own, stored as atomic dwords so that workgroups on several threads may share them
//! without unsafe. Relaxed atomic loads and stores of a dword are plain moves on the host; a store of a byte or a half is a
//! compare-exchange, because its neighbours may belong to another thread. Not modelled: caches and their staleness.

use crate::fault::{Access, Fault};
use crate::watch::finding::Allocation;
use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

/// First address handed out; far from zero, from the LDS and scratch apertures and from anything a host pointer looks like.
const FIRST: u64 = 0x7000_0000_0000;
/// Where kernel arguments live, below every allocation.
const ARENA: u64 = 0x6f00_0000_0000;
/// Bytes of kernel arguments of all launches in flight.
const ARENA_BYTES: u64 = 4 << 20;
/// Granule of the arena.
const ARENA_PAGE: u64 = 4096;
/// Addresses between two allocations that belong to neither, so that a short overrun is caught.
const RED_ZONE: u64 = 1 << 20;
/// Freed allocations that are remembered.
const MOST_FREED: usize = 1 << 16;
/// Places that a thread remembers of where it found allocations.
const RECENT: usize = 16;
/// Alignment of every allocation, as `hipMalloc` gives.
const ALIGN: u64 = 256;

thread_local! {
    /// Numbers of regions by bits of an address. Only guesses: whoever follows one looks whether it holds.
    static FOUND: [Cell<usize>; RECENT] = const { [const { Cell::new(0) }; RECENT] };
}

/// One live allocation.
pub struct Region {
    base: u64,
    len: u64,
    words: Box<[AtomicU32]>,
    wide: Mutex<()>,
    /// A bit for each byte that something has written, where that is followed ([`Memory::follow_writes`]).
    written: Option<Box<[AtomicU32]>>,
    /// Whether all of it is known to have been written.
    all_written: AtomicBool,
}

impl Region {
    /// First address.
    pub fn base(&self) -> u64 {
        self.base
    }
    /// Length in bytes.
    pub fn len(&self) -> u64 {
        self.len
    }
    /// Whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
    /// Whether `bytes` bytes at `address` lie inside.
    #[inline(always)]
    pub fn contains(&self, address: u64, bytes: u64) -> bool {
        address.wrapping_sub(self.base) < self.len && self.len - (address - self.base) >= bytes
    }
    /// Whether all of `bytes` bytes at a byte offset have been written; where that is not followed, they have.
    #[inline]
    pub fn written(&self, offset: u64, bytes: u32) -> bool {
        let Some(written) = &self.written else { return true };
        if self.all_written() {
            return true;
        }
        let (word, shift) = ((offset >> 5) as usize, (offset & 31) as u32);
        if shift + bytes <= 32 {
            let wanted = (u32::MAX >> (32 - bytes.clamp(1, 32))) << shift;
            return written[word].load(Relaxed) & wanted == wanted;
        }
        (offset..offset + bytes as u64).all(|byte| written[(byte >> 5) as usize].load(Relaxed) >> (byte & 31) & 1 != 0)
    }
    /// Whether all of it is known to have been written: by one copy, fill or declaration, or because that is not followed.
    #[inline]
    pub fn all_written(&self) -> bool {
        self.all_written.load(Relaxed)
    }
    /// Notes that `bytes` bytes at a byte offset have been written.
    pub fn mark_written(&self, offset: u64, bytes: u64) {
        let Some(written) = &self.written else { return };
        if self.all_written() {
            return;
        }
        if offset == 0 && bytes == self.len {
            self.all_written.store(true, Relaxed);
        }
        let end = offset + bytes;
        let mut at = offset;
        while at < end {
            let (word, shift) = ((at >> 5) as usize, at & 31);
            let count = (32 - shift).min(end - at);
            let bits = (u32::MAX >> (32 - count)) << shift;
            if written[word].load(Relaxed) & bits != bits {
                written[word].fetch_or(bits, Relaxed);
            }
            at += count;
        }
    }
    /// The dword at a byte offset that is a multiple of 4; the caller has checked bounds with [`Region::contains`].
    #[inline(always)]
    pub fn load_aligned(&self, offset: u64) -> u32 {
        self.words[(offset >> 2) as usize].load(Relaxed)
    }
    /// Stores a dword at a byte offset that is a multiple of 4.
    #[inline(always)]
    pub fn store_aligned(&self, offset: u64, value: u32) {
        self.words[(offset >> 2) as usize].store(value, Relaxed);
    }
    /// A dword at any byte offset.
    #[inline(always)]
    pub fn load32(&self, offset: u64) -> u32 {
        let shift = (offset & 3) as u32 * 8;
        let low = self.load_aligned(offset & !3);
        if shift == 0 {
            return low;
        }
        low >> shift | self.load_aligned((offset & !3) + 4) << (32 - shift)
    }
    /// N dwords from any byte offset; the caller has checked bounds.
    #[inline(always)]
    pub fn load_words<const N: usize>(&self, offset: u64) -> [u32; N] {
        let mut out = [0; N];
        let first = (offset >> 2) as usize;
        if offset & 3 == 0 {
            for (out, word) in out.iter_mut().zip(&self.words[first..first + N]) {
                *out = word.load(Relaxed);
            }
        } else {
            for (k, out) in out.iter_mut().enumerate() {
                *out = self.load32(offset + 4 * k as u64);
            }
        }
        out
    }
    /// N dwords from a byte offset that is a multiple of 4; none where they are not all there.
    #[inline(always)]
    pub(crate) fn words_at<const N: usize>(&self, offset: u64) -> Option<&[AtomicU32; N]> {
        if offset & 3 != 0 {
            return None;
        }
        self.words.get((offset >> 2) as usize..)?.first_chunk()
    }
    /// All whole groups of 16 bytes, as dwords.
    #[inline(always)]
    pub(crate) fn fours(&self) -> &[[AtomicU32; 4]] {
        self.words.as_chunks().0
    }
    /// 32 · N dwords from a byte offset that is a multiple of 4, in a lane's N; none where they are not all there.
    #[inline(always)]
    pub(crate) fn row<const N: usize>(&self, offset: u64) -> Option<&[[AtomicU32; N]; 32]> {
        if offset & 3 != 0 {
            return None;
        }
        let (lanes, _) = self.words.get((offset >> 2) as usize..)?.as_chunks::<N>();
        lanes.first_chunk()
    }
    /// A byte.
    #[inline(always)]
    pub fn load8(&self, offset: u64) -> u8 {
        (self.load_aligned(offset & !3) >> ((offset & 3) * 8)) as u8
    }
    /// A half at any byte offset.
    #[inline(always)]
    pub fn load16(&self, offset: u64) -> u16 {
        if offset & 3 == 3 {
            return self.load8(offset) as u16 | (self.load8(offset + 1) as u16) << 8;
        }
        (self.load_aligned(offset & !3) >> ((offset & 3) * 8)) as u16
    }
    /// Stores a dword at any byte offset.
    #[inline(always)]
    pub fn store32(&self, offset: u64, value: u32) {
        if offset & 3 == 0 {
            return self.store_aligned(offset, value);
        }
        for (i, byte) in value.to_le_bytes().into_iter().enumerate() {
            self.store8(offset + i as u64, byte);
        }
    }
    /// Stores a byte without touching its neighbours.
    pub fn store8(&self, offset: u64, value: u8) {
        let shift = (offset & 3) * 8;
        self.merge(offset, 0xff << shift, (value as u32) << shift);
    }
    /// Stores a half at any byte offset without touching its neighbours.
    pub fn store16(&self, offset: u64, value: u16) {
        if offset & 3 == 3 {
            self.store8(offset, value as u8);
            return self.store8(offset + 1, (value >> 8) as u8);
        }
        let shift = (offset & 3) * 8;
        self.merge(offset, 0xffff << shift, (value as u32) << shift);
    }
    fn merge(&self, offset: u64, mask: u32, bits: u32) {
        let word = &self.words[(offset >> 2) as usize];
        let _ = word.fetch_update(Relaxed, Relaxed, |old| Some(old & !mask | bits));
    }
    /// Atomic read-modify-write of an aligned dword; returns the old value.
    pub fn atomic32(&self, offset: u64, mut f: impl FnMut(u32) -> u32) -> u32 {
        use std::sync::atomic::Ordering::SeqCst;
        let word = &self.words[(offset >> 2) as usize];
        let mut old = word.load(SeqCst);
        loop {
            match word.compare_exchange_weak(old, f(old), SeqCst, SeqCst) {
                Ok(_) => return old,
                Err(now) => old = now,
            }
        }
    }
    /// Read-modify-write of an aligned qword, atomic among such calls on this allocation; returns the old value.
    pub fn atomic64(&self, offset: u64, f: impl FnOnce(u64) -> u64) -> u64 {
        let _guard = self.wide.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let old = self.load_aligned(offset) as u64 | (self.load_aligned(offset + 4) as u64) << 32;
        let new = f(old);
        self.store_aligned(offset, new as u32);
        self.store_aligned(offset + 4, (new >> 32) as u32);
        old
    }
}

/// Why an allocation call was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MemoryError {
    /// More than the machine has left.
    #[error("out of memory: {bytes} bytes asked, {free} of {total} free")]
    OutOfMemory {
        /// Asked.
        bytes: u64,
        /// Left.
        free: u64,
        /// In all.
        total: u64,
    },
    /// Not the first address of a live allocation.
    #[error("{0:#x} is not the start of a live allocation")]
    NotAllocated(u64),
    /// A copy or fill that is not inside one allocation.
    #[error("{bytes} bytes at {address:#x} are not inside one live allocation ({nearest})")]
    Range {
        /// First byte.
        address: u64,
        /// Length.
        bytes: u64,
        /// The nearest allocation in words.
        nearest: String,
    },
}

/// Room for the arguments of one launch; see [`Memory::arguments`].
pub struct ArgumentBlock<'a> {
    memory: &'a Memory,
    at: usize,
    count: usize,
}

impl ArgumentBlock<'_> {
    /// Its first address, a multiple of 4096.
    pub fn address(&self) -> u64 {
        ARENA + self.at as u64 * ARENA_PAGE
    }
}

impl Drop for ArgumentBlock<'_> {
    fn drop(&mut self) {
        let mut taken = self.memory.arena.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        taken[self.at..self.at + self.count].fill(false);
    }
}

/// All allocations of one device.
pub struct Memory {
    regions: Vec<Region>,        // sorted by base; one is the arena of kernel arguments
    arena: Mutex<Vec<bool>>,     // which of its pages are taken
    freed: VecDeque<(u64, u64)>, // first address and bytes of what was freed last
    next: u64,
    total: u64,
    used: u64,
    follow: bool,
}

impl Memory {
    /// An empty memory that refuses to hold more than `total` bytes.
    pub fn new(total: u64) -> Self {
        let words = bytemuck::allocation::zeroed_slice_box((ARENA_BYTES / 4) as usize);
        let arena = Region {
            base: ARENA,
            len: ARENA_BYTES,
            words,
            wide: Mutex::new(()),
            written: None,
            all_written: AtomicBool::new(true),
        };
        let pages = vec![false; (ARENA_BYTES / ARENA_PAGE) as usize];
        Memory {
            regions: vec![arena],
            arena: Mutex::new(pages),
            freed: VecDeque::new(),
            next: FIRST,
            total,
            used: 0,
            follow: false,
        }
    }
    /// From now on allocations know which of their bytes have been written, by the host or by a kernel that is checked for it. What
    /// was allocated before counts as written.
    pub fn follow_writes(&mut self) {
        self.follow = true;
    }
    /// Declares bytes written, whatever they hold.
    pub fn mark_written(&self, address: u64, bytes: u64) -> Result<(), MemoryError> {
        if bytes > 0 {
            let (region, at) = self.range(address, bytes)?;
            region.mark_written(at, bytes);
        }
        Ok(())
    }
    /// Declares all bytes of the allocation at `base` unwritten, whatever they hold.
    pub fn mark_unwritten(&self, base: u64) -> Result<(), MemoryError> {
        let region = self.region(base).filter(|region| region.base == base).ok_or(MemoryError::NotAllocated(base))?;
        if let Some(written) = &region.written {
            region.all_written.store(false, Relaxed);
            written.iter().for_each(|word| word.store(0, Relaxed));
        }
        Ok(())
    }
    /// Room for the arguments of one launch, freed when the block is dropped. It needs no `&mut`: launches run side by side.
    pub fn arguments(&self, bytes: u64) -> Result<ArgumentBlock<'_>, MemoryError> {
        let count = bytes.div_ceil(ARENA_PAGE).max(1) as usize;
        let mut taken = self.arena.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let found = (0..(taken.len() + 1).saturating_sub(count)).find(|&at| !taken[at..at + count].contains(&true));
        let Some(at) = found else {
            let free = taken.iter().filter(|&&page| !page).count() as u64 * ARENA_PAGE;
            return Err(MemoryError::OutOfMemory { bytes, free, total: ARENA_BYTES });
        };
        taken[at..at + count].fill(true);
        Ok(ArgumentBlock { memory: self, at, count })
    }
    /// Bytes in all.
    pub fn total(&self) -> u64 {
        self.total
    }
    /// Whether `address` was or lies between device allocations handed out so far, live or not: no address of the host does.
    pub fn is_ours(&self, address: u64) -> bool {
        (FIRST..self.next).contains(&address)
    }
    /// Bytes not allocated.
    pub fn free_bytes(&self) -> u64 {
        self.total - self.used
    }
    /// Allocates `bytes` zeroed bytes (pages are mapped when touched); the address is a multiple of 256 and never reused.
    pub fn alloc(&mut self, bytes: u64) -> Result<u64, MemoryError> {
        let refused = MemoryError::OutOfMemory { bytes, free: self.free_bytes(), total: self.total };
        if bytes > self.free_bytes() {
            return Err(refused);
        }
        let Ok(count) = usize::try_from(bytes.div_ceil(4)) else { return Err(refused) };
        let words = bytemuck::allocation::try_zeroed_slice_box(count).map_err(|()| refused.clone())?;
        let written = match self.follow {
            true => Some(bytemuck::allocation::try_zeroed_slice_box(count.div_ceil(8)).map_err(|()| refused)?),
            false => None,
        };
        let all_written = AtomicBool::new(!self.follow);
        let base = self.next;
        self.next = (base + bytes + RED_ZONE).next_multiple_of(ALIGN);
        self.used += bytes;
        let index = self.regions.partition_point(|r| r.base < base);
        self.regions.insert(index, Region { base, len: bytes, words, wide: Mutex::new(()), written, all_written });
        Ok(base)
    }
    /// Allocates `bytes` zeroed bytes at the address where the host keeps them, so that one pointer serves both sides as that of
    /// `hipHostMalloc` does; aligned as the host's allocator aligns, at least to 4. It does not count as device memory. Its neighbours are
    /// the host's, so that an overrun is caught only where no other such allocation follows.
    pub fn alloc_host(&mut self, bytes: u64) -> Result<u64, MemoryError> {
        let refused = MemoryError::OutOfMemory { bytes, free: self.free_bytes(), total: self.total };
        let Ok(count) = usize::try_from(bytes.max(1).div_ceil(4)) else { return Err(refused) };
        let words: Box<[AtomicU32]> = bytemuck::allocation::try_zeroed_slice_box(count).map_err(|()| refused)?;
        // The address of an atomic may be written through from outside; what is behind it stays at its place when the box moves.
        let base = words.as_ptr().expose_provenance() as u64;
        let index = self.regions.partition_point(|r| r.base < base);
        // The host writes past this module's functions, so nothing is known of what it wrote.
        let (written, all_written) = (None, AtomicBool::new(true));
        let (len, wide) = (bytes.max(1), Mutex::new(()));
        self.regions.insert(index, Region { base, len, words, wide, written, all_written });
        Ok(base)
    }
    /// Frees the allocation that starts at `base`.
    pub fn free(&mut self, base: u64) -> Result<(), MemoryError> {
        let index =
            self.regions.binary_search_by_key(&base, |r| r.base).map_err(|_| MemoryError::NotAllocated(base))?;
        if base == ARENA {
            return Err(MemoryError::NotAllocated(base));
        }
        let len = self.regions.remove(index).len;
        if self.freed.len() == MOST_FREED {
            self.freed.pop_front();
        }
        self.freed.push_back((base, len));
        if (FIRST..self.next).contains(&base) {
            self.used -= len;
        }
        Ok(())
    }
    /// All live allocations by address, with the room for kernel arguments among them.
    pub fn regions(&self) -> &[Region] {
        &self.regions
    }
    /// The allocation that holds `address`.
    #[inline]
    pub fn region(&self, address: u64) -> Option<&Region> {
        // The same instructions ask for the same few allocations again and again: each thread remembers where it found them.
        // Neighbouring allocations are a megabyte apart or more, so their addresses differ in these bits.
        let slot = (address >> 20) as usize % RECENT;
        let recent = FOUND.with(|found| found[slot].get());
        match self.regions.get(recent) {
            Some(region) if address.wrapping_sub(region.base) < region.len => Some(region),
            _ => self.find(address, slot),
        }
    }
    /// [`Memory::region`] by halving, remembered in `slot`.
    #[inline(never)]
    fn find(&self, address: u64, slot: usize) -> Option<&Region> {
        let index = self.regions.partition_point(|r| r.base <= address).checked_sub(1)?;
        let region = &self.regions[index];
        FOUND.with(|found| found[slot].set(index));
        (address - region.base < region.len).then_some(region)
    }
    /// The allocation that holds all of `bytes` bytes at `address`, or the fault of an access by `lane`.
    #[inline]
    pub fn access(&self, access: Access, address: u64, bytes: u32, lane: u32) -> Result<&Region, Box<Fault>> {
        match self.region(address) {
            Some(region) if region.contains(address, bytes as u64) => Ok(region),
            _ => {
                let nearest = self.nearest(address);
                let freed = self.freed_at(address);
                Err(Box::new(Fault::OutOfBounds { access, address, bytes, lane, nearest, freed }))
            }
        }
    }
    /// First address and bytes of the freed allocation that held `address`.
    fn freed_at(&self, address: u64) -> Option<(u64, u64)> {
        self.freed.iter().rev().copied().find(|&(base, bytes)| address.wrapping_sub(base) < bytes)
    }
    /// The allocation that holds `address`, else a freed one that did, else the last live one before it.
    pub fn allocation(&self, address: u64) -> Option<Allocation> {
        let live = |r: &Region| Allocation { base: r.base, bytes: r.len, live: true };
        if let Some(region) = self.region(address) {
            return Some(live(region));
        }
        if let Some((base, bytes)) = self.freed_at(address) {
            return Some(Allocation { base, bytes, live: false });
        }
        let before = self.regions.partition_point(|r| r.base <= address).checked_sub(1)?;
        Some(live(&self.regions[before])).filter(|allocation| allocation.base != ARENA)
    }
    /// Whether `address` lies where arguments of launches are kept.
    pub fn is_argument(&self, address: u64) -> bool {
        address.wrapping_sub(ARENA) < ARENA_BYTES
    }
    /// Where `address` lies relative to the allocation before it.
    pub fn nearest(&self, address: u64) -> String {
        if self.region(address).is_none()
            && let Some((base, bytes)) = self.freed_at(address)
        {
            return format!("byte {} of the {bytes} at {base:#x}, which were freed", address - base);
        }
        let index = self.regions.partition_point(|r| r.base <= address);
        match index.checked_sub(1).map(|before| &self.regions[before]) {
            None => "nothing is allocated there".into(),
            Some(r) if r.base == ARENA && address - r.base >= r.len => match self.regions.get(index) {
                None => "nothing is allocated".into(),
                Some(first) => format!("{} bytes before the first", first.base - address),
            },
            Some(r) if address - r.base < r.len => {
                format!("{} bytes before the end of the {} at {:#x}", r.len - (address - r.base), r.len, r.base)
            }
            Some(r) => format!("{} bytes past the end of the {} at {:#x}", address - r.base - r.len, r.len, r.base),
        }
    }
    fn range(&self, address: u64, bytes: u64) -> Result<(&Region, u64), MemoryError> {
        match self.region(address) {
            Some(region) if region.contains(address, bytes) => Ok((region, address - region.base)),
            _ => Err(MemoryError::Range { address, bytes, nearest: self.nearest(address) }),
        }
    }
    /// Copies `out.len()` bytes from `address`.
    pub fn read(&self, address: u64, out: &mut [u8]) -> Result<(), MemoryError> {
        if out.is_empty() {
            return Ok(());
        }
        let (region, mut at) = self.range(address, out.len() as u64)?;
        let head = (at.wrapping_neg() & 3).min(out.len() as u64) as usize;
        let (head, rest) = out.split_at_mut(head);
        for byte in head {
            *byte = region.load8(at);
            at += 1;
        }
        let mut chunks = rest.chunks_exact_mut(4);
        for chunk in &mut chunks {
            chunk.copy_from_slice(&region.load_aligned(at).to_le_bytes());
            at += 4;
        }
        for byte in chunks.into_remainder() {
            *byte = region.load8(at);
            at += 1;
        }
        Ok(())
    }
    /// Copies `data` to `address`.
    pub fn write(&self, address: u64, data: &[u8]) -> Result<(), MemoryError> {
        if data.is_empty() {
            return Ok(());
        }
        let (region, mut at) = self.range(address, data.len() as u64)?;
        region.mark_written(at, data.len() as u64);
        let head = (at.wrapping_neg() & 3).min(data.len() as u64) as usize;
        let (head, rest) = data.split_at(head);
        for &byte in head {
            region.store8(at, byte);
            at += 1;
        }
        let chunks = rest.chunks_exact(4);
        let tail = chunks.remainder();
        for chunk in chunks {
            region.store_aligned(at, u32::from_le_bytes([chunk[0], chunk[1], chunk[2], chunk[3]]));
            at += 4;
        }
        for &byte in tail {
            region.store8(at, byte);
            at += 1;
        }
        Ok(())
    }
    /// Sets `bytes` bytes at `address` to `value`.
    pub fn fill(&self, address: u64, bytes: u64, value: u8) -> Result<(), MemoryError> {
        if bytes == 0 {
            return Ok(());
        }
        let (region, mut at) = self.range(address, bytes)?;
        region.mark_written(at, bytes);
        let end = at + bytes;
        while at < end {
            if at & 3 == 0 && end - at >= 4 {
                region.store_aligned(at, u32::from_le_bytes([value; 4]));
                at += 4;
            } else {
                region.store8(at, value);
                at += 1;
            }
        }
        Ok(())
    }
}
