"""What a consumer may rely on in Fetch: waiting, size limits, topic ids, leader epochs, and offsets out of range."""

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID, uuid4

import pytest
from kio.schema.errors import ErrorCode

from tests.conftest import TopicFactory
from tests.support.clients.raw_client import RawClient, Silence, decode_response, response_type_of
from tests.support.clients.raw_requests import (
    create_topic_request,
    delete_topic_request,
    metadata_request,
    produce_request,
    produced,
)
from tests.support.clusters.broker_under_test import BrokerUnderTest
from tests.support.messages.record_batches import batch_of, read_values
from tests.support.messages.sparse_request import sparse_request
from tests.support.requirements import does_not_apply
from tests.system.conftest import TwoEpochs

VERSION_BY_NAME, VERSION_BY_ID = 12, 17
PLENTY_BYTES = 1 << 20
PLENTY_MS = 120_000
"""Longer than any test waits: an answer before it was not brought about by the time."""
STAYS_SILENT_S = 0.3
NEWEST_EPOCH = 1000

BATCH = batch_of([b"a" * 100, b"b" * 100]).encode()
TWO_VALUES = [b"a" * 100, b"b" * 100]


@pytest.fixture
def topic(new_topic: TopicFactory) -> str:
    return new_topic()


def publish(bootstrap: str, topic: str, *, batches: int = 1, partition: int = 0) -> None:
    """Appends `BATCH` so many times."""
    with RawClient.to(bootstrap) as client:
        for _ in range(batches):
            assert (
                produced(client.ask(produce_request(topic, BATCH, partition=partition))).error_code is ErrorCode.none
            )


def fetch(topic: str | UUID, partitions: Sequence[Mapping[str, Any]], **fields: Any) -> Any:
    """A Fetch of one topic, by name or by id; each partition says what is special about it."""
    by_id = isinstance(topic, UUID)
    wanted = [{"partition_max_bytes": PLENTY_BYTES, **partition} for partition in partitions]
    return sparse_request(
        "fetch",
        VERSION_BY_ID if by_id else VERSION_BY_NAME,
        **{"max_wait": 0, "min_bytes": 1, "max_bytes": PLENTY_BYTES, **fields},
        topics=[{"topic_id" if by_id else "topic": topic, "partitions": wanted}],
    )


def values_of(partition: Any) -> list[bytes]:
    assert partition.error_code is ErrorCode.none
    return [value for _, value in read_values(partition.records or b"")]


def fetched(response: Any) -> Any:
    (topic,) = response.responses
    (partition,) = topic.partitions
    return partition


def waits(client: RawClient) -> bool:
    """Whether no answer comes for the moment."""
    try:
        client.read_frame(within_s=STAYS_SILENT_S)
    except Silence:
        return True
    return False


def answer(client: RawClient, request: Any) -> Any:
    """The answer to a request sent before."""
    return decode_response(client.read_frame(), response_type_of(request))[1]


# Waiting


def test_a_fetch_at_the_end_is_answered_as_soon_as_something_is_appended(bootstrap: str, topic: str) -> None:
    request = fetch(topic, [{}], max_wait=PLENTY_MS)
    with RawClient.to(bootstrap) as client:
        client.send_request(request)
        assert waits(client)
        publish(bootstrap, topic)
        assert values_of(fetched(answer(client, request))) == TWO_VALUES


def test_a_fetch_waits_until_min_bytes_are_there_over_several_appends(bootstrap: str, topic: str) -> None:
    request = fetch(topic, [{}], max_wait=PLENTY_MS, min_bytes=2 * len(BATCH))
    with RawClient.to(bootstrap) as client:
        client.send_request(request)
        publish(bootstrap, topic)
        assert waits(client)
        publish(bootstrap, topic)
        assert values_of(fetched(answer(client, request))) == 2 * TWO_VALUES


