//! A matrix of a source becomes the object of its scheme, some rows at a time: it holds a block of rows, and the scales of the whole
//! matrix until its codes are written. Which scheme, and where the object goes, is decided in `directory` and `writer`.

use super::{error::LoadError, source::Source, writer::not_finite};
use crate::quant::{self, Scheme, SchemeError, Search};

/// Elements encoded at a time: enough rows for all threads, small beside a model.
const BLOCK: usize = 2 << 20;
/// Rows that a block has a multiple of: the schemes' K is one of 32, and a source gives elements by the 256.
const ROWS: usize = 8;

/// Encodes tensor `index` of `source`, a matrix, and gives the object's bytes to `write`, in order.
pub(super) fn write(
    scheme: Scheme,
    source: &Source,
    index: usize,
    write: &mut dyn FnMut(&[u8]) -> Result<(), LoadError>,
) -> Result<(), LoadError> {
    let tensor = &source.directory.tensors[index];
    let file = source.storages[source.ranges[index].0].path();
    let refused = |error: SchemeError| LoadError::new(file, error.to_string()).object(tensor.name.as_str());
    let layout = scheme.layout(&tensor.shape).map_err(refused)?;
    let [n, k] = [tensor.shape[0], tensor.shape[1]];
    let block = (BLOCK / k / ROWS).max(1) * ROWS;
    let mut values: Vec<f32> = Vec::new();
    let (mut scales, mut minimums) =
        (Vec::with_capacity(layout.scales.len()), Vec::with_capacity(layout.minimums.len()));
    for row in (0..n).step_by(block) {
        values.resize((n - row).min(block) * k, 0.0);
        source.copy_f32(index, row * k, &mut values)?;
        if let Some(at) = values.iter().position(|value| !value.is_finite()) {
            return Err(not_finite(file, &tensor.name, row * k + at, values[at]));
        }
        let encoded = quant::encode(scheme, Search::LeastSquares, &values, k).map_err(refused)?;
        write(&encoded.codes)?;
        scales.extend_from_slice(&encoded.scales);
        minimums.extend_from_slice(&encoded.minimums);
    }
    write(&vec![0; layout.scales.start - layout.codes.end])?;
    write(&scales)?;
    write(&vec![0; layout.minimums.start - layout.scales.end])?;
    write(&minimums)
}
