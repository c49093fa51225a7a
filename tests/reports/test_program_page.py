"""The page of a program: its table, its timeline, and nothing of a name becomes markup."""

import pytest

from warplens.errors import FileError
from warplens.programs import GpuTotal, KernelTotal, ProgramResult, Slice
from warplens.reports.program_page import MOST_SLICES, program_page, program_timeline, write_program_page

from .checks import check_view

EVIL = "k<script>alert(1)</script>"


def result(slices: int = 3) -> ProgramResult:
    work = [Slice("copy host to device", 0, 0, 0.0, 1e-5, None, 1 << 20)]
    work += [Slice(EVIL, 0, index % 2, 1e-5 * (index + 1), 1e-6 * (index + 1), index) for index in range(slices)]
    total = GpuTotal("h200", 6e-6, {"copy host to device": 1e-5}, {"copy host to device": 1 << 20}, 4.3e-5, 0.0)
    kernel = KernelTotal(EVIL, "h200", slices, 1, 6e-6, 1.0)
    return ProgramResult(("./app",), 0, slices, 1.0, (kernel,), (total,), tuple(work), failures=("a <b>fault",))


def test_the_sentence_leaves_out_what_takes_no_time():
    told = result().totals[0].told
    assert told == "43 µs from first to last: kernels 6 µs, copy host to device 10 µs (1 MiB)"


def test_the_page_has_table_timeline_and_failures():
    page = program_page(result())
    assert "<script>alert" not in page and "a &lt;b&gt;fault" in page and "3 launches on h200" in page
    assert 'id="timeline"' in page and "43 µs from first to last" in page


def test_the_timeline_is_a_view_of_the_longest_work(tmp_path):
    view = program_timeline(result())
    check_view(view, tmp_path)
    assert list(view.rows.values()) == ["stream 0", "stream 1"] and list(view.colours) == [EVIL]
    many = program_timeline(result(MOST_SLICES + 5))
    assert len(many.slices) == MOST_SLICES and f"of {MOST_SLICES + 6}" in many.summary


def test_a_page_that_cannot_be_written_says_so(tmp_path):
    with pytest.raises(FileError, match="cannot be written"):
        write_program_page(result(), tmp_path / "no" / "page.html")
