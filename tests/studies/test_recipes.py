"""Every figure and table: it computes, its CSV reads back, its claims stand where we know them to, it draws."""

from __future__ import annotations

import csv
import io
import math
from pathlib import Path

import pytest

from docs.pages import pages, refreshed
from docs.reproductions import PAGE, files, made
from warplens.errors import InputError, UnknownNameError
from warplens.models import PAPERS
from warplens_studies.reproduce import (
    OMITTED,
    RECIPES,
    draw,
    find_recipes,
    inventory,
    recipe_names,
    write_csv,
)
from warplens_studies.reproduce.base import difference, natural_order
from warplens_studies.reproduce.claims import IN_TESTS, NOT_COVERED, RECOMPUTED, RESTATED, RULES, printed_claims
from warplens_studies.reproduce.inventory import SHOWN_WITH, chosen, listing, outcomes, statements

#: Sections of papers that have neither figure nor table.
SECTIONS = ("gpumech-collection", "gpumech-speed", "mdm-collection")
NAMES = tuple(
    sorted([*(n for n in inventory() if n not in OMITTED and n not in SHOWN_WITH), *SECTIONS], key=natural_order)
)
#: They take their time, and their statements depend on the machine.
TIMED = ("gpumech-collection", "gpumech-speed", "mdm-collection", "mdm-table2")
EVERY = [pytest.param(name, marks=pytest.mark.slow) if name in TIMED else name for name in NAMES]
#: Both references agree on these, and the suite's stand-ins with them.
BOTH = ("reference simulator", "Accel-Sim")
STANDINS, PROGRAMS = "simulated stand-ins", "simulated programs"
ALL = (STANDINS, *BOTH)

