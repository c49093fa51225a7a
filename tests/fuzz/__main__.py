"""`python -m fuzz --hours 2 [KIND...]` in the folder tests: long runs, with a corpus that grows between them."""

from __future__ import annotations

import argparse
import hashlib
import sys
import tempfile
import time
from pathlib import Path

from .campaigns import keep_case
from .engine import fuzz, limit_memory
from .kinds import kinds

CORPUS = Path(__file__).parents[2] / ".fuzz"
#: Inputs of a kind that a corpus keeps; the newest stay.
MOST_KEPT = 500


def main() -> int:
    parser = argparse.ArgumentParser(prog="fuzz")
    parser.add_argument("--hours", type=float, default=0.1)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("names", nargs="*", metavar="KIND", default=list(kinds()))
    given = parser.parse_args()
    limit_memory()
    end, counts, failed = time.monotonic() + 3600 * given.hours, dict.fromkeys(given.names, 0), 0
    seed = given.seed
    while time.monotonic() < end:
        for name in given.names:
            kind, folder = kinds()[name], CORPUS / name
            folder.mkdir(parents=True, exist_ok=True)
            corpus = [path.read_bytes() for path in folder.iterdir()]
            before = len(corpus)
            with tempfile.TemporaryDirectory() as place:
                done, bad = fuzz(kind, Path(place), seed, 1000, seconds=20, corpus=corpus)
            counts[name] += done
            for content in corpus[before:][-MOST_KEPT:]:
                (folder / hashlib.sha256(content).hexdigest()[:16]).write_bytes(content)
            for each in bad:
                keep_case(name, each.why, each.content)
                print(f"{name}: {each.why}", file=sys.stderr)
            failed += len(bad)
        seed += 1
    for name, count in counts.items():
        print(f"{name:14s} {count:9,} mutated inputs")
    print(f"{'all':14s} {sum(counts.values()):9,} mutated inputs, {failed} bad (seeds {given.seed} to {seed - 1})")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
