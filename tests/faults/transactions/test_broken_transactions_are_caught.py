"""A trial of transactions notices when a rule is broken that they depend on."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.faults.broken_rules import program
from tests.faults.cluster import PROGRAMS
from tests.faults.fault import BROKER, COORDINATOR, Members
from tests.faults.plan import Outcome
from tests.faults.schedule import Schedule
from tests.faults.transactions.targeted_schedules import (
    coordinators_killed_while_a_broker_is_away,
    nothing_fails,
    unreplicated_markers_at_a_crash,
)
from tests.faults.transactions.transaction_trial import TransactionPlan, run_transaction_trial

pytestmark = [
    pytest.mark.slow,
    pytest.mark.broken_rules,
    pytest.mark.requires("network namespaces"),
]

SEED = 1
TRIALS_MAX = 3
"""Until a broken rule has to be noticed; each with a seed of its own."""
MEMBERS = Members()
LATE_MARKERS = {COORDINATOR: program("markers-come-again-late", *PROGRAMS[COORDINATOR])}
LONE_DECISIONS = {
    BROKER: {"transaction.state.log.replication.factor": "1", "transaction.state.log.min.isr": "1"},
}
"""A broker that is cut off or paused holds up whatever it has a replica of; with one replica decisions go on."""
Programs = Mapping[str, Sequence[str]]


def trial(
    directory: Path,
    schedule: Schedule,
    programs: Programs,
    *,
    seed: int = SEED,
    **more: Any,
) -> Outcome:
    plan = TransactionPlan(
        seed=seed,
        directory=directory / "trial",
        members=MEMBERS,
        seconds=schedule.seconds,
        schedule=schedule,
        programs=programs,
        **more,
    )
    outcome = run_transaction_trial(plan)
    print(outcome.report())
    return outcome


def is_noticed(directory: Path, schedule: Schedule, programs: Programs, *signs: str, **more: Any) -> bool:
    """Whether a trial finds a problem that is a sign of the broken rule."""
    for seed in range(SEED, SEED + TRIALS_MAX):
        outcome = trial(directory / f"seed-{seed}", schedule, programs, seed=seed, **more)
        if any(sign in problem for problem in outcome.problems for sign in signs):
            return True
    return False


def broken_broker(rule: str) -> Programs:
    return {BROKER: program(rule, *PROGRAMS[BROKER])}


def broken_coordinator(rule: str) -> Programs:
    return {COORDINATOR: program(rule, *PROGRAMS[COORDINATOR])}


def test_transactions_that_begin_though_refused_are_noticed(tmp_path: Path) -> None:
    broken = broken_broker("refused-transactions-begin-all-the-same")
    assert is_noticed(tmp_path, nothing_fails(MEMBERS), broken, "aborted read", "hanging", "was taken after")


def test_markers_that_come_late_and_end_what_is_open_are_noticed(tmp_path: Path) -> None:
    broken = {**LATE_MARKERS, **broken_broker("markers-end-whatever-is-open")}
    assert is_noticed(tmp_path, nothing_fails(MEMBERS), broken, "aborted read", "lost", "torn")


def test_markers_that_count_before_they_are_replicated_are_noticed(tmp_path: Path) -> None:
    broken = broken_broker("unreplicated-markers-decide")
    schedule = unreplicated_markers_at_a_crash(MEMBERS)
    # What others leave open would keep the end of committed records where it is.
    assert is_noticed(tmp_path, schedule, broken, "receded", writers=["patient"], services=LONE_DECISIONS)
    assert not trial(tmp_path / "unbroken", schedule, {}, writers=["patient"], services=LONE_DECISIONS).problems


def test_ends_that_are_not_stored_before_their_markers_are_noticed(tmp_path: Path) -> None:
    broken = broken_coordinator("ends-are-not-stored-before-markers")
    schedule = coordinators_killed_while_a_broker_is_away(MEMBERS)
    assert is_noticed(tmp_path, schedule, broken, "lost", "torn", services=LONE_DECISIONS)


def test_offsets_that_count_though_aborted_are_noticed(tmp_path: Path) -> None:
    broken = broken_coordinator("offsets-of-aborted-transactions-count")
    assert is_noticed(tmp_path, nothing_fails(MEMBERS), broken, "skipped")


def test_aborts_of_which_readers_are_not_told_are_noticed(tmp_path: Path) -> None:
    assert is_noticed(tmp_path, nothing_fails(MEMBERS), broken_broker("aborts-are-not-told"), "aborted read")


def test_ends_that_anybody_may_ask_for_are_noticed(tmp_path: Path) -> None:
    broken = broken_coordinator("anybody-may-end")
    assert is_noticed(tmp_path, nothing_fails(MEMBERS), broken, "lost", "aborted read", "was confirmed after")


@pytest.mark.parametrize(
    ("schedule", "programs"),
    [
        (nothing_fails, LATE_MARKERS),
        (unreplicated_markers_at_a_crash, {}),
        (coordinators_killed_while_a_broker_is_away, {}),
    ],
)
def test_such_a_schedule_costs_nothing_while_the_rules_hold(
    tmp_path: Path, schedule: Callable[[Members], Schedule], programs: Programs
) -> None:
    assert not trial(tmp_path, schedule(MEMBERS), programs).problems
