"""Measures and traces the launches of built programs: what a prediction of unprepared programs is judged by.

On a machine with a GPU, ncu and the CUDA toolkit:

    python3 benchmarks/h200/measure_programs.py run LIST.toml FOLDER [--most-seconds S] [--only NAME…]

LIST.toml describes the programs; commands and working folders are relative to it:

    [[program]]
    name = "gemm"
    suite = "PolyBench/GPU"
    source = "github.com/… at commit …"
    command = ["bin/gemm", "1024"]
    folder = "."           # optional
    seconds = 60           # optional: the most that one run of the program may take, counted or traced

Nsight Compute counts the first launches of each program, one program at a time. Of those above 10 000 cycles, some
that differ are traced as `warplens trace --on-gpu` does, programs side by side. FOLDER/programs.json has the figures,
FOLDER/traces the traces. The same command again does what is missing.

    python3 benchmarks/h200/measure_programs.py pack FOLDER OUT
    python benchmarks/h200/measure_programs.py unpack OUT FOLDER

put the traces into a few small archives for the way between two machines, and back.

    python benchmarks/h200/measure_programs.py collect programs.json FOLDER…

makes the committed figures (validate/data/h200/programs.json in studies).
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import io
import json
import lzma
import math
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import time
import tomllib
import zipfile
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO, Any

import pyarrow as pa

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "src")]
WARPLENS = [sys.executable, "-c", "from warplens.cli.main import main; main()"]

#: Shorter launches are not measured: their time is mostly that of starting.
LEAST_CYCLES = 10_000
#: Launches of a program that are counted, and those that are chosen of them.
COUNTED, CHOSEN = 16, 3
#: A second launch of a kernel is chosen if its cycles differ by this factor.
DIFFERENT = 1.3
#: Warp instructions to record of a launch, at most: all waves, two, one, or some blocks of the first.
MOST_INSTRUCTIONS = 2_500_000
#: Traces of longer launches take minutes to predict from: figures leave them out.
MOST_RECORDED = 25_000_000
#: For one run of a program under the profiler, and traced: the first ones also compile the tracer.
SECONDS, TRACE_SECONDS = 25.0, 45.0
#: Size and number of the archives.
PACK_BYTES, MOST_PACKS = 15 << 20, 4
#: At least a block for each of the SMs.
LEAST_BLOCKS = 132
#: No batch begins with less time left.
MARGIN_SECONDS = 40.0

STALLS = (
    *("barrier", "branch_resolving", "dispatch_stall", "drain", "imc_miss", "lg_throttle", "long_scoreboard"),
    *("math_pipe_throttle", "membar", "mio_throttle", "misc", "no_instruction", "not_selected", "selected"),
    *("short_scoreboard", "sleeping", "tex_throttle", "wait"),
)
METRICS = {
    "elapsed_cycles": "sm__cycles_elapsed.max",
    "warp_instructions": "smsp__inst_executed.sum",
    "waves": "launch__waves_per_multiprocessor",
    "active_cycles": "sm__cycles_active.avg",
    "duration_ns": "gpu__time_duration.sum",
    "thread_instructions": "smsp__thread_inst_executed.sum",
    "issued_instructions": "smsp__inst_issued.sum",
    "l1_hit_percent": "l1tex__t_sector_hit_rate.pct",
    "l2_hit_percent": "lts__t_sector_hit_rate.pct",
    "l2_bytes": "lts__t_bytes.sum",
    "dram_read_bytes": "dram__bytes_read.sum",
    "dram_write_bytes": "dram__bytes_write.sum",
    "occupancy_percent": "sm__warps_active.avg.pct_of_peak_sustained_active",
    "registers": "launch__registers_per_thread",
    "shared_config_bytes": "launch__shared_mem_config_size",
    "load_requests": "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum",
    "load_sectors": "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
    "store_requests": "l1tex__t_requests_pipe_lsu_mem_global_op_st.sum",
    "store_sectors": "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum",
    "l1_wavefronts": "l1tex__data_pipe_lsu_wavefronts.sum",
    "shared_wavefronts": "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum",
    "l2_read_sectors": "lts__t_sectors_op_read.sum",
    "l2_write_sectors": "lts__t_sectors_op_write.sum",
    **{f"stall_{name}": f"smsp__average_warps_issue_stalled_{name}_per_issue_active.ratio" for name in STALLS},
}
Program = dict[str, Any]
Launch = dict[str, Any]


class Runner:
    """Runs commands of the programs on a list, each within its time."""

    def __init__(self, home: Path, ends: float) -> None:
        self.home, self.ends = home, ends

    def left(self) -> float:
        return self.ends - time.monotonic()

    def __call__(
        self, program: Program, before: list[str], most_seconds: float = SECONDS
    ) -> tuple[int | None, str, str]:
        """(exit code or None if time ran out, output, errors) of a command with the program's at its end."""
        command = [*before, str((self.home / program["command"][0]).resolve()), *program["command"][1:]]
        seconds = min(program.get("seconds", most_seconds), self.left())
        if seconds <= 0:
            return None, "", "no time is left"
        process = subprocess.Popen(
            command, cwd=self.home / program.get("folder", "."), start_new_session=True, text=True, errors="replace",
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        )  # fmt: skip
        try:
            out, err = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            # The profiler's children would go on without it.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            return None, "", f"ran longer than {seconds:.0f} s"
        return process.returncode, out, err


