"""The `[cuda]` table: launches read from files, compiled, and their parameters built."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from warplens import load_gpu
from warplens.errors import FileError, InputError, KernelFault, WorkloadError
from warplens.frontends.cuda import arguments as arguments_module
from warplens.machine import occupancy
from warplens.tomlfile import read_toml
from warplens.workload.source import (
    CudaLaunch,
    RecordLimit,
    blocks_to_record,
    compile_launch,
    cuda_launch_of,
    for_gpu,
    is_cuda_workload,
    launch_parameters,
    load_cuda_launch,
    record_launch,
)

EXAMPLES = Path(__file__).parents[2] / "examples" / "cuda"

BASE = """\
name = "twice"
[cuda]
source = "twice.cu"
kernel = "twice"
grid = [4]
block = [64]
[[cuda.arguments]]
dtype = "float32"
shape = [256]
fill = "arange"
[[cuda.arguments]]
dtype = "int32"
value = 256
"""
TWICE = 'extern "C" __global__ void twice(float *x, int n)\n{\n    int i = threadIdx.x; if (i < n) x[i] *= 2;\n}\n'
PTX = """\
.version 8.0
.target sm_90
.address_size 64
// .entry commented(
.visible .entry _Z5twicePfi(.param .u64 a, .param .u32 b) { ret; }
.visible .entry other() { ret; }
"""


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WARPLENS_CACHE_DIR", str(tmp_path_factory.getbasetemp() / "warplens-cache"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "twice.cu").write_text(TWICE)
    (tmp_path / "twice.ptx").write_text(PTX)
    (tmp_path / "twice.py").write_text("def twice(x, n):\n    x[0] = n\n")
    return tmp_path


def launch_of(folder: Path, text: str) -> CudaLaunch:
    (folder / "w.toml").write_text(text, encoding="utf-8")
    return load_cuda_launch(folder / "w.toml")


def refusal(folder: Path, text: str) -> str:
    with pytest.raises(InputError) as caught:
        launch_of(folder, text)
    message = str(caught.value)
    assert "\n" not in message and str(folder / "w.toml") in message
    return message.removeprefix(str(folder / "w.toml"))


def test_a_file_becomes_a_launch(folder: Path) -> None:
    text = BASE + '[machine]\nname = "mdm2020"\nset = { "l1.mshrs" = 64 }\n[record]\nwaves = 2\n'
    launch = launch_of(folder, text)
    assert is_cuda_workload(read_toml(folder / "w.toml"))
    assert (launch.name, launch.kernel, launch.language) == ("twice", "twice", "cuda")
    assert launch.text == TWICE and launch.source_name == str(folder / "twice.cu")
    assert (launch.grid, launch.block, launch.blocks, launch.threads_per_block) == ((4, 1, 1), (64, 1, 1), 4, 64)
    assert (launch.machine, dict(launch.machine_overrides)) == ("mdm2020", {"l1.mshrs": 64})
    assert launch.record == RecordLimit(waves=2.0) and launch.registers_per_thread is None
    array, scalar = launch.build_arguments()
    assert np.array_equal(array, np.arange(256, dtype=np.float32)) and scalar == np.int32(256)
    assert launch_parameters(launch)[0] is not array  # every run starts from new arrays


def test_everything_optional_can_be_left_out(folder: Path) -> None:
    launch = launch_of(folder, '[cuda]\nsource = "twice.cu"\ngrid = 7\nblock = [8, 4, 2]\n')
    assert (launch.name, launch.kernel, launch.arguments) == ("w", "twice", ())
    assert (launch.grid, launch.block) == ((7, 1, 1), (8, 4, 2)) and launch.record == RecordLimit()


def test_registers_come_from_the_file_first_and_the_compiler_next(folder: Path) -> None:
    pytest.importorskip("cuda.bindings.nvrtc", reason="NVRTC has no wheel for this platform")
    compiled = compile_launch(launch_of(folder, BASE))
    assert compiled.entry == "twice" and compiled.registers_per_thread is not None
    assert 4 <= compiled.registers_per_thread <= 32
    assert re.fullmatch(r"NVRTC [\d.]+ for sm_90", compiled.registers_from) and compiled.shared_memory_bytes == 0
    given_ = compile_launch(launch_of(folder, BASE.replace("[4]", "[4]\nregisters_per_thread = 77")))
    assert (given_.registers_per_thread, given_.registers_from) == (77, "workload file")
    virtual = compile_launch(launch_of(folder, BASE.replace("[4]", '[4]\narchitecture = "compute_90"')))
    assert (virtual.registers_per_thread, virtual.registers_from) == (None, "")


@pytest.mark.parametrize(
    ("gpu", "architecture"),
    [
        ("v100", "sm_75"),
        ("a100", "sm_80"),
        ("rtx3090", "sm_86"),
        ("h200", "sm_90"),
        ("rtx5090", "sm_120"),
        ("mdm2020", ""),
    ],
)
def test_the_architecture_follows_the_gpu(folder: Path, gpu: str, architecture: str) -> None:
    pytest.importorskip("cuda.bindings.nvrtc", reason="NVRTC has no wheel for this platform")
    launch = for_gpu(launch_of(folder, BASE), load_gpu(gpu))
    assert launch.architecture == architecture  # NVRTC 13 knows nothing older than sm_75
    assert compile_launch(launch).registers_from.endswith(f" for {architecture or 'sm_90'}")


def test_an_architecture_that_is_given_stays(folder: Path) -> None:
    given_ = launch_of(folder, BASE.replace("[4]", '[4]\narchitecture = "sm_90a"'))
    assert for_gpu(given_, load_gpu("a100")).architecture == "sm_90a"
    assert for_gpu(given_, None) is given_


def test_code_in_the_file_keeps_its_lines(folder: Path) -> None:
    pytest.importorskip("cuda.bindings.nvrtc", reason="NVRTC has no wheel for this platform")
    for quotes in ("'''", '"""'):
        code = f"code = {quotes}\n{TWICE}{quotes}"
        text = BASE.replace('source = "twice.cu"', code)
        line = 1 + text.splitlines().index("    int i = threadIdx.x; if (i < n) x[i] *= 2;")
        compiled = compile_launch(launch_of(folder, text))
        assert f'"{folder / "w.toml"}"' in compiled.ptx
        assert re.search(rf"\.loc\s+1 {line} ", compiled.ptx)
        with pytest.raises(InputError, match=rf"w\.toml:{line}: identifier"):
            compile_launch(launch_of(folder, text.replace("*= 2", "*= two")))
    one_line = BASE.replace('source = "twice.cu"', "code = 'extern \"C\" __global__ void twice() { y = 1; }'")
    with pytest.raises(InputError, match=r"w\.toml:3: identifier"):
        compile_launch(launch_of(folder, one_line))


