//! From logits to one token id. Order, fixed and documented for users:
//!
//! 1. penalties on the raw logits: repetition (prompt and output; positive logits divided, negative multiplied), then presence (once)
//!    and frequency (per occurrence) over generated tokens only;
//! 2. temperature 0: the largest logit, of equal ones the lowest id, and nothing below applies;
//! 3. temperature: logits ÷ temperature; 4. top-k: the k largest logits, of equal ones the lowest ids; 5. top-p: the fewest likeliest tokens whose share of what top-k left reaches p;
//!    6. min-p: at least `min_p` times the likeliest one's probability; 7. one draw from what is kept, by its probabilities.
//!
//! The likeliest token always stays, so the kept set is never empty. Probabilities are f64. It keeps no text and knows no stop rule.

use std::{
    collections::{BTreeMap, BTreeSet},
    hash::{BuildHasher, Hasher},
};

use super::error::{RequestError, SampleError};
use crate::artifact::GenerationDefaults;
use crate::model::ops::Candidate;

/// How to choose a token. [`Default`] is greedy without penalties: the engine's own default.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SamplingParams {
    /// 0 is greedy; finite, not negative.
    pub temperature: f64,
    /// Keep the k likeliest; 0 and −1 switch it off, more than the vocabulary keeps all.
    pub top_k: i64,
    /// 0 to 1; 1 switches it off, 0 keeps the likeliest token.
    pub top_p: f64,
    /// 0 to 1; 0 switches it off.
    pub min_p: f64,
    /// Finite, above 0; 1 switches it off.
    pub repetition_penalty: f64,
    /// −2 to 2; 0 switches it off.
    pub presence_penalty: f64,
    /// −2 to 2; 0 switches it off.
    pub frequency_penalty: f64,
    /// Bits of the seed; `None` draws one, which [`Sampler::seed`] reports.
    pub seed: Option<u64>,
}

impl Default for SamplingParams {
    fn default() -> Self {
        Self {
            temperature: 0.0,
            top_k: 0,
            top_p: 1.0,
            min_p: 0.0,
            repetition_penalty: 1.0,
            presence_penalty: 0.0,
            frequency_penalty: 0.0,
            seed: None,
        }
    }
}

/// Sampling fields somebody gave: a request, the command line, or a model's generation defaults.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
#[expect(missing_docs, reason = "the fields of SamplingParams, each perhaps absent")]
pub struct SamplingOverrides {
    pub temperature: Option<f64>,
    pub top_k: Option<i64>,
    pub top_p: Option<f64>,
    pub min_p: Option<f64>,
    pub repetition_penalty: Option<f64>,
    pub presence_penalty: Option<f64>,
    pub frequency_penalty: Option<f64>,
    pub seed: Option<u64>,
}

impl SamplingOverrides {
    /// A checkpoint's generation defaults. `do_sample: false` is greedy whatever else is stated; `do_sample: true` without a
    /// temperature is temperature 1, as where those files come from.
    pub fn of_model(defaults: &GenerationDefaults) -> Self {
        let temperature = match defaults.do_sample {
            Some(false) => Some(0.0),
            Some(true) => defaults.temperature.or(Some(1.0)),
            None => defaults.temperature,
        };
        Self {
            temperature,
            top_k: defaults.top_k.map(i64::from),
            top_p: defaults.top_p,
            min_p: defaults.min_p,
            repetition_penalty: defaults.repetition_penalty,
            presence_penalty: defaults.presence_penalty,
            frequency_penalty: defaults.frequency_penalty,
            seed: None,
        }
    }

    /// Fields of `self`, and where absent those of `weaker`: `request.or(command_line).or(model)`.
    pub fn or(self, weaker: Self) -> Self {
        Self {
            temperature: self.temperature.or(weaker.temperature),
            top_k: self.top_k.or(weaker.top_k),
            top_p: self.top_p.or(weaker.top_p),
            min_p: self.min_p.or(weaker.min_p),
            repetition_penalty: self.repetition_penalty.or(weaker.repetition_penalty),
            presence_penalty: self.presence_penalty.or(weaker.presence_penalty),
            frequency_penalty: self.frequency_penalty.or(weaker.frequency_penalty),
            seed: self.seed.or(weaker.seed),
        }
    }

