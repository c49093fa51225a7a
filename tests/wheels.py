"""Both distributions as wheels, and environments that have warplens from them alone."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import venv
import zipfile
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).parents[1]
_MAIN = """
import sys, warplens
assert warplens.__file__.startswith(sys.argv[1]), warplens.__file__
from warplens.cli import main
sys.argv = ["warplens", *sys.argv[2:]]
main()
"""


def build_wheels(folder: Path) -> tuple[Path, Path]:
    """The wheels of warplens and warplens-studies."""
    for source in (ROOT, ROOT / "studies"):
        build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(source)]
        subprocess.run(build, check=True, capture_output=True)
    (core,), (studies,) = folder.glob("warplens-*.whl"), folder.glob("warplens_studies-*.whl")
    return core, studies


class Fresh:
    """An environment with some wheels; dependencies come from that of the tests."""

    def __init__(self, folder: Path, wheels: Iterable[Path]) -> None:
        venv.create(folder / "environment", with_pip=False)
        self.python = folder / "environment" / "bin" / "python"
        self.site = next((folder / "environment" / "lib").glob("python*/site-packages"))
        for wheel in wheels:
            with zipfile.ZipFile(wheel) as archive:
                archive.extractall(self.site)
        (self.site / "dependencies.pth").write_text(next(p for p in sys.path if p.endswith("site-packages")) + "\n")
        self.folder = folder / "work"
        self.folder.mkdir()
        own = {"NUMBA_CACHE_DIR": str(folder / "numba"), "WARPLENS_CACHE_DIR": str(folder / "cache")}
        self.variables = {**os.environ, **own}

    def command(self, *arguments: str) -> list[str]:
        return [str(self.python), "-P", "-c", _MAIN, str(self.site), *arguments]

    def try_run(self, command: list[str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(command, cwd=self.folder, env=self.variables, capture_output=True, text=True)

    def run(self, command: list[str]) -> str:
        done = self.try_run(command)
        assert done.returncode == 0, f"{shlex.join(command[5:])}\n{done.stdout}{done.stderr}"
        return done.stdout
