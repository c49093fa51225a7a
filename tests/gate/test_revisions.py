"""Git: revisions are checked out aside, and what is wrong is said."""

from __future__ import annotations

import pytest

from warplens.errors import InputError
from warplens.gate.revisions import Repository

from .making import SCALE, STRIDED, commit, git, make_project


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = make_project(tmp_path_factory.mktemp("project"))
    (made / "kernels" / "scale.cu").write_text(STRIDED)
    commit(made, "Stride")
    return made


def test_a_revision_is_checked_out_beside_and_goes_again(folder):
    repository = Repository.around(folder / "kernels")
    assert repository.root == folder
    with repository.checked_out(repository.commit("HEAD~1")) as place:
        assert (place / "kernels" / "scale.cu").read_text() == SCALE
        assert (folder / "kernels" / "scale.cu").read_text() == STRIDED
    assert not place.exists()
    assert len(list((folder / ".git").glob("worktrees/*"))) == 0


def test_submodules_are_checked_out_too(tmp_path):
    library = make_project(tmp_path / "library")
    folder = make_project(tmp_path / "with a space")
    git(folder, "-c", "protocol.file.allow=always", "submodule", "add", "--quiet", str(library), "third party")
    commit(folder, "Take a library")
    git(folder / "third party", "checkout", "--quiet", "--detach")
    (folder / "third party" / "kernels" / "scale.cu").write_text(STRIDED)
    commit(folder / "third party", "Stride")
    commit(folder, "Take the next")
    repository = Repository.around(folder)
    for name, text in (("HEAD", STRIDED), ("HEAD~1", SCALE)):
        with repository.checked_out(repository.commit(name)) as place:
            assert (place / "third party" / "kernels" / "scale.cu").read_text() == text
    with repository.checked_out(repository.commit("HEAD~2")) as place:
        assert not (place / "third party").exists()
    for each in (folder / ".git", folder / ".git" / "modules" / "third party"):
        assert not list(each.glob("worktrees/*"))


def test_commits_come_the_oldest_first(folder):
    repository = Repository.around(folder)
    assert [each.subject for each in repository.commits("HEAD")] == ["Start", "Stride"]
    assert [each.subject for each in repository.commits("HEAD~1..HEAD")] == ["Stride"]
    assert len(repository.commits("HEAD", 1)) == 1


def test_changes_that_are_not_committed_are_seen(folder):
    repository = Repository.around(folder)
    assert not repository.is_dirty
    (folder / "kernels" / "scale.cu").write_text(SCALE)
    assert repository.is_dirty
    git(folder, "checkout", "--quiet", "--", ".")


@pytest.mark.parametrize("name", ["nothing", "--help", "HEAD:kernels"])
def test_unknown_revisions_are_refused(folder, name):
    with pytest.raises(InputError, match="revision"):
        Repository.around(folder).commit(name)


def test_without_git_the_remedy_is_a_baseline(tmp_path, folder, monkeypatch):
    with pytest.raises(InputError, match="lies in no git repository"):
        Repository.around(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InputError, match="git is not installed"):
        Repository.around(folder)
