"""Hong & Kim, ISCA 2009: the worked example of Table 2 and the micro-benchmarks of Fig. 14."""

from __future__ import annotations

from typing import Any

import numpy as np

from warplens.api import load_workload, place, predict
from warplens.machine import load_gpu
from warplens.models import Prediction
from warplens.models.papers import HONG_KIM
from warplens.workload import Workload

from .base import Claim, Findings, Row, Table, difference, recipe
from .drawing import AGREES, grouped_bars, table_picture

#: The GPUs of Table 3, in its order, and what the paper calls them.
GPUS = {"8800gtx": "8800GTX", "fx5600": "FX5600", "8800gt": "8800GT", "gtx280": "GTX280"}
MICRO_BENCHMARKS = tuple(f"Mb{number}" for number in range(1, 8))
ITERATIONS = 1000  # §4.2


def gtx280_assumption() -> str:
    transactions = load_gpu("gtx280").dram.uncoalesced_transactions
    return f"GTX280: {transactions:g} transactions per uncoalesced memory warp; Table 3 only refers to a report"


# -- Table 2 ---------------------------------------------------------------------------


@recipe(
    "hong-kim-table2",
    HONG_KIM,
    "Table 2: MWP-CWP on the tiled matrix multiplication of Fig. 12",
    "all 14 computed rows of the table; ours unrounded, and with MWP and BW_per_warp rounded first as the paper does",
)
def table2() -> Findings:
    workload, gpu = place("hong-kim-table2")
    prediction = predict(workload, gpu, "mwp-cwp")
    exact, rounded = _table2_values(workload, prediction), _table2_values(workload, prediction, as_printed=True)
    rows: list[Row] = [
        (name, equation, printed, exact[name], difference(printed, exact[name]), rounded[name])
        for name, (equation, printed) in TABLE2.items()
    ]
    terms = prediction.terms
    claim = Claim(
        "CWP is greater than MWP, so Equation (23) gives Exec_cycles_app (§3.6)",
        terms["CWP"] > terms["MWP"] and terms["equation"] == 23,
        f"CWP {terms['CWP']:g}, MWP {terms['MWP']:.4g}, Equation ({terms['equation']:.0f})",
    )
    columns = ("quantity", "equation", "paper", "ours", "difference", "ours rounded as the paper")

    def draw(plt: Any) -> Any:
        text = [
            [str(name), str(eq), *(_digits(v) for v in (paper, ours)), str(diff), _digits(r)]
            for name, eq, paper, ours, diff, r in rows
        ]
        fills = {(index, column): AGREES for index in range(len(rows)) for column in (3, 5)}
        return table_picture(plt, columns, text, widths=(1.9, 0.9, 0.8, 0.9, 1.0, 2.0), fills=fills)

    return Findings(
        columns=columns,
        rows=tuple(rows),
        draw=draw,
        claims=(claim,),
        remarks=(
            f"the last column rounds MWP to {rounded['MWP']:g} and BW_per_warp to {rounded['BW_per_warp']:g} GB/s "
            f"before use, as the paper does, which prints {TABLE2['Exec_cycles_app'][1]:g} where that gives "
            f"{rounded['Exec_cycles_app']:.1f}",
        ),
    )


#: Computed rows of Table 2: equation and printed value. BW_per_warp is in GB/s.
TABLE2: dict[str, tuple[str, float]] = {
    "Departure_delay": ("H-15", 320),
    "Mem_L": ("H-10, H-12", 730),
    "MWP_without_BW_full": ("H-16", 2.28),
    "BW_per_warp": ("H-7", 0.175),
    "MWP_peak_BW": ("H-6", 28.57),
    "MWP": ("H-5", 2.28),
    "Comp_cycles": ("H-19", 132),
    "Mem_cycles": ("H-18", 4380),
    "CWP_full": ("H-8", 34.18),
    "CWP": ("H-9", 20),
    "Rep": ("H-21", 1),
    "Exec_cycles_app": ("H-23", 38450),
    "Synch_cost": ("H-26", 12288),
    "Final Time": ("H-27", 50738),
}


