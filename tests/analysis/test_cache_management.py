"""What-ifs of cache management: parameters of the machine that the caches and the detailed simulator follow."""

from __future__ import annotations

from functools import cache

from contract.recorded import FFMA, LDG, ROWS
from making import gpu
from reference.traces import Step, evenly, memory_trace
from warplens.api import place, predict
from warplens.simulators.detailed import simulate_detailed
from warplens.workload import analyse, workload_of_trace

SMALL = {"sms": 1, "l1__size": 16 * 1024, "l1__ways": 4, "l1__mshrs": 8, "noc__queue": 32}
BLOCKS, WARPS, LINES, PASSES = 8, 4, 16, 4


@cache
def own_lines():
    """Warps read lines of their own again and again: all blocks together hold 64 KiB, one of them 8 KiB."""

    def steps(block, warp):
        first = (1 << 20) + (block * WARPS + warp) * LINES * 128
        for turn in range(PASSES * LINES):
            yield from (Step(LDG, evenly(first + 128 * (turn % LINES), 4)), Step(FFMA))

    blocks = [[list(steps(block, warp)) for warp in range(WARPS)] for block in range(BLOCKS)]
    return workload_of_trace(memory_trace(ROWS, blocks))


@cache
def looked_at(**changes):
    """(L1 hit ratio in the caches, in the simulator, cycles of the simulator, cycles by model)."""
    placed, machine = place(own_lines(), gpu("mdm2020", **(SMALL | changes)))
    hits = 1.0 - analyse(placed, machine).traced.misses.l1_miss_ratio
    result = simulate_detailed(placed, machine)
    models = {name: float(predict(placed, machine, name).cycles) for name in ("mdm", "gpumech", "gcom", "warplens")}
    return hits, 1.0 - result.l1_miss_ratio, float(result.cycles), models


def test_without_an_l1_nothing_hits_and_all_are_slower():
    """Where the L1 helps: one block at a time."""
    one = {"max_warps": WARPS}
    hits, simulated, cycles, models = looked_at(**one)
    assert hits == simulated == 1 - 1 / PASSES
    passing = looked_at(**one, l1__size=0)
    assert passing[:2] == (0, 0)
    assert passing[2] > cycles
    assert all(passing[3][name] > models[name] for name in models)


def test_fewer_warps_thrash_less():
    thrashing, calm = looked_at(), looked_at(max_warps=WARPS)
    assert thrashing[0] < 0.1 < 0.7 < calm[0]
    assert thrashing[1] < 0.3 < 0.7 < calm[1]


def test_a_streaming_l1_has_as_many_misses_in_flight_as_the_queue_holds():
    few, many = looked_at(), looked_at(l1__streaming=True)
    assert many[2] < few[2]
    assert many[3]["mdm"] < few[3]["mdm"]
