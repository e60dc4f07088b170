//! What launches were counted to do, by kernel: for `ZYNFER_EMULATOR_STATS` and for callers that ask (`zynferEmulatorCounters`). One
//! account for the whole process, whatever modules come and go. It counts nothing itself: the emulator does, where it is told to.

use std::collections::BTreeMap;
use std::ffi::c_int;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use emulator::roofline::{Profile, R9700};
use serde_json::{Value, json};

/// What the environment asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Sink {
    /// Nothing.
    Nowhere,
    /// A line for each kernel on stderr when a module is unloaded: `1`.
    Lines,
    /// JSON on stderr when the process ends: `-`.
    Stderr,
    /// JSON in a file, whole after every unload, reset and at the end.
    File(PathBuf),
}

static SINK: LazyLock<Sink> = LazyLock::new(|| {
    let sink = sink(std::env::var_os("ZYNFER_EMULATOR_STATS"));
    if matches!(sink, Sink::Stderr | Sink::File(_)) {
        // SAFETY: the C library's own function, and what it is given takes nothing, returns, and does not unwind.
        unsafe { atexit(at_exit) };
    }
    sink
});
static ASKED: AtomicBool = AtomicBool::new(false);
static PROFILES: Mutex<BTreeMap<String, Profile>> = Mutex::new(BTreeMap::new());

unsafe extern "C" {
    fn atexit(call: extern "C" fn()) -> c_int;
}

extern "C" fn at_exit() {
    // A panic must not reach the C library.
    let _ = std::panic::catch_unwind(|| match &*SINK {
        Sink::Stderr => eprintln!("{}", json()),
        _ => write(),
    });
}

fn sink(value: Option<std::ffi::OsString>) -> Sink {
    match value {
        Some(value) if value.is_empty() || value == "0" => Sink::Nowhere,
        None => Sink::Nowhere,
        Some(value) if value == "1" => Sink::Lines,
        Some(value) if value == "-" => Sink::Stderr,
        Some(value) => Sink::File(value.into()),
    }
}

fn profiles() -> MutexGuard<'static, BTreeMap<String, Profile>> {
    PROFILES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether launches have to be counted.
pub fn wanted() -> bool {
    ASKED.load(Relaxed) || matches!(&*SINK, Sink::Stderr | Sink::File(_))
}

/// Whether each module's lines are printed when it is unloaded.
pub fn lines() -> bool {
    *SINK == Sink::Lines
}

/// Counts from now on, or no longer; what was counted is forgotten.
pub fn ask(on: bool) {
    ASKED.store(on, Relaxed);
    profiles().clear();
}

/// Adds a launch.
pub fn add(profile: Profile) {
    let mut profiles = profiles();
    match profiles.get_mut(&profile.kernel) {
        Some(sum) => sum.add(&profile),
        None => {
            profiles.insert(profile.kernel.clone(), profile);
        }
    }
}

/// Writes the file that the environment names, if it names one.
pub fn write() {
    if let Sink::File(path) = &*SINK
        && let Err(error) = std::fs::write(path, json() + "\n")
    {
        eprintln!("zynfer emulator: {}: {error}", path.display());
    }
}

/// All kernels, their sums, and the machine that the estimates are for.
pub fn json() -> String {
    let profiles = profiles();
    let kernels: Vec<&Profile> = profiles.values().collect();
    let sum = |each: fn(&Profile) -> u64| kernels.iter().map(|profile| each(profile)).sum::<u64>();
    let seconds = |each: fn(&Profile) -> f64| kernels.iter().map(|profile| each(profile)).sum::<f64>();
    let totals = json!({
        "launches": sum(|p| p.launches),
        "waves": sum(|p| p.waves),
        "instructions": sum(|p| p.instructions),
        "bytes": sum(|p| p.counters.bytes()),
        "footprint_bytes": sum(|p| p.counters.footprint.bytes()),
        "grid_waits": sum(|p| p.counters.grid_waits),
        "estimate_s": seconds(|p| p.estimate.total_s),
        "cautious_s": seconds(|p| p.estimate.cautious_s),
        "emulated_s": seconds(|p| p.emulated_s),
    });
    let report = json!({"machine": R9700, "kernels": kernels, "totals": totals});
    Value::to_string(&report)
}

#[cfg(test)]
mod tests {
    use super::{Sink, sink};

    #[test]
    fn the_variable_has_four_meanings() {
        for (value, expected) in [
            (None, Sink::Nowhere),
            (Some(""), Sink::Nowhere),
            (Some("0"), Sink::Nowhere),
            (Some("1"), Sink::Lines),
            (Some("-"), Sink::Stderr),
            (Some("a/b.json"), Sink::File("a/b.json".into())),
        ] {
            assert_eq!(sink(value.map(Into::into)), expected, "{value:?}");
        }
    }
}
