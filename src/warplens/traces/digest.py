"""What a trace holds, as one hash."""

from __future__ import annotations

import hashlib
from dataclasses import fields

import numpy as np

from ..result_cache import content_hash
from .schema import LaunchTrace, WarpGroup


def trace_digest(trace: LaunchTrace) -> str:
    """A hash of all that a trace holds.

    How its warps come in groups does not count: that depends on which of several cores was done first.
    """
    header = trace.header
    told = [getattr(header, item.name) for item in fields(header) if item.name != "extra"]
    columns = {item.name: hashlib.sha256() for item in fields(WarpGroup)}
    for group in trace.groups():
        for name, digest in columns.items():
            values = getattr(group, name)
            lengths = name.endswith("start")  # places within the group
            digest.update(np.ascontiguousarray(np.diff(values) if lengths else values).data)
    rows = (getattr(trace.static, item.name) for item in fields(trace.static))
    static = (each.tobytes() if isinstance(each, np.ndarray) else repr(tuple(each)) for each in rows)
    found = (digest.digest() for digest in columns.values())
    return content_hash([repr([*told, sorted(header.extra.items())]), *static, *found])
