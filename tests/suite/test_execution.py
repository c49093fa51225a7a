"""Every suite kernel gives the NumPy result on the CPU."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from warplens.errors import KernelFault, UnknownNameError
from warplens.suite.catalog import SIZES, SUITE, get_kernel
from warplens.suite.execution import run_on_cpu, size_parameters, write_trace
from warplens.traces import TraceWriter, read_trace


@pytest.mark.parametrize("name", SUITE)
def test_small(name: str) -> None:
    run = run_on_cpu(name)
    assert run.ok, "; ".join(str(each) for each in run.comparisons if not each.ok)
    assert run.execution.blocks == np.prod(run.launch.grid)
    assert run.thread_instructions_per_second > 0


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["hotspot", "reduction", "matmul_tensor", "spmv_csr", "page_view_count", "stream_compaction"]
)
def test_medium(name: str) -> None:
    assert run_on_cpu(name, "medium").ok


def test_inputs_stay_and_results_are_in_the_arguments() -> None:
    run = run_on_cpu("vector_add")
    fresh = get_kernel("vector_add").prepare("small")
    changed = []
    for index, (prepared, before, after) in enumerate(
        zip(fresh.arguments, run.launch.arguments, run.arguments, strict=True)
    ):
        np.testing.assert_array_equal(prepared, before)
        if not np.array_equal(before, after):
            changed.append(index)
    assert changed == [2]


def test_a_wrong_result_is_seen() -> None:
    kernel = get_kernel("vector_add")

    def off(launch):
        return {index: values + 1 for index, values in kernel.reference(launch).items()}

    run = run_on_cpu(replace(kernel, reference=off))
    assert not run.ok
    assert run.max_ulps > 1e5


def test_options_are_part_of_what_is_compiled() -> None:
    kernel = get_kernel("stencil_3d")
    plain = replace(kernel, options=("-fmad=false",))
    opcodes = {str(name) for name in run_on_cpu(plain).execution.static.opcode}
    assert "mul.rn.f32" in opcodes
    assert "mul.rn.f32" not in {str(name) for name in run_on_cpu(kernel).execution.static.opcode}


def test_traces(tmp_path: Path) -> None:
    recorded = run_on_cpu("strided_square_8", record=True)
    with pytest.raises(KernelFault, match="not recorded"):
        _ = run_on_cpu("strided_square_8").trace
    with TraceWriter(tmp_path / "two.wlt") as writer:
        for index, name in enumerate(("strided_square_8", "strided_square_32")):
            assert write_trace(name, "small", writer, launch_index=index).ok
    first, second = read_trace(tmp_path / "two.wlt")
    assert (first.header.kernel, second.header.kernel) == ("strided_square_8", "strided_square_32")
    assert second.header.launch_index == 1
    assert sum(group.instructions for group in first.groups()) == recorded.execution.instructions
    assert sum(group.instructions for group in recorded.trace.groups()) == recorded.execution.instructions


def test_sizes_have_names() -> None:
    assert size_parameters(get_kernel("hotspot"))["small"] == {"width": 50, "height": 40}
    for kernel in SUITE.values():
        sizes = size_parameters(kernel)
        assert list(sizes) == list(SIZES)
        assert sizes["small"] != sizes["large"]


def test_unknown_names() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'vector_add'"):
        run_on_cpu("vector_ad")
    with pytest.raises(UnknownNameError, match="valid: small, medium, large"):
        run_on_cpu("vector_add", "huge")
