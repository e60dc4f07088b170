//! A matrix of a source becomes the object of its scheme, some rows at a time: it holds a block of rows, and the scales of the whole
//! matrix until its codes are written. Which scheme, and where the object goes, is decided in `directory` and `writer`.

use super::{error::LoadError, source::Source, writer::not_finite};
use crate::quant::{self, Encoded, Scheme, SchemeError, Search};

/// Encodes matrices in the order of the payload, where more is asked of it than the least squared error.
pub trait MatrixEncoder {
    /// Encodes some rows, `[R, K]`, of tensor `tensor` of the directory; all rows of a tensor come before the next tensor's.
    ///
    /// # Errors
    /// A row that its scheme does not take; whatever else the encoder runs into.
    fn encode(
        &mut self,
        tensor: usize,
        scheme: Scheme,
        rows: &[f32],
        k: usize,
    ) -> Result<Encoded, Box<dyn std::error::Error>>;

    /// Gets a whole matrix, encoded.
    ///
    /// # Errors
    /// A shape that the scheme does not take.
    fn finished(&mut self, tensor: usize, scheme: Scheme, shape: &[usize], encoded: Encoded)
    -> Result<(), SchemeError>;
}

/// Elements done at a time: enough rows for all threads, small beside a model.
const BLOCK: usize = 2 << 20;
/// Rows that a block has a multiple of: the schemes' K is one of 32, and a source gives elements by the 256.
const ROWS: usize = 8;

/// Encodes tensor `index` of `source`, a matrix, or regroups its blocks where they are kept, and gives the object's bytes to `write`, in order.
pub(super) fn write(
    scheme: Scheme,
    source: &Source,
    index: usize,
    mut encoder: Option<&mut dyn MatrixEncoder>,
    write: &mut dyn FnMut(&[u8]) -> Result<(), LoadError>,
) -> Result<(), LoadError> {
    let tensor = &source.directory.tensors[index];
    let problem = |text: String| LoadError::new(source.file_of(index), text).object(tensor.name.as_str());
    let refused = |error: SchemeError| problem(error.to_string());
    let layout = scheme.layout(&tensor.shape).map_err(refused)?;
    let [n, k] = [tensor.shape[0], tensor.shape[1]];
    let block = (BLOCK / k / ROWS).max(1) * ROWS;
    let kept = if source.exact[index] { source.stored[index].regrouped(&tensor.shape) } else { None };
    let mut values: Vec<f32> = Vec::new();
    // Codes of the whole matrix only where they are asked for.
    let mut whole = Encoded::default();
    for row in (0..n).step_by(block) {
        let rows = (n - row).min(block);
        let mut part = Encoded::default();
        if let Some(kept) = kept {
            (kept.append)(&source.copy_blocks(index, row..row + rows)?, &mut part);
        } else {
            values.resize(rows * k, 0.0);
            source.copy_f32(index, row * k, &mut values)?;
            if let Some(at) = values.iter().position(|value| !value.is_finite()) {
                return Err(not_finite(source.file_of(index), &tensor.name, row * k + at, values[at]));
            }
            part = match &mut encoder {
                Some(encoder) => encoder.encode(index, scheme, &values, k).map_err(|e| problem(e.to_string()))?,
                None => quant::encode(scheme, Search::LeastSquares, &values, k).map_err(refused)?,
            };
        }
        part.check_finite(scheme, k, row).map_err(refused)?;
        write(&part.codes)?;
        if encoder.is_some() {
            whole.codes.extend_from_slice(&part.codes);
        }
        whole.scales.extend_from_slice(&part.scales);
        whole.minimums.extend_from_slice(&part.minimums);
    }
    write(&vec![0; layout.scales.start - layout.codes.end])?;
    write(&whole.scales)?;
    write(&vec![0; layout.minimums.start - layout.scales.end])?;
    write(&whole.minimums)?;
    match encoder {
        Some(encoder) => encoder.finished(index, scheme, &tensor.shape, whole).map_err(refused),
        None => Ok(()),
    }
}
