#!/usr/bin/env python3
"""Measures Hugging Face transformers and `zynfer bench` on one GPU, in turns, and writes OUT/peers.json and OUT/peers.md.

Contestants, all of Qwen3-0.6B's shape in bf16 with random weights, one sequence:

  zynfer   `zynfer bench --synthetic qwen3-0.6b`, a process for each figure
  eager    transformers as it comes: a launch per operation, sdpa, the cache of `generate`, which grows (DynamicCache)
  graph    the same model with a cache of fixed size (StaticCache), each pass captured once by torch.cuda.graph and replayed
  compile  torch.compile(mode="reduce-overhead", fullgraph=True) over the StaticCache, as transformers' documentation has it

Tests are named as `zynfer bench` names them: ppN evaluates a prompt of N tokens and its last position's logits, `tgN @ dD` takes N greedy
steps behind a context of D, which is not timed. In every round every contestant runs each test once unmeasured and once measured; each
round begins with another contestant. A run of transformers is timed from its first call to synchronisation. Its tokens stay on the GPU
until the last one is there: it is spared what a program that shows each token pays.

transformers runs in a process per contestant, so that one that breaks takes no other with it. Whether they compute the same function is
asked before the rounds: the greedy choice behind 32 prompts (ppN), or after each token of a given text (tgN), is compared with eager's.
bf16 rounds differently in other kernels, so a few choices may differ; a contestant with less than half of them is recorded as failed."""

import argparse
import collections
import datetime
import itertools
import json
import os
import pathlib
import queue
import shlex
import subprocess
import sys
import threading
import time
import traceback

SHAPE = {
    "hidden_size": 1024,
    "num_hidden_layers": 28,
    "num_attention_heads": 16,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "intermediate_size": 3072,
    "vocab_size": 151936,
    "max_position_embeddings": 40960,
    "rms_norm_eps": 1e-6,
    "rope_parameters": {"rope_type": "default", "rope_theta": 1e6},
    "tie_word_embeddings": True,
}
TINY_SHAPE = SHAPE | {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16}
TINY_SHAPE |= {"intermediate_size": 192, "vocab_size": 1000}
SEED = 1
# Weight of the queries' norm. With 1, random queries hardly prefer one key to another, and a wrong cache hardly shows in what is chosen.
# With 3, on a CPU: of 32 choices behind 128 tokens another kernel of attention keeps 30, a position off by one 3, a reversed cache 1.
QUERY_GAIN = 3.0

# A prompt of so many tokens, and so many steps behind it; 0 steps measure the prompt itself.
Test = collections.namedtuple("Test", ["prompt", "steps"])
# Decode first: where time runs out before all are prepared, it is there.
TESTS = [Test(512, 128), Test(512, 0), Test(2048, 0)]
TINY_TESTS = [Test(16, 8), Test(16, 0), Test(32, 0)]
CONTESTANTS = ["zynfer", "eager", "graph", "compile"]
CHECKED_PROMPTS = 32

# Shares of the budget: nothing that is expected to end later is prepared, and what is not prepared by then is given up.
PREPARE_WITHIN = 0.7
GIVE_UP_AT = 0.85
# Seconds that a contestant gets for one measurement.
PATIENCE = 60


def name(test):
    return f"tg{test.steps} @ d{test.prompt}" if test.steps else f"pp{test.prompt}"


class Failed(Exception):
    """A contestant has no figure; says why in one line."""


def one_line(err):
    text = str(err).strip().splitlines() or [""]
    return f"{type(err).__name__}: {text[0][:300]}"


# What runs in a contestant's process. Only these import torch and transformers.


def forward(model, tokens, cache):
    """tokens [1, T] behind what the cache holds -> the greedy choice after the last of them [1, 1]."""
    # A whole prompt needs no mask but the causal one. transformers leaves it out by itself, though not where it is captured or compiled;
    # a mask that its caller prepared it takes as it is.
    mask = {"full_attention": None} if tokens.shape[1] > 1 else None
    out = model(tokens, attention_mask=mask, past_key_values=cache, use_cache=True, logits_to_keep=1)
    return out.logits[:, -1].argmax(-1, keepdim=True)


class Eager:
    """Passes of any width: what transformers does when called."""

    def __init__(self, model, _width, _length):
        self.model = model

    def begin(self):
        """Forgets everything."""
        self.cache = transformers.DynamicCache(config=self.model.config)

    def plain(self, tokens):
        return forward(self.model, tokens, self.cache)

    def step(self, tokens):
        return self.plain(tokens)


