#!/usr/bin/env python3
"""Turns the logs of run.sh into one record: RESULTS/DATE-GPU.json and .md, as benches/records keeps them. It judges nothing and runs
nothing."""

import datetime
import json
import pathlib
import re
import sys


def steps(results):
    """Each step's name, exit status, seconds and command."""
    rows = []
    for line in (results / "steps.tsv").read_text().splitlines():
        name, status, seconds, command = line.split("\t", 3)
        rows.append({"step": name, "status": int(status), "seconds": float(seconds), "command": command})
    return rows


def log(results, name):
    path = results / f"{name}.log"
    return path.read_text(errors="replace") if path.exists() else ""


def gpu(results):
    """nvidia-smi's one row, by its header."""
    lines = [line for line in log(results, "facts").splitlines() if "," in line]
    if len(lines) < 2:
        return {}
    return dict(zip([name.strip() for name in lines[0].split(",")], [value.strip() for value in lines[1].split(",")]))


def registers(results):
    """What ptxas says of each kernel."""
    text, kernels = log(results, "ptxas"), {}
    pattern = r"Compiling entry function '(\w+)'.*?(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads.*?Used (\d+) registers"
    for name, stack, stores, loads, count in re.findall(pattern, text, re.S):
        kernels[name] = {"registers": int(count), "stack_bytes": int(stack), "spill_bytes": int(stores) + int(loads)}
    return kernels


def benches(results):
    """The JSON objects that `zynfer bench` printed, by step."""
    found = {}
    for path in sorted(results.glob("bench_*.log")):
        text = path.read_text(errors="replace")
        start = text.find("{")
        try:
            found[path.stem] = json.loads(text[start:]) if start >= 0 else None
        except json.JSONDecodeError:
            found[path.stem] = None
    return found


def timings(results):
    """What `kernels` measured of each operation."""
    text = log(results, "kernels")
    start = text.find("\n[{") + 1 or (0 if text.startswith("[{") else -1)
    if start < 0:
        return []
    try:
        return json.loads(text[start:])
    except json.JSONDecodeError:
        return []


def clocks(results):
    """Highest and median SM clock while benches ran, in MHz."""
    path = results / "clocks.csv"
    values = sorted(int(m) for m in re.findall(r", (\d+) MHz, \d+ MHz", path.read_text())) if path.exists() else []
    return {"sm_mhz_median": values[len(values) // 2], "sm_mhz_max": values[-1]} if values else {}


def tests(results, name):
    """Passed and failed tests of a test program's log."""
    found = re.findall(r"test result: \w+\. (\d+) passed; (\d+) failed", log(results, name))
    return {"passed": sum(int(p) for p, _ in found), "failed": sum(int(f) for _, f in found)} if found else None


def main():
    results = pathlib.Path(sys.argv[1])
    record = {
        "commit": (results / "commit").read_text().strip(),
        "gpu": gpu(results),
        "clocks_during_benches": clocks(results),
        "tests": {name: tests(results, name) for name in ("ops", "model", "graph")},
        "sanitizer": {
            name: re.findall(r"ERROR SUMMARY: .*|RACECHECK SUMMARY: .*", log(results, name))
            for name in ("memcheck", "racecheck", "synccheck", "memcheck_run")
        },
        "steps": steps(results),
        "benches": benches(results),
        "operations": timings(results),
        "kernels": registers(results),
    }
    card = record["gpu"].get("name", "none").lower().split()[-1]
    base = f"{datetime.date.today().isoformat()}-{card}"
    (results / f"{base}.json").write_text(json.dumps(record, indent=1) + "\n")
    lines = ["# The proof vehicle on silicon", "", f"Commit {record['commit']}. " + ", ".join(record["gpu"].values()), ""]
    lines += ["| step | ended with | seconds |", "|---|---:|---:|"]
    lines += [f"| {row['step']} | {row['status']} | {row['seconds']} |" for row in record["steps"]]
    lines += ["", "Tests passed and failed: " + ", ".join(f"{k} {v['passed']} and {v['failed']}" for k, v in record["tests"].items() if v)]
    lines += ["", "Clocks during the benches: " + json.dumps(record["clocks_during_benches"]), ""]
    lines += [f"- {row['step']}: `{row['command']}`" for row in record["steps"] if row["step"].startswith("bench")]
    lines += ["", "| bench | test | tok/s, median (slowest–fastest) | runs |", "|---|---|---:|---:|"]
    for name, bench in record["benches"].items():
        for test in (bench or {}).get("tests", []):
            rate = test["tok_s"]
            lines.append(
                f"| {name} | {test['test']} | {rate['median']:.1f} ({rate['min']:.1f}–{rate['max']:.1f}) | {len(test['runs_tok_s'])} |"
            )
    lines += ["", "| operation | microseconds, median (fastest–slowest) | GB/s | TFLOP/s |", "|---|---:|---:|---:|"]
    for row in record["operations"]:
        micros = row["micros"]
        median = micros[len(micros) // 2]
        lines.append(
            f"| {row['case']} | {median:.2f} ({micros[0]:.2f}–{micros[-1]:.2f}) | {row['bytes'] / median / 1e3:.0f} "
            f"| {row['operations'] / median / 1e6:.2f} |"
        )
    lines += ["", "| kernel | registers | spilled bytes |", "|---|---:|---:|"]
    lines += [f"| {name} | {k['registers']} | {k['spill_bytes']} |" for name, k in sorted(record["kernels"].items())]
    (results / f"{base}.md").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


main()
