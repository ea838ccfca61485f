"""A trial notices when a rule that records depend on is broken: several such rules, each broken on purpose.

A harness that cannot fail proves nothing. Each test breaks one rule of the real services (`broken_rules.py`), lets
happen what the rule is there for, and expects the checker to say what went wrong.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.faults.broken_rules import program
from tests.faults.cluster import PROGRAMS
from tests.faults.fault import BROKER, CONTROLLER, Members
from tests.faults.plan import Outcome
from tests.faults.schedule import Schedule
from tests.faults.targeted_schedules import (
    controller_deposed_while_it_writes,
    coordinator_replaced_unknown_to_a_broker,
    disk_that_loses_records_while_the_others_are_away,
    disks_that_hang,
    disks_that_lose_what_is_not_fsynced,
    disks_that_refuse_writes,
    etcd_away_for_longer_than_the_leases,
    hostile_clients_alone,
    nothing_but_load,
    replicas_shuffled_beside_big_topics,
    topics_under_operators_while_brokers_restart,
    truncated_epochs_at_a_crash,
    unreplicated_records_at_a_crash,
)
from tests.faults.trial import TrialPlan, run_trial

pytestmark = [
    pytest.mark.slow,
    pytest.mark.broken_rules,
    pytest.mark.requires("network namespaces"),
]

SEED = 1
MEMBERS = Members()
FOUR_BROKERS = Members(brokers=4)
SHORT_LAG = {BROKER: {"replica.lag.time.max.ms": "1000"}}


def trial(
    directory: Path,
    schedule: Schedule,
    *,
    groups: bool = False,
    members: Members = MEMBERS,
    **changed: dict[str, tuple[str, ...]] | dict[str, dict[str, str]],
) -> Outcome:
    plan = TrialPlan(
        seed=SEED,
        directory=directory / "trial",
        members=members,
        seconds=schedule.seconds,
        schedule=schedule,
        groups=groups,
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


def test_a_fetch_beyond_the_high_watermark_shows_records_that_vanish(tmp_path: Path) -> None:
    broken = {BROKER: program("fetches-beyond-the-high-watermark", *PROGRAMS[BROKER])}
    outcome = trial(tmp_path, unreplicated_records_at_a_crash(MEMBERS), programs=broken)
    assert any(" saw " in problem or "LOG_TRUNCATION" in problem for problem in outcome.problems)


def test_a_broker_that_tells_committed_offsets_of_old_is_noticed(tmp_path: Path) -> None:
    broken = {BROKER: program("offsets-of-old", *PROGRAMS[BROKER])}
    outcome = trial(tmp_path, nothing_but_load(MEMBERS), programs=broken, groups=True)
    assert any("before what was told earlier" in problem for problem in outcome.problems)


def test_records_that_are_deleted_on_the_leader_only_come_back(tmp_path: Path) -> None:
    broken = {BROKER: program("records-deleted-on-the-leader-only", *PROGRAMS[BROKER])}
    outcome = trial(tmp_path, topics_under_operators_while_brokers_restart(MEMBERS), programs=broken)
    assert any("up to where records were deleted" in problem for problem in outcome.problems)


def test_a_compaction_that_drops_last_values_is_noticed(tmp_path: Path) -> None:
    broken = {BROKER: program("compaction-drops-the-last-value", *PROGRAMS[BROKER])}
    outcome = trial(tmp_path, nothing_but_load(MEMBERS), programs=broken)
    assert any(problem.startswith("lost: the last value") for problem in outcome.problems)


def test_clients_that_are_told_of_no_broker_never_ask_again(tmp_path: Path) -> None:
    broken = {BROKER: program("no-broker-is-named", *PROGRAMS[BROKER])}
    outcome = trial(tmp_path, etcd_away_for_longer_than_the_leases(MEMBERS), programs=broken)
    assert any("_PURGE_QUEUE" in problem or "records flow" in problem for problem in outcome.problems)


def test_epochs_that_were_cut_off_and_come_back_leave_replicas_that_differ(tmp_path: Path) -> None:
    broken = {BROKER: program("obsolete-epochs-survive", *PROGRAMS[BROKER])}
    schedule = truncated_epochs_at_a_crash(FOUR_BROKERS)
    outcome = trial(tmp_path, schedule, members=FOUR_BROKERS, programs=broken)
    assert any(problem.startswith("unsure-") or "healing: unsure-" in problem for problem in outcome.problems)


def test_a_broker_that_forgets_failed_fsyncs_loses_records(tmp_path: Path) -> None:
    broken = {BROKER: program("failed-fsyncs-are-forgotten", *PROGRAMS[BROKER])}
    schedule = disk_that_loses_records_while_the_others_are_away(MEMBERS)
    outcome = trial(tmp_path, schedule, programs=broken)
    # Recovery finds what is lost as gaps, but for logs that are compacted: there replicas differ, or lose records.
    signs = ("lost: ", " saw ", " the last ")
    assert any(sign in problem for problem in outcome.problems for sign in signs)


def test_a_broker_that_stays_away_after_its_disk_hung_is_missed(tmp_path: Path) -> None:
    broken = {BROKER: program("lapsed-registrations-stay-so", *PROGRAMS[BROKER])}
    outcome = trial(tmp_path, disks_that_hang(MEMBERS), programs=broken)
    assert any("not in sync" in problem or "records flow" in problem for problem in outcome.problems)


def test_what_a_refused_write_leaves_behind_is_noticed(tmp_path: Path) -> None:
    broken = {BROKER: program("half-written-batches-stay", *PROGRAMS[BROKER])}
    outcome = trial(tmp_path, disks_that_refuse_writes(MEMBERS), programs=broken)
    assert outcome.problems


def test_a_broker_that_garbage_ends_is_noticed(tmp_path: Path) -> None:
    broken = {BROKER: program("garbage-ends-the-process", *PROGRAMS[BROKER])}
    outcome = trial(tmp_path, hostile_clients_alone(MEMBERS), programs=broken)
    assert any("ended by itself" in problem for problem in outcome.problems)


def test_a_loop_that_garbage_holds_up_is_noticed(tmp_path: Path) -> None:
    broken = {BROKER: program("bad-requests-hold-up-the-loop", *PROGRAMS[BROKER])}
    outcome = trial(tmp_path, hostile_clients_alone(MEMBERS), programs=broken)
    assert any("event loop" in problem for problem in outcome.problems)


def test_an_acknowledgement_before_the_write_is_noticed_while_nobody_else_leads(tmp_path: Path) -> None:
    broken = {BROKER: program("one-acknowledgement-before-the-write", *PROGRAMS[BROKER])}
    outcome = trial(tmp_path, hostile_clients_alone(MEMBERS), programs=broken)
    assert any(problem.startswith("with acks=1 and one leader: lost") for problem in outcome.problems)


@pytest.mark.parametrize(
    "schedule",
    [
        coordinator_replaced_unknown_to_a_broker,
        disk_that_loses_records_while_the_others_are_away,
        disks_that_lose_what_is_not_fsynced,
        disks_that_hang,
        disks_that_refuse_writes,
        hostile_clients_alone,
        topics_under_operators_while_brokers_restart,
        nothing_but_load,
        etcd_away_for_longer_than_the_leases,
        replicas_shuffled_beside_big_topics,
    ],
)
def test_such_a_schedule_costs_nothing_while_the_rules_hold(
    tmp_path: Path, schedule: Callable[[Members], Schedule]
) -> None:
    assert not trial(tmp_path, schedule(MEMBERS), groups=True).problems


def test_epochs_that_were_cut_off_stay_so_while_the_rules_hold(tmp_path: Path) -> None:
    assert not trial(tmp_path, truncated_epochs_at_a_crash(FOUR_BROKERS), members=FOUR_BROKERS).problems


def test_the_same_schedules_cost_nothing_while_the_rules_hold(tmp_path: Path) -> None:
    first = trial(tmp_path / "crash", unreplicated_records_at_a_crash(MEMBERS))
    second = trial(tmp_path / "controller", controller_deposed_while_it_writes(MEMBERS), services=SHORT_LAG)
    assert not first.problems + second.problems