class Static(Eager):
    """A cache of `length` tokens that keeps its addresses."""

    def __init__(self, model, width, length):
        super().__init__(model, width, length)
        config = model.config
        self.cache = transformers.StaticCache(config=config, max_cache_len=length)
        self.cache.early_initialization(1, config.num_key_value_heads, config.head_dim, model.dtype, model.device)

    def begin(self):
        self.cache.reset()


class Graph(Static):
    """Steps of `width` tokens, captured."""

    def __init__(self, model, width, length):
        super().__init__(model, width, length)
        self.tokens = torch.zeros((1, width), dtype=torch.long, device=model.device)
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self.begin()
                self.plain(self.tokens)
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.choice = self.plain(self.tokens)

    def step(self, tokens):
        self.tokens.copy_(tokens)
        self.graph.replay()
        return self.choice


class Compiled(Static):
    """Steps compiled at their first call."""

    def __init__(self, model, width, length):
        super().__init__(model, width, length)
        self.compiled = torch.compile(forward, mode="reduce-overhead", fullgraph=True, dynamic=False)

    def step(self, tokens):
        # The next call overwrites what this one returns.
        return self.compiled(self.model, tokens, self.cache).clone()


class Worker:
    """One contestant's process: the model, and a way of running it for each test."""

    def __init__(self, mode, device, tiny):
        self.mode, self.device, self.prepared = mode, device, {}
        torch.manual_seed(SEED)
        config = transformers.Qwen3Config(**(TINY_SHAPE if tiny else SHAPE))
        with torch.device(device):
            model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16, attn_implementation="sdpa")
        for layer in model.model.layers:
            layer.self_attn.q_norm.weight.fill_(QUERY_GAIN)
        self.model = model.eval().requires_grad_(False)

    def facts(self):
        """Versions, and how many weights there are."""
        return {
            "python": sys.version.split()[0],
            "torch": torch.__version__,
            "cuda": torch.version.cuda,
            "cudnn": torch.backends.cudnn.version(),
            "transformers": transformers.__version__,
            "parameters": sum(weight.numel() for weight in self.model.parameters()),
        }

    def synchronise(self):
        if self.device == "cuda":
            torch.cuda.synchronize()

    def ids(self, count, seed):
        """Tokens [1, count]: they only have to differ and to be in the vocabulary."""
        vocabulary = self.model.config.vocab_size
        return torch.tensor([[(seed * 104729 + i * 7919) % vocabulary for i in range(count)]], device=self.device)

    def prepare(self, test):
        """Captures or compiles; the choices by which contestants are compared."""
        width = 1 if test.steps else test.prompt
        run = {"eager": Eager, "graph": Graph, "compile": Compiled}[self.mode](self.model, width, test.prompt + test.steps)
        counters, choices = torch._dynamo.utils.counters["inductor"], []
        before = counters["cudagraph_skips"]
        if test.steps:
            run.begin()
            run.plain(self.ids(test.prompt, 0))
            for seed in range(test.steps):
                choices.append(int(run.step(self.ids(1, seed))))
        else:
            for seed in range(CHECKED_PROMPTS):
                run.begin()
                choices.append(int(run.step(self.ids(test.prompt, seed))))
        self.prepared[test] = run
        return {"choices": choices, "graphs_skipped": counters["cudagraph_skips"] - before}

    def measure(self, test):
        """Seconds of the second of two runs, and the tokens that it chose."""
        run = self.decode if test.steps else self.prefill
        with torch.compiler.set_stance("fail_on_recompile"):
            run(test)
        seconds, chosen = run(test)
        return {"seconds": seconds, "chosen": chosen}

    def prefill(self, test):
        run, prompt = self.prepared[test], self.ids(test.prompt, 0)
        run.begin()
        self.synchronise()
        start = time.perf_counter()
        choice = run.step(prompt)
        self.synchronise()
        return time.perf_counter() - start, choice.flatten().tolist()

    def decode(self, test):
        run = self.prepared[test]
        chosen = torch.empty((1, test.steps), dtype=torch.long, device=self.device)
        run.begin()
        token = run.plain(self.ids(test.prompt, 0))
        self.synchronise()
        start = time.perf_counter()
        for i in range(test.steps):
            token = run.step(token)
            chosen[:, i : i + 1].copy_(token)
        self.synchronise()
        return time.perf_counter() - start, chosen.flatten().tolist()


