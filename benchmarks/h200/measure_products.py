"""Adds the times of warpgroups' matrix products to raw data of `characterize`, on a machine with the same GPU:

    python3 benchmarks/h200/measure_products.py src/warplens/characterize/data/h200-raw.json RAW.json

A run of `characterize` measures them too; this script keeps all other measurements unchanged.
"""

from __future__ import annotations

import datetime
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "src"))
from warplens.characterize.device import Device
from warplens.characterize.instructions import InstructionBench, measure_products
from warplens.characterize.measure import REPEATS, _driver, _rounded


def main(known: Path, output: Path) -> None:
    device = Device()
    rows = _rounded(measure_products(InstructionBench(device, REPEATS), print))
    raw = json.loads(known.read_text("utf-8"))
    names = {row["operation"] for row in rows}
    raw["chains"] = [row for row in raw["chains"] if row["operation"] not in names] + rows
    raw["provenance"]["products"] = {
        "gpu": device.name,
        "driver": _driver(device, 0),
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "command": "python3 benchmarks/h200/measure_products.py",
    }
    output.write_text(json.dumps(raw, separators=(",", ":")) + "\n", "utf-8")
    for row in rows:
        print(row["operation"], row["warps"], row["length"], row["cycles"][0])


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
