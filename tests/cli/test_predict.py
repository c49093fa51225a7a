"""`warplens predict`: tables, JSON, options, refusals and pictures."""

from __future__ import annotations

import sys
from dataclasses import replace

import pytest

import warplens
from reference.traces import Step, memory_trace
from warplens.errors import install_command
from warplens.models import MODELS
from warplens.traces import StaticInstruction, TraceWriter

from .printed import WORKLOAD, document, rows

# -- predict: tables -----------------------------------------------------------------------------------


def test_predict_shows_all_models_that_can_run_and_why_others_cannot(good):
    text = good("predict", "mdm-baseline", "--models", "all")
    assert text == good("predict", "mdm-baseline", "--model", "all")
    shown, lines = rows(text), text.splitlines()
    for name, model in MODELS.items():
        assert (name in shown) == (model.needs == "interval_profile"), name
    assert "36\N{THIN SPACE}639" in shown["mdm"]
    assert "MSHR 93.7 %" in lines[lines.index(shown["mdm"]) + 1]
    unwrapped = " ".join(text.split())
    left = "roofline, instruction-roofline, zhang-owens, volkov, transit, mwp-cwp, mwp-cwp-corrected"
    assert f"not run: {left}" in unwrapped
    assert "needs an instruction mix, or a dependence graph" in unwrapped
    assert max(map(len, lines)) <= 80


def test_launches_of_a_kernel_have_their_numbers(good, tmp_path):
    kernel = [StaticInstruction(0, "IADD3", "int32"), StaticInstruction(16, "EXIT", "control")]
    one = memory_trace(kernel, [[[Step(0), Step(1)]]])
    with TraceWriter(tmp_path / "app.wlt") as writer:
        for index, name in ((0, "a"), (4, "a"), (5, f"b{'x' * 3000}end")):
            for group in one.groups():
                writer.write(group)
            names = {"readable_name": f"space::{name}(int)"}
            writer.end_launch(replace(one.header, kernel=name, launch_index=index, extra=names), one.static)
    text = good("predict", tmp_path / "app.wlt", "--gpu", "mdm2020", "--models", "all")
    lines = text.splitlines()
    launches = [line.split()[1] for line in lines if line.split()[:1] == ["mdm"]]
    assert launches[:2] == ["0", "4"] and sum(line.split()[:2] == ["model", "launch"] for line in lines) == 1
    assert any(line.startswith("space::bxxx") and "…xx" in line and "end on mdm2020" in line for line in lines)
    assert sum("a: misses" in line for line in lines) == 1
    chosen = good("predict", tmp_path / "app.wlt", "--gpu", "mdm2020", "--model", "mdm", "--kernel", "space::a")
    assert "a on mdm2020" in chosen and "bxxx" not in chosen
    told = " ".join(text.split()).split("not run: ")
    assert sum(part.startswith("crisp") and "which 2 workloads do not give" in part for part in told) == 1
    assert max(map(len, lines)) <= 80


def test_many_launches_of_a_kernel_are_shown_as_one(good, tmp_path):
    kernel = [StaticInstruction(0, "IADD3", "int32"), StaticInstruction(16, "EXIT", "control")]
    with TraceWriter(tmp_path / "app.wlt") as writer:
        for index in range(18):
            one = memory_trace(kernel, [[[Step(0), Step(1)]]] * (index + 1), kernel="a", launch_index=index)
            for group in one.groups():
                writer.write(group)
            writer.end_launch(one.header, one.static)
    text = good("predict", tmp_path / "app.wlt", "--gpu", "mdm2020", "--model", "mdm", "--model", "roofline")
    assert "18 launches of a on mdm2020" in text and "… and 2 more; select launches" in text
    mdm = [line.split()[1] for line in text.splitlines() if line.split()[:1] == ["mdm"]]
    assert len(mdm) == 2 and mdm[0] == mdm[1]  # all launches are those of the kernel


def test_predict_numbers_its_warnings(good):
    text = good("predict", "mdm-baseline", "--model", "gpumech")
    assert rows(text)["gpumech"].endswith("  [1]")
    assert "\n[1] DRAM demand exceeds its bandwidth" in text


