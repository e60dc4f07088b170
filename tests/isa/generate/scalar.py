"""SOP1, SOP2, SOPC and SOPK: every integer instruction at edge values, every float instruction in every mode."""

from fractions import Fraction

from rows import F16, F32, M32, M64, MODES, File, signed

# Values that meet at carries, signs, widths and zeros; pairs are every one with its neighbours.
WORDS = [0, 1, M32, 0x80000000, 0x7FFFFFFF, 0x12345678]
WIDES = [0, 1, M64, 1 << 63, (1 << 63) - 1, 0x123456789ABCDEF0, 0x00000000FFFFFFFF, 0xFFFFFFFF00000000]


def pairs(values):
    count = len(values)
    return [(values[i], values[j]) for i in range(count) for j in {i, (i + 1) % count, (i + 3) % count}]


def s32(x):
    return signed(x, 32)


def s64(x):
    return signed(x, 64)


def nz(value):
    return value, int(value != 0)


def bfe(a, b, bits, is_signed):
    offset, width = b & (bits - 1), b >> 16 & 127
    if width == 0:
        return 0
    a = signed(a, bits) if is_signed else a
    field = a >> offset
    # A field that passes the end has the sign, or zeros, above it.
    return (signed(field, width) if is_signed and width < bits else field & ((1 << width) - 1)) & ((1 << bits) - 1)


def leading(x, bits):
    return bits - x.bit_length() if x else -1


def trailing(x):
    return (x & -x).bit_length() - 1 if x else -1


def sign_run(x, bits):
    x = signed(x, bits)
    x = ~x if x < 0 else x
    return leading(x, bits)


def quads(x):
    return [x >> 4 * i & 15 for i in range(16)]


def lshl_add(by):
    return lambda a, b: ((a << by) + b & M32, int((a << by) + b > M32))


