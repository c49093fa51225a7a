"""Export: what the format can carry comes back unchanged."""

from __future__ import annotations

import dataclasses
import lzma
import random
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reference import accelsim_text
from warplens.errors import TraceError
from warplens.frontends.accelsim import export_accelsim, import_accelsim, load_accelsim
from warplens.traces import (
    IRREGULAR,
    LaunchHeader,
    LaunchTrace,
    MemoryTrace,
    StaticInstruction,
    WarpGroup,
    read_trace,
    static_table,
)

from .making import DATA, SIMPLE, block_text, columns_of, header_text, load_text, one_warp, take_apart, texts


def there_and_back(
    launch: LaunchTrace, folder: Path, *, version: int = 4, compression: str | None = None
) -> LaunchTrace:
    (path,) = export_accelsim([launch], folder / "out", version=version, compression=compression)
    assert path.parent == folder / "out"
    (back,) = load_accelsim(folder / "out" / "kernelslist.g")
    return back


@given(texts(), st.sampled_from(["xz", "gz", None]))
def test_import_export_import_is_the_identity(text: bytes, compression: str | None) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        launch = load_text(text, folder)
        version = launch.header.extra["tracer_version"]
        back = there_and_back(launch, folder, version=version, compression=compression)
        assert columns_of(back) == columns_of(launch)
        assert back.header == launch.header


@given(texts())
def test_identity_through_a_stored_trace(text: bytes) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        launch = load_text(text, folder)
        import_accelsim(folder / "kernel-1.traceg", folder / "a.wlt")
        (stored,) = read_trace(folder / "a.wlt")
        assert columns_of(stored) == columns_of(launch)
        assert stored.header == launch.header
        version = launch.header.extra["tracer_version"]
        assert columns_of(there_and_back(stored, folder, version=version)) == columns_of(launch)