def test_predict_shows_overrides_in_the_title(good):
    text = good(
        "predict", "mdm-baseline", "--model", "mdm", "--set", "l1.mshrs=256", "--set", "launch.warps_per_sm=32"
    )
    assert "mdm-baseline on mdm2020 with l1.mshrs = 256, launch.warps_per_sm = 32" in text


def test_predict_of_several_inputs_and_gpus(good):
    chosen = ("--gpu", "mdm2020", "--gpu", "mdm2019", "--model", "gpumech", "--set", "launch.warps_per_sm=8")
    text = good("predict", "mdm-baseline", "gpumech-fig9", *chosen)
    for title in (
        "mdm-baseline on mdm2020",
        "mdm-baseline on mdm2019",
        "gpumech-fig9 on mdm2020",
        "gpumech-fig9 on mdm2019",
    ):
        assert title in text


def test_names_with_brackets_are_shown_as_they_are(good, write):
    """Tables are drawn with markup; a kernel called k[0] or [/] must not be taken for it."""
    path = write(WORKLOAD.replace('"mine"', '"k[0] [/] [bold]"'))
    assert "k[0] [/] [bold] on mdm2020" in good("predict", path, "--model", "mdm")


# -- predict: JSON ---------------------------------------------------------------------------------------


def test_predict_json_is_the_documented_schema(good):
    found = document(good("predict", "mdm-baseline", "--model", "mdm", "--model", "naive-interval", "--json"))
    assert list(found) == ["schema", "version", "predictions", "answers", "skipped", "inputs"]
    assert found["answers"] == []  # models side by side
    assert (found["schema"], found["version"], found["skipped"]) == (1, warplens.__version__, [])
    mdm, naive = found["predictions"]
    types = {
        "kernel": str, "launch": int, "gpu": str, "overrides": dict, "model": str, "cycles": float, "seconds": float,
        "ipc": float, "cpi": float, "stack": dict, "terms": dict, "clock_hz": float, "clock": str,
        "warnings": list,
    }  # fmt: skip
    assert {key: type(value) for key, value in mdm.items()} == types
    assert list(mdm) == list(types) == list(naive)
    assert list(mdm["stack"]) == ["BASE", "DEP", "L1", "L2", "DRAM", "MSHR", "NOC", "QUEUE"]
    assert sum(mdm["stack"].values()) == pytest.approx(mdm["cpi"], rel=1e-15)
    assert naive["stack"] is None
    assert (mdm["kernel"], mdm["launch"], mdm["gpu"], mdm["overrides"]) == ("mdm-baseline", 0, "mdm2020", {})
    assert (mdm["terms"]["W"], mdm["terms"]["M"]) == (64, 128)


def test_predict_json_equals_python(good):
    found = document(good("predict", "mdm-baseline", "--json", "--set", "l1.mshrs=64", "--model", "mdm"))
    assert found["predictions"] == [
        warplens.predict("mdm-baseline", model="mdm", overrides={"l1.mshrs": 64}).to_dict()
    ]


def test_predict_json_lists_skipped_models_with_reasons(good):
    found = document(good("predict", "wfg-case1", "--json", "--model", "all"))
    assert {p["model"] for p in found["predictions"]} == {"wfg", "wfg-corrected"}
    skipped = {item["model"]: item for item in found["skipped"]}
    assert set(skipped) == set(MODELS) - {"wfg", "wfg-corrected"}
    assert set(skipped["mdm"]) == {"kernel", "gpu", "model", "reason"}
    assert "needs an interval profile" in skipped["mdm"]["reason"]


def test_predict_json_has_warnings_on_stderr_too(warplens_command):
    code, out, err = warplens_command("predict", "mdm-baseline", "--model", "gpumech", "--json")
    warnings = document(out)["predictions"][0]["warnings"]
    assert code == 0
    assert len(warnings) == 1
    assert f"warning: {warnings[0]}" in err


def test_infinite_terms_are_null_in_json(good):
    """MWP_peak_BW of a machine that gives λ of memory has no limit."""
    found = document(good("predict", "lemeire-example", "--model", "mwp-cwp", "--json"))
    assert found["predictions"][0]["terms"]["MWP_peak_BW"] is None


