"""Lanes that walk along rows, with loads under way: the L1 keeps what that of an H200 keeps."""

from __future__ import annotations

import csv
import dataclasses
from pathlib import Path

import numpy as np

from reference.traces import Step
from warplens.machine import load_gpu
from warplens.traces import StaticInstruction

from .comparing import simulate


def measured_rows():
    """(threads, blocks on an SM, pitch, loads under way) -> hit ratio on an H200 whose L1 has 28 KiB."""
    path = Path(__file__).parents[2] / "benchmarks" / "h200" / "l1_rows.csv"
    return {
        tuple(int(row[name]) for name in ("threads", "blocks", "pitch", "ahead")): float(row["hits"])
        / float(row["sectors"])
        for row in csv.DictReader(line for line in path.read_text().splitlines() if not line.startswith("#"))
        if row["shared_kib"] == "227"
    }


def hits_of_rows(threads: int, blocks: int, pitch: int, ahead: int) -> float:
    """Each lane reads the words of a row twice; the address of a load needs the sum of those before."""
    loads = [StaticInstruction(8 * i, "ld", "load_global", "global", 4, (2 + i,), (1,)) for i in range(ahead)]
    add = StaticInstruction(8 * ahead, "add", "int32", "none", 0, (1,), tuple(range(2, 2 + ahead)))

    def warp(first: int) -> list[Step]:
        steps = []
        for begin in range(0, 64, ahead):
            for i in range(ahead):
                at = (begin + i) % 32 * 4
                steps.append(Step(i, tuple(4096 + (first + lane) * pitch + at for lane in range(32))))
            steps.append(Step(ahead))
        return steps

    gpu = load_gpu("h200")
    gpu = dataclasses.replace(gpu, sms=1, l1=dataclasses.replace(gpu.l1, size_bytes=28 << 10))
    launch = [[warp(block * threads + first) for first in range(0, threads, 32)] for block in range(blocks)]
    found = simulate(launch, gpu, blocks, "progress", rows=[*loads, add])
    return 1.0 - found.l1_miss_ratio


def test_rows_hit_as_often_as_on_an_h200():
    """Loads under way bring their line once, however many warps come in between.

    The largest errors are those of rings that fill the L1 to the brim, which the hardware's replacement breaks.
    """
    measured = measured_rows()
    off = {launch: abs(hits_of_rows(*launch) - hits) for launch, hits in measured.items() if launch[1] <= 4}
    assert len(off) == 96
    assert np.mean(list(off.values())) < 0.08
    assert max(error for (threads, *_), error in off.items() if threads in (128, 256)) < 0.22
    for launch in ((256, 1, 128), (128, 4, 128)):
        for hits in (measured[*launch, 1], hits_of_rows(*launch, 1)):
            assert hits < 0.15
        for hits in (measured[*launch, 4], hits_of_rows(*launch, 4)):
            assert hits > 0.7
