//! Decode by fused kernels: a token's layers in few launches or one. What the kernels read beside their arguments (which token stands
//! where, and where each matrix of a mixture) is device memory that only this file writes, so that with its checks no call can make a kernel leave its buffers. Prefill is
//! not here, nor is anything that samples.

use device_ops::Geometry;
use device_ops::decode::{self, Args, INFINITE_ID, Limit, MAX_ENDS, MAX_GRID, NAN_ID, Names, Shape, Table, Work};

use super::error::HipError;
use super::graph::GraphExec;
use super::kernels::{Kernels, LaunchError, stored};
use super::memory::{Buffer, Span};
use super::stream::Stream;
use crate::quant::Scheme;

mod places;

use places::offsets;
pub use places::{Heads, LayerPlaces, Matrices, Place, WeightPlaces};

/// How a token's layers are launched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DecodePlan {
    /// Two launches per layer, one at the end.
    Fused,
    /// The same, recorded once and launched as a graph.
    Graph,
    /// One launch for several tokens.
    Persistent,
}

impl DecodePlan {
    /// Most tokens of one call.
    pub fn block(self) -> usize {
        match self {
            Self::Fused | Self::Graph => 1,
            Self::Persistent => MAX_TOKENS,
        }
    }

    /// Whether such kernels read a matrix that is stored as `scheme`.
    ///
    /// # Errors
    /// What does.
    pub fn check(self, scheme: Scheme) -> Result<(), DecodeError> {
        if scheme == Scheme::Bf16 || self == Self::Persistent {
            return Ok(());
        }
        refuse(format!("{scheme} weights, the plans fused and graph read bf16; persistent and unfused read all"))
    }
}

/// Most tokens of one persistent launch: a user who stops a text waits for no more than these.
pub const MAX_TOKENS: usize = 16;

/// What a [`Decoder`] is made for.
#[derive(Debug, Clone)]
pub struct DecodeModel {
    /// Sizes.
    pub shape: Shape,
    /// Layers.
    pub layers: usize,
    /// ε of the norms.
    pub eps: f32,
    /// Positions the cache holds.
    pub capacity: usize,
    /// All weights.
    pub weights: Span,
    /// Where they are in it.
    pub places: WeightPlaces,
    /// Per layer keys `[kv_heads, capacity, D]`, then values `[kv_heads, D, capacity]`, bf16.
    pub cache: Span,
    /// `[positions, D]` f32.
    pub rope: Span,
    /// `[V]` f32 at least.
    pub logits: Span,
}

/// Which launch.
#[derive(Debug, Clone, Copy)]
enum Part {
    Attention(u32),
    Mlp(u32),
    Head,
    Persistent(u32),
}

/// Where the next token stands, which it is, and which ids end a launch.
#[derive(Debug, Clone, PartialEq, Eq)]
struct State {
    position: u32,
    id: u32,
    ends: Vec<u32>,
}

/// Decode of one sequence on one card.
pub struct Decoder {
    model: DecodeModel,
    names: Names,
    args: Args,
    geometry: Geometry,
    positions: usize,
    work: Span,
    ids: Span,
    plan: DecodePlan,
    /// What the card's state is, if known.
    state: Option<State>,
    /// Recorded steps: without logits, with them.
    graphs: [Option<GraphExec>; 2],
}

