"""What a solved kernel is limited by: busy resources, occupancy, or latency."""

from __future__ import annotations

from ..categories import CATEGORIES
from ..formatting import show_share
from ..machine import Gpu, occupancy
from ..models.prediction import Prediction
from ..models.warplens_model import BOUND
from ..workload import Workload, resident
from .answer import Limiter, Occupancy
from .scene import Scene

#: Speed-of-light figures by the model's resources.
_LIGHT = {"compute": ("issue", "units"), "l1": ("L1",), "l2": ("NoC", "NoC_SM"), "dram": ("DRAM",)}
_NAMES = {
    "issue": "issue slots",
    "units": "a functional unit",
    "L1": "L1 throughput",
    "NoC_SM": "the SM's port to the L2",
    "NoC": "L2 throughput",
    "DRAM": "DRAM bandwidth",
}


def speed_of_light(prediction: Prediction) -> dict[str, float]:
    """Busy parts of compute, L1, L2 and DRAM."""
    terms = prediction.terms
    return {name: max(float(terms[f"busy_{each}"]) for each in parts) for name, parts in _LIGHT.items()}


def limiter_of(scene: Scene) -> Limiter:
    """The busiest resource, or latency where none is busy."""
    terms = scene.prediction.terms
    busiest = max(_NAMES, key=lambda name: float(terms[f"busy_{name}"]))
    busy = float(terms[f"busy_{busiest}"])
    light = next(name for name, parts in _LIGHT.items() if busiest in parts)
    if busy >= BOUND:
        return Limiter(light, busy, _NAMES[busiest])
    stack = scene.prediction.stack or {}
    waits = {name: part for name, part in stack.items() if name != "BASE"}
    worst = max(waits, key=waits.__getitem__) if waits else "DEP"
    who = "an SM" if CATEGORIES[worst].group == "idle" else "a warp"
    waiting = f"{who} {CATEGORIES[worst].sentence} {show_share(scene.share(worst))} of the time"
    if CATEGORIES[worst].group == "memory" and scene.chases_pointers:
        waiting += ", chasing pointers"
    return Limiter("latency", busy, "latency", waiting)


def occupancy_of(workload: Workload, gpu: Gpu) -> Occupancy:
    """Resident warps over the most that fit, and what limits them."""
    launch = workload.launch
    found = resident(launch, gpu)
    achieved = float(found.warps_per_sm) / float(gpu.max_warps)
    if launch.threads_per_block is None or launch.blocks_per_sm is not None or launch.warps_per_sm is not None:
        return Occupancy(achieved, "given")
    fits = occupancy(
        gpu, launch.threads_per_block, launch.registers_per_thread or 0, launch.shared_memory_per_block_bytes or 0
    )
    if float(found.blocks_per_sm) < float(fits.blocks_per_sm):
        return Occupancy(achieved, "grid size")
    return Occupancy(achieved, fits.limiter)
