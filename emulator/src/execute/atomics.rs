//! What a read-modify-write computes: old value, data and second operand give the new value. The same operations serve global memory,
//! LDS and buffers. Memory float operations keep denormals and round to nearest even whatever MODE says. Those of LDS round
//! so too, but MODE says whether they flush denormals: of the inputs, before the operation, and of sums.

use super::convert::f32_to_bf16;
use super::scalar::{max_num, min_num};
use super::soft_float as soft;
use half::f16;

/// MODE of memory's arithmetic: to nearest even, with all denormals.
const KEEP_ALL: u32 = 0xf0;

/// A 32-bit operation: old, data, second operand.
pub type Op32 = fn(u32, u32, u32) -> u32;
/// A 64-bit operation.
pub type Op64 = fn(u64, u64, u64) -> u64;

/// Defines integer operations for both widths: `name(old, data, second)`.
macro_rules! integer {
    ($($(#[$doc:meta])* $name32:ident $name64:ident ($old:ident, $data:ident, $second:ident) $body:expr;)*) => { $(
        $(#[$doc])*
        pub fn $name32($old: u32, $data: u32, $second: u32) -> u32 { $body }
        $(#[$doc])*
        pub fn $name64($old: u64, $data: u64, $second: u64) -> u64 { $body }
    )* };
}

integer! {
    /// The data replaces it.
    swap32 swap64(_old, data, _second) data;
    /// The data replaces it where it equals the second operand.
    cmpswap32 cmpswap64(old, data, compare) if old == compare { data } else { old };
    /// Wrapping sum.
    add32 add64(old, data, _second) old.wrapping_add(data);
    /// Wrapping difference.
    sub32 sub64(old, data, _second) old.wrapping_sub(data);
    /// Difference the other way round.
    rsub32 rsub64(old, data, _second) data.wrapping_sub(old);
    /// Unsigned minimum.
    min_u32 min_u64(old, data, _second) old.min(data);
    /// Unsigned maximum.
    max_u32 max_u64(old, data, _second) old.max(data);
    /// Bitwise and.
    and32 and64(old, data, _second) old & data;
    /// Bitwise or.
    or32 or64(old, data, _second) old | data;
    /// Bitwise exclusive or.
    xor32 xor64(old, data, _second) old ^ data;
    /// Counts up to the data, then starts at 0.
    inc32 inc64(old, data, _second) if old >= data { 0 } else { old + 1 };
    /// Counts down to 0, then starts at the data.
    dec32 dec64(old, data, _second) if old == 0 || old > data { data } else { old - 1 };
    /// Clears the data's bits and sets the second operand's.
    mskor32 mskor64(old, clear, set) old & !clear | set;
}

/// Signed minimum.
pub fn min_i32(old: u32, data: u32, _: u32) -> u32 {
    (old as i32).min(data as i32) as u32
}
/// Signed maximum.
pub fn max_i32(old: u32, data: u32, _: u32) -> u32 {
    (old as i32).max(data as i32) as u32
}
/// Signed minimum.
pub fn min_i64(old: u64, data: u64, _: u64) -> u64 {
    (old as i64).min(data as i64) as u64
}
/// Signed maximum.
pub fn max_i64(old: u64, data: u64, _: u64) -> u64 {
    (old as i64).max(data as i64) as u64
}
/// Difference, not below 0.
pub fn sub_clamp32(old: u32, data: u32, _: u32) -> u32 {
    old.saturating_sub(data)
}
/// Difference where it is not negative, else nothing.
pub fn cond_sub32(old: u32, data: u32, _: u32) -> u32 {
    old.checked_sub(data).unwrap_or(old)
}
/// Each dword of the data with its top bit set replaces (without that bit) the dword in memory.
pub fn condxchg(old: u64, data: u64, _: u64) -> u64 {
    let half = |old: u32, data: u32| if data >> 31 != 0 { data & 0x7fff_ffff } else { old };
    half(old as u32, data as u32) as u64 | (half((old >> 32) as u32, (data >> 32) as u32) as u64) << 32
}

/// f32 sum. A NaN among the operands is quieted, the old value's first; without one, no result is the negative NaN.
pub fn add_f32(old: u32, data: u32, _: u32) -> u32 {
    let (a, b) = (f32::from_bits(old), f32::from_bits(data));
    let sum = a + b;
    if sum.is_nan() { soft::add(KEEP_ALL, a, b).to_bits() } else { sum.to_bits() }
}

/// The old value or the data: a number wins over a NaN, −0 is below +0; of two NaN the data's is quieted.
macro_rules! extremum {
    ($($(#[$doc:meta])* $name:ident($float:ty, $bits:ty) = $pick:ident;)*) => { $(
        $(#[$doc])*
        pub fn $name(old: $bits, data: $bits, _: $bits) -> $bits {
            let value: $float = $pick(<$float>::from_bits(data), <$float>::from_bits(old));
            value.to_bits()
        }
    )* };
}
extremum! {
    /// f32 minimum.
    min_num_f32(f32, u32) = min_num;
    /// f32 maximum.
    max_num_f32(f32, u32) = max_num;
    /// f64 minimum.
    min_num_f64(f64, u64) = min_num;
    /// f64 maximum.
    max_num_f64(f64, u64) = max_num;
}

/// Two f16 sums.
pub fn pk_add_f16(old: u32, data: u32, _: u32) -> u32 {
    let add = |a: u32, b: u32| {
        let sum = soft::add(KEEP_ALL, f16::from_bits(a as u16), f16::from_bits(b as u16));
        sum.to_bits() as u32
    };
    add(old, data) | add(old >> 16, data >> 16) << 16
}
/// Two bf16 sums. The f32 sum has more than twice the bits of a bf16 and two, so rounding it again changes nothing.
pub fn pk_add_bf16(old: u32, data: u32, _: u32) -> u32 {
    let add = |a: u32, b: u32| {
        let sum = add_f32(a << 16, b << 16, 0);
        if f32::from_bits(sum).is_nan() { sum >> 16 } else { f32_to_bf16(f32::from_bits(sum)) }
    };
    add(old, data) | add(old >> 16, data >> 16) << 16
}

/// Flushes an f32 denormal.
const fn flush32(x: u32) -> u32 {
    if x & 0x7f80_0000 == 0 { x & 0x8000_0000 } else { x }
}
/// Flushes an f64 denormal.
const fn flush64(x: u64) -> u64 {
    if x & 0x7ff0_0000_0000_0000 == 0 { x & 1 << 63 } else { x }
}
/// Flushes the f16 denormals of a pair.
const fn flush_f16(x: u32) -> u32 {
    let (low, high) = (x & 0x7c00 != 0, x & 0x7c00_0000 != 0);
    x & (if low { 0xffff } else { 0x8000 } | if high { 0xffff_0000 } else { 0x8000_0000 })
}
/// Flushes the bf16 denormals of a pair.
const fn flush_bf16(x: u32) -> u32 {
    flush32(x & 0xffff_0000) | flush32(x << 16) >> 16
}

/// Picks among the four combinations of flushing inputs and outputs that two bits of MODE (set: keep) say.
macro_rules! by_mode {
    ($($(#[$doc:meta])* $name:ident: $op:ty = $raw:ident, $ty:ty, $shift:literal, $flush_in:ident, $flush_out:expr;)*) => { $(
        $(#[$doc])*
        pub fn $name(mode: u32) -> $op {
            fn flushed<const INPUTS: bool, const OUTPUTS: bool>(old: $ty, data: $ty, second: $ty) -> $ty {
                let (a, b) = if INPUTS { ($flush_in(old), $flush_in(data)) } else { (old, data) };
                let value = $raw(a, b, second);
                if OUTPUTS { $flush_out(value) } else { value }
            }
            match mode >> $shift & 3 {
                0 => flushed::<true, true>,
                1 => flushed::<false, true>,
                2 => flushed::<true, false>,
                _ => $raw,
            }
        }
    )* };
}

fn same<T>(value: T) -> T {
    value
}

by_mode! {
    /// LDS: f32 sum.
    lds_add_f32: Op32 = add_f32, u32, 4, flush32, flush32;
    /// LDS: f32 minimum, which looks at the denormals of its inputs only.
    lds_min_num_f32: Op32 = min_num_f32, u32, 4, flush32, same;
    /// LDS: f32 maximum.
    lds_max_num_f32: Op32 = max_num_f32, u32, 4, flush32, same;
    /// LDS: f64 minimum.
    lds_min_num_f64: Op64 = min_num_f64, u64, 6, flush64, same;
    /// LDS: f64 maximum.
    lds_max_num_f64: Op64 = max_num_f64, u64, 6, flush64, same;
    /// LDS: two f16 sums.
    lds_pk_add_f16: Op32 = pk_add_f16, u32, 6, flush_f16, flush_f16;
    /// LDS: two bf16 sums; their denormals go by the fields of f16.
    lds_pk_add_bf16: Op32 = pk_add_bf16, u32, 6, flush_bf16, flush_bf16;
}
