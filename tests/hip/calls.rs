//! What the decode loop asks of HIP, call by call: a library compiled on the spot stands between the host and the emulator's, forwards
//! everything and writes down each call that allocates, frees, copies, fills or launches.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use zynfer::artifact::{Artifact, LoadMode};
use zynfer::engine::{Engine, Event, Flow, NoText, Request, SamplingParams};
use zynfer::gpu::{self, GpuKind, Options};
use zynfer::hip::Search;
use zynfer::hip::decode::DecodePlan;
use zynfer::hip::ffi::REQUIRED;
use zynfer::model::config::ModelConfig;
use zynfer::model::forward::forward;
use zynfer::model::random::RandomModel;
use zynfer::model::weights::{TensorSource, Weights};
use zynfer_tests::fixtures::fixture;

/// Calls of the decode loop that are looked at.
const TOKENS: usize = 3;
/// `hipMemcpyDeviceToHost`, by AMD's headers.
const DEVICE_TO_HOST: u64 = 2;

/// Calls that are written down: C's parameters, and the two of them (or 0) that are written beside the name. All others pass unseen.
const NOTED: &[(&str, &str, &str, [&str; 2])] = &[
    ("hipMalloc", "void *p, size_t n", "p, n", ["n", "0"]),
    ("hipFree", "void *p", "p", ["0", "0"]),
    ("hipMemsetAsync", "void *p, int v, size_t n, void *s", "p, v, n, s", ["n", "0"]),
    ("hipMemcpyAsync", "void *d, void *p, size_t n, int k, void *s", "d, p, n, k, s", ["n", "k"]),
    (
        "hipModuleLaunchKernel",
        "void *f, unsigned x, unsigned y, unsigned z, unsigned a, unsigned b, unsigned c, unsigned l, void *s, void *p, void *e",
        "f, x, y, z, a, b, c, l, s, p, e",
        ["x", "0"],
    ),
    ("hipStreamBeginCapture", "void *s, int m", "s, m", ["0", "0"]),
    ("hipGraphLaunch", "void *g, void *s", "g, s", ["0", "0"]),
];
/// Not among the host's required symbols, but asked for to choose a card and a grid.
const OPTIONAL: &[&str] = &["hipGetDevicePropertiesR0600", "hipModuleOccupancyMaxActiveBlocksPerMultiprocessor"];

/// Compiles the library that stands between and writes to `log`.
fn between(folder: &Path, log: &Path) -> PathBuf {
    let emulator = Search::emulator().open().expect("cargo builds the emulator's library with this test");
    let mut c = String::from("#include <dlfcn.h>\n#include <stdio.h>\n#include <stdlib.h>\nstatic FILE *notes;\n");
    let mut find = String::new();
    for name in REQUIRED.iter().chain(OPTIONAL) {
        let _ = writeln!(c, "__attribute__((visibility(\"hidden\"))) int (*real_{name})();");
        let _ = writeln!(find, "if (!(real_{name} = dlsym(library, \"{name}\"))) abort();");
        if let Some((_, parameters, arguments, [first, second])) = NOTED.iter().find(|noted| noted.0 == *name) {
            let _ = writeln!(
                c,
                "int {name}({parameters}) {{ fprintf(notes, \"{name} %lu %lu\\n\", (long){first}, (long){second}); fflush(notes); \
                 return ((int (*)({parameters}))real_{name})({arguments}); }}"
            );
        } else {
            let _ = writeln!(c, "__asm__(\".globl {name}\\n{name}: jmp *real_{name}(%rip)\\n\");");
        }
    }
    let (emulator, log) = (emulator.path(), log);
    let _ = writeln!(
        c,
        "__attribute__((constructor)) static void begin(void) {{ void *library = dlopen({emulator:?}, RTLD_NOW); \
         notes = fopen({log:?}, \"w\"); if (!library || !notes) abort();\n{find} }}"
    );
    let (source, library) = (folder.join("between.c"), folder.join("libbetween.so"));
    std::fs::write(&source, c).expect("its source");
    let mut cc = Command::new("cc");
    let output = cc.args(["-shared", "-fPIC", "-O1", "-w", "-o"]).arg(&library).arg(&source).arg("-ldl").output();
    let output = output.expect("`cc` is there: rustc links with it too");
    assert!(output.status.success(), "cc: {}", String::from_utf8_lossy(&output.stderr));
    library
}

