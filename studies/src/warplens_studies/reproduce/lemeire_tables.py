"""Lemeire et al., Tables 6 and 7: memory throughput from λ, and which aspects the models take into account."""

from __future__ import annotations

from functools import partial
from typing import Any

from warplens.machine import load_gpu
from warplens.models import Aspect, get_model
from warplens.models.papers import LEMEIRE

from .base import Claim, Findings, Row, Table, difference, recipe
from .drawing import AGREES, DIFFERS, grouped_bars, table_picture

BYTES_PER_LANE = 4  # ld.global.s32

#: Table 6: machine, and the paper's throughput [GB/s], bandwidth [GB/s] and efficiency [%].
TABLE6 = {
    "Fermi": ("tesla-c2050", 89.6, 144.0, 62.2),
    "Kepler": ("gtx650ti", 70.5, 86.4, 81.5),
    "Maxwell": ("k620", 22.6, 29.0, 77.8),
    "Pascal": ("gtx1060", 160.6, 192.0, 83.7),
    "Turing": ("rtx2070", 288.0, 361.0, 80.5),
    "Tonga": ("r9-380", 172.0, 176.0, 97.7),
}


@recipe(
    "lemeire-table6",
    LEMEIRE,
    "Table 6: memory throughput that λ of ld.global.s32 gives, and bandwidth",
    "N·(warp size)·4 B/λ·f from our machine files against printed throughput, bandwidth and efficiency of six GPUs",
)
def table6() -> Findings:
    rows: list[Row] = []
    ours: dict[str, tuple[float, float, float]] = {}
    for device, (name, throughput, bandwidth, efficiency) in TABLE6.items():
        gpu = load_gpu(name)
        interval = gpu.timing("mem").interval_cycles
        per_hz = gpu.sms * gpu.warp_size * BYTES_PER_LANE / interval  # §4.3
        made, peak = per_hz * gpu.clock_hz / 1e9, gpu.dram.bandwidth_bytes_per_s / 1e9
        ours[device] = (made, peak, 100.0 * made / peak)
        needed = throughput * 1e9 / per_hz
        rows.append(
            (
                device,
                name,
                gpu.sms,
                gpu.warp_size,
                interval,
                gpu.clock_hz / 1e9,
                throughput,
                made,
                difference(throughput, made),
                bandwidth,
                peak,
                efficiency,
                ours[device][2],
                needed / 1e9,
            )
        )
    columns = (
        "device",
        "machine",
        "N",
        "warp size",
        "lambda [cycles]",
        "clock [GHz]",
        "throughput, paper [GB/s]",
        "throughput, ours [GB/s]",
        "difference",
        "bandwidth, paper [GB/s]",
        "bandwidth, ours [GB/s]",
        "efficiency, paper [%]",
        "efficiency, ours [%]",
        "clock the paper's throughput needs [GHz]",
    )

    return Findings(
        columns=columns,
        rows=tuple(rows),
        draw=partial(_draw_table6, ours),
        claims=_table6_claims(ours, {str(row[0]): float(row[-1] or 0) for row in rows}),
        assumptions=(
            "number of cores N, clock and bandwidth from data sheets, as the paper does not print them; λ is the "
            "paper's (Table 5)",
            "base clocks; the rows of Kepler and Tonga would need the clocks in the last column of the CSV",
        ),
        summary=Table(
            (
                "device",
                "throughput, paper",
                "ours",
                "difference",
                "bandwidth, paper",
                "ours ",
                "efficiency, paper",
                "ours  ",
            ),
            tuple((row[0], *row[6:13]) for row in rows),
        ),
    )


def _draw_table6(ours: dict[str, tuple[float, float, float]], plt: Any) -> Any:
    figure, axis = plt.subplots(figsize=(9.6, 3.4))
    series = {
        "throughput, paper": [row[1] for row in TABLE6.values()],
        "throughput, ours": [made for made, _, _ in ours.values()],
        "bandwidth, paper": [row[2] for row in TABLE6.values()],
        "bandwidth, ours": [peak for _, peak, _ in ours.values()],
    }
    grouped_bars(axis, list(TABLE6), series, colours=("#9cc3e0", "#1b6ca8", "#d9d9d9", "#8c8c8c"), label="%.4g")
    axis.set_ylabel("GB/s")
    axis.margins(y=0.1)
    axis.legend(loc="upper left", ncols=2)
    return figure


