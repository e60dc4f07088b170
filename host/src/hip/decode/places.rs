//! Where decode's kernels find each tensor in the block of all weights, as offsets in their units, checked.

use device_ops::decode::{self, Args, TABLE_ROW, Table, UNIT};
use device_ops::format::Form;

use super::{DecodeError, DecodeModel, refuse};
use crate::hip::kernels::stored;
use crate::quant::Scheme;

/// What stands between the products of q, k, v and attention, and where.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Heads {
    /// Each head has a norm, `[D]` for queries and for keys.
    Normed {
        /// Of queries.
        q: usize,
        /// Of keys.
        k: usize,
    },
    /// Heads are rotated as they are.
    Rotated {
        /// Biases `[Q + 2K]` of q, k and v, one behind the other.
        bias: Option<usize>,
    },
}

/// Where a matrix lies in the block of all weights, in bytes from its start, and how it is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// Where its object begins.
    pub offset: usize,
    /// What it is.
    pub scheme: Scheme,
}

/// A layer's matrices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LayerPlaces {
    /// q, k and v: `[Q, H]`, `[K, H]`, `[K, H]`.
    pub qkv: [Place; 3],
    /// `[H, Q]`.
    pub o: Place,
    /// Gate and up: `[I, H]` both.
    pub gated: [Place; 2],
    /// `[H, I]`.
    pub down: Place,
}

/// Where the matrices lie.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Matrices {
    /// All stored alike, in a scheme with kernels of its own; layers at equal distances. Offsets in bytes; a layer's are the first layer's.
    Alike {
        /// How.
        scheme: Scheme,
        /// `[V, H]`.
        embed: usize,
        /// q, k, v `[Q + 2K, H]`, one behind the other.
        qkv: usize,
        /// `[H, Q]`.
        o: usize,
        /// `[I, H]`.
        gate: usize,
        /// `[I, H]`.
        up: usize,
        /// `[H, I]`.
        down: usize,
        /// `[V, H]`.
        head: usize,
    },
    /// Each somewhere and somehow.
    Each {
        /// `[V, H]`.
        embed: Place,
        /// By layer.
        layers: Vec<LayerPlaces>,
        /// `[V, H]`.
        head: Place,
    },
}

/// Where each tensor lies in the block of all weights. Vectors are bf16, their offsets in bytes from its start; a layer's are the first layer's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WeightPlaces {
    /// Matrices.
    pub matrices: Matrices,
    /// From a layer's tensors to the next layer's.
    pub layer_stride: usize,
    /// `[H]`.
    pub input_norm: usize,
    /// Norms of heads, or biases.
    pub heads: Heads,
    /// `[H]`.
    pub post_norm: usize,
    /// `[H]`.
    pub norm: usize,
}

/// Places in the block of a model's weights, each checked to be inside.
struct Block<'a> {
    model: &'a DecodeModel,
    /// From the first layer's tensors to the last layer's.
    last: u128,
}

impl Block<'_> {
    /// `bytes` from `offset` on, and as many `last` bytes further, in the kernels' units.
    fn within(&self, what: &str, offset: usize, bytes: u128, last: u128) -> Result<u32, DecodeError> {
        let (end, all) = (offset as u128 + last + bytes, self.model.weights.bytes());
        match u32::try_from(offset as u64 / UNIT) {
            Ok(units) if (offset as u64).is_multiple_of(UNIT) && end <= all as u128 => Ok(units),
            _ => refuse(format!("{what} at {offset} ends at {end}, the weights have {all} bytes")),
        }
    }

    /// A vector of each layer.
    fn vectors(&self, what: &str, offset: usize, elements: u32) -> Result<u32, DecodeError> {
        self.within(what, offset, u128::from(elements) * 2, self.last)
    }

    /// Matrices of so many rows each, one behind the other, quantized ones from the next multiple of a unit.
    fn matrices(
        &self,
        what: &str,
        Place { offset, scheme }: Place,
        rows: &[u32],
        k: u32,
        last: u128,
    ) -> Result<u32, DecodeError> {
        let mut bytes = 0;
        for &n in rows {
            let layout = scheme.layout(&[n as usize, k as usize]);
            let layout = layout.map_err(|error| DecodeError::Refused(format!("{what}: {error}")))?;
            bytes = u128::next_multiple_of(bytes, u128::from(UNIT)) + layout.bytes as u128;
        }
        self.within(what, offset, bytes, last)
    }

    /// An entry of the kernels' table.
    fn entry(&self, what: &str, Place { offset, scheme }: Place, n: u32, k: u32) -> Result<[u32; 4], DecodeError> {
        let layout = scheme.layout(&[n as usize, k as usize]);
        let layout = layout.map_err(|error| DecodeError::Refused(format!("{what}: {error}")))?;
        let codes = self.within(what, offset, layout.bytes as u128, 0)?;
        // Parts begin at multiples of a unit, and end inside the block, which has no more units than 32 bits count.
        let part = |start: usize| codes + (start as u64 / UNIT) as u32;
        let (scales, minimums) = match (layout.scales.is_empty(), layout.minimums.is_empty()) {
            (true, _) => (codes, codes),
            (false, true) => (part(layout.scales.start), part(layout.scales.start)),
            (false, false) => (part(layout.scales.start), part(layout.minimums.start)),
        };
        let group_log2 = scheme.group().map_or(0, usize::ilog2);
        Ok([codes, scales, minimums, Form::new(stored(scheme), group_log2).0])
    }
}

