"""The papers' own numbers, where the text has them, and ours beside."""

from __future__ import annotations

import pytest

from warplens.models import MODELS
from warplens_studies.reproduce import RECIPES, Reproduction
from warplens_studies.reproduce.hong_kim_merge import THREADS, average
from warplens_studies.reproduce.lemeire import example_intervals
from warplens_studies.reproduce.lemeire_tables import REASONS, TABLE7, TABLE7_MODELS


def rows_of(name: str) -> list[dict]:
    made: Reproduction = RECIPES[name]()
    return [dict(zip(made.columns, row, strict=True)) for row in made.rows]


def summary_of(name: str) -> dict[str, tuple]:
    return {str(row[0]): row[1:] for row in RECIPES[name]().summary.rows}


class TestHongKimTable2:
    rows = property(lambda self: {row["quantity"]: row for row in rows_of("hong-kim-table2")})

    def test_all_rows_are_there_in_order(self):
        assert list(self.rows) == [
            "Departure_delay", "Mem_L", "MWP_without_BW_full", "BW_per_warp", "MWP_peak_BW", "MWP", "Comp_cycles",
            "Mem_cycles", "CWP_full", "CWP", "Rep", "Exec_cycles_app", "Synch_cost", "Final Time",
        ]  # fmt: skip

    def test_unrounded(self):
        assert self.rows["Exec_cycles_app"]["ours"] == pytest.approx(38428.1875, abs=1e-9)
        assert self.rows["Synch_cost"]["ours"] == pytest.approx(12300.0, abs=1e-9)
        assert self.rows["Final Time"]["ours"] == pytest.approx(50728.1875, abs=1e-9)

    def test_rounded_as_the_paper(self):
        rounded = {name: row["ours rounded as the paper"] for name, row in self.rows.items()}
        assert rounded["Exec_cycles_app"] == pytest.approx(38449.2126, abs=1e-4)
        assert rounded["Synch_cost"] == pytest.approx(12288.0, abs=1e-9)
        for name, row in self.rows.items():
            assert abs(rounded[name] - row["paper"]) <= (1 if name in ("Exec_cycles_app", "Final Time") else 0.005)


class TestMicroBenchmarks:
    rows = property(lambda self: rows_of("hong-kim-fig14"))

    def test_every_case(self):
        assert len(self.rows) == 7 * 2 * 4

    def test_without_loads_the_issue_alone_counts(self):
        assert {row["CPI"] for row in self.rows if row["benchmark"] == "Mb1"} == {4.0}

    def test_an_uncoalesced_loop_by_hand(self):
        """Mb2 on FX5600: N = 24, MWP = 730/320; H-23 over 18000 instructions of 24 warps."""
        cycles = 730e3 * 24 / (730 / 320) + 72e3 / 1e3 * (730 / 320 - 1)
        (row,) = (r for r in self.rows if (r["benchmark"], r["access"], r["gpu"]) == ("Mb2", "uncoalesced", "FX5600"))
        assert row["CPI"] == pytest.approx(cycles / (18e3 * 24), rel=1e-12)
        assert row["equation"] == "H-23"


class TestMerge:
    def test_svm_has_the_lowest_cpi_and_the_highest_mwp(self):
        cpi, mwp = average("cpi"), average("mwp")
        for gpu in cpi["SVM"]:
            assert min(cpi, key=lambda name: cpi[name][gpu]) == "SVM"
            assert max(mwp, key=lambda name: mwp[name][gpu]) == "SVM"

    def test_uncoalesced_mwp(self):
        assert average("mwp")["Sepia"]["FX5600"] == pytest.approx(730 / 320)
        assert average("mwp")["Sepia"]["GTX280"] == pytest.approx(570 / 160)

    def test_each_has_its_launches(self):
        for row in rows_of("hong-kim-fig20"):
            assert row["block sizes"] == (6 if row["benchmark"] == "Mat.(tiled)" else len(THREADS))
            assert row["smallest occupancy [%]"] <= row["mean occupancy [%]"] <= row["largest occupancy [%]"] <= 100


