"""Triton kernels on the CPU: results against NumPy, predictions, configurations, and what is refused."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import warplens
from warplens.errors import CompileError, InputError, KernelFault, MissingPackageError, PtxError
from warplens.traces import SPACES

FOLDER = Path(__file__).parents[3] / "examples" / "triton"
#: Examples of which the quick tier runs a small launch.
QUICK = {"add": {"n": 5000}, "softmax": {"rows": 4, "columns": 100}}
SLOW = {"layer_norm", "matmul", "fp8_matmul", "attention", "fused_mlp", "persistent_matmul"}


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A module of the examples by its name."""
    pytest.importorskip("triton")
    monkeypatch.syspath_prepend(str(FOLDER))
    return importlib.import_module


@pytest.fixture
def kernels() -> Any:
    pytest.importorskip("triton")
    return importlib.import_module(".kernels", __package__)


def ran(case: Any, gpu: str = "h200") -> Any:
    arguments = [each.copy() if isinstance(each, np.ndarray) else each for each in case.arguments]
    run = warplens.triton(case.kernel, gpu)[case.grid](*arguments, **case.options)
    assert case.error(arguments) < case.tolerance
    return run


def test_every_example_is_tested() -> None:
    assert {path.stem for path in FOLDER.glob("*.py")} == {*QUICK, *SLOW, "example"}


@pytest.mark.parametrize("name", QUICK)
def test_examples_match_numpy(example: Any, name: str) -> None:
    run = ran(example(name).example(**QUICK[name]))
    trace = run.trace()
    assert run.compiled.registers_per_thread == trace.header.registers_per_thread > 0
    assert trace.header.extra["source"].endswith(f"{name}.py")
    assert "tl.store" in trace.header.extra["source_text"]
    assert warplens.predict(trace, "h200").seconds > 0


@pytest.mark.slow
@pytest.mark.parametrize("gpu", ["h200", "a100"])
@pytest.mark.parametrize("name", sorted(SLOW))
def test_larger_examples_match_numpy(example: Any, name: str, gpu: str) -> None:
    if name == "fp8_matmul" and gpu == "a100":  # its tensor cores take no fp8
        with pytest.raises(CompileError, match=r"matmul\.py: line \d+: .*fp8e4nv not supported"):
            ran(example(name).example(), gpu)
    else:
        ran(example(name).example(), gpu)


def test_constants_options_and_configurations_are_tritons(example: Any) -> None:
    import triton

    case = example("add").example(3000)
    x, y, out, n = case.arguments
    small, large = (triton.Config({"BLOCK": block}, num_warps=warps) for block, warps in ((128, 1), (1024, 4)))
    tuned = triton.autotune(configs=[small, large], key=["n"])(case.kernel)
    kernel = warplens.triton(tuned, "h200")
    found = kernel.tune(case.grid, x, y, out, n)
    assert len(found) == 2 and found[0].seconds <= found[1].seconds and not out.any()
    run = kernel[case.grid](x, y, out, n)
    assert run.constants["BLOCK"] == found[0].config.kwargs["BLOCK"] and case.error((x, y, out, n)) < 1e-6
    model = warplens.triton(case.kernel, "h200").perf_model(case.grid)
    assert model(x=x, y=y, out=out, n=n, BLOCK=128, num_warps=1) == pytest.approx(
        1e3 * next(each.seconds for each in found if each.config is small)
    )
    ruled = triton.heuristics({"BLOCK": lambda given: 256})(case.kernel)
    assert warplens.triton(ruled)[case.grid](x, y, out, n).constants["BLOCK"] == 256
    with pytest.raises(InputError, match="compared on a GPU"):
        warplens.triton(tuned).tune(case.grid, x, y, out, n)


