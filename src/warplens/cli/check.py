"""`warplens check`"""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from . import completion
from .check_history import show_bisection, show_history
from .common import WIDTH, cleaned_up, print_json, say, warn, wrapped
from .options import FILE, gpus_option, json_option, pattern_of
from .progress import waiting

if TYPE_CHECKING:
    from ..gate import CheckResult, Scope, Verdict

#: Rows of the table; of a larger project only what changed is shown.
MOST_ROWS = 40
_KERNEL, _GPU, _TIME = 22, 12, 18
_COMMITS = 20


def _part(context: click.Context, parameter: click.Parameter, text: str | None) -> float | None:
    from ..gate.project import part_of

    try:
        return None if text is None else part_of(text)
    except ValueError as error:
        raise click.UsageError(f"--fail-above {error}") from None


@dataclass(frozen=True)
class _Outputs:
    """Files for other tools, by the option that asks for them."""

    summary: Path | None
    sarif: Path | None
    gitlab: Path | None
    junit: Path | None
    github: bool

    @classmethod
    def option_names(cls) -> list[str]:
        return [each.name for each in fields(cls)]

    def write(self, result: CheckResult) -> None:
        """Write what was asked for; with --github, annotations go to stdout and the summary to the job's."""
        from ..gate.formats import code_quality, junit, markdown, sarif, workflow_commands

        wanted = (
            (self.summary, lambda: markdown(result)),
            (self.sarif, lambda: json.dumps(sarif(result), indent=1, allow_nan=False) + "\n"),
            (self.gitlab, lambda: json.dumps(code_quality(result), indent=1, allow_nan=False) + "\n"),
            (self.junit, lambda: junit(result)),
        )
        for path, text in wanted:
            if path is not None:
                _write(path, text())
        if self.github:
            for line in workflow_commands(result):
                click.echo(line)
            if job := os.environ.get("GITHUB_STEP_SUMMARY"):
                with Path(job).open("a", encoding="utf-8") as file:
                    file.write(markdown(result))


def _write(path: Path, text: str) -> None:
    from ..errors import FileError

    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise FileError(f"{path}: cannot be written ({error.strerror or error})") from None


@click.command()
@click.argument("paths", nargs=-1, metavar="[PATH]...", shell_complete=completion.inputs)
@click.option("--baseline", type=FILE, help="Compare with this file (default: warplens-baseline.toml).")
@click.option("--update", is_flag=True, help="Write the baseline instead of comparing with it.")
@click.option("--against", metavar="REF", help="Compare with another git revision instead.")
@gpus_option
@click.option("--fail-above", metavar="5%", callback=_part, help="Slower by more than this fails (default: 5%).")
@click.option("--kernel", metavar="REGEX", help="Only kernels whose name matches.")
@click.option("--github", is_flag=True, help="Print annotations for GitHub, and write its job summary.")
@click.option("--summary", type=FILE, help="Write a summary in Markdown.")
@click.option("--sarif", type=FILE, help="Write a SARIF file, for code scanning.")
@click.option("--gitlab", type=FILE, help="Write a code quality report for GitLab.")
@click.option("--junit", type=FILE, help="Write JUnit XML.")
@click.option("--history", "draws_history", is_flag=True, help="Predict the last commits, and draw their times.")
@click.option(
    "--commits", type=click.IntRange(1), default=_COMMITS, show_default=True, help="--history: number of commits."
)
@click.option("-o", "--output", type=FILE, default=Path("history.html"), help="--history: the page to write.")
@click.option("--bisect", "range_", metavar="GOOD..BAD", help="Find the commit that made a kernel slower.")
@json_option
def check(paths: tuple[str, ...], as_json: bool, **given: Any) -> None:
    """Tell whether kernels became slower, without a GPU.

    PATH is a workload file, a trace, or a folder that holds them; without PATH,
    those that the project names. They are predicted and compared with a
    committed baseline, or with another revision. Exit 0: as fast or faster; 1: a kernel is slower
    than --fail-above allows; 2: bad usage or input. Settings come from
    [tool.warplens.check] in pyproject.toml or [check] in warplens.toml.
    """
    click.get_current_context().with_resource(cleaned_up())  # checked out revisions
    outputs = _Outputs(**{name: given.pop(name) for name in _Outputs.option_names()})
    _check_usage(given, outputs, as_json)
    from ..gate import load_project, scope_of
    from ..gate.project import near

    project = load_project(Path.cwd())
    limit = project.fail_above if given["fail_above"] is None else given["fail_above"]
    pattern = None if given["kernel"] is None else pattern_of(given["kernel"])
    scope = scope_of(project, paths, given["gpus"], pattern)
    if given["draws_history"]:
        show_history(scope, given["commits"], given["output"], as_json)
        return
    if given["range_"]:
        sys.exit(show_bisection(scope, given["range_"], limit, as_json))
    baseline = given["baseline"] or near(project.root / project.baseline)
    if given["update"]:
        _update(scope, baseline, as_json)
        return
    result = _checked(scope, baseline, given["against"], limit)
    outputs.write(result)
    if as_json:
        print_json(result.to_dict())
    else:
        _show(result)
    if result.failing:
        sys.exit(1)


