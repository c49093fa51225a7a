"""How nvcc is called for programs, and what is made of its failures."""

import pytest

from warplens.errors import CompileError
from warplens.frontends.runtime import compile as compiling

REFUSES = """
case "$*" in
*compute_90a*) ;;
*) echo "ptxas x.ptx, line 7; error   : Instruction 'wgmma.fence' not supported on .target 'sm_90'" >&2; exit 1 ;;
esac"""
LACKS_CURAND = """
echo "tensor_fill.h:52:10: fatal error: curand_kernel.h: No such file or directory" >&2; exit 1"""


@pytest.fixture
def called(tmp_path, monkeypatch):
    """Compiles with a stand-in for nvcc; the options of each of its calls."""

    def run(script, options=()):
        nvcc, calls, source = tmp_path / "bin" / "nvcc", tmp_path / "calls", tmp_path / "app.cu"
        nvcc.parent.mkdir()
        nvcc.write_text(f'#!/bin/sh\necho "$*" >> {calls}{script}\n')
        nvcc.chmod(0o755)
        source.write_text("")
        monkeypatch.setattr(compiling, "find_nvcc", lambda: str(nvcc))
        monkeypatch.setattr(compiling, "host_compiler", lambda: "c++")
        compiling.compile_program([source], tmp_path, tmp_path, 90, options)
        return calls.read_text().splitlines()

    return run


def test_code_for_one_architecture_alone_is_compiled_for_it(called):
    first, second = called(REFUSES)
    assert "-arch=sm_90 " in first and "-arch" not in second
    assert "-gencode arch=compute_90a,code=[sm_90a,compute_90a]" in second


def test_an_architecture_among_the_options_is_the_only_one(called):
    (only,) = called("", ["-gencode", "arch=compute_80,code=[sm_80,compute_80]"])
    assert "sm_90" not in only and "compute_80" in only


def test_a_header_of_curand_that_is_missing_names_its_package(called):
    with pytest.raises(CompileError, match=r"curand_kernel\.h comes with a package: .*nvidia-curand"):
        called(LACKS_CURAND)
