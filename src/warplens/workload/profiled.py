"""What models need of a traced launch without the trace: its static instructions, the representative warp, sampled
blocks, and the cache simulations of some machines. Profiles are small enough to be kept where traces of gigabytes are
not.

A profile answers for the machine and the residents it was made for, and for machines that differ from it in nothing
but times; the order of accesses is that of the machine it was made for.
"""

from __future__ import annotations

import dataclasses
import json
import lzma
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from ..analysis import CacheRun, cache_config
from ..analysis._cache_records import ARRIVALS, CacheConfig
from ..analysis.representative import WarpChoice
from ..errors import FileError, MissingInputError
from ..machine import gpu_of_values, parameters
from ..traces import LaunchHeader, LaunchTrace, StaticTable, WarpGroup
from .results import Results
from .workload import Workload, workload_of_trace

T = TypeVar("T")
SCHEMA = 2
#: What a file may say that its cache simulations lack: `crowds`, the requests that misses find ahead of them at
#: crowded banks and channels. Files of schema 1 do not say it, and lack those.
LACKING = {1: ("crowds",)}
#: For columns of eight bytes each.
_FILTERS = [{"id": lzma.FILTER_LZMA2, "preset": 9, "lc": 1, "lp": 3, "pb": 3}]
_SUFFIX_ERROR = "not profiles of this version of warplens; make them anew"
#: Files of schema 1 name a cache simulation by its order, its blocks per SM and these parameters.
_SCHEMA_1 = (
    *("sms", "l1.size_bytes", "l1.ways", "l1.line_bytes", "l1.sector_bytes", "l1.write_policy", "l1.write_allocate"),
    *("llc.size_bytes", "llc.ways", "llc.banks", "llc.hashed", "llc.fetch_bytes", "llc.write_policy"),
    *("llc.write_allocate", "scheduler", "l1.streaming", "l1.mshrs", "l1.queue_entries", "noc.queue_entries"),
)


@dataclass(frozen=True, eq=False)
class _NoWarps:
    """A launch whose warps were left out."""

    header: LaunchHeader
    static: StaticTable

    def groups(self) -> Iterator[WarpGroup]:
        raise MissingInputError(f"the profile of {self.header.kernel!r} has no warps: this needs the trace itself")


@dataclass(eq=False)
class ProfileResults(Results):
    """Results by what they depend on apart from times: as they were worked out, whatever has changed since."""

    entries: dict[str, Mapping[str, Any]] = field(default_factory=dict, repr=False)
    #: What the file that the entries come from says they lack.
    lacks: tuple[str, ...] = ()

    def get(self, trace: LaunchTrace, record: Hashable, kind: type[T], make: Callable[[], T]) -> T:
        found = self.known(trace, record, kind)
        if found is not None:
            return found
        if isinstance(trace, _NoWarps):
            what = json.loads(_entry_name(record))[0]
            raise MissingInputError(
                f"the profile of {trace.header.kernel!r} lacks {what!r} for these residents and caches; "
                "it answers for those that it was made for: use the trace, or make the profile anew"
            )
        made = self.once(record, make)
        self.entries[_entry_name(record)] = vars(made)
        return made

    def known(self, trace: LaunchTrace, record: Hashable, kind: type[T]) -> T | None:
        if record not in self.memory and (found := self.entries.get(_entry_name(record))) is not None:
            self.memory[record] = kind(**found)
        return self.memory.get(record)


def _entry_name(record: Hashable) -> str:
    """Kind of a result, and what it depends on besides times."""
    if isinstance(record, CacheRun):
        return _misses_name(record.order, record.config, record.coalescing.line_bytes, record.transfer_bytes)
    if isinstance(record, WarpChoice):
        return json.dumps(["representative", record.run.order, record.selection])
    return json.dumps([getattr(record, "kept_as", type(record).__name__)])


def _misses_name(order: str, config: CacheConfig, line_bytes: int, transfer_bytes: int) -> str:
    structure = {"order": order, "line_bytes": line_bytes, "transfer_bytes": transfer_bytes, **config._asdict()}
    return json.dumps(["misses", structure])


def profile_of_trace(trace: LaunchTrace) -> Workload:
    """A workload that remembers; ask it what its profile shall hold."""
    return workload_of_trace(trace, results=ProfileResults())


# -- files ---------------------------------------------------------------------------------


