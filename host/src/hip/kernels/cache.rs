//! What writes a KV cache and what reads it, and what a cache must be for that, whatever it holds; `formats.rs` has the same in other formats. As in
//! the files beside this one, each function checks its contract and launches.

use device_ops::{attention, kv_append};

use super::{Kernels, LaunchError, Op, Span, Stream};

/// Most positions of a cache: attention's kernels count its bytes within a head in 32 bits.
const MAX_CAPACITY: u32 = (1 << 23) - 32;

/// One layer's cache: `keys` `[kv_heads, capacity, D]` bf16 and `values` `[kv_heads, D, capacity]` bf16.
#[derive(Debug, Clone, Copy)]
pub struct KvCache<'a> {
    /// Keys.
    pub keys: &'a Span,
    /// Values, transposed.
    pub values: &'a Span,
    /// Key/value heads.
    pub kv_heads: usize,
    /// D, 64 or 128.
    pub head_dim: usize,
    /// Positions, a multiple of [`kv_append::CAPACITY_MULTIPLE`].
    pub capacity: usize,
}

/// Its sizes as kernels take them.
pub(super) struct CacheShape {
    pub kv_heads: u32,
    pub head_dim: u32,
    pub capacity: u32,
}

impl Kernels {
    /// Appends `k` and `v` `[T, kv_heads, D]` f32 to `cache` at `position`.
    pub fn kv_append(
        &self,
        stream: &Stream,
        k: &Span,
        v: &Span,
        cache: &KvCache<'_>,
        tokens: usize,
        position: usize,
    ) -> Result<(), LaunchError> {
        let op = Op("kv_append");
        let shape = op.cache(cache)?;
        let [tokens, position] = op.appended(stream, [k, v], cache, tokens, position)?;
        let args = kv_append::Args {
            k: k.address(),
            v: v.address(),
            k_cache: cache.keys.address(),
            v_cache: cache.values.address(),
            tokens,
            kv_heads: shape.kv_heads,
            head_dim_log2: shape.head_dim.ilog2(),
            position,
            capacity: shape.capacity,
            pad: 0,
        };
        let geometry = kv_append::geometry(tokens, shape.kv_heads, shape.head_dim);
        // SAFETY: 1. `Args` is this kernel's; 2. checked above, head_dim is a power of two because a cache with another is refused;
        // 3. the contract's geometry; 4. one stream, and Spans keep memory alive.
        unsafe { self.launch(stream, kv_append::NAME, geometry, &args) }
    }

    /// Causal attention: `q` `[T, group · kv_heads, D]` f32 over `cache`, whose positions up to `position + T` are appended, to `out`
    /// of the same shape in bf16. `plain` takes the first rung.
    #[allow(
        clippy::too_many_arguments,
        reason = "the operation's own: two buffers, a cache, three numbers and a switch"
    )]
    pub fn attention(
        &self,
        stream: &Stream,
        q: &Span,
        cache: &KvCache<'_>,
        out: &Span,
        [tokens, group]: [usize; 2],
        position: usize,
        plain: bool,
    ) -> Result<(), LaunchError> {
        let op = Op("attention");
        let shape = op.cache(cache)?;
        let [tokens, group, position] = op.attended(stream, [q, out], cache, [tokens, group], position)?;
        let args = attention::Args {
            q: q.address(),
            k_cache: cache.keys.address(),
            v_cache: cache.values.address(),
            out: out.address(),
            tokens,
            position,
            group,
            kv_heads: shape.kv_heads,
            capacity: shape.capacity,
            scale: 1.0 / (cache.head_dim as f32).sqrt(),
        };
        let (name, geometry) = match (plain, shape.head_dim) {
            (true, 64) => (Some(attention::NAME_PLAIN_D64), attention::geometry_plain(tokens, group, shape.kv_heads)),
            (true, 128) => (Some(attention::NAME_PLAIN_D128), attention::geometry_plain(tokens, group, shape.kv_heads)),
            (_, head_dim) => {
                (attention::name(tokens, head_dim), attention::geometry(tokens, group, shape.kv_heads, head_dim))
            }
        };
        let name = name.ok_or_else(|| op.no_head_dim(cache.head_dim))?;
        // SAFETY: 1. `Args` is that of all kernels, and the name is the one for this head_dim; 2. checked above; 3. the contract's
        // geometry for the kernel named beside it; 4. one stream, and Spans keep memory alive.
        unsafe { self.launch(stream, name, geometry, &args) }
    }
}

impl Op {
    /// A cache of bf16.
    pub(super) fn cache(self, cache: &KvCache<'_>) -> Result<CacheShape, LaunchError> {
        let found = self.cache_shape(cache)?;
        let shape = [cache.kv_heads, cache.capacity, cache.head_dim];
        self.holds("key cache", cache.keys, &shape, 2)?;
        self.holds("value cache", cache.values, &shape, 2)?;
        Ok(found)
    }

    /// The sizes of a cache, whatever it holds.
    pub(super) fn cache_shape(self, cache: &KvCache<'_>) -> Result<CacheShape, LaunchError> {
        if cache.head_dim != 64 && cache.head_dim != 128 {
            return Err(self.no_head_dim(cache.head_dim));
        }
        let kv_heads = self.width("kv heads", cache.kv_heads, 1)?;
        let capacity = self.width("cache capacity", cache.capacity, kv_append::CAPACITY_MULTIPLE as usize)?;
        if capacity > MAX_CAPACITY {
            return Err(self.refuse(format!("cache capacity is {capacity}, {MAX_CAPACITY} is the most")));
        }
        Ok(CacheShape { kv_heads, head_dim: cache.head_dim as u32, capacity })
    }

    /// Checks rows `[T, kv_heads, D]` f32 of keys and values that go to `position` of a cache; T and the position.
    pub(super) fn appended(
        self,
        stream: &Stream,
        [k, v]: [&Span; 2],
        cache: &KvCache<'_>,
        tokens: usize,
        position: usize,
    ) -> Result<[u32; 2], LaunchError> {
        let t = self.tokens(tokens)?;
        let position = self.position(position, t, cache.capacity, "the KV cache")?;
        let row = [tokens, cache.kv_heads, cache.head_dim];
        self.holds("keys", k, &row, 4)?;
        self.holds("values", v, &row, 4)?;
        self.fits_u32("elements", row.iter().product())?;
        self.apart(stream, &[k, v, cache.keys, cache.values])?;
        Ok([t, position])
    }

    /// Checks queries `[T, group · kv_heads, D]` f32 from `position` on, and as many outputs in bf16; T, the group and the position.
    pub(super) fn attended(
        self,
        stream: &Stream,
        [q, out]: [&Span; 2],
        cache: &KvCache<'_>,
        [tokens, group]: [usize; 2],
        position: usize,
    ) -> Result<[u32; 3], LaunchError> {
        let t = self.tokens(tokens)?;
        let heads = self.width("query heads per kv head", group, 1)?;
        let position = self.position(position, t, cache.capacity, "the KV cache")?;
        let row = [tokens, group, cache.kv_heads, cache.head_dim];
        self.holds("queries", q, &row, 4)?;
        self.holds("output", out, &row, 2)?;
        self.fits_u32("elements", row.iter().product())?;
        self.apart(stream, &[q, out, cache.keys, cache.values])?;
        Ok([t, heads, position])
    }
}
