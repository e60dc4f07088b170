//! `zynfer emulate`: runs a kernel of any gfx1201 code object with files as buffers. Outputs are written only when the kernel came to
//! its end. The emulator, its checks included, is the crate of that name; here arguments are read and packed.

use std::fmt::Display;
use std::path::PathBuf;
use std::str::FromStr;

use serde_json::{Map, Value, json};

use emulator::code_object::{Arg, Kernel};
use emulator::roofline::{Profile, R9700};
use emulator::watch::Checks;
use emulator::watch::finding::{self, Finding};
use emulator::watch::trace::Trace;
use emulator::{CodeObject, Launch, LaunchError, LoadedModule, Memory, Options, Stats};

use super::error::{CliError, CliResult};
use super::findings;
use super::logits::write_whole;
use super::output::Ui;
use super::text_input;

/// Memory of the emulated device. Pages count only when touched, so this is a bound on mistakes, not a need.
const DEVICE_BYTES: u64 = 64 << 30;

/// Run a kernel of a gfx1201 code object in the emulator
///
/// Arguments are given in the kernel's order:
///   buf:FILE            a buffer with the file's bytes
///   out:FILE:BYTES      a zeroed buffer, written to FILE afterwards; to --check init it holds nothing
///   inout:FILE:OUT      a buffer with FILE's bytes, written to OUT afterwards
///   u32:N i32:N u64:N i64:N f32:X f64:X
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(super) struct Args {
    /// The ELF file
    #[arg(value_name = "CODE_OBJECT")]
    code_object: PathBuf,
    /// The kernel's name
    #[arg(long, value_name = "K")]
    kernel: String,
    /// Workgroups in x, y, z
    #[arg(long, value_name = "X,Y,Z", value_parser = parse_extent)]
    grid: [u32; 3],
    /// Work-items of a workgroup in x, y, z
    #[arg(long, value_name = "X,Y,Z", value_parser = parse_extent)]
    block: [u32; 3],
    /// LDS bytes on top of the kernel's own
    #[arg(long, value_name = "BYTES", default_value_t = 0)]
    lds: u32,
    /// The next argument, see above
    #[arg(long = "arg", value_name = "ARG", allow_hyphen_values = true)]
    arguments: Vec<Argument>,
    /// Look for defects: all, or a list of memory, init, race, wait, barrier, align (exit code 3 if there are any)
    #[arg(long, value_name = "CHECKS", value_parser = parse_checks)]
    check: Option<Checks>,
    /// Instructions of one wave after which the kernel counts as hung
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    limit: Option<u64>,
    /// Count memory, LDS and matrix work, and estimate the card's time (with --json: in the object)
    #[arg(long)]
    stats: bool,
    /// Print one wave's instructions and the registers they change, on stderr or in FILE
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = "-")]
    trace: Option<PathBuf>,
    /// The workgroup to trace
    #[arg(long, value_name = "X,Y,Z", value_parser = parse_workgroup, default_value = "0,0,0", requires = "trace")]
    trace_workgroup: [u32; 3],
    /// The wave of it to trace
    #[arg(long, value_name = "N", default_value_t = 0, requires = "trace")]
    trace_wave: u32,
    /// Most instructions to trace
    #[arg(long, value_name = "N", default_value_t = 10_000, requires = "trace")]
    trace_limit: u64,
    /// Print one JSON object about the launch
    #[arg(long)]
    json: bool,
}

