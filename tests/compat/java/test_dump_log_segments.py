"""Kafka's DumpLogSegments reads our files with deep iteration and finds no mismatch between logs and indexes."""

import re
from pathlib import Path

import pytest

from tests.compat.cases import CODECS, PARTITIONS, Message, PublishCase, varied_messages
from tests.compat.confluent.client import ConfluentClient
from tests.compat.java.kafka_tools import dump_segments
from tests.conftest import TopicFactory
from tests.support.broker.partition_logs import open_log
from tests.support.broker.transactional_logs import end, write
from tests.support.clusters.broker_under_test import BrokerUnderTest

pytestmark = [
    pytest.mark.slow,
    pytest.mark.requires("kafka"),
]

SEGMENT_BYTES = 1 << 20


@pytest.mark.parametrize("codec", CODECS)
def test_logs_and_indexes_of_rolled_segments_agree(
    broker: BrokerUnderTest, new_topic: TopicFactory, codec: str
) -> None:
    topic = new_topic(configs={"segment.bytes": str(SEGMENT_BYTES), "index.interval.bytes": "1000"})
    count = 4000 if codec == "none" else 1500
    publish_incompressible(broker.bootstrap, topic, codec, count)
    directory = broker.partition_directory(topic, 0)
    logs = sorted(directory.glob("*.log"))
    assert codec != "none" or len(logs) > 2, "no segment was rolled"
    output = dump_segments(files_of(directory))
    offsets = [int(offset) for offset in re.findall(r"^\| offset: (\d+)", output, re.MULTILINE)]
    assert offsets == list(range(count))
    assert f"compresscodec: {codec}" in output
    assert "isvalid: true" in output


def test_varied_records_keep_their_keys_values_and_headers(broker: BrokerUnderTest, new_topic: TopicFactory) -> None:
    topic = new_topic(partitions=PARTITIONS)
    case = PublishCase(name="varied", codec="gzip", idempotent=True, messages=varied_messages())
    ConfluentClient().publish(broker.bootstrap, topic, case)
    dumps = [dump_segments(files_of(broker.partition_directory(topic, partition))) for partition in range(PARTITIONS)]
    counts = [len(re.findall(r"^\| offset: ", dump, re.MULTILINE)) for dump in dumps]
    assert counts == [len([m for m in case.messages if m.partition == partition]) for partition in range(PARTITIONS)]


def test_producer_snapshots_are_readable(broker: BrokerUnderTest, new_topic: TopicFactory) -> None:
    topic = new_topic(configs={"segment.bytes": str(SEGMENT_BYTES)})
    publish_incompressible(broker.bootstrap, topic, "none", 3000)
    snapshots = sorted(broker.partition_directory(topic, 0).glob("*.snapshot"))
    assert snapshots, "rolling a segment writes a producer snapshot"
    output = dump_segments(snapshots)
    assert re.search(r"producerId: \d+ producerEpoch: 0", output)


def test_transactions_their_markers_and_their_index_are_readable(tmp_path: Path) -> None:
    log = open_log(tmp_path / "flights-0")
    write(log, b"aborted", producer=(7, 3, 0))
    write(log, b"committed", producer=(8, 0, 0))
    end(log, 7, 4, commit=False, transaction_version=2, coordinator_epoch=5)
    end(log, 8, 0, commit=True)
    write(log, b"open", producer=(8, 0, 1))
    log.close()
    output = dump_segments(sorted(log.directory.glob("*.log")))
    assert "endTxnMarker: ABORT coordinatorEpoch: 5" in output
    assert "endTxnMarker: COMMIT coordinatorEpoch: 0" in output
    (index,) = log.directory.glob("*.txnindex")
    assert "version: 0 producerId: 7 firstOffset: 0 lastOffset: 2 lastStableOffset: 1" in dump_segments([index])
    (snapshot,) = log.directory.glob("*.snapshot")
    shown = dump_segments([snapshot])
    assert "producerId: 7 producerEpoch: 4 coordinatorEpoch: 5 currentTxnFirstOffset: OptionalLong.empty" in shown
    assert "producerId: 8 producerEpoch: 0 coordinatorEpoch: 0 currentTxnFirstOffset: OptionalLong[4]" in shown


def files_of(directory: Path) -> list[Path]:
    """Every log and index of a partition, logs first.

    The active segment's index may be preallocated with zeros; while it has no entry yet, DumpLogSegments takes the
    zeros for one and complains, about Kafka's own files too, so such an index is left out.
    """
    indexes = [*sorted(directory.glob("*.index")), *sorted(directory.glob("*.timeindex"))]
    return [*sorted(directory.glob("*.log")), *(index for index in indexes if any(first_entry(index)))]


def first_entry(index: Path) -> bytes:
    """The bytes of an index's first entry; none if it is empty."""
    with index.open("rb") as file:
        return file.read(8)


def publish_incompressible(bootstrap: str, topic: str, codec: str, count: int) -> None:
    """Publishes `count` records of about 1 KB with growing timestamps."""
    messages = tuple(
        Message(
            key=str(number).encode(),
            value=bytes((number * 31 + index * index) % 251 for index in range(1000)),
            timestamp_ms=1_700_000_000_000 + number,
        )
        for number in range(count)
    )
    case = PublishCase(name="rolling", codec=codec, idempotent=True, messages=messages)
    ConfluentClient().publish(bootstrap, topic, case)
