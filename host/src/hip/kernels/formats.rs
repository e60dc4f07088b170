//! Operations over a KV cache in formats that are arguments. As in the files beside this one, each function checks its contract and launches.

use device_ops::attention::{self, formats};
use device_ops::kv_formats::{KvFormat, append, prepare};

use super::cache::CacheShape;
use super::{Kernels, KvCache, LaunchError, Op, Qkv, Span, Stream};

/// One layer's cache: `keys` holds codes `[kv_heads, capacity, D]` of `k` and behind them f32 scales `[kv_heads, capacity]` where it has such,
/// `values` codes `[kv_heads, D, capacity]` of `v` likewise.
#[derive(Debug, Clone, Copy)]
pub struct CodedCache<'a> {
    /// Where it lies, and its shape.
    pub cache: KvCache<'a>,
    /// How keys are stored.
    pub k: KvFormat,
    /// How values are stored.
    pub v: KvFormat,
}

/// Addresses and formats as all kernels take them.
struct Places {
    shape: CacheShape,
    k_cache: u64,
    v_cache: u64,
    k_scales: u64,
    v_scales: u64,
    k_format: u32,
    v_format: u32,
}

impl Op {
    fn coded(self, coded: &CodedCache<'_>) -> Result<Places, LaunchError> {
        let KvCache { keys, values, kv_heads, head_dim, capacity } = coded.cache;
        let shape = self.cache_shape(&coded.cache)?;
        let scales = |what: &str, span: &Span, format: KvFormat| {
            let needed = format.bytes(kv_heads, capacity, head_dim);
            let codes = format.scales_at(kv_heads, capacity, head_dim);
            let (Some(needed), Some(codes)) = (needed, codes) else {
                return Err(self.refuse(format!("{what} of {capacity} positions have more than 2^64 bytes")));
            };
            self.holds(what, span, &[needed], 1)?;
            // What has no scales gets an address all the same, which nothing reads.
            Ok(span.address() + if format.has_scales() { codes as u64 } else { 0 })
        };
        Ok(Places {
            shape,
            k_cache: keys.address(),
            v_cache: values.address(),
            k_scales: scales("key cache", keys, coded.k)?,
            v_scales: scales("value cache", values, coded.v)?,
            k_format: coded.k as u32,
            v_format: coded.v as u32,
        })
    }
}

impl Kernels {
    /// As [`Kernels::kv_append`], in the cache's formats.
    pub fn kv_append_formats(
        &self,
        stream: &Stream,
        k: &Span,
        v: &Span,
        coded: &CodedCache<'_>,
        tokens: usize,
        position: usize,
    ) -> Result<(), LaunchError> {
        let op = Op("kv_append");
        let Places { shape, k_cache, v_cache, k_scales, v_scales, k_format, v_format } = op.coded(coded)?;
        let [t, position] = op.appended(stream, [k, v], &coded.cache, tokens, position)?;
        let args = append::Args {
            k: k.address(),
            v: v.address(),
            k_cache,
            v_cache,
            k_scales,
            v_scales,
            k_format,
            v_format,
            tokens: t,
            kv_heads: shape.kv_heads,
            position,
            capacity: shape.capacity,
        };
        let name = append::name(shape.head_dim).ok_or_else(|| op.no_head_dim(coded.cache.head_dim))?;
        // SAFETY: 1. `Args` is that of both kernels, and the name is the one for this head_dim; 2. checked above, scales behind codes inside
        // the same buffer; 3. the contract's geometry; 4. one stream, and Spans keep memory alive.
        unsafe { self.launch(stream, name, append::geometry(t, shape.kv_heads), &args) }
    }

    /// As [`Kernels::prepare_heads`], in the cache's formats.
    #[allow(
        clippy::too_many_arguments,
        reason = "the operation's own: rows, norms, a table, a cache and three numbers"
    )]
    pub fn prepare_heads_formats(
        &self,
        stream: &Stream,
        rows: Qkv<'_>,
        norms: Option<[&Span; 2]>,
        table: &Span,
        coded: &CodedCache<'_>,
        [tokens, heads]: [usize; 2],
        position: usize,
        eps: f32,
    ) -> Result<(), LaunchError> {
        let op = Op("prepare_heads");
        let t = op.tokens(tokens)?;
        let q_heads = op.width("heads", heads, 1)?;
        let Places { shape, k_cache, v_cache, k_scales, v_scales, k_format, v_format } = op.coded(coded)?;
        let position = op.prepared(stream, rows, norms, table, &coded.cache, [tokens, heads], position)?;
        op.epsilon(eps)?;
        let [wq, wk] = norms.map_or([0; 2], |norms| norms.map(Span::address));
        let args = prepare::Args {
            q: rows.q.address(),
            k: rows.k.address(),
            v: rows.v.address(),
            wq,
            wk,
            table: table.address(),
            k_cache,
            v_cache,
            k_scales,
            v_scales,
            k_format,
            v_format,
            normed: u32::from(norms.is_some()),
            tokens: t,
            heads: q_heads,
            kv_heads: shape.kv_heads,
            position,
            capacity: shape.capacity,
            eps,
            pad: 0,
        };
        let name = prepare::name(shape.head_dim).ok_or_else(|| op.no_head_dim(coded.cache.head_dim))?;
        // SAFETY: 1. `Args` is that of both kernels, and the name is the one for this head_dim; norms are read only where `normed` says there
        // are any; 2. checked above; 3. the contract's geometry; 4. one stream, and Spans keep memory alive.
        unsafe { self.launch(stream, name, prepare::geometry(t, q_heads, shape.kv_heads), &args) }
    }

    /// As [`Kernels::attention`], in the cache's formats.
    #[allow(
        clippy::too_many_arguments,
        reason = "the operation's own: two buffers, a cache, three numbers and a switch"
    )]
    pub fn attention_formats(
        &self,
        stream: &Stream,
        q: &Span,
        coded: &CodedCache<'_>,
        out: &Span,
        [tokens, group]: [usize; 2],
        position: usize,
        plain: bool,
    ) -> Result<(), LaunchError> {
        let op = Op("attention");
        let head_dim = coded.cache.head_dim;
        let Places { shape, k_cache, v_cache, k_scales, v_scales, k_format, v_format } = op.coded(coded)?;
        let [t, q_heads, position] = op.attended(stream, [q, out], &coded.cache, [tokens, group], position)?;
        let args = formats::Args {
            q: q.address(),
            k_cache,
            v_cache,
            k_scales,
            v_scales,
            out: out.address(),
            k_format,
            v_format,
            tokens: t,
            position,
            group: q_heads,
            kv_heads: shape.kv_heads,
            capacity: shape.capacity,
            scale: 1.0 / (head_dim as f32).sqrt(),
        };
        let (name, geometry) = if plain {
            (formats::name_plain(shape.head_dim), attention::geometry_plain(t, q_heads, shape.kv_heads))
        } else {
            let geometry = attention::geometry(t, q_heads, shape.kv_heads, shape.head_dim);
            (formats::name(t, shape.head_dim), geometry)
        };
        let name = name.ok_or_else(|| op.no_head_dim(head_dim))?;
        // SAFETY: 1. `Args` is that of all kernels, and the name is the one for this head_dim; 2. checked above; 3. the contract's
        // geometry for the kernel named beside it; 4. one stream, and Spans keep memory alive.
        unsafe { self.launch(stream, name, geometry, &args) }
    }
}
