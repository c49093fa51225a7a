"""Public programs in the figures of MDM and GPUMech: what is kept, and how it is made from traces."""

from __future__ import annotations

import pytest

from warplens.api import place, predict
from warplens.errors import FileError
from warplens.simulators.detailed import simulate_detailed
from warplens.suite.catalog import SUITE
from warplens.suite.execution import run_on_cpu
from warplens.traces import TraceWriter
from warplens.workload import workload_of_trace
from warplens_studies.reproduce.applications import (
    SETTINGS,
    STACK,
    applications,
    chosen_launches,
    kernel_name,
    run,
    write,
)
from warplens_studies.reproduce.machines import machine_of

#: Types that MDM's Table IV prints.
PRINTED = {
    "rod-hotspot: calculate_temp": "NMD",
    "hec-btree: findK": "NMD",
    "rod-backprop: bpnn_layerforward_CUDA": "NMD",
    "sdk-fdtd3d: FiniteDifferencesKernel": "NMD",
    "rod-srad: srad_cuda_1": "NMD",
    "poly-2dconv: convolution2D_kernel": "NMD",
    "par-stencil: naive_kernel": "NMD",
    "rod-cfd: cuda_compute_flux": "MD",
    "rod-bfs: Kernel": "MD",
    "par-spmv: spmv_jds_naive": "MD",
    "hec-kmeans: feature_transpose": "MD",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Traces of a launch that fills the machine and of one that does not."""
    path = tmp_path_factory.mktemp("traces")
    for kernel in ("gaussian_fan1", "strided_square_32"):
        trace = run_on_cpu(SUITE[kernel], "small", record=True).trace
        with TraceWriter(path / f"{kernel}.wlt") as writer:
            for group in trace.groups():
                writer.write(group)
            writer.end_launch(trace.header, trace.static)
    return path


def test_every_kept_kernel_has_every_setting_in_which_it_fits():
    assert len(applications()) > 40
    for each in applications().values():
        missing = SETTINGS.keys() - each.runs.keys()
        assert missing <= {"gpumech-warps8"}, f"{each.name} lacks {missing}"  # blocks of more than 8 warps
        for setting, kept in each.runs.items():
            assert set(kept.predicted) == set(SETTINGS[setting])
            if setting.startswith("gpumech-"):
                assert sum(kept.stack[name] for name in STACK) == pytest.approx(
                    kept.predicted["gpumech"] / kept.cycles * kept.cpi, rel=1e-4
                )


def test_kernels_of_the_papers_benchmarks_have_the_printed_type():
    kinds = {name: "MD" if applications()[name].divergent else "NMD" for name in PRINTED}
    assert kinds == PRINTED


def test_a_launch_counts_if_it_fills_the_machine(folder):
    assert [(path.stem, index) for path, index in chosen_launches(folder)] == [("gaussian_fan1", 0)]


def test_a_folder_without_traces_says_how_to_make_them(tmp_path):
    with pytest.raises(FileError, match="warplens run -o"):
        chosen_launches(tmp_path)


def test_a_run_is_what_simulator_and_models_say_and_reads_back(folder, tmp_path, monkeypatch):
    (path, index), *_ = chosen_launches(folder)
    made = run(path, index, {"base": ("mdm", "gpumech[mshr-capped]")})
    placed, gpu = place(
        workload_of_trace(run_on_cpu(SUITE[path.stem], "small", record=True).trace), machine_of("base", True)
    )
    assert made.runs["base"].cycles == simulate_detailed(placed, gpu).cycles
    capped = predict(placed, gpu, "gpumech", options={"dram_requests": "mshr-capped"})
    assert made.runs["base"].predicted["gpumech[mshr-capped]"] == pytest.approx(float(capped.cycles))
    assert made.divergent, "it reads a column"
    kept = tmp_path / "kept.csv"
    write([made], kept)
    monkeypatch.setattr("warplens_studies.reproduce.applications.PATH", kept)
    applications.cache_clear()
    try:
        (back,) = applications().values()
    finally:
        monkeypatch.undo()
        applications.cache_clear()
    assert (back.name, back.blocks, back.instructions) == (made.name, made.blocks, made.instructions)
    assert back.runs["base"].predicted["mdm"] == pytest.approx(made.runs["base"].predicted["mdm"], rel=1e-6)


@pytest.mark.parametrize(
    ("symbol", "name"),
    [
        ("_Z6KernelPiS_", "Kernel"),
        ("_ZN8dwt_cuda12fdwt53KernelILi64ELi8EEEvPKiPiiii", "fdwt53Kernel"),
        ("add", "add"),
    ],
)
def test_names_of_kernels_are_short(symbol, name):
    assert kernel_name(symbol) == name
