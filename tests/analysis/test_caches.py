"""Caches over interleaved warps: equal to the oracle in every counter, for every order and geometry."""

from __future__ import annotations

import csv
import dataclasses
import functools
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reference import cache, progress
from reference.traces import Step, evenly
from warplens.analysis import _cache_records as records
from warplens.analysis import _progress_kernels, _service_kernels, events, order_window
from warplens.analysis._round_kernels import TURNS
from warplens.errors import MachineError, MissingInputError, OptionError
from warplens.machine import load_gpu

from .comparing import COUNTERS, SMALL_LLC, as_events, assert_same, simulate
from .strategies import ROWS, chunked, launches, machines, small_gpu, timed_machines

LDG, STG, ATOM, BAR, FADD = 0, 3, 5, 7, 8
orders = st.sampled_from(("round-robin", "oldest-1", "oldest-2", "oldest-5"))


# -- against the oracle -----------------------------------------------------------------------


@given(launches(), machines(), st.integers(1, 3), orders, st.integers(1, 3), st.booleans())
def test_rounds_equal_the_oracle(blocks, gpu, blocks_per_sm, order, blocks_per_group, together):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(events, "CHUNK_BYTES", 2**30 if together else 0)
        found = simulate(blocks, gpu, blocks_per_sm, order, blocks_per_group=blocks_per_group)
    chunks = [as_events(part, gpu) for part in chunked(blocks, together)]
    assert_same(found, cache.simulate_rounds(chunks, cache.Geometry.of(gpu), blocks_per_sm, order_window(order)))
    assert found.estimated_cycles == 0.0


@given(launches(), timed_machines(), st.integers(1, 3), st.integers(1, 3), st.booleans())
def test_progress_equals_the_oracle_bit_for_bit(blocks, gpu, blocks_per_sm, blocks_per_group, together):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(events, "CHUNK_BYTES", 2**30 if together else 0)
        found = simulate(blocks, gpu, blocks_per_sm, "progress", blocks_per_group=blocks_per_group)
    chunks = [as_events(part, gpu) for part in chunked(blocks, together)]
    expected, cycles = progress.simulate_progress(
        chunks, cache.Geometry.of(gpu), progress.Timing.of(gpu), blocks_per_sm
    )
    assert_same(found, expected)
    assert found.estimated_cycles == cycles


