"""The committed file: small, stable, mergeable, and refused where it does not fit."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from warplens.errors import FileError
from warplens.gate.baseline import baseline_of, machine_digest, mismatches, read_baseline, updated, write_baseline
from warplens.machine import load_gpu, with_overrides

from .making import git, slowed, snapshot

COMPILER = "NVRTC 13.3"


@pytest.fixture(scope="module")
def gpu():
    return load_gpu("h200")


@pytest.fixture
def kept(gpu):
    lines = [(41, 0.7, 'x[i] = "a\\b";'), (42, 0.001, "}")]
    counts = {"warps per SM": 64.0, "fp32": 123456.0, "DRAM bytes": 1e6}
    return baseline_of([snapshot(lines=lines, counts=counts), snapshot(gpu="a100")], [gpu], COMPILER)


def test_what_is_written_is_read(tmp_path, kept, gpu):
    path = tmp_path / "baseline.toml"
    write_baseline(path, kept)
    found = read_baseline(path)
    assert (found.compiler, found.machines) == (COMPILER, {"h200": machine_digest(gpu)})
    first = found.by_key()[kept.snapshots[0].identity, "h100"]
    assert first.seconds == kept.snapshots[0].seconds
    assert first.timing.causes == pytest.approx(dict(kept.snapshots[0].timing.causes))
    assert first.counts == {"warps per SM": 64.0, "fp32": 123500.0, "DRAM bytes": 1e6}
    assert [line.text for line in first.lines] == ['x[i] = "a\\b";']
    assert [each.name for each in tmp_path.iterdir()] == ["baseline.toml"]


def test_a_baseline_without_a_digest_is_of_unknown_code(tmp_path, kept, gpu):
    path = tmp_path / "baseline.toml"
    write_baseline(path, kept)
    path.write_text(re.sub(r"(?m)^code = .*\n", "", path.read_text()))
    with pytest.raises(FileError, match="with code unknown, and this is"):
        mismatches(read_baseline(path), [gpu], COMPILER, path)


def test_the_order_of_kernels_does_not_matter(tmp_path, kept):
    texts = []
    for snapshots in (kept.snapshots, kept.snapshots[::-1]):
        write_baseline(tmp_path / "baseline.toml", replace(kept, snapshots=snapshots))
        texts.append((tmp_path / "baseline.toml").read_text())
    assert texts[0] == texts[1]


def test_an_update_keeps_what_did_not_change(kept):
    renamed = replace(kept.snapshots[0], lines=(replace(kept.snapshots[0].lines[0], text="y[i] = 1;"),))
    slower = slowed(kept.snapshots[1], 0.1)
    found = updated(kept, replace(kept, snapshots=(renamed, slower)), whole=True)
    assert found.snapshots == (kept.snapshots[0], slower)


def test_an_update_of_a_part_keeps_the_rest(kept):
    fresh = snapshot(kernel="fresh")
    new = replace(kept, snapshots=(fresh,))
    assert updated(kept, new, whole=False).snapshots == (*kept.snapshots, fresh)
    assert updated(kept, new, whole=True).snapshots == (fresh,)


def test_branches_that_change_different_kernels_merge(tmp_path, kept):
    path = tmp_path / "warplens-baseline.toml"
    three = tuple(snapshot(kernel=name) for name in ("first", "second", "third"))
    git(tmp_path, "init", "--quiet", "--initial-branch=main")
    for branch, place in (("main", None), ("one", 0), ("two", 2)):
        if place is not None:
            git(tmp_path, "checkout", "--quiet", "-b", branch, "main")
        changed = tuple(slowed(each, 0.5) if number == place else each for number, each in enumerate(three))
        write_baseline(path, replace(kept, snapshots=changed))
        git(tmp_path, "add", "--all")
        git(tmp_path, "commit", "--quiet", "--message", branch)
    git(tmp_path, "merge", "--quiet", "one")
    assert [round(each.seconds * 1e6) for each in read_baseline(path).snapshots] == [15, 10, 15]


def refused(path, text):
    path.write_text(text)
    with pytest.raises(FileError) as caught:
        read_baseline(path)
    assert path.read_text() == text
    return str(caught.value)


def test_what_is_no_baseline_is_refused_and_left_alone(tmp_path, kept):
    path = tmp_path / "warplens-baseline.toml"
    with pytest.raises(FileError, match=re.escape("write one with `warplens check --update`")):
        read_baseline(path)
    write_baseline(path, kept)
    text = path.read_text()
    conflict = text.replace("seconds = ", "<<<<<<< ours\nseconds = ", 1)
    assert "baseline.toml:13: a merge left conflict markers" in refused(path, conflict)
    told = refused(path, text.replace("schema = 1", "schema = 2"))
    assert "has schema 2, and this version of warplens reads schema 1; restore it with git, or delete it" in told
    assert "says no schema" in refused(path, text.replace("schema = 1", ""))
    told = refused(path, text.replace("seconds = ", "second = "))
    assert "is no baseline (KeyError: 'seconds'); restore it with git" in told
    told = refused(path, text.replace("[machines]", "[machines"))
    assert "not valid TOML" in told and "restore it with git" in told


def test_other_versions_and_machines_are_refused_and_another_compiler_told(tmp_path, kept, gpu):
    path = tmp_path / "baseline.toml"
    assert mismatches(kept, [gpu], COMPILER, path) == []
    (note,) = mismatches(kept, [gpu], "NVRTC 14.0", path)
    assert note == "the baseline was compiled by NVRTC 13.3, this is NVRTC 14.0: changes may be the compiler's"
    with pytest.raises(FileError, match=r"was written by warplens 0\.0\.1, and this is"):
        mismatches(replace(kept, version="0.0.1"), [gpu], COMPILER, path)
    said = rf"was written by warplens (\S+) with code 0123, and this is \1 with code {kept.code}: "
    with pytest.raises(FileError, match=said):
        mismatches(replace(kept, code="0123"), [gpu], COMPILER, path)
    with pytest.raises(FileError, match="the description of h200 has changed since"):
        mismatches(kept, [with_overrides(gpu, {"sms": 100})], COMPILER, path)
