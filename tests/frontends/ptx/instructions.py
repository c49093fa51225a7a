"""Every covered arithmetic instruction as a case, and kernels that run many cases on edge values at once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np

#: Register type, load and store type, and numpy type of an operand kind.
KINDS = {
    "b16": ("b16", "b16", np.uint16),
    "b32": ("b32", "b32", np.uint32),
    "b64": ("b64", "b64", np.uint64),
    "f16": ("b16", "b16", np.uint16),
    "bf16": ("b16", "b16", np.uint16),
    "f16x2": ("b32", "b32", np.uint32),
    "bf16x2": ("b32", "b32", np.uint32),
    "f32": ("f32", "f32", np.uint32),
    "f64": ("f64", "f64", np.uint64),
    "f32x2": ("b64", "b64", np.uint64),
    "pred": ("pred", "u32", np.uint32),
    "count": ("b32", "b32", np.uint32),
    "field": ("b32", "b32", np.uint32),
    "bit": ("b32", "b32", np.uint32),
    "steps": ("b32", "b32", np.uint32),
    "codes": ("b16", "b16", np.uint16),
    "turn": ("f32", "f32", np.uint32),
    "tf32": ("b32", "b32", np.uint32),
}
CASES_IN_A_KERNEL = 16


@dataclass(frozen=True)
class Case:
    """An instruction's name, the kinds of its destinations and sources, and literal operands after them."""

    name: str
    to: tuple[str, ...]
    sources: tuple[str, ...]
    literals: tuple[str, ...] = ()
    #: Distance from the oracle that is allowed, in units in the last place.
    ulps: float = 0
    #: The smallest error allowed, absolute.
    absolute: float = 0.0

    def __str__(self) -> str:
        return " ".join((self.name, *self.literals))


def every(names: str, to: str, sources: str, *literals: str, ulps: float = 0, absolute: float = 0.0) -> list[Case]:
    """add.{s,u}32 and the like: one case for every choice in braces."""
    parts = [piece.split("}") for piece in names.split("{")]
    choices = [[parts[0][0]]]
    for choice, rest in parts[1:]:
        choices += [choice.split(","), [rest]]
    kinds = tuple(to.split()), tuple(sources.split())
    return [Case("".join(each), *kinds, literals, ulps, absolute) for each in product(*choices)]


def integer_cases() -> Iterator[Case]:
    for bits in ("16", "32", "64"):
        b = f"b{bits}"
        names = [f"{op}.{sign}{bits}" for op in ("add", "sub", "mul.lo", "mul.hi", "min", "max") for sign in "su"]
        names += [f"{op}.b{bits}" for op in ("and", "or", "xor")]
        names += [f"{op}.{sign}{bits}" for op in ("div", "rem") for sign in "su"]
        yield from (Case(name, (b,), (b, b)) for name in names)
        yield from every(f"mad.{{lo,hi}}.{{s,u}}{bits}", b, f"{b} {b} {b}")
        yield from every(f"{{abs,neg}}.s{bits}", b, b)
        yield from every(f"{{not,cnot}}.b{bits}", b, b)
        yield from every(f"{{shl.b,shr.b,shr.u,shr.s}}{bits}", b, f"{b} count")
        yield from every(f"sad.{{s,u}}{bits}", b, f"{b} {b} {b}")
        yield from every(f"selp.b{bits}", b, f"{b} {b} pred")
        yield from every(f"slct.b{bits}.s32", b, f"{b} {b} b32")
        yield from every(f"slct.b{bits}.f32", b, f"{b} {b} f32")
        yield from every(f"setp.{{eq,ne,lt,le,gt,ge}}.{{s,u}}{bits}", "pred", f"{b} {b}")
        yield from every(f"setp.{{lo,ls,hi,hs}}.u{bits}", "pred", f"{b} {b}")
        yield from every(f"setp.{{eq,ne}}.b{bits}", "pred", f"{b} {b}")
        yield from every(f"setp.lt.{{and,or,xor}}.s{bits}", "pred pred", f"{b} {b} pred")
        yield from every(f"set.{{eq,gt}}.u32.s{bits}", "b32", f"{b} {b}")
        yield from every(f"set.le.and.f32.u{bits}", "f32", f"{b} {b} pred")
    for bits in ("32", "64"):
        b = f"b{bits}"
        yield from every(f"{{popc,clz}}.b{bits}", "b32", b)
        yield from every(f"brev.b{bits}", b, b)
        yield from every(f"bfind{{,.shiftamt}}.{{s,u}}{bits}", "b32", b)
        yield from every(f"bfe.{{s,u}}{bits}", b, f"{b} field field")
        yield from every(f"bfi.b{bits}", b, f"{b} {b} field field")
    yield from every("{add,sub}.sat.s32", "b32", "b32 b32")
    yield from every("mad.hi.sat.s32", "b32", "b32 b32 b32")
    yield from every("mul.wide.{s,u}16", "b32", "b16 b16")
    yield from every("mul.wide.{s,u}32", "b64", "b32 b32")
    yield from every("mad.wide.{s,u}16", "b32", "b16 b16 b32")
    yield from every("mad.wide.{s,u}32", "b64", "b32 b32 b64")
    yield from every("mul24.{lo,hi}.{s,u}32", "b32", "b32 b32")
    yield from every("mad24.lo.{s,u}32", "b32", "b32 b32 b32")
    yield from every("prmt.b32{,.f4e,.b4e,.rc8,.ecl,.ecr,.rc16}", "b32", "b32 b32 b32")
    yield from every("dp4a.{s,u}32.{s,u}32", "b32", "b32 b32 b32")
    yield from every("dp2a.{lo,hi}.{s,u}32.{s,u}32", "b32", "b32 b32 b32")
    for table in ("0x96", "0xe8", "0x1b"):
        yield from every("lop3.b32", "b32", "b32 b32 b32", table)
    yield from every("shf.{l,r}.{wrap,clamp}.b32", "b32", "b32 b32 count")
    yield from every("{and,or,xor}.pred", "pred", "pred pred")
    yield from every("not.pred", "pred", "pred")


