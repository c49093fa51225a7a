"""Energy of a launch: static power over the predicted time, and what instructions and bytes add.

    joules = T · (idle + (active − idle) · f/f0 · v²)
           + v² · (Σ instructions · pJ + (L1, L2 bytes) · pJ/B + L2 requests · pJ) + DRAM bytes · pJ/B

T is what a model predicts; the counts are those of the workload. v is the supply
voltage over that at the nominal clock f0, 1 + slope · (f/f0 − 1): dynamic energy on
the chip follows its square, DRAM's does not follow the core's clock. Energies come
from micro-benchmarks of the machine (`power.*`), never from the kernels predicted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import MachineError
from ..machine import INSTRUCTION_CLASSES, Gpu, with_overrides
from ..workload import Facts, Needs, Workload, analyse, bank_cycles
from .base import Array, Model, solve
from .prediction import Prediction

_NEEDED_BY = "the energy"
#: Clocks over the nominal one at which a launch is predicted.
_RATIOS = np.linspace(0.4, 1.0, 13)


@dataclass(frozen=True)
class Energy:
    """Joules of one launch at the machine's clock, and over lower clocks."""

    joules: float
    watts: float
    parts: Mapping[str, float]
    """Joules by cause: static, instructions, L1, L2 and DRAM."""
    clock_hz: Array
    seconds: Array
    over_clocks: Array
    """Joules at each clock of `clock_hz`."""
    limit_watts: float | None
    #: Whether the machine says how its voltage follows the clock; if not, no clock can be the best.
    voltage_known: bool = True

    @property
    def least_energy_hz(self) -> float | None:
        return float(self.clock_hz[np.argmin(self.over_clocks)]) if self.voltage_known else None

    @property
    def least_product_hz(self) -> float | None:
        """The clock with the least energy-delay product."""
        return float(self.clock_hz[np.argmin(self.over_clocks * self.seconds)]) if self.voltage_known else None

    @property
    def limited_hz(self) -> float | None:
        """The highest clock that the power limit allows; the lowest looked at where it allows none."""
        if self.limit_watts is None:
            return None
        watts = np.maximum.accumulate(self.over_clocks / self.seconds)
        return float(np.interp(self.limit_watts, watts, self.clock_hz))

    def to_dict(self) -> dict[str, Any]:
        return {
            "joules": self.joules,
            "watts": self.watts,
            "parts": dict(self.parts),
            "least_energy_hz": self.least_energy_hz,
            "least_energy_delay_hz": self.least_product_hz,
            "limit_watts": self.limit_watts,
            "limited_hz": self.limited_hz,
            "over_clocks": {
                "clock_hz": self.clock_hz.tolist(),
                "seconds": self.seconds.tolist(),
                "joules": self.over_clocks.tolist(),
            },
        }


def over_clocks(workload: Workload, gpu: Gpu, model: Model, clock_hz: Array) -> tuple[Array, Array] | None:
    """(Seconds, joules) of a launch at each clock; None where the machine gives no power or the mix is unknown."""
    if gpu.power.active_watts is None or not workload.offers("instruction_mix"):
        return None
    added = _added_joules(analyse(workload, gpu, Needs("instruction_mix"), _NEEDED_BY), solve(workload, gpu, model))
    seconds = np.asarray(solve(workload, with_overrides(gpu, {"clock": clock_hz}), model).seconds)
    return seconds, np.asarray(sum(_parts(gpu, clock_hz, seconds, added).values()))


def energy_of(workload: Workload, gpu: Gpu, model: Model, prediction: Prediction) -> Energy | None:
    """Energy of a launch that a model predicts; None where the machine gives no power or the mix is unknown."""
    if gpu.power.active_watts is None or not workload.offers("instruction_mix"):
        return None
    added = _added_joules(analyse(workload, gpu, Needs("instruction_mix"), _NEEDED_BY), prediction)
    clocks = _RATIOS * gpu.nominal_clock_hz
    lower = solve(workload, with_overrides(gpu, {"clock": clocks}), model)
    curve = sum(_parts(gpu, clocks, lower.seconds, added).values())
    parts = {name: float(part) for name, part in _parts(gpu, gpu.clock_hz, prediction.seconds, added).items()}
    joules = sum(parts.values())
    limit = gpu.power.limit_watts
    watts = joules / float(prediction.seconds)
    known = gpu.power.voltage_slope is not None
    return Energy(joules, watts, parts, clocks, np.asarray(lower.seconds), np.asarray(curve), limit, known)


