"""Triton kernels on the CPU: results against NumPy, predictions, configurations, and what is refused."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import warplens
from warplens.errors import CompileError, InputError, KernelFault, MissingPackageError

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


def test_mistakes_are_named(example: Any) -> None:
    case = example("add").example(256)
    launch = warplens.triton(case.kernel)
    with pytest.raises(KernelFault, match="missing a required argument: 'out'"):
        launch[case.grid](*case.arguments[:2], BLOCK=128)
    with pytest.raises(CompileError, match="add_kernel does not compile with Triton"):
        launch[(1,)](*case.arguments, BLOCK=100)
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
