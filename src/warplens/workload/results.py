"""What was worked out about a trace, in memory and on disk."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from ..result_cache import ResultCache, open_results, result_key
from ..traces import LaunchTrace
from ..traces.digest import trace_digest

T = TypeVar("T")

#: Bytes that simulations of all traces may take.
MOST_BYTES = 2**30


def open_kept() -> ResultCache:
    """Simulations in the user's cache folder."""
    return open_results("simulations", MOST_BYTES)


class Remembering:
    """What was worked out about a trace, kept in memory and maybe on disk."""

    trace: LaunchTrace | None
    kept: ResultCache | None
    _memo: dict[Any, Any]

    def once(self, key: Any, make: Callable[[], T]) -> T:
        """The result of `make`, kept under `key`."""
        if key not in self._memo:
            self._memo[key] = make()
        return self._memo[key]

    def _kept(self, key: tuple[Any, ...], make: Callable[[], T], unpack: Callable[..., T]) -> T:
        """The result of `make`, a dataclass of arrays and plain values, kept in memory and maybe on disk."""
        found = self._known(key, unpack)
        if found is not None:
            return found
        made = self.once(key, make)
        if self.kept is not None:
            self.kept.put(self._entry(key), vars(made))
        return made

    def _known(self, key: tuple[Any, ...], unpack: Callable[..., T]) -> T | None:
        """What is in memory or on disk under a key."""
        if key not in self._memo and self.kept is not None:
            found = self.kept.get(self._entry(key))
            if found is not None:
                self._memo[key] = unpack(**found)
        return self._memo.get(key)

    def _entry(self, key: tuple[Any, ...]) -> str:
        assert self.trace is not None
        trace = self.trace
        digest = self.once("digest", lambda: trace_digest(trace))
        return result_key(key, digest)
