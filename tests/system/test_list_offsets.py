"""Offsets by position, by time and by leader epoch: ListOffsets and OffsetForLeaderEpoch, exact to the record."""

from typing import Any, NamedTuple

import pytest
from kio.schema.errors import ErrorCode

from ottla_core.wire.compression import Codec
from ottla_core.wire.records import Record, encode_batch
from tests.conftest import TopicFactory
from tests.support.clients.raw_client import RawClient
from tests.support.clients.raw_requests import EARLIEST, LATEST, produce_request, produced
from tests.support.messages.record_batches import TIMESTAMP_MS
from tests.support.messages.sparse_request import sparse_request
from tests.system.conftest import TwoEpochs

VERSION = 7
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
NOT_FOUND = -1
NEWEST_EPOCH = 1000
SMALL_SEGMENTS = {"segment.bytes": "1048576", "index.interval.bytes": "0"}


class Found(NamedTuple):
    """A ListOffsets answer; the timestamp counts from `TIMESTAMP_MS`."""

    offset: int
    after_ms: int


NOTHING = Found(NOT_FOUND, NOT_FOUND)


def publish_batches(client: RawClient, topic: str, batches: list[list[int]], codec: Codec = Codec.NONE) -> None:
    """Appends batches of records that stand so many milliseconds after `TIMESTAMP_MS`."""
    for times in batches:
        records = [Record(delta, TIMESTAMP_MS + time, None, b"v" * 20, ()) for delta, time in enumerate(times)]
        answer = produced(client.ask(produce_request(topic, encode_batch(records, codec=codec))))
        assert answer.error_code is ErrorCode.none, answer.error_message


def ask_offset(client: RawClient, topic: str, timestamp: int, *, version: int = VERSION, **partition: Any) -> Any:
    """The one partition's part of a ListOffsets response."""
    wanted = {"timestamp": timestamp, **partition}
    request = sparse_request("list_offsets", version, replica_id=-1, topics=[{"name": topic, "partitions": [wanted]}])
    return client.ask(request).topics[0].partitions[0]


def offset_of(client: RawClient, topic: str, timestamp: int) -> Found:
    answer = ask_offset(client, topic, timestamp)
    assert answer.error_code is ErrorCode.none
    return Found(answer.offset, answer.timestamp - TIMESTAMP_MS if answer.timestamp >= 0 else NOT_FOUND)


def offset_at(client: RawClient, topic: str, after_ms: int) -> Found:
    """The first record at or after this time."""
    return offset_of(client, topic, TIMESTAMP_MS + after_ms)


def delete_records_before(client: RawClient, topic: str, offset: int) -> None:
    doomed = {"name": topic, "partitions": [{"partition_index": 0, "offset": offset}]}
    answer = client.ask(sparse_request("delete_records", 2, timeout=10_000, topics=[doomed]))
    assert answer.topics[0].partitions[0].error_code is ErrorCode.none


# By position


def test_an_empty_partition_begins_and_ends_at_zero_and_has_no_times(bootstrap: str, new_topic: TopicFactory) -> None:
    topic = new_topic()
    with RawClient.to(bootstrap) as client:
        assert offset_of(client, topic, EARLIEST) == offset_of(client, topic, LATEST) == Found(0, NOT_FOUND)
        assert offset_at(client, topic, 0) == offset_of(client, topic, MAX_TIMESTAMP) == NOTHING


def test_the_ends_of_a_log_move_with_appends_and_deletions(bootstrap: str, new_topic: TopicFactory) -> None:
    topic = new_topic()
    with RawClient.to(bootstrap) as client:
        publish_batches(client, topic, [[0, 1, 2], [3, 4, 5]])
        assert (offset_of(client, topic, EARLIEST).offset, offset_of(client, topic, LATEST).offset) == (0, 6)
        delete_records_before(client, topic, 4)
        assert (offset_of(client, topic, EARLIEST).offset, offset_of(client, topic, LATEST).offset) == (4, 6)
        delete_records_before(client, topic, -1)
        assert (offset_of(client, topic, EARLIEST).offset, offset_of(client, topic, LATEST).offset) == (6, 6)


