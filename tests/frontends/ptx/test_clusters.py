"""Blocks that wait for one another: clusters with distributed shared memory, and cooperative grids."""

from __future__ import annotations

import numpy as np
import pytest

from reference.ptx import Launch
from warplens import cuda
from warplens.errors import KernelFault
from warplens.frontends.ptx import execute, parse_ptx
from warplens.frontends.ptx.flatten import flatten
from warplens.frontends.ptx.memory import lay_out_memory
from warplens.frontends.ptx.tensor_maps import TensorMap
from warplens.traces import CLASS_NAMES

from .comparing import assert_same_records

REDUCTION = """.version 8.6
.target sm_90
.address_size 64
.visible .entry k(.param .u64 in, .param .u64 out) .explicitcluster .reqnctapercluster CLUSTER
{
.reg .b64 %in, %out, %at, %d;
.reg .b32 %r<8>, %t, %rank, %count, %mine, %other;
.reg .pred %p;
.shared .align 4 .b32 words[40];
ld.param.u64 %in, [in];
ld.param.u64 %out, [out];
mov.u32 %t, %tid.x;
mov.u32 %rank, %cluster_ctarank;
mov.u32 %count, %cluster_nctarank;
mov.u32 %r0, %ctaid.x;
mov.u32 %r1, %ctaid.y;
mov.u32 %r2, %nctaid.x;
mad.lo.u32 %r0, %r1, %r2, %r0;
mad.lo.u32 %r0, %r0, 40, %t;
mad.wide.u32 %at, %r0, 4, %in;
ld.global.u32 %r1, [%at];
mov.u32 %mine, words;
mad.lo.u32 %mine, %t, 4, %mine;
st.shared.u32 [%mine], %r1;
barrier.cluster.arrive.release.aligned;
barrier.cluster.wait.acquire.aligned;
mov.u32 %r2, 0;
mov.u32 %r3, 0;
LOOP:
mapa.shared::cluster.u32 %other, %mine, %r3;
ld.shared::cluster.u32 %r4, [%other];
mad.lo.u32 %r2, %r2, 3, %r4;
add.u32 %r3, %r3, 1;
setp.lt.u32 %p, %r3, %count;
@%p bra LOOP;
add.u32 %r3, %rank, 1;
rem.u32 %r3, %r3, %count;
cvt.u64.u32 %d, %mine;
cvta.shared.u64 %d, %d;
mapa.u64 %d, %d, %r3;
barrier.cluster.arrive;
barrier.cluster.wait;
st.u32 [%d], %r2;
barrier.cluster.arrive;
barrier.cluster.wait;
ld.shared.u32 %r4, [%mine];
mov.u32 %r5, %clusterid.x;
mov.u32 %r6, %cluster_ctaid.y;
mad.lo.u32 %r4, %r5, 7, %r4;
xor.b32 %r4, %r4, %r6;
mad.wide.u32 %at, %r0, 4, %out;
st.global.u32 [%at], %r4;
ret;
}
"""


@pytest.mark.parametrize("cluster", [(2, 1, 1), (4, 1, 1), (2, 2, 1), (1, 2, 1)])
def test_blocks_of_a_cluster_read_and_write_each_other(cluster: tuple[int, int, int]) -> None:
    text = REDUCTION.replace("CLUSTER", ", ".join(map(str, cluster)))
    module, grid = parse_ptx(text), (4, 2, 1)
    given = np.random.default_rng(4).integers(0, 1000, 8 * 40).astype(np.uint32)
    mine, theirs = np.zeros_like(given), np.zeros_like(given)
    run = Launch(module, "k", grid, (40, 1, 1), [given.copy(), theirs]).run()
    execution = execute(module, "k", grid, (40, 1, 1), [given.copy(), mine])
    assert np.array_equal(mine, theirs) and mine.any()
    if cluster[1] == 1:
        assert_same_records(execution, run, text)
    static = execution.trace.static
    classes = {
        opcode.split(".")[2]: CLASS_NAMES[number]
        for opcode, number in zip(static.opcode, static.class_id, strict=True)
        if opcode.startswith("barrier.cluster")
    }
    assert classes == {"arrive": "control", "wait": "barrier_cluster"}
    part = execute(module, "k", grid, (40, 1, 1), [given.copy(), mine], blocks=1)
    assert part.blocks == np.prod(cluster)