def work(mode, device, tiny):
    """Answers each line of standard input with a line."""
    global torch, transformers
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # What libraries print is no answer.
    import torch
    import transformers

    worker = None
    with torch.no_grad():
        for line in sys.stdin:
            ask, *test = json.loads(line)
            try:
                worker = worker or Worker(mode, device, tiny)
                answer = getattr(worker, ask)(*(Test(*numbers) for numbers in test))
            except Exception as err:
                traceback.print_exc()
                answer = {"failed": one_line(err)}
            print(json.dumps(answer), file=answers, flush=True)


# What runs here: the contestants from outside, the rounds, the record.


class Peer:
    """A way of running transformers, in its own process, which begins at once."""

    def __init__(self, mode, options):
        if mode == "graph" and options.device != "cuda":
            raise Failed(f"there are no CUDA graphs on the device {options.device}")
        command = [sys.executable, __file__, "--worker", mode, "--device", options.device]
        command += ["--tiny"] if options.tiny else []
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self.process = subprocess.Popen(command, env=os.environ | {"HF_HUB_OFFLINE": "1"}, **pipes)
        self.answers = queue.SimpleQueue()
        threading.Thread(target=self.listen, daemon=True).start()

    def listen(self):
        for line in self.process.stdout:
            self.answers.put(line)
        self.answers.put(None)

    def ask(self, words, seconds):
        """The answer, or why there is none. A process that does not answer in time is ended."""
        if self.process.poll() is not None:
            raise Failed("its process has ended")
        try:
            self.process.stdin.write(json.dumps(words) + "\n")
            self.process.stdin.flush()
            line = self.answers.get(timeout=max(seconds, 1))
        except queue.Empty:
            self.end()
            raise Failed(f"no answer to {words[0]} within {seconds:.0f} s") from None
        except BrokenPipeError:
            line = None
        if line is None:
            raise Failed(f"its process ended with {self.process.wait()}")
        answer = json.loads(line)
        if "failed" in answer:
            raise Failed(answer["failed"])
        return answer

    def facts(self, seconds):
        return self.ask(["facts"], seconds)

    def prepare(self, test, seconds):
        return self.ask(["prepare", test], seconds)

    def measure(self, test, seconds):
        """Tokens per second, and the tokens chosen."""
        answer = self.ask(["measure", test], seconds)
        return (test.steps or test.prompt) / answer["seconds"], answer["chosen"]

    def end(self):
        self.process.kill()
        self.process.wait()


class Zynfer:
    """`zynfer bench`, a process for each figure."""

    def __init__(self, options):
        backend = ["--backend", "amd-hip", "--plan", options.plan] if options.device == "cuda" else ["--backend", "cpu"]
        self.command = [options.zynfer, "bench", *backend, "--synthetic", "qwen3-0.6b", "-r", "1", "--json"]

    def words(self, test):
        what = ["-p", "0", "-n", str(test.steps), "-d", str(test.prompt)] if test.steps else ["-p", str(test.prompt), "-n", "0"]
        return self.command + what

    def facts(self, seconds):
        return {}

    def prepare(self, test, seconds):
        """Nothing lasts from one process to the next."""
        return {}

    def measure(self, test, seconds):
        try:
            done = subprocess.run(self.words(test), capture_output=True, text=True, timeout=seconds)
        except subprocess.TimeoutExpired:
            raise Failed(f"no answer within {seconds} s") from None
        except OSError as err:
            raise Failed(one_line(err)) from None
        if done.returncode != 0:
            raise Failed(f"ended with {done.returncode}: {(done.stderr.strip().splitlines() or [''])[-1][:300]}")
        try:
            [figures] = json.loads(done.stdout)["tests"]
            measured, rate = figures["test"], figures["tok_s"]["median"]
        except (ValueError, KeyError, TypeError) as err:
            raise Failed(f"printed no figure: {one_line(err)}") from None
        if measured != name(test):
            raise Failed(f"measured {measured} instead of {name(test)}")
        return rate, None

    def end(self):
        pass


def gpu():
    """What nvidia-smi says of the first GPU; nothing where there is none."""
    fields = "name,driver_version,clocks.sm,clocks.mem,clocks.max.sm,clocks.max.mem,power.limit,power.draw,temperature.gpu"
    try:
        words = ["nvidia-smi", "--format=csv,noheader", f"--query-gpu={fields}"]
        rows = subprocess.run(words, capture_output=True, text=True, timeout=20, check=True).stdout.splitlines()
    except (OSError, subprocess.SubprocessError):
        return {}
    return dict(zip(fields.split(","), [value.strip() for value in rows[0].split(",")])) if rows else {}


