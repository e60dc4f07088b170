//! One token through whole layers: fused decode. Four kernels over the same phases, each for head_dim 64 and 128, and two of them for heads
//! with norms and for heads without (which may have biases instead):
//! [`NAME_ATTENTION_D128`] is a layer's first half (RMSNorm, q/k/v, head norms, rotation, KV append, attention, o_proj, residual),
//! [`NAME_MLP_D128`] its second (RMSNorm, gate/up, SwiGLU, down_proj, residual), [`NAME_HEAD_D128`] what follows the layers (RMSNorm,
//! lm_head, argmax), and [`NAME_PERSISTENT_D128`] all of it, token after token, in one launch. One sequence, one token at a time: prefill
//! has its own kernels. Quantized matrices have the last of these alone: all of one format those of [`NAMES_QUANTIZED`], any others, and mixtures,
//! those of [`NAMES_MIXED`], which read a [`Table`]. No sampling but the largest logit; logits can be left in memory for whoever samples.
//!
//! All workgroups of a launch run at once and wait for each other between phases ([`amdgpu_target::gpu::GridBarrier`]): the grid may not
//! be larger than what the card holds. Where the next token stands, and which it is, is in device memory ([`Work::STATE`]), so that a
//! captured graph of these launches can be replayed as it is.
//!
//! Memory: weights lie in one block, layers at equal distances ([`Args::layer_stride`]), or vectors do and a table has the places of matrices; so does
//! the KV cache. One base address for all
//! of them keeps every access a `global_*` one: an address that was itself loaded would become `flat_*`.

#[cfg(gpu)]
mod attend;
#[cfg(gpu)]
mod kernels;
#[cfg(gpu)]
mod launch;
#[cfg(gpu)]
mod mixed;
mod names;
#[cfg(gpu)]
mod phases;
#[cfg(gpu)]
mod quantized;
#[cfg(gpu)]
mod step;
#[cfg(gpu)]
mod stream;
#[cfg(gpu)]
mod weights;

use amdgpu_target::{Geometry, MAX_LDS_BYTES};

use crate::contract::{Address, Kernel, args};

pub use names::*;

/// Waves of a workgroup.
pub const WAVES: u32 = 16;
/// Workgroups that share a WGP, so a wave may have 192 VGPRs. More of them would only make the barriers slower.
pub const WORKGROUPS_PER_WGP: u32 = 2;
/// Work-items of a workgroup.
const ITEMS: u32 = WAVES * 32;
/// Elements of K that one step of a wave covers: four 16-byte loads per lane.
const CHUNK: u32 = 1024;
/// Widest residual stream: a work-item holds four quads of it.
pub const MAX_HIDDEN: u32 = ITEMS * 16;
/// Most workgroups.
pub const MAX_GRID: u32 = 1024;
/// Most pieces that a context is split into.
const MAX_SPLITS: u32 = 16;
/// Positions that a piece is a multiple of: 256 bytes of a row of transposed values.
#[cfg(any(gpu, test))]
const SPLIT_POSITIONS: u32 = 128;
/// Positions whose scores a workgroup holds at once.
const SCORES: u32 = 128;
/// Most ids that end a launch of several tokens early.
pub const MAX_ENDS: u32 = 16;
/// Bytes that [`Args`] counts offsets of weights in.
pub const UNIT: u64 = 256;
/// In place of an offset: q, k and v have no biases.
pub const NO_BIAS: u32 = u32::MAX;
/// In place of an id: a logit was not a number.
pub const NAN_ID: u32 = crate::argmax::NAN_ID;
/// In place of an id: the largest logit was infinite.
pub const INFINITE_ID: u32 = NAN_ID - 1;

/// A row of the list of kernels.
pub(crate) const fn kernel(name: &'static str) -> Kernel {
    Kernel { workgroups_per_wgp: WORKGROUPS_PER_WGP, ..Kernel::new(name, Args::FIELDS, WAVES) }
}

/// The same by kernel of [`NAMES_MIXED`].
pub(crate) const fn mixed(kernel: usize) -> Kernel {
    self::kernel(NAMES_MIXED[kernel])
}

/// The same by format and kernel of [`NAMES_QUANTIZED`].
pub(crate) const fn quantized(format: usize, kernel: usize) -> Kernel {
    self::kernel(NAMES_QUANTIZED[format].1[kernel])
}

