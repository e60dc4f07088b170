"""DS, VGLOBAL, VFLAT, VSCRATCH, VBUFFER and SMEM: loads and stores of every width, atomics of every kind, typed buffers."""

import struct
import subprocess
from fractions import Fraction

from rows import BF16, F16, F32, F64, M32, M64, File, signed


def halves(form, op):
    return lambda o, d: op(form, o & 0xFFFF, d & 0xFFFF) | op(form, o >> 16, d >> 16) << 16


ADD = lambda form, a, b: form.add(0xF0, a, b)


def integer_atomics(bits):
    mask = (1 << bits) - 1
    s = lambda x: signed(x, bits)
    return {
        f"swap_b{bits}": lambda o, d: d,
        f"and_b{bits}": lambda o, d: o & d,
        f"or_b{bits}": lambda o, d: o | d,
        f"xor_b{bits}": lambda o, d: o ^ d,
        f"add_u{bits}": lambda o, d: o + d & mask,
        f"sub_u{bits}": lambda o, d: o - d & mask,
        f"min_i{bits}": lambda o, d: min(s(o), s(d)) & mask,
        f"max_i{bits}": lambda o, d: max(s(o), s(d)) & mask,
        f"min_u{bits}": lambda o, d: min(o, d),
        f"max_u{bits}": lambda o, d: max(o, d),
        f"inc_u{bits}": lambda o, d: 0 if o >= d else o + 1,
        f"dec_u{bits}": lambda o, d: d if o == 0 or o > d else o - 1,
    }


SPECIAL = {
    "sub_clamp_u32": lambda o, d: max(o - d, 0),
    "cond_sub_u32": lambda o, d: o - d if o >= d else o,
    "add_f32": lambda o, d: ADD(F32, o, d),
    "min_num_f32": lambda o, d: F32.min_num(0xF0, d, o),
    "max_num_f32": lambda o, d: F32.max_num(0xF0, d, o),
    "pk_add_f16": halves(F16, ADD),
    "pk_add_bf16": halves(BF16, ADD),
}
PAIRS32 = [(5, 3), (3, 5), (0, 7), (M32, 1), (0x80000000, 0x7FFFFFFF), (7, 7)]
PAIRS64 = [(5, 3), (3, 5), (0, 7), (M64, 1), (1 << 63, (1 << 63) - 1), (0x1_00000000, 0x1_00000000), (0xFFFFFFFF, 1)]
FLOATS = [(0x3F800000, 0x3F000000), (0x00000001, 0x00000001), (0x7F7FFFFF, 0x7F7FFFFF), (0x80000000, 0), (0, 0x80000000), (0x7F800001, 0x3F800000), (0x3F800000, 0x7FC00005), (0x7FC00003, 0x7F800004), (0x7F800000, 0xFF800000)]
HALFS = [(0x3C003C00, 0x10013C00), (0x00010400, 0x00010001), (0x7BFF7BFF, 0x7BFF0001), (0x7C017E00, 0x3C007C00), (0xFC000000, 0x7C008000)]
BHALFS = [(0x3F803F80, 0x3B803F81), (0x00010080, 0x00010001), (0x7F7F0000, 0x7F7F8000), (0x7F817FC0, 0x3F803F80), (0xFF803F80, 0x7F80BF80)]


def values_for(name, bits):
    if name.startswith("pk_add_bf16"):
        return BHALFS
    if name.startswith("pk_add_f16"):
        return HALFS
    if "_f32" in name:
        return FLOATS
    return PAIRS64 if bits == 64 else PAIRS32


def memory(space, at, value, bits):
    return f"{space}[{at}]={value & M32:#x}" + (f" {space}[{at + 4}]={value >> 32:#x}" if bits == 64 else "")


def registers(first, value, bits, lane=0):
    return f"v{first}.{lane}={value & M32:#x}" + (f" v{first + 1}.{lane}={value >> 32:#x}" if bits == 64 else "")


def data_text(first, bits):
    return f"v[{first}:{first + bits // 32 - 1}]" if bits > 32 else f"v{first}"


