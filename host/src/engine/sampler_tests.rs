//! Laws and goldens of the sampler: expected sets are worked out by hand or by a plain second implementation, not by the sampler.

use proptest::prelude::*;

use super::*;

fn params() -> SamplingParams {
    SamplingParams { temperature: 1.0, seed: Some(1), ..Default::default() }
}

fn kept_ids(p: SamplingParams, logits: &[f32]) -> Vec<u32> {
    Sampler::new(p, &[]).unwrap().kept(&mut logits.to_vec()).unwrap().iter().map(|k| k.id).collect()
}

#[test]
fn temperature_zero_is_argmax_with_the_lowest_id_on_ties() {
    let mut s = Sampler::new(SamplingParams::default(), &[]).unwrap();
    assert_eq!(s.sample(&mut [0.0, 100.0, 9.0]), Ok(1));
    assert_eq!(s.sample(&mut [5.0, 7.0, 7.0, -1.0]), Ok(1));
    assert_eq!(s.sample(&mut [f32::NEG_INFINITY, -3e38]), Ok(1));
}

#[test]
fn tiny_temperatures_do_not_overflow() {
    for temperature in [1e-30, f64::MIN_POSITIVE, 5e-324] {
        let mut s = Sampler::new(SamplingParams { temperature, ..params() }, &[]).unwrap();
        for _ in 0..50 {
            assert_eq!(s.sample(&mut [0.0, 100.0, 9.0]), Ok(1), "temperature {temperature:e}");
        }
    }
}

#[test]
fn fields_out_of_range_are_named_with_their_value() {
    let text = |p: SamplingParams| p.validate().unwrap_err().to_string();
    let p = params();
    for (value, shown) in [(-1.0, "-1"), (f64::NAN, "NaN"), (f64::INFINITY, "inf")] {
        let expected = format!("temperature: {shown} given, a finite number of 0 or more expected");
        assert_eq!(text(SamplingParams { temperature: value, ..p }), expected);
    }
    assert_eq!(text(SamplingParams { top_k: -2, ..p }), "top_k: -2 given, -1, 0 or a positive number expected");
    assert_eq!(text(SamplingParams { top_p: 1.5, ..p }), "top_p: 1.5 given, 0 to 1 expected");
    assert_eq!(text(SamplingParams { min_p: f64::NAN, ..p }), "min_p: NaN given, 0 to 1 expected");
    assert!(text(SamplingParams { repetition_penalty: 0.0, ..p }).starts_with("repetition_penalty: 0 given"));
    assert!(text(SamplingParams { presence_penalty: 2.1, ..p }).starts_with("presence_penalty: 2.1 given"));
    assert!(text(SamplingParams { frequency_penalty: -2.1, ..p }).starts_with("frequency_penalty: -2.1 given"));
    for (top_k, top_p, min_p) in [(1_000_000, 0.0, 1.0), (0, 1.0, 0.0), (-1, 1.0, 1.0)] {
        assert!(SamplingParams { top_k, top_p, min_p, ..p }.validate().is_ok());
    }
}

#[test]
fn unusable_logits_are_errors() {
    for temperature in [0.0, 1.0] {
        let mut s = Sampler::new(SamplingParams { temperature, ..params() }, &[]).unwrap();
        let nan = s.sample(&mut [0.0, f32::NAN, 1.0]).unwrap_err();
        assert_eq!(nan.to_string(), "logit of token 1 is NaN, a finite number expected");
        assert!(matches!(s.sample(&mut [f32::INFINITY, 0.0]), Err(SampleError::NotFinite { id: 0, .. })));
        assert_eq!(s.sample(&mut [f32::NEG_INFINITY; 3]), Err(SampleError::Nothing { count: 3 }));
        assert_eq!(s.sample(&mut []), Err(SampleError::Nothing { count: 0 }));
    }
}

