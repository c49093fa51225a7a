"""Roofline (L-1), Volkov (L-2, L-3) and Transit (L-4 … L-8) by looking at curves rather than solving them."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf


@dataclass(frozen=True)
class Share:
    """Instructions of one class: α of them, `independent` without a successor, on one pipeline."""

    alpha: float
    interval: float
    latency: float
    pipeline: str
    independent: float = 0.0

    @property
    def is_memory(self) -> bool:
        return self.pipeline == "memory"


def warps_per_cycle_roof(shares: list[Share], issue_limit: float) -> float:
    """The slowest pipeline, and the issue limit."""
    slowest = 0.0
    for pipeline in {share.pipeline for share in shares}:
        busy = sum(share.alpha * share.interval for share in shares if share.pipeline == pipeline)
        slowest = max(slowest, busy)
    slowest = max(slowest, sum(share.alpha for share in shares) / issue_limit)
    return 1 / slowest


def app_latency(shares: list[Share]) -> float:
    """Λ_app of Eq. (L-2)"""
    total = 0.0
    for share in shares:
        total += (share.alpha - share.independent) * share.latency + share.independent * share.interval
    return total


def volkov(shares: list[Share], omega: float, issue_limit: float) -> float:
    """WPC of Eq. (L-3)"""
    alone = app_latency(shares)
    return min(warps_per_cycle_roof(shares, issue_limit), omega / alone if alone else inf)


def transit(shares: list[Share], omega: float) -> float:
    """WPC where supply meets demand, by halving the range of k: supply rises with k and demand falls."""

    def curve(members: list[Share], warps: float) -> float:
        """An occupancy roofline in warps per cycle. Eqs. (L-4 … L-7)"""
        busy = sum(share.alpha * share.interval for share in members)
        latency = sum(share.alpha * share.latency for share in members)
        return min(1 / busy if busy else inf, warps / latency if latency else inf)

    memory = [share for share in shares if share.is_memory]
    compute = [share for share in shares if not share.is_memory]
    low, high = 0.0, omega
    for _ in range(200):
        k = (low + high) / 2
        if curve(memory, k) < curve(compute, omega - k):
            low = k
        else:
            high = k
    return min(curve(memory, high), curve(compute, omega - low))
