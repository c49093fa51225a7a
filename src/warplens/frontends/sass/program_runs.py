"""Runs the program untraced (for its time) and traced, and detects failures that tracing causes."""

from __future__ import annotations

import os
import shutil
import signal
import stat
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ...errors import InputError, TraceError, WarplensError
from .raw import RawLaunch, read_launch

#: Start of the injected library's message about a failed kernel.
_FAILED = "waiting for the kernel"
#: Kinds of accesses not to patch, attempt by attempt. Accesses to shared memory of other blocks are never patched:
#: otherwise kernels with generic loads or stores fail (observed on an H200).
_LEFT_ALONE = (("remote",), ("remote", "shared"), ("remote", "shared", "local"))
#: A traced run that exceeds these seconds and this multiple of the untraced time may never end.
_PATIENCE_SECONDS, _PATIENCE_TIMES = 60.0, 20.0


@dataclass
class Run:
    """The results of a traced run."""

    seconds: float
    launches: list[RawLaunch] = field(default_factory=list)
    launched: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    """Modules and launches that could not be recorded, and why."""
    starts: list[str] = field(default_factory=list)
    """Why the tracer could not start in some process, possibly one that uses no GPU."""
    notes: list[str] = field(default_factory=list)
    processes: int = 0


@contextmanager
def standard_input(otherwise: int | None) -> Iterator[int | None]:
    """Standard input for one of several runs. Each reads a file from its start; others can be read only once."""
    try:
        again = os.open("/dev/stdin", os.O_RDONLY) if stat.S_ISREG(os.fstat(0).st_mode) else None
    except OSError:  # there is none, or it cannot be opened again
        again = None
    try:
        yield otherwise if again is None else again
    finally:
        if again is not None:
            os.close(again)