def test_min_bytes_may_come_from_several_partitions(bootstrap: str, new_topic: TopicFactory) -> None:
    topic = new_topic(partitions=3)
    publish(bootstrap, topic, partition=0)
    request = fetch(topic, [{"partition": 0}, {"partition": 2}], max_wait=PLENTY_MS, min_bytes=2 * len(BATCH))
    with RawClient.to(bootstrap) as client:
        client.send_request(request)
        publish(bootstrap, topic, partition=1)
        assert waits(client), "what is appended to another partition does not count"
        publish(bootstrap, topic, partition=2)
        both = answer(client, request).responses[0].partitions
        assert [values_of(partition) for partition in both] == [TWO_VALUES, TWO_VALUES]


def test_a_fetch_whose_time_is_up_is_answered_with_what_there_is(bootstrap: str, topic: str) -> None:
    with RawClient.to(bootstrap) as client:
        assert values_of(fetched(client.ask(fetch(topic, [{}], max_wait=50)))) == []
        publish(bootstrap, topic)
        too_much_asked = fetch(topic, [{}], max_wait=50, min_bytes=10 * len(BATCH))
        assert values_of(fetched(client.ask(too_much_asked))) == TWO_VALUES


def test_a_waiting_fetch_does_not_hold_back_what_is_asked_after_it(broker: BrokerUnderTest, topic: str) -> None:
    if broker.is_reference:
        does_not_apply("Kafka handles one request of a connection after the other")
    first, second = fetch(topic, [{}], max_wait=PLENTY_MS), fetch(topic, [{}], max_wait=PLENTY_MS)
    with RawClient.to(broker.bootstrap) as client:
        client.send_request(first)
        client.send_request(second)
        assert waits(client), "fetches leave each other their time"
        client.send_request(metadata_request([]))
        assert values_of(fetched(answer(client, first))) == []
        assert values_of(fetched(answer(client, second))) == []
        assert answer(client, metadata_request([])).brokers
        client.send_request(first)
        assert waits(client), "the next one waits again"


def test_a_fetch_that_may_not_wait_is_answered_at_once(bootstrap: str, topic: str) -> None:
    with RawClient.to(bootstrap) as client:
        assert values_of(fetched(client.ask(fetch(topic, [{}], max_wait=PLENTY_MS, min_bytes=0)))) == []
        assert values_of(fetched(client.ask(fetch(topic, [{}], max_wait=0)))) == []


def test_a_fetch_with_an_error_does_not_wait(bootstrap: str, new_topic: TopicFactory) -> None:
    topic = new_topic(partitions=2)
    with RawClient.to(bootstrap) as client:
        request = fetch(topic, [{"partition": 0}, {"partition": 1, "fetch_offset": 7}], max_wait=PLENTY_MS)
        good, bad = client.ask(request).responses[0].partitions
        assert (good.error_code, bad.error_code) == (ErrorCode.none, ErrorCode.offset_out_of_range)


@pytest.mark.parametrize("by_id", [False, True], ids=["by-name", "by-id"])
def test_a_waiting_fetch_hears_that_its_topic_was_deleted(bootstrap: str, topic: str, by_id: bool) -> None:
    with RawClient.to(bootstrap) as client, RawClient.to(bootstrap) as admin:
        request = fetch(topic_id_of(admin, topic) if by_id else topic, [{}], max_wait=PLENTY_MS)
        client.send_request(request)
        assert waits(client)
        assert admin.ask(delete_topic_request(topic)).responses[0].error_code is ErrorCode.none
        gone = {ErrorCode.unknown_topic_or_partition, ErrorCode.unknown_topic_id, ErrorCode.not_leader_or_follower}
        assert fetched(answer(client, request)).error_code in gone


def test_many_waiting_readers_of_one_partition_are_all_answered(bootstrap: str, topic: str) -> None:
    request = fetch(topic, [{}], max_wait=PLENTY_MS)
    clients = [RawClient.to(bootstrap) for _ in range(20)]
    try:
        for client in clients:
            client.send_request(request)
        assert waits(clients[-1])
        publish(bootstrap, topic)
        for client in clients:
            assert values_of(fetched(answer(client, request))) == TWO_VALUES
    finally:
        for client in clients:
            client.close()


# Size limits


