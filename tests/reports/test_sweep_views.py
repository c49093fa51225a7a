"""Views of sweeps show what the questions answer."""

import numpy as np
import pytest

from warplens import sweep
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
