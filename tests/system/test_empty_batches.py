"""Real clients and Kafka's tools read a log with batches without records, such as those that fence in
``__consumer_offsets``: no client makes one, so they are put into the log while its broker is down.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from ottla_broker.log.appends.append_validation import AppendOrigin
from tests.compat.aiokafka.client import AioKafkaClient
from tests.compat.cases import ClientUnderTest
from tests.compat.confluent.client import ConfluentClient
from tests.compat.java import kafka_tools
from tests.compat.java.kafka_tools import run_tool
from tests.compat.kafka_python.client import KafkaPythonClient
from tests.compat.kcat.client import KcatClient
from tests.support.broker.partition_logs import NOW_MS, append, empty_batch, open_log
from tests.support.clusters.broker_under_test import make_topic
from tests.support.clusters.service_process import SingleBrokerServices

pytestmark = pytest.mark.slow

RECORDS = [(1, b"a"), (2, b"b"), (5, b"c")]
"""Offsets 0, 3, 4 and 6 belong to empty batches."""
END = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class GappyTopic:
    """A topic whose log begins with, contains and ends with empty batches."""

    bootstrap: str
    topic: str
    directory: Path


@pytest.fixture(scope="module")
def gappy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GappyTopic]:
    """A broker that was down while its log was written."""
    with SingleBrokerServices(tmp_path_factory.mktemp("empty-batches")) as services:
        broker = services.broker
        topic = make_topic(broker.bootstrap)
        directory = broker.data / f"{topic}-0"
        broker.kill()
        fill(directory)
        broker.start()
        yield GappyTopic(bootstrap=broker.bootstrap, topic=topic, directory=directory)


def fill(directory: Path) -> None:
    log = open_log(directory)

    def append_empty(epoch: int) -> None:
        batch = empty_batch((1000, epoch, 0))
        log.append_as_leader(batch, leader_epoch=0, now_ms=NOW_MS, origin=AppendOrigin.COORDINATOR)

    append_empty(0)
    append(log, b"a", b"b", producer=(1000, 0, 1))
    append_empty(1)
    append_empty(2)
    append(log, b"c", producer=(1000, 2, 1))
    append_empty(3)
    log.close()


@pytest.mark.parametrize(
    "client",
    [
        ConfluentClient(),
        KafkaPythonClient(),
        AioKafkaClient(),
        pytest.param(KcatClient(), marks=pytest.mark.requires("kcat")),
    ],
    ids=lambda client: type(client).__name__,
)
def test_a_client_reads_the_records_and_nothing_else(gappy: GappyTopic, client: ClientUnderTest) -> None:
    messages = client.read(gappy.bootstrap, gappy.topic, 0, len(RECORDS))

    assert [(message.offset, message.value) for message in messages] == RECORDS
    assert client.end_offset(gappy.bootstrap, gappy.topic, 0) == END


@pytest.mark.requires("kafka")
def test_kafkas_console_consumer_reads_the_records(gappy: GappyTopic) -> None:
    output = run_tool(
        kafka_tools.CONSOLE_CONSUMER,
        *("--bootstrap-server", gappy.bootstrap, "--topic", gappy.topic, "--partition", "0"),
        *("--offset", "earliest", "--max-messages", str(len(RECORDS)), "--timeout-ms", "30000"),
    )

    assert [line for line in output.splitlines() if len(line) == 1] == [value.decode() for _, value in RECORDS]


@pytest.mark.requires("kafka")
def test_kafkas_dump_finds_nothing_wrong(gappy: GappyTopic) -> None:
    (log,) = gappy.directory.glob("*.log")
    output = run_tool(kafka_tools.DUMP_LOG_SEGMENTS, "--deep-iteration", "--files", str(log))

    # It says of records what it says of any compacted log.
    assert [line for line in output.splitlines() if any(word in line for word in kafka_tools.DUMP_COMPLAINTS)] == [
        f"Non-consecutive offsets in {log}"
    ]
    assert output.count("count: 0 ") == 4
    assert output.count("isvalid: true") == 6
