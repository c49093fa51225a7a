"""What a solved kernel is limited by: busy resources, occupancy, or latency."""

from __future__ import annotations

from ..categories import CATEGORIES
from ..formatting import show_share
from ..machine import Gpu, occupancy
from ..models.network import demand_config
from ..models.prediction import Prediction
from ..models.warplens_model import BOUND
from ..workload import Launch, Workload, resident
from ..workload.samples import block_sample
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
#: Functional units by the class of most of the instructions that fill them.
_UNITS = {
    "int32": "the integer units",
    "int32_mad": "the integer multipliers",
    "fp32": "the FP32 units",
    "fp64": "the FP64 units",
    "fp16": "the FP16 units",
    "sfu": "the special-function units",
    "conversion": "the conversion units",
    "tensor": "the tensor cores",
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
        return Limiter(light, busy, _busiest_unit(scene) if busiest == "units" else _NAMES[busiest])
    stack = scene.prediction.stack or {}
    waits = {name: part for name, part in stack.items() if name != "BASE"}
    worst = max(waits, key=waits.__getitem__) if waits else "DEP"
    who = "an SM" if CATEGORIES[worst].group == "idle" else "a warp"
    issue, wait = scene.share("BASE"), scene.share(worst)
    chasing = ", chasing pointers" if CATEGORIES[worst].group == "memory" and scene.chases_pointers else ""
    if issue > wait:
        doing = f"{who} {CATEGORIES['BASE'].sentence} {show_share(issue)} of the time"
        return Limiter(
            "latency",
            busy,
            "issue and latency",
            f"{doing}, and {CATEGORIES[worst].sentence} {show_share(wait)}{chasing}",
        )
    waiting = f"{who} {CATEGORIES[worst].sentence} {show_share(wait)} of the time{chasing}"
    return Limiter("latency", busy, "latency", waiting)


def _busiest_unit(scene: Scene) -> str:
    """The functional unit that instructions hold longest, by the class that holds it most."""
    if scene.workload.trace is None:
        return _NAMES["units"]
    with_machine_code = bool(getattr(scene.model, "machine_code", False))
    sample = block_sample(scene.facts, scene.gpu, "advice", scene.workload.is_ptx, machine_code=with_machine_code)
    units = demand_config(scene.gpu, sample.classes, "advice").units
    held: dict[str, dict[str, float]] = {}
    for name, counts in zip(sample.classes, sample.counts.T, strict=True):
        if name in units:
            unit, interval = units[name]
            held.setdefault(unit, {})[name] = float(counts @ sample.weight) * float(interval)
    most = max(held.values(), key=lambda classes: sum(classes.values()))
    by_class = max(most, key=most.__getitem__)
    return next((words for name, words in _UNITS.items() if by_class.startswith(name)), _NAMES["units"])


def places_of(gpu: Gpu, launch: Launch) -> int:
    """Thread blocks of a launch that the GPU can hold at a time."""
    shared, registers = launch.shared_memory_per_block_bytes or 0, launch.registers_per_thread or 0
    return int(gpu.sms) * int(occupancy(gpu, launch.threads_per_block or 1, registers, shared).blocks_per_sm)


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