def float_cases() -> Iterator[Case]:
    comparisons = "{eq,ne,lt,le,gt,ge,equ,neu,ltu,leu,gtu,geu,num,nan}"
    for ftz in ("", ".ftz"):
        yield from every(f"{{add,sub,mul}}.{{rn,rz,rm,rp}}{ftz}.f32", "f32", "f32 f32")
        yield from every(f"{{add,sub,mul}}.{{rn,rz}}{ftz}.sat.f32", "f32", "f32 f32")
        yield from every(f"fma.{{rn,rz,rm,rp}}{ftz}.f32", "f32", "f32 f32 f32")
        yield from every(f"fma.rn{ftz}.sat.f32", "f32", "f32 f32 f32")
        yield from every(f"div.{{rn,rz,rm,rp}}{ftz}.f32", "f32", "f32 f32")
        yield from every(f"{{rcp,sqrt}}.{{rn,rz,rm,rp}}{ftz}.f32", "f32", "f32")
        yield from every(f"{{abs,neg}}{ftz}.f32", "f32", "f32")
        yield from every(f"{{min,max}}{ftz}{{,.NaN}}.f32", "f32", "f32 f32")
        yield from every(f"setp.{comparisons}{ftz}.f32", "pred", "f32 f32")
        yield from every(f"set.gtu{ftz}.u32.f32", "b32", "f32 f32")
        yield from every(f"set.gtu{ftz}.f32.f32", "f32", "f32 f32")
        yield from every(f"setp.geu.or{ftz}.f32", "pred pred", "f32 f32 pred")
        yield from every(f"div.{{approx,full}}{ftz}.f32", "f32", "f32 f32", ulps=2)
        yield from every(f"{{rcp,sqrt,rsqrt}}.approx{ftz}.f32", "f32", "f32", ulps=3)
        yield from every(f"ex2.approx{ftz}.f32", "f32", "f32", ulps=3)
        yield from every(f"lg2.approx{ftz}.f32", "f32", "f32", ulps=3, absolute=2.0**-21)
        yield from every(f"{{sin,cos}}.approx{ftz}.f32", "f32", "turn", ulps=3, absolute=2.0**-20)
    yield from every("tanh.approx.f32", "f32", "f32", ulps=4, absolute=2.0**-10)
    yield from every("{add,sub,mul}.{rn,rz,rm,rp}.f64", "f64", "f64 f64")
    yield from every("fma.{rn,rz,rm,rp}.f64", "f64", "f64 f64 f64")
    yield from every("div.{rn,rz,rm,rp}.f64", "f64", "f64 f64")
    yield from every("{rcp,sqrt}.{rn,rz,rm,rp}.f64", "f64", "f64")
    yield from every("{abs,neg}.f64", "f64", "f64")
    yield from every("{min,max}.f64", "f64", "f64 f64")
    yield from every(f"setp.{comparisons}.f64", "pred", "f64 f64")
    yield from every("set.ltu.u32.f64", "b32", "f64 f64")
    yield from every("testp.{finite,infinite,number,notanumber,normal,subnormal}.f32", "pred", "f32")
    yield from every("testp.{finite,infinite,number,notanumber,normal,subnormal}.f64", "pred", "f64")
    yield from every("copysign.f32", "f32", "f32 f32")
    yield from every("copysign.f64", "f64", "f64 f64")


