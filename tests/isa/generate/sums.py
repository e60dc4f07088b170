"""Sums of products as gfx1201 makes them: dot products and the steps of matrix products. Exact rationals; no float is involved.

The rule is AMD's: rocjitsu (ROCm/rocm-systems, emulation/rocjitsu, `gfx12_dot.h`) describes what an R9700 was measured to do. In words:

* A product is kept to 24 places below the sum of its factors' exponents (of a denormal the smallest normal's). Products of one group
  (pairs of 16-bit factors, all four of 8-bit ones) are cut off downwards at the coarsest of their last places, then added.
* Group sums and the addend are cut off downwards at one place: the coarsest of all products' last places and of 26 below the
  addend's leading bit, which counts as no lower than 2^-126 (2^-14 where the result is f16). A negative addend that is cut off
  whole counts as a unit there where that place is no coarser than that bound, and as nothing otherwise.
* The sum is rounded once: to f32 or f16 to nearest even, denormals kept; for bf16 to f32 first, then cut off. Zero is positive.
* MODE has no say, but that FP16_OVFL gives the largest f16 instead of infinity.
* A NaN factor gives one NaN for each format of results, before an invalid product, before the addend's NaN, quieted.
"""

from fractions import Fraction

from reference import F16, F32, LAUNCH, OVFL, Format

BF16 = Format(8, 7, 0, "b")
FACTOR_NAN, INVALID = 0xFFC00A3D, 0xFFC00000


class Byte(Format):
    """An 8-bit float. E4M3 has one NaN and no infinity."""

    def is_nan(self, bits):
        return self.magnitude(bits) == 0x7F if self.exponent == 4 else super().is_nan(bits)

    def is_infinite(self, bits):
        return self.exponent == 5 and super().is_infinite(bits)


FP8 = Byte(4, 3, 0, "")
BF8 = Byte(5, 2, 0, "")


def power(exponent):
    return Fraction(2) ** exponent


def cut(x, place):
    """The multiple of 2^place at or below x."""
    unit = power(place)
    return x // unit * unit


def exponent_of(form, bits):
    """The exponent of the place before the point; a denormal's is the smallest normal's."""
    return max(form.magnitude(bits) >> form.fraction, 1) - form.bias


def leading(x):
    """The exponent of the leading bit of x > 0."""
    exponent = x.numerator.bit_length() - x.denominator.bit_length()
    return exponent if x >= power(exponent) else exponent - 1


def rounded(form, x, ovfl=False):
    """The encoding nearest to x, the even one of two. Zero is positive, one that a negative sum is rounded to as well."""
    encoding = form.round(LAUNCH | (OVFL if ovfl else 0), x)
    return encoding if form.magnitude(encoding) else 0


def widen(form, bits):
    """f32 bits of a half, a NaN with its payload."""
    if form is BF16:
        return bits << 16
    sign = (bits & 0x8000) << 16
    if form.is_nan(bits) or form.is_infinite(bits):
        return sign | 0x7F800000 | (bits & 0x3FF) << 13
    return sign | rounded(F32, abs(form.value(bits)))


def narrow_special(to, bits):
    """An infinity or a NaN as the result's format has it."""
    if to is F32:
        return bits
    if bits == FACTOR_NAN:
        return 0xFE3D if to is F16 else 0xFFFD
    return bits >> 16 if to is BF16 else (bits >> 16 & 0x8000) | 0x7C00 | (bits >> 13 & 0x3FF)


def special(forms, a, b, c):
    """What NaNs and infinities decide, as f32 bits; None where the sum does."""
    pairs = list(zip(a, b))
    if any(forms[0].is_nan(x) or forms[1].is_nan(y) for x, y in pairs):
        return FACTOR_NAN
    signs, invalid = set(), False
    for x, y in pairs:
        infinite = forms[0].is_infinite(x), forms[1].is_infinite(y)
        invalid |= (infinite[0] and forms[1].magnitude(y) == 0) or (infinite[1] and forms[0].magnitude(x) == 0)
        if any(infinite):
            signs.add(forms[0].negative(x) != forms[1].negative(y))
    if invalid or len(signs) == 2:
        return FACTOR_NAN if isinstance(forms[0], Byte) else INVALID
    if F32.is_nan(c):
        return F32.quiet(c)
    if F32.is_infinite(c):
        signs.add(F32.negative(c))
    if len(signs) == 2:
        return FACTOR_NAN if isinstance(forms[0], Byte) else INVALID
    return {True: 0xFF800000, False: 0x7F800000}[signs.pop()] if signs else None


def dot(forms, a, b, c, to=F32, ovfl=False):
    """The result's bits of one step. `a` and `b` are factors as bits of the two `forms`; `c` is the addend as bits of `to`."""
    if to is not F32:
        c = widen(to, c)
    decided = special(forms, a, b, c)
    if decided is not None:
        return narrow_special(to, decided)
    products, places = [], []
    for x, y in zip(a, b):
        product = forms[0].value(x) * forms[1].value(y)
        products.append(product)
        places.append(exponent_of(forms[0], x) + exponent_of(forms[1], y) - 24 if product else None)
    size = len(a) if isinstance(forms[0], Byte) else 2
    groups = []
    for first in range(0, len(a), size):
        known = [place for place in places[first : first + size] if place is not None]
        if known:
            groups.append((sum(cut(x, max(known)) for x in products[first : first + size]), max(known)))
    addend = F32.value(c)
    bound = -14 if to is F16 else -126
    place = max([bound - 26] + [at for _, at in groups] + ([leading(abs(addend)) - 26] if addend else []))
    if addend < 0 and -addend < power(place) and place > bound:
        addend = Fraction(0)
    total = cut(addend, place) + sum(cut(x, place) for x, _ in groups)
    if to is F16:
        return rounded(F16, total, ovfl)
    result = rounded(F32, total)
    return result >> 16 if to is BF16 else result


def chain(forms, a, b, c, to=F32, ovfl=False):
    """A row of a matrix product: steps of four in order, each rounded to the result's format."""
    for k in range(0, len(a), 4):
        c = dot(forms, a[k : k + 4], b[k : k + 4], c, to, ovfl)
    return c
