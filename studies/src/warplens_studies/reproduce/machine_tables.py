"""Tables of machine parameters: what the papers print beside what our machine files hold."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from warplens.api import place
from warplens.machine import Gpu, load_gpu
from warplens.models.papers import GPUMECH, HONG_KIM, LEMEIRE, MDM, MDM_CAL
from warplens.workload import Needs, analyse

from .base import OUR_MACHINES, Cell, Claim, Findings, Recipe, Row, Table, recipe
from .drawing import AGREES, DIFFERS, table_picture
from .hong_kim import GPUS

FILLS: Mapping[Any, str] = {"yes": AGREES, "no": DIFFERS}
Reader = Callable[[Gpu], Cell]


def same(printed: Cell, ours: Cell) -> str:
    """yes or no; empty if the paper prints nothing."""
    if printed is None:
        return ""
    if isinstance(printed, str) or isinstance(ours, str) or ours is None:
        return "yes" if printed == ours else "no"
    return "yes" if math.isclose(printed, ours, rel_tol=1e-9) else "no"


def side_by_side(
    rows: Sequence[tuple[str, str, Cell, Cell]],
    of: str,
    *,
    assumptions: Sequence[str] = (),
    remarks: Sequence[str] = (),
    claim: str = "our machine files hold what the table prints",
    draw: Callable[[Any], Any] | None = None,
) -> Findings:
    """Printed and our values: (column of the paper's table, parameter, printed, ours)."""
    columns = (of, "parameter", "paper", "ours", "same")
    lines: list[Row] = [(*row, same(row[2], row[3])) for row in rows]
    verdicts = [line[4] for line in lines if line[4]]

    def picture(plt: Any) -> Any:
        cells = [[str(line[0]), str(line[1]), shown(line[2]), shown(line[3])] for line in lines]
        fills = {(index, 3): FILLS[line[4]] for index, line in enumerate(lines) if line[4]}
        widths = [0.12 + 0.085 * max(len(row[column]) for row in [list(columns[:4]), *cells]) for column in range(4)]
        return table_picture(plt, columns[:4], cells, widths=widths, fills=fills)

    return Findings(
        columns=columns,
        rows=tuple(lines),
        draw=draw or picture,
        claims=(
            Claim(claim, set(verdicts) == {"yes"}, f"{verdicts.count('yes')} of {len(verdicts)} values are the same"),
        ),
        assumptions=tuple(assumptions),
        remarks=tuple(remarks),
        summary=Table(columns[:4], tuple(line[:4] for line in lines)),
    )


def shown(value: Cell) -> str:
    if value is None:
        return "–"
    return value if isinstance(value, str) else f"{value:.6g}"


def _register(name: str, paper: Any, title: str, compares: str) -> Callable[[Callable[[], Findings]], Recipe]:
    return recipe(name, paper, title, compares, data=OUR_MACHINES)


def _transposed(
    printed: Mapping[str, Sequence[Cell]], readers: Mapping[str, Reader], machines: Mapping[str, str]
) -> list[tuple[str, str, Cell, Cell]]:
    """Rows of a table whose columns are machines; each row's reader gives our value for a machine."""
    return [
        (label, row, values[column], readers[row](load_gpu(name)))
        for column, (label, name) in enumerate(machines.items())
        for row, values in printed.items()
    ]


# -- Hong & Kim ----------------------------------------------------------------------------

TABLE3: dict[str, tuple[Cell, ...]] = {
    "SMs": (16, 16, 14, 30),
    "processor cores": (128, 128, 112, 240),
    "processor clock [GHz]": (1.35, 1.35, 1.5, 1.3),
    "memory bandwidth [GB/s]": (86.4, 76.8, 57.6, 141.7),
    "Uncoal_per_mw": (32, 32, 32, None),
}


@_register(
    "hong-kim-table3",
    HONG_KIM,
    "Table 3: the GPUs of the study",
    "SMs, cores, clock, bandwidth and transactions of four GPUs, printed and in our machine files",
)
def hong_kim_table3() -> Findings:
    readers: dict[str, Reader] = {
        "SMs": lambda gpu: gpu.sms,
        "processor cores": lambda gpu: gpu.sms * gpu.warp_size / gpu.timing("comp").interval_cycles,
        "processor clock [GHz]": lambda gpu: gpu.clock_hz / 1e9,
        "memory bandwidth [GB/s]": lambda gpu: gpu.dram.bandwidth_bytes_per_s / 1e9,
        "Uncoal_per_mw": lambda gpu: gpu.dram.uncoalesced_transactions,
    }
    return side_by_side(
        _transposed(TABLE3, readers, {label: name for name, label in GPUS.items()}),
        "GPU",
        remarks=(
            "cores follow from SMs and Issue_cycles: 32 threads in 4 cycles are 8 cores an SM",
            "GTX280: the paper refers to a report for Uncoal_per_mw; ours is assumed (see hong-kim-fig14)",
            "graphics clock, memory size, peak GFLOP/s and computing version enter no equation and are not kept",
        ),
    )


@_register(
    "hong-kim-table6",
    HONG_KIM,
    "Table 6: memory model parameters",
    "latency and departure delays of two GPUs, printed and in our machine files",
)
def hong_kim_table6() -> Findings:
    printed: dict[str, tuple[Cell, ...]] = {
        "Mem_LD [cycles]": (420, 450),
        "Departure_del_uncoal [cycles]": (10, 40),
        "Departure_del_coal [cycles]": (4, 4),
    }
    readers: dict[str, Reader] = {
        "Mem_LD [cycles]": lambda gpu: gpu.dram.latency_cycles,
        "Departure_del_uncoal [cycles]": lambda gpu: gpu.dram.departure_uncoalesced_cycles,
        "Departure_del_coal [cycles]": lambda gpu: gpu.dram.departure_coalesced_cycles,
    }
    return side_by_side(
        _transposed(printed, readers, {"FX5600": "fx5600", "GTX280": "gtx280"}),
        "GPU",
        remarks=("the paper fitted these with micro-benchmarks on its GPUs; we take them, we cannot measure them",),
    )


# -- the simulated machines ----------------------------------------------------------------


def _simulated(name: str, printed: Mapping[str, tuple[Cell, Cell]], remarks: Sequence[str]) -> Findings:
    return side_by_side([(name, row, *values) for row, values in printed.items()], "machine", remarks=remarks)


@_register(
    "gpumech-table1",
    GPUMECH,
    "Table I: simulation configuration",
    "every number of GPUMech's machine, printed and in our machine file",
)
def gpumech_table1() -> Findings:
    gpu = load_gpu("gpumech2014")
    return _simulated(
        gpu.name,
        {
            "cores": (16, gpu.sms),
            "clock [GHz]": (1, gpu.clock_hz / 1e9),
            "warp size": (32, gpu.warp_size),
            "threads per core": (1024, gpu.max_warps * gpu.warp_size),
            "issue width [warp instructions/cycle]": (1, gpu.issue_rate),
            "FP latency [cycles]": (25, gpu.timing("fp32").latency_cycles),
            "shared memory [KB]": (16, gpu.require("shared_memory_bytes", "Table I") / 1024),
            "L1 size [KB]": (32, gpu.require("l1.size_bytes", "Table I") / 1024),
            "L1 line [B]": (128, gpu.l1.line_bytes),
            "L1 latency [cycles]": (25, gpu.l1.latency_cycles),
            "L1 ways": (8, gpu.l1.ways),
            "L1 MSHRs": (32, gpu.l1.mshrs),
            "L2 size [KB]": (768, gpu.require("llc.size_bytes", "Table I") / 1024),
            "L2 line [B]": (128, gpu.llc.line_bytes),
            "L2 latency [cycles]": (120, gpu.llc.latency_cycles),
            "L2 ways": (8, gpu.llc.ways),
            "DRAM bandwidth [GB/s]": (192, gpu.dram.bandwidth_bytes_per_s / 1e9),
            "DRAM latency [cycles]": (300, gpu.dram.latency_cycles),
        },
        ("fetch width and instruction cache are not part of any model; SIMT width 32 is λ = 1 of computations",),
    )


def _mdm_machine(name: str) -> dict[str, tuple[Cell, Cell]]:
    """What Table 1 of CAL 2019 and Table III of MICRO 2020 have in common."""
    gpu = load_gpu(name)
    return {
        "clock [GHz]": (1.4, gpu.clock_hz / 1e9),
        "SMs": (28, gpu.sms),
        "warps per SM": (64, gpu.max_warps),
        "L1 size [KB]": (48, gpu.require("l1.size_bytes", "the table") / 1024),
        "L1 ways": (6, gpu.l1.ways),
        "L1 MSHRs": (128, gpu.l1.mshrs),
        "LLC size [KB]": (24 * 128, gpu.require("llc.size_bytes", "the table") / 1024),
        "LLC banks": (24, gpu.llc.banks),
        "LLC ways": (8, gpu.llc.ways),
        "LLC MSHRs": (128, gpu.llc.mshrs),
        "LLC latency [cycles]": (120, gpu.llc.latency_cycles),
        "NoC bandwidth [GB/s]": (1050, gpu.require("noc.bandwidth_bytes_per_s", "the table") / 1e9),
        "DRAM bandwidth [GB/s]": (480, gpu.dram.bandwidth_bytes_per_s / 1e9),
        "DRAM latency [cycles]": (220, gpu.dram.latency_cycles),
        "memory controllers": (24, gpu.dram.channels),
    }


@_register(
    "mdm-cal-table1",
    MDM_CAL,
    "Table 1: simulator configuration",
    "every number of the first MDM's machine, printed and in our machine file",
)
def mdm_cal_table1() -> Findings:
    gpu = load_gpu("mdm2019")
    own: dict[str, tuple[Cell, Cell]] = {
        "schedulers": (4, gpu.schedulers),
        "scheduling policy": ("lrr", gpu.scheduler),
        "issue width per scheduler": (2, gpu.issue_width),
    }
    return _simulated(gpu.name, _mdm_machine(gpu.name) | own, ())


@_register(
    "mdm-table3",
    MDM,
    "Table III: simulator configuration",
    "every number of MDM's machine, printed and in our machine file",
)
def mdm_table3() -> Findings:
    gpu = load_gpu("mdm2020")
    own: dict[str, tuple[Cell, Cell]] = {
        "warp size": (32, gpu.warp_size),
        "threads per SM": (2048, gpu.max_warps * gpu.warp_size),
        "scheduling policy": ("gto", gpu.scheduler),
    }
    return _simulated(gpu.name, _mdm_machine(gpu.name) | own, ())


# -- Lemeire et al. ------------------------------------------------------------------------

#: Table 4: λ_ALU, λ_SFU and issue limit; Table 6 has the order of the devices.
TABLE4 = {
    "Fermi": ("tesla-c2050", 1, 8, 1),
    "Kepler": ("gtx650ti", 0.25, 1, 4),
    "Maxwell": ("k620", 0.25, 1, 4),
    "Pascal": ("gtx1060", 0.25, 1, 4),
    "Turing": ("rtx2070", 0.5, 2, 2),
    "Tonga": ("r9-380", 1, 5, 1),
}
#: Table 5: λ / Λ by instruction, in the order of the devices above; a dash is not printed.
TABLE5 = {
    "sfu": "8/40 1/18 1/15 1/15 2/21 5/24",
    "fp32": "1/18 0.25/9 0.375/6 0.25/6 0.5/4 1/5.25",
    "fp64": "2/22 4/22 7.5/42 8/43 19/45 8/76",
    "int32": "2/18 0.5/5 0.875/12.5 0.75/12 0.25/2 1/5.25",
    "fp32_div": "3/45 0.75/28.5 1.125/20 0.75/18 1.5/12.5 2.25/14",
    "fp64_div": "19/253 26/260 47/376 47/376 -/- 155/740",
    "int32_div": "20/200 3/96 7/105 5/100 5/65 24/192",
    "barrier": "2/40 0.75/24 4.5/125 2.25/70 1.5/17 7.5/150",
    "mem": "23/475 7.5/300 18/440 12/345 18/450 42/136",
    "shared": "2/28 1/28 1/28 1/25 2/32 2/60",
}


@_register(
    "lemeire-table2",
    LEMEIRE,
    "Table 2: parameters of the example",
    "hardware and software numbers of the example kernel, printed and in our workload and machine files",
)
def lemeire_table2() -> Findings:
    workload, gpu = place("lemeire-example")
    mix = analyse(workload, gpu, Needs("instruction_mix"), "Table 2").mix
    computing, memory = gpu.timing("comp"), gpu.timing("mem")
    return side_by_side(
        [
            ("hardware", "λ_comp", 1, computing.interval_cycles),
            ("hardware", "Λ_comp", 4, computing.latency_cycles),
            ("hardware", "λ_mem", 2, memory.interval_cycles),
            ("hardware", "Λ_mem", 6, memory.latency_cycles),
            ("software", "α_comp", 4, mix.compute_count),
            ("software", "α_mem", 2, mix.memory_count),
            ("software", "CI", 2, mix.compute_count / mix.memory_count),
        ],
        "part",
        remarks=("IPC_comp, BW and λ_instr_mem are derived from these; ω is what the figures vary",),
        claim="our files hold what the table prints",
    )


@_register(
    "lemeire-table4",
    LEMEIRE,
    "Table 4: ALU and SFU throughput and issue limit of six GPUs",
    "λ_ALU, λ_SFU and the issue limit, printed and in our machine files",
)
def lemeire_table4() -> Findings:
    rows: list[tuple[str, str, Cell, Cell]] = []
    for device, (name, alu, sfu, limit) in TABLE4.items():
        gpu = load_gpu(name)
        rows += [
            (device, "λ_ALU", alu, gpu.timing("fp32").interval_cycles),
            (device, "λ_SFU", sfu, gpu.timing("sfu").interval_cycles),
            (device, "issue limit", limit, gpu.issue_rate),
        ]
    return side_by_side(
        rows,
        "device",
        remarks=(
            "Maxwell: Table 5 prints 0.375 where Table 4 has 0.25; ours is the measured one, of Table 5 (§4.3)",
        ),
    )


@_register(
    "lemeire-table5",
    LEMEIRE,
    "Table 5: λ and Λ of ten instructions on six GPUs",
    "throughput and latency of instructions, printed and in our machine files",
)
def lemeire_table5() -> Findings:
    rows: list[tuple[str, str, Cell, Cell]] = []
    for instruction, line in TABLE5.items():
        for device, cell in zip(TABLE4, line.split(), strict=True):
            timing = load_gpu(TABLE4[device][0]).timing(instruction)
            for symbol, text, ours in zip(
                "λΛ", cell.split("/"), (timing.interval_cycles, timing.latency_cycles), strict=True
            ):
                if text != "-":
                    rows.append((device, f"{symbol} of {instruction}", float(text), ours))

    def draw(plt: Any) -> Any:
        cells = [[instruction, *line.split()] for instruction, line in TABLE5.items()]
        wrong = {(row[0], row[1][5:]) for row in rows if same(*row[2:]) == "no"}
        fills = {
            (index, column + 1): FILLS["no" if (device, instruction) in wrong else "yes"]
            for index, instruction in enumerate(TABLE5)
            for column, device in enumerate(TABLE4)
        }
        columns = ("λ/Λ [cycles]", *TABLE4)
        return table_picture(plt, columns, cells, widths=(1.2, *(1.1,) * len(TABLE4)), fills=fills, centred=True)

    return side_by_side(
        rows,
        "device",
        draw=draw,
        remarks=(
            "green: our file has both numbers",
            "sfu is cos.approx.f32, mem ld.global.s32, shared ld.local.s32; div.f64 is not printed for Turing",
        ),
    )
