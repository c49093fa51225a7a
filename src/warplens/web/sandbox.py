"""Compiles and runs a visitor's kernel in a sandboxed process, and returns its trace."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from ..errors import WarplensError
from ..traces import LaunchTrace, read_trace
from .errors import Busy, FieldError
from .sandbox_process import CPU_SECONDS

#: Wall-clock time from start to trace.
MOST_SECONDS = 90.0
#: Processes at the same time, so that one long kernel does not hold up all others, and those that may wait for them.
MOST_RUNNING, MOST_WAITING = 2, 4
_ANSWER_BYTES = 64 * 2**10


class Sandbox:
    """Folders and processes for visitors' kernels; `close` removes them."""

    def __init__(self) -> None:
        self.root = Path(tempfile.mkdtemp(prefix="warplens-page-"))
        for name in ("cache", "numba"):
            (self.root / name).mkdir()
        self._running = threading.Semaphore(MOST_RUNNING)
        self._waiting = threading.Semaphore(MOST_RUNNING + MOST_WAITING)

    def run(self, document: Any, stopped: Callable[[], None] = lambda: None) -> tuple[LaunchTrace, Path]:
        """The trace of a kernel and the folder that holds it. `stopped` raises when nobody waits any more."""
        if os.name != "posix":
            raise FieldError("source", "pages run kernels on Linux and macOS only, where processes can be limited")
        if not self._waiting.acquire(blocking=False):
            raise Busy("the server is running other kernels; try again in a minute")
        try:
            while not self._running.acquire(timeout=0.1):
                stopped()
            try:
                return self._run(document, stopped)
            finally:
                self._running.release()
        finally:
            self._waiting.release()

    def _run(self, document: Any, stopped: Callable[[], None]) -> tuple[LaunchTrace, Path]:
        folder = Path(tempfile.mkdtemp(prefix="kernel-", dir=self.root))
        try:
            answer = _answer_of(self._process(document, folder, stopped))
            if "error" in answer:
                raise FieldError(str(answer.get("field", "source")), _without(str(answer["error"]), self.root))
            try:
                return read_trace(folder / "trace.wlt")[0], folder
            except WarplensError as error:
                raise FieldError("source", f"cannot read its trace: {_without(str(error), self.root)}") from None
        except BaseException:
            self.remove(folder)
            raise

    def _process(self, document: Any, folder: Path, stopped: Callable[[], None]) -> tuple[int, bytes]:
        """Exit status and output of the process, which is ended when it takes too long or nobody waits."""
        keep = {key: os.environ[key] for key in ("PATH", "LANG", "LD_LIBRARY_PATH") if key in os.environ}
        places = {"HOME": folder, "TMPDIR": folder, "WARPLENS_CACHE_DIR": self.root / "cache"}
        places |= {"NUMBA_CACHE_DIR": self.root / "numba"}
        process = subprocess.Popen(
            [sys.executable, "-m", "warplens.web.sandbox_process", str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=folder,
            env={**keep, **{key: str(value) for key, value in places.items()}, "MALLOC_ARENA_MAX": "2"},
            start_new_session=True,
        )
        try:
            assert process.stdin is not None and process.stdout is not None
            with suppress(BrokenPipeError), process.stdin as pipe:
                pipe.write(json.dumps(document).encode())
            end = time.monotonic() + MOST_SECONDS
            while process.poll() is None:
                if time.monotonic() > end:
                    raise FieldError("source", f"stopped: compiling and running took more than {MOST_SECONDS:g} s")
                stopped()
                time.sleep(0.02)
            return process.returncode, process.stdout.read(_ANSWER_BYTES)
        finally:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            if process.stdout is not None:
                process.stdout.close()

    def remove(self, folder: Path) -> None:
        shutil.rmtree(folder, ignore_errors=True)

    def close(self) -> None:
        shutil.rmtree(self.root, ignore_errors=True)


def _answer_of(result: tuple[int, bytes]) -> dict[str, Any]:
    status, output = result
    try:
        answer = json.loads(output)
    except ValueError:
        answer = None
    if isinstance(answer, dict):
        return answer
    limits = {-int(signal.SIGXCPU): f"took more than {CPU_SECONDS} s of CPU time",
              -int(signal.SIGXFSZ): "recorded too much"}  # fmt: skip
    why = limits.get(status, f"ran out of memory or failed (status {status})")
    raise FieldError("source", f"stopped: compiling or running it {why}")


def _without(text: str, root: Path) -> str:
    """A message without folders of this machine."""
    return text.replace(str(root), "…")
