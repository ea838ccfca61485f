"""Produce requests of transactions: nothing begins one in a partition that its coordinator does not know there."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from kio.index import load_request_schema
from kio.schema.errors import ErrorCode

from ottla_broker.broker import Broker
from ottla_broker.partition import Partition
from ottla_broker.partition_context import ReplicationContext
from ottla_broker.partition_table import PartitionTable
from ottla_broker.transactions.coordinator_requests import CoordinatorRequests
from ottla_core.acls import AclBinding, AclOperation, PatternType, Permission, ResourceKind
from ottla_core.cluster.state.model import NO_EPOCH, Topic
from ottla_core.topic_config import TopicConfig
from ottla_core.topic_partition import TopicPartition
from ottla_core.wire.records import iterate_records
from tests.support.broker.access_lists import authorization_by
from tests.support.broker.broker_parts import ask, broker_of
from tests.support.broker.fake_relay import Answering, FakeRelay, by_partition, partition_codes, refusing
from tests.support.broker.partition_logs import batch_of, open_log, read_batches
from tests.support.broker.scripted_coordinator import ScriptedCoordinator
from tests.support.broker.transactional_logs import end, transactional_batch
from tests.support.clients.right_probes import made
from tests.support.groups.group_cluster import BROKER, StatedFeed, group_state, with_transactions

TOPIC, ID = "flights", "transfer"
PRODUCER, EPOCH = 7, 2
NONE = ErrorCode.none
OLD, ABORTABLE, IMPLICIT = 9, 11, 12
"""Versions of Produce: of clients that add partitions first, of those that know TRANSACTION_ABORTABLE, of those that
leave the adding to the broker."""


class Registration:
    """This broker's."""

    registered_epoch = NO_EPOCH

    def is_current(self) -> bool:
        return True


class Leader:
    """A broker that leads two partitions, and the coordinators that it asks."""

    def __init__(self, directory: Path, answering: Answering, **parts: Any) -> None:
        state = with_transactions(group_state(ScriptedCoordinator(1).member()))
        states = [
            replace(each, index=index) for index, each in enumerate(state.topics["__transaction_state"].partitions)
        ]
        topic = Topic(name=TOPIC, id=states[0].topic_id, partitions=tuple(states))
        self.feed = StatedFeed(replace(state, topics={**state.topics, TOPIC: topic}))
        self.relay = FakeRelay(answering)
        settings = {"add.partitions.to.txn.retry.backoff.ms": "1", "add.partitions.to.txn.retry.backoff.max.ms": "50"}
        config = broker_of(self.feed).config
        table = PartitionTable(config, self.feed, Registration())  # type: ignore[arg-type]
        self.partitions: list[Partition] = []
        for each in states:
            log = open_log(directory / str(each.index), config=TopicConfig())
            partition = Partition(
                TopicPartition(TOPIC, each.index), log, ReplicationContext(BROKER, 30_000, int), each
            )
            partition.apply(each, leads=True)
            table.add(partition)
            self.partitions.append(partition)
        self.table = table
        coordinators = CoordinatorRequests(self.relay, lambda: self.feed.state, "b", 10)  # type: ignore[arg-type]
        self.broker: Broker = broker_of(
            self.feed,
            settings=settings,
            partitions=table,
            transaction_coordinators=coordinators,
            groups=self.relay,
            **parts,
        )

    async def add(self, *indexes: int) -> Sequence[ErrorCode]:
        """Have a client add partitions to its transaction."""
        message = made(
            load_request_schema(24, 3),
            {
                "v3_and_below_transactional_id": ID,
                "v3_and_below_producer_id": PRODUCER,
                "v3_and_below_producer_epoch": EPOCH,
                "v3_and_below_topics": ({"name": TOPIC, "partitions": indexes},),
            },
        )
        response = await ask(self.broker, message)
        return [
            each.partition_error_code
            for topic in response.results_by_topic_v3_and_below
            for each in topic.results_by_partition
        ]

    async def produce(
        self, *batches: bytes, version: int = OLD, transactional_id: str | None = ID, first: int = 0
    ) -> Sequence[ErrorCode]:
        """Have a client send a batch for each partition from the first; return what it is told of each."""
        data = tuple({"index": index, "records": batch} for index, batch in enumerate(batches, first))
        message = made(
            load_request_schema(0, version),
            {
                "transactional_id": transactional_id,
                "acks": -1,
                "topic_data": ({"name": TOPIC, "partition_data": data},),
            },
        )
        response = await ask(self.broker, message)
        return [each.error_code for topic in response.responses for each in topic.partition_responses]

    def values(self, index: int = 0) -> list[bytes | None]:
        """What clients have written, decided or not."""
        batches = read_batches(self.partitions[index].log, 0)
        return [
            record.value
            for header, batch in batches
            if not header.is_control
            for record in iterate_records(batch, header)
        ]


