"""Who leads a partition after a recovery, in cases that a model of replication alone does not come to."""

from dataclasses import replace
from uuid import UUID

import pytest

from ottla.recover.merging import RecoveryPlan
from ottla.recover.partition_rules import PartitionPlan, Verdict
from ottla_core.cluster.state import codec
from ottla_core.cluster.state.model import BrokerRegistration, PartitionState
from ottla_core.cluster.state.recovery_facts import BrokerFacts
from ottla_core.cluster.state.state_copy import StateCopy, StoredValue
from tests.support.controller.recovery_plans import FLIGHTS, directory_id, facts, first_look, log, plan, state

ELSEWHERE = log(topic="other", topic_id=UUID(int=9))
OTHER_DIRECTORY = UUID(int=555)
BROKEN = "its log cannot be read"


def copied(
    isr: tuple[int, ...], *, eligible: tuple[int, ...] = (), revision: int = 50, leader: int = 3, written: int = 10
) -> StateCopy:
    """A copy in which a partition of three replicas has an in-sync set."""
    partition = PartitionState(
        topic_id=FLIGHTS, index=0, replicas=(1, 2, 3), isr=isr, leader=leader, leader_epoch=7, leader_broker_epoch=30,
        eligible_leaders=eligible,
    )  # fmt: skip
    key = f"partitions/{FLIGHTS}/0"
    copy = state(revision, brokers=3)
    return replace(copy, entries={**copy.entries, key: StoredValue(written, codec.encode_partition(partition))})


def doubtful(of: BrokerFacts) -> BrokerFacts:
    return replace(of, copy_is_sure=False)


def settled(*of: BrokerFacts) -> tuple[RecoveryPlan, PartitionPlan, PartitionState]:
    """The plan of the partition, and what the controller makes of it when all brokers are there."""
    made = plan(*of)
    (partition,) = [each for each in made.partitions if each.topic == "flights"]
    assert set(partition.state.isr) | set(partition.state.eligible_leaders) <= set(partition.state.replicas)
    return made, partition, first_look(made, of)["flights", 0]


def test_a_replica_that_alone_was_in_sync_and_whose_log_cannot_be_read_is_waited_for() -> None:
    copy = copied((3,))
    unread = facts(3, copy, ELSEWHERE, problems=(BROKEN,), unread=(("flights", 0),))
    _, partition, after = settled(facts(1, copy, log(100)), doubtful(facts(2, copy, log(100))), unread)
    assert (partition.verdict, partition.may_lack_records) == (Verdict.WAITS, True)
    assert partition.state.replicas == (1, 2, 3)
    assert after.leader == -1


def test_a_log_of_an_unknown_topic_may_be_the_one_that_is_waited_for() -> None:
    copy = copied((3,))
    unknown = facts(3, copy, log(100, topic_id=None))
    _, partition, after = settled(facts(1, copy, log(100)), doubtful(facts(2, copy, log(100))), unknown)
    assert (partition.verdict, after.leader) == (Verdict.WAITS, -1)


def test_a_log_directory_that_was_not_inspected_may_have_the_log_that_is_waited_for() -> None:
    copy = copied((3,))
    registration = BrokerRegistration(broker_id=3, broker_epoch=30, directory_ids=(directory_id(3), OTHER_DIRECTORY))
    copy = replace(
        copy,
        entries={**copy.entries, "registrations/3": StoredValue(10, codec.encode_registration(registration))},
    )
    of = facts(1, copy, log(100)), facts(2, copy, log(100)), facts(3, copy, ELSEWHERE)
    made, partition, after = settled(*of)
    assert (partition.verdict, after.leader) == (Verdict.WAITS, -1)
    assert partition.state.isr == (3,), "it leads when it is back with that directory"
    assert any(str(OTHER_DIRECTORY) in note for note in made.notes)


def test_where_others_are_in_sync_too_a_log_that_cannot_be_read_may_have_records_that_they_lack() -> None:
    copy = copied((1, 2, 3))
    unread = facts(3, None, ELSEWHERE, problems=(BROKEN,), unread=(("flights", 0),))
    _, partition, after = settled(facts(1, copy, log(100)), facts(2, copy, log(90)), unread)
    assert (partition.verdict, partition.may_lack_records) == (Verdict.LONGEST_LOG, True)
    assert (partition.state.isr, after.leader) == ((1,), 1)
    assert partition.state.replicas == (1, 2, 3)