/// One call: its name and the two numbers.
type Note = (String, u64, u64);

fn notes(log: &Path) -> Vec<Note> {
    let text = std::fs::read_to_string(log).expect("the library made it");
    let note = |line: &str| {
        let mut words = line.split(' ');
        let name = words.next().expect("a name").to_string();
        let mut number = || words.next().and_then(|word| word.parse().ok()).expect("a number");
        (name, number(), number())
    };
    text.lines().map(note).collect()
}

/// Shapes whose calls are counted: the tiny checkpoint, and as many layers as Qwen3-0.6B has, all of them narrow.
fn subjects() -> [(&'static str, ModelConfig, Weights, Box<dyn TensorSource>); 2] {
    let artifact = Artifact::open(&fixture("tiny-qwen3"), LoadMode::Mmap).expect("the fixture");
    let tiny = artifact.config().clone();
    let narrow = ModelConfig {
        hidden_size: 64,
        intermediate_size: 64,
        num_attention_heads: 2,
        num_key_value_heads: 1,
        vocab_size: 256,
        ..ModelConfig::published("qwen3-0.6b").expect("published")
    };
    let [of_tiny, of_narrow] = [&tiny, &narrow].map(Weights::new);
    let random = RandomModel::new(&of_narrow, 1);
    [("tiny", tiny, of_tiny, Box::new(artifact)), ("narrow", narrow, of_narrow, Box::new(random))]
}

/// After the first call that made it, a step of greedy decode allocates nothing, frees nothing, fills nothing and captures nothing; it
/// copies nothing to the card, and from it the chosen ids; and it launches as often as its plan says: twice a layer and once more, which
/// a graph has as its nodes, or once.
#[test]
fn greedy_decode_asks_for_launches_and_ids_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("calls");
    let library = between(folder.path(), &log);
    let subjects = subjects();
    assert_eq!(subjects[1].1.num_hidden_layers, 28, "Qwen3-0.6B's");
    for (subject, config, weights, source) in &subjects {
        let kernels = 2 * config.num_hidden_layers + 1;
        assert!(kernels <= 60, "{subject}: {kernels} kernels a token");
        for (plan, block, launches, graphs) in
            [(DecodePlan::Fused, 1, kernels, 0), (DecodePlan::Graph, 1, 0, 1), (DecodePlan::Persistent, 4, 1, 0)]
        {
            let what = format!("{subject}, {plan:?}");
            let options = Options {
                hip_library: Some(library.clone().into()),
                decode: Some(plan),
                workgroups: Some(2),
                ..Options::new(64).expect("no variable is set")
            };
            let mut opened = gpu::open(GpuKind::AmdHip, "auto", config, weights, source.as_ref(), &options)
                .unwrap_or_else(|error| panic!("{what}: {error}"));
            let ops = opened.ops.as_mut();
            forward(ops, weights, &[1, 2, 3], 0, 0).expect("a prompt");
            let prompt = notes(&log).len();
            let mut last = *ops.decode_greedy(4, 3, 1, &[]).expect("a token").last().expect("one");
            let before = notes(&log).len();
            for step in 0..TOKENS {
                let ids = ops.decode_greedy(last, 4 + step * block, block, &[]).expect("tokens");
                assert_eq!(ids.len(), block, "{what}");
                last = *ids.last().expect("some");
            }
            let mut first = notes(&log).split_off(prompt);
            let calls = first.split_off(before - prompt);
            let count = |calls: &[Note], name: &str| calls.iter().filter(|call| call.0 == name).count();
            // The first one's launches are captured, where there is a graph: its nodes.
            assert_eq!(count(&first, "hipModuleLaunchKernel"), launches.max(graphs * kernels), "{what}: {first:?}");
            assert_eq!(count(&calls, "hipModuleLaunchKernel"), TOKENS * launches, "{what}: {calls:?}");
            assert_eq!(count(&calls, "hipGraphLaunch"), TOKENS * graphs, "{what}: {calls:?}");
            let copies: Vec<(u64, u64)> =
                calls.iter().filter(|call| call.0 == "hipMemcpyAsync").map(|call| (call.1, call.2)).collect();
            assert_eq!(copies, [(4 * block as u64, DEVICE_TO_HOST); TOKENS], "{what}");
            assert_eq!(calls.len(), TOKENS * (launches + graphs + 1), "{what}: {calls:?}");
        }
    }
}

