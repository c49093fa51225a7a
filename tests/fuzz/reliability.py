"""`python -m fuzz.reliability CAMPAIGN... ` in the folder tests: runs what docs/reliability.md counts, and writes it.

Campaigns go on where the counts of earlier runs end: a seed is never used twice. Counts are of one state of the code;
another one begins anew.
Each seed has a process of its own, whose end by a signal is bad.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from warplens.result_cache import code_digest

from .campaigns import CAMPAIGNS, CASES, Counts, added, tried

TESTS = Path(__file__).parents[1]
COUNTS = Path(__file__).parent / "counts.json"
PAGE = TESTS.parent / "docs" / "reliability.md"


@dataclass
class Campaigns:
    """Campaigns side by side, each up to its number or all up to a time."""

    counts: Counts
    wanted: dict[str, int]
    path: Path
    cases: Path
    end: float
    jobs: int
    running: Counter[str] = field(default_factory=Counter)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def run(self) -> None:
        with ThreadPoolExecutor(self.jobs) as pool:
            for worker in [pool.submit(self._work) for _ in range(self.jobs)]:
                worker.result()

    def _work(self) -> None:
        while (chosen := self._next()) is not None:
            self._run(*chosen)

    def _next(self) -> tuple[str, int] | None:
        """The campaign that is furthest from its end, and a seed that it has not had."""
        with self.lock:
            parts = {name: tried(self.counts[name]) / most for name, most in self.wanted.items()}
            open_ones = [name for name, part in parts.items() if part < 1.0]
            if not open_ones or time.monotonic() >= self.end:
                return None
            name = min(open_ones, key=lambda each: parts[each] + self.running[each] / self.jobs)
            self.running[name] += 1
            self.counts[name]["seed"] += 1
            return name, self.counts[name]["seed"] - 1

    def _run(self, name: str, seed: int) -> None:
        command = [sys.executable, "-m", "fuzz.reliability", name, "--seed", str(seed)]
        environment = {
            **os.environ,
            "FUZZ_CASES": str(self.cases),
            "OMP_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
        }
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True, cwd=TESTS, env=environment, start_new_session=True
        )
        cut = threading.Event()

        def stop() -> None:
            cut.set()
            os.killpg(process.pid, signal.SIGKILL)

        timer = threading.Timer(max(self.end - time.monotonic(), 0.0), stop)
        timer.start()
        assert process.stdout is not None
        steps = 0
        for line in process.stdout:
            steps += 1
            self._add(name, json.loads(line))
        status = process.wait()
        timer.cancel()
        if status and not cut.is_set():
            self._add(name, {"bad": [f"seed {seed} ends with status {status} after {steps} steps"]})
        with self.lock:
            self.running[name] -= 1
            if status and not steps:  # it cannot run here: other seeds would end alike
                self.wanted.pop(name, None)
            save(self.path, self.counts)

    def _add(self, name: str, more: Counts) -> None:
        with self.lock:
            self.counts[name] = added(self.counts[name], more)


def load(path: Path = COUNTS) -> Counts:
    found: Counts = json.loads(path.read_text()) if path.exists() else {}
    return found


def of_this_code(counts: Counts) -> Counts:
    """The counts, or, where they are of another state of the code, none but what was counted before; seeds go on."""
    code = code_digest()
    if counts.get("code") == code:
        return counts
    ran = {name: found for name, found in counts.items() if name in CAMPAIGNS}
    begun = {name: {"seed": found["seed"], "bad": []} for name, found in ran.items()}
    before = {name: {"tried": tried(found), "bad": len(found["bad"])} for name, found in ran.items()}
    return {"code": code, "before": before, "note": "", "figures": counts.get("figures", []), **begun}


def save(path: Path, counts: Counts) -> None:
    whole = path.with_suffix(".new")
    whole.write_text(json.dumps(counts, indent=1, sort_keys=True) + "\n")
    whole.replace(path)


HEAD = """\
# Reliability
What was tried against warplens, how often, and how often it failed. Each command, in the folder `tests`, goes on
where the counts end, up to the number that is wanted; `--count` asks for more, `--jobs` uses more cores, `--seconds`
ends it. `python -m fuzz.reliability page` writes this page from `tests/fuzz/counts.json`. Counts are of one state of
the code, the one whose sources have the digest `{code}`; another state begins anew. The columns behind them
have the state before it. What was bad there is mended, and a case of the tests. {note}