    /// The effective values: what is still absent is the engine's default.
    pub fn resolve(self) -> SamplingParams {
        let d = SamplingParams::default();
        SamplingParams {
            temperature: self.temperature.unwrap_or(d.temperature),
            top_k: self.top_k.unwrap_or(d.top_k),
            top_p: self.top_p.unwrap_or(d.top_p),
            min_p: self.min_p.unwrap_or(d.min_p),
            repetition_penalty: self.repetition_penalty.unwrap_or(d.repetition_penalty),
            presence_penalty: self.presence_penalty.unwrap_or(d.presence_penalty),
            frequency_penalty: self.frequency_penalty.unwrap_or(d.frequency_penalty),
            seed: self.seed.or(d.seed),
        }
    }
}

/// Reads a seed as users write it: −2^63 … 2^64−1, the bits kept; anything else is refused by name.
pub fn parse_seed(text: &str) -> Result<u64, RequestError> {
    let text = text.trim();
    text.parse::<u64>().or_else(|_| text.parse::<i64>().map(|signed| signed as u64)).map_err(|_| RequestError::Field {
        field: "seed",
        value: text.to_owned(),
        expected: "a whole number from -9223372036854775808 to 18446744073709551615",
    })
}

impl SamplingParams {
    /// Refuses the first field out of its range, naming it and its value.
    pub fn validate(&self) -> Result<(), RequestError> {
        let check = |ok: bool, field, value: f64, expected| {
            if ok { Ok(()) } else { Err(RequestError::Field { field, value: value.to_string(), expected }) }
        };
        let t = self.temperature;
        check(t.is_finite() && t >= 0.0, "temperature", t, "a finite number of 0 or more")?;
        check(self.top_k >= -1, "top_k", self.top_k as f64, "-1, 0 or a positive number")?;
        check((0.0..=1.0).contains(&self.top_p), "top_p", self.top_p, "0 to 1")?;
        check((0.0..=1.0).contains(&self.min_p), "min_p", self.min_p, "0 to 1")?;
        let r = self.repetition_penalty;
        check(r.is_finite() && r > 0.0, "repetition_penalty", r, "a finite number above 0")?;
        check((-2.0..=2.0).contains(&self.presence_penalty), "presence_penalty", self.presence_penalty, "-2 to 2")?;
        check((-2.0..=2.0).contains(&self.frequency_penalty), "frequency_penalty", self.frequency_penalty, "-2 to 2")
    }

    /// Whether the choice is the plain largest logit, so that a backend may make it without copying logits.
    pub fn is_plain_greedy(&self) -> bool {
        self.temperature == 0.0 && !self.has_penalties()
    }

    /// How many of the largest logits the choice looks at, where it looks at those alone: so many of them suffice for
    /// [`Sampler::sample_from`].
    pub fn candidates(&self) -> Option<usize> {
        let top_k = usize::try_from(self.top_k).ok().filter(|&k| k > 0)?;
        (self.temperature != 0.0 && !self.has_penalties()).then_some(top_k)
    }

    fn has_penalties(&self) -> bool {
        self.repetition_penalty != 1.0 || self.presence_penalty != 0.0 || self.frequency_penalty != 0.0
    }
}

/// SplitMix64 (Steele, Lea, Flood 2014): portable, one `u64` of state, passes BigCrush; nearby seeds give unrelated streams.
#[derive(Debug, Clone)]
struct SplitMix64(u64);