def half_cases() -> Iterator[Case]:
    for kind in ("f16", "f16x2"):
        yield from every(f"{{add,sub,mul}}.rn{{,.sat}}.{kind}", kind, f"{kind} {kind}")
        yield from every(f"fma.rn{{,.sat,.relu}}.{kind}", kind, f"{kind} {kind} {kind}")
    for kind in ("bf16", "bf16x2"):
        yield from every(f"fma.rn{{,.relu}}.{kind}", kind, f"{kind} {kind} {kind}")
    for kind in ("f16", "f16x2", "bf16", "bf16x2"):
        yield from every(f"{{min,max}}{{,.NaN}}.{kind}", kind, f"{kind} {kind}")
        yield from every(f"{{abs,neg}}.{kind}", kind, kind)
    for kind in ("f16", "bf16"):
        yield from every(
            f"setp.{{eq,ne,lt,le,gt,ge,equ,neu,ltu,leu,gtu,geu,num,nan}}.{kind}", "pred", f"{kind} {kind}"
        )
    yield from every("setp.{lt,geu}.f16x2", "pred pred", "f16x2 f16x2")


def conversion_cases() -> Iterator[Case]:
    for to, source, a, b in product((8, 16, 32, 64), (8, 16, 32, 64), "su", "su"):
        # Bytes live in wider registers, extended as their type says.
        registers = (f"b{max(to, 16)}",), (f"b{max(source, 16)}",)
        if (to, a) != (source, b):
            yield Case(f"cvt.{a}{to}.{b}{source}", *registers)
        fits = to >= source if a == b else (a == "s" and to > source)
        if not fits:  # .sat is refused where nothing can be cut off
            yield Case(f"cvt.sat.{a}{to}.{b}{source}", *registers)
    for form, bits in product(("f16", "f32", "f64"), ("16", "32", "64")):
        yield from every(f"cvt.{{rni,rzi,rmi,rpi}}.{{s,u}}{bits}.{form}", f"b{bits}", form)
        yield from every(f"cvt.{{rn,rz,rm,rp}}.{form}.{{s,u}}{bits}", form, f"b{bits}")
    yield from every("cvt.rzi.{s,u}8.f32", "b32", "f32")
    yield from every("cvt.rn.f32.{s,u}8", "f32", "b32")
    yield from every("cvt.rzi.ftz.{s,u}32.f32", "b32", "f32")
    yield from every("cvt.{rn,rz,rm,rp}{,.ftz}{,.sat}.f32.f64", "f32", "f64")
    yield from every("cvt{,.ftz}.f64.f32", "f64", "f32")
    yield from every("cvt.{rn,rz}{,.ftz}.f16.f32", "f16", "f32")
    yield from every("cvt.{rn,rz}.f16.f64", "f16", "f64")
    yield from every("cvt.rn.sat.f16.f32", "f16", "f32")
    yield from every("cvt{,.ftz,.sat}.f32.f16", "f32", "f16")
    yield from every("cvt.f64.f16", "f64", "f16")
    yield from every("cvt.{rni,rzi,rmi,rpi}{,.ftz,.sat}.f32.f32", "f32", "f32")
    yield from every("cvt.{rni,rzi,rmi,rpi}.f64.f64", "f64", "f64")
    yield from every("cvt.{rni,rzi,rmi,rpi}.f16.f16", "f16", "f16")
    yield from every("cvt{,.ftz}.sat.f32.f32", "f32", "f32")
    yield from every("cvt.sat.f64.f64", "f64", "f64")
    yield from every("cvt.{rn,rz}{,.relu}.bf16.f32", "bf16", "f32")
    yield from every("cvt.{rn,rz}{,.relu}.bf16x2.f32", "bf16x2", "f32 f32")
    yield from every("cvt.{rn,rz}{,.relu}.f16x2.f32", "f16x2", "f32 f32")


