"""The answer of `warplens predict`: what it prints, within 80 columns, and its JSON."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

import warplens
from reference.traces import Step, memory_trace
from warplens.cli.answers import bar, show_answer
from warplens.cli.common import lines_of
from warplens.explanation import Advice, Line, words
from warplens.traces import StaticInstruction, TraceWriter

from .printed import document

BY_HAND = """\
mdm-baseline on mdm2020
time        15.5 µs (14.1 to 17.1 µs)
limited by  DRAM bandwidth, 98 % used
compute     ▎···················   1 %
L1          █▉··················   9 %
L2          █████████···········  45 %
DRAM        ███████████████████▊  98 %
occupancy   100 %, 64 of 64 warps per SM
note        the range allows mostly for how memory requests queue

advice needs a trace: run the kernel, or record it on a GPU

"""

BY_ANOTHER_MODEL = """\
mb1-coalesced on fx5600
time        57.2 ms
occupancy   100 %, 24 of 24 warps per SM

mwp-cwp-corrected answers, as model 'warplens' needs an interval profile, or a
dependence graph, which workload 'mb1-coalesced' does not give; add a
[interval_profile] table

"""

WITH_ADVICE = """\
mdm-baseline on mdm2020, 3 launches
time        15.5 µs each (14.1 to 17.1 µs); 46.6 µs in all
limited by  DRAM bandwidth, 98 % used
compute     ▎···················   1 %
L1          █▉··················   9 %
L2          █████████···········  45 %
DRAM        ███████████████████▊  98 %
occupancy   50 %, 64 of 128 warps per SM; limited by registers
note        the range allows mostly for how memory requests queue

1  15.5 → 5 µs, 3.1× faster (2.6 to 4.0×)                     uncoalesced-stores
   Uncoalesced stores: 32.0 sectors per request, where 4.0 would do; lanes are
   16384 bytes apart, and 88 % of the bytes moved are not used.
   transpose.cu:12  out[x * n + y] = in[y * n + x]; // a comment that goes on …
   do: Write a tile to shared memory first.
   but: A tile takes a barrier.

and 1 more: --advice all

"""


def advice(rule="uncoalesced-stores", seconds_after=5e-6, **values):
    given = {
        "text": "Uncoalesced stores: 32.0 sectors per request, where 4.0 would do; lanes are 16384 bytes apart, "
        "and 88 % of the bytes moved are not used.",
        "remedy": "Write a tile to shared memory first.",
        "cost": "A tile takes a barrier.",
        "lines": (
            Line("transpose.cu", 12, 1.0, f"out[x * n + y] = in[y * n + x]; // a comment that goes {'on ' * 9}"),
        ),
        "seconds": 15.52e-6,
        "speedup_low": 2.6,
        "speedup_high": 4.0,
    }
    return Advice(rule=rule, seconds_after=seconds_after, **{**given, **values})


@pytest.fixture(scope="module")
def answer():
    return warplens.explain("mdm-baseline")


@pytest.mark.parametrize(("name", "text"), [("mdm-baseline", BY_HAND), ("mb1-coalesced", BY_ANOTHER_MODEL)])
def test_numbers_by_hand_get_an_answer_and_why_it_has_no_advice(good, name, text):
    assert good("predict", name) == text


def test_advice_has_gain_place_remedy_and_cost(answer, capsys):
    both = (advice(), advice("low-occupancy", 9e-6))
    room = replace(answer.occupancy, achieved=0.5, limiter="registers")
    show_answer(replace(answer, advice=both, note="", occupancy=room, launches=(0, 1, 2)), most=1)
    out = capsys.readouterr().out
    assert out == WITH_ADVICE
    assert max(map(len, out.splitlines())) == 80


def test_nothing_worth_changing_is_an_answer_too(answer):
    assert words.closing(replace(answer, note="")) == (
        "no rule finds 3 % to gain: DRAM bandwidth is 98 % used, so only moving fewer bytes would help"
    )
    units = replace(answer.limiter, resource="compute", name="the integer units", busy=0.97)
    assert words.closing(replace(answer, note="", limiter=units)) == (
        "no rule finds 3 % to gain: the integer units are 97 % used, so only fewer instructions would help"
    )
    latency = replace(answer.limiter, resource="latency", name="latency", waits="a warp waits")
    assert words.closing(replace(answer, note="", limiter=latency)).endswith("no rule finds 3 % to gain")


def test_counts_of_a_kernel_that_is_not_run_are_answered_by_another_model(good):
    text = " ".join(good("predict", "saxpy", "--gpu", "h200", "--static").split())
    assert "mwp-cwp-corrected answers, as model 'warplens' needs a kernel that is run; --static only counts" in text


def test_notes_do_not_contradict_the_limit(good):
    text = " ".join(good("predict", "lemeire-example", "--models", "all").split())
    assert "bound by latency; " in text or "bound by a functional unit" in text
    assert "saturated" not in text


TRANSPOSE = """\
extern "C" __global__ void transpose(int n, const float *in, float *out)
{
    int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 8 + threadIdx.y;
    out[x * n + y] = in[y * n + x];
}
"""
LAUNCH = """\
[cuda]
source = "transpose.cu"
grid = [16, 64]
block = [32, 8]

