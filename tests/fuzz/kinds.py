"""Kinds of inputs: sound ones, how they are mutated, and what reads them.

A reader returns what must be equal to that of the sound input, where damage
must never pass for other numbers; others return None.
"""

from __future__ import annotations

import gzip
import json
import lzma
import os
import random
import socket
import struct
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from frontends.runtime.listening import Notes
from frontends.runtime.test_fatbin import entry, fat
from gate.making import snapshot
from tuning.making import SOURCE, SPACE, write_t1
from warplens.frontends.accelsim import load_accelsim
from warplens.frontends.cuda.cubin import read_cubin
from warplens.frontends.cuda.machine_code import read_machine_code
from warplens.frontends.ncu.profile import read_profiles
from warplens.frontends.ptx import parse_ptx
from warplens.frontends.ptx.flatten import flatten
from warplens.frontends.ptx.flow import Flow
from warplens.frontends.ptx.registers import allocate_registers
from warplens.frontends.runtime import Recording
from warplens.frontends.runtime.fatbin import read_images
from warplens.frontends.runtime.launches import LaunchNumbers
from warplens.frontends.runtime.messages import Op
from warplens.frontends.runtime.needed import needed_libraries
from warplens.frontends.runtime.server import Session
from warplens.frontends.sass.disassembly import parse_kernel
from warplens.frontends.sass.raw import batches, read_launch, survey_records
from warplens.gate.baseline import baseline_of, read_baseline, write_baseline
from warplens.gate.project import load_project
from warplens.machine import Gpu, load_gpu
from warplens.machine import load as machine_load
from warplens.result_cache import ResultCache
from warplens.sweeps.store import Store, read_sweep
from warplens.tomlfile import read_toml
from warplens.traces import LaunchHeader, StaticInstruction, TraceWriter, WarpGroup, read_trace, static_table
from warplens.tuning.kernel_tuner import read_results
from warplens.tuning.space import read_space
from warplens.web.sources import launch_of
from warplens.workload import example_folder
from warplens.workload.load import workload_of_file
from warplens.workload.source import cuda_launches_of, is_cuda_workload

from . import mutations, predicted
from .protobuf import of_report

DATA = Path(__file__).parents[1] / "frontends"
_TRACED = DATA / "accelsim/data/saxpy_lowocc.traceg.xz"
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
        return [_unpacked(path) for path in paths]

    return sound


def _unpacked(path: Path) -> bytes:
    return lzma.decompress(path.read_bytes()) if path.suffix == ".xz" else path.read_bytes()


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
    for name in list(module.entries)[:3]:
        kernel = flatten(module, name)
        found = Flow(kernel)
        assert len(found.must_keep) == len(kernel.blocks)
        allocate_registers(kernel, found)


def _cubin(path: Path) -> None:
    try:
        read_cubin(path.read_bytes())
    except ValueError as error:  # its callers turn these into errors of their own
        if not str(error).startswith(("damaged cubin", "not a cubin")):
            raise


def _machine_code(path: Path) -> None:
    try:
        read_machine_code(path.read_bytes())
    except ValueError as error:
        if not str(error).startswith(("damaged cubin", "not a cubin")):
            raise


def _program(path: Path) -> None:
    needed_libraries(path)


@dataclass
class _Listening:
    """What sessions need of a server."""

    gpu: Gpu
    recording: Recording
    listener: Notes
    exact: bool = True
    numbers: LaunchNumbers = field(default_factory=LaunchNumbers)


def _session(path: Path) -> None:
    """Messages of a program that are served until it closes the connection."""
    here, there = socket.socketpair()
    with here, there:
        sender = threading.Thread(target=_send, args=(here, path.read_bytes()))
        sender.start()
        Session(_Listening(load_gpu("h200"), Recording(launches=frozenset()), Notes()), there, 0).serve()
        there.close()
        sender.join()


