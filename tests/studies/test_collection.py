"""Inputs of the papers' models from whole applications."""

import pytest

from warplens.api import load_workloads
from warplens.errors import MissingPackageError
from warplens.frontends.runtime import Recording
from warplens.frontends.runtime.build import build_stand_in
from warplens.frontends.runtime.compile import compile_program
from warplens_studies.reproduce.collection import PROGRAMS, collect


def test_an_application_is_run_and_recorded(tmp_path):
    (source,) = (each for each in PROGRAMS if each.stem == "strides")
    try:
        program = compile_program([source], tmp_path, build_stand_in(), 90, ["-O1"])
    except MissingPackageError as error:
        pytest.skip(str(error))
    launches = collect(program, tmp_path / "strides.wlt", Recording())
    assert len(launches) == 6 and {each.kernel for each in launches} == {"_Z7squaresPKfPfi"}
    assert len(load_workloads(tmp_path / "strides.wlt")) == 3
