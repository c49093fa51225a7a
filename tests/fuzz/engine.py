"""Runs mutated inputs against the oracle, and makes bad ones small."""

from __future__ import annotations

import random
import signal
import sys
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from warplens.errors import WarplensError

from .kinds import Kind

#: CPU time; a reader that takes longer hangs.
MOST_SECONDS = 10


#: Bytes of data of the process: what it has at first, and what a reader may take.
MOST_BYTES = 2 << 30


def limit_memory() -> None:
    """Readers that take too much end in a MemoryError, which is bad."""
    with suppress(ImportError, ValueError):
        import resource

        resource.setrlimit(resource.RLIMIT_DATA, (MOST_BYTES, resource.getrlimit(resource.RLIMIT_DATA)[1]))


@dataclass(frozen=True)
class Bad:
    kind: str
    content: bytes
    why: str


class Hangs(BaseException):
    """Not an Exception: readers must not catch it."""


@contextmanager
def _alarm() -> Iterator[None]:
    def ring(*_: Any) -> None:
        raise Hangs(f"takes more than {MOST_SECONDS} s")

    if sys.platform == "win32":
        yield
        return
    before = signal.signal(signal.SIGPROF, ring)
    signal.setitimer(signal.ITIMER_PROF, MOST_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def problem(kind: Kind, content: bytes, folder: Path, sound: Any = None) -> str | None:
    """What is wrong with how an input is read; None for a clean error or a good result."""
    path = folder / f"case{kind.suffix}"
    path.write_bytes(content)
    try:
        with _alarm():
            found = kind.read(path)
    except (WarplensError, UnicodeDecodeError) as error:
        return f"a UnicodeDecodeError: {error}" if isinstance(error, UnicodeDecodeError) else None
    except (Exception, Hangs) as error:
        places = traceback.extract_tb(error.__traceback__)
        return f"{type(error).__name__}: {str(error)[:120]} ({places[-1].filename}:{places[-1].lineno})"
    if kind.exact and found is not None and found != sound:
        return "is read as something else"
    return None


def fuzz(
    kind: Kind, folder: Path, seed: int, cases: int, *, seconds: float = 1e9, corpus: list[bytes] | None = None
) -> tuple[int, list[Bad]]:
    """Mutate sound inputs, and those of the corpus that were read, which grows; (cases run, bad ones)."""
    chance = random.Random(f"{kind.name}-{seed}")
    seeds = kind.sound(folder)
    (folder / f"case{kind.suffix}").write_bytes(seeds[0])
    sound = kind.read(folder / f"case{kind.suffix}")  # its code is compiled now, not in the time of a case
    pool = [*seeds, *(corpus or ())]
    bad: list[Bad] = []
    started, done = time.monotonic(), 0
    while done < cases and time.monotonic() - started < seconds and len(bad) < 20:
        content = kind.mutate(chance, chance.choice(pool))
        done += 1
        why = problem(kind, content, folder, sound)
        if why is not None:
            bad.append(Bad(kind.name, minimised(kind, content, folder, sound, why), why))
        elif corpus is not None and chance.random() < 0.02:
            corpus.append(content)
            pool.append(content)
    return done, bad


def minimised(kind: Kind, content: bytes, folder: Path, sound: Any, why: str, *, most: int = 200) -> bytes:
    """The same problem in less: stretches are removed while it stays."""
    size = len(content) // 2
    while size and most:
        place = 0
        while place < len(content) and most:
            most -= 1
            shorter = content[:place] + content[place + size :]
            if (problem(kind, shorter, folder, sound) or "").split(":")[0] == why.split(":")[0]:
                content = shorter
            else:
                place += size
        size //= 2
    return content