#[test]
fn order_is_temperature_then_top_k_then_top_p_then_min_p() {
    // Probabilities at temperature 1: 0.5, 0.25, 0.125, 0.0625, 0.0625.
    let logits: Vec<f32> = [0.5f32, 0.25, 0.125, 0.0625, 0.0625].iter().map(|p| p.ln()).collect();
    assert_eq!(kept_ids(params(), &logits), [0, 1, 2, 3, 4]);
    assert_eq!(kept_ids(SamplingParams { top_p: 0.7, ..params() }, &logits), [0, 1]);
    assert_eq!(kept_ids(SamplingParams { top_p: 0.76, ..params() }, &logits), [0, 1, 2]);
    // top-k before top-p: of the two left, the first holds 2/3.
    assert_eq!(kept_ids(SamplingParams { top_k: 2, top_p: 0.6, ..params() }, &logits), [0]);
    // Temperature before top-p: at 0.5 the squares 1, 1/4, 1/16 … hold 0.744 and 0.93.
    assert_eq!(kept_ids(SamplingParams { temperature: 0.5, top_p: 0.7, ..params() }, &logits), [0]);
    assert_eq!(kept_ids(SamplingParams { temperature: 0.5, top_p: 0.76, ..params() }, &logits), [0, 1]);
    // Temperature before min-p: the second's ratio is 0.5 at 1 and 0.25 at 0.5.
    assert_eq!(kept_ids(SamplingParams { min_p: 0.4, ..params() }, &logits), [0, 1]);
    assert_eq!(kept_ids(SamplingParams { temperature: 0.5, min_p: 0.4, ..params() }, &logits), [0]);
    // Ties are cut by id.
    assert_eq!(kept_ids(SamplingParams { top_k: 4, ..params() }, &logits), [0, 1, 2, 3]);
    assert_eq!(kept_ids(SamplingParams { top_p: 0.0, ..params() }, &[1.0, 1.0, 0.0]), [0]);
    // top-k looks at logits: a temperature that makes all weights but one 0 leaves their order.
    assert_eq!(kept_ids(SamplingParams { temperature: 1e-30, top_k: 2, ..params() }, &[0.0, 100.0, 9.0]), [1, 2]);
    assert_eq!(kept_ids(SamplingParams { top_k: 2, ..params() }, &[-1.0, -0.0, 0.0, 0.0]), [1, 2]);
    assert_eq!(kept_ids(SamplingParams { min_p: 1.0, ..params() }, &[0.0, 1.0, 0.5]), [1]);
}

#[test]
fn penalties_look_at_the_right_tokens() {
    let p = SamplingParams {
        temperature: 0.0,
        presence_penalty: 1.0,
        frequency_penalty: 0.25,
        repetition_penalty: 2.0,
        ..Default::default()
    };
    let mut s = Sampler::new(p, &[0, 3]).unwrap();
    // Only the repetition penalty knows the prompt: positive halved, negative doubled.
    let mut logits = [4.0, 3.0, -1.0, -1.0];
    assert_eq!(s.sample(&mut logits), Ok(1));
    assert_eq!(logits, [2.0, 3.0, -1.0, -2.0]);
    // Token 1 is generated now: 3/2 − 1 − 0.25.
    let mut logits = [4.0, 3.0, -1.0, -1.0];
    assert_eq!(s.sample(&mut logits), Ok(0));
    assert_eq!(logits, [2.0, 0.25, -1.0, -2.0]);
    // Both once more; token 0 counts for repetition once although it is in the prompt and generated.
    let mut logits = [4.0, 3.0, -1.0, -1.0];
    s.accept(1);
    assert_eq!(s.sample(&mut logits), Ok(0));
    assert_eq!(logits, [0.75, 0.0, -1.0, -2.0]);
}