def special_cases() -> Iterator[Case]:
    """Cases whose text is more than name and operands: see `_code`."""
    yield from every("add.cc.u32+addc.cc.u32+addc.u32", "b32 b32 b32", "b32 b32 b32 b32")
    yield from every("add.cc.u64+addc.u64", "b64 b64", "b64 b64 b64 b64")
    yield from every("sub.cc.u32+subc.cc.u32+subc.u32", "b32 b32 b32", "b32 b32 b32 b32")
    yield from every("sub.cc.s64+subc.s64", "b64 b64", "b64 b64 b64 b64")
    yield from every("mad.lo.cc.u32+madc.hi.cc.u32+addc.u32", "b32 b32 b32", "b32 b32 b32")
    yield from every("mad.lo.cc.u64+madc.hi.u64", "b64 b64", "b64 b64 b64")
    yield from every("mov.pack.b64.b32", "b64", "b32 b32")
    yield from every("mov.unpack.b32.b64", "b32 b32", "b64")
    yield from every("mov.pack.b32.b16", "b32", "b16 b16")
    yield from every("mov.unpack.b16.b32", "b16 b16", "b32")


def cases() -> list[Case]:
    return [*integer_cases(), *float_cases(), *half_cases(), *conversion_cases(), *special_cases()]


# -- values -------------------------------------------------------------------------------------------


