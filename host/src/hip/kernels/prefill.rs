//! Operations of several tokens: which kernel of the same matrix product is taken, and those that do in one launch what others do in
//! several. As in the file above, each function checks its contract and launches.

use device_ops::linear::{self, gated, qkv, quantized};
use device_ops::prepare_heads;

use super::matrix::{Matrix, Parts};
use super::{Kernels, KvCache, LaunchError, Op, Span, Stream};

/// Which kernels multiply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Gemm {
    /// The fast one for the shape: GEMV for one token, else a tile with two LDS stages.
    #[default]
    Fast,
    /// As [`Gemm::Fast`] for one token, else 64 × 64 tiles with one LDS stage: the rung below.
    SingleStage,
    /// The first rung.
    Plain,
}

/// What there is for queries, keys and values each: weights, or rows of a pass.
#[derive(Debug, Clone, Copy)]
pub struct Qkv<'a> {
    /// Of the queries.
    pub q: &'a Span,
    /// Of the keys.
    pub k: &'a Span,
    /// Of the values.
    pub v: &'a Span,
}

impl Kernels {
    /// `y[t,n] = Σ_k x[t,k] · w[n,k]`: `w` `[N, K]`, `x` `[T, K]` bf16, `y` `[T, N]` f32. `shape` is T, N, K.
    pub fn linear<'a>(
        &self,
        stream: &Stream,
        w: impl Into<Matrix<'a>>,
        x: &Span,
        y: &Span,
        shape: [usize; 3],
        gemm: Gemm,
    ) -> Result<(), LaunchError> {
        let Product { parts, x, y, tokens, n, k } = Op("linear").product(stream, w.into(), x, y, shape)?;
        let Parts { stored, codes, scales, minimums, group_log2 } = parts;
        if let Some(names) = quantized::names(stored) {
            let args = quantized::Args { codes, scales, minimums, x, y, tokens, n, k, group_log2 };
            let (name, geometry) = match gemm {
                Gemm::Plain => (names.plain, linear::geometry_plain(tokens, n)),
                Gemm::SingleStage | Gemm::Fast => names.choose(tokens, n),
            };
            // SAFETY: 1. `Args` is that of all quantized formats, and the name is this one's; 2. checked above; 3. the contract's geometry
            // for the kernel named beside it; 4. one stream, and Spans keep memory alive.
            return unsafe { self.launch(stream, name, geometry, &args) };
        }
        let (name, geometry) = match gemm {
            Gemm::Plain => (linear::NAME_PLAIN, linear::geometry_plain(tokens, n)),
            Gemm::SingleStage if tokens >= linear::WMMA_FROM_TOKENS => {
                (linear::NAME_WMMA, linear::geometry_wmma(tokens, n))
            }
            Gemm::SingleStage | Gemm::Fast => (linear::name(tokens, n), linear::geometry(tokens, n)),
        };
        let args = linear::Args { w: codes, x, y, tokens, n, k, pad: 0 };
        // SAFETY: 1. `Args` is that of all these kernels; 2. checked above; 3. the contract's geometry for the kernel named beside it;
        // 4. one stream, and Spans keep memory alive.
        unsafe { self.launch(stream, name, geometry, &args) }
    }

    /// `y[t,n] += Σ_k x[t,k] · w[n,k]`, otherwise as [`Kernels::linear`]: a projection back into the residual stream `y`.
    pub fn linear_add(
        &self,
        stream: &Stream,
        w: &Span,
        x: &Span,
        y: &Span,
        shape: [usize; 3],
    ) -> Result<(), LaunchError> {
        let Product { parts, x, y, tokens, n, k } = Op("linear_add").product(stream, w.into(), x, y, shape)?;
        let args = linear::Args { w: parts.codes, x, y, tokens, n, k, pad: 0 };
        let tile = linear::Tile::choose(tokens, n);
        let geometry = linear::geometry_tile(tile, tokens, n);
        // SAFETY: 1. `Args` is that of these kernels; 2. checked above; 3. the geometry of the same tile; 4. one stream, and Spans keep
        // memory alive.
        unsafe { self.launch(stream, linear::name_add(tile), geometry, &args) }
    }

    /// Three products of the same `x` `[T, K]` bf16: `w.q` `[N, K]`, `w.k` and `w.v` `[NKV, K]` bf16 to `y.q` `[T, N]`, `y.k` and `y.v`
    /// `[T, NKV]` f32. `shape` is T, N, NKV, K.
    pub fn linear_qkv(
        &self,
        stream: &Stream,
        w: Qkv<'_>,
        x: &Span,
        y: Qkv<'_>,
        [tokens, n, n_kv, k]: [usize; 4],
    ) -> Result<(), LaunchError> {
        let op = Op("linear_qkv");
        let t = op.tokens(tokens)?;
        let rows = op.width("N", n, 1)?;
        let rows_kv = op.width("N of keys and values", n_kv, 1)?;
        let depth = op.width("K", k, linear::K_MULTIPLE as usize)?;
        op.holds("q weight", w.q, &[n, k], 2)?;
        op.holds("k weight", w.k, &[n_kv, k], 2)?;
        op.holds("v weight", w.v, &[n_kv, k], 2)?;
        op.holds("x", x, &[tokens, k], 2)?;
        op.holds("q", y.q, &[tokens, n], 4)?;
        op.holds("k", y.k, &[tokens, n_kv], 4)?;
        op.holds("v", y.v, &[tokens, n_kv], 4)?;
        op.apart(stream, &[w.q, w.k, w.v, x, y.q, y.k, y.v])?;
        let tile = qkv::tile(t, rows, rows_kv);
        let name = qkv::name(tile).ok_or_else(|| op.refuse(format!("no kernel of {tile:?}")))?;
        let args = qkv::Args {
            wq: w.q.address(),
            wk: w.k.address(),
            wv: w.v.address(),
            x: x.address(),
            q: y.q.address(),
            key: y.k.address(),
            value: y.v.address(),
            tokens: t,
            n: rows,
            n_kv: rows_kv,
            k: depth,
        };
        // SAFETY: 1. `Args` is that of both kernels; 2. checked above; 3. the geometry of the same tile; 4. one stream, and Spans keep
        // memory alive.
        unsafe { self.launch(stream, name, qkv::geometry(tile, t, rows, rows_kv), &args) }
    }

    /// `out[t,n] = silu(Σ_k x[t,k] · gate[n,k]) · Σ_k x[t,k] · up[n,k]`: `gate`, `up` `[N, K]`, `x` `[T, K]`, `out` `[T, N]`, all bf16.
    /// `shape` is T, N, K.
    pub fn linear_gated(
        &self,
        stream: &Stream,
        [gate, up]: [&Span; 2],
        x: &Span,
        out: &Span,
        [tokens, n, k]: [usize; 3],
    ) -> Result<(), LaunchError> {
        let op = Op("linear_gated");
        let t = op.tokens(tokens)?;
        let rows = op.width("N", n, gated::N_MULTIPLE as usize)?;
        let depth = op.width("K", k, linear::K_MULTIPLE as usize)?;
        op.holds("gate weight", gate, &[n, k], 2)?;
        op.holds("up weight", up, &[n, k], 2)?;
        op.holds("x", x, &[tokens, k], 2)?;
        op.holds("output", out, &[tokens, n], 2)?;
        op.apart(stream, &[gate, up, x, out])?;
        let tile = gated::tile(t, rows);
        let name = gated::name(tile).ok_or_else(|| op.refuse(format!("no kernel of {tile:?}")))?;
        let args = gated::Args {
            gate: gate.address(),
            up: up.address(),
            x: x.address(),
            out: out.address(),
            tokens: t,
            n: rows,
            k: depth,
            pad: 0,
        };
        // SAFETY: 1. `Args` is that of both kernels; 2. checked above; 3. the geometry of the same tile; 4. one stream, and Spans keep
        // memory alive.
        unsafe { self.launch(stream, name, gated::geometry(tile, t, rows), &args) }
    }

    /// Norm and rotation of each head of `rows.q` `[T, heads, D]` f32 in place and of `rows.k` `[T, kv_heads, D]` into `cache`, where `rows.v`
    /// goes as well, from `position` on; `norms` `[D]` bf16 of q and of k, or only the rotation; `table` `[positions, D]` f32 as
    /// [`Kernels::rope`] reads it. `shape` is T and heads.
    #[allow(
        clippy::too_many_arguments,
        reason = "the operation's own: rows, two norms, a table, a cache and three numbers"
    )]
    pub fn prepare_heads(
        &self,
        stream: &Stream,
        rows: Qkv<'_>,
        norms: Option<[&Span; 2]>,
        table: &Span,
        cache: &KvCache<'_>,
        [tokens, heads]: [usize; 2],
        position: usize,
        eps: f32,
    ) -> Result<(), LaunchError> {
        let op = Op("prepare_heads");
        let t = op.tokens(tokens)?;
        let q_heads = op.width("heads", heads, 1)?;
        let shape = op.cache(cache)?;
        let head_dim = cache.head_dim;
        let name = prepare_heads::name(shape.head_dim, norms.is_some()).ok_or_else(|| op.no_head_dim(head_dim))?;
        let position = op.prepared(stream, rows, norms, table, cache, [tokens, heads], position)?;
        op.epsilon(eps)?;
        let [wq, wk] = norms.map_or([0; 2], |norms| norms.map(Span::address));
        let args = prepare_heads::Args {
            q: rows.q.address(),
            k: rows.k.address(),
            v: rows.v.address(),
            wq,
            wk,
            table: table.address(),
            k_cache: cache.keys.address(),
            v_cache: cache.values.address(),
            tokens: t,
            heads: q_heads,
            kv_heads: shape.kv_heads,
            position,
            capacity: shape.capacity,
            eps,
        };
        let geometry = prepare_heads::geometry(t, q_heads, shape.kv_heads, shape.head_dim);
        // SAFETY: 1. `Args` is that of these kernels, and the name is the one for this head_dim, which reads norms only if there are any;
        // 2. checked above; 3. the contract's geometry; 4. one stream, and Spans keep memory alive.
        unsafe { self.launch(stream, name, geometry, &args) }
    }
}