SOP2_32 = {
    "s_add_co_u32": lambda a, b, c: (a + b & M32, int(a + b > M32)),
    "s_sub_co_u32": lambda a, b, c: (a - b & M32, int(b > a)),
    "s_add_co_i32": lambda a, b, c: (a + b & M32, int(not -(1 << 31) <= s32(a) + s32(b) < 1 << 31)),
    "s_sub_co_i32": lambda a, b, c: (a - b & M32, int(not -(1 << 31) <= s32(a) - s32(b) < 1 << 31)),
    "s_add_co_ci_u32": lambda a, b, c: (a + b + c & M32, int(a + b + c > M32)),
    "s_sub_co_ci_u32": lambda a, b, c: (a - b - c & M32, int(b + c > a)),
    "s_absdiff_i32": lambda a, b, c: nz(abs(signed(s32(a) - s32(b), 32)) & M32),
    "s_lshl_b32": lambda a, b, c: nz(a << (b & 31) & M32),
    "s_lshr_b32": lambda a, b, c: nz(a >> (b & 31)),
    "s_ashr_i32": lambda a, b, c: nz(s32(a) >> (b & 31) & M32),
    "s_lshl1_add_u32": lambda a, b, c: lshl_add(1)(a, b),
    "s_lshl2_add_u32": lambda a, b, c: lshl_add(2)(a, b),
    "s_lshl3_add_u32": lambda a, b, c: lshl_add(3)(a, b),
    "s_lshl4_add_u32": lambda a, b, c: lshl_add(4)(a, b),
    "s_min_i32": lambda a, b, c: (min(s32(a), s32(b)) & M32, int(s32(a) < s32(b))),
    "s_min_u32": lambda a, b, c: (min(a, b), int(a < b)),
    "s_max_i32": lambda a, b, c: (max(s32(a), s32(b)) & M32, int(s32(a) >= s32(b))),
    "s_max_u32": lambda a, b, c: (max(a, b), int(a >= b)),
    "s_and_b32": lambda a, b, c: nz(a & b),
    "s_or_b32": lambda a, b, c: nz(a | b),
    "s_xor_b32": lambda a, b, c: nz(a ^ b),
    "s_nand_b32": lambda a, b, c: nz(~(a & b) & M32),
    "s_nor_b32": lambda a, b, c: nz(~(a | b) & M32),
    "s_xnor_b32": lambda a, b, c: nz(~(a ^ b) & M32),
    "s_and_not1_b32": lambda a, b, c: nz(a & ~b & M32),
    "s_or_not1_b32": lambda a, b, c: nz((a | ~b) & M32),
    "s_bfe_u32": lambda a, b, c: nz(bfe(a, b, 32, False)),
    "s_bfe_i32": lambda a, b, c: nz(bfe(a, b, 32, True)),
    "s_bfm_b32": lambda a, b, c: (((1 << (a & 31)) - 1) << (b & 31) & M32, None),
    "s_mul_i32": lambda a, b, c: (a * b & M32, None),
    "s_mul_hi_u32": lambda a, b, c: (a * b >> 32, None),
    "s_mul_hi_i32": lambda a, b, c: (s32(a) * s32(b) >> 32 & M32, None),
    "s_cselect_b32": lambda a, b, c: (a if c else b, None),
    "s_pack_ll_b32_b16": lambda a, b, c: (a & 0xFFFF | (b & 0xFFFF) << 16, None),
    "s_pack_lh_b32_b16": lambda a, b, c: (a & 0xFFFF | b & 0xFFFF0000, None),
    "s_pack_hh_b32_b16": lambda a, b, c: (a >> 16 | b & 0xFFFF0000, None),
    "s_pack_hl_b32_b16": lambda a, b, c: (a >> 16 | (b & 0xFFFF) << 16, None),
}
SOP2_64 = {
    "s_and_b64": lambda a, b, c: nz(a & b),
    "s_or_b64": lambda a, b, c: nz(a | b),
    "s_xor_b64": lambda a, b, c: nz(a ^ b),
    "s_nand_b64": lambda a, b, c: nz(~(a & b) & M64),
    "s_nor_b64": lambda a, b, c: nz(~(a | b) & M64),
    "s_xnor_b64": lambda a, b, c: nz(~(a ^ b) & M64),
    "s_and_not1_b64": lambda a, b, c: nz(a & ~b & M64),
    "s_or_not1_b64": lambda a, b, c: nz((a | ~b) & M64),
    "s_cselect_b64": lambda a, b, c: (a if c else b, None),
    "s_add_nc_u64": lambda a, b, c: (a + b & M64, None),
    "s_sub_nc_u64": lambda a, b, c: (a - b & M64, None),
    "s_mul_u64": lambda a, b, c: (a * b & M64, None),
}
SOP2_SHIFT = {
    "s_lshl_b64": lambda a, b: nz(a << (b & 63) & M64),
    "s_lshr_b64": lambda a, b: nz(a >> (b & 63)),
    "s_ashr_i64": lambda a, b: nz(s64(a) >> (b & 63) & M64),
    "s_bfe_u64": lambda a, b: nz(bfe(a, b, 64, False)),
    "s_bfe_i64": lambda a, b: nz(bfe(a, b, 64, True)),
}
SHIFTS = [0, 1, 31, 32, 33, 63, 64, M32]
FIELDS = [0, 0x00000005, 0x00010000, 0x0001001F, 0x00200000, 0x00080004, 0x0010001C, 0x007F0000, 0x003F0001, 0x00400000, 0x0020003C]

