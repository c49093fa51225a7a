"""What programs do on their GPUs, as it happens: launches are predicted, work is put on the timeline."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from ..errors import WarplensError
from ..frontends.ptx.execute import Execution
from ..frontends.runtime import LaunchInfo, MemoryBefore
from ..machine import Gpu
from ..traces import LaunchTrace, TraceWriter
from .hazards import hazards
from .timeline import COPY_NAMES, DEVICE_TO_HOST, HOST_TO_DEVICE, Timeline, copy_seconds
from .unset_reads import unset_reads

#: How often a launch that takes long tells how far it is.
TOLD_EVERY_SECONDS = 10.0


@dataclass(frozen=True)
class Recorded:
    """A launch that was recorded, with its seconds on each GPU; `place` is its number in the trace."""

    info: LaunchInfo
    seconds: tuple[float, ...]
    place: int


@dataclass(frozen=True)
class Counted:
    """Any launch, with its seconds on each GPU; none where nothing recorded stands for it."""

    info: LaunchInfo
    seconds: tuple[float, ...] | None


@dataclass(eq=False)
class Tally:
    """The listener of a run. Recorded launches are predicted at once, for events tell the predicted time."""

    gpus: Sequence[Gpu]
    writer: TraceWriter
    say: Callable[[str], None]
    recorded_launches: list[Recorded] = field(default_factory=list)
    counted: list[Counted] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    #: Why some spaces of kernels were not searched for races.
    unchecked: dict[tuple[str, str], str] = field(default_factory=dict)
    timelines: dict[tuple[int, int], Timeline] = field(default_factory=dict)
    copied_bytes: defaultdict[int, int] = field(default_factory=lambda: defaultdict(int))
    #: The launch whose progress was told last, and when.
    told: tuple[int, float] = (-1, 0.0)
    lock: threading.RLock = field(default_factory=threading.RLock)

    def launched(self, info: LaunchInfo, execution: Execution | None, before: MemoryBefore | None) -> None:
        with self.lock:
            if execution is not None:
                if before is not None:
                    self._check(info, execution.trace, before)
                self._predict(info, execution)
            seconds = self._seconds(info)
            self.counted.append(Counted(info, seconds))
            for index in range(len(self.gpus)):
                spent = seconds[index] if seconds is not None else 0.0
                self._timeline(info.process, index).add(info.readable, "compute", info.stream, spent, info.index, 0)

    def running(self, info: LaunchInfo, done: int, total: int) -> None:
        with self.lock:
            now = time.monotonic()
            index, since = self.told
            if index != info.index:
                self.told = info.index, now
            elif now - since > TOLD_EVERY_SECONDS:
                self.told = info.index, now
                self.say(f"launch {info.index}, {info.readable}: {100 * done // total} % of {total} thread blocks")

    def _check(self, info: LaunchInfo, trace: LaunchTrace, before: MemoryBefore) -> None:
        """Tell what is wrong in a launch, and once for each kernel what is not searched."""
        found = hazards(trace, before)
        for each in (*unset_reads(trace, before), *found.faults):
            self.failed(each)
        for space, reason in found.skipped.items():
            if (info.kernel, space) not in self.unchecked:
                told = f"{info.readable}: not searched for races in {space} memory: {reason}"
                self.unchecked[info.kernel, space] = told
                self.say(told)

    def copied(self, process: int, direction: int, size_bytes: int, stream: int, pinned: bool) -> None:
        engine = {HOST_TO_DEVICE: "to device", DEVICE_TO_HOST: "to host"}.get(direction, "compute")
        with self.lock:
            self.copied_bytes[direction] += size_bytes
            for index, gpu in enumerate(self.gpus):
                seconds = copy_seconds(gpu, direction, size_bytes, pinned=pinned)
                line = self._timeline(process, index)
                line.add(COPY_NAMES.get(direction, "copy"), engine, stream, seconds, None, size_bytes)

    def recorded(self, process: int, event: int, stream: int) -> None:
        with self.lock:
            for index in range(len(self.gpus)):
                self._timeline(process, index).record(event, stream)

    def awaited(self, process: int, stream: int, event: int) -> None:
        with self.lock:
            for index in range(len(self.gpus)):
                self._timeline(process, index).wait(stream, event)

    def synchronized(self, process: int, stream: int) -> None:
        with self.lock:
            for index in range(len(self.gpus)):
                self._timeline(process, index).synchronize(stream)

    def elapsed(self, process: int, first: int, second: int) -> float | None:
        with self.lock:
            events = self._timeline(process, 0).events
            if first not in events or second not in events:
                return None
            return events[second] - events[first]

    def failed(self, message: str) -> None:
        with self.lock:
            if message not in self.failures:
                self.failures.append(message)
                self.say(message)

    def _timeline(self, process: int, gpu: int) -> Timeline:
        if (process, gpu) not in self.timelines:
            issue_seconds = float(self.gpus[gpu].with_defaults.host.issue_seconds)
            self.timelines[process, gpu] = Timeline(process, issue_seconds)
        return self.timelines[process, gpu]

    def _predict(self, info: LaunchInfo, execution: Execution) -> None:
        from ..api import predict_best

        path = Path(str(execution.header.extra["source"]))
        extra = {**execution.header.extra, "source": _shown(path)}
        execution = replace(execution, header=replace(execution.header, launch_index=info.index, extra=extra))
        execution = execution.with_source(_text(path), "")
        trace = execution.trace
        try:
            made = predict_best(trace, self.gpus).predictions
        except WarplensError as error:
            self.failed(f"launch {info.index} ({info.readable}) cannot be predicted: {error}")
            return
        for group in execution.groups:
            self.writer.write(group)
        self.writer.end_launch(trace.header, trace.static)
        seconds = tuple(float(each.seconds) for each in made)
        self.recorded_launches.append(Recorded(info, seconds, len(self.recorded_launches)))

    def _seconds(self, info: LaunchInfo) -> tuple[float, ...] | None:
        """Of a recorded launch of the same shape, else the same kernel, with most nearly as many instructions."""
        of_kernel = [each for each in self.recorded_launches if each.info.kernel == info.kernel]
        alike = [each for each in of_kernel if each.info.shape == info.shape] or of_kernel
        if not alike:
            return None
        nearest = min(alike, key=lambda each: abs(each.info.instructions - info.instructions))
        ratio = info.instructions / max(nearest.info.instructions, 1)
        return tuple(seconds * ratio for seconds in nearest.seconds)


def _shown(path: Path) -> str:
    """The name of a source file, short where it lies below the working folder."""
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)


def _text(path: Path) -> str | None:
    """What a kernel's lines are of, where it still lies there."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError, ValueError):
        return None
