"""Counts of executed instructions for the recorded launches: a run of the program under Nsight Compute."""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from ...errors import TraceError
from .counts import METRICS, Counts, read_counts
from .raw import RawLaunch

_SECONDS = 1800


def count_executions(
    ncu: str,
    command: Sequence[str],
    recorded: Sequence[RawLaunch],
    launched: Sequence[str],
    folder: Path,
    environment: Mapping[str, str],
) -> dict[tuple[str, int], Counts]:
    """Counts by (kernel, which launch of it) of the launches that were recorded.

    `launched` names the kernels of all launches of the traced run, in order: of
    those that were recorded at all, the profiler takes the first to the last.
    """
    names = sorted({launch.kernel for launch in recorded})
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
        "--kernel-name-base", "mangled", "--kernel-name", f"regex:^({'|'.join(map(re.escape, names))})$",
        "--launch-skip", str(places[0]), "--launch-count", str(places[-1] - places[0] + 1), "--log-file", str(log),
        "--force-overwrite", "--export", str(report), *command,
    ]  # fmt: skip
    try:
        ran = subprocess.run(
            run, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            env=dict(environment), timeout=_SECONDS, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise TraceError(f"Nsight Compute does not run ({type(error).__name__})") from None
    if not report.is_file():
        words = log.read_text(errors="replace") if log.is_file() else ""
        errors = [line for line in words.splitlines() if "ERROR" in line] or [f"exit code {ran.returncode}"]
        raise TraceError(f"Nsight Compute says: {errors[0].replace('==ERROR==', '').strip()[:300]}")
    pages = [
        subprocess.run(
            [ncu, "--import", str(report), "--page", page, "--csv", "--print-kernel-base", "mangled"],
            capture_output=True, text=True, errors="replace", check=False,
        ).stdout
        for page in ("source", "raw")
    ]  # fmt: skip
    return _by_launch(read_counts(*pages), order[: places[0]], order[places[0] : places[-1] + 1])


def _by_launch(
    counted: Iterable[tuple[str, Counts | None]],
    skipped: Iterable[tuple[str, int]],
    expected: Iterable[tuple[str, int]],
) -> dict[tuple[str, int], Counts]:
    """What was counted, in the order in which each kernel was launched.

    Different kernels may take turns in another order than when they were traced:
    branches of a CUDA graph, and launches from several threads.
    """
    seen = Counter(name for name, _ in skipped)
    possible = set(expected)
    result: dict[tuple[str, int], Counts] = {}
    for name, counts in counted:
        key = name, seen[name]
        if key not in possible:
            raise TraceError("the program launched other kernels when it was counted than when it was traced")
        seen[name] += 1
        if counts is not None:
            result[key] = counts
    return result
