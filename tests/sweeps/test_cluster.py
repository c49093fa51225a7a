"""Sweeps on a Dask cluster, for real: a scheduler and two workers on loopback, each a process that can be killed."""

from __future__ import annotations

import json
import os
import pickle
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import distributed
import pyarrow.parquet as pq
import pytest

from warplens.errors import InputError, MissingPackageError, install_command
from warplens.sweeps import cluster, read_sweep, run_sweep
from warplens.sweeps.cluster import ClusterError
from warplens.sweeps.work import Work

from .making import GPU, trace

#: Each configuration needs a cache simulation of its own, so that there is something to interrupt.
VARY = {"sms": "2:40:2", "l1.size": "12KiB,24KiB"}
MODELS = ["mdm", "gpumech"]
ROWS = 20 * 2 * len(MODELS)
UNIT_SECONDS = 0.1
#: Patience with a busy machine.
SECONDS = 60.0


class Processes:
    """A scheduler and its workers."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.file = folder / "scheduler.json"
        self.all: list[subprocess.Popen[bytes]] = []
        self.scheduler = self._start("scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard")
        wait_until(self.file.exists, "the scheduler has started")

    def add_worker(self) -> subprocess.Popen[bytes]:
        return self._start("worker", "--nthreads", "1", "--no-nanny", "--no-dashboard")

    def _start(self, what: str, *options: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "dask", what, "--scheduler-file", str(self.file), *options]
        # Nothing can be kept there: a second sweep has as much to do as the first.
        environment = {**os.environ, "WARPLENS_CACHE_DIR": str(self.folder / f"{what}.log" / "cache")}
        with (self.folder / f"{what}.log").open("ab") as log:
            process = subprocess.Popen(command, env=environment, stdout=log, stderr=log, cwd=self.folder)
        self.all.append(process)
        return process

    def wait_for_workers(self, count: int) -> None:
        with distributed.Client(scheduler_file=str(self.file), timeout=SECONDS, set_as_default=False) as client:
            client.wait_for_workers(count, timeout=SECONDS)

    def stop(self) -> None:
        for process in reversed(self.all):
            process.kill()
            process.wait()


@pytest.fixture(scope="module", autouse=True)
def small_units() -> Iterator[None]:
    """Many units of little work, each kept at once, so that some are done when something happens."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("warplens.sweeps.plan.UNIT_SECONDS", UNIT_SECONDS)
        patch.setattr("warplens.sweeps.run.FLUSH_SECONDS", 0.0)
        yield


@pytest.fixture(scope="module")
def processes(tmp_path_factory) -> Iterator[Processes]:
    made = Processes(tmp_path_factory.mktemp("cluster"))
    try:
        workers = [made.add_worker() for _ in range(2)]
        made.wait_for_workers(len(workers))
        yield made
    finally:
        made.stop()


@pytest.fixture(scope="module")
def expected(small_units, tmp_path_factory) -> object:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WARPLENS_CACHE_DIR", str(tmp_path_factory.mktemp("expected")))
        return run_sweep(trace("graph"), GPU, VARY, models=MODELS).table


def wait_until(condition, what: str) -> None:
    started = time.monotonic()
    while not condition():
        assert time.monotonic() - started < SECONDS, f"still waiting until {what}"
        time.sleep(0.02)


def sweep(path: Path, processes: Processes, **more: object):
    return run_sweep(trace("graph"), GPU, VARY, models=MODELS, output=path, scheduler=str(processes.file), **more)


def driver(path: Path, processes: Processes, then: str = "") -> list[str]:
    """The same sweep in a process of its own, which does something to itself when some units are on disk."""
    code = f"""
import json, os, resource, signal, sys
from warplens.sweeps import plan, run, store
plan.UNIT_SECONDS, run.FLUSH_SECONDS = {UNIT_SECONDS}, 0.0
kept = 0
def add(self, units, original=store.Store.add):
    global kept
    original(self, units)
    kept += 1
    if kept == 3:
        {then or "pass"}
store.Store.add = add
done = run.run_sweep(sys.argv[1], sys.argv[2], json.loads(sys.argv[3]), models=json.loads(sys.argv[4]),
                     output=sys.argv[5], scheduler=sys.argv[6])
print(json.dumps([done.resumed_rows, len(done)]))
"""
    arguments = [str(trace("graph")), GPU, json.dumps(VARY), json.dumps(MODELS), str(path), str(processes.file)]
    return [sys.executable, "-c", code, *arguments]


def test_the_rows_are_those_of_this_machine(tmp_path, processes, expected):
    told: list[float] = []
    done = sweep(tmp_path / "out.parquet", processes, progress=lambda part, _: told.append(part))
    assert done.table.equals(expected)
    assert told == sorted(told)
    assert told[-1] == 1.0
    kernels = [trace("compute_ilp4_lowocc"), "mdm-baseline"]
    both, alone = (
        run_sweep(kernels, GPU, {"l1.mshrs": [0, 64]}, scheduler=where) for where in (processes.file, None)
    )
    assert both.table.equals(alone.table)
    assert both.errors > 0


