"""`warplens serve`: starts, says where, ends when told; and what it refuses."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import urllib.request

import pytest

from warplens.errors import install_command

SCRIPT = "import sys; sys.argv[0] = 'warplens'; from warplens.cli import main; main()"


def test_it_says_where_it_is_and_ends_cleanly() -> None:
    command = [
        sys.executable,
        "-c",
        SCRIPT,
        "serve",
        "mdm-baseline",
        "saxpy",
        "--gpu",
        "mdm2019",
        "--port",
        "0",
        "--json",
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stderr is not None
        text = ""
        while not text.rstrip().endswith("}"):
            text += process.stdout.readline()
        with urllib.request.urlopen(json.loads(text)["url"] + "api/catalogue") as answer:
            found = json.load(answer)
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0, process.stderr.read()
    names = [(each["group"], each["name"]) for each in found["kernels"]]
    assert names[:2] == [("Inputs", "mdm-baseline"), ("Inputs", "saxpy")]
    assert found["first"]["kernel"] == "input:0" and found["first"]["machines"][0]["gpu"] == "@file"
    assert found["gpus"][0] == "mdm2019" and len(set(found["gpus"])) == len(found["gpus"])


def test_a_taken_port_has_a_remedy(warplens_command) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        code, _, err = warplens_command("serve", "--port", taken.getsockname()[1])
    assert code == 2 and "choose another with --port" in err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("no-such-kernel",), "no such file, and no bundled example"),
        (("--gpu", "h2000"), "did you mean 'h200'"),
        (("--host", "0.0.0.0", "--port", "0"), "give the one that browsers will use"),
        (("--host", "no host", "--port", "0"), "cannot listen"),
        (("--port", "70000"), "70000"),
    ],
)
def test_what_cannot_be_served_is_refused(warplens_command, arguments, words: str) -> None:
    code, _, err = warplens_command("serve", *arguments)
    assert code == 2 and words in err


@pytest.mark.parametrize("package", ["starlette", "uvicorn", "plotly"])
def test_a_missing_package_has_a_remedy(package: str) -> None:
    script = f"import sys; sys.modules['{package}'] = None; {SCRIPT}"
    done = subprocess.run([sys.executable, "-c", script, "serve"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert f"the page needs {package}; install it with: {install_command('web')}" in done.stderr


def test_other_addresses_are_warned_of(warplens_command, monkeypatch) -> None:
    monkeypatch.setattr("warplens.web.server.is_loopback", lambda host: False)
    monkeypatch.setattr(
        "warplens.web.server.PageServer.run", lambda server: (server.page.close(), server.socket.close())
    )
    code, _, err = warplens_command("serve", "--port", "0")
    assert code == 0 and "other machines can reach" in err
