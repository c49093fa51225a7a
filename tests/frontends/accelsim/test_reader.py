"""The compiled importer against the slow reader and against the format's description."""

from __future__ import annotations

import gzip
import lzma
import random
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given

from making import PEAK_MEBIBYTES
from reference import accelsim_text
from warplens.errors import TraceError
from warplens.frontends.accelsim import KernelReader, coverage_warning, load_accelsim
from warplens.traces import IRREGULAR, SPACES, LaunchTrace
from warplens_studies.validate.accelsim import trace_path

from .making import DATA, SIMPLE, block_text, header_text, load_text, one_warp, random_text, take_apart, texts


def agree(launch: LaunchTrace, text: bytes) -> None:
    kernel = accelsim_text.parse(text)
    assert take_apart(launch) == kernel.warps
    assert launch.header.kernel == kernel.header["kernel name"]


@pytest.mark.parametrize("name", ["saxpy_lowocc", "chase_divergent", "compute_ilp4_lowocc"])
def test_agrees_with_the_slow_reader(name: str) -> None:
    path = DATA / f"{name}.traceg.xz"
    (launch,) = load_accelsim(path)
    agree(launch, lzma.decompress(path.read_bytes()))
    assert launch.header.extra["opcode_coverage"] == 1


@pytest.mark.slow
@pytest.mark.parametrize("kernel", ["listing1_gs32", "matmul", "stencil", "strided8"])
def test_agrees_on_bundled_traces(kernel: str) -> None:
    path = trace_path(kernel)
    (launch,) = load_accelsim(path)
    agree(launch, lzma.decompress((path.parent / "kernel-1.traceg.xz").read_bytes()))


@given(texts())
def test_agrees_on_random_texts(text: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        agree(load_text(text, Path(folder)), text)


def test_groups_are_whole_blocks_whatever_their_size(tmp_path: Path) -> None:
    text = random_text(random.Random(5), 4, False)
    (tmp_path / "k.traceg").write_bytes(text)
    for instructions, lanes in ((1, 10**9), (3, 10**9), (10**9, 1), (10**9, 10**9)):
        with KernelReader(tmp_path / "k.traceg", group_instructions=instructions, group_lanes=lanes) as reader:
            groups = list(reader.groups())
        blocks = [set(group.block.tolist()) for group in groups]
        assert sum(map(len, blocks)) == len(set().union(*blocks))
        if instructions == 10**9 == lanes:
            assert len(groups) == 1


def test_header_is_kept(tmp_path: Path) -> None:
    launch = load_text(one_warp(*SIMPLE, cluster_size="2 x 1"), tmp_path)
    header = launch.header
    assert (header.kernel, header.grid, header.block) == ("made", (1, 1, 1), (64, 1, 1))
    assert (header.registers_per_thread, header.shared_memory_per_block_bytes) == (24, 128)
    assert header.extra["kernel_id"] == 7 and header.extra["binary_version"] == 70
    assert header.extra["cuda_stream_id"] == 3 and header.extra["nvbit_version"] == "1.5.5"
    assert header.extra["shared_base_address"] == 0x7F0000000000
    assert header.extra["local_base_address"] == 0x7E0000000000
    assert header.extra["header"] == {"cluster size": "2 x 1"}
    assert set(header.missing) == {"predicates", "source lines"}


def test_header_may_leave_out_what_is_not_needed(tmp_path: Path) -> None:
    launch = load_text(one_warp(*SIMPLE, nregs=None, shmem=None, nvbit_version=None, kernel_id=None), tmp_path)
    assert {"nregs", "shmem"} <= set(launch.header.missing)
    without_format_line = one_warp(*SIMPLE).replace("#traces format\n", "")
    assert take_apart(load_text(without_format_line, tmp_path)) == take_apart(launch)


@pytest.mark.parametrize("version", [2, 3, 4, 5])
@pytest.mark.parametrize("lineinfo", [False, True])
def test_every_version(tmp_path: Path, version: int, lineinfo: bool) -> None:
    line = "0020 ffffffff 1 R2 LDG.E 1 R4 4 1 0x7f1000000000 128"
    line = ("33 " if lineinfo else "") + line
    line = ("0 0 0 0 " if version < 3 else "") + line + (" -9" if version >= 4 else "")
    header = {"accelsim_tracer_version": str(version), "enable_lineinfo": str(int(lineinfo))}
    launch = load_text(one_warp(line, **header), tmp_path)
    (warp,) = take_apart(launch)
    (instruction,) = warp.instructions
    assert instruction.line == (33 if lineinfo else 0)
    assert instruction.immediate == (-9 if version >= 4 else 0)
    assert instruction.addresses == tuple(0x7F1000000000 + 128 * i for i in range(32))
    assert ("immediates" in launch.header.missing) == (version < 4)
    assert ("source lines" in launch.header.missing) == (not lineinfo)


def test_address_modes_and_masks(tmp_path: Path) -> None:
    launch = load_text(
        one_warp(
            "0000 0000000f 1 R2 LDG.E 1 R4 4 0 0x100 200 0x300 0x500 0",
            "0000 0000000f 1 R2 LDG.E 1 R4 4 0 0x100 200 0x300 0x400 0",
            "0010 000000f0 1 R2 LDG.E.64 1 R4 8 1 0x1000 -8 0",
            "0020 80000101 1 R2 LDG.E.128 1 R4 16 2 0x4000 16 -32 0",
            "0030 80000001 0 STG.E.U8 2 R4 R2 1 2 0x4000 1 0",
            "0040 00000010 0 STG.E 2 R4 R2 4 1 0x4000 77 0",
            "0050 00000000 0 STG.E 2 R4 R2 4 1 0x4000 4 0",
            "0060 00000000 0 STG.E 2 R4 R2 4 0 0",
            "0070 00000000 0 STG.E 2 R4 R2 4 2 0x10 0",
            "0080 00000003 0 STG.E 2 R4 R2 4 0 0x0 0x10 0",
        ),
        tmp_path,
    )
    (group,) = launch.groups()
    assert group.base.tolist()[1:] == [0x100, 0x1000, 0x4000, 0x4000, 0x4000, 0, 0, 0, 0]
    assert group.stride.tolist() == [IRREGULAR, 0x100, -8, IRREGULAR, 1, 0, 0, 0, 0, 0x10]
    assert group.lanes.tolist() == [0x100, 0x200, 0x300, 0x500, 0x4000, 0x4010, 0x3FF0]
    assert launch.static.access_bytes.tolist() == [4, 8, 16, 1, 4, 4, 4, 4, 4]


def test_spaces_and_classes(tmp_path: Path) -> None:
    pairs = {
        "LDG.E": "global",
        "LDL": "local",
        "LDS": "shared",
        "ATOMS.ADD": "shared",
        "LDC": "constant",
        "LD.E": "generic",
        "RED.E.ADD": "global",
        "FFMA": "none",
    }
    lines = [
        f"{16 * i:04x} 00000001 0 {op} 0 {0 if s == 'none' else '4 1 0x40 4'} 0"
        for i, (op, s) in enumerate(pairs.items())
    ]
    launch = load_text(one_warp(*lines), tmp_path)
    assert [SPACES[i] for i in launch.static.space] == list(pairs.values())


def test_the_same_instruction_written_differently_is_one(tmp_path: Path) -> None:
    lines = (
        "0020 ffffffff 1 R1 MOV 1 R255 0 0",
        "0x20  ffffffff 1\tR1 MOV 1 R255 0 0x0 \r",
        "20 FFFFFFFF +1 R1 MOV 1 R255 0 00",
    )
    launch = load_text(one_warp(*lines, "0020 ffffffff 1 R1 MOV 1 R255 0 1"), tmp_path)
    (group,) = launch.groups()
    assert group.static.tolist() == [0, 0, 0, 1]
    assert len(launch.static) == 2


def test_unknown_opcodes_are_counted_not_fatal(tmp_path: Path) -> None:
    launch = load_text(one_warp(*[SIMPLE[0]] * 3, "0010 ffffffff 1 R3 FROB.X 0 0 0"), tmp_path)
    assert launch.header.extra["opcode_coverage"] == 0.75
    assert launch.header.extra["unknown_opcodes"] == {"FROB.X": 1}
    text = coverage_warning(launch.header)
    assert text is not None and "FROB.X" in text and "25 %" in text
    assert coverage_warning(load_text(one_warp(*SIMPLE), tmp_path).header) is None


def test_many_distinct_instructions(tmp_path: Path) -> None:
    lines = [f"{16 * i:x} ffffffff 1 R{i % 255} MOV 0 0 {i}" for i in range(5000)]
    launch = load_text(one_warp(*lines), tmp_path)
    (group,) = launch.groups()
    assert group.static.tolist() == list(range(5000))
    assert launch.static.immediate.tolist() == list(range(5000))


def test_no_end_of_line_at_the_end(tmp_path: Path) -> None:
    assert len(take_apart(load_text(one_warp(*SIMPLE).rstrip(), tmp_path))) == 1


def test_compressed_and_concatenated(tmp_path: Path) -> None:
    text = one_warp(*SIMPLE).encode()
    expected = take_apart(load_text(text, tmp_path))
    half = len(text) // 2
    for name, data in (
        ("a.traceg.xz", lzma.compress(text)),
        ("b.traceg.gz", gzip.compress(text)),
        ("c.traceg.xz", lzma.compress(text[:half]) + b"\0" * 8 + lzma.compress(text[half:])),
        ("d.traceg.gz", gzip.compress(text[:half]) + gzip.compress(text[half:])),
        ("packed-but-not-named-so.traceg", lzma.compress(text)),
    ):
        assert take_apart(load_text(data, tmp_path, name)) == expected


def test_large_gzip_pieces_are_complete(tmp_path: Path) -> None:
    text = (header_text() + "\n" * (9 << 20) + block_text()).encode()
    launch = load_text(gzip.compress(text, 9), tmp_path, "k.traceg.gz")
    assert len(take_apart(launch)) == 1


def test_large_traces_go_through_a_file_that_goes_away(tmp_path: Path) -> None:
    path = DATA / "saxpy_lowocc.traceg.xz"
    (held,) = load_accelsim(path)
    (stored,) = load_accelsim(path, text_in_memory=0)
    assert take_apart(stored) == take_apart(held)
    assert stored.header == held.header
    place: Path = stored.path.parent  # type: ignore[attr-defined]
    assert place.is_dir()
    groups = stored.groups()
    del stored
    assert np.concatenate([group.mask for group in groups]).all()
    del groups
    assert not place.exists()


def test_progress_ends_at_the_whole(tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    load_accelsim(DATA / "saxpy_lowocc.traceg.xz", progress=lambda done, total: seen.append((done, total)))
    size = (DATA / "saxpy_lowocc.traceg.xz").stat().st_size
    assert seen[-1] == (size, size)


def test_blocks_recorded_in_part(tmp_path: Path) -> None:
    text = header_text(grid_dim="(5,1,1)") + block_text() + block_text(at="3,0,0")
    with pytest.raises(TraceError, match="2 thread blocks and should have 5"):
        load_text(text, tmp_path)
    launch = load_text(text + "#warplens: 2 of the blocks are recorded\n", tmp_path)
    assert launch.header.extra["recorded_blocks"] == 2


_IMPORT = (
    PEAK_MEBIBYTES
    + """
import sys
from warplens.frontends.accelsim import import_accelsim
(launch,) = import_accelsim(sys.argv[1], sys.argv[2])
print(launch.instructions, peak_mebibytes())
"""
)


def import_peak(folder: Path, blocks: int) -> int:
    """Peak memory in MiB of importing a trace of so many blocks of 10 000 instructions, half of them irregular."""
    rng = random.Random(1)
    lists = [" ".join(hex(rng.getrandbits(44)) for _ in range(32)) for _ in range(50)]
    lines = [
        f"{32 * i:04x} ffffffff 1 R1 IADD 1 R1 0 0\n{32 * i + 16:04x} ffffffff 1 R2 LDG.E 1 R4 4 0 {lists[i]} 0\n"
        for i in range(50)
    ]
    body = "".join(lines) * 100
    path = folder / "kernel-1.traceg"
    with path.open("w") as file:
        file.write(header_text(grid_dim=f"({blocks},1,1)"))
        for x in range(blocks):
            file.write(f"#BEGIN_TB\nthread block = {x},0,0\nwarp = 0\ninsts = 10000\n{body}#END_TB\n")
    done = subprocess.run(
        [sys.executable, "-c", _IMPORT, str(path), str(folder / "a.wlt")], capture_output=True, text=True, check=True
    )
    path.unlink()
    instructions, peak = map(int, done.stdout.split())
    assert instructions == 10_000 * blocks
    return peak


@pytest.mark.slow
def test_memory_does_not_grow_with_the_trace(tmp_path: Path) -> None:
    small, large = import_peak(tmp_path, 100), import_peak(tmp_path, 400)
    assert large < 1.15 * small + 20
    assert large < 600