def test_a_replica_that_alone_was_in_sync_and_was_put_back_does_not_cut_the_others() -> None:
    """Its directory is an old backup of itself: what it acknowledged since is lost, but others have more than it."""
    copy = copied((3,), written=45)
    old = copied((1, 2, 3), revision=40)
    of = (
        facts(1, copy, log(100, high_watermark=100)),
        facts(2, copy, log(100, high_watermark=100)),
        facts(3, old, log(50, high_watermark=50)),
    )
    _, partition, after = settled(*of)
    assert (partition.verdict, partition.may_lack_records) == (Verdict.LONGEST_LOG, True)
    assert after.leader in {1, 2}


@pytest.mark.parametrize("by", ["registration", "leadership"])
def test_a_broker_whose_copy_is_older_than_its_registration_was_put_back(by: str) -> None:
    """No checkpoint says that its log lacks something."""
    copy = copied((3,), written=45)
    old = copied((1, 2, 3), revision=20 if by == "registration" else 25)
    if by == "leadership":
        earlier = BrokerRegistration(broker_id=3, broker_epoch=22, directory_ids=(directory_id(3),))
        copy = replace(
            copy, entries={**copy.entries, "registrations/3": StoredValue(10, codec.encode_registration(earlier))}
        )
        old = replace(old, entries={**old.entries, "registrations/3": copy.entries["registrations/3"]})
    put_back = facts(3, old, log(50))
    _, partition, after = settled(facts(1, copy, log(100)), facts(2, copy, log(100)), put_back)
    assert (partition.verdict, partition.may_lack_records) == (Verdict.LONGEST_LOG, True)
    assert after.leader in {1, 2}


def test_a_copy_of_before_the_last_recovery_is_old_only_if_its_broker_has_registered_since() -> None:
    of_recovery = codec.encode_recovery(plan(facts(1, state()), facts(2, state())).recovery)

    def after_recovery(epoch: int) -> StateCopy:
        registration = BrokerRegistration(broker_id=2, broker_epoch=epoch, directory_ids=(directory_id(2),))
        return state(40, recovery=of_recovery, registrations__2=codec.encode_registration(registration))

    before = facts(2, state(5_000), log(10))
    (never_back,) = plan(facts(1, after_recovery(0), log(20)), before).partitions
    (put_back,) = plan(facts(1, after_recovery(15), log(20)), before).partitions
    assert (never_back.verdict, never_back.may_lack_records) == (Verdict.IN_SYNC, False)
    assert (put_back.verdict, put_back.may_lack_records) == (Verdict.LONGEST_LOG, True)


@pytest.mark.parametrize("is_doubtful", [False, True])
def test_where_nobody_was_in_sync_any_more_nobody_leads_unasked(is_doubtful: bool) -> None:
    copy = copied((), leader=-1)
    second = facts(2, copy, log(40))
    of = facts(1, copy, log(50)), doubtful(second) if is_doubtful else second, facts(3, copy, log(0, epoch=-1))
    _, partition, after = settled(*of)
    assert (partition.verdict, partition.may_lack_records, after.leader) == (Verdict.WAITS, True, -1)


def test_a_replica_that_has_no_log_yet_stays_a_replica() -> None:
    copy = copied((1, 2), leader=1)
    _, partition, _ = settled(facts(1, copy, log(50)), doubtful(facts(2, copy, log(40))), facts(3, copy, ELSEWHERE))
    assert partition.state.replicas == (1, 2, 3)


def test_replicas_that_changed_since_are_noted() -> None:
    copy = copied((1, 2), leader=1)
    of = (
        facts(1, copy, log(50)),
        doubtful(facts(2, copy, log(40))),
        facts(3, copy, ELSEWHERE),
        facts(4, None, log(45)),
    )
    made, partition, _ = settled(*of)
    assert partition.state.replicas == (1, 2, 4)
    assert any("flights-0" in note and "1, 2, 3" in note and "1, 2, 4" in note for note in made.notes)


def test_where_nobody_has_a_log_those_who_are_there_lead_and_the_plan_says_that_others_may_have_one() -> None:
    copy = copied((1, 2, 3), leader=1)
    of = facts(1, copy, ELSEWHERE), facts(2, copy, ELSEWHERE)
    made = plan(*of, without=frozenset({3}))
    (partition,) = [each for each in made.partitions if each.topic == "flights"]
    assert (partition.state.isr, partition.may_lack_records) == ((1, 2), True)
    assert first_look(made, of)["flights", 0].leader in {1, 2}


def test_a_replica_that_has_written_nothing_is_in_sync_with_one_that_has_no_log_yet() -> None:
    copy = copied((3,))
    of = facts(1, copy, log(0, epoch=-1)), facts(2, copy, log(0, epoch=-1)), facts(3, copy, ELSEWHERE)
    _, partition, after = settled(*of)
    assert (partition.verdict, after.leader) == (Verdict.IN_SYNC, 3)
