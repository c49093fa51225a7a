"""Whole programs without a GPU, in CPU seconds of all processes: a product of matrices, launches, MDM's two costs.

As in Table II of MDM: the one-time cost is the run of the program that records its launches, the recurrent one is a
prediction of all of them for another machine.
"""

from __future__ import annotations

import os
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from run import Row

from warplens.api import predict
from warplens.frontends.runtime import Recording
from warplens.frontends.runtime.build import build_stand_in
from warplens.frontends.runtime.compile import compile_program
from warplens.machine import load_gpu
from warplens.programs import run_program
from warplens.traces import read_trace

SOURCE = """
#include <cstdlib>
__global__ void product(const float* a, const float* b, float* c, int n) {
  int j = blockIdx.x * blockDim.x + threadIdx.x, i = blockIdx.y * blockDim.y + threadIdx.y;
  float sum = 0;
  for (int k = 0; k < n; k++) sum += a[i * n + k] * b[k * n + j];
  c[i * n + j] = sum;
}
__global__ void nothing() {}
int main(int, char** given) {
  int n = atoi(given[1]), launches = atoi(given[2]);
  float *a, *b, *c;
  cudaMalloc(&a, n * n * 4); cudaMalloc(&b, n * n * 4); cudaMalloc(&c, n * n * 4);
  if (n) product<<<dim3(n / 32, n / 8), dim3(32, 8)>>>(a, b, c, n);
  for (int i = 0; i < launches; i++) nothing<<<1, 32>>>();
  return cudaDeviceSynchronize();
}
"""
SIZE, LAUNCHES = 512, 10_000


def cpu_seconds(work: Callable[[], Any]) -> float:
    """Of this process and those that it waits for."""

    def now() -> float:
        children = resource.getrusage(resource.RUSAGE_CHILDREN)
        return time.process_time() + children.ru_utime + children.ru_stime

    started = now()
    work()
    return now() - started


def measure() -> list[Row]:
    gpu, silent = load_gpu("h200"), os.open(os.devnull, os.O_WRONLY)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "program.cu").write_text(SOURCE)
        program = str(compile_program([folder / "program.cu"], folder, build_stand_in(), 90))

        def run(n: int, launches: int, output: Path | None = None) -> None:
            recording = Recording() if output else Recording(launches=frozenset())
            command = [program, str(n), str(launches)]
            run_program(command, [gpu], recording=recording, output=output, advice=False, program_output=silent)

        run(SIZE, 1)  # compiles
        empty = cpu_seconds(lambda: run(0, 0))
        product = cpu_seconds(lambda: run(SIZE, 0)) - empty
        launch = (cpu_seconds(lambda: run(0, LAUNCHES)) - empty) / LAUNCHES
        trace = folder / "program.wlt"
        run(SIZE, 1, trace)
        once = cpu_seconds(lambda: run(SIZE, 1, trace.with_name("again.wlt")))
        launches = read_trace(trace)
        predict(launches[0], gpu="v100", model="mdm")  # compiles
        again = cpu_seconds(lambda: [predict(each, gpu="a100", model="mdm") for each in launches])
    return [
        Row(f"product of matrices {SIZE}³ on the CPU", product, "s CPU", target=4.0, lower_is_better=True),
        Row("launch besides its kernel", launch, "s CPU", target=1e-3, lower_is_better=True),
        Row("program run and recorded, one-time cost", once, "s CPU"),
        Row("its launches on another machine by mdm, recurrent cost", again, "s CPU", "one-time", once / again),
    ]