_PIPELINE_SHAPE = "MAPE_shape of the Pipeline model is below 10 %"
#: Statements of the papers that our numbers do not bear out, by how they begin. A claim that starts to
#: hold, or one that stops, must be looked at.
NOT_BORNE_OUT = {
    "gpumech-fig2": (
        "both intervals: the naive IPC is optimistic (§II-B), greedy-then-oldest",
        "interval 2: warp 3 cannot issue",
    ),
    "gpumech-fig7": ("where the methods differ, clustering usually has the best accuracy",),
    "gpumech-fig8": ("Eq. (11) as printed gives what Fig. 8(a) shows",),
    "gpumech-fig11": (
        *(
            f"{text}; loose round robin, {source}"
            for source in ALL
            for text in ("MT is better than Markov_Chain", "MT_MSHR brings most kernels below 30 %")
        ),
    ),
    "gpumech-fig12": (
        *(
            f"{text}; greedy-then-oldest scheduler, {source}"
            for source in BOTH
            for text in ("MT is better than Markov_Chain", "MT_MSHR brings most kernels below 30 %")
        ),
    ),
    "gpumech-fig13": (
        *(
            f"with many warps MT is better than Markov_Chain and Naive_Interval (§VI-C); {source}"
            for source in (STANDINS, BOTH[0])
        ),
        f"the errors of models without contention grow with the warps (§VI-C); {STANDINS}",
    ),
    "gpumech-fig14": tuple(f"GPUMech's error does not grow with the entries (§VI-C); {source}" for source in ALL),
    "gpumech-fig15": (
        *(f"GPUMech errs by less than 17.8 % with more (§VI-C); {source}" for source in (STANDINS, BOTH[0])),
        f"GPUMech errs most with the least bandwidth, 26.1 % at 64 GB/s (§VI-C); {STANDINS}",
    ),
    "gpumech-fig16": (
        *(
            f"GPUMech predicts the scaling trend (§VII-A); {kernel}"
            for kernel in ("vector_add", "copy", "strided8", "scatter")
        ),
        f"coalesced: MSHR delays appear with 48 warps only (§VII-A); {STANDINS}",
        *(f"coalesced: MSHR and QUEUE are negligible with fewer than 48 warps (§VII-A); {s}" for s in ALL[:2]),
        f"medium divergence: with 32 warps MSHR dominates (§VII-A); {STANDINS}",
        f"medium divergence: with 8 warps MSHR, 10.8 %, and QUEUE, 3.8 %, are the lesser part (§VII-A); {BOTH[0]}",
        "divergent stores: DRAM is negligible with 8 warps, as 90.5 % of the loads hit L1 (§VII-A); reference",
    ),
    "hong-kim-fig3": ("Constant is 1.79 times",),
    "hong-kim-fig7": ("the condition printed before Eq. (23)",),
    "hong-kim-fig11": ("it is Departure_delay",),
    "hong-kim-fig14": (
        "the CPI increases with the number of loads, coalesced",
        "uncoalesced: the CPI itself grows linearly",
    ),
    "hong-kim-fig15": ("the execution times are mostly the same",),
    "hong-kim-fig16": ("the execution times are mostly the same",),
    "hong-kim-fig17": ("8800GT has the highest CPI", "GTX280 has the lowest CPI"),
    "hong-kim-fig19": ("GTX280 has a higher MWP than the other GPUs, SVM too",),
    "hong-kim-fig20": ("all but Mat.(tiled) and Linear have more than 70 %", "the same if the block sizes"),
    "lemeire-fig2": ("GPUMech with GTO converges to Volkov's roof (§2.5); memory accesses take issue slots",),
    "lemeire-fig9": ("the same, compute pipeline",),
    "lemeire-fig12": ("Eq. (44) as printed",),
    "lemeire-fig14": (
        "Volkov is an upper bound for occupancy-bound kernels (§5.1), WFG*",
        "GPUMech is a bit above Volkov's curve, as it ignores compute latencies (footnote 2), GPUMech RR*",
    ),
    "lemeire-fig17": ("Volkov's model gives an upper bound",),
    "lemeire-table4": ("our machine files hold",),
    "lemeire-table9": ("there is a kernel of ours for each",),
    "lemeire-table10": (
        *(f"{text} (§6.3); H200" for text in ("the Pipeline model obtains the best results", _PIPELINE_SHAPE)),
        *(
            f"{text} (§6.3); {source}"
            for source in ("H200", BOTH[0])
            for text in (
                "Volkov's model is a close second of the uncorrected ones",
                "corrected, WFG and MWP-CWP lie between Pipeline and Volkov",
                "the corrections make WFG and MWP-CWP better",
            )
        ),
    ),
    "lemeire-table6": ("the global memory CPI gives", "Turing: printed throughput"),
    "lemeire-table7": ("our models take the same aspects",),
    "mdm-cal-fig1": (
        "MD-applications spend a lot of time waiting for MSHRs",
        "MD-applications have much larger NoC or DRAM",
        "NMD-applications are hardly affected",
    ),
    "mdm-cal-fig3": tuple(
        f"{text} (§5); {source}"
        for source in BOTH
        for text in (
            "MDM reduces the error on the others marginally, from 19 to 16 %",
            "GPUMech+, 206 %, MDM-Queue, 100 %, and MDM-MSHR, 98 %, lie between",
        )
    ),
    "mdm-cal-table2": ("our kernels are divergent where the paper's benchmarks are",),
    "mdm-table4": ("our kernels are divergent where the paper's benchmarks are",),
    "mdm-fig10": ("MDM is accurate compared to real hardware", "native instructions improve GPUMech's accuracy"),
    "mdm-fig2": ("GS = 1: a warp's loads go to the same line",),
    "mdm-fig3": ("MD-applications have much larger NoC or DRAM", "NMD-applications are hardly affected"),
    "mdm-fig5": (
        *(f"MDM errs far less than GPUMech on divergent applications, 16.5 times (§V-A); {source}" for source in ALL),
        *(
            f"{text} (§V-A); {source}"
            for source in BOTH
            for text in ("GPUMech+, MDM-Queue and MDM-MSHR lie between", "both err about alike on the others")
        ),
        *(
            f"{text} (§V-A); {STANDINS}"
            for text in (
                "over all applications MDM errs by 13.9 %, GPUMech by 162 %",
                "MDM errs by at most 50 % on a divergent application, GPUMech by up to 750 %",
            )
        ),
    ),
    "mdm-fig6": (
        *(f"MDM is the most accurate across NoC bandwidths (§V-B); {source}" for source in BOTH),
        f"MDM-MSHR improves on GPUMech+, especially at larger bandwidths (§V-B); {STANDINS}",
    ),
    "mdm-fig7": (
        f"GPUMech+ errs far less than GPUMech (§V-B); {STANDINS}",
        *(f"MDM is the most accurate across DRAM bandwidths (§V-B); {source}" for source in BOTH),
        *(f"GPUMech's error grows with DRAM bandwidth (§V-B); {source}" for source in ALL),
    ),
    "mdm-fig8": tuple(f"MDM is the most accurate across MSHRs (§V-B); {source}" for source in ALL),
    "mdm-fig15": (f"MDM errs less than GPUMech with a streaming L1, 8.66 times (§VII); {STANDINS}",),
    "mdm-fig9": tuple(
        f"{text} (§V-B); {source}"
        for source in ALL
        for text in ("MDM errs by less than 26 % on average", "MDM is the most accurate across SMs")
    ),
    "mdm-fig11": ("MDM captures the performance trend",),
    "mdm-fig12": ("the gain of more SMs and bandwidth is small",),
    "mdm-fig14": ("the same, nearer to the simulated CPI on every machine",),
}