def median(values):
    values = sorted(values)
    half = len(values) // 2
    return values[half] if len(values) % 2 else (values[half - 1] + values[half]) / 2


def as_reference(choices, reference):
    """How many choices are the reference's, of how many, and how many of those differ among themselves."""
    return {"agree": sum(a == b for a, b in zip(choices, reference)), "of": len(reference), "distinct": len(set(reference))}


def summarise(record):
    """Medians, spreads and ratios to zynfer's, of the runs that the record holds. Another shape than zynfer's has no ratio."""
    for tests in record["contestants"].values():
        for row in tests.values():
            if runs := row.get("runs_tok_s"):
                row["tok_s"] = {"median": median(runs), "min": min(runs), "max": max(runs)}
    ours = record["contestants"].get("zynfer", {})
    for tests in record["contestants"].values():
        for test, row in tests.items():
            zynfer = ours.get(test, {}).get("tok_s")
            if zynfer and "tok_s" in row and record["shape"] == SHAPE:
                row["of_zynfer"] = row["tok_s"]["median"] / zynfer["median"]


def markdown(record):
    card = {key: value for key, value in record["gpu"].items() if not key.startswith("clocks.") or ".max." in key}
    lines = ["# transformers and zynfer on one GPU", ""]
    lines += [f"Commit {record['commit']}, {record['date']}. " + ", ".join(card.values()), ""]
    lines += [", ".join(f"{key} {value}" for key, value in record["versions"].items()), ""]
    lines += [f"- `{record['command']}`: {record['rounds']} rounds, {record['seconds']:.0f} s"]
    lines += [f"- {test}: `{command}`" for test, command in record["zynfer"].items()]
    clocks = [f"{row['when']} {row['clocks.sm']} and {row['clocks.mem']}" for row in record["clocks"] if "clocks.sm" in row]
    lines += ["- clocks of cores and memory: " + ("; ".join(clocks) or "not known"), ""]
    lines += ["| contestant | test | tok/s, median (slowest–fastest) | runs | of zynfer's | choices as eager's | note |"]
    lines += ["|---|---|---:|---:|---:|---|---|"]
    for contestant, tests in record["contestants"].items():
        for test, row in tests.items():
            rate, runs, ratio, choices = "–", len(row.get("runs_tok_s", [])), "–", "–"
            if "tok_s" in row:
                rate = "{median:.1f} ({min:.1f}–{max:.1f})".format(**row["tok_s"])
            if "of_zynfer" in row:
                ratio = f"{row['of_zynfer']:.3f}"
            if "choices" in row:
                choices = "{agree} of {of}, {distinct} of them distinct".format(**row["choices"])
            note = row.get("failed", "").replace("|", "/")
            if skipped := row.get("graphs_skipped"):
                note += f"torch skipped {skipped} CUDA graphs"
            lines += [f"| {contestant} | {test} | {rate} | {runs} | {ratio} | {choices} | {note} |"]
    return "\n".join(lines) + "\n"


def write(record, out):
    summarise(record)
    (out / "peers.json").write_text(json.dumps(record, indent=1) + "\n")
    (out / "peers.md").write_text(markdown(record))