def write_profiles(path: str | Path, profiles: Mapping[str, Workload], about: Mapping[str, str]) -> None:
    """All that the workloads remember, in one compressed file; `about` says where it comes from."""
    arrays: list[np.ndarray[Any, Any]] = []

    def packed(value: Any) -> Any:
        if isinstance(value, np.ndarray):
            arrays.append(np.ascontiguousarray(value))
            return {"array": len(arrays) - 1, "type": value.dtype.str, "shape": list(value.shape)}
        return value.item() if isinstance(value, np.generic) else list(value) if isinstance(value, tuple) else value

    def table(values: Mapping[str, Any]) -> dict[str, Any]:
        return {name: packed(value) for name, value in values.items()}

    launches = {}
    lacks: set[str] = set()
    for name, workload in profiles.items():
        trace, results = workload.require_trace("a profile"), workload.results
        assert isinstance(results, ProfileResults)
        lacks |= set(results.lacks)
        launches[name] = {
            "header": dataclasses.asdict(trace.header),
            "static": table(vars(trace.static)),
            "entries": {key: table(entry) for key, entry in results.entries.items()},
        }
    said = {"schema": SCHEMA, "lacks": sorted(lacks), "about": dict(about), "launches": launches}
    index = json.dumps(said).encode()
    content = b"".join([len(index).to_bytes(8, "little"), index, *(each.tobytes() for each in arrays)])
    try:
        Path(path).write_bytes(lzma.compress(content, filters=_FILTERS))
    except OSError as error:
        raise FileError(f"{path}: cannot be written ({error.strerror or error})") from None


def read_profiles(path: str | Path) -> tuple[dict[str, Workload], dict[str, str]]:
    """(workloads by name, where they come from) of a file."""
    try:
        content = lzma.decompress(Path(path).read_bytes())
        size = int.from_bytes(content[:8], "little")
        index = json.loads(content[8 : 8 + size])
        if index["schema"] not in (*LACKING, SCHEMA):
            raise ValueError("another schema")
        lacks = LACKING.get(index["schema"]) or tuple(index["lacks"])
        if not set(lacks) <= {"crowds"}:
            raise ValueError(f"they lack {', '.join(lacks)}")
        return _unpacked(index["launches"], lacks, content, 8 + size), index["about"]
    except OSError as error:
        raise FileError(f"{path}: cannot be read ({error.strerror or error})") from None
    except (lzma.LZMAError, ValueError, KeyError, TypeError) as error:
        raise FileError(f"{path}: {_SUFFIX_ERROR} ({error})") from None


def _unpacked(
    launches: Mapping[str, Any], lacks: tuple[str, ...], content: bytes, offset: int
) -> dict[str, Workload]:
    def value(packed: Any) -> Any:
        nonlocal offset
        if not (isinstance(packed, dict) and "array" in packed):
            return tuple(packed) if isinstance(packed, list) else packed
        kind = np.dtype(packed["type"])
        count = int(np.prod(packed["shape"]))
        made = np.frombuffer(content, kind, count, offset).reshape(packed["shape"])
        offset += count * kind.itemsize
        return made

    def table(packed: Mapping[str, Any]) -> Any:
        return {key: value(part) for key, part in packed.items()}

    found = {}
    for name, launch in launches.items():
        trace = _NoWarps(LaunchHeader(**table(launch["header"])), StaticTable(**table(launch["static"])))
        entries = {key: table(entry) for key, entry in launch["entries"].items()}
        if "recorded" in launch:
            entries = _of_schema_1(entries, *launch["recorded"])
        if "crowds" in lacks:
            entries = {key: _without_crowds(entry) for key, entry in entries.items()}
        found[name] = workload_of_trace(trace, results=ProfileResults(entries=entries, lacks=lacks))
    return found


def _of_schema_1(entries: Mapping[str, Any], blocks: int, instructions: float) -> dict[str, Any]:
    """Entries under the names of today; what the trace holds stood beside them."""
    found: dict[str, Any] = {}
    for name, entry in entries.items():
        kind, *rest = json.loads(name)
        if kind == "misses":
            order, resident, *values = rest
            # All numbers and switches were written as floats.
            given = [(path, value) for path, value in zip(_SCHEMA_1, values, strict=False) if value is not None]
            machine = gpu_of_values({path: parameters()[path].kind(value) for path, value in given})
            config = cache_config(machine, resident, order=order)
            name = _misses_name(order, config, int(machine.l1.line_bytes), int(machine.transfer_bytes))
        elif kind == "representative":
            entry = {**entry, "recorded_blocks": int(blocks), "recorded_instructions": float(instructions)}
        found[name] = entry
    return found


def _without_crowds(entry: Mapping[str, Any]) -> Mapping[str, Any]:
    """A cache simulation in whose file the counts of crowds are absent: no miss finds more ahead than others."""
    if "arrivals" not in entry:
        return entry
    names = ARRIVALS.names or ()
    arrivals = np.zeros((len(entry["arrivals"]), len(names)))
    kept = names.index("bank_ahead")
    arrivals[:, :kept] = entry["arrivals"][:, :kept]
    return {**entry, "arrivals": arrivals}