def test_the_earliest_local_offset_is_the_earliest(bootstrap: str, new_topic: TopicFactory) -> None:
    topic = new_topic()
    with RawClient.to(bootstrap) as client:
        publish_batches(client, topic, [[0, 1]])
        delete_records_before(client, topic, 1)
        answer = ask_offset(client, topic, EARLIEST_LOCAL, version=8)
        assert (answer.error_code, answer.offset) == (ErrorCode.none, 1)
        too_early = ask_offset(client, topic, EARLIEST_LOCAL, version=7)
        assert too_early.error_code is ErrorCode.unsupported_version


def test_partitions_and_topics_that_are_not_there_are_named(bootstrap: str, new_topic: TopicFactory) -> None:
    with RawClient.to(bootstrap) as client:
        missing = ask_offset(client, new_topic(), LATEST, partition_index=5)
        assert missing.error_code is ErrorCode.unknown_topic_or_partition
        assert ask_offset(client, "no-such-topic", LATEST).error_code is ErrorCode.unknown_topic_or_partition


# By time


@pytest.mark.parametrize("codec", list(Codec), ids=lambda codec: codec.name.lower())
def test_a_time_finds_the_exact_record_inside_a_batch(bootstrap: str, new_topic: TopicFactory, codec: Codec) -> None:
    topic = new_topic()
    times = [[0, 10, 20], [30, 40, 50], [60, 70, 80]]
    with RawClient.to(bootstrap) as client:
        publish_batches(client, topic, times, codec)
        for offset in range(9):
            assert offset_at(client, topic, 10 * offset) == Found(offset, 10 * offset)
            assert offset_at(client, topic, 10 * offset - 1) == Found(offset, 10 * offset), "the next later record"
        assert offset_at(client, topic, -1_000_000) == Found(0, 0)
        assert offset_at(client, topic, 81) == NOTHING


def test_a_time_finds_the_first_record_that_is_late_enough_where_times_jump(
    bootstrap: str, new_topic: TopicFactory
) -> None:
    topic = new_topic()
    with RawClient.to(bootstrap) as client:
        publish_batches(client, topic, [[50, 10, 40], [5, 60, 20], [30, 30, 100]])
        assert offset_at(client, topic, 45) == Found(0, 50)
        assert offset_at(client, topic, 51) == Found(4, 60)
        assert offset_at(client, topic, 61) == Found(8, 100)
        assert offset_at(client, topic, 1) == Found(0, 50)


def test_a_time_is_found_across_segments(bootstrap: str, new_topic: TopicFactory) -> None:
    topic = new_topic(configs=SMALL_SEGMENTS)
    filler = b"x" * 400_000
    with RawClient.to(bootstrap) as client:
        for number in range(8):
            records = [Record(delta, TIMESTAMP_MS + 100 * number + delta, None, filler, ()) for delta in range(2)]
            assert produced(client.ask(produce_request(topic, encode_batch(records)))).error_code is ErrorCode.none
        for number in range(8):
            assert offset_at(client, topic, 100 * number + 1) == Found(2 * number + 1, 100 * number + 1)
            assert offset_at(client, topic, 100 * number - 50) == Found(2 * number, 100 * number)
        assert offset_of(client, topic, MAX_TIMESTAMP) == Found(15, 701)


def test_a_time_before_deleted_records_finds_the_first_that_is_left(bootstrap: str, new_topic: TopicFactory) -> None:
    topic = new_topic()
    with RawClient.to(bootstrap) as client:
        publish_batches(client, topic, [[0, 10, 20], [30, 40, 50]])
        delete_records_before(client, topic, 4)
        assert offset_at(client, topic, 0) == Found(4, 40)
        delete_records_before(client, topic, 6)
        assert offset_at(client, topic, 0) == NOTHING


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4], ids=lambda codec: codec.name.lower())
def test_the_record_with_the_latest_timestamp_is_found_wherever_it_stands(
    bootstrap: str, new_topic: TopicFactory, codec: Codec
) -> None:
    topic = new_topic()
    with RawClient.to(bootstrap) as client:
        publish_batches(client, topic, [[0, 10, 5]], codec)
        assert offset_of(client, topic, MAX_TIMESTAMP) == Found(1, 10)
        publish_batches(client, topic, [[3, 90, 4], [20, 30, 40]], codec)
        assert offset_of(client, topic, MAX_TIMESTAMP) == Found(4, 90)