/// The weights' offsets in the kernels' units, and the table of matrices where they are not alike; each checked to be inside the block.
pub(super) fn offsets(model: &DecodeModel, layers: u32) -> Result<(Args, Vec<u32>), DecodeError> {
    let (shape, places) = (&model.shape, &model.places);
    let (h, q, kv, i, v, d) = (shape.hidden, shape.q(), shape.kv(), shape.intermediate, shape.vocab, shape.head_dim);
    if !model.weights.address().is_multiple_of(UNIT) || !(places.layer_stride as u64).is_multiple_of(UNIT) {
        return refuse(format!(
            "weights at {:#x}, layers {} bytes apart",
            model.weights.address(),
            places.layer_stride
        ));
    }
    // The kernels count units of a layer's tensor in 32 bits.
    if model.weights.bytes() as u64 / UNIT > u64::from(u32::MAX) {
        return refuse(format!("{} bytes of weights", model.weights.bytes()));
    }
    let last = places.layer_stride as u128 * u128::from(layers - 1);
    let block = Block { model, last };
    let [q_norm, k_norm] = match places.heads {
        Heads::Normed { q, k } => [block.vectors("q norm", q, d)?, block.vectors("k norm", k, d)?],
        Heads::Rotated { bias: None } => [decode::NO_BIAS, 0],
        Heads::Rotated { bias: Some(bias) } => [block.vectors("biases", bias, q + 2 * kv)?, 0],
    };
    let args = Args {
        layer_stride: block.within("layers", places.layer_stride, 0, 0)?,
        input_norm: block.vectors("input norm", places.input_norm, h)?,
        q_norm,
        k_norm,
        post_norm: block.vectors("post norm", places.post_norm, h)?,
        norm: block.within("final norm", places.norm, u128::from(h) * 2, 0)?,
        ..bytemuck::Zeroable::zeroed()
    };
    match &places.matrices {
        Matrices::Alike { scheme, embed, qkv, o, gate, up, down, head } => {
            // The kernels of quantized matrices find up by its distance behind gate.
            if *scheme != Scheme::Bf16 && up < gate {
                return refuse(format!("up_proj at {up} before gate_proj at {gate}"));
            }
            let matrices = |what, offset: &usize, rows: &[u32], k, last| {
                block.matrices(what, Place { offset: *offset, scheme: *scheme }, rows, k, last)
            };
            let args = Args {
                embed: matrices("embedding", embed, &[v], h, 0)?,
                qkv: matrices("q, k, v", qkv, &[q, kv, kv], h, last)?,
                o: matrices("o_proj", o, &[h], q, last)?,
                gate: matrices("gate_proj", gate, &[i], h, last)?,
                up: matrices("up_proj", up, &[i], h, last)?,
                down: matrices("down_proj", down, &[h], i, last)?,
                head: matrices("lm_head", head, &[v], h, 0)?,
                group_log2: scheme.group().map_or(0, usize::ilog2),
                ..args
            };
            Ok((args, Vec::new()))
        }
        Matrices::Each { embed, layers: of_layers, head } => {
            if of_layers.len() != layers as usize {
                return refuse(format!("matrices of {} layers, the model has {layers}", of_layers.len()));
            }
            let mut rows = Vec::with_capacity(of_layers.len() + 1);
            for layer in of_layers {
                let mut row = [[0; 4]; TABLE_ROW as usize];
                for ((entry, place), n) in row[Table::Q as usize..].iter_mut().zip(layer.qkv).zip([q, kv, kv]) {
                    *entry = block.entry("q, k, v", place, n, h)?;
                }
                row[Table::O as usize] = block.entry("o_proj", layer.o, h, q)?;
                for (entry, place) in row[Table::GATE as usize..].iter_mut().zip(layer.gated) {
                    *entry = block.entry("gate and up", place, i, h)?;
                }
                row[Table::DOWN as usize] = block.entry("down_proj", layer.down, h, i)?;
                rows.push(row);
            }
            let mut row = [[0; 4]; TABLE_ROW as usize];
            row[Table::EMBED as usize] = block.entry("embedding", *embed, v, h)?;
            row[Table::HEAD as usize] = block.entry("lm_head", *head, v, h)?;
            rows.push(row);
            Ok((args, rows.into_flattened().into_flattened()))
        }
    }
}
