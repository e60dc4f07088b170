//! The tokenizer and detokenizer against the reference tokenizer's ids (qwen3-goldens, tiny-qwen3), and laws that hold for any text.
//! Not here: the chat template (text/template.rs).

use std::sync::OnceLock;
use std::time::Duration;

use proptest::prelude::*;
use sha2::{Digest, Sha256};
use zynfer::text::tokenizer::MAX_SPACES;
use zynfer::text::{Detokenizer, Special, Tokenizer};
use zynfer_tests::fixtures;

/// Published hash of tokenizer.json (qwen3-goldens/README.md).
const QWEN3_SHA256: &str = "aeb13307a71acd8fe81861d94ad54ab689df773318809eed3cbe794b4492dae4";

fn sha256_hex(data: &[u8]) -> String {
    Sha256::digest(data).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn qwen3() -> &'static Tokenizer {
    static TOKENIZER: OnceLock<Tokenizer> = OnceLock::new();
    TOKENIZER.get_or_init(|| {
        let json = std::fs::read(fixtures::qwen3_tokenizer().join("tokenizer.json")).expect("readable");
        assert_eq!(sha256_hex(&json), QWEN3_SHA256, "not the published tokenizer.json: run ./x setup-tests");
        Tokenizer::from_bytes(&json).expect("the published tokenizer loads")
    })
}

fn tiny() -> &'static Tokenizer {
    static TOKENIZER: OnceLock<Tokenizer> = OnceLock::new();
    TOKENIZER.get_or_init(|| Tokenizer::from_bytes(&fixtures::read("tiny-qwen3/tokenizer.json")).expect("loads"))
}

fn ids_of(value: &serde_json::Value) -> Vec<u32> {
    value.as_array().expect("ids").iter().map(|id| id.as_u64().expect("an id") as u32).collect()
}

fn encode(text: &str) -> Vec<u32> {
    qwen3().encode(text, Special::Parse).expect("encodes")
}

#[test]
fn every_golden_text_has_the_reference_ids_and_decodes_as_the_reference_does() {
    let goldens = fixtures::read_json("qwen3-goldens/tokenizer_goldens.json");
    let mut compared = 0;
    for (name, case) in goldens.as_object().expect("cases") {
        if name == "_meta" {
            continue;
        }
        compared += 1;
        if let Some(repeat) = case.get("text_repeat") {
            let text = repeat[0].as_str().expect("unit").repeat(repeat[1].as_u64().expect("count") as usize);
            let ids = encode(&text);
            assert_eq!(ids.len() as u64, case["n_ids"], "{name}");
            let list = format!("[{}]", ids.iter().map(u32::to_string).collect::<Vec<_>>().join(", "));
            assert_eq!(sha256_hex(list.as_bytes()), case["sha256_ids_json"], "{name}");
            assert_eq!(qwen3().decode(&ids, false), text, "{name}");
            continue;
        }
        let ids = encode(case["text"].as_str().expect("text"));
        assert_eq!(ids, ids_of(&case["ids"]), "{name}");
        assert_eq!(qwen3().decode(&ids, false), case["decode_keep"], "{name}");
        assert_eq!(qwen3().decode(&ids, true), case["decode_skip"], "{name}");
    }
    assert_eq!(compared, 58, "cases in the golden file");
}

#[test]
fn tiny_qwen3_prompts_have_the_reference_ids() {
    let golden = fixtures::read_json("tiny-qwen3/golden.json");
    let cases = golden["cases"].as_array().expect("cases");
    assert_eq!(cases.len(), 12);
    for case in cases {
        let prompt = case["prompt"].as_str().expect("prompt");
        let ids = ids_of(&case["ids"]);
        assert_eq!(tiny().encode(prompt, Special::Parse).expect("encodes"), ids, "{prompt:?}");
        assert_eq!(tiny().decode(&ids, false), prompt);
        assert_eq!(tiny().decode(&ids_of(&case["greedy48"]), true), case["text"], "{prompt:?}");
    }
}

#[test]
fn validation_text_of_tiny_qwen3_has_the_recorded_ids() {
    let text = String::from_utf8(fixtures::read("tiny-qwen3/validation.txt")).expect("UTF-8");
    let ids: Vec<u32> = fixtures::read("tiny-qwen3/validation.u16")
        .chunks_exact(2)
        .map(|pair| u32::from(u16::from_le_bytes([pair[0], pair[1]])))
        .collect();
    assert_eq!(tiny().encode(&text, Special::Parse).expect("encodes"), ids);
}

