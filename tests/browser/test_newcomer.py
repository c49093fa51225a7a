"""A newcomer's path: a fresh environment with the wheel, the README's commands, then the report and the page."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

ROOT = Path(__file__).parents[2]
_MAIN = """
import sys, warplens
assert warplens.__file__.startswith(sys.argv[1]), warplens.__file__
from warplens.cli import main
sys.argv = ["warplens", *sys.argv[2:]]
main()
"""


class Fresh:
    """An environment that has warplens from its wheel alone; dependencies come from that of the tests."""

    def __init__(self, folder: Path) -> None:
        build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT)]
        subprocess.run(build, check=True, capture_output=True)
        (wheel,) = folder.glob("warplens-*.whl")
        venv.create(folder / "environment", with_pip=False)
        self.python = folder / "environment" / "bin" / "python"
        self.site = next((folder / "environment" / "lib").glob("python*/site-packages"))
        subprocess.run([sys.executable, "-m", "zipfile", "-e", str(wheel), str(self.site)], check=True)
        (self.site / "dependencies.pth").write_text(next(p for p in sys.path if p.endswith("site-packages")) + "\n")
        self.folder = folder / "work"
        shutil.copytree(ROOT / "examples", self.folder / "examples")
        own = {"NUMBA_CACHE_DIR": str(folder / "numba"), "WARPLENS_CACHE_DIR": str(folder / "cache")}
        self.variables = {**os.environ, **own}

    def command(self, *arguments: str) -> list[str]:
        return [str(self.python), "-P", "-c", _MAIN, str(self.site), *arguments]

    def run(self, command: list[str]) -> str:
        done = subprocess.run(command, cwd=self.folder, env=self.variables, capture_output=True, text=True)
        assert done.returncode == 0, f"{shlex.join(command[5:])}\n{done.stdout}{done.stderr}"
        return done.stdout


def readme(language: str) -> str:
    (body,) = re.findall(
        rf"^```{language}\n(.*?)^```$", (ROOT / "README.md").read_text(encoding="utf-8"), re.M | re.S
    )
    return body


def readme_commands() -> list[list[str]]:
    lines = readme("console").splitlines()
    assert all(line.startswith("$ warplens ") for line in lines)
    return [shlex.split(line, comments=True)[2:] for line in lines]


@pytest.mark.slow
def test_the_readme_in_a_fresh_environment(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    fresh = Fresh(tmp_path)
    shown: dict[str, str] = {}
    for arguments in readme_commands():
        if arguments[0] != "serve":
            shown[" ".join(arguments)] = fresh.run(fresh.command(*arguments))
    assert "accelsim-mdm" in shown["predict examples/cuda/saxpy.toml --gpu h200 --gpu accelsim-mdm"]
    assert "hotspot" in shown["suite run hotspot bfs"]
    assert (fresh.folder / "space.parquet").stat().st_size > 1000
    assert (fresh.folder / "out/reproduce/hong-kim-table2.png").exists()
    fresh.run([str(fresh.python), "-P", "-c", readme("python")])

    # What follows needs a browser; its fixture fails the test where a request leaves the machine.
    page: Page = request.getfixturevalue("page")
    page.goto((fresh.folder / "spmv.html").as_uri())
    page.wait_for_selector("html[data-ready=true]")
    assert "spmv" in page.inner_text("body")
    assert page.locator(".plot .main-svg").count() > 5

    (serve,) = (arguments for arguments in readme_commands() if arguments[0] == "serve")
    command = fresh.command(*serve, "--port", "0", "--json")
    with subprocess.Popen(
        command, cwd=fresh.folder, env=fresh.variables, stdout=subprocess.PIPE, text=True
    ) as server:
        try:
            assert server.stdout is not None
            text = ""
            while not text.rstrip().endswith("}"):
                text += server.stdout.readline()
            page.goto(json.loads(text)["url"])
            page.wait_for_selector("html[data-answered]", state="attached", timeout=60_000)
            expect(page.locator("#results")).to_have_attribute("aria-busy", "false", timeout=60_000)
            assert "spmv" in page.content()
        finally:
            server.terminate()