def test_a_partition_gives_no_more_than_its_own_limit(bootstrap: str, topic: str) -> None:
    publish(bootstrap, topic, batches=4)
    with RawClient.to(bootstrap) as client:
        limit = 2 * len(BATCH) + len(BATCH) // 2
        partition = fetched(client.ask(fetch(topic, [{"partition_max_bytes": limit}])))
        assert len(partition.records) <= limit
        assert values_of(partition) == 2 * TWO_VALUES
        assert partition.high_watermark == 8


@pytest.mark.parametrize("limits", [{"max_bytes": 1}, {"partition_max_bytes": 1}, {"max_bytes": 0}], ids=str)
def test_a_batch_larger_than_the_limits_still_comes_whole_and_alone(
    bootstrap: str, topic: str, limits: dict[str, int]
) -> None:
    publish(bootstrap, topic, batches=2)
    of_partition = {key: value for key, value in limits.items() if key.startswith("partition")}
    in_all = {key: value for key, value in limits.items() if key not in of_partition}
    with RawClient.to(bootstrap) as client:
        partition = fetched(client.ask(fetch(topic, [{"fetch_offset": 2, **of_partition}], **in_all)))
        assert partition.records == with_base_offset(2, partition.records)
        assert values_of(partition) == TWO_VALUES
        assert len(partition.records) == len(BATCH)


def test_the_limit_in_all_leaves_nothing_for_later_partitions(bootstrap: str, new_topic: TopicFactory) -> None:
    topic = new_topic(partitions=3)
    for partition in (1, 2):
        publish(bootstrap, topic, batches=2, partition=partition)
    wanted = [{"partition": partition} for partition in range(3)]
    with RawClient.to(bootstrap) as client:
        empty, first, second = client.ask(fetch(topic, wanted, max_bytes=len(BATCH))).responses[0].partitions
        assert values_of(empty) == []
        assert values_of(first) == TWO_VALUES, "the first partition that has any gives at least one batch"
        assert values_of(second) == []
        assert second.high_watermark == 4, "what was left out is still described"


def test_an_offset_inside_a_batch_brings_the_whole_batch(bootstrap: str, topic: str) -> None:
    publish(bootstrap, topic, batches=2)
    with RawClient.to(bootstrap) as client:
        partition = fetched(client.ask(fetch(topic, [{"fetch_offset": 3}])))
        assert [offset for offset, _ in read_values(partition.records)] == [2, 3]


# Topic ids


def topic_id_of(client: RawClient, topic: str) -> UUID:
    topic_id = client.ask(metadata_request([topic])).topics[0].topic_id
    assert isinstance(topic_id, UUID)
    return topic_id


@pytest.mark.parametrize("version", range(13, 19))
def test_topics_are_fetched_by_id_and_unknown_ids_are_named(bootstrap: str, topic: str, version: int) -> None:
    publish(bootstrap, topic)
    with RawClient.to(bootstrap) as client:
        known, unknown = topic_id_of(client, topic), uuid4()
        wanted = [{"partition_max_bytes": PLENTY_BYTES}]
        response = client.ask(
            sparse_request(
                "fetch",
                version,
                max_bytes=PLENTY_BYTES,
                topics=[{"topic_id": unknown, "partitions": wanted}, {"topic_id": known, "partitions": wanted}],
            )
        )
        assert response.error_code is ErrorCode.none
        partitions = {answered.topic_id: answered.partitions[0] for answered in response.responses}
        assert values_of(partitions[known]) == TWO_VALUES
        assert partitions[unknown].error_code is ErrorCode.unknown_topic_id


def test_the_id_of_a_deleted_topic_does_not_reach_its_successor_of_the_same_name(bootstrap: str, topic: str) -> None:
    with RawClient.to(bootstrap) as client:
        old_id = topic_id_of(client, topic)
        client.ask(delete_topic_request(topic))
        assert client.ask(create_topic_request(topic)).topics[0].error_code is ErrorCode.none
        assert topic_id_of(client, topic) != old_id
        assert fetched(client.ask(fetch(old_id, [{}]))).error_code is ErrorCode.unknown_topic_id


# Isolation level


