"""Kafka's DumpLogSegments reads compacted segments with deep iteration, and Kafka's consumer reads the topic."""

import random
import re
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.compat.cases import CODECS
from tests.compat.java.kafka_tools import CONSOLE_CONSUMER, DUMP_LOG_SEGMENTS, run_tool
from tests.support.clusters.broker_under_test import make_topic
from tests.support.clusters.service_process import SingleBrokerServices
from tests.support.eventually import eventually

pytestmark = [
    pytest.mark.slow,
    pytest.mark.requires("kafka"),
]

KEYS = 20
RECORDS = 9000
TOMBSTONE_EVERY = 13
COMPLAINTS = (
    "Mismatches in",
    "timestamp mismatch",
    "out of order timestamp",
    "not found in the log",
    "invalid bytes",
    "isvalid: false",
    "Exception",
)
"""Gaps between offsets are what compaction is for, so those are not complained about here."""


@pytest.mark.parametrize("codec", CODECS)
def test_compacted_segments_and_their_indexes_agree(tmp_path: Path, codec: str) -> None:
    settings = {"log.cleaner.backoff.ms": "50", "offsets.topic.replication.factor": "1"}
    with SingleBrokerServices(tmp_path, broker_settings=settings) as services:
        topic = make_topic(
            services.broker.bootstrap,
            configs={
                "cleanup.policy": "compact",
                "segment.bytes": str(1 << 20),
                "index.interval.bytes": "500",
                "min.cleanable.dirty.ratio": "0.01",
                "file.delete.delay.ms": "0",
            },
        )
        directory = services.broker.data / f"{topic}-0"
        last = publish(services.broker.bootstrap, topic, codec)
        checkpoint = services.broker.data / "cleaner-offset-checkpoint"
        active = eventually(lambda: rolled_and_compacted(directory, checkpoint, topic), "the topic is compacted")
        files = [path for suffix in ("log", "index", "timeindex") for path in sorted(directory.glob(f"*.{suffix}"))]
        files = [path for path in files if int(path.stem) < active and path.stat().st_size]
        output = run_tool(DUMP_LOG_SEGMENTS, "--deep-iteration", "--files", ",".join(map(str, files)))
        assert [line for line in output.splitlines() if any(words in line for words in COMPLAINTS)] == []
        offsets = [int(offset) for offset in re.findall(r"^\| offset: (\d+)", output, re.MULTILINE)]
        assert offsets == sorted(set(offsets))
        assert len(offsets) < RECORDS / 4
        assert "deleteHorizonMs: OptionalLong[" in output
        read = run_tool(
            CONSOLE_CONSUMER,
            *("--bootstrap-server", services.broker.bootstrap, "--topic", topic, "--partition", "0"),
            *("--offset", "earliest", "--timeout-ms", "8000", "--property", "print.key=true"),
        )
    table = dict(re.findall(r"^(key-\d+)\t(\S+)", read, re.MULTILINE))
    assert {key: value for key, value in table.items() if value != "null"} == last


def rolled_and_compacted(directory: Path, checkpoint: Path, topic: str) -> int | None:
    """The active segment's base offset, once everything before it is compacted."""
    if not checkpoint.exists():
        return None
    found = re.search(rf"^{topic} 0 (\d+)$", checkpoint.read_text(), re.MULTILINE)
    active = max(int(path.stem) for path in directory.glob("*.log"))
    return active if found is not None and int(found[1]) == active > 0 else None


def publish(bootstrap: str, topic: str, codec: str) -> dict[str, str]:
    """Overwrite and delete a few keys again and again; return their last values."""
    producer = Producer(
        {"bootstrap.servers": bootstrap, "enable.idempotence": True, "compression.type": codec, "linger.ms": 5}
    )
    last: dict[str, str] = {}
    for number in range(RECORDS):
        key = f"key-{number * 7 % KEYS}"
        noise = random.Random(number).randbytes(400).hex()
        value = None if number % TOMBSTONE_EVERY == 0 else f"{number}-{noise}"
        producer.produce(topic, value, key, partition=0)
        if value is None:
            last.pop(key, None)
        else:
            last[key] = value
        producer.poll(0)
    assert producer.flush(60) == 0
    return last
