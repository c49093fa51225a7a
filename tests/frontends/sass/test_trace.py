"""From a command to a trace, with a program that leaves recorded samples instead of using a GPU."""

from __future__ import annotations

import json
import os
import sys
import time
from importlib.resources import files
from pathlib import Path

import pytest

from warplens.errors import InputError, MissingPackageError, TraceError, WarplensError
from warplens.frontends.accelsim import export_launches, import_accelsim
from warplens.frontends.cuda import toolkit
from warplens.frontends.sass import build, nsight_counts, program_runs, trace, trace_program
from warplens.frontends.sass.counts import read_counts
from warplens.frontends.sass.trace import launch_ranges
from warplens.traces import read_trace

from .making import DATA, sample_pages, sample_sass

FAKE = """
import os, pathlib, re, shutil, signal, sys, time
folder = os.environ.get("WARPLENS_TRACE_FOLDER")
if folder and sys.argv[1] not in ("host", "usage"):
    place = pathlib.Path(folder) / "process-1"
    place.mkdir()
    for path in pathlib.Path(sys.argv[2]).iterdir():
        if path.suffix != ".launch" or sys.argv[1] != "nothing":
            shutil.copy(path, place)
    if sys.argv[1] == "script":
        shutil.copytree(place, place.with_name("process-2"))
    if sys.argv[1] == "dropped":
        path = place / "launch-3.launch"
        text = re.sub("(head|capacity)_bytes=.*", r"\\1_bytes=3000", path.read_text())
        path.write_text(text.replace("capacity_bytes=3000", "capacity_bytes=2000").replace("dropped=0", "dropped=17"))
    if sys.argv[1] == "limited":
        path = place / "launch-3.launch"
        path.write_text(path.read_text().replace("raw_limited=0", "raw_limited=1"))
    if sys.argv[1] == "nothing started":
        for path in place.glob("launch*"):
            path.unlink()
        (place / "starts").write_text("Compute Sanitizer: not supported\\n")
    if sys.argv[1] == "failed":
        (place / "errors").write_text("loading the patches: invalid device\\n")
    if sys.argv[1] == "left out":
        (place / "left_out").write_text("patching a module: not supported\\n" + 3 * "k in a CUDA graph\\n")
    if sys.argv[1].startswith("disturbed"):
        fewer = "shared" in os.environ["WARPLENS_TRACE_SKIP"]
        if not fewer or sys.argv[1] == "disturbed always":
            (place / "errors").write_text("waiting for the kernel: unknown\\n")
            sys.exit(0 if sys.argv[1] == "disturbed silently" else 1)
if sys.argv[1] == "slow":
    time.sleep(0.3)
if sys.argv[1] == "reads":
    sys.exit(0 if sys.stdin.read() == "input" else 4)
if sys.argv[1] == "killed":
    os.kill(os.getpid(), signal.SIGKILL)
sys.exit({"exits": 3, "usage": 5}.get(sys.argv[1], 0))
"""