def test_ptx_is_taken_as_it_is(folder: Path) -> None:
    text = BASE.replace('source = "twice.cu"', 'ptx = "twice.ptx"')
    compiled = compile_launch(launch_of(folder, text))
    assert (compiled.ptx, compiled.entry, compiled.registers_per_thread) == (PTX, "_Z5twicePfi", None)
    assert compile_launch(launch_of(folder, text.replace('"twice"\ngrid', '"other"\ngrid'))).entry == "other"
    with pytest.raises(WorkloadError, match=r"twice\.ptx: no entry 'othr' in this PTX; did you mean 'other'"):
        compile_launch(launch_of(folder, text.replace('"twice"\ngrid', '"othr"\ngrid')))
    assert "the source has _Z5twicePfi, other" in refusal(folder, text.replace('kernel = "twice"\n', ""))


def test_python_kernels_get_flattened_parameters(folder: Path) -> None:
    text = BASE.replace('source = "twice.cu"\nkernel = "twice"', 'python = "twice.py:twice"')
    launch = launch_of(folder, text)
    assert (launch.language, launch.kernel) == ("python", "twice")
    parameters = launch_parameters(launch)
    assert len(parameters) == 8 and isinstance(parameters[4], np.ndarray) and parameters[7] == 256
    assert "is already 'twice'" in refusal(folder, text.replace("grid", 'kernel = "x"\ngrid'))
    pytest.importorskip("cuda.bindings.nvvm", reason="libNVVM has no wheel for this platform")
    compiled = compile_launch(launch)
    assert compiled.ptx.count(".param .u") >= 8 and compiled.entry in compiled.ptx


