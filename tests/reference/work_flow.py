"""WFG (L-30 … L-36) and Lemeire's correction (L-42), for one machine."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Node:
    """kind: compute, memory or barrier."""

    kind: str
    count: float
    interval: float
    latency: float
    ilp: float = 1.0
    dependent: bool = True


def cycles_per_warp(nodes: list[Node], omega: float, *, corrected: bool) -> float:
    """CPW: the sum of the flattened graph. λ_comp of the memory instruction is the mean over the computations."""
    compute = [node for node in nodes if node.kind == "compute"]
    alpha_comp = sum(node.count for node in compute)
    alpha_mem = sum(node.count for node in nodes if node.kind == "memory")
    alpha_sync = sum(node.count for node in nodes if node.kind == "barrier")
    mean_lambda = sum(node.count * node.interval for node in compute) / alpha_comp if compute else 0.0
    instr_mem = 0.0 if corrected else mean_lambda

    def transition(node: Node) -> float:
        return node.count * max(node.interval, node.latency / (node.ilp * omega))  # L-30

    cyc_comp = sum(transition(node) for node in compute) + instr_mem * alpha_mem  # L-31, α_i once
    nbc_avg = cyc_comp / (alpha_mem + alpha_sync + 1)  # L-35

    total = 0.0
    last_compute: Node | None = None
    for node in nodes:
        if node.kind == "compute":
            total += transition(node)
            last_compute = node
        elif node.kind == "memory":
            cyc_mem = alpha_mem * node.interval
            arc = instr_mem + max(0.0, (cyc_mem - cyc_comp) / alpha_mem)  # L-33
            if corrected:
                preceding = 0.0
                if last_compute is not None:
                    preceding = last_compute.count * last_compute.latency / (omega * last_compute.ilp)
                exposed = node.latency / omega - max(0.0, (omega - 1) / omega * nbc_avg - preceding)  # L-42
            else:
                exposed = node.latency - (omega - 1) * nbc_avg  # L-36
            total += node.count * (max(arc, exposed) if node.dependent else arc)
    return total
