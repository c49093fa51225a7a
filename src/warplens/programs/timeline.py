"""When a program's launches and copies happen on a GPU: streams in order, one kernel at a time, copies beside."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..machine import Gpu

HOST_TO_DEVICE, DEVICE_TO_HOST, WITHIN_DEVICE, FILL = 1, 2, 3, 4
COPY_NAMES = {
    0: "copy host to host",
    HOST_TO_DEVICE: "copy host to device",
    DEVICE_TO_HOST: "copy device to host",
    WITHIN_DEVICE: "copy on the device",
    FILL: "fill",
}


def copy_seconds(gpu: Gpu, direction: int, size_bytes: int, *, pinned: bool) -> float:
    """How long a copy or fill takes."""
    host = gpu.with_defaults.host
    if direction in (HOST_TO_DEVICE, DEVICE_TO_HOST):
        bandwidth = host.bandwidth_bytes_per_s if pinned else host.pageable_bytes_per_s
        return float(host.latency_seconds + size_bytes / bandwidth)
    if direction == 0:
        return 0.0
    bandwidth = float(gpu.dram.bandwidth_bytes_per_s or 1e12)
    return float(host.issue_seconds) + size_bytes * (2 if direction == WITHIN_DEVICE else 1) / bandwidth


@dataclass(frozen=True)
class Slice:
    """Something that takes time on the GPU."""

    name: str
    process: int
    stream: int
    start_seconds: float
    seconds: float
    launch: int | None = None
    size_bytes: int = 0


@dataclass(eq=False)
class Timeline:
    """The work of one process. The host issues it in order and only waits where the program says so."""

    process: int
    #: What each piece of work takes the host.
    issue_seconds: float
    host_seconds: float = 0.0
    streams: dict[int, float] = field(default_factory=dict)
    engines: dict[str, float] = field(default_factory=dict)
    events: dict[int, float] = field(default_factory=dict)
    slices: list[Slice] = field(default_factory=list)

    def add(self, name: str, engine: str, stream: int, seconds: float, launch: int | None, size_bytes: int) -> None:
        """Work of a stream: after what the stream and the engine did before, and after the host has issued it.

        The legacy stream (0) waits for all others, and they wait for it.
        """
        self.host_seconds += self.issue_seconds
        before = max(self.streams.values(), default=0.0) if stream == 0 else self._ready(stream)
        start = max(before, self.engines.get(engine, 0.0), self.host_seconds)
        self.streams[stream] = self.engines[engine] = start + seconds
        self.slices.append(Slice(name, self.process, stream, start, seconds, launch, size_bytes))

    def record(self, event: int, stream: int) -> None:
        done = max(self.streams.values(), default=0.0) if stream == 0 else self._ready(stream)
        self.events[event] = max(done, self.host_seconds)

    def wait(self, stream: int, event: int) -> None:
        self.streams[stream] = max(self._ready(stream), self.events.get(event, 0.0))

    def synchronize(self, stream: int) -> None:
        done = self.end_seconds if stream < 0 else self._ready(stream)
        self.host_seconds = max(self.host_seconds, done)

    @property
    def end_seconds(self) -> float:
        return max(self.streams.values(), default=0.0)

    def _ready(self, stream: int) -> float:
        return max(self.streams.get(stream, 0.0), self.streams.get(0, 0.0))