| what | tried | bad | tried before | bad before | command |
|---|--:|--:|--:|--:|---|
"""
NAMES = {
    "inputs": "mutated inputs",
    "kernels": "hostile kernels",
    "sweeps": "kills of sweeps",
    "tunes": "kills of tunes",
    "client": "requests of a hostile client",
}
ABOUT = {
    "inputs": "Bad is a traceback, a signal, more than 10 s of CPU time or 2 GiB, or, of a file with a checksum, "
    "another number.",
    "kernels": "PTX with damages, run in processes of its own beside an independent interpreter. Bad is a crash, or "
    "another result than the interpreter's. It cannot judge kernels that are `unchecked`.",
    "sweeps": "A process is killed at a random time, and the same sweep started again, until one ends. Bad is a "
    "table that has lost, doubled or changed a row.",
    "tunes": "The same for tunes.",
    "client": "Mutated JSON, other origins and hosts, and paths out of the folder. Bad is a fault of the server, or "
    "no answer.",
}


FIGURES = """
## Long traces, and tests with checked memory
A kernel that gathers, on busy cores; seconds are CPU time. The last row is of an earlier state of the code.

| what | figure | asked | command |
|---|--:|--:|---|
"""


def page(counts: Counts) -> str:
    """docs/reliability.md."""
    table, sections = "", ""
    for name, title in NAMES.items():
        found: Counts | None = counts.get(name)
        if found is None or not tried(found):
            continue
        before = counts.get("before", {}).get(name, {"tried": 0, "bad": 0})
        table += f"| {title} | {tried(found):,} | {len(found['bad'])} | {before['tried']:,} | {before['bad']} | "
        table += f"`python -m fuzz.reliability {name}` |\n"
        parts = found.get("kinds") or found.get("outcomes") or found.get("statuses")
        sections += f"\n## {title.capitalize()}\n{ABOUT[name]}\n"
        if parts:
            sections += "\n| of which | |\n|---|--:|\n"
            sections += "".join(f"| {part} | {count:,} |\n" for part, count in sorted(parts.items()))
        else:
            sections += f"\n{found['finished']} tables, {found['rows']:,} rows in all.\n"
        sections += "".join(f"\n- bad: {text}\n" for text in found["bad"])
    figures = "".join(f"| {' | '.join(row)} |\n" for row in counts.get("figures", ()))
    return (
        HEAD.format(code=counts["code"][:16], note=counts.get("note", ""))
        + table
        + sections
        + (FIGURES + figures if figures else "")
    )


def main() -> int:
    parser = argparse.ArgumentParser(prog="fuzz.reliability")
    parser.add_argument("campaigns", nargs="+", choices=[*CAMPAIGNS, "all", "page"], metavar="CAMPAIGN")
    parser.add_argument("--count", type=int)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=1e6)
    parser.add_argument("--counts", type=Path, default=COUNTS)
    parser.add_argument("--cases", type=Path, default=CASES, help="folder for bad inputs")
    parser.add_argument("--kinds", nargs="+", default=[], help="of mutated inputs; all by default")
    parser.add_argument("--seed", type=int, help="only print the counts of one seed")
    given = parser.parse_args()
    if given.kinds:
        os.environ["FUZZ_KINDS"] = " ".join(given.kinds)
    names = list(CAMPAIGNS) if "all" in given.campaigns else given.campaigns
    if "page" in names:
        PAGE.write_text(page(load(given.counts)))
        return 0
    if given.seed is not None:
        for counts in CAMPAIGNS[names[0]][0](given.seed):
            print(json.dumps(counts), flush=True)
        return 0
    counts = of_this_code(load(given.counts))
    for name in names:
        counts.setdefault(name, {"seed": 0, "bad": []})
    given.cases.mkdir(parents=True, exist_ok=True)
    wanted = {name: given.count or CAMPAIGNS[name][1] for name in names}
    Campaigns(
        counts, wanted, given.counts, given.cases.absolute(), time.monotonic() + given.seconds, given.jobs
    ).run()
    for name in names:
        print(f"{NAMES[name]:30s} {tried(counts[name]):8,} bad {len(counts[name]['bad'])}")
    bad = [f"{name}: {text}" for name in names for text in counts[name]["bad"]]
    print(*bad, sep="\n", file=sys.stderr)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