args! {
    /// Arguments of all these kernels. Offsets into `weights` count [`UNIT`]s; those of a layer's tensors are the first layer's.
    pub struct Args {
        /// All weights: one block. Vectors are bf16; matrices too, or each is the object of its format.
        pub weights: Address,
        /// KV cache: per layer keys `[kv_heads, capacity, D]`, then values `[kv_heads, D, capacity]`, bf16.
        pub cache: Address,
        /// `[positions, D]` f32: cosines, then sines, as `rope` reads it.
        pub rope: Address,
        /// [`Work`], and behind it [`Table`] for the kernels that read one: those do not read `embed`, `qkv`, `o`, `gate`, `up`, `down`, `head` and
        /// `group_log2`.
        pub work: Address,
        /// `[tokens]` u32, the chosen ids.
        pub ids: Address,
        /// `[V]` f32, of the last token; written if `keep_logits` is not 0.
        pub logits: Address,
        /// From a layer's tensors to the next layer's, in UNITs.
        pub layer_stride: u32,
        /// Embedding `[V, H]`.
        pub embed: u32,
        /// First layer's `[H]` before attention.
        pub input_norm: u32,
        /// First layer's q, k, v `[Q + 2K, H]`, one behind the other; quantized, each from the next multiple of 256.
        pub qkv: u32,
        /// First layer's `[D]` for queries. In the kernels of heads without norms: biases `[Q + 2K]` of q, k and v, or [`NO_BIAS`].
        pub q_norm: u32,
        /// First layer's `[D]` for keys; not read by the kernels of heads without norms.
        pub k_norm: u32,
        /// First layer's o_proj `[H, Q]`.
        pub o: u32,
        /// First layer's `[H]` before the MLP.
        pub post_norm: u32,
        /// First layer's gate_proj `[I, H]`.
        pub gate: u32,
        /// First layer's up_proj `[I, H]`.
        pub up: u32,
        /// First layer's down_proj `[H, I]`.
        pub down: u32,
        /// Final norm `[H]`.
        pub norm: u32,
        /// lm_head `[V, H]`.
        pub head: u32,
        /// H, a multiple of 64, at most [`MAX_HIDDEN`].
        pub hidden: u32,
        /// Query heads.
        pub heads: u32,
        /// Key/value heads; a divisor of `heads`.
        pub kv_heads: u32,
        /// I, a multiple of 64.
        pub intermediate: u32,
        /// V, below 2³² − 1024.
        pub vocab: u32,
        /// Positions the cache holds, a multiple of 32; the token's is below it.
        pub capacity: u32,
        /// The layer (attention, mlp), or how many there are (persistent).
        pub layers: u32,
        /// Tokens of one launch, at least 1 (persistent).
        pub tokens: u32,
        /// Whether `logits` is written.
        pub keep_logits: u32,
        /// Workgroups of the launch.
        pub grid: u32,
        /// Offset of the sums in LDS, in bytes.
        pub lds_sums: u32,
        /// Offset of the activation in LDS, in bytes.
        pub lds_x: u32,
        /// log2 of the group of a scale: 5, 6 or 7; not used where matrices have no groups.
        pub group_log2: u32,
        /// ε of every norm.
        pub eps: f32,
        /// Scale of scores, 1/√D.
        pub scale: f32,
    }
}

/// Sizes of a model, as far as these kernels care.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// H.
    pub hidden: u32,
    /// Query heads.
    pub heads: u32,
    /// Key/value heads.
    pub kv_heads: u32,
    /// D.
    pub head_dim: u32,
    /// I.
    pub intermediate: u32,
    /// V.
    pub vocab: u32,
}

/// A size these kernels are not made for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    /// Its name in a model's configuration.
    pub what: &'static str,
    /// What it is.
    pub found: u32,
    /// What it may be: from 1 to this, a multiple of `multiple`.
    pub most: u32,
    /// See `most`.
    pub multiple: u32,
}

impl Shape {
    /// The first size that is outside what the kernels address by 32 bits; head_dim is [`names`]'s matter.
    pub fn limit(&self) -> Option<Limit> {
        let limit = |what, found, most, multiple| Limit { what, found, most, multiple };
        let sizes = [
            limit("hidden_size", self.hidden, MAX_HIDDEN, 64),
            limit("intermediate_size", self.intermediate, u32::MAX >> 8, 64),
            limit("num_attention_heads", self.heads, u32::MAX >> 15, 1),
            limit("num_key_value_heads", self.kv_heads, self.heads, 1),
            limit("vocab_size", self.vocab, u32::MAX - 1024, 1),
        ];
        sizes.into_iter().find(|size| size.found == 0 || size.found > size.most || size.found % size.multiple != 0)
    }

    /// Elements of a token's queries.
    pub const fn q(&self) -> u32 {
        self.heads * self.head_dim
    }
    /// Elements of a token's keys.
    pub const fn kv(&self) -> u32 {
        self.kv_heads * self.head_dim
    }

