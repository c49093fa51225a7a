"""Counts of executed instructions for the recorded launches: a run of the program under Nsight Compute."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from ...errors import TraceError
from .counts import METRICS, Counts, read_counts
from .program_runs import standard_input
from .raw import RawLaunch

_SECONDS = 1800
#: Most characters of kernel names passed to the profiler (an argument has at most 128 KiB); beyond, it counts all.
_MOST_NAMES = 100_000


def count_executions(
    ncu: str,
    command: Sequence[str],
    recorded: Sequence[RawLaunch],
    launched: Sequence[str],
    folder: Path,
    environment: Mapping[str, str],
) -> dict[tuple[str, int], Counts]:
    """Counts of the recorded launches, by (kernel, index among its launches).

    `launched` names the kernels of all launches of the traced run, in order. The
    profiler counts from the first to the last recorded launch.
    """
    names = {launch.kernel for launch in recorded}
    pattern = "|".join(map(re.escape, sorted(names)))
    if len(pattern) > _MOST_NAMES:
        names, pattern = set(launched), ".*"
    wanted = {(launch.kernel, launch.occurrence) for launch in recorded}
    places, seen = [], Counter[str]()
    order: list[tuple[str, int]] = []
    for name in launched:
        if name in names:
            if (name, seen[name]) in wanted:
                places.append(len(order))
            order.append((name, seen[name]))
            seen[name] += 1
    if not places:
        return {}
    report, log = folder / "counts.ncu-rep", folder / "counts.log"
    run = [
        ncu, "--target-processes", "all", "--clock-control", "none", "--cache-control", "none", "--metrics", METRICS,
        "--kernel-name-base", "mangled", "--kernel-name", f"regex:^({pattern})$",
        "--launch-skip", str(places[0]), "--launch-count", str(places[-1] - places[0] + 1), "--log-file", str(log),
        "--force-overwrite", "--export", str(report), *command,
    ]  # fmt: skip
    code = _run(run, environment)
    if not report.is_file():
        words = log.read_text(errors="replace") if log.is_file() else ""
        errors = [line for line in words.splitlines() if "ERROR" in line] or [code]
        raise TraceError(f"Nsight Compute says: {errors[0].replace('==ERROR==', '').strip()[:300]}")
    pages = [folder / f"{page}.csv" for page in ("source", "raw")]
    for page in pages:  # to files: thousands of launches make them long
        command = [ncu, "--import", str(report), "--page", page.stem, "--csv", "--print-kernel-base", "mangled"]
        with page.open("wb") as out:
            subprocess.run(command, stdout=out, stderr=subprocess.DEVNULL, check=False)
    with pages[0].open(errors="replace") as source, pages[1].open(errors="replace") as raw:
        counted = read_counts(source, raw)
    return _by_launch(counted, order[: places[0]], order[places[0] : places[-1] + 1])


def _run(command: list[str], environment: Mapping[str, str]) -> str:
    """Run the profiler; returns how it ended. If it takes too long, it is killed with its children."""
    nowhere = subprocess.DEVNULL
    with standard_input(nowhere) as given:
        try:
            process = subprocess.Popen(
                command, stdin=given, stdout=nowhere, stderr=nowhere, env=dict(environment), start_new_session=True
            )
        except OSError as error:
            raise TraceError(f"Nsight Compute cannot be run ({error.strerror})") from None
        try:
            return f"exit code {process.wait(_SECONDS)}"
        except BaseException as error:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            if isinstance(error, subprocess.TimeoutExpired):
                raise TraceError(f"Nsight Compute took more than {_SECONDS} s; trace fewer launches") from None
            raise


def _by_launch(
    counted: Iterable[tuple[str, Counts | None]],
    skipped: Iterable[tuple[str, int]],
    expected: Iterable[tuple[str, int]],
) -> dict[tuple[str, int], Counts]:
    """The counts by launch, in the order in which each kernel was launched.

    Different kernels may run in another order than in the traced run, for example
    branches of a CUDA graph, or launches from several threads.
    """
    seen = Counter(name for name, _ in skipped)
    possible = set(expected)
    result: dict[tuple[str, int], Counts] = {}
    for name, counts in counted:
        key = name, seen[name]
        if key not in possible:
            raise TraceError("the program launched different kernels when it was counted and when it was traced")
        seen[name] += 1
        if counts is not None:
            result[key] = counts
    return result
