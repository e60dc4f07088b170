//! Codes chosen by second moments, against the method as it was published (optimal brain surgeon column by column, GPTQ), in f64 and with an
//! inverse that is carried along: another algorithm for the same choice. Also: whole models calibrated, families with biases and with an lm_head.

use half::f16;
use zynfer::{
    artifact::{Artifact, LoadMode, compile_as, compile_quantized},
    calibrate::Calibration,
    quant::{
        Encoded, Recipe, Scheme, Search,
        compensate::{Moments, compensate},
        encode,
    },
};
use zynfer_tests::fixtures::fixture;
use zynfer_tests::random::Random;

const DAMPING: f64 = 0.1;

/// A case of rows and of inputs that go together; inputs are small whole numbers, whose sums f32 has exactly.
struct Case {
    n: usize,
    k: usize,
    rows: Vec<f32>,
    inputs: Vec<f32>,
}

impl Case {
    fn new(n: usize, k: usize) -> Self {
        let mut random = Random(7);
        let mut whole = |below: usize| random.below(2 * below + 1) as f32 - below as f32;
        let rows = (0..n * k).map(|i| whole(1000) * if i % 41 == 0 { 4e-4 } else { 1e-4 }).collect();
        let mut inputs = Vec::new();
        for _ in 0..3 * k {
            let common: Vec<f32> = (0..4).map(|_| whole(3)).collect();
            inputs.extend((0..k).map(|i| common[i % 4] * (1 + i % 3) as f32 + whole(if i % 7 == 0 { 5 } else { 1 })));
        }
        Self { n, k, rows, inputs }
    }

    fn moments(&self) -> Vec<f64> {
        let k = self.k;
        let mut sums = vec![0.0; k * k];
        for x in self.inputs.chunks_exact(k) {
            for i in 0..k {
                for j in 0..k {
                    sums[i * k + j] += f64::from(x[i]) * f64::from(x[j]);
                }
            }
        }
        sums
    }

    /// `Σ e H eᵀ` of all rows.
    fn weighted_error(&self, moments: &[f64], values: &[f64]) -> f64 {
        let k = self.k;
        let mut total = 0.0;
        for row in 0..self.n {
            let e: Vec<f64> = (0..k).map(|i| f64::from(self.rows[row * k + i]) - values[row * k + i]).collect();
            for i in 0..k {
                total += e[i] * (0..k).map(|j| moments[i * k + j] * e[j]).sum::<f64>();
            }
        }
        total
    }
}

/// Scale and offset of every element, and the values of the codes, read off the bytes anew.
fn read(scheme: Scheme, encoded: &Encoded, n: usize, k: usize) -> Vec<(f64, f64, f64)> {
    let group = scheme.group().unwrap();
    let half = |bytes: &[u8], at: usize| f64::from(f16::from_le_bytes([bytes[2 * at], bytes[2 * at + 1]]));
    let element = |i: usize| {
        let (row, column) = (i / k, i % k);
        let at = row * (k / group) + column / group;
        let byte = encoded.codes[row * k / 2 + column / 32 * 16 + column % 16];
        let code = f64::from(if column % 32 < 16 { byte & 15 } else { byte >> 4 });
        let scale = half(&encoded.scales, at);
        let offset = if scheme.has_minimums() { half(&encoded.minimums, at) } else { -8.0 * scale };
        (scale, offset, code * scale + offset)
    };
    (0..n * k).map(element).collect()
}

/// The published method: values of all rows.
fn published(case: &Case, moments: &[f64], grid: &[(f64, f64, f64)]) -> Vec<f64> {
    let k = case.k;
    let mean = (0..k).map(|i| moments[i * k + i]).sum::<f64>() / k as f64;
    let mut damped = moments.to_vec();
    (0..k).for_each(|i| damped[i * k + i] += DAMPING * mean);
    let mut inverse = inverse(&damped, k);
    let mut order: Vec<usize> = (0..k).collect();
    order.sort_by(|a, b| moments[b * k + b].total_cmp(&moments[a * k + a]).then(a.cmp(b)));
    let mut weights: Vec<f64> = case.rows.iter().map(|w| f64::from(*w)).collect();
    let mut values = vec![0.0; weights.len()];
    for (turn, &column) in order.iter().enumerate() {
        let pivot = inverse[column * k + column];
        for row in 0..case.n {
            let at = row * k + column;
            let (scale, offset, _) = grid[at];
            values[at] = ((weights[at] - offset) / scale).round_ties_even().clamp(0.0, 15.0) * scale + offset;
            let error = (weights[at] - values[at]) / pivot;
            for &other in &order[turn + 1..] {
                weights[row * k + other] -= error * inverse[column * k + other];
            }
        }
        let taken: Vec<f64> = (0..k).map(|j| inverse[column * k + j]).collect();
        for i in 0..k {
            for j in 0..k {
                inverse[i * k + j] -= taken[i] * taken[j] / pivot;
            }
        }
    }
    values
}

/// Gauss and Jordan, without pivoting: the matrix is positive definite.
fn inverse(matrix: &[f64], k: usize) -> Vec<f64> {
    let (mut left, mut right) = (matrix.to_vec(), vec![0.0; k * k]);
    (0..k).for_each(|i| right[i * k + i] = 1.0);
    for pivot in 0..k {
        let by = left[pivot * k + pivot];
        for j in 0..k {
            left[pivot * k + j] /= by;
            right[pivot * k + j] /= by;
        }
        for i in (0..k).filter(|i| *i != pivot) {
            let by = left[i * k + pivot];
            for j in 0..k {
                left[i * k + j] -= by * left[pivot * k + j];
                right[i * k + j] -= by * right[pivot * k + j];
            }
        }
    }
    right
}

