"""VOP3P: packed integers and floats, mixed fma, dot products."""

import itertools

from rows import F16, F32, M32, MODES, File, signed

INTEGERS = [0x00008000, 0x7FFFFFFF, 0x80010001, 0xFFFF7FFF, 0x12340010, 0x001F8001]


def s16(x):
    return signed(x, 16)


def clamp(value, low, high):
    return max(low, min(high, value))


def signed_op(op):
    def result(a, b, c, saturate):
        value = op(s16(a), s16(b), s16(c))
        return (clamp(value, -0x8000, 0x7FFF) if saturate else value) & 0xFFFF

    return result


def unsigned_op(op):
    def result(a, b, c, saturate):
        value = op(a, b, c)
        return (clamp(value, 0, 0xFFFF) if saturate else value) & 0xFFFF

    return result


PACKED = {
    "v_pk_mad_i16": signed_op(lambda a, b, c: a * b + c),
    "v_pk_mul_lo_u16": unsigned_op(lambda a, b, c: a * b),
    "v_pk_add_i16": signed_op(lambda a, b, c: a + b),
    "v_pk_sub_i16": signed_op(lambda a, b, c: a - b),
    "v_pk_max_i16": signed_op(lambda a, b, c: max(a, b)),
    "v_pk_min_i16": signed_op(lambda a, b, c: min(a, b)),
    "v_pk_mad_u16": unsigned_op(lambda a, b, c: a * b + c),
    "v_pk_add_u16": unsigned_op(lambda a, b, c: a + b),
    "v_pk_sub_u16": unsigned_op(lambda a, b, c: a - b),
    "v_pk_max_u16": unsigned_op(lambda a, b, c: max(a, b)),
    "v_pk_min_u16": unsigned_op(lambda a, b, c: min(a, b)),
    # Shifts take four bits of the count and ignore clamp.
    "v_pk_lshlrev_b16": lambda a, b, c, s: b << (a & 15) & 0xFFFF,
    "v_pk_lshrrev_b16": lambda a, b, c, s: b >> (a & 15),
    "v_pk_ashrrev_i16": lambda a, b, c, s: s16(b) >> (a & 15) & 0xFFFF,
}
THREE = ("v_pk_mad_i16", "v_pk_mad_u16", "v_pk_fma_f16")
# op_sel, op_sel_hi by source.
SELECTIONS = [((0, 0, 0), (1, 1, 1)), ((1, 0, 1), (0, 1, 1)), ((0, 1, 0), (1, 0, 0)), ((1, 1, 1), (0, 0, 0))]


def halves(x, high):
    return x >> 16 if high else x & 0xFFFF


def lists(selection, count):
    low, high = selection
    text = ""
    if any(low[:count]):
        text += f" op_sel:[{','.join(map(str, low[:count]))}]"
    if not all(high[:count]):
        text += f" op_sel_hi:[{','.join(map(str, high[:count]))}]"
    return text