def batch(value: bytes = b"v", sequence: int = 0, *, producer_id: int = PRODUCER, epoch: int = EPOCH) -> bytes:
    return transactional_batch(value, producer=(producer_id, epoch, sequence))


async def test_the_coordinator_is_asked_once_for_all_partitions_and_not_again_while_the_transaction_is_open(
    tmp_path: Path,
) -> None:
    leader = Leader(tmp_path, partition_codes(NONE))

    assert await leader.produce(batch(b"1"), batch(b"2")) == [NONE, NONE]
    assert await leader.produce(batch(b"3", 1)) == [NONE]

    (asked,) = leader.relay.asked
    (transaction,) = asked.message.transactions
    assert (transaction.transactional_id, transaction.producer_id, transaction.producer_epoch) == (
        ID,
        PRODUCER,
        EPOCH,
    )
    assert [(each.name, each.partitions) for each in transaction.topics] == [(TOPIC, (0, 1))]
    assert (leader.values(0), leader.values(1)) == ([b"1", b"3"], [b"2"])


@pytest.mark.parametrize(("version", "verifies_only"), [(OLD, True), (ABORTABLE, True), (IMPLICIT, False)])
async def test_older_clients_have_added_their_partitions_and_for_newer_ones_the_broker_does(
    tmp_path: Path, version: int, verifies_only: bool
) -> None:
    leader = Leader(tmp_path, partition_codes(NONE))
    assert await leader.produce(batch(), version=version) == [NONE]
    assert [each.verify_only for each in leader.relay.asked[0].message.transactions] == [verifies_only]


@pytest.mark.parametrize(
    ("code", "version", "told"),
    [
        (ErrorCode.invalid_txn_state, OLD, ErrorCode.invalid_txn_state),
        (ErrorCode.transaction_abortable, OLD, ErrorCode.invalid_txn_state),
        (ErrorCode.transaction_abortable, ABORTABLE, ErrorCode.transaction_abortable),
        (ErrorCode.transaction_abortable, IMPLICIT, ErrorCode.transaction_abortable),
        (ErrorCode.producer_fenced, OLD, ErrorCode.invalid_producer_epoch),
        (ErrorCode.producer_fenced, IMPLICIT, ErrorCode.invalid_producer_epoch),
        (ErrorCode.concurrent_transactions, OLD, ErrorCode.not_enough_replicas),
        (ErrorCode.concurrent_transactions, IMPLICIT, ErrorCode.concurrent_transactions),
        (ErrorCode.not_coordinator, OLD, ErrorCode.not_enough_replicas),
        (ErrorCode.coordinator_load_in_progress, IMPLICIT, ErrorCode.not_enough_replicas),
        (ErrorCode.network_exception, ABORTABLE, ErrorCode.not_enough_replicas),
        (ErrorCode.invalid_producer_id_mapping, OLD, ErrorCode.invalid_producer_id_mapping),
    ],
)
async def test_what_the_coordinator_refuses_is_not_in_the_log_and_told_as_the_client_knows_it(
    tmp_path: Path, code: ErrorCode, version: int, told: ErrorCode
) -> None:
    leader = Leader(tmp_path, partition_codes(code))
    assert await leader.produce(batch(), version=version) == [told]
    assert leader.values() == []