#[test]
fn seeds_keep_their_bits() {
    assert_eq!(parse_seed("-1"), Ok(u64::MAX));
    assert_eq!(parse_seed("9223372036854775808"), Ok(1 << 63));
    assert_eq!(parse_seed("-9223372036854775808"), Ok(1 << 63));
    for bad in ["18446744073709551616", "-9223372036854775809", "1.5", "", "abc"] {
        let text = parse_seed(bad).unwrap_err().to_string();
        assert!(text.starts_with(&format!("seed: {bad} given")), "{text}");
    }
    let stream = |seed| {
        let mut s = Sampler::new(SamplingParams { seed, ..params() }, &[]).unwrap();
        (0..40).map(|_| s.sample(&mut [0.0; 50]).unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(stream(Some(7)), stream(Some(7)));
    assert_ne!(stream(Some(7)), stream(Some(8)));
    assert_ne!(stream(Some(0)), stream(Some(1 << 63)));
    assert_ne!(stream(None), stream(None));
}

#[test]
fn random_stream_is_splitmix64() {
    // The published test vector of the algorithm for seed 1234567.
    let mut random = SplitMix64(1_234_567);
    let expected =
        [6457827717110365317u64, 3203168211198807973, 9817491932198370423, 4593380528125082431, 16408922859458223821];
    assert_eq!(expected.map(|_| random.next()), expected);
}

#[test]
fn draws_follow_the_distribution() {
    let logits = [1.0f32, 0.0, 2.0, -1.0, 0.5];
    let p = SamplingParams { temperature: 0.8, top_k: 4, seed: Some(42), ..params() };
    let mut s = Sampler::new(p, &[]).unwrap();
    let weights = [0usize, 1, 2, 4].map(|id| (id, (f64::from(logits[id]) / 0.8).exp()));
    let sum: f64 = weights.iter().map(|w| w.1).sum();
    const DRAWS: usize = 40_000;
    let mut counts = [0usize; 5];
    for _ in 0..DRAWS {
        counts[s.sample(&mut logits.clone()).unwrap() as usize] += 1;
    }
    assert_eq!(counts[3], 0, "truncated by top-k");
    for (id, weight) in weights {
        let p = weight / sum;
        // Six standard deviations: one false alarm in 10^9, while a wrong temperature is off by tens of them.
        let bound = 6.0 * (DRAWS as f64 * p * (1.0 - p)).sqrt();
        assert!(
            (counts[id] as f64 - DRAWS as f64 * p).abs() < bound,
            "token {id}: {} of {}",
            counts[id],
            DRAWS as f64 * p
        );
    }
}

#[test]
fn overrides_are_taken_from_the_strongest_that_speaks() {
    let request = SamplingOverrides { temperature: Some(0.3), ..Default::default() };
    let model = SamplingOverrides { temperature: Some(0.6), top_p: Some(0.95), top_k: Some(20), ..Default::default() };
    let p = request.or(SamplingOverrides::default()).or(model).resolve();
    assert_eq!((p.temperature, p.top_p, p.top_k, p.min_p), (0.3, 0.95, 20, 0.0));
    assert!(SamplingOverrides::default().resolve().is_plain_greedy());
}

#[test]
fn a_models_defaults_are_greedy_only_where_it_says_so() {
    let stated =
        GenerationDefaults { temperature: Some(0.6), top_k: Some(20), top_p: Some(0.95), ..Default::default() };
    let temperature = |do_sample, temperature| {
        let defaults = GenerationDefaults { do_sample, temperature, ..stated.clone() };
        SamplingOverrides::of_model(&defaults).resolve().temperature
    };
    assert_eq!(temperature(Some(true), Some(0.6)), 0.6);
    assert_eq!(temperature(Some(true), None), 1.0);
    assert_eq!(temperature(Some(false), Some(0.6)), 0.0);
    assert_eq!(temperature(None, None), 0.0);
    let p = SamplingOverrides::of_model(&stated).resolve();
    assert_eq!((p.temperature, p.top_k, p.top_p), (0.6, 20, 0.95));
}

/// The `k` largest logits by definition: a stable sort of all of them, then a cut.
fn largest_plainly(logits: &[f32], k: usize) -> Vec<Candidate> {
    let mut all: Vec<Candidate> = logits.iter().zip(0..).map(|(&logit, id)| Candidate { id, logit }).collect();
    all.sort_by(|a, b| b.logit.partial_cmp(&a.logit).unwrap());
    all.truncate(k);
    all
}

/// The kept set by definition: sort everything, then cut.
fn kept_plainly(logits: &[f32], p: &SamplingParams) -> BTreeSet<u32> {
    let max = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let mut all: Vec<(f64, u32)> = largest_plainly(logits, if p.top_k > 0 { p.top_k as usize } else { logits.len() })
        .iter()
        .map(|c| (((f64::from(c.logit) - f64::from(max)) / p.temperature).exp(), c.id))
        .collect();
    if p.top_p < 1.0 {
        let sum: f64 = all.iter().map(|a| a.0).sum();
        let mut cumulated = 0.0;
        let count = all.iter().position(|a| {
            cumulated += a.0;
            // The sampler sums in another order, so a share met exactly may fall either way: the test's shares avoid it.
            cumulated >= p.top_p * sum
        });
        all.truncate(count.map_or(all.len(), |c| c + 1));
    }
    all.retain(|a| a.0 >= p.min_p);
    all.into_iter().map(|a| a.1).collect()
}

#[test]
fn candidates_are_asked_for_only_where_nothing_else_matters() {
    let p = SamplingParams { temperature: 0.6, top_k: 20, top_p: 0.95, ..params() };
    assert_eq!(p.candidates(), Some(20));
    assert_eq!(SamplingParams { top_k: 1_000_000, min_p: 0.1, ..p }.candidates(), Some(1_000_000));
    for whole in [
        SamplingParams { temperature: 0.0, ..p },
        SamplingParams { top_k: 0, ..p },
        SamplingParams { top_k: -1, ..p },
        SamplingParams { repetition_penalty: 1.1, ..p },
        SamplingParams { presence_penalty: 0.1, ..p },
        SamplingParams { frequency_penalty: -0.1, ..p },
    ] {
        assert_eq!(whole.candidates(), None, "{whole:?}");
    }
}

#[test]
fn unusable_candidates_are_errors() {
    let mut s = Sampler::new(SamplingParams { top_k: 2, ..params() }, &[]).unwrap();
    assert_eq!(s.sample_from(&[]), Err(SampleError::Nothing { count: 0 }));
    for logit in [f32::INFINITY, f32::NEG_INFINITY, f32::NAN] {
        let error = s.sample_from(&[Candidate { id: 7, logit }]).unwrap_err().to_string();
        assert_eq!(error, format!("logit of token 7 is {logit}, a finite number expected"));
    }
}

/// Logits with ties, zeros of both signs and −∞ among numbers of every size; one at least is finite.
fn awkward_logits() -> impl Strategy<Value = Vec<f32>> {
    let one = prop_oneof![
        8 => -8.0f32..8.0,
        4 => (-3i8..3).prop_map(f32::from),
        1 => Just(-0.0),
        1 => Just(f32::NEG_INFINITY),
        1 => any::<f32>().prop_filter("a number", |x| x.is_finite()),
    ];
    prop::collection::vec(one, 1..300).prop_filter("one is finite", |logits| logits.iter().any(|x| x.is_finite()))
}

proptest! {
    #[test]
    fn candidates_choose_what_the_whole_row_chooses(
        logits in awkward_logits(), temperature in prop_oneof![Just(1e-30), Just(0.6), 0.05f64..3.0, Just(1e300)],
        top_k in 1i64..=64, top_p in 0.0f64..1.2, min_p in prop_oneof![Just(0.0), 0.0f64..1.0], seed: u64,
    ) {
        let p = SamplingParams { temperature, top_k, top_p: top_p.min(1.0), min_p, seed: Some(seed), ..params() };
        let (mut whole, mut few) = (Sampler::new(p, &[]).unwrap(), Sampler::new(p, &[]).unwrap());
        let largest = largest_plainly(&logits, p.candidates().unwrap());
        for _ in 0..8 {
            prop_assert_eq!(few.sample_from(&largest), whole.sample(&mut logits.clone()));
        }
    }

    #[test]
    fn kept_set_is_the_plain_one_and_the_choice_is_in_it(
        logits in prop::collection::vec(-8.0f32..8.0, 1..900),
        temperature in 0.05f64..3.0, top_k in -1i64..1200, top_p in 0.0f64..1.2, min_p in 0.0f64..1.0, seed: u64,
    ) {
        let p = SamplingParams { temperature, top_k, top_p: top_p.min(1.0), min_p, seed: Some(seed), ..params() };
        let mut s = Sampler::new(p, &[]).unwrap();
        let kept: BTreeSet<u32> = s.kept(&mut logits.clone()).unwrap().iter().map(|k| k.id).collect();
        prop_assert!(!kept.is_empty());
        prop_assert_eq!(&kept, &kept_plainly(&logits, &p));
        for _ in 0..4 {
            prop_assert!(kept.contains(&s.sample(&mut logits.clone()).unwrap()));
        }
    }

    #[test]
    fn any_finite_logits_give_a_token(logits in prop::collection::vec(any::<f32>().prop_filter("finite", |x| x.is_finite()), 1..50),
        temperature in prop_oneof![Just(0.0), Just(1e-30), Just(1.0), Just(1e300)], top_p in 0.0f64..=1.0) {
        let p = SamplingParams { temperature, top_p, ..params() };
        let id = Sampler::new(p, &[]).unwrap().sample(&mut logits.clone()).unwrap();
        prop_assert!((id as usize) < logits.len());
    }
}