def atomics():
    f = File("atomics.ins", "Atomics of global, flat and buffer memory: each with and without the old value, one pair of values a row.")
    table = {**integer_atomics(32), **integer_atomics(64), **SPECIAL}
    for name, op in table.items():
        bits = 64 if name.endswith("64") else 32
        for n, (old, data) in enumerate(values_for(name, bits)):
            new = op(old, data)
            before = f"exec=1 {memory('mem', 16, old, bits)} v2={data & M32:#x}" + (f" v3={data >> 32:#x}" if bits == 64 else "")
            after = memory("mem", 16, new, bits)
            d = data_text(2, bits)
            if n % 2:
                f.row(f"global_atomic_{name} v1, {d}, s[2:3] offset:8", f"s[2:3]=&mem v1=8 {before}", after)
                f.row(f"flat_atomic_{name} {data_text(6, bits)}, v[8:9], {d} offset:-4 th:TH_ATOMIC_RETURN", f"v[8:9]=&mem+20 {before}", f"{after} {registers(6, old, bits)}")
            else:
                f.row(f"global_atomic_{name} {data_text(6, bits)}, v[8:9], {d}, off th:TH_ATOMIC_RETURN scope:SCOPE_DEV", f"v[8:9]=&mem+16 {before}", f"{after} {registers(6, old, bits)}")
                f.row(f"buffer_atomic_{name} {d}, v1, s[4:7], s8 offen offset:4 th:TH_ATOMIC_RETURN", f"s[4:5]=&mem s6=64 s7=0x31014000 s8=4 v1=8 {before}", f"{after} {registers(2, old, bits)}")
    for bits in (32, 64):
        for old, new, compare in ((7, 9, 7), (7, 9, 8), ((1 << bits) - 1, 0, (1 << bits) - 1)):
            wide = bits // 32
            state = f"exec=1 {memory('mem', 16, old, bits)} " + " ".join(f"v{2 + i}={x & M32:#x}" for i, x in enumerate([v >> 32 * k for v in (new, compare) for k in range(wide)]))
            after = memory("mem", 16, new if old == compare else old, bits)
            d = f"v[2:{1 + 2 * wide}]"
            f.row(f"global_atomic_cmpswap_b{bits} v1, {d}, s[2:3]", f"s[2:3]=&mem v1=16 {state}", after)
            f.row(f"flat_atomic_cmpswap_b{bits} {data_text(6, bits)}, v[8:9], {d} th:TH_ATOMIC_RETURN", f"v[8:9]=&mem+16 {state}", f"{after} {registers(6, old, bits)}")
            f.row(f"buffer_atomic_cmpswap_b{bits} {d}, off, s[4:7], null offset:16 th:TH_ATOMIC_RETURN", f"s[4:5]=&mem s6=64 s7=0x31014000 {state}", f"{after} {registers(2, old, bits)}")
    f.row("flat_atomic_add_f32 v[8:9], v2", "exec=1 v[8:9]=&lds+8 v2=0.5f lds[8]=1.0f mode=0x00", "lds[8]=1.5f")
    f.row("global_atomic_add_u32 v1, v2, s[2:3]", "exec=1 s[2:3]=&mem v1=2", "fault is not aligned")
    return f


DS = {
    **{k.replace("swap_b", "storexchg_b"): v for k, v in {**integer_atomics(32), **integer_atomics(64)}.items()},
    "rsub_u32": lambda o, d: d - o & M32,
    "rsub_u64": lambda o, d: d - o & M64,
    "sub_clamp_u32": SPECIAL["sub_clamp_u32"],
    "cond_sub_u32": SPECIAL["cond_sub_u32"],
}
DS_FLOAT = {
    "add_f32": (F32, lambda m, o, d: F32.add(m, o, d), FLOATS),
    "min_num_f32": (F32, lambda m, o, d: F32.min_num(m | 0x20, d, o), FLOATS),
    "max_num_f32": (F32, lambda m, o, d: F32.max_num(m | 0x20, d, o), FLOATS),
    "pk_add_f16": (F16, lambda m, o, d: halves(F16, lambda form, a, b: form.add(m & ~0xC, a, b))(o, d), HALFS),
}


