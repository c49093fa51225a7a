"""Power and energy of a machine, as measured or published."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .classes import lineage
from .fields import number


def _energy(what: str) -> Any:
    return number(f"energy of {what} in pJ, at the nominal clock", minimum=0.0)


@dataclass(frozen=True)
class Power:
    """Where a GPU's energy goes. Energies are dynamic: what an instruction or a byte adds to `active_watts`."""

    idle_watts: Any = number("power with nothing to run", minimum=0.0)
    active_watts: Any = number("power with warps on all SMs that issue nothing, at the nominal clock", minimum=0.0)
    limit_watts: Any = number("power limit, which lowers the clock where it is reached", above=0.0)
    voltage_slope: Any = number(
        "relative change of the supply voltage over that of the clock: 0 is fixed, 1 proportional", minimum=0.0
    )
    comp_picojoules: Any = _energy("a warp instruction that has no number of its own")
    int32_picojoules: Any = _energy("a warp's 32-bit integer instruction")
    fp32_picojoules: Any = _energy("a warp's single-precision instruction")
    fp64_picojoules: Any = _energy("a warp's double-precision instruction")
    fp16_picojoules: Any = _energy("a warp's half-precision instruction")
    sfu_picojoules: Any = _energy("a warp's special function")
    tensor_picojoules: Any = _energy("a warp's matrix product m16n8k16")
    conversion_picojoules: Any = _energy("a warp's conversion between types")
    shared_picojoules: Any = _energy("a warp's access to shared memory, without bank conflicts")
    mem_picojoules: Any = _energy("a warp's access to global memory, besides its bytes")
    l1_picojoules_per_byte: Any = _energy("a byte of the sectors that an access touches in the L1")
    llc_picojoules_per_byte: Any = _energy("a byte between L1 and L2")
    llc_picojoules_per_request: Any = _energy("a request to the L2, for sectors of a line, besides its bytes")
    dram_picojoules_per_byte: Any = _energy("a byte between L2 and DRAM")

    def instruction_picojoules(self, instruction_class: str) -> Any:
        """Energy of one warp instruction: that of its class or of the nearest ancestor that has one, or None."""
        values = (getattr(self, f"{name}_picojoules", None) for name in lineage(instruction_class))
        return next((value for value in values if value is not None), None)
