"""Processes that share work, forked so that they begin with what this one has loaded."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

#: What a mutant cannot spoil in the folder of kept results, because its key holds all of the compiler's input.
_SHARED = ("compiled", "cuda-stand-in", "native")


class Workers:
    """Forked processes that share work until it ends or time does."""

    def __init__(self, jobs: int, end: float) -> None:
        self.jobs, self.end = jobs, end

    def seconds_left(self) -> float:
        return max(self.end - time.time(), 0.0)

    def share(self, items: list[Any], work: Callable[[Any], None], *, quiet: bool = False) -> None:
        """Do the work for each item, in order of the items as far as processes are free."""
        following = multiprocessing.Value("q", 0)
        children = []
        for _ in range(self.jobs):
            child = os.fork()
            if child:
                children.append(child)
                continue
            os.setpgid(0, 0)
            if quiet:
                quieten()
            with own_results():
                while self.seconds_left():
                    with following.get_lock():
                        index, following.value = following.value, following.value + 1
                    if index >= len(items):
                        break
                    work(items[index])
            os._exit(0)
        for child in children:
            wait(child, self.seconds_left() + 5.0)


@contextmanager
def own_results() -> Iterator[None]:
    """A folder for kept results that only this process and its children use."""
    from warplens.result_cache import CACHE_VARIABLE, cache_folder

    before = os.environ.get(CACHE_VARIABLE)
    common = cache_folder()
    made = Path(tempfile.mkdtemp(prefix="mutate-"))
    for name in _SHARED:
        (common / name).mkdir(parents=True, exist_ok=True)
        (made / name).symlink_to((common / name).resolve())
    for path in common.glob("headers-*"):
        (made / path.name).symlink_to(path.resolve())
    os.environ[CACHE_VARIABLE] = str(made)
    try:
        yield
    finally:
        os.environ.pop(CACHE_VARIABLE)
        if before is not None:
            os.environ[CACHE_VARIABLE] = before
        shutil.rmtree(made, ignore_errors=True)


def append(path: Path, line: str) -> None:
    """Add a line in one write: other processes add theirs."""
    place = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(place, line.encode("utf-8"))
    os.close(place)


def quieten() -> None:
    """Let this process print nothing."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(nowhere, stream)


def wait(child: int, limit_s: float) -> int:
    """The exit status of a process; it is killed if it takes too long."""
    end = time.monotonic() + limit_s
    while time.monotonic() < end:
        found, status = os.waitpid(child, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.02)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return -1
