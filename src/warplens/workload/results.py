"""Results of one trace, in memory and on disk, keyed by what they depend on."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from ..result_cache import ResultCache, open_results, result_key
from ..traces import LaunchTrace
from ..traces.digest import trace_digest

T = TypeVar("T")

#: Most bytes on disk for the results of all traces.
MOST_BYTES = 2**30


def open_simulations() -> ResultCache:
    """Results of traces in the user's cache folder."""
    return open_results("simulations", MOST_BYTES)


@dataclass(eq=False)
class Results:
    """Results of one trace. A key is a frozen record of everything a result depends on besides the trace."""

    #: Keeps results between processes; None keeps them in memory only.
    disk: ResultCache | None = None
    memory: dict[Hashable, Any] = field(default_factory=dict, repr=False)

    def once(self, key: Hashable, make: Callable[[], T]) -> T:
        """The result of `make`, kept in memory."""
        if key not in self.memory:
            self.memory[key] = make()
        return self.memory[key]

    def get(self, trace: LaunchTrace, record: Hashable, kind: type[T], make: Callable[[], T]) -> T:
        """The result of `make`, kept in memory and, if `disk` is set, on disk. `kind` is its dataclass."""
        found = self.known(trace, record, kind)
        if found is not None:
            return found
        made = self.once(record, make)
        if self.disk is not None:
            self.disk.put(self._key(trace, record), vars(made))
        return made

    def known(self, trace: LaunchTrace, record: Hashable, kind: type[T]) -> T | None:
        """The result if it is in memory or on disk, else None."""
        if record not in self.memory and self.disk is not None:
            found = self.disk.get(self._key(trace, record))
            if found is not None:
                self.memory[record] = kind(**found)
        return self.memory.get(record)

    def _key(self, trace: LaunchTrace, record: Hashable) -> str:
        return result_key(record, self.once("digest of the trace", lambda: trace_digest(trace)))

    def on_disk(self) -> Results:
        """The same results, kept in the user's cache folder from now on."""
        return self if self.disk is not None else Results(open_simulations(), self.memory)

    def __getstate__(self) -> dict[str, Any]:
        """Pickle without the results in memory: another process computes them or finds them on disk."""
        return {"disk": self.disk, "memory": {}}
