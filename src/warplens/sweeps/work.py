"""The work of a sweep: state that the units of a kernel share, and the threads that evaluate them."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from ..cores import usable_cores
from ..errors import InputError
from ..machine import Gpu
from ..traces import MemoryTrace
from ..workload import Results, Workload, analyse
from .evaluate import Question, Rows, evaluate
from .plan import Unit

#: (number of a unit, its rows).
Result = tuple[int, pa.Table]


@dataclass(eq=False)
class Work:
    """One kernel and the question about it; can be sent to other processes and machines."""

    workload: Workload
    machine: Gpu
    question: Question
    schema: pa.Schema
    _lock: Any = field(default_factory=threading.Lock, repr=False)
    _prepared: bool = False

    def rows(self, configurations: Rows) -> pa.Table:
        """The rows of some configurations."""
        self._prepare()
        return evaluate(self.workload, self.question, configurations, self.schema)

    def _prepare(self) -> None:
        """Compute what all units share, once, while other threads wait."""
        with self._lock:
            if self._prepared:
                return
            self._prepared = True
            try:
                analyse(self.workload, self.machine)
            except InputError:
                return  # every row will say so

    def __getstate__(self) -> dict[str, Any]:
        """Pickle without what belongs to this process: lock, memory and folders."""
        workload = self.workload
        if workload.trace is not None:
            trace = workload.trace
            whole = MemoryTrace(trace.header, trace.static, tuple(trace.groups()))
            workload = dataclasses.replace(workload, trace=whole, results=Results())
        return {
            "workload": workload,
            "machine": self.machine,
            "question": self.question,
            "schema": self.schema,
            "_prepared": False,
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _lock=threading.Lock())
        self.workload = dataclasses.replace(self.workload, results=self.workload.results.on_disk())


class Threads:
    """Threads of this process; the compiled loops release the interpreter lock."""

    def __init__(self, workers: int | None = None) -> None:
        self.workers = usable_cores() if workers is None else workers
        if self.workers < 1:
            raise InputError(f"{self.workers} workers cannot do any work; give 1 or more")

    def __enter__(self) -> Threads:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def results(self, units: Sequence[Unit], works: Sequence[Work], waiting: Callable[[], None]) -> Iterator[Result]:
        """(unit, its rows) as they finish."""

        def work(unit: Unit) -> Result:
            return unit.number, works[unit.workload].rows(unit.rows)

        pool = ThreadPoolExecutor(self.workers)
        flying: set[Future[Result]] = set()
        remaining = iter(units)
        try:
            while True:
                for unit in remaining:
                    flying.add(pool.submit(work, unit))
                    if len(flying) > 2 * self.workers:  # enough work for all threads, few results in memory
                        break
                if not flying:
                    return
                finished, flying = wait(flying, return_when=FIRST_COMPLETED)
                yield from (each.result() for each in finished)
        finally:
            pool.shutdown(cancel_futures=True)
