"""Names that the shell completes: machines, models, rules, kernels of the suite and of traces, bundled examples."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import click
from click.shell_completion import CompletionItem

Completer = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


def _completed(names: Callable[[], Iterable[str]], *, files: bool = False) -> Completer:
    """Completes names that are worked out when the shell asks; with `files`, the shell adds those."""

    def complete(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
        found = [CompletionItem(name) for name in names() if name.startswith(incomplete)]
        return [*found, *([CompletionItem(incomplete, type="file")] if files else [])]

    return complete


def _gpus() -> list[str]:
    from ..machine import gpu_names

    return gpu_names()


def _models() -> list[str]:
    from ..models import model_names

    return [*model_names(), "all"]


def _rules() -> list[str]:
    """Each rule is a file; importing them all would take longer than one waits for the shell."""
    files = (Path(__file__).parents[1] / "explanation" / "rules").glob("[a-z]*.py")
    return sorted(path.stem.replace("_", "-") for path in files)


def _kernels() -> list[str]:
    from ..suite.catalog import SUITE

    return list(SUITE)


def _examples() -> list[str]:
    from ..workload import example_names

    return example_names()


gpus = _completed(_gpus, files=True)
models = _completed(_models)
kernels = _completed(_kernels)
inputs = _completed(_examples, files=True)


def models_or_rules(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Of `warplens models`: with --rules its names are rules."""
    return _completed(_rules if context.params.get("rules") else _models)(context, parameter, incomplete)


def recorded_kernels(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Kernels of the traces that the command names before --kernel."""
    from ..errors import WarplensError
    from ..formatting import bare_name
    from ..traces import read_trace

    found: set[str] = set()
    for path in (*(context.params.get("inputs") or ()), *context.args):
        try:
            headers = [launch.header for launch in read_trace(path)] if path.endswith(".wlt") else []
            found |= {bare_name(each.extra.get("readable_name", each.kernel)) for each in headers}
        except WarplensError:
            continue  # the command itself says what is wrong with the file
    return _completed(lambda: sorted(found))(context, parameter, incomplete)