#: The same for public programs.
NOT_BY_PROGRAMS = {
    "gpumech-fig11": ("MT is better than Markov_Chain", "MT_MSHR brings most kernels below 30 %"),
    "gpumech-fig12": ("divergent stores need the DRAM queue",),
    "gpumech-fig13": ("with many warps MT is better", "GPUMech errs more with few warps per core"),
    "gpumech-fig15": ("GPUMech errs most with the least bandwidth", "GPUMech errs by less than 17.8 %"),
    "gpumech-fig16": (
        "GPUMech predicts the scaling trend (§VII-A); rod-cfd: cuda_compute_step_factor",
        "coalesced: MSHR and QUEUE are negligible",
        "medium divergence: with 32 warps MSHR dominates",
        "divergent stores: QUEUE is high with 8 warps",
    ),
    "mdm-fig5": (
        "MDM errs far less than GPUMech on divergent applications",
        "GPUMech+, MDM-Queue and MDM-MSHR lie between",
        "over all applications MDM errs by 13.9 %",
        "MDM errs by at most 50 % on a divergent application",
    ),
    "mdm-fig6": ("MDM-MSHR improves on GPUMech+", "MDM is the most accurate across NoC bandwidths"),
    "mdm-fig7": ("MDM is the most accurate across DRAM bandwidths",),
    "mdm-fig8": ("MDM is the most accurate across MSHRs",),
    "mdm-fig9": (
        "MDM errs by less than 26 % on average",
        "MDM is the most accurate across SMs",
    ),
    "mdm-fig15": (
        "MDM errs less than GPUMech with a streaming L1",
        "MDM does as well as with conventional L1 caches",
    ),
}


def read_back(text: str) -> tuple[list[str], list[list[str]]]:
    """(comment lines, data rows with the header first)."""
    lines = text.splitlines()
    comments = [line for line in lines if line.startswith("# ")]
    return comments, list(csv.reader(io.StringIO("\n".join(lines[len(comments) :]))))


def test_names_and_their_natural_order():
    assert tuple(recipe_names()) == NAMES


def test_what_measures_time_says_so():
    assert tuple(name for name in recipe_names() if RECIPES[name].timed) == TIMED


def test_no_name_means_all_and_repeats_are_dropped():
    assert [recipe.name for recipe in find_recipes(())] == list(NAMES)
    assert [recipe.name for recipe in find_recipes(("lemeire-fig2", "lemeire-fig2"))] == ["lemeire-fig2"]


def test_unknown_name_is_answered_with_the_nearest():
    with pytest.raises(UnknownNameError, match="'lemeire-fig2'"):
        find_recipes(("lemeire-fig22",))


@pytest.mark.parametrize("name", EVERY)
class TestEvery:
    def test_is_described(self, name):
        recipe = RECIPES[name]
        assert recipe.paper in PAPERS.values()
        assert recipe.title.startswith(("Figure ", "Figures ", "Table ", "Tables ", "Section "))
        assert recipe.compares and "\n" not in recipe.compares
        assert recipe.data

    def test_rows_fit_the_columns_and_are_finite(self, name):
        for columns, rows in (
            (made(name).columns, made(name).rows),
            (made(name).summary.columns, made(name).summary.rows),
        ):
            assert rows
            assert len(set(columns)) == len(columns)
            for row in rows:
                assert len(row) == len(columns)
                assert all(cell is None or isinstance(cell, str) or math.isfinite(cell) for cell in row)

    def test_csv_reads_back(self, name):
        comments, rows = read_back(made(name).to_csv())
        assert tuple(rows[0]) == made(name).columns
        assert len(rows) == len(made(name).rows) + 1
        assert all("#" not in cell for row in rows for cell in row), "readers with a comment character would cut it"
        for text in (*made(name).assumptions, *made(name).remarks):
            assert any(text in line for line in comments)
        assert sum(line.startswith("# claim,holds,found") for line in comments) == bool(made(name).claims)

    def test_claims_stand_where_known(self, name):
        assert all(claim.found for claim in made(name).claims)
        if name in TIMED:
            return
        assert outcomes()[name] == statements(made(name)), "run: python tests/docs/pages.py"
        failing = sorted(claim.text for claim in made(name).claims if not claim.holds)
        by_programs = [text for text in failing if text.endswith(PROGRAMS)]
        others = [text for text in failing if text not in by_programs]
        for found, expected in ((others, NOT_BORNE_OUT), (by_programs, NOT_BY_PROGRAMS)):
            starts = sorted(expected.get(name, ()))
            assert len(found) == len(starts), found
            assert all(text.startswith(start) for text, start in zip(found, starts, strict=True))

    def test_written_csv(self, name, tmp_path):
        path = write_csv(made(name), tmp_path / "new" / "folder")
        assert path.name == f"{name}.csv"
        assert path.read_text(encoding="utf-8") == made(name).to_csv()

    @pytest.mark.slow
    def test_picture(self, name, tmp_path):
        path = draw(made(name), tmp_path)
        assert path == tmp_path / f"{name}.png"
        assert path.read_bytes().startswith(b"\x89PNG") and path.stat().st_size > 10_000


