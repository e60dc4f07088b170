//! Models out of GGUF files: a checkpoint written as one compiles to the same weights, architecture and ids of text as its folder; what
//! would have to be rounded, guessed or left out is refused.

use std::{fs, path::PathBuf};

use half::{bf16, f16};
use serde_json::Value as Json;
use zynfer::artifact::{Artifact, LoadMode, compile, compile_quantized, gguf};
use zynfer::quant::{Recipe, Scheme};
use zynfer::text::{Special, Tokenizer};
use zynfer_tests::fixtures::{qwen3_tokenizer, read_json};

use crate::support::{Checkpoint, assert_message, fixture};
use zynfer_tests::gguf_model::{BF16, gguf_name, with_architecture};
use zynfer_tests::gguf_writer::{GgufFile, TensorRow};

/// Metadata of a tokenizer.json: all tokens by id, placeholders where there is none, merges as "a b".
fn with_tokenizer(file: GgufFile, tokenizer: &Json, rows: usize, pre: &str) -> GgufFile {
    let mut tokens: Vec<(String, i32)> = (0..rows).map(|id| (format!("[PAD{id}]"), 5)).collect();
    for (token, id) in tokenizer["model"]["vocab"].as_object().unwrap() {
        tokens[id.as_u64().unwrap() as usize] = (token.clone(), 1);
    }
    for added in tokenizer["added_tokens"].as_array().unwrap() {
        let kind = if added["special"].as_bool().unwrap() { 3 } else { 4 };
        tokens[added["id"].as_u64().unwrap() as usize] = (added["content"].as_str().unwrap().to_owned(), kind);
    }
    let merges: Vec<String> = tokenizer["model"]["merges"]
        .as_array()
        .unwrap()
        .iter()
        .map(|merge| match merge {
            Json::String(text) => text.clone(),
            pair => format!("{} {}", pair[0].as_str().unwrap(), pair[1].as_str().unwrap()),
        })
        .collect();
    let kinds: Vec<i32> = tokens.iter().map(|(_, kind)| *kind).collect();
    file.text("tokenizer.ggml.model", "gpt2")
        .text("tokenizer.ggml.pre", pre)
        .texts("tokenizer.ggml.tokens", tokens.iter().map(|(text, _)| text.as_str()))
        .i32s("tokenizer.ggml.token_type", &kinds)
        .texts("tokenizer.ggml.merges", merges.iter().map(String::as_str))
}

/// The checkpoint as a GGUF file of bf16 tensors.
pub fn as_gguf(checkpoint: &Checkpoint) -> GgufFile {
    let mut file = with_architecture(GgufFile::default(), &checkpoint.json("config.json"), "qwen3");
    for (name, shape, bytes) in checkpoint.weights() {
        let dims: Vec<u64> = shape.iter().rev().map(|extent| *extent as u64).collect();
        file = file.tensor(&gguf_name(&name), &dims, BF16, bytes);
    }
    file
}

/// A checkpoint's folder and what is written beside it.
pub struct Written {
    pub checkpoint: Checkpoint,
    path: PathBuf,
}

impl Written {
    pub fn new(checkpoint: Checkpoint, file: &GgufFile) -> Self {
        let path = checkpoint.beside("A-model.Q.gguf");
        fs::write(&path, file.bytes()).unwrap();
        Self { checkpoint, path }
    }

    pub fn compile(&self, round_to_bf16: bool) -> Result<Artifact, String> {
        self.compile_by(round_to_bf16.then(|| Recipe::new(Scheme::Bf16)).as_ref())
    }

    pub fn compile_by(&self, recipe: Option<&Recipe>) -> Result<Artifact, String> {
        let out = self.checkpoint.beside("from-gguf.zynfer");
        let compiled = match recipe {
            Some(recipe) => compile_quantized(&self.path, &out, recipe, &mut |_, _| {}),
            None => compile(&self.path, &out, &mut |_, _| {}),
        };
        match compiled {
            Ok(_) => Ok(Artifact::open(&out, LoadMode::Mmap).unwrap_or_else(|error| panic!("{error}"))),
            Err(error) => {
                self.checkpoint.assert_nothing_left(&out);
                Err(self.checkpoint.text_of(error).replace("A-model.Q.gguf: ", ""))
            }
        }
    }
}

