//! Prefill and decode rates of the `cpu` backend on Qwen3-0.6B's shape with random weights, as `zynfer` would report them:
//! `cargo run --release -p zynfer-benches --example cpu_speed -- [THREADS] [PROMPT] [TOKENS]`.

use std::sync::Arc;

use zynfer::{
    cpu::{CpuBackend, CpuOptions},
    engine::{Engine, Flow, NoText, Request},
    model::{config::ModelConfig, random::RandomModel, weights::Weights},
};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let numbers: Vec<usize> = std::env::args().skip(1).map(|a| a.parse()).collect::<Result<_, _>>()?;
    let [threads, prompt, tokens] = std::array::from_fn(|i| numbers.get(i).copied().unwrap_or([0, 128, 32][i]));
    let config = ModelConfig::published("qwen3-0.6b").expect("a published shape");
    let weights = Weights::new(&config);
    let model = RandomModel::new(&weights, 1);
    let bytes = model.bytes();
    let options = CpuOptions { threads, ..CpuOptions::new(prompt + tokens) };
    let backend = CpuBackend::new(&config, &weights, Arc::new(model), options)?;
    let threads = backend.threads();
    let mut engine = Engine::new(Box::new(backend), weights, &config, [])?;
    for run in 0..3 {
        let prompt = (0..prompt as u32).map(|i| (i * 7919 + run) % 151_936).collect();
        let request = Request { prompt, max_tokens: Some(tokens as i64), ..Default::default() };
        let t = engine.generate(&request, &mut NoText, &mut |_| Flow::Continue)?.timings;
        let rate = |r: Option<f64>| r.map_or("-".into(), |r| format!("{r:.1}"));
        let decode = t.decode_tok_s();
        println!(
            "run {run}: {threads} threads, prefill {} tok {} tok/s, decode {} tok {} tok/s ({:.1} GB/s of weights)",
            t.prompt_tokens,
            rate(t.prefill_tok_s()),
            t.generated_tokens,
            rate(decode),
            decode.unwrap_or(0.0) * bytes as f64 / 1e9,
        );
    }
    Ok(())
}