def test_the_page_and_its_files_are_what_the_code_says():
    text = pages()[PAGE].read_text(encoding="utf-8")
    assert refreshed(text, commands=False) == text, "out of date; run: python tests/docs/pages.py"
    stale = [path.name for path, made_now in files().items() if path.read_text(encoding="utf-8") != made_now]
    assert not stale, "out of date; run: python tests/docs/pages.py reproductions.md"


#: What each paper has, counted in its text: figures and tables.
IN_THE_PAPERS = {"hong-kim": (20, 6), "gpumech": (16, 3), "mdm-cal": (3, 2), "mdm": (15, 5), "lemeire": (18, 12)}


def test_every_figure_and_table_of_the_papers_is_recomputed_or_has_a_reason():
    expected = {
        f"{paper}-{kind}{number}"
        for paper, counts in IN_THE_PAPERS.items()
        for kind, count in zip(("fig", "table"), counts, strict=True)
        for number in range(1, count + 1)
    }
    rows = listing()
    covered = [name for row in rows for name in (row["covers"].split() or [row["name"]])]
    assert sorted(covered) == sorted(expected | set(SECTIONS))
    for row in rows:
        assert bool(row["reason"]) == (row["name"] not in RECIPES)
        if not row["reason"]:
            assert row["compares"] and row["data"] and row["statements"]


def test_an_omitted_item_is_refused_with_its_reason_and_a_covered_one_gives_the_other():
    with pytest.raises(InputError, match="block diagram"):
        chosen(["gpumech-fig5"])
    assert [recipe.name for recipe in chosen(["lemeire-table12"])] == ["lemeire-table10"]


def test_one_picture_in_the_quick_tier(tmp_path):
    assert draw(made("lemeire-fig3"), tmp_path).stat().st_size > 10_000


def test_folder_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be written"):
        write_csv(made("lemeire-fig3"), tmp_path / "file")


@pytest.mark.parametrize(
    ("paper", "ours", "text"),
    [(None, 3.0, ""), (4.0, 4.0, "none"), (4.0, 5.0, "+25.00 %"), (1e6, 1e6 + 1, "+0.0001 %")],
)
def test_difference(paper, ours, text):
    assert difference(paper, ours) == text


def test_items_that_compare_our_files_are_not_called_recomputed():
    restated = [recipe.name for recipe in RECIPES.values() if recipe.restated]
    assert {"mdm-table3", "gpumech-table1", "lemeire-table5", "gpumech-table2"} <= set(restated)
    assert not {"mdm-fig5", "hong-kim-table2", "lemeire-table10"} & set(restated)


def test_a_statement_of_a_text_is_judged_once():
    """Two items that quote the same sentence could come to different verdicts."""
    verdicts: dict[tuple[str, str], set[bool]] = {}
    for name in [name for name, recipe in RECIPES.items() if not recipe.timed and not recipe.restated]:
        for claim in made(name).claims:
            verdicts.setdefault((RECIPES[name].paper.key, claim.text), set()).add(claim.holds)
    assert [text for text, found in verdicts.items() if len(found) > 1] == []


def test_every_claim_of_a_paper_has_one_rule():
    found = printed_claims()
    assert len({(claim.paper, claim.claim) for claim in found}) == len(found)
    for claim in found:
        assert claim.rule in RULES and claim.section, claim
        if claim.rule == NOT_COVERED:
            assert claim.detail and not claim.item, claim
        elif claim.item != IN_TESTS:
            assert RECIPES[claim.item].restated == (claim.rule == RESTATED), claim


def test_recomputed_claims_name_a_statement_or_a_test():
    golden = (Path(__file__).parents[1] / "models" / "test_golden.py").read_text(encoding="utf-8")
    for claim in printed_claims():
        if claim.item == IN_TESTS:
            assert f"def {claim.detail}(" in golden
        elif claim.rule == RECOMPUTED and claim.detail and not RECIPES[claim.item].timed:
            assert any(each.text.startswith(claim.detail) for each in made(claim.item).claims), claim


def test_every_recipe_serves_a_claim():
    assert set(RECIPES) <= {claim.item for claim in printed_claims()}


@pytest.mark.parametrize("number", ["5.4 %", "13.3 %", "612 times", "6.1 times", "84 %"])
def test_numbers_of_abstracts_are_among_the_claims(number):
    assert any(number in claim.claim for claim in printed_claims())
