"""A first run compiles the models in a process of its own."""

import pytest

from warplens.cli.first_run import compile_models_aside


def test_one_process_is_started_and_leaves_compiled_models(tmp_path, monkeypatch):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    process = compile_models_aside()
    assert process is not None
    assert compile_models_aside() is None
    assert process.wait(300) == 0
    kept = {path.name.split("-")[0] for path in tmp_path.rglob("*.nbc")}
    assert {"_kernels.simulate", "_interval_kernels.evaluate_batch", "_network_kernels.solve"} <= kept


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