/// One `--arg`.
#[derive(Debug, Clone, PartialEq)]
enum Argument {
    In(PathBuf),
    Out(PathBuf, u64),
    InOut(PathBuf, PathBuf),
    /// A scalar: the word for its type, and its bytes.
    Scalar(&'static str, Vec<u8>),
}

impl FromStr for Argument {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let kinds = "buf:FILE, out:FILE:BYTES, inout:FILE:OUT, u32:N, i32:N, u64:N, i64:N, f32:X or f64:X";
        let (kind, value) = text.split_once(':').ok_or_else(|| format!("{text:?} is none of {kinds}"))?;
        let split = |what: &str| match value.rsplit_once(':') {
            Some((left, right)) if !left.is_empty() && !right.is_empty() => Ok((left, right)),
            _ => Err(format!("{text:?}: {kind}:FILE:{what} is needed")),
        };
        match kind {
            "buf" if value.is_empty() => Err(format!("{text:?}: buf:FILE is needed")),
            "buf" => Ok(Argument::In(value.into())),
            "out" => {
                let (file, bytes) = split("BYTES")?;
                Ok(Argument::Out(file.into(), integer::<u64>(bytes, "u64")?))
            }
            "inout" => split("OUT").map(|(file, out)| Argument::InOut(file.into(), out.into())),
            "u32" => Ok(Argument::Scalar("u32", integer::<u32>(value, kind)?.to_le_bytes().into())),
            "i32" => Ok(Argument::Scalar("i32", integer::<i32>(value, kind)?.to_le_bytes().into())),
            "u64" => Ok(Argument::Scalar("u64", integer::<u64>(value, kind)?.to_le_bytes().into())),
            "i64" => Ok(Argument::Scalar("i64", integer::<i64>(value, kind)?.to_le_bytes().into())),
            "f32" => Ok(Argument::Scalar("f32", float::<f32>(value, kind)?.to_le_bytes().into())),
            "f64" => Ok(Argument::Scalar("f64", float::<f64>(value, kind)?.to_le_bytes().into())),
            _ => Err(format!("{kind:?} is none of {kinds}")),
        }
    }
}

/// A decimal number, or a hexadecimal one after `0x`.
fn integer<T: TryFrom<i128>>(text: &str, kind: &str) -> Result<T, String> {
    let number = match text.strip_prefix("0x") {
        Some(digits) => i128::from_str_radix(digits, 16),
        None => text.parse(),
    };
    number.ok().and_then(|number| T::try_from(number).ok()).ok_or_else(|| format!("{text:?} is not a {kind}"))
}

fn float<T: FromStr>(text: &str, kind: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("{text:?} is not a {kind}"))
}

/// `X,Y,Z`; what is left out at the end is 1.
fn parse_extent(text: &str) -> Result<[u32; 3], String> {
    parse_triple(text, 1)
}

/// `X,Y,Z`; what is left out at the end is 0.
fn parse_workgroup(text: &str) -> Result<[u32; 3], String> {
    parse_triple(text, 0)
}

fn parse_triple(text: &str, rest: u32) -> Result<[u32; 3], String> {
    let mut extent = [rest; 3];
    let parts: Vec<&str> = text.split(',').collect();
    if parts.len() > 3 {
        return Err(format!("{text:?} has {} numbers, 3 are needed", parts.len()));
    }
    for (axis, part) in extent.iter_mut().zip(parts) {
        *axis = part.trim().parse().map_err(|_| format!("{text:?} is not X,Y,Z"))?;
    }
    Ok(extent)
}

fn parse_checks(text: &str) -> Result<Checks, String> {
    text.parse().map_err(|error: emulator::watch::ChecksError| error.to_string())
}

/// Where the wave that is asked for is traced to. A wave that the launch does not have is an error: nothing would be printed.
fn trace(args: &Args) -> CliResult<Option<Trace>> {
    let Some(file) = &args.trace else { return Ok(None) };
    for ((axis, workgroup), groups) in ["x", "y", "z"].iter().zip(args.trace_workgroup).zip(args.grid) {
        if workgroup >= groups {
            return Err(CliError::usage(format!("--trace-workgroup: {axis} is {workgroup}, the grid has {groups}")));
        }
    }
    let waves = args.block.iter().map(|&items| u64::from(items)).product::<u64>().div_ceil(32);
    if u64::from(args.trace_wave) >= waves {
        return Err(CliError::usage(format!("--trace-wave: {}, a workgroup has {waves}", args.trace_wave)));
    }
    let mut out: Box<dyn std::io::Write + Send> = if file.as_os_str() == "-" {
        Box::new(std::io::stderr())
    } else {
        Box::new(std::fs::File::create(file).map_err(|error| CliError::file(file, &error))?)
    };
    let line = move |text: &str| {
        // A reader that has gone away ends the trace, not the launch.
        let _ = writeln!(out, "{text}");
    };
    Ok(Some(Trace::new(args.trace_workgroup, args.trace_wave, args.trace_limit, line)))
}

/// A buffer on the emulated device that is written to a file at the end.
struct Output<'a> {
    file: &'a PathBuf,
    address: u64,
    bytes: u64,
}

