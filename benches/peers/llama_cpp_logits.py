#!/usr/bin/env python3
"""Compares `zynfer logits` with llama.cpp on one GGUF file and writes OUT.json and OUT.md: behind each recorded prompt's ids the cosine of both
rows of logits, the largest difference and both likeliest tokens.

llama.cpp runs twice. On the decoded file, its weights stored as F32 (by the `gguf` package) and keys and values as F32: the same product as
ours, and the bar holds for it; the program ends with 1 where a cosine is below. On the file as it is llama.cpp multiplies with activations
rounded to 8 bits and keeps keys and values as f16: how far that is from us is told beside how far it is from llama.cpp's own decoded run.

zynfer reads what it compiled of the file. `./x peers` runs this in a virtual environment with llama-cpp-python and gguf."""

import argparse
import ctypes
import datetime
import importlib.metadata
import json
import pathlib
import platform
import subprocess
import sys
import tempfile

import gguf
import llama_cpp
import numpy

# The project's bar.
COSINE = 0.999
CONTEXT = 128


def decoded(path, out):
    """Writes `path` with its tensors as F32, values as the `gguf` package decodes them."""
    reader = gguf.GGUFReader(path)
    writer = gguf.GGUFWriter(out, reader.fields["general.architecture"].contents())
    for field in reader.fields.values():
        if field.name.startswith("GGUF.") or field.name in ("general.architecture", "general.file_type"):
            continue
        kind = field.types[0]
        writer.add_key_value(field.name, field.contents(), kind, field.types[-1] if kind == gguf.GGUFValueType.ARRAY else None)
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)
    for tensor in reader.tensors:
        writer.add_tensor(tensor.name, gguf.quants.dequantize(tensor.data, tensor.tensor_type))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


class LlamaCpp:
    """A GGUF file in llama.cpp, on the CPU. `exact` keeps keys and values as F32."""

    def __init__(self, path, exact):
        self.exact = exact
        llama_cpp.llama_backend_init()
        self.log = llama_cpp.llama_log_callback(lambda *_: None)
        llama_cpp.llama_log_set(self.log, ctypes.c_void_p(0))
        params = llama_cpp.llama_model_default_params()
        # Repacked weights are for other products of the same sums, and those for AMX crash where the kernel does not allow AMX.
        params.use_extra_bufts = False
        self.model = llama_cpp.llama_model_load_from_file(str(path).encode(), params)
        if not self.model:
            raise SystemExit(f"{path}: llama.cpp does not load it")
        self.vocab_size = llama_cpp.llama_vocab_n_tokens(llama_cpp.llama_model_get_vocab(self.model))

    def logits(self, ids):
        """After the last of `ids`, [vocab_size] float32."""
        params = llama_cpp.llama_context_default_params()
        params.n_ctx = CONTEXT
        if self.exact:
            params.type_k = params.type_v = llama_cpp.GGML_TYPE_F32
            params.flash_attn_type = llama_cpp.LLAMA_FLASH_ATTN_TYPE_DISABLED
        context = llama_cpp.llama_init_from_model(self.model, params)
        tokens = (llama_cpp.llama_token * len(ids))(*ids)
        status = llama_cpp.llama_decode(context, llama_cpp.llama_batch_get_one(tokens, len(ids)))
        if status != 0:
            raise SystemExit(f"llama_decode ended with {status}")
        row = llama_cpp.llama_get_logits_ith(context, -1)
        copy = numpy.ctypeslib.as_array(row, shape=(self.vocab_size,)).copy()
        llama_cpp.llama_free(context)
        return copy


def zynfer_logits(arguments, ids):
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "logits.f32"
        words = [arguments.zynfer, "logits", arguments.model, "--backend", "cpu", "--ids", ",".join(map(str, ids)), "--out", out, "-q"]
        subprocess.run(list(map(str, words)), check=True)
        return numpy.fromfile(out, dtype="<f4")


def compare(a, b):
    a, b = a.astype(numpy.float64), b.astype(numpy.float64)
    second, first = numpy.sort(b)[-2:]
    return {
        "cosine": float(a @ b / numpy.sqrt((a @ a) * (b @ b))),
        "max_difference": float(numpy.abs(a - b).max()),
        "top1": [int(a.argmax()), int(b.argmax())],
        "lead": float(first - second),
    }


