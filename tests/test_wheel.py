"""The wheel holds all that commands need, and works outside the checkout."""

from __future__ import annotations

import subprocess
import sys
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.slow
def test_the_installed_wheel_predicts_and_validates_away_from_the_sources(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(tmp_path), str(ROOT)]
    subprocess.run(build, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("warplens-*.whl")
    # Dependencies come from the environment of the tests; warplens itself from the wheel alone.
    environment = tmp_path / "environment"
    venv.create(environment, with_pip=False)
    python = environment / "bin" / "python"
    site = next((environment / "lib").glob("python*/site-packages"))
    subprocess.run([sys.executable, "-m", "zipfile", "-e", str(wheel), str(site)], check=True)
    (site / "dependencies.pth").write_text(next(p for p in sys.path if p.endswith("site-packages")) + "\n")
    code = "import warplens, sys; assert warplens.__file__.startswith(sys.argv[1]); from warplens.cli import main; "

    def run(*arguments: str) -> str:
        script = code + "sys.argv = ['warplens', *sys.argv[2:]]; main()"
        done = subprocess.run(
            [python, "-P", "-c", script, str(site), *arguments],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert "143.1" in run("predict", "mdm-baseline", "--model", "mdm")
    assert "h200" in run("gpus")
    assert "compute_ilp4_lowocc" in run(
        "validate", "accelsim", "--kernel", "compute_ilp4_lowocc", "--configuration", "base", "--model", "mdm"
    )