/// A sampled token with top_k 20 is the plan's launches and two more, what says which token stands where, and 20 logits with their ids:
/// nothing is allocated, nothing freed, and no row of logits leaves the card.
#[test]
fn sampled_decode_copies_its_candidates_alone() {
    const K: u64 = 20;
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("calls");
    let library = between(folder.path(), &log);
    let artifact = Artifact::open(&fixture("tiny-qwen3"), LoadMode::Mmap).expect("the fixture");
    let config = artifact.config();
    let fused = 2 * config.num_hidden_layers + 1;
    for (plan, launches, graphs) in [
        (None, None, 0),
        (Some(DecodePlan::Fused), Some(fused), 0),
        (Some(DecodePlan::Graph), Some(0), 1),
        (Some(DecodePlan::Persistent), Some(1), 0),
    ] {
        let options = Options {
            hip_library: Some(library.clone().into()),
            decode: plan,
            workgroups: Some(2),
            ..Options::new(64).expect("no variable is set")
        };
        let weights = Weights::new(config);
        let opened = gpu::open(GpuKind::AmdHip, "auto", config, &weights, &artifact, &options)
            .unwrap_or_else(|error| panic!("{plan:?}: {error}"));
        let mut engine = Engine::new(opened.ops, weights, config, []).expect("one configuration");
        let sampling = SamplingParams {
            temperature: 0.6,
            top_k: K as i64,
            top_p: 0.95,
            seed: Some(1),
            ..SamplingParams::default()
        };
        // The first evaluates the prompt, and the second records the graph.
        let tokens = 2 + TOKENS;
        let request =
            Request { prompt: vec![1, 2, 3], max_tokens: Some(tokens as i64), sampling, ..Request::default() };
        let mut marks = Vec::new();
        let outcome = engine.generate(&request, &mut NoText, &mut |event| {
            if let Event::Token { .. } = event {
                marks.push(notes(&log).len());
            }
            Flow::Continue
        });
        assert_eq!(outcome.expect("tokens").tokens.len(), tokens, "{plan:?}");
        let calls = &notes(&log)[marks[1]..marks[1 + TOKENS]];
        let count = |name: &str| calls.iter().filter(|call| call.0 == name).count();
        let launched = count("hipModuleLaunchKernel");
        assert_eq!(launched, launches.map_or(launched, |launches| TOKENS * (launches + 2)), "{plan:?}: {calls:?}");
        assert_eq!(count("hipGraphLaunch"), TOKENS * graphs, "{plan:?}: {calls:?}");
        let copies = |back: bool| -> Vec<u64> {
            let copies = calls.iter().filter(|call| call.0 == "hipMemcpyAsync" && (call.2 == DEVICE_TO_HOST) == back);
            copies.map(|call| call.1).collect()
        };
        assert_eq!(copies(true), [K * 8; TOKENS], "{plan:?}");
        // An id, or a position, an id, a count of ends and a word that fills up.
        assert_eq!(copies(false), [if plan.is_some() { 16 } else { 4 }; TOKENS], "{plan:?}");
        assert_eq!(calls.len(), launched + TOKENS * (graphs + 2), "{plan:?}: {calls:?}");
    }
}
