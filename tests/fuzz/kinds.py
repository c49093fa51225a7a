"""Kinds of inputs: sound ones, how they are mutated, and what reads them.

A reader returns what must be equal to that of the sound input, where damage
must never pass for other numbers; others return None.
"""

from __future__ import annotations

import json
import lzma
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from warplens.frontends.accelsim import load_accelsim
from warplens.frontends.cuda.cubin import read_cubin
from warplens.frontends.ncu.profile import read_profiles
from warplens.frontends.ptx import parse_ptx
from warplens.frontends.ptx.flatten import flatten
from warplens.frontends.ptx.flow import Flow
from warplens.frontends.ptx.registers import allocate_registers
from warplens.frontends.sass.disassembly import parse_kernel
from warplens.frontends.sass.raw import batches, read_launch, survey_records
from warplens.machine import load as machine_load
from warplens.machine import load_gpu
from warplens.result_cache import ResultCache
from warplens.sweeps.store import Store, read_sweep
from warplens.tomlfile import read_toml
from warplens.traces import LaunchHeader, StaticInstruction, TraceWriter, WarpGroup, read_trace, static_table
from warplens.web.sources import launch_of
from warplens.workload import example_folder
from warplens.workload.load import workload_of_file
from warplens.workload.source import cuda_launches_of, is_cuda_workload

from . import mutations

DATA = Path(__file__).parents[1] / "frontends"
Mutate = Callable[[random.Random, bytes], bytes]


@dataclass(frozen=True)
class Kind:
    """`suffix` is that of the file; `exact` says that a mutated file is refused or means the same."""

    name: str
    suffix: str
    sound: Callable[[Path], list[bytes]]
    mutate: Mutate
    read: Callable[[Path], Any]
    exact: bool = False


def _files(*paths: Path) -> Callable[[Path], list[bytes]]:
    def sound(_folder: Path) -> list[bytes]:
        return [lzma.decompress(path.read_bytes()) if path.suffix == ".xz" else path.read_bytes() for path in paths]

    return sound


# -- readers -----------------------------------------------------------------------------------------------------


def _machine(path: Path) -> None:
    load_gpu(path)


def _workload(path: Path) -> None:
    file = read_toml(path)
    if is_cuda_workload(file):
        cuda_launches_of(file)
    else:
        workload_of_file(file)


def _trace(path: Path) -> None:
    for launch in read_trace(path):
        for _ in launch.groups():
            pass


def _accelsim(path: Path) -> None:
    for launch in load_accelsim(path):
        for _ in launch.groups():
            pass


def _ptx(path: Path) -> None:
    module = parse_ptx(path.read_text("utf-8", "replace"), path.name)
    for entry in list(module.entries)[:3]:
        kernel = flatten(module, entry)
        found = Flow(kernel)
        assert len(found.must_keep) == len(kernel.blocks)
        allocate_registers(kernel, found)


def _cubin(path: Path) -> None:
    try:
        read_cubin(path.read_bytes())
    except ValueError as error:  # its callers turn these into errors of their own
        if not str(error).startswith(("damaged cubin", "not a cubin")):
            raise


def _sass(path: Path) -> None:
    parse_kernel(path.read_text("utf-8", "replace"), "k")


_RECORDED = DATA / "sass/data/h200/launch-1"


def _recorded(path: Path) -> None:
    """The description of a launch, or its records, beside the sound other half."""
    for suffix in {".launch", ".raw"} - {path.suffix}:
        path.with_suffix(suffix).write_bytes(_RECORDED.with_suffix(suffix).read_bytes())
    launch = read_launch(path.with_suffix(".launch"))
    for batch in batches(launch, survey_records(launch), 1 << 16):
        assert batch is not None


def _profile(path: Path) -> None:
    read_profiles(path)


def _sweep(path: Path) -> Any:
    return read_sweep(path).to_pylist()


def _kept(path: Path) -> Any:
    cache_of_one = ResultCache(path.parent / "kept")
    place = cache_of_one._path("ab12")
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(path.read_bytes())
    found = cache_of_one.get("ab12")
    return None if found is None else {key: np.asarray(value).tolist() for key, value in found.items()}


def _page(path: Path) -> None:
    try:
        document = json.loads(path.read_bytes())
    except (ValueError, RecursionError):
        return  # the server refuses what is no JSON before it looks at it
    launch_of(document)


# -- sound inputs that are made ---------------------------------------------------------------------------------