    /// Geometry on `grid` workgroups, and the two offsets in LDS that [`Args`] carries: sums, activation.
    pub const fn geometry(&self, grid: u32) -> (Geometry, u32, u32) {
        let sums = LDS_OWN + round_up(ceil(self.hidden, grid) * 4, 16);
        let x = sums + round_up(self.sums(grid) * 4, 16);
        let widest = max(max(self.hidden, self.q()), self.intermediate);
        let bytes = x + max(round_up(widest, CHUNK) * 2, self.attention_bytes());
        (Geometry { workgroups: [grid, 1, 1], waves: WAVES, lds_bytes: bytes }, sums, x)
    }

    /// Whether a workgroup's memory suffices on `grid` workgroups: the more there are, the fewer rows each has.
    pub const fn fits(&self, grid: u32) -> bool {
        self.geometry(grid).0.lds_bytes <= MAX_LDS_BYTES
    }

    /// Sums of one workgroup in the phase that has most of them.
    const fn sums(&self, grid: u32) -> u32 {
        let qkv = sums(ceil(self.q() + 2 * self.kv(), grid), self.hidden);
        let o = sums(ceil(self.hidden, grid), self.q());
        let mlp = sums(2 * mlp_rows(self.intermediate, grid), self.hidden);
        let down = sums(ceil(self.hidden, grid), self.intermediate);
        max(max(qkv, o), max(mlp, down))
    }

    /// LDS of the attention phase: queries of a group, the token's own key and value, scores, and three numbers per query.
    const fn attention_bytes(&self) -> u32 {
        let group = quotient(self.heads, self.kv_heads);
        4 * (round_up(group, 4) * (self.head_dim + SCORES) + 2 * self.head_dim + 4 * round_up(group, 4))
    }
}

/// Pairs of gate and up rows of a workgroup: an even number, because two results share a dword.
#[inline(always)]
const fn mlp_rows(intermediate: u32, grid: u32) -> u32 {
    ceil(intermediate / 2, grid) * 2
}

/// Sums that `rows` rows of `k` elements leave.
#[inline(always)]
const fn sums(rows: u32, k: u32) -> u32 {
    rows << parts_log2(rows, k)
}

/// log2 of the waves that share a row: as many as there are chunks for, while rows alone do not keep all waves busy.
#[inline(always)]
const fn parts_log2(rows: u32, k: u32) -> u32 {
    let mut log2 = 0;
    while (rows << log2) < WAVES && (2 << log2) <= k.div_ceil(CHUNK) {
        log2 += 1;
    }
    log2
}

/// a / b, 0 where b is 0: without the panic that a kernel may not hold.
#[allow(
    clippy::manual_checked_ops,
    reason = "the option costs the resident kernel four scalar registers, which it has not"
)]
#[inline(always)]
const fn quotient(a: u32, b: u32) -> u32 {
    if b == 0 { 0 } else { a / b }
}
#[inline(always)]
const fn ceil(a: u32, b: u32) -> u32 {
    quotient(a + b - 1, b)
}
#[inline(always)]
const fn max(a: u32, b: u32) -> u32 {
    if a > b { a } else { b }
}
#[inline(always)]
const fn round_up(x: u32, multiple: u32) -> u32 {
    x.div_ceil(multiple) * multiple
}

/// LDS from offset 0: one number of each wave, 8 bytes.
#[cfg(gpu)]
const LDS_WAVES: u32 = 0;
/// LDS: the launch's numbers, 128 bytes.
#[cfg(gpu)]
const LDS_NUMBERS: u32 = 128;
/// LDS: two rows of [`Table`], of the layer at work and of no layer.
#[cfg(gpu)]
const LDS_TABLE: u32 = 256;
#[cfg(gpu)]
const _: () = assert!(2 * TABLE_ROW * TABLE_ENTRY <= LDS_OWN - LDS_TABLE);
/// LDS: this workgroup's part of the residual stream.
const LDS_OWN: u32 = 512;

/// How matrices are stored that are not alike: in device memory behind [`Work::bytes`], for each layer a row of [`TABLE_ROW`] entries, and behind
/// those of all layers one for what belongs to none. An entry is four u32: where codes, scales and minimums begin, in [`UNIT`]s of the weights, and
/// the [`crate::format::Form`]. All parts lie inside the weights; without minimums these are the scales once more, and of bf16 both are not read.
/// Entries that are not named below are not read.
#[derive(Debug, Clone, Copy)]
pub struct Table;

/// Entries of a row of [`Table`].
pub const TABLE_ROW: u32 = 8;
/// Bytes of an entry of [`Table`].
pub const TABLE_ENTRY: u32 = 16;

