"""The requests about a topic with one partition, and what is read from their answers. Pure.

They are in the oldest versions that all brokers since Kafka 0.11 know; topics have names in them, not ids.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any, Final, NamedTuple

from kio.schema.create_topics.v7.request import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from kio.schema.fetch.v4.request import FetchPartition, FetchRequest, FetchTopic
from kio.schema.list_offsets.v1.request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kio.schema.produce.v3.request import PartitionProduceData, ProduceRequest, TopicProduceData

from ottla_core.wire.conversion import message_of
from ottla_core.wire.record_batch import iterate_batches
from ottla_core.wire.records import Headers, Record, encode_batch
from ottla_mirror.internal_topics.decided_records import ReadBatch, read_batch

PARTITION: Final = 0
EARLIEST: Final = -2
LATEST: Final = -1
BATCH_BYTES_MAX: Final = 512 * 1024
"""Of records in a batch; below the `max.message.bytes` that topics have by default, 1 MiB."""
FETCH_BYTES_MAX: Final = 4 * 1024 * 1024
_RECORD_OVERHEAD_BYTES: Final = 40
_ALL_IN_SYNC_REPLICAS: Final = -1


class Entry(NamedTuple):
    """A record to append.

    Attributes:
        key: of the record.
        value: of the record; None deletes what the key had.
        headers: of the record.
    """

    key: bytes
    value: bytes | None
    headers: Headers = ()


class Fetched(NamedTuple):
    """What a fetch has brought.

    Attributes:
        batches: in order.
        next_offset: from which the next fetch is to go on.
    """

    batches: list[ReadBatch]
    next_offset: int


def create_request(
    topic: str, *, replication_factor: int, settings: Mapping[str, str], timeout_s: float
) -> CreateTopicsRequest:
    """Return the request that makes the topic."""
    creatable = message_of(
        CreatableTopic,
        name=topic,
        num_partitions=1,
        replication_factor=replication_factor,
        configs=tuple(message_of(CreatableTopicConfig, name=name, value=value) for name, value in settings.items()),
    )
    return message_of(CreateTopicsRequest, topics=(creatable,), timeout=timedelta(seconds=timeout_s))


def offset_request(topic: str, timestamp: int) -> ListOffsetsRequest:
    """Return the request for the log's start (`EARLIEST`) or its end (`LATEST`)."""
    partition = message_of(ListOffsetsPartition, partition_index=PARTITION, timestamp=timestamp)
    asked = message_of(ListOffsetsTopic, name=topic, partitions=(partition,))
    return message_of(ListOffsetsRequest, replica_id=-1, topics=(asked,))


def fetch_request(topic: str, offset: int) -> FetchRequest:
    """Return the request for records from an offset on, which is answered at once."""
    partition = message_of(
        FetchPartition, partition=PARTITION, fetch_offset=offset, partition_max_bytes=FETCH_BYTES_MAX
    )
    return message_of(
        FetchRequest,
        replica_id=-1,
        max_wait=timedelta(0),
        min_bytes=0,
        max_bytes=FETCH_BYTES_MAX,
        isolation_level=0,
        topics=(message_of(FetchTopic, topic=topic, partitions=(partition,)),),
    )


def fetched(answer: Any, offset: int) -> Fetched:
    """Return the batches from an offset on that an answer about the partition has.

    Raises:
        CorruptMessage, InvalidRecord, UnsupportedForMessageFormat: a batch is damaged, or of a broker before 0.11.
    """
    found: list[ReadBatch] = []
    next_offset = offset
    for header, batch in iterate_batches(bytes(answer.records or b"")):
        if header.next_offset > offset:
            found.append(read_batch(header, batch, offset))
            next_offset = header.next_offset
    if next_offset == offset and answer.high_watermark > offset and not answer.records:
        next_offset = answer.high_watermark  # compaction has left nothing there
    return Fetched(found, next_offset)


def batches(entries: Iterable[Entry]) -> list[list[Entry]]:
    """Return the entries in groups that each fit into one batch."""
    groups: list[list[Entry]] = []
    size = 0
    for entry in entries:
        own = len(entry.key) + len(entry.value or b"") + _RECORD_OVERHEAD_BYTES
        if not groups or size + own > BATCH_BYTES_MAX:
            groups.append([])
            size = 0
        groups[-1].append(entry)
        size += own
    return groups


def encoded_batch(
    entries: Sequence[Entry],
    *,
    producer_id: int,
    producer_epoch: int,
    sequence: int,
    now_ms: int,
) -> bytes:
    """Return a record batch for a log."""
    return encode_batch(
        [Record(place, now_ms, each.key, each.value, each.headers) for place, each in enumerate(entries)],
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=sequence,
    )


def produce_request(topic: str, batch: bytes, timeout_s: float) -> ProduceRequest:
    """Return the request that appends a batch at all in-sync replicas."""
    data = message_of(PartitionProduceData, index=PARTITION, records=batch)
    return message_of(
        ProduceRequest,
        acks=_ALL_IN_SYNC_REPLICAS,
        timeout=timedelta(seconds=timeout_s),
        topic_data=(message_of(TopicProduceData, name=topic, partition_data=(data,)),),
    )
