"""Instructions among lanes, on memory and on special registers: memory and records as the oracle's."""

from __future__ import annotations

import numpy as np
import pytest

from reference.ptx import Launch
from warplens.frontends.ptx import execute, parse_ptx

from .comparing import assert_same_records

THREADS = 48
WORDS = 64

TEMPLATE = """.version 8.6
.target sm_90
.address_size 64
.global .align 4 .b32 outside = 5;
.visible .entry k(.param .u64 in, .param .u64 out, .param .u64 table)
{{
    .reg .pred %p<8>;
    .reg .b16 %h<4>;
    .reg .b32 %r<8>, %a, %b, %c, %t;
    .reg .b64 %d<8>, %in, %out, %table, %own;
    .reg .b128 %q<4>;
    .reg .f32 %f<4>;
    .reg .f64 %g<4>;
    .shared .align 16 .b8 tile[1024];
    .local .align 16 .b8 depot[32];
    ld.param.u64 %in, [in];
    ld.param.u64 %out, [out];
    ld.param.u64 %table, [table];
    mov.u32 %t, %tid.x;
    mad.wide.u32 %own, %t, 4, %in;
    ld.global.u32 %a, [%own];
    ld.global.u32 %b, [%own+32];
    and.b32 %c, %b, 15;
    setp.lt.u32 %p0, %a, %b;
    mov.u32 %r0, tile;
    mad.lo.u32 %r1, %t, 16, %r0;
    mov.u32 %r2, 0;
    mov.u32 %r3, 0;
    mov.u64 %d2, 0;
    {body}
    mad.wide.u32 %out, %t, 16, %out;
    st.global.v2.b32 [%out], {{%r2, %r3}};
    st.global.b64 [%out+8], %d2;
    ret;
}}
"""

#: Adds %r4 to what was found before.
_MIX = "mad.lo.u32 %r2, %r2, 31, %r4;"


def _together(pieces: list[str]) -> str:
    return " ".join(f"{each} {_MIX}" for each in pieces)


