"""The command line: what it prints, and how it leaves. Errors are handled in `main`, so tests go through it."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

import warplens
from warplens import gpu_names
from warplens.cli import main
from warplens.models import MODELS, options_of
from warplens.sweeps import assumptions

from .printed import document

# -- the group ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("flag", ["--help", "-h"])
def test_help_names_every_command_with_its_purpose(good, flag):
    text = good(flag)
    for command in ("models", "gpus", "predict", "reproduce"):
        assert f"\n  {command} " in text
        assert good(command, "--help")
    assert "..." not in text.partition("Commands:")[2], "a purpose is cut; give the command a short_help"


def test_version(good):
    assert good("--version").strip().endswith(warplens.__version__)


def test_an_unknown_command_is_refused(usage):
    assert "No such command 'predct'" in usage("predct")


# -- models ------------------------------------------------------------------------------------------


def test_models_lists_all_with_paper_and_needs(good):
    text = good("models")
    for name, model in MODELS.items():
        line = next(line for line in text.splitlines() if line.split()[:1] == [name])
        assert model.paper.key in line
        assert model.needs in line


def test_models_of_a_name_explains_its_options(good):
    text = " ".join(good("models", "gpumech", "mdm").split())
    for name in ("gpumech", "mdm"):
        for option, described in options_of(MODELS[name]).items():
            assert f"--option {name}.{option}=" in text
            assert described["doc"] in text
    assert str(MODELS["mdm"].paper) in text


def test_models_json(good):
    found = document(good("models", "--json"))
    assert found["schema"] == 1
    assert [row["name"] for row in found["models"]] == list(MODELS)
    keys = "name title summary paper citation equations needs machine_needs aspects stack options"
    assert all(list(row) == keys.split() for row in found["models"])
    one = document(good("models", "mdm", "--json"))["models"]
    assert [row["name"] for row in one] == ["mdm"]


def test_models_of_a_mistyped_name(bad):
    assert "no model is named 'mdn'; did you mean 'mdm'" in bad("models", "mdn")


# -- gpus --------------------------------------------------------------------------------------------


def test_gpus_lists_all(good):
    names = [line.split()[0] for line in good("gpus").splitlines() if line.split()]
    assert set(gpu_names()) <= set(names)


def test_gpus_json(good):
    found = document(good("gpus", "--json"))
    assert [row["name"] for row in found["gpus"]] == gpu_names()


def test_a_gpu_with_the_source_of_every_number(good):
    text = good("gpus", "mdm2020")
    line = next(line for line in text.splitlines() if line.split()[:1] == ["l1.mshrs"])
    assert "128" in line
    assert "mdm-micro2020, Table III" in line


def test_a_gpu_as_json(good):
    found = document(good("gpus", "mdm2020", "--json"))
    rows = {row["key"]: row for row in found["parameters"]}
    assert rows["dram.bandwidth"]["value"] == 480e9
    assert rows["dram.bandwidth"]["path"] == "dram.bandwidth_bytes_per_s"
    assert rows["dram.bandwidth"]["unit"] == "bytes_per_s"
    assert all(set(row["source"]) == {"kind", "text", "machine", "least", "most"} for row in rows.values())


def test_a_value_that_a_machine_does_not_give_is_the_default(good):
    found = document(good("gpus", "mdm2020", "--json"))
    row = next(row for row in found["parameters"] if row["key"] == "noc.injection")
    assert (row["value"], row["source"]["kind"]) == (64, "default")
    assert not any(
        row["key"].startswith("l1.") for row in document(good("gpus", "lemeire-example", "--json"))["parameters"]
    )


def test_a_gpu_with_overrides(good):
    found = document(good("gpus", "mdm2020", "--set", "dram.bandwidth=1TB/s", "--json"))
    row = next(row for row in found["parameters"] if row["key"] == "dram.bandwidth")
    assert (row["value"], row["source"]["kind"]) == (1e12, "override")


def test_gpus_set_needs_a_name(usage):
    assert "--set needs the NAME" in usage("gpus", "--set", "sms=3")


def test_gpus_say_what_they_take_from_another(good):
    text = good("gpus", "a100-80gb")
    line = next(line for line in text.splitlines() if line.split()[:1] == ["llc.latency"])
    assert "measured, of a100-40gb" in line
    assert "values are assumed, or those of another machine" in text


def test_short_names_are_listed(good):
    assert "a100 = a100-40gb" in good("gpus")
    assert document(good("gpus", "--json"))["short_names"]["h100"] == "h100-sxm"


def test_gpus_accuracy(good, usage):
    text = good("gpus", "--accuracy")
    assert set(gpu_names()) <= set(text.replace(",", " ").split())
    table, unknown = text.split("not validated: ")
    assert "b200" in unknown and "h200" not in unknown and "suite" in table
    assert good("gpus", "b200", "--accuracy").strip() == "not validated: b200"
    found = document(good("gpus", "b200", "--accuracy", "--json"))
    assert found["accuracy"] == [{"gpu": "b200", "validated_on": []}]
    assert "--accuracy goes with no other option" in usage("gpus", "--accuracy", "--set", "sms=3")


def test_gpus_sensitivity(good, usage, monkeypatch):
    monkeypatch.setattr(assumptions, "KERNELS", ("vector_add",))
    monkeypatch.setattr(assumptions, "SIZE", "small")
    rows = {row["key"]: row for row in document(good("gpus", "a100", "--sensitivity", "--json"))["parameters"]}
    assert rows["clock"]["sensitivity"] is None  # of the data sheet
    moved = rows["launch_overhead"]["sensitivity"]
    assert 0.01 < moved["mean"] == moved["by_kernel"]["vector_add"] < 0.3
    assert rows["noc.sm_atomic"]["sensitivity"]["mean"] == 0.0  # it has no atomics
    assert "--sensitivity needs the NAME" in usage("gpus", "--sensitivity")


def test_gpus_of_a_mistyped_name(bad):
    assert "no machine is named 'mdm2021'; did you mean 'mdm2020'" in bad("gpus", "mdm2021")


def test_gpus_of_a_file(good, write):
    path = write('base = "mdm2020"\nname = "own [/x]"\ndescription = "[sic]"\nsms = 3\n', "own.toml")
    assert "own [/x]: [sic]" in good("gpus", path)


# -- the real process ----------------------------------------------------------------------------------------


def process(*arguments, **more):
    environment = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    return subprocess.run(
        [sys.executable, "-c", "from warplens.cli import main; main()", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=120,
        env=environment,
        check=False,
        **more,
    )


def test_a_process_that_succeeds():
    done = process("predict", "lemeire-example", "--model", "volkov", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    assert document(done.stdout)["predictions"][0]["terms"]["Lambda_app"] == 25


def test_a_process_that_is_refused(tmp_path):
    done = process("predict", tmp_path / "none.toml", "--json")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"error: {tmp_path / 'none.toml'}: no such file\n"


def test_a_reader_that_leaves_early_is_no_traceback():
    """`warplens gpus | head -1`"""
    command = f"'{sys.executable}' -c 'from warplens.cli import main; main()' gpus --json | head -c 10"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout == '{\n "schema'
    assert "Traceback" not in done.stderr
    assert "BrokenPipe" not in done.stderr


def test_the_entry_point_is_installed():
    from importlib.metadata import entry_points

    (found,) = entry_points(group="console_scripts", name="warplens")
    assert found.load() is main


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr("warplens.cli.progress.PATIENCE_SECONDS", -1.0)
    monkeypatch.setattr("warplens.cli.progress.LINE_EVERY_SECONDS", -1.0)


def test_time_left_is_told_once_the_speed_is_known(capsys, impatient):
    from warplens.cli.progress import waiting

    with waiting("working") as report:
        for done in (0, 250, 500, 1000):
            report(done, 1000)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "working: 0 %" and lines[1] == "working: 25 %" and lines[3] == "working: 100 %"
    assert re.fullmatch(r"working: 50 %, 0:00:0\d left", lines[2])


def test_a_terminal_gets_a_bar_with_the_time_left(capsys, monkeypatch, impatient):
    from warplens.cli.progress import waiting

    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    with waiting("working") as report:
        for done in (0, 250, 500):
            report(done, 1000, "[part]")
    told = capsys.readouterr().err
    assert "working [part]" in told and "50%" in told and "0:00:0" in told


def test_files_that_the_system_refuses_are_named_before_the_work(warplens_command, tmp_path):
    folder = tmp_path / "file"
    folder.write_text("not a folder")
    for command in (("report", "mdm-baseline", "-o"), ("predict", "mdm-baseline", "--plot")):
        code, out, err = warplens_command(*command, folder / "page.html")
        assert (code, out) == (2, "") and err.startswith("error: ") and "page.html: cannot be written (" in err
        assert "Errno" not in err


def test_what_a_command_does_not_expect_of_the_system_is_an_error_without_a_traceback(warplens_command, monkeypatch):
    def refuse(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device", "somewhere")

    monkeypatch.setattr("warplens.api.load_workloads", refuse)
    assert warplens_command("predict", "mdm-baseline") == (2, "", "error: somewhere: No space left on device\n")
