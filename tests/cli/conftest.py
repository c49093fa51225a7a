"""Commands run in this process."""

from __future__ import annotations

import sys

import pytest

from warplens.cli import main


@pytest.fixture
def warplens_command(monkeypatch, capsys):
    """Runs a command line in this process: (exit code, stdout, stderr)."""

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["warplens", *map(str, arguments)])
        code = 0
        try:
            main()
        except SystemExit as left:
            code = left.code
        out, err = capsys.readouterr()
        return code or 0, out, err

    return run


@pytest.fixture
def good(warplens_command):
    """Runs a command that must succeed: its stdout."""

    def run(*arguments):
        code, out, err = warplens_command(*arguments)
        assert code == 0, err
        return out

    return run


@pytest.fixture
def bad(warplens_command):
    """Runs a command that must be refused: its one-line message. Nothing is on stdout."""

    def run(*arguments):
        code, out, err = warplens_command(*arguments)
        assert code == 2
        assert out == ""
        assert err.startswith("error: ")
        assert err.count("\n") == 1
        return err

    return run


@pytest.fixture
def usage(warplens_command):
    """Runs a command with bad usage: exit 2 and click's usage lines."""

    def run(*arguments):
        code, out, err = warplens_command(*arguments)
        assert (code, out) == (2, "")
        assert err.startswith("Usage: warplens ")
        assert "Traceback" not in err
        return err

    return run


@pytest.fixture
def write(tmp_path):
    def write(content, name="kernel.toml"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write
