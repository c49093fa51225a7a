"""`warplens characterize`"""

from __future__ import annotations

import json
import statistics
from pathlib import Path
from typing import Any

import click

from ..errors import FileError
from ..formatting import show_share
from .common import console, print_json, say, show_number, table, warn, wrapped
from .options import json_option
from .progress import waiting

#: Numbers of a measurement that differ by more from those that ship are named, up to so many.
FAR, MOST_FAR = 0.1, 8


@click.command()
@click.option(
    "-o",
    "--output",
    required=True,
    type=click.Path(dir_okay=False, path_type=Path),
    help="Machine description to write (.toml); the raw data go beside it (.raw.json).",
)
@click.option("--from", "source", metavar="RAW.json|h200", help="Use the raw data of an earlier run; needs no GPU.")
@click.option("--base", metavar="NAME|FILE", help="Supplies what cannot be measured; default: this card, else h200.")
@click.option("--name", help="Name of the machine (default: the name of the output file).")
@click.option("--device", type=click.IntRange(min=0), default=0, show_default=True, help="Number of the GPU.")
@click.option(
    "--energy",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Power of micro-benchmarks (benchmarks/h200/measure_energy.py): adds energies.",
)
@click.option("--plots", type=click.Path(file_okay=False, path_type=Path), help="Draw the raw data into this folder.")
@click.option("--force", is_flag=True, help="Overwrite the files.")
@json_option
def characterize(
    output: Path,
    source: str | None,
    base: str | None,
    name: str | None,
    device: int,
    energy: Path | None,
    plots: Path | None,
    force: bool,
    as_json: bool,
) -> None:
    """Measure the GPU in this machine and write its description.

    Micro-benchmarks measure instruction latency and throughput, the issue
    limit, and latency and bandwidth of the memory system. The description says
    how each value was measured. The GPU's settings stay as they are.
    `--from h200` rebuilds the shipped description from its raw data.
    """
    from ..characterize.energy import read_energy
    from ..characterize.machine_file import bundled, differences, machine_toml, read_raw, shipped_card, summary
    from ..characterize.observations import observations
    from ..machine import load_gpu

    if output.suffix != ".toml":
        raise click.UsageError(f"{output}: the name of a machine description ends in .toml")
    beside = output.with_suffix(".raw.json")
    for path in (output,) if source else (output, beside):
        if path.exists() and not force:
            raise click.UsageError(f"{path}: exists; give another name, or --force to overwrite it")
    if source is None:
        raw = _measured(device)
    else:
        found = bundled(source)
        raw = read_raw(found.raw if found else Path(source))
        base = base or (str(found.base) if found else None)
    if energy is not None:
        raw["energy"] = read_energy(energy, raw["provenance"]["gpu"])
    card = shipped_card(raw)
    machine = load_gpu(base or card or "h200")
    text = machine_toml(raw, machine, name or output.stem)
    try:
        if source is None:
            beside.write_text(json.dumps(raw, separators=(",", ":")) + "\n", "utf-8")
        output.write_text(text, "utf-8")
    except OSError as error:
        raise FileError(f"{error.filename}: cannot be written ({error.strerror})") from None
    load_gpu(str(output))  # what was written can be read
    pictures: list[Path] = []
    if plots is not None:
        from ..characterize.plots import draw_all

        pictures = draw_all(raw, plots)
    document = {
        "schema": 1,
        "output": str(output),
        "raw": None if source else str(beside),
        "plots": [str(path) for path in pictures],
        "provenance": raw["provenance"],
        "base": machine.name,
        "measured": summary(raw, machine),
        "observed": [each.to_dict() for each in observations(raw)],
        "shipped": card,
        "differences": [] if card is None else [vars(each) for each in differences(raw, load_gpu(card))],
    }
    if as_json:
        print_json(document)
    else:
        _show(document)


def _measured(device: int) -> dict[str, Any]:
    from ..characterize.measure import LEAST_L2_BYTES, REPORTS, measure

    with waiting("measuring the GPU") as progress:
        done = iter(range(REPORTS))
        raw = measure(
            "warplens characterize -o gpu.toml",
            ordinal=device,
            report=lambda _: progress(next(done, REPORTS), REPORTS),
        )
    if raw["device"]["l2_bytes"] < LEAST_L2_BYTES:
        warn(
            f"the L2 cache is smaller than {LEAST_L2_BYTES >> 20} MiB: some benchmarks that should stay in L2 do not"
        )
    return raw


def _show(document: dict[str, Any]) -> None:
    origin = document["provenance"]
    out = console()
    clock = " / ".join(f"{value / 1e9:.3f}" for value in origin["sm_clock_hz"])
    where = f"{origin['gpu']}, driver {origin['driver']}, {origin['date']}"
    say(f"{where}, SM clock {clock} GHz, {origin['seconds']:.0f} s")
    numbers = ("measured", f"base ({document['base']})")
    view = table("", ("parameter", *numbers), right=numbers)
    for row in document["measured"]:
        view.add_row(row["path"], _cell(row["value"]), _cell(row["base"]))
    out.print(view)
    if document["observed"]:
        more = table("", ("also measured, for no model yet", "value", "unit"), right=("value",))
        for row in document["observed"]:
            more.add_row(row["what"], show_number(row["value"]), row["unit"])
        out.print(more)
    if document["shipped"]:
        wrapped(_difference(document["shipped"], document["differences"]))
    say(f"How each was measured: warplens gpus {document['output']}")
    for path in (document["output"], document["raw"], *document["plots"]):
        if path:
            say(path)


def _difference(card: str, rows: list[dict[str, Any]]) -> str:
    """How far the measurement is from the description that ships."""
    apart = [abs(row["measured"] / row["other"] - 1.0) for row in rows]
    far = [row for row, each in zip(rows, apart, strict=True) if each > FAR]
    text = (
        f"Beside the shipped {card}: {len(rows)} numbers, {show_share(statistics.median(apart))} apart in the median"
    )
    if not far:
        return f"{text}, none by over {show_share(FAR)}."
    told = "; ".join(
        f"{row['path']} {_cell(row['measured'])}, shipped {_cell(row['other'])}" for row in far[:MOST_FAR]
    )
    return f"{text}, {len(far)} by over {show_share(FAR)}: {told}{'; …' if len(far) > MOST_FAR else ''}."


def _cell(value: Any) -> str:
    if value is None:
        return "—"
    return value if isinstance(value, str) else show_number(value)
