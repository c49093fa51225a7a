"""Files of tuning spaces, and the configurations and launches they give."""

from __future__ import annotations

import json

import pytest

from warplens.errors import InputError
from warplens.tuning import read_space
from warplens.tuning.expressions import Expression, whole_value
from warplens.workload.source import load_cuda_launch

from .making import SPACE, write_space, write_t1


def test_configurations_and_their_launches(tmp_path):
    space = read_space(write_space(tmp_path))
    assert len(space) == 36
    assert space.used == {"threads", "unroll", "step"}
    assert len(space.twins) == len(space) // 2
    chosen = next(c for c in space.configurations if c["threads"] == 128 and c["unroll"] == 4 and c["step"] == 32)
    launch = space.launch(chosen)
    assert launch.grid == (8, 1, 1) and launch.block == (128, 1, 1)
    assert launch.kernel == "squares<32>"
    assert launch.options == ("-Dunroll=4",), "launch parameters and template arguments are no macros"
    assert launch.arguments[1].shape == (4096,)


def test_a_file_of_kernel_tuner(tmp_path):
    path = write_t1(tmp_path)
    with pytest.raises(InputError, match=r"no source 'squares.cu'.*--sources"):
        read_space(path)
    space = read_space(path, sources=tmp_path)
    assert [tuple(each.values()) for each in space.configurations] == [(64, 1), (64, 2), (64, 4), (128, 1), (128, 2)]
    launch = space.launch(space.configurations[2])
    assert launch.grid == (16, 1, 1) and launch.block == (64, 1, 1)
    assert launch.options == ("-Dkernel_tuner=1", "-std=c++17", "-Dunroll=4"), "what warplens says itself is left out"
    assert [getattr(each, "shape", None) for each in launch.arguments] == [(4096,), (4096,), None]


def test_what_files_of_kernel_tuner_may_also_say(tmp_path):
    path = write_t1(tmp_path)
    document = json.loads(path.read_text())
    document["ConfigurationSpace"]["Conditions"] = ["block_size_x * unroll < 512"]
    document["KernelSpecification"] |= {
        "CompilerOptions": "-O3 -std=c++17",
        "KernelName": "squares<float, unroll, (block_size_x * 2)>",
    }
    path.write_text(json.dumps(document))
    space = read_space(path, sources=tmp_path)
    assert len(space) == 5
    assert space.name == "squares<float, unroll, (block_size_x * 2)>", "Kernel Tuner refuses a cache of another name"
    launch = space.launch(space.configurations[2])
    assert launch.kernel == "squares<float, 4, (64 * 2)>", "macros of Kernel Tuner stand among template arguments"
    assert launch.options == ("-Dkernel_tuner=1", "-std=c++17", "-Dunroll=4", "-Dblock_size_x=64")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (('"ceil(4096 / (threads * unroll))"', '"4096 / thread"'), "did you mean 'threads'"),
        (('"threads * unroll <= 512"', '"open(1)"'), "'open' is no parameter"),
        (('"threads * unroll <= 512"', '"().__class__"'), "more than arithmetic"),
        (("squares<{step}>", "squares<{steps}>"), "'steps' is no parameter"),
        (("threads = [64, 128, 2048]", "threads = [{a = 1}]"), r"squares.toml:\d+: tune.parameters.threads"),
        (("[tune.parameters]", "[tune.parameter]"), "did you mean 'parameters'"),
        (
            ('"threads * unroll <= 512"', '"unroll < 9", "threads > 5000", "step > 0"'),
            r"squares.toml:\d+: 'threads > 5000' allows no configuration beside those before it",
        ),
    ],
)
def test_what_a_file_gets_wrong(tmp_path, change, message):
    path = write_space(tmp_path)
    path.write_text(SPACE.replace(*change))
    with pytest.raises(InputError, match=message):
        space = read_space(path)
        for each in space.configurations:
            space.launch(each)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[1, 2]", "has no ConfigurationSpace; give a T1 file"),
        ('{"ConfigurationSpace": {"TuningParameters": []}}', "has no KernelSpecification"),
        ('{"ConfigurationSpace": {}, "KernelSpecification": {}}', "'TuningParameters' is missing"),
        ('{"ConfigurationSpace": {"TuningParameters": 3}, "KernelSpecification": {}}', "a value has another type"),
    ],
)
def test_what_a_file_of_kernel_tuner_gets_wrong(tmp_path, text, message):
    path = tmp_path / "space.json"
    path.write_text(text)
    with pytest.raises(InputError, match=f"space.json: .*{message}"):
        read_space(path)


def test_a_space_is_no_workload(tmp_path):
    with pytest.raises(InputError, match="warplens tune"):
        load_cuda_launch(write_space(tmp_path))


def test_expressions_only_compute():
    assert Expression("[16 * i for i in range(1, 4)]", "here").value({}) == [16, 32, 48]
    assert Expression("[i * j for i in range(1, 3) for j in range(3)]", "here").value({}) == [0, 1, 2, 0, 2, 4]
    assert whole_value("n / 2", {"n": 8}, "here") == whole_value(4.0, {}, "here") == 4
    assert Expression("ceil(n / 3) if n % 2 else max(values)", "here").names == {"n", "values"}
    for text in ("__import__('os')", "n.real", "lambda: 1", "[].append(1)", "(x := 1)", "1 +"):
        with pytest.raises(InputError, match="here: "):
            Expression(text, "here").value({"n": 1})


@pytest.mark.parametrize(
    "text",
    [
        "9 ** 9 ** 9",
        "pow(9, 9 ** 9)",
        "1 << 10 ** 10",
        "[0] * 10 ** 9",
        "sum([i for i in range(10 ** 9)])",
        "sum([i + j + k for i in range(9) for j in range(9) for k in range(9)])",
    ],
)
def test_expressions_that_would_take_all_time_or_memory_are_refused(text):
    with pytest.raises(InputError):
        whole_value(text, {}, "grid")


@pytest.mark.parametrize(
    ("text", "value"), [("2 ** 10 * 3", 3072), ("1 << 4", 16), ("sum([2 ** i for i in range(3)])", 7)]
)
def test_bounded_arithmetic_is_that_of_python(text, value):
    assert whole_value(text, {}, "grid") == value


def test_a_number_that_is_not_finite_is_no_size():
    with pytest.raises(InputError, match="whole number"):
        whole_value("threads", {"threads": float("inf")}, "grid")


def test_parameters_in_headers_are_macros(tmp_path):
    """Those of a folder that `include` names, for code inside the file too."""
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "body.h").write_text("__global__ void k(float* a) { a[threadIdx.x] = width; }")
    (tmp_path / "space.toml").write_text(
        """
        [cuda]
        code = '#include "body.h"'
        include = ["parts"]
        kernel = "k"
        grid = [1]
        block = [32]
        arguments = [{dtype = "float32", shape = [32]}]
        [tune.parameters]
        width = [1, 2]
        other = [1, 2]
        """
    )
    space = read_space(tmp_path / "space.toml")
    assert space.used == {"width"} and len(space.twins) == 2
    assert "-Dwidth=2" in space.launch(space.configurations[-1]).options
    (tmp_path / "parts" / "body.h").write_text("__global__ void k(float* a) { a[threadIdx.x] = 2 * width; }")
    assert read_space(tmp_path / "space.toml").digest != space.digest, "rows of another header are not resumed"
