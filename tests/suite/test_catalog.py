"""The catalogue: complete, consistent with the CUDA sources, deterministic."""

from __future__ import annotations

import re
from importlib.resources import files

import numpy as np
import pytest

from warplens.errors import UnknownNameError
from warplens.suite.catalog import SIZES, SUITE, get_kernel

KERNELS = pytest.mark.parametrize("kernel", SUITE.values(), ids=list(SUITE))
SOURCES = {f.name: f.read_text() for f in files("warplens.suite").joinpath("kernels").iterdir()}
C_TYPES = {
    "float": np.float32,
    "float4": np.float32,
    "int": np.int32,
    "unsigned": np.uint32,
    "unsigned char": np.uint8,
    "Half": np.float16,
}
ENTRY = re.compile(r'extern "C" __global__ void (\w+)\((.*?)\)', re.DOTALL)
PARAMETER = re.compile(r"(?P<const>const )?(?P<type>[\w ]+?)(?P<pointer>\*)?(?: __restrict__)? (?P<name>\w+)")


def entries(source: str) -> dict[str, list[re.Match[str]]]:
    found = {}
    for name, parameters in ENTRY.findall(SOURCES[source]):
        matches = [PARAMETER.fullmatch(" ".join(p.split())) for p in parameters.split(",")]
        assert None not in matches, parameters
        found[name] = matches
    return found


def sizes_of(launch):
    threads = int(np.prod(launch.grid)) * int(np.prod(launch.block))
    return threads, sum(a.nbytes for a in launch.arguments if isinstance(a, np.ndarray))


def test_there_are_at_least_28_kernels_of_every_group():
    assert len(SUITE) >= 28
    assert {k.group for k in SUITE.values()} == {"non-divergent", "divergent", "micro"}


def test_every_source_and_every_entry_is_used():
    used = {(k.source, k.entry) for k in SUITE.values()}
    assert used == {(source, entry) for source in SOURCES for entry in entries(source)}


@KERNELS
def test_descriptions_are_there(kernel):
    assert len(kernel.stands_for) > 20
    assert kernel.stands_for == kernel.stands_for.strip(" .")
    assert kernel.tolerance.because
    assert kernel.source_text() == SOURCES[kernel.source]


def test_listing_1_has_its_strides_and_the_mix_its_betas():
    assert {k.parameters["stride"] for k in SUITE.values() if "stride" in k.parameters} >= {1, 8, 32}
    mixes = [k for k in SUITE.values() if "beta" in k.parameters]
    assert len(mixes) >= 3
    assert all(f"-DBETA={k.parameters['beta']}" in k.options for k in mixes)


@KERNELS
def test_arguments_match_the_parameters(kernel):
    """Types, order, and that exactly the parameters a kernel may write have a reference."""
    launch = kernel.prepare("small")
    parameters = entries(kernel.source)[kernel.entry]
    assert len(parameters) == len(launch.arguments)
    for parameter, argument in zip(parameters, launch.arguments, strict=True):
        assert argument.dtype == C_TYPES[parameter["type"]], parameter["name"]
        assert isinstance(argument, np.ndarray) == bool(parameter["pointer"]), parameter["name"]
        assert not parameter["pointer"] or argument.flags.c_contiguous, parameter["name"]
    written = {i for i, p in enumerate(parameters) if p["pointer"] and not p["const"]}
    assert written == set(kernel.reference(launch))
    for name, content in launch.constants.items():
        assert re.search(rf"__constant__ float {name}\[", kernel.source_text())
        assert content.dtype == np.float32


@KERNELS
def test_inputs_are_the_same_every_time(kernel):
    first, second = kernel.prepare("small"), kernel.prepare("small")
    assert (first.grid, first.block) == (second.grid, second.block)
    for a, b in zip(first.arguments, second.arguments, strict=True):
        np.testing.assert_array_equal(a, b)


@KERNELS
def test_the_reference_leaves_the_inputs_alone_and_is_finite(kernel):
    launch = kernel.prepare("small")
    before = launch.copied_arguments()
    expected = kernel.reference(launch)
    for a, b in zip(before, launch.arguments, strict=True):
        np.testing.assert_array_equal(a, b)
    for index, array in expected.items():
        assert array.dtype == before[index].dtype
        assert array.shape == before[index].shape
        assert np.isfinite(array).all()
        assert not np.array_equal(array, before[index]), "the kernel would have nothing to do"


def assert_launch_is_possible(launch):
    assert np.prod(launch.block) <= 1024
    assert launch.grid[1] <= 65535
    assert launch.grid[2] <= 65535
    assert min(launch.grid) > 0
    assert sizes_of(launch)[1] < 2**30


def assert_grows(smaller, larger):
    assert all(a <= b for a, b in zip(smaller, larger, strict=True))
    assert smaller != larger


@KERNELS
def test_medium_is_possible_and_larger_than_small(kernel):
    launch = kernel.prepare("medium")
    assert_launch_is_possible(launch)
    assert_grows(sizes_of(kernel.prepare("small")), sizes_of(launch))


@pytest.mark.slow
@KERNELS
def test_large_is_possible_and_larger_than_medium(kernel):
    launch = kernel.prepare("large")
    assert_launch_is_possible(launch)
    assert_grows(sizes_of(kernel.prepare("medium")), sizes_of(launch))


def test_unknown_names_get_help():
    assert get_kernel("bfs") is SUITE["bfs"]
    with pytest.raises(UnknownNameError, match=r"'matmul_tile'.*did you mean 'matmul_tiled'"):
        get_kernel("matmul_tile")
    with pytest.raises(UnknownNameError, match=r"'huge'.*small, medium, large"):
        get_kernel("bfs").prepare("huge")
    assert SIZES == ("small", "medium", "large")
