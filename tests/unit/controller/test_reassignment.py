"""Reassignments: begun, changed while they run, cancelled, and refused."""

from dataclasses import replace

import pytest
from kio.schema.errors import ErrorCode

from ottla_controller.partition_change import conclude
from ottla_controller.reassignment import cancelled, plan_reassignments, reassigned
from ottla_core.cluster.controller_rpc.controller_api import Reassignment
from ottla_core.errors import InvalidReplicaAssignment, NoReassignmentInProgress
from tests.support.controller.replica_rules import ids, live, partition, remembered, rules, stand, state_of

BROKERS = live("1@5", "2@6", "3@7", "4@8")
STAND = stand(BROKERS)


def test_new_replicas_are_added_and_old_ones_stay_until_all_are_in_sync() -> None:
    before = partition("12", "1@5", 3, replicas="12")
    begun = reassigned(before, ids("34"), STAND, rules())
    assert begun == partition("12", "1@5", 3, replicas="3412", adding="34", removing="12")


def test_a_reassignment_that_needs_no_copying_is_done_at_once() -> None:
    before = partition("123", "1@5", 3)
    assert reassigned(before, ids("321"), STAND, rules()) == partition("123", "1@5", 3, replicas="321")
    assert reassigned(before, ids("23"), STAND, rules()) == partition("23", "2@6", 4, replicas="23")
    assert reassigned(before, ids("123"), STAND, rules()) is before


def test_more_replicas_than_before() -> None:
    before = partition("1", "1@5", 3, replicas="1")
    begun = reassigned(before, ids("123"), STAND, rules())
    assert begun == partition("1", "1@5", 3, replicas="123", adding="23")


def test_a_changed_reassignment_starts_from_the_original_replicas() -> None:
    running = partition("123", "1@5", 3, replicas="3412", adding="34", removing="12")
    changed = reassigned(running, ids("42"), STAND, rules())
    assert changed == partition("12", "1@5", 4, replicas="421", adding="4", removing="1")


def test_a_changed_reassignment_keeps_a_replica_that_nobody_can_replace_yet() -> None:
    running = partition("3", "3@7", 3, replicas="3412", adding="34", removing="12")
    changed = reassigned(running, ids("42"), STAND, rules())
    assert changed == partition("3", "3@7", 3, replicas="4213", adding="4", removing="13")


def test_a_changed_reassignment_keeps_a_replica_that_alone_has_every_record_though_it_is_away() -> None:
    """Broker 3 was the last one in sync, and has died; without it in the list its log would go when it is back."""
    led_by_3 = partition("3", "3@7", 3, replicas="3412", adding="34", removing="12")
    without_3 = stand(live("1@5", "2@6", "4@8"))
    running = conclude(led_by_3, led_by_3, without_3, rules())
    assert running == partition("", "none", 4, replicas="3412", adding="34", removing="12", eligible="3")
    changed = reassigned(running, ids("42"), without_3, rules())
    assert changed == partition("", "none", 4, replicas="4213", adding="4", removing="13", eligible="3")
    assert reassigned(changed, ids("42"), stand(live("1@5", "2@6", "3@9", "4@8")), rules()).leader == 3


def test_a_changed_reassignment_keeps_a_replica_with_every_record_until_another_one_has_shown_itself() -> None:
    """Broker 1 is away as well, and may come back from a power failure without its newest records."""
    running = partition("", "none", 4, replicas="3412", adding="34", removing="12", eligible="31")
    without_both = stand(live("2@6", "4@8"))
    changed = reassigned(running, ids("42"), without_both, rules())
    assert changed == partition("", "none", 4, replicas="4213", adding="4", removing="13", eligible="13")


def test_going_back_to_the_original_replicas_is_a_cancellation() -> None:
    running = partition("12", "1@5", 3, replicas="3412", adding="34", removing="12")
    assert reassigned(running, ids("12"), STAND, rules()) == partition("12", "1@5", 4, replicas="12")


def test_a_cancelled_reassignment_leaves_the_original_replicas() -> None:
    running = partition("123", "3@7", 3, replicas="3412", adding="34", removing="12")
    assert cancelled(running, STAND, rules()) == partition("12", "1@5", 4, replicas="12")
    running = partition("1", "1@5", 3, replicas="1234", adding="234")
    assert cancelled(running, STAND, rules()) == partition("1", "1@5", 4, replicas="1")