SHUFFLES = [
    _together(
        [
            f"shfl.sync.{mode}.b32 %r4|%p1, %a, {by}, {segment << 8 | clamp}, -1; selp.u32 %r5, 1, 0, %p1; "
            "mad.lo.u32 %r3, %r3, 3, %r5;"
            for segment in (0, 16, 28)
            for by in ("1", "5", "%c")
        ]
    )
    for mode, clamp in (("up", 0), ("down", 31), ("bfly", 31), ("idx", 31), ("down", 7), ("idx", 5), ("up", 3))
]
VOTES = [
    "vote.sync.ballot.b32 %r2, %p0, -1;",
    "vote.sync.any.pred %p1, %p0, -1; selp.u32 %r2, 1, 0, %p1;",
    "vote.sync.all.pred %p1, !%p0, -1; selp.u32 %r2, 1, 0, %p1;",
    "vote.sync.uni.pred %p1, %p0, -1; selp.u32 %r2, 1, 0, %p1;",
    "activemask.b32 %r2; @%p0 activemask.b32 %r3;",
    "match.any.sync.b32 %r2, %c, -1;",
    "cvt.u64.u32 %d0, %c; shl.b64 %d0, %d0, 40; match.any.sync.b64 %r2, %d0, -1;",
    "match.all.sync.b32 %r2|%p1, %c, -1; selp.u32 %r3, 1, 0, %p1;",
    "mov.u32 %r4, 7; match.all.sync.b32 %r2|%p1, %r4, -1; selp.u32 %r3, 1, 0, %p1;",
    *(f"redux.sync.{each} %r2, %a, -1;" for each in ("add.u32", "add.s32", "min.u32", "min.s32", "max.u32")),
    *(f"redux.sync.{each} %r2, %a, -1;" for each in ("max.s32", "and.b32", "or.b32", "xor.b32")),
    # In the lanes of one side of a branch only.
    "@%p0 bra NOT; activemask.b32 %r4; vote.sync.ballot.b32 %r2, !%p0, %r4; match.any.sync.b32 %r3, %c, %r4; NOT:",
    "@%p0 bra NOT; activemask.b32 %r4; redux.sync.add.u32 %r2, %a, %r4; NOT: activemask.b32 %r3;",
]
#: Tiles of eight lanes, each with its own member mask.
_TILES = "mov.u32 %r5, %laneid; and.b32 %r5, %r5, 24; mov.u32 %r4, 255; shl.b32 %r4, %r4, %r5;"
VOTES += [
    f"{_TILES} vote.sync.ballot.b32 %r2, %p0, %r4; match.any.sync.b32 %r3, %c, %r4;",
    *(f"{_TILES} vote.sync.{each}.pred %p1, %p0, %r4; selp.u32 %r2, 1, 0, %p1;" for each in ("any", "all", "uni")),
    f"{_TILES} shr.u32 %r6, %r5, 4; match.all.sync.b32 %r2|%p1, %r6, %r4; selp.u32 %r3, 1, 0, %p1;",
    f"{_TILES} match.all.sync.b32 %r2|%p1, %c, %r4; selp.u32 %r3, 1, 0, %p1;",
    *(
        f"{_TILES} redux.sync.{each} %r2, %a, %r4;"
        for each in ("add.u32", "min.s32", "max.u32", "and.b32", "xor.b32")
    ),
]
VOTES += [
    "elect.sync %r2|%p1, -1; selp.u32 %r3, 1, 0, %p1;",
    f"{_TILES} elect.sync %r2|%p1, %r4; selp.u32 %r3, 1, 0, %p1;",
    f"{_TILES} cvt.u64.u32 %d0, %r5; match.all.sync.b64 %r2|%p1, %d0, %r4; selp.u32 %r3, 1, 0, %p1; "
    "mov.b64 %d1, {%c, %a}; match.all.sync.b64 %r6|%p2, %d1, %r4; @%p2 mov.u32 %r3, %r6;",
]
_AXES = [f"{name}.{axis}" for name in ("tid", "ntid", "ctaid", "nctaid") for axis in "xyz"]
_LANES = [*(f"lanemask_{each}" for each in ("eq", "le", "lt", "ge", "gt")), "laneid", "dynamic_smem_size"]
SPECIALS = [_together([f"mov.u32 %r4, %{name};" for name in names]) for names in (_AXES, _LANES)]
_MOVED = "mov.u64 %d0, 0; mad.wide.u32 %d0, %c, 8, %table;"
_SHARED = "mov.u64 %d1, 0; st.shared.b64 [%r1], %d1; bar.sync 0; mad.lo.u32 %r4, %c, 8, %r0;"
_NARROW = ["add.u32", "add.s32", "and.b32", "or.b32", "xor.b32", "min.u32", "min.s32", "max.u32", "max.s32"]
_NARROW += ["exch.b32", "inc.u32", "dec.u32"]
_WIDE = ["add.u64", "and.b64", "or.b64", "xor.b64", "min.u64", "min.s64", "max.u64", "max.s64", "exch.b64"]
ATOMICS = [
    *(f"{_MOVED} atom.global.{each} %r2, [%d0], %a;" for each in _NARROW),
    f"{_MOVED} atom.global.inc.u32 %r2, [%d0], 3; atom.global.dec.u32 %r3, [%d0], 5;",
    f"{_MOVED} atom.global.cas.b32 %r2, [%d0], 0, %a; atom.global.cas.b32 %r3, [%d0], %r2, %b;",
    *(f"{_MOVED} mov.b64 %d1, {{%a, %b}}; atom.global.{each} %d2, [%d0], %d1;" for each in _WIDE),
    f"{_MOVED} mov.b64 %d1, {{%a, %b}}; atom.global.cas.b64 %d2, [%d0], 0, %d1;",
    f"{_MOVED} cvt.rn.f32.u32 %f0, %c; atom.global.add.f32 %f1, [%d0], %f0; mov.b32 %r2, %f1;",
    f"{_MOVED} cvt.rn.f64.u32 %g0, %c; atom.global.add.f64 %g1, [%d0], %g0; mov.b64 %d2, %g1;",
    f"{_MOVED} red.global.add.u32 [%d0], %a; @%p0 red.global.max.s32 [%d0+4], %b;",
    f"{_MOVED} atom.add.u32 %r2, [%d0], 1;",
    f"{_MOVED} atom.relaxed.gpu.global.add.u32 %r2, [%d0], 1; red.gpu.global.add.f32 [%d0+4], 0f3F800000;",
    f"{_MOVED} cvt.rn.f32.u32 %f0, %c; cvt.rn.f16x2.f32 %r4, %f0, %f0; atom.global.add.noftz.f16x2 %r2, [%d0], %r4;",
    f"{_MOVED} cvt.rn.f32.u32 %f0, %a; cvt.rn.bf16x2.f32 %r4, %f0, %f0; "
    "atom.global.add.noftz.bf16x2 %r2, [%d0], %r4;",
    f"{_MOVED} cvt.rn.f32.u32 %f0, %c; red.global.add.v2.f32 [%d0], {{%f0, 0f3F800000}};",
    f"{_SHARED} atom.shared.add.u32 %r2, [%r4], %a; bar.sync 0; ld.shared.u32 %r3, [%r4];",
    f"{_SHARED} red.shared.xor.b32 [%r4], %a; bar.sync 0; ld.shared.u32 %r3, [%r4];",
    f"{_SHARED} cvt.u64.u32 %d0, %r4; cvta.shared.u64 %d0, %d0; atom.max.u32 %r2, [%d0], %a;",
]
_QUADS = "and.b32 %r4, %c, 7; mad.wide.u32 %d0, %r4, 16, %table; cvt.u64.u32 %d1, %a; mov.b128 %q0, {%d1, %own};"
_FOUND = "mov.b128 {%d1, %d2}, %q1; cvt.u32.u64 %r2, %d1;"
ATOMICS += [
    f"{_MOVED} red.global.{name}.noftz.v2.{kind} [%d0], {{%a, %b}}; red.global.{name}.noftz.{kind} [%d0+4], %t;"
    for name in ("min", "max", "add")
    for kind in ("f16x2", "bf16x2")
]
ATOMICS += [
    f"{_QUADS} atom.global.exch.b128 %q1, [%d0], %q0; {_FOUND}",
    f"{_QUADS} mov.b128 %q2, {{%d2, %d2}}; atom.relaxed.gpu.global.cas.b128 %q1, [%d0], %q2, %q0; {_FOUND}",
    f"{_QUADS} atom.exch.b128 %q1, [%d0], %q0; atom.cas.b128 %q1, [%d0], %q0, %q1; {_FOUND}",
    f"{_QUADS} mov.u64 %d3, 0; st.shared.v2.b64 [%r1], {{%d3, %d3}}; bar.sync 0; mad.lo.u32 %r4, %r4, 16, %r0; "
    f"atom.shared.exch.b128 %q1, [%r4], %q0; {_FOUND}",
    f"{_QUADS} st.global.b128 [%d0], %q0; ld.global.b128 %q1, [%d0]; {_FOUND}",
]
BARRIERS = [
    "bar.red.popc.u32 %r2, 0, %p0;",
    "mov.u32 %r4, 3; st.shared.u32 [%r1], %a; bar.sync %r4; xor.b32 %r5, %t, 5; mad.lo.u32 %r5, %r5, 16, %r0; "
    "ld.shared.u32 %r2, [%r5]; add.u32 %r4, %r4, 2; bar.red.popc.u32 %r3, %r4, %p0;",
    "setp.lt.u32 %p1, %t, 9; @%p1 exit; mov.u32 %r4, 7; barrier.sync.aligned %r4; mov.u32 %r2, %r4;",
    "bar.red.and.pred %p1, 0, %p0; selp.u32 %r2, 1, 0, %p1;",
    "barrier.red.or.pred %p1, 1, !%p0; selp.u32 %r2, 1, 0, %p1;",
    "st.shared.u32 [%r1], %a; barrier.sync.aligned 2; xor.b32 %r4, %t, 7; mad.lo.u32 %r4, %r4, 16, %r0; "
    "ld.shared.u32 %r2, [%r4]; bar.warp.sync -1; membar.gl; fence.acq_rel.gpu;",
    "setp.gt.u32 %p1, %t, 40; @%p1 exit; bar.sync 0; bar.red.popc.u32 %r2, 0, %p0;",
    "setp.lt.u32 %p1, %t, 32; @%p1 exit; bar.sync 0; mov.u32 %r2, 1;",
    # With the number of threads: 48 are two warps.
    "mov.u32 %r4, 5; mov.u32 %r5, 64; st.shared.u32 [%r1], %a; barrier.sync %r4, %r5; sub.u32 %r6, 47, %t; "
    "mad.lo.u32 %r6, %r6, 16, %r0; ld.shared.u32 %r2, [%r6];",
    "bar.red.popc.u32 %r2, 2, 64, %p0; mov.u32 %r4, 6; mov.u32 %r5, 64; barrier.red.popc.u32 %r3, %r4, %r5, !%p0;",
    "bar.red.and.pred %p1, 3, 64, %p0; barrier.red.or.pred %p2, 4, 64, %p0; selp.u32 %r2, 1, 0, %p1; "
    "selp.u32 %r3, 1, 0, %p2;",
    "setp.ge.u32 %p1, %t, 32; @%p1 bra SECOND; st.shared.u32 [%r1], %a; bar.arrive 7, 64; bra.uni LAST; "
    "SECOND: bar.sync 7, 64; sub.u32 %r6, 47, %t; mad.lo.u32 %r6, %r6, 16, %r0; ld.shared.u32 %r2, [%r6]; "
    "LAST: mov.u32 %r3, 1;",
]
ACCESSES = [
    *(f"ld.global.{each} %r2, [%own+1];" for each in ("u8", "s8")),
    *(f"ld.global.{each} %r2, [%own+2]; cvt.u32.u32 %r3, %r2;" for each in ("u16", "s16")),
    *(f"ld.global.{each} %d2, [%own];" for each in ("u8", "s8", "u16", "s16", "u32", "s32")),
    "ld.global.s8 %h0, [%own+3]; cvt.u32.u16 %r2, %h0;",
    "and.b32 %r4, %t, 3; mad.wide.u32 %d0, %r4, 16, %in; ld.global.nc.v4.u32 {%r2, %r3, %r4, %r5}, [%d0];",
    "and.b32 %r4, %t, 3; mad.wide.u32 %d0, %r4, 16, %in; ld.global.v2.u64 {%d1, %d2}, [%d0];",
    "and.b32 %r4, %t, 3; mad.wide.u32 %d0, %r4, 16, %in; ld.volatile.global.v4.u16 {%h0, %h1, %h2, %h3}, [%d0]; "
    "mov.b32 %r2, {%h0, %h3}; mov.b64 %d2, {%h0, %h1, %h2, %h3};",
    "st.shared.v4.b32 [%r1], {%a, %b, %c, %t}; ld.shared.v2.f64 {%g0, %g1}, [%r1]; mov.b64 %d2, %g1;",
    "st.shared.u32 [%r1], %b; st.shared.u8 [%r1+3], %a; ld.shared.u32 %r2, [%r1];",
    "st.local.v2.b32 [depot+8], {%a, %b}; mov.u64 %d0, depot; ld.local.b64 %d2, [%d0+8];",
    "mov.u64 %d0, depot; cvta.local.u64 %d0, %d0; st.u32 [%d0+4], %a; ld.local.u32 %r2, [depot+4];",
    "mov.u64 %d0, tile; cvta.shared.u64 %d0, %d0; cvta.to.shared.u64 %d2, %d0; isspacep.shared %p1, %d0; "
    "isspacep.global %p2, %d0; isspacep.local %p3, %d0; selp.u32 %r2, 1, 0, %p1; selp.u32 %r3, 2, 4, %p2;",
    "isspacep.global %p1, %own; selp.u32 %r2, 1, 0, %p1;",
    "ld.global.u32 %r2, [outside]; mov.u64 %d0, outside; ld.global.u32 %r3, [%d0];",
    "mov.u64 %d0, outside; cvta.global.u64 %d0, %d0; ld.u32 %r2, [%d0];",
    "@%p0 ld.global.u32 %r2, [%own+4]; @!%p0 st.global.u32 [%own], %t;",
    "and.b32 %r4, %t, 3; mad.wide.u32 %d0, %r4, 16, %in; cp.async.ca.shared.global [%r1], [%d0], 4; "
    "cp.async.commit_group; cp.async.wait_group 0; ld.shared.u32 %r2, [%r1];",
    "and.b32 %r4, %t, 3; mad.wide.u32 %d0, %r4, 16, %in; cp.async.cg.shared.global.L2::128B [%r1], [%d0], 16; "
    "cp.async.wait_all; ld.shared.v2.u32 {%r2, %r3}, [%r1+8];",
    "and.b32 %r4, %t, 3; mad.wide.u32 %d0, %r4, 16, %in; mov.u32 %r5, 8; "
    "cp.async.ca.shared.global [%r1], [%d0], 16, %r5; cp.async.wait_all; "
    "ld.shared.v4.u32 {%r2, %r4, %r3, %r5}, [%r1];",
    "and.b32 %r4, %t, 3; mad.wide.u32 %d0, %r4, 16, %in; cp.async.ca.shared.global [%r1], [%d0], 8, %p0; "
    "cp.async.wait_all; ld.shared.v2.u32 {%r2, %r3}, [%r1];",
    "createpolicy.fractional.L2::evict_first.b64 %d0, 0f3F800000; ld.global.L2::cache_hint.u32 %r2, [%own], %d0; "
    "st.global.L2::cache_hint.u32 [%own], %t, %d0;",
    "mov.pred %p1, %p0; not.pred %p1, %p1; selp.b32 %r2, %a, %b, %p1; mov.b32 %f0, %a; mov.b32 %r3, %f0;",
    "ld.param.u32 %r2, [in+4]; ld.param.v2.u32 {%r3, %r4}, [out];",
    # Of shared memory, some bytes become 0.
    "st.shared.v4.b32 [%r1], {%a, %b, %c, %t}; bar.sync 0; mov.u64 %d0, 520; setp.eq.u32 %p1, %t, 5; "
    "@%p1 st.bulk.weak.shared::cta [%r0+8], %d0, 0; bar.sync 0; ld.shared.v2.u32 {%r2, %r3}, [%r1+8];",
    "st.shared.v4.b32 [%r1], {%a, %b, %c, %t}; bar.sync 0; cvt.u64.u32 %d0, %r1; cvta.shared.u64 %d0, %d0; "
    "@%p0 st.bulk [%d0], 8, 0; bar.sync 0; ld.shared.v2.u64 {%d1, %d2}, [%r1]; cvt.u32.u64 %r2, %d1;",
    "prefetch.global.L2 [%own]; nanosleep.u32 20; mov.u32 %r2, 1;",
    # Sums of subnormal numbers stay in shared memory, also through a generic address.
    "mov.u32 %r4, 0x000fffff; st.shared.u32 [%r1], %r4; cvt.u64.u32 %d0, %r1; cvta.shared.u64 %d0, %d0; "
    "mov.b32 %f0, %r4; red.add.f32 [%d0], %f0; ld.shared.u32 %r2, [%r1]; atom.shared.add.f32 %f1, [%r1], %f0; "
    "ld.shared.u32 %r3, [%r1];",
    "createpolicy.range.global.L2::evict_last.L2::evict_unchanged.b64 %d0, [%in], 128, 256; "
    "ld.global.L2::cache_hint.v2.b32 {%r2, %r3}, [%table], %d0;",
    "createpolicy.fractional.L2::evict_last.L2::evict_first.b64 %d0, 0f3F000000; "
    "ld.global.L1::no_allocate.L2::cache_hint.b32 %r2, [%own], %d0; "
    "ld.global.L1::evict_last.L2::64B.b32 %r3, [%own];",
    "ld.global.ca.b32 %r2, [%own]; ld.global.cg.b32 %r4, [%own+4]; xor.b32 %r2, %r2, %r4; "
    "ld.global.cs.b32 %r4, [%own]; add.u32 %r2, %r2, %r4; ld.global.lu.b32 %r4, [%own]; xor.b32 %r2, %r2, %r4; "
    "ld.global.cv.b32 %r3, [%own+4];",
    "st.shared.b32 [%r1], %a; ld.relaxed.sys.global.b32 %r2, [%own]; ld.acquire.gpu.global.b32 %r3, [%own+4]; "
    "st.release.cta.shared.b32 [%r1+4], %b; ld.acquire.cta.shared.b32 %r4, [%r1+4]; add.u32 %r3, %r3, %r4;",
    "and.b32 %r4, %t, 7; setp.eq.u32 %p1, %r4, 0; mad.wide.u32 %d0, %t, 16, %out; "
    "@%p1 discard.global.L2 [%d0], 128; bar.warp.sync -1; mov.u32 %r2, %a;",
    "applypriority.global.L2::evict_normal [%in], 128; prefetch.global.L2::evict_last [%in]; "
    "prefetch.global.L2::evict_normal [%in]; prefetchu.L1 [%in]; mov.u32 %r2, %b;",
    "mov.u64 %d0, tile; cvta.shared.u64 %d0, %d0; isspacep.shared::cta %p1, %d0; isspacep.shared::cluster %p2, %d0; "
    "selp.u32 %r2, 1, 0, %p1; selp.u32 %r3, 1, 0, %p2; mov.u64 %d1, depot; cvta.local.u64 %d1, %d1; "
    "isspacep.local %p3, %d1; isspacep.global %p4, %d1; @%p3 add.u32 %r2, %r2, 2; @%p4 add.u32 %r2, %r2, 4;",
    "mov.u64 %d1, tile; cvta.shared.u64 %d0, %d1; cvta.to.shared.u64 %d0, %d0; sub.u64 %d2, %d0, %d1; "
    "cvta.global.u64 %d0, %own; cvta.to.global.u64 %d0, %d0; setp.eq.u64 %p1, %d0, %own; selp.u32 %r2, 1, 0, %p1;",
]
_ROWS = "and.b32 %r4, %t, 31; mad.lo.u32 %r4, %r4, 16, %r0; st.shared.v4.b32 [%r1], {%a, %b, %c, %t}; bar.sync 0;"
_FULL = "setp.ge.u32 %p7, %t, 32; @%p7 exit;"
MATRICES = [
    f"{_FULL} {_ROWS} ldmatrix.sync.aligned.m8n8.x1.shared.b16 {{%r2}}, [%r4];",
    f"{_FULL} {_ROWS} ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {{%r2, %r3}}, [%r4];",
    f"{_FULL} {_ROWS} ldmatrix.sync.aligned.m8n8.x4.shared::cta.b16 {{%r2, %r3, %r5, %r6}}, [%r4]; "
    "mov.b64 %d2, {%r5, %r6};",
    f"{_FULL} {_ROWS} stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r4], {{%a}}; ld.shared.v2.u32 {{%r2, %r3}}, [%r1];",
    f"{_FULL} {_ROWS} stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%r4], {{%a, %b, %t, %c}}; "
    "ld.shared.v2.u64 {%d1, %d2}, [%r1]; cvt.u32.u64 %r2, %d1;",
]
MATRICES.append(f"{_FULL} movmatrix.sync.aligned.m8n8.trans.b16 %r2, %a;")
BRANCHES = [
    "mov.u32 %r4, 1; T: .branchtargets A, A; brx.idx %r4, T; A: mov.u32 %r2, 1;",
    "and.b32 %r4, %a, 3; T: .branchtargets A, B, B, C; brx.idx %r4, T; A: mov.u32 %r2, 1; bra C; B: mov.u32 %r2, 2; "
    "C: mov.u32 %r3, 7;",
    "@%p0 bra A; A: activemask.b32 %r2;",
    "mov.u32 %r4, %c; A: add.u32 %r2, %r2, %r4; sub.u32 %r4, %r4, 1; setp.lt.s32 %p1, %r4, 0; @!%p1 bra A; "
    "activemask.b32 %r3;",
    "@%p0 exit; activemask.b32 %r2;",
    "@%p0 bra B; setp.gt.u32 %p1, %c, 7; @%p1 exit; mov.u32 %r2, 1; B: activemask.b32 %r3;",
]
#: Destinations that are sources too: all are read before one is written.
OVERLAPS = [
    f"{code} selp.u32 %r2, 1, 0, %p0; selp.u32 %r3, 1, 0, %p1;"
    for code in (
        "setp.lt.and.s32 %p0|%p1, %a, %b, %p0;",
        "setp.lt.xor.u32 %p1|%p0, %a, %b, %p0;",
        "@%p0 setp.ge.or.s32 %p0|%p1, %a, 7, !%p0;",
    )
]
OVERLAPS += [
    "mov.b64 %d0, {%a, %b}; mov.b64 {%a, %b}, %d0; mov.b64 %d2, {%b, %a}; mov.b64 {%b, %a}, %d2;",
    "shfl.sync.bfly.b32 %a|%p0, %a, %c, 31, -1; mov.u32 %r2, %a; match.all.sync.b32 %c|%p1, %c, -1; mov.u32 %r3, %c;",
    "mov.u64 %d2, %own; ld.global.u64 %d2, [%table]; add.cc.u32 %a, %a, %b; addc.u32 %r2, %a, %b;",
    "mul.wide.u32 %d2, %a, %b; mad.wide.u32 %d2, %a, %a, %d2; shf.l.wrap.b32 %a, %a, %a, %b; mov.u32 %r3, %a;",
]
#: Shifts of 0 to 39 and bits of a word.
_SMALL = "and.b32 %r5, %b, 63; min.u32 %r5, %r5, 39; mov.u32 %r6, %c;"
BIT_FIELDS = [
    _together([f"{_SMALL} bmsk.{mode}.b32 %r4, %r6, %r5;", f"bmsk.{mode}.b32 %r4, %r5, %r6;"])
    for mode in ("clamp", "wrap")
]
BIT_FIELDS += [
    f"lop3.{name}.b32 %r2|%p1, %c, 8, {last}, {table}, %p0; selp.u32 %r3, 1, 0, %p1;"
    for name in ("or", "and")
    for last, table in (("%c", "0xc0"), ("%t", "0x96"))
]
BIT_FIELDS += [
    _together([f"{_SMALL} szext.{mode}.{kind} %r4, %a, %r5;", f"szext.{mode}.{kind} %r4, %a, 0;"])
    for mode in ("clamp", "wrap")
    for kind in ("u32", "s32")
]
BIT_FIELDS += [
    _together(
        [f"fns.b32 %r4, %b, {base}, {offset};" for base in ("0", "%c", "31") for offset in (0, 1, 3, -1, -2, 20)]
    )
]
#: One instruction of the stack is several in the trace.
STACK = [
    "mov.u64 %d0, 24; alloca.u64 %d1, %d0, 16; st.local.v2.b32 [%d1], {%a, %b}; ld.local.b64 %d2, [%d1]; "
    "cvt.u32.u64 %r2, %d1; and.b32 %r2, %r2, 15;",
    "stacksave.u64 %d3; mov.u64 %d0, 8; alloca.u64 %d1, %d0; st.local.b32 [%d1], %a; ld.local.b32 %r2, [%d1]; "
    "stackrestore.u64 %d3; alloca.u64 %d1, %d0; st.local.b32 [%d1+4], %b; ld.local.b32 %r3, [%d1+4];",
]
SNIPPETS = {
    "bit_fields": BIT_FIELDS,
    "overlaps": OVERLAPS,
    "branches": BRANCHES,
    "shuffles": SHUFFLES,
    "votes": VOTES,
    "specials": SPECIALS,
    "atomics": ATOMICS,
    "barriers": BARRIERS,
    "accesses": ACCESSES,
    "matrices": MATRICES,
    "stack": STACK,
}


