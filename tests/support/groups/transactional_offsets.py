"""Requests that commit offsets in transactions, and end these, for a `ShardUnderTest` or a coordinator."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from kio.index import load_request_schema
from kio.static.protocol import Entity

from ottla_core.shards import GROUP_TOPIC
from ottla_core.wire.conversion import item_type, message_of
from ottla_core.wire.transaction_responses import TXN_OFFSET_COMMIT, WRITE_TXN_MARKERS
from ottla_group_coordinator.runtime.turn import VerificationGuard
from tests.support.groups.shard_under_test import PARTITION, ShardUnderTest, commit_codes

NEWEST = 5
NEWEST_MARKERS = 2


class Producer(NamedTuple):
    """A transactional producer."""

    id: int
    epoch: int = 0


A, B = Producer(70), Producer(71)


def txn_commit_request(
    producer: Producer,
    group_id: str,
    offsets: Mapping[tuple[str, int], int],
    *,
    version: int = NEWEST,
    metadata: str | None = "",
    **values: object,
) -> Entity:
    """A TxnOffsetCommit; by nobody's member unless `values` name one."""
    request_type = load_request_schema(TXN_OFFSET_COMMIT, version)
    topic_type = item_type(request_type, "topics")
    partition_type = item_type(topic_type, "partitions")
    topics = tuple(
        message_of(
            topic_type,
            name=name,
            partitions=tuple(
                message_of(
                    partition_type, partition_index=index, committed_offset=offset, committed_metadata=metadata
                )
                for (topic, index), offset in offsets.items()
                if topic == name
            ),
        )
        for name in dict.fromkeys(topic for topic, _ in offsets)
    )
    identity = {
        "transactional_id": f"txn-{producer.id}",
        "producer_id": producer.id,
        "producer_epoch": producer.epoch,
    }
    return message_of(request_type, group_id=group_id, topics=topics, **{**identity, **values})


def markers_request(
    *ends: tuple[Producer, bool],
    version: int = NEWEST_MARKERS,
    transaction_version: int = 2,
    coordinator_epoch: int = 0,
    partitions: Iterable[int] = (PARTITION,),
    topic: str = GROUP_TOPIC,
) -> Entity:
    """A WriteTxnMarkers that ends transactions: producers with the epoch of their marker, and whether to commit."""
    request_type = load_request_schema(WRITE_TXN_MARKERS, version)
    marker_type = item_type(request_type, "markers")
    asked = (message_of(item_type(marker_type, "topics"), name=topic, partition_indexes=tuple(partitions)),)
    markers = tuple(
        message_of(
            marker_type,
            producer_id=producer.id,
            producer_epoch=producer.epoch,
            transaction_result=is_commit,
            topics=asked,
            coordinator_epoch=coordinator_epoch,
            transaction_version=transaction_version,
        )
        for producer, is_commit in ends
    )
    return message_of(request_type, markers=markers)


def marker_codes(response: Any) -> list[str]:
    """The errors of a response's markers, one for each partition."""
    return [
        partition.error_code.name
        for marker in response.markers
        for topic in marker.topics
        for partition in topic.partitions
    ]


def begin(under_test: ShardUnderTest, producer: Producer, group_id: str, **values: Any) -> int:
    """Ask the first time, and return the guard."""
    request = txn_commit_request(producer, group_id, {("orders", 0): 0}, **values)
    answer = under_test.ask(TXN_OFFSET_COMMIT, values.get("version", NEWEST), request)
    assert isinstance(answer, VerificationGuard), f"{answer}"
    return answer.number


def txn_commit(
    under_test: ShardUnderTest,
    producer: Producer,
    group_id: str,
    offsets: Mapping[tuple[str, int], int],
    *,
    guard: int | None = None,
    **values: Any,
) -> dict[tuple[Any, int], str]:
    """Commit in a transaction as a broker has it done, with the guard that is asked for; return the errors."""
    version = values.get("version", NEWEST)
    request = txn_commit_request(producer, group_id, offsets, **values)
    answer = under_test.ask(TXN_OFFSET_COMMIT, version, request, verification_guard=guard)
    if isinstance(answer, VerificationGuard):
        answer = under_test.ask(TXN_OFFSET_COMMIT, version, request, verification_guard=answer.number)
    return commit_codes(answer)


def end(under_test: ShardUnderTest, *ends: tuple[Producer, bool], **values: Any) -> list[str]:
    """End transactions; return the errors."""
    version = values.get("version", NEWEST_MARKERS)
    return marker_codes(under_test.ask(WRITE_TXN_MARKERS, version, markers_request(*ends, **values)))


def end_raising(under_test: ShardUnderTest, producer: Producer, *, is_commit: bool) -> Producer:
    """End a transaction of version 2, and return the producer with its next epoch."""
    following = Producer(producer.id, producer.epoch + 1)
    assert end(under_test, (following, is_commit)) == ["none"]
    return following
