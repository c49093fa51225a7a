"""Profiles answer as the traces they were made of, and say what they do not know."""

from __future__ import annotations

import json
import lzma

import numpy as np
import pytest

from warplens.api import predict
from warplens.errors import FileError, MissingInputError
from warplens.machine import load_gpu, with_overrides
from warplens.models import GENERAL_MODELS as MODELS
from warplens.suite.execution import run_on_cpu
from warplens.workload import workload_of_trace
from warplens.workload.profiled import profile_of_trace, read_profiles, write_profiles
from warplens.workload.traced import cache_misses


@pytest.fixture(scope="module")
def trace():
    return run_on_cpu("spmv_csr", "small", record=True).trace


@pytest.fixture(scope="module")
def path(trace, tmp_path_factory):
    profile = profile_of_trace(trace)
    for name in MODELS:
        predict(profile, load_gpu("h200"), name)
    path = tmp_path_factory.mktemp("profiles") / "some.xz"
    write_profiles(path, {"spmv": profile}, {"made by": "a test"})
    return path


def test_every_model_says_the_same(trace, path):
    profiles, about = read_profiles(path)
    assert about == {"made by": "a test"} and path.stat().st_size < 200_000
    workload = workload_of_trace(trace)
    for gpu in (load_gpu("h200"), with_overrides(load_gpu("h200"), {"dram.bandwidth": "2TB/s", "clock": "1.2GHz"})):
        for name in MODELS:
            ours, theirs = (predict(each, gpu, name) for each in (profiles["spmv"], workload))
            assert ours.cycles == theirs.cycles and ours.stack == theirs.stack, name
            assert ours.warnings == theirs.warnings, name


def test_other_caches_need_the_trace(path):
    profile = read_profiles(path)[0]["spmv"]
    gpu = with_overrides(load_gpu("h200"), {"l1.size": "64KiB"})
    with pytest.raises(MissingInputError, match="lacks 'misses' for these residents and caches"):
        predict(profile, gpu, "mdm")
    with pytest.raises(MissingInputError, match="needs the trace itself"):
        predict(profile, load_gpu("h200"), "pipeline", options={"warps": "all"})


def rewritten(path, to, change):
    """A file whose index is another."""
    content = lzma.decompress(path.read_bytes())
    size = int.from_bytes(content[:8], "little")
    index = json.dumps(change(json.loads(content[8 : 8 + size]))).encode()
    to.write_bytes(lzma.compress(len(index).to_bytes(8, "little") + index + content[8 + size :]))
    return to


@pytest.mark.parametrize(
    ("said", "lacks"),
    [({"schema": 1}, ("crowds", "stores")), ({"schema": 2, "lacks": ["crowds"]}, ("crowds",))],
)
def test_counts_that_a_file_says_it_lacks_are_none(trace, path, tmp_path, said, lacks):
    """Files of schema 1 have no place for them."""
    other = rewritten(path, tmp_path / "other.xz", lambda index: {**index, **said})
    profile = read_profiles(other)[0]["spmv"]
    found, whole = (cache_misses(each, load_gpu("h200")) for each in (profile, workload_of_trace(trace)))
    assert not found.arrival("bank_ahead").any() and not found.arrival("channel_ahead").any()
    assert np.array_equal(found.arrival("llc_left"), whole.arrival("llc_left")) and found.arrival("llc_left").any()
    write_profiles(tmp_path / "again.xz", {"spmv": profile}, {})
    assert read_profiles(tmp_path / "again.xz")[0]["spmv"].results.lacks == lacks


def test_entries_made_before_hashed_sets_serve_and_say_so(trace, path, tmp_path):
    """Their names lack what they were not made for."""

    def older(index):
        for launch in index["launches"].values():
            launch["entries"] = {older_name(name): entry for name, entry in launch["entries"].items()}
        return index

    def older_name(name):
        kind, *rest = json.loads(name)
        if kind == "misses":
            rest = [{key: value for key, value in rest[0].items() if key not in ("l1_hashed", "merge_lines")}]
        return json.dumps([kind, *rest])

    profile = read_profiles(rewritten(path, tmp_path / "older.xz", older))[0]["spmv"]
    assert profile.results.lacks == ("stores",)
    assert (
        cache_misses(profile, load_gpu("h200")).l1_accesses
        == cache_misses(workload_of_trace(trace), load_gpu("h200")).l1_accesses
    )


def test_a_file_that_lacks_what_nobody_knows_is_refused(path, tmp_path):
    other = rewritten(path, tmp_path / "other.xz", lambda index: {**index, "lacks": ["loads"]})
    with pytest.raises(FileError, match="lack loads"):
        read_profiles(other)


@pytest.mark.parametrize("content", [b"", b"no profile", None])
def test_other_files_are_refused(tmp_path, content):
    path = tmp_path / "other.xz"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(FileError, match=r"other\.xz"):
        read_profiles(path)