def arguments(threads: int = THREADS) -> list[np.ndarray]:
    random = np.random.default_rng(3)
    count = WORDS + threads - THREADS
    words = random.integers(0, 1 << 32, count, dtype=np.uint32)
    words[::4] = random.integers(0, 9, count // 4)
    table = np.zeros(16, np.uint64)
    return [words, np.zeros(threads * 4, np.uint32), table]


@pytest.mark.parametrize("kind", SNIPPETS)
def test_snippets(kind: str) -> None:
    wrong = []
    for body in SNIPPETS[kind]:
        # One instruction a line: lines are how records are told apart.
        text = TEMPLATE.format(body=body.replace("; ", ";\n    ").replace(": ", ":\n    "))
        module = parse_ptx(text)
        mine, theirs = arguments(), arguments()
        shape = (2, 1, 1), (THREADS, 1, 1)
        run = Launch(module, "k", *shape, theirs).run()
        try:
            execution = execute(module, "k", *shape, mine, workers=1)  # blocks may write the same words
            if kind != "stack":
                assert_same_records(execution, run, text)
            for one, two in zip(mine, theirs, strict=True):
                np.testing.assert_array_equal(one, two)
        except Exception as error:  # collect all of them
            wrong.append(f"{body}\n    {type(error).__name__}: {str(error)[:400]}")
    assert not wrong, f"{len(wrong)} snippets:\n" + "\n".join(wrong)