class Session:
    """Contestants that stand, one record, one clock."""

    def __init__(self, options):
        self.options, self.out, self.start = options, pathlib.Path(options.out), time.monotonic()
        self.tests = TINY_TESTS if options.tiny else TESTS
        self.record = {
            "commit": options.commit,
            "date": datetime.date.today().isoformat(),
            "command": shlex.join(sys.argv),
            "gpu": gpu() if options.device == "cuda" else {},
            "versions": {},
            "shape": TINY_SHAPE if options.tiny else SHAPE,
            "zynfer": {},
            "clocks": [],
            "rounds": 0,
            "seconds": 0.0,
            "contestants": {mode: {name(test): {} for test in self.tests} for mode in options.modes},
        }
        self.contestants = {}
        # By test: eager's choices. By test and contestant: the tokens chosen in the last round.
        self.reference, self.texts = {}, collections.defaultdict(dict)

    def elapsed(self):
        return time.monotonic() - self.start

    def say(self, text):
        print(f"[{self.elapsed():6.1f} s] {text}", file=sys.stderr, flush=True)

    def fail(self, mode, test, why):
        self.say(f"{mode} {name(test)}: {why}")
        self.record["contestants"][mode][name(test)].setdefault("failed", str(why))

    def clocks(self, when):
        if self.options.device == "cuda":
            self.record["clocks"].append({"when": when} | gpu())

    def open(self):
        """Starts every contestant; their processes import torch side by side."""
        for mode in self.options.modes:
            try:
                self.contestants[mode] = Zynfer(self.options) if mode == "zynfer" else Peer(mode, self.options)
            except Failed as why:
                for test in self.tests:
                    self.fail(mode, test, why)
        if "zynfer" in self.contestants:
            self.record["zynfer"] = {name(test): shlex.join(self.contestants["zynfer"].words(test)) for test in self.tests}

    def prepare(self):
        """Everything that is done once, contestant by contestant."""
        for mode, contestant in self.contestants.items():
            last = 0.0
            try:
                self.record["versions"] |= contestant.facts(GIVE_UP_AT * self.options.budget - self.elapsed())
            except Failed as why:
                for test in self.tests:
                    self.fail(mode, test, why)
                continue
            for test in self.tests:
                if self.elapsed() + last > PREPARE_WITHIN * self.options.budget:
                    gone = f"{self.elapsed():.0f} s of {self.options.budget:.0f} s were gone"
                    self.fail(mode, test, f"not prepared: {gone}, and the test before took {last:.0f} s")
                    continue
                begun = self.elapsed()
                try:
                    answer = contestant.prepare(test, GIVE_UP_AT * self.options.budget - begun)
                    last = self.elapsed() - begun
                    self.judge(mode, test, answer)
                except Failed as why:
                    self.fail(mode, test, why)
                else:
                    self.say(f"{mode} {name(test)}: prepared in {last:.1f} s")
        self.write()

    def judge(self, mode, test, answer):
        """Compares a contestant's choices with eager's."""
        row = self.record["contestants"][mode][name(test)]
        if answer.get("graphs_skipped"):
            row["graphs_skipped"] = answer["graphs_skipped"]
        if mode == "eager":
            self.reference[test] = answer["choices"]
        if "choices" in answer and test in self.reference:
            row["choices"] = as_reference(answer["choices"], self.reference[test])
            if 2 * row["choices"]["agree"] < row["choices"]["of"]:
                raise Failed("it computes something else: {agree} of {of} choices are eager's".format(**row["choices"]))

    def measure(self):
        """The rounds. What failed once is not asked again."""
        longest = 0.0
        self.clocks("before")
        for turn in range(self.options.rounds):
            begun = self.elapsed()
            if begun + longest > self.options.budget:
                self.say(f"{self.options.budget:.0f} s are not enough for another round of {longest:.0f} s")
                break
            order = list(self.contestants)
            order = order[turn % len(order) :] + order[: turn % len(order)] if order else []
            for mode in order:
                for test in self.tests:
                    self.turn(mode, test)
            self.record["rounds"] = turn + 1
            self.clocks(f"round {turn + 1}")
            self.write()
            longest = max(longest, self.elapsed() - begun)
        self.compare_texts()
        self.write()

    def turn(self, mode, test):
        row = self.record["contestants"][mode][name(test)]
        if "failed" in row:
            return
        try:
            rate, chosen = self.contestants[mode].measure(test, PATIENCE)
        except Failed as why:
            self.fail(mode, test, why)
            return
        self.say(f"{mode} {name(test)}: {rate:.1f} tok/s")
        row.setdefault("runs_tok_s", []).append(rate)
        if chosen is not None:
            self.texts[test][mode] = chosen

    def compare_texts(self):
        """How far each contestant's own text goes with eager's: behind one other choice all may differ."""
        for test, texts in self.texts.items():
            for mode, text in texts.items():
                pairs = zip(text, texts.get("eager", []))
                agree = itertools.takewhile(lambda pair: pair[0] == pair[1], pairs)
                self.record["contestants"][mode][name(test)]["first_tokens_as_eager"] = len(list(agree))

    def write(self):
        self.record["seconds"] = self.elapsed()
        write(self.record, self.out)

    def end(self):
        for contestant in self.contestants.values():
            contestant.end()