def test_read_committed_sees_everything_and_no_aborted_transactions(bootstrap: str, topic: str) -> None:
    publish(bootstrap, topic)
    with RawClient.to(bootstrap) as client:
        for isolation_level in (0, 1):
            partition = fetched(client.ask(fetch(topic, [{}], isolation_level=isolation_level)))
            assert values_of(partition) == TWO_VALUES
            assert partition.high_watermark == 2
            assert not partition.aborted_transactions
            if isolation_level:
                assert partition.last_stable_offset == 2


# Offsets out of range


@pytest.mark.parametrize("offset", [-1, 3, 1000])
def test_an_offset_outside_the_log_is_out_of_range(bootstrap: str, topic: str, offset: int) -> None:
    publish(bootstrap, topic)
    with RawClient.to(bootstrap) as client:
        partition = fetched(client.ask(fetch(topic, [{"fetch_offset": offset}], max_wait=PLENTY_MS)))
        assert partition.error_code is ErrorCode.offset_out_of_range
        assert not partition.records


def test_an_offset_before_the_deleted_records_is_out_of_range(bootstrap: str, topic: str) -> None:
    publish(bootstrap, topic, batches=2)
    deletion = sparse_request(
        "delete_records",
        2,
        timeout=10_000,
        topics=[{"name": topic, "partitions": [{"partition_index": 0, "offset": 3}]}],
    )
    with RawClient.to(bootstrap) as client:
        assert client.ask(deletion).topics[0].partitions[0].error_code is ErrorCode.none
        assert fetched(client.ask(fetch(topic, [{"fetch_offset": 2}]))).error_code is ErrorCode.offset_out_of_range
        partition = fetched(client.ask(fetch(topic, [{"fetch_offset": 3}])))
        assert (partition.error_code, partition.log_start_offset) == (ErrorCode.none, 3)


# Leader epochs


def test_a_leader_epoch_newer_than_the_brokers_is_unknown(bootstrap: str, topic: str) -> None:
    with RawClient.to(bootstrap) as client:
        request = fetch(topic, [{"current_leader_epoch": NEWEST_EPOCH}], max_wait=PLENTY_MS)
        assert fetched(client.ask(request)).error_code is ErrorCode.unknown_leader_epoch
        assert fetched(client.ask(fetch(topic, [{"current_leader_epoch": 0}]))).error_code is ErrorCode.none


@pytest.mark.slow
def test_a_leader_epoch_older_than_the_brokers_is_fenced(two_epochs: TwoEpochs) -> None:
    with RawClient.to(two_epochs.bootstrap) as client:
        old = fetch(two_epochs.topic, [{"current_leader_epoch": two_epochs.first}], max_wait=PLENTY_MS)
        assert fetched(client.ask(old)).error_code is ErrorCode.fenced_leader_epoch
        present = fetch(two_epochs.topic, [{"current_leader_epoch": two_epochs.second}])
        assert values_of(fetched(client.ask(present)))


@pytest.mark.slow
def test_a_reader_whose_log_went_on_past_an_old_epoch_hears_where_it_diverges(two_epochs: TwoEpochs) -> None:
    with RawClient.to(two_epochs.bootstrap) as client:
        diverged = {"fetch_offset": two_epochs.first_end + 1, "last_fetched_epoch": two_epochs.first}
        partition = fetched(client.ask(fetch(two_epochs.topic, [diverged], max_wait=PLENTY_MS)))
        assert partition.error_code is ErrorCode.none
        assert not partition.records
        expected = (two_epochs.first, two_epochs.first_end)
        assert (partition.diverging_epoch.epoch, partition.diverging_epoch.end_offset) == expected


@pytest.mark.slow
def test_a_reader_that_agrees_with_the_leader_does_not_diverge(two_epochs: TwoEpochs) -> None:
    with RawClient.to(two_epochs.bootstrap) as client:
        agreeing = {"fetch_offset": two_epochs.first_end, "last_fetched_epoch": two_epochs.first}
        partition = fetched(client.ask(fetch(two_epochs.topic, [agreeing])))
        assert partition.diverging_epoch.epoch == -1
        assert values_of(partition)


def with_base_offset(base_offset: int, stored: bytes) -> bytes:
    """`BATCH` as a leader stores it: base offset and leader epoch are its own."""
    return base_offset.to_bytes(8) + BATCH[8:12] + stored[12:16] + BATCH[16:]