SOP1_32 = {
    "s_mov_b32": lambda a: (a, None),
    "s_brev_b32": lambda a: (int(f"{a:032b}"[::-1], 2), None),
    "s_ctz_i32_b32": lambda a: (trailing(a) & M32, None),
    "s_clz_i32_u32": lambda a: (leading(a, 32) & M32, None),
    "s_cls_i32": lambda a: (sign_run(a, 32) & M32, None),
    "s_sext_i32_i8": lambda a: (signed(a, 8) & M32, None),
    "s_sext_i32_i16": lambda a: (signed(a, 16) & M32, None),
    "s_abs_i32": lambda a: nz(abs(s32(a)) & M32),
    "s_bcnt0_i32_b32": lambda a: nz(32 - a.bit_count()),
    "s_bcnt1_i32_b32": lambda a: nz(a.bit_count()),
    "s_quadmask_b32": lambda a: nz(sum((q != 0) << i for i, q in enumerate(quads(a)))),
    "s_wqm_b32": lambda a: nz(sum((15 * (q != 0)) << 4 * i for i, q in enumerate(quads(a)))),
    "s_not_b32": lambda a: nz(~a & M32),
}
SOP1_64 = {
    "s_mov_b64": lambda a: (a, None),
    "s_brev_b64": lambda a: (int(f"{a:064b}"[::-1], 2), None),
    "s_quadmask_b64": lambda a: nz(sum((q != 0) << i for i, q in enumerate(quads(a)))),
    "s_wqm_b64": lambda a: nz(sum((15 * (q != 0)) << 4 * i for i, q in enumerate(quads(a)))),
    "s_not_b64": lambda a: nz(~a & M64),
}
SOP1_NARROW = {
    "s_ctz_i32_b64": lambda a: (trailing(a) & M32, None),
    "s_clz_i32_u64": lambda a: (leading(a, 64) & M32, None),
    "s_cls_i32_i64": lambda a: (sign_run(a, 64) & M32, None),
    "s_bcnt0_i32_b64": lambda a: nz(64 - a.bit_count()),
    "s_bcnt1_i32_b64": lambda a: nz(a.bit_count()),
}
MASKS = {
    "and": lambda a, e: a & e,
    "or": lambda a, e: a | e,
    "xor": lambda a, e: a ^ e,
    "nand": lambda a, e: ~(a & e),
    "nor": lambda a, e: ~(a | e),
    "xnor": lambda a, e: ~(a ^ e),
    "and_not0": lambda a, e: ~a & e,
    "or_not0": lambda a, e: ~a | e,
    "and_not1": lambda a, e: a & ~e,
    "or_not1": lambda a, e: a | ~e,
}
SOPC_32 = {
    "eq_i32": lambda a, b: a == b,
    "lg_i32": lambda a, b: a != b,
    "gt_i32": lambda a, b: s32(a) > s32(b),
    "ge_i32": lambda a, b: s32(a) >= s32(b),
    "lt_i32": lambda a, b: s32(a) < s32(b),
    "le_i32": lambda a, b: s32(a) <= s32(b),
    "eq_u32": lambda a, b: a == b,
    "lg_u32": lambda a, b: a != b,
    "gt_u32": lambda a, b: a > b,
    "ge_u32": lambda a, b: a >= b,
    "lt_u32": lambda a, b: a < b,
    "le_u32": lambda a, b: a <= b,
}


def with_scc(value, scc):
    return f"{value}" if scc is None else f"{value} scc={scc}"


