"""A burst of lines passes at once, more only as time passes."""

import pytest

from ottla_connect.processes.line_budget import LineBudget


def test_a_burst_passes_and_then_so_many_a_second() -> None:
    budget = LineBudget(per_second=10, burst=3)
    for _ in range(3):
        assert budget.wait_s(100.0) == 0
        budget.take()
    assert budget.wait_s(100.0) == pytest.approx(0.1)
    assert budget.wait_s(100.05) == pytest.approx(0.05)
    assert budget.wait_s(100.1) == pytest.approx(0)


def test_silence_saves_no_more_than_a_burst() -> None:
    budget = LineBudget(per_second=10, burst=2)
    budget.wait_s(0.0)
    assert budget.wait_s(1000.0) == 0
    budget.take()
    budget.take()
    assert budget.wait_s(1000.0) > 0
