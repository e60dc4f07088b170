"""Rows of `.ins` files from exact references: assembling with llvm-mc-22, writing the file, and IEEE arithmetic on fractions.

Not a copy of the emulator: numbers are Python integers and `fractions.Fraction`, rounded here by definition. `main.py` writes all files.
"""

import pathlib
import subprocess
from fractions import Fraction

FOLDER = pathlib.Path(__file__).resolve().parent.parent
M32, M64 = 0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF


def assemble(lines):
    """The dwords of each line, by llvm-mc-22."""
    command = ["llvm-mc-22", "-triple=amdgcn", "-mcpu=gfx1201", "-show-encoding"]
    done = subprocess.run(command, input="\n".join(lines) + "\n", capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(done.stderr[:4000])
    words = []
    for line in done.stdout.splitlines():
        if "encoding: [" in line:
            octets = bytes(int(b, 16) for b in line.split("encoding: [")[1].rstrip("]").split(","))
            words.append(" ".join("%08x" % int.from_bytes(octets[i : i + 4], "little") for i in range(0, len(octets), 4)))
    assert len(words) == len(lines), (len(words), len(lines))
    return words


class File:
    """A file being collected."""

    def __init__(self, name, head):
        self.name, self.items = name, [("#", head), ("#", "Written by tests/isa/generate/main.py; edit that, not this file.")]

    def comment(self, text):
        """A line for readers."""
        self.items.append(("#", text))

    def row(self, text, before, after):
        """One row."""
        self.items.append((text, " ".join(f"{before} => {after}".split())))

    def content(self):
        """The whole file."""
        words = iter(assemble([text for text, _ in self.items if text != "#"]))
        lines = [f"# {rest}" if text == "#" else f"{next(words)} | {text} | {rest}" for text, rest in self.items]
        return "\n".join(lines) + "\n"


def hexes(values):
    """Lanes 0, 1, 2…"""
    return "[" + ", ".join(hex(v) for v in values) + "]"


def signed(value, bits):
    """The low bits as a signed number."""
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


class Float:
    """A binary interchange format."""

    def __init__(self, exponent, fraction, field):
        self.exponent, self.fraction, self.field = exponent, fraction, field
        self.bits = 1 + exponent + fraction
        self.bias = (1 << (exponent - 1)) - 1
        self.inf = ((1 << exponent) - 1) << fraction
        self.sign = 1 << (exponent + fraction)
        self.quiet_bit = 1 << (fraction - 1)
        self.invalid = self.sign | self.inf | self.quiet_bit
        self.largest = self.inf - 1

    def is_nan(self, x):
        return x & ~self.sign > self.inf

    def is_inf(self, x):
        return x & ~self.sign == self.inf

    def is_zero(self, x):
        return x & ~self.sign == 0

    def quiet(self, x):
        return x | self.quiet_bit

    def signals(self, x):
        return self.is_nan(x) and not x & self.quiet_bit

    def value(self, x):
        """A finite number, exactly."""
        exponent, fraction = x >> self.fraction & ((1 << self.exponent) - 1), x & ((1 << self.fraction) - 1)
        if exponent == 0:
            size = Fraction(fraction, 1 << self.fraction) * Fraction(2) ** (1 - self.bias)
        else:
            size = (1 + Fraction(fraction, 1 << self.fraction)) * Fraction(2) ** (exponent - self.bias)
        return -size if x & self.sign else size

    def rounding(self, mode):
        return mode >> self.field & 3

    def keeps_inputs(self, mode):
        return mode >> (self.field + 4) & 1

    def keeps_outputs(self, mode):
        return mode >> (self.field + 5) & 1

    def input(self, mode, x):
        """An operand as MODE lets it in."""
        denormal = not x & self.inf and not self.is_zero(x)
        return x & self.sign if denormal and not self.keeps_inputs(mode) else x

    def output(self, mode, x):
        """An exact result as MODE lets it out."""
        denormal = not x & self.inf and not self.is_zero(x)
        return x & self.sign if denormal and not self.keeps_outputs(mode) else x

    def integer(self, value, step, way):
        """`value / step` rounded to an integer; the value is not negative here, `way` is for its size."""
        quotient = value / step
        low = quotient.numerator // quotient.denominator
        rest = quotient - low
        if way == "even":
            return low + (rest > Fraction(1, 2) or rest == Fraction(1, 2) and low & 1)
        return low + (way == "away" and rest > 0)

    def round(self, mode, value, zero=0):
        """A fraction rounded as MODE says; an exact 0 has the sign bit `zero`. None where a flushed result may be judged tiny or not."""
        if value == 0:
            return zero
        sign, size = (self.sign, -value) if value < 0 else (0, value)
        way = ["even", "away" if value > 0 else "zero", "away" if value < 0 else "zero", "zero"][self.rounding(mode)]
        exponent = size.numerator.bit_length() - size.denominator.bit_length()
        exponent += (Fraction(2) ** (exponent + 1) <= size) - (Fraction(2) ** exponent > size)
        smallest = Fraction(2) ** (1 - self.bias)
        step = Fraction(2) ** (max(exponent, 1 - self.bias) - self.fraction)
        units = self.integer(size, step, way)
        rounded = units * step
        if rounded >= Fraction(2) ** (self.bias + 1):
            to_infinity = way in ("even", "away") and not (self.exponent == 5 and mode >> 23 & 1)
            return sign | (self.inf if to_infinity else self.largest)
        if size < smallest and not self.keeps_outputs(mode):
            # Tiny before rounding; also after it, if a result with all its digits stays below the smallest normal.
            full = self.integer(size, Fraction(2) ** (exponent - self.fraction), way) * Fraction(2) ** (exponent - self.fraction)
            return None if full >= smallest else sign
        return sign | self.encode(rounded)

    def encode(self, size):
        """A size that the format holds."""
        if size == 0:
            return 0
        exponent = size.numerator.bit_length() - size.denominator.bit_length()
        exponent += (Fraction(2) ** (exponent + 1) <= size) - (Fraction(2) ** exponent > size)
        exponent = max(exponent, 1 - self.bias)
        units = size / Fraction(2) ** (exponent - self.fraction)
        assert units.denominator == 1
        return units.numerator + ((exponent + self.bias - 1) << self.fraction)

    def zero_of_sum(self, mode):
        """The sign bit of an exact 0 from numbers of different signs."""
        return self.sign if self.rounding(mode) == 2 else 0

    def add(self, mode, a, b):
        a, b = self.input(mode, a), self.input(mode, b)
        if self.is_nan(a) or self.is_nan(b):
            return self.quiet(a if self.is_nan(a) else b)
        if self.is_inf(a) or self.is_inf(b):
            if self.is_inf(a) and self.is_inf(b) and a != b:
                return self.invalid
            return a if self.is_inf(a) else b
        same = a & self.sign if a & self.sign == b & self.sign else self.zero_of_sum(mode)
        return self.round(mode, self.value(a) + self.value(b), same)

    def sub(self, mode, a, b):
        if self.is_nan(self.input(mode, b)) and not self.is_nan(a):
            return self.quiet(b)
        return self.add(mode, a, b ^ self.sign)

    def mul(self, mode, a, b):
        a, b = self.input(mode, a), self.input(mode, b)
        if self.is_nan(a) or self.is_nan(b):
            return self.quiet(a if self.is_nan(a) else b)
        sign = (a ^ b) & self.sign
        if self.is_inf(a) or self.is_inf(b):
            return self.invalid if self.is_zero(a) or self.is_zero(b) else sign | self.inf
        return self.round(mode, self.value(a) * self.value(b), sign)

    def fma(self, mode, a, b, c):
        a, b, c = self.input(mode, a), self.input(mode, b), self.input(mode, c)
        if self.is_nan(a) or self.is_nan(b):
            return self.quiet(a if self.is_nan(a) else b)
        sign = (a ^ b) & self.sign
        infinite = self.is_inf(a) or self.is_inf(b)
        if infinite and (self.is_zero(a) or self.is_zero(b)):
            return None  # with a NaN as c two answers are in use
        if self.is_nan(c):
            return self.quiet(c)
        if infinite:
            return self.invalid if self.is_inf(c) and c != sign | self.inf else sign | self.inf
        if self.is_inf(c):
            return c
        same = sign if sign == c & self.sign else self.zero_of_sum(mode)
        return self.round(mode, self.value(a) * self.value(b) + self.value(c), same)

    def below(self, a, b):
        """Order of numbers, −0 below +0."""
        key = lambda x: (float("-inf") if x & self.sign else float("inf")) if self.is_inf(x) else self.value(x)
        return key(a) < key(b) or key(a) == key(b) and a & self.sign > b & self.sign

    def min_num(self, mode, a, b, larger=False):
        a, b = self.input(mode, a), self.input(mode, b)
        if self.is_nan(a):
            return self.quiet(a) if self.is_nan(b) else self.output(mode, b)
        if self.is_nan(b):
            return self.output(mode, a)
        return self.output(mode, b if self.below(a, b) == larger else a)

    def max_num(self, mode, a, b):
        return self.min_num(mode, a, b, True)

    def minimum(self, mode, a, b, larger=False):
        if self.signals(a) or self.is_nan(a) and not self.signals(b):
            return self.quiet(a)
        return self.quiet(b) if self.is_nan(b) else self.min_num(mode, a, b, larger)

    def maximum(self, mode, a, b):
        return self.minimum(mode, a, b, True)

    def order(self, mode, a, b):
        """'<', '=', '>' or '?' (unordered)."""
        a, b = self.input(mode, a), self.input(mode, b)
        if self.is_nan(a) or self.is_nan(b):
            return "?"
        if self.is_zero(a) and self.is_zero(b) or a == b:
            return "="
        return "<" if self.below(a, b) else ">"

    def integral(self, mode, x, way):
        """To an integer: up, down, zero or even."""
        x = self.input(mode, x)
        if self.is_nan(x):
            return self.quiet(x)
        if self.is_inf(x) or self.is_zero(x):
            return x
        value = self.value(x)
        floor = value.numerator // value.denominator
        result = {
            "down": floor,
            "up": -(-value.numerator // value.denominator),
            "zero": floor if value >= 0 else -(-value.numerator // value.denominator),
            "even": round(value),
        }[way]
        return x & self.sign | self.encode(abs(Fraction(result)))

    def convert(self, mode, x, to):
        x = self.input(mode, x)
        sign = to.sign if x & self.sign else 0
        if self.is_nan(x):
            fraction = x & ((1 << self.fraction) - 1)
            shift = self.fraction - to.fraction
            return to.quiet(sign | to.inf | (fraction >> shift if shift > 0 else fraction << -shift))
        return sign | to.inf if self.is_inf(x) else to.round(mode, self.value(x), sign)


F16, F32, F64 = Float(5, 10, 2), Float(8, 23, 0), Float(11, 52, 2)
BF16 = Float(8, 7, 2)

# Every rounding (the same for all formats) with denormals kept, and every flushing with the nearest even.
MODES = [0xF0, 0xF5, 0xFA, 0xFF, 0xA0, 0x50, 0x00, 0x05]
