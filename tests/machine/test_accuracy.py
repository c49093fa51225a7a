"""What `gpus --accuracy` names exists; tests/studies/test_accuracy.py compares its figures with the kept data."""

from pathlib import Path

from warplens.machine import gpu_names, load_gpu
from warplens.machine.accuracy import validations

DOCS = Path(__file__).parents[2] / "docs"


def test_every_page_and_clock_exists():
    told = [(gpu, each) for gpu in gpu_names() for each in validations(gpu)]
    assert told
    for gpu, each in told:
        assert (DOCS / f"{each.page}.md").is_file()
        assert not each.clock or getattr(load_gpu(gpu).clocks, f"{each.clock}_hz") is not None
