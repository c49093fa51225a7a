"""`.wlt` files: what is written comes back, and what is damaged says so."""

from __future__ import annotations

import errno
import io
import json
import random
import stat
import subprocess
import sys
import warnings
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from making import PEAK_MEBIBYTES
from reference.traces import warp_group
from warplens.errors import TraceError
from warplens.traces import (
    EMPTY_GROUP,
    IRREGULAR,
    LaunchHeader,
    MemoryTrace,
    StaticInstruction,
    StoredLaunch,
    TraceWriter,
    WarpGroup,
    read_trace,
    static_table,
)
from warplens.traces.checks import problem_of

ROWS = (
    StaticInstruction(0, "MOV", "move", destinations=(1,), sources=(255,), immediate=-(2**63)),
    StaticInstruction(2**64 - 16, "LDG.E", "load_global", "global", 4, (2, 3), (1,), line=2**32 - 1),
    StaticInstruction(32, "STS.U8", "store_shared", "shared", 1, (), (2, 1, 7), immediate=2**63 - 1),
    StaticInstruction(48, "é⊕", "other"),
)


def made_group(rng: random.Random, blocks: range, warps: int = 2) -> WarpGroup:
    """Warps of some blocks with instructions of `ROWS`, evenly spaced and irregular accesses among them."""
    block, warp, start, static, mask = [], [], [0], [], []
    access_start, base, stride, lane_start, lanes = [0], [], [], [0], []
    for each in blocks:
        for w in range(warps):
            block.append(each)
            warp.append(w)
            for _ in range(rng.randint(0, 5)):
                index, active = rng.randrange(len(ROWS)), rng.getrandbits(32)
                static.append(index)
                mask.append(active)
                if ROWS[index].access_bytes:
                    base.append(rng.getrandbits(64))
                    if rng.random() < 0.5:
                        stride.append(rng.randint(-(2**40), 2**40))
                    else:
                        stride.append(IRREGULAR)
                        lanes += [rng.getrandbits(64) for _ in range(active.bit_count())]
            start.append(len(static))
            access_start.append(len(base))
            lane_start.append(len(lanes))
    return warp_group(
        block=block, warp=warp, start=start, static=static, mask=mask, access_start=access_start, base=base,
        stride=stride, lane_start=lane_start, lanes=lanes,
    )  # fmt: skip


def made_launch(seed: int = 1, groups: int = 3, index: int = 0) -> MemoryTrace:
    rng = random.Random(seed)
    header = LaunchHeader(
        kernel=f"kernel<é>{seed}",
        grid=(2 * groups + 1, 1, 1),
        block=(64, 1, 1),
        registers_per_thread=20,
        shared_memory_per_block_bytes=1024,
        launch_index=index,
        origin="test",
        missing=("predicates",),
        extra={"a": [1, 2], "b": {"c": "d"}},
    )
    held = tuple(made_group(rng, range(2 * i, 2 * i + 2)) for i in range(groups))
    return MemoryTrace(header, static_table(ROWS), held)


def store(path: Path, *launches: MemoryTrace) -> None:
    with TraceWriter(path) as writer:
        for launch in launches:
            for group in launch.groups():
                writer.write(group)
            writer.end_launch(launch.header, launch.static)


def assert_same(found: Any, expected: Any) -> None:
    assert found.header == expected.header
    for name in vars(expected.static):
        one, other = getattr(found.static, name), getattr(expected.static, name)
        if name == "opcode":
            assert list(one) == list(other)
        else:
            assert one.dtype == other.dtype and one.tolist() == other.tolist(), name
    groups = list(found.groups())
    assert len(groups) == len(expected.held)
    for one, other in zip(groups, expected.held, strict=True):
        for name in vars(other):
            assert getattr(one, name).dtype == getattr(other, name).dtype, name
            assert getattr(one, name).tolist() == getattr(other, name).tolist(), name


@given(st.integers(0, 2**32), st.integers(0, 4))
def test_comes_back_as_it_was(tmp_path_factory: pytest.TempPathFactory, seed: int, groups: int) -> None:
    path = tmp_path_factory.mktemp("t") / "a.wlt"
    launch = made_launch(seed, groups)
    store(path, launch)
    (found,) = read_trace(path)
    assert_same(found, launch if groups else replace(launch, held=(EMPTY_GROUP,)))


