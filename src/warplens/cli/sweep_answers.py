"""Answers of `warplens sweep` besides its table: Pareto fronts, sensitivities, agreement of models, heat maps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click

from ..errors import InputError
from .common import console, say, show_cell, show_number, show_seconds, show_setting, table


@dataclass(frozen=True)
class Answers:
    """What was asked for."""

    costs: tuple[str, ...]
    sensitivity: bool
    agreement: bool
    heat: tuple[str, ...] | None
    plots: Path | None
    clocks: tuple[float, ...] | None = None
    """Clocks in Hz to show the energy at."""

    def check(self) -> None:
        """Refuse what cannot be answered before any work is done."""
        from ..sweeps.questions import parse_cost
        from ..sweeps.space import canonical_key

        for cost in self.costs:
            parse_cost(cost)
        if self.heat is not None:
            if len(self.heat) != 2:
                raise click.UsageError("--heat-map: write two parameters, for example sms,dram.bandwidth")
            for key in self.heat:
                canonical_key(key.strip())
        if self.plots is not None:
            from ..reports.style import pyplot

            pyplot()

    def find(self, result: Any, workloads: Sequence[Any], gpu: Any, overrides: Mapping[str, Any]) -> dict[str, Any]:
        """The answers as plain data; pictures are drawn on the way."""
        from ..sweeps import questions

        found: dict[str, Any] = {}
        models = list(dict.fromkeys(line["model"] for line in questions.fastest(result.table)))
        if self.costs:
            found["pareto"] = {model: self._front(result.table, model) for model in models}
        if self.agreement:
            found["agreement"] = [
                {name: None if value != value else value for name, value in asdict(each).items()}  # NaN: all are tied
                for each in questions.ranking_agreement(result.table)
            ]
        if self.sensitivity:
            found["sensitivity"] = [
                self._sensitivity(workload, gpu, overrides, model)
                for workload in workloads
                for model in models
                if model != "detailed"
            ]
        if self.clocks is not None:
            found["energy"] = [
                self._energy(workload, gpu, overrides, model)
                for workload in workloads
                for model in models
                if model != "detailed"
            ]
        if self.heat is not None and self.plots is not None:
            self._heat_maps(result.table, models)
        return found

    def _energy(self, workload: Any, gpu: Any, overrides: Mapping[str, Any], model: str) -> dict[str, Any]:
        from ..sweeps.local import clock_energy

        assert self.clocks is not None
        named = {"kernel": workload.name, "model": model}
        try:
            (found,) = clock_energy(workload, gpu, self.clocks, [model], overrides=overrides)
        except InputError as error:
            return named | {"error": str(error)}
        return named | {
            "clock_hz": list(self.clocks),
            "seconds": found.seconds.tolist(),
            "joules": found.joules.tolist(),
            "least_energy_hz": found.least_energy_hz,
            "least_energy_delay_hz": found.least_energy_delay_hz,
            "voltage_known": found.voltage_known,
        }

    def _front(self, rows: Any, model: str) -> list[dict[str, Any]]:
        from ..sweeps.questions import pareto_front

        if self.plots is not None:
            from ..reports.sweep import front

            front(rows, self.costs, model).save(self.plots / f"pareto-{model}.png")
        found = pareto_front(rows, self.costs, model)
        return [{key: value for key, value in row.items() if value is not None} for row in found.to_pylist()]

    def _sensitivity(self, workload: Any, gpu: Any, overrides: Mapping[str, Any], model: str) -> dict[str, Any]:
        from ..sweeps.local import limits, saturation_point, sensitivity

        try:
            found = sensitivity(workload, gpu, model, overrides=overrides)
            next_limits = limits(workload, gpu, model, overrides=overrides)
            saturation = saturation_point(workload, gpu, model, overrides=overrides)
        except InputError as error:  # a model that cannot run on one kernel still answers for the others
            return {"kernel": workload.name, "model": model, "error": str(error)}
        if self.plots is not None:
            from ..reports.sweep import Tornado

            view = Tornado(f"{workload.name}: {model}", tuple(found))
            view.save(self.plots / f"tornado-{workload.name}-{model}.png")
        return {
            "kernel": workload.name,
            "model": model,
            "parameters": [asdict(each) for each in found],
            "limits": [asdict(each) for each in next_limits],
            "saturation_warps": saturation.point,
        }

    def _heat_maps(self, rows: Any, models: Sequence[str]) -> None:
        from ..reports.sweep import heat_maps

        assert self.heat is not None and self.plots is not None
        x, y = (key.strip() for key in self.heat)
        for kernel in dict.fromkeys(rows.column("kernel").to_pylist()):
            heat_maps(rows, x, y, kernel, models).save(self.plots / f"heat-map-{kernel}.png")


def show_answers(found: Mapping[str, Any], keys: Sequence[str]) -> None:
    """The answers as tables."""
    for model, rows in found.get("pareto", {}).items():
        costs = [name for name in rows[0] if name.startswith("cost: ")] if rows else []
        view = table(
            f"Pareto front, {model}",
            ("configuration", "performance", *costs, *keys),
            right=("performance", *costs, *keys),
        )
        for row in rows:
            cells = [show_cell(row.get(name)) for name in ("configuration", "performance", *costs)]
            view.add_row(*cells, *(show_setting(key, row.get(key)) for key in keys))
        console().print(view)
    for each in found.get("sensitivity", ()):
        _show_sensitivity(each)
    for each in found.get("energy", ()):
        _show_energy(each)
    if "agreement" in found:
        numbers = ("Kendall τ", "Spearman ρ", "regret")
        view = table("agreement on the ranking of configurations", ("follow", "true model", *numbers), right=numbers)
        for pair in found["agreement"]:
            view.add_row(
                pair["one"], pair["other"], *(show_cell(pair[name]) for name in ("kendall", "spearman", "regret"))
            )
        console().print(view)


def _show_sensitivity(each: Mapping[str, Any]) -> None:
    title = f"{each['kernel']}: {each['model']}"
    if "error" in each:
        say(f"{title}: {each['error']}")
        return
    numbers = ("value", "elasticity", "speed at half", "speed at double")
    view = table(title, ("parameter", *numbers), right=numbers)
    for one in each["parameters"]:
        speeds = (show_cell(one[name]) for name in ("elasticity", "at_half", "at_double"))
        view.add_row(one["key"], show_setting(one["key"], one["value"]), *speeds)
    console().print(view)
    for step in each["limits"]:
        where = f" (most of the CPI: {step['category']})" if step["category"] else ""
        value = show_setting(step["key"], step["value"])
        say(f"next: {step['key']} to {value}: {step['gain']:.3g} times as fast{where}")
    say(f"{show_number(each['saturation_warps'])} warps per SM reach 95 % of the best IPC")


def _show_energy(each: Mapping[str, Any]) -> None:
    title = f"energy over clocks, {each['kernel']}: {each['model']}"
    if "error" in each:
        say(f"{title}: {each['error']}")
        return
    numbers = ("clock", "time", "energy", "power", "energy × time")
    view = table(title, (*numbers, "least"), right=numbers)
    for clock, seconds, joules in zip(each["clock_hz"], each["seconds"], each["joules"], strict=True):
        least = [
            what
            for what, at in (("energy", each["least_energy_hz"]), ("energy × time", each["least_energy_delay_hz"]))
            if clock == at
        ]
        view.add_row(
            show_setting("clock", clock),
            show_seconds(seconds),
            f"{show_number(joules * 1e3)} mJ",
            f"{joules / seconds:.0f} W",
            f"{show_number(joules * seconds * 1e9)} nJ·s",
            ", ".join(least),
        )
    console().print(view)
    if not each["voltage_known"]:
        say("the machine gives no power.voltage_slope: the voltage is the same at all clocks")
