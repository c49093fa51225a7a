"""`warplens check`: from nothing to a gate, and back to the commit that broke it."""

from __future__ import annotations

import os
import re
import signal

import pytest

from gate.making import LAUNCH, SCALE, SETTINGS, STRIDED, commit, git, make_project, result
from warplens.cli.check import _table

from .printed import document

#: The same kernel to a compiler: comments, names, order and lines differ.
NO_OPS = {
    "comment": SCALE.replace("int i =", "// the element\n    int i ="),
    "lines": "\n\n" + SCALE.replace("\n{\n", " {\n"),
    "names": re.sub(r"\bfactor\b", "a", re.sub(r"\bin\b", "values", SCALE)),
    "function": "__device__ int unused(int x) { return x + 1; }\n" + SCALE,
    "spaces": SCALE.replace("    ", "\t").replace(" * ", "*"),
}


@pytest.fixture
def project(tmp_path, monkeypatch):
    folder = make_project(tmp_path / "project")
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def source(project):
    return project / "kernels" / "scale.cu"


def test_a_baseline_is_written_kept_and_broken(project, source, good, warplens_command):
    assert "1 entry, 0 as before" in good("check", "--update").replace("\n", " ")
    text = (project / "warplens-baseline.toml").read_text()
    assert good("check").splitlines()[-1].startswith("1 the same; against the baseline")
    source.write_text(STRIDED)
    code, out, err = warplens_command("check")
    assert (code, err) == (1, "")
    assert max(map(len, out.splitlines())) <= 80
    assert re.search(r"^scale +h200 +[\d.]+ → [\d.]+ µs +\d+ % slower \(\d+ to \d+ %\)$", out, re.M)
    assert re.search(r"^ +sectors asked of the L1: ", out, re.M)
    assert re.search(r"^ +uncoalesced-loads: ", out, re.M)
    assert (project / "warplens-baseline.toml").read_text() == text
    assert warplens_command("check", "--fail-above", "1000%")[0] == 0
    assert document(good("check", "--update", "--json"))["verdicts"][0]["outcome"] == "slower"
    assert good("check")


def test_an_update_for_another_gpu_keeps_the_entries_of_those_of_the_project(project, good):
    good("check", "--update")
    assert "1 entry, 0 as before;" in good("check", "--update", "--gpu", "a100").replace("\n", " ")
    assert document(good("check", "--json"))["verdicts"][0]["outcome"] == "same"
    out = good("check", "--update").replace("\n", " ")
    assert "1 entry, 1 as before, 1 removed;" in out


def test_a_check_that_is_ended_leaves_no_checkout(project, monkeypatch, warplens_command):
    places = []

    def ended(scope, root, folder, progress):
        places.append(folder)
        os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr("warplens.gate.Scope.snapshots_before", ended)
    assert warplens_command("check", "--against", "HEAD")[0] == 143
    assert places and not places[0].exists() and not list((project / ".git").glob("worktrees/*"))


@pytest.mark.parametrize("edit", NO_OPS)
def test_edits_that_change_nothing_raise_no_alarm(source, good, edit):
    good("check", "--update")
    source.write_text(NO_OPS[edit])
    (found,) = document(good("check", "--json"))["verdicts"]
    assert found["outcome"] == "same"
    assert abs(found["change"]) < 1e-4  # the digits of a baseline


def test_another_revision_and_all_outputs(project, source, warplens_command):
    source.write_text(STRIDED)
    options = ("--sarif", "s.json", "--gitlab", "g.json", "--junit", "j.xml", "--summary", "s.md")
    code, out, _ = warplens_command("check", "--against", "HEAD", "--json", *options)
    found = document(out)
    assert code == 1 and found["failed"]
    assert found["notes"] == ["the working tree has uncommitted changes; they are part of what is checked"]
    assert {"stall", "line", "sectors"} <= {cause["kind"] for cause in found["verdicts"][0]["causes"]}
    assert found["advice"]["rule"] == "uncoalesced-loads"
    assert all((project / name).stat().st_size for name in options[1::2])