#[test]
fn white_space_and_symbols_keep_their_places() {
    for (text, ids) in [
        ("->", vec![405]),
        ("(x):\n", vec![2075, 982]),
        ("1234567890", vec![16, 17, 18, 19, 20, 21, 22, 23, 24, 15]),
        (" 42", vec![220, 19, 17]),
        ("a\r\nb", vec![64, 319, 65]),
        ("   x", vec![256, 856]),
        ("x   \n  y", vec![87, 5872, 220, 379]),
        ("", vec![]),
    ] {
        assert_eq!(encode(text), ids, "{text:?}");
    }
    let trailing = encode("The capital of France is ");
    assert_eq!(qwen3().decode(&trailing, true), "The capital of France is ");
}

#[test]
fn added_tokens_match_whole_and_special_decides_only_what_decoding_hides() {
    assert_eq!(encode("<think>foo</think>"), [151_667, 7975, 151_668]);
    assert_eq!(qwen3().decode(&[151_667, 198, 151_668], true), "<think>\n</think>");
    for id in 151_643..=151_668 {
        let text = qwen3().decode(&[id], false);
        assert!(qwen3().is_added(id) && text.starts_with('<'), "{id}");
        assert_eq!(encode(&text), [id]);
        let hidden = qwen3().decode(&[id], true).is_empty();
        assert_eq!(hidden, id <= 151_656, "{id} {text}");
    }
    assert!(!qwen3().is_added(151_642) && !qwen3().is_added(151_669));
    assert_eq!((qwen3().vocab_size(), tiny().vocab_size()), (151_669, 4096));
}

#[test]
fn text_next_to_an_added_token_is_still_normalized() {
    assert_eq!(encode("e\u{301}<|im_end|>e\u{301}"), [963, 151_645, 963]);
    assert_eq!(encode("\u{1100}\u{1161}\u{11a8}"), [126_317]);
}

#[test]
fn as_text_makes_every_added_token_ordinary_pieces() {
    for tokenizer in [qwen3(), tiny()] {
        for token in tokenizer.added_tokens() {
            for text in [token.content.clone(), format!("a{}b", token.content), format!(" {0}{0}\n", token.content)] {
                let ids = tokenizer.encode(&text, Special::AsText).expect("encodes");
                assert!(ids.iter().all(|&id| !tokenizer.is_added(id)), "{text:?} gave {ids:?}");
                assert_eq!(tokenizer.decode(&ids, true), text);
            }
        }
    }
}

#[test]
fn ids_outside_the_vocabulary_are_empty() {
    assert_eq!(qwen3().decode(&[64, 151_669, 151_935, u32::MAX, 65], false), "ab");
    assert_eq!(qwen3().token_bytes(151_669), None);
}

#[test]
fn a_family_emoji_streams_without_half_characters() {
    let ids = encode("👨‍👩‍👧‍👦");
    let mut stream = Detokenizer::new(qwen3(), true);
    let mut deltas: Vec<String> = ids.iter().map(|&id| stream.push(id)).collect();
    deltas.push(stream.finish());
    assert_eq!(deltas.concat(), "👨‍👩‍👧‍👦");
    assert!(deltas.iter().all(|delta| !delta.contains('\u{fffd}')), "{deltas:?}");
    assert_eq!(ids[1..3], [378, 235]);
    assert_eq!((deltas[1].as_str(), deltas[2].as_str()), ("", "\u{200d}"));
}

/// Processor time this thread has used: a busy machine does not count.
fn thread_time() -> Duration {
    let schedstat = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux counts the time of threads");
    let nanoseconds = schedstat.split(' ').next().and_then(|field| field.parse().ok());
    Duration::from_nanos(nanoseconds.expect("the first field is nanoseconds on the processor"))
}

/// Time of one run: the best of three.
fn best_of_three(mut run: impl FnMut()) -> Duration {
    let once = |_| {
        let start = thread_time();
        run();
        thread_time() - start
    };
    (0..3).map(once).min().expect("three runs")
}