def test_waves_are_those_of_the_gpu(folder: Path) -> None:
    gpu = load_gpu("h200")
    launch = launch_of(folder, BASE.replace("[4]", "[100000]") + "[record]\nwaves = 1.5\n")

    def wanted(registers: int | None, shared: int | None, gpu: Any = gpu) -> int | None:
        found = blocks_to_record(launch, gpu, registers_per_thread=registers, shared_memory_bytes=shared)
        return None if found is None else sum(map(len, found))

    assert wanted(None, None) == round(1.5 * occupancy(gpu, 64).blocks_per_sm * gpu.sms)
    assert wanted(255, 0) == round(1.5 * occupancy(gpu, 64, 255).blocks_per_sm * gpu.sms) < wanted(32, 0)  # type: ignore[operator]
    with pytest.raises(WorkloadError, match="name one with gpu="):
        wanted(32, 0, None)
    for limit, expected in (('blocks = "all"', None), ("blocks = 3", 3), ("blocks = 4", None), ("waves = 1", None)):
        launch = launch_of(folder, BASE + f"[record]\n{limit}\n")
        assert wanted(32, 0) == expected


def test_waves_are_spread_over_the_grid(folder: Path) -> None:
    gpu = load_gpu("h200")
    wave = int(occupancy(gpu, 64, 32).blocks_per_sm * gpu.sms)
    for waves, starts in ((1, [50_000 - wave // 2]), (2, [25_000 - wave // 2, 75_000 - wave // 2])):
        launch = launch_of(folder, BASE.replace("[4]", "[100000]") + f"[record]\nwaves = {waves}\n")
        found = blocks_to_record(launch, gpu, registers_per_thread=32, shared_memory_bytes=0)
        assert found == [range(start, start + wave) for start in starts]


@pytest.mark.parametrize(
    "old, new, expected",
    [
        ('source = "twice.cu"', "", ":2: cuda: names no source; give one of source"),
        ("grid", 'ptx = "twice.ptx"\ngrid', ":2: cuda: has source and ptx; give one"),
        ("twice.cu", "none.cu", ":3: cuda.source: "),
        ("twice.cu", "\\u0000", ":3: cuda.source: "),
        ('kernel = "twice"', "kernel = 3", ":4: cuda.kernel: must be text"),
        ("kernel", "kernl", "unknown key 'cuda.kernl'; did you mean 'kernel'"),
        ("grid = [4]", "", ":2: cuda.grid: is missing; write grid = [256]"),
        ("[4]", "[]", ":5: cuda.grid: has 0 numbers"),
        ("[4]", "[1, 2, 3, 4]", ":5: cuda.grid: has 4 numbers"),
        ("[4]", "[1, 65536]", ":5: cuda.grid: 65536 must be a whole number from 1 to 65535"),
        ("[4]", "[0]", ":5: cuda.grid: 0 must be"),
        ("[4]", "[2.0]", ":5: cuda.grid: 2.0 must be a whole number"),
        ("[64]", "[64, 32]", ":6: cuda.block: 2048 threads exceed the 1024"),
        ("[64]", "[1, 1, 65]", ":6: cuda.block: 65 must be"),
        ("[4]", "[4]\nregisters_per_thread = 256", ":6: cuda.registers_per_thread: 256 must be at least 1"),
        ("[4]", "[4]\ndynamic_shared_memory_bytes = -1", ":6: cuda.dynamic_shared_memory_bytes: -1 must be"),
        ("[4]", '[4]\noptions = "-DN=4"', ":6: cuda.options: must be a list of texts"),
        ("[4]", '[4]\narchitecture = "x"', ":6: cuda.architecture: 'x' is not an architecture"),
        ("float32", "float33", ":8: cuda.arguments[0].dtype: 'float33' is unknown; did you mean 'float32'"),
        ('dtype = "int32"', "", ":11: cuda.arguments[1].dtype: is missing"),
        ("[256]", "[0]", ":9: cuda.arguments[0].shape: 0 must be"),
        ("[256]", "[1073741824, 4]", "17,179,869,184 bytes; at most 4,294,967,296"),
        ('"arange"', '"rnge"', ":10: cuda.arguments[0].fill: 'rnge' is unknown; did you mean 'arange'"),
        ('"arange"', '"zeros"\nseed = 3', 'seed: belongs to fill = "random", not to fill = \'zeros\''),
        ('"arange"', '"constant"', ":7: cuda.arguments[0].value: is missing"),
        ('"arange"', '"random"\nlow = 2', ":7: cuda.arguments[0].high: 1 must be above low = 2"),
        ('"arange"', '"random"\nlow = nan', ":11: cuda.arguments[0].low: nan is not a finite number"),
        ('"arange"', '"random"\nseed = -1', ":11: cuda.arguments[0].seed: -1 must be"),
        ('"arange"', '"file"', "cuda.arguments[0].file: names no file"),
        ('"arange"', '"function"\nfunction = "a.py"', "function: 'a.py' must be \"file.py:function\""),
        ("value = 256", "value = 2147483648", ":13: cuda.arguments[1].value: 2147483648 lies outside int32"),
        ("value = 256", "value = 1.5", ":13: cuda.arguments[1].value: 1.5 is not a whole number"),
        ("value = 256", "value = true", ":13: cuda.arguments[1].value: True is not a number"),
        ("value = 256", "", ":11: cuda.arguments[1].value: is missing; give a value, or a shape"),
        ("value = 256", "value = 1\nlow = 2", "low: belongs to fill = \"random\", not to a scalar"),
        ("value = 256", "fill = 'ones'", ":11: cuda.arguments[1].shape: is missing"),
        ("value = 256", "shape = 4\nfill = 'random'", ":11: cuda.arguments[1].high: is missing"),
        ("value = 256", "value = 1\n[record]\nblocks = 0", ":15: record.blocks: 0 must be at least 1"),
        ("value = 256", "value = 1\n[record]\nblocks = 'some'", ":15: record.blocks: 'some' is not a whole number"),
        ("value = 256", "value = 1\n[record]\nblocks = 2\nwaves = 1", "waves: and blocks are both given"),
        ("value = 256", "value = 1\n[launch]\nblocks = 2", "launch: must be a list of tables, written [[launch]]"),
    ],
)  # fmt: skip
def test_mistakes_are_named_with_line_and_remedy(folder: Path, old: str, new: str, expected: str) -> None:
    assert BASE.count(old) >= 1
    assert expected in refusal(folder, BASE.replace(old, new, 1))


def test_arrays_are_limited_before_they_are_built(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arguments_module, "MOST_ARGUMENT_BYTES", 1500)
    extra = '[[cuda.arguments]]\ndtype = "float64"\nshape = [100]\n'
    assert "the arrays hold 1,824 bytes together; at most 1,500" in refusal(folder, BASE + extra)


def test_a_file_without_the_table_is_refused(folder: Path) -> None:
    assert "add a [cuda] table" in refusal(folder, 'name = "x"\n')
    with pytest.raises(FileError):
        load_cuda_launch(folder / "nothing.toml")


VALUES = st.one_of(
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.booleans(),
    st.text(max_size=8),
    st.sampled_from(["twice", "float32", "int8", "random", "arange", "file", "all", "twice.cu", "a:b", "-DN", ""]),
    st.lists(st.one_of(st.integers(-2, 2000), st.text(max_size=3)), max_size=4),
    st.dictionaries(st.text(max_size=3), st.integers(), max_size=2),
)
ARGUMENT_KEYS = ["dtype", "value", "shape", "fill", "start", "step", "seed", "low", "high", "file", "function", "x"]
CUDA_KEYS = [
    "source", "code", "ptx", "python", "kernel", "grid", "block", "dynamic_shared_memory_bytes", "options",
    "architecture", "registers_per_thread", "arguments",
]  # fmt: skip


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_any_value_gives_a_launch_or_an_input_error(folder: Path, data: st.DataObject) -> None:
    (folder / "w.toml").write_text(BASE)
    file = read_toml(folder / "w.toml")
    table = file.data["cuda"]
    places = [(file.data, ["name", "machine", "record", "cuda"]), (table, CUDA_KEYS)]
    places += [(row, ARGUMENT_KEYS) for row in table["arguments"]] * 2
    for _ in range(data.draw(st.integers(1, 3))):
        where, keys = data.draw(st.sampled_from(places))
        where[data.draw(st.sampled_from(keys))] = data.draw(VALUES)
    if data.draw(st.booleans()):
        file.data["record"] = {data.draw(st.sampled_from(["blocks", "waves", "x"])): data.draw(VALUES)}
    try:
        launch = cuda_launch_of(file)
        for argument in launch.arguments:
            if argument.nbytes < 1 << 20:
                argument.build()
    except InputError as error:
        assert str(error)


@pytest.mark.parametrize("name", ["saxpy", "matmul", "spmv", "transpose"])
def test_the_examples_compile_and_build(name: str) -> None:
    pytest.importorskip("cuda.bindings.nvrtc", reason="NVRTC has no wheel for this platform")
    launch = load_cuda_launch(EXAMPLES / f"{name}.toml")
    compiled = compile_launch(launch)
    head = compiled.ptx.split(f".entry {compiled.entry}(")[1].split(")")[0]
    bits = [int(kind[1:]) for kind in re.findall(r"\.param \.(\w+)", head)]
    parameters = launch_parameters(launch)
    assert bits == [64 if isinstance(value, np.ndarray) else 8 * value.itemsize for value in parameters]


def test_the_sparse_example_is_a_matrix() -> None:
    _, starts, columns, values, x, y = launch_parameters(load_cuda_launch(EXAMPLES / "spmv.toml"))
    assert starts[0] == 0 and (np.diff(starts) >= 1).all() and starts[-1] == columns.size == values.size  # type: ignore[index]
    assert columns.max() < x.size and starts.size == y.size + 1  # type: ignore[union-attr]


def test_constants_and_limits_of_an_execution(tmp_path):
    path = tmp_path / "k.toml"
    path.write_text(
        """[cuda]
        code = '''__constant__ float c[2];
        extern "C" __global__ void k(float* x) { for (int i = 0; i < 1000; ++i) x[threadIdx.x] += c[1]; }'''
        grid = [1]
        block = [32]
        [[cuda.arguments]]
        dtype = "float32"
        shape = [32]
        [cuda.constants.c]
        dtype = "float32"
        shape = [2]
        fill = "arange"
        [record]
        most_instructions = 2000000
        most_seconds = 50
        """
    )
    launch = load_cuda_launch(path)
    assert record_launch(launch).instructions > 1000
    path.write_text(path.read_text().replace("i < 1000", "i < 10000000"))
    with pytest.raises(KernelFault, match="more than the limit of 2,000,000"):
        record_launch(load_cuda_launch(path))
    path.write_text(path.read_text().replace("constants.c", "constants.d"))
    with pytest.raises(KernelFault, match="no variable is named 'd'"):
        record_launch(load_cuda_launch(path))


def test_include_names_folders_or_wheels(folder: Path) -> None:
    (folder / "headers").mkdir()
    launch = launch_of(folder, BASE.replace("[cuda]", '[cuda]\ninclude = "headers"'))
    assert launch.options == (f"-I{(folder / 'headers').resolve()}",)
    for value, message in (
        ('["nowhere"]', "nowhere is no folder; wheels: cccl, curand, cutlass"),
        ("4", "must be folders"),
    ):
        with pytest.raises(WorkloadError, match=message):
            launch_of(folder, BASE.replace("[cuda]", f"[cuda]\ninclude = {value}"))