def test_predict_json_of_several_is_in_the_order_asked_for(good):
    chosen = ("--gpu", "mdm2019", "--gpu", "mdm2020", "--model", "mdm", "--model", "gpumech")
    found = document(good("predict", "mdm-baseline", *chosen, "--json"))
    order = [(p["gpu"], p["model"]) for p in found["predictions"]]
    assert order == [("mdm2019", "mdm"), ("mdm2019", "gpumech"), ("mdm2020", "mdm"), ("mdm2020", "gpumech")]


# -- predict: options and overrides ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "key", "value"),
    [
        ("dram.bandwidth=240GB/s", "dram.bandwidth", 240e9),
        ("noc.bandwidth=1TB/s", "noc.bandwidth", 1e12),
        ("clock=1.4GHz", "clock", 1.4e9),
        ("l1.size=96KiB", "l1.size", 98304),
        ("llc.latency=100 cycles", "llc.latency", 100),
        ("l1.mshrs_=64", None, None),
        ("l1.mshrs = 64", "l1.mshrs", 64),
        ("dram.bandwidth_bytes_per_s=1e11", "dram.bandwidth", 1e11),
        ("scheduler=rr", "scheduler", "rr"),
        ("l1.streaming=false", "l1.streaming", False),
        ("launch.warps_per_sm=32", "launch.warps_per_sm", 32),
    ],
)
def test_set_takes_units_and_full_paths(warplens_command, text, key, value):
    code, out, err = warplens_command("predict", "mdm-baseline", "--model", "mdm", "--json", "--set", text)
    if key is None:
        assert code == 2
        assert "did you mean 'l1.mshrs'" in err
        return
    assert code == 0
    assert document(out)["predictions"][0]["overrides"] == {key: value}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("l1.mshr=64", "unknown parameter 'l1.mshr'; did you mean 'l1.mshrs'"),
        ("launch.warps=64", "unknown parameter 'launch.warps'; did you mean 'launch.warps_per_sm'"),
        ("bandwidth=3", "unknown parameter 'bandwidth'; did you mean"),
        ("l1.mshrs", "--set 'l1.mshrs': write KEY=VALUE, for example l1.mshrs=64"),
        ("=3", "write KEY=VALUE"),
        ("l1.mshrs=", "write KEY=VALUE"),
        ("l1.mshrs=-1", "l1.mshrs: -1.0 must be at least 1"),
        ("l1.mshrs=1.5", "l1.mshrs: 1.5 is not a whole number"),
        ("l1.mshrs=nan", "l1.mshrs: 'nan' is not a plain number"),
        ("l1.mshrs=64KiB", "l1.mshrs: '64KiB' has the unit 'KiB'; expected a plain number"),
        ("dram.bandwidth=480GHz", "dram.bandwidth: '480GHz' has the unit 'GHz'; expected a number such as 480GB/s"),
        ("dram.bandwidth=480GB", "has the unit 'GB'; expected a number such as 480GB/s"),
        ("clock=1.4GiHz", "has the unit 'GiHz'"),
        ("clock=0", "clock: 0.0 must be above 0"),
        ("dram.latency=1e30", "dram.latency: '1e30' is too large"),
        ("scheduler=fifo", "scheduler: 'fifo' is not one of rr, lrr, gto"),
        ("l1.streaming=yes", "l1.streaming: 'yes' is not true or false"),
        ("launch.warps_per_sm=0", "launch.warps_per_sm: 0.0 must be a finite number above 0"),
        ("launch.warps_per_sm=65", "65 resident warps exceed the 64 of 'mdm2020'"),
        ("l1.ways=7", "must be a multiple of ways × line_bytes, 896; 49152 is not, 48384 or 49280 is"),
    ],
)
def test_a_bad_override_is_refused(bad, text, why):
    assert why in bad("predict", "mdm-baseline", "--model", "mdm", "--set", text)


