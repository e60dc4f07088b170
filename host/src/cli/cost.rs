//! What a piece of work costs this computer: time, processor time, memory. Of the whole process, so nothing else may run beside it.

use std::sync::mpsc;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// Pause between two looks at the memory.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// Of one piece of work.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cost {
    /// From start to end.
    pub(super) wall: Duration,
    /// Of all threads together.
    pub(super) processor: Duration,
    /// The most bytes of memory seen that are no file's pages, which the system can drop; what the process held before is in it. `None` where
    /// the system does not say.
    pub(super) memory: Option<u64>,
}

/// Does `work`: its result, and what it cost.
pub(super) fn of<T>(work: impl FnOnce() -> T) -> (T, Cost) {
    let (started, before) = (Instant::now(), processor_time());
    let (ended, end) = mpsc::channel::<()>();
    let (result, memory) = std::thread::scope(|scope| {
        let looking = scope.spawn(move || {
            let mut most = own_memory();
            while matches!(end.recv_timeout(LOOK_EVERY), Err(mpsc::RecvTimeoutError::Timeout)) {
                most = most.max(own_memory());
            }
            most
        });
        let result = work();
        drop(ended);
        (result, looking.join().ok().flatten())
    });
    (result, Cost { wall: started.elapsed(), processor: processor_time() - before, memory })
}

/// Processor time of all threads since the process started.
fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}

/// Bytes in memory that are no file's.
fn own_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"))?;
    Some(line.trim().strip_suffix(" kB")?.parse::<u64>().ok()? << 10)
}

#[cfg(test)]
mod tests {
    use super::{Duration, of};

    #[test]
    fn time_and_memory_are_those_of_the_work() {
        const BYTES: usize = 64 << 20;
        let (sum, cost) = of(|| {
            let held: Vec<u8> = (0..BYTES).map(|i| i as u8).collect();
            std::thread::sleep(Duration::from_millis(50));
            held.iter().map(|&byte| u64::from(byte)).sum::<u64>()
        });
        assert_eq!(sum, (BYTES as u64 / 256) * (255 * 128));
        assert!(cost.wall >= Duration::from_millis(50) && cost.processor > Duration::ZERO, "{cost:?}");
        assert!(cost.memory.is_none_or(|memory| memory >= BYTES as u64), "{cost:?}");
    }
}