def _check_usage(given: dict[str, Any], outputs: _Outputs, as_json: bool) -> None:
    modes = {"--update": given["update"], "--against": given["against"], "--history": given["draws_history"]}
    modes["--bisect"] = given["range_"]
    chosen = [name for name, value in modes.items() if value]
    if len(chosen) > 1:
        raise click.UsageError(f"{' and '.join(chosen)} do not go together")
    if given["baseline"] and chosen and chosen != ["--update"]:
        raise click.UsageError(f"--baseline and {chosen[0]} do not go together")
    if given["update"] and given["kernel"]:
        raise click.UsageError("--update takes whole inputs: name their files instead of --kernel")
    if outputs.github and as_json:
        raise click.UsageError("--github and --json both write to stdout: use one of them")


def _checked(scope: Scope, baseline: Path, against: str | None, limit: float) -> CheckResult:
    from ..gate import check_baseline, check_revision

    with waiting("predicting") as report:
        if against:
            return check_revision(scope, against, limit, report)
        return check_baseline(scope, baseline, limit, report)


def _update(scope: Scope, baseline: Path, as_json: bool) -> None:
    from ..api import JSON_SCHEMA
    from ..gate import update_baseline

    with waiting("predicting") as report:
        found = update_baseline(scope, baseline, report)
    if as_json:
        print_json({"schema": JSON_SCHEMA, "baseline": str(baseline), "verdicts": [each.to_dict() for each in found]})
        return
    _table([each for each in found if each.outcome != "same"])
    counts = Counter(each.outcome for each in found)
    there = len(found) - counts["removed"]
    removed = f", {counts['removed']} removed" if counts["removed"] else ""
    entries = f"{there} entr{'y' if there == 1 else 'ies'}, {counts['same']} as before{removed}"
    wrapped(f"{baseline}: {entries}; commit it with the change that explains it")


# -- for people --------------------------------------------------------------------------


def _show(result: CheckResult) -> None:
    from ..gate import words

    changed = [each for each in result.verdicts if each.outcome != "same"]
    _table(list(result.verdicts) if len(result.verdicts) <= MOST_ROWS else changed)
    for verdict in result.failing:
        say("")
        wrapped(words.headline(verdict), style="bold red")
        for cause in verdict.causes:
            wrapped(cause.text, "   ", 5)
        if verdict == result.worst and result.advice is not None:
            wrapped(f"{result.advice.text} {result.advice.remedy}", f"   {result.advice.rule}: ", 5)
    say("")
    wrapped(words.summary(result), style="red" if result.failing else "green")
    for note in result.notes:
        warn(note)


def _table(verdicts: list[Verdict]) -> None:
    """A row for each kernel and GPU, within 80 columns."""
    if not verdicts:
        return
    say(f"{'kernel':<{_KERNEL}}{'GPU':<{_GPU}}{'time':<{_TIME}}change")
    for row in _rows(verdicts):
        say((row if len(row) <= WIDTH else row.partition(" (")[0])[:WIDTH])  # the range of a huge change


def _rows(verdicts: list[Verdict]) -> Iterator[str]:
    from ..formatting import show_name
    from ..gate import words

    for each in verdicts:
        kernel = show_name(str(each.identity), _KERNEL - 1)
        yield f"{kernel:<{_KERNEL}}{each.gpu[: _GPU - 1]:<{_GPU}}{words.times(each):<{_TIME}}{words.change(each)}"