def test_several_launches_read_in_any_order_and_again(tmp_path: Path) -> None:
    launches = [made_launch(i, 1 + i, i) for i in range(4)]
    store(tmp_path / "a.wlt", *launches)
    found = read_trace(str(tmp_path / "a.wlt"))
    for index in (3, 0, 1, 0, 2):
        assert_same(found[index], launches[index])
    first, second = found[3].groups(), found[3].groups()
    next(first)
    assert len(list(second)) == 4 and len(list(first)) == 3


def test_slices_of_larger_columns_can_be_written(tmp_path: Path) -> None:
    launch = made_launch()
    (group,) = made_launch(groups=1).held
    padded = replace(group, static=np.concatenate([group.static, group.static])[: len(group.static)])
    store(tmp_path / "a.wlt", replace(launch, held=(padded,)))
    assert_same(read_trace(tmp_path / "a.wlt")[0], replace(launch, held=(group,)))


# -- writing ----------------------------------------------------------------------------


def test_appears_only_when_complete(tmp_path: Path) -> None:
    launch = made_launch()
    (tmp_path / "a.wlt").write_text("before")
    with pytest.raises(RuntimeError), TraceWriter(tmp_path / "a.wlt") as writer:
        writer.write(launch.held[0])
        writer.end_launch(launch.header, launch.static)
        writer.write(launch.held[0])
        assert (tmp_path / "a.wlt").read_text() == "before"
        raise RuntimeError("on purpose")
    assert (tmp_path / "a.wlt").read_text() == "before"
    with pytest.raises(ValueError, match="not ended"), TraceWriter(tmp_path / "b.wlt") as writer:
        writer.write(launch.held[0])
    with pytest.raises(TraceError, match="nothing was recorded"), TraceWriter(tmp_path / "b.wlt"):
        pass
    with pytest.raises(KeyboardInterrupt), TraceWriter(tmp_path / "b.wlt"):
        raise KeyboardInterrupt
    assert [path.name for path in tmp_path.iterdir()] == ["a.wlt"]
    store(tmp_path / "a.wlt", launch)
    assert_same(read_trace(tmp_path / "a.wlt")[0], launch)


def test_is_readable_as_other_files_are(tmp_path: Path) -> None:
    store(tmp_path / "a.wlt", made_launch())
    (tmp_path / "other").write_text("")
    assert stat.S_IMODE((tmp_path / "a.wlt").stat().st_mode) == stat.S_IMODE((tmp_path / "other").stat().st_mode)


def test_leaves_no_file_open(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        store(tmp_path / "a.wlt", made_launch())
        (launch,) = read_trace(tmp_path / "a.wlt")
        next(launch.groups())
        del launch


def test_places_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "folder").mkdir()
    for path in (tmp_path / "file" / "a.wlt", tmp_path / "folder", Path("/proc/a.wlt")):
        with pytest.raises(TraceError, match="cannot be written"):
            TraceWriter(path)
    store(tmp_path / "new" / "folder" / "a.wlt", made_launch())
    assert [path.name for path in (tmp_path / "new" / "folder").iterdir()] == ["a.wlt"]


class FullDisk(io.FileIO):
    """A file on a disk with little room."""

    room = 0

    def write(self, data: Any) -> int:
        if self.tell() + len(data) > self.room:
            raise OSError(errno.ENOSPC, "No space left on device")
        return super().write(data)


@pytest.mark.parametrize("share", [0.0, 0.3, 0.6, 0.9, 0.99])
def test_a_full_disk_is_a_clear_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, share: float) -> None:
    store(tmp_path / "a.wlt", made_launch())
    monkeypatch.setattr(FullDisk, "room", int(share * (tmp_path / "a.wlt").stat().st_size))
    monkeypatch.setattr("warplens.traces.store.os.fdopen", FullDisk)
    with pytest.raises(TraceError, match=r"b\.wlt: cannot be written \(No space left"):
        store(tmp_path / "b.wlt", made_launch())
    assert [path.name for path in tmp_path.iterdir()] == ["a.wlt"]


# -- reading damaged files --------------------------------------------------------------


