"""Machines of the settings in which the figures' kernels run, whole or in part."""

from __future__ import annotations

from functools import cache

from warplens.machine import Gpu, load_gpu, with_overrides

from ..validate import accelsim
from ..validate.recorded import GPUMECH_GPU, settings

#: Small inputs fill this part of a machine.
PARTS_OF = {accelsim.GPU: 14, GPUMECH_GPU: 8}


@cache
def machine_of(setting: str, part: bool = False) -> Gpu:
    """The machine of a setting, or the part of it that small inputs fill."""
    chosen = settings()[setting]
    gpu = with_overrides(load_gpu(chosen.gpu), chosen.changes)
    if not part:
        return gpu
    less = PARTS_OF[chosen.gpu]
    banks, channels = (max(1, round(float(count) / less)) for count in (gpu.llc.banks, gpu.dram.channels))
    return with_overrides(
        gpu,
        {
            "sms": max(1, round(float(gpu.sms) / less)),
            "noc.bandwidth": gpu.noc.bandwidth_bytes_per_s / less,
            "llc.banks": banks,
            "llc.size": gpu.llc.size_bytes / gpu.llc.banks * banks,
            "dram.channels": channels,
            "dram.bandwidth": gpu.dram.bandwidth_bytes_per_s / less,
        },
    )