def self_test():
    """The record of made-up runs, judged by figures worked out by hand."""
    record = {
        "commit": "c0ffee",
        "date": "2026-01-02",
        "command": "peers.py OUT",
        "gpu": {"name": "NVIDIA X", "driver_version": "1.2", "clocks.sm": "345 MHz", "clocks.max.sm": "1980 MHz"},
        "versions": {"torch": "2", "transformers": "5"},
        "shape": SHAPE,
        "zynfer": {"pp512": "zynfer bench -p 512"},
        "clocks": [{"when": "before", "clocks.sm": "345 MHz", "clocks.mem": "3201 MHz"}],
        "rounds": 3,
        "seconds": 12.4,
        "contestants": {
            "zynfer": {"pp512": {"runs_tok_s": [400.0, 100.0, 200.0]}, "tg128 @ d512": {"runs_tok_s": [80.0, 60.0]}},
            "eager": {"pp512": {"runs_tok_s": [50.0, 30.0, 70.0, 90.0]}, "tg128 @ d512": {"runs_tok_s": [7.0]}},
            "graph": {
                "pp512": {"failed": "a | b"},
                "tg128 @ d512": {"runs_tok_s": [14.0], "choices": as_reference([1, 2, 3, 3], [1, 9, 3, 3]), "graphs_skipped": 2},
            },
        },
    }
    summarise(record)
    text = markdown(record)
    expected = [
        "Commit c0ffee, 2026-01-02. NVIDIA X, 1.2, 1980 MHz",
        "torch 2, transformers 5",
        "- `peers.py OUT`: 3 rounds, 12 s",
        "- pp512: `zynfer bench -p 512`",
        "- clocks of cores and memory: before 345 MHz and 3201 MHz",
        "| zynfer | pp512 | 200.0 (100.0–400.0) | 3 | 1.000 | – |  |",
        "| zynfer | tg128 @ d512 | 70.0 (60.0–80.0) | 2 | 1.000 | – |  |",
        "| eager | pp512 | 60.0 (30.0–90.0) | 4 | 0.300 | – |  |",
        "| eager | tg128 @ d512 | 7.0 (7.0–7.0) | 1 | 0.100 | – |  |",
        "| graph | pp512 | – | 0 | – | – | a / b |",
        "| graph | tg128 @ d512 | 14.0 (14.0–14.0) | 1 | 0.200 | 3 of 4, 3 of them distinct | torch skipped 2 CUDA graphs |",
    ]
    missing = [line for line in expected if line not in text.splitlines()]
    if missing:
        sys.exit("peers.py: the record lacks\n" + "\n".join(missing) + "\nand is\n" + text)
    print(f"peers.py: {len(expected)} lines as expected")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    beside = pathlib.Path(__file__).resolve().parent
    add = parser.add_argument
    add("out", nargs="?", metavar="OUT", help="folder for peers.json and peers.md")
    add("--modes", default=",".join(CONTESTANTS), help="contestants, by comma [default: all]")
    add("--rounds", type=int, default=5, help="rounds [default: 5]")
    add("--budget", type=float, default=330, help="seconds after which no round starts; 70 %% are for preparing [default: 330]")
    add("--zynfer", default=str(beside / "zynfer"), help="the program [default: zynfer beside this file]")
    add("--plan", default="persistent", help="how zynfer decodes on a GPU [default: persistent]")
    add("--commit", default="not given", help="zynfer's commit, for the record")
    add("--device", choices=["cuda", "cpu"], default="cuda", help="cpu only tries this script, and without graphs")
    add("--tiny", action="store_true", help="a tiny shape and few tokens, to try this script; zynfer's shape stays")
    add("--self-test", action="store_true", help="check the record of made-up runs; needs no torch")
    add("--worker", choices=CONTESTANTS[1:], help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.self_test:
        return self_test()
    if options.worker:
        return work(options.worker, options.device, options.tiny)
    options.modes = options.modes.split(",")
    if unknown := [mode for mode in options.modes if mode not in CONTESTANTS]:
        parser.error(f"--modes: {unknown[0]} is none of {', '.join(CONTESTANTS)}")
    if not options.out or options.rounds < 1:
        parser.error("OUT is needed, and at least 1 round")
    pathlib.Path(options.out).mkdir(parents=True, exist_ok=True)
    session = Session(options)
    try:
        session.open()
        session.prepare()
        session.measure()
    finally:
        session.end()
    print((session.out / "peers.md").read_text())
    # A record without one figure is a failure; a contestant without one stands in the record.
    rows = [row for tests in session.record["contestants"].values() for row in tests.values()]
    return 0 if any("tok_s" in row for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