[[cuda.arguments]]
dtype = "int32"
value = 512

[[cuda.arguments]]
dtype = "float32"
shape = [262144]
fill = "random"

[[cuda.arguments]]
dtype = "float32"
shape = [262144]
"""


@pytest.fixture
def transpose(write):
    write(TRANSPOSE, "transpose.cu")
    return write(LAUNCH, "transpose.toml")


def test_a_kernel_that_runs_gets_advice_with_its_line(good, transpose):
    text = good("predict", transpose, "--gpu", "h200", "--advice", "all")
    assert re.search(r"^time +[\d.]+ µs \([\d.]+ to [\d.]+ µs\)$", text, re.M)
    assert re.search(r"^\d  .* → .* faster \(.*×\) +uncoalesced-stores$", text, re.M)
    assert "   transpose.cu:4  out[x * n + y] = in[y * n + x];\n" in text
    assert "warplens models --rules NAME" in text
    assert max(map(len, text.splitlines())) <= 80


def test_json_of_an_answer_has_the_documented_keys(good, transpose):
    found = document(good("predict", transpose, "--gpu", "h200", "--json"))
    assert list(found) == ["schema", "version", "predictions", "answers", "skipped", "inputs"]
    (prediction,), (answer,) = found["predictions"], found["answers"]
    assert prediction["model"] == answer["model"] == "warplens"
    documented = "kernel launch gpu model seconds seconds_low seconds_high limiter speed_of_light occupancy advice"
    assert list(answer)[: len(documented.split())] == documented.split()
    assert set(answer["limiter"]) == {"resource", "busy"}
    assert list(answer["speed_of_light"]) == ["compute", "l1", "l2", "dram"]
    assert set(answer["occupancy"]) == {"achieved", "limiter"}
    assert answer["seconds_low"] < answer["seconds"] == prediction["seconds"] < answer["seconds_high"]
    stores = next(each for each in answer["advice"] if each["rule"] == "uncoalesced-stores")
    keys = {"rule", "text", "lines", "seconds_after", "speedup", "speedup_low", "speedup_high", "remedy"}
    assert keys <= set(stores)
    assert stores["speedup"] == pytest.approx(answer["seconds"] / stores["seconds_after"])
    assert stores["lines"][0].items() >= {"file": "transpose.cu", "line": 4, "share": 1.0}.items()


def test_no_advice_is_looked_for_where_none_is_asked_for(good, usage, transpose):
    assert "no advice was asked for" in good("predict", transpose, "--gpu", "h200", "--advice", "0")
    assert "write a number, or 'all'" in usage("predict", transpose, "--advice", "some")


def test_launches_that_are_alike_have_one_answer(good, tmp_path):
    kernel = [StaticInstruction(0, "IADD3", "int32"), StaticInstruction(16, "EXIT", "control")]
    with TraceWriter(tmp_path / "app.wlt") as writer:
        for index, (name, steps) in enumerate((("a", 1), ("b", 400), ("a", 1))):
            one = memory_trace(kernel, [[[*[Step(0)] * steps, Step(1)]]], kernel=name, launch_index=index)
            for group in one.groups():
                writer.write(group)
            writer.end_launch(one.header, one.static)
    text = good("predict", tmp_path / "app.wlt", "--gpu", "mdm2020")
    first, second = re.findall(r"^ +(\d+) %  .* (\d+) × (\w)$", text, re.M)
    assert text.startswith("3 launches on mdm2020: ")
    assert (first[1:], second[1:]) == (("1", "b"), ("2", "a")) and int(first[0]) + int(second[0]) == 100
    assert text.index("b on mdm2020\n") < text.index("a on mdm2020, 2 launches\n")
    found = document(good("predict", tmp_path / "app.wlt", "--gpu", "mdm2020", "--json"))
    assert [answer["launches"] for answer in found["answers"]] == [[1], [0, 2]]
    assert [each["launch"] for each in found["predictions"]] == [0, 1, 2, None]


@pytest.mark.parametrize(
    ("share", "drawn"), [(0.0, "····"), (1.0, "████"), (1.7, "████"), (0.5, "██··"), (0.53, "██▏·")]
)
def test_a_bar_is_filled_by_eighths(share, drawn):
    assert bar(share, 4) == drawn


def test_a_share_stays_on_one_line() -> None:
    for pad in range(80):
        assert not any(line.startswith("%") for line in lines_of(f"{'x' * pad} 14 % of its instructions"))


def test_print_shows_an_answer_in_words(answer):
    told = str(replace(answer, advice=(advice(),), note="")).splitlines()
    assert told[0].startswith(
        "mdm-baseline on mdm2020: 15.5 µs (14.1 to 17.1 µs), limited by DRAM bandwidth, 98 % used"
    )
    assert told[1].startswith("1  ") and told[1].endswith(advice().rule) and told[-1] == f"   do: {advice().remedy}"
    assert str(replace(answer, note="")).splitlines()[1].startswith("no rule finds 3 % to gain")
