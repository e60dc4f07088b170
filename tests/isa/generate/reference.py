"""Binary floating point by its definition: numbers are exact rationals, and rounding picks between two neighbours.

This is the reference that expected values of generated rows come from. It shares nothing with the emulator. MODE's fields and the
two rules that IEEE 754 leaves to the machine (tininess after rounding, the negative quiet NaN) are those of the RDNA 4 manual and of
the hardware."""

from dataclasses import dataclass
from fractions import Fraction

EVEN, UP, DOWN, ZERO = range(4)
LAUNCH = 0xF0
OVFL = 1 << 23


@dataclass(frozen=True)
class Format:
    """An IEEE format: bits of exponent and fraction, and the place of its rounding field in MODE."""

    exponent: int
    fraction: int
    field: int
    letter: str

    @property
    def width(self):
        return 1 + self.exponent + self.fraction

    @property
    def bias(self):
        return (1 << (self.exponent - 1)) - 1

    @property
    def infinity(self):
        return ((1 << self.exponent) - 1) << self.fraction

    @property
    def sign(self):
        return 1 << (self.width - 1)

    @property
    def smallest_normal(self):
        return Fraction(2) ** (1 - self.bias)

    @property
    def invalid(self):
        return self.sign | self.infinity | 1 << (self.fraction - 1)

    def magnitude(self, bits):
        return bits & (self.sign - 1)

    def negative(self, bits):
        return bool(bits & self.sign)

    def is_nan(self, bits):
        return self.magnitude(bits) > self.infinity

    def is_infinite(self, bits):
        return self.magnitude(bits) == self.infinity

    def is_denormal(self, bits):
        return 0 < self.magnitude(bits) < 1 << self.fraction

    def quiet(self, bits):
        return bits | 1 << (self.fraction - 1)

    def value(self, bits):
        """The exact value of a finite encoding."""
        size = self.magnitude(bits)
        exponent, fraction = size >> self.fraction, size & ((1 << self.fraction) - 1)
        if exponent:
            fraction |= 1 << self.fraction
        exact = Fraction(fraction) * Fraction(2) ** (max(exponent, 1) - self.bias - self.fraction)
        return -exact if self.negative(bits) else exact

    def direction(self, mode):
        return mode >> self.field & 3

    def input(self, mode, bits):
        """An operand as MODE lets it in."""
        kept = mode >> (self.field + 4) & 1
        return bits & self.sign if self.is_denormal(bits) and not kept else bits

    def keeps_outputs(self, mode):
        return bool(mode >> (self.field + 5) & 1)

    def overflow(self, mode, negative):
        away = {EVEN: True, UP: not negative, DOWN: negative, ZERO: False}[self.direction(mode)]
        if self.exponent == 5 and mode & OVFL:
            away = False
        return (self.sign if negative else 0) | (self.infinity - (0 if away else 1))

    def round(self, mode, exact, zero_negative=False):
        """The encoding of an exact value, rounded and flushed as MODE says."""
        if exact == 0:
            return self.sign if zero_negative else 0
        negative, size = exact < 0, abs(exact)
        sign = self.sign if negative else 0
        # The exponent e with 2^e <= size < 2^(e+1).
        e = size.numerator.bit_length() - size.denominator.bit_length()
        if Fraction(2) ** e > size:
            e -= 1

        def units(unit):
            """Steps of 2^unit that the value rounds to."""
            quotient = size / Fraction(2) ** unit
            whole = quotient.numerator // quotient.denominator
            rest = quotient - whole
            way = self.direction(mode)
            if way == EVEN:
                up = rest > Fraction(1, 2) or rest == Fraction(1, 2) and whole % 2 == 1
            else:
                up = rest != 0 and (way == UP and not negative or way == DOWN and negative)
            return whole + up

        if not self.keeps_outputs(mode):
            full = units(e - self.fraction) * Fraction(2) ** (e - self.fraction)
            if full < self.smallest_normal:
                return sign
        unit = max(e, 1 - self.bias) - self.fraction
        steps = units(unit)
        # Encodings are consecutive: the exponent field counts from the denormals up.
        code = steps + ((unit + self.fraction + self.bias - 1) << self.fraction)
        if code >= self.infinity:
            return self.overflow(mode, negative)
        return sign | code