/// One matrix product, checked: what its kernels' arguments are made of.
struct Product {
    parts: Parts,
    x: u64,
    y: u64,
    tokens: u32,
    n: u32,
    k: u32,
}

impl Op {
    /// Checks what `prepare_heads` reads and writes, but for the cache's bytes, and gives the position.
    #[allow(clippy::too_many_arguments, reason = "the operation's own")]
    pub(super) fn prepared(
        self,
        stream: &Stream,
        rows: Qkv<'_>,
        norms: Option<[&Span; 2]>,
        table: &Span,
        cache: &KvCache<'_>,
        [tokens, heads]: [usize; 2],
        position: usize,
    ) -> Result<u32, LaunchError> {
        let KvCache { keys, values, kv_heads, head_dim, capacity } = *cache;
        let t = self.tokens(tokens)?;
        self.holds("queries", rows.q, &[tokens, heads, head_dim], 4)?;
        self.holds("keys", rows.k, &[tokens, kv_heads, head_dim], 4)?;
        self.holds("values", rows.v, &[tokens, kv_heads, head_dim], 4)?;
        self.fits_u32("elements", tokens * (heads + 2 * kv_heads) * head_dim)?;
        for (what, norm) in ["q norm", "k norm"].into_iter().zip(norms.into_iter().flatten()) {
            self.holds(what, norm, &[head_dim], 2)?;
        }
        let positions = table.bytes() / (head_dim * 4);
        self.position(position, t, positions, "the rotary table")?;
        self.holds("rotary table", table, &[positions, head_dim], 4)?;
        let position = self.position(position, t, capacity, "the KV cache")?;
        match norms {
            Some([wq, wk]) => self.apart(stream, &[rows.q, rows.k, rows.v, wq, wk, table, keys, values])?,
            None => self.apart(stream, &[rows.q, rows.k, rows.v, table, keys, values])?,
        }
        Ok(position)
    }

    /// Checks one matrix product.
    fn product(
        self,
        stream: &Stream,
        w: Matrix<'_>,
        x: &Span,
        y: &Span,
        [t, n, k]: [usize; 3],
    ) -> Result<Product, LaunchError> {
        let tokens = self.tokens(t)?;
        let rows = self.width("N", n, 1)?;
        let depth = self.width("K", k, linear::K_MULTIPLE as usize)?;
        let parts = self.parts("weight", w, [n, k])?;
        self.holds("x", x, &[t, k], 2)?;
        self.holds("y", y, &[t, n], 4)?;
        self.apart(stream, &[w.span, x, y])?;
        Ok(Product { parts, x: x.address(), y: y.address(), tokens, n: rows, k: depth })
    }
}
