"""Against the third-party simulator's cycle counts: how far off, and no run far off.

The cycles are the recorded ones; tests/validate/test_recorded.py simulates them again.
"""

from __future__ import annotations

from pathlib import Path

from warplens_studies.validate.report import markdown, table_csv
from warplens_studies.validate.simulated import mean_table, simulator_errors, simulator_table

DOCS = Path(__file__).parents[3] / "docs"


def test_cycles_of_all_kernels_and_configurations():
    errors = simulator_errors()
    assert not {run: off for run, off in errors.items() if abs(off) > 0.3}
    assert sum(map(abs, errors.values())) / len(errors) <= 0.10


def test_the_page_is_up_to_date():
    assert markdown(mean_table()) in (DOCS / "simulators" / "detailed.md").read_text(encoding="utf-8")
    assert table_csv(simulator_table()) == (DOCS / "validation" / "data" / "detailed-accelsim.csv").read_text(
        encoding="utf-8"
    )
