"""Agreement with pycachesim (Hammer et al., RRZE), a cache simulator written by others, where its semantics apply.

That is: loads alone, whole lines, LRU, one bank. What it counted is kept in
data/pycachesim.json, so that the comparison needs no compiler to build it.

    cd tests && python -m memory.test_pycachesim     # records the file anew, with `cachesim` installed
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from reference.traces import Step, memory_trace
from warplens.analysis import cache_run, collect_events, instruction_kinds, simulate_caches
from warplens.traces import MemoryTrace, StaticInstruction

from .strategies import latency, small_gpu

RECORDED = Path(__file__).parent / "data" / "pycachesim.json"
ACCESSES = 4000
#: (L1 sets, L1 ways, LLC sets, LLC ways, line bytes); LLC sets 0: one level.
GEOMETRIES = (
    (1, 1, 0, 1, 128),
    (1, 16, 0, 1, 64),
    (16, 1, 0, 1, 128),
    (8, 6, 0, 1, 128),
    (3, 5, 0, 1, 32),
    (4, 2, 16, 4, 128),
    (8, 6, 24, 8, 128),
    (1, 4, 7, 3, 64),
    (64, 4, 16, 16, 128),
    (16, 4, 4, 2, 128),
)
PATTERNS = ("random", "streams", "loop")


def addresses(pattern: str, seed: int = 1) -> Iterator[int]:
    """Addresses of loads of four bytes: at random, several streams in turn, or a loop with noise."""
    state = seed
    for count in range(ACCESSES):
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        chance = state >> 33
        if pattern == "random":
            yield 4 * (1 + chance % 8192)
        elif pattern == "streams":
            yield 4 * (1 + count // 4 + 4096 * (count % 4))
        else:
            yield 4 * (1 + (17 * count) % 2500) if chance % 5 else 4 * (1 + chance % 100_000)


def by_warplens(geometry: tuple[int, ...], pattern: str) -> dict[str, int]:
    l1_sets, l1_ways, llc_sets, llc_ways, line = geometry
    gpu = small_gpu(
        1,
        {"line_bytes": line, "size_bytes": l1_sets * l1_ways * line, "ways": l1_ways},
        {"size_bytes": llc_sets * llc_ways * line or None, "ways": llc_ways, "banks": 1},
    )
    load = StaticInstruction(0, "LDG.E", "load_global", "global", 4, (1,), ())
    trace: MemoryTrace = memory_trace([load], [[[Step(0, (address,)) for address in addresses(pattern)]]])
    run = cache_run(gpu, gpu, 1, order="round-robin")
    found = simulate_caches(collect_events(trace, line, latency), instruction_kinds(trace.static), run)
    counts = {"l1_hits": found.l1_accesses - found.l1_misses, "l1_misses": found.l1_misses}
    if llc_sets:
        counts |= {"llc_hits": found.llc_accesses - found.llc_misses, "llc_misses": found.llc_misses}
    return counts


def by_pycachesim(geometry: tuple[int, ...], pattern: str) -> dict[str, int]:
    from cachesim import Cache, CacheSimulator, MainMemory

    l1_sets, l1_ways, llc_sets, llc_ways, line = geometry
    memory = MainMemory()
    if llc_sets:
        last = Cache("LLC", llc_sets, llc_ways, line, "LRU")
        first = Cache("L1", l1_sets, l1_ways, line, "LRU", store_to=last, load_from=last)
    else:
        first = last = Cache("L1", l1_sets, l1_ways, line, "LRU")
    memory.load_to(last)
    memory.store_from(last)
    simulator = CacheSimulator(first, memory)
    for address in addresses(pattern):
        simulator.load(address, length=4)
    found = {level["name"]: level for level in simulator.stats()}
    counts = {"l1_hits": found["L1"]["HIT_count"], "l1_misses": found["L1"]["MISS_count"]}
    if llc_sets:
        counts |= {"llc_hits": found["LLC"]["HIT_count"], "llc_misses": found["LLC"]["MISS_count"]}
    return counts


def name_of(geometry: tuple[int, ...], pattern: str) -> str:
    return "-".join(map(str, geometry)) + " " + pattern


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("geometry", GEOMETRIES, ids=lambda g: "-".join(map(str, g)))
def test_counts_are_those_of_pycachesim(geometry, pattern):
    recorded = json.loads(RECORDED.read_text(encoding="utf-8"))
    assert by_warplens(geometry, pattern) == recorded[name_of(geometry, pattern)]


def test_the_recorded_counts_tell_hits_from_misses():
    recorded = json.loads(RECORDED.read_text(encoding="utf-8"))
    assert len(recorded) == len(GEOMETRIES) * len(PATTERNS)
    assert len({json.dumps(counts) for counts in recorded.values()}) > 20
    mixed = [c for c in recorded.values() if min(c.values()) > 100]
    assert len(mixed) >= 10


if __name__ == "__main__":
    counts = {name_of(g, p): by_pycachesim(g, p) for g in GEOMETRIES for p in PATTERNS}
    RECORDED.write_text(json.dumps(counts, indent=1) + "\n", encoding="utf-8")
