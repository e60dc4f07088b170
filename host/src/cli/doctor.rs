//! `zynfer doctor`: whether this machine can do what zynfer does, and what to do where it cannot. Each check is a fact found by the
//! part it is about; this file words it as PASS, WARN or ERROR. It repairs nothing.

use std::ffi::OsString;

use serde_json::{Value, json};

use crate::gpu::{self, Facts};
use crate::hip::system::Driver;

use super::devices::threads;
use super::error::{CliError, CliResult};
use super::output::{Look, Ui, bytes};

/// Check this machine, and say what to do
///
/// Exit code 1 if a check says ERROR. No GPU is a WARN: the cpu and emulator backends need none.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// AMD's HIP library, instead of searching for it
    #[arg(long, value_name = "FILE")]
    hip_library: Option<OsString>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// How a check went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Status {
    Pass,
    Warn,
    Error,
}

impl Status {
    fn name(self) -> &'static str {
        match self {
            Status::Pass => "PASS",
            Status::Warn => "WARN",
            Status::Error => "ERROR",
        }
    }
}

/// One check.
struct Check {
    name: &'static str,
    status: Status,
    detail: String,
    /// What to do about it.
    advice: Option<String>,
}

pub(super) fn run(args: &Args, ui: &Ui) -> CliResult<()> {
    let facts = gpu::facts(args.hip_library.as_ref());
    let checks = checks(&facts);
    let count = |status: Status| checks.iter().filter(|check| check.status == status).count();
    if args.json {
        let list: Vec<Value> = checks
            .iter()
            .map(|check| json!({"name": check.name, "status": check.status.name(), "detail": check.detail, "advice": check.advice}))
            .collect();
        let worst = [Status::Error, Status::Warn].into_iter().find(|&status| count(status) > 0).unwrap_or(Status::Pass);
        ui.out_json(&json!({
            "version": env!("CARGO_PKG_VERSION"),
            "status": worst.name(),
            "checks": list,
            "gpu": serde_json::to_value(&facts).map_err(CliError::failed)?,
        }))?;
    } else {
        for check in &checks {
            let look = match check.status {
                Status::Pass => Look::Green,
                Status::Warn => Look::Yellow,
                Status::Error => Look::Red,
            };
            ui.out(&format!(
                "{} {}: {}\n",
                ui.styled(look, &format!("{:<5}", check.status.name())),
                check.name,
                check.detail
            ))?;
            if let Some(advice) = &check.advice {
                ui.out(&format!("      {advice}\n"))?;
            }
        }
    }
    match count(Status::Error) {
        0 => Ok(()),
        errors => Err(CliError::failed(format!("{errors} of {} checks found an error", checks.len()))),
    }
}

fn checks(facts: &Facts) -> Vec<Check> {
    vec![
        cpu(),
        memory(),
        code_object(facts),
        emulator(facts),
        driver(facts),
        library(facts),
        card(facts),
        variables(facts),
    ]
}

fn cpu() -> Check {
    // The name alone: what follows it lists every instruction set that it implies.
    let level = format!("{:?}", crate::cpu::arch());
    let vectors = match level.split('(').next() {
        Some("V3") => "AVX2 and FMA",
        Some("Neon") => "NEON",
        _ => "no wide vectors, so it is slow",
    };
    Check {
        name: "cpu backend",
        status: Status::Pass,
        detail: format!("{} threads, {vectors}", threads()),
        advice: None,
    }
}

fn memory() -> Check {
    let name = "memory";
    let mut system = match sysinfo::System::new() {
        Ok(system) => system,
        Err(error) => {
            return Check { name, status: Status::Warn, detail: format!("cannot be asked for: {error}"), advice: None };
        }
    };
    system.refresh_memory();
    let (available, total) = (system.available_memory(), system.total_memory());
    // Weights of the smallest Qwen3 are 1.2 GB.
    let low = available < 2 << 30;
    Check {
        name,
        status: if low { Status::Warn } else { Status::Pass },
        detail: format!("{} available of {}", bytes(available), bytes(total)),
        advice: low.then(|| "a 0.6B model in bf16 needs about 1.2 GiB, and its KV cache on top".into()),
    }
}

