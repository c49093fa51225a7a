"""Programs of the tests, built once, and a way to run them with the stand-in for CUDA."""

import shutil
from pathlib import Path

import pytest

from warplens.errors import MissingPackageError
from warplens.frontends.runtime import build
from warplens.frontends.runtime.build import build_stand_in
from warplens.frontends.runtime.compile import compile_program, find_nvcc

from .listening import SANITIZED

SANITIZERS = ("-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=undefined")
PROGRAMS = Path(__file__).parent / "programs"


@pytest.fixture(scope="session")
def stand_in():
    if shutil.which("c++") is None:
        pytest.skip("the stand-in for CUDA needs a C++ compiler")
    if SANITIZED:
        build._OPTIONS += SANITIZERS
    return build_stand_in()


@pytest.fixture(scope="session")
def built(stand_in, tmp_path_factory):
    """Builds a program of the folder by its name."""
    try:
        find_nvcc()
    except MissingPackageError as error:
        pytest.skip(str(error))
    return lambda name: compile_program([PROGRAMS / name], tmp_path_factory.mktemp("program"), stand_in, 90, ["-O1"])


@pytest.fixture(scope="session")
def api_program(built):
    """The program that uses each part of the runtime API, by `PART…`."""
    return built("api.cu")
