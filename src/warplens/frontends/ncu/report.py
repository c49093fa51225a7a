"""Prints what NVIDIA's library reads in a report of Nsight Compute: JSON, on the last line.

`profile` runs this file as a process of its own, because some releases of the library crash on a damaged report.
"""

from __future__ import annotations

import json
import math
import sys
from typing import Any


def read(path: str) -> dict[str, Any]:
    """The launches of a report, or why there are none."""
    try:
        import ncu_report
    except ImportError:
        return {"missing": True}
    try:
        context = ncu_report.load_report(path)
        ranges = [context[number] for number in range(len(context))]
        return {"launches": [_launch(each[number]) for each in ranges for number in range(len(each))]}
    except Exception as error:  # the library raises plain exceptions of its own
        return {"error": str(error)}


def _launch(action: Any) -> dict[str, Any]:
    """Name, and metrics with their units."""
    metrics = {}
    for name in action.metric_names():
        value = action[name].value() if name in action else None
        if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
            metrics[name] = [float(value), str(action[name].unit() or "")]
    return {"kernel": str(action.name()), "metrics": metrics}


if __name__ == "__main__":
    print("\n" + json.dumps(read(sys.argv[1])))
