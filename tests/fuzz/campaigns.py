"""What docs/reliability.md counts: each campaign, given a seed, yields counts as they come, bad ones among them."""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import re
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pyarrow as pa

from warplens.errors import MissingPackageError
from warplens.sweeps.store import read_sweep

from .engine import fuzz, limit_memory
from .kinds import kinds
from .mutations import of_json

CASES = Path(__file__).parent / "cases"
#: Inputs of one kind for each seed, and most seconds for them; some kinds take long for each.
AT_ONCE, MOST_SECONDS = 1000, 2.5
LONGER = {"nsight-rep": 25.0, "prediction": 25.0, "messages": 10.0}
#: Kernels, kills and requests for each seed.
KERNELS, KILLS, REQUESTS = 20, 25, 1000
Counts = dict[str, Any]


def inputs(seed: int) -> Iterator[Counts]:
    """Mutated inputs, all kinds in turn or some; bad ones are made small and kept as cases."""
    limit_memory()
    chosen = os.environ.get("FUZZ_KINDS", "").split() or list(kinds())
    for name, kind in ((name, kinds()[name]) for name in chosen):
        try:
            with tempfile.TemporaryDirectory() as folder:
                ran, bad = fuzz(kind, Path(folder), seed, AT_ONCE, seconds=LONGER.get(name, MOST_SECONDS))
        except MissingPackageError:
            continue  # its kind cannot be read here
        for each in bad:
            keep_case(name, each.why, each.content)
        yield {"kinds": {name: ran}, "bad": [f"{name}: {each.why}" for each in bad]}


def keep_case(kind: str, why: str, content: bytes) -> None:
    """Keep an input that was bad, for the tests."""
    what = re.sub(r"\W+", "-", why.split("(")[0])[:60].strip("-")
    (Path(os.environ.get("FUZZ_CASES", CASES)) / f"{kind}@{what}").write_bytes(content)


def kernels(seed: int) -> Iterator[Counts]:
    """Damaged kernels that are run, beside an independent interpreter."""
    from frontends.ptx.mutating import run

    for number in range(KERNELS * seed, KERNELS * (seed + 1)):
        entry, what = run(number)
        bad = [f"{number} {entry} {what}"] if what.startswith("wrong") else []
        yield {"outcomes": {what.partition(":")[0]: 1}, "bad": bad}


def sweeps(seed: int) -> Iterator[Counts]:
    """A sweep that is killed until it is done; its table against that of one that was not."""
    return _killed(f"sweeps-{seed}", _sweep)


def _sweep(path: Path) -> None:
    from warplens import sweep

    space = {"sms": list(range(1, 200)), "dram.bandwidth": ["100GB/s", "300GB/s"], "l1.mshrs": [16, 32]}
    sweep("mdm-baseline", vary=space, models=["mdm", "gpumech"], output=path, workers=1)


def tunes(seed: int) -> Iterator[Counts]:
    """The same for a tune."""
    return _killed(f"tunes-{seed}", _tune)


def _tune(path: Path) -> None:
    from tuning.making import write_space
    from warplens import tune

    tune(write_space(path.parent), "h200", output=path, workers=2)


def _killed(name: str, run: Callable[[Path], None]) -> Iterator[Counts]:
    chance = random.Random(name)
    with tempfile.TemporaryDirectory() as folder:
        for each in ("cold", "warm"):  # the second says how long one takes
            _, seconds = _run(run, Path(folder) / f"{each}.parquet")
        expected = _rows(Path(folder) / "warm.parquet")
        kills = 0
        while kills < KILLS:
            path = Path(folder) / f"killed-{kills}.parquet"
            while (status := _run(run, path, chance.uniform(0.0, seconds))[0]) == -signal.SIGKILL:
                kills += 1
                yield {"kills": 1}
            bad = []
            if status:
                bad.append(f"status {status}")
            elif _rows(path) != expected:
                bad.append(f"{len(_rows(path))} rows, not {len(expected)}, or others")
            yield {"finished": 1, "rows": len(expected), "bad": bad}


def _run(run: Callable[[Path], None], path: Path, most_seconds: float | None = None) -> tuple[int, float]:
    """In another process, which is killed after a time: (status, seconds)."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe(duplex=False)
    process = context.Process(target=_begin, args=(run, path, there))
    process.start()
    there.close()
    here.recv()  # what it imports does not count
    started = time.monotonic()
    process.join(most_seconds)
    if process.exitcode is None:
        process.kill()
        process.join()
    return process.exitcode or 0, time.monotonic() - started


def _begin(run: Callable[[Path], None], path: Path, begun: Connection) -> None:
    begun.send(None)
    run(path)


def _rows(path: Path) -> list[dict[str, Any]]:
    table: pa.Table = read_sweep(path)
    return sorted(table.to_pylist(), key=repr)


def client(seed: int) -> Iterator[Counts]:
    """Requests with mutated bodies, headers and paths: each is answered, none by a fault of the server."""
    from web.serving import Client, running_page

    state = {"kernel": "saxpy", "machines": [{"gpu": "h200", "set": {}}], "model": "mdm", "source": "x", "grid": [1]}
    chance = random.Random(f"client-{seed}")
    headers = [{}, {"Origin": "http://evil.example"}, {"Host": "evil.example"}, {"Content-Type": "text/plain"}]
    headers += [{"Cookie": "warplens_visitor=" + "x" * 5000}, {"Sec-Fetch-Site": "cross-site"}]
    paths = ["/api/answers", "/api/kernels", "/api/signatures", "/api/advice", "/../etc/passwd", "/static/%2e%2e/x"]
    with running_page() as server:
        visitor = Client(server)
        for _ in range(REQUESTS):
            body = of_json(chance, json.dumps({**state, "kernel": chance.choice(["", "no", None])}).encode())
            path, bad = chance.choice(paths), []
            try:
                answer = visitor.request(chance.choice(["POST", "POST", "PUT"]), path, body, chance.choice(headers))
                what = str(answer.status)
                if answer.status >= 500 or b"Traceback" in answer.content or b"something went" in answer.content:
                    bad.append(f"{path} {body[:200]!r}: {answer.status} {answer.content[:200]!r}")
            except (OSError, ValueError) as error:
                what = type(error).__name__
                bad.append(f"{path} {body[:200]!r}: {error}")
            yield {"statuses": {what: 1}, "bad": bad}
        if visitor.request("GET", "/").status != 200:
            yield {"bad": ["the server no longer answers"]}


#: Each campaign, and how often it tries unless told.
CAMPAIGNS: dict[str, tuple[Callable[[int], Iterator[Counts]], int]] = {
    "inputs": (inputs, 100_000),
    "kernels": (kernels, 1000),
    "sweeps": (sweeps, 100),
    "tunes": (tunes, 100),
    "client": (client, 10_000),
}


def tried(found: Counts) -> int:
    """How often a campaign tried."""
    parts = found.get("kinds") or found.get("outcomes") or found.get("statuses")
    return sum(parts.values()) if parts else int(found.get("kills", 0))


def added(one: Any, other: Any) -> Any:
    """Sums of numbers, and lists and tables joined."""
    if isinstance(one, dict):
        return one | {key: added(one[key], value) if key in one else value for key, value in other.items()}
    return one + other
