"""Settings and the search for inputs."""

from __future__ import annotations

import pytest

from warplens.errors import FileError, InputError
from warplens.gate.project import Project, load_project, part_of

from .making import LAUNCH, SETTINGS


def test_settings_of_either_file_are_found_from_below(tmp_path):
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    (tmp_path / ".git").mkdir()
    assert load_project(inner) == Project(inner)
    (tmp_path / "pyproject.toml").write_text('[tool.warplens.check]\ngpus = ["a100"]\nfail_above = "3%"\n')
    assert load_project(inner) == Project(tmp_path, gpus=("a100",), fail_above=0.03)
    (tmp_path / "a" / "warplens.toml").write_text(SETTINGS)
    found = load_project(inner)
    assert found == Project(tmp_path / "a", ("kernels",), ("h200",))
    assert found.folder == "a"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("gpu = ['h200']", "warplens.toml:2: gpu: unknown key; did you mean 'gpus'?"),
        ("gpus = 'h200'", 'warplens.toml:2: gpus: must be a list of names, such as ["h100"]'),
        ("fail_above = 'much'", "fail_above: 'much' is not a part of the time, such as 5% or 0.05"),
        ("fail_above = 5", "fail_above: '5' must lie between 0 and 100 %, written 5% or 0.05"),
        ("baseline = 3", "baseline: must name a file that ends in .toml"),
    ],
)
def test_bad_settings_are_refused_with_their_place(tmp_path, line, message):
    (tmp_path / "warplens.toml").write_text(f"[check]\n{line}\n")
    with pytest.raises(FileError) as caught:
        load_project(tmp_path)
    assert message in str(caught.value)


def test_inputs_are_workload_files_and_traces(tmp_path):
    for name, text in (
        ("kernels/scale.toml", LAUNCH),
        ("kernels/recorded.wlt", ""),
        ("kernels/notes.toml", "[tool]\n"),
        ("build/scale.toml", LAUNCH),
        (".venv/scale.toml", LAUNCH),
        ("numbers.toml", "[instruction_mix]\ncomp = 4\n"),
    ):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    project = Project(tmp_path)
    names = [path.relative_to(tmp_path).as_posix() for path in project.inputs()]
    assert names == ["kernels/recorded.wlt", "kernels/scale.toml", "numbers.toml"]
    assert project.inputs([str(tmp_path / "numbers.toml")]) == [tmp_path / "numbers.toml"]
    assert len(Project(tmp_path, ("kernels/*.toml", "kernels/scale.toml")).inputs()) == 2
    with pytest.raises(InputError, match="nothing: no such file or folder"):
        project.inputs(["nothing"])
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="holds no workload file"):
        Project(tmp_path, ("empty",)).inputs()


def test_parts():
    assert part_of("5%") == part_of("0.05") == part_of(" 5 %") == pytest.approx(0.05)
