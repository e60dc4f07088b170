//! The kernels of this build on one card, each operation behind one safe function: it checks sizes, alignment and overlap against the
//! contract in `device_ops`, takes the geometry from there, and launches. With these checks no argument can make a kernel leave its
//! buffers. It deliberately owns no buffers and knows no order of operations: [`crate::gpu`] does.

use std::collections::HashMap;
use std::sync::Arc;

use device_ops::{Geometry, argmax, bias_add, embed, head_norm, residual_add, rmsnorm, rope, swiglu, top_k};

use super::error::HipError;
use super::memory::{Context, Span};
use super::module::{Function, Module};
use super::stream::Stream;

mod cache;
mod formats;
mod matrix;
mod prefill;
mod w8a8;

pub use cache::KvCache;
pub use formats::CodedCache;
pub use matrix::{Matrix, stored};
pub use prefill::{Gemm, Qkv};

use matrix::Parts;

/// Most tokens of one launch: what the y axis of a grid holds.
pub const MAX_TOKENS: usize = 65_535;
/// Alignment of every pointer whose contract says nothing else, in bytes.
const ALIGN: u64 = 16;

/// Why an operation was not queued.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LaunchError {
    /// An argument breaks the kernel's contract.
    #[error("{op}: {what}")]
    Refused {
        /// The operation.
        op: &'static str,
        /// What is wrong, with both numbers.
        what: String,
    },
    /// The runtime refused or an earlier launch failed.
    #[error(transparent)]
    Hip(#[from] HipError),
}

/// The code object and the host disagree.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LoadError {
    /// Not a code object this program understands.
    #[error("code object: {0}")]
    CodeObject(String),
    /// A kernel the host needs is not in it.
    #[error("code object: kernel `{kernel}` is missing")]
    Missing {
        /// Its name.
        kernel: &'static str,
    },
    /// The metadata's argument layout is not the host's.
    #[error("code object: kernel `{kernel}`: {what} is {found}, the host packs {expected}")]
    Layout {
        /// Its name.
        kernel: &'static str,
        /// Which fact.
        what: String,
        /// By the metadata.
        found: String,
        /// By `device_ops`.
        expected: String,
    },
    /// The runtime refused.
    #[error(transparent)]
    Hip(#[from] HipError),
}

/// The loaded kernels.
pub struct Kernels {
    functions: HashMap<&'static str, Function>,
}

impl Kernels {
    /// Loads `image` and compares every kernel's argument layout with the host's.
    ///
    /// # Errors
    /// [`LoadError`]: the image is broken, lacks a kernel, disagrees about arguments, or the runtime refuses it.
    pub fn load(context: &Arc<Context>, image: &[u8]) -> Result<Self, LoadError> {
        let checked = super::metadata::check(image)?;
        let module = Module::load(context, image, &checked)?;
        let functions = device_ops::KERNELS
            .iter()
            .map(|kernel| Ok((kernel.name, module.function(kernel.name, super::metadata::block_bytes(kernel))?)))
            .collect::<Result<_, HipError>>()?;
        Ok(Self { functions })
    }

    /// # Safety
    /// Points 1 to 4 of [`Stream::launch`]; `name` is a kernel whose arguments are `args`.
    unsafe fn launch<A: bytemuck::Pod>(
        &self,
        stream: &Stream,
        name: &'static str,
        geometry: Geometry,
        args: &A,
    ) -> Result<(), LaunchError> {
        let function = self
            .functions
            .get(name)
            .ok_or_else(|| LaunchError::Refused { op: name, what: "no kernel of this name is loaded".into() })?;
        // SAFETY: the caller keeps points 1 to 4.
        unsafe { stream.launch(function, geometry, bytemuck::bytes_of(args)) }?;
        Ok(())
    }

