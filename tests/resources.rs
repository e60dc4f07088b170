//! What each kernel may use, as rows: registers, and the instructions that must be in its listing. Beside the rows, what holds for
//! every kernel: no spill, no scratch, no fixed LDS, no flat access, no call, no panic, no division, waits before barriers, arguments
//! where the host puts them, a launch bound that is its workgroup's size. Judged from the code object's metadata and by
//! `llvm-objdump-22`; it runs nothing.

use std::collections::BTreeMap;
use std::io::Write;
use std::process::{Command, Stdio};

use device_ops::decode::Shape;
use device_ops::linear::Tile;
use device_ops::{Geometry, KERNELS, argmax, attention, linear, rmsnorm, top_k};
use zynfer::gpu::code_object::IMAGE;
use zynfer_tests::code_object;

struct Budget {
    kernel: &'static str,
    /// Most VGPRs. The steps are those of occupancy: 96 lets 16 waves onto a SIMD, 120 twelve, 144 ten, 168 nine, 192 eight, 240 six.
    vgprs: u64,
    /// Scalar registers that may be kept in lanes of a VGPR; never memory.
    scalars_in_lanes: u64,
    /// Instructions whose absence means that the kernel is not what its contract says.
    needs: &'static [&'static str],
}

const fn row(kernel: &'static str, vgprs: u64, needs: &'static [&'static str]) -> Budget {
    Budget { kernel, vgprs, scalars_in_lanes: 0, needs }
}

/// A resident kernel of quantized matrices: where codes, scales and minimums of three steps lie is more scalars than there are, and what the
/// layers do not need waits in lanes until lm_head.
const fn quantized(kernel: &'static str, vgprs: u64, scalars_in_lanes: u64) -> Budget {
    Budget { kernel, vgprs, scalars_in_lanes, needs: DECODE }
}

const WMMA: &str = "v_wmma_f32_16x16x16_bf16";
const TILED: &[&str] =
    &[WMMA, "global_load_b128", "global_store_b128", "ds_load_b128", "ds_store_b128", "s_barrier_signal"];
/// The same with bytes in LDS; the sums of a group become f32 by what shares its cycle.
const TILED_BYTES: &[&str] = &[
    "v_wmma_i32_16x16x16_iu8",
    "v_dual_add_f32",
    "global_load_b128",
    "global_store_b128",
    "ds_load_b128",
    "ds_store_b128",
    "s_barrier_signal",
];
const FLASH: &[&str] = &[WMMA, "v_exp_f32", "v_permlanex16_b32", "global_load_b128", "global_store_b128", "v_rcp_f32"];
/// What writes a cache in formats, and what reads one.
const CODED: &[&str] =
    &["global_load_b64", "global_store_b32", "global_store_b16", "global_store_b8", "v_permlanex16_b32", "v_rcp_f32"];
const FLASH_FORMATS: &[&str] = &[
    WMMA,
    "v_exp_f32",
    "v_permlanex16_b32",
    "global_load_b128",
    "global_load_b64",
    "global_store_b128",
    "v_cvt_f32_i32",
    "v_cvt_f32_f16",
    "v_cvt_pk_f32_fp8",
    "v_rcp_f32",
];

const STREAM: &[&str] =
    &["global_load_b128", "buffer_load_b128", "buffer_atomic_add_u32", "s_sleep 1", "ds_load_b128", "v_rsq_f32"];
const DECODE: &[&str] = &["global_load_b128", "buffer_load_b128", "buffer_atomic_add_u32", "s_sleep 1", "v_exp_f32"];
/// The same where a conversion reads two codes at once.
const DECODE_FP8: &[&str] =
    &["global_load_b128", "buffer_load_b128", "buffer_atomic_add_u32", "s_sleep 1", "v_exp_f32", "v_cvt_pk_f32_fp8"];

const BUDGETS: &[Budget] = &[
    row("embed_bf16", 24, &["global_load_b128", "global_store_b128"]),
    row("embed_int8", 32, &["global_load_b128", "global_store_b128"]),
    row("embed_int8g", 32, &["global_load_b128", "global_store_b128"]),
    row("embed_int4", 48, &["global_load_b128", "global_store_b128"]),
    row("embed_int4m", 48, &["global_load_b128", "global_store_b128"]),
    row("embed_fp8", 32, &["global_load_b128", "global_store_b128", "v_cvt_pk_f32_fp8"]),
    row("embed_int8m", 32, &["global_load_b128", "global_store_b128"]),
    row("embed_int8k", 32, &["global_load_b128", "global_store_b128"]),
    row("embed_int8mk", 32, &["global_load_b128", "global_store_b128"]),
    row("embed_int4mk", 48, &["global_load_b128", "global_store_b128"]),
    row("rmsnorm_f32_wave", 32, &["global_load_b128", "v_rsq_f32", "v_permlanex16_b32"]),
    row("rmsnorm_f32_workgroup", 32, &["global_load_b128", "v_rsq_f32", "s_barrier_signal", "s_barrier_wait"]),
    row("linear_bf16_plain", 48, &["global_load_b128"]),
    row("linear_bf16_gemv", 96, &["global_load_b128", "v_permlanex16_b32"]),
    row("linear_bf16_wmma", 120, &[WMMA, "global_load_b128", "ds_load_b128", "ds_store_b128", "s_barrier_signal"]),
    row("linear_bf16_n64_t64", 168, TILED),
    row("linear_bf16_n128_t64", 192, TILED),
    row("linear_bf16_n128_t128", 240, TILED),
    row("linear_add_bf16_n64_t64", 168, TILED),
    row("linear_add_bf16_n128_t64", 192, TILED),
    row("linear_add_bf16_n128_t128", 240, TILED),
    row("linear_qkv_bf16_n128_t64", 192, TILED),
    row("linear_qkv_bf16_n128_t128", 240, TILED),
    row("linear_gated_bf16_n128_t64", 192, TILED),
    row("linear_gated_bf16_n128_t128", 240, TILED),
    row("linear_int8_plain", 48, &["global_load_b128"]),
    row("linear_int8_gemv", 96, &["global_load_b128", "v_permlanex16_b32"]),
    row("linear_int8g_plain", 48, &["global_load_b128"]),
    row("linear_int8g_gemv", 96, &["global_load_b128", "v_permlanex16_b32"]),
    row("linear_int4_plain", 48, &["global_load_b128"]),
    row("linear_int4_gemv", 144, &["global_load_b128", "v_permlanex16_b32"]),
    row("linear_int4m_plain", 48, &["global_load_b128"]),
    row("linear_int4m_gemv", 120, &["global_load_b128", "v_permlanex16_b32"]),
    row("linear_fp8_plain", 48, &["global_load_b128", "v_cvt_pk_f32_fp8"]),
    row("linear_fp8_gemv", 96, &["global_load_b128", "v_permlanex16_b32", "v_cvt_pk_f32_fp8"]),
    row("linear_int8m_plain", 48, &["global_load_b128"]),
    row("linear_int8m_gemv", 96, &["global_load_b128", "v_permlanex16_b32"]),
    row("linear_int8k_plain", 48, &["global_load_b128"]),
    row("linear_int8k_gemv", 96, &["global_load_b128", "v_permlanex16_b32"]),
    row("linear_int8mk_plain", 48, &["global_load_b128"]),
    row("linear_int8mk_gemv", 120, &["global_load_b128", "v_permlanex16_b32"]),
    row("linear_int4mk_plain", 48, &["global_load_b128"]),
    row("linear_int4mk_gemv", 120, &["global_load_b128", "v_permlanex16_b32"]),
    row("linear_int8_n64_t64", 168, TILED),
    row("linear_int8_n128_t64", 192, TILED),
    row("linear_int8_n128_t128", 240, TILED),
    row("quantize_bf16_i8", 32, &["global_load_b128", "v_max_u32_dpp", "v_rcp_f32"]),
    row("linear_w8a8_n64_t64", 144, TILED_BYTES),
    row("linear_w8a8_n128_t64", 240, TILED_BYTES),
    row("linear_int8g_n64_t64", 168, TILED),
    row("linear_int8g_n128_t64", 192, TILED),
    row("linear_int8g_n128_t128", 240, TILED),
    row("linear_int4_n64_t64", 168, TILED),
    row("linear_int4_n128_t64", 192, TILED),
    row("linear_int4_n128_t128", 240, TILED),
    row("linear_int4m_n64_t64", 168, TILED),
    row("linear_int4m_n128_t64", 192, TILED),
    row("linear_int4m_n128_t128", 240, TILED),
    row("linear_fp8_n64_t64", 168, TILED),
    row("linear_fp8_n128_t64", 192, TILED),
    row("linear_fp8_n128_t128", 240, TILED),
    row("linear_int8m_n64_t64", 168, TILED),
    row("linear_int8m_n128_t64", 192, TILED),
    row("linear_int8m_n128_t128", 240, TILED),
    row("linear_int8k_n64_t64", 168, TILED),
    row("linear_int8k_n128_t64", 192, TILED),
    row("linear_int8k_n128_t128", 240, TILED),
    row("linear_int8mk_n64_t64", 168, TILED),
    row("linear_int8mk_n128_t64", 192, TILED),
    row("linear_int8mk_n128_t128", 248, TILED),
    row("linear_int4mk_n64_t64", 168, TILED),
    row("linear_int4mk_n128_t64", 192, TILED),
    row("linear_int4mk_n128_t128", 240, TILED),
    row("prepare_heads_bf16_d64", 48, &["global_load_b64", "v_rsq_f32", "v_permlanex16_b32"]),
    row("prepare_heads_bf16_d128", 48, &["global_load_b64", "v_rsq_f32", "v_permlanex16_b32"]),
    row("rotate_heads_bf16_d64", 48, &["global_load_b64", "v_permlanex16_b32"]),
    row("rotate_heads_bf16_d128", 48, &["global_load_b64"]),
    row("bias_add_f32", 24, &["global_load_b128", "global_load_b64", "global_store_b128"]),
    row("head_norm_f32_d64", 24, &["global_load_b64", "v_rsq_f32"]),
    row("head_norm_f32_d128", 24, &["global_load_b64", "v_rsq_f32"]),
    row("rope_f32_d64", 24, &["global_load_b32", "global_store_b32"]),
    row("rope_f32_d128", 24, &["global_load_b32", "global_store_b32"]),
    row("kv_append_bf16", 32, &["global_load_b128", "global_store_b64"]),
    row("attention_plain_bf16_d64", 48, &["v_exp_f32", "v_permlanex16_b32"]),
    row("attention_plain_bf16_d128", 48, &["v_exp_f32", "v_permlanex16_b32"]),
    row("attention_prefill_bf16_d64", 120, FLASH),
    row("attention_prefill_bf16_d128", 168, FLASH),
    row("attention_decode_bf16_d64", 120, FLASH),
    row("attention_decode_bf16_d128", 168, FLASH),
    row("kv_append_formats_d64", 32, CODED),
    row("kv_append_formats_d128", 32, CODED),
    row("prepare_heads_formats_d64", 48, CODED),
    row("prepare_heads_formats_d128", 48, CODED),
    row("attention_plain_formats_d64", 48, &["v_exp_f32", "v_permlanex16_b32", "v_cvt_f32_f16", "v_cvt_f32_i32"]),
    row("attention_plain_formats_d128", 48, &["v_exp_f32", "v_permlanex16_b32", "v_cvt_f32_f16", "v_cvt_f32_i32"]),
    row("attention_prefill_formats_d64", 144, FLASH_FORMATS),
    row("attention_prefill_formats_d128", 192, FLASH_FORMATS),
    row("attention_decode_formats_d64", 144, FLASH_FORMATS),
    row("attention_decode_formats_d128", 192, FLASH_FORMATS),
    row("swiglu_f32_bf16", 32, &["global_load_b128", "v_exp_f32", "v_rcp_f32"]),
    row("residual_add_f32", 24, &["global_load_b128", "global_store_b128"]),
    row("decode_attention_d64", 144, DECODE),
    row("decode_attention_d128", 192, DECODE),
    row("decode_mlp_d64", 120, STREAM),
    row("decode_mlp_d128", 120, STREAM),
    row("decode_head_d64", 120, STREAM),
    row("decode_head_d128", 120, STREAM),
    row("decode_persistent_d64", 192, DECODE),
    row("decode_persistent_d128", 192, DECODE),
    row("decode_rotated_attention_d64", 144, DECODE),
    row("decode_rotated_attention_d128", 192, DECODE),
    row("decode_rotated_persistent_d64", 192, DECODE),
    row("decode_rotated_persistent_d128", 192, DECODE),
    row("argmax_f32", 24, &["s_barrier_signal", "v_permlanex16_b32"]),
    row("top_k_f32_slices", 72, &["s_barrier_signal", "ds_load_b128", "global_load_b32", "v_cmp_gt_u64"]),
    row("top_k_f32_merge", 96, &["s_barrier_signal", "ds_load_b128", "global_load_b64", "v_cmp_gt_u64"]),
    quantized("decode_persistent_int8_d64", 168, 10),
    quantized("decode_persistent_int8_d128", 192, 10),
    quantized("decode_rotated_persistent_int8_d64", 168, 10),
    quantized("decode_rotated_persistent_int8_d128", 192, 10),
    quantized("decode_persistent_int8g_d64", 168, 10),
    quantized("decode_persistent_int8g_d128", 192, 10),
    quantized("decode_rotated_persistent_int8g_d64", 168, 10),
    quantized("decode_rotated_persistent_int8g_d128", 192, 10),
    quantized("decode_persistent_int4_d64", 168, 12),
    quantized("decode_persistent_int4_d128", 192, 12),
    quantized("decode_rotated_persistent_int4_d64", 168, 12),
    quantized("decode_rotated_persistent_int4_d128", 192, 12),
    quantized("decode_persistent_int4m_d64", 168, 16),
    quantized("decode_persistent_int4m_d128", 192, 16),
    quantized("decode_rotated_persistent_int4m_d64", 168, 16),
    quantized("decode_rotated_persistent_int4m_d128", 192, 16),
    Budget { needs: DECODE_FP8, ..quantized("decode_persistent_fp8_d64", 168, 10) },
    Budget { needs: DECODE_FP8, ..quantized("decode_persistent_fp8_d128", 192, 10) },
    Budget { needs: DECODE_FP8, ..quantized("decode_rotated_persistent_fp8_d64", 168, 10) },
    Budget { needs: DECODE_FP8, ..quantized("decode_rotated_persistent_fp8_d128", 192, 10) },
    Budget { needs: DECODE_FP8, ..quantized("decode_persistent_mixed_d64", 168, 12) },
    Budget { needs: DECODE_FP8, ..quantized("decode_persistent_mixed_d128", 192, 12) },
    Budget { needs: DECODE_FP8, ..quantized("decode_rotated_persistent_mixed_d64", 168, 12) },
    Budget { needs: DECODE_FP8, ..quantized("decode_rotated_persistent_mixed_d128", 192, 12) },
];

/// Instructions of 8 bytes that a branch reaches.
const FAR: usize = 1 << 14;

/// Mnemonics that no kernel may hold, and what they would mean.
const FORBIDDEN: &[(&str, &str)] = &[
    ("scratch_", "registers spilled or an array in memory"),
    ("flat_", "an address whose space the compiler lost"),
    ("s_swappc", "a call"),
    ("s_sleep 0x7f", "a panic: the handler sleeps before it ends the wave"),
    ("s_trap", "an assertion"),
    ("v_div_", "a division, or a function that holds one"),
    ("global_atomic", "an atomic: results would depend on order"),
    ("v_sin_", "an angle on the device"),
    ("global_wb", "a release for the whole system: the L2 written back"),
    ("global_inv", "an acquire: caches thrown away"),
];

/// Listing of every kernel: mnemonic and operands of each instruction.
fn listings() -> BTreeMap<String, Vec<String>> {
    let mut tool = Command::new("llvm-objdump-22")
        .args(["-d", "--mcpu=gfx1201", "--no-show-raw-insn", "--no-leading-addr", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap_or_else(|e| panic!("llvm-objdump-22: {e}; install Debian's llvm-22 package (`./x test` does)"));
    // It reads all of its input before it writes, so that nobody waits for the other.
    tool.stdin.take().expect("piped").write_all(IMAGE).expect("the tool reads");
    let output = tool.wait_with_output().expect("the tool ends");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut listings = BTreeMap::new();
    let mut name = String::new();
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        if let Some(symbol) = line.strip_suffix(">:").and_then(|line| line.split_once('<')) {
            name = symbol.1.to_string();
            listings.insert(name.clone(), Vec::new());
        } else if let Some(listing) = listings.get_mut(&name) {
            let text = line.split("//").next().unwrap_or_default().trim();
            if !text.is_empty() {
                listing.push(text.to_string());
            }
        }
    }
    listings
}

fn metadata() -> BTreeMap<String, code_object::Metadata> {
    code_object::kernels(IMAGE).into_iter().map(|kernel| (kernel.text(".name").to_string(), kernel)).collect()
}

#[test]
fn every_kernel_has_one_row_and_no_other_is_in_the_code_object() {
    let mut rows: Vec<&str> = BUDGETS.iter().map(|budget| budget.kernel).collect();
    let mut listed: Vec<&str> = KERNELS.iter().map(|kernel| kernel.name).collect();
    rows.sort_unstable();
    listed.sort_unstable();
    assert_eq!(rows, listed, "rows of this file against device_ops::KERNELS");
    let found: Vec<String> = metadata().into_keys().collect();
    assert_eq!(found, listed, "the code object against device_ops::KERNELS");
}

#[test]
fn registers_and_memory_stay_in_budget() {
    let mut wrong = Vec::new();
    let metadata = metadata();
    for budget in BUDGETS {
        let kernel = &metadata[budget.kernel];
        let contract = KERNELS.iter().find(|kernel| kernel.name == budget.kernel).expect("a row for each");
        let (waves, most) = (contract.waves, u64::from(contract.max_vgprs()));
        assert!(budget.vgprs <= most, "{}: its workgroups leave a wave {most} VGPRs", budget.kernel);
        let vgprs = kernel.number(".vgpr_count");
        if vgprs > budget.vgprs {
            wrong.push(format!("{}: {vgprs} VGPRs, budget {}", budget.kernel, budget.vgprs));
        }
        for (key, want) in [
            (".vgpr_spill_count", 0),
            (".private_segment_fixed_size", 0),
            (".group_segment_fixed_size", 0),
            (".wavefront_size", 32),
            (".max_flat_workgroup_size", u64::from(waves) * 32),
        ] {
            if kernel.number(key) != want {
                wrong.push(format!("{}: {key} is {}, not {want}", budget.kernel, kernel.number(key)));
            }
        }
        let (scalars, most) = (kernel.number(".sgpr_spill_count"), budget.scalars_in_lanes);
        if scalars > most {
            wrong.push(format!("{}: {scalars} scalars in lanes, budget {most}", budget.kernel));
        }
        if kernel.flag(".uses_dynamic_stack") {
            wrong.push(format!("{}: uses a dynamic stack", budget.kernel));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn arguments_lie_where_the_host_puts_them() {
    let metadata = metadata();
    for kernel in KERNELS {
        let entry = &metadata[kernel.name];
        let found: Vec<(u64, u64, String)> = entry
            .args()
            .iter()
            .map(|arg| (arg.number(".offset"), arg.number(".size"), arg.text(".value_kind").to_string()))
            .collect();
        let packed: Vec<(u64, u64, String)> = kernel
            .fields
            .iter()
            .map(|field| {
                let kind = if field.pointer { "global_buffer" } else { "by_value" };
                (field.offset as u64, field.size as u64, kind.to_string())
            })
            .collect();
        assert_eq!(found, packed, "{}: metadata against Args", kernel.name);
        assert_eq!(
            entry.number(".kernarg_segment_size"),
            kernel.args_bytes() as u64,
            "{}: hidden arguments",
            kernel.name
        );
    }
}

#[test]
fn listings_hold_what_they_must_and_nothing_forbidden() {
    let mut wrong = Vec::new();
    let listings = listings();
    for budget in BUDGETS {
        let listing = &listings[budget.kernel];
        assert!(listing.len() > 10, "{}: {} instructions", budget.kernel, listing.len());
        for needed in budget.needs {
            if !listing.iter().any(|text| text.starts_with(needed)) {
                wrong.push(format!("{}: no {needed}", budget.kernel));
            }
        }
        for (mnemonic, meaning) in FORBIDDEN {
            if let Some(text) = listing.iter().find(|text| text.starts_with(mnemonic)) {
                wrong.push(format!("{}: `{text}`: {meaning}", budget.kernel));
            }
        }
        // A kernel of more than 128 KiB branches further than a branch reaches: to its own address plus a constant, made just before. Anything else
        // is a return or an indirect jump.
        for (at, text) in listing.iter().enumerate().filter(|(_, text)| text.starts_with("s_setpc")) {
            let register = text.split_whitespace().last().unwrap_or_default();
            let made = |text: &&String| text.starts_with(&format!("s_getpc_b64 {register}"));
            if listing.len() < FAR || !listing[at.saturating_sub(8)..at].iter().any(|text| made(&text)) {
                wrong.push(format!("{}: `{text}`: a return or an indirect jump", budget.kernel));
            }
        }
        if let Some(text) = listing.iter().find(|text| text.contains("SCOPE_SYS")) {
            wrong.push(format!("{}: `{text}`: for the whole system, past the L2", budget.kernel));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// `s_barrier_signal` with LDS accesses in flight is a race: each must stand behind a wait for all of them, with nothing that touches
/// LDS between.
#[test]
fn barriers_wait_for_lds() {
    let mut barriers = 0;
    for (kernel, listing) in listings() {
        for (at, text) in listing.iter().enumerate().filter(|(_, text)| text.starts_with("s_barrier_signal")) {
            barriers += 1;
            let before = listing[..at].iter().rev();
            let wait = before.take_while(|text| !text.starts_with("ds_")).find(|text| {
                (text.starts_with("s_wait_dscnt") || text.ends_with("_dscnt 0x0")) && text.ends_with(" 0x0")
            });
            assert!(wait.is_some(), "{kernel}: `{text}` at instruction {at} without `s_wait_dscnt 0x0` before it");
            let until_wait: Vec<&String> =
                listing[at + 1..].iter().take_while(|text| !text.starts_with("s_barrier_wait")).collect();
            let crossing = until_wait.iter().find(|text| text.starts_with("ds_") || text.starts_with("s_cbranch"));
            assert_eq!(crossing, None, "{kernel}: between signal and wait of the barrier at instruction {at}");
        }
    }
    assert!(barriers >= 10, "{barriers} barriers found: the listing is not read right");
}

/// Launch-sized LDS is not in the metadata: what geometry gives must hold what the contracts say, and stay below the limit.
#[test]
fn launch_sized_lds_is_what_the_contracts_say() {
    let qwen3 = Shape { hidden: 1024, heads: 16, kv_heads: 8, head_dim: 128, intermediate: 3072, vocab: 151_936 };
    let rows: &[(&str, Geometry, u32)] = &[
        ("rmsnorm_f32_workgroup", rmsnorm::geometry_workgroup(1), 32),
        ("linear_bf16_wmma", linear::geometry_wmma(64, 64), 18_432),
        ("linear_bf16_n64_t64", linear::geometry_tile(Tile::N64T64, 64, 64), 32_768),
        ("linear_bf16_n128_t64", linear::geometry_tile(Tile::N128T64, 64, 64), 24_576),
        ("linear_bf16_n128_t128", linear::geometry_tile(Tile::N128T128, 64, 64), 32_768),
        ("linear_qkv_bf16_n128_t64", linear::qkv::geometry(Tile::N128T64, 64, 64, 64), 24_576),
        ("linear_gated_bf16_n128_t128", linear::gated::geometry(Tile::N128T128, 64, 64), 32_768),
        ("attention_decode_bf16_d64", attention::geometry_decode(1, 2, 8, 64), 17_408),
        ("attention_decode_bf16_d128", attention::geometry_decode(1, 2, 8, 128), 33_792),
        ("argmax_f32", argmax::geometry(1), 256),
        // 256 B of numbers, two rows of a table of matrices, 16 rows of the residual stream, 96 sums, and the MLP's 3072 results as bf16.
        ("decode_persistent_d128", qwen3.geometry(64).0, 256 + 256 + 64 + 384 + 2 * 3072),
        ("top_k_f32_slices", top_k::geometry_slices(151_936), 10_768),
        ("top_k_f32_merge", top_k::geometry_merge(), 10_768),
    ];
    for (kernel, geometry, lds_bytes) in rows {
        assert_eq!(geometry.lds_bytes, *lds_bytes, "{kernel}");
        assert_eq!(geometry.check(), Ok(()), "{kernel}");
    }
}
