"""What `import warplens` offers: names, errors, and that it starts at once."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys

import pytest

import warplens
from warplens import errors

PUBLIC = [
    "Answer",
    "Comparison",
    "Gpu",
    "Im2col",
    "InputError",
    "Launch",
    "Model",
    "Prediction",
    "Texture",
    "Tiles",
    "VersionComparison",
    "WarplensError",
    "Workload",
    "__version__",
    "compare",
    "compare_versions",
    "cuda",
    "example_names",
    "explain",
    "get_model",
    "gpu_names",
    "load_gpu",
    "load_workload",
    "load_workloads",
    "model_names",
    "occupancy",
    "predict",
    "report",
    "simulate",
    "sweep",
    "tensor",
    "trace",
    "triton",
    "tune",
]

#: Error -> its parent. Children of `InputError` exit with 2, the others with 1.
ERRORS = {
    "WarplensError": "Exception",
    "InputError": "WarplensError",
    "FileError": "InputError",
    "MachineError": "InputError",
    "WorkloadError": "InputError",
    "TraceError": "InputError",
    "PtxError": "InputError",
    "CompileError": "InputError",
    "KernelFault": "InputError",
    "OverrideError": "InputError",
    "UnknownNameError": "InputError",
    "OptionError": "InputError",
    "OutOfBounds": "KernelFault",
    "LimitReached": "KernelFault",
    "MissingInputError": "InputError",
    "MissingPackageError": "WarplensError",
    "SimulationError": "WarplensError",
}


def test_public_names_are_exactly_these():
    assert warplens.__all__ == PUBLIC
    assert dir(warplens) == sorted(PUBLIC)


@pytest.mark.parametrize("name", PUBLIC)
def test_public_names_are_there_and_documented(name):
    value = getattr(warplens, name)
    assert value.__doc__ or name == "__version__"


def test_what_is_not_public_is_not_there():
    with pytest.raises(AttributeError, match="module 'warplens' has no attribute 'nothing'"):
        warplens.nothing  # noqa: B018


def test_the_tree_of_errors_is_exactly_this():
    found = {
        name: value.__base__.__name__
        for name, value in vars(errors).items()
        if inspect.isclass(value) and issubclass(value, Exception)
    }
    assert found == ERRORS
    assert all(getattr(errors, name).__doc__ for name in ERRORS)


@pytest.mark.parametrize(
    ("name", "valid", "answer"),
    [
        ("mdn", ["mdm", "volkov"], "did you mean 'mdm'?"),
        ("gpumech-", ["gpumech", "gpumech-mt", "mdm"], "did you mean 'gpumech' or 'gpumech-mt'?"),
        ("tile", ["TILE", "block"], "did you mean 'TILE'?"),
        ("zzz", ["b", "a"], "valid: a, b"),
    ],
)
def test_mistyped_names_are_answered_with_the_nearest_or_all(name, valid, answer):
    assert errors.nearest(name, valid) == answer


# -- start-up ------------------------------------------------------------------------------------------


def python(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    return done.stdout.strip()


HEAVY = ("numpy", "numba", "rich", "matplotlib", "pyarrow", "click")


def test_importing_warplens_imports_nothing_heavy():
    code = f"import sys, warplens; print([name for name in {HEAVY} if name in sys.modules])"
    assert python(code) == "[]"


def test_the_command_line_starts_without_anything_heavy():
    """click is what it is made of; numbers and tables come with the commands that need them."""
    heavy = tuple(name for name in HEAVY if name != "click")
    code = f"import sys, warplens.cli; print([name for name in {heavy} if name in sys.modules])"
    assert python(code) == "[]"


def test_models_and_machines_need_no_compiler():
    """Listing models and loading machines must not wait for numba."""
    code = "import sys, warplens; warplens.model_names(); warplens.load_gpu('mdm2020'); print('numba' in sys.modules)"
    assert python(code) == "False"


def cpu_seconds(arguments: list[str]) -> float:
    """User and system time of one process."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    child = subprocess.Popen(arguments, stdout=subprocess.DEVNULL, env=environment)
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    assert child.returncode == 0
    return usage.ru_utime + usage.ru_stime


def test_help_answers_at_once():
    """The best of five, as other processes and a cold cache of bytecode only ever add time."""
    command = [sys.executable, "-c", "from warplens.cli import main; main()", "--help"]
    assert min(cpu_seconds(command) for _ in range(5)) < 0.4