F16 = Format(5, 10, 2, "h")
F32 = Format(8, 23, 0, "f")
F64 = Format(11, 52, 2, "d")


def first_nan(fmt, *operands):
    for bits in operands:
        if fmt.is_nan(bits):
            return fmt.quiet(bits)
    return None


def add(fmt, mode, a, b):
    a, b = fmt.input(mode, a), fmt.input(mode, b)
    nan = first_nan(fmt, a, b)
    if nan is not None:
        return nan
    if fmt.is_infinite(a) or fmt.is_infinite(b):
        if fmt.is_infinite(a) and fmt.is_infinite(b) and a != b:
            return fmt.invalid
        return a if fmt.is_infinite(a) else b
    exact = fmt.value(a) + fmt.value(b)
    both = fmt.negative(a) and fmt.negative(b) and fmt.magnitude(a) == fmt.magnitude(b) == 0
    either = not both and fmt.magnitude(a) == fmt.magnitude(b) == 0 and fmt.negative(a) == fmt.negative(b)
    negative = both or (not either and fmt.direction(mode) == DOWN)
    return fmt.round(mode, exact, negative)


def sub(fmt, mode, a, b):
    if fmt.is_nan(b) and not fmt.is_nan(a):
        return fmt.quiet(b)
    return add(fmt, mode, a, b if fmt.is_nan(b) else b ^ fmt.sign)


def mul(fmt, mode, a, b):
    a, b = fmt.input(mode, a), fmt.input(mode, b)
    nan = first_nan(fmt, a, b)
    if nan is not None:
        return nan
    negative = fmt.negative(a) != fmt.negative(b)
    if fmt.is_infinite(a) or fmt.is_infinite(b):
        if fmt.magnitude(a) == 0 or fmt.magnitude(b) == 0:
            return fmt.invalid
        return (fmt.sign if negative else 0) | fmt.infinity
    return fmt.round(mode, fmt.value(a) * fmt.value(b), negative)


def fma(fmt, mode, a, b, c, scale=0, flush_inputs=True):
    if flush_inputs:
        a, b, c = (fmt.input(mode, x) for x in (a, b, c))
    nan = first_nan(fmt, a, b)
    if nan is not None:
        return nan
    negative = fmt.negative(a) != fmt.negative(b)
    infinite = fmt.is_infinite(a) or fmt.is_infinite(b)
    if infinite and (fmt.magnitude(a) == 0 or fmt.magnitude(b) == 0):
        return fmt.invalid
    if fmt.is_nan(c):
        return fmt.quiet(c)
    if infinite:
        product = (fmt.sign if negative else 0) | fmt.infinity
        return fmt.invalid if fmt.is_infinite(c) and c != product else product
    if fmt.is_infinite(c):
        return c
    product = fmt.value(a) * fmt.value(b)
    exact = product + fmt.value(c)
    if product == 0 and fmt.magnitude(c) == 0 and negative == fmt.negative(c):
        zero = negative
    else:
        zero = fmt.direction(mode) == DOWN
    return fmt.round(mode, exact * Fraction(2) ** scale, zero)


def ldexp(fmt, mode, a, n):
    a = fmt.input(mode, a)
    if fmt.is_nan(a):
        return fmt.quiet(a)
    if fmt.is_infinite(a) or fmt.magnitude(a) == 0:
        return a
    n = max(-5000, min(5000, n))
    return fmt.round(mode, fmt.value(a) * Fraction(2) ** n)


def convert(source, target, mode, a):
    a = source.input(mode, a)
    sign = target.sign if source.negative(a) else 0
    if source.is_nan(a):
        payload = a & ((1 << source.fraction) - 1)
        shift = target.fraction - source.fraction
        payload = payload << shift if shift >= 0 else payload >> -shift
        return target.quiet(sign | target.infinity | payload)
    if source.is_infinite(a):
        return sign | target.infinity
    return target.round(mode, source.value(a), source.negative(a))