def _table2_values(workload: Workload, prediction: Prediction, *, as_printed: bool = False) -> dict[str, float]:
    """The table's rows from the model's terms; `as_printed` rounds two of them midway, as the paper does."""
    terms, mix, launch = dict(prediction.terms), workload.mix, workload.launch
    _, gpu = place(workload)
    assert mix is not None
    per_warp = gpu.dram.bandwidth_bytes_per_s / (terms["MWP_peak_BW"] * gpu.sms) / 1e9  # Eq. (H-6) solved for it
    if as_printed:
        per_warp, mwp = round(per_warp, 3), round(terms["MWP"], 2)
        period = terms["Comp_cycles"] / mix.memory_count  # Eq. (H-2)
        cycles = (terms["Mem_cycles"] * terms["W"] / mwp + period * (mwp - 1)) * terms["Rep"]  # Eq. (H-23)
        barriers = mix.synchronizations * launch.blocks_per_sm * terms["Rep"]
        terms |= {
            "MWP": mwp,
            "MWP_without_BW": round(terms["MWP_without_BW"], 2),
            "MWP_peak_BW": gpu.dram.bandwidth_bytes_per_s / 1e9 / (per_warp * gpu.sms),  # Eq. (H-6)
            "Exec_cycles_app": cycles,
            "Synch_cost": terms["Departure_delay"] * (mwp - 1) * barriers,  # Eq. (H-26)
        }
    return {
        **{name: terms[name] for name in TABLE2 if name in terms},
        "MWP_without_BW_full": terms["MWP_without_BW"],
        "BW_per_warp": per_warp,
        "Final Time": terms["Exec_cycles_app"] + terms["Synch_cost"],  # Eq. (H-27)
    }


def _digits(value: Any) -> str:
    return f"{value:.7g}" if abs(value) >= 1000 else f"{value:.5g}"


# -- Figure 14 ---------------------------------------------------------------------------


@recipe(
    "hong-kim-fig14",
    HONG_KIM,
    "Figure 14: CPI of the micro-benchmarks",
    "CPI of Mb1 … Mb7, coalesced and uncoalesced, on four GPUs; the text prints no values, so its claims are checked",
)
def figure14() -> Findings:
    rows: list[Row] = []
    cpi: dict[str, dict[str, list[float]]] = {}
    per_load: list[float] = []
    warned: dict[str, list[str]] = {}
    r_squared: list[float] = []
    machines = {label: load_gpu(name) for name, label in GPUS.items()}
    for access in ("coalesced", "uncoalesced"):
        cpi[access] = {label: [] for label in machines}
        for label, gpu in machines.items():
            loads: list[float] = []
            for name in MICRO_BENCHMARKS:
                workload = load_workload(f"{name.lower()}-{access}")
                assert workload.mix is not None
                made = predict(workload, gpu, "mwp-cwp")
                loads.append(workload.mix.memory_count / ITERATIONS)
                computations = workload.mix.compute_count / ITERATIONS
                cpi[access][label].append(made.cpi)
                for text in made.warnings:
                    warned.setdefault(text, []).append(f"{name} {access} on {label}")
                equation = made.terms.get("equation")
                shown = "no memory" if equation is None else f"H-{equation:.0f}"
                rows.append(
                    (
                        name,
                        access,
                        label,
                        loads[-1],
                        computations,
                        made.terms["MWP"],
                        made.terms["CWP"],
                        shown,
                        made.cpi,
                    )
                )
                if access == "uncoalesced" and loads[-1]:
                    per_load.append(made.cpi * workload.mix.total / ITERATIONS / loads[-1] / _load_cost(made))
            if access == "uncoalesced":
                r_squared.append(float(np.corrcoef(loads, cpi[access][label])[0, 1] ** 2))

    def draw(plt: Any) -> Any:
        figure, axes = plt.subplots(1, 2, figsize=(9.5, 3.2))
        for axis, (access, series) in zip(axes, cpi.items(), strict=True):
            grouped_bars(axis, MICRO_BENCHMARKS, series)
            axis.set_title(f"{access} loads", loc="left", fontsize=9)
            axis.set_xlabel("micro-benchmark")
        axes[0].set_ylabel("CPI")
        axes[0].set_ylim(0, 5)
        axes[1].legend(ncols=2, loc="upper left")
        return figure

    return Findings(
        columns=(
            "benchmark",
            "access",
            "gpu",
            "loads per iteration",
            "computations per iteration",
            "MWP",
            "CWP",
            "equation",
            "CPI",
        ),
        rows=tuple(rows),
        draw=draw,
        claims=_figure14_claims(cpi, per_load, r_squared),
        assumptions=(
            "1680 blocks of 256 threads with every SM full; the paper does not give the launch",
            gtx280_assumption(),
        ),
        remarks=(
            "Mb1 has no loads, so both of its variants are the same",
            *(f"{', '.join(cases)}: {text}" for text, cases in warned.items()),
        ),
        summary=_pivot_micro(cpi),
    )