def read_all(path: Path) -> list[tuple[LaunchHeader, list[WarpGroup]]]:
    return [(launch.header, list(launch.groups())) for launch in read_trace(path)]


def test_not_a_trace(tmp_path: Path) -> None:
    path = tmp_path / "a.wlt"
    with pytest.raises(TraceError, match="no such file"):
        read_trace(path)
    with pytest.raises(TraceError, match="not a complete"):
        read_trace(tmp_path)
    for data in (b"", b"PK", b"hello world", bytes(range(256)) * 50):
        path.write_bytes(data)
        with pytest.raises(TraceError, match="not a complete warplens trace"):
            read_trace(path)
    with zipfile.ZipFile(path, "w") as container:
        container.writestr("mimetype", "something else")
    with pytest.raises(TraceError, match="not a complete warplens trace"):
        read_trace(path)


def rewritten(source: Path, target: Path, change: Callable[[str, bytes], bytes | None], **options: Any) -> None:
    """A copy of the container with some entries changed or left out; the checksums are right again."""
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w", **options) as new:
        for name in old.namelist():
            data = change(name, old.read(name))
            if data is not None:
                new.writestr(name, data)


@pytest.mark.parametrize(
    ("entry", "value", "says"),
    [
        (
            "wlt.json",
            {"format": "warplens trace", "version": 2, "launches": 1},
            "version 2, this warplens reads 1; use",
        ),
        ("wlt.json", {"format": "warplens trace", "launches": 1}, "version None"),
        ("wlt.json", {"format": "other", "version": 1, "launches": 1}, "is not a warplens trace"),
        ("wlt.json", {"format": "warplens trace", "version": 1, "launches": 10**12}, "not a complete"),
        ("wlt.json", {"format": "warplens trace", "version": 1, "launches": "x"}, "not a complete"),
        ("wlt.json", {"format": "warplens trace", "version": 1}, "not a complete"),
        ("wlt.json", [1], "is not a warplens trace"),
        ("wlt.json", None, "not a complete"),
        ("0/launch.json", None, "not a complete"),
        ("0/static.arrow", None, "not a complete"),
        ("0/launch.json", {}, "not a complete"),
        ("0/launch.json", [], "not a complete"),
        ("0/launch.json", {"kernel": "a", "grid": [1, 1], "block": [1, 1, 1], "missing": []}, "grid dimensions"),
        ("0/launch.json", {"kernel": "a", "grid": [1, 0, 1], "block": [1, 1, 1], "missing": []}, "grid dimensions"),
        ("0/launch.json", {"kernel": 1, "grid": [1, 1, 1], "block": [1, 1, 1], "missing": []}, "no valid header"),
        (
            "0/launch.json",
            {"kernel": "a", "grid": [1, 1, 1], "block": [1, 1, 1], "missing": [], "new": 1},
            "not a complete",
        ),
        ("0/launch.json", {"kernel": "a", "grid": [1, 1, 1], "block": [1, 1, 1], "missing": []}, "outside the grid"),
        (
            "0/launch.json",
            {"kernel": "a", "grid": [9, 9, 9], "block": [1, 1, 1], "missing": []},
            "outside their thread",
        ),
        ("0/warps.arrow", None, "not a complete"),
    ],
)
def test_wrong_entries(tmp_path: Path, entry: str, value: Any, says: str) -> None:
    store(tmp_path / "a.wlt", made_launch())

    def change(name: str, data: bytes) -> bytes | None:
        return data if name != entry else None if value is None else json.dumps(value).encode()

    rewritten(tmp_path / "a.wlt", tmp_path / "b.wlt", change)
    with pytest.raises(TraceError) as caught:
        read_all(tmp_path / "b.wlt")
    assert says in str(caught.value) and "b.wlt" in str(caught.value)


def test_arrow_of_another_shape(tmp_path: Path) -> None:
    store(tmp_path / "a.wlt", made_launch())
    with zipfile.ZipFile(tmp_path / "a.wlt") as container:
        static, warps = container.read("0/static.arrow"), container.read("0/warps.arrow")
    for entry, data in (("0/static.arrow", warps), ("0/warps.arrow", static), ("0/warps.arrow", b"")):
        rewritten(tmp_path / "a.wlt", tmp_path / "b.wlt", lambda n, d, e=entry, v=data: v if n == e else d)
        with pytest.raises(TraceError):
            read_all(tmp_path / "b.wlt")