def run_untraced(program: list[str]) -> tuple[float, int]:
    """(seconds, exit code) of a run without visible output."""
    with standard_input(subprocess.DEVNULL) as given:
        return _timed(program, os.environ, stdin=given, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def _timed(
    program: list[str],
    environment: Mapping[str, str],
    patience_seconds: float | None = None,
    lose_patience: Callable[[], None] | None = None,
    **streams: Any,
) -> tuple[float, int]:
    began = time.perf_counter()
    try:
        process = subprocess.Popen(program, env=dict(environment), **streams)
    except OSError as error:
        raise InputError(f"{program[0]}: cannot be executed ({error.strerror or error})") from None
    try:
        try:
            process.wait(patience_seconds)
        except subprocess.TimeoutExpired:
            if lose_patience is not None:
                lose_patience()
            process.wait()
    except BaseException:
        process.kill()
        raise
    return time.perf_counter() - began, process.returncode


class _DisturbedError(WarplensError):
    """The program failed while being traced, but not, as far as known, untraced."""


@dataclass(frozen=True)
class Tracing:
    """A program to trace."""

    program: list[str]
    environment: Mapping[str, str]
    folder: Path
    """Folder for raw records."""
    accept_failure: bool = False
    untraced_seconds: float | None = None
    untraced_code: int | None = None
    output: int | None = None
    """The file descriptor for what the program prints."""
    say: Callable[[str], None] = lambda text: None

    def run(self) -> tuple[Run, list[str]]:
        """(results, warnings). If tracing disturbs the program, it runs again with fewer kinds patched."""
        for attempt, left_alone in enumerate(_LEFT_ALONE):
            spaces = " and ".join(left_alone[1:])
            self.say("running the program traced" + (f", without accesses to {spaces} memory" if spaces else ""))
            try:
                run = self._attempt(",".join(left_alone))
            except _DisturbedError:
                if attempt == len(_LEFT_ALONE) - 1:
                    raise
                for process in self.folder.glob("process-*"):
                    shutil.rmtree(process)
                continue
            break
        words = f"the trace has no addresses of {spaces} memory: the program fails if these accesses are patched"
        return run, [words] if spaces else []

    def _attempt(self, left_alone: str) -> Run:
        patience = max(_PATIENCE_SECONDS, _PATIENCE_TIMES * (self.untraced_seconds or 0.0))
        environment = {**self.environment, "WARPLENS_TRACE_SKIP": left_alone}
        with standard_input(None) as given:
            seconds, code = _timed(
                self.program, environment, patience, lambda: self._wonder(patience), stdin=given, stdout=self.output
            )
        run = Run(seconds)
        for process in sorted(self.folder.glob("process-*"), key=lambda each: each.stat().st_mtime_ns):
            run.processes += 1
            before = Counter(run.launched)  # launches of other processes, each of which counts from 0
            run.launches += [
                replace(each, index=each.index + before.total(), occurrence=each.occurrence + before[each.kernel])
                for each in sorted(map(read_launch, process.glob("launch-*.launch")), key=lambda each: each.index)
            ]
            for name in ("errors", "left_out", "starts", "notes", "launched"):
                path = process / name
                if path.is_file():
                    getattr(run, name).extend(path.read_text(errors="replace").splitlines())
        self._judge(run, code)
        return run

    def _wonder(self, seconds: float) -> None:
        untraced = "" if self.untraced_seconds is None else f", untraced it took {self.untraced_seconds:.1f} s"
        self.say(
            f"the program is still running after {seconds:.0f} s{untraced}. If it never ends, one of its kernels may "
            "wait for the host or for a later kernel, which cannot be recorded: exclude it with --kernel or --launch"
        )

    def _judge(self, run: Run, code: int) -> None:
        name = self.program[0]
        if code > 0 and code == self.untraced_code and not run.errors:  # its normal exit code
            run.notes.append(f"{name} exits with code {code}, traced or not")
        elif code and not self.accept_failure:
            how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"exited with code {code}"
            problems = [*run.errors, *run.left_out]
            words = f" ({problems[0]})" if problems else ""
            untraced = {
                None: "If it also fails untraced, fix it first",
                0: "Untraced it exits with code 0. If it needs the GPU's memory, reserve less for records with "
                "--record-memory",
            }.get(self.untraced_code, "It also fails untraced: fix it first")
            kind = _DisturbedError if self.untraced_code in (None, 0) else WarplensError
            raise kind(
                f"{name} {how} while being traced{words}; {len(run.launches)} launches had been recorded, "
                f"nothing is written. {untraced}"
            )
        if failed := [text for text in run.errors if text.startswith(_FAILED)]:  # not every program checks for errors
            raise _DisturbedError(f"a kernel failed while being traced ({failed[0]}); nothing is written")


def check_run(run: Run, regex: str | None, raw_limit_bytes: int) -> None:
    """Raise an error if the run is unusable."""
    if run.errors:
        raise WarplensError(f"tracing failed: {'; '.join(dict.fromkeys(run.errors))}; nothing is written")
    if not run.launches:
        why = "".join(f"; {text}" for text in dict.fromkeys(run.notes))
        if run.starts:
            raise WarplensError(f"tracing could not start: {'; '.join(dict.fromkeys(run.starts))}")
        if not run.processes:
            raise TraceError(
                f"the program used no GPU{why}; a program that is linked statically or set-uid cannot be traced"
            )
        if not run.launched:
            raise TraceError(f"the program launched no kernels{why}")
        if run.left_out:
            raise WarplensError(f"no launch could be recorded: {'; '.join(dict.fromkeys(run.left_out))}")
        names = sorted(set(run.launched))
        shown = ", ".join(names[:5]) + (", …" if len(names) > 5 else "")
        what = f"matches {regex!r}" if regex else "was selected"
        raise TraceError(f"of {len(run.launched)} launches none {what}; kernels launched: {shown}")
    for launch in run.launches:
        if launch.dropped:
            fitting = int(0.9 * launch.block_limit * launch.capacity_bytes / launch.head_bytes)
            fewer = f" (--max-blocks {fitting} of {launch.block_limit})" if fitting else ""
            raise TraceError(
                f"launch {launch.index} ({launch.readable}) made {_gib(launch.head_bytes)} of records, more than the "
                f"{_gib(launch.capacity_bytes)} of GPU memory kept for them ({launch.dropped} were dropped); nothing "
                f"is written: record fewer of its thread blocks{fewer} or other launches (--kernel, --launch), or "
                "keep more memory (--record-memory)"
            )
    if limited := [launch for launch in run.launches if launch.raw_limited]:
        raise TraceError(
            f"the records of {len(limited)} of {len(run.launches)} launches, from launch {limited[0].index} "
            f"({limited[0].readable}) on, do not fit into the {_gib(raw_limit_bytes)} allowed beside the output; "
            "nothing is written: record fewer launches (--kernel, --launch) or thread blocks (--max-blocks), or put "
            "the output on a disk with more space"
        )


def _gib(size: float) -> str:
    return f"{size / 2**30:.1f} GiB" if size >= 2**30 else f"{size / 2**20:.1f} MiB"
