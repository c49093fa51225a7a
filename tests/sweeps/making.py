"""A small traced kernel, and sweeps of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from warplens_studies.validate import accelsim

GPU = accelsim.GPU


def trace(kernel: str) -> Path:
    """One of the bundled traces."""
    return accelsim.trace_path(kernel)


def rows(table: Any) -> list[dict[str, Any]]:
    """The table as rows, in an order that does not depend on how it was made."""
    return sorted(table.to_pylist(), key=lambda row: (row["kernel"], row["kind"], row["model"], row["configuration"]))
