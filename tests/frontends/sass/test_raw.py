"""Raw records: what they say, and data that is not right."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from warplens.errors import TraceError
from warplens.frontends.sass.raw import batches, read_launch, survey_records

from .making import DATA, Made, record, write_raw


def _kernel(loads: int = 3):
    made = Made()
    for _ in range(loads):
        made.add("LDG.E", operands=("R2", "[R4.64]"))
    made.add("EXIT")
    return made.kernel()


def _some_records(blocks: int, warps: int) -> bytes:
    """Records of all warps, interleaved, with lists of addresses among them."""
    parts = []
    for place in range(3):
        for block in range(blocks):
            for warp in range(warps):
                addresses = [64 * (lane * lane + place) for lane in range(5)] if place == 1 else None
                parts.append(record(3, place, 0b11111, block, warp, addresses))
    return b"".join(parts)


def test_records_are_sorted_by_warp(tmp_path):
    launch = write_raw(tmp_path, _kernel(), _some_records(7, 2), blocks=7, threads=64)
    survey = survey_records(launch)
    assert survey.records.tolist() == [6] * 7
    assert survey.kinds_seen.tolist() == [8, 8, 8, 0]
    found = []
    for batch in batches(launch, survey, 10):
        assert batch.blocks <= 2
        for warp in range(batch.blocks * 2):
            part = batch.position[batch.start[warp] : batch.start[warp + 1]]
            found.append((batch.first_block + warp // 2, warp % 2))
            assert (survey.units[part, 0] // 16).tolist() == [0, 1, 2]
            assert set(survey.units[part, 2]) == {found[-1][0]}
            assert set(survey.units[part, 3] & 255) == {found[-1][1]}
    assert found == [(block, warp) for block in range(7) for warp in range(2)]


def test_blocks_without_records_are_there(tmp_path):
    launch = write_raw(tmp_path, _kernel(), record(3, 0, 1, 3, 0), blocks=5)
    survey = survey_records(launch)
    assert sum(batch.blocks for batch in batches(launch, survey, 100)) == 5
    launch = write_raw(tmp_path, _kernel(), b"", blocks=5)
    assert sum(batch.blocks for batch in batches(launch, survey_records(launch), 100)) == 5


def test_the_end_of_a_full_buffer(tmp_path):
    hole = struct.pack("<4I", 0, 0, 0, 255 << 8 | 1 << 16)
    launch = write_raw(tmp_path, _kernel(), record(3, 0, 1, 0, 0) + hole + bytes(32), blocks=1)
    assert survey_records(launch).records.tolist() == [1]


@pytest.mark.parametrize(
    ("word", "value"),
    [(0, 7), (0, 4 * 16), (1, 0), (2, 2), (3, 1 | 3 << 8 | 2 << 16 | 1 << 24), (3, 3 << 8 | 3 << 16 | 1 << 24),
     (3, 200 << 8 | 2 << 16 | 1 << 24), (3, 3 << 8 | 0 << 16), (3, 3 << 8 | 2 << 16 | 9 << 24)],
)  # fmt: skip
def test_damaged_records(tmp_path, word, value):
    data = bytearray(record(3, 0, 3, 0, 0) + record(3, 1, 3, 1, 0))
    struct.pack_into("<I", data, 32 + 4 * word, value)
    launch = write_raw(tmp_path, _kernel(), bytes(data), blocks=2)
    with pytest.raises(TraceError, match="the record at byte 32 is damaged"):
        survey_records(launch)


def test_files_that_are_cut_off(tmp_path):
    data = _some_records(2, 1)
    launch = write_raw(tmp_path, _kernel(), data, blocks=2)
    launch.records.write_bytes(data[:-16])
    with pytest.raises(TraceError, match="bytes, not"):
        survey_records(launch)
    launch.records.unlink()
    with pytest.raises(TraceError, match="has 0 bytes"):
        survey_records(launch)
    cut = write_raw(tmp_path, _kernel(), data[:-16], blocks=2)
    with pytest.raises(TraceError, match="damaged"):
        survey_records(cut)


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=400).map(lambda raw: raw[: len(raw) // 16 * 16]))
def test_any_bytes_are_read_or_refused(tmp_path_factory, data):
    launch = write_raw(tmp_path_factory.mktemp("raw"), _kernel(), data, blocks=2)
    try:
        survey = survey_records(launch)
    except TraceError:
        return
    assert sum(len(batch.position) for batch in batches(launch, survey, 3)) == survey.records.sum()


@pytest.mark.parametrize(
    "change",
    [
        *({"grid": "0 1 1"}, {"grid": "1 1"}, {"index": "x"}, {"module": "../../etc"}, {"kinds": "a"}),
        *({"cluster": "4 1"}, {"cluster": "-1 1 1"}, {"cluster": "99 99 99"}),
    ],
)
def test_descriptions_that_are_wrong(tmp_path, change):
    with pytest.raises(TraceError, match=r"launch-0\.launch: is not the description"):
        write_raw(tmp_path, _kernel(), b"", **change)
    with pytest.raises(TraceError, match="not the description"):
        read_launch(tmp_path / "absent.launch")


@pytest.mark.parametrize(("cluster", "blocks"), [("0 0 0", 1), ("1 1 1", 1), ("4 2 1", 8)])
def test_clusters(tmp_path, cluster, blocks):
    assert write_raw(tmp_path, _kernel(), b"", cluster=cluster).cluster_blocks == blocks


def test_recorded_samples():
    launch = read_launch(DATA / "launch-4.launch")
    survey = survey_records(launch)
    assert launch.readable.startswith("divide(") and launch.warps_per_block == 2
    assert survey.records.sum() == 124
    # The 64 bytes of `held` lie below the top of the window.
    assert 0xFFF000 < survey.local_low < 1 << 24 and survey.local_span >= 64
    assert np.count_nonzero(survey.kinds_seen) == 31
