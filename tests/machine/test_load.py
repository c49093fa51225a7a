"""Machine files, variants of them, and overrides: what loads, and what the errors say."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from warplens.errors import FileError, InputError, MachineError, OverrideError, UnknownNameError
from warplens.machine import find_parameter, load_gpu, parameters, split_override, with_overrides

MINIMAL = """\
sms = 2
clock_hz = 1e9
schedulers = 1
issue_width = 1
scheduler = "rr"
warp_size = 32
max_warps = 8
"""


@pytest.fixture
def write(tmp_path):
    """Writes a machine file (text or bytes) and gives its path."""

    def write(content, name="mine.toml"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


# -- files ---------------------------------------------------------------------------


def test_a_minimal_file_loads_and_its_numbers_are_unstated(write):
    gpu = load_gpu(write(MINIMAL))
    assert (gpu.name, gpu.description, gpu.sms, gpu.clock_hz) == ("mine", "", 2, 1e9)
    assert gpu.nominal_clock_hz == 1e9
    assert not gpu.overrides
    assert {source.kind for source in gpu.sources.values()} == {"unstated"}


def test_names_paths_and_windows_line_ends_are_fine(write):
    path = write('name = "other"\ndescription = "mine"\n'.replace("\n", "\r\n") + MINIMAL)
    assert load_gpu(path).name == load_gpu(str(path)).name == "other"


def test_values_may_carry_units_and_sources(write):
    gpu = load_gpu(
        write(
            MINIMAL.replace("clock_hz = 1e9", 'clock_hz = { value = "1.4GHz", source = "sheet" }')
            + '[l1]\nsize_bytes = "48KiB"\nstreaming = "true"\n'
            + '[sources.sheet]\nkind = "datasheet"\ntext = "page 1"\n'
        )
    )
    assert gpu.clock_hz == 1.4e9
    assert gpu.l1.size_bytes == 48 * 1024
    assert gpu.l1.streaming is True
    assert (gpu.sources["clock_hz"].kind, gpu.sources["clock_hz"].text) == ("datasheet", "page 1")


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(FileError, match=r"none\.toml: no such file"):
        load_gpu(tmp_path / "none.toml")


def test_a_folder_is_refused(tmp_path):
    with pytest.raises(FileError, match="is a folder"):
        load_gpu(tmp_path)


def test_a_huge_file_is_refused_unread(tmp_path):
    path = tmp_path / "huge.toml"
    with path.open("wb") as file:
        file.truncate(9 * 2**20)
    with pytest.raises(FileError, match="larger than 8 MiB"):
        load_gpu(path)


@pytest.mark.parametrize(
    ("name", "near"), [("mdm2021", "'mdm2020'"), ("gtx-1060", "'gtx1060'"), ("c2050", "'tesla-c2050'")]
)
def test_an_unknown_name_is_answered_with_the_nearest(name, near):
    with pytest.raises(UnknownNameError, match="did you mean") as caught:
        load_gpu(name)
    assert near in str(caught.value)


@pytest.mark.parametrize("name", ["", "zzzz"])
def test_a_name_like_no_other_is_answered_with_all(name):
    with pytest.raises(
        UnknownNameError, match=r"valid: 8800gt, .*, titan-rtx, v100 \(or give a .toml file; with base ="
    ):
        load_gpu(name)


@pytest.mark.parametrize(
    ("content", "place", "why"),
    [
        (MINIMAL + "x = = 3\n", ":8:5", "not valid TOML"),
        (MINIMAL + "sms = 3\n", ":8:", "not valid TOML"),  # given twice
        (MINIMAL.encode() + b"# \xff\n", ":8:", "not UTF-8"),
        (MINIMAL + "x = " + "[" * 3000, "", "not usable TOML|not valid TOML"),
        (MINIMAL + "max_blocks = 1" + "0" * 5000, "", "not usable TOML"),
    ],
)
def test_broken_files_are_located(write, content, place, why):
    path = write(content)
    with pytest.raises(FileError, match=why) as caught:
        load_gpu(path)
    assert f"{path}{place}" in str(caught.value)


@pytest.mark.parametrize(
    ("added", "line", "why"),
    [
        ("sm = 3", 8, "unknown key 'sm'; did you mean 'sms'"),
        ("[l2]\nsize_bytes = 3", 8, "unknown key 'l2'; did you mean 'l1'"),
        ("[l1]\nsizes_bytes = 3", 9, "unknown key 'l1.sizes_bytes'; did you mean 'l1.size_bytes'"),
        ("[l1]\nmshr = 3", 9, "unknown key 'l1.mshr'; did you mean 'l1.mshrs'"),
        (
            "[instructions.fp33]\nlatency_cycles = 3",
            8,
            "unknown key 'instructions.fp33'; instruction classes: comp,",
        ),
        ("[instructions.fp32]\nlatency = 3", 9, "unknown key 'instructions.fp32.latency'; did you mean"),
        ("l1 = 3", 8, "l1: must be a table"),
        ("[[l1]]\nmshrs = 3", 8, "l1: must be a table"),
        ("instructions = 3", 8, "instructions: must be a table"),
        ("[instructions]\nfp32 = 3", 9, "instructions.fp32: must be a table"),
        ("name = 3", 8, "name: must be text"),
        ("description = []", 8, "description: must be text"),
        ("base = 3", 8, "base: must be the name or path"),
        ("max_blocks = true", 8, "max_blocks: True is not a number"),
        ("max_blocks = [1]", 8, "max_blocks: .1. is not a number"),
        ("max_blocks = 1979-05-27", 8, "max_blocks: .* is not a number"),
        ("max_blocks = nan", 8, "max_blocks: nan is not a finite"),
        ("max_blocks = inf", 8, "max_blocks: inf is not a finite"),
        ("max_blocks = 0", 8, "max_blocks: 0 must be at least 1"),
        ("max_blocks = -4", 8, "max_blocks: -4 must be at least 1"),
        ("max_blocks = 2.5", 8, "max_blocks: 2.5 is not a whole number"),
        ("max_blocks = 1" + "0" * 400, 8, "max_blocks: .* is too large"),
        ('max_blocks = "eight"', 8, "max_blocks: 'eight' is not a plain number"),
        ('[dram]\nbandwidth_bytes_per_s = "480GB"', 9, "dram.bandwidth_bytes_per_s: .* expected .*480GB/s"),
        ('[l1]\nstreaming = "yes"', 9, "l1.streaming: 'yes' is not true or false"),
        ('[l1]\nwrite_policy = "around"', 9, "l1.write_policy: 'around' is not one of through, back"),
        (
            "max_blocks = { value = 8, sauce = 1 }",
            8,
            "max_blocks: must be a value, or a table of value and source",
        ),
        ('max_blocks = { source = "x" }', 8, "max_blocks: must be a value, or a table of value and source"),
        ("max_blocks = { value = { value = 8 } }", 8, "max_blocks: .* is not a number"),
        (
            'max_blocks = { value = 8, source = "x" }',
            8,
            "max_blocks: source 'x' is not declared under .sources",
        ),
        (
            "max_blocks = { value = 8, source = [1] }",
            8,
            "max_blocks: source .1. is not declared under .sources",
        ),
        ("sources = 3", 8, "sources: must be a table"),
        ("[sources]\nx = 3", 9, "sources.x: needs kind and text"),
        ('[sources.x]\nkind = "paper"', 8, "sources.x: needs kind and text"),
        ('[sources.x]\nkind = "paper"\ntext = ""\nleast = "6"', 8, "sources.x: least and most must be numbers"),
        ('[sources.x]\nkind = "paper"\ntext = ""\nmean = 6', 8, "sources.x: needs kind and text"),
        ('[sources.x]\nkind = "rumour"\ntext = ""', 8, "sources.x: kind must be one of datasheet, paper"),
        ("[l1]\nways = 3\nline_bytes = 128\nsize_bytes = 1000", 11, "l1.size_bytes: must be a multiple"),
        ("[llc]\nways = 3\nline_bytes = 128\nsize_bytes = 1000", 11, "llc.size_bytes: must be a multiple"),
        ("[l1]\nline_bytes = 128\nsector_bytes = 48", 10, "l1.sector_bytes: must divide l1.line_bytes"),
        ("[l1]\nsector_bytes = 32", 9, "l1.sector_bytes: needs l1.line_bytes"),
    ],
)
def test_mistakes_in_a_file_are_named_with_their_line(write, added, line, why):
    path = write(MINIMAL + added + "\n")
    with pytest.raises(MachineError, match=why) as caught:
        load_gpu(path)
    assert str(caught.value).startswith(f"{path}:{line}: ")


def test_missing_required_parameters_are_all_named(write):
    path = write("sms = 1\nclock_hz = 1e9\nscheduler = 'rr'\n")
    with pytest.raises(MachineError) as caught:
        load_gpu(path)
    assert str(caught.value) == (
        f"{path}: machine 'mine' lacks schedulers, issue_width, warp_size, max_warps; add them or name a base"
    )


# -- variants ------------------------------------------------------------------------


def test_a_variant_takes_everything_else_from_its_base(write):
    path = write(
        'base = "mdm2020"\nsms = { value = 56, source = "me" }\n'
        '[sources.me]\nkind = "assumed"\ntext = "twice as many"\n'
    )
    gpu, base = load_gpu(path), load_gpu("mdm2020")
    assert (gpu.name, gpu.description, gpu.sms) == ("mine", "", 56)
    assert gpu.sources["sms"].text == "twice as many"
    for parameter in parameters():
        if parameter != "sms" and (value := base.get(parameter)) is not None:
            assert gpu.get(parameter) == value
            assert gpu.sources[parameter] == dataclasses.replace(base.sources[parameter], machine="mdm2020")


def test_the_nominal_clock_of_a_variant_is_its_own(write):
    gpu = load_gpu(write('base = "mdm2020"\nclock_hz = 2.8e9\n'))
    assert gpu.nominal_clock_hz == 2.8e9
    assert gpu.dram_latency_cycles_now("mdm") == 220.0


def test_a_base_may_be_a_file_next_to_the_variant(write, tmp_path, monkeypatch):
    write(MINIMAL, "first.toml")
    write('base = "first.toml"\nsms = 3\n', "second.toml")
    path = write('base = "second.toml"\nmax_warps = 4\n', "third.toml")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")  # relative to the file, not to where the user stands
    gpu = load_gpu(path)
    assert (gpu.sms, gpu.max_warps, gpu.warp_size) == (3, 4, 32)


def test_machines_based_on_each_other_are_refused(write):
    one = write('base = "two.toml"\n', "one.toml")
    write('base = "one.toml"\n', "two.toml")
    with pytest.raises(MachineError, match=r"one\.toml:1: machines are based on each other in a circle"):
        load_gpu(one)
    itself = write('name = "x"\nbase = "itself.toml"\n', "itself.toml")
    with pytest.raises(MachineError, match=r"itself\.toml:2: .*circle"):
        load_gpu(itself)


def test_an_unknown_base_is_named_with_the_place(write):
    path = write('base = "mdm2021"\n')
    with pytest.raises(UnknownNameError) as caught:
        load_gpu(path)
    assert str(caught.value).startswith(f"{path}:1: base: no machine is named 'mdm2021'; did you mean 'mdm2020'")
    with pytest.raises(FileError, match=r"absent\.toml: no such file"):
        load_gpu(write('base = "absent.toml"\n'))


def test_a_variant_that_contradicts_its_base_is_refused(write):
    path = write('base = "mdm2020"\n[l1]\nways = 5\n')
    with pytest.raises(MachineError, match=r"mine\.toml:2: l1.size_bytes: must be a multiple"):
        load_gpu(path)


# -- overrides -----------------------------------------------------------------------


def test_overrides_change_one_number_and_its_source():
    base = load_gpu("mdm2020")
    gpu = with_overrides(base, {"l1.mshrs": "64"})
    assert gpu.l1.mshrs == 64
    assert base.l1.mshrs == 128
    assert gpu.sources["l1.mshrs"].kind == "override"
    assert dict(gpu.overrides) == {"l1.mshrs": 64}
    changed = [path for path in parameters() if gpu.get(path) != base.get(path)]
    assert changed == ["l1.mshrs"]
    assert {path for path in base.sources if gpu.sources[path] != base.sources[path]} == {"l1.mshrs"}


def test_overrides_add_up_and_the_last_one_counts():
    gpu = load_gpu("mdm2020", {"l1.mshrs": 64, "sms": 14})
    gpu = with_overrides(gpu, {"l1.mshrs": 256, "clock_hz": "2GHz"})
    assert dict(gpu.overrides) == {"l1.mshrs": 256, "sms": 14, "clock": 2e9}
    assert (gpu.l1.mshrs, gpu.sms, gpu.clock_hz, gpu.nominal_clock_hz) == (256, 14, 2e9, 1.4e9)


def test_no_overrides_change_nothing():
    gpu = load_gpu("mdm2020")
    assert with_overrides(gpu, {}) is gpu
    assert load_gpu("mdm2020", {}) == gpu == load_gpu("mdm2020")


def test_an_override_may_add_what_the_machine_lacks():
    assert load_gpu("mdm2020").noc.queue_entries is None
    assert load_gpu("mdm2020", {"noc.queue": 64}).noc.queue_entries == 64


@pytest.mark.parametrize(
    ("key", "value", "why"),
    [
        ("l1.mshrs", "0", "at least 1"),
        ("l1.mshrs", "-4", "at least 1"),
        ("l1.mshrs", "64.5", "whole number"),
        ("l1.mshrs", 64.5, "whole number"),
        ("l1.mshrs", "64KiB", "has the unit 'KiB'"),
        ("l1.mshrs", "many", "plain number"),
        ("l1.mshrs", True, "not a number"),
        ("l1.mshrs", None, "not a number"),
        ("l1.mshrs", float("nan"), "finite"),
        ("l1.mshrs", "1e400", "too large"),
        ("l1.size", "48GB/s", r"48KiB \(in size_bytes\)"),
        ("dram.bandwidth", "480GB", "480GB/s"),
        ("dram.bandwidth", "0", "above 0"),
        ("clock", "1.4", None),
        ("clock", "inf", "1.4GHz"),
        ("clock", "nan", "1.4GHz"),
        ("clock", float("inf"), "finite"),
        ("clock", -1e9, "above 0"),
        ("clock", 10**400, "too large"),
        ("dram.latency", "300 ns", "has the unit 'ns'"),
        ("scheduler", "GTO", "not one of rr, lrr, gto"),
        ("l1.streaming", "1", "true or false"),
    ],
)
def test_unusable_overrides_name_the_key(key, value, why):
    if why is None:  # a bare number is in the base unit
        assert load_gpu("mdm2020", {key: value}).get(find_parameter(key).path) == float(value)
        return
    with pytest.raises(OverrideError, match=why) as caught:
        load_gpu("mdm2020", {key: value})
    assert str(caught.value).startswith(f"{key}: ")


@pytest.mark.parametrize(
    ("key", "near"),
    [
        ("l1.mshr", "'l1.mshrs'"),
        ("l2.latency", "'llc.latency'"),
        ("dram.bandwith", "'dram.bandwidth'"),
        ("clok", "'clock'"),
        ("instructions.fp23.latency", "'instructions.fp32.latency'"),
        ("launch.warps", "'launch.warps_per_sm'"),
    ],
)
def test_a_mistyped_key_is_answered_with_the_nearest(key, near):
    with pytest.raises(OverrideError, match="unknown parameter") as caught:
        load_gpu("mdm2020", {key: 1})
    assert repr(key) in str(caught.value)
    assert near in str(caught.value)


@pytest.mark.parametrize("key", ["name", "description", "sources", "base", "overrides", "nominal_clock_hz", ""])
def test_what_is_no_parameter_cannot_be_overridden(key):
    with pytest.raises(OverrideError, match="unknown parameter"):
        load_gpu("mdm2020", {key: "1"})


@given(st.sampled_from(sorted(parameters())), st.one_of(st.text(max_size=12), st.floats(), st.integers()))
def test_any_override_gives_a_machine_or_an_input_error(path, value):
    try:
        gpu = load_gpu("mdm2020", {path: value})
    except InputError as error:
        assert str(error)
    else:
        assert gpu.sources[path].kind == "override"


def test_key_and_value_are_split_at_the_first_equals_sign():
    assert split_override("l1.mshrs=64") == ("l1.mshrs", "64")
    assert split_override(" clock = 1.4 GHz ") == ("clock", "1.4 GHz")
    assert split_override("a=b=c") == ("a", "b=c")


@pytest.mark.parametrize("text", ["", "l1.mshrs", "=64", "l1.mshrs=", " = "])
def test_what_is_no_key_and_value_is_refused(text):
    with pytest.raises(OverrideError, match="KEY=VALUE"):
        split_override(text)


# -- batches -------------------------------------------------------------------------


def test_an_array_makes_a_batch_whose_elements_are_the_single_machines():
    clocks = np.array([0.7e9, 1.4e9, 2.8e9])
    mshrs = np.array([32, 64, 128])
    batch = load_gpu("mdm2020", {"clock": clocks, "l1.mshrs": mshrs})
    for i in range(3):
        one = load_gpu("mdm2020", {"clock": clocks[i], "l1.mshrs": int(mshrs[i])})
        assert batch.l1.mshrs[i] == one.l1.mshrs
        assert batch.memory_latency_cycles_now("mdm")[i] == one.memory_latency_cycles_now("mdm")
        assert batch.service_cycles_now("noc", "mdm")[i] == one.service_cycles_now("noc", "mdm")
        assert batch.timing("mem").interval_cycles[i] == one.timing("mem").interval_cycles
    assert batch.sms == 28
    assert batch.sources["l1.mshrs"].kind == "override"


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ([32, 0], "at least 1"),
        ([32, 64.5], "whole number"),
        ([32, np.nan], "finite"),
        ([[32, 64]], "one-dimensional"),
        ([], "empty"),
    ],
)
def test_one_bad_element_spoils_a_batch(values, why):
    with pytest.raises(OverrideError, match=f"l1.mshrs: .*{why}"):
        load_gpu("mdm2020", {"l1.mshrs": np.array(values)})


def test_relations_hold_for_every_machine_of_a_batch():
    sizes = np.array([24, 48, 96]) * 1024
    assert load_gpu("mdm2020", {"l1.size": sizes}).l1.size_bytes.tolist() == sizes.tolist()
    with pytest.raises(MachineError, match=r"l1\.size_bytes"):
        load_gpu("mdm2020", {"l1.size": sizes + np.array([0, 0, 1])})
    paired = load_gpu("mdm2020", {"l1.size": sizes, "l1.ways": np.array([3, 6, 12])})
    assert paired.l1.ways.tolist() == [3, 6, 12]


def test_arrays_of_different_lengths_are_refused():
    with pytest.raises(OverrideError, match="same length"):
        load_gpu("mdm2020", {"l1.mshrs": np.array([32, 64]), "sms": np.array([1, 2, 3])})