#[test]
fn time_grows_with_the_text_and_not_with_its_square() {
    let json: String = (0..1400).map(|n| format!("{{\"id\":{n},\"name\":\"row {n}\"}},")).collect();
    let cases: [(&str, String, Option<usize>); 5] = [
        ("a", "a".repeat(100_000), Some(12_500)),
        ("space", " ".repeat(100_000), Some(782)),
        ("underscore", "_".repeat(100_000), Some(1_563)),
        ("cjk", "一".repeat(100_000), Some(50_000)),
        ("json", json, None),
    ];
    for (name, text, count) in &cases {
        let fourfold = text.repeat(4);
        // Both ways share the algorithm; the shortest case looks at the second one too.
        for special in if *name == "space" { &[Special::Parse, Special::AsText][..] } else { &[Special::Parse] } {
            let special = *special;
            let ids = qwen3().encode(text, special).expect("encodes").len();
            assert!(count.is_none_or(|count| count == ids), "{name}: {ids} ids");
            let once = best_of_three(|| drop(qwen3().encode(text, special)));
            let four_times = best_of_three(|| drop(qwen3().encode(&fourfold, special)));
            // n log n takes 4.4 times as long, n² 16 times: 2.6 per doubling is between them.
            let ratio = four_times.as_secs_f64() / once.as_secs_f64();
            assert!(ratio < 2.6 * 2.6, "{name} {special:?}: n in {once:?}, 4n in {four_times:?}");
            assert!(once < Duration::from_secs(1), "{name} {special:?}: {once:?}");
        }
    }
}

#[test]
fn the_longest_run_of_white_space_is_right_and_a_longer_one_is_refused() {
    // Behind the run the pre-tokenizer must still split; 856 is " x", 220 a space, 19 and 17 digits.
    for (special, unit) in [(Special::Parse, " "), (Special::AsText, "\u{3000}")] {
        let run = unit.repeat(MAX_SPACES);
        let error = qwen3().encode(&format!("{run} x 42"), special).expect_err("one too many").to_string();
        assert!(error.contains("500001") && error.contains("500000"), "{error}");
        let ids = qwen3().encode(&format!("{}  x 42", &run[2 * unit.len()..]), special).expect("encodes");
        assert_eq!(ids[ids.len() - 4..], [856, 220, 19, 17], "{unit:?}");
        assert_eq!(qwen3().decode(&ids, false).chars().count(), MAX_SPACES + 4);
    }
    let lines = format!("{}\n{}x", " ".repeat(MAX_SPACES / 2), " ".repeat(MAX_SPACES / 2 - 1));
    assert_eq!(qwen3().decode(&encode(&lines), false), lines);
    assert_eq!(encode(&lines).last(), Some(&856));
}

fn refusal(change: impl FnOnce(&mut serde_json::Value)) -> String {
    let mut json = fixtures::read_json("tiny-qwen3/tokenizer.json");
    change(&mut json);
    let error = Tokenizer::from_bytes(json.to_string().as_bytes()).expect_err("refused").to_string();
    assert!(error.starts_with("tokenizer.json: ") && !error.contains('\n'), "{error}");
    error
}

