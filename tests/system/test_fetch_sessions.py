"""Incremental fetch sessions (KIP-227) as any reader may rely on them, and as a reference Kafka has them."""

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

import pytest
from kafka import KafkaConsumer, TopicPartition
from kio.schema.errors import ErrorCode

from tests.conftest import TopicFactory
from tests.support.clients.raw_client import RawClient, Silence, decode_response, response_type_of
from tests.support.clients.raw_requests import delete_topic_request, metadata_request, produce_request, produced
from tests.support.eventually import eventually
from tests.support.messages.record_batches import batch_of, read_values
from tests.support.messages.sparse_request import sparse_request

VERSION_BY_NAME, VERSION_BY_ID = 12, 17
PLENTY_BYTES = 1 << 20
PLENTY_MS = 120_000
STAYS_SILENT_S = 0.3
BATCH = batch_of([b"a" * 100, b"b" * 100]).encode()
TWO_VALUES = [b"a" * 100, b"b" * 100]
NO_SESSION = 0


class Reader:
    """A connection with a fetch session; topics are named by name or by id."""

    def __init__(self, client: RawClient, topic: str | UUID) -> None:
        self.client = client
        self.topic = topic
        self.session_id = NO_SESSION
        self.epoch = 0

    def request(self, partitions: Sequence[Mapping[str, Any]] = (), forget: Sequence[int] = (), **fields: Any) -> Any:
        """The next request; each partition says what is special about it."""
        by_id = isinstance(self.topic, UUID)
        named = {"topic_id" if by_id else "topic": self.topic}
        wanted = [{"partition_max_bytes": PLENTY_BYTES, **partition} for partition in partitions]
        return sparse_request(
            "fetch",
            VERSION_BY_ID if by_id else VERSION_BY_NAME,
            **{
                "max_wait": 0,
                "min_bytes": 1,
                "max_bytes": PLENTY_BYTES,
                "session_id": self.session_id,
                "session_epoch": self.epoch,
                **fields,
            },
            topics=[{**named, "partitions": wanted}] if wanted else [],
            forgotten_topics_data=[{**named, "partitions": list(forget)}] if forget else [],
        )

    def fetch(self, partitions: Sequence[Mapping[str, Any]] = (), forget: Sequence[int] = (), **fields: Any) -> Any:
        """The answer to the next request; the session goes on."""
        return self.take(self.client.ask(self.request(partitions, forget, **fields)))

    def take(self, response: Any) -> Any:
        if response.error_code is ErrorCode.none:
            self.session_id = response.session_id
            self.epoch = self.epoch + 1 if self.session_id else 0
        return response

    def open(self, partitions: Sequence[Mapping[str, Any]], **fields: Any) -> Any:
        response = self.fetch(partitions, **fields)
        assert (response.error_code, response.session_id > 0) == (ErrorCode.none, True)
        return response

    def answer(self, request: Any) -> Any:
        """The answer to a request sent before."""
        return self.take(decode_response(self.client.read_frame(), response_type_of(request))[1])


def told(response: Any) -> dict[int, Any]:
    """What a response tells of each partition."""
    assert response.error_code is ErrorCode.none
    return {partition.partition_index: partition for topic in response.responses for partition in topic.partitions}


def values(partition: Any) -> list[bytes]:
    assert partition.error_code is ErrorCode.none
    return [value for _, value in read_values(partition.records or b"")]


def publish(bootstrap: str, topic: str, *, partition: int = 0) -> None:
    with RawClient.to(bootstrap) as client:
        assert produced(client.ask(produce_request(topic, BATCH, partition=partition))).error_code is ErrorCode.none


def topic_id_of(client: RawClient, topic: str) -> UUID:
    topic_id = client.ask(metadata_request([topic])).topics[0].topic_id
    assert isinstance(topic_id, UUID)
    return topic_id


@pytest.fixture(params=[False, True], ids=["by-name", "by-id"])
def reader(request: pytest.FixtureRequest, bootstrap: str, topic: str):
    with RawClient.to(bootstrap) as client:
        yield Reader(client, topic_id_of(client, topic) if request.param else topic)


@pytest.fixture
def topic(new_topic: TopicFactory) -> str:
    return new_topic(partitions=3)


def everything() -> list[dict[str, int]]:
    return [{"partition": partition} for partition in range(3)]


def test_the_first_answer_names_all_partitions_and_later_ones_only_those_with_news(
    reader: Reader, bootstrap: str, topic: str
) -> None:
    assert told(reader.open(everything())).keys() == {0, 1, 2}
    assert told(reader.fetch()) == {}
    publish(bootstrap, topic, partition=1)
    news = told(reader.fetch())
    assert {index: values(partition) for index, partition in news.items()} == {1: TWO_VALUES}
    assert told(reader.fetch([{"partition": 1, "fetch_offset": 2}])) == {}


