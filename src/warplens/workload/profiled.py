"""Profiles: what models need of a traced launch, without the trace. A profile holds the static instructions, the
representative warp, sampled blocks, and cache simulations: kilobytes where a trace has gigabytes.

A profile serves the machine and the occupancy it was made for, and machines that differ only in times (latencies,
bandwidths, clock). The order of accesses stays that of the original machine.
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
#: What the cache simulations of a file may lack: `crowds`, the requests queued ahead of misses at busy banks and
#: channels, and `stores`, hashed sets and stores that enter an L1 or merge. Files of schema 1 lack both without
#: saying so; names of entries tell whether those of schema 2 lack `stores`.
LACKING = {1: ("crowds", "stores")}
#: Fields of `CacheConfig` that entries without `stores` were not made for.
_OF_STORES = ("l1_hashed", "l1_allocate", "merge_lines")
#: For columns of eight bytes each.
_FILTERS = [{"id": lzma.FILTER_LZMA2, "preset": 9, "lc": 1, "lp": 3, "pb": 3}]
_SUFFIX_ERROR = "not profiles of this version of warplens; create them again"
#: Files of schema 1 name a cache simulation by its order, its blocks per SM and these parameters.
_SCHEMA_1 = (
    *("sms", "l1.size_bytes", "l1.ways", "l1.line_bytes", "l1.sector_bytes", "l1.write_policy", "l1.write_allocate"),
    *("llc.size_bytes", "llc.ways", "llc.banks", "llc.hashed", "llc.fetch_bytes", "llc.write_policy"),
    *("llc.write_allocate", "scheduler", "l1.streaming", "l1.mshrs", "l1.queue_entries", "noc.queue_entries"),
)


@dataclass(frozen=True, eq=False)
class _NoWarps:
    """A launch without its warps."""

    header: LaunchHeader
    static: StaticTable

    def groups(self) -> Iterator[WarpGroup]:
        raise MissingInputError(f"the profile of {self.header.kernel!r} has no warps: this needs the trace itself")


@dataclass(eq=False)
class ProfileResults(Results):
    """Results by what they depend on, times excluded, so that a profile serves machines with other times."""

    entries: dict[str, Mapping[str, Any]] = field(default_factory=dict, repr=False)
    #: What the entries lack, according to their file.
    lacks: tuple[str, ...] = ()

    def get(self, trace: LaunchTrace, record: Hashable, kind: type[T], make: Callable[[], T]) -> T:
        found = self.known(trace, record, kind)
        if found is not None:
            return found
        if isinstance(trace, _NoWarps):
            what = json.loads(_entry_name(record))[0]
            raise MissingInputError(
                f"the profile of {trace.header.kernel!r} lacks {what!r} for these residents and caches; "
                "it holds only those it was made for; use the trace, or create the profile again"
            )
        made = self.once(record, make)
        self.entries[self._name(record)] = vars(made)
        return made

    def known(self, trace: LaunchTrace, record: Hashable, kind: type[T]) -> T | None:
        if record not in self.memory and (found := self.entries.get(self._name(record))) is not None:
            self.memory[record] = kind(**found)
        return self.memory.get(record)

    def _name(self, record: Hashable) -> str:
        name = _entry_name(record)
        return _without_stores(name) if "stores" in self.lacks else name


def _entry_name(record: Hashable) -> str:
    """Name of an entry: the kind of the result and what it depends on, times excluded."""
    if isinstance(record, CacheRun):
        return _misses_name(record.order, record.config, record.coalescing.line_bytes, record.transfer_bytes)
    if isinstance(record, WarpChoice):
        return json.dumps(["representative", record.run.order, record.selection])
    return json.dumps([getattr(record, "kept_as", type(record).__name__)])


def _misses_name(order: str, config: CacheConfig, line_bytes: int, transfer_bytes: int) -> str:
    structure = {"order": order, "line_bytes": line_bytes, "transfer_bytes": transfer_bytes, **config._asdict()}
    if not config.collects:  # files made before this parameter do not name it
        del structure["collects"]
    return json.dumps(["misses", structure])


def profile_of_trace(trace: LaunchTrace) -> Workload:
    """A workload that keeps its results. Predict with it on each machine that its profile should serve."""
    return workload_of_trace(trace, results=ProfileResults())


# -- files ---------------------------------------------------------------------------------


def write_profiles(path: str | Path, profiles: Mapping[str, Workload], about: Mapping[str, str]) -> None:
    """Write the results that the workloads keep to one compressed file; `about` says where they come from."""
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
    """Read a file: (workloads by name, where they come from)."""
    try:
        content = lzma.decompress(Path(path).read_bytes())
        size = int.from_bytes(content[:8], "little")
        index = json.loads(content[8 : 8 + size])
        if index["schema"] not in (*LACKING, SCHEMA):
            raise ValueError("another schema")
        lacks = LACKING.get(index["schema"]) or tuple(index["lacks"])
        if not set(lacks) <= {"crowds", "stores"}:
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
        known = "bank_ahead" if "crowds" in lacks else None
        entries = {key: _with_all_arrivals(entry, known) for key, entry in entries.items()}
        here = lacks
        if "stores" in lacks or any(_lacks_stores(key) for key in entries):
            entries = {_without_stores(key): entry for key, entry in entries.items()}
            here = tuple(sorted({*lacks, "stores"}))
        found[name] = workload_of_trace(trace, results=ProfileResults(entries=entries, lacks=here))
    return found


def _of_schema_1(entries: Mapping[str, Any], blocks: int, instructions: float) -> dict[str, Any]:
    """Rename entries of schema 1; its recorded blocks and instructions were stored outside the entries."""
    found: dict[str, Any] = {}
    for name, entry in entries.items():
        kind, *rest = json.loads(name)
        if kind == "misses":
            order, resident, *values = rest
            # Schema 1 stores all numbers and flags as floats.
            given = [(path, value) for path, value in zip(_SCHEMA_1, values, strict=False) if value is not None]
            machine = gpu_of_values({path: parameters()[path].kind(value) for path, value in given})
            config = cache_config(machine, resident, order=order)
            name = _misses_name(order, config, int(machine.l1.line_bytes), int(machine.transfer_bytes))
        elif kind == "representative":
            entry = {**entry, "recorded_blocks": int(blocks), "recorded_instructions": float(instructions)}
        found[name] = entry
    return found


def _lacks_stores(name: str) -> bool:
    kind, *rest = json.loads(name)
    return kind == "misses" and _OF_STORES[-1] not in rest[0]


def _without_stores(name: str) -> str:
    """The name of an entry, whatever the fields that it was not made for."""
    kind, *rest = json.loads(name)
    if kind == "misses":
        rest = [{key: value for key, value in rest[0].items() if key not in _OF_STORES}]
    return json.dumps([kind, *rest])


def _with_all_arrivals(entry: Mapping[str, Any], before: str | None) -> Mapping[str, Any]:
    """A cache simulation whose file may lack the last fields of `ARRIVALS`, or all from `before`: they count as 0."""
    if entry.get("arrivals") is None:
        return entry
    names = ARRIVALS.names or ()
    arrivals = np.zeros((len(entry["arrivals"]), len(names)))
    kept = names.index(before) if before else entry["arrivals"].shape[1]
    arrivals[:, :kept] = entry["arrivals"][:, :kept]
    return {**entry, "arrivals": arrivals}
