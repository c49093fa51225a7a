"""Inputs that several tests of reports use."""

import shutil
from pathlib import Path

import pytest

from warplens.workload import example_folder


@pytest.fixture(scope="session")
def half_of_spmv(tmp_path_factory) -> Path:
    """The example `spmv` with 32 of its 64 thread blocks recorded."""
    folder = tmp_path_factory.mktemp("half")
    cuda = example_folder().parent / "cuda"
    shutil.copy(cuda / "spmv.py", folder)
    path = folder / "spmv.toml"
    path.write_text((cuda / "spmv.toml").read_text() + "\n[record]\nblocks = 32\n")
    return path
