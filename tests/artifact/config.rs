//! config.json: both spellings, what is accepted without effect, and every refusal by its whole message.

use serde_json::{Value, json};
use zynfer::model::{config::CheckpointConfig, family::Family};

use crate::support::{Checkpoint, assert_message};

/// Qwen3-0.6B's published config.json.
fn published() -> Value {
    json!({
        "architectures": ["Qwen3ForCausalLM"], "attention_bias": false, "attention_dropout": 0.0, "bos_token_id": 151643,
        "eos_token_id": 151645, "head_dim": 128, "hidden_act": "silu", "hidden_size": 1024, "initializer_range": 0.02,
        "intermediate_size": 3072, "max_position_embeddings": 40960, "max_window_layers": 28, "model_type": "qwen3",
        "num_attention_heads": 16, "num_hidden_layers": 28, "num_key_value_heads": 8, "rms_norm_eps": 1e-06,
        "rope_scaling": null, "rope_theta": 1000000, "sliding_window": null, "tie_word_embeddings": true,
        "torch_dtype": "bfloat16", "transformers_version": "4.51.0", "use_cache": true, "use_sliding_window": false,
        "vocab_size": 151936
    })
}

/// Qwen2.5-0.5B's.
fn qwen2() -> Value {
    json!({
        "architectures": ["Qwen2ForCausalLM"], "attention_dropout": 0.0, "bos_token_id": 151643, "eos_token_id": 151643,
        "hidden_act": "silu", "hidden_size": 896, "initializer_range": 0.02, "intermediate_size": 4864,
        "max_position_embeddings": 32768, "max_window_layers": 24, "model_type": "qwen2", "num_attention_heads": 14,
        "num_hidden_layers": 24, "num_key_value_heads": 2, "rms_norm_eps": 1e-06, "rope_theta": 1000000.0,
        "sliding_window": 32768, "tie_word_embeddings": true, "torch_dtype": "bfloat16",
        "transformers_version": "4.40.1", "use_cache": true, "use_mrope": false, "use_sliding_window": false,
        "vocab_size": 151936
    })
}

/// SmolLM2-135M-Instruct's.
fn smollm2() -> Value {
    json!({
        "architectures": ["LlamaForCausalLM"], "attention_bias": false, "attention_dropout": 0.0, "bos_token_id": 1,
        "eos_token_id": 2, "hidden_act": "silu", "hidden_size": 576, "initializer_range": 0.041666666666666664,
        "intermediate_size": 1536, "is_llama_config": true, "max_position_embeddings": 8192, "mlp_bias": false,
        "model_type": "llama", "num_attention_heads": 9, "num_hidden_layers": 30, "num_key_value_heads": 3,
        "pad_token_id": 2, "pretraining_tp": 1, "rms_norm_eps": 1e-05, "rope_interleaved": false, "rope_scaling": null,
        "rope_theta": 100000, "tie_word_embeddings": true, "torch_dtype": "bfloat16",
        "transformers.js_config": {"kv_cache_dtype": {"fp16": "float16", "q4f16": "float16"}},
        "transformers_version": "4.42.3", "use_cache": true, "vocab_size": 49152
    })
}

fn with(changes: Value) -> Value {
    let mut config = published();
    for (key, value) in changes.as_object().unwrap() {
        config[key] = value.clone();
    }
    config
}

fn without(key: &str) -> Value {
    let mut config = published();
    config.as_object_mut().unwrap().remove(key).unwrap();
    config
}

#[track_caller]
fn accepted(config: Value) -> CheckpointConfig {
    CheckpointConfig::from_json(&config).unwrap_or_else(|e| panic!("{e}"))
}

#[track_caller]
fn refused(config: Value, message: &str) {
    let error = CheckpointConfig::from_json(&config).expect_err("accepted");
    assert_message(&error.to_string(), message);
}

#[test]
fn the_published_config_reads_as_it_stands() {
    let read = accepted(published());
    let c = &read.model;
    assert_eq!((c.hidden_size, c.intermediate_size, c.num_hidden_layers), (1024, 3072, 28));
    assert_eq!((c.num_attention_heads, c.num_key_value_heads, c.head_dim), (16, 8, 128));
    assert_eq!((c.vocab_size, c.max_position_embeddings), (151936, 40960));
    assert_eq!((c.rms_norm_eps, c.rope_theta, c.tie_word_embeddings), (1e-6, 1e6, true));
    assert_eq!((c.q_size(), c.kv_size(), c.group_size()), (2048, 1024, 2));
    assert_eq!(read.eos_token_ids, [151645]);
}

