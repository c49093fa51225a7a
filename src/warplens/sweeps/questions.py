"""Questions about a sweep's table: fastest design, Pareto front, heat map, agreement between models."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ..errors import InputError, nearest
from ..units import parse_number
from .space import canonical_key, unit_of

Array = NDArray[np.float64]

#: Above this many configurations, ranks are compared on an even selection (Kendall's τ needs all pairs).
MOST_RANKED = 2000


def fastest(table: pa.Table) -> list[dict[str, Any]]:
    """For each kernel and model, the fastest row and the range of speeds."""
    found = []
    for some in groups(table):
        speed = speed_of(some)
        row = some.slice(int(np.argmax(speed)), 1).to_pylist()[0]
        found.append(row | {"speed": float(speed.max()), "least_speed": float(speed.min())})
    return found


def speed_of(table: pa.Table) -> Array:
    """Warp instructions per second: comparable even if machines with more SMs get more work."""
    cycles, ipc, seconds = (
        table.column(name).to_numpy(zero_copy_only=False) for name in ("cycles", "ipc", "seconds")
    )
    return cycles * ipc / seconds  # NaN where there is an error


def groups(table: pa.Table) -> list[pa.Table]:
    """The error-free rows of each kernel and model, in the order of the table."""
    good = table.filter(pc.is_null(table.column("error")))
    names = good.select(["kernel", "launch", "model", "kind"]).group_by(
        ["kernel", "launch", "model", "kind"], use_threads=False
    )
    found = []
    for one in names.aggregate([]).to_pylist():
        mask = None
        for name, value in one.items():
            same = pc.equal(good.column(name), value)
            mask = same if mask is None else pc.and_(mask, same)
        found.append(good.filter(mask))
    return found


# -- costs and fronts ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Cost:
    """A sum of parameters with weights, and a constant."""

    text: str
    weights: Mapping[str, float]
    constant: float = 0.0

    def of(self, table: pa.Table) -> Array:
        total = np.full(table.num_rows, self.constant)
        for key, weight in self.weights.items():
            if key not in table.column_names:
                raise InputError(f"cost {self.text!r}: the sweep has no column {key!r}")
            total = total + weight * table.column(key).to_numpy()
        return total


_TERM = re.compile(
    r"""\s*(?P<sign>[+-]?)\s*
    (?: (?P<factor>\d[\d_]*\.?\d*(?:e[+-]?\d+)?) \s* (?:\*\s*(?P<key>[a-z][\w.]*))?
      | (?P<alone>[a-z][\w.]*) )
    (?: \s*/\s* (?P<divisor>\d[^+\-*]*?) )? \s*(?=[+-]|$)""",
    re.VERBOSE | re.IGNORECASE,
)


def parse_cost(text: str) -> Cost:
    """`3*sms + dram.bandwidth/100GB/s - 2`: parameters with weights, divisors with units, constants."""
    weights: dict[str, float] = {}
    constant, position = 0.0, 0
    while position < len(text):
        match = _TERM.match(text, position)
        if not match or (position > 0 and not match["sign"]):
            raise InputError(
                f"cost {text!r}: {text[position:].strip()!r} is not a term; write a sum such as "
                "3*sms + dram.bandwidth/100GB/s"
            )
        sign = -1.0 if match["sign"] == "-" else 1.0
        factor = float((match["factor"] or "1").replace("_", ""))
        name = match["key"] or match["alone"]
        key = canonical_key(name) if name else None
        if match["divisor"]:
            factor /= _divisor(text, key, match["divisor"])
        if key is None:
            constant += sign * factor
        else:
            weights[key] = weights.get(key, 0.0) + sign * factor
        position = match.end()
    if not weights:
        raise InputError(f"cost {text!r} names no parameter")
    return Cost(text, weights, constant)


def _divisor(text: str, key: str | None, raw: str) -> float:

    try:
        value = parse_number(raw, None if key is None else unit_of(key))
    except ValueError as error:
        raise InputError(f"cost {text!r}: {error}") from None
    if value == 0:
        raise InputError(f"cost {text!r}: divides by 0")
    return value


def performance(table: pa.Table, model: str) -> tuple[pa.Table, Array]:
    """(one row per configuration, its speed): warp instructions per second, the geometric mean over all kernels.

    Configurations that have an error for any kernel are left out.
    """
    chosen = table.filter(pc.equal(table.column("model"), model))
    if not chosen.num_rows:
        known = nearest(model, pc.unique(table.column("model")).to_pylist())
        raise InputError(f"the sweep has no rows of model {model!r}; {known}")
    numbers = chosen.column("configuration").to_numpy()
    _, first, inverse = np.unique(numbers, return_index=True, return_inverse=True)
    count = np.bincount(inverse)
    logarithm = np.bincount(inverse, weights=np.log(speed_of(chosen))) / count
    good = np.isfinite(logarithm)
    return chosen.take(pa.array(first[good])), np.exp(logarithm[good])


def pareto_front(table: pa.Table, costs: Sequence[str | Cost], model: str) -> pa.Table:
    """Configurations that no other one dominates in performance and all costs.

    The table has a column `performance` (see that function) and one per cost, and
    is sorted by the first cost.
    """
    rows, speed = performance(table, model)
    priced = [parse_cost(cost) if isinstance(cost, str) else cost for cost in costs]
    if not priced:
        raise InputError("a Pareto front needs a cost, for example sms")
    values = [cost.of(rows) for cost in priced]
    keep = _not_dominated(np.stack([-speed, *values], axis=1))
    keep = keep[np.lexsort([-speed[keep], *(value[keep] for value in reversed(values))])]
    found = rows.take(pa.array(keep))
    for name, column in [
        ("performance", speed),
        *((f"cost: {c.text}", v) for c, v in zip(priced, values, strict=True)),
    ]:
        found = found.append_column(name, pa.array(column[keep]))
    return found


def _not_dominated(points: Array) -> NDArray[np.int64]:
    """Points that no other point dominates (at most as large everywhere, smaller somewhere); of equals, the first."""
    order = np.lexsort(points.T[::-1])
    front: list[int] = []
    kept = np.empty((0, points.shape[1]))
    for index in order.tolist():  # a point that dominates another comes before it
        if not np.any(np.all(kept <= points[index], axis=1)):
            front.append(index)
            kept = points[front]
    return np.array(sorted(front), dtype=np.int64)


# -- heat maps ---------------------------------------------------------------------------------------


#: Of a kernel at several clocks.
RATE = "10⁹ warp instructions/s"


@dataclass(frozen=True, eq=False)
class HeatMap:
    """Values over two parameters: `values[i, j]` at `x[j]` and `y[i]`, NaN where there is none."""

    kernel: str
    model: str
    x_key: str
    y_key: str
    x: Array
    y: Array
    values: Array
    #: What the values are.
    measure: str = "IPC"
    #: Whether they are means over other parameters.
    averaged: bool = False


def heat_map(table: pa.Table, x: str, y: str, kernel: str, model: str) -> HeatMap:
    """One kernel and model over two parameters; the mean if other parameters vary too.

    Values are IPC, or instructions per second where the clock varies: a lower clock raises the IPC of most kernels.
    """
    x_key, y_key = canonical_key(x), canonical_key(y)
    mask = pc.and_(pc.equal(table.column("kernel"), kernel), pc.equal(table.column("model"), model))
    some = table.filter(pc.and_(mask, pc.is_null(table.column("error"))))
    if not some.num_rows:
        raise InputError(f"the sweep has no rows of kernel {kernel!r} and model {model!r}")
    xs, column = np.unique(some.column(x_key).to_numpy(), return_inverse=True)
    ys, row = np.unique(some.column(y_key).to_numpy(), return_inverse=True)
    sums, counts = np.zeros((len(ys), len(xs))), np.zeros((len(ys), len(xs)))
    clocked = "clock" in some.column_names and len(pc.unique(some.column("clock"))) > 1
    np.add.at(sums, (row, column), speed_of(some) / 1e9 if clocked else some.column("ipc").to_numpy())
    np.add.at(counts, (row, column), 1.0)
    with np.errstate(invalid="ignore"):
        values, averaged = sums / counts, bool((counts > 1.0).any())
    return HeatMap(kernel, model, x_key, y_key, xs, ys, values, RATE if clocked else "IPC", averaged)


# -- do models agree? ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Agreement:
    """How alike two models rank the designs, and the speed lost by following one if the other is right."""

    one: str
    other: str
    kendall: float
    spearman: float
    #: Regret: speed of `other`'s best design over that of `one`'s, both predicted by `other` (1: no loss).
    regret: float
    configurations: int


def ranking_agreement(table: pa.Table) -> list[Agreement]:
    """All ordered pairs of models: rank correlations of the configurations' speed, and the regret."""
    names = list(dict.fromkeys(table.column("model").to_pylist()))
    speeds: dict[str, dict[int, float]] = {}
    for name in names:
        rows, speed = performance(table, name)
        speeds[name] = dict(zip(rows.column("configuration").to_pylist(), speed.tolist(), strict=True))
    found = []
    for one in names:
        for other in names:
            common = sorted(speeds[one].keys() & speeds[other].keys())
            if one == other or len(common) < 2:
                continue
            a, b = (np.array([speeds[name][number] for number in common]) for name in (one, other))
            regret = float(b.max() / b[int(np.argmax(a))])
            chosen = np.unique(np.linspace(0, len(common) - 1, min(len(common), MOST_RANKED)).astype(int))
            found.append(
                Agreement(one, other, kendall_tau(a[chosen], b[chosen]), spearman_rho(a, b), regret, len(common))
            )
    return found


def kendall_tau(a: Array, b: Array) -> float:
    """τ-b: concordant minus discordant pairs, corrected for ties; NaN if all are tied."""
    first, second = (np.sign(values[:, None] - values[None, :]) for values in (a, b))
    ties = np.sqrt(np.sum(first != 0) * np.sum(second != 0))
    return float(np.sum(first * second) / ties) if ties else float("nan")


def spearman_rho(a: Array, b: Array) -> float:
    """Correlation of the ranks, with average ranks for ties; NaN if all are tied."""
    first, second = _ranks(a), _ranks(b)
    first, second = first - first.mean(), second - second.mean()
    scale = np.sqrt((first @ first) * (second @ second))
    return float(first @ second / scale) if scale else float("nan")


def _ranks(values: Array) -> Array:
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    return (ends - (counts - 1) / 2.0)[inverse.ravel()]