def integers():
    f = File("scalar_integers.ins", "SOP1, SOP2, SOPC, SOPK: integers at carries, signs, widths and zeros.")
    for name, op in SOP2_32.items():
        values = pairs(WORDS)
        if "bfe" in name:
            values = [(a, b) for b in FIELDS for a in (0x80F0A5C3, M32)]
        elif "sh" in name and "add" not in name or "bfm" in name:
            values = [(a, b) for b in SHIFTS for a in (1, 0x80000001)] + ([(b, 4) for b in SHIFTS] if "bfm" in name else [])
        for n, (a, b) in enumerate(values):
            carry = n & 1 if "_ci_" not in name and "cselect" not in name else n // 3 & 1
            for c in (0, 1) if "_ci_" in name or "cselect" in name else (carry,):
                value, scc = op(a, b, c)
                f.row(f"{name} s5, s1, s2", f"s1={a:#x} s2={b:#x} scc={c}", with_scc(f"s5={value:#x}", scc))
    for name, op in SOP2_64.items():
        for n, (a, b) in enumerate(pairs(WIDES)):
            value, scc = op(a, b, n & 1)
            f.row(f"{name} s[4:5], s[6:7], s[8:9]", f"s[6:7]={a:#x} s[8:9]={b:#x} scc={n & 1}", with_scc(f"s[4:5]={value:#x}", scc))
    for name, op in SOP2_SHIFT.items():
        for n, b in enumerate(FIELDS if "bfe" in name else SHIFTS):
            for a in (0x8000000000000001, 0x123456789ABCDEF0):
                value, scc = op(a, b)
                f.row(f"{name} s[4:5], s[6:7], s2", f"s[6:7]={a:#x} s2={b:#x} scc={n & 1}", with_scc(f"s[4:5]={value:#x}", scc))
    for a, b in [(0, 0), (1, 63), (63, 1), (64, 3), (65, 3), (33, 33), (M32, 0)]:
        f.row("s_bfm_b64 s[4:5], s1, s2", f"s1={a:#x} s2={b:#x} scc=1", f"s[4:5]={((1 << (a & 63)) - 1) << (b & 63) & M64:#x}")
    f.comment("Operands by kind: inline constants, literals (extended by the operand's type), null, SCC, EXEC, VCC, M0, a half's constants.")
    f.row("s_add_co_u32 s5, 64, -16", "scc=0", f"s5=48 scc=1")
    f.row("s_add_co_u32 s5, 0x12345678, s2", "s2=1 scc=1", "s5=0x12345679 scc=0")
    f.row("s_and_b64 s[4:5], s[6:7], 0x80000000", "s[6:7]=-1 scc=0", "s[4:5]=0x80000000 scc=1")
    f.row("s_ashr_i64 s[4:5], 0x80000000, s2", "s2=4 scc=0", "s[4:5]=0xfffffffff8000000 scc=1")
    f.row("s_and_b64 s[4:5], s[6:7], -2", "s[6:7]=-1 scc=0", "s[4:5]=-2 scc=1")
    f.row("s_mov_b64 s[4:5], 1.0", "", "s[4:5]=1.0d")
    f.row("s_mov_b32 s5, 0.15915494", "", "s5=0x3e22f983")
    f.row("s_mov_b64 s[4:5], 0.15915494309189532", "", "s[4:5]=0x3fc45f306dc9c882")
    f.row("s_mov_b32 s5, src_scc", "scc=1", "s5=1")
    f.row("s_mov_b64 s[4:5], src_shared_base", "", "s[4:5]=&lds")
    f.row("s_mov_b64 s[4:5], src_private_base", "", "s[4:5]=&scratch")
    f.row("s_mov_b64 s[4:5], src_private_limit", "", "s[4:5]=&scratch+4294967295")
    f.row("s_mov_b32 s5, null", "s5=7", "s5=0")
    f.row("s_mov_b32 null, s5", "s5=7", "")
    f.row("s_mov_b32 vcc_hi, exec_lo", "exec=0x12", "vcc_hi=0x12")
    f.row("s_mov_b64 exec, s[6:7]", "s[6:7]=0x500000003", "exec=3 exec_hi=5")
    f.row("s_not_b32 m0, s1", "s1=0 scc=0", "m0=-1 scc=1")
    f.row("s_xor_b32 null, s1, s2", "s1=1 s2=1 scc=1", "scc=1")
    for name, op in SOP1_32.items():
        for n, a in enumerate(WORDS + [0x180, 0x18000, 0xF0, 0x80000104]):
            value, scc = op(a)
            f.row(f"{name} s5, s1", f"s1={a:#x} scc={n & 1}", with_scc(f"s5={value:#x}", scc))
    for name, op in SOP1_64.items():
        for n, a in enumerate(WIDES + [0x8000010400000010]):
            value, scc = op(a)
            f.row(f"{name} s[4:5], s[6:7]", f"s[6:7]={a:#x} scc={n & 1}", with_scc(f"s[4:5]={value:#x}", scc))
    for name, op in SOP1_NARROW.items():
        for n, a in enumerate(WIDES + [0x0000000080000000, 0x0000000100000000]):
            value, scc = op(a)
            f.row(f"{name} s5, s[6:7]", f"s[6:7]={a:#x} scc={n & 1}", with_scc(f"s5={value:#x}", scc))
    for a in WORDS:
        value = sum(3 << 2 * i for i in range(32) if a >> i & 1)
        f.row("s_bitreplicate_b64_b32 s[4:5], s1", f"s1={a:#x} scc=1", f"s[4:5]={value:#x}")
    for bit in (0, 1):
        for a in (0, 31, 32, 63, 64, M32):
            old = 0x123456789ABCDEF0
            for bits, place in ((32, "s5"), (64, "s[4:5]")):
                mask = (1 << bits) - 1
                one = 1 << (a & (bits - 1))
                value = (old & mask | one) if bit else old & mask & ~one
                f.row(f"s_bitset{bit}_b{bits} {place}, s1", f"{place}={old & mask:#x} s1={a:#x} scc=1", f"{place}={value:#x}")
    for scc in (0, 1):
        f.row("s_cmov_b32 s5, s1", f"s5=7 s1=9 scc={scc}", f"s5={9 if scc else 7}")
        f.row("s_cmov_b64 s[4:5], s[6:7]", f"s[4:5]=7 s[6:7]=0x900000009 scc={scc}", f"s[4:5]={0x900000009 if scc else 7}")
        f.row("s_cmovk_i32 s5, 0xfffe", f"s5=7 scc={scc}", f"s5={-2 if scc else 7}")
    f.comment("The old EXEC goes to the destination, SCC says whether the new one is not 0; 32-bit forms leave the upper half.")
    for kind, op in MASKS.items():
        for n, (a, e) in enumerate([(0x0F, 0x3C), (0, M32), (M32, 0), (0, 0), (M32, M32), (0xF0F0F0F0, 0xFF00FF00)]):
            new = op(a, e) & M32
            f.row(f"s_{kind}_saveexec_b32 s5, s1", f"s1={a:#x} exec={e:#x} exec_hi=9 scc={n & 1}", f"s5={e:#x} exec={new:#x} scc={int(new != 0)}")
            wide_a, wide_e = a | (a ^ M32) << 32, e | (e ^ M32) << 32
            new = op(wide_a, wide_e) & M64
            before = f"s[6:7]={wide_a:#x} exec={e:#x} exec_hi={e ^ M32:#x} scc={n & 1}"
            after = f"exec={new & M32:#x} exec_hi={new >> 32:#x} scc={int(new != 0)}"
            f.row(f"s_{kind}_saveexec_b64 s[4:5], s[6:7]", before, f"s[4:5]={wide_e:#x} {after}")
            if kind.startswith("and_not"):
                narrow = new & M32
                f.row(f"s_{kind}_wrexec_b32 s5, s1", f"s1={a:#x} exec={e:#x} scc={n & 1}", f"s5={narrow:#x} exec={narrow:#x} scc={int(narrow != 0)}")
                f.row(f"s_{kind}_wrexec_b64 s[4:5], s[6:7]", before, f"s[4:5]={new:#x} {after}")
    for name, op in SOPC_32.items():
        for n, (a, b) in enumerate(pairs(WORDS)):
            f.row(f"s_cmp_{name} s1, s2", f"s1={a:#x} s2={b:#x} scc={n & 1}", f"scc={int(op(a, b))}")
    for name, op in (("eq", lambda a, b: a == b), ("lg", lambda a, b: a != b)):
        for n, (a, b) in enumerate(pairs(WIDES)):
            f.row(f"s_cmp_{name}_u64 s[6:7], s[8:9]", f"s[6:7]={a:#x} s[8:9]={b:#x} scc={n & 1}", f"scc={int(op(a, b))}")
    for bit in (0, 1):
        for b in SHIFTS:
            for a in (0x80000001, 0x7FFFFFFE):
                f.row(f"s_bitcmp{bit}_b32 s1, s2", f"s1={a:#x} s2={b:#x} scc={1 - bit}", f"scc={int((a >> (b & 31) & 1) == bit)}")
                wide = a | a << 31
                f.row(f"s_bitcmp{bit}_b64 s[6:7], s2", f"s[6:7]={wide:#x} s2={b:#x} scc={1 - bit}", f"scc={int((wide >> (b & 63) & 1) == bit)}")
    for k in (0, 1, 0x7FFF, 0x8000, 0xFFFF):
        for a in WORDS:
            f.row(f"s_addk_co_i32 s5, {k:#x}", f"s5={a:#x} scc=1", f"s5={a + signed(k, 16) & M32:#x} scc={int(not -(1 << 31) <= s32(a) + signed(k, 16) < 1 << 31)}")
        f.row(f"s_mulk_i32 s5, {k:#x}", "s5=0x12345678 scc=1", f"s5={0x12345678 * signed(k, 16) & M32:#x}")
        f.row(f"s_movk_i32 s5, {k:#x}", "scc=1", f"s5={signed(k, 16)}")
    return f