def busy_launch(seed: int, blocks: int, warps: int, steps: int) -> list[list[list[Step]]]:
    """Loads, stores, atomics and barriers over a small array, so that lines are used again and evicted."""
    random = np.random.default_rng(seed)
    made = []
    for _ in range(blocks):
        block = []
        for _ in range(warps):
            warp = []
            for _ in range(int(random.integers(steps // 2, steps + 1))):
                row = int(random.choice([LDG, LDG, 1, 2, STG, 4, ATOM, 6, BAR, FADD]))
                if not ROWS[row].access_bytes:
                    warp.append(Step(row))
                    continue
                lanes = int(random.integers(1, 33))
                if random.random() < 0.5:
                    warp.append(
                        Step(row, evenly(int(random.integers(1, 30000)), int(random.choice([4, 16, 64])), lanes))
                    )
                else:
                    warp.append(Step(row, tuple(random.integers(1, 30000, lanes).tolist())))
            block.append(warp)
        made.append(block)
    return made


LARGER = small_gpu(
    sms=3,
    l1={"size_bytes": 128 * 4 * 5, "ways": 4, "mshrs": 16, "queue_entries": 3},
    llc={"size_bytes": 128 * 8 * 21, "ways": 8, "banks": 3},
)
COLLECTING = dataclasses.replace(LARGER, operand_collectors=2)
SECTORED = dataclasses.replace(LARGER, l1=dataclasses.replace(LARGER.l1, sector_bytes=32))
WRITES_BACK = dataclasses.replace(
    SECTORED,
    l1=dataclasses.replace(SECTORED.l1, write_policy="back", write_allocate=True),
    llc=dataclasses.replace(SECTORED.llc, write_allocate=False),
)


@pytest.mark.parametrize(
    "gpu", (LARGER, COLLECTING, SECTORED, WRITES_BACK), ids=("lines", "collectors", "sectors", "write-back")
)
@pytest.mark.parametrize("order", ("round-robin", "oldest-3", "progress"))
def test_a_busier_launch_equals_the_oracle(gpu, order):
    """Many blocks per slot, every set full and all buffers of the compiled loops used more than once."""
    blocks = busy_launch(7, 40, 5, 24)
    accesses = sum(ROWS[step.row].access_bytes > 0 for block in blocks for warp in block for step in warp)
    assert accesses > 4 * TURNS
    found = simulate(blocks, gpu, 3, order)
    launch = [as_events(blocks, gpu)]
    geometry = cache.Geometry.of(gpu)
    if order == "progress":
        expected, cycles = progress.simulate_progress(launch, geometry, progress.Timing.of(gpu), 3)
        assert found.estimated_cycles == cycles
    else:
        expected = cache.simulate_rounds(launch, geometry, 3, order_window(order))
    assert_same(found, expected)
    assert 0 < found.l1_miss_ratio < 1
    assert 0 < found.llc_miss_ratio < 1
    assert found.dram_write_bytes > 0


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
def test_busier_launches_equal_the_oracle(seed):
    random = np.random.default_rng(seed)
    line, sectors = int(random.choice([64, 128])), int(random.choice([1, 2, 4, 32]))
    gpu = small_gpu(
        sms=int(random.integers(1, 7)),
        l1={
            "line_bytes": line,
            "sector_bytes": line // sectors,
            "size_bytes": line * 3 * int(random.integers(1, 20)),
            "ways": 3,
            "mshrs": int(random.integers(1, 40)),
            "write_policy": str(random.choice(["through", "back", "back"])),
            "write_allocate": bool(random.integers(2)),
        },
        llc={
            "size_bytes": line * 7 * int(random.integers(5, 50)),
            "ways": 7,
            "banks": 5,
            "write_policy": str(random.choice(["through", "back", "back"])),
            "write_allocate": bool(random.integers(2)),
        },
    )
    blocks = busy_launch(100 + seed, 40, int(random.integers(1, 9)), 24)
    launch, geometry = [as_events(blocks, gpu)], cache.Geometry.of(gpu)
    assert_same(simulate(blocks, gpu, 2, "oldest-4"), cache.simulate_rounds(launch, geometry, 2, 4))
    found = simulate(blocks, gpu, 2, "progress")
    expected, cycles = progress.simulate_progress(launch, geometry, progress.Timing.of(gpu), 2)
    assert_same(found, expected)
    assert found.estimated_cycles == cycles


# -- what must add up -------------------------------------------------------------------------


@given(launches(), timed_machines(), st.sampled_from(("round-robin", "oldest-2", "progress")))
def test_counts_add_up(blocks, gpu, order):
    found = simulate(blocks, gpu, 2, order)
    c = {name: found.counters[:, index] for index, name in enumerate(COUNTERS)}
    loads, stores, atomics = (found.kinds == kind for kind in (records.LOAD, records.STORE, records.ATOMIC))
    leaving = c["LLC_HITS"] + c["LLC_MISSES"]
    # Every memory instruction ran once, wherever it was; barriers and the rest are not counted.
    steps = [step.row for block in blocks for warp in block for step in warp]
    executed = np.bincount(steps, minlength=len(ROWS)) if steps else np.zeros(len(ROWS), dtype=int)
    assert c["EXECUTED"].tolist() == np.where(loads | stores | atomics, executed, 0).tolist()
    # The worst request is of one level.
    assert (c["WORST_L1"] + c["WORST_LLC"] + c["WORST_DRAM"]).tolist() == c["EXECUTED"].tolist()
    # A load's L1 misses are what the LLC is asked for. All atomics go there, and stores that are written through;
    # those that are not where they miss, unless they are allocated. Of those that merge, the first goes there.
    missed = c["REQUESTS"] - c["L1_HITS"]
    assert leaving[loads].tolist() == missed[loads].tolist()
    assert leaving[atomics].tolist() == c["REQUESTS"][atomics].tolist()
    back = gpu.l1.writes_back and gpu.l1.size_bytes
    stored = (np.zeros_like(missed) if gpu.l1.allocates_stores else missed) if back else c["REQUESTS"]
    if order == "progress" and gpu.l1.merge_lines and not back:
        assert (leaving <= stored)[stores].all()
    else:
        assert leaving[stores].tolist() == stored[stores].tolist()
    # What stays in an L1 is written back once at most before it is written again.
    written_back = c["WRITEBACK_HITS"] + c["WRITEBACK_MISSES"]
    assert written_back.sum() + found.l1_dirty_left <= (c["REQUESTS"] - leaving)[stores].sum()
    assert not c["L1_HITS"][atomics].any()
    # DRAM is read for what loads and atomics do not find in the LLC, and what comes with it; never for stores.
    lost = np.where(stores, 0, c["LLC_MISSES"])
    assert (lost <= c["DRAM_READS"]).all()
    assert (c["DRAM_READS"] <= cache.Geometry.of(gpu).together * lost).all()
    assert (c["LINES"] <= c["REQUESTS"]).all()
    assert (c["REQUESTS"] <= c["LINES"] * cache.Geometry.of(gpu).sectors).all()
    assert found.divergent_loads == c["DIVERGENT"][loads].sum()


@given(launches(), machines())
def test_what_is_written_is_in_dram_or_in_a_cache(blocks, gpu):
    """Distinct sectors that stores touch never exceed those written to DRAM and those left dirty."""
    found = simulate(blocks, gpu)
    geometry = cache.Geometry.of(gpu)
    written = {
        (number, granule * geometry.sectors // 32)
        for block in as_events(blocks, gpu)
        for warp in block
        for event in warp
        if event.kind in ("store", "atomic")
        for number, granules in event.lines.items()
        for granule in granules
    }
    in_dram = found.dram_write_bytes // found.transfer_bytes
    assert len(written) <= in_dram + found.dirty_left + found.l1_dirty_left


@given(launches(4), timed_machines(), st.sampled_from(("round-robin", "oldest-2", "progress")))
def test_the_same_input_gives_the_same_result(blocks, gpu, order):
    one, other = simulate(blocks, gpu, 2, order), simulate(blocks, gpu, 2, order)
    assert np.array_equal(one.counters, other.counters)
    assert (one.l1_dirty_left, one.dirty_left) == (other.l1_dirty_left, other.dirty_left)
    assert one.estimated_cycles == other.estimated_cycles


def test_a_larger_fully_associative_lru_cache_never_misses_more():
    blocks = busy_launch(3, 6, 3, 20)
    misses = []
    for lines in (1, 2, 4, 8, 16, 32, 64, 256):
        gpu = small_gpu(sms=1, l1={"size_bytes": 128 * lines, "ways": lines})
        loads = [[[step for step in warp if step.row == LDG] for warp in block] for block in blocks]
        misses.append(simulate(loads, gpu).l1_misses)
    assert misses == sorted(misses, reverse=True)
    assert misses[0] > misses[-1]


# -- who runs where, and when -----------------------------------------------------------------


def trail(blocks, sms, blocks_per_sm, order="round-robin"):
    """(SM, line) in the order of access: the oracle's, to which the tests above hold the package."""
    launch = as_events(blocks, small_gpu(sms))
    steps = cache.in_rounds(launch, sms, blocks_per_sm, order_window(order))
    return [(sm, next(iter(event.lines))) for sm, event in steps]


def loads(*lines):
    return [Step(LDG, (128 * line,)) for line in lines]


def test_blocks_go_to_sms_in_turn_and_warps_take_turns():
    blocks = [[loads(10, 11), loads(20, 21)], [loads(30)], [loads(40, 41)]]
    assert trail(blocks, 2, 1) == [(0, 10), (1, 30), (0, 20), (1, 40), (0, 11), (1, 41), (0, 21)]


def test_only_the_oldest_take_turns():
    blocks = [[loads(10, 11), loads(20, 21), loads(30)]]
    assert trail(blocks, 1, 1, "oldest-1") == [(0, line) for line in (10, 11, 20, 21, 30)]
    assert trail(blocks, 1, 1, "oldest-2") == [(0, line) for line in (10, 20, 11, 21, 30)]


def test_a_block_enters_when_another_has_left():
    blocks = [[loads(10, 11)], [loads(20)], [loads(30)]]
    assert [line for _, line in trail(blocks, 1, 2)] == [10, 20, 11, 30]
    assert [line for _, line in trail(blocks, 1, 1)] == [10, 11, 20, 30]


# -- cases that could hang or fall over ----------------------------------------------------------

BARRIER = Step(BAR)
ORDERS = ("round-robin", "oldest-1", "oldest-3", "progress")


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("sms", (1, 2))
@pytest.mark.parametrize(
    "blocks",
    (
        [[[*loads(1), BARRIER, *loads(2)], loads(3)]],
        [[[BARRIER, BARRIER, *loads(2)], [BARRIER, *loads(3)]]],
        [[[BARRIER], [BARRIER], []]],
        [[[BARRIER, *loads(1)], []], [[], [BARRIER]], [[], []]],
        [[[], []], [[]]],
        [[loads(1, 2, 3)]] * 9,
        [[[*loads(1), BARRIER] * 3, loads(2) * 7]] * 5,
    ),
    ids=("exits-early", "one-barrier-more", "barriers-only", "empty-warps", "nothing-at-all", "waves", "uneven"),
)
def test_every_launch_ends_with_all_accesses_made(order, sms, blocks):
    """A warp that exits does not hold those that wait at a barrier; empty warps and blocks make room."""
    found = simulate(blocks, small_gpu(sms, {"queue_entries": 1}), 1, order)
    accesses = sum(ROWS[step.row].access_bytes > 0 for block in blocks for warp in block for step in warp)
    assert found.l1_accesses == found.executed.sum() == accesses
    assert np.isfinite(found.estimated_cycles)


def test_warps_wait_at_a_barrier_for_the_slowest():
    """The second warp's load after the barrier comes after the first one's two trips to DRAM."""
    slow = [Step(LDG, (128,)), Step(2, (1280,)), BARRIER]  # the second load needs the first
    quick = [BARRIER, Step(LDG, (4096,))]
    gpu = small_gpu(1)
    memory = gpu.llc.latency_cycles + gpu.dram.latency_cycles
    together = simulate([[slow, quick]], gpu, 1, "progress").estimated_cycles
    alone = simulate([[slow]], gpu, 1, "progress").estimated_cycles
    without = simulate([[slow, quick[1:]]], gpu, 1, "progress").estimated_cycles
    assert alone + 0.9 * memory < together
    assert without < alone + 0.5 * memory


def plain(kernel):
    """The Python function of a kernel, compiled or not."""
    return getattr(kernel, "py_func", kernel)


@given(
    st.lists(st.integers(0, 9), min_size=1, max_size=6, unique=True),
    st.integers(-1, 9),
    st.booleans(),
    st.lists(st.integers(0, 2), min_size=10, max_size=10),
)
def test_who_enters_a_full_memory_queue_next(waiting, last, greedy, runs):
    """Greedy: the one that entered last, else the oldest. In turn: the next after it, else the first.

    Only those with the fewest runs of other instructions to issue can; all others issue one.
    """
    warps = np.zeros(10, _progress_kernels.WARP).view(np.recarray)
    warps["runs"] = runs
    chosen = waiting[plain(_progress_kernels.pick)(np.array([*waiting, 0]), len(waiting), last, greedy, warps)]
    nearest = [warp for warp in waiting if runs[warp] == min(runs[each] for each in waiting)]
    if greedy:
        assert chosen == (last if last in nearest else min(nearest))
    else:
        assert chosen == min((warp for warp in nearest if warp > last), default=min(nearest))
    assert warps["runs"].tolist() == [max(each - (w in waiting), 0) for w, each in enumerate(runs)]


def test_estimated_cycles_of_one_load_are_its_latency():
    gpu = small_gpu(1)
    found = simulate([[loads(1)]], gpu, 1, "progress")
    assert found.estimated_cycles == gpu.llc.latency_cycles + gpu.dram.latency_cycles
    again = simulate([[loads(1), [Step(FADD)] * 500 + loads(1)]], gpu, 1, "progress")
    # FADDs depend on each other, four cycles apart; the load issues after the last and hits the L1.
    assert again.estimated_cycles == 4 * 499 + 1 + gpu.l1.latency_cycles


def test_without_an_l1_no_line_waits_for_room():
    """Lines that are under way take no places; every load makes the trip."""
    none = small_gpu(1, {"size_bytes": None})
    found = simulate([[loads(1, 2, 3)]], none, 1, "progress")
    expected, cycles = progress.simulate_progress(
        [as_events([[loads(1, 2, 3)]], none)], cache.Geometry.of(none), progress.Timing.of(none), 1
    )
    assert_same(found, expected)
    assert found.estimated_cycles == cycles


def test_fewer_mshrs_never_make_misses_come_back_earlier():
    blocks = [[loads(*range(100 * warp + 1, 100 * warp + 30)) for warp in range(8)]] * 4
    cycles = [simulate(blocks, small_gpu(2, {"mshrs": n}), 2, "progress").estimated_cycles for n in (1, 4, 16, 256)]
    assert cycles == sorted(cycles, reverse=True)
    assert cycles[0] > 4 * cycles[-1]


# -- inputs that are refused ---------------------------------------------------------------------


@pytest.mark.parametrize("order", ("", "rr", "oldest", "oldest-0", "oldest--1", "oldest-1.5", "progress "))
def test_unknown_orders_are_refused(order):
    with pytest.raises(OptionError, match="round-robin, oldest-N"):
        simulate([[loads(1)]], small_gpu(), order=order)


def test_windows_of_orders():
    assert [order_window(order) for order in ("round-robin", "progress", "oldest-1", "oldest-64")] == [0, 0, 1, 64]


def test_more_sectors_than_granules_are_refused():
    with pytest.raises(MachineError, match=r"l1\.sector_bytes: 2: .*at most 32 sectors"):
        simulate([[loads(1)]], small_gpu(1, {"sector_bytes": 2}))


def test_the_progress_order_needs_what_its_estimate_reads():
    gpu = small_gpu(1)
    gpu = dataclasses.replace(gpu, dram=dataclasses.replace(gpu.dram, bandwidth_bytes_per_s=None))
    assert simulate([[loads(1)]], gpu, 1, "round-robin").l1_misses == 1
    with pytest.raises(MissingInputError, match=r"dram\.bandwidth"):
        simulate([[loads(1)]], gpu, 1, "progress")


# -- the profile ---------------------------------------------------------------------------------


def test_parts_of_executions_by_their_worst_request():
    """Four loads: a miss to DRAM, an L1 hit, a divergent one with hit and miss, and one without active lanes."""
    steps = [Step(LDG, (128,)), Step(LDG, (128,)), Step(LDG, (128, 4096)), Step(LDG, ())]
    found = simulate([[steps]], small_gpu(1))
    assert found.levels[LDG].tolist() == [0.5, 0.0, 0.5]
    assert found.misses_per_execution[LDG] == 0.5
    assert found.per_execution("requests")[LDG] == 1.0
    assert found.divergent_loads == 1
    assert found.levels[STG].tolist() == [0.0, 0.0, 0.0]


def test_ratios_of_a_launch_without_accesses_are_0():
    found = simulate([[[Step(FADD)]]], small_gpu(1))
    assert (found.l1_miss_ratio, found.llc_miss_ratio, found.dram_read_bytes) == (0.0, 0.0, 0)


def test_a_miss_of_the_llc_brings_in_its_neighbours():
    """Fetches of 64 bytes: the other sector of a pair is there, those of the next pair are not."""
    gpu = small_gpu(1, {"sector_bytes": 32}, SMALL_LLC)
    pairs = dataclasses.replace(gpu, llc=dataclasses.replace(gpu.llc, fetch_bytes=64))
    for machine, hits, reads in ((gpu, 0, 3), (pairs, 1, 4)):
        found = simulate([[[Step(LDG, (address,)) for address in (128, 160, 192)]]], machine)
        assert (found._total("llc_hits"), found._total("dram_reads")) == (hits, reads)


def test_what_one_execution_does_is_not_shared_with_executions_that_are_not_there():
    found = simulate([[[Step(LDG, (128, 256, 512))]]], LARGER)
    assert found.per_execution("lines")[LDG] == 3.0
    assert found.per_execution("lines")[STG] == 0.0


def test_the_oldest_line_may_leave_in_the_cycle_in_which_it_comes(monkeypatch):
    monkeypatch.setattr(_service_kernels, "when_there", lambda tag, coming: coming[tag])
    monkeypatch.setattr(_service_kernels, "present", lambda *_: -1)
    tags, states, coming = np.array([1, 0]), np.zeros(2, np.int64), np.array([8.0, 3.0])
    assert plain(_service_kernels.make_room)(2, 0, 2, 8.0, tags, states, coming) == 0.0
    assert tags.tolist() == [1, 0]


# -- an LLC in halves -------------------------------------------------------------------------


def measured_halves():
    """(before, then) -> {MiB: (MiB from DRAM, MiB that cross)} of a pass on an H200."""
    path = Path(__file__).parents[2] / "benchmarks" / "h200" / "halves.csv"
    found: dict[tuple[str, str], dict[int, tuple[float, float]]] = {}
    for row in csv.DictReader(line for line in path.read_text().splitlines() if not line.startswith("#")):
        passes = found.setdefault((row["before"], row["then"]), {})
        passes[int(row["mebibytes"])] = float(row["dram_mib"]), float(row["crossing_mib"])
    return found


#: Of the H200's SMs and LLC; a pass of so many MiB reads so many KiB here.
SCALE = 1024 / 16


@functools.cache
def pass_of_halves(whose: str, mebibytes: int) -> float:
    """MiB that a second pass reads from DRAM, where each SM has read its own part in the first."""
    gpu = load_gpu("h200")
    lines = int(mebibytes * 2**20 / SCALE / 128 / gpu.sms)
    other = {"own": 0, "far": 2}[whose]  # SMs 0 and 1 use one half, 2 and 3 the other one

    def read(sm: int) -> list[Step]:
        return [Step(LDG, evenly(128 * (sm * lines + line), 4, 32)) for line in range(lines)]

    small = dataclasses.replace(
        gpu,
        l1=dataclasses.replace(gpu.l1, size_bytes=0, unified_bytes=None),
        llc=dataclasses.replace(gpu.llc, size_bytes=int(gpu.llc.size_bytes / SCALE), banks=3),
    )
    first = simulate([[read(sm)] for sm in range(gpu.sms)], small, 1, "progress")
    both = simulate([[read(sm) + read(sm ^ other)] for sm in range(gpu.sms)], small, 1, "progress")
    return (both.dram_read_bytes - first.dram_read_bytes) / first.dram_read_bytes * mebibytes


@pytest.mark.parametrize("whose", ["own", "far"])
def test_halves_keep_what_those_of_an_h200_keep(whose):
    """A quarter apart at most, but where the cache begins to overflow: there, a MiB more changes much."""
    for mebibytes, (dram, _) in measured_halves()["read own", f"read {whose}"].items():
        near = (0.45 if mebibytes == 44 else 0.25) * mebibytes
        assert pass_of_halves(whose, mebibytes) == pytest.approx(dram, abs=near), mebibytes
    assert pass_of_halves("far", 40) > 5 * pass_of_halves("own", 40)


def test_a_line_crosses_once():
    """Two pairs of SMs load lines one after the other; of those at home with the first pair, each once."""
    gpu = dataclasses.replace(load_gpu("h200"), sms=4)
    gpu = dataclasses.replace(gpu, l1=dataclasses.replace(gpu.l1, size_bytes=0, unified_bytes=None))
    crossed = []
    for line in range(8):
        waits = [Step(FADD)] * 2000
        warps = [[waits * sm + [Step(LDG, evenly(128 * line, 4, 32))]] for sm in range(4)]
        found = simulate([[warp] for (warp,) in warps], gpu, 1, "progress")
        assert found.column("llc_misses").sum() == 4 and found.column("llc_hits").sum() == 12
        crossed.append(int(found.arrival("crossed").sum()))
    assert set(crossed) == {0, 1}
