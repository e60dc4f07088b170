//! Attention over a cache in formats, by the bytes of codes and scales: one token behind a context of whole blocks, at Qwen3-0.6B's heads. Each
//! code is asked for once; lines are those of codes, scales, queries and arguments, within the hundredths that whole lines make of them.

use device_ops::attention::{self, formats};
use device_ops::kv_formats::{KvFormat, append};
use emulator::launch::Class;

use crate::machine::Machine;
use crate::width;

const KV_HEADS: u64 = 8;
const GROUP: u64 = 2;
const D: u64 = 128;
/// Of the context, the token's own included; as many as the cache holds.
const POSITIONS: u64 = 1024;

const FORMATS: [KvFormat; 4] = [KvFormat::Bf16, KvFormat::F16, KvFormat::Int8, KvFormat::Fp8];

/// Codes and scales of a cache of zeros, and where the scales begin.
fn cache(machine: &mut Machine, format: KvFormat) -> (u64, u64, u64) {
    let [kv_heads, positions, d] = [KV_HEADS, POSITIONS, D].map(|x| x as usize);
    let bytes = format.bytes(kv_heads, positions, d).expect("small");
    let codes = format.scales_at(kv_heads, positions, d).expect("small");
    let at = machine.buffer(&vec![0; bytes]);
    (at, at + codes as u64, bytes as u64)
}

#[test]
fn decode_reads_each_code_once_whatever_the_format() {
    for k in FORMATS {
        for v in FORMATS {
            let mut machine = Machine::with(zynfer::gpu::code_object::IMAGE);
            let (k_cache, k_scales, k_bytes) = cache(&mut machine, k);
            let (v_cache, v_scales, v_bytes) = cache(&mut machine, v);
            let q_bytes = GROUP * KV_HEADS * D * 4;
            let q = machine.buffer(&vec![0; q_bytes as usize]);
            let out = machine.buffer(&vec![0; q_bytes as usize / 2]);
            let args = formats::Args {
                q,
                k_cache,
                v_cache,
                k_scales,
                v_scales,
                out,
                k_format: k as u32,
                v_format: v as u32,
                tokens: 1,
                position: POSITIONS as u32 - 1,
                group: GROUP as u32,
                kv_heads: KV_HEADS as u32,
                capacity: POSITIONS as u32,
                scale: 0.1,
            };
            let geometry = attention::geometry_decode(1, GROUP as u32, KV_HEADS as u32, D as u32);
            let stats = machine.count_ours(formats::NAME_DECODE_D128, geometry, &args);
            let counters = stats.counters.as_deref().expect("counted");
            let what = format!("{k:?} {v:?}");
            let cached = (k_bytes + v_bytes) as f64;
            eprintln!(
                "{what}: {cached} bytes, {:.2} vector instructions of a lane each",
                stats.count(Class::Valu) as f64 * 32.0 / cached
            );
            let codes = |format: KvFormat| KV_HEADS * POSITIONS * D * format.code_bytes() as u64;
            // Codes of one byte come by 8 bytes per lane, and nothing else does.
            let narrow: u64 = [k, v].into_iter().filter(|format| format.has_scales()).map(codes).sum();
            assert_eq!(counters.loads.bytes_by_width[width(8)], narrow, "{what}: bytes by b64");
            // The others by 16, and so do queries, in each of eight waves, and scales, in each of the sixteen lanes that hold a position's scores.
            let wide: u64 = [k, v].into_iter().filter(|format| !format.has_scales()).map(codes).sum();
            let scales = (k_bytes + v_bytes - narrow - wide) * 16;
            let queries = KV_HEADS * 8 * 16 * D * 4;
            assert_eq!(counters.loads.bytes_by_width[width(16)], wide + scales + queries, "{what}: bytes by b128");
            let least = k_bytes + v_bytes + q_bytes;
            let read = counters.footprint.read_128 * 128;
            assert!(least <= read && read * 100 <= least * 103, "{what}: {read} bytes of lines, {least} are the least");
            assert_eq!(counters.stores.bytes, q_bytes / 2, "{what}: bytes stored");
            assert_eq!(counters.scratch_load_bytes + counters.scratch_store_bytes, 0, "{what}: spills");
        }
    }
}

#[test]
fn an_append_writes_codes_and_scales_and_nothing_else() {
    for format in FORMATS {
        let mut machine = Machine::with(zynfer::gpu::code_object::IMAGE);
        let (k_cache, k_scales, _) = cache(&mut machine, format);
        let (v_cache, v_scales, _) = cache(&mut machine, format);
        let rows = vec![0x3f; (KV_HEADS * D * 4) as usize];
        let args = append::Args {
            k: machine.buffer(&rows),
            v: machine.buffer(&rows),
            k_cache,
            v_cache,
            k_scales,
            v_scales,
            k_format: format as u32,
            v_format: format as u32,
            tokens: 1,
            kv_heads: KV_HEADS as u32,
            position: 77,
            capacity: POSITIONS as u32,
        };
        let stats = machine.count_ours(append::NAME_D128, append::geometry(1, KV_HEADS as u32), &args);
        let counters = stats.counters.expect("counted");
        let scale = if format.has_scales() { 4 } else { 0 };
        assert_eq!(
            counters.stores.bytes,
            2 * KV_HEADS * (D * format.code_bytes() as u64 + scale),
            "{format:?}: written"
        );
        assert_eq!(counters.loads.bytes, 2 * KV_HEADS * D * 4, "{format:?}: read");
    }
}
