//! `zynfer isa`: the machine code this program carries, read from the code object itself: what each kernel needs, and its listing.
//! Reading only; nothing is run. Evidence of the class *listing*: what the compiler made, not how fast it is.

use serde_json::{Value, json};

use amdgpu_target::{SIMD_VGPRS, VGPR_STEP};
use emulator::CodeObject;
use emulator::code_object::Kernel;
use emulator::isa;

use crate::gpu::code_object::IMAGE;

use super::error::{CliError, CliResult};
use super::output::{Look, Ui, bytes};

/// Most waves of one SIMD.
const SIMD_WAVES: u32 = 16;

/// List the GPU kernels in this program, or one kernel's machine code
///
/// Occupancy is the number of waves a SIMD holds by their VGPRs alone, at most 16.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The kernel to disassemble
    #[arg(value_name = "KERNEL")]
    kernel: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args, ui: &Ui) -> CliResult<()> {
    let object = CodeObject::parse(IMAGE).map_err(|error| CliError::failed(format!("code object: {error}")))?;
    match &args.kernel {
        None => list(&object, args.json, ui),
        Some(name) => {
            let Some(kernel) = object.kernel(name) else {
                let known: Vec<&str> = object.kernels().iter().map(|kernel| kernel.name.as_str()).collect();
                return Err(CliError::failed(format!(
                    "kernel {name} is not in the code object, which has {}",
                    known.join(", ")
                )));
            };
            disassemble(&object, kernel, args.json, ui)
        }
    }
}

fn list(object: &CodeObject, as_json: bool, ui: &Ui) -> CliResult<()> {
    if as_json {
        let kernels: Vec<Value> = object.kernels().iter().map(describe).collect();
        return ui.out_json(&json!({
            "target": object.target(),
            "bytes": IMAGE.len(),
            "kernels": kernels,
        }));
    }
    let width = object.kernels().iter().map(|kernel| kernel.name.len()).max().unwrap_or(0);
    let head = format!(
        "{:<width$} {:>5} {:>5} {:>6} {:>8} {:>7} {:>9} {:>9}",
        "kernel", "VGPRs", "SGPRs", "spills", "LDS", "scratch", "occupancy", "code"
    );
    ui.out(&format!("{}\n", ui.styled(Look::Bold, &head)))?;
    for kernel in object.kernels() {
        ui.out(&format!(
            "{:<width$} {:>5} {:>5} {:>6} {:>8} {:>7} {:>9} {:>9}\n",
            kernel.name,
            kernel.vgpr_count,
            kernel.sgpr_count,
            kernel.vgpr_spill_count + kernel.sgpr_spill_count,
            kernel.group_segment_fixed_size,
            kernel.private_segment_fixed_size,
            occupancy(kernel.vgpr_count),
            kernel.code_bytes,
        ))?;
    }
    let (count, size) = (object.kernels().len(), bytes(IMAGE.len() as u64));
    ui.aside(&format!("{}, {count} kernels, {size}", object.target()));
    Ok(())
}

fn disassemble(object: &CodeObject, kernel: &Kernel, as_json: bool, ui: &Ui) -> CliResult<()> {
    let lines = listing(object, kernel);
    if as_json {
        let instructions: Vec<Value> =
            lines.iter().map(|line| json!({"offset": line.offset, "words": line.words, "text": line.text})).collect();
        let mut report = describe(kernel);
        report["instructions"] = instructions.into();
        return ui.out_json(&report);
    }
    ui.out(&format!("{}\n", ui.styled(Look::Bold, &format!("{}:", kernel.name))))?;
    let text: Vec<String> = lines
        .iter()
        .map(|line| {
            let words: Vec<String> = line.words.iter().map(|word| format!("{word:08X}")).collect();
            format!("\t{:<60} // {:06X}: {}\n", line.text, line.offset, words.join(" "))
        })
        .collect();
    ui.out(&text.concat())
}

/// One instruction.
struct Line {
    /// Bytes from the kernel's entry.
    offset: u64,
    words: Vec<u32>,
    text: String,
}

fn listing(object: &CodeObject, kernel: &Kernel) -> Vec<Line> {
    let code = object.code_range();
    let skip = usize::try_from(kernel.entry - code.start).unwrap_or(usize::MAX);
    let rest = object.code_bytes().get(skip..).unwrap_or_default();
    let bytes = if kernel.code_bytes == 0 { rest.len() } else { rest.len().min(kernel.code_bytes as usize) };
    let words: Vec<u32> =
        rest[..bytes].chunks_exact(4).map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]])).collect();
    let mut lines = Vec::new();
    let mut at = 0;
    while at < words.len() {
        let offset = at as u64 * 4;
        // A word that is no instruction is shown as data and passed over, as objdump does.
        let (count, text) = match isa::decode(&words[at..]) {
            Ok(inst) => (usize::from(inst.dwords).max(1), isa::text(&inst, kernel.entry + offset)),
            Err(_) => (1, format!(".long {:#010x}", words[at])),
        };
        lines.push(Line { offset, words: words[at..at + count].to_vec(), text });
        at += count;
    }
    lines
}

fn describe(kernel: &Kernel) -> Value {
    json!({
        "name": kernel.name,
        "vgprs": kernel.vgpr_count,
        "sgprs": kernel.sgpr_count,
        "vgpr_spills": kernel.vgpr_spill_count,
        "sgpr_spills": kernel.sgpr_spill_count,
        "lds_bytes": kernel.group_segment_fixed_size,
        "scratch_bytes": kernel.private_segment_fixed_size,
        "occupancy_waves_per_simd": occupancy(kernel.vgpr_count),
        "max_workgroup": kernel.max_flat_workgroup_size,
        "kernarg_bytes": kernel.kernarg_segment_size,
        "code_bytes": kernel.code_bytes,
    })
}

/// Waves that a SIMD holds by VGPRs alone.
fn occupancy(vgprs: u32) -> u32 {
    (SIMD_VGPRS / vgprs.max(1).next_multiple_of(VGPR_STEP)).min(SIMD_WAVES)
}

#[cfg(test)]
mod tests {
    use super::occupancy;

    #[test]
    fn occupancy_has_the_steps_of_the_register_file() {
        for (most, waves) in [(96, 16), (120, 12), (144, 10), (168, 9), (192, 8), (216, 7), (240, 6), (256, 5)] {
            assert_eq!(occupancy(most), waves, "{most}");
        }
        assert_eq!((occupancy(0), occupancy(97), occupancy(121)), (16, 12, 10));
    }
}
