//! What a model thinks apart from what it answers, by token and not by text. Not here: where the two are printed (cli tests).

use zynfer::text::reasoning::{Part, ReasoningSplit};
use zynfer::text::{Special, Tokenizer};
use zynfer_tests::fixtures;

fn split(tokenizer: &Tokenizer, prompt: &str, output: &[u32]) -> (String, String) {
    let prompt = tokenizer.encode(prompt, Special::Parse).expect("encodes");
    let mut stream = ReasoningSplit::new(tokenizer, &prompt);
    let (mut reasoning, mut answer) = (String::new(), String::new());
    let mut parts: Vec<(Part, String)> = output.iter().map(|&id| stream.push(id)).collect();
    parts.push(stream.finish());
    for (part, text) in parts {
        match part {
            Part::Reasoning => reasoning.push_str(&text),
            Part::Answer => answer.push_str(&text),
        }
    }
    (reasoning, answer)
}

#[test]
fn reasoning_is_told_by_its_tokens() {
    let tokenizer = Tokenizer::from_bytes(&fixtures::read("tiny-qwen3/tokenizer.json")).expect("loads");
    let ids = |text: &str, special| tokenizer.encode(text, special).expect("encodes");
    let opened = "<|im_start|>assistant\n<think>\n";
    let closed = "<|im_start|>assistant\n<think>\n\n</think>\n\n";
    for (prompt, output, reasoning, answer) in [
        ("", "<think>\nplan one\n\nplan two\n</think>\n\nHello \n", "plan one\n\nplan two", "Hello \n"),
        ("", " Hello", "", " Hello"),
        ("", "<think>\n\n</think>\n\nHello", "", "Hello"),
        (opened, "plan\n</think>\n\nHello", "plan", "Hello"),
        (closed, "Hello\n", "", "Hello\n"),
        (closed, "\n\nHello", "", "\n\nHello"),
        ("", "<think>\ncut short", "cut short", ""),
        ("", "a<think>b</think>c<think>d</think>e", "bd", "ace"),
        ("", "</think>x", "", "</think>x"),
        ("", "<|im_end|>", "", ""),
    ] {
        let found = split(&tokenizer, prompt, &ids(output, Special::Parse));
        assert_eq!(found, (reasoning.to_string(), answer.to_string()), "{output:?}");
    }
    // The same characters written piece by piece are the answer's own.
    let spelled = ids("<think>x</think>", Special::AsText);
    assert_eq!(split(&tokenizer, "", &spelled), (String::new(), "<think>x</think>".to_string()));
}