def floor(exact):
    return exact.numerator // exact.denominator


def rounded_integer(exact, way):
    low = floor(exact)
    rest = exact - low
    if way == DOWN or rest == 0:
        return low
    if way == UP:
        return low + 1
    if way == ZERO:
        return low + (exact < 0)
    return low + (rest > Fraction(1, 2) or rest == Fraction(1, 2) and low % 2 == 1)


def to_integral(fmt, mode, a, way):
    """floor, ceil, trunc and rndne: the sign stays, also of a zero."""
    a = fmt.input(mode, a)
    if fmt.is_nan(a):
        return fmt.quiet(a)
    if fmt.is_infinite(a):
        return a
    exact = Fraction(rounded_integer(fmt.value(a), way))
    return fmt.round(mode, exact, fmt.negative(a))


def to_int(fmt, mode, a, low, high, way, nan_by_sign=False):
    a = fmt.input(mode, a)
    if fmt.is_nan(a):
        return (low if fmt.negative(a) else high) if nan_by_sign else 0
    if fmt.is_infinite(a):
        return low if fmt.negative(a) else high
    return max(low, min(high, rounded_integer(fmt.value(a), way)))


def fract(fmt, mode, a):
    a = fmt.input(mode, a)
    if fmt.is_nan(a):
        return fmt.quiet(a)
    if fmt.is_infinite(a):
        return fmt.invalid
    exact = fmt.value(a)
    result = fmt.round(mode, exact - floor(exact))
    return min(result, (fmt.bias << fmt.fraction) - 1)


def frexp(fmt, mode, a):
    """Mantissa's encoding and exponent."""
    a = fmt.input(mode, a)
    if fmt.is_nan(a):
        return fmt.quiet(a), 0
    if fmt.is_infinite(a) or fmt.magnitude(a) == 0:
        return a, 0
    exact, n = fmt.value(a), 0
    while abs(exact) >= 1:
        exact, n = exact / 2, n + 1
    while abs(exact) < Fraction(1, 2):
        exact, n = exact * 2, n - 1
    return fmt.round(LAUNCH, exact), n


def order(fmt, bits):
    """Encodings as their values are ordered, −0 below +0."""
    return -fmt.magnitude(bits) - 1 if fmt.negative(bits) else fmt.magnitude(bits)


def select(fmt, larger, propagate, a, b):
    """minimum, maximum (`propagate`), min_num, max_num of operands that are already let in."""
    nan_a, nan_b = fmt.is_nan(a), fmt.is_nan(b)
    if nan_a or nan_b:
        if propagate or nan_a and nan_b:
            return fmt.quiet(a if nan_a else b)
        return b if nan_a else a
    pick = max if larger else min
    return pick(a, b, key=lambda x: order(fmt, x))


def omod(fmt, mode, factor, bits):
    """×2, ×4, ÷2 as codes 1, 2, 3; the result was rounded with output denormals flushed."""
    if factor == 0 or fmt.is_nan(bits) or fmt.is_infinite(bits):
        return bits
    if fmt.magnitude(bits) < 1 << fmt.fraction:
        return 0
    exact = fmt.value(bits) * [1, 2, 4, Fraction(1, 2)][factor]
    if abs(exact) < fmt.smallest_normal:
        return bits & fmt.sign
    return fmt.round(mode, exact)


def clamp(fmt, bits):
    if fmt.is_nan(bits) or fmt.negative(bits):
        return 0
    return min(bits, fmt.bias << fmt.fraction)


def class_bit(fmt, bits):
    if fmt.is_nan(bits):
        return 1 if bits >> (fmt.fraction - 1) & 1 else 0
    negative = fmt.negative(bits)
    if fmt.is_infinite(bits):
        return 2 if negative else 9
    if fmt.magnitude(bits) == 0:
        return 5 if negative else 6
    if fmt.is_denormal(bits):
        return 4 if negative else 7
    return 3 if negative else 8