def integers():
    f = File("packed_integers.ins", "VOP3P: packed integers with halves picked, saturated and not; shifts by more than their width.")
    for name, op in PACKED.items():
        count = 3 if name in THREE else 2
        for n, (a, b) in enumerate(itertools.product(INTEGERS, INTEGERS)):
            if n % 5 not in (0, 3):
                continue
            c = INTEGERS[(n + 2) % 6]
            selection, saturate = SELECTIONS[n // 5 % 4], n % 2
            low, high = [op(*(halves(x, s) for x, s in zip((a, b, c), side)), saturate) for side in selection]
            sources = ", ".join(f"v{i + 1}" for i in range(count))
            text = f"{name} v5, {sources}{lists(selection, count)}{' clamp' if saturate else ''}"
            third = f" v3={c:#x}" if count == 3 else ""
            f.row(text, f"exec=5 v1={a:#x} v2={b:#x}{third}", f"v5.0={high << 16 | low:#x} v5.2={high << 16 | low:#x}")
    f.comment("An inline integer has 32 bits, a literal too; scalars are the same in every lane.")
    f.row("v_pk_add_u16 v5, v1, -1", "exec=1 v1=0x00050003", "v5.0=0x00040002")
    f.row("v_pk_add_u16 v5, v1, 7", "exec=1 v1=0x00050003", "v5.0=0x0005000a")
    f.row("v_pk_add_u16 v5, v1, 7 op_sel_hi:[1,0]", "exec=1 v1=0x00050003", "v5.0=0x000c000a")
    f.row("v_pk_add_u16 v5, s1, 0x12345678", "exec=3 s1=0x00010001", "v5.0=0x12355679 v5.1=0x12355679")
    f.row("v_pk_add_u16 v5, v1, v2 neg_lo:[1,0]", "", "fault v_pk_add_u16 with neg_lo or neg_hi on integers")
    return f


HALVES = [0, 0x8000, 1, 0x83FF, 0x0400, 0x3C00, 0xBC01, 0x7BFF, 0xFBFF, 0x7C00, 0xFC00, 0x7E01, 0x7C01, 0x3555]
NEAR = [(0x3C00, 0x1001), (0x3C01, 0x1000), (0x7BFF, 0x4C00), (0x0400, 0x83FF), (0x1401, 0x13FF), (0x07FF, 0x3800), (0x8400, 0x3BFF), (0x7800, 0x4200)]


def saturated(form, x, one):
    """Clamped to [0, 1]: NaN and −0 are 0."""
    if form.is_nan(x) or x & form.sign:
        return 0
    return min(x, one)


def floats():
    f = File("packed_floats.ins", "VOP3P: packed f16 in every direction of rounding, flushed and kept denormals, with signs of halves and clamp.")
    two = {
        "v_pk_add_f16": F16.add, "v_pk_mul_f16": F16.mul, "v_pk_min_num_f16": F16.min_num, "v_pk_max_num_f16": F16.max_num,
        "v_pk_minimum_f16": F16.minimum, "v_pk_maximum_f16": F16.maximum,
    }
    values = NEAR + [(HALVES[i], HALVES[(i + k) % 14]) for i in range(14) for k in (0, 1, 5)]
    for name, op in list(two.items()) + [("v_pk_fma_f16", None)]:
        for m, mode in enumerate(MODES + [0x8000F0, 0x8000FF]):
            for n in range(0, len(values) - 1, 2 if mode == 0xF0 else 5):
                (a, b), (a2, b2) = values[n], values[n + 1]
                c, c2 = HALVES[(n + m) % 14], HALVES[(n + m + 6) % 14]
                neg, neg_hi, clamped = (n // 2 % 3 == 1), (n // 2 % 4 == 1), n % 7 == 0
                sign = lambda x, on: x ^ 0x8000 if on else x
                if op is None:
                    low, high = F16.fma(mode, sign(a, neg), b, c), F16.fma(mode, sign(a2, neg_hi), b2, c2)
                else:
                    low, high = op(mode, sign(a, neg), b), op(mode, sign(a2, neg_hi), b2)
                if low is None or high is None:
                    continue
                if clamped:
                    low, high = (saturated(F16, x, 0x3C00) for x in (low, high))
                rest = "v2, v3" if op is None else "v2"
                zeros = ",0,0]" if op is None else ",0]"
                text = f"{name} v5, v1, {rest}{' neg_lo:[1' + zeros if neg else ''}{' neg_hi:[1' + zeros if neg_hi else ''}{' clamp' if clamped else ''}"
                third = f" v3={c2 << 16 | c:#x}" if op is None else ""
                f.row(text, f"mode={mode:#x} exec=2 v1={a2 << 16 | a:#x} v2={b2 << 16 | b:#x}{third}", f"v5.1={high << 16 | low:#x}")
    return f


WORDS = [0x3F800001, 0x33800000, 0x7F7FFFFF, 0x80000001, 0x00800000, 0xBF800000, 0x7FC00001, 0x40490FDB]


def mixed():
    f = File("mixed_fma.ins", "VOP3P: fma of f32 and f16 sources, into an f32 or a half, in every mode.")
    for name in ("v_fma_mix_f32", "v_fma_mixlo_f16", "v_fma_mixhi_f16"):
        for m, mode in enumerate(MODES):
            for n in range(12):
                kinds, high = [(n + m) >> i & 1 for i in range(3)], [n >> (2 - i) & 1 for i in range(3)]
                raw, values = [], []
                for i in range(3):
                    if kinds[i]:
                        half = HALVES[(3 * n + 5 * i + m) % 14]
                        raw.append(half << 16 | 0x1234 if high[i] else 0xABCD0000 | half)
                        values.append(F16.convert(mode, half, F32))
                    else:
                        raw.append(WORDS[(n + 3 * i + m) % 8])
                        values.append(raw[-1])
                absolute, negative = n % 3 == 1, n % 4 == 1
                if absolute:
                    values[0] &= 0x7FFFFFFF
                if negative:
                    values[1] ^= 0x80000000
                value = F32.fma(mode, *values)
                if value is None:
                    continue
                clamped = n % 5 == 4
                if name == "v_fma_mix_f32":
                    value = saturated(F32, value, 0x3F800000) if clamped else value
                else:
                    value = F32.convert(mode, value, F16)
                    if value is None:
                        continue
                    value = saturated(F16, value, 0x3C00) if clamped else value
                old = 0x55556666
                whole = {"v_fma_mix_f32": value, "v_fma_mixlo_f16": old & 0xFFFF0000 | value, "v_fma_mixhi_f16": old & 0xFFFF | value << 16}[name]
                first = "|v1|" if absolute else "v1"
                second = "-v2" if negative else "v2"
                opsel = [h & k for h, k in zip(high, kinds)]
                text = f"{name} v5, {first}, {second}, v3"
                if any(opsel):
                    text += f" op_sel:[{','.join(map(str, opsel))}]"
                if any(kinds):
                    text += f" op_sel_hi:[{','.join(map(str, kinds))}]"
                text += " clamp" if clamped else ""
                f.row(text, f"mode={mode:#x} exec=1 v1={raw[0]:#x} v2={raw[1]:#x} v3={raw[2]:#x} v5={old:#x}", f"v5.0={whole:#x}")
    return f


def dots():
    f = File("dots.ins", "VOP3P: dot products. The integer ones add exactly and wrap, or saturate once; neg_lo says which operand is signed.")
    words = [0x80FF7F01, 0xFFFFFFFF, 0x12345678, 0x80808080, 0x7F7F7F7F, 0x00000000, 0xF0E1D2C3]
    sums = [0, 1, M32, 0x7FFFFFFF, 0x80000000, 0x12345678]

    def elements(x, bits, is_signed):
        parts = [x >> i & ((1 << bits) - 1) for i in range(0, 32, bits)]
        return [signed(p, bits) for p in parts] if is_signed else parts

    for name, bits, mixed_signs in (("v_dot4_i32_iu8", 8, True), ("v_dot8_i32_iu4", 4, True), ("v_dot4_u32_u8", 8, False), ("v_dot8_u32_u4", 4, False)):
        for n in range(28):
            a, b, c = words[n % 7], words[(n // 7 + 2 * n) % 7], sums[n % 6]
            sa, sb = (n & 1, n >> 1 & 1) if mixed_signs else (0, 0)
            total = sum(x * y for x, y in zip(elements(a, bits, sa), elements(b, bits, sb)))
            total += signed(c, 32) if mixed_signs else c
            clamped = n % 4 == 3
            if clamped:
                total = clamp(total, -(1 << 31), (1 << 31) - 1) if mixed_signs else clamp(total, 0, M32)
            neg = f" neg_lo:[{sa},{sb},0]" if sa or sb else ""
            f.row(f"{name} v5, v1, v2, v3{neg}{' clamp' if clamped else ''}", f"exec=1 v1={a:#x} v2={b:#x} v3={c:#x}", f"v5.0={total & M32:#x}")
        f.row(f"{name} v5, v1, v2, -3", "exec=1 v1=0 v2=0", "v5.0=-3")
    f.comment("Floats whose sums are exact whatever their order. Clamp is ignored by f16 and bf16 forms.")
    pack = lambda hi, lo: f"({hi}, {lo})"
    for name, unit in (("v_dot2_f32_f16", "h"), ("v_dot2_f32_bf16", "b")):
        for n, (a, b, c) in enumerate([((1, 2), (3, 4), 5), ((-8, 0.5), (0.25, 6), -1), ((0, 0), (7, 9), 0.5), ((16, -16), (16, 16), 3)]):
            v = lambda p: pack(f"{float(p[0])}{unit}", f"{float(p[1])}{unit}")
            total = a[0] * b[0] + a[1] * b[1] + c
            f.row(f"{name} v5, v1, v2, v3", f"exec=1 v1={v(a)} v2={v(b)} v3={float(c)}f", f"v5.0={float(total)}f")
            f.row(f"{name} v5, v1, v2, v3 clamp", f"exec=1 v1={v(a)} v2={v(b)} v3={float(c)}f", f"v5.0={float(total)}f")
            crossed = a[0] * b[1] + a[1] * b[0] + c
            f.row(f"{name} v5, v1, v2, v3 op_sel:[1,0,0] op_sel_hi:[0,1,1]", f"exec=1 v1={v(a)} v2={v(b)} v3={float(c)}f", f"v5.0={float(crossed)}f")
            signs = a[1] * -b[1] + -a[0] * b[0] - c
            f.row(f"{name} v5, v1, v2, v3 neg_lo:[0,1,1] neg_hi:[1,0,0]", f"exec=1 v1={v(a)} v2={v(b)} v3={float(c)}f", f"v5.0={float(signs)}f")
    fp8 = {0: 0, 1: 0x38, 2: 0x40, 3: 0x44, 4: 0x48, 0.5: 0x30}
    bf8 = {0: 0, 1: 0x3C, 2: 0x40, 3: 0x42, 4: 0x44, 0.5: 0x38}
    code = lambda x, table: table[abs(x)] | (0x80 if x < 0 else 0)
    word = lambda xs, table: sum(code(x, table) << 8 * i for i, x in enumerate(xs))
    for name, ta, tb in (("fp8_fp8", fp8, fp8), ("fp8_bf8", fp8, bf8), ("bf8_fp8", bf8, fp8), ("bf8_bf8", bf8, bf8)):
        for a, b, c in [((1, 2, 3, 4), (4, 3, 2, 1), 10), ((-1, 0.5, 0, -4), (2, 0.5, 3, 4), -0.25), ((0, 0, 0, 0), (1, 1, 1, 1), -7)]:
            total = sum(x * y for x, y in zip(a, b))
            state = f"exec=1 v1={word(a, ta):#x} v2={word(b, tb):#x} v3={float(c)}f"
            for mode in (0xF0, 0xFF):
                f.row(f"v_dot4_f32_{name} v5, v1, v2, v3", f"mode={mode:#x} {state}", f"v5.0={float(total + c)}f")
            f.row(f"v_dot4_f32_{name} v5, v1, v2, v3 neg_lo:[0,0,1]", state, f"v5.0={float(total - c)}f")
            f.row(f"v_dot4_f32_{name} v5, v1, v2, v3 neg_hi:[0,0,1]", state, f"v5.0={float(total + abs(c))}f")
    return f


FILES = [integers, floats, mixed, dots]