/// The same weights and the same numbers as the folder's artifact.
pub fn assert_same_model(found: &Artifact, folder: &Artifact) {
    assert_eq!(found.config(), folder.config());
    assert_eq!(found.tensors().len(), folder.tensors().len());
    for (found, folder) in found.tensors().zip(folder.tensors()) {
        assert_eq!((found.name, found.shape), (folder.name, folder.shape));
        assert!(found.bytes == folder.bytes, "{} differs", found.name);
    }
}

#[test]
fn an_untied_checkpoint_without_tokenizer_is_the_folder() {
    let checkpoint = Checkpoint::untied();
    let file = as_gguf(&checkpoint);
    let written = Written::new(checkpoint, &file);
    let artifact = written.compile(false).unwrap();
    assert_same_model(&artifact, &written.checkpoint.open());
    // What a memory plan is made from, without compiling.
    let gguf = gguf::Gguf::open(&written.path, LoadMode::Mmap).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(gguf::config(&gguf).unwrap_or_else(|error| panic!("{error}")), *artifact.config());
    assert_eq!((artifact.name(), artifact.tokenizer_json(), artifact.end_ids().len()), ("A-model.Q", None, 0));
}

#[test]
fn a_tied_checkpoint_with_tokenizer_is_the_folder() {
    let checkpoint = Checkpoint::tied();
    let config = checkpoint.json("config.json");
    let rows = config["vocab_size"].as_u64().unwrap() as usize;
    let file = with_tokenizer(as_gguf(&checkpoint), &checkpoint.json("tokenizer.json"), rows, "qwen2")
        .u32("tokenizer.ggml.eos_token_id", 4072)
        .text("tokenizer.chat_template", "{{ messages }}")
        .f32("general.sampling.temp", 0.6)
        .u32("general.sampling.top_k", 20)
        .f32("general.sampling.xtc_threshold", 0.1);
    let written = Written::new(checkpoint, &file);
    let artifact = written.compile(false).unwrap();
    let folder = written.checkpoint.open();
    assert_same_model(&artifact, &folder);
    assert_eq!(artifact.end_ids(), folder.end_ids());
    assert_eq!(artifact.chat_template(), Some("{{ messages }}"));
    let generation = artifact.generation();
    assert_eq!((generation.temperature, generation.top_k), (Some(0.6), Some(20)));
    assert_eq!(generation.unused, ["general.sampling.xtc_threshold"]);
    let text = fs::read_to_string(fixture("tiny-qwen3/validation.txt")).unwrap();
    same_ids(artifact.tokenizer_json().unwrap(), folder.tokenizer_json().unwrap(), &[&text]);
}

/// Both tokenizers give the same ids and the same added tokens; the second is a published file, read by the `tokenizers` crate itself.
fn same_ids(ours: &[u8], published: &[u8], texts: &[&str]) {
    let reference = tokenizers::Tokenizer::from_bytes(published).unwrap();
    let tokenizer = Tokenizer::from_bytes(ours).unwrap_or_else(|error| panic!("{error}"));
    let known = Tokenizer::from_bytes(published).unwrap();
    assert_eq!(tokenizer.added_tokens(), known.added_tokens());
    assert_eq!(tokenizer.vocab_size(), known.vocab_size());
    for text in texts {
        let ids = tokenizer.encode(text, Special::Parse).unwrap();
        assert_eq!(ids, reference.encode_fast(*text, false).unwrap().get_ids(), "{text:?}");
        assert_eq!(tokenizer.encode(text, Special::AsText).unwrap(), known.encode(text, Special::AsText).unwrap());
    }
}

/// What pre-tokenizers, normalizers and added tokens disagree about.
const TEXTS: &[&str] = &[
    "Hello, world! It's 12345 o'clock, isn't it?",
    "  two spaces\t tab \n\n newlines \r\n end   ",
    "e\u{301}tude étude ﬁ 你好 привет \u{1f600}\u{200d}\u{1f308} 3.14159² ½",
    "<|im_start|>user\nhi<|im_end|>\n<think>\n\n</think> <|endoftext|>",
    "fn main() { let x = \"a\\n\"; } // WE'LL SEE'S 'Re",
];

