//! Ctrl-C. The first one asks a generation to end, so that what was written is whole and the statistics are told; where nothing can
//! be asked, and on the second one, the process ends at once. The exit code is 130 either way.

use std::sync::atomic::{AtomicBool, Ordering};

static ASKED: AtomicBool = AtomicBool::new(false);
static COOPERATIVE: AtomicBool = AtomicBool::new(false);

/// Installs the handler; without one (no signals left to handle) Ctrl-C keeps its usual meaning.
pub(super) fn install() {
    // A refusal leaves the default, which ends the process too.
    let _ = ctrlc::set_handler(|| {
        if ASKED.swap(true, Ordering::SeqCst) || !COOPERATIVE.load(Ordering::SeqCst) {
            std::process::exit(130);
        }
    });
}

/// Whether Ctrl-C was pressed while a [`Guard`] lived.
pub(super) fn asked() -> bool {
    ASKED.load(Ordering::SeqCst)
}

/// While it lives, Ctrl-C only sets the flag that [`asked`] reads. One inside another changes nothing: a command that asks for a guard once
/// keeps it through all its parts, and through the gaps between them.
pub(super) struct Guard {
    outermost: bool,
}

impl Guard {
    pub(super) fn new() -> Self {
        if COOPERATIVE.load(Ordering::SeqCst) {
            return Guard { outermost: false };
        }
        ASKED.store(false, Ordering::SeqCst);
        COOPERATIVE.store(true, Ordering::SeqCst);
        Guard { outermost: true }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if !self.outermost {
            return;
        }
        COOPERATIVE.store(false, Ordering::SeqCst);
        ASKED.store(false, Ordering::SeqCst);
    }
}