pub(super) fn run(args: &Args, ui: &Ui) -> CliResult<()> {
    let name = args.code_object.display();
    let bytes = text_input::read_bytes(&args.code_object)?;
    let object = CodeObject::parse(&bytes).map_err(|error| CliError::failed(format!("{name}: {error}")))?;
    let mut memory = Memory::new(DEVICE_BYTES);
    let checks = args.check.unwrap_or_default();
    if checks.init {
        memory.follow_writes();
    }
    let module =
        LoadedModule::load(object, &mut memory).map_err(|error| CliError::failed(format!("{name}: {error}")))?;
    let Some(kernel) = module.kernel(&args.kernel) else {
        let known: Vec<&str> = module.object().kernels().iter().map(|kernel| kernel.name.as_str()).collect();
        return Err(CliError::failed(format!("{name}: no kernel {}, there is {}", args.kernel, known.join(", "))));
    };
    let (kernarg, outputs) = pack(&args.arguments, kernel, &mut memory)?;
    let defaults = Options::default();
    let launch = Launch {
        kernel: &args.kernel,
        grid: args.grid,
        block: args.block,
        dynamic_lds: args.lds,
        kernarg: &kernarg,
        options: Options {
            checks,
            wave_limit: args.limit.unwrap_or(defaults.wave_limit),
            counters: args.stats,
            trace: trace(args)?,
            ..defaults
        },
    };
    let stats = match emulator::launch(&memory, &module, &launch) {
        Ok(stats) => stats,
        Err(error) => return Err(ended_early(args, &error, &name, ui)?),
    };
    for output in &outputs {
        let mut bytes = vec![0; output.bytes as usize];
        memory.read(output.address, &mut bytes).map_err(CliError::failed)?;
        write_whole(output.file, &bytes)?;
    }
    report(args, &outputs, &stats, Profile::of(kernel, &launch, &stats).as_ref(), ui)?;
    match &stats.findings[..] {
        [] => Ok(()),
        found => Err(CliError::Found(format!("{name}: {}", findings::count(found)))),
    }
}

/// What to say of a kernel that did not come to its end. Where it was checked, its fault may be what was looked for.
fn ended_early(args: &Args, error: &LaunchError, name: &impl Display, ui: &Ui) -> CliResult<CliError> {
    let found: Vec<Finding> = if args.check.is_some() { error.findings() } else { Vec::new() };
    if found.is_empty() {
        return Ok(CliError::failed(format!("{name}: {error}")));
    }
    if args.json {
        let findings = findings::objects(&found);
        ui.out_json(&json!({"kernel": args.kernel, "error": error.to_string(), "findings": findings}))?;
    } else {
        finding::text(&found).lines().for_each(|line| ui.say(line));
    }
    Ok(CliError::Found(format!("{name}: {}, the last one ended the kernel", findings::count(&found))))
}

/// Fills buffers and packs the explicit arguments at the offsets the metadata gives.
fn pack<'a>(given: &'a [Argument], kernel: &Kernel, memory: &mut Memory) -> CliResult<(Vec<u8>, Vec<Output<'a>>)> {
    let expected: Vec<&Arg> = kernel.args.iter().filter(|arg| !arg.is_hidden()).collect();
    if given.len() != expected.len() {
        return Err(CliError::failed(format!(
            "kernel {} takes {} arguments, {} are given with --arg",
            kernel.name,
            expected.len(),
            given.len()
        )));
    }
    let mut kernarg = vec![0; kernel.explicit_bytes() as usize];
    let mut outputs = Vec::new();
    for (index, (argument, expected)) in given.iter().zip(&expected).enumerate() {
        let named = expected.name.as_ref().map_or_else(String::new, |name| format!(" ({name})"));
        let place = format!("kernel {}, argument {index}{named}", kernel.name);
        let is_pointer = matches!(expected.value_kind.as_str(), "global_buffer" | "dynamic_shared_pointer");
        let value = match argument {
            Argument::Scalar(kind, _) if is_pointer => {
                return Err(CliError::failed(format!("{place}: {kind} given, the kernel takes a buffer")));
            }
            Argument::Scalar(kind, value) if value.len() != expected.size as usize => {
                return Err(CliError::failed(format!(
                    "{place}: {kind} has {} bytes, the kernel takes {}",
                    value.len(),
                    expected.size
                )));
            }
            Argument::Scalar(_, value) => value.clone(),
            _ if !is_pointer && expected.size != 8 => {
                return Err(CliError::failed(format!(
                    "{place}: a buffer is given, the kernel takes {} bytes by value",
                    expected.size
                )));
            }
            Argument::In(file) => fill(memory, &text_input::read_bytes(file)?)?.to_le_bytes().to_vec(),
            Argument::Out(file, bytes) => {
                let address = memory.alloc(*bytes).map_err(CliError::failed)?;
                outputs.push(Output { file, address, bytes: *bytes });
                address.to_le_bytes().to_vec()
            }
            Argument::InOut(file, out) => {
                let contents = text_input::read_bytes(file)?;
                let address = fill(memory, &contents)?;
                outputs.push(Output { file: out, address, bytes: contents.len() as u64 });
                address.to_le_bytes().to_vec()
            }
        };
        kernarg[expected.offset as usize..][..value.len()].copy_from_slice(&value);
    }
    Ok((kernarg, outputs))
}