class TestLemeireExample:
    def test_printed_numbers(self):
        found = summary_of("lemeire-fig2")
        for quantity, value in {
            "Λ_app (Volkov)": 25,
            "WPC(1) (Volkov)": 1 / 25,
            "WPC of the roof (Roofline)": 1 / 4,
            "warps that reach the roof (Volkov)": 7,
            "MWP": 3,
            "CWP": 4,
        }.items():
            assert found[quantity][0] == pytest.approx(value)
            assert found[quantity][1] == pytest.approx(value, rel=1e-12)

    def test_mwp_cwp_is_lines_of_the_spec(self):
        for row in rows_of("lemeire-fig2"):
            if row["model"] == "MWP-CWP":
                w = row["warps"]
                cycles = 16 + 2 * (w - 1) if w <= 3 else 4 * w + 6
                assert w / row["warps per cycle"] == pytest.approx(cycles, rel=1e-12)

    def test_both_readings_of_gpumech(self):
        last = {
            (row["model"], row["reading"][:40]): row["warps per cycle"]
            for row in rows_of("lemeire-fig2")
            if row["warps"] == 20
        }
        assert last["GPUMech GTO", "memory accesses take no issue slot, as L"] == pytest.approx(1 / 4)
        assert last["GPUMech GTO", "memory accesses take issue slots, as GPU"] == pytest.approx(1 / 6)
        assert last["GPUMech RR", "memory accesses take no issue slot, as L"] == pytest.approx(20 / 25.5)

    def test_intervals_come_from_the_graph(self):
        for issues, count in ((True, 3), (False, 2)):
            profile = example_intervals(memory_issues=issues).profile
            assert profile is not None
            assert profile.matrix.tolist() == [[count, 6, 0, 0, 0, 0]] * 2

    def test_transit_crossing(self):
        found = summary_of("lemeire-fig3")
        assert found["k, Eq. (L-11)"][1] == pytest.approx(15 / 7)
        assert found["WPC, Eq. (L-13)"][1] == pytest.approx(5 / 28)


class TestLemeirePipeline:
    """Figs. 2, 8, 9, 12, 14 and 16 with the Pipeline model."""

    @pytest.mark.parametrize("name", ["lemeire-fig2", "lemeire-fig14"])
    def test_curve_is_that_of_the_profiles(self, name):
        curve = {row["warps"]: row["warps per cycle"] for row in rows_of(name) if row["model"] == "Pipeline RR"}
        for warps, cycles in ((1, 25), (2, 28), (4, 35), (10, 58)):
            assert curve[warps] == pytest.approx(warps / cycles, rel=1e-12)
        assert list(curve.values()) == sorted(curve.values())

    @pytest.mark.parametrize(
        ("name", "cycles"), [("lemeire-fig8", {1: 25, 2: 28}), ("lemeire-fig9", {4: 35, 10: 58})]
    )
    def test_profiles(self, name, cycles):
        rows = rows_of(name)
        for warps, expected in cycles.items():
            mine = [row for row in rows if row["occupancy"] == warps]
            assert len(mine) == 6 * warps
            assert max(row["end of Lambda"] for row in mine) == expected
            for row in mine:
                compute = row["pipeline"] == "compute"
                assert row["end of lambda"] - row["start"] == (1 if compute else 2)
                assert row["end of Lambda"] - row["start"] == (4 if compute else 6)

    def test_instruction_mix(self):
        for row in rows_of("lemeire-fig12"):
            for name in ("1 subsystem", "2 subsystems", "2 subsystems, issue limit"):
                assert 0.98 * row[name] < row[f"Pipeline: {name}"] <= row[name] * (1 + 1e-12)

    def test_barrier_kernel(self):
        rows = rows_of("lemeire-fig16")
        assert [(row["gpu"], row["occupancy [warps]"], row["group size [threads]"]) for row in rows] == sorted(
            (row["gpu"], row["occupancy [warps]"], row["group size [threads]"]) for row in rows
        )
        one = {row["gpu"]: row["instructions per cycle"] for row in rows if row["occupancy [warps]"] == 1}
        # One warp: Λ of the computation and of the barrier, one after the other.
        assert one == {"Fermi": pytest.approx(1 / (18 + 40)), "Pascal": pytest.approx(1 / (6 + 70))}
        assert {row["gpu"]: row["occupancy [warps]"] for row in rows} == {"Fermi": 48, "Pascal": 64}