def test_what_would_lose_records_is_not_cancelled() -> None:
    running = partition("3", "3@7", 3, replicas="3412", adding="34", removing="12")
    with pytest.raises(InvalidReplicaAssignment, match="only replicas that it has added"):
        cancelled(running, STAND, rules())
    assert cancelled(running, STAND, rules(unclean=True)) == partition("1", "1@5", 4, replicas="12")
    with_an_eligible_one = replace(running, eligible_leaders=(2,))
    assert cancelled(with_an_eligible_one, STAND, rules(2)) == partition("2", "2@6", 4, replicas="12")


def test_what_would_drop_an_added_replica_with_every_record_while_nobody_can_lead_is_not_cancelled() -> None:
    """Broker 1 may come back without its newest records."""
    running = partition("", "none", 4, replicas="31", adding="3", removing="1", eligible="31")
    for present in (live("2@6"), live("2@6", "3@9")):
        with pytest.raises(InvalidReplicaAssignment, match="only replicas that it has added"):
            cancelled(running, stand(present), rules())
    assert cancelled(running, stand(live("1@9")), rules()) == partition("1", "1@9", 5, replicas="1")


def test_what_would_leave_the_partition_without_a_leader_is_not_cancelled() -> None:
    running = partition("3", "3@7", 3, replicas="31", adding="3", removing="1", eligible="1")
    with pytest.raises(InvalidReplicaAssignment):
        cancelled(running, stand(live("3@7")), rules(2))
    assert cancelled(running, stand(live("1@9", "3@7")), rules(2)) == partition("1", "1@9", 4, replicas="1")
    offline = partition("", "none", 3, replicas="31", adding="3", removing="1", eligible="1")
    assert cancelled(offline, stand(live()), rules(2)).replicas == (1,)


def test_nothing_to_cancel() -> None:
    with pytest.raises(NoReassignmentInProgress):
        cancelled(partition("12", "1@5"), STAND, rules())


@pytest.mark.parametrize(
    ("request_", "allow_factor_change", "code"),
    [
        (Reassignment(topic="u", index=0, replicas=(1,)), True, ErrorCode.unknown_topic_or_partition),
        (Reassignment(topic="t", index=1, replicas=(1,)), True, ErrorCode.unknown_topic_or_partition),
        (Reassignment(topic="t", index=0, replicas=()), True, ErrorCode.invalid_replica_assignment),
        (Reassignment(topic="t", index=0, replicas=(1, 1)), True, ErrorCode.invalid_replica_assignment),
        (Reassignment(topic="t", index=0, replicas=(1, 9)), True, ErrorCode.invalid_replica_assignment),
        (Reassignment(topic="t", index=0, replicas=(1, 2)), False, ErrorCode.invalid_replication_factor),
        (Reassignment(topic="t", index=0, replicas=None), True, ErrorCode.no_reassignment_in_progress),
        (Reassignment(topic="t", index=0, replicas=(1, 2)), True, ErrorCode.none),
        (Reassignment(topic="t", index=0, replicas=(5, 2, 1)), False, ErrorCode.none),
    ],
)
def test_answers(request_: Reassignment, allow_factor_change: bool, code: ErrorCode) -> None:
    """Broker 5 is away, but known."""
    state = state_of(partition("123", "1@5"), brokers=BROKERS, registrations=remembered("5@4"))
    (plan,) = plan_reassignments(
        [request_],
        state,
        STAND,
        rules_of=lambda _: rules(),
        allow_replication_factor_change=allow_factor_change,
    )
    assert plan.result.error_code is code
    assert (plan.partition is None) == (code is not ErrorCode.none)


def test_a_partition_named_twice_is_refused_twice() -> None:
    twice = [Reassignment(topic="t", index=0, replicas=(1,))] * 2
    plans = plan_reassignments(
        twice,
        state_of(partition("123", "1@5"), brokers=BROKERS),
        STAND,
        rules_of=lambda _: rules(),
        allow_replication_factor_change=True,
    )
    assert [plan.result.error_code for plan in plans] == [ErrorCode.invalid_request] * 2