    /// Workgroups of `geometry` that one multiprocessor runs at once, for each of `names` the fewest.
    pub(super) fn resident(&self, names: &[&'static str], geometry: Geometry) -> Result<u32, LaunchError> {
        let mut fewest = u32::MAX;
        for name in names {
            let function = self
                .functions
                .get(name)
                .ok_or_else(|| LaunchError::Refused { op: name, what: "no kernel of this name is loaded".into() })?;
            fewest = fewest.min(function.resident(geometry)?);
        }
        Ok(fewest)
    }

    /// A kernel whose workgroups all run at once, over `spans`, which may not overlap.
    ///
    /// # Safety
    /// Points 1 to 4 of [`Stream::launch`]; `name` is a kernel whose arguments are `args`; the grid is not larger than what runs at once.
    pub(super) unsafe fn launch_resident<A: bytemuck::Pod>(
        &self,
        stream: &Stream,
        name: &'static str,
        geometry: Geometry,
        args: &A,
        spans: &[&Span],
    ) -> Result<(), LaunchError> {
        Op(name).apart(stream, spans)?;
        // SAFETY: the caller's.
        unsafe { self.launch(stream, name, geometry, args) }
    }

    /// `out[t] = table[ids[t]]`: `table` `[V, H]`, `out` `[T, H]` f32. `ids` are checked against V and copied to `device_ids` `[T]` u32, which
    /// waits for earlier work on the stream.
    pub fn embed<'a>(
        &self,
        stream: &Stream,
        ids: &[u32],
        device_ids: &Span,
        table: impl Into<Matrix<'a>>,
        out: &Span,
        [vocab, hidden]: [usize; 2],
    ) -> Result<(), LaunchError> {
        let op = Op("embed");
        let table = table.into();
        let tokens = op.tokens(ids.len())?;
        let hidden = op.width("hidden size", hidden, 64)?;
        op.holds("ids", device_ids, &[ids.len()], 4)?;
        let parts = op.parts("embedding table", table, [vocab, hidden as usize])?;
        op.holds("hidden", out, &[ids.len(), hidden as usize], 4)?;
        op.apart(stream, &[device_ids, table.span, out])?;
        if let Some((at, id)) = ids.iter().enumerate().find(|(_, id)| **id as usize >= vocab) {
            return Err(op.refuse(format!("id {id} of token {at}, the vocabulary has {vocab}")));
        }
        let slot = device_ids.part(0, ids.len() * 4).map_err(|error| op.refuse(error.to_string()))?;
        stream.write(&slot, bytemuck::cast_slice(ids))?;
        let (ids, out) = (slot.address(), out.address());
        let Parts { stored, codes, scales, minimums, group_log2 } = parts;
        let Some(name) = embed::quantized::name(stored) else {
            let args = embed::Args { ids, table: codes, out, hidden, pad: 0 };
            // SAFETY: 1. `Args` is this kernel's; 2. sizes, alignment and overlap checked above, every id below V; 3. the contract's
            // geometry; 4. the ids were written by a copy that has ended, and Spans keep memory alive.
            return unsafe { self.launch(stream, embed::NAME, embed::geometry(tokens, hidden), &args) };
        };
        let args = embed::quantized::Args { ids, codes, scales, minimums, out, hidden, group_log2 };
        // SAFETY: as above; `Args` is that of all quantized formats, and the geometry that of this one.
        unsafe { self.launch(stream, name, embed::quantized::geometry(stored, tokens, hidden), &args) }
    }

    /// `y[t,i] = x[t,i] / sqrt(mean_i(x[t,i]²) + eps) · w[i]`: `x` `[T, H]` f32, `w` `[H]` bf16, `y` `[T, H]` bf16.
    pub fn rmsnorm(
        &self,
        stream: &Stream,
        x: &Span,
        w: &Span,
        y: &Span,
        [rows, hidden]: [usize; 2],
        eps: f32,
    ) -> Result<(), LaunchError> {
        let op = Op("rmsnorm");
        let rows = op.tokens(rows)?;
        let hidden = op.width("hidden size", hidden, 64)?;
        op.holds("x", x, &[rows as usize, hidden as usize], 4)?;
        op.holds("weight", w, &[hidden as usize], 2)?;
        op.holds("y", y, &[rows as usize, hidden as usize], 2)?;
        op.apart(stream, &[x, w, y])?;
        op.epsilon(eps)?;
        let args = rmsnorm::Args::new(x.address(), w.address(), y.address(), rows, hidden, eps);
        // SAFETY: 1. `Args` is that of both kernels; 2. checked above; 3. the contract's geometry for the same rows as its name;
        // 4. one stream, and Spans keep memory alive.
        unsafe { self.launch(stream, rmsnorm::name(rows), rmsnorm::geometry(rows), &args) }
    }