#[test]
fn the_published_qwen3_tokenizer_survives_the_metadata() {
    let published = fs::read(qwen3_tokenizer().join("tokenizer.json")).unwrap();
    let json: Json = serde_json::from_slice(&published).unwrap();
    // The embedding has rows for every id of it and, as the published models', some more.
    let rows = 151_936;
    let checkpoint = Checkpoint::untied();
    let config = checkpoint.config("vocab_size", rows.into()).config("tie_word_embeddings", true.into());
    let mut file = with_tokenizer(as_gguf(&config), &json, rows, "qwen2").u32("tokenizer.ggml.eos_token_id", 151_645);
    file.tensors.retain(|tensor| tensor.name != b"output.weight");
    let embedding = file.tensors.iter_mut().find(|tensor| tensor.name == b"token_embd.weight").unwrap();
    embedding.dims[1] = rows as u64;
    embedding.data.resize(rows * embedding.dims[0] as usize * 2, 0);
    let artifact = Written::new(config, &file).compile(false).unwrap();
    assert_eq!(artifact.end_ids(), [151_643, 151_645]);
    same_ids(artifact.tokenizer_json().unwrap(), &published, TEXTS);
}

/// The settings behind the names are those of the published files.
#[test]
fn pre_tokenizers_are_the_published_ones() {
    let published = read_json("gguf/pre_tokenizers.json");
    for (name, settings) in published.as_object().unwrap() {
        let checkpoint = Checkpoint::tied();
        let file = with_tokenizer(as_gguf(&checkpoint), &checkpoint.json("tokenizer.json"), 4096, name);
        let artifact = Written::new(checkpoint, &file).compile(false).unwrap();
        let ours: Json = serde_json::from_slice(artifact.tokenizer_json().unwrap()).unwrap();
        assert_eq!(ours["normalizer"], settings["normalizer"], "{name}");
        assert_eq!(ours["model"]["ignore_merges"], settings["ignore_merges"], "{name}");
        let (ours, theirs) = (&ours["pre_tokenizer"]["pretokenizers"], &settings["pre_tokenizer"]["pretokenizers"]);
        assert_eq!(ours[0], theirs[0], "{name}");
        // trim_offsets moves offsets, which nothing here uses; ids do not depend on it.
        for key in ["type", "add_prefix_space", "use_regex"] {
            assert_eq!(ours[1][key], theirs[1][key], "{name} {key}");
        }
    }
}

/// The prompts' ids from llama.cpp, with as much of the published vocabulary as they need.
#[test]
fn smollm2_prompts_have_the_ids_of_llama_cpp() {
    let vocabulary = read_json("smollm2/vocabulary.json");
    let rows = vocabulary["count"].as_u64().unwrap() as usize;
    let checkpoint = Checkpoint::untied();
    let checkpoint = checkpoint.config("vocab_size", rows.into());
    let mut file = as_gguf(&checkpoint);
    for tensor in file
        .tensors
        .iter_mut()
        .filter(|tensor| matches!(tensor.name.as_slice(), b"token_embd.weight" | b"output.weight"))
    {
        tensor.dims[1] = rows as u64;
        tensor.data.resize(rows * tensor.dims[0] as usize * 2, 0);
    }
    let mut tokens: Vec<(String, i32)> = (0..rows).map(|id| (format!("[PAD{id}]"), 5)).collect();
    for (token, entry) in vocabulary["tokens"].as_object().unwrap() {
        tokens[entry[0].as_u64().unwrap() as usize] = (token.clone(), entry[1].as_i64().unwrap() as i32);
    }
    let merges: Vec<&str> =
        vocabulary["merges"].as_array().unwrap().iter().map(|merge| merge.as_str().unwrap()).collect();
    let kinds: Vec<i32> = tokens.iter().map(|(_, kind)| *kind).collect();
    file = file
        .texts("tokenizer.ggml.tokens", tokens.iter().map(|(text, _)| text.as_str()))
        .i32s("tokenizer.ggml.token_type", &kinds)
        .texts("tokenizer.ggml.merges", merges.into_iter());
    for (key, value) in vocabulary["metadata"].as_object().unwrap() {
        file = match value {
            Json::String(text) => file.text(key, text),
            Json::Bool(flag) => file.key(key, 7, [u8::from(*flag)]),
            number => file.u32(key, number.as_u64().unwrap() as u32),
        };
    }
    let artifact = Written::new(checkpoint, &file).compile(false).unwrap();
    assert_eq!(artifact.end_ids(), [0, 2]);
    let tokenizer = Tokenizer::from_bytes(artifact.tokenizer_json().unwrap()).unwrap_or_else(|error| panic!("{error}"));
    let golden = read_json("smollm2/golden.json");
    for example in golden.as_array().unwrap() {
        let ids: Json = tokenizer.encode(example["prompt"].as_str().unwrap(), Special::Parse).unwrap().into();
        assert_eq!(ids, example["ids"], "{}", example["prompt"]);
    }
    assert_eq!(golden.as_array().unwrap().len(), 10);
}