@given(texts(version=5), st.sampled_from([2, 3, 4, 5]))
def test_other_versions_lose_immediates_only(text: bytes, version: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        launch = load_text(text, Path(name))
        back = take_apart(there_and_back(launch, Path(name), version=version))
    expected = take_apart(launch)
    if version < 4:
        for warp in expected:
            warp.instructions = [dataclasses.replace(each, immediate=0) for each in warp.instructions]
    assert back == expected


def test_text_is_what_the_slow_reader_takes(tmp_path: Path) -> None:
    (launch,) = load_accelsim(DATA / "chase_divergent.traceg.xz")
    for version in accelsim_text.VERSIONS:
        (path,) = export_accelsim([launch], tmp_path / str(version), version=version)
        assert accelsim_text.parse(lzma.decompress(path.read_bytes())).warps == take_apart(launch)


def test_regular_traces_come_back_byte_for_byte(tmp_path: Path) -> None:
    for name in ("saxpy_lowocc", "compute_ilp4_lowocc"):
        source = DATA / f"{name}.traceg.xz"
        (path,) = export_accelsim(load_accelsim(source), tmp_path / name, compression=None)
        original = lzma.decompress(source.read_bytes())
        assert [line for line in path.read_bytes().split(b"\n") if line] == [
            line for line in original.split(b"\n") if line
        ]


def test_address_modes(tmp_path: Path) -> None:
    """1 for contiguous even lanes, 2 for others, 0 where an address is 0 or a distance too far."""
    launch = load_text(
        one_warp(
            "0000 000000f0 1 R2 LDG.E 1 R4 4 0 0x10 0x14 0x18 0x1c 0",
            "0000 00000005 1 R2 LDG.E 1 R4 4 0 0x10 0x14 0",
            "0000 00000007 1 R2 LDG.E 1 R4 4 0 0x10 0x14 0x20 0",
            "0000 00000003 1 R2 LDG.E 1 R4 4 0 0x0 0x14 0",
            "0000 00000003 1 R2 LDG.E 1 R4 4 0 0x10 0xffffffffffffffff 0",
            "0000 00000003 1 R2 LDG.E 1 R4 4 0 0x10 0x100000000f 0",
            "0000 00000001 1 R2 LDG.E 1 R4 4 0 0x0 0",
            "0000 00000000 1 R2 LDG.E 1 R4 4 0 0",
        ),
        tmp_path,
    )
    (path,) = export_accelsim([launch], tmp_path / "out", compression=None)
    lines = [line for line in path.read_text().splitlines() if "LDG" in line]
    assert [line.partition("R4 4 ")[2] for line in lines] == [
        "1 0x10 4 0",
        "2 0x10 4 0",
        "2 0x10 4 12 0",
        "0 0x0 0x14 0",
        "0 0x10 0xffffffffffffffff 0",
        "2 0x10 68719476735 0",
        "0 0x0 0",
        "1 0x0 0 0",
    ]


def test_several_launches_and_copies(tmp_path: Path) -> None:
    for number in (1, 2):
        (tmp_path / f"kernel-{number}.traceg").write_text(
            one_warp(*SIMPLE, kernel_name=f"k{number}", kernel_id=str(number))
        )
    (tmp_path / "kernelslist.g").write_text(
        "MemcpyHtoD,0x00007f1000000000,4096\nMemcpyHtoD,0x10,1\nkernel-1.traceg\n\nkernel-2.traceg\nMemcpyHtoD,0x20,2\n"
    )
    launches = load_accelsim(tmp_path / "kernelslist.g")
    assert [launch.header.kernel for launch in launches] == ["k1", "k2"]
    assert [launch.header.launch_index for launch in launches] == [0, 1]
    assert launches[0].header.extra["memcpys"] == [[0x7F1000000000, 4096], [16, 1]]
    assert launches[1].header.extra["memcpys_after"] == [[32, 2]]
    imported = import_accelsim(tmp_path, tmp_path / "a.wlt")
    assert [(each.warps, each.instructions) for each in imported] == [(1, 2), (1, 2)]
    export_accelsim(read_trace(tmp_path / "a.wlt"), tmp_path / "out", compression="gz")
    assert (tmp_path / "out" / "kernelslist.g").read_text().splitlines() == [
        "MemcpyHtoD,0x00007f1000000000,4096",
        "MemcpyHtoD,0x0000000000000010,1",
        "kernel-1.traceg.gz",
        "kernel-2.traceg.gz",
        "MemcpyHtoD,0x0000000000000020,2",
    ]
    for one, other in zip(load_accelsim(tmp_path / "out"), launches, strict=True):
        assert one.header == other.header and columns_of(one) == columns_of(other)


def of_another_language(**changes: object) -> MemoryTrace:
    """A launch as a front end of another language gives it."""
    rows = [
        StaticInstruction(0, "ld.global.v2.f32", "load_global", "global", 8, (300,), (1,)),
        StaticInstruction(8, "ld.shared.b8", "load_shared", "shared", 1, (2,), ()),
        StaticInstruction(16, "fma.rn.f32", "fp32", destinations=(3,), sources=(2, 300)),
        StaticInstruction(24, "st.f64", "store_global", "generic", 8, (), (3,)),
        StaticInstruction(32, "bad opcode\n", "other"),
        StaticInstruction(40, "atom.global.add.u32", "atomic_global", "global", 4, line=12),
    ]
    group = WarpGroup(
        block=np.array([1]),
        warp=np.array([0], dtype=np.int32),
        start=np.array([0, 6]),
        static=np.arange(6, dtype=np.uint32),
        mask=np.array([3, 3, 3, 5, 1, 3], dtype=np.uint32),
        access_start=np.array([0, 4]),
        base=np.array([4096, 0, 256, 64], dtype=np.uint64),
        stride=np.array([IRREGULAR, 0, 2**40, -8]),
        lane_start=np.array([0, 2]),
        lanes=np.array([4096, 8192], dtype=np.uint64),
    )
    header = LaunchHeader(**{"kernel": "a\nb", "grid": (2, 1, 1), "block": (32, 1, 1), "origin": "ptx", **changes})  # type: ignore[arg-type]
    return MemoryTrace(header, static_table(rows), (group,))


def test_other_languages_become_sass_of_the_same_class(tmp_path: Path) -> None:
    launch = of_another_language()
    back = there_and_back(launch, tmp_path)
    assert list(back.static.opcode) == ["LDG.E.64", "LDS.U8", "FFMA", "ST.E.64", "OTHER", "ATOMG.E"]
    for name in ("class_id", "space", "access_bytes", "pc", "line"):
        assert getattr(back.static, name).tolist() == getattr(launch.static, name).tolist()
    assert [w.instructions[3].addresses for w in take_apart(back)] == [(256, 256 + 2**40)]
    assert back.header.kernel == "a b"
    assert back.header.extra["recorded_blocks"] == 1  # of two
    assert back.header.extra["kernel_id"] == 1


def test_refuses_what_it_cannot_write(tmp_path: Path) -> None:
    launch = load_text(one_warp(*SIMPLE), tmp_path)
    with pytest.raises(TraceError, match="tracer version 6"):
        export_accelsim([launch], tmp_path / "out", version=6)
    with pytest.raises(TraceError, match="compression 'zip'"):
        export_accelsim([launch], tmp_path / "out", compression="zip")
    with pytest.raises(TraceError, match="no launch"):
        export_accelsim([], tmp_path / "out")
    (tmp_path / "file").write_text("")
    with pytest.raises(TraceError, match="cannot be written"):
        export_accelsim([launch], tmp_path / "file")
    scattered = MemoryTrace(launch.header, launch.static, (*launch.groups(), *launch.groups()))
    export_accelsim([scattered], tmp_path / "same-block-goes-on")  # one block over two groups is one block
    text = header_text(grid_dim="(2,1,1)") + block_text() + block_text(at="1,0,0")
    two = load_text(text, tmp_path)
    with pytest.raises(TraceError, match="not together"):
        export_accelsim([MemoryTrace(two.header, two.static, (*two.groups(), *two.groups()))], tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_nothing_half_written_is_left(tmp_path: Path) -> None:
    launch = load_text(one_warp(*SIMPLE), tmp_path)

    class Broken(MemoryTrace):
        def groups(self):  # type: ignore[no-untyped-def]
            yield from self.held
            raise RuntimeError("on purpose")

    broken = Broken(launch.header, launch.static, tuple(launch.groups()))
    (tmp_path / "out").mkdir()
    with pytest.raises(RuntimeError):
        export_accelsim([launch, broken], tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == []
    with pytest.raises(TraceError):
        (tmp_path / "kernel-1.traceg").write_text(one_warp(*SIMPLE) + "rubbish\n")
        import_accelsim(tmp_path / "kernel-1.traceg", tmp_path / "a.wlt")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["kernel-1.traceg", "out"]


def test_long_warps_need_many_buffers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("warplens.frontends.accelsim.writer._BUFFER", 100)
    rng = random.Random(3)
    lines = [
        f"{16 * i:04x} ffffffff 0 LDG.E 0 4 0 {' '.join(hex(rng.getrandbits(40)) for _ in range(32))} 0"
        for i in range(50)
    ]
    launch = load_text(one_warp(*lines), tmp_path)
    assert columns_of(there_and_back(launch, tmp_path)) == columns_of(launch)
