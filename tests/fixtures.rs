//! Where the fixtures are, and what to do when one that is fetched is missing. It makes no fixture.

use std::path::{Path, PathBuf};

/// Names the `tests` folder where a test program was carried to another machine (docs/SILICON.md).
pub const FOLDER_VARIABLE: &str = "ZYNFER_TESTS_FOLDER";

/// Root of the repository.
pub fn root() -> PathBuf {
    let tests = std::env::var_os(FOLDER_VARIABLE).unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    Path::new(&tests).parent().expect("tests/ lies in the repository").to_path_buf()
}

/// A committed fixture by its path below `tests/fixtures`.
pub fn fixture(path: &str) -> PathBuf {
    root().join("tests/fixtures").join(path)
}

/// Bytes of a committed fixture.
pub fn read(path: &str) -> Vec<u8> {
    let path = fixture(path);
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// A committed JSON fixture.
pub fn read_json(path: &str) -> serde_json::Value {
    serde_json::from_slice(&read(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The published Qwen3 tokenizer's folder (tokenizer.json, tokenizer_config.json). It is fetched and hash-checked, not committed.
pub fn qwen3_tokenizer() -> PathBuf {
    let folder = root().join("target/fixtures/qwen3-tokenizer");
    for file in ["tokenizer.json", "tokenizer_config.json"] {
        assert!(folder.join(file).is_file(), "{} is missing: run ./x setup-tests", folder.join(file).display());
    }
    folder
}

/// SmolLM2-135M-Instruct as a GGUF file. It is fetched and hash-checked by `./x test --all`, not committed.
pub fn smollm2() -> PathBuf {
    let file = root().join("target/fixtures/smollm2/SmolLM2-135M-Instruct.Q4_1.gguf");
    assert!(file.is_file(), "{} is missing: run ./x test --all", file.display());
    file
}