@pytest.mark.parametrize("version", [OLD, IMPLICIT])
async def test_a_partition_that_follows_another_cluster_is_not_added(tmp_path: Path, version: int) -> None:
    leader = Leader(tmp_path, partition_codes(NONE))
    linked = leader.partitions[0]
    linked.apply(replace(linked.state, link=UUID(int=9)), leads=True)
    assert await leader.produce(batch(), batch(), version=version) == [ErrorCode.policy_violation, NONE]
    (asked,) = leader.relay.asked
    assert [each.partitions for each in asked.message.transactions[0].topics] == [(1,)]


async def test_a_partition_is_added_anew_until_the_former_transaction_has_ended(tmp_path: Path) -> None:
    codes = [ErrorCode.concurrent_transactions, ErrorCode.concurrent_transactions, NONE]
    leader = Leader(tmp_path, by_partition(lambda _: codes.pop(0)))
    assert await leader.produce(batch(), version=IMPLICIT) == [NONE]
    assert len(leader.relay.asked) == 3


async def test_behind_a_batch_that_has_to_come_again_none_gets_ahead(tmp_path: Path) -> None:
    codes = [ErrorCode.not_coordinator, NONE]
    leader = Leader(tmp_path, by_partition(lambda _: codes.pop(0)))
    assert await leader.produce(batch(b"1", 0)) == [ErrorCode.not_enough_replicas]
    assert await leader.produce(batch(b"2", 1)) == [ErrorCode.not_enough_replicas]
    leader.relay.answering = partition_codes(NONE)
    assert await leader.produce(batch(b"1", 0)) == [NONE]
    assert await leader.produce(batch(b"2", 1)) == [NONE]
    assert leader.values() == [b"1", b"2"]


async def test_the_coordinator_is_asked_again_when_the_last_transactions_marker_has_come_meanwhile(
    tmp_path: Path,
) -> None:
    leader = Leader(tmp_path, partition_codes(NONE))
    assert await leader.produce(batch(b"1"), version=IMPLICIT) == [NONE]
    leader.relay.answering = lambda _: None
    asked = asyncio.create_task(leader.produce(batch(b"2", epoch=EPOCH + 1), version=IMPLICIT))
    while len(leader.relay.asked) < 2:
        await asyncio.sleep(0)
    end(leader.partitions[0].log, PRODUCER, EPOCH + 1, commit=True, transaction_version=2)

    leader.relay.answering = partition_codes(NONE)
    leader.relay.answer_held()

    assert await asked == [NONE]
    assert len(leader.relay.asked) == 3
    assert leader.values() == [b"1", b"2"]


async def test_a_batch_is_not_appended_when_its_transaction_has_ended_while_the_coordinator_was_asked(
    tmp_path: Path,
) -> None:
    leader = Leader(tmp_path, lambda _: None)
    asked = asyncio.create_task(leader.produce(batch()))
    while not leader.relay.asked:
        await asyncio.sleep(0)
    end(leader.partitions[0].log, PRODUCER, EPOCH, commit=False)

    leader.relay.answering = partition_codes(NONE)
    leader.relay.answer_held()
    leader.relay.answering = partition_codes(ErrorCode.invalid_txn_state)

    assert await asked == [ErrorCode.invalid_txn_state]
    assert len(leader.relay.asked) == 2
    assert leader.values() == []


async def test_a_producer_comes_again_when_another_leadership_has_begun_while_the_coordinator_was_asked(
    tmp_path: Path,
) -> None:
    leader = Leader(tmp_path, lambda _: None)
    asked = asyncio.create_task(leader.produce(batch()))
    while not leader.relay.asked:
        await asyncio.sleep(0)
    partition = leader.partitions[0]
    partition.apply(replace(partition.state, leader_epoch=partition.state.leader_epoch + 1), leads=True)

    leader.relay.answering = partition_codes(NONE)
    leader.relay.answer_held()

    assert await asked == [ErrorCode.not_leader_or_follower]
    assert leader.values() == []


async def test_a_request_of_two_producers_is_refused_as_a_whole(tmp_path: Path) -> None:
    leader = Leader(tmp_path, partition_codes(NONE))
    answer = await leader.produce(batch(), batch(producer_id=PRODUCER + 1))
    assert answer == [ErrorCode.invalid_producer_id_mapping] * 2
    assert leader.relay.asked == []


