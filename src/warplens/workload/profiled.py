"""What models need of a traced launch without the trace: its static instructions, the representative warp, and the
cache simulations of some machines. Profiles are small enough to be kept where traces of gigabytes are not.

A profile answers for the machine and the residents it was made for, and for machines that differ from it in nothing
that its cache simulations depend on; the order of accesses is that of the machine it was made for.
"""

from __future__ import annotations

import dataclasses
import json
import lzma
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from ..analysis._cache_records import ARRIVALS
from ..errors import FileError, MissingInputError
from ..machine.schema import parameters
from ..traces import LaunchHeader, LaunchTrace, StaticTable, WarpGroup
from .launch import launch_of
from .traced import TracedWorkload

T = TypeVar("T")
SCHEMA = 2
#: What a file may say that its cache simulations lack: `crowds`, the requests that misses find ahead of them at
#: crowded banks and channels. Files of schema 1 do not say it, and lack those.
LACKING = {1: ("crowds",)}
#: For columns of eight bytes each.
_FILTERS = [{"id": lzma.FILTER_LZMA2, "preset": 9, "lc": 1, "lp": 3, "pb": 3}]
_SUFFIX_ERROR = "not profiles of this version of warplens; make them anew"


@dataclass(frozen=True, eq=False)
class _NoWarps:
    """A launch whose warps were left out."""

    header: LaunchHeader
    static: StaticTable

    def groups(self) -> Iterator[WarpGroup]:
        raise MissingInputError(f"the profile of {self.header.kernel!r} has no warps: this needs the trace itself")


@dataclass(frozen=True, eq=False)
class ProfiledWorkload(TracedWorkload):
    """A traced launch that remembers what was worked out of its trace, or that has nothing but that."""

    entries: dict[str, Mapping[str, Any]] = field(default_factory=dict, repr=False)
    #: What the file that the entries come from says they lack.
    lacks: tuple[str, ...] = ()

    def _kept(self, key: tuple[Any, ...], make: Callable[[], T], unpack: Callable[..., T]) -> T:
        """As it was worked out, whatever else of the machine has changed since."""

        def found() -> T:
            name = _entry_name(key)
            if name in self.entries:
                return unpack(**self.entries[name])
            if isinstance(self.trace, _NoWarps):
                raise MissingInputError(
                    f"the profile of {self.name!r} lacks {key[0]!r} for these residents and caches; "
                    "it answers for those that it was made for: use the trace, or make the profile anew"
                )
            made = make()
            self.entries[name] = vars(made)
            return made

        return self.once(key, found)


def _entry_name(key: tuple[Any, ...]) -> str:
    """Kind, and what the result is asked by besides the values of the machine as named."""
    plain = [float(v) if isinstance(v, int | float | np.number) else v for v in key[1 + len(parameters()) :]]
    return json.dumps([key[0], *plain])


def profile_of_trace(trace: LaunchTrace) -> ProfiledWorkload:
    """A workload that remembers; ask it what its profile shall hold."""
    return ProfiledWorkload(
        name=trace.header.kernel, launch=launch_of(trace), launch_index=trace.header.launch_index, trace=trace
    )


# -- files ---------------------------------------------------------------------------------


def write_profiles(path: str | Path, profiles: Mapping[str, ProfiledWorkload], about: Mapping[str, str]) -> None:
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
    for name, workload in profiles.items():
        trace = workload._trace
        launches[name] = {
            "header": dataclasses.asdict(trace.header),
            "static": table(vars(trace.static)),
            "recorded": workload._recorded,
            "entries": {key: table(entry) for key, entry in workload.entries.items()},
        }
    lacks = sorted({each for workload in profiles.values() for each in workload.lacks})
    index = json.dumps({"schema": SCHEMA, "lacks": lacks, "about": dict(about), "launches": launches}).encode()
    content = b"".join([len(index).to_bytes(8, "little"), index, *(each.tobytes() for each in arrays)])
    try:
        Path(path).write_bytes(lzma.compress(content, filters=_FILTERS))
    except OSError as error:
        raise FileError(f"{path}: cannot be written ({error.strerror or error})") from None


def read_profiles(path: str | Path) -> tuple[dict[str, ProfiledWorkload], dict[str, str]]:
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
) -> dict[str, ProfiledWorkload]:
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
        if "crowds" in lacks:
            entries = {key: _without_crowds(entry) for key, entry in entries.items()}
        recorded = int(launch["recorded"][0]), float(launch["recorded"][1])
        found[name] = dataclasses.replace(
            profile_of_trace(trace), entries=entries, lacks=lacks, _memo={"recorded": recorded}
        )
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
