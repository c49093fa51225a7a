"""The work of a sweep on a Dask cluster: its workers do the same units.

This process sends a kernel once; workers pass it on to each other. If a worker is
lost, its unit is sent again, and so is the kernel if that worker had the only copy.
Rows come back to this process, which alone writes the result.
"""

from __future__ import annotations

import gc
import logging
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa

from ..errors import InputError, MissingPackageError, WarplensError, install_command
from ..result_cache import code_digest
from .evaluate import Rows
from .plan import Unit
from .work import Result, Work

#: Seconds to wait for a scheduler.
CONNECT_SECONDS = 5.0
#: Seconds between two checks for a first worker.
LOOK_SECONDS = 1.0
#: Attempts at a unit before it is blamed for the loss of workers.
MOST_TRIES = 5
#: Units in flight per thread of the cluster, and at least: enough work for all, few results in memory.
PER_THREAD, LEAST = 3, 8

_log = logging.getLogger(__name__)


class ClusterError(WarplensError):
    """The cluster cannot do the work."""


def _rows(work: Work, configurations: Rows, digest: str) -> pa.Table:
    """Runs on a worker."""
    if digest != code_digest():
        raise ClusterError("a worker has a different version of warplens; install the same version everywhere")
    return work.rows(configurations)


class Cluster:
    """The workers of a Dask scheduler at an address, or of the one that wrote a scheduler file."""

    def __init__(self, scheduler: str | Path) -> None:
        self.scheduler = scheduler
        self._client: Any = None

    def __enter__(self) -> Cluster:
        try:
            from distributed import Client
        except ImportError:
            raise MissingPackageError(
                f"sweeps on a cluster need Dask; install it with: {install_command('cluster')}"
            ) from None
        logging.getLogger("distributed.client").setLevel(logging.CRITICAL)  # we report errors ourselves, once
        given = {"scheduler_file" if Path(self.scheduler).is_file() else "address": str(self.scheduler)}
        try:
            self._client = Client(**given, timeout=CONNECT_SECONDS, set_as_default=False)
            return self
        except (OSError, ValueError, TypeError, RuntimeError) as error:
            reason = str(error)
        # A failed client stops its thread when it is collected. If that happened while another client starts its own
        # thread, both would wait for one lock forever.
        gc.collect()
        raise InputError(
            f"--scheduler {self.scheduler}: no Dask scheduler answers there ({reason}); use the address that `dask "
            "scheduler` prints, for example tcp://host:8786, or its --scheduler-file"
        )

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def results(self, units: Sequence[Unit], works: Sequence[Work], waiting: Callable[[], None]) -> Iterator[Result]:
        """(unit, its rows) as they finish. `waiting` is called now and then while there is no worker."""
        try:
            yield from self._results(units, works, waiting)
        except OSError as error:
            raise self._lost() from error

    def _results(self, units: Sequence[Unit], works: Sequence[Work], waiting: Callable[[], None]) -> Iterator[Result]:
        from distributed import as_completed

        sent: dict[int, Any] = {}
        left = Counter(unit.workload for unit in units)
        tries: Counter[int] = Counter()
        remaining = deque(units)
        flying: dict[Any, Unit] = {}
        finished = as_completed(loop=self._client.loop)
        while remaining or flying:
            room = max(LEAST, PER_THREAD * sum(self._client.nthreads().values()))
            while remaining and len(flying) < room:
                unit = remaining.popleft()
                future = self._submit(unit, works, sent, waiting)
                flying[future] = unit
                finished.add(future)
            future = next(finished)
            unit = flying.pop(future)
            table, error = self._table(future)
            if table is not None:
                yield unit.number, table
                left[unit.workload] -= 1
                if not left[unit.workload]:
                    del sent[unit.workload]  # workers may drop it
                continue
            tries[unit.number] += 1
            if tries[unit.number] == MOST_TRIES:
                raise ClusterError(
                    f"the cluster lost workers {MOST_TRIES} times on the same work ({error}); are they out of memory?"
                )
            remaining.appendleft(unit)

    def _submit(self, unit: Unit, works: Sequence[Work], sent: dict[int, Any], waiting: Callable[[], None]) -> Any:
        """Send a unit, and its kernel if no worker has it (any more)."""
        kernel = unit.workload
        if kernel not in sent or sent[kernel].status != "finished":
            self._wait_for_workers(waiting)
            sent[kernel] = self._client.scatter(works[kernel], hash=False)
        return self._client.submit(_rows, sent[kernel], unit.rows, code_digest(), pure=False)

    def _table(self, future: Any) -> tuple[pa.Table | None, str]:
        """(rows of a unit, ""), or (None, reason) if they were lost with a worker."""

        from distributed import KilledWorker

        try:
            return future.result(), ""
        except (KilledWorker, CancelledError, OSError) as error:
            if self._client.status != "running":
                raise self._lost() from None
            return None, str(error)
        finally:
            future.release()

    def _wait_for_workers(self, waiting: Callable[[], None]) -> None:
        told = False
        while not self._client.nthreads():
            if not told:
                _log.warning("%s has no workers; waiting for the first", self.scheduler)
                told = True
            waiting()
            with suppress(TimeoutError):
                self._client.wait_for_workers(1, timeout=LOOK_SECONDS)

    def _lost(self) -> ClusterError:
        return ClusterError(
            f"the connection to the scheduler at {self.scheduler} is lost; finished work is kept, "
            "and the same command resumes from there"
        )
