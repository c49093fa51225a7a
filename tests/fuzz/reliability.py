"""`python -m fuzz.reliability CAMPAIGN` in the folder tests: runs what docs/reliability.md counts, and writes it.

A campaign goes on where the counts of earlier runs end: seeds are never used twice.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa

from .engine import fuzz, limit_memory
from .kinds import kinds
from .mutations import of_json

TESTS = Path(__file__).parents[1]
COUNTS = Path(__file__).parent / "counts.json"
PAGE = TESTS.parent / "docs" / "reliability.md"
#: Inputs of one kind between two notes of their number, and most seconds for them.
AT_ONCE, MOST_SECONDS = 1000, 2.5
Counts = dict[str, Any]


def inputs(counts: Counts, wanted: int) -> None:
    """Mutated inputs, all kinds in turn."""
    limit_memory()
    done = counts.setdefault("inputs", {"seed": 0, "kinds": {}, "bad": []})
    while sum(done["kinds"].values()) < wanted:
        for name, kind in kinds().items():
            with tempfile.TemporaryDirectory() as folder:
                ran, bad = fuzz(kind, Path(folder), 1000 + done["seed"], AT_ONCE, seconds=MOST_SECONDS)
            done["kinds"][name] = done["kinds"].get(name, 0) + ran
            done["bad"] += [f"{name}: {each.why}" for each in bad]
        done["seed"] += 1
        save(counts)


def kernels(counts: Counts, wanted: int) -> None:
    """Damaged kernels that are run, in processes of their own, beside an independent interpreter."""
    done = counts.setdefault("kernels", {"ran": 0, "outcomes": {}, "bad": []})
    while done["ran"] < wanted:
        first = 100_000 + done["ran"]
        command = [sys.executable, "-m", "frontends.ptx.mutating", str(first), str(first + 50)]
        ended = subprocess.run(command, capture_output=True, text=True, cwd=TESTS)
        lines = ended.stdout.splitlines()
        for line in lines:
            what = line.split()[2] if len(line.split()) > 2 else "crashed"
            done["outcomes"][what.rstrip(":")] = done["outcomes"].get(what.rstrip(":"), 0) + 1
            if what in ("wrong:", "crashed"):
                done["bad"].append(line)
        if ended.returncode:
            done["bad"].append(f"seeds from {first}: status {ended.returncode}")
        done["ran"] += 50
        save(counts)


def sweeps(counts: Counts, wanted: int) -> None:
    """Sweeps that are killed until one is done; its table against that of one that was not."""
    from warplens import sweep

    def run(path: Path) -> None:
        space = {"sms": list(range(1, 200)), "dram.bandwidth": ["100GB/s", "300GB/s"], "l1.mshrs": [16, 32]}
        sweep("mdm-baseline", vary=space, models=["mdm", "gpumech"], output=path, workers=1)

    _killed(counts, "sweeps", wanted, run)


def tunes(counts: Counts, wanted: int) -> None:
    """The same for tunes."""
    from tuning.making import write_space
    from warplens import tune

    def run(path: Path) -> None:
        tune(write_space(path.parent), "h200", output=path, workers=1)

    _killed(counts, "tunes", wanted, run)


def _killed(counts: Counts, name: str, wanted: int, run: Callable[[Path], None]) -> None:
    from warplens.sweeps.store import read_sweep

    def rows(path: Path) -> list[dict[str, Any]]:
        table: pa.Table = read_sweep(path)
        return sorted(table.to_pylist(), key=repr)

    done = counts.setdefault(name, {"kills": 0, "finished": 0, "rows": 0, "bad": []})
    chance, context = random.Random(f"{name}-{done['kills']}"), multiprocessing.get_context("fork")
    with tempfile.TemporaryDirectory() as folder:
        for each in ("cold", "warm"):  # the second says how long one takes
            started = time.monotonic()
            run(Path(folder) / f"{each}.parquet")
            seconds = time.monotonic() - started
        expected = rows(Path(folder) / "warm.parquet")
        while done["kills"] < wanted:
            path = Path(folder) / f"{done['kills']}.parquet"
            while True:
                process = context.Process(target=run, args=(path,))
                process.start()
                process.join(chance.uniform(0.0, seconds))
                if process.exitcode is not None:
                    break
                os.kill(process.pid or 0, signal.SIGKILL)
                process.join()
                done["kills"] += 1
            if process.exitcode:
                done["bad"].append(f"status {process.exitcode}")
            elif rows(path) != expected:
                done["bad"].append(f"{len(rows(path))} rows, not {len(expected)}, or others")
            done["finished"] += 1
            done["rows"] += len(expected)
            save(counts)


def client(counts: Counts, wanted: int) -> None:
    """Requests with mutated bodies, headers and paths: each is answered, none by a fault of the server."""
    from web.serving import Client, running_page

    state = {"kernel": "saxpy", "machines": [{"gpu": "h200", "set": {}}], "model": "mdm", "source": "x", "grid": [1]}
    done = counts.setdefault("client", {"requests": 0, "statuses": {}, "bad": []})
    chance = random.Random(f"client-{done['requests']}")
    headers = [{}, {"Origin": "http://evil.example"}, {"Host": "evil.example"}, {"Content-Type": "text/plain"}]
    headers += [{"Cookie": "warplens_visitor=" + "x" * 5000}, {"Sec-Fetch-Site": "cross-site"}]
    paths = ["/api/answers", "/api/kernels", "/api/signatures", "/api/advice", "/../etc/passwd", "/static/%2e%2e/x"]
    with running_page() as server:
        visitor = Client(server)
        while done["requests"] < wanted:
            body = of_json(chance, json.dumps({**state, "kernel": chance.choice(["", "no", None])}).encode())
            path = chance.choice(paths)
            try:
                answer = visitor.request(chance.choice(["POST", "POST", "PUT"]), path, body, chance.choice(headers))
                what = str(answer.status)
                if answer.status >= 500 or b"Traceback" in answer.content or b"something went" in answer.content:
                    done["bad"].append(f"{path} {body[:200]!r}: {answer.status} {answer.content[:200]!r}")
            except (OSError, ValueError) as error:
                what = type(error).__name__
                done["bad"].append(f"{path} {body[:200]!r}: {error}")
            done["statuses"][what] = done["statuses"].get(what, 0) + 1
            done["requests"] += 1
            if done["requests"] % 500 == 0:
                save(counts)
        if visitor.request("GET", "/").status != 200:
            done["bad"].append("the server no longer answers")
    save(counts)


CAMPAIGNS: dict[str, tuple[Callable[[Counts, int], None], int]] = {
    "inputs": (inputs, 100_000),
    "kernels": (kernels, 1000),
    "sweeps": (sweeps, 100),
    "tunes": (tunes, 100),
    "client": (client, 10_000),
}


def load() -> Counts:
    found: Counts = json.loads(COUNTS.read_text()) if COUNTS.exists() else {}
    return found


def save(counts: Counts) -> None:
    """Write the counts of one campaign beside those of others that may run at the same time."""
    whole = COUNTS.with_suffix(f".{os.getpid()}")
    whole.write_text(json.dumps(load() | counts, indent=1, sort_keys=True) + "\n")
    whole.replace(COUNTS)


HEAD = """\
# Reliability
What was tried against warplens, how often, and how often it failed. Each command, in the folder `tests`, goes on
where the counts end, up to the number that is wanted; `--count` asks for more. `python -m fuzz.reliability page`
writes this page from `tests/fuzz/counts.json`. What was mended no longer fails.