def test_accesses_wider_than_a_lane_can_make_are_refused(tmp_path: Path) -> None:
    launch = made_launch()
    for width, refused in ((128, False), (129, True), (2**16 - 1, True)):
        widths = np.where(launch.static.access_bytes == 4, width, launch.static.access_bytes).astype(np.uint16)
        store(tmp_path / "a.wlt", replace(launch, static=replace(launch.static, access_bytes=widths)))
        if refused:
            with pytest.raises(TraceError, match=rf"instruction 1 \(LDG\.E\) accesses {width} bytes per lane"):
                read_trace(tmp_path / "a.wlt")
        else:
            read_all(tmp_path / "a.wlt")


def test_packed_containers_are_refused(tmp_path: Path) -> None:
    store(tmp_path / "a.wlt", made_launch())
    rewritten(tmp_path / "a.wlt", tmp_path / "b.wlt", lambda _, data: data, compression=zipfile.ZIP_DEFLATED)
    with pytest.raises(TraceError, match="is not a warplens trace"):
        read_trace(tmp_path / "b.wlt")


def broken(**changes: Any) -> str | None:
    launch = made_launch(seed=11)
    group = launch.held[0]
    made = {name: change(getattr(group, name).copy()) for name, change in changes.items()}
    return problem_of(replace(group, **made), launch.static, launch.header)


def test_columns_that_do_not_fit_are_found() -> None:
    def put(at: int, value: int) -> Callable[[Any], Any]:
        def change(column: Any) -> Any:
            column[at] = value
            return column

        return change

    assert broken() is None
    assert problem_of(EMPTY_GROUP, made_launch().static, made_launch().header) is None
    for changes in (
        {"warp": lambda c: c[:-1]},
        {"start": lambda c: c[:-1]},
        {"mask": lambda c: c[:-1]},
        {"stride": lambda c: c[:-1]},
        {"start": put(0, 1)},
        {"start": put(1, 10**12)},
        {"start": put(-1, 10**12)},
        {"lane_start": put(1, -1)},
        {"static": put(0, len(ROWS))},
        {"block": put(0, 7)},
        {"block": put(0, -1)},
        {"warp": put(0, 2)},
        {"warp": put(0, -1)},
        {"static": lambda c: np.zeros_like(c)},
        {"stride": lambda c: np.zeros_like(c)},
        {"stride": lambda c: np.full_like(c, IRREGULAR)},
        {"mask": lambda c: c ^ np.uint32(1)},
        {"access_start": lambda c: np.append(0, np.full(len(c) - 1, c[-1]))},
    ):
        assert broken(**changes) is not None, changes


def test_truncated_anywhere(tmp_path: Path, everything: bool) -> None:
    launch = made_launch(groups=2)
    store(tmp_path / "a.wlt", launch, launch)
    data = (tmp_path / "a.wlt").read_bytes()
    sizes = range(len(data)) if everything else sorted({*range(0, len(data), 97), *range(len(data) - 60, len(data))})
    for size in sizes:
        (tmp_path / "b.wlt").write_bytes(data[:size])
        with pytest.raises(TraceError, match=r"b\.wlt"):
            read_all(tmp_path / "b.wlt")


def test_changed_bytes(tmp_path: Path, everything: bool) -> None:
    """Every change is noticed, or changed nothing that is read."""
    rng = random.Random(99)
    launch = made_launch(groups=2)
    store(tmp_path / "a.wlt", launch, launch)
    data = (tmp_path / "a.wlt").read_bytes()
    noticed = 0
    for _ in range(8000 if everything else 800):
        changed = bytearray(data)
        for _ in range(rng.choice((1, 1, 1, 4))):
            at = rng.randrange(len(changed))
            changed[at] = changed[at] ^ (1 << rng.randrange(8)) if rng.random() < 0.7 else rng.randrange(256)
        if rng.random() < 0.1:
            at = rng.randrange(len(changed))
            del changed[at : at + rng.randint(1, 50)]
        (tmp_path / "b.wlt").write_bytes(changed)
        try:
            found = read_trace(tmp_path / "b.wlt")
            for each in found:
                assert_same(each, launch)
        except TraceError as error:
            assert "b.wlt" in str(error) and "\n" not in str(error)
            noticed += 1
    assert noticed > 300


