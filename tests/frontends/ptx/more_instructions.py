"""More instructions: video, flushed halves, bfloat16, atomics."""

from __future__ import annotations

from collections.abc import Iterator

from .instructions import Case, cases, every


def packed_cases() -> Iterator[Case]:
    """Packed integers and floats, conversions that saturate, SIMD video instructions."""
    yield from every("add.{u16x2,s16x2}", "b32", "b32 b32")
    yield from every("{min,max}.{u16x2,s16x2,s16x2.relu,s32.relu}", "b32", "b32 b32")
    for kind in ("f16x2", "bf16x2"):
        yield from every(f"set.{{eq,ne,lt,geu,nan}}.{kind}.{kind}", kind, f"{kind} {kind}")
        yield from every(f"set.gt.or.u32.{kind}", "b32", f"{kind} {kind} pred")
    for kind in ("f16", "f16x2", "bf16", "bf16x2", "f32"):
        yield from every(f"{{min,max}}{{,.NaN}}.xorsign.abs.{kind}", kind, f"{kind} {kind}")
    yield from every("cvt.{rn,rz}{,.relu}.satfinite.{bf16,f16}x2.f32", "b32", "f32 f32")
    yield from every("cvt.rn.satfinite.{bf16,f16}.f32", "b16", "f32")
    yield from every("cvt.{rn,rz}{,.relu}{,.satfinite}.tf32.f32", "tf32", "f32")
    yield from every("cvt.rna{,.satfinite}.tf32.f32", "tf32", "f32")
    yield from every("cvt.pack.sat.{u,s}16.s32", "b32", "b32 b32")
    yield from every("cvt.pack.sat.{u,s}{8,4,2}.s32.b32", "b32", "b32 b32 b32")
    yield from every("{add,sub,mul}{,.rz,.rm.ftz}.f32x2", "f32x2", "f32x2 f32x2")
    yield from every("fma.{rn,rp}{,.ftz}.f32x2", "f32x2", "f32x2 f32x2 f32x2")
    for count in "24":
        names = f"{{vadd,vsub,vavrg,vabsdiff,vmin,vmax}}{count}"
        yield from every(f"{names}.{{u,s}}32.{{u,s}}32.{{u,s}}32{{,.sat,.add}}", "b32", "b32 b32 b32")
        yield from every(f"vset{count}.{{u,s}}32.{{u,s}}32.{{eq,ne,lt,le,gt,ge}}{{,.add}}", "b32", "b32 b32 b32")


