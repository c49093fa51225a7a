"""A first run compiles the models in a process of its own."""

import json
import subprocess
import sys

import pytest

from warplens import jit
from warplens.cli.first_run import compile_models_aside
from warplens_studies.validate import accelsim

#: Types for which each kernel of the models is compiled, after the examples and after a trace.
TYPES = """
import json, sys
from numba.core.dispatcher import Dispatcher
from warplens.api import compare
from warplens.cli import first_run

def types():
    return {
        f"{module}.{name}": [str(each) for each in kernel.signatures]
        for module in sorted(sys.modules) if module.startswith(("warplens.models", "warplens.simulators"))
        for name, kernel in vars(sys.modules[module]).items() if isinstance(kernel, Dispatcher)
    }

first_run.main()
before = types()
compare(sys.argv[1], ["accelsim-mdm"])
print(json.dumps([before, types()]))
"""


@pytest.fixture(autouse=True)
def forgotten_folder():
    """The folder of compiled code is looked up once in a process: here it changes."""
    jit.folder.cache_clear()
    yield
    jit.folder.cache_clear()


def test_one_process_is_started_and_leaves_compiled_models(tmp_path, monkeypatch):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    process = compile_models_aside()
    assert process is not None
    assert compile_models_aside() is None
    assert process.wait(300) == 0
    kept = {path.name.split("-")[0] for path in tmp_path.rglob("*.nbc")}
    assert {"_kernels.simulate", "_interval_kernels.evaluate_batch", "_network_kernels.solve"} <= kept


def test_an_answer_needs_one_model_compiled(tmp_path, monkeypatch):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    process = compile_models_aside("warplens")
    assert process is not None and process.wait(300) == 0
    kept = {path.name.split("-")[0] for path in tmp_path.rglob("*.nbc")}
    assert "_network_kernels.solve" in kept and "_kernels.simulate" not in kept


@pytest.mark.parametrize("cores", [1, None])
def test_one_core_compiles_as_it_goes(tmp_path, monkeypatch, cores):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr("os.cpu_count", lambda: cores)
    assert compile_models_aside() is None
    assert not list(tmp_path.iterdir())


def test_a_cache_that_cannot_be_written_is_no_obstacle(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "file"))
    assert compile_models_aside() is None


def test_a_trace_has_the_types_of_the_examples():
    """Or what was compiled for them would be compiled again."""
    trace = accelsim.trace_path("compute_ilp1")
    made = subprocess.run([sys.executable, "-c", TYPES, trace], check=True, capture_output=True, text=True)
    before, after = json.loads(made.stdout)
    assert {"warplens.models._network_kernels.solve", "warplens.simulators.pipeline._kernels.simulate"} <= set(before)
    assert after == before
