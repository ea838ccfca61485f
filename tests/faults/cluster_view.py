"""A healed cluster as clients see it and as etcd has it, for the checks at the end of a trial."""

import base64
import json
import os
import subprocess
import time
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from typing import TypeVar
from uuid import UUID

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from ottla_core.cluster.state import codec
from ottla_core.cluster.state.keys import PartitionKey
from tests.faults.checker import FinalContents
from tests.faults.cluster import CLUSTER_NAME, Cluster
from tests.faults.cluster_files import Settled
from tests.faults.fault import BROKER
from tests.faults.reading import LOST_POSITION, content_of, settings_of_reader
from tests.faults.state_history import Version
from tests.faults.topics import COMMON_CONFIGS, KEEPS, PARTITIONS, Keeps, LoadTopic
from tests.support.clusters.etcd_process import etcd_program
from tests.support.eventually import NotInTime, eventually

Read = TypeVar("Read")
ASK_TIMEOUT_S = 5.0
LOOK_INTERVAL_S = 0.25
READ_DEADLINE_S = 60.0
ETCD_TIMEOUT_S = 30.0
WATCHED_S = (3.0, 20.0)
"""How long a watch goes on, and another one if nothing came of it on a busy machine."""


class ClusterView:
    """Asks the cluster from outside; faults do not reach it."""

    def __init__(self, cluster: Cluster):
        self._cluster = cluster
        self._admin = AdminClient(
            {
                "bootstrap.servers": cluster.bootstrap,
                "socket.timeout.ms": 5000,
                "socket.connection.setup.timeout.ms": 2000,
                "reconnect.backoff.max.ms": 500,
                "log_level": 0,
            }
        )

    def create_topics(
        self, topics: Iterable[LoadTopic], *, factor: int, partitions: int = PARTITIONS, min_in_sync: int = 2
    ) -> None:
        """Creates topics of the load."""
        common = {**COMMON_CONFIGS, "min.insync.replicas": str(min(min_in_sync, factor))}
        wanted = [
            NewTopic(
                topic.name, num_partitions=partitions, replication_factor=factor, config={**common, **topic.configs}
            )
            for topic in topics
        ]
        if not wanted:
            return  # which the client refuses
        for future in self._admin.create_topics(wanted, operation_timeout=30).values():
            future.result()

    def wait_in_sync(self, *, within_s: float) -> list[str]:
        """Waits until every replica of every partition is in sync; what is not if it does not come to that."""
        missing: list[str] = ["nothing was asked yet"]

        def all_in_sync() -> bool:
            missing[:] = self._out_of_sync()
            if missing:
                time.sleep(LOOK_INTERVAL_S)  # between two looks; the caller has a deadline
                self._cluster.look()
            return not missing

        try:
            eventually(all_in_sync, "every replica is in sync", within_s=within_s)
        except NotInTime:
            return missing
        return []

    def _out_of_sync(self) -> list[str]:
        try:
            metadata = self._admin.list_topics(timeout=ASK_TIMEOUT_S)
        except KafkaException as error:
            return [f"no metadata: {error}"]
        missing = [f"broker {each} is unknown" for each in self._broker_ids() if each not in metadata.brokers]
        missing += [
            f"{topic}-{partition.id}: leader {partition.leader}, in sync {sorted(partition.isrs)} "
            f"of {sorted(partition.replicas)}"
            for topic, described in metadata.topics.items()
            for partition in described.partitions.values()
            if partition.leader < 0 or set(partition.isrs) != set(partition.replicas)
        ]
        return missing

    def topics(self) -> set[str]:
        """The names of all topics."""
        return set(self._admin.list_topics(timeout=ASK_TIMEOUT_S).topics)

    def leader_of(self, topic: str, partition: int) -> int:
        """The id of a partition's leader; -1 if it has none."""
        metadata = self._admin.list_topics(topic, timeout=ASK_TIMEOUT_S)
        return int(metadata.topics[topic].partitions[partition].leader)

    def _broker_ids(self) -> range:
        return range(1, self._cluster.members.brokers + 1)

    def read_everything(self, topics: Sequence[str]) -> FinalContents:
        """Every record of topics of the load, each partition up to the end it has now."""
        places = [(topic, partition) for topic in topics for partition in range(PARTITIONS)]
        return self.read_partitions(places, content_of)

    def read_partitions(
        self,
        partitions: Iterable[tuple[str, int]],
        content: Callable[[Message], Read],
        *,
        isolation: str = "read_committed",
    ) -> dict[tuple[str, int], list[tuple[int, Read]]]:
        """Every record of partitions, each up to the end it has now; `content` says what a record is."""
        contents: dict[tuple[str, int], list[tuple[int, Read]]] = {each: [] for each in partitions}
        left = set(contents)
        settings = settings_of_reader(self._cluster.bootstrap, "final-reader")
        consumer = Consumer(settings | {"isolation.level": isolation})
        deadline_s = time.monotonic() + READ_DEADLINE_S
        try:
            consumer.assign([TopicPartition(*each, OFFSET_BEGINNING) for each in contents])
            while left:
                assert time.monotonic() < deadline_s, f"cannot read {sorted(left)} to the end"
                for message in consumer.consume(5000, 0.2):
                    error, topic, partition, offset = (
                        message.error(),
                        message.topic(),
                        message.partition(),
                        message.offset(),
                    )
                    assert topic is not None
                    assert partition is not None
                    if error is None:
                        assert offset is not None
                        contents[topic, partition].append((offset, content(message)))
                    elif error.code() == KafkaError._PARTITION_EOF:
                        left.discard((topic, partition))
                    elif error.code() in LOST_POSITION:
                        # The log may begin later than where the reader was about to begin.
                        what = f"{topic}-{partition} was cut while it was read: {error.str()}"
                        assert KEEPS.get(topic) is Keeps.NEWEST, what
                        contents[topic, partition].clear()
                        consumer.incremental_unassign([TopicPartition(topic, partition)])
                        consumer.incremental_assign([TopicPartition(topic, partition, OFFSET_BEGINNING)])
        finally:
            consumer.close()
        return contents

    def end_offsets(self, topics: Iterable[str], *, committed: bool) -> dict[tuple[str, int], int]:
        """Where all partitions of topics end, for readers of committed records or of all."""
        metadata = self._admin.list_topics(timeout=ASK_TIMEOUT_S)
        level = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED
        wanted = {
            TopicPartition(topic, index): OffsetSpec.latest()  # type: ignore[no-untyped-call]
            for topic in topics
            if topic in metadata.topics
            for index in metadata.topics[topic].partitions
        }
        asked = self._admin.list_offsets(wanted, isolation_level=level, request_timeout=ASK_TIMEOUT_S)
        return {(each.topic, each.partition): future.result().offset for each, future in asked.items()}

    def settled(self, *, of: Container[str] | None = None) -> dict[tuple[str, int], Settled]:
        """The replicas and ends of all partitions, or of those of some topics, as consumers see them."""
        metadata = self._admin.list_topics(timeout=ASK_TIMEOUT_S)
        consumer = Consumer(settings_of_reader(self._cluster.bootstrap, "watermarks"))
        found: dict[tuple[str, int], Settled] = {}
        try:
            for topic, described in metadata.topics.items():
                if of is not None and topic not in of:
                    continue
                for index, partition in described.partitions.items():
                    names = tuple(self._cluster.members.name(BROKER, each) for each in partition.replicas)
                    start, end = consumer.get_watermark_offsets(TopicPartition(topic, index), timeout=ASK_TIMEOUT_S)
                    found[topic, index] = Settled(names, end, start)
            return found
        finally:
            consumer.close()


