//! Encoders against searches in f64 that share no code with them: for small groups every scale near the right one is tried, each as its
//! type holds it. Also: what they must refuse, and that codes stay in their range.

use half::f16;
use zynfer::quant::{Encoded, Matrix, Scheme, Search, encode, fp8};
use zynfer_tests::random::Random;

use crate::Aligned;

/// Numbers as weights are: most near zero, a few far out, of several spreads.
fn weights(random: &mut Random, count: usize, spread: f64) -> Vec<f32> {
    let uniform = |random: &mut Random| (random.wide() >> 11) as f64 / (1u64 << 53) as f64;
    (0..count)
        .map(|_| {
            let normal: f64 = (0..12).map(|_| uniform(random)).sum::<f64>() - 6.0;
            let far = if random.one_in(40) { 3.0 } else { 1.0 };
            (normal * far * spread) as f32
        })
        .collect()
}

/// Decoded rows of an encoding.
fn decoded(scheme: Scheme, encoded: &Encoded, n: usize, k: usize) -> Vec<f32> {
    let layout = scheme.layout(&[n, k]).unwrap();
    let object = Aligned(encoded.object(&layout), layout.bytes);
    let matrix = Matrix::new(scheme, &[n, k], object.bytes()).unwrap();
    matrix.check_finite().unwrap();
    let mut out = vec![f32::NAN; n * k];
    out.chunks_exact_mut(k).enumerate().for_each(|(row, out)| matrix.decode_row(row, out));
    out
}

fn error(x: &[f32], y: &[f32]) -> f64 {
    x.iter().zip(y).map(|(x, y)| (f64::from(*x) - f64::from(*y)).powi(2)).sum()
}

/// The least error of `codes` around zero over a fine grid of scales of both signs, each rounded to f16 if `half`.
fn least_signed(x: &[f32], low: f64, high: f64, half: bool) -> f64 {
    let most = x.iter().fold(0f64, |most, x| most.max(f64::from(x.abs())));
    let mut least = f64::INFINITY;
    for step in 0..6000 {
        for sign in [-1.0, 1.0] {
            let scale = sign * most / high * (0.6 + 0.001 / 6.0 * f64::from(step));
            let scale = if half { f16::from_f64(scale).to_f64() } else { scale };
            if scale != 0.0 {
                let of = |x: f32| (f64::from(x) / scale).round().clamp(low, high) * scale;
                let sum = x.iter().map(|x| (f64::from(*x) - of(*x)).powi(2)).sum::<f64>();
                least = least.min(sum);
            }
        }
    }
    least
}

/// The same for scale and minimum, over a grid of both ends.
fn least_with_minimum(x: &[f32]) -> f64 {
    let (low, high) =
        x.iter().fold((f64::MAX, f64::MIN), |(low, high), x| (low.min((*x).into()), high.max((*x).into())));
    let mut least = f64::INFINITY;
    for below in 0..60 {
        for above in 0..60 {
            let range = high - low;
            let minimum = f16::from_f64(low + range * (f64::from(below) / 200.0 - 0.05)).to_f64();
            let scale = f16::from_f64((high - range * (f64::from(above) / 200.0 - 0.05) - minimum) / 15.0).to_f64();
            let of = |x: f32| ((f64::from(x) - minimum) / scale).round().clamp(0.0, 15.0) * scale + minimum;
            let sum = x.iter().map(|x| (f64::from(*x) - of(*x)).powi(2)).sum::<f64>();
            least = least.min(sum);
        }
    }
    least
}

/// Sum of our errors and of the searches' over many groups, and the worst quotient of one group.
fn compared(scheme: Scheme, group: usize, search: impl Fn(&[f32]) -> f64) -> (f64, f64) {
    let mut random = Random(17);
    let (mut ours, mut theirs, mut worst) = (0.0, 0.0, 0f64);
    for spread in [0.02, 0.5, 1e-3] {
        for _ in 0..20 {
            let x = weights(&mut random, group, spread);
            let encoded = encode(scheme, Search::LeastSquares, &x, group).unwrap();
            let (our, their) = (error(&x, &decoded(scheme, &encoded, 1, group)), search(&x));
            (ours, theirs, worst) =
                (ours + our / spread.powi(2), theirs + their / spread.powi(2), worst.max(our / their));
        }
    }
    (ours / theirs, worst)
}

#[test]
fn the_error_of_int4_is_that_of_a_search_over_every_scale() {
    for group in [32, 64, 128] {
        let (all, worst) = compared(Scheme::Int4(group), group, |x| least_signed(x, -8.0, 7.0, true));
        assert!(all < 1.02 && worst < 1.3, "int4:{group}: {all} of the least error, {worst} at worst");
    }
}

#[test]
fn the_error_of_int4_with_minimum_is_that_of_a_search_over_both_ends() {
    for group in [32, 64] {
        let (all, worst) = compared(Scheme::Int4Min(group), group, least_with_minimum);
        assert!(all < 1.02 && worst < 1.5, "int4m:{group}: {all} of the least error, {worst} at worst");
    }
}

#[test]
fn the_error_of_int8_is_that_of_a_search_over_every_scale() {
    for (scheme, half) in [(Scheme::Int8(32), true), (Scheme::Int8(128), true), (Scheme::Int8Row, false)] {
        let group = scheme.group().unwrap_or(128);
        let (all, worst) = compared(scheme, group, |x| least_signed(x, -127.0, 127.0, half));
        assert!(all < 1.25 && worst < 2.5, "{scheme}: {all} of the least error, {worst} at worst");
    }
}

#[test]
fn the_search_is_never_worse_than_the_nearest_and_better_in_all() {
    let mut random = Random(3);
    let (n, k) = (16, 512);
    let x = weights(&mut random, n * k, 0.03);
    for scheme in ["int8", "int8:32", "int4:32", "int4:64", "int4:128", "int4m:32", "int4m:128", "fp8-e4m3"] {
        let scheme: Scheme = scheme.parse().unwrap();
        let of = |search| decoded(scheme, &encode(scheme, search, &x, k).unwrap(), n, k);
        let (near, least) = (of(Search::Nearest), of(Search::LeastSquares));
        for row in 0..n {
            let part = row * k..(row + 1) * k;
            let error = |y: &[f32]| error(&x[part.clone()], &y[part.clone()]);
            assert!(error(&least) <= error(&near) * 1.000001, "{scheme}, row {row}");
        }
        let quotient = error(&x, &least) / error(&x, &near);
        let bar = if scheme.code_bits() == 4 { 0.92 } else { 1.0 };
        assert!(quotient < bar, "{scheme}: {quotient} of the nearest's error");
    }
}

#[test]
fn int8_codes_and_fp8_codes_stay_in_their_range_and_zeros_stay_zero() {
    let mut random = Random(9);
    let mut x = weights(&mut random, 4 * 256, 2.0);
    x[256..512].fill(0.0);
    for scheme in ["int8", "int8:64", "int4:32", "int4m:64", "fp8-e4m3", "bf16"] {
        let scheme: Scheme = scheme.parse().unwrap();
        for search in [Search::Nearest, Search::LeastSquares] {
            let encoded = encode(scheme, search, &x, 256).unwrap();
            assert!(decoded(scheme, &encoded, 4, 256)[256..512].iter().all(|y| *y == 0.0), "{scheme}");
            if scheme.word() == "int8" {
                assert!(encoded.codes.iter().all(|code| *code != 0x80));
            }
            if scheme == Scheme::Fp8 {
                assert!(encoded.codes.iter().all(|code| fp8::to_f32(*code).is_finite()));
            }
        }
    }
    // Weights below what a scale of f16 can hold become zeros, not infinities.
    let tiny = vec![1e-12f32; 64];
    let encoded = encode(Scheme::Int4(32), Search::LeastSquares, &tiny, 64).unwrap();
    assert!(decoded(Scheme::Int4(32), &encoded, 1, 64).iter().all(|y| *y == 0.0));
}

#[test]
fn what_is_not_finite_or_does_not_fit_is_refused_with_its_place() {
    let text = |scheme: &str, x: &[f32]| {
        let scheme = scheme.parse().unwrap();
        let encoded = encode(scheme, Search::LeastSquares, x, 64);
        encoded.and_then(|encoded| encoded.check_finite(scheme, 64, 0)).expect_err("refused").to_string()
    };
    let mut x = vec![0.5f32; 128];
    x[70] = f32::INFINITY;
    for scheme in ["int8", "int4:32", "int4m:32", "fp8-e4m3"] {
        assert_eq!(text(scheme, &x), "element 70 is inf, a finite number expected");
    }
    x[70] = 1e9;
    // Element 70 is in the first group of the second row, the third of all.
    assert_eq!(text("int4:32", &x), "scale 2 is inf, a finite number expected");
    assert!(text("int4m:32", &x).starts_with("scale 2 is inf"));
    assert_eq!(
        encode(Scheme::Int4(64), Search::Nearest, &x[..96], 96).unwrap_err().to_string(),
        "int4:64: 96 elements in a row, a multiple of 64 expected"
    );
}
