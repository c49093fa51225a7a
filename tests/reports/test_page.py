"""The page: one text that needs nothing else, says everything, and lets nothing of an input become markup."""

import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest

import warplens
from warplens.errors import InputError, UnknownNameError
from warplens.reports.build import VIEWS, make_report
from warplens.reports.page import embedded_json, plotly_script

EVIL = "<script>window.hacked = 1</script><img src=x onerror='window.hacked=1'>\"'&"


class Elements(HTMLParser):
    """Tags with their attributes, and the text outside of scripts and styles."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.words, self._inside = [], [], ""
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        self._inside = tag

    def handle_endtag(self, tag):
        self._inside = ""

    def handle_data(self, data):
        if self._inside not in ("script", "style"):
            self.words.append(data)


@pytest.fixture(scope="module")
def evil_report():
    """A kernel whose name, description and source try to leave their places."""
    code = f'extern "C" __global__ void scale(float* x) {{ x[threadIdx.x] *= 2; }} // {EVIL} </script>'
    run = warplens.cuda(code).kernel("scale").launch(4, 64, np.ones(64, dtype=np.float32))
    workload = replace(load_workloads_of(run.trace()), name=EVIL, description=EVIL)
    return make_report([workload], gpus=["mdm2020", "accelsim-mdm"], simulate=True)


def load_workloads_of(trace):
    from warplens.workload import workload_of_trace

    return workload_of_trace(trace)


def test_nothing_of_an_input_becomes_markup(evil_report):
    html = evil_report.html()
    found = Elements(html)
    assert "window.hacked" in "".join(found.words)  # shown as text
    assert not [tag for tag, _ in found.tags if tag in ("img", "iframe", "object", "link")]
    assert len([tag for tag, _ in found.tags if tag == "script"]) == 3  # plotly.js, the figures, the page's own
    assert not [name for _, attributes in found.tags for name in attributes if name.startswith("on")]
    figures = re.search(r'id="figures">(.*?)</script>', html, re.S)[1]
    assert "<" not in figures and json.loads(figures)


def test_the_page_needs_nothing_else(evil_report):
    html = evil_report.html()
    for tag, attributes in Elements(html).tags:
        for name in ("src", "href", "action", "data", "srcset"):
            assert not attributes.get(name) or attributes[name].startswith("#"), (tag, attributes)
    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', html)[1]
    assert policy.startswith("default-src 'none'") and "http" not in policy
    assert html.count(plotly_script()[:200]) == 1


def test_every_figure_has_words_and_a_table(evil_report):
    found = Elements(evil_report.html())
    plots = [attributes for tag, attributes in found.tags if attributes.get("class") == "plot"]
    assert len(plots) == len(evil_report.views())
    assert all(each["role"] == "img" and len(each["aria-label"]) > 20 for each in plots)
    assert sum(tag == "figcaption" for tag, _ in found.tags) == len(plots)
    assert sum(tag == "details" for tag, _ in found.tags) >= len(plots)


def test_links_lead_somewhere(evil_report):
    found = Elements(evil_report.html())
    places = [attributes["id"] for _, attributes in found.tags if "id" in attributes]
    assert len(places) == len(set(places))
    links = [attributes["href"].removeprefix("#") for tag, attributes in found.tags if tag == "a"]
    assert links and set(links) <= set(places)


def test_a_section_has_all_views_of_a_traced_kernel(evil_report):
    first, second = evil_report.sections
    assert (first.gpu, second.gpu) == ("mdm2020", "accelsim-mdm")
    for section in (first, second):
        names = {view.name for view in section.views}
        assert names == set(VIEWS) - {"heat-map", "curve", "pareto"}
        assert not section.absent


def test_what_cannot_be_shown_says_why():
    (section,) = make_report("mdm-baseline").sections
    assert {"memory", "source", "timeline", "transit"} <= set(section.absent)
    assert "needs a trace or a CUDA source" in section.absent["source"]
    html = make_report("mdm-baseline").html()
    assert "Not shown: source:" in html and "Not run: pipeline:" in html


def test_a_simulation_of_less_than_a_wave_is_no_reference(half_of_spmv):
    """32 of the 64 thread blocks of spmv are recorded, and all 64 would run at once."""
    asked = {"gpus": ["mdm2020"], "models": ["mdm"], "simulate": True, "wanted": ["stacks", "simulation"]}
    (section,) = make_report(half_of_spmv, **asked).sections
    assert not section.references and not section.views[0].groups[0].lines
    reason = section.absent["simulation, CPI of"]
    assert reason.startswith("32 of 64 thread blocks are recorded and simulated, fewer than the 64")
    (whole,) = make_report("saxpy", **asked).sections
    assert [each.label for each in whole.references] == ["simulated"]
    assert whole.views[0].groups[0].bars[-1].model == "simulated"


def test_only_what_is_wanted():
    report = make_report("mdm-baseline", wanted=["stacks", "roofline"])
    assert [view.name for view in report.views()] == ["roofline", "stacks"]
    with pytest.raises(UnknownNameError, match="no view is named 'stack'"):
        make_report("mdm-baseline", wanted=["stack"])


def test_longer_applications_show_their_longest_launches():
    def ten(workloads):
        changed = [workloads[0].with_overrides({"launch.warps_per_sm": 4 + n}) for n in range(10)]
        return [replace(each, name=f"k{number}") for number, each in enumerate(changed)]

    report = warplens.report("mdm-baseline", models=["gpumech", "mdm"], wanted=["stacks"], choose=ten)
    times = {p.kernel: p.seconds for p in report.overview if p.model == "mdm" and p.kernel != "all launches"}
    assert len(times) == 10
    longest = sorted(times, key=lambda name: -times[name])[:8]
    assert {section.kernel for section in report.sections} == set(longest)
    assert report.notes == (
        "10 launches, of which the 8 longest have a section; choose others with --kernel or --launch",
    )
    assert "All launches together" in report.html()


def test_a_sweep_is_a_section(tmp_path):
    path = tmp_path / "space.parquet"
    warplens.sweep(
        "mdm-baseline", None, {"l1.mshrs": [32, 64], "sms": [14, 28]}, models=["mdm", "gpumech"], output=path
    )
    report = warplens.report(path, tmp_path / "out.html")
    (section,) = report.sweeps
    assert [view.name for view in section.views] == ["heat-map", "pareto", "pareto"]
    assert section.headline[0] == "4 configurations of mdm-baseline, over sms, l1.mshrs"
    assert "Do the models agree on designs?" in (tmp_path / "out.html").read_text()
    with pytest.raises(InputError, match="cannot be written"):
        report.save(tmp_path)


def test_progress_reaches_its_end():
    seen = []
    make_report("mdm-baseline", gpus=["mdm2020", "mdm2019"], progress=lambda done, total: seen.append((done, total)))
    assert seen == sorted(seen) and all(total == 1 for _, total in seen)
    assert 0.9 < seen[-1][0] <= 1


def test_json_in_a_script_cannot_end_it():
    assert "<" not in embedded_json({"a": "</script><!--"})
    assert json.loads(embedded_json({"a": "</script><!--"})) == {"a": "</script><!--"}