def further_cases() -> Iterator[Case]:
    """Flushed and combined forms, conversions of bfloat16 and of 8-bit floats, approximations of halves."""
    comparisons = "{eq,ne,lt,le,gt,ge,equ,neu,ltu,leu,gtu,geu,num,nan}"
    for kind in ("f16", "f16x2"):
        yield from every(f"{{add,sub,mul}}{{,.rn}}.ftz{{,.sat}}.{kind}", kind, f"{kind} {kind}")
        yield from every(f"fma.rn.ftz{{,.sat,.relu}}.{kind}", kind, f"{kind} {kind} {kind}")
        yield from every(f"{{min,max}}.ftz{{,.NaN}}{{,.xorsign.abs}}.{kind}", kind, f"{kind} {kind}")
        yield from every(f"{{abs,neg}}.ftz.{kind}", kind, kind)
    for kind in ("bf16", "bf16x2"):
        yield from every(f"{{add,sub,mul}}{{,.rn}}.{kind}", kind, f"{kind} {kind}")
    yield from every(f"setp.{comparisons}.ftz.f16", "pred", "f16 f16")
    yield from every("setp.{lt,geu}.bf16x2", "pred pred", "bf16x2 bf16x2")
    for kind in ("f16x2", "bf16x2"):
        yield from every(f"setp.{{eq,gtu,nan}}.{{and,or,xor}}.{kind}", "pred pred", f"{kind} {kind} pred")
        yield from every(f"set.{{le,num}}.{{and,xor}}.{kind}.{kind}", kind, f"{kind} {kind} pred")
    yield from every("setp.{ge,leu}.ftz.f16x2", "pred pred", "f16x2 f16x2")
    yield from every("set.{ne,gtu}.ftz.{f16x2,u32}.f16x2", "b32", "f16x2 f16x2")
    for kind in ("f16", "bf16", "f32", "f64", "b16", "b32", "b64"):
        names = [kind] if kind[0] != "b" or kind == "bf16" else [f"{sign}{kind[1:]}" for sign in "us"]
        more = ",ltu,num" if kind in names else ""
        forms = ",".join(names)
        to = "pred" if kind in ("f16", "bf16") else "pred pred"
        yield from every(f"setp.{{lt,ne{more}}}.{{and,or,xor}}.{{{forms}}}", to, f"{kind} {kind} pred")
        yield from every(f"set.{{ge,eq{more}}}.{{u32,s32}}.{{{forms}}}", "b32", f"{kind} {kind}")
        yield from every(f"set.{{le{more}}}.{{and,or,xor}}.u32.{{{forms}}}", "b32", f"{kind} {kind} pred")
        if kind not in ("f16", "bf16"):
            yield from every(f"set.{{lt{more}}}.f32.{{{forms}}}", "f32", f"{kind} {kind}")
        if kind != "bf16":
            yield from every(f"set.{{gt{more}}}.f16.{{{forms}}}", "f16", f"{kind} {kind}")
        yield from every(f"set.{{gt{more}}}.bf16.{{{forms}}}", "bf16", f"{kind} {kind}")
    yield from every("set.{lt,geu}.{u16,s16}.f16", "b16", "f16 f16")
    yield from every("set.{lt,geu}.{u16,s16}.bf16", "b16", "bf16 bf16")
    yield from every("slct.ftz.{b,u,s}32.f32", "b32", "b32 b32 f32")
    yield from every("slct.f32.s32", "f32", "f32 f32 b32")
    yield from every("slct.f64.f32", "f64", "f64 f64 f32")
    yield from every("slct{,.ftz}.u64.f32", "b64", "b64 b64 f32")
    yield from every("selp.f32", "f32", "f32 f32 pred")
    yield from every("selp.f64", "f64", "f64 f64 pred")
    yield from every("mad24.hi.{s,u}32", "b32", "b32 b32 b32")
    yield from every("mad24.hi.sat.s32", "b32", "b32 b32 b32")
    for table in ("0x01", "0x80", "0xfe", "0x17", "0xca", "0xd8", "0x3c"):
        yield from every("lop3.b32", "b32", "b32 b32 b32", table)
        yield from every("lop3.{or,and}.b32", "b32 pred", "b32 b32 b32 pred", table)
    yield from every("bmsk.{clamp,wrap}.b32", "b32", "count count")
    yield from every("szext.{clamp,wrap}.{u,s}32", "b32", "b32 count")
    yield from every("fns.b32", "b32", "b32 bit steps")
    yield from every("mad.hi.cc.{s,u}32+madc.lo.cc.u32+addc.s32", "b32 b32 b32", "b32 b32 b32")
    yield from every("mad.lo.cc.s64+madc.hi.cc.s64+addc.u64", "b64 b64 b64", "b64 b64 b64")
    yield from every("add.cc.s32+addc.cc.s32+subc.cc.s32+addc.s32", "b32 b32 b32 b32", "b32 b32 b32 b32")
    yield from every("cvt.rn.satfinite{,.relu}.{e4m3,e5m2}x2.f32", "b16", "f32 f32")
    yield from every("cvt.rn.satfinite{,.relu}.{e4m3,e5m2}x2.f16x2", "b16", "f16x2")
    yield from every("cvt.rn{,.relu}.f16x2.{e4m3,e5m2}x2", "f16x2", "codes")
    yield from every("cvt.f32.bf16", "f32", "bf16")
    yield from every("cvt.f64.bf16", "f64", "bf16")
    yield from every("cvt.{rn,rz,rm,rp}.bf16.f16", "bf16", "f16")
    yield from every("cvt.{rn,rz,rm,rp}.f16.bf16", "f16", "bf16")
    yield from every("cvt.{rn,rz,rm,rp}.bf16.f64", "bf16", "f64")
    yield from every("cvt.{rm,rp}.bf16.f32", "bf16", "f32")
    yield from every("cvt.{rn,rz,rp}.ftz.bf16.f32", "bf16", "f32")
    yield from every("cvt.{rni,rzi,rmi,rpi}.bf16.bf16", "bf16", "bf16")
    yield from every("cvt{,.rni,.rpi}.sat.f16.f16", "f16", "f16")
    yield from every("cvt.{rm,rp}{,.ftz}.f16.f32", "f16", "f32")
    yield from every("cvt.{rn,rz}.relu.f16.f32", "f16", "f32")
    yield from every("cvt.{rm,rp}{,.sat}.f16.f64", "f16", "f64")
    yield from every("cvt.sat.f64.f16", "f64", "f16")
    yield from every("cvt.sat.f64.f32", "f64", "f32")
    yield from every("cvt.{rzi,rpi}.sat.f32.f32", "f32", "f32")
    yield from every("cvt.{rni,rmi}.sat.f64.f64", "f64", "f64")
    for bits in ("16", "32", "64"):
        yield from every(f"cvt.{{rni,rzi,rmi,rpi}}.{{s,u}}{bits}.bf16", f"b{bits}", "bf16")
        yield from every(f"cvt.{{rn,rz,rm,rp}}.bf16.{{s,u}}{bits}", "bf16", f"b{bits}")
        yield from every(f"cvt.{{rn,rz,rp}}.sat.f16.{{s,u}}{bits}", "f16", f"b{bits}")
        yield from every(f"cvt.rn.sat.f32.{{s,u}}{bits}", "f32", f"b{bits}")
        yield from every(f"cvt.rz.sat.f64.{{s,u}}{bits}", "f64", f"b{bits}")
        yield from every(f"cvt.rmi{{,.sat}}.ftz.{{s,u}}{bits}.f32", f"b{bits}", "f32")
    for kind in ("f16", "f64"):
        yield from every(f"cvt.{{rni,rzi}}.{{s,u}}8.{kind}", "b32", kind)
        yield from every(f"cvt.rn.{kind}.{{s,u}}8", kind, "b32")
    for kind in ("f16", "f16x2"):
        yield from every(f"ex2.approx.{kind}", kind, kind, ulps=2)
        yield from every(f"tanh.approx.{kind}", kind, kind, ulps=2, absolute=2.0**-10.987)
    for kind in ("bf16", "bf16x2"):
        yield from every(f"ex2.approx.ftz.{kind}", kind, kind, ulps=2)
        yield from every(f"tanh.approx.{kind}", kind, kind, ulps=2, absolute=2.0**-8)
    # The lower 32 bits are 0, and of the operand they are not read.
    yield from every("{rcp,rsqrt}.approx.ftz.f64", "f64", "f64", ulps=2.0**33)
    yield from every("rsqrt.approx.f64", "f64", "f64", ulps=2.0**33)


