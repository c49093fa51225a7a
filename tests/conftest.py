"""Tiers of the suite: the default one is quick, `--everything` adds the slow tests and more random examples."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import settings

from warplens.result_cache import cache_folder

# Tests with a cache folder of their own share compiled code all the same: compiling takes most of their time.
os.environ.setdefault("NUMBA_CACHE_DIR", str(cache_folder() / "compiled"))

# Derandomised: a failure seen once is seen by everyone. No deadline: the first call of a kernel compiles it.
settings.register_profile("default", deadline=None, derandomize=True, max_examples=30)
settings.register_profile("everything", deadline=None, derandomize=True, max_examples=200)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--everything", action="store_true", help="run slow tests too, and more random examples")


def pytest_configure(config: pytest.Config) -> None:
    settings.load_profile("everything" if config.getoption("--everything") else "default")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--everything"):
        return
    skip = pytest.mark.skip(reason="slow; run with --everything")
    for item in items:
        if "slow" in item.keywords:
            item.add_marker(skip)


@pytest.fixture(scope="session")
def everything(request: pytest.FixtureRequest) -> bool:
    """Whether the full tier runs: loops over random inputs are longer then."""
    return bool(request.config.getoption("--everything"))


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The documentation, built strictly: a link or anchor that mkdocs cannot find is an error. Pictures are blank."""
    folder = tmp_path_factory.mktemp("site")
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=Path(__file__).parents[1],
        env={**os.environ, "WARPLENS_DOCS_PICTURES": "blank"},
        capture_output=True,
        text=True,
    )
    assert built.returncode == 0, built.stdout + built.stderr
    return folder