impl Table {
    /// q_proj, k_proj and v_proj: three in turn.
    pub const Q: u32 = 0;
    /// o_proj.
    pub const O: u32 = 3;
    /// gate_proj and up_proj: two in turn.
    pub const GATE: u32 = 4;
    /// down_proj.
    pub const DOWN: u32 = 6;
    /// The embedding, in the row of no layer.
    pub const EMBED: u32 = 0;
    /// lm_head, in the row of no layer.
    pub const HEAD: u32 = 1;

    /// Bytes of a model's table.
    pub const fn bytes(layers: u32) -> u64 {
        (layers as u64 + 1) * (TABLE_ROW * TABLE_ENTRY) as u64
    }
}

/// Device memory that the phases pass results through, zeroed when it is allocated: the grid barrier's counter at its start,
/// then the state, each workgroup's best logit, and these. Offsets in bytes.
#[derive(Debug, Clone, Copy)]
pub struct Work {
    /// Residual stream `[H]` f32.
    pub hidden: u32,
    /// Queries, keys, values of the token `[Q + 2K]` f32, before norm and rotation.
    pub qkv: u32,
    /// silu(gate) ∘ up `[I]` bf16.
    pub mlp: u32,
    /// Maximum and sum of each piece's weights `[MAX_SPLITS, heads, 2]` f32.
    pub stats: u32,
    /// Each piece's weighted values `[MAX_SPLITS, heads, D]` f32.
    pub partial: u32,
    /// All bytes.
    pub bytes: u32,
}

impl Work {
    /// u32: position of the token to come, its id, number of ids that end a launch, 0, then those ids.
    pub const STATE: u32 = 256;
    /// Bytes of the state.
    pub const STATE_BYTES: u32 = 4 * (4 + MAX_ENDS);
    /// Each workgroup's best logit, u64.
    const BEST: u32 = 512;

    /// For a model.
    pub const fn new(hidden: u32, q: u32, kv: u32, intermediate: u32, heads: u32) -> Self {
        let at = Self::BEST + 8 * MAX_GRID;
        let qkv = at + 4 * hidden;
        let mlp = qkv + 4 * (q + 2 * kv);
        let stats = mlp + 2 * intermediate;
        let partial = stats + round_up(MAX_SPLITS * heads * 8, 16);
        Self { hidden: at, qkv, mlp, stats, partial, bytes: partial + 4 * MAX_SPLITS * q }
    }
}

/// How a context of `positions` is split among workgroups: pieces, and the positions of each but the last.
#[cfg(any(gpu, test))]
#[inline(always)]
const fn splits(positions: u32, kv_heads: u32, grid: u32) -> (u32, u32) {
    let blocks = positions.div_ceil(SPLIT_POSITIONS);
    let mut most = quotient(grid, kv_heads);
    if most > MAX_SPLITS {
        most = MAX_SPLITS;
    }
    if most == 0 {
        most = 1;
    }
    let each = ceil(blocks, most);
    (ceil(blocks, each), each * SPLIT_POSITIONS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_cover_every_position_once() {
        for grid in [1, 2, 7, 8, 64, 132, 1024] {
            for kv_heads in [1, 2, 8] {
                for positions in (1..700).chain([4095, 4096, 4097, 40_960]) {
                    let (pieces, each) = splits(positions, kv_heads, grid);
                    assert!((1..=MAX_SPLITS).contains(&pieces), "{positions}");
                    assert!(pieces == 1 || pieces * kv_heads <= grid, "{positions} {grid}");
                    assert!(
                        (pieces - 1) * each < positions && positions <= pieces * each,
                        "{positions} {pieces} {each}"
                    );
                }
            }
        }
    }

    #[test]
    fn published_shapes_fit_the_grids_they_run_on() {
        for (hidden, heads, kv_heads, head_dim, intermediate) in [
            (1024, 16, 8, 128, 3072),
            (2048, 16, 8, 128, 6144),
            (2560, 32, 8, 128, 9728),
            (4096, 32, 8, 128, 12_288),
            (896, 14, 2, 64, 4864),
            (1536, 12, 2, 128, 8960),
            (3584, 28, 4, 128, 18_944),
            (576, 9, 3, 64, 1536),
        ] {
            let shape = Shape { hidden, heads, kv_heads, head_dim, intermediate, vocab: 151_936 };
            for grid in [32, 64, 128, 132] {
                let (geometry, sums, x) = shape.geometry(grid);
                assert_eq!(geometry.check(), Ok(()), "{shape:?} on {grid}");
                assert!(LDS_OWN < sums && sums < x && x % 16 == 0, "{shape:?}");
            }
        }
    }
}