    /// `y[t,n] += bias[n]`: `y` `[T, N]` f32, `bias` `[N]` bf16.
    pub fn bias_add(&self, stream: &Stream, y: &Span, bias: &Span, [tokens, n]: [usize; 2]) -> Result<(), LaunchError> {
        let op = Op("bias_add");
        let t = op.tokens(tokens)?;
        let width = op.width("N", n, bias_add::N_MULTIPLE as usize)?;
        op.holds("y", y, &[tokens, n], 4)?;
        op.holds("bias", bias, &[n], 2)?;
        op.apart(stream, &[y, bias])?;
        let args = bias_add::Args { y: y.address(), bias: bias.address(), n: width, pad: 0 };
        // SAFETY: 1. `Args` is this kernel's; 2. checked above; 3. the contract's geometry; 4. one stream, and Spans keep memory alive.
        unsafe { self.launch(stream, bias_add::NAME, bias_add::geometry(t, width), &args) }
    }

    /// RMSNorm of each head in place: `x` `[rows, D]` f32 with rows = T · heads, `w` `[D]` bf16.
    pub fn head_norm(
        &self,
        stream: &Stream,
        x: &Span,
        w: &Span,
        [rows, head_dim]: [usize; 2],
        eps: f32,
    ) -> Result<(), LaunchError> {
        let op = Op("head_norm");
        let rows_u32 = op.width("rows", rows, 1)?;
        let name = head_norm::name(op.width("head_dim", head_dim, 1)?).ok_or_else(|| op.no_head_dim(head_dim))?;
        op.holds("x", x, &[rows, head_dim], 4)?;
        op.holds("weight", w, &[head_dim], 2)?;
        op.apart(stream, &[x, w])?;
        op.epsilon(eps)?;
        let args = head_norm::Args { x: x.address(), w: w.address(), rows: rows_u32, eps };
        // SAFETY: 1. `Args` is that of both kernels, and the name is the one for this head_dim; 2. checked above; 3. the contract's
        // geometry; 4. one stream, and Spans keep memory alive.
        unsafe { self.launch(stream, name, head_norm::geometry(rows_u32), &args) }
    }

    /// Rotates each head of `x` `[T, heads, D]` f32 in place by `table` `[positions, D]` f32 (cosines, then sines), from `position` on.
    pub fn rope(
        &self,
        stream: &Stream,
        x: &Span,
        table: &Span,
        [tokens, heads, head_dim]: [usize; 3],
        position: usize,
    ) -> Result<(), LaunchError> {
        let op = Op("rope");
        let tokens = op.tokens(tokens)?;
        let heads = op.width("heads", heads, 1)?;
        let name = rope::name(op.width("head_dim", head_dim, 1)?).ok_or_else(|| op.no_head_dim(head_dim))?;
        op.holds("x", x, &[tokens as usize, heads as usize, head_dim], 4)?;
        let positions = table.bytes() / (head_dim * 4);
        let position = op.position(position, tokens, positions, "the rotary table")?;
        op.holds("rotary table", table, &[positions, head_dim], 4)?;
        op.apart(stream, &[x, table])?;
        let args = rope::Args { x: x.address(), table: table.address(), heads, position };
        // SAFETY: 1. `Args` is that of both kernels, and the name is the one for this head_dim; 2. checked above, the last row read is
        // in the table; 3. the contract's geometry; 4. one stream, and Spans keep memory alive.
        unsafe { self.launch(stream, name, rope::geometry(tokens, heads), &args) }
    }

    /// `out = silu(gate) ∘ up`: `[T, I]` f32 twice, bf16 out; `elements` = T · I.
    pub fn swiglu(
        &self,
        stream: &Stream,
        gate: &Span,
        up: &Span,
        out: &Span,
        elements: usize,
    ) -> Result<(), LaunchError> {
        let op = Op("swiglu");
        op.quads(elements)?;
        op.holds("gate", gate, &[elements], 4)?;
        op.holds("up", up, &[elements], 4)?;
        op.holds("output", out, &[elements], 2)?;
        op.apart(stream, &[gate, up, out])?;
        let count = elements as u64;
        let args = swiglu::Args { gate: gate.address(), up: up.address(), out: out.address(), count };
        // SAFETY: 1. `Args` is this kernel's; 2. checked above; 3. the contract's geometry; 4. one stream, and Spans keep memory alive.
        unsafe { self.launch(stream, swiglu::NAME, swiglu::geometry(count), &args) }
    }

