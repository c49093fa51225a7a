"""Speed of the hot paths, each as a ratio against a named peer measured in the same run.

    python benchmarks/run.py [--json] [NAME...]

A benchmark is a module in this folder with `measure()`, which returns rows of
(what, value, unit, peer, ratio, target). Targets that are missed make the exit status 1.
"""

from __future__ import annotations

import importlib
import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True)
class Row:
    """One measurement; `ratio` is against `peer`, `target` is the value to reach; None if there is none."""

    what: str
    value: float
    unit: str
    peer: str = ""
    ratio: float | None = None
    target: float | None = None
    lower_is_better: bool = False

    @property
    def met(self) -> bool:
        if self.target is None:
            return True
        return self.value <= self.target if self.lower_is_better else self.value >= self.target


def main() -> int:
    folder = Path(__file__).parent
    sys.path.insert(0, str(folder))
    arguments = [a for a in sys.argv[1:] if a != "--json"]
    names = arguments or sorted(p.stem for p in folder.glob("bench_*.py"))
    rows = [row for name in names for row in importlib.import_module(name).measure()]
    if "--json" in sys.argv:
        print(json.dumps([asdict(row) | {"met": row.met} for row in rows], indent=1))
    else:
        for row in rows:
            target = "" if row.target is None else f"  target {row.target:g}: {'met' if row.met else 'MISSED'}"
            ratio = "" if row.ratio is None else f"{row.ratio:8.4g}x {row.peer}"
            print(f"{row.what:58s} {row.value:10.4g} {row.unit:14s} {ratio}{target}")
    return 0 if all(row.met for row in rows) else 1


if __name__ == "__main__":
    # Benchmarks import Row from `run`; make that this module rather than a second copy.
    sys.modules["run"] = sys.modules[__name__]
    sys.exit(main())