async def test_a_batch_of_a_transaction_needs_a_transactional_id(tmp_path: Path) -> None:
    leader = Leader(tmp_path, partition_codes(NONE))
    answer = await leader.produce(batch(), transactional_id=None)
    assert answer == [ErrorCode.transactional_id_authorization_failed]


async def test_a_plain_batch_in_a_transactional_request_needs_no_coordinator(tmp_path: Path) -> None:
    leader = Leader(tmp_path, partition_codes(ErrorCode.invalid_txn_state))
    assert await leader.produce(batch_of(b"plain")) == [NONE]
    assert leader.relay.asked == []


async def test_below_their_level_there_are_no_transactions(tmp_path: Path) -> None:
    leader = Leader(tmp_path, partition_codes(NONE))
    leader.feed.publish(features=group_state().features)
    assert await leader.produce(batch()) == [ErrorCode.policy_violation]


def allowed(kind: ResourceKind, name: str, operation: AclOperation = AclOperation.WRITE) -> AclBinding:
    return AclBinding(
        kind=kind,
        pattern=PatternType.LITERAL,
        name=name,
        principal="User:ANONYMOUS",
        host="*",
        operation=operation,
        permission=Permission.ALLOW,
    )


async def test_who_may_not_write_as_the_transactional_id_or_to_the_topic_adds_nothing(tmp_path: Path) -> None:
    may_write_topic = authorization_by([allowed(ResourceKind.TOPIC, TOPIC)])
    leader = Leader(tmp_path, partition_codes(NONE), authorization=may_write_topic)
    assert await leader.produce(batch()) == [ErrorCode.transactional_id_authorization_failed]
    assert leader.relay.asked == []

    may_use_id = authorization_by([allowed(ResourceKind.TRANSACTIONAL_ID, ID)])
    leader = Leader(tmp_path, partition_codes(NONE), authorization=may_use_id)
    assert await leader.produce(batch(), version=IMPLICIT) == [ErrorCode.topic_authorization_failed]
    assert leader.relay.asked == []


async def in_next_transaction(leader: Leader, version: int = OLD) -> None:
    """Have one transaction in two partitions, by a request for each, and begin the next one in the first of them."""
    assert await leader.produce(batch(b"1"), version=version) == [NONE]
    assert await leader.produce(batch(b"2"), version=version, first=1) == [NONE]
    for partition in leader.partitions[:2]:
        end(partition.log, PRODUCER, EPOCH, commit=True)
    leader.relay.asked.clear()
    assert await leader.produce(batch(b"3", 1), version=version) == [NONE]


def asked_about(leader: Leader) -> list[tuple[int, ...]]:
    """The partitions of each question."""
    return [
        tuple(sorted(topic.partitions))
        for asked in leader.relay.asked
        for transaction in asked.message.transactions
        for topic in transaction.topics
    ]


async def test_the_next_transaction_is_confirmed_at_once_where_the_last_one_has_begun(tmp_path: Path) -> None:
    leader = Leader(tmp_path, partition_codes(NONE))
    await in_next_transaction(leader)
    assert await leader.produce(batch(b"4", 1), first=1) == [NONE]
    assert asked_about(leader) == [(0, 1)]
    assert leader.values(1) == [b"2", b"4"]

    for partition in leader.partitions[:2]:
        end(partition.log, PRODUCER, EPOCH, commit=True)
    assert await leader.produce(batch(b"5", 2), first=1) == [NONE]
    assert await leader.produce(batch(b"6", 2)) == [NONE]
    assert asked_about(leader) == [(0, 1), (0, 1)]


async def test_nothing_is_added_to_a_transaction_that_its_producer_has_not_written_to(tmp_path: Path) -> None:
    leader = Leader(tmp_path, partition_codes(NONE))
    await in_next_transaction(leader, IMPLICIT)
    assert asked_about(leader) == [(0,)]


