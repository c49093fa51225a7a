"""Workload files: the bundled ones, what a valid file gives, and what the errors of bad ones say."""

from __future__ import annotations

import re

import numpy as np
import pytest

from warplens import example_names, load_workload, predict
from warplens.errors import FileError, InputError, WorkloadError
from warplens.models import MODELS
from warplens.workload import Launch, Workload

HEAD = """\
name = "mine"

[machine]
name = "lemeire-example"

[launch]
warps_per_sm = 4

"""
MIX = HEAD + "[instruction_mix]\ncomp = 4\nmem = 2\n"
GRAPH = (
    HEAD + '[[dependence_graph]]\nid = "a"\nclass = "comp"\n\n[[dependence_graph]]\nclass = "mem"\ndepends = ["a"]\n'
)
FLOW = HEAD + '[[work_flow_graph]]\nkind = "compute"\ncount = 3\n\n[[work_flow_graph]]\nkind = "memory"\n'
PROFILE = HEAD + "[[interval_profile.intervals]]\ninstructions = 3\nstall_cycles = 6\n"


@pytest.fixture
def write(tmp_path):
    """Writes a workload file (text or bytes) and gives its path."""

    def write(content, name="kernel.toml"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


# -- bundled examples ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", example_names("papers"))
def test_bundled_examples_name_their_machine_and_run_without_a_gpu(name):
    workload = load_workload(name)
    assert workload.name == name
    assert workload.description
    able = [model for model in MODELS if predicts(name, model)]
    assert able


def predicts(name, model):
    try:
        return predict(name, model=model).cycles > 0
    except InputError:
        return False


def test_examples_are_found_by_name_by_file_and_by_their_place_in_a_checkout():
    by_name = load_workload("mdm-baseline")
    assert load_workload("mdm-baseline.toml").path == by_name.path
    assert load_workload("examples/papers/mdm-baseline.toml").name == "mdm-baseline"
    assert load_workload(by_name.path).name == "mdm-baseline"


def test_a_file_beside_the_user_wins_over_a_bundled_example(write, monkeypatch, tmp_path):
    write(MIX, "mdm-baseline.toml")
    monkeypatch.chdir(tmp_path)
    assert load_workload("mdm-baseline.toml").name == "mine"


# -- valid files -----------------------------------------------------------------------------------


def test_a_mix(write):
    workload = load_workload(
        write(
            HEAD + "[instruction_mix]\ncomp = 4\nload_global = { count = 6, independent = 2, uncoalesced = 3 }\n"
            "synchronizations = 2\nuncoalesced_transactions = 8\nbytes_per_request = 64\n"
        )
    )
    mix = workload.mix
    assert (mix.entries["comp"].count, mix.total, mix.synchronizations) == (4, 10, 2)
    entry = mix.entries["load_global"]
    assert (entry.count, entry.independent, entry.uncoalesced) == (6, 2, 3)
    assert (mix.uncoalesced_transactions, mix.bytes_per_request) == (8, 64)
    assert workload.offers("instruction_mix")
    assert not workload.offers("interval_profile")


def test_a_graph_offers_every_view(write):
    workload = load_workload(write(GRAPH))
    views = ("instruction_mix", "work_flow_graph", "interval_profile", "dependence_graph")
    assert all(workload.offers(view) for view in views)
    assert [(i.instruction_class, i.depends) for i in workload.graph.instructions] == [("comp", ()), ("mem", (0,))]


def test_a_workload_shows_its_views(write):
    assert repr(load_workload(write(MIX))) == "<Workload mine: instruction_mix>"
    assert repr(Workload("empty")) == "<Workload empty: no views>"


def test_instructions_may_be_written_in_any_order(write):
    """An instruction comes after those it waits for; otherwise the written order stays."""
    text = HEAD + "".join(
        f'[[dependence_graph]]\nid = "{name}"\nclass = "{kind}"\ndepends = {depends}\n'
        for name, kind, depends in (("a", "comp", '["c"]'), ("b", "sfu", "[]"), ("c", "mem", "[]"))
    )
    graph = load_workload(write(text)).graph
    assert [(i.instruction_class, i.depends) for i in graph.instructions] == [
        ("mem", ()),
        ("comp", (0,)),
        ("sfu", ()),
    ]


def test_ids_default_to_their_position_and_repeated_dependences_count_once(write):
    text = (
        HEAD + '[[dependence_graph]]\nclass = "comp"\n\n[[dependence_graph]]\nclass = "mem"\ndepends = ["i1", "i1"]\n'
    )
    assert load_workload(write(text)).graph.instructions[1].depends == (0,)


def test_a_work_flow_has_defaults_for_its_classes(write):
    text = (
        FLOW
        + '\n[[work_flow_graph]]\nkind = "barrier"\n\n[[work_flow_graph]]\nkind = "compute"\nclass = "sfu"\nilp = 2\n'
    )
    text += '\n[[work_flow_graph]]\nkind = "memory"\nclass = "store_global"\ndependent = false\ncount = 2\n'
    nodes = load_workload(write(text)).flow.nodes
    assert [(n.kind, n.instruction_class, n.count, n.ilp, n.dependent) for n in nodes] == [
        ("compute", "comp", 3, 1, True),
        ("memory", "mem", 1, 1, True),
        ("barrier", "barrier", 1, 1, True),
        ("compute", "sfu", 1, 2, True),
        ("memory", "store_global", 2, 1, False),
    ]


def test_a_profile_has_defaults_that_follow_from_its_requests(write):
    text = (
        PROFILE
        + "\n[[interval_profile.intervals]]\nrepeat = 2\ninstructions = 5\nstall_cycles = 100\nread_misses = 8\n"
    )
    text += "\n[[interval_profile.intervals]]\ninstructions = 1\nwrite_requests = 4\n"
    profile = load_workload(write(text)).profile
    assert profile.matrix.tolist() == [
        [3, 6, 0, 0, 0, 0],
        [5, 100, 1, 8, 0, 1],
        [5, 100, 1, 8, 0, 1],
        [1, 0, 0, 0, 4, 1],
    ]
    assert profile.causes.tolist() == [[1, 0, 0, 0], [0, 0, 0, 1], [0, 0, 0, 1], [1, 0, 0, 0]]
    assert profile.average_miss_latency_cycles is None


def test_given_causes_and_miss_latency(write):
    text = HEAD + "[interval_profile]\naverage_miss_latency_cycles = 150\n\n[[interval_profile.intervals]]\n"
    text += "instructions = 1\nstall_cycles = 10\nstall_causes = { L1 = 0.25, DRAM = 0.75 }\n"
    profile = load_workload(write(text)).profile
    assert profile.average_miss_latency_cycles == 150
    assert profile.stall_by_cause.tolist() == [0, 2.5, 0, 7.5]


def test_a_launch(write):
    text = MIX.replace(
        "warps_per_sm = 4",
        "blocks = 10\nthreads_per_block = 96\nregisters_per_thread = 20\nshared_memory_per_block_bytes = 0",
    )
    assert load_workload(write(text)).launch == Launch(10, 96, 20, 0)


def test_a_file_without_name_launch_and_machine_is_fine(write):
    workload = load_workload(write("[instruction_mix]\ncomp = 4\n", "plain.toml"))
    assert (workload.name, workload.machine, workload.launch) == ("plain", None, Launch())


def test_machine_overrides_of_a_file_are_applied(write):
    text = MIX.replace(
        'name = "lemeire-example"\n', 'name = "lemeire-example"\nset = { "instructions.mem.latency" = 60 }\n'
    )
    assert predict(write(text), model="volkov").terms["Lambda_app"] == 4 * 4 + 2 * 60


@pytest.mark.parametrize("content", [MIX, GRAPH, FLOW, PROFILE])
def test_windows_line_ends_are_fine(write, content):
    assert load_workload(write(content.replace("\n", "\r\n"))).name == "mine"


def test_huge_but_finite_numbers_load(write):
    workload = load_workload(write(PROFILE.replace("stall_cycles = 6", "stall_cycles = 1e18")))
    assert workload.profile.column("stall_cycles").tolist() == [1e18]
    assert np.isfinite(predict(workload, load_machine(), "gpumech-mt").cycles)


def load_machine():
    from warplens import load_gpu

    return load_gpu("lemeire-example")


# -- files that cannot be read ---------------------------------------------------------------------


def test_a_missing_file(tmp_path):
    with pytest.raises(FileError, match=r"none\.toml: no such file$"):
        load_workload(tmp_path / "none.toml")


def test_a_missing_name_is_answered_with_the_nearest_example():
    with pytest.raises(
        FileError, match="mdm-baselin: no such file, and no bundled example; did you mean 'mdm-baseline'"
    ):
        load_workload("mdm-baselin")


def test_a_folder(tmp_path):
    with pytest.raises(FileError, match="is a folder; give the TOML file inside it"):
        load_workload(tmp_path)


def test_an_empty_file(write):
    path = write("")
    with pytest.raises(WorkloadError, match=r"says nothing about the kernel; add \[cuda\]") as caught:
        load_workload(path)
    assert str(path) in str(caught.value)


def test_a_name_that_the_system_refuses(tmp_path):
    with pytest.raises(FileError, match=r"cannot be read .*too long"):
        load_workload("x" * 5000 + ".toml")
    with pytest.raises(FileError, match="no such file, and no bundled example"):
        load_workload("x" * 5000)
    with pytest.raises(FileError, match=r"cannot be read|no such file"):
        load_workload("a\0b.toml")


def test_a_huge_file_is_refused_unread(tmp_path):
    path = tmp_path / "huge.toml"
    with path.open("wb") as file:
        file.truncate(9 * 2**20)
    with pytest.raises(FileError, match="larger than 8 MiB"):
        load_workload(path)


@pytest.mark.parametrize(
    ("content", "place", "why"),
    [
        ('name = "x\n', ":1:", "not valid TOML"),
        (MIX + "x = = 3\n", ":12:5", "not valid TOML"),
        (MIX + "comp = 4\n", ":12:", "not valid TOML"),  # given twice
        (MIX + "[launch]\n", ":12:", "not valid TOML"),
        (MIX.encode() + b"# caf\xe9\n", ":12:", "not UTF-8 text .*save the file as UTF-8"),
        (b"\xff\xfe" + MIX.encode("utf-16-le"), ":1:", "not UTF-8 text"),
        (b"\x00\x01\x02", ":1:", "not valid TOML"),
        (MIX + "x = " + "[" * 3000, "", "not usable TOML|not valid TOML"),
        (MIX + "sfu = 1" + "0" * 5000, "", "not usable TOML"),
    ],
)
def test_broken_files_are_located(write, content, place, why):
    path = write(content)
    with pytest.raises(FileError, match=why) as caught:
        load_workload(path)
    assert f"{path}{place}" in str(caught.value)


# -- files that say something wrong -----------------------------------------------------------------

LINE_OF_MIX = 9  # of the table's header in HEAD + …


@pytest.mark.parametrize(
    ("content", "line", "key", "why"),
    [
        # unknown keys, in every table
        (MIX + "com = 3\n", 12, "instruction_mix.com", "unknown key .*did you mean 'comp'"),
        ("nam = 3\n" + MIX, 1, "nam", "unknown key 'nam'; did you mean 'name'"),
        ("[lunch]\nwarps_per_sm = 3\n" + MIX, 1, "lunch", "unknown key 'lunch'; did you mean 'launch'"),
        (MIX.replace("warps_per_sm", "warps_per_SM"), 7, "launch.warps_per_SM", "did you mean 'warps_per_sm'"),
        (MIX.replace("[machine]\n", "[machine]\nsett = 1\n"), 4, "machine.sett", "did you mean 'set'"),
        (GRAPH + "clas = 3\n", 16, "dependence_graph[1].clas", "did you mean 'class'"),
        (FLOW + "counts = 3\n", 15, "work_flow_graph[1].counts", "did you mean 'count'"),
        (PROFILE + "stalls = 3\n", 12, "interval_profile.intervals[0].stalls", "did you mean 'stall_cycles'"),
        (MIX.replace("comp = 4", "comp = { count = 4, free = 1 }"), 10, "instruction_mix.comp.free", "unknown key"),
        # negative, not finite, too large, of the wrong type
        (MIX.replace("comp = 4", "comp = -4"), 10, "instruction_mix.comp", "-4 must be at least 0"),
        (MIX.replace("comp = 4", "comp = nan"), 10, "instruction_mix.comp", "nan must be at least 0"),
        (MIX.replace("comp = 4", "comp = inf"), 10, "instruction_mix.comp", "inf must be .*at most 1e\\+18"),
        (MIX.replace("comp = 4", "comp = 1e19"), 10, "instruction_mix.comp", "1e\\+19 must be .*at most 1e\\+18"),
        (MIX.replace("comp = 4", "comp = 1" + "0" * 400), 10, "instruction_mix.comp", "at most 1e\\+18"),
        (MIX.replace("comp = 4", 'comp = "4"'), 10, "instruction_mix.comp", "'4' is not a number"),
        (MIX.replace("comp = 4", "comp = true"), 10, "instruction_mix.comp", "True is not a number"),
        (MIX.replace("comp = 4", "comp = [4]"), 10, "instruction_mix.comp", "is not a number"),
        (MIX.replace("comp = 4", "comp = 2026-01-01"), 10, "instruction_mix.comp", "is not a number"),
        # wrong units: files take plain numbers whose names carry the unit
        (PROFILE.replace("= 6", '= "6 cycles"'), 11, "interval_profile.intervals[0].stall_cycles", "is not a number"),
        # zero warps, zero blocks
        (MIX.replace("warps_per_sm = 4", "warps_per_sm = 0"), 7, "launch.warps_per_sm", "0 must be above 0"),
        (MIX.replace("warps_per_sm = 4", "blocks_per_sm = 0"), 7, "launch.blocks_per_sm", "0 must be above 0"),
        (MIX.replace("warps_per_sm", "blocks = 0\nthreads_per_block"), 7, "launch.blocks", "0 must be at least 1"),
        (MIX.replace("warps_per_sm = 4", "threads_per_block = 0"), 7, "launch.threads_per_block", "at least 1"),
        (
            MIX.replace("warps_per_sm = 4", "threads_per_block = 32.5"),
            7,
            "launch.threads_per_block",
            "not a whole number",
        ),
        (MIX.replace("warps_per_sm", "blocks = 1.5\nthreads_per_block"), 7, "launch.blocks", "not a whole number"),
        (MIX.replace("warps_per_sm = 4", "blocks = 4"), 7, "launch.blocks", "needs threads_per_block beside it"),
        ("launch = 3\n[instruction_mix]\ncomp = 4\n", 1, "launch", "must be a table"),
        # the machine
        (MIX.replace('name = "lemeire-example"', "name = 3"), 4, "machine.name", "must be text"),
        (MIX.replace('name = "lemeire-example"', 'name = ""'), 4, "machine.name", "names the machine"),
        (MIX.replace('name = "lemeire-example"', 'name = "mdm2020"\nset = 3'), 5, "machine.set", "must be a table"),
        ("description = 3\n" + MIX, 1, "description", "must be text"),
        # the mix
        (MIX.replace("comp = 4\nmem = 2", ""), LINE_OF_MIX, "instruction_mix", "has no instructions"),
        (MIX.replace("comp = 4\nmem = 2", "comp = 0"), LINE_OF_MIX, "instruction_mix", "has no instructions"),
        (MIX.replace("comp = 4", "comp = { independent = 1 }"), 10, "instruction_mix.comp.count", "is missing"),
        (MIX.replace("= 4\nm", "= { count = 4, independent = 5 }\nm"), 10, "comp.independent", "at most 4"),
        (MIX.replace("mem = 2", "mem = { count = 2, uncoalesced = 3 }"), 11, "mem.uncoalesced", "at most 2"),
        (MIX.replace("= 4\nm", "= { count = 4, uncoalesced = 1 }\nm"), 10, "comp.uncoalesced", "memory classes only"),
        (MIX + "uncoalesced_transactions = 0\n", 12, "instruction_mix.uncoalesced_transactions", "at least 1"),
        (MIX + "bytes_per_request = 0\n", 12, "instruction_mix.bytes_per_request", "above 0"),
        # the dependence graph
        (GRAPH.replace('["a"]', '["b"]'), 15, "dependence_graph[1].depends", "no instruction has the id 'b'"),
        (GRAPH.replace('["a"]', '["i2"]'), 15, "dependence_graph[1].depends", "cycle: i2 → i2"),
        (
            GRAPH.replace('class = "comp"', 'class = "comp"\ndepends = ["i2"]'),
            16,
            "dependence_graph[1].depends",
            "the dependences form a cycle: a → i2 → a",
        ),
        (
            GRAPH.replace('class = "mem"', 'class = "mem"\nid = "a"'),
            15,
            "dependence_graph[1].id",
            "'a' is used twice",
        ),
        (
            GRAPH.replace('class = "mem"', 'class = "memm"'),
            14,
            "dependence_graph[1].class",
            "'memm' is unknown; did you mean",
        ),
        (GRAPH.replace('class = "mem"\n', ""), 13, "dependence_graph[1].class", "'' is unknown"),
        (GRAPH.replace('["a"]', '"a"'), 15, "dependence_graph[1].depends", "must be a list of ids"),
        (GRAPH.replace('["a"]', "[1]"), 15, "dependence_graph[1].depends", "must be a list of ids"),
        (HEAD + "[dependence_graph]\nclass = 3\n", 9, "dependence_graph", r"must be a list of tables, written \[\["),
        (HEAD + "dependence_graph = [3]\n", 9, "launch.dependence_graph", "unknown key"),
        ("dependence_graph = [3]\n" + HEAD, 1, "dependence_graph[0]", "must be a table"),
        # the work flow graph
        (FLOW.replace('"memory"', '"memry"'), 14, "work_flow_graph[1].kind", "did you mean 'memory'"),
        (
            FLOW.replace('kind = "memory"', 'kind = "memory"\nclass = "comp"'),
            15,
            "work_flow_graph[1].class",
            "not a memory class",
        ),
        (FLOW.replace("count = 3", "count = 0"), 11, "work_flow_graph[0].count", "above 0"),
        (FLOW.replace("count = 3", "ilp = 0.5"), 11, "work_flow_graph[0].ilp", "at least 1"),
        (FLOW + "dependent = 1\n", 15, "work_flow_graph[1].dependent", "must be true or false"),
        # the interval profile
        (PROFILE.replace("instructions = 3\n", ""), 9, "interval_profile.intervals[0].instructions", "is missing"),
        (PROFILE.replace("= 3\n", "= 0\n"), 10, "interval_profile.intervals[0].instructions", "above 0"),
        (PROFILE + "llc_miss_ratio = 1.5\n", 12, "interval_profile.intervals[0].llc_miss_ratio", "at most 1"),
        (PROFILE + "repeat = 0\n", 12, "interval_profile.intervals[0].repeat", "at least 1"),
        (PROFILE + "repeat = 2000000\n", 12, "interval_profile.intervals[0].repeat", "exceed 1,000,000 intervals"),
        (
            PROFILE + "read_misses = 3\nmemory_instructions = 0\n",
            13,
            "interval_profile.intervals[0].memory_instructions",
            "must be above 0 where there are read_misses",
        ),
        (
            PROFILE + "stall_causes = { DRAM = 0.5 }\n",
            12,
            "interval_profile.intervals[0].stall_causes",
            "must sum to 1, not 0.5",
        ),
        (PROFILE + "stall_causes = { L3 = 1 }\n", 12, "interval_profile.intervals[0].stall_causes.L3", "unknown key"),
        (HEAD + "[interval_profile]\n", 9, "interval_profile.intervals", "is missing or empty"),
    ],
)
def test_what_is_wrong_is_located_and_named(write, content, line, key, why):
    path = write(content)
    with pytest.raises(WorkloadError) as caught:
        load_workload(path)
    message = str(caught.value)
    assert message.startswith(f"{path}:{line}: "), message
    assert key in message
    assert re.search(why, message), message
    assert "\n" not in message


def test_a_circle_among_many_names_only_the_circle(write):
    rows = [("a", "[]"), ("b", '["a", "d"]'), ("c", '["b"]'), ("d", '["c"]'), ("e", '["a"]')]
    text = HEAD + "".join(f'[[dependence_graph]]\nid = "{n}"\nclass = "comp"\ndepends = {d}\n' for n, d in rows)
    with pytest.raises(WorkloadError, match=r"form a cycle: b → d → c → b$"):
        load_workload(write(text))


def test_a_long_chain_is_no_problem(write):
    """Placing instructions does not recurse."""
    text = HEAD + "".join(
        f'[[dependence_graph]]\nclass = "comp"\ndepends = {[f"i{n + 1}"] if n < 3000 else []}\n'
        for n in range(1, 3001)
    ).replace("'", '"')
    graph = load_workload(write(text)).graph
    assert len(graph.instructions) == 3000
    assert graph.instructions[1].depends == (0,)


@pytest.mark.parametrize(
    ("name", "why"),
    [('"lemeire-exampel"', "did you mean 'lemeire-example'"), ('"none.toml"', "none.toml: no such file")],
)
def test_an_unusable_machine_of_a_file_is_located(write, name, why):
    path = write(MIX.replace('"lemeire-example"', name))
    with pytest.raises(InputError, match=why) as caught:
        predict(path, model="volkov")
    assert str(caught.value).startswith(f"{path}: [machine]: ")


def test_unusable_overrides_of_a_file_are_located(write):
    path = write(MIX.replace('name = "lemeire-example"\n', 'name = "lemeire-example"\nset = { "l1.mshr" = 60 }\n'))
    with pytest.raises(InputError, match=r"\[machine\]: unknown parameter 'l1.mshr'; did you mean 'l1.mshrs'"):
        predict(path, model="volkov")


def test_a_file_that_names_no_machine_asks_for_one(write):
    path = write("[instruction_mix]\ncomp = 4\n")
    with pytest.raises(InputError, match="names no machine; choose one with gpu="):
        predict(path, model="volkov")


def test_a_machine_file_beside_the_workload_is_found(write, tmp_path, monkeypatch):
    write('base = "lemeire-example"\nname = "beside"\n', "machine.toml")
    path = write(MIX.replace('"lemeire-example"', '"machine.toml"'))
    monkeypatch.chdir("/")
    assert predict(path, model="volkov").gpu == "beside"