#[test]
fn codes_are_those_of_the_published_method() {
    for (scheme, n, k) in [
        (Scheme::Int4(32), 19, 96),
        (Scheme::Int4(64), 3, 64),
        (Scheme::Int4(32), 8, 32),
        (Scheme::Int4Min(32), 11, 160),
    ] {
        let case = Case::new(n, k);
        let moments = case.moments();
        let mut ours = Moments::new(k);
        case.inputs.chunks(17 * k).for_each(|inputs| ours.add(inputs));
        let plain = encode(scheme, Search::LeastSquares, &case.rows, k).unwrap();
        let mut encoded = plain.clone();
        compensate(scheme, &ours.factor(DAMPING).unwrap(), &case.rows, &mut encoded);
        assert_eq!((&encoded.scales, &encoded.minimums), (&plain.scales, &plain.minimums));

        let grid = read(scheme, &plain, n, k);
        let values = |encoded| read(scheme, encoded, n, k).into_iter().map(|(.., value)| value).collect::<Vec<_>>();
        let expected = case.weighted_error(&moments, &published(&case, &moments, &grid));
        let found = case.weighted_error(&moments, &values(&encoded));
        let before = case.weighted_error(&moments, &values(&plain));
        assert!((found / expected - 1.0).abs() < 1e-6, "{scheme} [{n}, {k}]: {found}, published {expected}");
        assert!(found < 0.75 * before, "{scheme} [{n}, {k}]: {found}, by rounding {before}");
    }
}

#[test]
fn inputs_that_are_always_zero_leave_numbers() {
    let case = Case::new(4, 64);
    let mut encoded = encode(Scheme::Int4(32), Search::LeastSquares, &case.rows, 64).unwrap();
    let plain = encoded.clone();
    let mut moments = Moments::new(64);
    moments.add(&[0.0; 64 * 3]);
    compensate(Scheme::Int4(32), &moments.factor(DAMPING).unwrap(), &case.rows, &mut encoded);
    // Nothing to make up for: each code is the nearest again.
    let values = |encoded| read(Scheme::Int4(32), encoded, 4, 64);
    for ((scale, _, found), (_, _, expected)) in values(&encoded).into_iter().zip(values(&plain)) {
        assert!((found - expected).abs() <= 1e-6 * scale.abs(), "{found}, {expected}");
    }
}

#[test]
fn inputs_too_large_for_sums_of_their_squares_are_refused_by_their_column() {
    let mut moments = Moments::new(64);
    let mut inputs = [1.0f32; 64 * 3];
    inputs[64 + 7] = f32::INFINITY;
    moments.add(&inputs);
    let refused = moments.factor(DAMPING).expect_err("an infinite moment");
    assert_eq!(refused.to_string(), "the second moment of column 7 is inf, a finite number expected");
}

/// Calibrates a fixture by made-up ids; how many matrices are others than without.
fn calibrated(name: &str, recipe: &Recipe, vocab: usize) -> (Vec<u8>, usize) {
    let scratch = tempfile::tempdir().unwrap();
    let out = |name: &str| scratch.path().join(name);
    let mut random = Random(5);
    let ids: Vec<u32> = (0..2048).map(|_| random.below(vocab) as u32).collect();
    let open = |path: &std::path::Path| Artifact::open(path, LoadMode::Mmap).unwrap();
    let mut calibration = Calibration::new(open(&fixture(name)), &ids).unwrap();
    compile_as(&fixture(name), &out("by"), Some(recipe), Some(&mut calibration), &mut |_, _| {}).unwrap();
    compile_quantized(&fixture(name), &out("plain"), recipe, &mut |_, _| {}).unwrap();
    let (by, plain) = (open(&out("by")), open(&out("plain")));
    by.verify(&mut |_, _| {}).unwrap();
    let changed = by.tensors().zip(plain.tensors()).filter(|(a, b)| {
        assert_eq!((a.name, a.scheme), (b.name, b.scheme));
        a.bytes != b.bytes
    });
    let changed = changed.count();
    (std::fs::read(out("by")).unwrap(), changed)
}

#[test]
fn every_matrix_but_the_embedding_is_compensated_and_the_same_text_gives_the_same_bytes() {
    for name in ["qwen3-d64-untied", "qwen2-d64", "llama-d64-untied"] {
        let artifact = Artifact::open(&fixture(name), LoadMode::Mmap).unwrap();
        let (vocab, layers) = (artifact.config().vocab_size, artifact.config().num_hidden_layers);
        let head = usize::from(!artifact.config().tie_word_embeddings);
        let recipe = Recipe::new(Scheme::Int4(32));
        let (bytes, changed) = calibrated(name, &recipe, vocab);
        assert_eq!(changed, 7 * layers + head, "{name}");
        assert!(bytes == calibrated(name, &recipe, vocab).0, "{name}");
        // Only int4 and int4m are; what is left as it was trained is run as it was trained.
        let recipe = recipe.keep("attn_o=int8:32,down=bf16").unwrap();
        assert_eq!(calibrated(name, &recipe, vocab).1, 5 * layers + head, "{name}");
    }
}

#[test]
fn texts_that_are_too_short_or_of_another_vocabulary_are_refused() {
    let refused = |ids: &[u32]| {
        let artifact = Artifact::open(&fixture("tiny-qwen3"), LoadMode::Mmap).unwrap();
        Calibration::new(artifact, ids).err().expect("refused").to_string()
    };
    assert_eq!(
        refused(&[1; 1023]),
        "calibration: 512 tokens in windows of 512, at least 768 expected: as many as the widest matrix has inputs"
    );
    let mut ids = vec![1; 1024];
    ids[700] = 4096;
    assert_eq!(refused(&ids), "calibration: id 4096 at 700, ids below 4096 expected: is it another model's?");
}
