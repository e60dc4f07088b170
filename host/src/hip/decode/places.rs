//! Where decode's kernels find each tensor in the block of all weights, as offsets in their units, checked.

use device_ops::decode::{self, Args, UNIT};

use super::{DecodeError, DecodeModel, refuse};
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

/// Where each tensor lies in the block of all weights, in bytes from its start. A layer's are the first layer's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WeightPlaces {
    /// What all matrices are stored as; vectors are bf16.
    pub scheme: Scheme,
    /// From a layer's tensors to the next layer's.
    pub layer_stride: usize,
    /// `[V, H]`.
    pub embed: usize,
    /// `[H]`.
    pub input_norm: usize,
    /// q, k, v `[Q + 2K, H]`.
    pub qkv: usize,
    /// Norms of heads, or biases.
    pub heads: Heads,
    /// `[H, Q]`.
    pub o: usize,
    /// `[H]`.
    pub post_norm: usize,
    /// `[I, H]`.
    pub gate: usize,
    /// `[I, H]`.
    pub up: usize,
    /// `[H, I]`.
    pub down: usize,
    /// `[H]`.
    pub norm: usize,
    /// `[V, H]`.
    pub head: usize,
}

/// The weights' offsets in the kernels' units, each checked to be inside the block.
pub(super) fn offsets(model: &DecodeModel, layers: u32) -> Result<Args, DecodeError> {
    let (shape, places) = (&model.shape, &model.places);
    let (h, q, kv) = (u128::from(shape.hidden), u128::from(shape.q()), u128::from(shape.kv()));
    let (i, v, d) = (u128::from(shape.intermediate), u128::from(shape.vocab), u128::from(shape.head_dim));
    let stride = places.layer_stride as u128 * u128::from(layers - 1);
    let within = |what: &str, offset: usize, bytes: u128, last: u128| -> Result<u32, DecodeError> {
        let end = offset as u128 + last + bytes;
        let units = u32::try_from(offset as u64 / UNIT);
        match units {
            Ok(units) if (offset as u64).is_multiple_of(UNIT) && end <= model.weights.bytes() as u128 => Ok(units),
            _ => refuse(format!("{what} at {offset} ends at {end}, the weights have {} bytes", model.weights.bytes())),
        }
    };
    let unit = |what: &str, offset: usize, elements: u128, last: u128| within(what, offset, elements * 2, last);
    // Several matrices of as many rows each lie one behind the other, quantized ones from the next multiple of a unit.
    let matrices = |what: &str, offset: usize, rows: &[u128], k: u128, last: u128| -> Result<u32, DecodeError> {
        let mut bytes = 0;
        for &n in rows {
            let layout = places.scheme.layout(&[n as usize, k as usize]);
            let layout = layout.map_err(|error| DecodeError::Refused(format!("{what}: {error}")))?;
            bytes = u128::next_multiple_of(bytes, u128::from(UNIT)) + layout.bytes as u128;
        }
        within(what, offset, bytes, last)
    };
    // The kernels of quantized matrices find up by its distance behind gate.
    if places.scheme != Scheme::Bf16 && places.up < places.gate {
        return refuse(format!("up_proj at {} before gate_proj at {}", places.up, places.gate));
    }
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
    let [q_norm, k_norm] = match places.heads {
        Heads::Normed { q, k } => [unit("q norm", q, d, stride)?, unit("k norm", k, d, stride)?],
        Heads::Rotated { bias: None } => [decode::NO_BIAS, 0],
        Heads::Rotated { bias: Some(bias) } => [unit("biases", bias, q + 2 * kv, stride)?, 0],
    };
    Ok(Args {
        layer_stride: unit("layers", places.layer_stride, 0, 0)?,
        embed: matrices("embedding", places.embed, &[v], h, 0)?,
        input_norm: unit("input norm", places.input_norm, h, stride)?,
        qkv: matrices("q, k, v", places.qkv, &[q, kv, kv], h, stride)?,
        q_norm,
        k_norm,
        o: matrices("o_proj", places.o, &[h], q, stride)?,
        post_norm: unit("post norm", places.post_norm, h, stride)?,
        gate: matrices("gate_proj", places.gate, &[i], h, stride)?,
        up: matrices("up_proj", places.up, &[i], h, stride)?,
        down: matrices("down_proj", places.down, &[h], i, stride)?,
        norm: unit("final norm", places.norm, h, 0)?,
        head: matrices("lm_head", places.head, &[v], h, 0)?,
        ..bytemuck::Zeroable::zeroed()
    })
}
