"""Static instructions of machine code: scoreboards as registers, and what they take from the PTX."""

from __future__ import annotations

from warplens.analysis.machine_rows import machine_rows, silent_rows
from warplens.traces import static_table

from .assembly import Line, assembled, ptx


def test_what_waits_for_a_scoreboard_reads_what_sets_it() -> None:
    sets_2, waits_for_2 = 2 << 5, 7 << 5 | 1 << 2 + 11
    rows = ptx("ld.global", "fma", "exit")
    code = assembled([Line("LDG.E", 0, control=sets_2), Line("FFMA", 1, control=waits_for_2)], 3, (0,))
    load, add = made = machine_rows(code, static_table(rows))
    assert load.destinations == add.sources != () and load.sources == add.destinations == ()
    assert (load.instruction_class, load.access_bytes, load.line) == ("load_global", 4, rows[0].line)
    # Where a guard keeps them from doing anything, they still wait.
    for row, silent in zip(made, silent_rows(made), strict=True):
        assert silent.sources == row.sources
        assert (silent.destinations, silent.access_bytes, silent.space) == ((), 0, "none")
