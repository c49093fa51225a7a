"""The third-party simulator's cycle counts (data/accelsim): kernels, configurations and what each changes."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "data" / "accelsim"
GPU = "accelsim-mdm"

#: What each configuration changes in the machine `accelsim-mdm`. The flit width sets the bandwidth of the NoC and of
#: the SMs' ports (README of the data).
CONFIGURATIONS: dict[str, dict[str, Any]] = {
    "base": {},
    "mshr32": {"l1.mshrs": 32},
    "mshr64": {"l1.mshrs": 64},
    "mshr256": {"l1.mshrs": 256},
    "dram240": {"dram.bandwidth": "240GB/s"},
    "dram960": {"dram.bandwidth": "960GB/s"},
    "noc525": {"noc.bandwidth": "525GB/s", "noc.sm_bandwidth": "21.875GB/s"},
    "noc2100": {"noc.bandwidth": "2100GB/s", "noc.sm_bandwidth": "87.5GB/s"},
    "sm14": {"sms": 14},
    "sm56": {"sms": 56},
    "lrr": {"scheduler": "lrr"},
}


@dataclass(frozen=True)
class Measured:
    """One run of the simulator. L1 counts include stores."""

    configuration: str
    kernel: str
    cycles: int
    l1_accesses: int
    l1_misses: int
    llc_accesses: int
    llc_misses: int
    simulator_cpu_seconds: float

    @property
    def l1_miss_ratio(self) -> float:
        return self.l1_misses / self.l1_accesses

    @property
    def llc_miss_ratio(self) -> float:
        return self.llc_misses / self.llc_accesses


@cache
def measurements() -> Mapping[tuple[str, str], Measured]:
    """All runs by (configuration, kernel)."""
    found = {}
    with (FOLDER / "accelsim.csv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            found[row["config"], row["kernel"]] = Measured(
                configuration=row["config"],
                kernel=row["kernel"],
                cycles=int(row["cycles"]),
                l1_accesses=int(row["l1_accesses"]),
                l1_misses=int(row["l1_misses"]),
                llc_accesses=int(row["l2_accesses"]),
                llc_misses=int(row["l2_misses"]),
                simulator_cpu_seconds=float(row["sim_cpu_s"]),
            )
    return found


def kernels() -> list[str]:
    """Names of the kernels, in the order of the data."""
    return list(dict.fromkeys(kernel for _, kernel in measurements()))


def trace_path(kernel: str) -> Path:
    return FOLDER / "traces" / kernel / "kernelslist.g"
