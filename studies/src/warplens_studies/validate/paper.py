"""What the text of mdm-micro2020 (§V) says about its Figs. 5 to 9: the settings they vary, and the errors it states.

Its benchmarks, simulator (GPGPU-Sim 3.2) and SM counts differ from ours, so compare
trends, not numbers.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Sweep:
    """One of Figs. 6 to 9: mean error of the divergent kernels over one parameter."""

    figure: str
    title: str
    settings: dict[str, str]
    """Labels of the axis, with the corresponding configuration of the data."""


SWEEPS = (
    Sweep("mdm-fig6", "NoC bandwidth", {"525 GB/s": "noc525", "1050 GB/s": "base", "2100 GB/s": "noc2100"}),
    Sweep("mdm-fig7", "DRAM bandwidth", {"240 GB/s": "dram240", "480 GB/s": "base", "960 GB/s": "dram960"}),
    Sweep("mdm-fig8", "L1 MSHRs", {"32": "mshr32", "64": "mshr64", "128": "base", "256": "mshr256"}),
    Sweep("mdm-fig9", "SMs", {"14": "sm14", "28": "base", "56": "sm56"}),
)

#: Models of the figures, and the form of three of them whose queues take requests capped by the MSHRs.
MODELS = ("gpumech", "gpumech-plus", "mdm-queue", "mdm-mshr", "mdm")
CAPPED = ("gpumech[mshr-capped]", "gpumech-plus[mshr-capped]", "mdm-queue", "mdm-mshr[mshr-capped]", "mdm")
TITLES = dict(zip(MODELS, ("GPUMech", "GPUMech+", "MDM-Queue", "MDM-MSHR", "MDM"), strict=True))


@dataclass(frozen=True)
class Stated:
    """A mean error that the text states. `configuration` is the nearest of our data."""

    figure: str
    model: str
    setting: str
    configuration: str
    divergent: bool | None
    percent: float


STATED = (
    Stated("Fig. 5", "gpumech", "MD", "base", True, 298),
    Stated("Fig. 5", "gpumech-plus", "MD", "base", True, 131),
    Stated("Fig. 5", "mdm-queue", "MD", "base", True, 63),
    Stated("Fig. 5", "mdm-mshr", "MD", "base", True, 60.3),
    Stated("Fig. 5", "mdm", "MD", "base", True, 18),
    Stated("Fig. 5", "gpumech", "NMD", "base", False, 9),
    Stated("Fig. 5", "mdm", "NMD", "base", False, 9),
    Stated("Fig. 5", "gpumech", "all", "base", None, 162),
    Stated("Fig. 5", "mdm", "all", "base", None, 13.9),
    Stated("Fig. 8", "gpumech", "MD, 32 MSHRs", "mshr32", True, 98),
    Stated("Fig. 8", "gpumech", "MD, 256 MSHRs", "mshr256", True, 317),
    Stated("Fig. 8", "gpumech-plus", "MD, 128 MSHRs", "base", True, 124),
    Stated("Fig. 8", "gpumech-plus", "MD, 256 MSHRs", "mshr256", True, 133),
    Stated("Fig. 9", "gpumech", "MD, 15 SMs, ours 14", "sm14", True, 124),
    Stated("Fig. 9", "gpumech", "MD, 80 SMs, ours 56", "sm56", True, 450),
)