    /// `hidden += proj`, `[T, H]` f32 both; `elements` = T · H.
    pub fn residual_add(
        &self,
        stream: &Stream,
        hidden: &Span,
        proj: &Span,
        elements: usize,
    ) -> Result<(), LaunchError> {
        let op = Op("residual_add");
        op.quads(elements)?;
        op.holds("hidden", hidden, &[elements], 4)?;
        op.holds("projection", proj, &[elements], 4)?;
        op.apart(stream, &[hidden, proj])?;
        let count = elements as u64;
        let args = residual_add::Args { hidden: hidden.address(), proj: proj.address(), count };
        // SAFETY: 1. `Args` is this kernel's; 2. checked above; 3. the contract's geometry; 4. one stream, and Spans keep memory alive.
        unsafe { self.launch(stream, residual_add::NAME, residual_add::geometry(count), &args) }
    }

    /// `ids[r]` = the id of the largest of `logits` `[rows, V]` f32, the lowest of equal ones, [`argmax::NAN_ID`] for a row with a NaN.
    pub fn argmax(
        &self,
        stream: &Stream,
        logits: &Span,
        ids: &Span,
        [rows, vocab]: [usize; 2],
    ) -> Result<(), LaunchError> {
        let op = Op("argmax");
        let rows = op.tokens(rows)?;
        let vocab = op.vocabulary(vocab)?;
        op.holds_aligned("logits", logits, &[rows as usize, vocab as usize], 4, 4)?;
        op.holds_aligned("ids", ids, &[rows as usize], 4, 4)?;
        op.apart(stream, &[logits, ids])?;
        let args = argmax::Args { logits: logits.address(), ids: ids.address(), vocab, pad: 0 };
        // SAFETY: 1. `Args` is this kernel's; 2. checked above; 3. the contract's geometry; 4. one stream, and Spans keep memory alive.
        unsafe { self.launch(stream, argmax::NAME, argmax::geometry(rows), &args) }
    }

    /// `best[r]` = logit and id of the r-th largest of `logits` `[V]` f32, r < min(k, V), of equal ones the lower id first, a NaN above all.
    /// In two launches with `keys`, [`top_k::keys_bytes`], between them.
    pub fn top_k(
        &self,
        stream: &Stream,
        logits: &Span,
        keys: &Span,
        best: &Span,
        vocab: usize,
        k: usize,
    ) -> Result<(), LaunchError> {
        let op = Op("top_k");
        let vocab = op.vocabulary(vocab)?;
        let k = match u32::try_from(k) {
            Ok(k) if (1..=top_k::MAX).contains(&k) => k,
            _ => return Err(op.refuse(format!("the {k} largest, 1 to {} are possible", top_k::MAX))),
        };
        op.holds_aligned("logits", logits, &[vocab as usize], 4, 4)?;
        op.holds_aligned("keys", keys, &[top_k::keys_bytes(vocab, k)], 1, 8)?;
        op.holds_aligned("best", best, &[top_k::best_bytes(k)], 1, 8)?;
        op.apart(stream, &[logits, keys, best])?;
        let args = top_k::Args::new(logits.address(), keys.address(), best.address(), vocab, k);
        // SAFETY: 1. `Args` is that of both kernels; 2. checked above; 3. the contract's geometry; 4. one stream, and Spans keep memory alive.
        unsafe { self.launch(stream, top_k::NAME_SLICES, top_k::geometry_slices(vocab), &args) }?;
        // SAFETY: as above; the launch before it on the stream wrote the keys.
        unsafe { self.launch(stream, top_k::NAME_MERGE, top_k::geometry_merge(), &args) }
    }
}

