"""Processes that are killed, disks that are full, two sweeps into one file: for real, in processes of their own."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from warplens.sweeps import read_sweep, run_sweep
from warplens.sweeps.store import Store

from .making import GPU, rows, trace

#: Interrupts reach it also where they do not reach the tests, as in the background of a shell.
INTERRUPTIBLE = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
COMMAND = [sys.executable, "-c", f"{INTERRUPTIBLE}; from warplens.cli import main; main()"]
#: Each configuration needs a cache simulation of its own, so that there is something to interrupt.
SPACE = ["--vary", "sms=1:40:1", "--vary", "l1.size=12KiB,24KiB", "--model", "mdm", "--model", "gpumech"]
ROWS = 40 * 2 * 2


def environment(folder: Path) -> dict[str, str]:
    return {**os.environ, "WARPLENS_CACHE_DIR": str(folder / "cache")}


def arguments(path: Path, *more: str) -> list[str]:
    return [*COMMAND, "sweep", str(trace("graph")), "--gpu", GPU, *SPACE, "-o", str(path), "--json", *more]


@pytest.fixture(scope="module")
def known(tmp_path_factory) -> Path:
    """The sweep, with the results it has kept: who need not be interrupted takes them from there."""
    folder = tmp_path_factory.mktemp("expected")
    done = subprocess.run(
        arguments(folder / "out.parquet"), env=environment(folder), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["rows"] == ROWS
    return folder


@pytest.fixture(scope="module")
def expected(known) -> object:
    return read_sweep(known / "out.parquet")


def test_a_killed_sweep_goes_on_without_losing_redoing_or_doubling_rows(tmp_path, expected):
    path = tmp_path / "out.parquet"
    told = tmp_path / "told"
    kills, last = 0, 0
    for _ in range(30):
        with told.open("w") as file:
            process = subprocess.Popen(arguments(path), env=environment(tmp_path), stdout=file)
        started = time.monotonic()
        while process.poll() is None and time.monotonic() - started < 60:
            if path.exists() and read_sweep(path).num_rows > last and kills < 2:
                process.send_signal(signal.SIGKILL)
                process.wait()
                kills += 1
            time.sleep(0.02)
        pq.read_table(path)  # any reader can, at any time
        found = read_sweep(path)
        assert found.num_rows >= last  # nothing that was there is gone
        keys = [(row["configuration"], row["model"]) for row in found.to_pylist()]
        assert len(set(keys)) == len(keys)
        if process.returncode == 0:
            assert (
                json.loads(told.read_text())["resumed_rows"] == last
            )  # and nothing that was there is worked out again
            break
        last = found.num_rows
    assert kills > 0
    assert read_sweep(path).equals(expected)
    assert pq.read_table(path).equals(expected)
    assert not path.with_name("out.parquet.parts").exists()


@pytest.mark.slow
def test_an_interrupted_sweep_merges_what_it_has(tmp_path, known, expected):
    error = tmp_path / "error"
    for attempt in range(5):  # on a busy machine the sweep may end before the signal is sent: then again
        folder = tmp_path / str(attempt)
        folder.mkdir()
        path = folder / "out.parquet"
        with error.open("w") as file:
            process = subprocess.Popen(
                arguments(path), env=environment(folder), stdout=subprocess.DEVNULL, stderr=file
            )
        started = time.monotonic()
        while process.poll() is None and time.monotonic() - started < 60:
            if path.exists() and read_sweep(path).num_rows:
                process.send_signal(signal.SIGINT)
                break
            time.sleep(0.02)
        if process.wait(60) != 0:
            break
    assert process.returncode == 130
    said = [f"{path} keeps what is finished: run the same command again to go on", "interrupted"]
    assert [line for line in error.read_text().splitlines() if line][-2:] == said
    assert "Traceback" not in error.read_text()
    assert 0 < pq.read_table(path).num_rows < ROWS
    assert subprocess.run(arguments(path), env=environment(known), capture_output=True, check=False).returncode == 0
    assert pq.read_table(path).equals(expected)


def test_two_sweeps_into_one_output(tmp_path, expected):
    """The second is refused while the first is at work; nothing of the first is lost."""
    path = tmp_path / "out.parquet"
    first = subprocess.Popen(arguments(path), env=environment(tmp_path), stdout=subprocess.DEVNULL)
    started = time.monotonic()
    while not (path.exists() and read_sweep(path).num_rows) and time.monotonic() - started < 60:
        time.sleep(0.02)
    first.send_signal(signal.SIGSTOP)  # so that it is at work for as long as the second tries
    second = subprocess.run(arguments(path), env=environment(tmp_path), capture_output=True, text=True, check=False)
    first.send_signal(signal.SIGCONT)
    assert second.returncode == 2
    assert "another sweep is writing to it" in second.stderr
    assert first.wait(120) == 0
    assert pq.read_table(path).equals(expected)


LIMITED = """
import resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv.pop(1)),) * 2)
from warplens.cli import main
main()
"""


@pytest.mark.slow
@pytest.mark.parametrize("room", [20_000, 34_000])
def test_a_file_that_cannot_grow_is_a_clear_error_and_stays_readable(tmp_path, known, expected, room):
    path = tmp_path / "out.parquet"
    limited = [sys.executable, "-c", LIMITED, str(room), *arguments(path)[3:]]
    done = subprocess.run(limited, env=environment(known), capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    assert "cannot be written" in done.stderr
    assert "resumes from there" in done.stderr
    assert "Traceback" not in done.stderr
    kept = pq.read_table(path).num_rows if path.exists() else 0
    again = subprocess.run(arguments(path), env=environment(known), capture_output=True, text=True, check=False)
    assert again.returncode == 0
    assert json.loads(again.stdout)["resumed_rows"] >= kept
    assert pq.read_table(path).equals(expected)


def test_a_full_disk(tmp_path, known, expected):
    """A file system of its own with too little room, where the system allows one."""
    disk = tmp_path / "disk"
    disk.mkdir()
    script = textwrap.dedent(
        f"""
        mount -t tmpfs -o size=64k none {disk} || exit 77
        {" ".join(f"'{part}'" for part in arguments(disk / "out.parquet"))} > {tmp_path}/told 2> {tmp_path}/error
        echo $? > {tmp_path}/code
        cp -r {disk} {tmp_path}/saved
        """
    )
    if shutil.which("unshare") is None:
        pytest.skip("no unshare")
    done = subprocess.run(["unshare", "-rm", "sh", "-c", script], env=environment(known), check=False)
    if done.returncode == 77 or not (tmp_path / "code").exists():
        pytest.skip("no file systems may be mounted here")
    error = (tmp_path / "error").read_text()
    assert (tmp_path / "code").read_text().strip() == "1", error
    assert "No space left on device" in error
    assert "Traceback" not in error
    saved = tmp_path / "saved" / "out.parquet"
    pq.read_table(saved)
    found = rows(read_sweep(saved))
    everything = {(row["configuration"], row["model"]): row for row in expected.to_pylist()}
    assert all(everything[row["configuration"], row["model"]] == row for row in found)


def test_leftovers_of_a_removed_result_are_not_taken_for_it(tmp_path):
    path = tmp_path / "out.parquet"
    run_sweep("mdm-baseline", None, {"sms": [7, 14]}, models=["mdm"], output=path)
    parts = tmp_path / "out.parquet.parts"
    parts.mkdir()
    path.rename(parts / "00000001.parquet")
    again = run_sweep("mdm-baseline", None, {"sms": [7, 14]}, models=["mdm"], output=path)
    assert again.resumed_rows == 0
    assert len(again) == 2


WORKERS = """
import os, sys, time
from pathlib import Path
import pyarrow as pa
from warplens.sweeps.plan import Unit
from warplens.sweeps.processes import Processes
from warplens.sweeps.store import Store

class Slow:
    def rows(self, given):
        if os.getpid() != parent:
            print(os.getpid(), flush=True)
            time.sleep(60)
        return pa.table({"x": [1]})

parent, units = os.getpid(), [Unit(number, 0, None, 1.0) for number in range(2)]
with Store(Path(sys.argv[1]), {}, pa.schema([("x", pa.int64())])), Processes(1) as processes:
    list(processes.results(units, [Slow()], lambda: None))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="workers are forked")
def test_workers_of_a_killed_process_end_and_hold_no_lock(tmp_path):
    command = [sys.executable, "-c", WORKERS, tmp_path / "out.parquet"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        worker = int(process.stdout.readline())
        os.kill(worker, signal.SIGSTOP)  # it cannot notice yet
        process.kill()
        process.wait()
        with Store(tmp_path / "out.parquet", {}, pa.schema([("x", pa.int64())])):
            os.kill(worker, signal.SIGCONT)
        killed = time.monotonic()
        assert process.stdout.read() == b""  # the worker holds the other end
        assert time.monotonic() - killed < 30.0