FLOATS32 = [0, 0x80000000, 1, 0x807FFFFF, 0x00800000, 0x3F800000, 0xBF800001, 0x3FC00000, 0x7F7FFFFF, 0xFF7FFFFF, 0x7F800000, 0xFF800000, 0x7FC00001, 0x7F800001]
FLOATS16 = [0, 0x8000, 1, 0x83FF, 0x0400, 0x3C00, 0xBC01, 0x3E00, 0x7BFF, 0xFBFF, 0x7C00, 0xFC00, 0x7E01, 0x7C01]
COMPARE = {
    "lt": "<", "eq": "=", "le": "<=", "gt": ">", "lg": "<>", "ge": ">=", "o": "<=>", "u": "?",
    "nge": "<?", "nlg": "=?", "ngt": "<=?", "nle": ">?", "neq": "<>?", "nlt": ">=?",
}


def floats():
    f = File("scalar_floats.ins", "SOP1, SOP2, SOPC: floats in every direction of rounding, with denormals kept and flushed.")
    for form, values, bits in ((F32, FLOATS32, 32), (F16, FLOATS16, 16)):
        two = {
            "add": form.add, "sub": form.sub, "mul": form.mul, "min_num": form.min_num, "max_num": form.max_num,
            "minimum": form.minimum, "maximum": form.maximum,
        }
        # Sums that round, cancel and overflow; products that round, underflow and overflow.
        near = [(0x3F800000, 0x33800001), (0x3F800001, 0x33800000), (0x7F7FFFFF, 0x73800000), (0x00800000, 0x807FFFFF), (0x1F800001, 0x1F7FFFFF), (0x00FFFFFF, 0x3F000000), (0x80800000, 0x3F7FFFFF), (0x7F000000, 0x40400000)]
        if bits == 16:
            near = [(0x3C00, 0x1001), (0x3C01, 0x1000), (0x7BFF, 0x4C00), (0x0400, 0x83FF), (0x1401, 0x13FF), (0x07FF, 0x3800), (0x8400, 0x3BFF), (0x7800, 0x4200)]
        for name, op in two.items():
            for n_mode, mode in enumerate(MODES + ([0x8000F0, 0x8000FF] if bits == 16 else [])):
                for n, (a, b) in enumerate(near + (pairs(values)[::2] if mode == 0xF0 else pairs(values)[n_mode::11])):
                    value = op(mode, a, b)
                    if value is not None:
                        f.row(f"s_{name}_f{bits} s5, s1, s2", f"mode={mode:#x} s1={a:#x} s2={b:#x} scc={n & 1}", f"s5={value:#x}")
        triples = [(near[i][0], near[i][1], values[j]) for i in range(len(near)) for j in (0, 1, 4, 9)]
        triples += [(values[i], values[(i + 5) % 14], values[(i + 2) % 14]) for i in range(14)] + [(values[5], values[7], values[12]), (values[5], values[7], values[10])]
        for mode in MODES:
            for a, b, c in triples[::2] if mode == 0xF0 else triples[MODES.index(mode)::5]:
                value = form.fma(mode, a, b, c)
                if value is None:
                    continue
                f.row(f"s_fmac_f{bits} s5, s1, s2", f"mode={mode:#x} s1={a:#x} s2={b:#x} s5={c:#x}", f"s5={value:#x}")
                if bits == 32 and c not in (0, 0x3F800000):
                    f.row(f"s_fmaak_f32 s5, s1, s2, {c:#x}", f"mode={mode:#x} s1={a:#x} s2={b:#x}", f"s5={value:#x}")
                if bits == 32 and b not in (0, 1, 0x3F800000, 0x3F000000, 0x80000000) and mode == 0xF0:
                    f.row(f"s_fmamk_f32 s5, s1, {b:#x}, s3", f"mode={mode:#x} s1={a:#x} s3={c:#x}", f"s5={value:#x}")
        halves = [0x3F000000, 0xBF000000, 0x3FC00000, 0x40200000, 0xC0200000, 0x4AFFFFFF, 0x4B000001] if bits == 32 else [0x3800, 0xB800, 0x3E00, 0x4100, 0xC100, 0x63FF, 0x6401]
        for name, way in (("ceil", "up"), ("floor", "down"), ("trunc", "zero"), ("rndne", "even")):
            for mode in (0xF0, 0x00, 0xFF):
                for a in values + halves:
                    f.row(f"s_{name}_f{bits} s5, s1", f"mode={mode:#x} s1={a:#x}", f"s5={form.integral(mode, a, way):#x}")
        for name, allowed in COMPARE.items():
            for mode in (0xF0, 0x00):
                for n, (a, b) in enumerate(pairs(values)[::2] if mode == 0xF0 else pairs(values)[1::7]):
                    f.row(f"s_cmp_{name}_f{bits} s1, s2", f"mode={mode:#x} s1={a:#x} s2={b:#x} scc={n & 1}", f"scc={int(form.order(mode, a, b) in allowed)}")
    f.comment("Conversions. To integers they truncate, saturate and take NaN for 0.")
    for mode in MODES:
        for a in (0, 1, M32, 0x7FFFFFFF, 0x80000000, 0x01000001, 0x01000003, 0xFEFFFFFF):
            f.row("s_cvt_f32_i32 s5, s1", f"mode={mode:#x} s1={a:#x}", f"s5={F32.round(mode, Fraction(s32(a))):#x}")
            f.row("s_cvt_f32_u32 s5, s1", f"mode={mode:#x} s1={a:#x}", f"s5={F32.round(mode, Fraction(a)):#x}")
        for a in FLOATS32 + [0x3F801000, 0x3F803000, 0x3F801001, 0x477FE000, 0x477FF000, 0x33000000, 0x33000001, 0x387FFFFF, 0xB8000001]:
            value = F32.convert(mode, a, F16)
            if value is not None:
                f.row("s_cvt_f16_f32 s5, s1", f"mode={mode:#x} s1={a:#x}", f"s5={value:#x}")
            low, high = F32.convert(mode | 15, a, F16), F32.convert(mode | 15, a ^ 0x80000000, F16)
            if low is not None and high is not None:
                f.row("s_cvt_pk_rtz_f16_f32 s5, s1, s2", f"mode={mode:#x} s1={a:#x} s2={a ^ 0x80000000:#x}", f"s5={low | high << 16:#x}")
        for a in FLOATS16:
            value = F16.convert(mode, a, F32)
            f.row("s_cvt_f32_f16 s5, s1", f"mode={mode:#x} s1={a | 0xABCD0000:#x}", f"s5={value:#x}")
            f.row("s_cvt_hi_f32_f16 s5, s1", f"mode={mode:#x} s1={a << 16 | 0xABCD:#x}", f"s5={value:#x}")
    def integer(a, low, high):
        if F32.is_nan(a):
            return 0
        if F32.is_inf(a):
            return low if a >> 31 else high
        value = F32.value(a)
        size = abs(value.numerator) // value.denominator
        return max(low, min(high, -size if value < 0 else size))
    for mode in (0xF0, 0xF5, 0xFA):
        for a in FLOATS32 + [0x4EFFFFFF, 0x4F000000, 0xCF000000, 0xCF000001, 0x4F7FFFFF, 0x4F800000, 0x3F7FFFFF, 0xBF7FFFFF, 0xC0200000, 0x40200000]:
            f.row("s_cvt_i32_f32 s5, s1", f"mode={mode:#x} s1={a:#x}", f"s5={integer(a, -(1 << 31), (1 << 31) - 1) & M32:#x}")
            f.row("s_cvt_u32_f32 s5, s1", f"mode={mode:#x} s1={a:#x}", f"s5={integer(a, 0, M32):#x}")
    f.comment("Constants of halves: inline ones in f16, literals by their low half.")
    f.row("s_add_f16 s5, 1.0, s2", "s2=0x3c00", "s5=0x4000")
    f.row("s_mul_f16 s5, 0.15915494, s2", "s2=0x3c00", "s5=0x3118")
    f.row("s_add_f16 s5, 0x3e01, s2", "s2=0", "s5=0x3e01")
    f.row("s_cmp_eq_f16 s1, 0x3c00", "s1=0xabcd3c00 scc=0", "scc=1")
    return f


FILES = [integers, floats]
