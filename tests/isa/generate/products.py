"""Dot products of floats (`dot_sums.ins`) and tiles of matrix products (`matrix_sums.txt`), both by sums.py, in every mode."""

import random

from rows import File, hexes
from sums import BF8, BF16, F16, F32, FP8, chain, dot

MODES = [0xF0, 0x00, 0xF1, 0x5A, 0xF2, 0xA5, 0xFF, 0x0F, 0x30, 0xC3, 0xF5, 0xFA]
OVFL = 1 << 23
FORMATS = {"f16": F16, "bf16": BF16, "fp8": FP8, "bf8": BF8, "f32": F32}


def number(source, form, kind):
    """Bits of a factor or an addend. What kinds are for: any bits; numbers near each other; denormals and the smallest; the rest."""
    if kind == 0:
        return source.getrandbits(form.width)
    sign, fraction = source.getrandbits(1) << (form.width - 1), source.getrandbits(form.fraction)
    if kind == 1:
        return sign | (form.bias + source.randrange(-2, 3)) << form.fraction | fraction
    if kind == 2:
        return sign | source.randrange(3) << form.fraction | fraction
    largest = (1 << (form.width - 1)) - 1
    special = [0, 1, form.infinity, form.infinity - 1, form.infinity | 1, largest, form.bias << form.fraction]
    return sign | source.choice(special)


def spread(source, form, kind):
    """A factor as far below its neighbour as alignment loses bits."""
    if kind == 1 and source.getrandbits(1):
        exponent = max(1, form.bias - source.randrange(6, 15))
        return source.getrandbits(1) << (form.width - 1) | exponent << form.fraction | source.getrandbits(form.fraction)
    return number(source, form, kind)


def factors(source, form, count, kind):
    return [spread(source, form, kind) for _ in range(count)]


def word(parts, width):
    return sum(part << i * width for i, part in enumerate(parts))


# Of the results on an R9700 that AMD publishes with its rule: A, B, C, D.
MEASURED = {
    "f16": """48004200 44004800 bf800000 425c0000
        3c00bc00 3c000000 80000000 3f800000
        3c003c00 3c003c00 ff812345 ffc12345
        3c007c01 3c003c00 00000000 ffc00a3d
        fc007c00 3c003c00 7fc12345 ffc00000
        00000001 3c000001 00000000 27800000
        cd6c4d6c 78af78af 00000000 00000000
        7c000401 80000401 ff9a5ce2 ffc00000""",
    "bf16": """00800000 3f808000 00000001 00800001
        00000001 3f804980 00000000 07000000
        ff7f7f7f 7f7f7f7f 00000000 00000000
        81ff0e0d 12cc2d3b 007a3a08 007a6d87
        37d6ba90 8901852c 80800007 81674c04
        993b1798 263ca825 00800000 8026a200
        89298151 b6953e7a 00800007 007c5007
        2dd81116 924aaedf 807ffffa 81568cfd""",
}


def dots():
    source = random.Random(1201)
    f = File("dot_sums.ins", "Dot products of floats: every mode, alignment, cancellation, denormals, NaN payloads; sums.py has the rule.")
    number_of_row = 0

    for name, table in MEASURED.items():
        f.comment("Measured on an R9700, as AMD publishes; in other modes as well, which the rule says are no different.")
        rows = [[int(x, 16) for x in line.split()] for line in table.splitlines()]
        for a, b, c, d in rows:
            assert dot((FORMATS[name],) * 2, [a & 0xFFFF, a >> 16], [b & 0xFFFF, b >> 16], c) == d
        a, b, c, d = (hexes(column) for column in zip(*rows))
        for mode in (0xF0, 0x00, 0xFF):
            f.row(f"v_dot2_f32_{name} v5, v1, v2, v3", f"mode={mode:#x} v1={a} v2={b} v3={c}", f"v5={d}")
    f.comment("By the rule.")
    forms = [(f"v_dot2_f32_{n} v5, v1, v2, v3", (n, n), 2, F32) for n in ("f16", "bf16")]
    forms += [(f"v_dot4_f32_{x}_{y} v5, v1, v2, v3", (x, y), 4, F32) for x in ("fp8", "bf8") for y in ("fp8", "bf8")]
    forms += [("v_dot2_f16_f16 v5, v1, v2, v3", ("f16", "f16"), 2, F16), ("v_dot2_bf16_bf16 v5, v1, v2, v3", ("bf16", "bf16"), 2, BF16)]
    forms += [(f"v_dual_dot2acc_f32_{n} v5, v1, v2 :: v_dual_mov_b32 v4, v0", (n, n), 2, F32) for n in ("f16", "bf16")]
    for text, names, count, to in forms:
        pair = tuple(FORMATS[name] for name in names)
        accumulates = "acc" in text
        for _ in range(16):
            mode = MODES[number_of_row % len(MODES)] | (OVFL if number_of_row % 5 == 4 else 0)
            columns = []
            for lane in range(8):
                kind = (number_of_row + lane) % 4
                a, b = factors(source, pair[0], count, kind), factors(source, pair[1], count, kind)
                if lane % 4 == 3 and count == 2 and kind != 3:
                    a[1], b[1] = a[0] ^ pair[0].sign, b[0] ^ source.getrandbits(1)  # almost nothing is left
                c = number(source, to, 0 if kind == 1 and lane % 2 else kind)
                if kind == 1 and to is F32:
                    c = source.getrandbits(1) << 31 | (127 + source.randrange(-36, 30)) << 23 | source.getrandbits(23)
                columns.append((word(a, pair[0].width), word(b, pair[1].width), c, dot(pair, a, b, c, to, bool(mode & OVFL))))
            a, b, c, d = (hexes(column) for column in zip(*columns))
            addend = f"v0=9 v5={c}" if accumulates else f"v3={c}" + (" v5=0" if to is not F32 else "")
            f.row(text, f"mode={mode:#x} v1={a} v2={b} {addend}", f"v5={d}" + (" v4=9" if accumulates else ""))
            number_of_row += 1
    return f