def measured(runner: Runner, program: Program) -> Program:
    """The program with the chosen ones of its first launches, and their counters."""
    flags = ["--clock-control", "none", "--csv", "--page", "raw", "--print-units", "base", "--print-kernel-base"]
    flags += ["mangled", "--launch-count", str(COUNTED), "--metrics", ",".join(METRICS.values())]
    code, out, err = runner(program, ["ncu", *flags])
    rows = list(csv.DictReader(line for line in out.splitlines() if line.startswith('"')))[1:]  # the first has units
    if not rows:
        errors = [line for line in out.splitlines() if "==ERROR==" in line] or err.splitlines()[-1:]
        return {**program, "error": f"no launch was seen: exit code {code}; {'; '.join(errors)[:300]}"}
    return {**program, "launches": chosen([_launch(index, row) for index, row in enumerate(rows)])}


def _launch(index: int, row: dict[str, str]) -> Launch:
    sizes = {name: [int(n) for n in re.findall(r"\d+", row[f"{name.title()} Size"])] for name in ("grid", "block")}
    values = {name: row.get(metric, "").replace(",", "") for name, metric in METRICS.items()}
    numbers = {name: float(text) for name, text in values.items() if re.fullmatch(r"[-+.\deE]+", text)}
    return {"launch": index, "kernel": row["Kernel Name"], **sizes, "measured": numbers}


def chosen(found: list[Launch]) -> list[Launch]:
    """Of each kernel the first launch that is long enough and the one that differs most, if it does."""
    kernels: dict[tuple[Any, ...], list[Launch]] = defaultdict(list)
    for launch in found:
        if launch["measured"].get("elapsed_cycles", 0) >= LEAST_CYCLES:
            kernels[launch["kernel"], *launch["block"]].append(launch)
    longest = sorted(kernels.values(), key=lambda each: -sum(map(_cycles, each)))
    firsts = [each[0] for each in longest]
    others = []
    for each in longest:
        other = max(each, key=lambda launch: abs(math.log(_cycles(launch) / _cycles(each[0]))))
        if not 1 / DIFFERENT < _cycles(other) / _cycles(each[0]) < DIFFERENT:
            others.append(other)
    return sorted((firsts + others)[:CHOSEN], key=lambda launch: launch["launch"])


def _cycles(launch: Launch) -> float:
    return float(launch["measured"]["elapsed_cycles"])