async def test_what_the_coordinator_has_not_confirmed_ahead_is_asked_for_when_it_is_written_to(
    tmp_path: Path,
) -> None:
    codes = {0: NONE, 1: NONE}
    leader = Leader(tmp_path, by_partition(lambda asked: codes[asked.partition]))
    await in_next_transaction(leader)
    assert await leader.produce(batch(b"4", 1), first=1) == [NONE]
    for partition in leader.partitions[:2]:
        end(partition.log, PRODUCER, EPOCH, commit=True)

    codes[1] = ErrorCode.transaction_abortable
    assert await leader.produce(batch(b"5", 2)) == [NONE]
    assert await leader.produce(batch(b"6", 2), first=1) == [ErrorCode.invalid_txn_state]
    assert asked_about(leader) == [(0, 1), (0, 1), (1,)]
    assert leader.values(1) == [b"2", b"4"]


async def test_an_end_of_the_transaction_takes_back_what_was_confirmed_ahead(tmp_path: Path) -> None:
    leader = Leader(tmp_path, partition_codes(NONE))
    await in_next_transaction(leader)
    end(leader.partitions[1].log, PRODUCER, EPOCH, commit=False)  # by a time-out

    leader.relay.answering = partition_codes(ErrorCode.invalid_txn_state)
    assert await leader.produce(batch(b"4", 1), first=1) == [ErrorCode.invalid_txn_state]
    assert leader.values(1) == [b"2"]


async def test_another_leadership_takes_back_what_was_confirmed_ahead(tmp_path: Path) -> None:
    leader = Leader(tmp_path, partition_codes(NONE))
    await in_next_transaction(leader)
    partition = leader.partitions[1]
    partition.apply(replace(partition.state, leader_epoch=partition.state.leader_epoch + 1), leads=True)

    leader.relay.answering = partition_codes(ErrorCode.invalid_txn_state)
    assert await leader.produce(batch(b"4", 1), first=1) == [ErrorCode.invalid_txn_state]
    assert leader.values(1) == [b"2"]


async def test_a_batch_that_others_have_to_come_before_is_not_appended_by_what_was_confirmed_ahead(
    tmp_path: Path,
) -> None:
    leader = Leader(tmp_path, partition_codes(NONE))
    await in_next_transaction(leader)
    assert await leader.produce(batch(b"5", 2), first=1) == [ErrorCode.out_of_order_sequence_number]
    assert await leader.produce(batch(b"4", 1), first=1) == [NONE]
    assert await leader.produce(batch(b"5", 2), first=1) == [NONE]
    assert leader.values(1) == [b"2", b"4", b"5"]


async def test_what_was_added_while_nothing_ended_needs_no_confirmation(tmp_path: Path) -> None:
    leader = Leader(tmp_path, refusing(NONE))
    assert await leader.add(0, 1) == [NONE, NONE]
    assert await leader.produce(batch(b"1"), batch(b"2")) == [NONE, NONE]
    assert len(leader.relay.asked) == 1
    assert (leader.values(0), leader.values(1)) == ([b"1"], [b"2"])


async def test_what_was_not_added_is_not_confirmed_by_that(tmp_path: Path) -> None:
    leader = Leader(tmp_path, refusing(ErrorCode.concurrent_transactions))
    assert await leader.add(0, 1) == [ErrorCode.concurrent_transactions] * 2
    leader.relay.answering = partition_codes(ErrorCode.invalid_txn_state)
    assert await leader.produce(batch()) == [ErrorCode.invalid_txn_state]


@pytest.mark.parametrize("is_answered", [False, True])
async def test_a_marker_that_comes_while_partitions_are_added_or_later_makes_them_unconfirmed(
    tmp_path: Path, is_answered: bool
) -> None:
    leader = Leader(tmp_path, refusing(NONE) if is_answered else lambda _: None)
    adding = asyncio.create_task(leader.add(0))
    while not (adding.done() if is_answered else leader.relay.asked):
        await asyncio.sleep(0)
    end(leader.partitions[0].log, PRODUCER, EPOCH, commit=False)
    leader.relay.answering = refusing(NONE)
    leader.relay.answer_held()
    assert await adding == [NONE]

    leader.relay.answering = partition_codes(ErrorCode.invalid_txn_state)
    assert await leader.produce(batch()) == [ErrorCode.invalid_txn_state]
    assert leader.values() == []
