//! What a loaded model takes, part by part, whether it fits, and the longest context that would. A backend counts its own parts; here they are
//! added up, compared with what is free, and told: the check before a load and `zynfer inspect --plan` are the same code.

use std::fmt;

use super::kv::KvFormats;

/// Bytes by what they are for, of a model on a backend.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryPlan {
    /// Longest context in tokens.
    pub context_len: usize,
    /// How the cache is stored.
    pub kv: KvFormats,
    /// All weights.
    pub weights: Weights,
    /// Keys and values of all layers and positions, with their scales.
    pub kv_cache: usize,
    /// What passes need beside those, each with its name.
    pub scratch: Vec<(&'static str, usize)>,
    /// Kept free for what is not counted one by one; the backend says what.
    pub reserve: usize,
}

/// Weights' bytes, and where they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Weights {
    /// Copied: the backend has to find room for them.
    Held(usize),
    /// Read where they lie: pages of a file, which the system may drop and read again, or memory that is taken already.
    InPlace(usize),
}

impl Weights {
    /// Their bytes, wherever they are.
    pub fn bytes(self) -> usize {
        match self {
            Self::Held(bytes) | Self::InPlace(bytes) => bytes,
        }
    }
}

impl MemoryPlan {
    /// Bytes there must be room for; `None` if that cannot be counted.
    pub fn needed(&self) -> Option<u64> {
        let weights = match self.weights {
            Weights::Held(bytes) => bytes,
            Weights::InPlace(_) => 0,
        };
        let parts = [weights, self.kv_cache, self.reserve];
        let all = parts.into_iter().chain(self.scratch.iter().map(|(_, bytes)| *bytes));
        all.map(|bytes| u64::try_from(bytes).ok()).try_fold(0u64, |sum, bytes| sum.checked_add(bytes?))
    }
}

impl fmt::Display for MemoryPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Weights::Held(bytes) = self.weights {
            write!(f, "weights {bytes} + ")?;
        }
        write!(f, "KV cache ({}) for {} tokens {}", self.kv, self.context_len, self.kv_cache)?;
        self.scratch.iter().try_for_each(|(name, bytes)| write!(f, " + {name} {bytes}"))?;
        write!(f, " + reserve {}", self.reserve)
    }
}

/// A plan beside what is free.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fit {
    /// Of the context that was asked for.
    pub plan: MemoryPlan,
    /// Its bytes.
    pub needed: u64,
    /// Bytes free; `None` where the system does not say.
    pub free: Option<u64>,
    /// The longest context whose plan fits, 0 if none does; `None` where `free` is.
    pub longest: Option<usize>,
}

impl Fit {
    /// Plans a context of `context_len` tokens by `plan`, and looks for the longest of at most `most` tokens that fits into `free` bytes. `None`
    /// where `plan`, which grows with the context, gives nothing that can be counted.
    pub fn new(
        plan: impl Fn(usize) -> Option<MemoryPlan>,
        context_len: usize,
        most: usize,
        free: Option<u64>,
    ) -> Option<Self> {
        let bytes = |context_len| plan(context_len)?.needed();
        let longest = free.map(|free| longest(most, |context_len| bytes(context_len).is_some_and(|need| need <= free)));
        let plan = plan(context_len)?;
        Some(Self { needed: plan.needed()?, plan, free, longest })
    }

    /// Whether there is room, as far as anybody knows.
    pub fn fits(&self) -> bool {
        self.free.is_none_or(|free| self.needed <= free)
    }

    /// Refuses what does not fit; `place` is whose memory it is.
    ///
    /// # Errors
    /// [`NoRoom`], with both numbers, the parts, and the longest context.
    pub fn check(self, place: impl fmt::Display) -> Result<MemoryPlan, NoRoom> {
        let (Some(free), Some(longest)) = (self.free, self.longest) else { return Ok(self.plan) };
        if self.needed <= free {
            return Ok(self.plan);
        }
        Err(NoRoom { needed: self.needed, free, plan: self.plan, place: place.to_string(), longest })
    }
}

/// A plan that does not fit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("memory: {needed} bytes needed ({plan}), {free} free on {place}; {}", advice(*.longest))]
pub struct NoRoom {
    /// Bytes of the plan.
    pub needed: u64,
    /// Bytes there are.
    pub free: u64,
    /// The plan.
    pub plan: MemoryPlan,
    /// Whose memory it is.
    pub place: String,
    /// The longest context that fits, 0 if none does.
    pub longest: usize,
}

/// What to do about it.
pub fn advice(longest: usize) -> String {
    match longest {
        0 => "no context fits".into(),
        longest => format!("a context of {longest} tokens would fit"),
    }
}

/// The largest of `1 ..= most` that `fits`, where those that do are the small ones; 0 if none is.
fn longest(most: usize, fits: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut high) = (0, most.saturating_add(1));
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if fits(middle) { low = middle } else { high = middle }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::kv::KvFormat;

    /// 10 bytes a token beside 103.
    fn plan(context_len: usize) -> Option<MemoryPlan> {
        Some(MemoryPlan {
            context_len,
            kv: KvFormats::both(KvFormat::Int8),
            weights: Weights::Held(80),
            kv_cache: context_len.checked_mul(10)?,
            scratch: vec![("activations", 20), ("logits", 1)],
            reserve: 2,
        })
    }

    #[test]
    fn parts_add_up_and_the_longest_context_is_the_last_that_fits() {
        let fit = |free| Fit::new(plan, 50, 1000, free).expect("small");
        for (free, fits, longest) in [(603, true, 50), (602, false, 49), (113, false, 1), (112, false, 0)] {
            let fit = fit(Some(free));
            assert_eq!((fit.needed, fit.fits(), fit.longest), (603, fits, Some(longest)), "{free}");
            assert_eq!(fit.check("a card").is_ok(), fits);
        }
        assert_eq!(fit(Some(u64::MAX)).longest, Some(1000), "no more than there may be");
        assert!(fit(None).fits() && fit(None).longest.is_none() && fit(None).check("a card").is_ok());
    }

    #[test]
    fn a_refusal_has_both_numbers_the_parts_and_what_would_fit() {
        let refusal =
            |free| Fit::new(plan, 50, 1000, Some(free)).expect("small").check("a card").expect_err("too much");
        assert_eq!(
            refusal(602).to_string(),
            "memory: 603 bytes needed (weights 80 + KV cache (int8) for 50 tokens 500 + activations 20 + logits 1 + \
            reserve 2), 602 free on a card; a context of 49 tokens would fit"
        );
        assert!(refusal(5).to_string().ends_with("5 free on a card; no context fits"));
    }

    #[test]
    fn weights_in_place_need_no_room_and_what_overflows_is_none() {
        let in_place = MemoryPlan { weights: Weights::InPlace(80), ..plan(50).expect("small") };
        assert_eq!((in_place.needed(), in_place.weights.bytes()), (Some(523), 80));
        assert_eq!(Fit::new(plan, usize::MAX, usize::MAX, Some(1 << 20)), None);
    }
}