def _table6_claims(ours: dict[str, tuple[float, float, float]], needed: dict[str, float]) -> tuple[Claim, ...]:
    exact = [name for name, row in TABLE6.items() if abs(ours[name][0] / row[1] - 1) < 0.005]
    turing, printed = ours["Turing"], TABLE6["Turing"]
    return (
        Claim(
            "the global memory CPI gives the printed throughput (§4.3), all six GPUs",
            len(exact) == len(TABLE6),
            f"within 0.5 % for {', '.join(exact)}; Kepler would need {needed['Kepler']:.3f} GHz instead of "
            f"{load_gpu('gtx650ti').clock_hz / 1e9:g}, Tonga {needed['Tonga']:.3f} instead of "
            f"{load_gpu('r9-380').clock_hz / 1e9:g}",
        ),
        Claim(
            "Turing: printed throughput, bandwidth and efficiency belong together",
            abs(100 * printed[1] / printed[2] - printed[3]) < 0.1,
            f"{printed[1]:g}/{printed[2]:g} is {100 * printed[1] / printed[2]:.1f} %, not {printed[3]:g} %; our "
            f"throughput is the printed bandwidth ({turing[0]:.1f}), and over the board's {turing[1]:g} GB/s it "
            f"gives {turing[2]:.1f} %: the row looks shifted",
        ),
    )


# -- Table 7 ----------------------------------------------------------------------------

#: Columns of Table 7 and the model that stands for each.
TABLE7_MODELS = {
    "Roofline": "roofline",
    "Volkov": "volkov",
    "MWP-CWP": "mwp-cwp",
    "WFG": "wfg",
    "GPUMech": "gpumech",
    "Pipeline": "pipeline",
}
#: Table 7: for each aspect, Y or N in the order of the columns above.
TABLE7 = {
    Aspect.ILP: "YYNYNY",
    Aspect.COMPUTE_LATENCY: "NYNYNY",
    Aspect.MEMORY_LATENCY: "NYYYYY",
    Aspect.BARRIERS: "NNYYNY",
    Aspect.SUBSYSTEMS: "YYNNNY",
    Aspect.WORK_GROUPS: "NNNYNY",
    Aspect.DIVERGENT_WARPS: "NNNYYY",
    Aspect.ISSUE_LIMIT: "NYYNNY",
    Aspect.SCHEDULER: "NNNNYY",
}
#: Why our entry differs from the paper's.
REASONS = {
    ("Roofline", Aspect.ILP): "perfect overlap is assumed, so ILP is allowed for but changes no prediction",
    ("Roofline", Aspect.ISSUE_LIMIT): "our Roofline has the issue limit as one more roof",
    (
        "WFG",
        Aspect.WORK_GROUPS,
    ): "WLP_effect = ω as in Lemeire's comparison: no equation is printed; bounds are an option",
    ("GPUMech", Aspect.ILP): "independent instructions share an interval (G-4); Lemeire's end at memory only",
    ("GPUMech", Aspect.COMPUTE_LATENCY): "the original stalls on them (G-4), Lemeire's version does not (§2.5)",
    ("GPUMech", Aspect.ISSUE_LIMIT): "the issue rate is part of G-7 and bounds the prediction; Lemeire sets it to 1",
}


@recipe(
    "lemeire-table7",
    LEMEIRE,
    "Table 7: performance aspects that the models take into account",
    "what each of our models declares to take into account against the printed Y or N; differences are explained",
)
def table7() -> Findings:
    rows: list[Row] = []
    for aspect, letters in TABLE7.items():
        for (label, name), printed in zip(TABLE7_MODELS.items(), letters, strict=True):
            mine = "Y" if aspect in get_model(name).aspects else "N"
            why = "" if mine == printed else REASONS.get((label, aspect), "not explained")
            rows.append((str(aspect), label, name, printed, mine, "yes" if mine == printed else "no", why))
    count = len(TABLE7_MODELS)
    lines = [rows[start : start + count] for start in range(0, len(rows), count)]

    def draw(plt: Any) -> Any:
        cells = [[str(line[0][0]), *(_both(row) for row in line)] for line in lines]
        fills = {
            (index, column + 1): AGREES if row[5] == "yes" else DIFFERS
            for index, line in enumerate(lines)
            for column, row in enumerate(line)
        }
        return table_picture(
            plt, ("aspect", *TABLE7_MODELS), cells, widths=(2.0, *(1.25,) * count), fills=fills, centred=True
        )

    differing = [row for row in rows if row[5] == "no"]
    return Findings(
        columns=("aspect", "model", "warplens model", "paper", "ours", "same", "why not"),
        rows=tuple(rows),
        draw=draw,
        claims=(
            Claim(
                "our models take the same aspects into account as Table 7 says",
                not differing,
                f"{len(rows) - len(differing)} of {len(rows)} cells are the same",
            ),
        ),
        remarks=tuple(f"{row[1]}, {row[0]}: paper {row[3]}, ours {row[4]}: {row[6]}" for row in differing),
        summary=Table(
            ("aspect", *TABLE7_MODELS), tuple((str(line[0][0]), *(_both(row) for row in line)) for line in lines)
        ),
    )


def _both(row: Row) -> str:
    return str(row[3]) if row[5] == "yes" else f"paper {row[3]}, ours {row[4]}"
