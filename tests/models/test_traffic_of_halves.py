"""DRAM traffic of a copy that fills both halves of the L2, before and after an edit: edits_measured.csv."""

import csv

import numpy as np
import pytest

import warplens
from warplens.machine import load_gpu, with_overrides
from warplens.suite.catalog import SUITE
from warplens.workload import workload_of_trace
from warplens.workload.traced import cache_misses
from warplens_studies.validate.h200 import FOLDER

COUNT = 6_400_000


def measured(edit: str) -> float:
    lines = (FOLDER / "edits_measured.csv").read_text(encoding="utf-8").splitlines()
    rows = csv.DictReader(line for line in lines if not line.startswith("#"))
    return next(float(row["dram_bytes"]) for row in rows if (row["kernel"], row["edit"]) == ("vector_add", edit))


def simulated(sum_: str, partitions: int) -> float:
    source = SUITE["vector_add"].source_text().replace("a[i] + b[i]", sum_)
    a, b, c = np.zeros((3, COUNT), np.float32)
    kernel = warplens.cuda(source, name="vector_add.cu").kernel("vector_add")
    trace = kernel.launch(COUNT // 256, 256, a, b, c, np.int32(COUNT)).trace()
    machine = with_overrides(load_gpu("h200"), {"llc.partitions": partitions})
    found = cache_misses(workload_of_trace(trace), machine)
    return float(found.dram_read_bytes + found.dram_write_bytes)


@pytest.mark.parametrize(
    ("edit", "sum_"), [("before", "a[i] + b[i]"), ("add-extra-load", "a[i] + b[i] * a[n - 1 - i]")]
)
def test_halves_bring_the_traffic_that_was_counted(edit, sum_):
    """Within 2 %; one L2 for all SMs would have a tenth too little, a fifth with the third load."""
    assert simulated(sum_, 2) == pytest.approx(measured(edit), rel=0.02)
    assert simulated(sum_, 1) < 0.9 * measured(edit)
