"""Closed forms of the instruction-mix kernel (L-43 … L-45)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warplens.models.instruction_mix_forms import issue_limited_ipc, one_subsystem_ipc, two_subsystems_ipc

positive = st.floats(0.125, 64)


def test_values_of_figure_12():
    assert one_subsystem_ipc(4, 1, 4) == 0.5
    assert two_subsystems_ipc(2, 1, 4) == 0.5
    assert two_subsystems_ipc(9, 1, 4) == 1.0
    assert issue_limited_ipc(4, 1, 4, 1) == pytest.approx(0.8)


@given(positive)
def test_printed_form_does_not_depend_on_beta(beta):
    assert two_subsystems_ipc(beta, 1, 4, printed=True) == 0.25
    assert issue_limited_ipc(beta, 1, 4, 100, printed=True) == 0.25


@given(positive, positive, positive, st.floats(0.25, 8))
def test_more_freedom_is_never_slower(beta, lambda1, lambda2, limit):
    free = two_subsystems_ipc(beta, lambda1, lambda2)
    assert one_subsystem_ipc(beta, lambda1, lambda2) <= free * (1 + 1e-12)
    assert issue_limited_ipc(beta, lambda1, lambda2, limit) <= free
    assert free <= 1 / lambda1