def describe(record):
    prompts = record["prompts"]
    rows = [
        f"| {repr(p['prompt']).replace('|', chr(92) + '|')} | {p['tokens']} | {p['decoded']['cosine']:.7f} | {p['decoded']['max_difference']:.4f} "
        f"| {p['decoded']['top1'][0]} | {p['decoded']['top1'][1]} | {p['decoded']['lead']:.3f} "
        f"| {p['as_it_is']['cosine']:.6f} | {p['as_it_is']['max_difference']:.3f} | {p['llama_cpp_to_itself']['cosine']:.6f} |"
        for p in prompts
    ]
    least = {kind: min(p[kind]["cosine"] for p in prompts) for kind in ("decoded", "as_it_is", "llama_cpp_to_itself")}
    same = {kind: sum(p[kind]["top1"][0] == p[kind]["top1"][1] for p in prompts) for kind in ("decoded", "as_it_is")}
    below = sum(p["as_it_is"]["cosine"] < COSINE for p in prompts)
    head = f"""# zynfer and llama.cpp on one GGUF file

Commit {record['commit']}, {record['date']}, {record['machine']}. llama-cpp-python {record['llama_cpp_python']}, gguf {record['gguf']}, CPU. `./x peers`

File {record['file']}; zynfer has it as {record['weights']}. Logits behind the last token of each prompt; the lead is llama.cpp's first
logit over its second.

- llama.cpp on the decoded file, weights, keys and values in F32. Bar: cosine ≥ {COSINE} for each prompt. Least {least['decoded']:.7f}:
  {'reached' if record['passed'] else '**not reached**'}. The same likeliest token: {same['decoded']} of {len(prompts)}.
- llama.cpp on the file as it is, activations rounded to 8 bits, keys and values f16. Least cosine {least['as_it_is']:.6f}, below {COSINE} at {below} of
  {len(prompts)} prompts; the same likeliest token: {same['as_it_is']}. llama.cpp's two runs are as far from each other: least {least['llama_cpp_to_itself']:.6f}.

| prompt | tokens | cosine, decoded | largest difference | zynfer's choice | llama.cpp's | its lead | cosine, as it is | largest difference | llama.cpp to itself |
|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|
"""
    return head + "\n".join(rows) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gguf", type=pathlib.Path, required=True)
    parser.add_argument("--decoded", type=pathlib.Path, required=True, help="where the decoded file is, or is to be written")
    parser.add_argument("--model", type=pathlib.Path, required=True, help="what zynfer compiled of it")
    parser.add_argument("--weights", required=True, help="how zynfer has the weights, in words")
    parser.add_argument("--zynfer", type=pathlib.Path, required=True)
    parser.add_argument("--prompts", type=pathlib.Path, required=True, help="golden.json: prompts with their ids")
    parser.add_argument("--commit", required=True)
    parser.add_argument("out", type=pathlib.Path, help="OUT without .json and .md")
    arguments = parser.parse_args()
    if not arguments.decoded.exists():
        part = arguments.decoded.with_suffix(".part")
        decoded(arguments.gguf, part)
        part.rename(arguments.decoded)
    exact, plain = LlamaCpp(arguments.decoded, True), LlamaCpp(arguments.gguf, False)
    prompts = []
    for example in json.loads(arguments.prompts.read_text()):
        ids = example["ids"]
        ours, theirs, rounded = zynfer_logits(arguments, ids), exact.logits(ids), plain.logits(ids)
        prompts.append({
            "prompt": example["prompt"],
            "tokens": len(ids),
            "decoded": compare(ours, theirs),
            "as_it_is": compare(ours, rounded),
            "llama_cpp_to_itself": compare(theirs, rounded),
        })
        print(f"{prompts[-1]['decoded']['cosine']:.7f} {prompts[-1]['as_it_is']['cosine']:.7f}  {example['prompt']!r}", file=sys.stderr)
    record = {
        "commit": arguments.commit,
        "date": datetime.date.today().isoformat(),
        "machine": platform.machine() + ", " + platform.system(),
        "llama_cpp_python": importlib.metadata.version("llama-cpp-python"),
        "gguf": importlib.metadata.version("gguf"),
        "file": arguments.gguf.name,
        "weights": arguments.weights,
        "bar": COSINE,
        "passed": all(prompt["decoded"]["cosine"] >= COSINE for prompt in prompts),
        "prompts": prompts,
    }
    for suffix, text in [(".json", json.dumps(record, indent=1) + "\n"), (".md", describe(record))]:
        arguments.out.with_name(arguments.out.name + suffix).write_text(text)
    return 0 if record["passed"] else 1


if __name__ == "__main__":
    sys.exit(main())
