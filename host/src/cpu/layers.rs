//! What running a model layer after layer over a whole text needs beside [`Ops`](crate::model::ops::Ops): activations read and put back between
//! passes, and matrices replaced while the others stay. Decoding uses none of it.

use super::{CpuBackend, Held, error};
use crate::{
    model::ops::{Act, OpResult, TensorId},
    quant::{self, Scheme},
};

impl CpuBackend {
    /// The rows of an activation of the current pass.
    pub fn activation(&self, act: Act) -> &[f32] {
        self.rows(act)
    }

    /// Starts a pass at position 0 with these rows of `act`, `[T, width]`; or gives another activation of such a pass its rows.
    ///
    /// # Errors
    /// No rows, or more than a pass takes.
    pub fn put_activation(&mut self, act: Act, rows: &[f32]) -> OpResult {
        let width = self.width(act);
        let (tokens, most) = (rows.len() / width, self.options.max_chunk);
        if tokens == 0 || tokens > most || !rows.len().is_multiple_of(width) {
            return error(format!("pass: {} numbers in rows of {width} given, 1 to {most} rows expected", rows.len()));
        }
        (self.position, self.tokens, self.logits_rows) = (0, tokens, 0);
        self.acts[act as usize][..rows.len()].copy_from_slice(rows);
        Ok(())
    }

    /// From now on matrix `id` is `object`, of the same shape; the source's is no longer read.
    ///
    /// # Errors
    /// An object that is not of this scheme and shape.
    pub fn replace(&mut self, id: TensorId, scheme: Scheme, object: Box<[u32]>, bytes: usize) -> OpResult {
        let tensor = &mut self.tensors[id.0];
        quant::Matrix::new(scheme, &tensor.shape, &bytemuck::cast_slice(&object)[..bytes])
            .map_err(|e| super::BackendError(format!("tensor {}: {e}", tensor.name)))?;
        tensor.held = Held::Quantized { scheme, object, bytes };
        Ok(())
    }

    /// Forgets what [`CpuBackend::replace`] gave: the matrix is not read again, and its memory is free.
    pub fn forget(&mut self, id: TensorId) {
        self.tensors[id.0].held = Held::Forgotten;
    }
}