#[test]
fn both_spellings_of_theta_and_dtype_are_read() {
    let mut config = without("rope_theta");
    config["rope_parameters"] = json!({"rope_theta": 5e6, "rope_type": "default"});
    assert_eq!(accepted(config).model.rope_theta, 5e6);
    let both = json!({"rope_parameters": {"rope_theta": 1e6, "rope_type": "default"}, "dtype": "bfloat16"});
    assert_eq!(accepted(with(both)).model.rope_theta, 1e6);
    refused(
        with(json!({"rope_parameters": {"rope_theta": 10000.0, "rope_type": "default"}})),
        "rope_parameters.rope_theta: 10000 contradicts rope_theta 1000000",
    );
    refused(with(json!({"dtype": "float16"})), "dtype: dtype is \"float16\" but torch_dtype is \"bfloat16\"");
    refused(
        with(json!({"torch_dtype": "float32"})),
        "torch_dtype: expected \"bfloat16\", found \"float32\": save the checkpoint in bfloat16 first, rounding is not done silently",
    );
    assert_eq!(accepted(without("torch_dtype")), accepted(published()));
}

#[test]
fn theta_is_never_guessed() {
    let absent = "rope_theta: absent, also in rope_parameters: it changes every position and is never guessed";
    refused(without("rope_theta"), absent);
    refused(with(json!({"rope_theta": null, "rope_parameters": {"rope_type": "default"}})), absent);
    refused(with(json!({"rope_theta": 0})), "rope_theta: expected a number above 1 and at most 1e12, found 0");
    refused(with(json!({"rope_theta": "1e6"})), "rope_theta: expected a number, found \"1e6\"");
}

#[test]
fn only_plain_rotary_embeddings_are_accepted() {
    for plain in [json!(null), json!({}), json!({"rope_type": "default"}), json!({"type": "default", "factor": null})] {
        assert_eq!(accepted(with(json!({"rope_scaling": plain}))), accepted(published()));
    }
    refused(
        with(json!({"rope_scaling": {"factor": 4.0, "original_max_position_embeddings": 32768, "type": "yarn"}})),
        "rope_scaling.type: expected \"default\", found \"yarn\"",
    );
    refused(
        with(json!({"rope_scaling": {"rope_type": "spiral"}})),
        "rope_scaling.rope_type: expected \"default\", found \"spiral\"",
    );
    refused(
        with(json!({"rope_parameters": {"rope_type": "default", "partial_rotary_factor": 0.5}})),
        "rope_parameters.partial_rotary_factor: unsupported rotary setting with value 0.5",
    );
    refused(with(json!({"rope_scaling": 4})), "rope_scaling: expected an object or null, found 4");
}

#[test]
fn a_sliding_window_counts_only_when_it_is_used() {
    let window = json!({"sliding_window": 32768, "use_sliding_window": false, "max_window_layers": 28});
    assert_eq!(accepted(with(window)), accepted(published()));
    refused(
        with(json!({"sliding_window": 32768, "use_sliding_window": true})),
        "use_sliding_window: expected false, found true: it changes what is computed and is not supported",
    );
    assert_eq!(accepted(with(json!({"layer_types": vec!["full_attention"; 28]}))), accepted(published()));
    let mut types = vec!["full_attention"; 28];
    types[27] = "sliding_attention";
    refused(
        with(json!({"layer_types": types})),
        "layer_types[27]: expected \"full_attention\", found \"sliding_attention\"",
    );
    refused(
        with(json!({"layer_types": ["full_attention"]})),
        "layer_types: expected num_hidden_layers 28 entries, found 1",
    );
}

#[test]
fn an_explicit_head_dim_wins_and_only_an_absent_one_is_derived() {
    let wide = with(json!({"hidden_size": 2560, "num_attention_heads": 32, "head_dim": 128}));
    assert_eq!((accepted(wide.clone()).model.head_dim, accepted(wide).model.q_size()), (128, 4096));
    assert_eq!(accepted(without("head_dim")).model.head_dim, 64);
    assert_eq!(accepted(with(json!({"head_dim": null}))).model.head_dim, 64);
    let mut odd = without("head_dim");
    odd["num_attention_heads"] = json!(24);
    refused(odd, "head_dim: absent, and hidden_size 1024 is no multiple of num_attention_heads 24");
    refused(with(json!({"head_dim": 96})), "head_dim: expected 64 or 128, found 96");
}

