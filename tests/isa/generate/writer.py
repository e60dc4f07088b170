"""Rows of `.ins` files: collected as assembly text and register values, encoded by llvm-mc, written with a heading."""

import re
import subprocess
import zlib
import random
from pathlib import Path

FOLDER = Path(__file__).resolve().parent.parent


def seeded(*names):
    """The same random numbers in every run, others for every name."""
    return random.Random(zlib.crc32(" ".join(map(str, names)).encode()))


def lanes(values):
    """A register's lanes as the row syntax has them; the last value goes on in all further lanes."""
    values = list(values)
    while len(values) > 1 and values[-1] == values[-2]:
        values.pop()
    texts = [hex(v) if v > 9 else str(v) for v in values]
    return texts[0] if len(texts) == 1 else "[" + ", ".join(texts) + "]"


class File:
    """One generated file."""

    def __init__(self, name, heading):
        self.name, self.heading, self.rows = name, heading, []

    def comment(self, text):
        self.rows.append(("#", text, ""))

    def row(self, text, before, after):
        """`before` and `after` map places to lists of lane values, or to text."""

        def join(places):
            return " ".join(f"{p}={v if isinstance(v, str) else lanes(v)}" for p, v in places.items())

        # What did not change need not be named, and may not be where nothing changed.
        self.rows.append((text, join(before), join(after)))

    def write(self):
        texts = [text for text, _, _ in self.rows if text != "#"]
        out = subprocess.run(
            ["llvm-mc-22", "-triple=amdgcn", "-mcpu=gfx1201", "-show-encoding"],
            input="\n".join(texts) + "\n",
            capture_output=True,
            text=True,
        )
        if out.returncode != 0:
            raise SystemExit(out.stderr)
        found = []
        for line in out.stdout.splitlines():
            match = re.match(r"\s*(.*?)\s*(?:;|//) encoding: \[(.*)\]", line)
            if match:
                data = bytes(int(b, 16) for b in match[2].split(","))
                words = [f"{int.from_bytes(data[i:i + 4], 'little'):08x}" for i in range(0, len(data), 4)]
                found.append((" ".join(words), match[1]))
        assert len(found) == len(texts), (len(found), len(texts))
        lines = [f"# {line}" for line in self.heading]
        encoded = iter(found)
        for text, before, after in self.rows:
            if text == "#":
                lines.append(f"# {before}")
                continue
            words, printed = next(encoded)
            lines.append(f"{words} | {printed} | {before}\n    => {after}")
        (FOLDER / self.name).write_text("\n".join(lines) + "\n")
        print(f"{self.name}: {len(texts)} rows")
