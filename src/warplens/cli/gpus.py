"""`warplens gpus`"""

from __future__ import annotations

from typing import Any

import click

from . import completion
from .common import console, escape, print_json, table
from .options import json_option, set_option


@click.command()
@click.argument("name", required=False, shell_complete=completion.gpus)
@set_option("Change a parameter before showing it.")
@json_option
def gpus(name: str | None, overrides: dict[str, Any], as_json: bool) -> None:
    """List the machine descriptions; NAME (or a .toml file) shows one, with the source of every number."""
    from ..machine import gpu_names, load_gpu

    if name is not None:
        _show_one(load_gpu(name, overrides), as_json)
        return
    if overrides:
        raise click.UsageError("--set needs the NAME of a machine")
    machines = [load_gpu(each) for each in gpu_names()]
    if as_json:
        print_json({"schema": 1, "gpus": [_headline(gpu) for gpu in machines]})
        return
    numbers = ("SMs", "clock", "warps/SM", "DRAM")
    overview = table("", ("gpu", *numbers, "description"), right=numbers)
    for gpu in machines:
        overview.add_row(escape(gpu.name), *_headline_text(gpu), escape(gpu.description))
    console().print(overview)
    console().print("All numbers of a machine and their sources: warplens gpus NAME")


def _headline(gpu: Any) -> dict[str, Any]:
    return {
        "name": gpu.name,
        "description": gpu.description,
        "sms": gpu.sms,
        "clock_hz": gpu.clock_hz,
        "max_warps": gpu.max_warps,
        "dram_bandwidth_bytes_per_s": gpu.dram.bandwidth_bytes_per_s,
    }


def _headline_text(gpu: Any) -> tuple[str, ...]:
    from ..units import format_number

    return (
        format_number(gpu.sms, None),
        format_number(gpu.clock_hz, "hz"),
        format_number(gpu.max_warps, None),
        format_number(gpu.dram.bandwidth_bytes_per_s, "bytes_per_s"),
    )


def _show_one(gpu: Any, as_json: bool) -> None:
    from ..machine import DEFAULT_SOURCE, parameters
    from ..units import format_number

    full = gpu.with_defaults
    described = {_section(path) for path in gpu.sources}  # defaults of other sections say nothing of the machine
    known = [p for path, p in parameters().items() if full.get(path) is not None and _section(path) in described]
    if as_json:
        rows = [
            {
                "key": p.key,
                "path": p.path,
                "value": full.get(p.path),
                "unit": p.unit,
                "source": vars(gpu.sources.get(p.path, DEFAULT_SOURCE)),
                "doc": p.doc,
            }
            for p in known
        ]
        print_json({"schema": 1, "name": gpu.name, "description": gpu.description, "parameters": rows})
        return
    title = escape(f"{gpu.name}: {gpu.description}")
    details = table(title, ("key", "value", "source", "where from"), right=("value",))
    for p in known:
        source = gpu.sources.get(p.path, DEFAULT_SOURCE)
        details.add_row(p.key, escape(format_number(full.get(p.path), p.unit)), source.kind, escape(source.text))
    console().print(details)


def _section(path: str) -> str:
    return path.rpartition(".")[0]