def _made_trace(folder: Path) -> list[bytes]:
    rows = [
        StaticInstruction(0, "LDG", "load_global", "global", 4, (1,), (2,), 3),
        StaticInstruction(16, "FADD", "fp32"),
    ]
    group = WarpGroup(
        block=np.zeros(2, np.int64),
        warp=np.arange(2, dtype=np.int32),
        start=np.array([0, 2, 4]),
        static=np.array([0, 1, 0, 1], np.uint32),
        mask=np.full(4, 0xFFFFFFFF, np.uint32),
        access_start=np.array([0, 1, 2]),
        base=np.array([4096, 8192], np.uint64),
        stride=np.array([4, 4]),
        lane_start=np.zeros(3, np.int64),
        lanes=np.zeros(0, np.uint64),
    )
    path = folder / "sound.wlt"
    with TraceWriter(path) as writer:
        writer.write(group)
        writer.end_launch(
            LaunchHeader("k", (1, 1, 1), (64, 1, 1), 16, extra={"recorded_blocks": 1}), static_table(rows)
        )
    return [path.read_bytes()]


def _made_sweep(folder: Path) -> list[bytes]:
    path = folder / "sound.parquet"
    schema = pa.schema([("kernel", pa.string()), ("cycles", pa.float64())])
    with Store(path, {"what": "fuzz"}, schema) as store:
        table = pa.table({"kernel": ["a"] * 30, "cycles": [each / 7 for each in range(30)]}, schema=schema)
        store.add([(0, table), (1, table)])
    return [path.read_bytes()]


def _made_entry(folder: Path) -> list[bytes]:
    kept = ResultCache(folder / "sound")
    kept.put("ab12", {"cycles": np.arange(9.0), "model": "warplens", "count": 3})
    return [kept._path("ab12").read_bytes()]


def _made_page(_folder: Path) -> list[bytes]:
    argument = {"dtype": "float32", "shape": [128], "fill": "random", "seed": 1}
    document = {
        "source": "__global__ void k(float* x) { x[threadIdx.x] *= 2; }",
        "kernel": "k",
        "grid": [4],
        "block": [32],
        "arguments": [argument],
    }
    return [json.dumps(document).encode()]


_SASS = b"""
.section .text.k,"ax",@progbits
.text.k:
        /*0000*/                   LDC R1, c[0x0][0x28] ;                /* 0x00000a00ff017b82 */
                                                                         /* 0x000fe20000000800 */
        /*0010*/              @!P0 LDG.E R2, desc[UR4][R2.64] ;          /* 0x0000000402028981 */
                                                                         /* 0x000ea2000c1e1900 */
        /*0020*/                   BRA `(.L_x_0);                        /* 0xfffffffc00fc7947 */
                                                                         /* 0x000fc0000383ffff */
.L_x_0:
        /*0030*/                   EXIT ;                                /* 0x000000000000794d */
                                                                         /* 0x000fea0003800000 */
"""


def _machines() -> Iterator[Path]:
    folder = Path(machine_load.__file__).parent / "data"
    yield from (folder / f"{name}.toml" for name in ("h200", "mdm2020"))


@cache
def kinds() -> dict[str, Kind]:
    papers, cuda = example_folder("papers"), example_folder("cuda")
    workloads = [papers / "mdm-baseline.toml", papers / "wfg-case2.toml", cuda / "spmv.toml"]
    text, raw = mutations.of_text, mutations.of_bytes
    found = [
        Kind("machine", ".toml", _files(*_machines()), text, _machine),
        Kind("workload", ".toml", _files(*workloads), text, _workload),
        Kind("trace", ".wlt", _made_trace, mutations.of_archive, _trace),
        Kind("accelsim", ".traceg", _files(DATA / "accelsim/data/saxpy_lowocc.traceg.xz"), text, _accelsim),
        Kind("ptx", ".ptx", _files(DATA / "ptx/data/kernels.ptx"), text, _ptx),
        Kind("cubin", ".cubin", _files(DATA / "cuda/data/nvcc.cubin.xz"), raw, _cubin),
        Kind("sass", ".sass", lambda _: [_SASS], text, _sass),
        Kind("sass-launch", ".launch", _files(_RECORDED.with_suffix(".launch")), text, _recorded),
        Kind("sass-records", ".raw", _files(_RECORDED.with_suffix(".raw")), mutations.of_words, _recorded),
        Kind("nsight-csv", ".csv", _files(DATA / "ncu/data/features.csv"), text, _profile),
        Kind("nsight-rep", ".ncu-rep", _files(DATA / "ncu/data/features.ncu-rep"), raw, _profile),
        Kind("sweep", ".parquet", _made_sweep, raw, _sweep, exact=True),
        Kind("result-cache", ".entry", _made_entry, raw, _kept, exact=True),
        Kind("page", ".json", _made_page, mutations.of_json, _page),
    ]
    return {kind.name: kind for kind in found}
