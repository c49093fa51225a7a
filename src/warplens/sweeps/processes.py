"""Work in processes of this machine, for what threads cannot share: compiling holds the interpreter lock."""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from typing import Any, Protocol

import pyarrow as pa

from ..cores import usable_cores
from ..errors import InputError, WarplensError
from .evaluate import Rows
from .plan import Unit
from .work import Result

#: Seconds between two calls of `waiting`.
LOOK_SECONDS = 1.0


class HasRows(Protocol):
    """Work of which units are rows: that of a sweep, or of a tuning space."""

    def rows(self, configurations: Rows) -> pa.Table: ...


class Processes:
    """Processes that keep running from one call of `results` to the next. They inherit the work given first."""

    def __init__(self, workers: int | None = None) -> None:
        self.workers = usable_cores() if workers is None else workers
        if self.workers < 1:
            raise InputError(f"{self.workers} workers cannot do any work; give 1 or more")
        self._pool: ProcessPoolExecutor | None = None

    def __enter__(self) -> Processes:
        return self

    def __exit__(self, *_: object) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def results(
        self, units: Sequence[Unit], works: Sequence[HasRows], waiting: Callable[[], None]
    ) -> Iterator[Result]:
        """(unit, its rows) as they finish."""
        remaining = list(units)
        if self._pool is None and remaining:
            # The first unit runs here: processes are forked with all that it loaded.
            first = remaining.pop(0)
            yield first.number, works[first.workload].rows(first.rows)
            self._pool = self._started(works)
        if self._pool is None or not remaining:
            return
        flying: set[Future[Result]] = {
            self._pool.submit(_rows, each.number, each.workload, each.rows) for each in remaining
        }
        try:
            while flying:
                finished, flying = wait(flying, LOOK_SECONDS, FIRST_COMPLETED)
                waiting()
                yield from (each.result() for each in finished)
        except BrokenProcessPool:
            raise WarplensError(
                "a worker process died, perhaps for want of memory; finished work is kept, and the same command "
                "resumes from there (fewer --workers need less memory)"
            ) from None
        finally:
            for each in flying:
                each.cancel()

    def _started(self, works: Sequence[HasRows]) -> ProcessPoolExecutor:
        # A script that calls us need not guard its main module if processes are forked.
        method = "fork" if "fork" in multiprocessing.get_all_start_methods() else "spawn"
        return ProcessPoolExecutor(self.workers, multiprocessing.get_context(method), _inherit, (list(works),))


_inherited: list[Any] = []


def _inherit(works: list[HasRows]) -> None:
    _inherited[:] = works
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """End this process when its parent has: one that is killed cannot tell its workers."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _rows(number: int, work: int, rows: Rows) -> Result:
    return number, _inherited[work].rows(rows)
