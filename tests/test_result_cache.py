"""Kept results: found again, never wrong, bounded, and safe for many writers."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import warplens
from warplens.result_cache import ResultCache, code_digest, open_results, result_key


@pytest.fixture
def kept(tmp_path):
    return ResultCache(tmp_path / "kept")


def test_values_come_back_as_they_were(kept):
    values = {
        "count": 3,
        "table": np.arange(6, dtype=np.int32).reshape(2, 3),
        "ratio": 1 / 3,
        "text": "warps",
        "sizes": (4, 5),
        "none": None,
        "flags": np.array([True, False]),
        "names": {"f": "_Z1fv"},
        "empty": np.zeros((0, 4)),
    }
    kept.put("ab12", values)
    found = kept.get("ab12")
    assert list(found) == list(values)
    for name, value in values.items():
        assert type(found[name]) is type(value)
        assert np.array_equal(found[name], value)
        if isinstance(value, np.ndarray):
            assert (found[name].dtype, found[name].shape) == (value.dtype, value.shape)


@dataclass(frozen=True)
class Caches:
    sets: float
    policy: str | None = None


@dataclass(frozen=True)
class OtherCaches:
    sets: float
    policy: str | None = None


def test_keys_tell_records_apart_and_not_how_a_count_is_written():
    key = result_key(Caches(14, "gto"), "trace")
    assert key == result_key(Caches(14.0, "gto"), "trace") == result_key(Caches(np.int64(14), "gto"), "trace")
    others = [Caches(15, "gto"), Caches(14), OtherCaches(14, "gto"), (Caches(14, "gto"),)]
    assert len({key, result_key(Caches(14, "gto"), "other"), *(result_key(each, "trace") for each in others)}) == 6
    assert result_key(Caches(True)) != result_key(Caches(1))


KEY = "from warplens.result_cache import result_key; print(result_key(('caches', 14)))"


def test_what_another_version_kept_is_not_found(tmp_path):
    """Any module of the package counts, also one that this test does not know."""
    package = tmp_path / "warplens"
    source = Path(warplens.__file__).parent
    shutil.copytree(source, package, ignore=shutil.ignore_patterns("__pycache__", "data", "kernels", "static"))

    def key() -> str:
        environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
        done = subprocess.run(
            [sys.executable, "-c", KEY], capture_output=True, text=True, check=True, env=environment, cwd=tmp_path
        )
        return done.stdout.strip()

    before = key()
    assert key() == before
    for name in ("analysis/_cache_kernels.py", "machine/occupancy.py", "units.py"):
        module = package / name
        text = module.read_text(encoding="utf-8")
        module.write_text(text + "\n# changed\n", encoding="utf-8")
        assert key() != before, name
        module.write_text(text, encoding="utf-8")
    assert key() == before


def test_a_folder_of_sources_has_a_digest_of_its_own(tmp_path):
    (tmp_path / "one.py").write_text("x = 1")
    digest = code_digest(tmp_path)
    assert digest != code_digest()
    code_digest.cache_clear()
    (tmp_path / "one.py").rename(tmp_path / "two.py")
    assert code_digest(tmp_path) != digest


def test_a_flipped_bit_is_noticed(kept):
    kept.put("ab12", {"x": np.arange(3), "text": "warps"})
    (path,) = kept.folder.glob("*/*.entry")
    raw = path.read_bytes()
    for place in range(len(raw)):
        path.write_bytes(raw[:place] + bytes([raw[place] ^ 1]) + raw[place + 1 :])
        found = kept.get("ab12")
        assert found is None or (found["x"].tolist() == [0, 1, 2] and found["text"] == "warps")


@pytest.mark.parametrize("damage", [b"", b"nonsense", b"\x00" * 100, b"{}\n", b"0\n[]\n", b"0\n"])
def test_a_damaged_entry_is_no_entry(kept, damage):
    kept.put("ab12", {"x": np.arange(3)})
    (path,) = kept.folder.glob("*/*.entry")
    path.write_bytes(damage)
    assert kept.get("ab12") is None
    kept.put("ab12", {"x": np.arange(4)})
    assert kept.get("ab12")["x"].tolist() == [0, 1, 2, 3]


def test_a_folder_that_cannot_be_written_to_costs_nothing_but_time(tmp_path):
    (tmp_path / "file").write_text("")
    kept = ResultCache(tmp_path / "file")
    kept.put("ab", {"x": np.arange(3)})
    assert kept.get("ab") is None


def test_the_least_recently_used_go_first(kept):
    kept.most_bytes = 10 * 2**20
    for number in range(8):
        kept.put(f"{number:02d}key", {"x": np.zeros(2**17)})  # 1 MiB each
        os.utime(kept.folder / f"{number:02d}" / f"{number:02d}key.entry", (number, number))
    assert kept.get("00key") is not None  # used just now, so it stays
    kept.most_bytes = 5 * 2**20
    kept.evict()
    left = sorted(path.stem for path in kept.folder.glob("*/*.entry"))
    assert left == ["00key", "05key", "06key", "07key"]


WRITER = """
import sys
import numpy as np
from pathlib import Path
from warplens.result_cache import ResultCache
kept = ResultCache(Path(sys.argv[1]), most_bytes=200_000)
for turn in range(200):
    for key in ("aa", "bb", "cc"):
        kept.put(key, {"x": np.full(2000, int(sys.argv[2]))})
        found = kept.get(key)
        assert found is None or len(set(found["x"].tolist())) == 1
"""


def test_many_writers_never_mix(tmp_path):
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path), str(number)]) for number in (1, 2)]
    assert [writer.wait(120) for writer in writers] == [0, 0]
    assert not list(tmp_path.glob("*/.*"))  # no half-written files are left


def test_a_folder_is_looked_through_now_and_then_whoever_opens_it(tmp_path, monkeypatch):
    """Not for every entry: it may hold thousands."""
    monkeypatch.setenv("WARPLENS_CACHE_DIR", str(tmp_path))
    looks = []
    monkeypatch.setattr(ResultCache, "evict", lambda self: looks.append(self))
    for number in range(5):
        open_results("made").put(f"{number:064x}", {"value": number})
    assert len(looks) == 1
    assert open_results("made").get(f"{4:064x}") == {"value": 4}