def test_changed_bytes_with_right_checksums(tmp_path: Path, everything: bool) -> None:
    """Arrow data that is damaged but passes the checksums: an error or columns that fit together."""
    rng = random.Random(5)
    launch = made_launch(groups=2)
    store(tmp_path / "a.wlt", launch)

    def change(name: str, data: bytes) -> bytes:
        if not name.endswith(".arrow"):
            return data
        changed = bytearray(data)
        for _ in range(rng.randint(0, 2)):
            changed[rng.randrange(len(changed))] = rng.randrange(256)
        return bytes(changed)

    for _ in range(3000 if everything else 300):
        rewritten(tmp_path / "a.wlt", tmp_path / "b.wlt", change)
        try:
            for found in read_trace(tmp_path / "b.wlt"):
                for group in found.groups():
                    assert problem_of(group, found.static, found.header) is None
        except TraceError as error:
            assert "b.wlt" in str(error)


def test_a_file_that_went_away(tmp_path: Path) -> None:
    store(tmp_path / "a.wlt", made_launch())
    (launch,) = read_trace(tmp_path / "a.wlt")
    (tmp_path / "a.wlt").unlink()
    with pytest.raises(TraceError, match="the file no longer exists"):
        list(launch.groups())
    assert isinstance(launch, StoredLaunch)


# -- memory -----------------------------------------------------------------------------

_WRITE_AND_READ = """
import sys
import numpy as np
from warplens.traces import IRREGULAR, LaunchHeader, StaticInstruction, TraceWriter, WarpGroup
from warplens.traces import read_trace, static_table

path, total = sys.argv[1], int(sys.argv[2])
per_group, per_warp = 1 << 19, 1 << 10
static = static_table([
    StaticInstruction(0, "FFMA", "fp32", destinations=(1,), sources=(2, 3, 4)),
    StaticInstruction(16, "LDG.E", "load_global", "global", 4, (1,), (2,)),
])
warps = per_group // per_warp
groups = total // per_group
rng = np.random.default_rng(1)
with TraceWriter(path) as writer:
    for number in range(groups):
        ids = np.zeros(per_group, dtype=np.uint32)
        ids[::4] = 1
        accesses = per_group // 4
        stride = np.full(accesses, 4, dtype=np.int64)
        stride[::8] = IRREGULAR
        lanes = rng.integers(0, 1 << 40, 32 * accesses // 8).astype(np.uint64)
        writer.write(WarpGroup(
            block=number * (warps // 8) + np.arange(warps) // 8,
            warp=(np.arange(warps) % 8).astype(np.int32),
            start=np.arange(warps + 1) * per_warp,
            static=ids,
            mask=np.full(per_group, 0xFFFFFFFF, dtype=np.uint32),
            access_start=np.arange(warps + 1) * (per_warp // 4),
            base=rng.integers(1, 1 << 40, accesses).astype(np.uint64),
            stride=stride,
            lane_start=np.arange(warps + 1) * (32 * per_warp // 32),
            lanes=lanes,
        ))
    writer.end_launch(LaunchHeader("k", (groups * (warps // 8), 1, 1), (256, 1, 1)), static)
(launch,) = read_trace(path)
assert sum(group.instructions for group in launch.groups()) == groups * per_group
print(peak_mebibytes())
"""


def peak_mebibytes(path: Path, instructions: int) -> int:
    done = subprocess.run(
        [sys.executable, "-c", PEAK_MEBIBYTES + _WRITE_AND_READ, str(path), str(instructions)],
        capture_output=True,
        text=True,
        check=True,
        timeout=1200,
    )
    path.unlink()
    return int(done.stdout)


@pytest.mark.slow
def test_memory_does_not_grow_with_the_trace(tmp_path: Path) -> None:
    """What holds from 5 M to 20 M instructions holds to 200 M: the peak is that of one group."""
    small = peak_mebibytes(tmp_path / "a.wlt", 5_000_000)
    large = peak_mebibytes(tmp_path / "a.wlt", 20_000_000)
    assert large < 1.15 * small + 20
    assert large < 600
