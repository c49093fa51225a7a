"""A sweep's file with any damage is never read as other numbers; damaged row groups are computed again."""

from __future__ import annotations

import contextlib
import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from warplens.errors import FileError, InputError
from warplens.sweeps.store import Store, read_sweep

SCHEMA = pa.schema([("kernel", pa.string()), ("cycles", pa.float64()), ("sms", pa.int64())])


def table(unit: int) -> pa.Table:
    rows = range(40)
    return pa.table(
        {"kernel": ["k"] * 40, "cycles": [unit * 1000.0 + row / 7 for row in rows], "sms": [unit] * 40}, schema=SCHEMA
    )


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file of three row groups."""
    monkeypatch.setattr("warplens.sweeps.store.GROUP_ROWS", 80)
    path = tmp_path / "out.parquet"
    with Store(path, {"what": "test"}, SCHEMA) as store:
        store.add([(unit, table(unit)) for unit in range(6)])
    assert pq.read_metadata(path).num_row_groups == 3
    return path


def test_other_readers_see_an_ordinary_file(written: Path) -> None:
    assert pq.read_table(written, page_checksum_verification=True).num_rows == 240


def test_no_flipped_bit_is_read_as_other_numbers(written: Path) -> None:
    """Every bit of a random byte in each part of the file."""
    sound, raw = read_sweep(written), written.read_bytes()
    chance = random.Random(1)
    for place in [*chance.sample(range(len(raw)), 250), *range(len(raw) - 40, len(raw))]:
        damaged = bytearray(raw)
        damaged[place] ^= 1 << chance.randrange(8)
        written.write_bytes(damaged)
        with contextlib.suppress(FileError):
            assert read_sweep(written).equals(sound), f"byte {place}"


def test_a_damaged_row_group_is_named_and_computed_again(written: Path) -> None:
    sound, raw = read_sweep(written), bytearray(written.read_bytes())
    group = pq.read_metadata(written).row_group(1).column(1)
    raw[group.data_page_offset + group.total_compressed_size // 2] ^= 4
    written.write_bytes(raw)
    with pytest.raises(FileError, match=r"row group 1 \(units 2 to 3\) is damaged"):
        read_sweep(written)
    with Store(written, {"what": "test"}, SCHEMA) as store:
        assert store.done == {0, 1, 4, 5}
        assert len(store.damaged) == 1 and "units 2 to 3" in store.damaged[0]
        store.add([(unit, table(unit)) for unit in (2, 3)])
    assert read_sweep(written).equals(sound)


def test_rows_of_other_code_are_not_resumed(written: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An upgrade may leave the version as it is."""
    raw = written.read_bytes()
    monkeypatch.setattr("warplens.sweeps.store.code_digest", lambda: "another")
    with pytest.raises(InputError, match="differs in code of warplens"), Store(written, {"what": "test"}, SCHEMA):
        pass
    assert written.read_bytes() == raw


def test_a_cut_file_is_refused(written: Path) -> None:
    raw = written.read_bytes()
    for length in (0, 3, 11, len(raw) // 2, len(raw) - 1):
        written.write_bytes(raw[:length])
        with pytest.raises(FileError):
            read_sweep(written)
