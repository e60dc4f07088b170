//! Reproducible randomness for tests of the emulator: a generator, and instruction words that reach every encoding format. Which words
//! are instructions it does not know; most of what it makes are.

/// splitmix64: the same numbers on every machine.
#[derive(Debug, Clone)]
pub struct Random(pub u64);

impl Random {
    /// The next 64 bits.
    pub fn wide(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }
    /// The next 32 bits.
    pub fn word(&mut self) -> u32 {
        (self.wide() >> 32) as u32
    }
    /// A number below `end`, which is not 0.
    pub fn below(&mut self, end: usize) -> usize {
        (self.wide() % end as u64) as usize
    }
    /// One of `list`, which is not empty.
    pub fn one_of<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.below(list.len())]
    }
    /// Whether something of probability 1 in `n` happens.
    pub fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }
}

/// Leading bits of each format and the bits behind them that are free, so that random words reach all of them.
pub const FORMATS: &[(u32, u32)] = &[
    (0x0000_0000, 0x7fff_ffff),
    (0x7c00_0000, 0x01ff_ffff),
    (0x7e00_0000, 0x01ff_ffff),
    (0x8000_0000, 0x3fff_ffff),
    (0xb000_0000, 0x0fff_ffff),
    (0xbe80_0000, 0x007f_ffff),
    (0xbf00_0000, 0x00ff_ffff),
    (0xf400_0000, 0x03ff_ffff),
    (0xd400_0000, 0x03ff_ffff),
    (0xcc00_0000, 0x00ff_ffff),
    (0xc800_0000, 0x03ff_ffff),
    (0xd800_0000, 0x03ff_ffff),
    (0xec00_0000, 0x003f_ffff),
    (0xed00_0000, 0x003f_ffff),
    (0xee00_0000, 0x003f_ffff),
    (0xc400_0000, 0x03ff_ffff),
    (0x0000_0000, 0xffff_ffff),
];

/// Gives `words`, which are random, the beginning of format number `format` of [`FORMATS`]. `register` 0 leaves the scalar address of
/// a memory instruction alone; others choose `null` or s4, which random bits hit too seldom.
pub fn shape(words: &mut [u32], format: usize, register: usize) {
    let (base, mask) = FORMATS[format];
    words[0] = base | words[0] & mask;
    if register > 0 && base >> 24 >= 0xec {
        words[0] = words[0] & !0x7f | [0, 124, 4, 124][register];
    }
}