def test_options_reach_the_model(good):
    found = document(
        good("predict", "gpumech-fig8", "--model", "gpumech-mt", "--option", "gpumech-mt.policy=gto", "--option",
             "gpumech-mt.clamp=false", "--json")
    )  # fmt: skip
    assert found["predictions"][0]["terms"]["nonoverlapped_insts"] == 3
    everyone = ("--models", "all", "--option", "gpumech-mt.policy=gto")
    all_models = document(good("predict", "gpumech-fig8", *everyone, "--json"))
    changed = next(p for p in all_models["predictions"] if p["model"] == "gpumech-mt")
    assert changed["terms"]["nonoverlapped_insts"] == 3


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("gpumech.polcy=rr", "model 'gpumech' has no option 'polcy'; did you mean 'policy'"),
        ("gpumech.policy=fifo", "option gpumech.policy: 'fifo' is not one of auto, rr, gto"),
        ("gpumech.clamp=maybe", "option gpumech.clamp: 'maybe' is not true or false"),
        ("gpumech.min_gap=-3", "option gpumech.min_gap: -3.0 is not a number of at least 0"),
        ("gpumec.policy=rr", "no model is named 'gpumec'; did you mean 'gpumech'"),
        ("mdm.clamp=true", "options are given for mdm, which is not among the models to run"),
    ],
)
def test_a_bad_option_is_refused(bad, text, why):
    assert why in bad("predict", "gpumech-fig8", "--model", "gpumech", "--option", text)


def test_options_reach_the_answer_and_only_those_of_the_model_that_gives_it(good, bad):
    lighter = ("--option", "warplens.without=network", "--json")
    found = document(good("predict", "mdm-baseline", *lighter))
    assert found["answers"][0]["seconds"] == found["predictions"][0]["seconds"]
    assert (
        found["answers"][0]["seconds"] != document(good("predict", "mdm-baseline", "--json"))["answers"][0]["seconds"]
    )
    assert "options are given for gpumech-mt" in bad("predict", "gpumech-fig8", "--option", "gpumech-mt.policy=gto")
    assert "no model is named 'warplen'" in bad("predict", "gpumech-fig8", "--option", "warplen.policy=gto")


@pytest.mark.parametrize("text", ["policy=rr", "gpumech.policy", "gpumech.=rr", ".policy=rr", "gpumech.policy="])
def test_a_misshapen_option_is_bad_usage(usage, text):
    assert "write MODEL.KEY=VALUE" in usage("predict", "gpumech-fig8", "--option", text)


def test_kernel_picks_by_name(good):
    found = document(
        good("predict", "wfg-case1", "wfg-case2", "wfg-case3", "--kernel", "case[23]$", "--model", "wfg", "--json")
    )
    assert [p["kernel"] for p in found["predictions"]] == ["wfg-case2", "wfg-case3"]


def test_launch_picks_by_number(good, usage):
    assert document(good("predict", "wfg-case1", "--launch", "0,3-5", "--model", "wfg", "--json"))["predictions"]
    assert "match no kernel" in usage("predict", "wfg-case1", "--launch", "1-4", "--model", "wfg")


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("--kernel", "nothing"), "match no kernel"),
        (("--kernel", "("), "is not a regular expression"),
        (("--launch", "x"), "write numbers and ranges"),
        (("--launch", "3-1"), "is not a range"),
        (("--launch", "0-99999999999"), "is not a range"),
        (("--bogus",), "No such option"),
    ],
)
def test_bad_usage_of_predict(usage, arguments, why):
    assert why in usage("predict", "mdm-baseline", *arguments)


def test_predict_needs_an_input(usage):
    assert "Missing argument 'INPUT...'" in usage("predict")


# -- predict: what cannot be done ----------------------------------------------------------------------------


def test_a_named_but_impossible_model_is_refused_though_others_could_run(bad):
    text = bad("predict", "mdm-baseline", "--model", "mdm", "--model", "volkov")
    assert "model 'volkov' needs an instruction mix" in text
    assert "add a [instruction_mix] table" in text


def test_an_unknown_model(bad):
    assert "no model is named 'mdn'; did you mean 'mdm'" in bad("predict", "mdm-baseline", "--model", "mdn")


def test_an_unknown_machine(bad):
    assert "no machine is named 'mdm2021'; did you mean 'mdm2020'" in bad(
        "predict", "mdm-baseline", "--gpu", "mdm2021"
    )


def test_an_unknown_input(bad):
    assert "did you mean 'mdm-baseline'" in bad("predict", "mdm-baselin")


def test_no_machine_named(bad, write):
    path = write("[instruction_mix]\ncomp = 3\n")
    assert f"{path}: names no machine; choose one with --gpu NAME" in bad("predict", path)


