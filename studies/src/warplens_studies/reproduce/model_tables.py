"""Tables that list models, their inputs and their CPI categories: the papers' entries and where ours are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from warplens.analysis import InstructionMix
from warplens.api import load_workload, predict
from warplens.machine import INSTRUCTION_CLASSES, parameters
from warplens.models import MODELS
from warplens.models.papers import GPUMECH, HONG_KIM, LEMEIRE, MDM

from ..validate.paper import TITLES
from .base import OUR_MODELS, OUR_WORKLOADS, Cell, Claim, Findings, recipe
from .drawing import AGREES, DIFFERS, table_picture
from .hong_kim import ITERATIONS, MICRO_BENCHMARKS
from .hong_kim_merge import BENCHMARKS, TILE_SIDES, TILED, tiled_matrix_product
from .machine_tables import side_by_side


def _table2_mix() -> InstructionMix:
    mix = load_workload("hong-kim-table2").mix
    assert mix is not None
    return mix


#: Tables of a workload file that provide the inputs in Hong & Kim's and Lemeire's lists.
_WORKLOAD = {
    "launch.threads_per_block": lambda: load_workload("hong-kim-table2").launch.threads_per_block,
    "launch.blocks": lambda: load_workload("hong-kim-table2").launch.blocks,
    "launch.blocks_per_sm": lambda: load_workload("hong-kim-table2").launch.blocks_per_sm,
    "instruction_mix": lambda: load_workload("hong-kim-table2").mix,
    "instruction_mix: uncoalesced": lambda: _table2_mix().uncoalesced_count or None,
    "instruction_mix: synchronizations": lambda: _table2_mix().synchronizations or None,
    "dependence_graph": lambda: load_workload("lemeire-example").graph,
}


def _listed(
    rows: Sequence[tuple[str, str, bool]], columns: tuple[str, str], claim: str, remarks: Sequence[str] = ()
) -> Findings:
    """Printed entries and the place of ours; the flag says whether it was found there."""
    found = sum(there for *_, there in rows)

    def draw(plt: Any) -> Any:
        fills = {(index, 1): AGREES if there else DIFFERS for index, (*_, there) in enumerate(rows)}
        cells = [[printed, ours] for printed, ours, _ in rows]
        widths = [0.3 + 0.083 * max(len(row[i]) for row in [list(columns), *cells]) for i in range(2)]
        return table_picture(plt, columns, cells, widths=widths, fills=fills)

    return Findings(
        columns=(*columns, "found"),
        rows=tuple((printed, ours, "yes" if there else "no") for printed, ours, there in rows),
        draw=draw,
        claims=(Claim(claim, found == len(rows), f"{found} of {len(rows)}"),),
        remarks=tuple(remarks),
    )


def _place_exists(place: str) -> bool:
    if place in _WORKLOAD:
        return _WORKLOAD[place]() is not None
    return place in {parameter.key for parameter in parameters().values()} or place in INSTRUCTION_CLASSES


# -- Hong & Kim ----------------------------------------------------------------------------

#: Table 1: the origin of each parameter here; a derived parameter names the model's term.
TABLE1 = {
    "Threads_per_warp": "warp_size",
    "Issue_cycles": "instructions.comp.interval",
    "Freq": "clock",
    "Mem_Bandwidth": "dram.bandwidth",
    "Mem_LD": "dram.latency",
    "Departure_del_uncoal": "dram.departure_uncoalesced",
    "Departure_del_coal": "dram.departure_coalesced",
    "Threads_per_block": "launch.threads_per_block",
    "Blocks": "launch.blocks",
    "Active_SMs": "sms",
    "Active_blocks_per_SM": "launch.blocks_per_sm",
    "Active_warps_per_SM (N)": "term W",
    "Total_insts": "instruction_mix",
    "Comp_insts": "instruction_mix",
    "Mem_insts": "instruction_mix",
    "Uncoal_Mem_insts": "instruction_mix: uncoalesced",
    "Coal_Mem_insts": "instruction_mix: uncoalesced",
    "Synch_insts": "instruction_mix: synchronizations",
    "Uncoal_per_mw": "dram.uncoalesced_transactions",
    "Load_bytes_per_warp": "l1.line",
}


@recipe(
    "hong-kim-table1",
    HONG_KIM,
    "Table 1: model parameters",
    "where a machine or workload file gives each parameter of the model",
    data=OUR_MODELS,
)
def hong_kim_table1() -> Findings:
    terms = predict("hong-kim-table2", model="mwp-cwp").terms

    def there(place: str) -> bool:
        return place.removeprefix("term ") in terms if place.startswith("term ") else _place_exists(place)

    return _listed(
        [(name, place, there(place)) for name, place in TABLE1.items()],
        ("parameter", "ours"),
        "every parameter of the model has a place in our files, or is worked out",
        ("Coal_per_mw is 1 by definition; Active_SMs is all SMs unless there are fewer blocks",),
    )


@recipe(
    "hong-kim-table4",
    HONG_KIM,
    "Table 4: the micro-benchmarks",
    "instructions of a loop, printed and in our workload files",
    data=OUR_WORKLOADS,
)
def hong_kim_table4() -> Findings:
    printed = {"Mb1": (0, 23), "Mb2": (1, 17), "Mb3": (1, 29), "Mb4": (2, 27), "Mb5": (2, 35), "Mb6": (4, 47)}
    printed["Mb7"] = (6, 59)
    rows: list[tuple[str, str, Cell, Cell]] = []
    for name in MICRO_BENCHMARKS:
        mix = load_workload(f"{name.lower()}-uncoalesced").mix
        assert mix is not None
        rows.append((name, "memory instructions per loop", printed[name][0], mix.memory_count / ITERATIONS))
        rows.append((name, "computations per loop", printed[name][1], mix.compute_count / ITERATIONS))
    return side_by_side(rows, "benchmark", claim="our workload files hold what the table prints")


#: Table 5: computations, memory instructions, registers, bytes of shared memory.
TABLE5: Mapping[str, tuple[float, float, int, int]] = {
    "Sepia": (71, 6, 7, 52),
    "Linear": (111, 30, 15, 60),
    "SVM": (10871, 819, 9, 44),
    "Mat.(naive)": (12043, 4001, 10, 88),
    "Blackscholes": (137, 7, 11, 36),
}
#: Mat.(tiled) depends on the tile; Table 5 prints both ends.
TABLE5_TILED = {"computations": (9780, 24580), "memory instructions": (201, 1001)}


@recipe(
    "hong-kim-table5",
    HONG_KIM,
    "Table 5: the Merge benchmarks",
    "instruction counts, registers and shared memory, printed and in our workload files",
    data=OUR_WORKLOADS,
)
def hong_kim_table5() -> Findings:
    rows: list[tuple[str, str, Cell, Cell]] = []
    for name, (computations, memory, registers, shared) in TABLE5.items():
        workload = load_workload(BENCHMARKS[name][0])
        mix, launch = workload.mix, workload.launch
        assert mix is not None
        rows += [
            (name, "computations", computations, mix.compute_count),
            (name, "memory instructions", memory, mix.memory_count),
            (name, "registers", registers, launch.registers_per_thread),
            (name, "shared memory [B]", shared, launch.shared_memory_per_block_bytes),
        ]
    mixes = [tiled_matrix_product(side).mix for side in (max(TILE_SIDES), min(TILE_SIDES))]
    for index, end in enumerate(("least", "most")):
        mix = mixes[index]
        assert mix is not None
        rows.append((TILED, f"computations, {end}", TABLE5_TILED["computations"][index], mix.compute_count))
        rows.append((TILED, f"memory, {end}", TABLE5_TILED["memory instructions"][index], mix.memory_count))
    return side_by_side(rows, "benchmark", claim="our workload files hold what the table prints")


# -- GPUMech and MDM -----------------------------------------------------------------------


@recipe(
    "gpumech-table2",
    GPUMECH,
    "Table II: evaluated models",
    "which of our models stands for each",
    data=OUR_MODELS,
)
def gpumech_table2() -> Findings:
    ours = {
        "Naive_Interval": "naive-interval",
        "Markov_Chain": "markov-chain",
        "MT": "gpumech-mt",
        "MT_MSHR": "gpumech-mt-mshr",
        "MT_MSHR_BAND (GPUMech)": "gpumech",
    }
    rows = [(name, model, model in MODELS) for name, model in ours.items()]
    return _listed(rows, ("model of the paper", "ours"), "each is one of our models")


@recipe(
    "gpumech-table3",
    GPUMECH,
    "Table III: stall types of CPI stacks",
    "the categories of our stacks of GPUMech against the printed ones",
    data=OUR_MODELS,
)
def gpumech_table3() -> Findings:
    printed = {
        "instruction issue cycles": "BASE",
        "compute dependencies": "DEP",
        "L1 hits": "L1",
        "L2 hits": "L2",
        "DRAM access latency": "DRAM",
        "MSHR queueing delay": "MSHR",
        "DRAM queueing delay": "QUEUE",
    }
    categories = MODELS["gpumech"].categories or ()
    rows = [(f"{text} ({name})", name, name in categories) for text, name in printed.items()]
    extra = sorted(set(categories) - set(printed.values()))
    return _listed(
        rows,
        ("stall type", "ours"),
        "our stacks have these categories",
        (f"GPUMech's stack here has no other category{': ' + ', '.join(extra) if extra else ''}; MDM's adds NOC",),
    )


#: Table V: queue model and MSHR model, distinguished by the terms of a divergent interval.
TABLE_V = {
    "GPUMech": ("GPUMech", "GPUMech"),
    "GPUMech+": ("GPUMech with NoC", "GPUMech w/ queue"),
    "MDM-Queue": ("MDM", "GPUMech w/ queue"),
    "MDM-MSHR": ("GPUMech with NoC", "MDM"),
    "MDM": ("MDM", "MDM"),
}


@recipe(
    "mdm-table5",
    MDM,
    "Table V: evaluated performance models",
    "which queue and MSHR model each of ours has, found from its stack on a divergent interval",
    data="mdm-baseline, the Table III machine with one divergent interval",
)
def mdm_table5() -> Findings:
    stacks = {title: predict("mdm-baseline", model=name).stack or {} for name, title in TITLES.items()}
    noc = {stacks["GPUMech+"]["NOC"]: "GPUMech with NoC", stacks["MDM"]["NOC"]: "MDM"}

    def mshr_model(stack: Mapping[str, float]) -> str:
        latency, queues = stack["L2"] + stack["DRAM"], stack.get("NOC", 0.0) + stack["QUEUE"]
        # 16 batches: the others wait for 15 (M-6), or for half of that on average (G-19).
        found = {15.0: "MDM", 7.5: "GPUMech w/ queue"}.get(round(stack["MSHR"] / (latency + queues), 6))
        return found or {7.5: "GPUMech"}.get(round(stack["MSHR"] / latency, 6), "another")

    rows: list[tuple[str, str, Cell, Cell]] = []
    for title, (queues, mshrs) in TABLE_V.items():
        rows.append((title, "memory/NoC model", queues, noc.get(stacks[title].get("NOC", 0.0), "GPUMech")))
        rows.append((title, "MSHR model", mshrs, mshr_model(stacks[title])))
    return side_by_side(
        rows,
        "scheme",
        claim="our models combine the parts as the table says",
        remarks=(
            "the queue model is told by the NOC term, the MSHR model by the term's ratio to the time of a miss: 15 "
            "of 16 batches with queues (MDM), half with queues (GPUMech w/ queue), half without (GPUMech)",
        ),
    )


# -- Lemeire et al. ------------------------------------------------------------------------


@recipe(
    "lemeire-table1",
    LEMEIRE,
    "Table 1: model classes",
    "which of our models belong to each class",
    data=OUR_MODELS,
)
def lemeire_table1() -> Findings:
    ours = {
        "Roofline (Williams et al.; Boat Hull; Konstantinidis and Cotronis)": ("roofline",),
        "Volkov (Volkov; Transit; X-model)": ("volkov", "transit"),
        "MWP-CWP (Hong and Kim; GPUPerf)": ("mwp-cwp", "mwp-cwp-corrected", "gpuperf"),
        "WFG (Baghsorkhi et al.)": ("wfg", "wfg-corrected"),
        "GPUMech (Huang et al.; MDM)": ("gpumech", "gpumech-rr-corrected", "mdm-cal2019", "mdm"),
    }
    rows = [(text, ", ".join(names), all(name in MODELS for name in names)) for text, names in ours.items()]
    return _listed(
        rows,
        ("class and its members", "ours"),
        "each class has its main model here",
        ("Boat Hull and X-model are not among our models: we have no text of their equations",),
    )


@recipe(
    "lemeire-table3",
    LEMEIRE,
    "Table 3: inputs of the Pipeline model",
    "where a machine or workload file, or an option, gives each input",
    data=OUR_MODELS,
)
def lemeire_table3() -> Findings:
    ours = {
        "IDG of each warp": "dependence_graph",
        "group size": "launch.threads_per_block",
        "concurrent groups γ": "launch.blocks_per_sm",
        "warps per core Ω": "launch.blocks",
        "subsystem set S": "instructions.comp.subsystem",
        "scheduler σ": "scheduler",
        "issue limit IL": "issue_width",
        "mapper f: λ": "instructions.comp.interval",
        "mapper f: Λ": "instructions.comp.latency",
        "mapper g (context)": "dram.bandwidth",
    }
    return _listed(
        [(text, place, _place_exists(place)) for text, place in ours.items()],
        ("input", "ours"),
        "every input of the model has a place in our files",
        ("the context-dependent mapper g is the cache simulation: λ and Λ of a memory instruction follow from it",),
    )