def _send(connection: socket.socket, content: bytes) -> None:
    with suppress(OSError):
        connection.sendall(content)
        connection.shutdown(socket.SHUT_WR)
        while connection.recv(1 << 16):
            pass


def _settings(path: Path) -> None:
    """Settings of `warplens check`, in a folder of their own."""
    folder = path.parent / "project"
    (folder / ".git").mkdir(parents=True, exist_ok=True)
    (folder / "warplens.toml").write_bytes(path.read_bytes())
    load_project(folder)


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


def _list(path: Path) -> None:
    """A list of launches beside the trace that it names."""
    (path.parent / "kernel-1.traceg").write_bytes(_unpacked(_TRACED))
    _accelsim(path)


def _baseline(path: Path) -> None:
    read_baseline(path)


def _tuning(path: Path) -> None:
    """A tuning space, of warplens or of Kernel Tuner, beside its source; its first launch."""
    (path.parent / "squares.cu").write_text(SOURCE)
    space = read_space(path)
    first = space.configurations[0]
    space.extents("grid", first), space.extents("block", first)


def _measured(path: Path) -> None:
    read_results(path)


def _images(path: Path) -> None:
    read_images(path.read_bytes())


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


def _made_list(_folder: Path) -> list[bytes]:
    return [b"MemcpyHtoD,0x00007f5c1a000000,4096\nkernel-1.traceg\nMemcpyHtoD,0x00007f5c1a001000,64\n"]


def _packed_traces(_folder: Path) -> list[bytes]:
    return [_TRACED.read_bytes()]


def _gzipped_traces(_folder: Path) -> list[bytes]:
    return [gzip.compress(_unpacked(_TRACED), 1, mtime=0)]


def _made_baseline(folder: Path) -> list[bytes]:
    some = snapshot(lines=[(41, 0.7, 'x[i] = "a";')], counts={"fp32": 123456.0, "DRAM bytes": 1e6})
    kept = baseline_of([some, snapshot(gpu="a100")], [load_gpu("h200")], "NVRTC 13.3")
    write_baseline(folder / "sound.toml", kept)
    return [(folder / "sound.toml").read_bytes()]


def _made_space(_folder: Path) -> list[bytes]:
    return [SPACE.encode()]


def _made_t1(folder: Path) -> list[bytes]:
    return [write_t1(folder).read_bytes()]


def _made_measurements(_folder: Path) -> list[bytes]:
    row = {"threads": 64, "unroll": 1, "time": 1.5, "times": [1.5]}
    kept = {"device_name": "h200", "kernel_name": "squares", "tune_params_keys": ["threads", "unroll"]}
    kept["tune_params"] = {"threads": [64, 128], "unroll": [1, 2]}
    failed = {**row, "threads": 128, "time": "RuntimeFailedConfig"}
    return [json.dumps({**kept, "cache": {"64,1": row, "128,1": failed}}).encode()]


def _made_images(_folder: Path) -> list[bytes]:
    text = (DATA / "ptx/data/kernels.ptx").read_bytes()[:4096]
    packed = pa.Codec("zstd").compress(text, asbytes=True)
    return [fat(entry(text), entry(packed, flags=0x8000, unpacked=len(text)))]


_KERNEL = b"""
.version 8.0
.target sm_90
.address_size 64
.visible .global .align 4 .u32 count;
.visible .entry k(.param .u64 at, .param .u32 n)
{
    .reg .b64 %a; .reg .b32 %n;
    ld.param.u64 %a, [at];
    ld.param.u32 %n, [n];
    st.global.u32 [%a], %n;
    ret;
}
"""


