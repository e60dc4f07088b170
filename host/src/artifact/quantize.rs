//! A matrix of a source becomes the object of its scheme, some rows at a time: it holds a block of rows, and the scales of the whole
//! matrix until its codes are written. Which scheme, and where the object goes, is decided in `directory` and `writer`.

use super::{error::LoadError, source::Source, writer::not_finite};
use crate::quant::{self, Encoded, Scheme, SchemeError, Search};

/// Elements done at a time: enough rows for all threads, small beside a model.
const BLOCK: usize = 2 << 20;
/// Rows that a block has a multiple of: the schemes' K is one of 32, and a source gives elements by the 256.
const ROWS: usize = 8;

/// Encodes tensor `index` of `source`, a matrix, or regroups its blocks where they are kept, and gives the object's bytes to `write`, in order.
pub(super) fn write(
    scheme: Scheme,
    source: &Source,
    index: usize,
    write: &mut dyn FnMut(&[u8]) -> Result<(), LoadError>,
) -> Result<(), LoadError> {
    let tensor = &source.directory.tensors[index];
    let refused =
        |error: SchemeError| LoadError::new(source.file_of(index), error.to_string()).object(tensor.name.as_str());
    let layout = scheme.layout(&tensor.shape).map_err(refused)?;
    let [n, k] = [tensor.shape[0], tensor.shape[1]];
    let block = (BLOCK / k / ROWS).max(1) * ROWS;
    let kept = if source.exact[index] { source.stored[index].regrouped(&tensor.shape) } else { None };
    let mut values: Vec<f32> = Vec::new();
    let (mut scales, mut minimums) =
        (Vec::with_capacity(layout.scales.len()), Vec::with_capacity(layout.minimums.len()));
    for row in (0..n).step_by(block) {
        let rows = (n - row).min(block);
        let mut part = Encoded::default();
        if let Some(kept) = kept {
            (kept.append)(&source.copy_blocks(index, row..row + rows)?, &mut part);
            part.check_finite(scheme, k, row).map_err(refused)?;
        } else {
            values.resize(rows * k, 0.0);
            source.copy_f32(index, row * k, &mut values)?;
            if let Some(at) = values.iter().position(|value| !value.is_finite()) {
                return Err(not_finite(source.file_of(index), &tensor.name, row * k + at, values[at]));
            }
            part = quant::encode(scheme, Search::LeastSquares, &values, k).map_err(refused)?;
        }
        write(&part.codes)?;
        scales.extend_from_slice(&part.scales);
        minimums.extend_from_slice(&part.minimums);
    }
    write(&vec![0; layout.scales.start - layout.codes.end])?;
    write(&scales)?;
    write(&vec![0; layout.minimums.start - layout.scales.end])?;
    write(&minimums)
}
