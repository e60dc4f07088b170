//! Arbitrary bytes as a code object: parse, load, launch. The body is shared with `tests/fuzz`; nothing is decided here.
#![no_main]

#[allow(dead_code, reason = "each target uses one of the bodies")]
#[path = "../targets.rs"]
mod targets;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    targets::code_object(bytes);
});