@pytest.fixture
def fake(tmp_path, monkeypatch):
    """Runs `trace_program` on a program that behaves in a given way; everything that needs a GPU stands still."""
    program = tmp_path / "program.py"
    program.write_text(FAKE)
    tools = build.Tools("nvcc", "nvdisasm", Path(), Path(), (9, 0), "ncu")
    monkeypatch.setattr(trace, "find_tools", lambda: tools)
    monkeypatch.setattr(trace, "build_injection", lambda _: build.Injection(Path("absent.so"), Path("absent.fatbin")))
    monkeypatch.setattr(trace, "disassemble", lambda *_: sample_sass())
    counted = read_counts(*sample_pages())
    uncounted = None

    def count(ncu, command, recorded, launched, folder, environment):
        names = [name for name, _ in counted]
        assert launched == names * (len(launched) // len(names))
        return {
            (launch.kernel, launch.occurrence): counted[launch.index % len(names)][1]
            for launch in recorded
            if launch.index != uncounted
        }

    monkeypatch.setattr(trace, "count_executions", count)
    output = tmp_path / "out" / "program.wlt"
    output.parent.mkdir()

    def go(mode="works", data=DATA, **options):
        nonlocal uncounted
        uncounted = options.pop("uncounted", None)
        return trace_program([sys.executable, str(program), mode, str(data)], output, **options)

    go.output = output
    return go


def test_a_program_becomes_a_trace(fake):
    steps = []
    summary = fake(progress=steps.append)
    assert [launch.launch for launch in summary.launches] == list(range(8))
    assert summary.launches_in_program == 8 and summary.overhead > 0 and summary.bytes == fake.output.stat().st_size
    assert steps[-1] == "reconstructing the warps"
    assert any("choose" in text and "97.4 %" in text for text in summary.warnings)
    assert any("LDGSTS" in text for text in summary.warnings)
    json.dumps(summary.to_dict(), allow_nan=False)
    assert [path.name for path in fake.output.parent.iterdir()] == ["program.wlt"]
    launches = read_trace(fake.output)
    reduce = launches[1].header
    assert reduce.kernel == "_Z6reducePKfPfi" and reduce.extra["readable_name"].startswith("reduce(")
    assert reduce.extra["exactness"]["exact_share"] == 1.0 and reduce.extra["binary_version"] == 90
    assert len(reduce.extra["sass_control"]) == len(launches[1].static)
    assert launches[1].static.line.max() > 20
    for launch, traced in zip(launches, summary.launches, strict=True):
        assert sum(group.instructions for group in launch.groups()) == traced.instructions


def test_launches_of_several_processes_have_numbers_of_their_own(fake):
    """A script that runs the program twice: launches, and which launch of its kernel each is, count on."""
    summary = fake("script", baseline=False)
    assert [launch.launch for launch in summary.launches] == list(range(16))
    assert [trace.header.launch_index for trace in read_trace(fake.output)] == list(range(16))
    assert summary.launches[15].exact_share == summary.launches[7].exact_share == 1.0


def test_launches_that_were_not_counted_are_named(fake):
    told = fake(baseline=False, uncounted=3).warnings
    assert any("counted nothing for 1 of 8 launches (rows): their exactness is unknown" in text for text in told)


def test_export_to_accelsim(fake, tmp_path):
    fake(baseline=False)
    launches = read_trace(fake.output)
    folder = tmp_path / "exported"
    paths = export_launches(launches, folder, compression=None)
    assert "-binary version = 90\n" in paths[0].read_text()
    import_accelsim(folder / "kernelslist.g", tmp_path / "again.wlt")
    for before, after in zip(launches, read_trace(tmp_path / "again.wlt"), strict=True):
        assert before.header.grid == after.header.grid
        for one, other in zip(before.groups(), after.groups(), strict=True):
            assert one.mask.tolist() == other.mask.tolist() and one.instructions == other.instructions


@pytest.mark.parametrize(
    ("mode", "kind", "words"),
    [("killed", WarplensError, "by SIGKILL while being traced; 8 launches had been recorded, nothing is written"),
     ("exits", WarplensError, "exited with code 3"),
     ("failed", WarplensError, "loading the patches: invalid device"),
     ("disturbed always", WarplensError, "exited with code 1 while being traced .waiting for the kernel: unknown"),
     ("dropped", TraceError, r"launch 3 \(rows.*GPU memory kept for them .17 were dropped.*--max-blocks 1 of 2"),
     ("limited", TraceError, "records of 1 of 8 launches, from launch 3 .*do not fit.*--launch"),
     ("nothing", TraceError, "of 8 launches none was selected; kernels launched: _Z10mandelbrot"),
     ("nothing started", WarplensError, "could not start: Compute Sanitizer: not supported"),
     ("host", TraceError, "used no GPU; a program")],
)  # fmt: skip
def test_what_goes_wrong_leaves_a_message_and_no_file(fake, mode, kind, words):
    with pytest.raises(kind, match=words):
        fake(mode, baseline=False)
    assert list(fake.output.parent.iterdir()) == []


def test_a_program_that_was_called_wrongly_is_not_blamed_on_the_tracer(fake):
    with pytest.raises(TraceError, match=r"used no GPU; .* exits with code 5, traced or not"):
        fake("usage")


def test_every_run_reads_all_of_a_file(fake, tmp_path):
    """Untraced, traced: standard input is a file that each reads from its start."""
    (tmp_path / "input").write_text("input")
    saved = os.dup(0)
    with (tmp_path / "input").open() as file:
        os.dup2(file.fileno(), 0)
    try:
        assert fake("reads").warnings == fake("works").warnings
    finally:
        os.dup2(saved, 0)


def test_a_run_that_may_never_end_is_told(fake, monkeypatch):
    monkeypatch.setattr(program_runs, "_PATIENCE_SECONDS", 0.1)
    steps = []
    fake("slow", baseline=False, progress=steps.append)
    assert any("still running after 0 s. If it never ends, one of its kernels may wait" in step for step in steps)


def test_the_replay_is_watched(fake):
    seen = []
    fake(baseline=False, watch=lambda done, total: seen.append(done / total))
    assert seen == sorted(seen) and seen[-1] == 1.0


def test_an_exit_code_can_be_accepted(fake):
    assert len(fake("exits", baseline=False, accept_failure=True).launches) == 8


def test_a_program_that_always_exits_with_a_code_is_traced(fake):
    summary = fake("exits")
    assert len(summary.launches) == 8
    assert any("exits with code 3, traced or not" in text for text in summary.warnings)


@pytest.mark.parametrize("mode", ["disturbed", "disturbed silently"])
def test_a_program_that_tracing_disturbs_is_traced_with_fewer_kinds(fake, mode):
    """Whether it looks for errors of its kernels or not."""
    steps = []
    summary = fake(mode, baseline=False, progress=steps.append)
    assert len(summary.launches) == 8
    assert [step for step in steps if "traced" in step][
        -1
    ] == "running the program traced, without accesses to shared memory"
    assert any("the trace has no addresses of shared memory" in text for text in summary.warnings)


def test_what_cannot_be_patched_does_not_cost_the_rest(fake):
    summary = fake("left out", baseline=False)
    assert len(summary.launches) == 8
    assert "not traced: patching a module: not supported" in summary.warnings
    assert "not traced: k in a CUDA graph (3 times)" in summary.warnings


def test_damaged_records_leave_no_file(fake, tmp_path):
    damaged = tmp_path / "damaged"
    damaged.mkdir()
    for path in DATA.iterdir():
        (damaged / path.name).write_bytes(path.read_bytes())
    raw = bytearray((damaged / "launch-6.raw").read_bytes())
    raw[15] ^= 0xFF
    (damaged / "launch-6.raw").write_bytes(raw)
    with pytest.raises(TraceError, match=r"launch-6\.raw: the record at byte 0 is damaged"):
        fake(data=damaged, baseline=False)
    assert list(fake.output.parent.iterdir()) == []


def test_without_counts(fake, monkeypatch):
    def refuse(*_):
        raise TraceError("Nsight Compute says: no permission")

    monkeypatch.setattr(trace, "count_executions", refuse)
    summary = fake(baseline=False)
    assert any("no permission" in text for text in summary.warnings)
    assert summary.launches[0].exact_share is None


def test_raw_records_can_be_kept(fake, tmp_path):
    fake(baseline=False, counts=False, keep_raw=tmp_path / "kept")
    assert (tmp_path / "kept" / "process-1" / "launch-0.raw").is_file()


@pytest.mark.parametrize(
    ("options", "words"),
    [({"command": []}, "no program"), ({"command": ["no-such-program-here"]}, "no such program"),
     ({"kernel_regex": "("}, "not a regular expression"), ({"max_blocks": 0}, "max-blocks is 0"),
     ({"waves": -1}, "waves is -1"), ({"output": "absent/x.wlt"}, "does not exist")],
)  # fmt: skip
def test_what_cannot_be_asked_for(options, words, tmp_path):
    asked = {"command": [sys.executable], "output": tmp_path / "x.wlt", **options}
    with pytest.raises(InputError, match=words):
        trace_program(asked.pop("command"), asked.pop("output"), **asked)


def test_ranges_of_launches():
    assert launch_ranges([8, 0, 3, 5, 6, 7]) == "0-0,3-3,5-8"
    for wrong in ([], [-1, 2]):
        with pytest.raises(InputError, match="numbered from 0"):
            launch_ranges(wrong)


def test_missing_tools_are_named(monkeypatch, tmp_path):
    def no_driver(name):
        raise OSError(name)

    monkeypatch.setattr(build.ctypes, "CDLL", no_driver)
    with pytest.raises(MissingPackageError, match=r"NVIDIA's driver, but libcuda\.so\.1"):
        build.find_tools()
    monkeypatch.setattr(build, "_compute_capability", lambda: (9, 0))
    monkeypatch.setattr(build, "homes", lambda *_: iter([tmp_path]))
    monkeypatch.setattr(toolkit, "homes", lambda *_: iter([tmp_path]))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingPackageError) as caught:
        build.find_tools()
    for name in ("nvcc", "nvdisasm", "sanitizer_patching.h", "libsanitizer-public.so"):
        assert name in str(caught.value)
    (tmp_path / "include").mkdir()
    (tmp_path / "compute-sanitizer").mkdir()
    (tmp_path / "include" / "sanitizer_patching.h").touch()
    (tmp_path / "compute-sanitizer" / "libsanitizer-public.so").touch()
    for name in ("nvcc", "nvdisasm"):
        (tmp_path / name).write_text("#!/bin/sh\nexit 0\n")
        (tmp_path / name).chmod(0o755)
    tools = build.find_tools()
    assert tools.sanitizer_headers == tmp_path / "include" and tools.ncu is None