def _load_cost(made: Prediction) -> float:
    """Cycles between two uncoalesced loads of a memory-bound SM: the expected cost of one more load."""
    return float(made.terms["Mem_L"] / made.terms["MWP"])


def _figure14_claims(
    cpi: dict[str, dict[str, list[float]]], per_load: list[float], r_squared: list[float]
) -> tuple[Claim, ...]:
    coalesced = [value for values in cpi["coalesced"].values() for value in values]
    hidden = {gpu: [value / values[0] - 1 for value in values] for gpu, values in cpi["coalesced"].items()}
    worst = [100 * pick(value for values in hidden.values() for value in values) for pick in (min, max)]
    even = [gpu for gpu, values in hidden.items() if max(map(abs, values)) < 0.001]
    by_loads = ([0], [1, 2], [3, 4], [5], [6])  # positions with 0, 1, 2, 4 and 6 loads

    def rises(access: str) -> bool:
        means = [[float(np.mean([values[i] for i in same])) for same in by_loads] for values in cpi[access].values()]
        return all(np.all(np.diff(series) > 0) for series in means)

    return (
        Claim(
            "the CPI increases with the number of loads, uncoalesced (§5.1)",
            rises("uncoalesced"),
            "mean of the benchmarks with 0, 1, 2, 4, 6 loads on FX5600: "
            + ", ".join(f"{np.mean([cpi['uncoalesced']['FX5600'][i] for i in same]):.3g}" for same in by_loads),
        ),
        Claim(
            "the CPI increases with the number of loads, coalesced (§5.1)",
            rises("coalesced"),
            f"all lie between {min(coalesced):.4f} and {max(coalesced):.4f}: where computation bounds, one latency "
            "(H-24) is spread over more instructions",
        ),
        Claim(
            "coalesced: the cost of loads is almost hidden because of high MWP (§5.1)",
            worst[1] < 10,
            f"{worst[0]:+.1f} … {worst[1]:+.1f} % of the CPI without loads (counted as hidden below 10 %); "
            f"within 0.1 % on {', '.join(even)}",
        ),
        Claim(
            "uncoalesced: the cost of loads grows linearly with their number (§5.1)",
            max(per_load) < 1.05 * min(per_load),
            f"cycles of an iteration = loads × Mem_L/MWP × {min(per_load):.4f} … {max(per_load):.4f} in all "
            f"{len(per_load)} cases",
        ),
        Claim(
            "uncoalesced: the CPI itself grows linearly with the number of loads (Fig. 14)",
            min(r_squared) > 0.9,
            f"r² of a straight line is {min(r_squared):.2f} … {max(r_squared):.2f}: the benchmarks differ in "
            "computations too",
        ),
    )


def _pivot_micro(cpi: dict[str, dict[str, list[float]]]) -> Table:
    return Table(
        ("CPI", *GPUS.values()),
        tuple(
            (f"{name}_{'C' if access == 'coalesced' else 'UC'}", *(values[index] for values in series.values()))
            for access, series in cpi.items()
            for index, name in enumerate(MICRO_BENCHMARKS)
        ),
    )