def partition_versions(endpoints: Sequence[str], options: Sequence[str] = ()) -> Iterator[Version]:
    """Everything that etcd has ever held about partitions, in the order of revisions; `options` are etcdctl's."""
    prefix = f"/ottla/{CLUSTER_NAME}/partitions/"
    # The watch goes on for ever; everything from before its start comes at once.
    watch = ""
    for within_s in WATCHED_S:
        watch = watch or _etcdctl(endpoints, *options, "watch", "--prefix", "--rev=1", prefix, within_s=within_s)
    assert watch, "etcd tells nothing of partitions"
    for text in watch.splitlines():
        for event in json.loads(text).get("Events", []):
            entry = event["kv"]
            if "value" not in entry:
                continue
            topic_id, index = base64.b64decode(entry["key"]).decode().removeprefix(prefix).split("/")
            key = PartitionKey(UUID(topic_id), int(index))
            state = codec.decode_partition(key, base64.b64decode(entry["value"]), entry["mod_revision"])
            yield Version(entry["mod_revision"], state)


def leading_controller(endpoints: Sequence[str]) -> int:
    """The id of the controller that leads now."""
    (entry,) = json.loads(_etcdctl(endpoints, "get", f"/ottla/{CLUSTER_NAME}/controller"))["kvs"]
    leader = codec.decode_controller(base64.b64decode(entry["value"]), entry["create_revision"])
    return leader.id


def etcd_leader(endpoints: Sequence[str]) -> str:
    """The name of the etcd member that leads now."""
    members = json.loads(_etcdctl(endpoints, "member", "list"))["members"]
    names = {member["ID"]: member["name"] for member in members}
    (status, *_) = json.loads(_etcdctl(endpoints, "endpoint", "status"))
    return str(names[status["Status"]["leader"]])


def _etcdctl(endpoints: Sequence[str], *arguments: str, within_s: float = ETCD_TIMEOUT_S) -> str:
    command = [etcd_program("etcdctl"), "--endpoints", ",".join(endpoints), "-w", "json", *arguments]
    done = subprocess.run(
        ["timeout", "--signal=INT", str(within_s), *command],
        env={**os.environ, "ETCDCTL_API": "3"},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout
