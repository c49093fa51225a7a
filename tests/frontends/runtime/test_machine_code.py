"""Machine code of a program's kernels comes from its fat binary, or from ptxas."""

import subprocess

import pytest

from warplens.frontends.cuda.toolkit import find_program
from warplens.frontends.runtime import machine_code
from warplens.frontends.runtime.fatbin import FatEntry
from warplens.frontends.runtime.machine_code import assembled_machine_code, held_machine_code

PTX = """.version 8.0
.target sm_90
.address_size 64
.visible .entry fill(.param .u64 out)
{
    .reg .b32 %r<2>;
    .reg .b64 %rd<4>;
    ld.param.u64 %rd1, [out];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd2, %r1, 4;
    add.s64 %rd3, %rd1, %rd2;
    st.global.u32 [%rd3], %r1;
    ret;
}
"""
STORE_LINE = 12


@pytest.fixture(autouse=True)
def _cache(tmp_path, monkeypatch):
    monkeypatch.setenv("WARPLENS_CACHE_DIR", str(tmp_path))


@pytest.fixture
def ptxas():
    found = find_program("ptxas")
    if found is None:
        pytest.skip("needs ptxas")
    return found


@pytest.mark.usefixtures("ptxas")
def test_ptxas_makes_it_once(monkeypatch):
    made = assembled_machine_code(PTX, "fill", "sm_90")
    assert made is not None and made.ptx_lines[made.opcodes.index("STG")] == STORE_LINE
    monkeypatch.setattr(subprocess, "run", None)
    assert assembled_machine_code(PTX, "fill", "sm_90") == made


@pytest.mark.usefixtures("ptxas")
@pytest.mark.parametrize(("kernel", "target"), [("other", "sm_90"), ("fill", "sm_1"), ("fill", "sm_80")])
def test_what_ptxas_refuses_has_none(kernel, target):
    assert assembled_machine_code(PTX, kernel, target) is None


def test_without_ptxas_there_is_none(monkeypatch):
    monkeypatch.setattr(machine_code, "find_program", lambda name: None)
    assert assembled_machine_code(PTX, "fill", "sm_90") is None


def test_a_fat_binary_holds_it_for_one_architecture(ptxas):
    cubin = machine_code._assembled(ptxas, PTX, "fill", "sm_90")
    images = [FatEntry(True, 90, PTX.encode()), FatEntry(False, 90, cubin), FatEntry(False, 90, b"damaged")]
    assert list(held_machine_code(images, 90)) == ["fill"]
    assert not held_machine_code(images, 80)
