//! Captures, and calls that wait for the whole card. While anything in the process is captured, HIP refuses a wait for the device and
//! spoils the capture, whichever thread waits. Both belong to values that know nothing of each other: one model is dropped while another
//! records its first token. So who waits for the card waits for other threads' captures first. What this process does beside this crate is
//! not covered.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};

/// Those of this process: the runtime behind all libraries that are open is one.
pub(super) static CAPTURES: Captures = Captures::new();

/// The captures under way.
pub(super) struct Captures {
    /// Stream and thread of each.
    under_way: Mutex<Vec<(usize, ThreadId)>>,
    ended: Condvar,
}

impl Captures {
    /// None.
    const fn new() -> Self {
        Self { under_way: Mutex::new(Vec::new()), ended: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<(usize, ThreadId)>> {
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a capture of `stream` on this thread, if `begin` does.
    pub(super) fn begin<E>(&self, stream: usize, begin: impl FnOnce() -> Result<(), E>) -> Result<(), E> {
        let mut under_way = self.lock();
        begin()?;
        under_way.push((stream, thread::current().id()));
        Ok(())
    }

    /// The capture of `stream` has ended.
    pub(super) fn end(&self, stream: usize) {
        self.lock().retain(|(other, _)| *other != stream);
        self.ended.notify_all();
    }

    /// Calls `wait` once no other thread captures; none begins to meanwhile.
    pub(super) fn outside<T>(&self, wait: impl FnOnce() -> T) -> T {
        let here = thread::current().id();
        let others = |under_way: &mut Vec<(usize, ThreadId)>| under_way.iter().any(|(_, thread)| *thread != here);
        let _held = self.ended.wait_while(self.lock(), others).unwrap_or_else(PoisonError::into_inner);
        wait()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn a_wait_for_the_card_is_before_or_after_another_threads_capture() {
        let captures = Captures::new();
        let capturing = AtomicBool::new(false);
        thread::scope(|scope| {
            for stream in 1..4 {
                let (captures, capturing) = (&captures, &capturing);
                scope.spawn(move || {
                    for _ in 0..1_000 {
                        captures.outside(|| assert!(!capturing.load(Ordering::Relaxed), "stream {stream}"));
                    }
                });
            }
            for _ in 0..1_000 {
                assert_eq!(captures.begin(7, || Ok::<(), ()>(())), Ok(()));
                capturing.store(true, Ordering::Relaxed);
                thread::yield_now();
                capturing.store(false, Ordering::Relaxed);
                captures.end(7);
            }
        });
    }

    #[test]
    fn nobody_waits_for_a_capture_of_its_own_or_for_one_that_did_not_begin() {
        let captures = Captures::new();
        assert_eq!(captures.begin(1, || Ok::<(), ()>(())), Ok(()));
        assert_eq!(captures.outside(|| 5), 5);
        assert_eq!(captures.begin(2, || Err(901)), Err(901));
        captures.end(1);
        let other = thread::scope(|scope| scope.spawn(|| captures.outside(|| 6)).join());
        assert_eq!(other.ok(), Some(6));
    }
}
