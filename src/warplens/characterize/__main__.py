"""`python -m warplens.characterize -o RAW.json`: measure only, for machines without the command line's packages."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from ..errors import WarplensError
from .measure import measure


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m warplens.characterize", description=__doc__)
    parser.add_argument("-o", "--output", required=True, type=Path, help="file for the raw data (.json)")
    parser.add_argument("--device", type=int, default=0, help="number of the GPU")
    arguments = parser.parse_args()
    try:
        raw = measure(
            "python -m warplens.characterize -o RAW.json",
            ordinal=arguments.device,
            report=lambda text: print(text, file=sys.stderr),
        )
    except WarplensError as error:
        sys.exit(f"error: {error}")
    arguments.output.write_text(json.dumps(raw, separators=(",", ":")) + "\n", "utf-8")
    print(f"{arguments.output}: {raw['provenance']['seconds']:.1f} s", file=sys.stderr)


main()