/// Why a token was not decoded.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    /// The model has a shape, or the card a size, that these kernels are not made for.
    #[error("decode: {0}")]
    Refused(String),
    /// A launch.
    #[error(transparent)]
    Launch(#[from] LaunchError),
    /// A call.
    #[error(transparent)]
    Hip(#[from] HipError),
    /// The model computed something that is no number.
    #[error("decode: {what} at position {position}")]
    Numbers {
        /// What.
        what: &'static str,
        /// Whose logits.
        position: usize,
    },
}

fn refuse<T>(what: impl Into<String>) -> Result<T, DecodeError> {
    Err(DecodeError::Refused(what.into()))
}

/// Bytes a decoder needs beside the model's own memory, for matrices stored in any way.
pub fn work_bytes(shape: &Shape, layers: u32) -> usize {
    work(shape).bytes as usize + Table::bytes(layers) as usize + MAX_TOKENS * 4
}

fn work(shape: &Shape) -> Work {
    Work::new(shape.hidden, shape.q(), shape.kv(), shape.intermediate, shape.heads)
}

impl Decoder {
    /// Checks everything the kernels rely on and allocates their work memory. `workgroups` are taken
    /// instead of as many as the card has room for; more than that are refused: they would wait for each other for ever.
    ///
    /// # Errors
    /// [`DecodeError`]: a shape without kernels, memory too small, no room.
    pub fn new(
        stream: &Stream,
        kernels: &Kernels,
        model: DecodeModel,
        plan: DecodePlan,
        workgroups: Option<u32>,
    ) -> Result<Self, DecodeError> {
        let shape = model.shape;
        let normed = matches!(model.places.heads, Heads::Normed { .. });
        let alike = match &model.places.matrices {
            Matrices::Alike { scheme, .. } if decode::has_own(stored(*scheme)) => Some(*scheme),
            Matrices::Alike { scheme, .. } => return refuse(format!("no kernels for {scheme} alone")),
            Matrices::Each { .. } => None,
        };
        let Some(names) = decode::names(alike.map(stored), shape.head_dim, normed) else {
            return refuse(format!("head_dim {}, kernels exist for 64 and 128", shape.head_dim));
        };
        if plan != DecodePlan::Persistent && alike != Some(Scheme::Bf16) {
            return refuse("the plans fused and graph read bf16, matrices are stored otherwise");
        }
        if let Some(Limit { what, found, most, multiple }) = shape.limit() {
            return refuse(format!("{what} is {found}, a multiple of {multiple} from {multiple} to {most} is needed"));
        }
        if !shape.heads.is_multiple_of(shape.kv_heads) {
            return refuse(format!("{} heads over {} key/value heads", shape.heads, shape.kv_heads));
        }
        let (workgroups, geometry, lds_sums, lds_x) = grid(stream, kernels, &shape, names, workgroups)?;
        let number = |what: &str, x: usize| match u32::try_from(x) {
            Ok(x) if x > 0 => Ok(x),
            _ => refuse(format!("{what} is {x}, 1 to {} is possible", u32::MAX)),
        };
        let (layers, capacity) = (number("layers", model.layers)?, number("cache capacity", model.capacity)?);
        if !capacity.is_multiple_of(32) {
            return refuse(format!("cache capacity {capacity} is not a multiple of 32"));
        }
        // One head's cache is addressed by 32 bits.
        let head = u64::from(capacity) * u64::from(shape.head_dim) * 2;
        if head > u64::from(u32::MAX) {
            return refuse(format!("{capacity} positions make {head} bytes per head, {} are possible", u32::MAX));
        }
        let room = |what: &str, span: &Span, needed: u128| {
            if needed <= span.bytes() as u128 && span.address().is_multiple_of(256) {
                return Ok(());
            }
            refuse(format!(
                "{what}: {needed} bytes from a multiple of 256 needed, {} at {:#x}",
                span.bytes(),
                span.address()
            ))
        };
        room("KV cache", &model.cache, u128::from(head) * 2 * u128::from(shape.kv_heads) * u128::from(layers))?;
        room("logits", &model.logits, u128::from(shape.vocab) * 4)?;
        let positions = (model.rope.bytes() / (shape.head_dim as usize * 4)).min(model.capacity);
        let (offsets, table) = offsets(&model, layers)?;
        if !(model.eps > 0.0 && model.eps.is_finite()) {
            return refuse(format!("epsilon {} is not positive and finite", model.eps));
        }
        let bytes = work_bytes(&shape, layers);
        let buffer = Buffer::new(stream.context(), bytes)?.span();
        stream.fill(&buffer, 0)?;
        let part = |offset, bytes| buffer.part(offset, bytes).map_err(|error| DecodeError::Refused(error.to_string()));
        let (work, ids) = (part(0, bytes - MAX_TOKENS * 4)?, part(bytes - MAX_TOKENS * 4, MAX_TOKENS * 4)?);
        if !table.is_empty() {
            let place = part(self::work(&shape).bytes as usize, table.len() * 4)?;
            stream.write(&place, bytemuck::cast_slice(&table))?;
        }
        let args = Args {
            weights: model.weights.address(),
            cache: model.cache.address(),
            rope: model.rope.address(),
            work: work.address(),
            ids: ids.address(),
            logits: model.logits.address(),
            hidden: shape.hidden,
            heads: shape.heads,
            kv_heads: shape.kv_heads,
            intermediate: shape.intermediate,
            vocab: shape.vocab,
            capacity,
            layers,
            tokens: 1,
            keep_logits: 0,
            grid: workgroups,
            lds_sums,
            lds_x,
            eps: model.eps,
            scale: 1.0 / (shape.head_dim as f32).sqrt(),
            ..offsets
        };
        Ok(Self { model, names, args, geometry, positions, work, ids, plan, state: None, graphs: [None, None] })
    }

    /// How launches are made.
    pub fn plan(&self) -> DecodePlan {
        self.plan
    }

    /// Evaluates `id` at `position`, then each id that follows by the largest logit, `count` of them, and gives those chosen: fewer
    /// where one of `ends` ended it, which is the last then. Keys and values of every evaluated token are in the cache after.
    ///
    /// # Errors
    /// What does not fit; a failed call; logits that are no numbers.
    pub fn greedy(
        &mut self,
        stream: &Stream,
        kernels: &Kernels,
        id: u32,
        position: usize,
        count: usize,
        ends: &[u32],
    ) -> Result<Vec<u32>, DecodeError> {
        if count == 0 || count > self.plan.block() {
            return refuse(format!("{count} tokens in one call, 1 to {} are possible", self.plan.block()));
        }
        // More ends than the card looks for are looked for here; those behind them were evaluated in vain.
        let known = &ends[..ends.len().min(MAX_ENDS as usize)];
        self.begin(stream, id, position, count, known)?;
        self.launch(stream, kernels, count, false)?;
        let mut bytes = vec![0u8; count * 4];
        let chosen = self.ids.part(0, bytes.len()).map_err(|error| DecodeError::Refused(error.to_string()))?;
        stream.read(&chosen, &mut bytes)?;
        let mut ids = Vec::with_capacity(count);
        for (index, bytes) in bytes.as_chunks().0.iter().enumerate() {
            let id = u32::from_le_bytes(*bytes);
            let at = position + index;
            let what = match id {
                NAN_ID => "a logit that is not a number",
                INFINITE_ID => "the largest logit is infinite",
                id if id >= self.model.shape.vocab => "an id outside the vocabulary",
                _ => "",
            };
            if !what.is_empty() {
                return Err(DecodeError::Numbers { what, position: at });
            }
            ids.push(id);
            if ends.contains(&id) {
                break;
            }
        }
        if let (true, Some(&last)) = (ids.len() == count, ids.last()) {
            self.state = Some(State { position: (position + count) as u32, id: last, ends: known.to_vec() });
        }
        Ok(ids)
    }

    /// Evaluates `id` at `position` and leaves its logits in the model's.
    ///
    /// # Errors
    /// As [`Decoder::greedy`], but for the logits: nobody has looked at them.
    pub fn logits(&mut self, stream: &Stream, kernels: &Kernels, id: u32, position: usize) -> Result<(), DecodeError> {
        self.begin(stream, id, position, 1, &[])?;
        self.launch(stream, kernels, 1, true)
    }

    /// Makes the card's state say what comes next. Nothing is copied if it does already: in greedy decode only ids leave the card.
    fn begin(
        &mut self,
        stream: &Stream,
        id: u32,
        position: usize,
        count: usize,
        ends: &[u32],
    ) -> Result<(), DecodeError> {
        if position.checked_add(count).is_none_or(|end| end > self.positions) {
            return refuse(format!("{count} tokens from position {position} on, {} are there", self.positions));
        }
        if id >= self.model.shape.vocab {
            return refuse(format!("id {id}, the vocabulary has {}", self.model.shape.vocab));
        }
        let wanted = State { position: position as u32, id, ends: ends.to_vec() };
        // Whatever happens now, the state is known again only when it has been read back.
        if self.state.take().as_ref() == Some(&wanted) {
            return Ok(());
        }
        let mut words = vec![wanted.position, wanted.id, ends.len() as u32, 0];
        words.extend_from_slice(ends);
        let bytes: &[u8] = bytemuck::cast_slice(&words);
        let place = self.work.part(Work::STATE as usize, bytes.len());
        let place = place.map_err(|error| DecodeError::Refused(error.to_string()))?;
        Ok(stream.write(&place, bytes)?)
    }

    fn launch(&mut self, stream: &Stream, kernels: &Kernels, tokens: usize, logits: bool) -> Result<(), DecodeError> {
        match self.plan {
            DecodePlan::Fused => self.step(stream, kernels, logits),
            DecodePlan::Graph => {
                if self.graphs[usize::from(logits)].is_none() {
                    let graph = stream.capture(|| self.step(stream, kernels, logits))?;
                    self.graphs[usize::from(logits)] = Some(graph.instantiate()?);
                }
                match &self.graphs[usize::from(logits)] {
                    Some(graph) => Ok(graph.launch(stream)?),
                    None => refuse("no graph was made"),
                }
            }
            DecodePlan::Persistent => self.part(stream, kernels, Part::Persistent(tokens as u32), logits),
        }
    }

    /// One token by two launches per layer and one at the end.
    fn step(&self, stream: &Stream, kernels: &Kernels, logits: bool) -> Result<(), DecodeError> {
        for layer in 0..self.args.layers {
            self.part(stream, kernels, Part::Attention(layer), logits)?;
            self.part(stream, kernels, Part::Mlp(layer), logits)?;
        }
        self.part(stream, kernels, Part::Head, logits)
    }

    fn part(&self, stream: &Stream, kernels: &Kernels, part: Part, logits: bool) -> Result<(), DecodeError> {
        let mut args = self.args;
        args.keep_logits = u32::from(logits);
        let name = match part {
            Part::Attention(layer) => {
                args.layers = layer;
                self.names.attention
            }
            Part::Mlp(layer) => {
                args.layers = layer;
                self.names.mlp
            }
            Part::Head => self.names.head,
            Part::Persistent(tokens) => {
                args.tokens = tokens;
                self.names.persistent
            }
        };
        let model = &self.model;
        let spans = [&model.weights, &model.cache, &model.rope, &model.logits, &self.work, &self.ids];
        // SAFETY: 1. `Args` is that of all these kernels; 2. `new` checked sizes, alignment and places, `begin` that the positions of
        // this call are in cache and table and that its first id is in the vocabulary, as every id is that a kernel chooses; the
        // parts are six allocations, or parts of one that do not overlap; `work` was zeroed, `new` wrote the table of checked places behind it, and only these kernels and `begin` write it else;
        // 3. the contract's geometry, on workgroups that run at once; 4. one stream, and Spans keep memory alive.
        Ok(unsafe { kernels.launch_resident(stream, name, self.geometry, &args, &spans) }?)
    }
}

/// The grid and its geometry: as many workgroups as run at once and have rows for their waves, or `asked`. One of HIP's multiprocessors is a
/// WGP, its pair of compute units.
fn grid(
    stream: &Stream,
    kernels: &Kernels,
    shape: &Shape,
    names: Names,
    asked: Option<u32>,
) -> Result<(u32, Geometry, u32, u32), DecodeError> {
    let processors = stream.context().device().multiprocessor_count.clamp(1, MAX_GRID);
    let rows = (shape.q() + 2 * shape.kv()).max(2 * shape.intermediate).max(shape.vocab / 8);
    let useful = (processors * decode::WORKGROUPS_PER_WGP).min(rows.div_ceil(decode::WAVES)).clamp(1, MAX_GRID);
    let mut count = asked.unwrap_or(useful);
    if count == 0 || count > MAX_GRID {
        return refuse(format!("{count} workgroups, 1 to {MAX_GRID} are possible"));
    }
    loop {
        let (geometry, lds_sums, lds_x) = shape.geometry(count);
        if !shape.fits(count) {
            let (needed, most) = (geometry.lds_bytes, amdgpu_target::MAX_LDS_BYTES);
            return refuse(format!("{count} workgroups need {needed} bytes of LDS each, {most} are there"));
        }
        let each = kernels.resident(&[names.attention, names.mlp, names.head, names.persistent], geometry)?;
        let room = processors * each;
        if count <= room {
            return Ok((count, geometry, lds_sums, lds_x));
        }
        if asked.is_some() {
            return refuse(format!("{count} workgroups, the card runs {room} at once"));
        }
        count = room; // fewer each time: it ends
    }
}
