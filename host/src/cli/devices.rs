//! `zynfer devices`: what there is to compute on.

use std::ffi::OsString;

use serde_json::json;

use crate::gpu::{self, GpuKind, report::LibraryFacts};

use super::error::{CliError, CliResult};
use super::output::{Look, Ui, bytes};

/// List what there is to compute on
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// AMD's HIP library, instead of searching for it
    #[arg(long, value_name = "FILE")]
    hip_library: Option<OsString>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args, ui: &Ui) -> CliResult<()> {
    let cards = gpu::devices(GpuKind::AmdHip, args.hip_library.as_ref());
    let emulated = gpu::devices(GpuKind::Emulator, None);
    let threads = threads();
    if args.json {
        let value = |facts: &LibraryFacts| serde_json::to_value(facts).map_err(CliError::failed);
        return ui.out_json(&json!({
            "cpu": {"backend": "cpu", "threads": threads},
            "amd_hip": value(&cards)?,
            "emulator": value(&emulated)?,
        }));
    }
    ui.out(&format!("{} {threads} threads\n", ui.styled(Look::Bold, &format!("{:<9}", "cpu"))))?;
    for facts in [&cards, &emulated] {
        ui.out(&describe(facts, ui))?;
    }
    Ok(())
}

/// Threads the CPU backend would use.
pub(super) fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

fn describe(facts: &LibraryFacts, ui: &Ui) -> String {
    let name = ui.styled(Look::Bold, &format!("{:<9}", facts.backend));
    if let Some(error) = &facts.error {
        return format!("{name} not available: {error}\n");
    }
    let library = facts.library.as_ref().map_or_else(String::new, |path| path.display().to_string());
    let version = facts.version.map_or_else(String::new, |version| version.to_string());
    let mut text = format!("{name} {library} (HIP {version})");
    if facts.devices.is_empty() {
        text.push_str(", no GPU is visible to it");
    }
    text.push('\n');
    for card in &facts.devices {
        let device = &card.device;
        let uuid = device.uuid.as_deref().unwrap_or("no id");
        text.push_str(&format!(
            "  device {}: {}, {}, {}, {uuid}, {}",
            device.ordinal,
            device.name,
            device.arch,
            bytes(device.vram_bytes),
            device.pci
        ));
        match &card.left_out {
            Some(why) => text.push_str(&format!(" - not chosen: {why}\n")),
            None => text.push_str(" - chosen\n"),
        }
    }
    text
}