def test_records_are_given_again_until_the_reader_goes_on(reader: Reader, bootstrap: str, topic: str) -> None:
    publish(bootstrap, topic)
    reader.open(everything())
    for _ in range(2):
        assert values(told(reader.fetch())[0]) == TWO_VALUES
    reader.fetch([{"partition": 0, "fetch_offset": 2}])
    assert told(reader.fetch()) == {}


def test_a_fetch_in_a_session_waits_for_any_of_its_partitions(reader: Reader, bootstrap: str, topic: str) -> None:
    reader.open(everything())
    request = reader.request(max_wait=PLENTY_MS)
    reader.client.send_request(request)
    with pytest.raises(Silence):
        reader.client.read_frame(within_s=STAYS_SILENT_S)
    publish(bootstrap, topic, partition=2)
    assert values(told(reader.answer(request))[2]) == TWO_VALUES


def test_min_bytes_may_come_from_several_appends_and_partitions(reader: Reader, bootstrap: str, topic: str) -> None:
    reader.open(everything())
    request = reader.request(max_wait=PLENTY_MS, min_bytes=3 * len(BATCH))
    reader.client.send_request(request)
    for partition in (2, 0):
        publish(bootstrap, topic, partition=partition)
    with pytest.raises(Silence):
        reader.client.read_frame(within_s=STAYS_SILENT_S)
    publish(bootstrap, topic, partition=2)
    news = told(reader.answer(request))
    assert {index: values(partition) for index, partition in news.items()} == {0: TWO_VALUES, 2: 2 * TWO_VALUES}


def test_a_full_fetch_may_wait_and_opens_its_session_when_it_is_answered(
    reader: Reader, bootstrap: str, topic: str
) -> None:
    request = reader.request(everything(), max_wait=PLENTY_MS)
    reader.client.send_request(request)
    publish(bootstrap, topic)
    assert values(told(reader.answer(request))[0]) == TWO_VALUES
    assert reader.session_id
    publish(bootstrap, topic, partition=1)
    assert told(reader.fetch([{"partition": 0, "fetch_offset": 2}])).keys() == {1}


def test_partitions_are_added_and_forgotten(reader: Reader, bootstrap: str, topic: str) -> None:
    reader.open([{"partition": 0}])
    assert told(reader.fetch([{"partition": 1}])).keys() == {1}, "of a new partition the reader knows nothing"
    reader.fetch(forget=[0])
    for partition in (0, 1):
        publish(bootstrap, topic, partition=partition)
    assert told(reader.fetch()).keys() == {1}


def test_a_session_without_partitions_ends(reader: Reader) -> None:
    reader.open([{"partition": 0}])
    former = reader.session_id
    response = reader.fetch(forget=[0], max_wait=PLENTY_MS)
    assert (response.error_code, response.session_id, response.responses) == (ErrorCode.none, NO_SESSION, ())
    reader.session_id, reader.epoch = former, 2
    assert reader.fetch().error_code is ErrorCode.fetch_session_id_not_found


def test_an_error_is_told_in_every_answer_until_it_is_gone(reader: Reader, bootstrap: str, topic: str) -> None:
    reader.open([{"partition": 0, "fetch_offset": 2}, {"partition": 1}])
    for _ in range(2):
        news = told(reader.fetch(max_wait=PLENTY_MS))
        assert {index: partition.error_code for index, partition in news.items()} == {
            0: ErrorCode.offset_out_of_range
        }
    publish(bootstrap, topic)
    news = told(reader.fetch())
    assert {index: partition.high_watermark for index, partition in news.items()} == {0: 2}
    assert told(reader.fetch()) == {}


def test_a_deleted_topic_is_told_of(reader: Reader, bootstrap: str, topic: str) -> None:
    reader.open(everything())
    request = reader.request(max_wait=PLENTY_MS)
    reader.client.send_request(request)
    with RawClient.to(bootstrap) as admin:
        assert admin.ask(delete_topic_request(topic)).responses[0].error_code is ErrorCode.none
    gone = {ErrorCode.unknown_topic_or_partition, ErrorCode.unknown_topic_id, ErrorCode.not_leader_or_follower}
    assert {partition.error_code for partition in told(reader.answer(request)).values()} <= gone


def test_a_moved_start_of_the_log_is_told(reader: Reader, bootstrap: str, topic: str) -> None:
    publish(bootstrap, topic)
    reader.open([*everything()[1:], {"partition": 0, "fetch_offset": 2}])
    deletion = sparse_request(
        "delete_records",
        2,
        timeout=10_000,
        topics=[{"name": topic, "partitions": [{"partition_index": 0, "offset": 1}]}],
    )
    with RawClient.to(bootstrap) as admin:
        assert admin.ask(deletion).topics[0].partitions[0].error_code is ErrorCode.none
    assert {index: partition.log_start_offset for index, partition in told(reader.fetch()).items()} == {0: 1}


