"""The instructions between records: exact where records decide, as counted where they do not."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from warplens.errors import TraceError
from warplens.frontends.sass import reconstruct
from warplens.frontends.sass.counts import Counts, read_counts
from warplens.frontends.sass.disassembly import parse_kernel
from warplens.frontends.sass.raw import read_launch
from warplens.frontends.sass.reconstruct import LOCAL_BASE, Reconstruction
from warplens.frontends.sass.trace_warnings import warnings_of
from warplens.traces import IRREGULAR, LaunchHeader
from warplens.traces.checks import problem_of

from .making import DATA, EXIT, Made, Warp, count, record, run_warps, sample_pages, sample_sass, structured, write_raw


def _streams(work):
    """(place, lanes) of every warp; each group is checked on the way."""
    header = LaunchHeader("k", work.launch.grid, work.launch.block)
    streams = {}
    for group in work.groups():
        assert problem_of(group, work.static, header) is None
        for w in range(len(group)):
            part = slice(group.start[w], group.start[w + 1])
            streams[int(group.block[w]), int(group.warp[w])] = list(
                zip(group.static[part].tolist(), group.mask[part].tolist(), strict=True)
            )
    return streams


def _write(folder, kernel, warps, per_block=1):
    """The records of warps, all of the first, then all of the second …"""
    data = b"".join(
        record(kind, place, mask, number // per_block, number % per_block)
        for number, warp in enumerate(warps)
        for kind, place, mask in warp.records
    )
    return write_raw(folder, kernel, data, blocks=len(warps) // per_block, threads=32 * per_block)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10**6), counted=st.booleans())
def test_structured_kernels_are_replayed_exactly(tmp_path_factory, seed, counted):
    kernel, tree, end = structured(seed)
    warps = run_warps(tree, end, 4, seed)
    launch = _write(tmp_path_factory.mktemp("raw"), kernel, warps, per_block=2)
    work = Reconstruction(launch, kernel, count(kernel, warps) if counted else None)
    streams = _streams(work)
    for number, warp in enumerate(warps):
        found = streams[number // 2, number % 2]
        assert Counter(found) == Counter(warp.done)
        for lane in (0, 5, 31):  # the path of a lane, in its order; predicates are not known for what is no access
            path = [place for place, mask in warp.done if mask >> lane & 1]
            assert [place for place, mask in found if mask >> lane & 1] == path
    exact = work.exactness
    assert (exact.guessed, exact.jumped, exact.lost, exact.forced) == (0, 0, 0, 0)
    assert exact.share == (1.0 if counted else None)


def test_partial_last_warp(tmp_path):
    kernel, tree, end = structured(3)
    warps = run_warps(tree, end, 1, 3, mask=0xFFFF)
    data = b"".join(record(kind, place, mask, 0, 0) for kind, place, mask in warps[0].records)
    work = Reconstruction(write_raw(tmp_path, kernel, data, threads=16), kernel)
    assert Counter(_streams(work)[0, 0]) == Counter(warps[0].done)


def _silent_loop(rounds):
    """A loop without any record, then an exit; each warp goes round a given number of times."""
    made = Made()
    made.add("LDG.E", operands=("R2", "[R4.64]"))
    start = made.add("FFMA")
    made.add("FADD")
    branch = made.add("BRA", guard="P0", operands=("start",), target=start)
    end = made.add("EXIT")
    warps = []
    for number in rounds:
        warp = Warp(None)
        warp.done = [(0, 0xFFFFFFFF)]
        warp.done += [(place, 0xFFFFFFFF) for _ in range(number) for place in (start, start + 1, branch)]
        warp.done.append((end, 0xFFFFFFFF))
        warp.records = [(3, 0, 0xFFFFFFFF), (EXIT, end, 0xFFFFFFFF)]
        warps.append(warp)
    return made.kernel(), warps


def test_counts_decide_how_often_a_silent_loop_goes_round(tmp_path):
    kernel, warps = _silent_loop([17] * 6)
    work = Reconstruction(_write(tmp_path, kernel, warps), kernel, count(kernel, warps))
    assert all(len(stream) == 2 + 3 * 17 for stream in _streams(work).values())
    assert work.exactness.share == 1.0 and work.exactness.guessed == 6 * 17


def test_rounds_that_differ_come_out_on_average(tmp_path):
    kernel, warps = _silent_loop([5, 20, 11, 30, 2, 16, 16, 4])
    work = Reconstruction(_write(tmp_path, kernel, warps), kernel, count(kernel, warps))
    _streams(work)
    assert work.exactness.instructions == pytest.approx(work.exactness.counted_instructions, rel=0.05)
    assert work.exactness.share > 0.95


def test_without_counts_a_silent_loop_ends(tmp_path):
    kernel, warps = _silent_loop([1000] * 3)
    work = Reconstruction(_write(tmp_path, kernel, warps), kernel)
    _streams(work)
    assert 0 < work.exactness.guessed < 20 and work.exactness.share is None


def test_records_that_no_path_leads_to(tmp_path):
    """Damage, or a patch that missed something: the warp goes on from the record and the summary says so."""
    made = Made()
    made.add("LDG.E", operands=("R2", "[R4.64]"))
    made.add("FFMA")
    made.add("LDG.E", operands=("R2", "[R4.64]"))
    end = made.add("EXIT")
    data = record(3, 2, 0xFFFFFFFF, 0, 0) + record(3, 0, 0xFFFFFFFF, 0, 0) + record(EXIT, end, 0xFFFF, 0, 0)
    work = Reconstruction(write_raw(tmp_path, made.kernel(), data), made.kernel())
    stream = _streams(work)[0, 0]
    assert [place for place, _ in stream if place in (0, 2)] == [2, 0]
    assert work.exactness.jumped > 0 and work.exactness.lost == 16


def test_records_of_other_code_are_refused(tmp_path):
    kernel, _, end = structured(3)
    data = record(EXIT, end + 2, 0xFFFFFFFF, 0, 0)
    launch = write_raw(tmp_path, kernel, data, code_bytes=16 * (end + 8))
    with pytest.raises(TraceError, match="instructions that the kernel's disassembly does not have"):
        Reconstruction(launch, kernel)


def test_a_mnemonic_without_any_record_is_silent(tmp_path):
    """Were loads not patched after all, counts would tell, and the path between other records be found."""
    kernel, tree, end = structured(5)
    warps = run_warps(tree, end, 2, 5)
    for warp in warps:
        warp.records = warp.records[-1:]
    work = Reconstruction(_write(tmp_path, kernel, warps), kernel, count(kernel, warps))
    streams = _streams(work)
    assert work.exactness.jumped == 0 and all(stream[-1][0] == end for stream in streams.values())


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), counted=st.booleans())
def test_any_records_end_in_some_trace(tmp_path_factory, seed, counted):
    """Records that no run could leave: the replay ends, and what it gives holds together."""
    chance = random.Random(seed)
    kernel, _, end = structured(chance.randrange(100))
    data = b""
    for _ in range(chance.randint(0, 40)):
        place = chance.randint(0, end)
        mask = chance.choice((0xFFFFFFFF, chance.getrandbits(32) or 1, 1 << chance.randrange(32)))
        kind = EXIT if kernel.instructions[place].mnemonic == "EXIT" else 3
        data += record(kind, place, mask, 0, chance.randrange(2))
    counts = None
    if counted:
        numbers = [chance.choice((0, 1, 7, 100)) for _ in range(end + 1)]
        counts = Counts(np.array(numbers), 32 * np.array(numbers))
    launch = write_raw(tmp_path_factory.mktemp("raw"), kernel, data, threads=64)
    work = Reconstruction(launch, kernel, counts)
    assert set(_streams(work)) == {(0, 0), (0, 1)}


def test_groups_are_cut_between_blocks(tmp_path, monkeypatch):
    kernel, tree, end = structured(11)
    warps = run_warps(tree, end, 12, 11)
    launch = _write(tmp_path, kernel, warps, per_block=2)
    whole = _streams(Reconstruction(launch, kernel))
    monkeypatch.setattr(reconstruct, "GROUP_INSTRUCTIONS", 8)
    monkeypatch.setattr(reconstruct, "MOST_RECORDS", 5)
    work = Reconstruction(launch, kernel)
    assert len(list(work.groups())) > 1
    assert _streams(Reconstruction(launch, kernel)) == whole


@pytest.fixture(scope="module")
def sass():
    return sample_sass()


# Instructions as ncu counted them (smsp__inst_executed.sum), and the share of executions that must fit.
@pytest.mark.parametrize(
    ("index", "instructions", "share"),
    [(0, 152, 1), (1, 1285, 1), (2, 5375, 0.995), (3, 1079, 0.985), (4, 1080, 1), (5, 2657, 0.97), (6, 264, 1),
     (7, 144, 1)],
)  # fmt: skip
def test_what_an_h200_did(sass, index, instructions, share):
    launch = read_launch(DATA / f"launch-{index}.launch")
    name, counts = read_counts(*sample_pages())[index]
    assert name == launch.kernel and counts.warps.sum() == instructions
    work = Reconstruction(launch, parse_kernel(sass, launch.kernel), counts)
    _streams(work)
    assert work.exactness.share >= share and (work.exactness.jumped, work.exactness.lost) == (0, 0)


def test_addresses_of_an_h200(sass):
    launch = read_launch(DATA / "launch-0.launch")
    work = Reconstruction(launch, parse_kernel(sass, launch.kernel))
    group = next(work.groups())
    accesses = group.static[work.static.access_bytes[group.static] > 0]
    # x[i] and y[i]: floats side by side, 128 bytes from warp to warp.
    assert (group.stride == 4).all() and len(group.lanes) == 0
    first = group.base[accesses == accesses[0]].astype(np.int64)
    assert np.diff(first).tolist() == [128] * 7


def test_local_memory_lies_as_on_a_gpu(sass):
    launch = read_launch(DATA / "launch-4.launch")
    work = Reconstruction(launch, parse_kernel(sass, launch.kernel))
    group = next(work.groups())
    opcodes = np.array(work.static.opcode)[group.static]
    accessing = work.static.access_bytes[group.static] > 0
    stores = np.array([opcode.startswith("STL.128") for opcode in opcodes[accessing]])
    # 16 bytes of each lane side by side; warps do not share words.
    assert set(group.stride[stores]) == {16}
    assert len(set(group.base[stores])) == stores.sum() == 16
    assert group.base[stores].min() >= LOCAL_BASE
    loads = np.array([opcode.startswith("LDL") for opcode in opcodes[accessing]])
    assert (group.stride[loads] == IRREGULAR).any()


def test_limited_blocks_are_compared_with_their_part_of_the_counts(tmp_path):
    kernel, warps = _silent_loop([9] * 4)
    counts = count(kernel, warps)
    data = b"".join(record(kind, place, mask, 0, 0) for kind, place, mask in warps[0].records)
    launch = write_raw(tmp_path, kernel, data, blocks=4, block_limit=1)
    work = Reconstruction(launch, kernel, counts)
    assert len(_streams(work)) == 1
    assert not work.exactness.whole and work.exactness.share == 1.0


def test_what_a_kernel_calls_or_launches_is_told(tmp_path):
    made = Made()
    for name in ("_Z6gatherPKfii", "__cudaCDP2GetParameterBufferV2", "__cudaCDP2LaunchDeviceV2", "vprintf"):
        made.add("CALL.ABS.NOINC", operands=(f"`({name})",))
    made.add("CALL.ABS.NOINC", operands=("R2",))
    end = made.add("EXIT")
    kernel = made.kernel()
    calls = b"".join(record(9, place, 0xFFFFFFFF, 0, 0, []) for place in range(5))
    launch = write_raw(tmp_path, kernel, calls + record(EXIT, end, 0xFFFFFFFF, 0, 0))
    work = Reconstruction(launch, kernel)
    list(work.groups())
    told = warnings_of(launch, work)
    assert "made: kernels that it launches from the device are not in the trace" in told
    assert any(text.endswith("are not in the trace: _Z6gatherPKfii, vprintf") for text in told)
    assert any("functions called through pointers" in text for text in told)
