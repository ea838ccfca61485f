"""Who mirrors, and between what: a worker of ours or MirrorMaker 2, and two clusters of one broker each."""

import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol, Self

from kio.schema.errors import ErrorCode
from kio.schema.list_offsets.v1 import request as list_offsets
from kio.schema.types import BrokerId, TopicName
from kio.static.primitive import i32, i64

from tests.support.child_process import ChildProcess
from tests.support.clients.raw_client import RawClient
from tests.support.clusters.ottla_cluster import OttlaCluster
from tests.support.free_ports import LOOPBACK, free_port
from tests.support.reference.mirror_maker import MirrorMaker
from tests.support.reference.reference_kafka import ReferenceKafka

MIRROR_MAKER: Final = "mirror-maker"
OTTLA_MIRROR: Final = "ottla-mirror"
EXACTLY_ONCE: Final = "ottla-mirror-exactly-once"
"""A worker that writes in transactions; what is counted of the target has its markers in it, one for each."""
MIRRORS: Final = (OTTLA_MIRROR, MIRROR_MAKER)
ALL_MIRRORS: Final = (*MIRRORS, EXACTLY_ONCE)
CLUSTERS: Final = ("ottla", "kafka")
MIRROR_MAKER_HEAP: Final = "1g"
LATEST: Final = -1


class Cluster(Protocol):
    """A cluster that is started here."""

    @property
    def bootstrap(self) -> str:
        """Where it answers."""


class Mirror(Protocol):
    """A mirroring process."""

    process: ChildProcess


class OttlaMirror:
    """One mirror worker of ours, with what MirrorMaker 2 is told."""

    def __init__(
        self,
        directory: Path,
        source: tuple[str, str],
        target: tuple[str, str],
        topics: str,
        *,
        exactly_once: bool = False,
    ) -> None:
        flow = f"{source[0]}->{target[0]}"
        properties = {
            "clusters": f"{source[0]},{target[0]}",
            f"{source[0]}.bootstrap.servers": source[1],
            f"{target[0]}.bootstrap.servers": target[1],
            f"{flow}.enabled": "true",
            f"{flow}.topics": topics,
            "exactly.once.source.support": "enabled" if exactly_once else "disabled",
            "replication.factor": "1",
            "refresh.topics.interval.seconds": "2",
            "group.id": f"mirrors-of-{source[0]}",
            "listeners": f"http://{LOOPBACK}:{free_port()}",
        }
        directory.mkdir(parents=True, exist_ok=True)
        config = directory / "mirror.properties"
        config.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
        command = [str(Path(sys.executable).with_name(OTTLA_MIRROR)), "--config", str(config)]
        self.process = ChildProcess(OTTLA_MIRROR, command, log=directory / "mirror.log")

    def __enter__(self) -> Self:
        self.process.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.process.stop()


@contextmanager
def one_broker(kind: str, directory: Path) -> Iterator[Cluster]:
    """Run a cluster of one of `CLUSTERS` with one broker."""
    if kind == "ottla":
        with OttlaCluster(directory) as cluster:
            yield cluster
        return
    kafka = ReferenceKafka(directory, java_options=("-Xmx1g", "-Xms1g"))
    try:
        kafka.start()
        yield kafka
    finally:
        kafka.kill()  # a clean stop with thousands of partitions takes a minute


@dataclass(frozen=True, slots=True)
class MirroredTopic:
    """A topic that is copied by somebody.

    Attributes:
        name: who copies.
        alias: of the source, another one in each measurement, as a mirror remembers the last one by it.
        source: address of the cluster to copy from.
        target: address of the cluster to copy to.
        topic: its name at the source.
        codec: of the topic's batches.
    """

    name: str
    alias: str
    source: str
    target: str
    topic: str
    codec: str

    @property
    def copy(self) -> str:
        """The topic's name at the target."""
        return f"{self.alias}.{self.topic}"

    def mirror(self, directory: Path) -> AbstractContextManager[Mirror]:
        """Return who copies it, not started yet."""
        if self.name in (OTTLA_MIRROR, EXACTLY_ONCE):
            return OttlaMirror(
                directory / self.alias,
                (self.alias, self.source),
                ("target", self.target),
                self.topic,
                exactly_once=self.name == EXACTLY_ONCE,
            )
        # As the source's batches are: without this MirrorMaker 2 would save the time of compressing them again.
        settings = {"target.producer.compression.type": self.codec}
        source, target = (self.alias, self.source), ("target", self.target)
        return MirrorMaker(
            directory / self.alias, source, target, topics=self.topic, settings=settings, heap=MIRROR_MAKER_HEAP
        )


def log_ends(client: RawClient, topic: str, partitions: int) -> list[int]:
    """Return the ends of all partitions; 0 of those that are not there yet."""
    asked = tuple(
        list_offsets.ListOffsetsPartition(partition_index=i32(number), timestamp=i64(LATEST))
        for number in range(partitions)
    )
    request = list_offsets.ListOffsetsRequest(
        replica_id=BrokerId(-1),
        topics=(list_offsets.ListOffsetsTopic(name=TopicName(topic), partitions=asked),),
    )
    (answer,) = client.ask(request).topics
    return [each.offset if each.error_code is ErrorCode.none else 0 for each in answer.partitions]
