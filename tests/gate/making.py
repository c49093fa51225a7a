"""Snapshots without predictions, and a small project in git."""

from __future__ import annotations

import subprocess
from dataclasses import replace

from warplens.explanation import Line
from warplens.explanation.paired import Timing
from warplens.gate.check import CheckResult
from warplens.gate.snapshot import Identity, Snapshot
from warplens.gate.verdicts import verdict

SCALE = """\
extern "C" __global__ void scale(int n, float factor, const float *in, float *out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = factor * in[i];
}
"""
#: The same with loads that are 256 elements apart.
STRIDED = SCALE.replace("factor * in[i]", "factor * in[i % 1024 * 256 + i / 1024]")
LAUNCH = """\
name = "scale"

[cuda]
source = "scale.cu"
grid = [1024]
block = [256]

[[cuda.arguments]]
dtype = "int32"
value = 262144

[[cuda.arguments]]
dtype = "float32"
value = 2.0

[[cuda.arguments]]
dtype = "float32"
shape = [262144]
fill = "random"

[[cuda.arguments]]
dtype = "float32"
shape = [262144]
"""
SETTINGS = '[check]\npaths = ["kernels"]\ngpus = ["h200"]\n'


def git(folder, *arguments):
    identity = ("-c", "user.name=test", "-c", "user.email=test@example.org")
    subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, capture_output=True)


def commit(folder, subject):
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", subject)


def make_project(folder):
    """A repository with one kernel and one commit."""
    (folder / "kernels").mkdir(parents=True)
    (folder / "kernels" / "scale.cu").write_text(SCALE)
    (folder / "kernels" / "scale.toml").write_text(LAUNCH)
    (folder / "warplens.toml").write_text(SETTINGS)
    git(folder, "init", "--quiet", "--initial-branch=main")
    commit(folder, "Start")
    return folder


def snapshot(seconds=1e-5, kernel="softmax", gpu="h100", lines=(), counts=(), source="kernels/softmax.cu", **causes):
    causes = causes or {"BASE": 0.4 * seconds, "DRAM": 0.6 * seconds}
    timing = Timing(seconds, 0.8 * seconds, 1.3 * seconds, causes)
    rows = tuple(Line("softmax.cu", number, share, text) for number, share, text in lines)
    return Snapshot(Identity("kernels/softmax.toml", kernel), gpu, timing, dict(counts), rows, source=source)


def slowed(before, part, name="DRAM", **values):
    """The snapshot with more time in one category."""
    more = part * before.seconds
    causes = {**before.timing.causes, name: before.timing.causes.get(name, 0.0) + more}
    seconds = before.seconds + more
    return replace(before, timing=Timing(seconds, 0.8 * seconds, 1.3 * seconds, causes), **values)


def result(*changes, limit=0.05):
    """A check of kernels `k0`, `k1`, … that changed by some parts of their time."""
    before = [snapshot(kernel=f"k{number}", lines=[(41, 0.7, "x[i] = <y>;")]) for number in range(len(changes))]
    found = tuple(verdict(each, slowed(each, change)) for each, change in zip(before, changes, strict=True))
    return CheckResult(found, "main (1a2b3c4)", limit, ("the compiler is another",))
