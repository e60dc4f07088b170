//! Arbitrary bytes as a GGUF file: read, decode, compile. The body is shared with `tests/fuzz`; nothing is decided here.
#![no_main]

#[allow(dead_code, reason = "what the tests look at")]
#[path = "../gguf.rs"]
mod gguf;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    gguf::gguf(bytes);
});