def traced(runner: Runner, program: Program, folder: Path) -> Program:
    """The program with traces of its chosen launches; those with the same limit share a run."""
    limits: dict[tuple[str, int], list[Launch]] = defaultdict(list)
    for launch in program["launches"]:
        limits[_limit(launch)].append(launch)
    errors = []
    for (kind, most), some in limits.items():
        path = (folder / f"{program['name']}-{kind}{most}.wlt").resolve()
        options: dict[str, Any] = {"launches": [launch["launch"] for launch in some]}
        if kind != "all":
            options[kind] = most
        before = [sys.executable, __file__, "trace", str(path), json.dumps(options)]
        _, out, err = runner(program, before, TRACE_SECONDS)
        try:
            summary = json.loads(out.splitlines()[-1])
        except (ValueError, IndexError):
            errors.append(f"launches {options['launches']}: {err.strip()[-300:]}")
            continue
        kept = {each["launch"]: each for each in summary["launches"]}
        for launch in some:
            if found := kept.get(launch["launch"]):
                launch["trace"] = path.name
                launch["traced"] = {key: found[key] for key in ("blocks_traced", "exactness")}
    return {**program, "not_traced": errors, "done": True}


def trace(options: argparse.Namespace) -> None:
    """Trace a program without the runs that only tell what tracing costs."""
    from warplens.frontends.sass import trace_program

    found = trace_program(options.program, options.target, baseline=False, program_output=2, **options.options)
    print("\n" + json.dumps(found.to_dict()))


def _limit(launch: Launch) -> tuple[str, int]:
    """What to record of a launch, so that its trace stays small."""
    instructions, waves = (launch["measured"].get(name, 0.0) for name in ("warp_instructions", "waves"))
    if instructions <= MOST_INSTRUCTIONS or not waves:
        return "all", 0
    for some in (2, 1):
        if instructions * some / waves <= MOST_INSTRUCTIONS and waves > some:
            return "waves", some
    blocks = math.prod(launch["grid"])
    return "max_blocks", min(blocks, max(math.ceil(blocks * MOST_INSTRUCTIONS / instructions), LEAST_BLOCKS))


