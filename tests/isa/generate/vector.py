"""Generates the rows of regular vector instructions: arithmetic in every float mode, comparisons of every type, conversions, minima
and maxima, integer and bit operations.

    python3 tests/isa/generate/vector.py

writes tests/isa/vector_*.ins. Expected values are exact rationals and integers (reference.py); irregular instructions have rows
written by hand beside these. llvm-mc-22 encodes the rows; the tests check that it still does."""

from fractions import Fraction

import reference as r
from reference import DOWN, EVEN, F16, F32, F64, LAUNCH, OVFL, UP, ZERO
from writer import File, seeded

FLOATS = {"f16": F16, "f32": F32, "f64": F64}
LANES = 12
OLD = 0x5A5A_5A5A


def width(ty):
    return 32 if ty in ("mask",) else int(ty[1:])


def signed(value, bits):
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


# ---------------------------------------------------------------- values


def edges(fmt):
    one = fmt.bias << fmt.fraction
    top = fmt.infinity
    plus = [0, 1, 2, (1 << fmt.fraction) - 1, 1 << fmt.fraction, (1 << fmt.fraction) + 1, one - 1, one, one + 1,
            one + (1 << fmt.fraction) // 2, top - 1, top, top + 1, top | 1 << (fmt.fraction - 1)]
    return plus + [x | fmt.sign for x in plus]


def any_float(fmt, rng):
    kind = rng.randrange(4)
    if kind == 0:
        return rng.choice(edges(fmt))
    bits = rng.getrandbits(fmt.width)
    if kind == 1:
        # Around 1, with few digits: sums and products are exact or ties.
        exponent = fmt.bias + rng.randrange(-3, 4)
        digits = rng.getrandbits(3) << (fmt.fraction - 3) | rng.getrandbits(1)
        return bits & fmt.sign | exponent << fmt.fraction | digits
    if fmt.magnitude(bits) >= fmt.infinity:
        bits ^= 1 << (fmt.fraction + 1)
    return bits


def partner(fmt, rng, a):
    """Close to a, or so far from it that the product meets the range's end, or anything."""
    kind = rng.randrange(3)
    size = fmt.magnitude(a)
    if kind == 0 or size >= fmt.infinity:
        return any_float(fmt, rng)
    exponent = size >> fmt.fraction
    if kind == 1:
        exponent = exponent - rng.choice([0, 0, 1, fmt.fraction, fmt.fraction + 1, fmt.fraction + 2])
        fraction = rng.choice([size, size ^ 1, size + 1, rng.getrandbits(fmt.fraction), 0, 1])
    else:
        end = rng.choice([1, 1, (1 << fmt.exponent) - 2])
        exponent = end + fmt.bias - exponent + rng.randrange(-2, 2)
        fraction = rng.getrandbits(fmt.fraction) | rng.choice([0, (1 << fmt.fraction) - 1])
    exponent = max(0, min((1 << fmt.exponent) - 2, exponent))
    return rng.getrandbits(1) << (fmt.width - 1) | exponent << fmt.fraction | fraction & ((1 << fmt.fraction) - 1)


def any_integer(bits, rng):
    edge = [0, 1, 2, 3, (1 << bits) - 1, (1 << bits) - 2, 1 << (bits - 1), (1 << (bits - 1)) - 1, (1 << (bits - 1)) + 1]
    return rng.choice(edge) if rng.randrange(3) == 0 else rng.getrandbits(bits) >> rng.choice([0, 0, bits // 2, bits - 6])


def operands(types, rng):
    """One lane's operands. At most one NaN: which of two an addition gives on is not its row's concern."""
    out = []
    for ty in types:
        if ty in FLOATS:
            fmt = FLOATS[ty]
            before = [x for t, x in zip(types, out) if t == ty]
            out.append(partner(fmt, rng, before[-1]) if before else any_float(fmt, rng))
        else:
            out.append(any_integer(width(ty), rng))
    nans = [i for i, (t, x) in enumerate(zip(types, out)) if t in FLOATS and FLOATS[t].is_nan(x)]
    for i in nans[1:]:
        out[i] = FLOATS[types[i]].bias << FLOATS[types[i]].fraction
    if len(types) == 3 and types[0] in FLOATS and rng.randrange(3) == 0 and not nans:
        # An addend that cancels the product, or is a tie with it.
        fmt = FLOATS[types[0]]
        near = r.mul(fmt, LAUNCH, out[0], out[1])
        if types[2] == types[0] and fmt.magnitude(near) < fmt.infinity:
            out[2] = near ^ fmt.sign ^ rng.choice([0, 0, 1])
    if nans and len(types) == 3:
        # 0·inf + NaN: which NaN is not its row's concern either.
        out = [x if i in nans[:1] or types[i] not in FLOATS else FLOATS[types[i]].bias << FLOATS[types[i]].fraction
               for i, x in enumerate(out)]
    return out


def modes(fmt, rng):
    """MODE values that cover rounding and denormals of one format; the other field is anything."""
    other = 0 if fmt.field else 2
    for way, denormals in [(0, 3), (1, 3), (2, 3), (3, 3), (0, 0), (0, 1), (0, 2), (1, 0), (2, 2)]:
        mode = way << fmt.field | denormals << (fmt.field + 4)
        mode |= rng.randrange(4) << other | rng.choice([0, 1, 2, 3, 3]) << (other + 4)
        yield mode
    if fmt is F16:
        yield LAUNCH | OVFL
        yield 0xFF | OVFL


# ---------------------------------------------------------------- one row

SINGLE = ["v4", "v5", "v6"]
DOUBLE = ["v[8:9]", "v[10:11]", "v[12:13]"]


def emit(file, name, d, s, f, *, mode=LAUNCH, form="", rng, neg=0, abs_=0, opsel=None, omod=0, clamp=False, lanes=None,
         accumulate=False, exec_=None, literal=None, extra=None):
    """A row of `name` whose result f(operands) has type `d`. `literal`: position and value of a constant among the operands."""
    lanes = lanes or [operands(s, rng) for _ in range(LANES)]
    lanes = list(lanes) + [lanes[-1]] * (32 - len(lanes))
    exec_ = 0xFFFF_FFFF if exec_ is None else exec_
    halves = [1 if opsel and opsel[i] else 0 for i in range(3)]
    before, texts, places = {}, [], []
    for i, ty in enumerate(s):
        place = DOUBLE[i] if width(ty) == 64 else SINGLE[i]
        if accumulate and i == 2:
            place = "v[2:3]" if width(d) == 64 else "v1"
        places.append(place)
        if literal and literal[0] == i:
            texts.append(literal[2])
            for lane in lanes:
                lane[i] = literal[1]
            continue
        values = [lane[i] for lane in lanes]
        if width(ty) == 16:
            noise = [rng.getrandbits(16) for _ in values]
            values = [n | v << 16 if halves[i] else v | n << 16 for n, v in zip(noise[:LANES] + [noise[LANES]] * 32, values)]
        before[place] = values
        text = place
        if abs_ >> i & 1:
            text = f"|{text}|"
        if neg >> i & 1:
            text = "-" + text
        if not (accumulate and i == 2):
            texts.append(text)
    results = []
    for lane in lanes:
        args = []
        for i, (ty, x) in enumerate(zip(s, lane)):
            fmt = FLOATS.get(ty)
            if fmt and not (literal and literal[0] == i):
                x = x & ~fmt.sign if abs_ >> i & 1 else x
                x = x ^ fmt.sign if neg >> i & 1 else x
            args.append(x)
        results.append(f(mode & ~0xA0 if omod and d in FLOATS else mode, *args))
    if d in FLOATS:
        fmt = FLOATS[d]
        results = [r.omod(fmt, mode, omod, x) for x in results]
        if clamp:
            results = [r.clamp(fmt, x) for x in results]
    if d == "mask":
        mask = sum(1 << i for i, x in enumerate(results) if x and exec_ >> i & 1)
        target = {"": "vcc_lo", "_e32": "vcc_lo", "_e64": "s6"}[form]
        if name.startswith("v_cmpx"):
            target = "exec"
        after = {{"vcc_lo": "vcc"}.get(target, target): hex(mask)}
        texts = texts if target == "exec" else [target] + texts
    else:
        target = "v[2:3]" if width(d) == 64 else "v1"
        old = before.get(target, [OLD if width(d) <= 32 else OLD << 32 | OLD] * 32)
        before[target] = old
        if width(d) == 16:
            high = opsel and opsel[-1]
            results = [o & 0xFFFF | x << 16 if high else o & 0xFFFF_0000 | x for o, x in zip(old, results)]
        after = {target: [x if exec_ >> i & 1 else o for i, (x, o) in enumerate(zip(results, old))]}
        texts = [target] + texts
    if exec_ != 0xFFFF_FFFF:
        before["exec"] = hex(exec_)
    if mode != LAUNCH:
        before["mode"] = hex(mode)
    text = f"{name}{form} " + ", ".join(texts)
    if opsel and any(opsel):
        text += " op_sel:[" + ",".join(str(int(b)) for b in opsel) + "]"
    if clamp:
        text += " clamp"
    text += ["", " mul:2", " mul:4", " div:2"][omod]
    before.update(extra or {})
    file.row(text, before, after)


MASKS = [None, 0xFFFF_00F7, 0x0000_0AAA, 0x8000_0101]


def arithmetic(file, name, ty, s, f, form="_e32", own="", halves=False, modifiers=True, **more):
    """All float modes, then modifiers, halves and lanes switched off."""
    fmt, rng = FLOATS[ty], seeded(name, ty)
    f = (lambda g: lambda mode, *args: g(fmt, mode, *args))(f)
    for mode in modes(fmt, rng):
        emit(file, name, ty, s, f, mode=mode, form=form, rng=rng, **more)
    if not modifiers:
        return
    long = own or "_e64"
    long = "" if long == "none" else long
    floats = [i for i, t in enumerate(s) if t in FLOATS and not (more.get("accumulate") and i == 2)]
    every = sum(1 << i for i in floats)
    for n in range(4):
        neg, abs_ = rng.getrandbits(3) & every, rng.getrandbits(3) & every
        mode = rng.choice([LAUNCH, LAUNCH | 0xA, 0x0F, 0xA3])
        opsel = [rng.getrandbits(1) for _ in range(len(s) + 1)] if halves else None
        if opsel:
            opsel = opsel[: len(s)] + [opsel[-1]]
        emit(file, name, ty, s, f, mode=[LAUNCH, mode][n % 2], form=long, rng=rng, neg=neg, abs_=abs_, opsel=opsel,
             omod=n, clamp=n == 2, exec_=rng.choice(MASKS), **more)
    emit(file, name, ty, s, f, form=long, rng=rng, clamp=True, **more)


def make_arithmetic():
    file = File("vector_arithmetic.ins", [
        "Generated by generate/vector.py; not to be edited. Float arithmetic in every rounding and denormal mode, with modifiers,",
        "halves and lanes switched off. Values are exact rationals rounded once.",
    ])
    for ty in ("f32", "f16", "f64"):
        arithmetic(file, f"v_add_{ty}", ty, [ty] * 2, r.add)
        arithmetic(file, f"v_mul_{ty}", ty, [ty] * 2, r.mul)
        if ty != "f64":
            arithmetic(file, f"v_sub_{ty}", ty, [ty] * 2, r.sub)
            arithmetic(file, f"v_subrev_{ty}", ty, [ty] * 2, lambda fmt, m, a, b: r.sub(fmt, m, b, a))
            arithmetic(file, f"v_fmac_{ty}", ty, [ty] * 3, r.fma, accumulate=True)
        arithmetic(file, f"v_fma_{ty}", ty, [ty] * 3, r.fma, form="", own="none", halves=ty == "f16")
        exponent = {"f16": "i16", "f32": "i32", "f64": "i32"}[ty]
        bits = width(exponent)

        def scale(fmt, mode, a, n, bits=bits):
            return r.ldexp(fmt, mode, a, signed(n, bits))

        rng = seeded("ldexp", ty)
        fmt = FLOATS[ty]

        def some(n, rng=rng, fmt=fmt, bits=bits):
            out = []
            for _ in range(n):
                a = any_float(fmt, rng)
                exponent = (fmt.magnitude(a) >> fmt.fraction) - fmt.bias
                to = rng.choice([1 - fmt.bias, 1 - fmt.bias - fmt.fraction, fmt.bias]) - exponent + rng.randrange(-3, 3)
                out.append([a, (to if rng.randrange(4) else any_integer(bits, rng)) & ((1 << bits) - 1)])
            return out

        for mode in modes(fmt, rng):
            emit(file, f"v_ldexp_{ty}", ty, [ty, exponent], lambda m, a, n, fmt=fmt, scale=scale: scale(fmt, m, a, n), mode=mode,
                 form="_e32" if ty == "f16" else "", rng=rng, lanes=some(LANES))
        for n in range(4):
            emit(file, f"v_ldexp_{ty}", ty, [ty, exponent], lambda m, a, n, fmt=fmt, scale=scale: scale(fmt, m, a, n),
                 mode=[LAUNCH, 0xA5][n & 1], form="_e64" if ty == "f16" else "", rng=rng, lanes=some(LANES), neg=n & 1,
                 abs_=n >> 1, omod=n, clamp=n == 3, exec_=rng.choice(MASKS))
    for ty in ("f32", "f16"):
        fmt, rng = FLOATS[ty], seeded("fmamk", ty)
        for mode in modes(fmt, rng):
            for name, place in ((f"v_fmamk_{ty}", 1), (f"v_fmaak_{ty}", 2)):
                constant = any_float(fmt, rng)
                while fmt.is_nan(constant) or constant < 100:
                    constant = any_float(fmt, rng)
                emit(file, name, ty, [ty] * 3, lambda m, a, b, c, fmt=fmt: r.fma(fmt, m, a, b, c), mode=mode, rng=rng,
                     literal=(place, constant, hex(constant)))

    def dx9(fmt, mode, a, b):
        zero = any(fmt.magnitude(fmt.input(mode, x)) == 0 for x in (a, b))
        return 0 if zero else r.mul(fmt, mode, a, b)

    def dx9_fma(fmt, mode, a, b, c):
        mode &= ~0x30  # denormals are zeros, whatever MODE says
        zero = any(fmt.magnitude(fmt.input(mode, x)) == 0 for x in (a, b))
        return r.add(fmt, mode, 0, c) if zero else r.fma(fmt, mode, a, b, c)

    def mullit(fmt, mode, a, b, c):
        least = fmt.sign | fmt.infinity - 1
        c = fmt.input(mode, c)
        if b in (least, fmt.sign | fmt.infinity) or fmt.is_nan(b) or fmt.is_nan(c) or fmt.magnitude(c) == 0 or fmt.negative(c):
            return least
        return dx9(fmt, mode, a, b)

    arithmetic(file, "v_mul_dx9_zero_f32", "f32", ["f32"] * 2, dx9)
    arithmetic(file, "v_fma_dx9_zero_f32", "f32", ["f32"] * 3, dx9_fma, form="", own="none")
    arithmetic(file, "v_mullit_f32", "f32", ["f32"] * 3, mullit, form="", own="none")
    for ty in ("f32", "f16", "f64"):
        arithmetic(file, f"v_fract_{ty}", ty, [ty], r.fract)
        for name, way in (("trunc", ZERO), ("ceil", UP), ("rndne", EVEN), ("floor", DOWN)):
            rng, fmt = seeded(name, ty), FLOATS[ty]

            def whole(m, a, way=way, fmt=fmt):
                return r.to_integral(fmt, m, a, way)

            lanes = [[x] for x in edges(fmt)]
            emit(file, f"v_{name}_{ty}", ty, [ty], whole, form="_e32", rng=rng, lanes=lanes)
            halves = [[r.convert(F32, fmt, LAUNCH, F32.round(LAUNCH, Fraction(n, 4)))] for n in range(-14, 15)]
            emit(file, f"v_{name}_{ty}", ty, [ty], whole, form="_e32", rng=rng, lanes=halves, mode=LAUNCH | 0xA)
            emit(file, f"v_{name}_{ty}", ty, [ty], whole, form="_e32", rng=rng, lanes=lanes, mode=0xA5)
            emit(file, f"v_{name}_{ty}", ty, [ty], whole, form="_e64", rng=rng, mode=0x50, neg=1, omod=1, exec_=0xFFFF_00F7)
        rng, fmt = seeded("frexp", ty), FLOATS[ty]
        lanes = [[x] for x in edges(fmt)]
        for mode in (LAUNCH, 0xA3):
            emit(file, f"v_frexp_mant_{ty}", ty, [ty], lambda m, a, fmt=fmt: r.frexp(fmt, m, a)[0], form="_e32", rng=rng, lanes=lanes,
                 mode=mode)
            d = "i16" if ty == "f16" else "i32"
            mask = 0xFFFF if ty == "f16" else 0xFFFF_FFFF
            emit(file, f"v_frexp_exp_{d}_{ty}", d, [ty], lambda m, a, fmt=fmt, mask=mask: r.frexp(fmt, m, a)[1] & mask, form="_e32",
                 rng=rng, lanes=lanes, mode=mode)
    file.write()


# ---------------------------------------------------------------- division


def make_division():
    file = File("vector_division.ins", [
        "Generated by generate/vector.py; not to be edited. The last two steps of a division, in every mode. The first one's cases, and",
        "how the three work together, are judged by hand-written rows and by the emulator's own tests.",
    ])

    def fixup(fmt, mode, q, d, n):
        d, n = fmt.input(mode, d), fmt.input(mode, n)
        sign = (d ^ n) & fmt.sign
        zero = [fmt.magnitude(x) == 0 for x in (d, n)]
        infinite = [fmt.is_infinite(x) for x in (d, n)]
        if fmt.is_nan(n) or fmt.is_nan(d):
            return fmt.quiet(n if fmt.is_nan(n) else d)
        if all(zero) or all(infinite):
            return fmt.invalid
        if zero[0] or infinite[1]:
            return sign | fmt.infinity
        if zero[1] or infinite[0]:
            return sign
        if fmt is not F16:
            exponents = [fmt.magnitude(x) >> fmt.fraction for x in (d, n)]
            if exponents[1] - exponents[0] < -(fmt.bias + fmt.fraction):
                return fmt.round(mode, Fraction(-1 if sign else 1, 2**5000))
            if fmt.magnitude(q) >= fmt.infinity:
                return fmt.overflow(mode, bool(sign))
        return sign | fmt.magnitude(q)

    for ty in ("f32", "f64", "f16"):
        fmt, rng = FLOATS[ty], seeded("fixup", ty)
        for mode in modes(fmt, rng):
            lanes = [[any_float(fmt, rng) for _ in range(3)] for _ in range(LANES)]
            lanes += [[rng.choice(edges(fmt)) for _ in range(3)] for _ in range(LANES)]
            emit(file, f"v_div_fixup_{ty}", ty, [ty] * 3, lambda m, *x, fmt=fmt: fixup(fmt, m, *x), mode=mode, rng=rng, lanes=lanes)
        if ty == "f16":
            continue
        by = 64 if ty == "f32" else 128
        for mode in modes(fmt, rng):
            for back in (False, True):
                def fmas(m, a, b, c, fmt=fmt, by=by, back=back):
                    scale = by if fmt.magnitude(c) >> fmt.fraction > fmt.bias else -by
                    return r.fma(fmt, m, a, b, c, scale=scale if back else 0, flush_inputs=False)

                emit(file, f"v_div_fmas_{ty}", ty, [ty] * 3, fmas, mode=mode, rng=rng, extra={"vcc": "0xffffffff" if back else "0"})
    file.write()


# ---------------------------------------------------------------- selection


def make_selection():
    file = File("vector_selection.ins", [
        "Generated by generate/vector.py; not to be edited. Minima, maxima and medians: NaN, signed zeros, denormals that come in and",
        "go out as they came.",
    ])
    two = {"min_num": (0, 0), "max_num": (1, 0), "minimum": (0, 1), "maximum": (1, 1)}
    three = {
        "min3_num": ("min_num", "min_num"), "max3_num": ("max_num", "max_num"), "minimum3": ("minimum", "minimum"),
        "maximum3": ("maximum", "maximum"), "minmax_num": ("min_num", "max_num"), "maxmin_num": ("max_num", "min_num"),
        "minimummaximum": ("minimum", "maximum"), "maximumminimum": ("maximum", "minimum"),
    }

    def picked(fmt, name, a, b):
        return r.select(fmt, *map(bool, two[name]), a, b)

    def median(fmt, a, b, c):
        if any(fmt.is_nan(x) for x in (a, b, c)):
            return picked(fmt, "min_num", picked(fmt, "min_num", a, b), c)
        return sorted((a, b, c), key=lambda x: r.order(fmt, x))[1]

    def rows(name, ty, count, choose, form):
        fmt, rng = FLOATS[ty], seeded(name, ty)

        def let_in(mode, *args):
            return choose(fmt, *(fmt.input(mode, x) for x in args))

        quiet, signalling = fmt.infinity | 1 << (fmt.fraction - 1) | 5, fmt.sign | fmt.infinity | 3
        values = [0, fmt.sign, 1, fmt.sign | 7, fmt.bias << fmt.fraction, fmt.infinity, fmt.sign | fmt.infinity, quiet, signalling]
        for mode in (LAUNCH, 0xAF, 0x50, 0x05):
            lanes = [[rng.choice(values) for _ in range(count)] for _ in range(24)]
            emit(file, name, ty, [ty] * count, let_in, mode=mode, form=form, rng=rng, lanes=lanes)
        halves = ty == "f16" and form == ""
        for omod in (0, 3):
            lanes = [[rng.choice(values + [any_float(fmt, rng)]) for _ in range(count)] for _ in range(16)]
            opsel = [rng.getrandbits(1) for _ in range(count + 1)] if halves else None
            emit(file, name, ty, [ty] * count, let_in, form=form.replace("32", "64"), rng=rng, lanes=lanes, neg=rng.getrandbits(count),
                 abs_=rng.getrandbits(count), omod=omod, clamp=omod == 0, exec_=0xFFFF_0FF7, opsel=opsel)

    for ty in ("f32", "f16", "f64"):
        for name in two:
            rows(f"v_{name}_{ty}", ty, 2, lambda fmt, a, b, name=name: picked(fmt, name, a, b), "_e32" if "num" in name else "")
        if ty == "f64":
            continue
        for name, (inner, outer) in three.items():
            rows(f"v_{name}_{ty}", ty, 3,
                 lambda fmt, a, b, c, inner=inner, outer=outer: picked(fmt, outer, picked(fmt, inner, a, b), c), "")
        rows(f"v_med3_num_{ty}", ty, 3, median, "")
    file.write()


# ---------------------------------------------------------------- comparisons


def make_comparisons():
    file = File("vector_compare.ins", [
        "Generated by generate/vector.py; not to be edited. Every comparison of every type, into VCC, a scalar register and EXEC.",
    ])
    predicates = {
        "lt": lambda o: o == -1, "eq": lambda o: o == 0, "le": lambda o: o in (-1, 0), "gt": lambda o: o == 1,
        "lg": lambda o: o in (-1, 1), "ge": lambda o: o in (0, 1), "o": lambda o: o is not None, "u": lambda o: o is None,
        "nge": lambda o: o not in (0, 1), "nlg": lambda o: o not in (-1, 1), "ngt": lambda o: o != 1,
        "nle": lambda o: o not in (-1, 0), "neq": lambda o: o != 0, "nlt": lambda o: o != -1,
    }

    def compared(a, b):
        return (a > b) - (a < b)

    for ty, fmt in FLOATS.items():
        for name, holds in predicates.items():
            rng = seeded(name, ty)

            def result(mode, a, b, fmt=fmt, holds=holds):
                a, b = fmt.input(mode, a), fmt.input(mode, b)
                if fmt.is_nan(a) or fmt.is_nan(b):
                    return holds(None)
                values = [r.order(fmt, x) if not fmt.magnitude(x) == 0 else 0 for x in (a, b)]
                return holds(compared(*values))

            def lanes(rng=rng, fmt=fmt):
                out = [[rng.choice(edges(fmt)), rng.choice(edges(fmt))] for _ in range(12)]
                return out + [[x, x ^ rng.choice([0, 0, fmt.sign, 1])] for x in (any_float(fmt, rng) for _ in range(12))]

            emit(file, f"v_cmp_{name}_{ty}", "mask", [ty] * 2, result, form="_e32", rng=rng, lanes=lanes())
            emit(file, f"v_cmp_{name}_{ty}", "mask", [ty] * 2, result, form="_e64", rng=rng, lanes=lanes(), mode=0xA5, exec_=0xFFFF_0FF7,
                 neg=rng.getrandbits(2), abs_=rng.getrandbits(2))
            emit(file, f"v_cmpx_{name}_{ty}", "mask", [ty] * 2, result, form="_e32", rng=rng, lanes=lanes(), exec_=0x00FF_FF77)
        rng = seeded("class", ty)

        def in_class(mode, a, mask, fmt=fmt):
            return mask >> r.class_bit(fmt, a) & 1

        selector = "b16" if ty == "f16" else "b32"
        lanes = [[x, 1 << r.class_bit(fmt, x) if i % 2 else 0x3FF ^ 1 << r.class_bit(fmt, x)] for i, x in enumerate(edges(fmt))]
        for name in ("v_cmp_class", "v_cmpx_class"):
            emit(file, f"{name}_{ty}", "mask", [ty, selector], in_class, form="_e32", rng=rng, lanes=lanes, mode=0x05)
        emit(file, f"v_cmp_class_{ty}", "mask", [ty, selector], in_class, form="_e64", rng=rng, lanes=lanes, neg=1, exec_=0x0FFF_FFF5)
    for bits in (16, 32, 64):
        for letter in "iu":
            for name in ("lt", "eq", "le", "gt", "ne", "ge"):
                ty, rng = f"{letter}{bits}", seeded(name, letter, bits)
                holds = predicates["lg" if name == "ne" else name]

                def result(mode, a, b, bits=bits, letter=letter, holds=holds):
                    values = [signed(x, bits) for x in (a, b)] if letter == "i" else (a, b)
                    return holds(compared(*values))

                def lanes(rng=rng, bits=bits):
                    out = [[any_integer(bits, rng), any_integer(bits, rng)] for _ in range(12)]
                    return out + [[x, x ^ rng.choice([0, 0, 1, 1 << (bits - 1)])] for x, _ in list(out)]

                emit(file, f"v_cmp_{name}_{ty}", "mask", [ty] * 2, result, form="_e32", rng=rng, lanes=lanes())
                emit(file, f"v_cmp_{name}_{ty}", "mask", [ty] * 2, result, form="_e64", rng=rng, lanes=lanes(), exec_=0xFFFF_0FF7)
                emit(file, f"v_cmpx_{name}_{ty}", "mask", [ty] * 2, result, form="_e32", rng=rng, lanes=lanes(), exec_=0x00FF_FF77)
    file.write()


# ---------------------------------------------------------------- conversions


def make_conversions():
    file = File("vector_convert.ins", [
        "Generated by generate/vector.py; not to be edited. Conversions between formats, in every mode where they round.",
    ])
    for source, target in (("f32", "f16"), ("f16", "f32"), ("f64", "f32"), ("f32", "f64")):
        name, s, t = f"v_cvt_{target}_{source}", FLOATS[source], FLOATS[target]
        rng = seeded(name)

        def near(rng=rng, s=s, t=t):
            """Values beside the target's own: halfway, next to it, past its ends."""
            out = []
            for _ in range(LANES):
                if s.fraction < t.fraction or rng.randrange(4) == 0:
                    out.append([any_float(s, rng)])
                    continue
                x = any_float(t, rng)
                x = t.sign if t.magnitude(x) >= t.infinity else x
                wide = r.convert(t, s, LAUNCH, x)
                half = 1 << (s.fraction - t.fraction - 1)
                out.append([max(0, wide + rng.choice([half, half, half - 1, half + 1, 1, 0]))])
            top = t.infinity - 1
            out[0] = [r.convert(t, s, LAUNCH, top) + (1 << max(0, s.fraction - t.fraction - 1) if s.fraction > t.fraction else 0)]
            return out

        def result(m, a, s=s, t=t):
            return r.convert(s, t, m, a)

        for mode in list(modes(s, rng)) + list(modes(t, rng)):
            emit(file, name, target, [source], result, mode=mode, form="_e32", rng=rng, lanes=near())
        for n in range(4):
            emit(file, name, target, [source], result, form="_e64", rng=rng, lanes=near(), neg=n & 1, abs_=n >> 1, omod=n, clamp=n == 1,
                 exec_=rng.choice(MASKS), mode=[LAUNCH, 0xAF][n & 1])
    for target, source in (("f32", "i32"), ("f32", "u32"), ("f64", "i32"), ("f64", "u32"), ("f16", "i16"), ("f16", "u16")):
        name, t, bits = f"v_cvt_{target}_{source}", FLOATS[target], width(source)
        rng = seeded(name)

        def result(m, a, t=t, bits=bits, source=source):
            return t.round(m, Fraction(signed(a, bits) if source[0] == "i" else a))

        for mode in modes(t, rng):
            lanes = [[rng.getrandbits(bits) >> rng.randrange(bits)] for _ in range(LANES)] + [[(1 << bits) - 1], [1 << (bits - 1)], [0]]
            emit(file, name, target, [source], result, mode=mode, form="_e32", rng=rng, lanes=lanes)
        emit(file, name, target, [source], result, form="_e64", rng=rng, omod=3, exec_=0xFFFF_00F7)
        emit(file, name, target, [source], result, form="_e64", rng=rng, clamp=True)
    for i in range(4):
        name, rng = f"v_cvt_f32_ubyte{i}", seeded("ubyte", i)
        emit(file, name, "f32", ["u32"], lambda m, a, i=i: F32.round(m, Fraction(a >> 8 * i & 255)), form="_e32", rng=rng)
        emit(file, name, "f32", ["u32"], lambda m, a, i=i: F32.round(m, Fraction(a >> 8 * i & 255)), form="_e64", rng=rng, omod=1)
    emit(file, "v_cvt_off_f32_i4", "f32", ["u32"], lambda m, a: F32.round(m, Fraction(signed(a, 4), 16)), form="_e32", rng=seeded("off"),
         lanes=[[x | 0x5A5A_5A50] for x in range(16)])
    whole = {
        "v_cvt_i32_f32": ("i32", "f32", -2**31, 2**31 - 1, ZERO, False), "v_cvt_u32_f32": ("u32", "f32", 0, 2**32 - 1, ZERO, False),
        "v_cvt_i32_f64": ("i32", "f64", -2**31, 2**31 - 1, ZERO, False), "v_cvt_u32_f64": ("u32", "f64", 0, 2**32 - 1, ZERO, False),
        "v_cvt_i16_f16": ("i16", "f16", -2**15, 2**15 - 1, ZERO, False), "v_cvt_u16_f16": ("u16", "f16", 0, 2**16 - 1, ZERO, False),
        "v_cvt_floor_i32_f32": ("i32", "f32", -2**31, 2**31 - 1, DOWN, True),
        "v_cvt_nearest_i32_f32": ("i32", "f32", -2**31, 2**31 - 1, "half up", True),
    }
    for name, (d, source, low, high, way, by_sign) in whole.items():
        fmt, rng, mask = FLOATS[source], seeded(name), (1 << width(d)) - 1

        def result(m, a, fmt=fmt, low=low, high=high, way=way, by_sign=by_sign, mask=mask):
            if way == "half up":
                x = fmt.input(m, a)
                if fmt.magnitude(x) < fmt.infinity:
                    return max(low, min(high, r.floor(fmt.value(x) + Fraction(1, 2)))) & mask
                way = DOWN
            return r.to_int(fmt, m, a, low, high, way, by_sign) & mask

        quarters = [[fmt.round(LAUNCH, Fraction(n, 4))] for n in range(-10, 11)]
        ends = [[fmt.round(LAUNCH | way << fmt.field, Fraction(x + e, 1))]
                for x in (low, high) for e in (-1, Fraction(-1, 2), 0, Fraction(1, 2), 1) for way in (UP, DOWN)]
        for lanes, mode in ((quarters, LAUNCH), (ends, LAUNCH), ([[x] for x in edges(fmt)], LAUNCH), (quarters, LAUNCH | 0xA),
                            ([[x] for x in edges(fmt)], 0x00)):
            emit(file, name, d, [source], result, form="_e32", rng=rng, lanes=lanes, mode=mode)
        emit(file, name, d, [source], result, form="_e64", rng=rng, neg=1, abs_=1, exec_=0xFFFF_00F7)

    rng = seeded("pk")

    def pack(low, high):
        return low | high << 16

    def rtz(m, a, b):
        return pack(*(r.convert(F32, F16, m | 0xC, x) for x in (a, b)))

    def thirty_twos(count):
        out = []
        for _ in range(LANES):
            out.append([r.convert(F16, F32, LAUNCH, any_float(F16, rng)) + rng.choice([0, 1, 0x1FFF]) & 0xFFFF_FFFF
                        if rng.randrange(3) else any_float(F32, rng) for _ in range(count)])
        return out

    for mode in (LAUNCH, LAUNCH | 0xA | OVFL, 0xB0, 0xE0, 0x55):
        emit(file, "v_cvt_pk_rtz_f16_f32", "b32", ["f32"] * 2, rtz, mode=mode, form="_e32", rng=rng, lanes=thirty_twos(2))
    emit(file, "v_cvt_pk_rtz_f16_f32", "b32", ["f32"] * 2, rtz, form="_e64", rng=rng, lanes=thirty_twos(2), neg=1, abs_=2)

    def byte(m, a, index, word):
        at = (index & 3) * 8
        return word & ~(255 << at) | r.to_int(F32, m, a, 0, 255, F32.direction(m)) << at

    for way in range(4):
        values = [F32.round(LAUNCH, Fraction(n, 4)) for n in range(-6, 12)] + [F32.round(LAUNCH, Fraction(n, 2)) for n in range(507, 515)]
        lanes = [[x, rng.getrandbits(3), rng.getrandbits(32)] for x in values + edges(F32)[11:14]]
        emit(file, "v_cvt_pk_u8_f32", "b32", ["f32", "u32", "u32"], byte, mode=LAUNCH | way, rng=rng, lanes=lanes)

    def integers(low, high):
        return lambda m, a, b: pack(*(r.to_int(F32, m, x, low, high, ZERO) & 0xFFFF for x in (a, b)))

    def norm(fmt, scale):
        def one(m, a):
            a = fmt.input(m, a)
            if fmt.is_nan(a):
                return 0
            if fmt.is_infinite(a):
                exact = Fraction(-1 if fmt.negative(a) else 1)
            else:
                exact = max(Fraction(-1), min(Fraction(1), fmt.value(a)))
            exact = max(exact, Fraction(0)) if scale == 65535 else exact
            return r.rounded_integer(exact * scale, EVEN) & 0xFFFF
        return one

    for letter, low, high in (("i", -32768, 32767), ("u", 0, 65535)):
        values = [F32.round(LAUNCH, Fraction(x) + e) for x in (low, high, 0) for e in (Fraction(-3, 4), Fraction(-1, 2), 0, 1)]
        lanes = [[x, rng.choice(values + edges(F32))] for x in values]
        for mode in (LAUNCH, LAUNCH | 1, 0x02):
            emit(file, f"v_cvt_pk_{letter}16_f32", "b32", ["f32"] * 2, integers(low, high), mode=mode, rng=rng, lanes=lanes)
        scale = 32767 if letter == "i" else 65535
        for ty, fmt in (("f16", F16), ("f32", F32)):
            one = norm(fmt, scale)
            values = edges(fmt) + [fmt.round(LAUNCH, Fraction(rng.randrange(-2000, 2000), 1999)) for _ in range(8)]
            pairs = [[x, rng.choice(values)] for x in rng.sample(values, 24)]
            for mode in (LAUNCH, 0x0F):
                emit(file, f"v_cvt_pk_norm_{letter}16_{ty}", "b32", [ty] * 2, lambda m, a, b, one=one: pack(one(m, a), one(m, b)),
                     mode=mode, rng=rng, lanes=pairs, opsel=None)
            emit(file, f"v_cvt_pk_norm_{letter}16_{ty}", "b32", [ty] * 2, lambda m, a, b, one=one: pack(one(m, a), one(m, b)),
                 rng=rng, lanes=pairs, neg=2, abs_=1, opsel=[1, 0, 0] if ty == "f16" else None)
            if ty == "f16":
                for mode in (LAUNCH, 0x0F):
                    emit(file, f"v_cvt_norm_{letter}16_f16", f"{letter}16", ["f16"], one, mode=mode, form="_e32", rng=rng,
                         lanes=[[x] for x in values])

    def packed(m, a, b):
        halves = [F16.input(m, x) for x in (a, b)]
        return pack(*(F16.quiet(x) if F16.is_nan(x) else x for x in halves))

    lanes = [[x, rng.choice(edges(F16))] for x in edges(F16)]
    emit(file, "v_pack_b32_f16", "b32", ["f16"] * 2, packed, rng=rng, lanes=lanes, opsel=[0, 1, 0])
    emit(file, "v_pack_b32_f16", "b32", ["f16"] * 2, packed, rng=rng, lanes=lanes, mode=0xB0, neg=1, abs_=2)
    clamped = {"v_cvt_pk_i16_i32": ("i32", -32768, 32767), "v_cvt_pk_u16_u32": ("u32", 0, 65535)}
    for name, (ty, low, high) in clamped.items():
        def both(m, a, b, ty=ty, low=low, high=high):
            return pack(*(max(low, min(high, signed(x, 32) if ty == "i32" else x)) & 0xFFFF for x in (a, b)))

        lanes = [[rng.choice([0, 1, 0x7FFF, 0x8000, 0xFFFF, 0x10000, 0xFFFF_FFFF, 0xFFFF_8000, 0xFFFF_7FFF, 0x8000_0000, rng.getrandbits(17)])
                  for _ in range(2)] for _ in range(16)]
        emit(file, name, "b32", [ty] * 2, both, rng=rng, lanes=lanes)
    emit(file, "v_cvt_i32_i16", "i32", ["i16"], lambda m, a: signed(a, 16) & 0xFFFF_FFFF, form="_e32", rng=rng)
    emit(file, "v_cvt_u32_u16", "u32", ["u16"], lambda m, a: a, form="_e32", rng=rng)
    emit(file, "v_sat_pk_u8_i16", "b16", ["b32"],
         lambda m, a: max(0, min(255, signed(a, 16))) | max(0, min(255, signed(a >> 16, 16))) << 8, form="_e32", rng=rng,
         lanes=[[x] for x in (0, 0x00FF_0100, 0xFFFF_0001, 0x8000_7FFF, 0x0042_00FE, 0x0100_00FF)])
    file.write()


# ---------------------------------------------------------------- integers


def make_integers():
    file = File("vector_integer.ins", [
        "Generated by generate/vector.py; not to be edited. Integer and bit operations, with clamp where it saturates, and halves.",
    ])
    M32, M16, M64 = (1 << 32) - 1, (1 << 16) - 1, (1 << 64) - 1

    def i24(x):
        return signed(x, 24)

    def leading(x):
        return 31 - (x.bit_length() - 1) if x else -1

    def same_bits(x):
        x = signed(x, 32)
        other = x ^ x >> 31
        return leading(other) if other else -1

    # name: form, result type, source types, exact result; a result type that saturates is named in SATURATES.
    table = [
        ("v_mov_b32", "_e32", "b32", ["b32"], lambda a: a),
        ("v_not_b32", "_e32", "b32", ["b32"], lambda a: ~a),
        ("v_not_b16", "_e32", "b16", ["b16"], lambda a: ~a),
        ("v_bfrev_b32", "_e32", "b32", ["b32"], lambda a: int(f"{a:032b}"[::-1], 2)),
        ("v_clz_i32_u32", "_e32", "i32", ["u32"], leading),
        ("v_ctz_i32_b32", "_e32", "i32", ["b32"], lambda a: (a & -a).bit_length() - 1),
        ("v_cls_i32", "_e32", "i32", ["i32"], same_bits),
        ("v_mul_hi_i32_i24", "_e32", "i32", ["i32"] * 2, lambda a, b: i24(a) * i24(b) >> 32),
        ("v_mul_hi_u32_u24", "_e32", "u32", ["u32"] * 2, lambda a, b: (a & 0xFFFFFF) * (b & 0xFFFFFF) >> 32),
        ("v_min_i32", "_e32", "i32", ["i32"] * 2, lambda a, b: min(signed(a, 32), signed(b, 32))),
        ("v_max_i32", "_e32", "i32", ["i32"] * 2, lambda a, b: max(signed(a, 32), signed(b, 32))),
        ("v_min_u32", "_e32", "u32", ["u32"] * 2, min),
        ("v_max_u32", "_e32", "u32", ["u32"] * 2, max),
        ("v_lshlrev_b32", "_e32", "b32", ["b32"] * 2, lambda a, b: b << (a & 31)),
        ("v_lshrrev_b32", "_e32", "b32", ["b32"] * 2, lambda a, b: b >> (a & 31)),
        ("v_ashrrev_i32", "_e32", "i32", ["b32", "i32"], lambda a, b: signed(b, 32) >> (a & 31)),
        ("v_and_b32", "_e32", "b32", ["b32"] * 2, lambda a, b: a & b),
        ("v_or_b32", "_e32", "b32", ["b32"] * 2, lambda a, b: a | b),
        ("v_xor_b32", "_e32", "b32", ["b32"] * 2, lambda a, b: a ^ b),
        ("v_xnor_b32", "_e32", "b32", ["b32"] * 2, lambda a, b: ~(a ^ b)),
        ("v_lshlrev_b64", "_e32", "b64", ["b32", "b64"], lambda a, b: b << (a & 63)),
        ("v_bfe_u32", "", "u32", ["u32"] * 3, lambda a, b, c: a >> (b & 31) & (1 << (c & 31)) - 1),
        ("v_bfe_i32", "", "i32", ["i32", "u32", "u32"],
         lambda a, b, c: signed(signed(a, 32) >> (b & 31) & (1 << (c & 31)) - 1, c & 31) if c & 31 else 0),
        ("v_bfi_b32", "", "b32", ["b32"] * 3, lambda a, b, c: a & b | ~a & c),
        ("v_lerp_u8", "", "b32", ["b32"] * 3,
         lambda a, b, c: sum(((a >> n & 255) + (b >> n & 255) + (c >> n & 1) >> 1) << n for n in (0, 8, 16, 24))),
        ("v_alignbit_b32", "", "b32", ["b32", "b32", "b16"], lambda a, b, c: (a << 32 | b) >> (c & 31)),
        ("v_alignbyte_b32", "", "b32", ["b32", "b32", "b16"], lambda a, b, c: (a << 32 | b) >> (c & 3) * 8),
        ("v_min3_i32", "", "i32", ["i32"] * 3, lambda *x: min(signed(v, 32) for v in x)),
        ("v_max3_i32", "", "i32", ["i32"] * 3, lambda *x: max(signed(v, 32) for v in x)),
        ("v_med3_i32", "", "i32", ["i32"] * 3, lambda *x: sorted(signed(v, 32) for v in x)[1]),
        ("v_min3_u32", "", "u32", ["u32"] * 3, min),
        ("v_max3_u32", "", "u32", ["u32"] * 3, max),
        ("v_med3_u32", "", "u32", ["u32"] * 3, lambda *x: sorted(x)[1]),
        ("v_min3_i16", "", "i16", ["i16"] * 3, lambda *x: min(signed(v, 16) for v in x)),
        ("v_max3_i16", "", "i16", ["i16"] * 3, lambda *x: max(signed(v, 16) for v in x)),
        ("v_med3_i16", "", "i16", ["i16"] * 3, lambda *x: sorted(signed(v, 16) for v in x)[1]),
        ("v_min3_u16", "", "u16", ["u16"] * 3, min),
        ("v_max3_u16", "", "u16", ["u16"] * 3, max),
        ("v_med3_u16", "", "u16", ["u16"] * 3, lambda *x: sorted(x)[1]),
        ("v_maxmin_i32", "", "i32", ["i32"] * 3, lambda a, b, c: min(max(signed(a, 32), signed(b, 32)), signed(c, 32))),
        ("v_minmax_i32", "", "i32", ["i32"] * 3, lambda a, b, c: max(min(signed(a, 32), signed(b, 32)), signed(c, 32))),
        ("v_maxmin_u32", "", "u32", ["u32"] * 3, lambda a, b, c: min(max(a, b), c)),
        ("v_minmax_u32", "", "u32", ["u32"] * 3, lambda a, b, c: max(min(a, b), c)),
        ("v_xor3_b32", "", "b32", ["b32"] * 3, lambda a, b, c: a ^ b ^ c),
        ("v_xad_u32", "", "u32", ["u32"] * 3, lambda a, b, c: (a ^ b) + c),
        ("v_lshl_add_u32", "", "u32", ["u32"] * 3, lambda a, b, c: (a << (b & 31)) + c),
        ("v_add_lshl_u32", "", "u32", ["u32"] * 3, lambda a, b, c: (a + b & M32) << (c & 31)),
        ("v_add3_u32", "", "u32", ["u32"] * 3, lambda a, b, c: a + b + c),
        ("v_lshl_or_b32", "", "b32", ["b32"] * 3, lambda a, b, c: a << (b & 31) | c),
        ("v_and_or_b32", "", "b32", ["b32"] * 3, lambda a, b, c: a & b | c),
        ("v_or3_b32", "", "b32", ["b32"] * 3, lambda a, b, c: a | b | c),
        ("v_mul_lo_u32", "", "u32", ["u32"] * 2, lambda a, b: a * b),
        ("v_mul_hi_u32", "", "u32", ["u32"] * 2, lambda a, b: a * b >> 32),
        ("v_mul_hi_i32", "", "i32", ["i32"] * 2, lambda a, b: signed(a, 32) * signed(b, 32) >> 32),
        ("v_mul_lo_u16", "", "u16", ["u16"] * 2, lambda a, b: a * b),
        ("v_min_u16", "", "u16", ["u16"] * 2, min),
        ("v_max_u16", "", "u16", ["u16"] * 2, max),
        ("v_min_i16", "", "i16", ["i16"] * 2, lambda a, b: min(signed(a, 16), signed(b, 16))),
        ("v_max_i16", "", "i16", ["i16"] * 2, lambda a, b: max(signed(a, 16), signed(b, 16))),
        ("v_lshlrev_b16", "", "b16", ["b16"] * 2, lambda a, b: b << (a & 15)),
        ("v_lshrrev_b16", "", "b16", ["b16"] * 2, lambda a, b: b >> (a & 15)),
        ("v_ashrrev_i16", "", "i16", ["b16", "i16"], lambda a, b: signed(b, 16) >> (a & 15)),
        ("v_lshrrev_b64", "", "b64", ["b32", "b64"], lambda a, b: b >> (a & 63)),
        ("v_ashrrev_i64", "", "i64", ["b32", "i64"], lambda a, b: signed(b, 64) >> (a & 63)),
        ("v_and_b16", "", "b16", ["b16"] * 2, lambda a, b: a & b),
        ("v_or_b16", "", "b16", ["b16"] * 2, lambda a, b: a | b),
        ("v_xor_b16", "", "b16", ["b16"] * 2, lambda a, b: a ^ b),
        ("v_bfm_b32", "", "b32", ["b32"] * 2, lambda a, b: (1 << (a & 31)) - 1 << (b & 31)),
        ("v_bcnt_u32_b32", "", "u32", ["b32", "u32"], lambda a, b: a.bit_count() + b),
    ]
    saturating = [
        ("v_mul_i32_i24", "_e32", "i32", ["i32"] * 2, lambda a, b: i24(a) * i24(b)),
        ("v_mul_u32_u24", "_e32", "u32", ["u32"] * 2, lambda a, b: (a & 0xFFFFFF) * (b & 0xFFFFFF)),
        ("v_add_nc_u32", "_e32", "u32", ["u32"] * 2, lambda a, b: a + b),
        ("v_sub_nc_u32", "_e32", "u32", ["u32"] * 2, lambda a, b: a - b),
        ("v_subrev_nc_u32", "_e32", "u32", ["u32"] * 2, lambda a, b: b - a),
        ("v_add_nc_i32", "", "i32", ["i32"] * 2, lambda a, b: signed(a, 32) + signed(b, 32)),
        ("v_sub_nc_i32", "", "i32", ["i32"] * 2, lambda a, b: signed(a, 32) - signed(b, 32)),
        ("v_add_nc_u16", "", "u16", ["u16"] * 2, lambda a, b: a + b),
        ("v_sub_nc_u16", "", "u16", ["u16"] * 2, lambda a, b: a - b),
        ("v_add_nc_i16", "", "i16", ["i16"] * 2, lambda a, b: signed(a, 16) + signed(b, 16)),
        ("v_sub_nc_i16", "", "i16", ["i16"] * 2, lambda a, b: signed(a, 16) - signed(b, 16)),
        ("v_mad_i32_i24", "", "i32", ["i32"] * 3, lambda a, b, c: i24(a) * i24(b) + signed(c, 32)),
        ("v_mad_u32_u24", "", "u32", ["u32"] * 3, lambda a, b, c: (a & 0xFFFFFF) * (b & 0xFFFFFF) + c),
        ("v_mad_u16", "", "u16", ["u16"] * 3, lambda a, b, c: a * b + c),
        ("v_mad_i16", "", "i16", ["i16"] * 3, lambda a, b, c: signed(a, 16) * signed(b, 16) + signed(c, 16)),
        ("v_mad_u32_u16", "", "u32", ["u16", "u16", "u32"], lambda a, b, c: a * b + c),
        ("v_mad_i32_i16", "", "i32", ["i16", "i16", "i32"], lambda a, b, c: signed(a, 16) * signed(b, 16) + signed(c, 32)),
        ("v_sad_u8", "", "u32", ["u32"] * 3, lambda a, b, c: c + sum(abs((a >> n & 255) - (b >> n & 255)) for n in (0, 8, 16, 24))),
        ("v_sad_hi_u8", "", "u32", ["u32"] * 3,
         lambda a, b, c: c + (sum(abs((a >> n & 255) - (b >> n & 255)) for n in (0, 8, 16, 24)) << 16)),
        ("v_sad_u16", "", "u32", ["u32"] * 3, lambda a, b, c: c + sum(abs((a >> n & M16) - (b >> n & M16)) for n in (0, 16))),
        ("v_sad_u32", "", "u32", ["u32"] * 3, lambda a, b, c: c + abs(a - b)),
        ("v_msad_u8", "", "u32", ["u32"] * 3,
         lambda a, b, c: c + sum(abs((a >> n & 255) - (b >> n & 255)) if b >> n & 255 else 0 for n in (0, 8, 16, 24))),
    ]
    halved = {"v_min3_i16", "v_max3_i16", "v_med3_i16", "v_min3_u16", "v_max3_u16", "v_med3_u16", "v_add_nc_u16", "v_sub_nc_u16",
              "v_add_nc_i16", "v_sub_nc_i16", "v_mad_u16", "v_mad_i16", "v_mad_u32_u16", "v_mad_i32_i16", "v_alignbit_b32",
              "v_alignbyte_b32"}
    for name, form, d, s, f in table + saturating:
        rng, mask = seeded(name), (1 << width(d)) - 1

        def wrapped(m, *args, f=f, mask=mask):
            return f(*args) & mask

        emit(file, name, d, s, wrapped, form=form, rng=rng)
        emit(file, name, d, s, wrapped, form="_e64" if form else "", rng=rng, exec_=0xFFFF_00F7, mode=0x0F)
        if name in halved:
            for _ in range(2):
                opsel = [rng.getrandbits(1) if width(t) == 16 else 0 for t in s + [d]]
                opsel[-1 if width(d) == 16 else s.index(next(t for t in s if width(t) == 16))] = 1
                emit(file, name, d, s, wrapped, form="", rng=rng, opsel=opsel)
    for name, form, d, s, f in saturating:
        rng, bits = seeded(name, "clamp"), width(d)
        low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if d[0] == "i" else (0, (1 << bits) - 1)

        def saturated(m, *args, f=f, low=low, high=high, bits=bits):
            return max(low, min(high, f(*args))) & (1 << bits) - 1

        emit(file, name, d, s, saturated, form="_e64" if form else "", rng=rng, clamp=True)
    file.write()


# ---------------------------------------------------------------- lane exchange before the operation


def source_lane(control, lane):
    """The lane that `lane` reads: DPP16's controls by their names; None outside the row of 16."""
    name, n = control
    row, place = lane & ~15, lane & 15
    if name == "quad_perm":
        return lane & ~3 | n[lane & 3]
    if name == "dpp8":
        return lane & ~7 | n[lane & 7]
    place = {
        "row_shl": place + (n or 0), "row_shr": place - (n or 0), "row_ror": (place - (n or 0)) % 16, "row_mirror": 15 - place,
        "row_half_mirror": place & 8 | 7 - (place & 7), "row_share": n, "row_xmask": place ^ (n or 0),
    }[name]
    return row | place if 0 <= place < 16 else None


def control_text(control):
    name, n = control
    if n is None:
        return name
    return f"{name}:[{','.join(map(str, n))}]" if isinstance(n, list) else f"{name}:{n}"


def exchanged(file, text, control, rng, f, *, d="v1", row_mask=15, bank_mask=15, bc=False, fi=False, exec_=0xFFFF_FFFF, mode=LAUNCH,
              sources=1, half=False, before_text=None, after_text=None, fold=None, values=None):
    """A DPP row of `text` (up to its DPP operands): source 0 is v4, exchanged; the others are v5, v6; the result is f(operands)."""
    values = values or [[rng.getrandbits(32) for _ in range(32)] for _ in range(sources)]
    old = [rng.getrandbits(32) for _ in range(32)]
    new, written = list(old), 0
    for lane in range(32):
        if not exec_ >> lane & 1:
            continue
        eight = control[0] == "dpp8"
        if not eight and not (row_mask >> lane // 16 & 1 and bank_mask >> lane // 4 % 4 & 1):
            continue
        other = source_lane(control, lane)
        if other is not None and (fi or exec_ >> other & 1):
            first = values[0][other]
        elif bc or eight:
            first = 0  # outside the row whatever fetch-inactive says
        else:
            continue
        result = f(mode, lane, first, *(v[lane] for v in values[1:]))
        new[lane] = old[lane] & 0xFFFF_0000 | result if half else result
        written |= 1 << lane
    tail = control_text(control)
    if control[0] != "dpp8":
        tail += f" row_mask:{row_mask:#x} bank_mask:{bank_mask:#x}" + (" bound_ctrl:1" if bc else "")
    tail += " fi:1" if fi else ""
    before = {f"v{4 + i}": v for i, v in enumerate(values)}
    before.update(before_text or {})
    if exec_ != 0xFFFF_FFFF:
        before["exec"] = hex(exec_)
    if mode != LAUNCH:
        before["mode"] = hex(mode)
    if fold:
        after = fold(new, written)
    else:
        before[d] = old
        after = {d: new}
    after.update(after_text or {})
    file.row(f"{text} {tail}", before, after)


def make_exchanges():
    file = File("vector_dpp.ins", [
        "Generated by generate/vector.py; not to be edited. DPP16 and DPP8: every control, bound control and fetch-inactive, masks,",
        "lanes switched off, on all formats that take them.",
    ])
    rng = seeded("dpp")
    controls = [("quad_perm", [3, 2, 1, 0]), ("quad_perm", [1, 1, 2, 0]), ("row_mirror", None), ("row_half_mirror", None)]
    controls += [(name, n) for name in ("row_shl", "row_shr", "row_ror") for n in (1, 4, 7, 15)]
    controls += [(name, n) for name in ("row_share", "row_xmask") for n in (0, 1, 6, 15)]

    def move(mode, lane, a):
        return a

    for control in controls:
        exchanged(file, "v_mov_b32_dpp v1, v4", control, rng, move)
        exec_ = rng.getrandbits(32) | 0x0001_0001
        for bc, fi in ((0, 0), (1, 0), (0, 1), (1, 1)):
            exchanged(file, "v_mov_b32_dpp v1, v4", control, rng, move, bc=bool(bc), fi=bool(fi), exec_=exec_)
        exchanged(file, "v_mov_b32_dpp v1, v4", control, rng, move, row_mask=rng.randrange(4) | 4, bank_mask=rng.randrange(1, 15),
                  exec_=exec_, bc=True)
    eights = [("dpp8", [7, 6, 5, 4, 3, 2, 1, 0]), ("dpp8", [1, 1, 1, 1, 6, 0, 7, 2])]
    for control in eights:
        for fi in (False, True):
            exchanged(file, "v_mov_b32_dpp v1, v4", control, rng, move, fi=fi, exec_=0x8421_0FF3)

    def fitting(count, fmt):
        return [[any_float(fmt, rng) & ~(1 << fmt.width - 2) for _ in range(32)] for _ in range(count)]

    F = F32
    for control in (("row_shr", 1), ("row_share", 3), eights[1]):
        dpp16 = control[0] != "dpp8"
        exec_ = 0xFFFF_7FF3
        # Modifiers apply to the exchanged value; in VOP3 they are VOP3's own.
        if dpp16:
            exchanged(file, "v_add_f32_dpp v1, -v4, |v5|", control, rng,
                      lambda m, l, a, b: r.add(F, m, a ^ F.sign, b & ~F.sign), sources=2, exec_=exec_, bc=True, values=fitting(2, F))
        exchanged(file, "v_fma_f32_e64_dpp v1, -|v4|, v5, -v6", control, rng,
                  lambda m, l, a, b, c: r.fma(F, m, a | F.sign, b, c ^ F.sign), sources=3, exec_=exec_, values=fitting(3, F), mode=0xD2)
        exchanged(file, "v_mul_f32_dpp v1, v4, v5", control, rng, lambda m, l, a, b: r.mul(F, m, a, b), sources=2, mode=0xF1,
                  values=fitting(2, F), exec_=exec_)
        exchanged(file, "v_add_f16_dpp v1, v4, v5", control, rng,
                  lambda m, l, a, b: r.add(F16, m, a & 0xFFFF, b & 0xFFFF), sources=2, half=True, exec_=exec_,
                  values=[[v & 0xBFFF for v in x] for x in fitting(2, F16)])
        exchanged(file, "v_lshlrev_b32_dpp v1, v4, v5", control, rng, lambda m, l, a, b: b << (a & 31) & 0xFFFF_FFFF, sources=2,
                  exec_=exec_)
        exchanged(file, "v_add_nc_u32_e64_dpp v1, v4, v5 clamp", control, rng, lambda m, l, a, b: min(a + b, 0xFFFF_FFFF), sources=2,
                  exec_=exec_)
        exchanged(file, "v_perm_b32_e64_dpp v1, v4, v5, v6", control, rng,
                  lambda m, l, a, b, c: sum((a << 32 | b) >> 8 * (c >> 8 * n & 7) & 255 and
                                            ((a << 32 | b) >> 8 * (c >> 8 * n & 7) & 255) << 8 * n for n in range(4)),
                  sources=3, exec_=exec_, values=[[rng.getrandbits(32) for _ in range(32)], [rng.getrandbits(32) for _ in range(32)],
                                                  [rng.getrandbits(32) & 0x0707_0707 for _ in range(32)]])
        # The mask of VCC belongs to the lane that computes.
        exchanged(file, "v_cndmask_b32_dpp v1, v4, v5, vcc_lo", control, rng, lambda m, l, a, b: b if 0x3C5A_F00F >> l & 1 else a,
                  sources=2, exec_=exec_, before_text={"vcc": "0x3c5af00f"})

        def fold_compare(place):
            return lambda new, written: {place: hex(sum(1 << l for l in range(32) if written >> l & 1 and new[l]))}

        small = [[rng.randrange(4) for _ in range(32)] for _ in range(2)]
        equal = lambda m, l, a, b: int(a == b)
        exchanged(file, "v_cmp_eq_u32 vcc_lo, v4, v5", control, rng, equal, sources=2, exec_=exec_, values=small, fold=fold_compare("vcc"))
        exchanged(file, "v_cmp_eq_u32_e64_dpp s6, v4, v5", control, rng, equal, sources=2, exec_=exec_, values=small, fi=True,
                  fold=fold_compare("s6"))
        # A lane that was off stays off.
        exchanged(file, "v_cmpx_eq_u32 v4, v5", control, rng, equal, sources=2, exec_=exec_, values=small, fi=True,
                  fold=fold_compare("exec"))
    file.write()


if __name__ == "__main__":
    make_exchanges()
    make_arithmetic()
    make_division()
    make_selection()
    make_comparisons()
    make_conversions()
    make_integers()
