"""Replicas move between log directories of a real broker that is written to, and killed on the way."""

import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from kio.schema.alter_replica_log_dirs.v2 import request as alter_directories
from kio.schema.errors import ErrorCode
from kio.schema.types import TopicName
from kio.static.primitive import i32

from tests.support.clients.raw_client import RawClient
from tests.support.clients.raw_requests import produce_request, produced
from tests.support.clients.steady_writer import read_values
from tests.support.clusters.broker_under_test import make_topic
from tests.support.clusters.service_process import BrokerProcess, SingleBrokerServices
from tests.support.eventually import eventually
from tests.support.messages.record_batches import batch_of

pytestmark = pytest.mark.slow

KILLS = 6
KILL_WITHIN_S = 0.15
RECORDS_FIRST = 2000
VALUE_BYTES = 2000


@pytest.fixture
def directories(tmp_path: Path) -> tuple[Path, Path]:
    return tmp_path / "first", tmp_path / "second"


@pytest.fixture
def broker(tmp_path: Path, directories: tuple[Path, Path]) -> Iterator[BrokerProcess]:
    settings = {"log.dirs": ",".join(map(str, directories)), "log.segment.delete.delay.ms": "0"}
    with SingleBrokerServices(tmp_path / "services", broker_settings=settings) as services:
        yield services.broker


def value_of(number: int) -> bytes:
    return b"%08d" % number + b"x" * (VALUE_BYTES - 8)


def move(client: RawClient, topic: str, directory: Path) -> None:
    wanted = alter_directories.AlterReplicaLogDirTopic(name=TopicName(topic), partitions=(i32(0),))
    directories = (alter_directories.AlterReplicaLogDir(path=str(directory), topics=(wanted,)),)
    (result,) = client.ask(alter_directories.AlterReplicaLogDirsRequest(dirs=directories)).results
    assert result.partitions[0].error_code is ErrorCode.none


def places_of(topic: str, directories: tuple[Path, Path]) -> list[Path]:
    """Where the partition lies, under whatever name."""
    return [path.parent for directory in directories for path in directory.glob(f"{topic}-0*")]


def test_no_kill_during_a_move_costs_a_record(broker: BrokerProcess, directories: tuple[Path, Path]) -> None:
    topic = make_topic(broker.bootstrap, configs={"segment.bytes": "1000000"})
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    acknowledged = 0

    def write(client: RawClient) -> None:
        nonlocal acknowledged
        request = produce_request(topic, batch_of([value_of(acknowledged)]).encode())
        assert produced(client.ask(request)).error_code is ErrorCode.none
        acknowledged += 1

    with RawClient.to(broker.bootstrap) as client:
        for _ in range(RECORDS_FIRST):
            write(client)
    for _ in range(KILLS):
        (present,) = places_of(topic, directories)
        (target,) = set(directories) - {present}
        with RawClient.to(broker.bootstrap) as client:
            move(client, topic, target)
            kill_at = time.monotonic() + chance.random() * KILL_WITHIN_S
            while time.monotonic() < kill_at:
                write(client)
        broker.kill()
        broker.start()
        with RawClient.to(broker.bootstrap) as client:
            write(client)
        eventually(lambda: len(places_of(topic, directories)) == 1, "the partition is in one place")
        found = read_values(broker.bootstrap, topic, 0, up_to=acknowledged)
        assert [value[:8] for _, value in found] == [b"%08d" % number for number in range(acknowledged)]
