"""A full disk: producing fails with a clear error, reading goes on, and all is well once space is back.

The disk holds the services' logs too, as with `ottla up`, so that nothing can be reported while it is full.

Kafka itself takes such a log directory offline for good, so this promise is Ottla's own and the reference is not
asked.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from kio.schema.errors import ErrorCode

from tests.support.clients.raw_client import RawClient
from tests.support.clients.raw_requests import end_offset, fetch_request, fetched, produce_request, produced
from tests.support.clusters.broker_under_test import make_topic
from tests.support.clusters.service_process import BrokerProcess, SingleBrokerServices
from tests.support.eventually import eventually
from tests.support.machine.small_disk import fill, small_disk
from tests.support.messages.record_batches import batch_of, read_values
from tests.support.requirements import lack

pytestmark = [
    pytest.mark.slow,
    pytest.mark.requires("small disk"),
]

DISK_BYTES = 64 << 20
LEFT_FREE_BYTES = 2 << 20
VALUE = b"v" * 100_000
ATTEMPTS_MAX = 200
ATTEMPTS_ON_FULL_DISK = 100


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    try:
        with small_disk(tmp_path / "disk", size_bytes=DISK_BYTES) as mounted:
            yield mounted
    except OSError as refusal:
        lack(str(refusal))


@pytest.fixture
def broker(disk: Path, tmp_path: Path) -> Iterator[BrokerProcess]:
    with SingleBrokerServices(tmp_path, data=disk / "data", logs=disk / "logs") as services:
        yield services.broker


def test_a_full_disk_stops_writing_only_and_only_for_as_long_as_it_is_full(broker: BrokerProcess, disk: Path) -> None:
    topic = make_topic(broker.bootstrap)
    with RawClient.to(broker.bootstrap) as client:
        acknowledged = [publish(client, topic).base_offset for _ in range(10)]
        ballast = fill(disk, leave_bytes=LEFT_FREE_BYTES)
        refused = None
        for _ in range(ATTEMPTS_MAX):
            answer = publish(client, topic)
            if answer.error_code is not ErrorCode.none:
                refused = answer.error_code
                break
            acknowledged.append(answer.base_offset)
        assert refused is ErrorCode.kafka_storage_error
        assert "no space left" in broker.process.log.read_text().lower(), "the log names the reason"
        last_bytes = fill(disk, leave_bytes=0, name="last-bytes")
        for _ in range(ATTEMPTS_ON_FULL_DISK):  # more than a log's last block has room for
            assert publish(client, topic).error_code is ErrorCode.kafka_storage_error
        assert offsets_read(client, topic) == acknowledged
        broker.process.check_running()
        ballast.unlink()
        last_bytes.unlink()
        answer = eventually(lambda: published(client, topic), "writing works again")
        assert answer is not None
        acknowledged.append(answer.base_offset)
        assert offsets_read(client, topic) == acknowledged
        assert end_offset(client, topic) == len(acknowledged)
    broker.stop()
    broker.start()
    with RawClient.to(broker.bootstrap) as client:
        assert offsets_read(client, topic) == acknowledged


def publish(client: RawClient, topic: str):  # type: ignore[no-untyped-def]  # kio's response part
    return produced(client.ask(produce_request(topic, batch_of([VALUE]).encode())))


def published(client: RawClient, topic: str):  # type: ignore[no-untyped-def]  # kio's response part
    answer = publish(client, topic)
    return answer if answer.error_code is ErrorCode.none else None


def offsets_read(client: RawClient, topic: str) -> list[int]:
    """The offsets of all records from the beginning, each holding what was published."""
    offsets: list[int] = []
    while values := read_values(fetched(client.ask(fetch_request(topic, len(offsets), wait_max_ms=0))).records):
        assert all(value == VALUE for _, value in values)
        offsets += [offset for offset, _ in values]
    return offsets