# Of the matrix products that were measured: the format, a row of A, a column of B, c, d. AMD counts k as lanes hold it.
MEASURED_TILES = [
    ("f16", "bd5336b82ae6b1d2c7a452afd2334594290547cdb74f56cc35d23da7ac54ab6a", "c1424be3d4664f40af92c2ba5479414f3144a72ec63b337d466126c65512b324", 0x3F4725A9, 0xC56665FB),
    ("f16", "c6e1b1ead31d2d4f4a45d1f13362c2444a75443e56234ec357c7b82ecf343660", "d36cc8862f3d30a3d070b2cb4759cf274ed43c97ae37b63f35f03a25b0d8405a", 0xBF6BA3B9, 0x43DFC44B),
    ("f16", "98443f7a606fc18cbe5b891fbbfb93b8c3c632f2f44e15cf5eeb2b558befa075", "8e88ec18d3c2f6ae0cdb87c5458758256e7d8ab58773410891c2398762abfbad", 0x48E26837, 0x48E6175E),
    ("bf16", "bfaa3ed73d5cbe3ac0f44255c24640b23d2040f9bee942d93eba3fb4bd8abd6d", "c028417cc28c41e8bdf2c057428f40293e28bce5c0c73e6f40cc3cd842a2be64", 0x3F4725A9, 0xC565BD89),
    ("bf16", "c0dcbe3dc2633da94148c23e3e6cc048414e408742c441d842f8bf05c1e63ecc", "c26dc1103de73e14c20ebe5940ebc1e441da3f92bdc6bec73ebe3f44be1b400b", 0xBF6BA3B9, 0x43DEA4E6),
]


def digits(values, width):
    return "".join(f"{value:0{width // 4}x}" for value in values)


def tiles():
    """Lines of one row of A, one column of B, c and d, sixteen to an instruction; sparse ones have the places of what is kept too."""
    source = random.Random(1202)
    lines = [
        "# Matrix products to the bit, in every mode; sums.py has the rule. Written by tests/isa/generate/main.py; edit that, not this file.",
        "# A form with its modes, then for each of 16 rows and columns: A by increasing k, B, c, d; where A is sparse, what it keeps of each",
        "# four k, and their places among the four.",
    ]
    forms = [(f"v_wmma_f32_16x16x16_{n}", (n, n), F32, False) for n in ("f16", "bf16")]
    forms += [("v_wmma_f16_16x16x16_f16", ("f16", "f16"), F16, False), ("v_wmma_bf16_16x16x16_bf16", ("bf16", "bf16"), BF16, False)]
    bytes_ = [(x, y) for x in ("fp8", "bf8") for y in ("fp8", "bf8")]
    forms += [(f"v_wmma_f32_16x16x16_{x}_{y}", (x, y), F32, False) for x, y in bytes_]
    forms += [(f"v_swmmac_f32_16x16x32_{n}", (n, n), F32, True) for n in ("f16", "bf16")]
    forms += [("v_swmmac_f16_16x16x32_f16", ("f16", "f16"), F16, True), ("v_swmmac_bf16_16x16x32_bf16", ("bf16", "bf16"), BF16, True)]
    forms += [(f"v_swmmac_f32_16x16x32_{x}_{y}", (x, y), F32, True) for x, y in bytes_]
    for name, names, to, sparse in forms:
        pair = tuple(FORMATS[n] for n in names)
        for group in range(3):
            # The fast sums of f32 results, in the mode of a launch, are no part of this.
            modes = [mode for mode in MODES if to is not F32 or mode != 0xF0][group::3]
            ovfl = to is F16 and group == 2
            modes = [mode | (OVFL if ovfl else 0) for mode in modes]
            lines.append(f"{name} {','.join(hex(mode) for mode in modes)}")
            measured = [tile for tile in MEASURED_TILES if name == f"v_wmma_f32_16x16x16_{tile[0]}"] if group == 0 else []
            for n in range(16):
                # The last group has specials in a few rows; a single one decides a whole row.
                kind = 3 if group == 2 and n % 4 == 3 else (0, 1, 1, 2)[(n + group) % 4]
                a = factors(source, pair[0], 16, kind)
                b = factors(source, pair[1], 32 if sparse else 16, kind)
                c = number(source, to, kind)
                if n < len(measured):
                    _, a, b, c, d = measured[n]
                    order = [k & 3 | (k & 4) << 1 | (k & 8) >> 1 for k in range(16)]
                    a, b = ([int(x[4 * k : 4 * k + 4], 16) for k in order] for x in (a, b))
                    assert chain(pair, a, b, c) == d
                line = [digits(a, pair[0].width), digits(b, pair[1].width)]
                if sparse:
                    kept = [sorted(source.sample(range(4), 2)) for _ in range(8)]
                    line.append("".join(f"{x}{y}" for x, y in kept))
                    b = [b[4 * i + place] for i, places in enumerate(kept) for place in places]
                line += [digits([c], to.width), digits([chain(pair, a, b, c, to, ovfl)], to.width)]
                lines.append(" ".join(line))
    return "\n".join(lines) + "\n"


class Tiles:
    """The file of tiles, for main.py."""

    name = "matrix_sums.txt"
    items = ()

    def content(self):
        return tiles()


FILES = [dots, Tiles]
