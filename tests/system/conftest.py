"""Fixtures of the system tests: a broker that may be killed, either Ottla's or the reference Kafka."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from kio.schema.errors import ErrorCode

from tests.support.clients.raw_client import RawClient
from tests.support.clients.raw_requests import end_offset, metadata_request, produce_request, produced
from tests.support.clusters.broker_under_test import REFERENCE_VARIABLE, make_topic
from tests.support.clusters.service_process import RestartableBroker, SingleBrokerServices
from tests.support.eventually import eventually
from tests.support.messages.record_batches import batch_of
from tests.support.reference.reference_kafka import ReferenceKafka


@pytest.fixture
def restartable_broker(tmp_path: Path) -> Iterator[RestartableBroker]:
    """A broker of this test's own, running."""
    with _running_broker(tmp_path) as broker:
        yield broker


@dataclass(frozen=True, slots=True, kw_only=True)
class TwoEpochs:
    """A topic of one partition with records of two leader epochs, on a broker of its own.

    Attributes:
        first: the older leader epoch.
        second: the present one.
        first_end: the offset at which the second begins.
        end: the end of the log.
    """

    bootstrap: str
    topic: str
    first: int
    second: int
    first_end: int
    end: int


@pytest.fixture(scope="session")
def two_epochs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TwoEpochs]:
    """Records before and after a crash of the broker, which makes a new leader epoch."""
    with _running_broker(tmp_path_factory.mktemp("two-epochs")) as broker:
        topic = make_topic(broker.bootstrap)
        first = _publish_three(broker.bootstrap, topic)
        broker.kill()
        broker.start()
        second = eventually(
            lambda: _epoch_after(broker.bootstrap, topic, first), "the restarted broker leads in a new epoch"
        )
        _publish_three(broker.bootstrap, topic)
        with RawClient.to(broker.bootstrap) as client:
            end = end_offset(client, topic)
        assert second is not None
        yield TwoEpochs(bootstrap=broker.bootstrap, topic=topic, first=first, second=second, first_end=3, end=end)


@contextmanager
def _running_broker(directory: Path) -> Iterator[RestartableBroker]:
    if os.environ.get(REFERENCE_VARIABLE):
        with ReferenceKafka(directory / "reference-kafka") as kafka:
            yield kafka
    else:
        # A shorter lease could lapse where the machine stands still, and make a further epoch.
        with SingleBrokerServices(directory, broker_settings={"member.lease.ttl.ms": "10000"}) as services:
            yield services.broker


def _publish_three(bootstrap: str, topic: str) -> int:
    """Publishes one batch of three records and returns the leader epoch."""
    with RawClient.to(bootstrap) as client:
        request = produce_request(topic, batch_of([b"x", b"y", b"z"]).encode())
        eventually(lambda: produced(client.ask(request)).error_code is ErrorCode.none, f"{topic} takes records")
        return int(client.ask(metadata_request([topic])).topics[0].partitions[0].leader_epoch)


def _epoch_after(bootstrap: str, topic: str, epoch: int) -> int | None:
    with RawClient.to(bootstrap) as client:
        (partition,) = client.ask(metadata_request([topic])).topics[0].partitions
    newer = partition.error_code is ErrorCode.none and partition.leader_epoch > epoch
    return int(partition.leader_epoch) if newer else None