def test_a_kernel_that_moves_is_compared_with_what_it_was(project, warplens_command):
    (project / "kernels").rename(project / "math")
    (project / "math" / "scale.cu").write_text(STRIDED)
    (project / "warplens.toml").write_text(SETTINGS.replace("kernels", "math"))
    code, out, _ = warplens_command("check", "--against", "HEAD", "--json")
    found = document(out)
    assert (code, [each["outcome"] for each in found["verdicts"]]) == (1, ["slower"])
    assert "scale of math/scale.toml is compared with scale of kernels/scale.toml" in found["notes"]


def test_what_is_wrong_in_another_revision_is_told(project, source, good, bad):
    (project / "kernels" / "scale.h").write_text("int broken")
    source.write_text(f'#include "scale.h"\n{SCALE}')
    commit(project, "Break it")
    source.write_text(SCALE)
    told = bad("check", "--against", "HEAD")
    assert re.match(r"error: at HEAD: kernels/scale\.(cu|h):\d: ", told)
    (project / "kernels" / "twice.toml").write_text(LAUNCH)
    git(project, "add", "kernels/twice.toml", "kernels/scale.cu")
    git(project, "commit", "--quiet", "--message", "Launch it twice")
    (project / "kernels" / "scale.toml").write_text("")
    commit(project, "Break the file")
    (project / "kernels" / "scale.toml").write_text(LAUNCH)
    found = document(good("check", "--against", "HEAD", "--json"))
    assert [each["outcome"] for each in found["verdicts"]] == ["new", "same"]
    (note,) = (each for each in found["notes"] if "cannot be predicted" in each)
    assert note.startswith("kernels/scale.toml cannot be predicted at HEAD, so nothing is compared with it: kernels/")


def test_a_huge_change_fits_into_the_table(capsys):
    (found,) = result(40.0).verdicts
    _table([found])
    (row,) = capsys.readouterr().out.splitlines()[1:]
    assert row.endswith(" 4000 % slower")


def test_the_commit_that_made_a_kernel_slower_is_found(project, source, good, warplens_command):
    for number in range(2):
        (project / "README").write_text(str(number))
        commit(project, f"Write {number}")
    source.write_text(STRIDED)
    commit(project, "Stride the loads")
    source.write_text("broken")
    commit(project, "Break it")
    source.write_text(STRIDED)
    commit(project, "Mend it")
    code, out, _ = warplens_command("check", "--bisect", "HEAD~5..HEAD", "--kernel", "scale")
    assert code == 1
    assert "Stride the loads" in out.splitlines()[0]
    assert "no kernel is slower" in good("check", "--bisect", "HEAD~5..HEAD~3")
    code, _, err = warplens_command("check", "--bisect", "HEAD~5..HEAD", "--kernel", "softmax")
    assert (code, "no kernel of these commits has such a name" in err) == (2, True)
    text = good("check", "--history", "-o", "page.html", "--commits", "4")
    assert len(re.findall(r"^[0-9a-f]{7,8} +\d{4}-\d\d-\d\d  [█▏▎▍▌▋▊▉·]{24} ", text, re.M)) == 3
    assert max(map(len, text.splitlines())) <= 80
    page = (project / "page.html").read_text()
    assert "predicted time" in page
    assert "cannot be predicted: kernels/scale.toml:" in page


def test_what_cannot_be_checked_is_said(project, source, bad, good, usage):
    assert "there is no baseline yet" in bad("check")
    good("check", "--update")
    told = bad("check", "--kernel", "softmax")
    assert "--kernel softmax: no kernel has such a name; the project has scale" in told
    assert "no kernel of these commits has such a name" in bad("check", "--history", "--kernel", "softmax")
    (project / "kernels" / "scale.toml").rename(project / "kernels" / "double.toml")
    message = bad("check")
    assert "has scale of kernels/scale.toml, which the project lacks" in message
    assert "(renamed to scale of kernels/double.toml?)" in message
    assert "git knows no revision 'nothing'" in bad("check", "--against", "nothing")
    assert "write GOOD..BAD" in bad("check", "--bisect", "HEAD")
    source.write_text(SCALE.replace(";", ""))
    assert bad("check").startswith("error: kernels/scale.cu:4: ")
    assert "--update and --against do not go together" in usage("check", "--update", "--against", "HEAD")
    assert "--baseline and --against do not go together" in usage("check", "--baseline", "b", "--against", "HEAD")
    assert "--fail-above 'much' is not a part" in usage("check", "--fail-above", "much")
    assert "--github and --json" in usage("check", "--github", "--json")
