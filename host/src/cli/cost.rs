//! What a piece of work costs this computer: time and processor time. Of the whole process, so nothing else may run beside it.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// Of one piece of work.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cost {
    /// From start to end.
    pub(super) wall: Duration,
    /// Of all threads together.
    pub(super) processor: Duration,
}

/// Does `work`: its result, and what it cost.
pub(super) fn of<T>(work: impl FnOnce() -> T) -> (T, Cost) {
    let (started, before) = (Instant::now(), processor_time());
    let result = work();
    (result, Cost { wall: started.elapsed(), processor: processor_time() - before })
}

/// Processor time of all threads since the process started.
fn processor_time() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ProcessCPUTime)).expect("a process takes no negative time")
}

#[cfg(test)]
mod tests {
    use super::{Duration, of};

    #[test]
    fn times_are_those_of_the_work() {
        let (sum, cost) = of(|| {
            std::thread::sleep(Duration::from_millis(50));
            std::hint::black_box(0..10_000_000u64).sum::<u64>()
        });
        assert_eq!(sum, 10_000_000 * 9_999_999 / 2);
        assert!(cost.wall >= Duration::from_millis(50) && cost.processor > Duration::ZERO, "{cost:?}");
    }
}
