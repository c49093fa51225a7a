"""Views of sweeps show what the questions answer."""

import numpy as np
import pytest

from warplens import report, sweep
from warplens.reports.figures import Tornado, front, heat_maps
from warplens.sweeps import heat_map, pareto_front, sensitivity

from .checks import check_view


@pytest.fixture(scope="module")
def table():
    space = {"l1.mshrs": [32, 64, 128], "dram.bandwidth": ["240GB/s", "480GB/s"]}
    return sweep("mdm-baseline", None, space, models=["mdm", "gpumech"]).table


def test_heat_maps(table, tmp_path):
    view = heat_maps(table, "l1.mshrs", "dram.bandwidth", "mdm-baseline", ["mdm", "gpumech"])
    figure = check_view(view, tmp_path)
    own = heat_map(table, "l1.mshrs", "dram.bandwidth", "mdm-baseline", "mdm")
    np.testing.assert_array_equal(figure["data"][0]["z"], own.values)
    assert figure["data"][0]["y"] == ["240 GB/s", "480 GB/s"]
    assert "gpumech: most at l1.mshrs = 128, dram.bandwidth = 480 GB/s" in view.summary


def test_a_heat_map_says_what_it_averages(table, tmp_path):
    assert "mean" not in heat_maps(table, "l1.mshrs", "dram.bandwidth", "mdm-baseline", ["mdm"]).summary
    space = {"sms": [14, 28], "l1.mshrs": [32, 64], "dram.bandwidth": ["240GB/s", "480GB/s"]}
    more = sweep("mdm-baseline", None, space, models=["mdm"], output=tmp_path / "space.parquet").table
    view = heat_maps(more, "sms", "l1.mshrs", "mdm-baseline", ["mdm"])
    assert "IPC of mdm-baseline over sms and l1.mshrs, the mean over all other parameters; mdm: most" in view.summary
    page = report(tmp_path / "space.parquet", tmp_path / "space.html") and (tmp_path / "space.html").read_text()
    assert "<li>mdm-baseline is fastest at sms = 28" in page  # a name stays as it is


def test_fronts(table, tmp_path):
    view = front(table, ["l1.mshrs", "dram.bandwidth"], "mdm")
    check_view(view, tmp_path)
    assert len(view.speed) == 6
    assert view.front_speed == tuple(
        pareto_front(table, ["l1.mshrs", "dram.bandwidth"], "mdm")["performance"].to_pylist()
    )


def test_tornado(tmp_path):
    found = sensitivity("mdm-baseline", keys=["l1.mshrs", "dram.bandwidth", "dram.latency"])
    view = Tornado("mdm-baseline", tuple(found))
    check_view(view, tmp_path)
    assert all(f"{each.key} gives {Tornado.best(each):.2f}×" in view.summary for each in found)