impl SplitMix64 {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Uniform in `[0, 1)` with 53 bits.
    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// The state of one generation's choices: its random stream and the tokens seen so far.
#[derive(Debug, Clone)]
pub struct Sampler {
    params: SamplingParams,
    seed: u64,
    random: SplitMix64,
    prompt: BTreeSet<u32>,
    generated: BTreeMap<u32, u32>,
}

/// A token that survived truncation, with its weight relative to the likeliest one (not normalised).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Kept {
    /// Token id.
    pub id: u32,
    /// `exp((logit − max) / temperature)`; the likeliest token's is 1.
    pub weight: f64,
}

impl Sampler {
    /// Validates `params` and starts with `prompt` as the tokens a repetition penalty already counts.
    pub fn new(params: SamplingParams, prompt: &[u32]) -> Result<Self, RequestError> {
        params.validate()?;
        // The standard library's hasher is keyed by the operating system's randomness and differs at each call.
        let seed = params.seed.unwrap_or_else(|| std::hash::RandomState::new().build_hasher().finish());
        // Only penalties look at what was seen.
        let prompt = if params.has_penalties() { prompt.iter().copied().collect() } else { BTreeSet::new() };
        Ok(Self { params, seed, random: SplitMix64(seed), prompt, generated: BTreeMap::new() })
    }

    /// The seed in use, given or drawn.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// The parameters in use.
    pub fn params(&self) -> &SamplingParams {
        &self.params
    }

    /// Chooses from `logits` (penalties are applied in place) and counts the choice as generated.
    pub fn sample(&mut self, logits: &mut [f32]) -> Result<u32, SampleError> {
        let id = if self.params.temperature == 0.0 {
            self.penalise(logits);
            argmax(logits)?
        } else {
            let kept = self.kept(logits)?;
            draw(&kept, self.random.unit())
        };
        self.accept(id);
        Ok(id)
    }

    /// As [`Sampler::sample`], bit for bit, from the [`SamplingParams::candidates`] largest logits alone, largest first, of equal ones the
    /// lower id first. Only for parameters that have such a number.
    pub fn sample_from(&mut self, largest: &[Candidate]) -> Result<u32, SampleError> {
        let max = match largest.first() {
            None => return Err(SampleError::Nothing { count: 0 }),
            Some(&Candidate { id, logit }) if !logit.is_finite() => {
                return Err(SampleError::NotFinite { id: id as usize, value: logit });
            }
            Some(&Candidate { logit, .. }) => logit,
        };
        let kept = self.truncate(largest.iter().copied(), max);
        Ok(draw(&kept, self.random.unit()))
    }

    /// Counts `id` as generated, for a choice made elsewhere.
    pub fn accept(&mut self, id: u32) {
        if self.params.has_penalties() {
            *self.generated.entry(id).or_default() += 1;
        }
    }

    /// The tokens the next draw is made from (steps 1 and 3 to 6), likeliest first when anything truncates, else by id.
    /// Temperature 0 keeps the largest logit alone.
    pub fn kept(&self, logits: &mut [f32]) -> Result<Vec<Kept>, SampleError> {
        self.penalise(logits);
        let best = argmax(logits)?;
        let p = &self.params;
        if p.temperature == 0.0 {
            return Ok(vec![Kept { id: best, weight: 1.0 }]);
        }
        let max = logits[best as usize];
        let all = logits.iter().zip(0..).map(|(&logit, id)| Candidate { id, logit });
        if p.top_k <= 0 {
            return Ok(self.truncate(all, max));
        }
        let mut candidates = all.collect();
        largest_first(&mut candidates, usize::try_from(p.top_k).unwrap_or(usize::MAX));
        Ok(self.truncate(candidates.into_iter(), max))
    }

    /// What is kept of what top-k left, `max` the largest logit (steps 3, 5 and 6).
    fn truncate(&self, candidates: impl Iterator<Item = Candidate>, max: f32) -> Vec<Kept> {
        let p = &self.params;
        let mut kept: Vec<Kept> = candidates
            .filter(|candidate| candidate.logit > f32::NEG_INFINITY)
            // The difference first: a tiny temperature then gives 1 or 0, never an overflow.
            .map(|Candidate { id, logit }| Kept {
                id,
                weight: ((f64::from(logit) - f64::from(max)) / p.temperature).exp(),
            })
            .collect();
        if p.top_p < 1.0 {
            keep_share(&mut kept, p.top_p);
        }
        if p.min_p > 0.0 {
            kept.retain(|k| k.weight >= p.min_p);
        }
        kept
    }