fn fill(memory: &mut Memory, contents: &[u8]) -> CliResult<u64> {
    let address = memory.alloc(contents.len() as u64).map_err(CliError::failed)?;
    memory.write(address, contents).map_err(CliError::failed)?;
    Ok(address)
}

fn report(args: &Args, outputs: &[Output<'_>], stats: &Stats, profile: Option<&Profile>, ui: &Ui) -> CliResult<()> {
    let seconds = stats.wall.as_secs_f64();
    if args.json {
        let outputs: Vec<Value> = outputs
            .iter()
            .map(|output| json!({"file": output.file.to_string_lossy(), "bytes": output.bytes}))
            .collect();
        let mut report = json!({
            "kernel": args.kernel, "workgroups": stats.workgroups, "waves": stats.waves, "instructions": stats.total(),
            "wall_ms": seconds * 1000.0, "outputs": outputs,
        });
        if let Some(profile) = profile {
            let counts: Map<_, _> = profile
                .by_class
                .iter()
                .filter(|(_, count)| **count > 0)
                .map(|(k, v)| ((*k).into(), json!(v)))
                .collect();
            report["by_class"] = counts.into();
            report["profile"] = serde_json::to_value(profile).map_err(CliError::failed)?;
            report["machine"] = serde_json::to_value(R9700).map_err(CliError::failed)?;
        }
        if args.check.is_some() {
            report["findings"] = findings::objects(&stats.findings);
        }
        return ui.out_json(&report);
    }
    if !stats.findings.is_empty() {
        finding::text(&stats.findings).lines().for_each(|line| ui.say(line));
    }
    ui.aside(&format!(
        "emulator: {}, {} workgroups, {} waves, {} wave-instructions in {:.1} ms on this CPU",
        args.kernel,
        stats.workgroups,
        stats.waves,
        stats.total(),
        seconds * 1000.0
    ));
    if let Some(profile) = profile {
        for line in profile.to_string().lines() {
            ui.say(&format!("  {line}"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{Argument, parse_extent};

    #[test]
    fn arguments_read_as_documented() {
        let parse = |text: &str| text.parse::<Argument>();
        assert_eq!(parse("buf:a:b"), Ok(Argument::In("a:b".into())));
        assert_eq!(parse("out:a:b:16"), Ok(Argument::Out("a:b".into(), 16)));
        assert_eq!(parse("inout:a:b"), Ok(Argument::InOut("a".into(), "b".into())));
        assert_eq!(parse("u32:0xffffffff"), Ok(Argument::Scalar("u32", vec![0xff; 4])));
        assert_eq!(parse("i32:-1"), Ok(Argument::Scalar("i32", vec![0xff; 4])));
        assert_eq!(parse("f32:-0.5"), Ok(Argument::Scalar("f32", (-0.5f32).to_le_bytes().into())));
        for wrong in [
            "",
            "u32",
            "u32:",
            "u32:-1",
            "u32:4294967296",
            "i32:x",
            "f32:x",
            "buf:",
            "out:a",
            "out:a:x",
            "inout:a",
            "lds:4",
        ] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn extents_fill_up_with_ones() {
        assert_eq!(parse_extent("4"), Ok([4, 1, 1]));
        assert_eq!(parse_extent("1,2,3"), Ok([1, 2, 3]));
        for wrong in ["", "1,2,3,4", "a", "-1", "1,,2", "4294967296"] {
            assert!(parse_extent(wrong).is_err(), "{wrong}");
        }
    }
}