#[test]
fn sizes_outside_what_the_kernels_compute_are_refused() {
    for (key, value, message) in [
        ("hidden_size", json!(1000), "hidden_size: expected a multiple of 64, found 1000"),
        ("intermediate_size", json!(3000), "intermediate_size: expected a multiple of 64, found 3000"),
        (
            "num_key_value_heads",
            json!(7),
            "num_attention_heads: expected a multiple of num_key_value_heads 7, found 16",
        ),
        ("num_key_value_heads", json!(0), "num_key_value_heads: expected a positive integer, found 0"),
        ("num_hidden_layers", json!(-1), "num_hidden_layers: expected a positive integer, found -1"),
        ("num_hidden_layers", json!(28.0), "num_hidden_layers: expected a positive integer, found 28.0"),
        ("num_hidden_layers", json!(1025), "num_hidden_layers: expected 1 to 1024, found 1025"),
        ("hidden_size", json!(u64::MAX), "hidden_size: expected 1 to 131072, found 18446744073709551615"),
        ("intermediate_size", json!(1u64 << 40), "intermediate_size: expected 1 to 1048576, found 1099511627776"),
        ("vocab_size", json!(1u64 << 32), "vocab_size: expected 1 to 4194304, found 4294967296"),
        ("num_attention_heads", json!(1 << 20), "num_attention_heads: expected 1 to 1024, found 1048576"),
        (
            "max_position_embeddings",
            json!(1 << 30),
            "max_position_embeddings: expected 1 to 16777216, found 1073741824",
        ),
        ("rms_norm_eps", json!(0), "rms_norm_eps: expected a number above 0 and at most 0.1, found 0"),
        ("rms_norm_eps", json!(1), "rms_norm_eps: expected a number above 0 and at most 0.1, found 1"),
        ("rms_norm_eps", json!([1e-6]), "rms_norm_eps: expected a number, found [1e-6]"),
        ("tie_word_embeddings", json!(1), "tie_word_embeddings: expected true or false, found 1"),
        ("eos_token_id", json!(151936), "eos_token_id: expected an id below vocab_size 151936, found 151936"),
        ("eos_token_id", json!([1, "x"]), "eos_token_id: expected a token id, found \"x\""),
    ] {
        // Heads first: the derived bound must not overflow before the size itself is refused.
        refused(with(json!({key: value})), message);
    }
}

#[test]
fn what_changes_the_mathematics_is_never_ignored() {
    for (changes, message) in [
        (
            json!({"model_type": "mistral"}),
            "model_type: expected \"qwen3\" or \"qwen2\" or \"llama\", found \"mistral\"",
        ),
        (
            json!({"model_type": "qwen2"}),
            "architectures: expected [\"Qwen2ForCausalLM\"], found [\"Qwen3ForCausalLM\"]",
        ),
        (
            json!({"architectures": ["Qwen3MoeForCausalLM"]}),
            "architectures: expected [\"Qwen3ForCausalLM\"], found [\"Qwen3MoeForCausalLM\"]",
        ),
        (json!({"hidden_act": "gelu"}), "hidden_act: expected \"silu\", found \"gelu\""),
        (
            json!({"attention_bias": true}),
            "attention_bias: expected false, found true: it changes what is computed and is not supported",
        ),
        (
            json!({"quantization_config": {"bits": 4}}),
            "quantization_config: expected null, found {\"bits\":4}: it changes what is computed and is not supported",
        ),
        (
            json!({"logit_softcap": 30.0}),
            "logit_softcap: unknown key with value 30.0: it may change what is computed, so it is refused",
        ),
        (
            json!({"num_experts": null}),
            "num_experts: unknown key with value null: it may change what is computed, so it is refused",
        ),
    ] {
        refused(with(changes), message);
    }
    for key in ["model_type", "hidden_act", "hidden_size", "rms_norm_eps", "tie_word_embeddings", "vocab_size"] {
        refused(without(key), &format!("{key}: absent, and it is never guessed"));
    }
    refused(json!([1]), "config: expected an object, found a list");
}

#[test]
fn published_configs_of_the_other_families_read_as_they_stand() {
    let read = accepted(qwen2());
    let c = &read.model;
    assert_eq!((c.family, c.family.qkv_bias(), c.family.qk_norm()), (Family::Qwen2, true, false));
    assert_eq!((c.num_attention_heads, c.num_key_value_heads, c.head_dim, c.group_size()), (14, 2, 64, 7));
    assert_eq!((c.hidden_size, c.max_position_embeddings, c.rope_theta), (896, 32768, 1e6));
    let read = accepted(smollm2());
    let c = &read.model;
    assert_eq!((c.family, c.family.qkv_bias(), c.family.qk_norm()), (Family::Llama, false, false));
    assert_eq!((c.num_attention_heads, c.num_key_value_heads, c.head_dim, c.group_size()), (9, 3, 64, 3));
    assert_eq!((c.hidden_size, c.rms_norm_eps, c.rope_theta, c.vocab_size), (576, 1e-5, 1e5, 49152));
    assert_eq!(read.eos_token_ids, [2]);
    // The same models as the registry has them.
    for (name, config) in [("qwen3-0.6b", published()), ("qwen2.5-0.5b", qwen2()), ("smollm2-135m", smollm2())] {
        assert_eq!(zynfer::model::config::ModelConfig::published(name), Some(accepted(config).model), "{name}");
    }
}