COPIES = """.version 8.6
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 in, .param .u64 out, .param .align 64 .b8 map[128]) .reqnctapercluster 2, 1, 1
{
.reg .b64 %in, %out, %at, %map;
.reg .b32 %r<6>, %t, %rank, %tile, %bar, %peer;
.reg .b16 %mask;
.reg .pred %p, %q;
.shared .align 1024 .b8 tile[512];
.shared .align 8 .b64 bar;
ld.param.u64 %in, [in];
ld.param.u64 %out, [out];
mov.b64 %map, map;
mov.u32 %t, %tid.x;
mov.u32 %rank, %cluster_ctarank;
xor.b32 %peer, %rank, 1;
mov.u32 %tile, tile;
mov.u32 %bar, bar;
setp.eq.u32 %p, %t, 0;
@%p mbarrier.init.shared::cta.b64 [%bar], 1;
@%p mbarrier.arrive.expect_tx.shared::cta.b64 _, [%bar], BYTES;
barrier.cluster.arrive;
barrier.cluster.wait;
BODY
WAIT:
mbarrier.try_wait.parity.shared::cta.b64 %q, [%bar], 0;
@!%q bra WAIT;
mad.lo.u32 %r0, %t, 4, %tile;
ld.shared.u32 %r1, [%r0];
mov.u32 %r2, %ctaid.x;
mad.lo.u32 %r2, %r2, 64, %t;
mad.wide.u32 %at, %r2, 4, %out;
st.global.u32 [%at], %r1;
barrier.cluster.arrive;
barrier.cluster.wait;
ret;
}
"""
#: What each block does, the bytes that its mbarrier awaits, and which rows of the input it ends up with.
BODIES = {
    "multicast of a tensor's box by the first block": (
        """setp.eq.u32 %q, %rank, 0;
        and.pred %q, %q, %p;
        mov.b16 %mask, 3;
        @%q cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster
        [%tile], [%map, {0, 1}], [%bar], %mask;""",
        256,
        [1, 1],
    ),
    "multicast of a line": (
        """setp.eq.u32 %q, %rank, 1;
        and.pred %q, %q, %p;
        mov.b16 %mask, 3;
        add.u64 %at, %in, 512;
        @%q cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster
        [%tile], [%at], 256, [%bar], %mask;""",
        256,
        [2, 2],
    ),
    "a copy to the other block's shared memory": (
        """mad.lo.u32 %r0, %t, 4, %tile;
        mad.lo.u32 %r1, %rank, 64, %t;
        mad.wide.u32 %at, %r1, 4, %in;
        ld.global.u32 %r2, [%at];
        st.shared.u32 [%r0+256], %r2;
        bar.sync 0;
        mapa.shared::cluster.u32 %r3, %tile, %peer;
        mapa.shared::cluster.u32 %r4, %bar, %peer;
        add.u32 %r5, %tile, 256;
        @%p cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r3], [%r5], 256, [%r4];""",
        256,
        [1, 0],
    ),
    "st.async": (
        """mad.lo.u32 %r0, %t, 4, %tile;
        mad.lo.u32 %r1, %rank, 64, %t;
        mad.wide.u32 %at, %r1, 4, %in;
        ld.global.u32 %r2, [%at];
        mapa.shared::cluster.u32 %r3, %r0, %peer;
        mapa.shared::cluster.u32 %r4, %bar, %peer;
        st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [%r3], %r2, [%r4];""",
        256,
        [1, 0],
    ),
}


@pytest.mark.parametrize("name", BODIES)
def test_copies_between_blocks(name: str) -> None:
    body, size, rows = BODIES[name]
    given = np.random.default_rng(2).integers(0, 1 << 30, (4, 64)).astype(np.uint32)
    module = parse_ptx(COPIES.replace("BODY", body).replace("BYTES", str(size)))
    out = np.zeros((2, 64), np.uint32)
    memory = lay_out_memory(flatten(module, "k"), [given, out, bytes(128)])
    address = next(each.address for each in memory.allocations if each.argument == 0)
    tensor = TensorMap(address, 2, 2, (64, 4, 1, 1, 1), (256, 0, 0, 0), (64, 1, 1, 1, 1))
    run = execute(module, "k", 2, 64, [given, out, tensor.packed])
    assert np.array_equal(out, given[rows])
    if name.startswith("multicast"):  # one read of 256 bytes serves both blocks
        static = run.static
        (copy,) = [row for row, size in enumerate(static.access_bytes) if size and "multicast" in static.opcode[row]]
        found = [group.mask[group.static == copy] for group in run.trace.groups()]
        assert np.concatenate(found).tolist() == [0xFF]


def test_faults_of_clusters() -> None:
    source = """#include <cooperative_groups.h>
    namespace cg = cooperative_groups;
    extern "C" __global__ void __cluster_dims__(2, 1, 1) k(int* x) { __shared__ int s[8]; BODY }"""

    def launch(body: str, grid: int = 4) -> None:
        cuda(source.replace("BODY", body)).kernel("k").launch(grid, 32, np.zeros(64, np.int32))

    with pytest.raises(KernelFault, match=r"deadlock: no barrier can be completed.*the barrier of the cluster"):
        launch("if (blockIdx.x % 2 == 0) cg::this_cluster().sync(); else while (((volatile int*)x)[0] == 0) { }")
    with pytest.raises(KernelFault, match=r"the grid \(3, 1, 1\) is no multiple of its clusters"):
        launch("x[0] = 1;", grid=3)
    with pytest.raises(KernelFault, match=r"reads 4 bytes of .* out of bounds"):
        launch("s[threadIdx.x % 8] = 1; x[0] = cg::this_cluster().map_shared_rank(s, 0)[threadIdx.x + 9];")


def test_a_cooperative_grid_waits_for_all_its_blocks() -> None:
    source = """#include <cooperative_groups.h>
    extern "C" __global__ void k(int* x, int* y, int n) {
        auto grid = cooperative_groups::this_grid();
        int t = grid.thread_rank();
        for (int step = 1; step < n; step *= 2) {
            y[t] = x[t] + (t >= step ? x[t - step] : 0);
            grid.sync();
            x[t] = y[t];
            grid.sync();
        } }"""
    x = np.random.default_rng(0).integers(0, 100, 12 * 64).astype(np.int32)
    expected = np.cumsum(x)
    run = cuda(source).kernel("k").launch(12, 64, x, np.zeros_like(x), np.int32(len(x)))
    assert np.array_equal(x, expected)
    assert run.trace().header.grid == (12, 1, 1)
    with pytest.raises(KernelFault, match="registers and memory stay the same"):
        waits = source.replace("grid.sync();", "if (blockIdx.x) grid.sync();", 1)
        cuda(waits).kernel("k").launch(2, 64, x, np.zeros_like(x), np.int32(len(x)))
