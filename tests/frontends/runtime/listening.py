"""A listener that only notes what it is told, and a run of a program with it."""

import os
import subprocess
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from warplens.frontends.runtime import Recording, Server
from warplens.frontends.runtime.build import LIBRARY, host_compiler
from warplens.machine import load_gpu

#: Whether the stand-in has sanitizers, see `fencing`.
SANITIZED = bool(os.environ.get("WARPLENS_SANITIZE"))


def _sanitizers() -> list[str]:
    """Libraries that must be loaded before the stand-in."""
    if not SANITIZED:
        return []
    command = [host_compiler(), "-print-file-name=libasan.so"]
    return [subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()]


@dataclass
class Notes:
    launches: list = field(default_factory=list)
    executions: list = field(default_factory=list)
    copies: list = field(default_factory=list)
    failures: list = field(default_factory=list)
    events: dict = field(default_factory=dict)

    def launched(self, info, execution, before):
        self.launches.append(info)
        if execution is not None:
            self.executions.append(execution)

    def running(self, info, done, total): ...

    def copied(self, process, direction, size_bytes, stream, pinned):
        self.copies.append((direction, size_bytes))

    def recorded(self, process, event, stream):
        self.events[event] = len(self.launches)

    def awaited(self, process, stream, event): ...

    def synchronized(self, process, stream): ...

    def elapsed(self, process, first, second):
        if not self.events.keys() >= {first, second}:
            return None
        return 1e-5 * (self.events[second] - self.events[first])

    def failed(self, message):
        self.failures.append(message)


def run(command, stand_in, recording=None, gpu="h200", *, exact=False):
    """(What the program prints, its exit code, what it did)."""
    notes = Notes()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "socket"
        server = Server(path, load_gpu(gpu), recording or Recording(launches=frozenset()), notes, exact=exact)
        environment = {
            **os.environ,
            "LD_PRELOAD": " ".join([*_sanitizers(), str(stand_in / LIBRARY)]),
            "ASAN_OPTIONS": "detect_leaks=0",  # programs of the tests need not tidy up
            "LD_LIBRARY_PATH": str(stand_in),
            "WARPLENS_RUN_SOCKET": str(path),
        }
        ran = subprocess.run(list(map(str, command)), env=environment, capture_output=True, text=True, timeout=60)
        server.close()
    return ran.stdout + ran.stderr, ran.returncode, notes