def test_building_once(monkeypatch, tmp_path):
    """The compiler is a script that writes down what it was asked for."""
    monkeypatch.setenv("WARPLENS_CACHE_DIR", str(tmp_path / "cache"))
    compiler = tmp_path / "nvcc"
    compiler.write_text(
        f'#!/bin/sh\necho "$@" >> {tmp_path}/asked\nwhile [ $# -gt 1 ]; do [ "$1" = -o ] && touch "$2"; shift; done\n'
    )
    compiler.chmod(0o755)
    tools = build.Tools(str(compiler), "nvdisasm", tmp_path, tmp_path / "libsanitizer-public.so", (9, 0))
    built = build.build_injection(tools)
    assert built.library.is_file() and built.patches.is_file()
    asked = (tmp_path / "asked").read_text()
    assert "arch=compute_90,code=sm_90" in asked and "--compile-as-tools-patch" in asked
    assert build.build_injection(tools) == built
    assert (tmp_path / "asked").read_text().count("tracer.cpp") == 1
    monkeypatch.setenv("WARPLENS_CACHE_DIR", str(tmp_path / "my cache"))
    with pytest.raises(MissingPackageError, match=r"my cache.*cannot be preloaded; set WARPLENS_CACHE_DIR"):
        build.build_injection(tools)
    monkeypatch.setenv("WARPLENS_CACHE_DIR", str(tmp_path / "cache"))
    compiler.write_text("#!/bin/sh\necho 'patches.cu(7): error: no such thing' >&2\nexit 1\n")
    other = build.Tools(str(compiler), "nvdisasm", tmp_path, tmp_path / "libsanitizer-public.so", (8, 0))
    with pytest.raises(MissingPackageError, match=r"cannot be built: nvcc says: .*no such thing"):
        build.build_injection(other)