/// The small checkpoint with one tensor changed.
fn with_tensor(name: &str, change: impl FnOnce(&mut TensorRow)) -> Written {
    let checkpoint = Checkpoint::untied();
    let mut file = as_gguf(&checkpoint);
    change(file.tensors.iter_mut().find(|tensor| tensor.name == name.as_bytes()).unwrap());
    Written::new(checkpoint, &file)
}

fn numbers(bytes: &[u8]) -> Vec<f32> {
    bytes.chunks_exact(2).map(|pair| bf16::from_le_bytes([pair[0], pair[1]]).to_f32()).collect()
}

#[test]
fn norms_in_f32_pass_where_bf16_holds_them_and_nothing_is_rounded_unasked() {
    let name = "blk.1.attn_norm.weight";
    let as_f32 = |change: f32| {
        with_tensor(name, |tensor| {
            let values = numbers(&tensor.data).into_iter().enumerate();
            tensor.data =
                values.flat_map(|(i, value)| (if i == 3 { value + change } else { value }).to_le_bytes()).collect();
            tensor.kind = 0;
        })
    };
    let exact = as_f32(0.0);
    assert_same_model(&exact.compile(false).unwrap(), &exact.checkpoint.open());
    let inexact = as_f32(1e-6);
    assert_message(
        &inexact.compile(false).err().unwrap(),
        "blk.1.attn_norm.weight: would be rounded to bf16, which is done only when asked for (--quant bf16; --quant source changes no value): expected BF16, found F32",
    );
    // A millionth more is lost by rounding to eight bits.
    assert_same_model(&inexact.compile(true).unwrap(), &inexact.checkpoint.open());

    // A matrix of F16 or F32 is not looked at number by number: it is of another type.
    let half = with_tensor("blk.0.attn_q.weight", |tensor| {
        tensor.data = numbers(&tensor.data).into_iter().flat_map(|value| f16::from_f32(value).to_le_bytes()).collect();
        tensor.kind = 1;
    });
    assert_message(
        &half.compile(false).err().unwrap(),
        "blk.0.attn_q.weight: would be rounded to bf16, which is done only when asked for (--quant bf16; --quant source changes no value): expected BF16, found F16",
    );
}

/// Blocks whose elements bf16 holds exactly, so that the result is known without the code that is tested.
#[test]
fn quantized_tensors_become_bf16_when_asked_for() {
    let mut expected = Vec::new();
    let written = with_tensor("blk.0.ffn_up.weight", |tensor| {
        let count = tensor.dims.iter().product::<u64>() as usize;
        let codes: Vec<i8> = (0..count).map(|i| (i * 37 % 255) as i8).collect();
        tensor.data = Vec::new();
        for (block, codes) in codes.chunks_exact(32).enumerate() {
            let scale = 2f32.powi(-(block as i32 % 9) - 5);
            tensor.data.extend(f16::from_f32(scale).to_le_bytes());
            tensor.data.extend(codes.iter().map(|code| *code as u8));
            expected.extend(codes.iter().flat_map(|code| bf16::from_f32(f32::from(*code) * scale).to_le_bytes()));
        }
        tensor.kind = 8;
    });
    assert!(written.compile(false).err().unwrap().starts_with("blk.0.ffn_up.weight: would be rounded to bf16"));
    let artifact = written.compile(true).unwrap();
    assert!(artifact.tensor("model.layers.0.mlp.up_proj.weight").unwrap().bytes == expected);
}

