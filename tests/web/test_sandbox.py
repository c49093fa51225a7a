"""Kernels of visitors run in a process with limits: loops end, memory ends, files are out of reach."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from warplens.web import sandbox_process
from warplens.web.errors import Cancelled, FieldError
from warplens.web.sandbox import Sandbox
from web.test_sources import KERNEL, LAUNCH


@pytest.fixture(scope="module")
def sandbox():
    made = Sandbox()
    yield made
    made.close()
    assert not made.root.exists()


def left_over(sandbox: Sandbox) -> list[str]:
    return [path.name for path in sandbox.root.iterdir() if path.name.startswith("kernel-")]


def test_a_kernel_becomes_a_trace(sandbox: Sandbox) -> None:
    trace, folder = sandbox.run(LAUNCH)
    assert trace.header.kernel == "scale" and trace.header.blocks == 4
    assert sum(group.instructions for group in trace.groups()) > 4
    sandbox.remove(folder)
    assert not left_over(sandbox)


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (KERNEL.replace("x[threadIdx.x] *= 2", "while (true) x[threadIdx.x] += 1"), "stopped after|nothing can end"),
        (KERNEL.replace("x[threadIdx.x] *= 2", "x[1 << 28] = 1"), "out of bounds"),
        (KERNEL.replace("*= 2", "*= two"), 'kernel.cu:1: identifier "two" is undefined'),
        ("__device__ float big[1 << 30];\n" + KERNEL.replace("*= 2", "= big[n]"), "memory"),
        ('#line 1 "/etc/passwd"\n#error here\n' + KERNEL, "here"),
    ],
    ids=["endless", "wild", "wrong", "giant", "line"],
)
def test_what_goes_wrong_is_said_and_leaves_nothing(sandbox: Sandbox, monkeypatch, source: str, words: str) -> None:
    with pytest.raises(FieldError, match=words) as caught:
        sandbox.run(LAUNCH | {"source": source})
    assert caught.value.field == "source"
    assert "root:" not in str(caught.value) and str(sandbox.root) not in str(caught.value)
    assert not left_over(sandbox)


def test_a_process_that_takes_too_long_is_ended(sandbox: Sandbox, monkeypatch) -> None:
    monkeypatch.setattr("warplens.web.sandbox.MOST_SECONDS", 0.2)
    with pytest.raises(FieldError, match=r"more than 0\.2 s"):
        sandbox.run(LAUNCH)
    assert not left_over(sandbox)


def test_a_visitor_who_leaves_takes_the_process_along(sandbox: Sandbox) -> None:
    left = threading.Event()
    threading.Timer(0.2, left.set).start()

    def stopped() -> None:
        if left.is_set():
            raise Cancelled

    with pytest.raises(Cancelled):
        sandbox.run(LAUNCH, stopped)
    assert not left_over(sandbox)


CHILD = """
import sys
from pathlib import Path
from warplens.web.process_limits import limit_resources, restrict_access
limit_resources(memory_bytes=1 << 30, cpu_seconds=5, file_bytes=1000)
done = restrict_access([sys.prefix, sys.base_prefix, "/usr", "/lib"], [sys.argv[1]])
Path(sys.argv[1], "small").write_text("fine")
def attempt(name, work):
    try:
        work()
    except (OSError, MemoryError) as error:
        print(name, type(error).__name__)
    else:
        print(name, "possible")
attempt("read", lambda: Path("/etc/passwd").read_text())
attempt("write", lambda: Path(sys.argv[1]).with_name("beside").write_text("x"))
attempt("memory", lambda: bytearray(2 << 30))
attempt("large", lambda: Path(sys.argv[1], "large").write_text("x" * 5000))
import socket
attempt("connect", lambda: socket.create_connection(("127.0.0.1", int(sys.argv[2])), 1))
print("confined", done)
"""


@pytest.mark.skipif(os.name != "posix", reason="limits of processes are POSIX's")
def test_limits_and_landlock_hold(tmp_path: Path) -> None:
    import signal
    import socket

    folder = tmp_path / "own"
    folder.mkdir()
    # Python would turn the signal of a file that grows too large into an exception itself, as long as it is ignored.
    assert signal.getsignal(signal.SIGXFSZ) == signal.SIG_IGN
    with socket.create_server(("127.0.0.1", 0)) as listening:
        arguments = [sys.executable, "-c", CHILD, str(folder), str(listening.getsockname()[1])]
        done = subprocess.run(arguments, capture_output=True, text=True, timeout=60, check=True)
    found = dict(line.split() for line in done.stdout.splitlines())
    assert found["memory"] == "MemoryError" and found["large"] == "OSError"
    if found["confined"] == "True":
        assert found["read"] == found["write"] == found["connect"] == "PermissionError"


def test_an_include_that_got_through_finds_nothing(tmp_path: Path) -> None:
    """The second line of defence, with the first one taken away."""
    secret = tmp_path / "secret.h"
    secret.write_text("this_is_secret\n")
    work = tmp_path / "work"
    work.mkdir()
    script = (
        "import sys, json\nfrom pathlib import Path\nfrom warplens.web import sandbox_process, sources\n"
        "sources.check_source = lambda text: text\nsandbox_process.main(Path(sys.argv[1]))"
    )
    environment = {**os.environ, "WARPLENS_CACHE_DIR": str(work), "NUMBA_CACHE_DIR": str(work)}
    request = __import__("json").dumps(LAUNCH | {"source": f'#include "{secret}"\n{KERNEL}'})
    done = subprocess.run(
        [sys.executable, "-c", script, str(work)], input=request, capture_output=True, text=True, env=environment
    )
    assert '"error"' in done.stdout, done.stderr
    if '"confined": true' in done.stdout:
        assert "this_is_secret" not in done.stdout


def test_limits_of_a_run_are_within_those_of_its_process() -> None:
    assert sandbox_process.RUN_SECONDS < sandbox_process.CPU_SECONDS