def lds():
    f = File("lds.ins", "LDS: atomics of every kind, float ones by MODE's denormals; exchanges, counters and patterns that other files lack.")
    for name, op in DS.items():
        bits = 64 if name.endswith("64") else 32
        for n, (old, data) in enumerate(values_for(name, bits)):
            before = f"exec=1 v1=8 {memory('lds', 16, old, bits)} v2={data & M32:#x}" + (f" v3={data >> 32:#x}" if bits == 64 else "")
            after = memory("lds", 16, op(old, data), bits)
            kind, ty = name.rsplit("_", 1)
            if n % 2 and "storexchg" not in name:
                f.row(f"ds_{name} v1, {data_text(2, bits)} offset:8", before, after)
            else:
                f.row(f"ds_{kind}_rtn_{ty} {data_text(6, bits)}, v1, {data_text(2, bits)} offset:8", before, f"{after} {registers(6, old, bits)}")
    for bits in (32, 64):
        for old, clear, bits_set in ((0xFF, 0x0F, 0xA0), (M32, M32, 1)):
            one, two = data_text(2, bits), data_text(4, bits)
            state = f"exec=1 v1=16 {memory('lds', 16, old, bits)} v2={clear:#x} v4={bits_set:#x}" + (" v3=0 v5=0" if bits == 64 else "")
            after = memory("lds", 16, old & ~clear | bits_set, bits)
            f.row(f"ds_mskor_b{bits} v1, {one}, {two}", state, after)
            f.row(f"ds_mskor_rtn_b{bits} {data_text(6, bits)}, v1, {one}, {two}", state, f"{after} {registers(6, old, bits)}")
        for old, new, compare in ((7, 9, 7), (7, 9, 8)):
            state = f"exec=1 v1=16 {memory('lds', 16, old, bits)} v2={new:#x} v4={compare:#x}" + (" v3=0 v5=0" if bits == 64 else "")
            after = memory("lds", 16, new if old == compare else old, bits)
            f.row(f"ds_cmpstore_b{bits} v1, {data_text(2, bits)}, {data_text(4, bits)}", state, after)
            f.row(f"ds_cmpstore_rtn_b{bits} {data_text(6, bits)}, v1, {data_text(2, bits)}, {data_text(4, bits)}", state, f"{after} {registers(6, old, bits)}")
    f.comment("Float atomics round to nearest even; MODE says whether inputs and sums lose denormals. Extremes only look at the inputs.")
    for name, (form, op, pairs) in DS_FLOAT.items():
        kind, ty = name.rsplit("_", 1)
        for mode in (0xF0, 0xFF, 0x50, 0xA0, 0x00):
            for n, (old, data) in enumerate(pairs + ([(0x00400000, 0x00400000), (0x80000001, 0x00800000)] if form is F32 else [(0x02000001, 0x02008400)])):
                nearest = mode & 0xF0
                new = op(nearest, old, data)
                if new is None:
                    continue
                before = f"mode={mode:#x} exec=1 v1=8 v2={data:#x} lds[8]={old:#x}"
                if n % 2:
                    f.row(f"ds_{name} v1, v2", before, f"lds[8]={new:#x}")
                else:
                    f.row(f"ds_{kind}_rtn_{ty} v6, v1, v2", before, f"lds[8]={new:#x} v6.0={old:#x}")
    for n, (old, data) in enumerate(BHALFS):
        new = SPECIAL["pk_add_bf16"](old, data)
        f.row("ds_pk_add_bf16 v1, v2" if n % 2 else "ds_pk_add_rtn_bf16 v6, v1, v2", f"exec=1 v1=8 v2={data:#x} lds[8]={old:#x}", f"lds[8]={new:#x}" + ("" if n % 2 else f" v6.0={old:#x}"))
    wide = [(0x3FF0000000000000, 0x4000000000000000), (1 << 63, 0), (0x7FF0000000000001, 5 << 60), (3 << 60, 0x7FF8000000000000), (0x7FF8000000000001, 0x7FF0000000000002), (1, 2)]
    for name in ("min_num", "max_num"):
        for mode in (0xF0, 0x30):
            for n, (old, data) in enumerate(wide):
                new = getattr(F64, name)(mode | 0x80, data, old)
                before = f"mode={mode:#x} exec=1 v1=8 {memory('lds', 8, old, 64)} v2={data & M32:#x} v3={data >> 32:#x}"
                if n % 2:
                    f.row(f"ds_{name}_f64 v1, v[2:3]", before, memory("lds", 8, new, 64))
                else:
                    f.row(f"ds_{name}_rtn_f64 v[6:7], v1, v[2:3]", before, f"{memory('lds', 8, new, 64)} {registers(6, old, 64)}")
    f.comment("Exchanges at two addresses; strides of 64 elements.")
    f.row("ds_storexchg_2addr_stride64_rtn_b32 v[6:7], v1, v2, v3 offset1:1", "lds.bytes=512 exec=1 v1=0 v2=1 v3=2 lds[0]=8 lds[256]=9", "lds[0]=1 lds[256]=2 v6.0=8 v7.0=9")
    f.row("ds_storexchg_2addr_rtn_b64 v[6:9], v1, v[2:3], v[4:5] offset1:1", "exec=1 v1=0 v2=1 v3=2 v4=3 v5=4 lds[0]=5 lds[4]=6 lds[8]=7 lds[12]=8", "lds[0]=1 lds[4]=2 lds[8]=3 lds[12]=4 v6.0=5 v7.0=6 v8.0=7 v9.0=8")
    f.row("ds_storexchg_2addr_stride64_rtn_b64 v[6:9], v1, v[2:3], v[4:5] offset1:1", "lds.bytes=1024 exec=1 v1=0 v2=1 v3=2 v4=3 v5=4 lds[0]=5 lds[4]=6 lds[512]=7 lds[516]=8", "lds[0]=1 lds[4]=2 lds[512]=3 lds[516]=4 v6.0=5 v7.0=6 v8.0=7 v9.0=8")
    f.row("ds_store_2addr_stride64_b32 v1, v2, v3 offset0:1", "lds.bytes=512 exec=1 v1=0 v2=8 v3=9", "lds[256]=8 lds[0]=9")
    f.row("ds_load_2addr_stride64_b64 v[6:9], v1 offset1:1", "lds.bytes=1024 exec=1 v1=0 lds[0]=1 lds[4]=2 lds[512]=3 lds[516]=4", "v6.0=1 v7.0=2 v8.0=3 v9.0=4")
    f.row("ds_nop", "", "")
    f.comment("Fast Fourier transforms: lane i takes the lane whose number is i's bits reversed, low bits of the pattern keep theirs. As the manual lists them.")
    lanes = "v1=" + "[" + ", ".join(str(i + 1) for i in range(32)) + "]"
    listed = {
        0x00: "1,11,9,19,5,15,d,1d,3,13,b,1b,7,17,f,1f,2,12,a,1a,6,16,e,1e,4,14,c,1c,8,18,10,20",
        0x10: "1,9,5,d,3,b,7,f,2,a,6,e,4,c,8,10,11,19,15,1d,13,1b,17,1f,12,1a,16,1e,14,1c,18,20",
    }
    for pattern, out in listed.items():
        f.row(f"ds_swizzle_b32 v5, v1 offset:swizzle(FFT,{pattern})", lanes, "v5=[" + ", ".join(str(int(x, 16)) for x in out.split(",")) + "]")
    f.row("ds_swizzle_b32 v5, v1 offset:swizzle(FFT,31)", lanes, "v5=[" + ", ".join(str(i + 1) for i in range(32)) + "]")
    f.row("ds_swizzle_b32 v5, v1 offset:swizzle(FFT,0)", f"exec=0x10003 {lanes}", "v5.0=1 v5.1=17 v5.16=2")
    # LLVM's text of a rotation has no mask, so rows cannot name one.
    for right in (0, 1):
        out = [(i + (-1 if right else 1)) % 32 + 1 for i in range(32)]
        f.row(f"ds_swizzle_b32 v5, v1 offset:swizzle(ROTATE,{right},1)", lanes, f"v5=[{', '.join(map(str, out))}]")
    for nodes, name in (("v[16:19]", "push4_pop1_rtn_b32 v5"), ("v[16:23]", "push8_pop1_rtn_b32 v5"), ("v[16:23]", "push8_pop2_rtn_b64 v[5:6]")):
        f.row(f"ds_bvh_stack_{name}, v1, v2, {nodes}", "", "fault belongs to ray tracing")
    return f


