"""Closed forms for the instruction-mix kernel (Lemeire et al., §4.2): β instructions of type 1, then one of type 2.

They give the throughput of the type 1 instructions at full occupancy. L-44 and
L-45 print 1/λ2 as the bound of the second subsystem. They mean β/λ2: β instructions
of type 1 run per instruction of type 2 (docs/conventions.md §6). `printed=True` uses
the printed bound. The Pipeline model must reproduce the intended forms.
"""

from __future__ import annotations


def one_subsystem_ipc(beta: float, lambda1: float, lambda2: float) -> float:
    """Both types share one pipeline. Eq. (L-43)"""
    return beta / (beta * lambda1 + lambda2)  # Eq. (L-43)


def two_subsystems_ipc(beta: float, lambda1: float, lambda2: float, *, printed: bool = False) -> float:
    """Each type has a pipeline of its own. Eq. (L-44)"""
    second = 1.0 / lambda2 if printed else beta / lambda2
    return min(1.0 / lambda1, second)  # Eq. (L-44)


def issue_limited_ipc(
    beta: float, lambda1: float, lambda2: float, issue_limit: float, *, printed: bool = False
) -> float:
    """Two pipelines behind a common issue limit. Eq. (L-45)"""
    limit = beta / (beta + 1.0) * issue_limit
    return min(two_subsystems_ipc(beta, lambda1, lambda2, printed=printed), limit)  # Eq. (L-45)
