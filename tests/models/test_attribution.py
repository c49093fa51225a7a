"""The time of a launch among its instructions: nothing is lost, and who causes it has it."""

from __future__ import annotations

import numpy as np
import pytest

from reference.traces import Step, evenly, memory_trace
from warplens.api import place
from warplens.explanation.scene import Scene, scene_of
from warplens.suite.execution import run_on_cpu
from warplens.traces import StaticInstruction
from warplens.traces.rewrite import keep_executions
from warplens.workload import workload_of_trace

GPU = "accelsim-mdm"


def scene(trace, gpu=GPU) -> Scene:
    return scene_of(*place(workload_of_trace(trace), gpu))


def suite_scene(kernel: str, gpu: str = GPU) -> Scene:
    return scene(run_on_cpu(kernel, record=True).trace, gpu)


def by_line(seen: Scene) -> dict[int, float]:
    sums = np.bincount(seen.static.line, seen.times.instructions)
    return {int(line): float(sums[line]) for line in np.flatnonzero(sums)}


@pytest.mark.parametrize("kernel", ["spmv_csr", "matmul_tiled", "histogram_global", "black_scholes", "matmul_tensor"])
@pytest.mark.parametrize("gpu", [GPU, "h200"])
def test_shares_sum_to_the_time(kernel, gpu):
    seen = suite_scene(kernel, gpu)
    times = seen.times
    assert times.instructions.min() >= 0.0
    assert times.instructions.sum() + times.launch + times.idle == pytest.approx(1.0)
    assert times.launch + times.idle == pytest.approx(seen.share("IDLE"))
    assert not times.instructions[seen.executions == 0].any()


def without_line(seen: Scene, line: int) -> float:
    """Part of the time that goes where a line's instructions go; each warp keeps its end."""

    def change(group, static):
        keep = static.line[group.static] != line
        keep[group.start[1:] - 1] = True
        return keep_executions(group, static, keep)

    return 1.0 - float(seen.with_trace(change).prediction.seconds / seen.prediction.seconds)


#: Every kernel that was tried, those that agree badly too.
TRIED = [
    *((name, GPU) for name in ("spmv_csr", "transpose_naive", "transpose_tiled", "matmul_tiled", "histogram_shared")),
    *((name, GPU) for name in ("bfs", "cfd_flux")),
    *((name, "h200") for name in ("hotspot", "stencil_3d", "kmeans_assign", "backprop_forward", "page_view_count")),
    ("black_scholes", "h200"),
]


def test_lines_rank_much_as_they_do_when_they_are_removed():
    """Of two lines whose shares differ by 5 % of the launch, more time goes without the one that has more of it.

    Lines are removed from the PTX: of machine code, a block runs as a whole or not at all.

    Not always: without a line other waits take its place, and what it computed is there at once. Where it guards what
    follows, warps start sooner without it, and then wait for memory. Smaller differences are lost among those of the
    order in which warps are served, and so are gains less than 1 % apart.
    """
    agree = []
    for kernel, gpu in TRIED:
        seen = suite_scene(kernel, gpu).with_option(machine_code=False)
        heaviest = sorted(by_line(seen).items(), key=lambda item: -item[1])[:8]
        shares = {line: share for line, share in heaviest if share >= 0.01}
        gains = {line: without_line(seen, line) for line in shares}
        pairs = [(more, less) for more in shares for less in shares if shares[more] > shares[less] + 0.05]
        agree += [gains[more] > gains[less] - 0.01 for more, less in pairs]
    assert len(agree) >= 90
    assert np.mean(agree) >= 0.95


LOAD = {"space": "global", "access_bytes": 4}
ROWS = [
    StaticInstruction(0, "ld.scattered", "load_global", destinations=(1,), sources=(0,), line=1, **LOAD),
    StaticInstruction(8, "ld.coalesced", "load_global", destinations=(2,), sources=(0,), line=2, **LOAD),
    StaticInstruction(16, "st", "store_global", sources=(0, 1), line=3, **LOAD),
    StaticInstruction(24, "add", "fp32", destinations=(3,), sources=(1, 2), line=4),
    StaticInstruction(32, "div", "sfu", destinations=(4,), sources=(4,), line=5),
    StaticInstruction(40, "bar", "barrier", line=6),
    StaticInstruction(48, "exit", "control", line=7),
]
BASE = 1 << 30


def launch(steps, blocks: int = 64, warps: int = 4):
    """All warps do the same, `steps(number of the warp)`, on data of their own."""
    return memory_trace(
        ROWS, [[[*steps(block * warps + warp), Step(6)] for warp in range(warps)] for block in range(blocks)]
    )


def test_the_only_line_that_works_has_the_time():
    times = by_line(
        scene(launch(lambda w: [Step(0, evenly(BASE + w * (1 << 20) + k * 4096, 128)) for k in range(20)]))
    )
    assert times[1] > 0.99 * sum(times.values())


def test_a_load_that_is_waited_for_has_the_wait():
    """The other comes back sooner, and is used first."""

    def steps(w):
        for k in range(10):
            yield Step(1, evenly(BASE, 4))
            yield Step(0, evenly(BASE + (1 + w) * (1 << 20) + k * 4096, 128))
            yield Step(3)

    times = by_line(scene(launch(steps)))
    assert times[1] > 5.0 * times[2]


def test_stores_that_fill_the_network_have_the_time_although_nobody_waits_for_them():
    def steps(w):
        for k in range(10):
            yield Step(1, evenly(BASE + (w * 10 + k) * 128, 4))
            yield Step(3)
            yield Step(2, evenly(BASE * 2 + w * (1 << 20) + k * 4096, 128))

    times = by_line(scene(launch(steps, blocks=128)))
    assert times[3] > times[2]


def test_slow_instructions_have_the_latency_of_their_results():
    def steps(w):
        yield Step(1, evenly(BASE, 4))
        for _ in range(50):
            yield Step(4)
            yield Step(3)

    times = by_line(scene(launch(steps, blocks=4, warps=1)))
    assert times[5] > 3.0 * times[4]


def test_barriers_have_what_warps_wait_at_them():
    """Every other warp has work to do before it gets there."""

    def steps(w):
        if w % 2:
            yield from (Step(4) for _ in range(100))
        yield Step(5)

    seen = scene(launch(steps, blocks=16, warps=2))
    assert by_line(seen)[6] == pytest.approx(seen.share("SYNC"), rel=0.2)
