"""Which thread blocks of a launch are recorded, by the header that the tracer is built with."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

import pytest

from warplens.errors import TraceError
from warplens.frontends.sass.raw import read_launch

from .making import compile_with_headers

#: A line each: blocks, limit, wave, cluster. Prints the choice, then the numbers of the recorded blocks in the grid.
MAIN = """
#include "chosen.h"
#include <cstdio>
int main() {
    unsigned long long limit, wave, cluster;
    Tracker tracker = {};
    while (std::scanf("%llu%llu%llu%llu", &tracker.blocks, &limit, &wave, &cluster) == 4) {
        choose_blocks(tracker, limit, wave, cluster);
        std::printf("%llu %llu ", tracker.block_limit, tracker.run_blocks);
        std::printf("%llu %llu", tracker.run_period, tracker.first_run);
        for (unsigned long long block = 0, next = 0; block < tracker.blocks; ++block) {
            const unsigned long long number = recorded_number(&tracker, block);
            if (number >= tracker.block_limit) continue;
            if (number != next++) return 1;
            std::printf(" %llu", block);
        }
        std::puts("");
    }
}
"""

KEYS = ("block_limit", "run_blocks", "run_period", "first_run")
H200 = Path(__file__).parent / "data" / "h200" / "launch-0.launch"


def _described(folder: Path, blocks: int, values: list[int]) -> Path:
    changes = {"grid": f"{blocks} 1 1", **dict(zip(KEYS, map(str, values), strict=True))}
    lines = (line.split("=", 1) for line in H200.read_text(encoding="utf-8").splitlines())
    path = folder / "launch-0.launch"
    path.write_text("".join(f"{key}={changes.get(key, value)}\n" for key, value in lines), encoding="utf-8")
    return path


def test_recorded_blocks_are_spread_over_the_grid(tmp_path):
    chance = random.Random(1)
    cases = [
        (118580, 1056, 528, 1),
        (64, 132, 528, 1),
        (1000, 132, 264, 1),
        (96, 16, 132, 4),
        (7, 3, 132, 1),
        (9, 0, 0, 1),
    ]
    for _ in range(200):
        blocks, wave = chance.randint(1, 5000), chance.randint(0, 600)
        cases.append((blocks, chance.randint(0, 6000), wave, chance.choice([1, 1, 2, 4])))
    program = compile_with_headers(tmp_path, MAIN)
    text = "\n".join(" ".join(map(str, case)) for case in cases)
    output = subprocess.run([program], input=text, capture_output=True, text=True, check=True).stdout.splitlines()
    for (blocks, limit, _, cluster), line in zip(cases, output, strict=True):
        numbers = [int(each) for each in line.split()]
        values, found = numbers[:4], numbers[4:]
        launch = read_launch(_described(tmp_path, blocks, values))
        assert launch.block_numbers(0, launch.block_limit).tolist() == found
        assert len(found) == launch.block_limit <= min(limit, blocks)
        if limit >= blocks:
            assert found == list(range(blocks))
        elif limit >= 8 * cluster:
            assert limit - len(found) <= launch.block_limit // launch.run_blocks * cluster
            # The middle of what is recorded is the middle of the grid.
            assert abs(sum(found) / len(found) - blocks / 2) <= 1 + cluster
        if limit < blocks and launch.run_blocks >= cluster:
            assert launch.run_blocks % cluster == launch.first_run % cluster == launch.run_period % cluster == 0


def test_long_recordings_have_runs_of_a_wave(tmp_path):
    program = compile_with_headers(tmp_path, MAIN)
    line = subprocess.run([program], input="100000 8448 1056 1", capture_output=True, text=True, check=True).stdout
    assert line.split()[:4] == ["8448", "1056", "12500", "5722"]


@pytest.mark.parametrize("values", [[4, 4, 4, 0], [2, 2, 1, 0], [2, 1, 3, 0]])
def test_blocks_outside_the_grid_are_refused(tmp_path, values):
    with pytest.raises(TraceError, match="blocks that the grid does not have"):
        read_launch(_described(tmp_path, 3, values))
