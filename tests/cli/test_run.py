"""`warplens run`: usage errors, and a program from its source to its table."""

import json

import pytest
from click.testing import CliRunner

from warplens.cli.main import cli
from warplens.errors import MissingPackageError
from warplens.frontends.runtime.compile import find_nvcc

SOURCE = """
#include <cstdio>
__global__ void fill(int* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = i;
}
int main(int count, char** given) {
  int *device, value, n = count > 1 ? atoi(given[1]) : 1;
  cudaMalloc(&device, n * sizeof(int));
  for (int i = 0; i < 3; i++) fill<<<(n + 255) / 256, 256>>>(device, n);
  cudaMemcpy(&value, device + n - 1, sizeof value, cudaMemcpyDeviceToHost);
  fprintf(stderr, "last %d\\n", value);
  return value % 7;
}
"""


def command(*arguments):
    return CliRunner().invoke(cli, ["run", *map(str, arguments)])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "give sources to compile, or a program after --"),
        (("notes.txt",), "is no CUDA source"),
        (("-o", "trace.txt", "--", "true"), "the name of a trace ends in .wlt"),
        (("--report", "page.txt", "--", "true"), "the name of a page ends in .html"),
    ],
)
def test_usage_is_explained(arguments, words):
    result = command(*arguments)
    assert result.exit_code == 2 and words in result.output


def test_a_program_runs_and_its_kernels_are_predicted(tmp_path, capfd):
    try:
        find_nvcc()
    except MissingPackageError as error:
        pytest.skip(str(error))
    (tmp_path / "fill.cu").write_text(SOURCE)
    trace, timeline, page = tmp_path / "fill.wlt", tmp_path / "fill.json", tmp_path / "fill.html"
    result = command(
        tmp_path / "fill.cu", "--gpu", "h200", "--gpu", "a100", "-o", trace, "--perfetto", timeline, "--report", page,
        "--json", "--", "1000",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert "last 999" in capfd.readouterr().err and document["exit_code"] == 999 % 7
    first, second = document["kernels"]
    assert first["kernel"] == "fill(int*, int)" and first["launches"] == 3 and first["recorded"] == 2
    assert (first["gpu"], second["gpu"]) == ("h200", "a100-40gb") and 1e-6 < first["mean_seconds"] < 1e-5
    assert first["answer"]["limiter"] is not None and first["share"] == 1.0
    assert document["totals"][0]["copied_bytes"] == {"copy device to host": 4}
    assert len(json.loads(timeline.read_text())["traceEvents"]) == 5
    shown = page.read_text()
    assert "What to change" in shown and "gaps 0" not in shown and "(4 B)" in shown
    assert "fill.cu:5" in shown and "if (i &lt; n) out[i] = i;" in shown
    from warplens.traces import read_trace
    from warplens.traces.machine_code import MACHINE_CODE

    assert all(MACHINE_CODE in each.header.extra for each in read_trace(trace))
    assert [each.header.launch_index for each in read_trace(trace)] == [0, 1]


def test_kernels_that_fail_are_no_lack_of_kernels(tmp_path):
    try:
        find_nvcc()
    except MissingPackageError as error:
        pytest.skip(str(error))
    path = tmp_path / "stop.cu"
    path.write_text(
        "__global__ void stop() { __trap(); }\nint main() { stop<<<1, 1>>>(); cudaDeviceSynchronize(); }\n"
    )
    result = command(path, "--gpu", "h200")
    assert "the kernel stops itself" in result.output and "No kernel ran to its end." in result.output
    path.write_text("__global__ void none() { wrong; }\n")
    result = command(path, "--gpu", "h200")
    assert "--nvcc 'OPTIONS' passes options to it" in str(result.exception)