/// Refusals of the small checkpoint with other metadata or tensors.
fn refused(change: impl FnOnce(GgufFile) -> GgufFile, message: &str) {
    let checkpoint = Checkpoint::untied();
    let file = change(as_gguf(&checkpoint));
    assert_message(&Written::new(checkpoint, &file).compile(true).err().expect("accepted"), message);
}

fn replaced(mut file: GgufFile, key: &str, other: impl FnOnce(GgufFile) -> GgufFile) -> GgufFile {
    file.keys.retain(|(name, ..)| name != key.as_bytes());
    other(file)
}

#[test]
fn what_is_not_computed_is_refused_by_name() {
    refused(
        |file| replaced(file, "general.architecture", |file| file.text("general.architecture", "mamba")),
        "general.architecture: not an architecture this build computes: expected one of qwen3, qwen2, llama, found \"mamba\"",
    );
    refused(
        |file| replaced(file, "general.architecture", |file| file),
        "general.architecture: absent, and it is never guessed: expected one of qwen3, qwen2, llama, found nothing",
    );
    for (key, value) in [("rope.scaling.type", "yarn"), ("rope.scaling.type", "linear")] {
        refused(
            |file| file.text(&format!("qwen3.{key}"), value),
            &format!(
                "qwen3.{key}: it changes what is computed and is not supported: expected \"none\", found {value:?}"
            ),
        );
    }
    refused(
        |file| file.f32("qwen3.rope.scaling.factor", 4.0),
        "qwen3.rope.scaling.factor: it changes what is computed and is not supported: expected 0 or 1, found 4",
    );
    refused(
        |file| file.u32("qwen3.attention.sliding_window", 4096),
        "qwen3.attention.sliding_window: unknown key with value 4096: it may change what is computed",
    );
    refused(
        |file| file.u32("qwen3.expert_count", 8),
        "qwen3.expert_count: it changes what is computed and is not supported: expected 0, found 8",
    );
    refused(
        |file| replaced(file, "qwen3.rope.freq_base", |file| file),
        "qwen3.rope.freq_base: absent, and it is never guessed",
    );
    refused(
        |file| replaced(file, "qwen3.block_count", |file| file.text("qwen3.block_count", "2")),
        "qwen3.block_count: wrong type or value: expected an integer that is not negative, found a string, \"2\"",
    );
    refused(
        |file| replaced(file, "qwen3.attention.value_length", |file| file.u32("qwen3.attention.value_length", 32)),
        "qwen3.attention.value_length: values of another length than keys are not computed: expected 64, found 32",
    );
    refused(
        |file| file.u32("qwen3.rope.dimension_count", 32),
        "qwen3.rope.dimension_count: heads that are rotated in part are not computed: expected 64, found 32",
    );
    refused(
        |file| file.u32("qwen3.vocab_size", 7),
        "qwen3.vocab_size: contradicts the rows of token_embd.weight: expected 1000, found 7",
    );
    refused(
        |file| file.u32("general.quantization_version", 1),
        "general.quantization_version: blocks of another layout than is read: expected 2, found 1",
    );
    refused(
        |file| file.tensor("rope_freqs.weight", &[32], 0, [0; 128]),
        "rope_freqs.weight: rotary frequencies that are scaled one by one are not computed",
    );
    refused(
        |file| file.tensor("blk.0.ffn_gate_inp.weight", &[32], 0, [0; 128]),
        "tensors do not match the config (not part of this architecture: blk.0.ffn_gate_inp.weight): expected 25 tensors, found 26",
    );
    refused(
        |mut file| {
            file.tensors.retain(|tensor| tensor.name != b"blk.1.ffn_down.weight");
            file
        },
        "tensors do not match the config (missing: model.layers.1.mlp.down_proj.weight): expected 25 tensors, found 24",
    );
    refused(
        |mut file| {
            let tensor = file.tensors.iter_mut().find(|tensor| tensor.name == b"blk.0.attn_q.weight").unwrap();
            tensor.kind = 9; // 32 elements in 40 bytes
            tensor.data.truncate(tensor.dims.iter().product::<u64>() as usize / 32 * 40);
            file
        },
        "blk.0.attn_q.weight: element type that is not read: expected one of F32, F16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q2_K, Q3_K, \
         Q4_K, Q5_K, Q6_K, IQ4_NL, IQ4_XS, BF16, found Q8_1",
    );
}

