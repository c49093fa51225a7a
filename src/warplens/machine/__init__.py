"""GPU descriptions: schema, loading, overrides and occupancy."""

from .batches import distinct
from .classes import INSTRUCTION_CLASSES, InstructionClass, lineage
from .fields import Parameter
from .load import (
    SHORT_NAMES,
    compute_capabilities,
    find_parameter,
    gpu_names,
    gpu_of_values,
    load_gpu,
    machine_of_batch,
    split_override,
    with_overrides,
)
from .occupancy import Occupancy, carve_out, occupancy, warps_of_block
from .schema import Gpu, InstructionTiming, Quantity, parameters
from .sources import DEFAULT_SOURCE, Source

__all__ = [
    "DEFAULT_SOURCE",
    "INSTRUCTION_CLASSES",
    "SHORT_NAMES",
    "Gpu",
    "InstructionClass",
    "InstructionTiming",
    "Occupancy",
    "Parameter",
    "Quantity",
    "Source",
    "carve_out",
    "compute_capabilities",
    "distinct",
    "find_parameter",
    "gpu_names",
    "gpu_of_values",
    "lineage",
    "load_gpu",
    "machine_of_batch",
    "occupancy",
    "parameters",
    "split_override",
    "warps_of_block",
    "with_overrides",
]
