"""What a follower is told, and its leader notes, once more: a session cannot know what the other side has let go of.

In each of these a follower would otherwise wait for the next append, with its partition out of sync or its high
watermark behind.
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from ottla_broker.fetch_reading import FetchTerms, look, note_told
from ottla_broker.fetch_sessions import FetchSession
from ottla_broker.partition import Partition
from ottla_broker.replica.leader_replica import UNKNOWN_OFFSET, FollowerContact
from ottla_broker.replication.fetch_plan import FetchPlan
from tests.support.broker.readable_partitions import (
    BROKER,
    FOLLOWER,
    OTHER_FOLLOWER,
    PLENTY_BYTES,
    TOPIC,
    ReadablePartitions,
    append,
    asked,
    replicate,
    session_of,
)

TERMS = FetchTerms(PLENTY_BYTES, only_leader=True, read_committed=False)


@pytest.fixture
def partitions(tmp_path: Path) -> Iterator[ReadablePartitions]:
    partitions = ReadablePartitions(tmp_path)
    yield partitions
    partitions.close()


def contact(broker_id: int = FOLLOWER) -> FollowerContact:
    return FollowerContact(broker_id, 72, 0)


def news(session: FetchSession, partitions: ReadablePartitions) -> dict[int, Any]:
    """What a fetch of a session tells, by partition."""
    reading = look(session, TERMS, partitions, only_news=True)
    note_told(session, reading)
    return {found.wanted.asked.partition: found.outcome for found in reading.found}


def known_end(partition: Partition, broker_id: int = FOLLOWER) -> int:
    """Up to where the leader knows a follower's log to reach."""
    assert partition.leader is not None
    return partition.leader.followers[broker_id].log_end_offset


def with_a_replicated_record(partitions: ReadablePartitions) -> Partition:
    partition = partitions.add()
    append(partition)
    replicate(partition)
    return partition


@pytest.mark.parametrize("batches", [0, 3])
def test_a_follower_that_claims_nothing_is_answered_again_after_it_let_go_of_an_answer(
    partitions: ReadablePartitions, batches: int
) -> None:
    """It does so if the leader epoch has changed since it asked, and claims nothing until it has an answer."""
    leading = partitions.add()
    for _ in range(batches):
        append(leading)
    following = partitions.add(1, leads=False)
    following.was_begun_anew = following.awaits_first_answer = True
    session = session_of(follower=contact(OTHER_FOLLOWER))
    plan = FetchPlan[Partition](lambda _: PLENTY_BYTES, 1000)

    def fetched() -> dict[int, Any]:
        plan.follow(following)
        planned = plan.next_fetch(0)
        assert planned is not None
        assert not planned.forgotten, "it stays in the session"
        for wanted in planned.asked.get(following.topic_id, []):
            session.ask(TOPIC, wanted._replace(partition=0))
        plan.answered(7)
        return news(session, partitions)

    first = fetched()
    later = replace(leading.state, leader_epoch=1)
    leading.apply(later, leads=True)
    following.apply(later, leads=False)
    second = fetched()
    for told in (first, second):
        assert [(outcome.error_code, outcome.records) for outcome in told.values()] == [(ErrorCode.none, None)]


def test_a_follower_is_told_the_high_watermark_again_in_another_leader_epoch(partitions: ReadablePartitions) -> None:
    """It let go of the answer that had it; who reads from the follower would not see the records up to there."""
    partition = with_a_replicated_record(partitions)
    session = session_of(asked(0, 1, leader_epoch=0), follower=contact(OTHER_FOLLOWER))
    assert news(session, partitions)[0].high_watermark == 1
    partition.apply(replace(partition.state, leader_epoch=1), leads=True)
    session.ask(TOPIC, asked(0, 1, leader_epoch=1))
    assert news(session, partitions)[0].high_watermark == 1
    session.ask(TOPIC, asked(0, 1, leader_epoch=1))
    assert not news(session, partitions)


def test_a_follower_that_had_to_cut_its_log_is_told_the_high_watermark_afterwards(
    partitions: ReadablePartitions,
) -> None:
    """Of the answer that tells where to cut it takes nothing else, and it may have nothing to copy."""
    partition = with_a_replicated_record(partitions)
    partition.apply(replace(partition.state, leader_epoch=5), leads=True)
    session = session_of(asked(0, 2, last_fetched_epoch=0), follower=contact(OTHER_FOLLOWER))
    assert news(session, partitions)[0].diverging_epoch == (0, 1)
    session.ask(TOPIC, asked(0, 1, last_fetched_epoch=0))
    assert news(session, partitions)[0].high_watermark == 1


def test_a_position_is_noted_again_though_something_else_has_happened_before_the_leader_forgot_it(
    partitions: ReadablePartitions,
) -> None:
    """A partition that has news for the next fetch is not watched until then, so nobody tells of what comes after."""
    partition = partitions.add(isr=(BROKER, FOLLOWER, OTHER_FOLLOWER))
    append(partition)
    session = session_of(asked(0, 1), follower=contact())
    news(session, partitions)
    partition.record_follower_fetch(contact(OTHER_FOLLOWER), offset=1, log_start_offset=0)
    assert partition.log.high_watermark == 1
    partition.apply(replace(partition.state, isr=(BROKER, OTHER_FOLLOWER), partition_epoch=101), leads=True)
    assert known_end(partition) == UNKNOWN_OFFSET
    assert news(session, partitions)[0].high_watermark == 1
    assert known_end(partition) == 1, "it asks for nothing else, and would be out of sync until the next append"