class OnCpu:
    """What is asked of a PyTorch tensor."""

    device = SimpleNamespace(type="cpu")
    dtype = "torch.bfloat16"

    def __init__(self, bits: Any, storage: Any) -> None:
        self.bits, self.storage, self.shape = bits, storage, bits.shape

    def data_ptr(self) -> int:
        return int(self.bits.ctypes.data)

    def element_size(self) -> int:
        return int(self.bits.itemsize)

    def numel(self) -> int:
        return int(self.bits.size)

    def stride(self) -> tuple[int, ...]:
        return tuple(each // self.bits.itemsize for each in self.bits.strides)

    def untyped_storage(self) -> Any:
        return SimpleNamespace(data_ptr=lambda: self.storage.ctypes.data, nbytes=lambda: self.storage.nbytes)


def test_views_keep_their_strides(kernels: Any) -> None:
    both = np.zeros((9, 24), np.float32)
    x, y = np.arange(63, dtype=np.float32).reshape(7, 9).T, both[:, 3:17:2]  # of one another's shape
    steps = [each // 4 for each in (*x.strides, *y.T.strides)]
    warplens.triton(kernels.transpose)[(1,)](x, y.T, 9, 7, *steps, BLOCK=16)
    assert np.array_equal(y, x) and both.sum() == x.sum()

    storage = np.arange(64, dtype=np.uint16)  # two views of the tensor's memory, which share parts of it
    a, b = storage.reshape(8, 8)[:, :4], storage.reshape(8, 8)[:, 4:]
    warplens.triton(kernels.transpose)[(1,)](OnCpu(a, storage), OnCpu(b, storage), 4, 4, 8, 1, 8, 1, BLOCK=16)
    assert np.array_equal(b[:4], a[:4].T) and a[4:, 0].tolist() == [32, 40, 48, 56]

    elsewhere = OnCpu(a, storage)
    elsewhere.device = SimpleNamespace(type="cuda")
    with pytest.raises(KernelFault, match=r"a OnCpu on .*pass its .cpu\(\), or a NumPy array"):
        warplens.triton(kernels.transpose)[(1,)](elsewhere, a, 4, 4, 8, 1, 8, 1, BLOCK=16)


def test_tuples_lists_and_numpy_numbers(kernels: Any) -> None:
    x = np.arange(300, dtype=np.float32)
    y, total = np.zeros_like(x), np.zeros(256, np.float32)
    warplens.triton(kernels.scale)[(2,)]((x, y), np.int64(300), (np.float32(2), 1), BLOCK=256, num_ctas=2)
    assert np.array_equal(y, 2 * x + 1)
    warplens.triton(kernels.add_all)[(1,)]([x, y, x], total, 3, BLOCK=256)
    assert np.array_equal(total, (2 * x + y)[:256])


@pytest.mark.parametrize("gpu", ["a100", "h200"])
def test_descriptors_made_on_the_host(kernels: Any, gpu: str) -> None:
    from triton.tools.tensor_descriptor import TensorDescriptor

    x, y = np.arange(40 * 32, dtype=np.float32).reshape(40, 32), np.zeros((40, 64), np.float32)
    source = TensorDescriptor.from_tensor(warplens.tensor(x), [32, 32])
    target = TensorDescriptor(warplens.tensor(y[:, 32:]), [40, 32], [64, 1], [32, 32])
    warplens.triton(kernels.copy_tile, gpu)[(2,)](source, target, BLOCK=32)
    assert np.array_equal(y[:, 32:], x) and not y[:, :32].any()


def test_tuning_prunes_prepares_and_leaves_arrays(kernels: Any) -> None:
    import triton

    prepared = []
    configs = [triton.Config({"BLOCK": block}, pre_hook=prepared.append) for block in (64, 128, 256)]

    def prune(configs: Any, named: Any, **options: Any) -> Any:
        return [each for each in configs if each.kwargs["BLOCK"] * 3 > named["n"]]

    tuned = triton.autotune(configs, key=["n"], prune_configs_by={"early_config_prune": prune})(kernels.scale)
    x = np.ones(300, np.float32)
    y = np.zeros_like(x)
    found = warplens.triton(tuned, "h200").tune((5,), (x, y), 300, factors=(2.0, x.size))
    assert sorted(each.config.kwargs["BLOCK"] for each in found) == [128, 256] and not y.any()
    assert sorted(each["BLOCK"] for each in prepared) == [128, 256] and prepared[0]["n"] == 300


def test_lines_are_those_of_the_python_file(kernels: Any) -> None:
    x = np.zeros(100, np.float32)
    y = x.copy()
    run = warplens.triton(kernels.scale)[(1,)]((x, y), 100, (2.0, 3), BLOCK=128)
    table, text = run.trace().static, run.trace().header.extra["source_text"].splitlines()
    lines = [text[line - 1] for line, space in zip(table.line, table.space, strict=True) if SPACES[space] == "global"]
    assert lines and all("tl.store(y" in line for line in lines)  # loads too: they stand in assembly of several lines


def test_mistakes_are_named(example: Any, kernels: Any) -> None:
    case = example("add").example(256)
    launch = warplens.triton(case.kernel)
    with pytest.raises(KernelFault, match="missing a required argument: 'out'"):
        launch[case.grid](*case.arguments[:2], BLOCK=128)
    with pytest.raises(CompileError, match="add_kernel does not compile with Triton"):
        launch[(1,)](*case.arguments, BLOCK=100)
    with pytest.raises(CompileError, match=r"kernels.py: line 41: ValueError: Cannot make_shape_compatible"):
        warplens.triton(kernels.refused)[(1,)](case.arguments[0], BLOCK=128)
    halves, sums = np.zeros((128, 128), np.float16), np.zeros((128, 128), np.float32)
    refused = (
        r"multiply, compiled for sm_100: PTX line \d+: tcgen05.* sm_90a, that is warplens.triton\(kernel, \"h200"
    )
    with pytest.raises(PtxError, match=refused):
        warplens.triton(kernels.multiply, "b200")[(1,)](halves, halves, sums, BLOCK=128)
    with pytest.raises(KernelFault, match=r"grid \(0,\): needs 1 to 3 numbers"):
        launch[(0,)](*case.arguments, BLOCK=128)


def test_a_missing_triton_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "triton.backends.compiler", None)
    monkeypatch.setitem(sys.modules, "triton", None)

    class Kernel:
        arg_names = ("x",)

        @staticmethod
        def fn(x: Any) -> None:
            """Not compiled."""

    with pytest.raises(MissingPackageError, match=r"need Triton; install it with: .*\[triton\]"):
        warplens.triton(Kernel())[(1,)](np.zeros(1))