def test_times_of_a_topic_that_stamps_records_itself_are_the_brokers(bootstrap: str, new_topic: TopicFactory) -> None:
    topic = new_topic(configs={"message.timestamp.type": "LogAppendTime"})
    with RawClient.to(bootstrap) as client:
        publish_batches(client, topic, [[0, 1, 2]])
        first = offset_at(client, topic, 1)
        assert first.offset == 0
        assert first.after_ms > 2
        assert offset_at(client, topic, first.after_ms) == first
        assert offset_at(client, topic, first.after_ms + 1) == NOTHING


@pytest.mark.parametrize("isolation_level", [0, 1])
def test_the_isolation_level_makes_no_difference_without_transactions(
    bootstrap: str, new_topic: TopicFactory, isolation_level: int
) -> None:
    topic = new_topic()
    with RawClient.to(bootstrap) as client:
        publish_batches(client, topic, [[0, 1]])
        wanted = [{"partition_index": 0, "timestamp": LATEST}]
        request = sparse_request(
            "list_offsets", VERSION, isolation_level=isolation_level, topics=[{"name": topic, "partitions": wanted}]
        )
        assert client.ask(request).topics[0].partitions[0].offset == 2


# By leader epoch


def epoch_end(client: RawClient, topic: str, epoch: int, *, partition: int = 0, current: int = -1) -> Any:
    """The one partition's part of an OffsetForLeaderEpoch response."""
    wanted = {"partition": partition, "leader_epoch": epoch, "current_leader_epoch": current}
    request = sparse_request(
        "offset_for_leader_epoch", 4, replica_id=-1, topics=[{"topic": topic, "partitions": [wanted]}]
    )
    return client.ask(request).topics[0].partitions[0]


def test_the_present_epoch_ends_at_the_end_of_the_log(bootstrap: str, new_topic: TopicFactory) -> None:
    topic = new_topic()
    with RawClient.to(bootstrap) as client:
        publish_batches(client, topic, [[0, 1, 2]])
        answer = epoch_end(client, topic, 0)
        assert (answer.error_code, answer.leader_epoch, answer.end_offset) == (ErrorCode.none, 0, 3)


@pytest.mark.parametrize("epoch", [-1, NEWEST_EPOCH])
def test_an_epoch_that_was_not_yet_has_no_end(bootstrap: str, new_topic: TopicFactory, epoch: int) -> None:
    with RawClient.to(bootstrap) as client:
        answer = epoch_end(client, new_topic(), epoch)
        assert (answer.error_code, answer.leader_epoch, answer.end_offset) == (ErrorCode.none, -1, -1)


def test_epochs_of_a_partition_that_is_not_there_are_refused(bootstrap: str, new_topic: TopicFactory) -> None:
    with RawClient.to(bootstrap) as client:
        answer = epoch_end(client, new_topic(), 0, partition=9)
        assert answer.error_code is ErrorCode.unknown_topic_or_partition


@pytest.mark.slow
def test_an_older_epoch_ends_where_the_next_began(two_epochs: TwoEpochs) -> None:
    with RawClient.to(two_epochs.bootstrap) as client:
        old, present = (epoch_end(client, two_epochs.topic, epoch) for epoch in (two_epochs.first, two_epochs.second))
    assert (old.leader_epoch, old.end_offset) == (two_epochs.first, two_epochs.first_end)
    assert (present.leader_epoch, present.end_offset) == (two_epochs.second, two_epochs.end)


@pytest.mark.slow
def test_clients_that_believe_in_another_epoch_are_told(two_epochs: TwoEpochs) -> None:
    with RawClient.to(two_epochs.bootstrap) as client:
        for current, expected in (
            (two_epochs.first, ErrorCode.fenced_leader_epoch),
            (two_epochs.second, ErrorCode.none),
            (NEWEST_EPOCH, ErrorCode.unknown_leader_epoch),
        ):
            assert epoch_end(client, two_epochs.topic, 0, current=current).error_code is expected
            listed = ask_offset(client, two_epochs.topic, LATEST, current_leader_epoch=current)
            assert listed.error_code is expected


@pytest.mark.slow
def test_offsets_are_told_with_the_epoch_of_their_records(two_epochs: TwoEpochs) -> None:
    with RawClient.to(two_epochs.bootstrap) as client:
        assert ask_offset(client, two_epochs.topic, EARLIEST).leader_epoch == two_epochs.first
        assert ask_offset(client, two_epochs.topic, LATEST).leader_epoch == two_epochs.second
        assert ask_offset(client, two_epochs.topic, 0).leader_epoch == two_epochs.first