def atomic_cases() -> Iterator[Case]:
    """Atomics on memory of one thread: from the memory's content and operands, its old and its new content."""
    for space in ("global", "shared", "generic"):
        atom = "atom" if space == "generic" else f"atom.{space}"
        for bits in ("32", "64"):
            b = f"b{bits}"
            names = f"add.u{bits}" + "".join(f",{each}.b{bits}" for each in ("and", "or", "xor", "exch"))
            names += "".join(f",{each}.{sign}{bits}" for each in ("min", "max") for sign in "us")
            names += ",add.s32,inc.u32,dec.u32" if bits == "32" else ""
            yield from every(f"{atom}.{{{names}}}", f"{b} {b}", f"{b} {b}")
            yield from every(f"{atom}.cas.{b}", f"{b} {b}", f"{b} {b} {b}")
        yield from every(f"{atom}.cas.b16", "b16 b16", "b16 b16 b16")
        for kind in ("f32", "f64"):
            yield from every(f"{atom}.add.{kind}", f"{kind} {kind}", f"{kind} {kind}")
        for kind in ("f16", "bf16", "f16x2", "bf16x2"):
            yield from every(f"{atom}.add.noftz.{kind}", f"{kind} {kind}", f"{kind} {kind}")
        yield from every(f"{atom}.{{exch,cas}}.b128", "b64 b64 b64 b64", "b64 b64")
    yield from every("red.relaxed.gpu.global.{inc,dec}.u32", "b32 b32", "b32 b32")
    yield from every("red.release.cluster.shared.min.s64", "b64 b64", "b64 b64")
    yield from every("atom.relaxed.sys.global.{exch.b64,max.s64}", "b64 b64", "b64 b64")
    yield from every("atom.acq_rel.cta.shared.cas.b64", "b64 b64", "b64 b64 b64")
    for kind in ("f16", "bf16", "f16x2", "bf16x2"):
        for count in (2, 4) if "x2" in kind else (2, 4, 8):
            kinds = " ".join([kind] * count)
            yield from every(
                f"{{atom,red}}.global.{{add,min,max}}.noftz.v{count}.{kind}", f"{kinds} {kinds}", f"{kind} {kind}"
            )
    for count in (2, 4):
        kinds = " ".join(["f32"] * count)
        yield from every(f"{{atom,red}}.global.add.v{count}.f32", f"{kinds} {kinds}", "f32 f32")
    for kind in ("f32", "f64", "b32", "b64"):
        names = f"add.{kind}" if kind[0] == "f" else f"add.u{kind[1:]},max.s{kind[1:]},xor.{kind}"
        yield from every(f"red{{.global,.shared}}.{{{names}}}", f"{kind} {kind}", f"{kind} {kind}")
    for kind in ("f16", "bf16", "f16x2", "bf16x2"):
        yield from every(f"red.global.add.noftz.{kind}", f"{kind} {kind}", f"{kind} {kind}")


def more_cases() -> list[Case]:
    """Those that are not among `cases`, each once."""
    known = {str(each): each for each in reversed(cases())}
    others = [*packed_cases(), *further_cases(), *atomic_cases()]
    return list({str(each): each for each in others if str(each) not in known}.values())