#[test]
fn tokenizers_that_are_not_known_are_refused_by_name() {
    let tiny: Json = serde_json::from_slice(&fs::read(fixture("tiny-qwen3/tokenizer.json")).unwrap()).unwrap();
    let with = |file, pre| with_tokenizer(file, &tiny, 4096, pre);
    let known = "expected one of qwen2, llama-bpe, smollm";
    refused(
        |file| with(file, "default"),
        &format!("tokenizer.ggml.pre: not a tokenizer this build knows: {known}, found \"default\""),
    );
    refused(
        |file| replaced(with(file, "qwen2"), "tokenizer.ggml.pre", |file| file),
        &format!("tokenizer.ggml.pre: not a tokenizer this build knows: {known}, found nothing"),
    );
    refused(
        |file| replaced(with(file, "qwen2"), "tokenizer.ggml.model", |file| file.text("tokenizer.ggml.model", "llama")),
        "tokenizer.ggml.model: not a tokenizer this build knows: expected one of gpt2 (byte-level BPE), found \"llama\"",
    );
    refused(
        |file| with(file, "qwen2").u32("tokenizer.ggml.eot_token_id", 4096),
        "tokenizer.ggml.eot_token_id: no token of the vocabulary: expected an id below 4096, found 4096",
    );
    refused(
        |file| replaced(with(file, "qwen2"), "tokenizer.ggml.token_type", |file| file), // so that none is a control token
        "tokenizer.ggml.tokens: more tokens than token_embd.weight has rows: expected at most 1000, found 4096",
    );
    let merges = |list: &'static [&'static str]| {
        move |file| {
            replaced(with(file, "qwen2"), "tokenizer.ggml.merges", |file| {
                file.texts("tokenizer.ggml.merges", list.iter().copied())
            })
        }
    };
    refused(merges(&["th"]), "tokenizer.ggml.merges: merge 0 has no space: \"th\"");
    refused(
        merges(&["t h", "\u{1} \u{2}"]),
        "tokenizer.ggml.merges: merge 1 names a token that is not in the vocabulary: \"\\u{1} \\u{2}\"",
    );
    refused(
        |file| {
            let file = with(file, "qwen2");
            replaced(file, "tokenizer.ggml.token_type", |file| file.i32s("tokenizer.ggml.token_type", &[1; 7]))
        },
        "tokenizer.ggml.token_type: not as many as there are tokens: expected 4096, found 7",
    );
}

/// A file that is compiled onto itself stays.
#[test]
fn the_source_is_not_overwritten() {
    let checkpoint = Checkpoint::untied();
    let file = as_gguf(&checkpoint);
    let written = Written::new(checkpoint, &file);
    let error = compile(&written.path, &written.path, &mut |_, _| {}).unwrap_err();
    assert_message(
        &written.checkpoint.text_of(error),
        "A-model.Q.gguf: is A-model.Q.gguf of the source A-model.Q.gguf",
    );
    assert!(fs::read(&written.path).unwrap() == file.bytes());
    // Opened as a model it says what to do.
    let error = Artifact::open(&written.path, LoadMode::Mmap).err().unwrap();
    assert!(error.to_string().contains("compile it: zynfer compile FILE.gguf"), "{error}");
}
