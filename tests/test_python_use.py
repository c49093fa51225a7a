"""What anyone would try first in Python."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import warplens
from warplens.errors import InputError
from warplens.traces import read_trace


def test_a_run_is_an_input_and_its_trace_prints_as_one_line(tmp_path: Path) -> None:
    pytest.importorskip("cuda.bindings.nvrtc", reason="NVRTC has no wheel for this platform")
    source = warplens.cuda('extern "C" __global__ void twice(float* x) { x[threadIdx.x] *= 2; }')
    run = source.kernel("twice").launch(2, 32, np.ones(32, np.float32))
    assert warplens.predict(run, "h200", "volkov").cycles == warplens.predict(run.trace(), "h200", "volkov").cycles
    text = str(run.trace())
    assert text.startswith("<trace of twice: grid 2×1×1, block 32×1×1")
    assert "2 of 2 blocks" in text and len(text) < 200
    (tmp_path / "w.toml").write_text(
        '[cuda]\ncode = "extern \\"C\\" __global__ void k() {}"\nkernel = "k"\ngrid = [1]\nblock = [32]\n'
    )
    warplens.trace(tmp_path / "w.toml", tmp_path / "w.wlt")
    assert str(read_trace(tmp_path / "w.wlt")[0]).startswith("<trace of w: grid")


def test_occupancy_takes_the_name_of_a_gpu() -> None:
    assert warplens.occupancy("h200", 256, 64) == warplens.occupancy(warplens.load_gpu("h200"), 256, 64)


def test_messages_speak_of_parameters_not_of_options(tmp_path: Path) -> None:
    (tmp_path / "w.toml").write_text("[instruction_mix]\ncomp = 4\n")
    with pytest.raises(InputError, match='choose one with gpu="NAME"') as caught:
        warplens.predict(tmp_path / "w.toml")
    assert "--" not in str(caught.value)


def test_a_numba_kernel_is_launched_like_any_other() -> None:
    pytest.importorskip("numba_cuda")
    from numba import cuda

    def add(x, y, by):  # type: ignore[no-untyped-def]
        i = cuda.grid(1)
        if i < x.size:
            y[i] = x[i] + by

    x, y = np.arange(40, dtype=np.float32), np.zeros(40, np.float32)
    run = warplens.cuda(add).launch(2, 32, x, y, 2.5)
    assert y.tolist() == (x + 2.5).tolist()
    assert run.trace().header.kernel == "add"
