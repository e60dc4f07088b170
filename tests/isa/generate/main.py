"""Writes the generated `.ins` files and the tiles of matrix products into tests/isa; with `--check` compares instead."""

import sys

import control
import memory
import packed
import products
import scalar
from rows import FOLDER

stale = []
for make in scalar.FILES + control.FILES + memory.FILES + packed.FILES + products.FILES:
    file = make()
    path = FOLDER / file.name
    content = file.content()
    if "--check" in sys.argv:
        if not path.exists() or path.read_text() != content:
            stale.append(file.name)
    else:
        path.write_text(content)
        print(file.name, content.count("\n"), "lines")
if stale:
    sys.exit(f"not what the generator writes: {', '.join(stale)}; run tests/isa/generate/main.py")