def test_a_full_response_starves_no_partition(reader: Reader, bootstrap: str, topic: str) -> None:
    for partition in range(3):
        publish(bootstrap, topic, partition=partition)
    reader.open(everything(), max_bytes=len(BATCH))
    served = [
        index
        for _ in range(6)
        for index, partition in told(reader.fetch(max_bytes=len(BATCH))).items()
        if values(partition)
    ]
    assert sorted(served[:3]) == sorted(served[3:]) == [0, 1, 2]


# Errors


def test_a_session_that_nobody_has_is_not_found(reader: Reader) -> None:
    reader.session_id, reader.epoch = 77, 5
    response = reader.fetch(everything())
    assert (response.error_code, response.session_id, response.responses) == (
        ErrorCode.fetch_session_id_not_found,
        NO_SESSION,
        (),
    )


def test_a_request_out_of_turn_is_refused_and_the_session_goes_on(reader: Reader) -> None:
    reader.open(everything())
    reader.epoch = 3
    response = reader.fetch()
    assert (response.error_code, response.responses) == (ErrorCode.invalid_fetch_session_epoch, ())
    reader.epoch = 1
    assert reader.fetch().error_code is ErrorCode.none


def test_a_session_that_names_topics_by_id_cannot_go_on_by_name(reader: Reader, topic: str) -> None:
    reader.open(everything())
    named = reader.topic
    reader.topic = topic_id_of(reader.client, topic) if isinstance(named, str) else topic
    response = reader.fetch(everything())
    assert (response.error_code, response.responses) == (ErrorCode.fetch_session_topic_id_error, ())
    reader.topic = named
    assert reader.fetch().error_code is ErrorCode.none


def test_a_reader_can_close_its_session(reader: Reader, bootstrap: str, topic: str) -> None:
    publish(bootstrap, topic)
    reader.open(everything())
    former, reader.epoch = reader.session_id, -1
    response = reader.fetch(everything())
    assert (response.session_id, values(told(response)[0])) == (NO_SESSION, TWO_VALUES)
    reader.session_id, reader.epoch = former, 1
    assert reader.fetch().error_code is ErrorCode.fetch_session_id_not_found


def test_a_full_fetch_replaces_the_session_that_it_names(reader: Reader) -> None:
    reader.open(everything())
    former, reader.epoch = reader.session_id, 0
    assert told(reader.open(everything())).keys() == {0, 1, 2}
    assert reader.session_id != former
    reader.session_id, reader.epoch = former, 1
    assert reader.fetch().error_code is ErrorCode.fetch_session_id_not_found


def test_the_next_request_of_a_session_ends_the_wait_of_the_one_before(
    reader: Reader, bootstrap: str, topic: str
) -> None:
    reader.open(everything())
    waiting = reader.request(max_wait=PLENTY_MS)
    reader.client.send_request(waiting)
    with pytest.raises(Silence):
        reader.client.read_frame(within_s=STAYS_SILENT_S)
    with RawClient.to(bootstrap) as second:
        reader.epoch += 1
        second.send_request(reader.request(max_wait=PLENTY_MS))
        publish(bootstrap, topic)
        assert reader.answer(waiting).error_code is ErrorCode.invalid_fetch_session_epoch
        assert values(told(decode_response(second.read_frame(), response_type_of(waiting))[1])[0]) == TWO_VALUES


# Clients


@pytest.mark.slow
def test_kafka_python_reads_everything_through_one_session(bootstrap: str, new_topic: TopicFactory) -> None:
    topic, partitions = new_topic(partitions=20), range(20)
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest", enable_auto_commit=False)
    consumer.assign([TopicPartition(topic, partition) for partition in partitions])
    read: dict[int, int] = dict.fromkeys(partitions, 0)

    def has_read(total: int) -> bool:
        for name, records in consumer.poll(timeout_ms=200).items():
            read[name.partition] += len(records)
        return sum(read.values()) >= total

    try:
        for number, partition in enumerate([*partitions, 3, 3, 17]):
            publish(bootstrap, topic, partition=partition)
            wanted = 2 * (number + 1)
            eventually(lambda: has_read(wanted), f"{wanted} records are read")  # noqa: B023
        assert read == dict.fromkeys(partitions, 2) | {3: 6, 17: 4}
        (session,) = consumer._fetcher._session_handlers.values()
        assert session.next_metadata.epoch > len(partitions), "the client says nowhere else that it has a session"
    finally:
        consumer.close()