| what | tried | bad | mended | command |
|---|--:|--:|--:|---|
"""
ABOUT = {
    "inputs": "Bad is a traceback, a signal, more than 10 s of CPU time or 3 GiB, or, of a file with a checksum, "
    "another number.",
    "kernels": "PTX with damages, run in processes of its own beside an independent interpreter. Bad is a crash, or "
    "another result than the interpreter's. It cannot judge kernels that are `unchecked`.",
    "sweeps": "A process is killed at a random time, and the same sweep started again, until one ends. Bad is a "
    "table that has lost, doubled or changed a row.",
    "tunes": "The same for tunes.",
    "client": "Mutated JSON, other origins and hosts, and paths out of the folder. Bad is a fault of the server, or "
    "no answer.",
}


def page(counts: Counts) -> str:
    """docs/reliability.md."""
    names = {
        "inputs": "mutated inputs",
        "kernels": "hostile kernels",
        "sweeps": "kills of sweeps",
        "tunes": "kills of tunes",
        "client": "requests of a hostile client",
    }
    table, sections = "", ""
    for name, title in names.items():
        found = counts.get(name)
        if found is None:
            continue
        bad, mended = len(found["bad"]), len(found.get("mended", ()))
        table += f"| {title} | {tried(found):,} | {bad} | {mended} | `python -m fuzz.reliability {name}` |\n"
        parts = found.get("kinds") or found.get("outcomes") or found.get("statuses")
        sections += f"\n## {title.capitalize()}\n{ABOUT[name]}\n"
        if parts:
            sections += "\n| of which | |\n|---|--:|\n"
            sections += "".join(f"| {part} | {count:,} |\n" for part, count in sorted(parts.items()))
        else:
            sections += f"\n{found['finished']} tables, {found['rows']:,} rows in all.\n"
        sections += "".join(f"\n- bad: {text}\n" for text in found["bad"])
    return HEAD + table + sections


def tried(found: Counts) -> int:
    """How often a campaign tried."""
    if "kinds" in found:
        return sum(found["kinds"].values())
    return int(found.get("ran") or found.get("kills") or found.get("requests") or 0)


def main() -> int:
    parser = argparse.ArgumentParser(prog="fuzz.reliability")
    parser.add_argument("campaign", choices=[*CAMPAIGNS, "page"])
    parser.add_argument("--count", type=int)
    given = parser.parse_args()
    if given.campaign == "page":
        PAGE.write_text(page(load()))
        return 0
    run, usual = CAMPAIGNS[given.campaign]
    counts = {name: each for name, each in load().items() if name == given.campaign}
    run(counts, given.count or usual)
    for text in counts[given.campaign]["bad"]:
        print(text, file=sys.stderr)
    return 1 if counts[given.campaign]["bad"] else 0


if __name__ == "__main__":
    sys.exit(main())