def test_sources_are_part_of_the_package():
    for name in build._SOURCES:
        assert files("warplens.frontends.sass").joinpath("injection", name).is_file()


def test_the_profiler_is_asked_for_the_recorded_launches(tmp_path, monkeypatch):
    from warplens.frontends.sass.raw import read_launch

    ncu = tmp_path / "ncu"
    ncu.write_text(
        f'#!/bin/sh\necho "$@" >> {tmp_path}/asked\necho "==ERROR== no permission" > {tmp_path}/counts.log\n'
    )
    ncu.chmod(0o755)
    recorded = [read_launch(DATA / f"launch-{index}.launch") for index in (0, 7)]
    launched = (DATA / "launched").read_text().splitlines()
    with pytest.raises(TraceError, match="says: no permission"):
        nsight_counts.count_executions(
            str(ncu), ["program", "x"], recorded, launched, tmp_path, {"PATH": "/bin:/usr/bin"}
        )
    asked = (tmp_path / "asked").read_text()
    assert "--launch-skip 0 --launch-count 2" in asked and "regex:^(_Z7guardedPKfPfi)$" in asked
    assert asked.rstrip().endswith("program x")
    monkeypatch.setattr(nsight_counts, "_MOST_NAMES", 10)
    with pytest.raises(TraceError, match="says: no permission"):
        nsight_counts.count_executions(
            str(ncu), ["program"], recorded[1:], launched, tmp_path, {"PATH": "/bin:/usr/bin"}
        )
    assert "regex:^(.*)$ --launch-skip 7 --launch-count 1" in (tmp_path / "asked").read_text()


def test_a_profiler_that_takes_too_long_ends_with_what_it_started(tmp_path, monkeypatch):
    from warplens.frontends.sass.raw import read_launch

    monkeypatch.setattr(nsight_counts, "_SECONDS", 0.5)
    ncu = tmp_path / "ncu"
    ncu.write_text(f"#!/bin/sh\nsleep 60 &\necho $! > {tmp_path}/started\nwait\n")
    ncu.chmod(0o755)
    recorded = [read_launch(DATA / "launch-0.launch")]
    with pytest.raises(TraceError, match=r"took more than 0\.5 s; trace fewer launches"):
        nsight_counts.count_executions(str(ncu), ["program"], recorded, [recorded[0].kernel], tmp_path, os.environ)
    state = Path(f"/proc/{(tmp_path / 'started').read_text().strip()}/stat")
    end = time.monotonic() + 10.0  # A process that was killed may take a moment to end.
    while state.exists() and state.read_text().split()[2] != "Z":
        assert time.monotonic() < end
        time.sleep(0.05)


def test_counted_kernels_may_take_turns_in_another_order():
    counts = dict(read_counts(*sample_pages()))
    first, second = list(counts)[:2]
    launched = [(first, 0), (second, 0), (first, 1), (second, 1)]
    counted = [(second, counts[second]), (first, None), (second, counts[first])]
    found = nsight_counts._by_launch(counted, launched[:1], launched[1:])
    assert found == {(second, 0): counts[second], (second, 1): counts[first]}
    with pytest.raises(TraceError, match="different kernels"):
        nsight_counts._by_launch([*counted, counted[0]], launched[:1], launched[1:])