/// An operation whose arguments are being checked; each check names it in its refusal.
#[derive(Clone, Copy)]
struct Op(&'static str);

impl Op {
    fn refuse(self, what: String) -> LaunchError {
        LaunchError::Refused { op: self.0, what }
    }

    fn no_head_dim(self, head_dim: usize) -> LaunchError {
        self.refuse(format!("head_dim {head_dim}, kernels exist for 64 and 128"))
    }

    fn tokens(self, tokens: usize) -> Result<u32, LaunchError> {
        match tokens {
            1..=MAX_TOKENS => Ok(tokens as u32),
            _ => Err(self.refuse(format!("{tokens} rows, 1 to {MAX_TOKENS} are possible"))),
        }
    }

    /// A size that is at least 1, fits 32 bits and is a multiple of `multiple`.
    fn width(self, what: &str, size: usize, multiple: usize) -> Result<u32, LaunchError> {
        match u32::try_from(size) {
            Ok(fits) if fits > 0 && size.is_multiple_of(multiple) => Ok(fits),
            _ => Err(self.refuse(format!("{what} is {size}, a positive multiple of {multiple} below 2^32 is needed"))),
        }
    }

    /// V of a kernel that walks a row of logits by strides of a workgroup.
    fn vocabulary(self, vocab: usize) -> Result<u32, LaunchError> {
        let vocab = self.width("vocabulary", vocab, 1)?;
        let most = u32::MAX - 1024;
        if vocab <= most {
            return Ok(vocab);
        }
        Err(self.refuse(format!("vocabulary {vocab}, at most {most} is possible")))
    }

    fn fits_u32(self, what: &str, count: usize) -> Result<(), LaunchError> {
        let most = u32::MAX as usize;
        if count <= most { Ok(()) } else { Err(self.refuse(format!("{count} {what}, at most {most} are possible"))) }
    }

    fn quads(self, elements: usize) -> Result<(), LaunchError> {
        if elements > 0 && elements.is_multiple_of(4) && (elements as u64) < 1 << 40 {
            return Ok(());
        }
        Err(self.refuse(format!("{elements} elements, a positive multiple of 4 below 2^40 is needed")))
    }

    fn epsilon(self, eps: f32) -> Result<(), LaunchError> {
        if eps > 0.0 && eps.is_finite() {
            Ok(())
        } else {
            Err(self.refuse(format!("epsilon {eps} is not positive and finite")))
        }
    }

    fn position(self, position: usize, tokens: u32, available: usize, of: &str) -> Result<u32, LaunchError> {
        match position.checked_add(tokens as usize) {
            // `available` positions lie in device memory as rows, so what passes also fits 32 bits once the cast is checked.
            Some(end) if end <= available && u32::try_from(end).is_ok() => Ok(position as u32),
            _ => Err(self.refuse(format!("{tokens} tokens from position {position} on, {of} holds {available}"))),
        }
    }

    fn holds(self, what: &str, span: &Span, shape: &[usize], element_bytes: usize) -> Result<(), LaunchError> {
        self.holds_aligned(what, span, shape, element_bytes, ALIGN)
    }

    /// `span` starts at a multiple of `align` and has room for `shape` elements.
    fn holds_aligned(
        self,
        what: &str,
        span: &Span,
        shape: &[usize],
        element_bytes: usize,
        align: u64,
    ) -> Result<(), LaunchError> {
        let needed = shape.iter().try_fold(element_bytes, |product, &size| product.checked_mul(size));
        match needed {
            Some(needed) if needed <= span.bytes() => {}
            _ => {
                let needed = needed.map_or_else(|| "more than 2^64".into(), |needed| needed.to_string());
                return Err(
                    self.refuse(format!("{what} {shape:?} needs {needed} bytes, its buffer has {}", span.bytes()))
                );
            }
        }
        if !span.address().is_multiple_of(align) {
            return Err(self.refuse(format!("{what} at {:#x} is not aligned to {align} bytes", span.address())));
        }
        Ok(())
    }

    /// All of `spans` are memory of the stream's card, and no two share a byte.
    /// Everything on the stream's card, and no two overlap; a capture keeps all of it (point 4 of [`Stream::launch`]).
    fn apart(self, stream: &Stream, spans: &[&Span]) -> Result<(), LaunchError> {
        for (index, a) in spans.iter().enumerate() {
            if !Arc::ptr_eq(a.context(), stream.context()) {
                let (memory, used) = (a.context().device(), stream.context().device());
                return Err(self.refuse(format!("memory of {memory} on a stream of {used}, opened apart from it")));
            }
            if let Some(b) = spans[index + 1..].iter().find(|b| a.overlaps(b)) {
                return Err(self.refuse(format!("{a:?} and {b:?} overlap")));
            }
        }
        stream.keep(spans);
        Ok(())
    }
}