def _float_edges(bits: int, fraction: int) -> list[int]:
    sign, one = 1 << (bits - 1), (1 << (bits - 2)) - (1 << fraction)
    infinity = sign - (1 << fraction)
    step = 1 << fraction
    sizes = [
        0,
        1,
        2,
        (1 << fraction) - 1,
        1 << fraction,
        (1 << fraction) + 1,
        infinity - 1,
        infinity,
        infinity + step // 2,
    ]
    sizes += [one - step, one - 1, one, one + 1, one + step // 2, one + step, one + step + step // 4, one + 2 * step]
    sizes += [one + step * each for each in (7, 8, 15, 16, -4, -10) if 0 < one + step * each < infinity]
    sizes += [one + step * each for each in (23, 24, 31, 32, 52, 53, 63, 64, -64) if 0 < one + step * each < infinity]
    sizes += [one + step * each + step - 1 for each in (7, 14, 15, 30, 31, 62, 63) if one + step * each < infinity]
    return [each | flag for each in sizes for flag in (0, sign)]


def edges(kind: str) -> list[int]:
    """Patterns at which instructions go wrong."""
    if kind == "pred":
        return [0, 1]
    if kind == "count":
        return [0, 1, 2, 3, 7, 8, 15, 16, 24, 31, 32, 33, 40, 63, 64, 65, 127, 255, 256, 0x7FFFFFFF, 0xFFFFFFFF]
    if kind == "field":
        return [0, 1, 2, 3, 7, 8, 15, 16, 24, 31, 32, 33, 40, 63, 64, 65, 127, 255]
    if kind == "bit":
        return list(range(32))
    if kind == "steps":
        return [each & 0xFFFFFFFF for each in (0, 1, 2, 3, 5, 16, 31, 32, 33, 1 << 30, -1, -2, -3, -5, -16, -31, -32)]
    if kind == "codes":
        return [code | (code * 7 + 3) % 256 << 8 for code in range(256)]
    if kind == "turn":
        angles = np.linspace(-3.2, 3.2, 40, dtype=np.float32)
        return [*angles.view(np.uint32).tolist(), 0, 0x80000000, 0x7F800000, 0x7FC00000]
    if kind in ("b16", "b32", "b64"):
        bits = int(kind[1:])
        top = 1 << (bits - 1)
        found = [0, 1, 2, 3, 5, 7, 100, 127, 128, 255, 32767, 32768, 65535, top - 1, top, top + 1, 2 * top - 1]
        found += [2 * top - 2, 2 * top - 128, 2 * top - 129, 0x5555555555555555, 0xAAAAAAAAAAAAAAAA, 1 << bits // 2]
        found += [0x123456789ABCDEF0, 0xFEDCBA9876543210, 0x3F800000, 0xBF800000, 0x80000000, 0x7FFFFFFF, 0x7FFFFFC0]
        return sorted({each & (2 * top - 1) for each in found})
    shapes = {"f16": (16, 10), "bf16": (16, 7), "f32": (32, 23), "f64": (64, 52)}
    if kind in shapes:
        return _float_edges(*shapes[kind])
    half = shapes[kind[:-2]]
    halves = _float_edges(*half)
    return [low | high << half[0] for low, high in zip(halves, halves[7:] + halves[:7], strict=True)]


def inputs(sources: tuple[str, ...], rows: int, seed: int = 1) -> list[np.ndarray]:
    """Values for each source: all combinations if they are few, else a sample, with random patterns among them."""
    choices = [edges(kind) for kind in sources]
    total = int(np.prod([len(each) for each in choices], dtype=np.int64))
    random = np.random.default_rng(seed)
    if total <= rows:
        columns = list(zip(*product(*choices), strict=True))
    else:
        columns = [[choice[each] for each in random.integers(0, len(choice), rows)] for choice in choices]
    found = []
    for kind, column in zip(sources, columns, strict=True):
        dtype = KINDS[kind][2]
        if kind not in ("pred", "count", "field", "bit", "steps", "codes", "turn"):
            extra = random.integers(0, 1 << 63, 32, dtype=np.uint64) * np.uint64(2)
            column = [*column, *(int(each) >> (64 - 8 * np.dtype(dtype).itemsize) for each in extra)]
        else:
            column = [*column, *(column[each % len(column)] for each in range(32))]
        found.append(np.array(column, dtype))
    return found


# -- kernels -------------------------------------------------------------------------------------------


def _code(case: Case, to: list[str], sources: list[str]) -> str:
    if case.name.startswith("mov.pack"):
        return f"mov.{case.to[0]} {to[0]}, {{{sources[0]}, {sources[1]}}};"
    if case.name.startswith("mov.unpack"):
        return f"mov.{case.sources[0]} {{{to[0]}, {to[1]}}}, {sources[0]};"
    if case.name.startswith(("atom", "red.")):
        return _atomic_code(case, to, sources)
    if case.name.startswith(("lop3.or", "lop3.and")):
        *words, flag = sources
        return f"{case.name} {to[0]}|{to[1]}, {', '.join(words)}, {case.literals[0]}, {flag};"
    if "+" in case.name:
        lines = []
        for position, name in enumerate(case.name.split("+")):
            start = position % 2
            given = [sources[start], sources[start + 2]] if len(sources) == 4 else sources
            if name.startswith("addc") and len(sources) == 3:
                given = [sources[0], "0"]
            lines.append(f"{name} {to[position]}, {', '.join(given)};")
        return "\n    ".join(lines)
    target = "|".join(to) if case.name.startswith(("setp", "shfl", "match")) else ", ".join(to)
    return f"{case.name} {', '.join((target, *sources, *case.literals))};"


def _atomic_code(case: Case, to: list[str], sources: list[str]) -> str:
    """Fill the thread's memory, keep what is there before and after; vectors take two sources in turn."""
    old, new = to[: len(to) // 2], to[len(to) // 2 :]
    shared = ".shared" in case.name
    space = "shared" if shared else "global"
    kinds = case.to[: len(old)]
    size = np.dtype(KINDS[kinds[0]][2]).itemsize
    start = [sources[each % 2] for each in range(len(old))]
    places = [f"[%m+{size * each}]" for each in range(len(old))]
    memory = [KINDS[each][1] for each in kinds]
    lines = [f"mov.u64 %m, {'room' if shared else 'scratch'};", "mov.u32 %t, %tid.x;"]
    lines.append("mad.wide.u32 %m, %t, 16, %m;" if shared else "mad.lo.s64 %m, %index, 16, %m;")
    lines += [f"st.{space}.{kind} {at}, {each};" for kind, at, each in zip(memory, places, start, strict=True)]
    if case.name.startswith("red"):
        lines += [f"ld.{space}.{kind} {each}, {at};" for kind, at, each in zip(memory, places, old, strict=True)]
    if not shared and ".global" not in case.name:
        lines.append("cvta.global.u64 %m, %m;")
    target = f"{old[0]}, "
    given = ", ".join(sources[1:])
    if case.name.endswith("b128"):
        lines += [f"mov.b128 %q1, {{{sources[0]}, {sources[0]}}};", f"mov.b128 %q2, {{{sources[1]}, {sources[0]}}};"]
        target, given = "%q0, ", "%q1, %q2" if ".cas." in case.name else "%q2"
    elif len(old) > 1:
        target = f"{{{', '.join(old)}}}, "
        given = f"{{{', '.join(sources[(each + 1) % 2] for each in range(len(old)))}}}"
    lines.append(f"{case.name} {'' if case.name.startswith('red') else target}[%m], {given};")
    if case.name.endswith("b128"):
        lines.append(f"mov.b128 {{{old[0]}, {old[1]}}}, %q0;")
    if not shared and ".global" not in case.name:
        lines.append("cvta.to.global.u64 %m, %m;")
    lines += [f"ld.{space}.{kind} {each}, {at};" for kind, at, each in zip(memory, places, new, strict=True)]
    return "\n    ".join(lines)


def kernel(group: list[Case]) -> str:
    """PTX that runs the cases (of equal sources) on one row of inputs per thread.

    Parameters: rows, the input arrays, and one output array per destination.
    """
    sources = group[0].sources
    outputs = [(number, place) for number, case in enumerate(group) for place in range(len(case.to))]
    names = ["rows", *(f"in{each}" for each in range(len(sources))), *(f"out{a}_{b}" for a, b in outputs)]
    parameters = ",\n".join(f"    .param .{'u32' if name == 'rows' else 'u64'} {name}" for name in names)
    lines = [
        ".reg .pred %off;",
        ".reg .b32 %i, %n, %t, %c;",
        ".reg .b64 %a, %index, %at, %m;",
        ".reg .b128 %q<3>;",
        "ld.param.u32 %n, [rows];",
        "mov.u32 %i, %ctaid.x;",
        "mov.u32 %c, %ntid.x;",
        "mov.u32 %t, %tid.x;",
        "mad.lo.s32 %i, %i, %c, %t;",
        "setp.ge.u32 %off, %i, %n;",
        "@%off bra DONE;",
        "cvt.u64.u32 %index, %i;",
    ]
    given = []
    for number, kind in enumerate(sources):
        register, memory, dtype = KINDS[kind]
        name = f"%x{number}"
        given.append(name)
        lines.append(f".reg .{register} {name};")
        lines += [f"ld.param.u64 %a, [in{number}];", f"mad.lo.s64 %at, %index, {np.dtype(dtype).itemsize}, %a;"]
        if kind == "pred":
            lines += ["ld.global.u32 %t, [%at];", f"setp.ne.u32 {name}, %t, 0;"]
        else:
            lines.append(f"ld.global.{memory} {name}, [%at];")
    for number, case in enumerate(group):
        to = []
        for place, kind in enumerate(case.to):
            to.append(f"%y{number}_{place}")
            lines.append(f".reg .{KINDS[kind][0]} {to[-1]};")
        lines.append(_code(case, to, given))
        for place, kind in enumerate(case.to):
            _, memory, dtype = KINDS[kind]
            lines.append(f"ld.param.u64 %a, [out{number}_{place}];")
            lines.append(f"mad.lo.s64 %at, %index, {np.dtype(dtype).itemsize}, %a;")
            if kind == "pred":
                lines += [f"selp.u32 %t, 1, 0, {to[place]};", "st.global.u32 [%at], %t;"]
            else:
                lines.append(f"st.global.{memory} [%at], {to[place]};")
    if any(case.name.startswith(("atom", "red.")) for case in group):
        lines.insert(0, ".shared .align 16 .b8 room[2048];")
    body = "\n".join(f"    {line}" for line in lines)
    head = ".version 8.6\n.target sm_90\n.address_size 64\n"
    if any(case.name.startswith(("atom", "red.")) for case in group):
        head += ".global .align 16 .b8 scratch[32768];\n"
    return f"{head}.visible .entry cases(\n{parameters}\n)\n{{\n{body}\nDONE:\n    ret;\n}}\n"


def groups(chosen: list[Case], most: int = CASES_IN_A_KERNEL) -> list[list[Case]]:
    """Cases with equal sources together."""
    by_sources: dict[tuple[str, ...], list[Case]] = {}
    for case in chosen:
        by_sources.setdefault(case.sources, []).append(case)
    return [found[start : start + most] for found in by_sources.values() for start in range(0, len(found), most)]


def arrays(group: list[Case], rows: int) -> tuple[int, list[np.ndarray], list[np.ndarray]]:
    """Rows, inputs and zeroed outputs of a group's kernel."""
    given = inputs(group[0].sources, rows)
    count = len(given[0])
    return count, given, [np.zeros(count, KINDS[kind][2]) for case in group for kind in case.to]
