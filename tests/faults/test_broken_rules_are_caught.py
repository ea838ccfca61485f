"""A trial notices when a rule that records depend on is broken: several such rules, each broken on purpose.

A harness that cannot fail proves nothing. Each test breaks one rule of the real services (`broken_rules.py`), lets
happen what the rule is there for, and expects the checker to say what went wrong. Whether the moment comes at which
the rule counts is partly up to the machine, so a broken rule may take a few trials.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

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
TRIALS_MAX = 3
"""Until a broken rule has to be noticed; each with a seed of its own."""
MEMBERS = Members()
FOUR_BROKERS = Members(brokers=4)
SHORT_LAG = {BROKER: {"replica.lag.time.max.ms": "1000"}}


def trial(
    directory: Path,
    schedule: Schedule,
    *,
    seed: int = SEED,
    groups: bool = False,
    members: Members = MEMBERS,
    **changed: dict[str, tuple[str, ...]] | dict[str, dict[str, str]] | bool,
) -> Outcome:
    plan = TrialPlan(
        seed=seed,
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


def is_noticed(directory: Path, schedule: Schedule, is_sign: Callable[[str], bool], **how: Any) -> bool:
    """Whether a trial finds a problem that is a sign of the broken rule."""
    for seed in range(SEED, SEED + TRIALS_MAX):
        outcome = trial(directory / f"seed-{seed}", schedule, seed=seed, **how)
        if any(map(is_sign, outcome.problems)):
            return True
    return False


@pytest.mark.parametrize("secure", [False, True], ids=["plain", "secure"])
def test_a_high_watermark_that_ignores_the_in_sync_set_loses_records(tmp_path: Path, secure: bool) -> None:
    broken = {BROKER: program("high-watermark-ignores-the-isr", *PROGRAMS[BROKER])}
    assert is_noticed(
        tmp_path,
        unreplicated_records_at_a_crash(MEMBERS),
        lambda problem: problem.startswith("lost:"),
        programs=broken,
        secure=secure,
    )


def test_a_follower_that_does_not_truncate_differs_from_its_leader(tmp_path: Path) -> None:
    broken = {BROKER: program("no-truncation", *PROGRAMS[BROKER])}
    assert is_noticed(
        tmp_path,
        unreplicated_records_at_a_crash(MEMBERS),
        lambda problem: " where broker-" in problem or problem.startswith("not in sync"),
        programs=broken,
    )


def test_a_deposed_controller_that_is_not_fenced_takes_elections_back(tmp_path: Path) -> None:
    broken = {CONTROLLER: program("deposed-controller-not-fenced", *PROGRAMS[CONTROLLER])}
    assert is_noticed(
        tmp_path,
        controller_deposed_while_it_writes(MEMBERS),
        lambda problem: "leader epoch" in problem,
        programs=broken,
        services=SHORT_LAG,
    )


def test_a_fetch_beyond_the_high_watermark_shows_records_that_vanish(tmp_path: Path) -> None:
    broken = {BROKER: program("fetches-beyond-the-high-watermark", *PROGRAMS[BROKER])}
    assert is_noticed(
        tmp_path,
        unreplicated_records_at_a_crash(MEMBERS),
        lambda problem: " saw " in problem or "LOG_TRUNCATION" in problem,
        programs=broken,
    )


def test_a_broker_that_tells_committed_offsets_of_old_is_noticed(tmp_path: Path) -> None:
    broken = {BROKER: program("offsets-of-old", *PROGRAMS[BROKER])}
    assert is_noticed(
        tmp_path,
        nothing_but_load(MEMBERS),
        lambda problem: "before what was told earlier" in problem,
        programs=broken,
        groups=True,
    )


def test_records_that_are_deleted_on_the_leader_only_come_back(tmp_path: Path) -> None:
    broken = {BROKER: program("records-deleted-on-the-leader-only", *PROGRAMS[BROKER])}
    assert is_noticed(
        tmp_path,
        topics_under_operators_while_brokers_restart(MEMBERS),
        lambda problem: "up to where records were deleted" in problem,
        programs=broken,
    )


def test_a_compaction_that_drops_last_values_is_noticed(tmp_path: Path) -> None:
    broken = {BROKER: program("compaction-drops-the-last-value", *PROGRAMS[BROKER])}
    assert is_noticed(
        tmp_path,
        nothing_but_load(MEMBERS),
        lambda problem: problem.startswith("lost: the last value"),
        programs=broken,
    )


def test_clients_that_are_told_of_no_broker_never_ask_again(tmp_path: Path) -> None:
    broken = {BROKER: program("no-broker-is-named", *PROGRAMS[BROKER])}
    assert is_noticed(
        tmp_path,
        etcd_away_for_longer_than_the_leases(MEMBERS),
        lambda problem: "_PURGE_QUEUE" in problem or "records flow" in problem,
        programs=broken,
    )


def test_epochs_that_were_cut_off_and_come_back_leave_replicas_that_differ(tmp_path: Path) -> None:
    broken = {BROKER: program("obsolete-epochs-survive", *PROGRAMS[BROKER])}
    schedule = truncated_epochs_at_a_crash(FOUR_BROKERS)
    assert is_noticed(
        tmp_path,
        schedule,
        lambda problem: problem.startswith("unsure-") or "healing: unsure-" in problem,
        members=FOUR_BROKERS,
        programs=broken,
    )


def test_a_broker_that_forgets_failed_fsyncs_loses_records(tmp_path: Path) -> None:
    broken = {BROKER: program("failed-fsyncs-are-forgotten", *PROGRAMS[BROKER])}
    schedule = disk_that_loses_records_while_the_others_are_away(MEMBERS)
    # Recovery finds what is lost as gaps, but for logs that are compacted: there replicas differ, or lose records.
    signs = ("lost: ", " saw ", " the last ")
    assert is_noticed(tmp_path, schedule, lambda problem: any(sign in problem for sign in signs), programs=broken)


def test_a_broker_that_stays_away_after_its_disk_hung_is_missed(tmp_path: Path) -> None:
    broken = {BROKER: program("lapsed-registrations-stay-so", *PROGRAMS[BROKER])}
    assert is_noticed(
        tmp_path,
        disks_that_hang(MEMBERS),
        lambda problem: "not in sync" in problem or "records flow" in problem,
        programs=broken,
    )


def test_what_a_refused_write_leaves_behind_is_noticed(tmp_path: Path) -> None:
    broken = {BROKER: program("half-written-batches-stay", *PROGRAMS[BROKER])}
    assert is_noticed(tmp_path, disks_that_refuse_writes(MEMBERS), lambda _any: True, programs=broken)


def test_a_broker_that_garbage_ends_is_noticed(tmp_path: Path) -> None:
    broken = {BROKER: program("garbage-ends-the-process", *PROGRAMS[BROKER])}
    assert is_noticed(
        tmp_path, hostile_clients_alone(MEMBERS), lambda problem: "ended by itself" in problem, programs=broken
    )


def test_a_loop_that_garbage_holds_up_is_noticed(tmp_path: Path) -> None:
    broken = {BROKER: program("bad-requests-hold-up-the-loop", *PROGRAMS[BROKER])}
    assert is_noticed(
        tmp_path, hostile_clients_alone(MEMBERS), lambda problem: "event loop" in problem, programs=broken
    )


def test_an_acknowledgement_before_the_write_is_noticed_while_nobody_else_leads(tmp_path: Path) -> None:
    broken = {BROKER: program("one-acknowledgement-before-the-write", *PROGRAMS[BROKER])}
    assert is_noticed(
        tmp_path,
        hostile_clients_alone(MEMBERS),
        lambda problem: problem.startswith("with acks=1 and one leader: lost"),
        programs=broken,
    )


def test_a_right_that_outlasts_its_entry_is_noticed(tmp_path: Path) -> None:
    broken = {BROKER: program("rights-last-for-ever", *PROGRAMS[BROKER])}
    assert is_noticed(
        tmp_path,
        nothing_but_load(MEMBERS),
        lambda problem: "was granted" in problem and problem.endswith("has no right"),
        programs=broken,
        secure=True,
    )


def test_an_entry_that_denies_to_no_avail_is_noticed(tmp_path: Path) -> None:
    broken = {BROKER: program("what-allows-goes-before-what-denies", *PROGRAMS[BROKER])}
    assert is_noticed(
        tmp_path,
        nothing_but_load(MEMBERS),
        lambda problem: "was granted" in problem and problem.endswith("has no right"),
        programs=broken,
        secure=True,
    )


def test_a_broker_that_believes_whoever_signs_tokens_is_noticed(tmp_path: Path) -> None:
    broken = {BROKER: program("whoever-signs-tokens-is-believed", *PROGRAMS[BROKER])}
    assert is_noticed(
        tmp_path,
        nothing_but_load(MEMBERS),
        lambda problem: "a token that a foreign key has signed" in problem,
        programs=broken,
        secure=True,
    )


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
