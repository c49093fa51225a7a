"""Machine code in a cubin: opcodes, branches and lines of the PTX are found, and damaged files are refused."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warplens.frontends.cuda import compile as compile_module
from warplens.frontends.cuda import machine_code
from warplens.frontends.cuda.compile import CompiledSource, compile_cuda
from warplens.frontends.cuda.machine_code import MachineCode, read_machine_code

pytest.importorskip("cuda.bindings.nvrtc", reason="NVRTC has no wheel for this platform")

SOURCE = """
extern "C" __global__ void sums(const float4* x, float* y, int n)
{
    __shared__ float tile[256];
    float sum = 0.0f;
    #pragma unroll 1
    for (int i = threadIdx.x; i < n; i += 256)
        sum += x[i].x / x[i].w;
    tile[threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.x < 100)
        y[threadIdx.x] = tile[255 - threadIdx.x];
}
"""
ARCHITECTURES = ("sm_75", "sm_80", "sm_90", "sm_100")


def compiled_for(architecture: str) -> tuple[CompiledSource, MachineCode]:
    compiled = compile_cuda(SOURCE, architecture=architecture)
    return compiled, compiled.machine_code["sums"]


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_instructions_come_from_the_ptx_that_does_the_same(architecture: str) -> None:
    compiled, code = compiled_for(architecture)
    lines = compiled.ptx.splitlines()
    stands_for = {"LDG": "ld.global", "STS": "st.shared", "LDS": "ld.shared", "STG": "st.global", "BAR": "bar"}
    found = {name.partition(".")[0] for name in code.opcodes}
    assert stands_for.keys() <= found
    for opcode, line in zip(code.opcodes, code.ptx_lines, strict=True):
        if (name := opcode.partition(".")[0]) in stands_for:
            assert stands_for[name] in lines[line - 1]
    assert not any(name.startswith("OP") for name in code.opcodes)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_branches_lead_into_the_kernel_and_the_loop_leads_back(architecture: str) -> None:
    _, code = compiled_for(architecture)
    branches = [(at, target) for at, target in enumerate(code.targets) if code.opcodes[at] == "BRA"]
    assert all(0 <= target < len(code.opcodes) for _, target in branches)
    load = next(at for at, name in enumerate(code.opcodes) if name.startswith("LDG"))
    assert any(target <= load < at and code.guarded[at] for at, target in branches)
    assert all(target == -1 for at, target in enumerate(code.targets) if code.opcodes[at] not in ("BRA", "CALL"))


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_the_division_of_rare_operands_is_a_call_of_what_lies_behind_the_kernel(architecture: str) -> None:
    _, code = compiled_for(architecture)
    (call,) = [at for at, name in enumerate(code.opcodes) if name == "CALL"]
    last = max(at for at, name in enumerate(code.opcodes) if name == "EXIT")
    assert last < code.targets[call] < code.opcodes.index("RET", last)
    assert code.opcodes[code.targets[call] - 1] in ("EXIT", "BRA", "NOP")


def test_loads_name_the_scoreboard_that_their_users_wait_for() -> None:
    _, code = compiled_for("sm_90")
    load = next(at for at, name in enumerate(code.opcodes) if name.startswith("LDG"))
    scoreboard = code.control[load] >> 5 & 7
    assert scoreboard < 6
    assert any(control >> 11 >> scoreboard & 1 for control in code.control[load + 1 :])


def test_compilations_from_the_cache_have_the_same_code() -> None:
    assert compiled_for("sm_90")[1] == compile_cuda(SOURCE, architecture="sm_90", cached=False).machine_code["sums"]


def test_virtual_architectures_have_none() -> None:
    assert not compile_cuda(SOURCE, architecture="compute_90").machine_code


WAITS = """
extern "C" __global__ void __cluster_dims__(2, 1, 1) waits(int4* out, const int4* in)
{
    __shared__ int4 tile[4][32];
    unsigned at = (unsigned)__cvta_generic_to_shared(&tile[0][threadIdx.x]);
    for (int i = 0; i < 4; ++i)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;\\ncp.async.commit_group;"
                     :: "r"(at + i * 512), "l"(in + i * 32 + threadIdx.x) : "memory");
    asm volatile("cp.async.wait_group 2;" ::: "memory");
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
    out[threadIdx.x] = tile[0][threadIdx.x];
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
    asm volatile("cp.async.wait_group 0;" ::: "memory");
    out[threadIdx.x + 32] = tile[3][threadIdx.x];
}
"""


def test_waits_have_their_number_and_a_cluster_meets_in_two_steps() -> None:
    code = compile_cuda(WAITS, architecture="sm_90").machine_code["waits"]
    met = [each for each in code.opcodes if each.startswith(("DEPBAR", "UCGABAR"))]
    assert met == ["DEPBAR.LE.2", "UCGABAR_ARV", "UCGABAR_WAIT", "DEPBAR.LE.0"]


def test_a_branch_is_guarded_by_either_predicate() -> None:
    number = next(key for key, name in machine_code._NAMES.items() if name == "BRA")
    always, shift = machine_code._ALWAYS, machine_code._SECOND_SHIFT
    pairs = ((always, always), (0, always), (always, 0), (always, 8))
    code = b"".join(struct.pack("<QQ", number | first << 12, second << shift) for first, second in pairs)
    found = machine_code._decoded(code, [(0, 5), (32, 6)], 90)
    assert found.guarded == (False, True, True, True) and found.ptx_lines == (5, 5, 6, 6)


#: Registers 4, 5 and 6 as operands; the kind says what stands in place of the second.
OPERANDS = 4 << 24 | 5 << 32, 6


@pytest.mark.parametrize(
    ("name", "kind", "reads"),
    [
        ("FFMA", 1, {4, 5, 6}),  # registers alone
        ("FFMA", 2, {4, 6}),  # an immediate
        ("FFMA", 5, {4, 6}),  # a constant
        ("FADD", 1, {4, 5}),
        ("FADD", 2, {4}),
        ("LDG", 1, set()),
        ("MOV", 1, set()),
    ],
)
def test_arithmetic_names_the_registers_that_it_reads(name: str, kind: int, reads: set[int]) -> None:
    number = next(key for key, each in machine_code._NAMES.items() if each == name)
    low, high = OPERANDS
    found = machine_code._decoded(struct.pack("<QQ", number | kind << 9 | low, high), [(0, 1)], 90)
    assert set(found.reads[0].to_bytes(4, "little")) - {machine_code.NO_READ} == reads


def test_a_wide_multiplication_reads_a_pair_to_add_and_zero_is_no_register() -> None:
    low, high = OPERANDS
    wide = machine_code._WIDE_MULTIPLICATION | 1 << 9
    zero = machine_code.NO_READ
    words = (wide | low, high), (wide | low, zero)
    found = machine_code._decoded(b"".join(struct.pack("<QQ", *each) for each in words), [(0, 1)], 90)
    assert [each.to_bytes(4, "little") for each in found.reads] == [bytes((4, 5, 6, 7)), bytes((4, 5, zero, zero))]


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_reads_are_registers_that_the_kernel_has(architecture: str) -> None:
    compiled, code = compiled_for(architecture)
    named = {each for reads in code.reads for each in reads.to_bytes(4, "little")} - {machine_code.NO_READ}
    assert named
    assert max(named) < compiled.resources["sums"].registers_per_thread


def test_numbers_of_blackwell_begin_with_blackwell() -> None:
    for number, name in machine_code._SINCE_100.items():
        assert machine_code._opcode(number, 0, 100).startswith(name)
        assert not machine_code._opcode(number, 0, 90).startswith(name)


@pytest.fixture(scope="module")
def cubin() -> bytes:
    kept = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compile_module, "read_cubin", lambda data: kept.append(data) or {})
        compile_cuda(SOURCE, cached=False)
    return kept[0]


@given(st.data())
def test_mutated_cubins_are_read_or_refused(cubin: bytes, data: st.DataObject) -> None:
    damaged = bytearray(cubin[: data.draw(st.integers(len(cubin) // 2, len(cubin)))])
    for _ in range(data.draw(st.integers(0, 8))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.sampled_from([0, 1, 0x7F, 0x80, 0xFF]))
    try:
        for code in read_machine_code(bytes(damaged)).values():
            assert len(code.opcodes) == len(code.control) == len(code.ptx_lines) == len(code.targets)
    except ValueError as error:
        assert "cubin" in str(error)