class State:
    """The figures so far, in a file that survives an interruption."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.document: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {"programs": {}}

    def __getitem__(self, name: str) -> Program:
        found: Program = self.document["programs"].get(name, {})
        return found

    def keep(self, program: Program) -> None:
        self.document["programs"][program["name"]] = program
        self.path.write_text(json.dumps(self.document, indent=1))

    def about(self, words: dict[str, str]) -> None:
        self.document["about"] = words


def run(options: argparse.Namespace) -> None:
    """Measure some programs, each alone, then trace them side by side, and go on with the next ones."""
    listed = [each for each in tomllib.loads(options.list.read_text())["program"] if _wanted(each, options.only)]
    traces = options.folder / "traces"
    traces.mkdir(parents=True, exist_ok=True)
    state = State(options.folder / "programs.json")
    state.about(_about())
    runner = Runner(options.list.parent, time.monotonic() + options.most_seconds)
    began = time.monotonic()

    def step(name: str, work: Callable[[Program], Program], programs: list[Program], jobs: int) -> list[Program]:
        going = [each for each in programs if not each.get("error") and each.get("launches", True)]
        with ThreadPoolExecutor(jobs) as pool:
            after = []
            for each in pool.map(lambda program: _timed(work, program, name), going):
                state.keep(each)
                words = (
                    each.get("error")
                    or f"{sum(name == 'measure' or 'trace' in one for one in each['launches'])} launches"
                )
                at = time.monotonic() - began
                print(f"{at:6.1f} {name} {each['name']} {each['seconds_of'][name]:.1f} s: {words}", flush=True)
                after.append(each)
        return after

    missing = [each for each in listed if not state[each["name"]].get("done")]
    for first in range(0, len(missing), options.batch):
        if runner.left() < MARGIN_SECONDS:
            print(f"time is up: {len(missing) - first} programs are left out")
            break
        some = missing[first : first + options.batch]
        counted = [state[each["name"]] for each in some if "launches" in state[each["name"]]]
        others = [each for each in some if "launches" not in state[each["name"]]]
        counted += step("measure", lambda each: measured(runner, each), others, 1)
        step("trace", lambda each: traced(runner, each, traces), counted, options.jobs)


def _wanted(program: Program, only: list[str] | None) -> bool:
    return not only or program["name"] in only


def _timed(work: Callable[[Program], Program], program: Program, name: str) -> Program:
    began = time.monotonic()
    try:
        done = work(program)
    except (OSError, KeyError, ValueError) as error:  # one program must not cost the others
        done = {**program, "error": f"{type(error).__name__}: {error}"}
    return {**done, "seconds_of": {**program.get("seconds_of", {}), name: time.monotonic() - began}}


def _about() -> dict[str, str]:
    from warplens._version import __version__

    def said(*command: str) -> str:
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()

    query = "--query-gpu=name,driver_version,clocks.max.sm,clocks.max.mem"
    return {
        "GPU": said("nvidia-smi", query, "--format=csv,noheader"),
        "profiler": said("ncu", "--version").splitlines()[-1] + ", --clock-control none, caches flushed",
        "command": "benchmarks/h200/measure_programs.py run LIST.toml FOLDER",
        "warplens": __version__,
    }


def pack(folder: Path, out: Path) -> None:
    """Archives of traces, each of at most `PACK_BYTES`; if they are too many, the largest traces stay behind."""
    out.mkdir(parents=True, exist_ok=True)
    traces = sorted((folder / "traces").glob("*.wlt"))
    with ThreadPoolExecutor(os.cpu_count()) as pool:  # compression releases the interpreter
        packed = dict(zip([f"{path.name}.xz" for path in traces], pool.map(_packed, traces), strict=True))
    archives: list[list[str]] = [[]]
    filled = 0
    for name in sorted(packed, key=lambda name: len(packed[name])):
        if archives[-1] and filled + len(packed[name]) > PACK_BYTES:
            archives.append([])
            filled = 0
        archives[-1].append(name)
        filled += len(packed[name]) + 1024
    for number, names in enumerate(archives):
        if number >= MOST_PACKS or sum(len(packed[name]) for name in names) > PACK_BYTES:
            print("left behind:", *(f"{name} ({len(packed[name])} bytes)" for name in names))
            continue
        with tarfile.open(out / f"traces-{number}.tar", "w") as archive:
            for name in names:
                entry = tarfile.TarInfo(name)
                entry.size = len(packed[name])
                archive.addfile(entry, io.BytesIO(packed[name]))
    shutil.copy(folder / "programs.json", out)


def _packed(path: Path) -> bytes:
    """A trace whose repetitions are found across all its warps, which its own compression does not see."""
    plain = io.BytesIO()
    _recoded(path, plain, None)
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 1, "dict_size": 1 << 26}]
    return lzma.compress(plain.getbuffer(), filters=filters)


def unpack(source: Path, folder: Path) -> None:
    """The traces of the archives, as they were recorded."""
    (folder / "traces").mkdir(parents=True, exist_ok=True)
    for path in sorted(source.glob("traces-*.tar")):
        with tarfile.open(path) as archive:
            for entry in archive:
                data = archive.extractfile(entry)
                assert data is not None
                target = folder / "traces" / Path(entry.name).name.removesuffix(".xz")
                with target.open("wb") as file:
                    _recoded(io.BytesIO(lzma.decompress(data.read())), file, "zstd")
    shutil.copy(source / "programs.json", folder)


def _recoded(source: Path | IO[bytes], target: IO[bytes], compression: str | None) -> None:
    """Copy a trace file with another compression of its columns."""
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w") as new:
        for entry in old.infolist():
            with old.open(entry) as before, new.open(entry.filename, "w", force_zip64=True) as after:
                if not entry.filename.endswith(".arrow"):
                    shutil.copyfileobj(before, after)
                    continue
                stream = pa.ipc.open_stream(before)
                with pa.ipc.new_stream(after, stream.schema, options=options) as out:
                    for batch in stream:
                        out.write_batch(batch)


def collect(target: Path, folders: list[Path]) -> None:
    """Write the figures of all traced launches, one line each, without what only this script needs."""
    about: dict[str, Any] = {}
    programs: dict[str, Any] = {}
    launches: list[Launch] = []
    for folder in folders:
        document = json.loads((folder / "programs.json").read_text())
        about = document["about"]
        for name, program in document["programs"].items():
            traced = [launch for launch in program.get("launches", ()) if "trace" in launch and _counts(launch)]
            if program.get("done") and traced and name not in programs:
                programs[name] = {key: program[key] for key in ("suite", "source", "command")}
                launches += [_figures(name, launch) for launch in traced]
    for launch, name in zip(launches, readable([launch["kernel"] for launch in launches]), strict=True):
        launch["kernel"] = name
    lines = ",\n".join(json.dumps(launch) for launch in launches)
    named = ",\n".join(f"{json.dumps(name)}: {json.dumps(program)}" for name, program in programs.items())
    text = f'{{"about": {json.dumps(about)},\n"programs": {{\n{named}\n}},\n"launches": [\n{lines}\n]}}\n'
    target.write_text(text, encoding="utf-8")
    print(f"{target}: {len(launches)} launches of {len(programs)} programs")


def readable(kernels: list[str]) -> list[str]:
    """Names of kernels as in their source, without types."""
    names = subprocess.run(["c++filt", *kernels], capture_output=True, text=True, check=True).stdout.splitlines()
    return [re.sub(r"^(?:.*[ :])?(\w+)(?:<.*>)?\(.*$", r"\1", name) for name in names]


def _counts(launch: Launch) -> bool:
    """Whether a launch is long enough, and its trace short enough."""
    return _cycles(launch) >= LEAST_CYCLES and launch["traced"]["exactness"]["instructions"] <= MOST_RECORDED


def _figures(program: str, launch: Launch) -> Launch:
    exactness = launch["traced"]["exactness"]
    numbers = {name: int(value) if value == int(value) else value for name, value in launch["measured"].items()}
    return {
        "program": program,
        **{key: launch[key] for key in ("launch", "kernel", "grid", "block", "trace")},
        "blocks": math.prod(launch["grid"]),
        "recorded_blocks": launch["traced"]["blocks_traced"],
        **{
            f"recorded_{key}" if key == "instructions" else key: exactness[key]
            for key in ("instructions", "exact_share")
        },
        "measured": numbers,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    runs = commands.add_parser("run")
    runs.add_argument("list", type=Path)
    runs.add_argument("folder", type=Path)
    runs.add_argument("--only", nargs="*", help="some of the programs")
    runs.add_argument("--most-seconds", type=float, default=540.0)
    runs.add_argument("--jobs", type=int, default=min(14, os.cpu_count() or 1))
    runs.add_argument("--batch", type=int, default=35, help="programs that are measured before they are traced")
    runs.set_defaults(work=run)
    traces = commands.add_parser("trace", help="one program; what `run` uses")
    traces.add_argument("target", type=Path)
    traces.add_argument("options", type=json.loads, help="of trace_program, as JSON")
    traces.add_argument("program", nargs=argparse.REMAINDER)
    traces.set_defaults(work=trace)
    for name, work in (("pack", pack), ("unpack", unpack)):
        command = commands.add_parser(name)
        command.add_argument("source", type=Path)
        command.add_argument("target", type=Path)
        command.set_defaults(work=lambda options, work=work: work(options.source, options.target))
    collects = commands.add_parser("collect", help="figures of several folders for validate/data/h200 in studies")
    collects.add_argument("target", type=Path)
    collects.add_argument("folders", nargs="+", type=Path)
    collects.set_defaults(work=lambda options: collect(options.target, options.folders))
    options = parser.parse_args()
    options.work(options)


if __name__ == "__main__":
    main()