LOADS = [
    ("u8", 1, lambda v: v & 0xFF), ("i8", 1, lambda v: signed(v, 8) & M32), ("u16", 2, lambda v: v & 0xFFFF), ("i16", 2, lambda v: signed(v, 16) & M32),
    ("d16_u8", 1, lambda v: 0xAAAA0000 | v & 0xFF), ("d16_i8", 1, lambda v: 0xAAAA0000 | signed(v, 8) & 0xFFFF), ("d16_b16", 2, lambda v: 0xAAAA0000 | v & 0xFFFF),
    ("d16_hi_u8", 1, lambda v: (v & 0xFF) << 16 | 0xBBBB), ("d16_hi_i8", 1, lambda v: (signed(v, 8) & 0xFFFF) << 16 | 0xBBBB), ("d16_hi_b16", 2, lambda v: (v & 0xFFFF) << 16 | 0xBBBB),
]
DWORDS = [0x80FF7F01, 0x12345678, 0x9ABCDEF0, 0x00C0FFEE, 0x55AA33CC]
BYTES = b"".join(struct.pack("<I", w) for w in DWORDS)


def around(space, base):
    return " ".join(f"{space}[{base + 4 * i}]={w:#x}" for i, w in enumerate(DWORDS))


def loads():
    f = File("loads_stores.ins", "Loads and stores of every width in every space, at every byte of a dword, with negative offsets.")
    spaces = {
        "global": ("mem", lambda at: ("v[8:9], off offset:-3", f"v[8:9]=&mem+{at + 3}"), lambda d, at: (f"v[8:9], {d}, off offset:-3", f"v[8:9]=&mem+{at + 3}")),
        "flat": ("mem", lambda at: ("v[8:9] offset:5", f"v[8:9]=&mem+{at - 5}"), lambda d, at: (f"v[8:9], {d} offset:5", f"v[8:9]=&mem+{at - 5}")),
        "scratch": ("scratch", lambda at: ("v8, s4 offset:-2", f"v8={at - 1} s4=3"), lambda d, at: (f"v8, {d}, s4 offset:-2", f"v8={at - 1} s4=3")),
        "buffer": ("mem", lambda at: ("v8, s[4:7], s12 offen offset:2", f"v8={at - 5} s12=3 s[4:5]=&mem s6=256 s7=0x31014000"), lambda d, at: ("v8, s[4:7], s12 offen offset:2", f"v8={at - 5} s12=3 s[4:5]=&mem s6=256 s7=0x31014000")),
    }
    for prefix, (space, address, store_address) in spaces.items():
        lane = ".0" if space == "scratch" else ""
        fill = " ".join(f"{space}[{16 + 4 * i}]{lane}={w:#x}" for i, w in enumerate(DWORDS))
        for name, size, result in LOADS:
            for at in (16, 17, 18, 19):
                value = int.from_bytes(BYTES[at - 16 : at - 16 + size], "little")
                operands, state = address(at)
                f.row(f"{prefix}_load_{name} v5, {operands}", f"exec=1 {state} v5=0xaaaabbbb {fill}", f"v5.0={result(value):#x}")
        for dwords in (1, 2, 3, 4):
            for at in (16, 17, 19):
                values = [int.from_bytes(BYTES[at - 16 + 4 * k : at - 12 + 4 * k], "little") for k in range(dwords)]
                operands, state = address(at)
                f.row(f"{prefix}_load_b{32 * dwords} {data_text(20, 32 * dwords)}, {operands}", f"exec=1 {state} {fill}", " ".join(f"v{20 + k}.0={v:#x}" for k, v in enumerate(values)))
        stores = [("b8", 1, 0), ("b16", 2, 0), ("d16_hi_b8", 1, 16), ("d16_hi_b16", 2, 16)] + [(f"b{32 * n}", 4 * n, 0) for n in (1, 2, 3, 4)]
        data = [0x11223344, 0x55667788, 0x99AABBCC, 0xDDEEFF00]
        for name, size, shift in stores:
            for at in (16, 19) if size < 4 else (16, 18):
                source = b"".join(struct.pack("<I", w) for w in data)[shift // 8 :][:size] if size < 4 else b"".join(struct.pack("<I", w) for w in data)[:size]
                after = bytearray(BYTES)
                after[at - 16 : at - 16 + size] = source
                changed = " ".join(f"{space}[{16 + 4 * k}]{lane}={int.from_bytes(after[4 * k : 4 * k + 4], 'little'):#x}" for k in range(5) if after[4 * k : 4 * k + 4] != BYTES[4 * k : 4 * k + 4])
                registers_ = " ".join(f"v{20 + k}={w:#x}" for k, w in enumerate(data))
                d = data_text(20, max(32, 8 * size))
                operands, state = store_address(d, at)
                text = f"{prefix}_store_{name} {d}, {operands}" if prefix == "buffer" else f"{prefix}_store_{name} {operands}"
                f.row(text, f"exec=1 {state} {registers_} {fill}", changed)
    f.comment("A flat address picks its space before the offset is added, and stays there.")
    f.row("flat_load_b32 v5, v[8:9] offset:8", "exec=1 v[8:9]=&lds+4 lds[12]=7", "v5.0=7")
    f.row("flat_load_b32 v5, v[8:9] offset:-8", "exec=1 v[8:9]=&lds+4", "fault LDS load of 4 bytes at 0xfffffffc by lane 0")
    f.row("flat_load_b32 v5, v[8:9] offset:-4", "exec=1 v[8:9]=&scratch", "fault scratch load of 4 bytes at 0xfffffffc by lane 0")
    f.comment("The vector address beside a scalar one is unsigned.")
    f.row("global_load_b32 v5, v1, s[2:3]", "exec=1 s[2:3]=&mem-2147483648 v1=0x80000004 mem[4]=9", "v5.0=9")
    f.row("global_load_addtid_b32 v5, s[2:3] offset:4", "exec=5 s[2:3]=&mem mem[4]=7 mem[12]=9", "v5.0=7 v5.2=9")
    f.row("global_store_addtid_b32 v5, s[2:3] offset:4", "exec=5 s[2:3]=&mem v5=[1, 2, 3]", "mem[4]=1 mem[12]=3")
    for name in ("global_inv scope:SCOPE_DEV", "global_wb scope:SCOPE_SYS", "global_wbinv scope:SCOPE_SE"):
        f.row(name, "", "")
    f.row("scratch_load_block v[8:39], off, s4", "m0=0x5 exec=1 s4=0 scratch.bytes=128 scratch[0]=1 scratch[8]=3", "v8.0=1 v10.0=3")
    f.row("scratch_store_block off, v[8:39], s4", "m0=0x5 exec=1 s4=0 scratch.bytes=128 v8=1 v10=3", "scratch[0].0=1 scratch[8].0=3")
    f.comment("Transposing loads: each lane reads half a row of a 16 by 16 matrix of bytes; it gets a column's half.")
    # Byte c of row r holds 16 r + c, mod 256. Lane 16h + 8b + i reads row 4(lane/8) + lane%4, its half lane/4%2.
    matrix = [[16 * r + c for c in range(16)] for r in range(16)]
    cells = " ".join(f"mem[{16 * r + 4 * k}]={int.from_bytes(bytes(matrix[r][4 * k : 4 * k + 4]), 'little'):#x}" for r in range(16) for k in range(4))
    offsets = [16 * (4 * (lane // 8) + lane % 4) + 8 * (lane // 4 % 2) for lane in range(32)]
    columns = [bytes(matrix[8 * (lane // 16) + k][lane % 16] for k in range(8)) for lane in range(32)]
    low = ", ".join(hex(int.from_bytes(c[:4], "little")) for c in columns)
    high = ", ".join(hex(int.from_bytes(c[4:], "little")) for c in columns)
    f.row("global_load_tr_b64 v[5:6], v1, s[2:3]", f"s[2:3]=&mem v1=[{', '.join(map(str, offsets))}] {cells}", f"v5=[{low}] v6=[{high}]")
    f.row("global_load_tr_b64 v[5:6], v1, s[2:3]", "exec=0", "")
    f.row("global_load_tr_b128 v[5:8], v1, s[2:3]", "exec=0", "")
    f.row("global_load_tr_b64 v[5:6], v1, s[2:3]", "exec=3", "fault neither 0 nor all ones")
    return f


def scalar_loads():
    f = File("scalar_loads.ins", "SMEM: every width, through addresses and through buffers, whose ends give 0 dword by dword.")
    cells = " ".join(f"mem[{4 * i}]={0x1000 + i:#x}" for i in range(24))
    for name, count in (("b32", 1), ("b64", 2), ("b96", 3), ("b128", 4), ("b256", 8), ("b512", 16)):
        place = f"s[20:{19 + count}]" if count > 1 else "s20"
        after = lambda first, most=99: " ".join(f"s{20 + k}={0x1000 + first + k if k < most else 0:#x}" for k in range(count))
        f.row(f"s_load_{name} {place}, s[6:7], s8 offset:-0x4", f"s[6:7]=&mem+8 s8=4 {cells}", after(2))
        f.row(f"s_load_{name} null, s[6:7], 0x0", f"s[6:7]=&mem {cells}", "") if count == 1 else None
        f.row(f"s_buffer_load_{name} {place}, s[8:11], s12 offset:0x8", f"s[8:9]=&mem s10=128 s11=0x31014000 s12=4 {cells}", after(3))
        f.row(f"s_buffer_load_{name} {place}, s[8:11], 0x4", f"s[8:9]=&mem s10=8 s11=0x31014000 {cells}", after(1, 1))
    for name, size, is_signed in (("u8", 1, 0), ("i8", 1, 1), ("u16", 2, 0), ("i16", 2, 1)):
        for at in (0, 2, 3) if size == 1 else (0, 2):
            value = int.from_bytes(BYTES[at : at + size], "little")
            value = signed(value, 8 * size) & M32 if is_signed else value
            f.row(f"s_load_{name} s5, s[6:7], {at:#x}", f"s[6:7]=&mem mem[0]={DWORDS[0]:#x}", f"s5={value:#x}")
            f.row(f"s_buffer_load_{name} s5, s[8:11], {at:#x}", f"s[8:9]=&mem s10={at + size} s11=0x31014000 mem[0]={DWORDS[0]:#x}", f"s5={value:#x}")
            f.row(f"s_buffer_load_{name} s5, s[8:11], {at:#x}", f"s[8:9]=&mem s10={at} s11=0x31014000 mem[0]={DWORDS[0]:#x}", "s5=0")
    for text in ("s_prefetch_inst s[6:7], 0x10, s8, 3", "s_prefetch_inst_pc_rel 0x10, s8, 3", "s_prefetch_data s[6:7], 0x10, s8, 3", "s_prefetch_data_pc_rel 0x10, s8, 3", "s_buffer_prefetch_data s[8:11], 0x10, s12, 3", "s_dcache_inv"):
        f.row(text, "", "")
    f.row("s_atc_probe 3, s[6:7], 0x10", "s[6:7]=0", "")
    f.row("s_atc_probe_buffer 3, s[8:11], 0x10", "s[8:9]=0 s10=0 s11=0", "")
    f.row("s_load_b32 s5, s[6:7], 0x2", "s[6:7]=&mem", "fault is not aligned")
    return f


def parts(name):
    *widths, number = name.split("_")
    return [int(w) for w in reversed(widths)], number


def component(raw, width, number):
    """The number that a loaded component stands for, as register bits."""
    s = signed(raw, width)
    if number == "UINT":
        return raw
    if number == "SINT":
        return s & M32
    if number == "FLOAT":
        if width == 32:
            return raw
        small = Float10 if width == 10 else Float11 if width == 11 else F16
        return small.convert(0xF0, raw, F32)
    value = {
        "UNORM": lambda: Fraction(raw, (1 << width) - 1),
        "SNORM": lambda: max(Fraction(s, (1 << (width - 1)) - 1), Fraction(-1)),
        "USCALED": lambda: Fraction(raw),
        "SSCALED": lambda: Fraction(s),
    }[number]()
    return F32.round(0xF0, value)


class Unsigned:
    """The small floats without a sign."""

    def __init__(self, fraction):
        self.fraction = fraction

    def convert(self, mode, x, to):
        exponent, fraction = x >> self.fraction, x & ((1 << self.fraction) - 1)
        if exponent == 31:
            return 0x7F800000 | fraction << (23 - self.fraction)
        scale = Fraction(2) ** (max(exponent, 1) - 15)
        return to.round(0xF0, ((exponent > 0) + Fraction(fraction, 1 << self.fraction)) * scale)


Float10, Float11 = Unsigned(5), Unsigned(6)


def typed():
    f = File("typed_buffers.ins", "VBUFFER: typed and formatted accesses through every format, swizzled and indexed resources, tfe.")
    names = formats()
    for code, name in enumerate(names):
        if code == 0:
            continue
        widths, number = parts(name)
        total = sum(widths) // 8
        # Random bits, all ones or small floats, and the lowest signed codes.
        for seed in (0x9E3779B97F4A7C15F39CC0605CEDC835, (1 << 128) - 1 if number != "FLOAT" else 0x3C004000C400380042003E0040003C00, 1 << 127 | 1 << 95 | 1 << 63 | 1 << 31 | 0x80 | 0x8000 << 64 if number != "FLOAT" else 0x3F800000C00000003E80000040400000):
            raw = seed & ((1 << 8 * total) - 1)
            values, at = [], 0
            for width in widths:
                values.append(component(raw >> at & ((1 << width) - 1), width, number))
                at += width
            if any(number == "FLOAT" and F32.is_nan(v) for v in values):
                continue
            values += [0] * (4 - len(values))
            cells = " ".join(f"mem[{16 + 4 * k}]={raw >> 32 * k & M32:#x}" for k in range(max(1, total // 4)))
            tag = "" if code == 1 else f" format:[BUF_FMT_{name}]"
            bounds = f"s[4:5]=&mem s6={16 + total} s7=0x30000000"
            f.row(f"tbuffer_load_format_xyzw v[20:23], off, s[4:7], null{tag} offset:16", f"exec=1 {bounds} {cells}", " ".join(f"v{20 + k}.0={v:#x}" for k, v in enumerate(values)))
            if seed == 0x9E3779B97F4A7C15F39CC0605CEDC835:
                missing = 1 if number in ("UINT", "SINT") else 0x3F800000
                select = [4 + k if k < len(widths) else 1 if k == 3 else 0 for k in range(4)]
                word = sum(s << 3 * k for k, s in enumerate(select)) | code << 12 | 3 << 28
                got = [v if select[k] >= 4 else missing if select[k] == 1 else 0 for k, v in enumerate(values)]
                f.row("buffer_load_format_xyzw v[20:23], off, s[4:7], null offset:16", f"exec=1 s[4:5]=&mem s6={16 + total} s7={word:#x} {cells}", " ".join(f"v{20 + k}.0={v:#x}" for k, v in enumerate(got)))
            # Stores bring the same bits back, where the format says how.
            unique = number != "SNORM" or all(raw >> sum(widths[:k]) & ((1 << w) - 1) != 1 << (w - 1) for k, w in enumerate(widths))
            if unique:
                registers_ = " ".join(f"v{20 + k}={v:#x}" for k, v in enumerate(values))
                zero = " ".join(f"mem[{16 + 4 * k}]=0" for k in range(max(1, total // 4)))
                f.row(f"tbuffer_store_format_xyzw v[20:23], off, s[4:7], null{tag} offset:16", f"exec=1 {bounds} {registers_} {zero}", cells)
            small = number == "FLOAT" and min(widths) < 16
            if number.endswith("SCALED") or small:
                # What the format has no code for: a fraction or one bit too many, one too large, a sign, no number.
                largest = 1 << (widths[0] - (number != "USCALED"))
                wrong = ("1.0078125f", "65536.0f", "-1.0f", "0x7fc00000") if small else ("0.5f", f"{largest}.0f", f"{-largest - 1}.0f" if number == "SSCALED" else "-1.0f", "0x7fc00000")
                for value in wrong:
                    f.row(f"tbuffer_store_format_xyzw v[20:23], off, s[4:7], null{tag} offset:16", f"exec=1 {bounds} v20={value} v21=0 v22=0 v23=0", "fault how it rounds is not defined")
    raw16 = lambda *h: " ".join(f"mem[{16 + 4 * k}]={h[2 * k] | h[2 * k + 1] << 16:#x}" for k in range(len(h) // 2))
    buffer = lambda code, more=0: f"s[4:5]=&mem s6=64 s7={code << 12 | 0x30000FAC | more:#x}"
    f.comment("Fewer components, and 16 bits of each: halves of registers. Integers keep 16 bits, f32 is cut, others round to nearest.")
    halves_ = (0x3C00, 0xC000, 0x3800, 0x4200)
    for typed_, tag in (("tbuffer", " format:[BUF_FMT_16_16_16_16_FLOAT]"), ("buffer", "")):
        state = f"exec=1 {buffer(57)} {raw16(*halves_)}"
        wide = [F16.convert(0xF0, h, F32) for h in halves_]
        for n, suffix in enumerate(("x", "xy", "xyz", "xyzw"), 1):
            f.row(f"{typed_}_load_format_{suffix} {data_text(20, 32 * n)}, off, s[4:7], null{tag} offset:16", state, " ".join(f"v{20 + k}.0={wide[k]:#x}" for k in range(n)))
            packed = [halves_[2 * k] | (halves_[2 * k + 1] if 2 * k + 1 < n else 0x7777) << 16 for k in range((n + 1) // 2)]
            f.row(f"{typed_}_load_d16_format_{suffix} {data_text(20, 32 * len(packed))}, off, s[4:7], null{tag} offset:16", f"{state} v20=0x77777777 v21=0x77777777", " ".join(f"v{20 + k}.0={p:#x}" for k, p in enumerate(packed)))
            given = [halves_[k] if k < n else halves_[0] for k in range(4)]
            zero = raw16(0, 0, 0, 0)
            f.row(f"{typed_}_store_format_{suffix} {data_text(20, 32 * n)}, off, s[4:7], null{tag} offset:16", f"exec=1 {buffer(57)} {zero} " + " ".join(f"v{20 + k}={wide[k]:#x}" for k in range(n)), raw16(*given))
            source = [halves_[2 * k] | halves_[2 * k + 1] << 16 for k in range(2)]
            f.row(f"{typed_}_store_d16_format_{suffix} {data_text(20, 32 * ((n + 1) // 2))}, off, s[4:7], null{tag} offset:16", f"exec=1 {buffer(57)} {zero} v20={source[0]:#x} v21={source[1]:#x}", raw16(*given))
    f.row("buffer_load_d16_hi_format_x v20, off, s[4:7], null offset:16", f"exec=1 {buffer(13)} v20=0x77777777 mem[16]=0x3c00", "v20.0=0x3c007777")
    f.row("buffer_store_d16_hi_format_x v20, off, s[4:7], null offset:16", f"exec=1 {buffer(13)} v20=0x3c007777 mem[16]=0", "mem[16]=0x3c00")
    f.row("buffer_load_d16_format_x v20, off, s[4:7], null offset:16", f"exec=1 {buffer(22)} v20=0 mem[16]=0x3f803fff", "v20.0=0x3c01")
    f.row("buffer_load_d16_format_x v20, off, s[4:7], null offset:16", f"exec=1 {buffer(7)} v20=0 mem[16]=0x5555", f"v20.0={F16.round(0xF0, Fraction(0x5555, 65535)):#x}")
    f.row("buffer_load_d16_format_x v20, off, s[4:7], null offset:16", f"exec=1 {buffer(21)} v20=0 mem[16]=-5", "v20.0=0xfffb")
    f.row("buffer_load_d16_format_x v20, off, s[4:7], null offset:16", f"exec=1 {buffer(20)} mem[16]=0x10000", "fault 0x10000 of 32_UINT does not fit 16 bits")
    f.comment("Stores: what is out of range saturates in normalised formats, NaN is 0; integers must fit.")
    for value, raw in (("1.5f", 255), ("-1.0f", 0), ("nanf", 0), ("0.5f", 128), ("inff", 255)):
        f.row("buffer_store_format_x v20, off, s[4:7], null offset:16", f"exec=1 {buffer(1)} v20={value} mem[16]=0", f"mem[16]={raw}")
    for value, raw in (("1.5f", 127), ("-2.0f", 0x81), ("nanf", 0), ("-0.5f", 0xC0)):
        f.row("buffer_store_format_x v20, off, s[4:7], null offset:16", f"exec=1 {buffer(2)} v20={value} mem[16]=0", f"mem[16]={raw}")
    f.row("buffer_store_format_x v20, off, s[4:7], null offset:16", f"exec=1 {buffer(5)} v20=256", "fault 256 does not fit")
    f.row("buffer_store_format_x v20, off, s[4:7], null offset:16", f"exec=1 {buffer(6)} v20=-129", "fault -129 does not fit")
    f.comment("Bounds of a formatted access hold for all of it; selections of 1 stay 1. Elements of four bytes lie at multiples of four.")
    f.row("buffer_load_format_xyzw v[20:23], off, s[4:7], null offset:16", "exec=1 s[4:5]=&mem s6=20 s7=0x30039fac", "v20.0=0 v21.0=0 v22.0=0 v23.0=0")
    f.row("buffer_load_format_xyzw v[20:23], off, s[4:7], null offset:16", f"exec=1 s[4:5]=&mem s6=4 s7={0x30000000 | 20 << 12 | 4 | 1 << 9:#x}", "v20.0=0 v21.0=0 v22.0=0 v23.0=1")
    f.row("buffer_store_format_xy v[20:21], off, s[4:7], null offset:16", "exec=1 s[4:5]=&mem s6=20 s7=0x30032fac", "")
    f.row("buffer_load_format_x v20, off, s[4:7], null offset:17", f"exec=1 {buffer(20)}", "fault load of 4 bytes at")
    f.row("buffer_load_format_x v20, off, s[4:7], null", "exec=1 s[4:5]=&mem s6=64 s7=0x30000fac", "fault with format 0, which no buffer has")
    f.row("buffer_store_format_x v20, off, s[4:7], null", "exec=1 s[4:5]=&mem s6=64 s7=0x30014fad", "fault reorders components")
    f.comment("Records: index and stride, scaled; the lane as part of the index; structured bounds.")
    f.row("buffer_load_b32 v20, v[8:9], s[4:7], null idxen offen offset:4", "exec=7 s4=&mem s5=0x00107000 s6=3 s7=0x00014000 v8=[0, 1, 3] v9=[4, 8, 0] mem[8]=5 mem[28]=6", "v20.0=5 v20.1=6 v20.2=0")
    f.row("buffer_load_b32 v20, v8, s[4:7], null idxen", "exec=3 s4=&mem s5=0x00047000 s6=9 s7=0x10054000 v8=[0, 2] mem[0]=5 mem[32]=6", "v20.0=5 v20.1=6")
    f.row("buffer_load_b32 v20, off, s[4:7], null", "exec=7 s4=&mem s5=0x00087000 s6=2 s7=0x10814000 mem[0]=5 mem[8]=6 mem[16]=7", "v20.0=5 v20.1=6 v20.2=0")
    f.row("buffer_load_b32 v20, off, s[4:7], null offset:64", "exec=1 s[4:5]=&mem s6=1 s7=0x20014000 mem[64]=9", "v20.0=9")
    f.row("buffer_load_b32 v20, off, s[4:7], null offset:64", "exec=1 s[4:5]=&mem s6=0 s7=0x20014000 mem[64]=9", "v20.0=0")
    f.comment("Swizzled: elements of 4 bytes, 8 records side by side: byte offset o of record i is at ((i/8)·stride + o/4·4)·8 + i%8·4 + o%4.")
    f.row("buffer_load_b32 v20, v[8:9], s[4:7], null idxen offen", "mem.bytes=512 exec=7 s4=&mem s5=0x40107000 s6=16 s7=0x10014000 v8=[1, 9, 2] v9=[4, 8, 0] mem[36]=5 mem[196]=6 mem[8]=7", "v20.0=5 v20.1=6 v20.2=7")
    f.row("buffer_store_b32 v20, v[8:9], s[4:7], null idxen offen", "mem.bytes=512 exec=1 s4=&mem s5=0x40107000 s6=16 s7=0x10014000 v8=9 v9=8 v20=77", "mem[196]=77")
    f.row("buffer_load_b64 v[20:21], v8, s[4:7], null idxen", "exec=1 s4=&mem s5=0x40107000 s6=16 s7=0x10014000 v8=0", "fault pass an element of 4")
    f.row("buffer_load_b64 v[20:21], v8, s[4:7], null idxen offset:8", "mem.bytes=512 exec=1 s4=&mem s5=0xc0107000 s6=16 s7=0x10014000 v8=1 mem[24]=1 mem[28]=2", "v20.0=1 v21.0=2")
    f.row("buffer_load_b32 v20, v8, s[4:7], null idxen", "exec=1 s4=&mem s5=0x80107000 s6=16 s7=0x10014000", "fault reserved swizzle")
    f.row("buffer_load_b32 v20, off, s[4:7], null", "exec=1 s[4:5]=&mem s6=16 s7=0x70014000", "fault of the type of an image")
    f.comment("tfe names one register more; nothing is missing, so it stays.")
    f.row("buffer_load_b32 v[20:21], off, s[4:7], null offset:16 tfe", "exec=1 s[4:5]=&mem s6=64 s7=0x30014000 mem[16]=5", "v20.0=5")
    return f


def formats():
    """LLVM's names by number."""
    words = []
    for code in range(64):
        second = 5 | 4 << 9 | code << 23
        words.append("[" + " ".join(f"0x{b:02x}" for w in (0xC420007C, second, 0) for b in struct.pack("<I", w)) + "]")
    command = ["llvm-mc-22", "-triple=amdgcn", "-mcpu=gfx1201", "--disassemble"]
    out = subprocess.run(command, input="\n".join(words) + "\n", capture_output=True, text=True, check=True).stdout
    names = []
    for line in out.splitlines():
        if "tbuffer" in line:
            names.append(line.split("BUF_FMT_")[1].split("]")[0] if "BUF_FMT_" in line else "8_UNORM")
    assert len(names) == 64 and names[0] == "INVALID", names
    return names


FILES = [atomics, lds, loads, scalar_loads, typed]