    fn penalise(&self, logits: &mut [f32]) {
        let p = &self.params;
        if !p.has_penalties() {
            return;
        }
        for &id in self.prompt.iter().chain(self.generated.keys().filter(|id| !self.prompt.contains(id))) {
            let Some(logit) = logits.get_mut(id as usize) else { continue };
            let r = p.repetition_penalty as f32;
            *logit = if *logit > 0.0 { *logit / r } else { *logit * r };
        }
        for (&id, &count) in &self.generated {
            let Some(logit) = logits.get_mut(id as usize) else { continue };
            *logit -= (p.presence_penalty + p.frequency_penalty * f64::from(count)) as f32;
        }
    }
}

/// Id of the largest logit, of equal ones the lowest. NaN, +∞ and nothing to choose from are errors.
pub fn argmax(logits: &[f32]) -> Result<u32, SampleError> {
    let mut best: Option<(usize, f32)> = None;
    for (id, &value) in logits.iter().enumerate() {
        if value.is_nan() || value == f32::INFINITY {
            return Err(SampleError::NotFinite { id, value });
        }
        if value > best.map_or(f32::NEG_INFINITY, |(_, b)| b) {
            best = Some((id, value));
        }
    }
    best.map(|(id, _)| id as u32).ok_or(SampleError::Nothing { count: logits.len() })
}

/// Likelier first, of equal ones the lower id.
fn order(a: &Kept, b: &Kept) -> std::cmp::Ordering {
    b.weight.total_cmp(&a.weight).then(a.id.cmp(&b.id))
}

/// Keeps the `count` largest logits, sorted: larger first, of equal ones (as both zeros are) the lower id. No NaN is among them.
fn largest_first(candidates: &mut Vec<Candidate>, count: usize) {
    let order = |a: &Candidate, b: &Candidate| (b.logit + 0.0).total_cmp(&(a.logit + 0.0)).then(a.id.cmp(&b.id));
    if count < candidates.len() {
        candidates.select_nth_unstable_by(count - 1, order);
        candidates.truncate(count);
    }
    candidates.sort_unstable_by(order);
}

/// Keeps the fewest likeliest tokens whose weights reach `share` of the sum, sorted; at least one.
fn keep_share(kept: &mut Vec<Kept>, share: f64) {
    let target = share * kept.iter().map(|k| k.weight).sum::<f64>();
    // Few tokens usually hold the share: sort a growing head, not the whole vocabulary.
    let mut head = 256;
    loop {
        let sorted = head.min(kept.len());
        if sorted < kept.len() {
            kept.select_nth_unstable_by(sorted, order);
        }
        kept[..sorted].sort_unstable_by(order);
        let mut sum = 0.0;
        for (n, k) in kept[..sorted].iter().enumerate() {
            sum += k.weight;
            if sum >= target {
                return kept.truncate(n + 1);
            }
        }
        if sorted == kept.len() {
            return;
        }
        head *= 8;
    }
}

/// The token at `unit ∈ [0, 1)` of the cumulated weights.
fn draw(kept: &[Kept], unit: f64) -> u32 {
    let mut left = unit * kept.iter().map(|k| k.weight).sum::<f64>();
    for k in kept {
        if left < k.weight {
            return k.id;
        }
        left -= k.weight;
    }
    // Rounding may leave a crumb past the end: it belongs to the last token that can be drawn at all.
    kept.iter().rev().find(|k| k.weight > 0.0).map_or(0, |k| k.id)
}

#[cfg(test)]
#[path = "sampler_tests.rs"]
mod tests;
