"""Old records go by time and by size and no earlier; segments roll, files go late, and readers are not cut off.

The broker has three log directories and looks for old segments many times a second.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from kio.schema.errors import ErrorCode

from tests.support.clients.raw_client import RawClient, decode_response, response_type_of
from tests.support.clients.raw_requests import (
    EARLIEST,
    LATEST,
    fetch_request,
    fetched,
    list_offsets_request,
    produce_request,
    produced,
)
from tests.support.clusters.broker_under_test import make_topic
from tests.support.clusters.service_process import SingleBrokerServices
from tests.support.eventually import eventually
from tests.support.messages.record_batches import TIMESTAMP_MS, batch_of, read_values
from tests.support.messages.sparse_request import sparse_request

pytestmark = pytest.mark.slow  # the first test waits for the services

SEGMENT_BYTES = 1_048_576
"""The least that Kafka 4 allows."""
VALUE = bytes(300_000)
RECORDS_PER_SEGMENT = 3
DAY_MS = 86_400_000
LONG_MS = str(10 * DAY_MS)
SETTINGS = {"log.retention.check.interval.ms": "50"}
DIRECTORIES = 3
MANY_PARTITIONS = 12
WINDOW_BYTES = 4096
LARGE_RESPONSE_SEGMENTS = 12

CreateTopic = Callable[..., str]


@pytest.fixture(scope="module")
def directories(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return [tmp_path_factory.mktemp(f"logs-{number}") for number in range(DIRECTORIES)]


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory, directories: list[Path]) -> Iterator[str]:
    """Of the broker of this file."""
    settings = {**SETTINGS, "log.dirs": ",".join(map(str, directories))}
    with SingleBrokerServices(tmp_path_factory.mktemp("retention"), broker_settings=settings) as services:
        yield services.broker.bootstrap


@pytest.fixture
def client(address: str) -> Iterator[RawClient]:
    with RawClient.to(address) as opened:
        yield opened


@pytest.fixture
def small_segments(address: str) -> CreateTopic:
    """Creates a topic whose segments hold three records of `fill` each; by default nothing is deleted."""

    def create(**configs: str) -> str:
        named = {key.replace("_", "."): value for key, value in configs.items()}
        return make_topic(
            address, configs={"segment.bytes": str(SEGMENT_BYTES), "file.delete.delay.ms": "0", **named}
        )

    return create


def publish(client: RawClient, topic: str, *, timestamp_ms: int | None = None, value: bytes = VALUE) -> None:
    """Appends one record, by default of now."""
    timestamp_ms = time.time_ns() // 1_000_000 if timestamp_ms is None else timestamp_ms
    batch = replace(batch_of([value]), base_timestamp_ms=timestamp_ms, max_timestamp_ms=timestamp_ms)
    assert produced(client.ask(produce_request(topic, batch.encode()))).error_code is ErrorCode.none


def fill(client: RawClient, topic: str, *, segments: int, timestamp_ms: int | None = None) -> None:
    """Appends as many records as this number of segments hold."""
    for _ in range(segments * RECORDS_PER_SEGMENT):
        publish(client, topic, timestamp_ms=timestamp_ms)


def offset(client: RawClient, topic: str, position: int) -> int:
    return int(client.ask(list_offsets_request(topic, position)).topics[0].partitions[0].offset)


def set_configs(client: RawClient, topic: str, **configs: str) -> None:
    """Changes settings of a topic, whose dots are written as underscores."""
    changes = [{"name": name.replace("_", "."), "value": value} for name, value in configs.items()]
    resource = {"resource_type": 2, "resource_name": topic, "configs": changes}
    (answer,) = client.ask(sparse_request("incremental_alter_configs", 1, resources=[resource])).responses
    assert answer.error_code is ErrorCode.none, answer.error_message


def files(directories: list[Path], topic: str, pattern: str = "*.log") -> list[str]:
    return sorted(path.name for directory in directories for path in (directory / f"{topic}-0").glob(pattern))


def base_offsets(directories: list[Path], topic: str) -> list[int]:
    return [int(name.removesuffix(".log")) for name in files(directories, topic)]


def test_segments_roll_by_size(client: RawClient, directories: list[Path], small_segments: CreateTopic) -> None:
    topic = small_segments()
    fill(client, topic, segments=3)
    assert base_offsets(directories, topic) == [0, 3, 6]


def test_segments_roll_by_the_time_between_their_records(
    address: str, client: RawClient, directories: list[Path]
) -> None:
    topic = make_topic(address, configs={"segment.ms": "60000"})
    for after_ms in (0, 30_000, 59_000, 61_000, 100_000, 200_000):
        publish(client, topic, timestamp_ms=TIMESTAMP_MS + after_ms, value=b"v")
    assert base_offsets(directories, topic) == [0, 3, 5]


def test_segments_beyond_retention_bytes_go_and_the_log_starts_later(
    client: RawClient, directories: list[Path], small_segments: CreateTopic
) -> None:
    topic = small_segments(retention_bytes=str(2 * SEGMENT_BYTES))
    fill(client, topic, segments=6)
    kept = 3  # without the third, less than retention.bytes would be left
    start = (6 - kept) * RECORDS_PER_SEGMENT
    eventually(lambda: offset(client, topic, EARLIEST) == start, "the oldest segments are gone")
    eventually(lambda: base_offsets(directories, topic) == [9, 12, 15], "their files are gone")
    assert offset(client, topic, LATEST) == 18
    too_old = fetched(client.ask(fetch_request(topic, start - 1)))
    assert too_old.error_code is ErrorCode.offset_out_of_range
    first_left = fetched(client.ask(fetch_request(topic, start)))
    assert (first_left.error_code, first_left.log_start_offset) == (ErrorCode.none, start)


def test_old_segments_go_by_time_and_recent_ones_stay(
    client: RawClient, directories: list[Path], small_segments: CreateTopic
) -> None:
    topic = small_segments(segment_ms=LONG_MS)
    old_ms = time.time_ns() // 1_000_000 - 2 * DAY_MS
    fill(client, topic, segments=2, timestamp_ms=old_ms)
    fill(client, topic, segments=2)
    set_configs(client, topic, retention_ms=str(DAY_MS))
    eventually(lambda: base_offsets(directories, topic) == [6, 9], "the old segments are gone")
    assert (offset(client, topic, EARLIEST), offset(client, topic, LATEST)) == (6, 12)


def test_a_log_of_old_records_only_is_emptied_and_goes_on_at_its_end(
    client: RawClient, directories: list[Path], small_segments: CreateTopic
) -> None:
    topic = small_segments()
    fill(client, topic, segments=2, timestamp_ms=TIMESTAMP_MS)
    set_configs(client, topic, retention_ms=str(DAY_MS))
    eventually(lambda: offset(client, topic, EARLIEST) == 6, "every record is gone, the active segment's too")
    eventually(lambda: base_offsets(directories, topic) == [6], "an empty segment is left")
    publish(client, topic)
    assert (offset(client, topic, EARLIEST), offset(client, topic, LATEST)) == (6, 7)


def test_a_topic_that_keeps_records_for_ever_loses_none(
    client: RawClient, directories: list[Path], small_segments: CreateTopic
) -> None:
    kept, emptied = small_segments(), small_segments()
    for topic in (kept, emptied):
        fill(client, topic, segments=2, timestamp_ms=TIMESTAMP_MS)
    set_configs(client, emptied, retention_ms="1000")
    eventually(lambda: offset(client, emptied, EARLIEST) == 6, "retention has had its turn")
    assert base_offsets(directories, kept) == [0, 3]


def test_a_compacted_topic_loses_nothing_by_age(
    client: RawClient, directories: list[Path], address: str, small_segments: CreateTopic
) -> None:
    compacted = make_topic(address, configs={"cleanup.policy": "compact", "retention.ms": "1000"})
    keyed = batch_of([b"v"], key=b"k").encode()
    assert produced(client.ask(produce_request(compacted, keyed))).error_code is ErrorCode.none
    emptied = small_segments(retention_ms="1000")
    fill(client, emptied, segments=1, timestamp_ms=TIMESTAMP_MS)
    eventually(lambda: offset(client, emptied, EARLIEST) == 3, "retention has had its turn")
    assert (offset(client, compacted, EARLIEST), offset(client, compacted, LATEST)) == (0, 1)


def test_files_of_deleted_segments_stay_for_a_while(
    client: RawClient, directories: list[Path], small_segments: CreateTopic
) -> None:
    topic = small_segments(file_delete_delay_ms=LONG_MS, retention_bytes=str(SEGMENT_BYTES))
    fill(client, topic, segments=4)
    eventually(lambda: base_offsets(directories, topic) == [6, 9], "the old segments are gone")
    deleted = [f"{base:020}.log.deleted" for base in (0, 3)]
    assert files(directories, topic, "*.log.deleted") == deleted
    assert offset(client, topic, EARLIEST) == 6


def test_deleted_records_free_their_segments(
    client: RawClient, directories: list[Path], small_segments: CreateTopic
) -> None:
    topic = small_segments()
    fill(client, topic, segments=3)
    doomed = {"name": topic, "partitions": [{"partition_index": 0, "offset": 7}]}
    (answer,) = client.ask(sparse_request("delete_records", 2, timeout=10_000, topics=[doomed])).topics
    assert answer.partitions[0].low_watermark == 7
    eventually(lambda: base_offsets(directories, topic) == [6], "segments wholly before offset 7 are gone")
    assert offset(client, topic, EARLIEST) == 7


def test_a_reader_in_the_middle_of_a_response_gets_all_of_it(
    address: str, client: RawClient, directories: list[Path], small_segments: CreateTopic
) -> None:
    """Retention deletes the files under a response that is larger than all buffers between broker and reader."""
    topic = small_segments()
    fill(client, topic, segments=LARGE_RESPONSE_SEGMENTS)
    end = LARGE_RESPONSE_SEGMENTS * RECORDS_PER_SEGMENT
    host, _, port = address.rpartition(":")
    request = fetch_request(topic, 0, bytes_max=end * 2 * len(VALUE))
    with RawClient(host, int(port), receive_buffer_bytes=WINDOW_BYTES) as reader:
        reader.send_request(request)
        size = int.from_bytes(reader.read_bytes(4))
        beginning = reader.read_bytes(len(VALUE))
        set_configs(client, topic, retention_bytes="0")
        eventually(lambda: offset(client, topic, EARLIEST) == end, "every record is gone")
        eventually(lambda: base_offsets(directories, topic) == [end], "every file is gone")
        rest = reader.read_bytes(size - len(beginning))
    partition = fetched(decode_response(beginning + rest, response_type_of(request))[1])
    offsets = [found for found, _ in read_values(partition.records)]
    assert len(offsets) > 1
    assert offsets == list(range(len(offsets))), "whole batches with right checksums, without gaps"


def test_log_directories_are_used_evenly(address: str, client: RawClient, directories: list[Path]) -> None:
    make_topic(address, partitions=MANY_PARTITIONS)
    described = client.ask(sparse_request("describe_log_dirs", 4, topics=None)).results
    assert sorted(result.log_dir for result in described) == sorted(map(str, directories))
    counts = [sum(len(topic.partitions) for topic in result.topics) for result in described]
    assert max(counts) - min(counts) <= 1
    assert sum(counts) >= MANY_PARTITIONS