#[test]
fn each_family_has_its_own_keys() {
    let unsupported = "it changes what is computed and is not supported";
    let unknown =
        |value: &str| format!("unknown key with value {value}: it may change what is computed, so it is refused");
    for (config, key, value, message) in [
        (qwen2(), "use_sliding_window", json!(true), format!("expected false, found true: {unsupported}")),
        (qwen2(), "use_mrope", json!(true), format!("expected false, found true: {unsupported}")),
        (qwen2(), "attention_bias", json!(true), unknown("true")),
        (qwen2(), "rope_interleaved", json!(false), unknown("false")),
        (smollm2(), "attention_bias", json!(true), format!("expected false, found true: {unsupported}")),
        (smollm2(), "mlp_bias", json!(true), format!("expected false, found true: {unsupported}")),
        (smollm2(), "rope_interleaved", json!(true), format!("expected false, found true: {unsupported}")),
        (smollm2(), "sliding_window", json!(4096), unknown("4096")),
        (smollm2(), "hidden_act", json!("gelu"), "expected \"silu\", found \"gelu\"".into()),
        (published(), "use_mrope", json!(false), unknown("false")),
    ] {
        let mut changed = config;
        changed[key] = value;
        refused(changed, &format!("{key}: {message}"));
    }
    let mut scaled = smollm2();
    scaled["rope_scaling"] = json!({"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192, "rope_type": "llama3"});
    refused(scaled, "rope_scaling.rope_type: expected \"default\", found \"llama3\"");
}

#[test]
fn a_folder_names_its_config_file() {
    let checkpoint = Checkpoint::untied().config("residual_scale", json!(0.5));
    assert_message(
        &checkpoint.refusal(),
        "model/config.json: residual_scale: unknown key with value 0.5: it may change what is computed, so it is refused",
    );
    checkpoint.write("config.json", "{\"hidden_size\": 64, \"hidden_size\": 128}");
    assert_message(
        &checkpoint.refusal(),
        "model/config.json: cannot be read as JSON: the key `hidden_size` stands twice at line 1 column 33",
    );
    checkpoint.write("config.json", "{\"hidden_size\": ");
    assert_message(
        &checkpoint.refusal(),
        "model/config.json: cannot be read as JSON: EOF while parsing a value at line 1 column 16",
    );
    checkpoint.write("config.json", "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 726\n");
    assert_message(
        &checkpoint.refusal(),
        "model/config.json: is a Git LFS pointer, not the file itself: run `git lfs pull` in its folder: expected 726 bytes, found 65",
    );
    std::fs::remove_file(checkpoint.path("config.json")).unwrap();
    assert_message(&checkpoint.refusal(), "model/config.json: not there: a Hugging Face folder has a config.json");
}

/// UX-36: the shapes follow from head_dim, and a contradiction names both.
#[test]
fn a_head_dim_that_does_not_fit_the_weights_names_both_shapes() {
    let checkpoint = Checkpoint::untied().config("head_dim", json!(128));
    assert_message(
        &checkpoint.refusal(),
        "model: model.layers.0.self_attn.q_proj.weight: wrong shape, as are \
         model.layers.0.self_attn.k_proj.weight [256, 320] not [128, 320], \
         model.layers.0.self_attn.v_proj.weight [256, 320] not [128, 320], \
         model.layers.0.self_attn.q_norm.weight [128] not [64], \
         model.layers.0.self_attn.k_norm.weight [128] not [64], \
         model.layers.0.self_attn.o_proj.weight [320, 768] not [320, 384], \
         model.layers.1.self_attn.q_proj.weight [768, 320] not [384, 320], \
         model.layers.1.self_attn.k_proj.weight [256, 320] not [128, 320], \
         model.layers.1.self_attn.v_proj.weight [256, 320] not [128, 320] and 3 more: \
         expected [768, 320], found [384, 320]",
    );
    // Derived as hidden/heads it would be 53.3: refused, not rounded.
    assert_message(
        &Checkpoint::untied().without("head_dim").refusal(),
        "model/config.json: head_dim: absent, and hidden_size 320 is no multiple of num_attention_heads 6",
    );
}