fn code_object(facts: &Facts) -> Check {
    let architectures = facts.code_object_architectures.join(", ");
    match emulator::CodeObject::parse(gpu::code_object::IMAGE) {
        Ok(object) => Check {
            name: "kernels",
            status: Status::Pass,
            detail: format!(
                "{} for {architectures}, {}",
                object.kernels().len(),
                bytes(facts.code_object_bytes as u64)
            ),
            advice: None,
        },
        Err(error) => Check {
            name: "kernels",
            status: Status::Error,
            detail: format!("the code object in this program is damaged: {error}"),
            advice: Some("build it again with ./x setup and cargo build".into()),
        },
    }
}

fn emulator(facts: &Facts) -> Check {
    let emulator = &facts.emulator;
    let library = emulator.library.as_ref().map_or_else(String::new, |path| path.display().to_string());
    match &emulator.error {
        None if !emulator.devices.is_empty() => {
            Check { name: "emulator backend", status: Status::Pass, detail: library, advice: None }
        }
        error => Check {
            name: "emulator backend",
            status: Status::Warn,
            detail: error.clone().unwrap_or_else(|| format!("{library} offers no device")),
            advice: Some("build it with cargo build -p emulator-hip, beside the zynfer program".into()),
        },
    }
}

fn driver(facts: &Facts) -> Check {
    let (status, detail) = match &facts.driver {
        Driver::Present => (Status::Pass, "/dev/kfd opens".to_string()),
        Driver::Wsl => (Status::Pass, "WSL (ROCDXG)".to_string()),
        Driver::Absent { container: true } => (Status::Warn, "no /dev/kfd in this container".to_string()),
        Driver::Absent { container: false } => (Status::Warn, "no /dev/kfd".to_string()),
        Driver::Denied { group, .. } => {
            (Status::Warn, format!("/dev/kfd belongs to group {group} and may not be opened"))
        }
        Driver::Failed { reason } => (Status::Warn, format!("/dev/kfd cannot be opened: {reason}")),
    };
    Check { name: "GPU driver", status, detail, advice: facts.driver_advice.clone().filter(|_| status != Status::Pass) }
}

fn library(facts: &Facts) -> Check {
    let hip = &facts.amd_hip;
    match (&hip.library, &hip.version) {
        (Some(path), Some(version)) => {
            // gfx1201 came with ROCm 6.4.
            let old = (version.major, version.minor) < (6, 4);
            Check {
                name: "HIP library",
                status: if old { Status::Warn } else { Status::Pass },
                detail: format!("{}, HIP {version}", path.display()),
                advice: old.then(|| "gfx1201 needs HIP 6.4 or later: install a newer ROCm".into()),
            }
        }
        _ => Check {
            name: "HIP library",
            status: Status::Warn,
            detail: hip.error.clone().unwrap_or_else(|| "none".into()),
            advice: Some("install ROCm 6.4 or later to use a card; without one use --backend cpu or emulator".into()),
        },
    }
}

fn card(facts: &Facts) -> Check {
    let hip = &facts.amd_hip;
    let chosen = hip.devices.iter().find(|card| card.chosen);
    let others: Vec<String> = hip
        .devices
        .iter()
        .filter(|card| !card.chosen)
        .map(|card| format!("{} is left out: {}", card.device, card.left_out.as_deref().unwrap_or("not chosen")))
        .collect();
    match chosen {
        Some(card) => Check {
            name: "amd-hip backend",
            status: Status::Pass,
            detail: card.device.to_string(),
            advice: (!others.is_empty()).then(|| others.join("; ")),
        },
        None => Check {
            name: "amd-hip backend",
            status: Status::Warn,
            detail: if others.is_empty() { "no AMD GPU is visible to HIP".into() } else { others.join("; ") },
            advice: Some(format!("it needs a card of {}", facts.code_object_architectures.join(", "))),
        },
    }
}

fn variables(facts: &Facts) -> Check {
    let set = &facts.hiding_variables;
    Check {
        name: "environment",
        status: if set.is_empty() { Status::Pass } else { Status::Warn },
        detail: if set.is_empty() { "no variable hides GPUs".into() } else { set.join("; ") },
        advice: (!set.is_empty()).then(|| "unset them to see every card".into()),
    }
}