def test_wfg_cases():
    cycles = {(row["case"][:6], row["model"], row["warps"]): row["cycles per run"] for row in rows_of("lemeire-fig6")}
    for case, at_two in zip(("case 1", "case 2", "case 3"), (16, 11.5, 23.5), strict=True):
        assert cycles[case, "WFG", 1] == pytest.approx(14, rel=1e-12)
        assert cycles[case, "WFG", 2] == pytest.approx(at_two, rel=1e-12)
        assert cycles[case, "WFG corrected", 2] == pytest.approx(14, rel=1e-12)
        assert cycles[case, "Volkov", 8] == pytest.approx(14, rel=1e-12)


def test_table6():
    rows = {row["device"]: row for row in rows_of("lemeire-table6")}
    assert rows["Pascal"]["throughput, ours [GB/s]"] == pytest.approx(160.64)
    for device in ("Fermi", "Maxwell", "Pascal"):
        row = rows[device]
        assert row["throughput, ours [GB/s]"] == pytest.approx(row["throughput, paper [GB/s]"], rel=0.005)
        assert row["efficiency, ours [%]"] == pytest.approx(row["efficiency, paper [%]"], abs=0.1)
    assert rows["Turing"]["throughput, ours [GB/s]"] == pytest.approx(
        rows["Turing"]["bandwidth, paper [GB/s]"], rel=1e-3
    )
    assert rows["Tonga"]["warp size"] == 64


def test_table7_explains_every_difference():
    differing = [row for row in rows_of("lemeire-table7") if row["same"] == "no"]
    assert {(row["model"], row["aspect"]) for row in differing} <= {(model, str(aspect)) for model, aspect in REASONS}
    assert "not explained" not in {row["why not"] for row in differing}
    assert all(len(letters) == len(TABLE7_MODELS) and set(letters) <= {"Y", "N"} for letters in TABLE7.values())
    assert set(TABLE7_MODELS.values()) <= set(MODELS)


class TestGpuMech:
    def test_first_interval(self):
        rows = {row["model"]: row for row in rows_of("gpumech-fig2")}
        assert rows["naive (G-1)"]["IPC, interval 1 alone"] == pytest.approx(3 / 11)
        assert rows["RR simulated"]["IPC, interval 1 alone"] == pytest.approx(3 / 11)

    @pytest.mark.parametrize(
        ("model", "cycles"),
        [("naive (G-1)", 25), ("RR as printed (G-11)", 26.2), ("RR corrected (Lemeire)", 31), ("GTO (G-16)", 25),
         ("RR simulated", 31), ("GTO simulated", 25)],
    )  # fmt: skip
    def test_both_intervals(self, model, cycles):
        rows = {row["model"]: row for row in rows_of("gpumech-fig2")}
        assert rows[model]["cycles of the representative warp"] == pytest.approx(cycles)
        assert rows[model]["IPC, both intervals"] == pytest.approx(15 / cycles)

    def test_non_overlapped_instructions(self):
        counts = {row["model"]: row["non-overlapped instructions"] for row in rows_of("gpumech-fig8")}
        assert counts == {
            "RR as printed (G-11)": pytest.approx(2),
            "RR corrected (Lemeire)": 6,
            "RR simulated": 6,
            "GTO (G-16)": 3,
            "GTO simulated": 3,
        }

    def test_queueing_delay(self):
        found = summary_of("gpumech-fig9")
        for quantity, values in found.items():
            if quantity.startswith(("exp_queuing_delay", "the same, counted in the simulation, all")):
                assert values[0] == 0.25 and values[1] == pytest.approx(0.25, rel=1e-12)
        assert found["MSHR_delay, Eq. (G-20) [cycles]"][1] == pytest.approx(30)