def test_workers_that_are_killed_lose_nothing(tmp_path, expected):
    """One, then the other, so that no copy of the kernel is left; then a third comes."""
    processes = Processes(tmp_path)
    try:
        workers = [processes.add_worker() for _ in range(2)]
        processes.wait_for_workers(2)
        told: list[float] = []

        def kill(part: float, _: float) -> None:
            if len(told) in (2, 5):
                worker = workers.pop()
                worker.send_signal(signal.SIGKILL)
                worker.wait()
                if not workers:
                    processes.add_worker()
            told.append(part)

        done = sweep(tmp_path / "out.parquet", processes, progress=kill)
    finally:
        processes.stop()
    assert not workers
    assert done.table.equals(expected)
    assert pq.read_table(tmp_path / "out.parquet").equals(expected)


def test_a_driver_that_is_killed_goes_on_where_it_was(tmp_path, processes, expected):
    path = tmp_path / "out.parquet"
    killed = driver(path, processes, "os.kill(os.getpid(), signal.SIGKILL)")
    assert subprocess.run(killed, check=False).returncode == -signal.SIGKILL
    before = read_sweep(path)
    assert 0 < before.num_rows < ROWS
    pq.read_table(path)  # any reader can, at any time
    again = sweep(path, processes)
    assert again.resumed_rows == before.num_rows
    assert again.table.equals(expected)


def test_two_sweeps_into_one_output(tmp_path, processes, expected):
    path = tmp_path / "out.parquet"
    stopped = driver(path, processes, "os.kill(os.getpid(), signal.SIGSTOP)")
    first = subprocess.Popen(stopped, stdout=subprocess.PIPE)
    try:
        os.waitid(os.P_PID, first.pid, os.WSTOPPED)
        assert 0 < read_sweep(path).num_rows < ROWS
        with pytest.raises(InputError, match="another sweep is writing to it"):
            sweep(path, processes)
        first.send_signal(signal.SIGCONT)
        told, _ = first.communicate(timeout=SECONDS)
    finally:
        first.kill()
        first.wait()
    assert json.loads(told) == [0, ROWS]
    assert pq.read_table(path).equals(expected)


def test_a_full_disk_keeps_what_is_finished(tmp_path, processes, expected):
    """Files that can grow no more stand for the disk; `test_robustness` has one that is full."""
    path = tmp_path / "out.parquet"
    full = driver(path, processes, "resource.setrlimit(resource.RLIMIT_FSIZE, (5_000,) * 2)")
    done = subprocess.run(full, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "resumes from there" in done.stderr
    before = read_sweep(path)
    assert 0 < before.num_rows < ROWS
    again = sweep(path, processes)
    assert again.resumed_rows == before.num_rows
    assert again.table.equals(expected)


def test_without_workers_it_waits_and_without_a_scheduler_it_ends(tmp_path, caplog):
    processes = Processes(tmp_path)
    try:
        waited: list[float] = []

        def told(part: float, _: float) -> None:
            if not waited:
                processes.add_worker()
            waited.append(part)

        question = {"models": ["mdm"], "scheduler": processes.file}
        assert len(run_sweep("mdm-baseline", None, {"l1.mshrs": [32, 64]}, progress=told, **question)) == 2
        assert waited[0] == 0.0
        assert "has no workers" in caplog.text
        with pytest.raises(ClusterError, match="the same command resumes"):
            run_sweep(
                "mdm-baseline",
                None,
                {"l1.mshrs": list(range(1, 500))},
                progress=lambda *_: processes.scheduler.kill(),
                simulators=["pipeline"],
                **question,
            )
    finally:
        processes.stop()


# -- mistakes ---------------------------------------------------------------------------------


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:1", "nonsense", "tls://127.0.0.1:1", "tcp://127.0.0.1:port"])
def test_an_address_where_nobody_answers_is_an_error_within_seconds(tmp_path, monkeypatch, address):
    monkeypatch.setattr(cluster, "CONNECT_SECONDS", 1.0)
    started = time.monotonic()
    with pytest.raises(InputError, match="no Dask scheduler answers there"):
        run_sweep(
            "mdm-baseline", None, {"sms": [1]}, models=["mdm"], output=tmp_path / "o.parquet", scheduler=address
        )
    assert time.monotonic() - started < 15
    assert not list(tmp_path.iterdir())


def test_without_dask_the_remedy_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(MissingPackageError, match=re.escape(install_command("cluster"))):
        run_sweep("mdm-baseline", None, {"sms": [1]}, scheduler="tcp://127.0.0.1:1")


def test_workers_are_of_this_machine_or_of_the_scheduler():
    with pytest.raises(InputError, match="either workers or a scheduler"):
        run_sweep("mdm-baseline", None, {"sms": [1]}, scheduler="tcp://127.0.0.1:1", workers=2)


def test_workers_with_other_code_are_refused(processes, monkeypatch):
    monkeypatch.setattr(cluster, "code_digest", lambda: "of other code")
    with pytest.raises(ClusterError, match="a different version of warplens"):
        run_sweep("mdm-baseline", None, {"sms": [1]}, models=["mdm"], scheduler=str(processes.file))


def test_work_is_sent_without_what_belongs_to_this_process(monkeypatch, tmp_path):
    made = []
    monkeypatch.setattr("warplens.sweeps.run.Work", lambda *parts: made.append(Work(*parts)) or made[-1])
    run_sweep(trace("compute_ilp4_lowocc"), GPU, {"sms": [1, 2]}, models=["mdm"])
    assert made[0].workload.results.memory
    monkeypatch.setenv("WARPLENS_CACHE_DIR", str(tmp_path))
    copy = pickle.loads(pickle.dumps(made[0]))
    assert copy.workload.results.memory == {}
    assert copy.workload.results.disk.folder.is_relative_to(tmp_path)