def test_an_input_that_no_model_can_use(bad, write):
    machine = '[machine]\nname = "lemeire-example"\nset = { max_warps = 1 }\n'
    path = write("[instruction_mix]\nload_global = 3\n" + machine + "[launch]\nwarps_per_sm = 2\n")
    assert "no model can use this input" in bad("predict", path)


@pytest.mark.parametrize(
    ("content", "place", "why"),
    [
        (WORKLOAD + "stalls = 3\n", ":13: ", "interval_profile.intervals[0].stalls"),
        (
            WORKLOAD.replace("340", "-340"),
            ":11: ",
            "interval_profile.intervals[0].stall_cycles: -340 must be at least 0",
        ),
        (WORKLOAD.replace("340", "nan"), ":11: ", "interval_profile.intervals[0].stall_cycles: nan must be"),
        (WORKLOAD.replace("340", '"340 cycles"'), ":11: ", "stall_cycles: '340 cycles' is not a number"),
        (WORKLOAD.replace("= 8", "= 0"), ":7: ", "launch.warps_per_sm: 0 must be above 0"),
        (WORKLOAD.replace("340", "1e300"), ":11: ", "stall_cycles: 1e+300 must be at least 0 and at most 1e+18"),
        (WORKLOAD + "broken", ":13:", "not valid TOML"),
        (WORKLOAD.encode() + b"# \xff", ":13: ", "not UTF-8"),
        (
            '[[dependence_graph]]\nid = "a"\nclass = "comp"\ndepends = ["a"]\n',
            ":4: ",
            "dependence_graph[0].depends: the dependences form a cycle: a → a",
        ),
        ("", ": ", "says nothing about the kernel"),
    ],
)
def test_bad_input_gives_file_place_and_key(bad, write, content, place, why):
    path = write(content)
    text = bad("predict", path)
    assert f"error: {path}{place}" in text
    assert why in text


def test_a_missing_file(bad, tmp_path):
    assert "none.toml: no such file" in bad("predict", tmp_path / "none.toml")
    assert "none.toml: no such file" in bad("predict", "mdm-baseline", "--gpu", tmp_path / "none.toml")


def test_a_folder(bad, tmp_path):
    assert "is a folder" in bad("predict", tmp_path)


def test_a_bad_machine_file_is_located(bad, write):
    path = write('base = "mdm2020"\n[l1]\nmshrs = -1\n', "own.toml")
    assert f"{path}:3: l1.mshrs: -1 must be at least 1" in bad("predict", "mdm-baseline", "--gpu", path)


# -- predict: pictures -----------------------------------------------------------------------------------------


def test_plot_writes_a_picture_and_says_where(good, tmp_path):
    path = tmp_path / "new" / "picture.png"
    text = good("predict", "mdm-baseline", "--model", "mdm", "--plot", path)
    assert path.read_bytes().startswith(b"\x89PNG\r\n")
    assert f"picture: {path}" in text.replace("\n", "")


def test_plot_beside_json_leaves_stdout_alone(good, tmp_path):
    path = tmp_path / "picture.svg"
    document(good("predict", "mdm-baseline", "--model", "mdm", "--json", "--plot", path))
    assert b"<svg" in path.read_bytes()


def test_a_picture_of_an_unknown_format_is_refused(bad, tmp_path):
    assert "picture.gif: pictures end in .png, .svg, .pdf" in bad(
        "predict", "mdm-baseline", "--plot", tmp_path / "picture.gif"
    )


def test_a_picture_that_cannot_be_written_is_refused(bad, write):
    path = write("", "file")
    assert "cannot be written" in bad("predict", "mdm-baseline", "--model", "mdm", "--plot", path / "picture.png")


def test_a_missing_package_is_a_failure_with_its_remedy(warplens_command, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    code, out, err = warplens_command("predict", "mdm-baseline", "--model", "mdm", "--plot", tmp_path / "picture.png")
    assert (code, out) == (1, "")
    assert err == f"error: pictures need matplotlib; install it with: {install_command('plots')}\n"


def test_an_interrupted_command_says_so_and_exits_130(warplens_command, monkeypatch):
    def interrupt(*arguments, **more):
        raise KeyboardInterrupt

    monkeypatch.setattr("warplens.api.load_workloads", interrupt)
    code, out, err = warplens_command("predict", "mdm-baseline")
    assert (code, out, err.strip()) == (130, "", "interrupted")