#[test]
fn files_that_would_lose_text_are_refused() {
    assert!(refusal(|json| json["decoder"] = serde_json::json!({"type": "Fuse"})).contains("ByteLevel"));
    assert!(refusal(|json| json["model"]["dropout"] = serde_json::json!(0.1)).contains("dropout"));
    let model = serde_json::json!({"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "a"});
    assert!(refusal(|json| json["model"] = model).contains("not BPE"));
    let error = refusal(|json| {
        let vocab = json["model"]["vocab"].as_object_mut().expect("vocab");
        vocab.insert("zzzz".into(), serde_json::json!(4_000_000_000u32));
    });
    assert!(error.contains("4000000000"), "{error}");
    for damaged in [&b""[..], b"{", b"[]", b"\xff\xfe", b"version https://git-lfs.github.com/spec/v1\n"] {
        assert!(Tokenizer::from_bytes(damaged).is_err());
    }
}

/// Published vocabularies may lack bytes (SmolLM2's does): other text is as before, text with such a byte is refused in both ways.
#[test]
fn text_with_a_byte_that_has_no_token_is_refused() {
    let mut json = fixtures::read_json("tiny-qwen3/tokenizer.json");
    for character in ["\u{104}", "ÿ"] {
        json["model"]["vocab"].as_object_mut().expect("vocab").remove(character).expect("the byte's token");
    }
    let tokenizer = Tokenizer::from_bytes(json.to_string().as_bytes()).expect("loads");
    for special in [Special::Parse, Special::AsText] {
        let text = "Once upon ÿ a time \u{5}, naïve";
        assert_eq!(tokenizer.encode(text, special).expect("encodes"), tiny().encode(text, special).expect("encodes"));
        let error = tokenizer.encode("ab\u{4}c", special).expect_err("refused").to_string();
        assert!(error.contains("byte 2 of the text is 0x04"), "{error}");
    }
}

#[test]
fn truncation_and_padding_of_the_file_are_not_applied() {
    let mut json = fixtures::read_json("tiny-qwen3/tokenizer.json");
    json["truncation"] =
        serde_json::json!({"direction": "Right", "max_length": 2, "strategy": "LongestFirst", "stride": 0});
    json["padding"] = serde_json::json!({"strategy": {"Fixed": 64}, "direction": "Right", "pad_to_multiple_of": null,
        "pad_id": 0, "pad_type_id": 0, "pad_token": "<|endoftext|>"});
    let tokenizer = Tokenizer::from_bytes(json.to_string().as_bytes()).expect("loads");
    for special in [Special::Parse, Special::AsText] {
        let text = "Once upon a time there was";
        assert_eq!(tokenizer.encode(text, special).expect("encodes"), tiny().encode(text, special).expect("encodes"));
    }
}

#[test]
fn both_spellings_of_merges_load_alike() {
    let mut json = fixtures::read_json("tiny-qwen3/tokenizer.json");
    for merge in json["model"]["merges"].as_array_mut().expect("merges") {
        let spelled = format!("{} {}", merge[0].as_str().expect("left"), merge[1].as_str().expect("right"));
        *merge = spelled.into();
    }
    let tokenizer = Tokenizer::from_bytes(json.to_string().as_bytes()).expect("loads");
    let text = String::from_utf8(fixtures::read("tiny-qwen3/validation.txt")).expect("UTF-8");
    let both =
        [&tokenizer, tiny()].map(|tokenizer| tokenizer.encode(&text[..20_000], Special::Parse).expect("encodes"));
    assert_eq!(both[0], both[1]);
}

/// Text in which control tokens, their halves and awkward characters are likely.
fn hostile_text() -> impl Strategy<Value = String> {
    let tokens: Vec<String> = qwen3().added_tokens().iter().map(|token| token.content.clone()).collect();
    let halves: Vec<String> = tokens.iter().map(|text| text[..text.len() / 2].to_string()).collect();
    let part = prop_oneof![
        3 => proptest::sample::select(tokens),
        2 => proptest::sample::select(halves),
        2 => any::<char>().prop_map(String::from),
        2 => "[ \\t\\r\\n]{1,4}",
        2 => "[a-zA-Z0-9<>|_/]{1,8}",
    ];
    proptest::collection::vec(part, 0..12).prop_map(|parts| parts.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn as_text_never_gives_an_added_id_and_keeps_the_text(text in hostile_text()) {
        let ids = qwen3().encode(&text, Special::AsText).expect("encodes");
        prop_assert!(ids.iter().all(|&id| !qwen3().is_added(id)));
        let decoded = qwen3().decode(&ids, true);
        // The normalizer composes; composed once, the text is a fixed point.
        let again = qwen3().encode(&decoded, Special::AsText).expect("encodes");
        prop_assert_eq!(&ids, &again);
        if text.is_ascii() {
            prop_assert_eq!(decoded, text);
        }
    }

    #[test]
    fn deltas_are_the_decoded_text(ids in proptest::collection::vec(0u32..152_000, 0..60), skip in any::<bool>()) {
        let mut stream = Detokenizer::new(qwen3(), skip);
        let mut text = String::new();
        for &id in &ids {
            text.push_str(&stream.push(id));
        }
        text.push_str(&stream.finish());
        prop_assert_eq!(text, qwen3().decode(&ids, skip));
    }

    #[test]
    fn decoding_is_the_references_decoding(ids in proptest::collection::vec(0u32..152_000, 0..40), skip in any::<bool>()) {
        prop_assert_eq!(qwen3().decode(&ids, skip), reference().decode(&ids, skip).expect("decodes"));
    }
}

/// The crate's own tokenizer, whose decode the goldens' tool shares.
fn reference() -> &'static tokenizers::Tokenizer {
    static TOKENIZER: OnceLock<tokenizers::Tokenizer> = OnceLock::new();
    TOKENIZER.get_or_init(|| {
        tokenizers::Tokenizer::from_file(fixtures::qwen3_tokenizer().join("tokenizer.json"))
            .expect("the published tokenizer loads")
    })
}
