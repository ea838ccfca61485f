"""A trial notices when a rule that records depend on is broken: three such rules, each broken on purpose.

A harness that cannot fail proves nothing. Each test breaks one rule of the real services (`broken_rules.py`), lets
happen what the rule is there for, and expects the checker to say what went wrong.
"""

from pathlib import Path

import pytest

from tests.faults import network
from tests.faults.broken_rules import program
from tests.faults.cluster import PROGRAMS
from tests.faults.fault import BROKER, CONTROLLER, Members
from tests.faults.schedule import Schedule
from tests.faults.targeted_schedules import controller_deposed_while_it_writes, unreplicated_records_at_a_crash
from tests.faults.trial import Outcome, TrialPlan, run_trial

pytestmark = [
    pytest.mark.slow,
    pytest.mark.broken_rules,
    pytest.mark.skipif(bool(network.unavailable_reason()), reason=network.unavailable_reason() or ""),
]

SEED = 1
MEMBERS = Members()
SHORT_LAG = {BROKER: {"replica.lag.time.max.ms": "1000"}}


def trial(
    directory: Path, schedule: Schedule, **changed: dict[str, tuple[str, ...]] | dict[str, dict[str, str]]
) -> Outcome:
    plan = TrialPlan(
        seed=SEED,
        directory=directory / "trial",
        seconds=schedule.seconds,
        schedule=schedule,
        groups=False,
        **changed,  # type: ignore[arg-type]
    )
    outcome = run_trial(plan)
    print(outcome.report())
    return outcome


def test_a_high_watermark_that_ignores_the_in_sync_set_loses_records(tmp_path: Path) -> None:
    broken = {BROKER: program("high-watermark-ignores-the-isr", *PROGRAMS[BROKER])}
    outcome = trial(tmp_path, unreplicated_records_at_a_crash(MEMBERS), programs=broken)
    assert any(problem.startswith("lost:") for problem in outcome.problems)


def test_a_follower_that_does_not_truncate_differs_from_its_leader(tmp_path: Path) -> None:
    broken = {BROKER: program("no-truncation", *PROGRAMS[BROKER])}
    outcome = trial(tmp_path, unreplicated_records_at_a_crash(MEMBERS), programs=broken)
    assert any(" where broker-" in problem or problem.startswith("not in sync") for problem in outcome.problems)


def test_a_deposed_controller_that_is_not_fenced_takes_elections_back(tmp_path: Path) -> None:
    broken = {CONTROLLER: program("deposed-controller-not-fenced", *PROGRAMS[CONTROLLER])}
    outcome = trial(tmp_path, controller_deposed_while_it_writes(MEMBERS), programs=broken, services=SHORT_LAG)
    assert any("leader epoch" in problem for problem in outcome.problems)


def test_the_same_schedules_cost_nothing_while_the_rules_hold(tmp_path: Path) -> None:
    first = trial(tmp_path / "crash", unreplicated_records_at_a_crash(MEMBERS))
    second = trial(tmp_path / "controller", controller_deposed_while_it_writes(MEMBERS), services=SHORT_LAG)
    assert not first.problems + second.problems
