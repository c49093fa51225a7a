"""Programs that use the driver API, and those without PTX."""

import subprocess

import pytest

from warplens.errors import InputError
from warplens.frontends.cuda.compile import compile_cuda
from warplens.frontends.runtime.build import host_compiler
from warplens.frontends.runtime.fatbin import MAGIC
from warplens.frontends.runtime.needed import check_libraries, needed_libraries

from .conftest import PROGRAMS
from .listening import run

SOURCE = """
__device__ int factor = 1;
extern "C" __global__ void scale(int* values, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) values[i] *= factor;
}
"""


@pytest.fixture(scope="module")
def driver_program(stand_in, tmp_path_factory):
    program = tmp_path_factory.mktemp("driver") / "driver"
    command = [host_compiler(), PROGRAMS / "driver.cpp", "-o", program, stand_in / "libcuda.so.1"]
    subprocess.run(command, check=True)
    return program


def test_the_driver_runs_a_module(driver_program, stand_in, tmp_path):
    ptx = compile_cuda(SOURCE, name="scale.cu").ptx
    (tmp_path / "scale.ptx").write_text(ptx)
    text, code, notes = run([driver_program, tmp_path / "scale.ptx"], stand_in)
    assert text == "h200 (predicted by warplens), 132 SMs: good\n" and code == 0
    assert [each.kernel for each in notes.launches] == ["scale", "scale"]


def test_libraries_of_machine_code_are_refused_by_name(tmp_path):
    (tmp_path / "main.cpp").write_text("int main() {}")
    library, program = tmp_path / "libcublas.so.13", tmp_path / "program"
    making = ["-shared", "-Wl,-soname,libcublas.so.13", "-x", "c++", "/dev/null", "-o", library]
    subprocess.run([host_compiler(), *making], check=True)
    linking = ["-Wl,--no-as-needed", library, "-o", program]
    subprocess.run([host_compiler(), tmp_path / "main.cpp", *linking], check=True)
    assert "libcublas.so.13" in needed_libraries(program)
    assert needed_libraries(tmp_path / "main.cpp") == []
    with pytest.raises(InputError, match=r"libcublas\.so\.13, whose kernels are machine code"):
        check_libraries(str(program))


def test_texture_references_are_refused_by_name(stand_in, tmp_path):
    (tmp_path / "old.cpp").write_text(
        """#include <cstddef>
        extern "C" void __cudaRegisterTexture(void**, const void*, const void**, const char*, int, int, int);
        extern "C" int cudaBindTexture(size_t*, const void*, const void*, const void*, size_t);
        int main() {
          __cudaRegisterTexture(nullptr, nullptr, nullptr, "image", 2, 0, 0);
          return cudaBindTexture(nullptr, nullptr, nullptr, nullptr, 0) == 801;
        }"""
    )
    program = tmp_path / "old"
    subprocess.run([host_compiler(), tmp_path / "old.cpp", "-o", program, stand_in / "libcuda.so.1"], check=True)
    _, code, notes = run([program], stand_in)
    assert code == 1 and notes.failures[0].startswith(
        "image is a texture or surface reference, which CUDA 12 removed"
    )


def test_machine_code_alone_is_refused_with_a_remedy(driver_program, stand_in, tmp_path):
    (tmp_path / "empty.fatbin").write_bytes(MAGIC.to_bytes(4, "little") + bytes.fromhex("0100 1000") + bytes(8))
    _, code, notes = run([driver_program, tmp_path / "empty.fatbin"], stand_in)
    assert code == 1 and "machine code only" in notes.failures[0] and "nvcc -gencode" in notes.failures[0]