def _made_messages(_folder: Path) -> list[bytes]:
    """A program that loads a kernel, launches it and asks for this and that."""

    def message(op: Op, *arguments: int, data: bytes = b"") -> bytes:
        return struct.pack("<II7q", op, len(data), *(*arguments, *[0] * 7)[:7]) + data

    texture = struct.pack("<5q10i4f", 1 << 40, 8, 1, 0, 64, 32, 1, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
    parameters = struct.pack("<QI", 0, 7)
    return [
        message(Op.HELLO)
        + message(Op.PROPERTIES, 13000)
        + message(Op.ATTRIBUTES, 16)
        + message(Op.ALLOCATE, 4096)
        + message(Op.MODULE, data=fat(entry(_KERNEL)))
        + message(Op.FUNCTION, data=b"k")
        + message(Op.SYMBOL, data=b"count")
        + message(Op.SYMBOL, data=b"none")
        + message(Op.MEMORY_INFO)
        + message(Op.OCCUPANCY, 0, 32)
        + message(Op.COPIED, 1, 4096, 0)
        + message(Op.EVENT_RECORD, 1, 0)
        + message(Op.LAUNCH, 0, 2, 1 | 1 << 32, 32 | 1 << 16 | 1 << 32, data=parameters)
        + message(Op.EVENT_RECORD, 2, 0)
        + message(Op.EVENT_WAIT, 2, 1)
        + message(Op.EVENT_ELAPSED, 1, 2)
        + message(Op.TEXTURE, 1, data=texture)
        + message(Op.LIMIT, 1, 2, 1 << 20)
        + message(Op.FREE, 4096)
        + message(Op.REFUSE, data=b"cudaGraphLaunch")
        + message(Op.SYNCHRONIZE)
    ]


_SETTINGS = b"""
[check]
paths = ["kernels", "bench"]
gpus = ["h200", "a100"]
baseline = "warplens.baseline.toml"
fail_above = "5%"
"""


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
        Kind("prediction", ".wlt", predicted.made, predicted.mutate, predicted.read),
        Kind("accelsim", ".traceg", _files(_TRACED), text, _accelsim),
        Kind("accelsim-list", ".g", _made_list, text, _list),
        Kind("accelsim-xz", ".traceg.xz", _packed_traces, raw, _accelsim),
        Kind("accelsim-gz", ".traceg.gz", _gzipped_traces, raw, _accelsim),
        Kind("ptx", ".ptx", _files(DATA / "ptx/data/kernels.ptx"), text, _ptx),
        Kind("cubin", ".cubin", _files(DATA / "cuda/data/nvcc.cubin.xz"), raw, _cubin),
        Kind("machine-code", ".cubin", _files(DATA / "cuda/data/lines.cubin.xz"), raw, _machine_code),
        Kind("program", ".elf", _files(Path(sys.executable).resolve()), raw, _program),
        Kind("sass", ".sass", lambda _: [_SASS], text, _sass),
        Kind("sass-launch", ".launch", _files(_RECORDED.with_suffix(".launch")), text, _recorded),
        Kind("sass-records", ".raw", _files(_RECORDED.with_suffix(".raw")), mutations.of_words, _recorded),
        Kind("nsight-csv", ".csv", _files(DATA / "ncu/data/features.csv"), text, _profile),
        Kind("nsight-rep", ".ncu-rep", _files(DATA / "ncu/data/features.ncu-rep"), of_report, _profile),
        Kind("sweep", ".parquet", _made_sweep, raw, _sweep, exact=True),
        Kind("result-cache", ".entry", _made_entry, raw, _kept, exact=True),
        Kind("fat-binary", ".fatbin", _made_images, raw, _images),
        Kind("settings", ".toml", lambda _: [_SETTINGS], text, _settings),
        Kind("baseline", ".toml", _made_baseline, text, _baseline),
        Kind("tuning-space", ".toml", _made_space, text, _tuning),
        Kind("kernel-tuner", ".json", _made_t1, mutations.of_json, _tuning),
        Kind("tuning-results", ".json", _made_measurements, mutations.of_json, _measured),
        Kind("page", ".json", _made_page, mutations.of_json, _page),
    ]
    if hasattr(os, "memfd_create"):
        found.append(Kind("messages", ".raw", _made_messages, mutations.of_messages, _session))
    return {kind.name: kind for kind in found}
