"""`run --check`: reads of global memory that nobody has set, and races there."""

import pytest

from warplens.errors import MissingPackageError
from warplens.frontends.runtime.compile import compile_program, find_nvcc
from warplens.machine import load_gpu
from warplens.programs.run import run_program

from .conftest import PROGRAMS
from .listening import SANITIZED


@pytest.fixture(scope="module")
def faulty(stand_in, tmp_path_factory):
    if SANITIZED:
        pytest.skip("warplens run loads the stand-in without the sanitizers' own libraries")
    try:
        find_nvcc()
    except MissingPackageError as error:
        pytest.skip(str(error))
    program = compile_program([PROGRAMS / "faulty.cu"], tmp_path_factory.mktemp("faulty"), stand_in, 90, ["-O1"])

    def found(part):
        result = run_program([str(program), part], [load_gpu("h200")], check=True, advice=False, program_output=2)
        return result.failures, result.unchecked

    return found


@pytest.mark.parametrize("part", ["sum", "scratch", "divided"])
def test_programs_without_faults(faulty, part):
    assert faulty(part) == ((), ())


@pytest.mark.parametrize(("part", "block", "byte"), [("unset", 0, 0), ("half", 4, 2048)])
def test_what_is_not_set_has_thread_place_and_line(faulty, part, block, byte):
    (told,), _ = faulty(part)
    assert told == (
        f"sum(float const*, float*), block ({block}, 0, 0): thread (0, 0, 0) reads byte {byte} of device memory of "
        "4096 bytes at faulty.cu:8, which is not set"
    )


def test_a_race_in_global_memory(faulty):
    failures, unchecked = faulty("race")
    assert any(
        "faulty.cu:18" in each and "reads it at faulty.cu:20, and no barrier lies between them" in each
        for each in failures
    )
    assert not unchecked


@pytest.mark.parametrize(("part", "spaces", "reason"), [("last", 1, "membar"), ("piped", 2, "cp.async")])
def test_what_is_not_searched_is_told(faulty, part, spaces, reason):
    failures, unchecked = faulty(part)
    assert not failures and len(unchecked) == spaces and all(reason in each for each in unchecked)
