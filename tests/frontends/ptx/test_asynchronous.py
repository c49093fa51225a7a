"""mbarriers, bulk copies and tensor maps: what arrives, when, and what misuse is called."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import warplens
from warplens.errors import KernelFault, PtxError
from warplens.frontends.ptx import execute, parse_ptx
from warplens.frontends.ptx.execute import Execution
from warplens.frontends.ptx.mbarriers import MBarrier
from warplens.frontends.ptx.static_mix import static_mix
from warplens.frontends.ptx.tensor_maps import TensorMap
from warplens.traces.checks import problem_of

from .comparing import records

HEAD = """.version 8.6
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 in, .param .u64 out, .param .align 64 .b8 map[128])
{
.reg .b64 %in, %out, %at, %map, %s<4>;
.reg .b32 %r<8>, %t, %tile, %bar;
.reg .pred %p<6>;
.shared .align 1024 .b8 tile[16384];
.shared .align 8 .b64 bar;
ld.param.u64 %in, [in];
ld.param.u64 %out, [out];
mov.b64 %map, map;
mov.u32 %t, %tid.x;
mov.u32 %tile, tile;
mov.u32 %bar, bar;
setp.eq.u32 %p0, %t, 0;
@%p0 mbarrier.init.shared::cta.b64 [%bar], COUNT;
fence.mbarrier_init.release.cluster;
bar.sync 0;
"""
WAIT = "WAIT:\nmbarrier.try_wait.parity.shared::cta.b64 %p1, [%bar], 0;\n@!%p1 bra WAIT;\n"
#: Every thread copies words t, t + 64, … of the tile to `out`.
DUMP = """mad.lo.u32 %r0, %t, 4, %tile;
mad.wide.u32 %at, %t, 4, %out;
DUMP:
ld.shared.b32 %r1, [%r0];
st.global.b32 [%at], %r1;
add.u32 %r0, %r0, 256;
add.u64 %at, %at, 256;
setp.lt.u32 %p2, %r0, BYTES;
@%p2 bra DUMP;
"""


def run(body: str, given: np.ndarray, out: np.ndarray, tensor: TensorMap | None = None, count: int = 1) -> Execution:
    text = f"{HEAD}{body}\nret;\n}}\n".replace("COUNT", str(count)).replace("BYTES", str(min(out.nbytes, 16384)))
    content = bytes(128)
    if tensor is not None:
        content = tensor.packed
    return execute(parse_ptx(text), "k", 1, 64, [given, out, content])


def words(count: int) -> np.ndarray:
    return np.random.default_rng(count).integers(0, 1 << 32, count, dtype=np.uint32)


LOAD = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%tile], [%in], 1024, [%bar];"

LOAD_BOX = "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"


def test_words_of_barriers_round_trip() -> None:
    state = MBarrier(3, 5, -16, 1)
    assert MBarrier.unpacked(state.packed) == state
    assert MBarrier(0, 4, 16).delivered(16) == MBarrier(4, 4, 0, 1)


def test_a_bulk_load_arrives_at_the_wait() -> None:
    given, out = words(256), np.zeros(256, np.uint32)
    expect = "@%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%bar], 1024;\n"
    run(f"{expect}@%p0 {LOAD}\n{WAIT}{DUMP}", given, out)
    np.testing.assert_array_equal(out, given)


def test_without_a_wait_the_data_are_not_there() -> None:
    expect = "@%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%bar], 1024;\n"
    with pytest.raises(KernelFault, match="still under way when its block ends"):
        run(f"{expect}@%p0 {LOAD}\n{DUMP}", words(256), np.zeros(256, np.uint32))


@pytest.mark.parametrize(
    ("expected", "message"),
    [
        (2048, r"awaits 1024 bytes of copies"),
        (512, r"copies brought 512 bytes more than expected"),
    ],
)
def test_a_wrong_number_of_bytes_is_a_deadlock(expected: int, message: str) -> None:
    expect = f"@%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%bar], {expected};\n"
    with pytest.raises(KernelFault, match=f"deadlock.*mbarrier at offset 0x4000.*{message}.*try_wait"):
        run(f"{expect}@%p0 {LOAD}\n{WAIT}{DUMP}", words(256), np.zeros(256, np.uint32))


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (WAIT.replace("], 0", "], 1").replace("WAIT", "ONE") + WAIT, "awaits 2 of 2 arrivals"),
        ("mbarrier.arrive.shared::cta.b64 %s0, [%bar], 3;", "awaits fewer arrivals than this"),
        ("mbarrier.inval.shared::cta.b64 [%bar];\nmbarrier.arrive.shared::cta.b64 %s0, [%bar];", "not initialised"),
        (f"@%p0 {LOAD}".replace("1024,", "1000,"), "multiples of 16"),
        (f"@%p0 {LOAD}".replace("[%in]", "[%in+1024]"), "out of bounds at .* argument 0"),
    ],
)
def test_misuse_is_named(body: str, message: str) -> None:
    with pytest.raises(KernelFault, match=message):
        run(body, words(256), np.zeros(256, np.uint32), count=2)


def test_arrivals_complete_phases_in_turn() -> None:
    """Warp 1 produces, warp 0 consumes, through two barriers' worth of phases."""
    body = """setp.ge.u32 %p3, %t, 32;
mov.u32 %r2, 0;
LOOP:
and.b32 %r3, %r2, 1;
mad.lo.u32 %r4, %r2, 4, %tile;
@!%p3 bra CONSUME;
st.shared.u32 [%r4], %r2;
mbarrier.arrive.shared::cta.b64 %s0, [%bar];
mbarrier.pending_count.b64 %r5, %s0;
bra NEXT;
CONSUME:
SPIN:
mbarrier.test_wait.parity.shared::cta.b64 %p1, [%bar], %r3;
@!%p1 bra SPIN;
NEXT:
bar.sync 1;
ld.shared.u32 %r6, [%r4];
add.u32 %r2, %r2, 1;
setp.lt.u32 %p2, %r2, 5;
@%p2 bra LOOP;
mad.wide.u32 %at, %t, 4, %out;
st.global.u32 [%at], %r6;"""
    out = np.zeros(64, np.uint32)
    execution = run(body, words(16), out, count=32)
    np.testing.assert_array_equal(out, 4)
    # The trace tells phases apart: the lowest bit of a wait's address is the parity that it is for.
    opcodes = execution.trace.static.opcode
    (line,) = {int(execution.trace.static.line[i]) for i, each in enumerate(opcodes) if "test_wait" in each}
    waits = [each.addresses for each in records(execution)[0, 0] if each.line == line]
    assert {len(set(each)) for each in waits} == {1} and {each[0] & ~1 for each in waits} == {waits[0][0] & ~1}
    assert [parity for parity, _ in itertools.groupby(each[0] & 1 for each in waits)] == [0, 1, 0, 1, 0]


@pytest.mark.parametrize(("swizzle", "beyond"), [*((each, 0) for each in range(4)), (0, 48)])
def test_boxes_of_a_tensor(swizzle: int, beyond: int) -> None:
    """A 2D box that sticks out of the tensor at two sides, or lies beside it: zeros there; all the bytes count."""
    rows, columns, width = 40, 48, (16, 8, 16, 32)[swizzle]
    given, out = words(rows * columns), np.zeros(24 * width, np.uint32)
    tensor = TensorMap(0, 2, 2, (columns, rows), (columns * 4,), (width, 24), swizzle=swizzle)
    body = f"""@%p0 tensormap.replace.tile.global_address.global.b1024.b64 [%map], %in;
mov.s32 %r2, {columns - width // 2 + beyond};
mov.s32 %r3, -4;
@%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%bar], {24 * width * 4};
@%p0 {LOAD_BOX} [%tile], [%map, {{%r2, %r3}}], [%bar];
{WAIT}{DUMP}"""
    run(body, given, out, tensor)
    padded = np.pad(given.reshape(rows, columns), ((4, 0), (0, width + beyond)))
    box = padded[:24, columns - width // 2 + beyond : columns + width // 2 + beyond]
    chunks = np.ascontiguousarray(box).reshape(-1, 4)
    place = np.arange(len(chunks))
    swizzled = np.zeros_like(chunks)
    swizzled[place ^ ((place // 8) % (1 << swizzle))] = chunks
    np.testing.assert_array_equal(out, swizzled.reshape(-1))


def test_the_trace_has_the_sectors_that_a_copy_moves() -> None:
    """A box of 20 rows inside the tensor, 64 bytes of each: 40 sectors, in a full access and one of 8 lanes."""
    given, out = words(40 * 48), np.zeros(24 * 32, np.uint32)
    tensor = TensorMap(0, 2, 2, (48, 40), (192,), (32, 24), swizzle=3)
    body = f"""@%p0 tensormap.replace.tile.global_address.global.b1024.b64 [%map], %in;
mov.s32 %r2, 32;
mov.s32 %r3, -4;
@%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%bar], 3072;
@%p0 {LOAD_BOX} [%tile], [%map, {{%r2, %r3}}], [%bar];
{WAIT}{DUMP}"""
    execution = run(body, given, out, tensor)
    trace = execution.trace
    rows = [each for (_, warp), found in records(execution).items() for each in found if warp == 0]
    line = int(trace.static.line[-1])  # the accesses of the only bulk copy are the last row of the static table
    addresses = [address for each in rows if each.line == line for address in each.addresses or ()]
    start = addresses[0] - 32 * 4
    assert sorted(addresses) == [start + row * 192 + at for row in range(20) for at in (128, 160)]
    for group in trace.groups():
        assert problem_of(group, trace.static, trace.header) is None


@pytest.mark.parametrize(
    ("size", "place", "message"),
    [
        (12, "%r0", "clears 12 bytes; a multiple of 8 up to 16777216 is needed"),
        (8, "%r0+4", "where a multiple of 8 is needed"),
        (32768, "%r0", "32768 bytes of shared memory out of bounds"),
    ],
)
def test_misused_bulk_stores_are_named(size: int, place: str, message: str) -> None:
    body = f"mov.u32 %r0, %tile;\nmov.u64 %s0, {size};\nst.bulk.weak.shared::cta [{place}], %s0, 0;"
    with pytest.raises(KernelFault, match=message):
        run(body, words(4), np.zeros(4, np.uint32))


@pytest.mark.parametrize("operation", ["", "add"])
def test_stores_and_reductions_finish_with_their_group(operation: str) -> None:
    given, out = np.arange(1024, dtype=np.float32), np.ones(1024, np.float32)
    tensor = TensorMap(0, 2, 7, (32, 32), (128,), (32, 16), swizzle=3)
    head = "cp.reduce.async.bulk" if operation else "cp.async.bulk"
    box, line = (".add", ".add.f32") if operation else ("", "")
    body = f"""@%p0 tensormap.replace.tile.global_address.global.b1024.b64 [%map], %out;
mad.wide.u32 %at, %t, 4, %in;
mad.lo.u32 %r0, %t, 4, %tile;
mov.u32 %r2, 0;
FILL:
ld.global.b32 %r1, [%at];
st.shared.b32 [%r0], %r1;
add.u64 %at, %at, 256;
add.u32 %r0, %r0, 256;
setp.lt.u32 %p2, %r0, 2048;
@%p2 bra FILL;
fence.proxy.async.shared::cta;
bar.sync 0;
mov.u32 %r3, 16;
@%p0 {head}.tensor.2d.global.shared::cta{box}.tile.bulk_group [%map, {{%r2, %r3}}], [%tile];
@%p0 {head}.global.shared::cta.bulk_group{line} [%out], [%tile], 64;
@%p0 cp.async.bulk.commit_group;
@%p0 cp.async.bulk.wait_group 0;"""
    run(body, given, out, tensor)
    chunks = given[:512].reshape(-1, 4)
    place = np.arange(len(chunks))
    stored = np.concatenate([given[:16], chunks[place ^ ((place // 8) % 8)].reshape(-1)])
    where = np.r_[:16, 512:1024]
    expected = np.ones(1024, np.float32)
    expected[where] = stored + (1 if operation else 0)
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize(
    ("name", "given", "held", "expected"),
    [
        (
            "add.noftz.bf16",
            [0x3F80, 0x3F80, 0x7FC0, 0x4000],
            [0x3B80, 0x3F80, 0x3F80, 0x3F81],
            [0x3F80, 0x4000, 0x7FFF, 0x4040],
        ),
        ("max.bf16", [0x3F80, 0xBF80, 0x0000, 0x4000], [0x4000, 0x3F80, 0xBF80, 0x3F80], [0x4000, 0x3F80, 0, 0x4000]),
        ("inc.u32", [7, 8, 9, 0], [8, 8, 8, 8], [8, 0, 0, 1]),
        ("dec.u32", [0, 5, 9, 8], [8, 8, 8, 8], [8, 4, 8, 7]),
    ],
)
def test_other_reductions(name: str, given: list[int], held: list[int], expected: list[int]) -> None:
    kind = np.uint16 if name.endswith("bf16") else np.uint32
    count = 64 // np.dtype(kind).itemsize
    out, stored = (np.resize(np.array(each, kind), count).view(np.uint32) for each in (given, held))
    body = f"""mad.wide.u32 %at, %t, 4, %in;
mad.lo.u32 %r0, %t, 4, %tile;
setp.lt.u32 %p2, %t, 16;
@%p2 ld.global.b32 %r1, [%at];
@%p2 st.shared.b32 [%r0], %r1;
fence.proxy.async.shared::cta;
bar.sync 0;
@%p0 cp.reduce.async.bulk.global.shared::cta.bulk_group.{name} [%out], [%tile], 64;
@%p0 cp.async.bulk.commit_group;
@%p0 cp.async.bulk.wait_group 0;"""
    run(body, stored, out)
    np.testing.assert_array_equal(out.view(kind), np.resize(np.array(expected, kind), count))


def test_the_trace_says_how_many_blocks_a_cluster_has() -> None:
    source = 'extern "C" __global__ void __cluster_dims__(2, 1, 1) kernel(int *out) { out[blockIdx.x] = 1; }'
    trace = warplens.cuda(source).kernel("kernel").launch(4, 32, np.zeros(4, np.int32)).trace()
    assert trace.header.cluster_blocks == 2


def test_a_block_is_its_own_cluster() -> None:
    body = """mov.u32 %r0, %cluster_ctarank;
mov.u32 %r1, %cluster_nctarank;
mov.u32 %r2, %cluster_nctaid.x;
add.u32 %r1, %r1, %r2;
mad.lo.u32 %r3, %t, 4, %tile;
st.shared.u32 [%r3], %t;
barrier.cluster.arrive.release.aligned;
setmaxnreg.inc.sync.aligned.u32 240;
barrier.cluster.wait.acquire.aligned;
xor.b32 %r4, %t, 33;
mad.lo.u32 %r3, %r4, 4, %tile;
mapa.shared::cluster.u32 %r3, %r3, %r0;
ld.shared::cluster.u32 %r5, [%r3];
mad.lo.u32 %r5, %r5, %r1, %r0;
mad.wide.u32 %at, %t, 4, %out;
st.global.u32 [%at], %r5;"""
    out = np.zeros(64, np.uint32)
    run(body, words(16), out)
    np.testing.assert_array_equal(out, 2 * (np.arange(64) ^ 33))


@pytest.mark.parametrize(
    "copy",
    [
        LOAD_BOX.replace(".2d", ".3d").replace(".tile.", ".im2col::w.")
        + " [%tile], [%map, {%r0, %r1, %r2}], [%bar];",
        LOAD_BOX.replace(".tile.", ".tile::gather4.") + " [%tile], [%map, {%r0, %r1, %r2, %r3, %r4}], [%bar];",
        "multimem.red.relaxed.sys.global.add.u32 [%at], %r0;",
    ],
)
def test_other_copies_are_refused_by_name(copy: str) -> None:
    name = copy.partition(" ")[0]
    remedy = "; it (is for sm_100 and later; compile the kernel for sm_90a|reduces across GPUs)"
    with pytest.raises(PtxError, match=rf"line 22: {name}: this (form of the )?instruction is not supported{remedy}"):
        run(f".reg .b16 %h;\n{copy}", words(16), np.zeros(64, np.uint32))


def test_larger_clusters_are_refused() -> None:
    text = ".version 8.6\n.target sm_90\n.address_size 64\n.visible .entry k() .reqnctapercluster 32, 1, 1 { ret; }"
    with pytest.raises(PtxError, match="clusters of 32 × 1 × 1 blocks; at most 16 are possible"):
        execute(parse_ptx(text), "k", 2, 32, [])


#: Every lane copies a word of `in` into each of three groups, and reads all three back after a wait.
GROUPS = """mad.wide.u32 %at, %t, 4, %in;
mad.lo.u32 %r0, %t, 4, %tile;
cp.async.ca.shared.global [%r0], [%at], 4;
cp.async.commit_group;
cp.async.ca.shared.global [%r0+256], [%at], 4;
cp.async.commit_group;
cp.async.ca.shared.global [%r0+512], [%at], 4;
WAITS
bar.sync 0;
ld.shared.u32 %r1, [%r0];
ld.shared.u32 %r2, [%r0+256];
ld.shared.u32 %r3, [%r0+512];
mad.wide.u32 %at, %t, 4, %out;
st.global.u32 [%at], %r1;
st.global.u32 [%at+256], %r2;
st.global.u32 [%at+512], %r3;"""


@pytest.mark.parametrize(
    ("wait", "arrived"),
    [
        ("", [False, False, False]),
        ("cp.async.wait_group 1;", [True, False, False]),
        ("cp.async.wait_group 0;", [True, True, False]),
        ("cp.async.commit_group;\ncp.async.wait_group 1;", [True, True, False]),
        ("cp.async.wait_all;", [True, True, True]),
    ],
)
def test_copies_arrive_at_the_wait_for_their_group(wait: str, arrived: list[bool]) -> None:
    given, out = words(64), np.zeros(192, np.uint32)
    run(GROUPS.replace("WAITS", wait), given, out)
    np.testing.assert_array_equal(out.reshape(3, 64), [given * each for each in arrived])


def test_lanes_wait_for_their_own_copies() -> None:
    """Even lanes wait for all, odd lanes for their first group; copies in a loop outgrow the queue and arrive."""
    given, out = words(64), np.zeros(192, np.uint32)
    wait = """and.b32 %r4, %t, 1;
setp.eq.u32 %p3, %r4, 1;
@%p3 bra ODD;
cp.async.wait_all;
ODD:
cp.async.wait_group 1;"""
    run(GROUPS.replace("WAITS", wait), given, out)
    even = np.arange(64) % 2 == 0
    np.testing.assert_array_equal(out.reshape(3, 64), [given, given * even, given * even])
    body = """mad.wide.u32 %at, %t, 4, %in;
mad.lo.u32 %r0, %t, 4, %tile;
mov.u32 %r2, 0;
MORE:
cp.async.ca.shared.global [%r0], [%at], 4;
cp.async.commit_group;
add.u32 %r2, %r2, 1;
setp.lt.u32 %p2, %r2, 700;
@%p2 bra MORE;
ld.shared.u32 %r1, [%r0];
mad.wide.u32 %at, %t, 4, %out;
st.global.u32 [%at], %r1;"""
    out = np.zeros(64, np.uint32)
    run(body, given, out)
    np.testing.assert_array_equal(out, given)


def test_copies_may_arrive_at_a_barrier() -> None:
    body = """mad.wide.u32 %at, %t, 4, %in;
mad.lo.u32 %r0, %t, 4, %tile;
cp.async.ca.shared.global [%r0], [%at], 4;
cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%bar];
"""
    given, out = words(64), np.zeros(64, np.uint32)
    run(f"{body}{WAIT}{DUMP}", given, out, count=64)
    np.testing.assert_array_equal(out, given)


def test_counting_without_running_takes_a_wait_as_one_look() -> None:
    text = f"{HEAD}@%p0 {LOAD}\n{WAIT}ret;\n}}\n".replace("COUNT", "1")
    counts = static_mix(parse_ptx(text), "k", (1,), (64,)).counts
    assert counts["atomic_shared"] == 2  # init and try_wait
