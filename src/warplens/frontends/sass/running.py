"""Runs of the program: untraced for its time, and traced, with what goes wrong told from what does not."""

from __future__ import annotations

import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ...errors import InputError, TraceError, WarplensError
from .raw import RawLaunch, read_launch

#: How the injected library says that a kernel ended in an error.
_FAILED = "waiting for the kernel"
#: Kinds of accesses that are left alone, in one attempt after the other. Where accesses to shared memory of other
#: blocks are patched, kernels with generic loads or stores fail (seen on an H200): these are never patched.
_LEFT_ALONE = (("remote",), ("remote", "shared"), ("remote", "shared", "local"))


@dataclass
class Run:
    """What a traced run left."""

    seconds: float
    launches: list[RawLaunch] = field(default_factory=list)
    launched: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    """Modules and launches that could not be recorded, and why."""
    starts: list[str] = field(default_factory=list)
    """Why the tracer could not start in some process, which may have been one that uses no GPU."""
    notes: list[str] = field(default_factory=list)
    processes: int = 0


def run_timed(
    program: list[str], environment: Mapping[str, str], *, quiet: bool = False, output: int | None = None
) -> tuple[float, int]:
    began = time.perf_counter()
    stream = subprocess.DEVNULL if quiet else None
    out = stream if quiet else output
    try:
        ran = subprocess.run(program, env=dict(environment), stdin=stream, stdout=out, stderr=stream, check=False)
    except OSError as error:
        raise InputError(f"{program[0]}: cannot be executed ({error.strerror or error})") from None
    return time.perf_counter() - began, ran.returncode


def run_traced(
    program: list[str],
    environment: Mapping[str, str],
    folder: Path,
    accept_failure: bool,
    untraced_code: int | None,
    program_output: int | None,
    say: Callable[[str], None],
) -> tuple[Run, list[str]]:
    """(what the traced run left, warnings); what tracing disturbs is traced again with fewer kinds of accesses."""
    for attempt, left_alone in enumerate(_LEFT_ALONE):
        spaces = " and ".join(left_alone[1:])
        say("running the program traced" + (f", but for accesses to {spaces} memory" if spaces else ""))
        settings = {**environment, "WARPLENS_TRACE_SKIP": ",".join(left_alone)}
        try:
            run = _attempt(program, settings, folder, accept_failure, untraced_code, program_output)
        except _DisturbedError:
            if attempt == len(_LEFT_ALONE) - 1:
                raise
            for process in folder.glob("process-*"):
                shutil.rmtree(process)
            continue
        break
    words = f"accesses to {spaces} memory have no addresses in the trace: the program fails with them patched"
    return run, [words] if spaces else []


class _DisturbedError(WarplensError):
    """The program failed while being traced, and not, as far as is known, untraced."""


def _attempt(
    program: list[str],
    environment: Mapping[str, str],
    folder: Path,
    accept_failure: bool,
    untraced_code: int | None,
    program_output: int | None,
) -> Run:
    seconds, code = run_timed(program, environment, output=program_output)
    run = Run(seconds)
    for process in sorted(folder.glob("process-*"), key=lambda each: each.stat().st_mtime_ns):
        run.processes += 1
        run.launches += sorted(map(read_launch, process.glob("launch-*.launch")), key=lambda each: each.index)
        for name in ("errors", "left_out", "starts", "notes", "launched"):
            path = process / name
            if path.is_file():
                getattr(run, name).extend(path.read_text(errors="replace").splitlines())
    usual = code > 0 and code == untraced_code and not run.errors  # not every program returns 0
    if usual:
        run.notes.append(f"{program[0]} exits with code {code}, traced or not")
    elif code and not accept_failure:
        how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"exited with code {code}"
        problems = [*run.errors, *run.left_out]
        words = f" ({problems[0]})" if problems else ""
        untraced = {None: "If it does so untraced too, mend it", 0: "Untraced it exits with code 0"}.get(
            untraced_code, "It fails untraced too: mend it"
        )
        kind = _DisturbedError if untraced_code in (None, 0) else WarplensError
        raise kind(
            f"{program[0]} {how} while being traced{words}; {len(run.launches)} launches had been recorded, "
            f"nothing is written. {untraced}"
        )
    if failed := [text for text in run.errors if text.startswith(_FAILED)]:  # not every program looks for errors
        raise _DisturbedError(f"a kernel failed while being traced ({failed[0]}); nothing is written")
    return run


def check_run(run: Run, regex: str | None, launches: Iterable[int] | None) -> None:
    if run.errors:
        raise WarplensError(f"tracing failed: {'; '.join(dict.fromkeys(run.errors))}; nothing is written")
    if not run.launches:
        if run.starts:
            raise WarplensError(f"tracing could not start: {'; '.join(dict.fromkeys(run.starts))}")
        if not run.processes:
            raise TraceError(
                "the program used no GPU; a program that is linked statically or set-uid cannot be traced"
            )
        if not run.launched:
            raise TraceError("the program launched no kernels")
        if run.left_out:
            raise WarplensError(f"no launch could be recorded: {'; '.join(dict.fromkeys(run.left_out))}")
        names = sorted(set(run.launched))
        shown = ", ".join(names[:5]) + (", …" if len(names) > 5 else "")
        what = f"matches {regex!r}" if regex else "was selected"
        raise TraceError(f"of {len(run.launched)} launches none {what}; kernels launched: {shown}")
    for launch in run.launches:
        if launch.dropped or launch.raw_limited:
            full = "the GPU memory kept for them" if launch.dropped else "the space allowed for all launches"
            raise TraceError(
                f"launch {launch.index} ({launch.readable}) made {launch.head_bytes / 2**20:.1f} MiB of records, "
                f"more than {full} can hold ({launch.dropped} were dropped); nothing is written: trace fewer "
                "blocks or launches, or allow more space"
            )