def require_power(gpu: Gpu) -> None:
    """Refuse `clock = "power"` for a machine that does not say what its kernels draw."""
    if gpu.power.active_watts is None or gpu.power.limit_watts is None:
        raise MachineError(
            f'machine {gpu.name!r}: clock = "power" needs its energies and its power limit ([power]), which the file '
            'does not give; name a clock, for example "base" or 1.2GHz'
        )


def at_power_limit(workload: Workload, gpu: Gpu, model: Model) -> Gpu:
    """The machine at the clock that its power limit sustains for a kernel, as `clock = "power"` asks."""
    require_power(gpu)
    found = energy_of(workload, gpu, model, solve(workload, gpu, model))
    if found is None:
        raise MachineError(f'{workload.name}: clock = "power" needs the instructions of the kernel: give a trace')
    return with_overrides(gpu, {"clock": found.limited_hz})


def _parts(gpu: Gpu, clock: Any, seconds: Any, added: Mapping[str, float]) -> dict[str, Any]:
    """Joules by cause at a clock."""
    power, ratio = gpu.power, clock / gpu.nominal_clock_hz
    squared = (1.0 + (power.voltage_slope or 0.0) * (ratio - 1.0)) ** 2
    idle = power.idle_watts or 0.0
    static = seconds * (idle + (power.active_watts - idle) * ratio * squared)
    scale = {"instructions": squared, "L1": squared, "L2": squared, "DRAM": np.ones_like(squared)}
    return {"static": static} | {name: added[name] * factor for name, factor in scale.items()}


def _added_joules(facts: Facts, prediction: Prediction) -> dict[str, float]:
    """What instructions and bytes add at the nominal clock."""
    power, mix = facts.gpu.power, facts.mix
    executed = float(prediction.ipc * prediction.cycles)
    held = bank_cycles(facts)
    picojoules = 0.0
    for name, entry in mix.entries.items():
        each = power.instruction_picojoules(name) or 0.0
        passes = held.get(name, 1.0) * INSTRUCTION_CLASSES[name].of_parent
        picojoules += entry.count / mix.total * each * passes
    joules = {"instructions": executed * picojoules * 1e-12}
    each = {
        "L1": power.l1_picojoules_per_byte,
        "L2": power.llc_picojoules_per_byte,
        "L2 requests": power.llc_picojoules_per_request,
        "DRAM": power.dram_picojoules_per_byte,
    }
    moved = _moved_per_instruction(facts)
    found = {name: executed * moved.get(name, 0.0) * (one or 0.0) * 1e-12 for name, one in each.items()}
    return joules | {"L1": found["L1"], "L2": found["L2"] + found["L2 requests"], "DRAM": found["DRAM"]}


def _moved_per_instruction(facts: Facts) -> dict[str, float]:
    """Bytes touched in the L1, moved behind it and behind the L2, and requests to the L2, per warp instruction."""
    if facts.traced is None:
        return {}
    misses, count = facts.traced.misses, facts.traced.warp.recorded_instructions
    left = misses.dirty_left * misses.transfer_bytes  # goes to DRAM after the launch, at its expense
    dram = float(misses.dram_read_bytes + misses.dram_write_bytes + left)
    touched, moved = (float(each * misses.transfer_bytes) for each in (misses.l1_accesses, misses.llc_accesses))
    requests = float(misses.packets_per_execution @ misses.executed)
    return {"L1": touched / count, "L2": moved / count, "L2 requests": requests / count, "DRAM": dram / count}
