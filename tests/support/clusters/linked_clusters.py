"""Two clusters, one of which follows topics of the other, as the command and mirror workers have it done.

`Target` wraps the following cluster: it creates links and linked topics through the broker's own API, shows their
status, promotes, and compares logs byte for byte.
"""

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID, uuid4

from kio.schema.errors import ErrorCode

from ottla_core.client.blocking_connection import BlockingConnection
from ottla_core.client.errors import Unreachable
from ottla_core.client.links import (
    Answer,
    Question,
    add_linked_partitions,
    alter_link,
    ask_links_blocking,
    create_link,
    create_linked_topics,
    link_status,
    promote,
)
from ottla_core.client.security import ClientSecurity
from ottla_core.cluster.controller_rpc.link_api import (
    LinkChange,
    LinkedPartitionState,
    MorePartitions,
    NewLink,
    NewLinkedTopic,
    PartitionStatus,
    PromotedPartition,
)
from ottla_core.cluster.state.model import Link
from ottla_core.errors import KafkaError
from ottla_core.random_ids import random_uuid
from ottla_core.wire.record_batch import iterate_batches
from tests.support.clients.raw_client import RawClient
from tests.support.clients.raw_requests import fetch_request, fetched, metadata_request
from tests.support.clusters.replicated_cluster import ReplicatedCluster
from tests.support.eventually import eventually

LINK = "west"


def topic_in(bootstrap: str, name: str) -> tuple[str, Any]:
    """The id of a cluster, and the metadata of a topic in it."""
    with RawClient.to(bootstrap) as client:
        told = client.ask(metadata_request([name]))
    (topic,) = told.topics
    assert topic.error_code is ErrorCode.none, topic.error_code
    return told.cluster_id, topic


def fetched_bytes(bootstrap: str, topic: str, end_offset: int, *, partition: int = 0) -> bytes:
    """The record batches of a partition below an offset, as its leader at this address answers fetches."""
    found, offset = b"", 0
    with RawClient.to(bootstrap) as client:
        while offset < end_offset:
            answer = fetched(client.ask(fetch_request(topic, offset, partition=partition)))
            assert answer.error_code is ErrorCode.none, answer.error_code
            records = answer.records or b""
            found += records
            offset = max((header.next_offset for header, _ in iterate_batches(records)), default=offset)
    return found


class LinkClient:
    """Asks a cluster that follows another one.

    Args:
        source: the bootstrap servers of the other one.
        seen_at: where tests ask the source; by default there.
    """

    def __init__(self, source: str, *, seen_at: str = "") -> None:
        self.source = source
        self.seen_at = seen_at or source

    def addresses(self) -> Sequence[str]:
        """The brokers of the cluster that follows."""
        raise NotImplementedError

    def ask(self, question: Question[Answer]) -> Answer:
        """Asks any broker that is there."""
        problems = []
        for address in self.addresses():
            host, _, port = address.rpartition(":")
            try:
                with BlockingConnection(host, int(port), security=ClientSecurity(), client_id="test") as connection:
                    return ask_links_blocking(connection, question)
            except Unreachable as error:
                problems.append(str(error))
        raise Unreachable("; ".join(problems))

    def create_link(self, *, settings: Mapping[str, str] | None = None, source_id: str | None = None) -> Link:
        """Creates the link; by default under the id that the source has."""
        if source_id is None:
            with RawClient.to(self.seen_at) as client:
                source_id = client.ask(metadata_request([])).cluster_id
        link = Link(
            name=LINK,
            id=uuid4(),
            source_cluster_id=source_id or "",
            bootstrap_servers=tuple(self.source.split(",")),
            settings=settings or {},
            topics=(".*",),
            properties={"refresh.topics.enabled": "false"},
        )
        return self.ask(create_link(NewLink(link=link)))

    def follow(self, name: str, *, replication_factor: int = -1, configs: Mapping[str, str] | None = None) -> None:
        """Creates a topic that follows the source's of the same name."""
        _, topic = topic_in(self.seen_at, name)
        epochs = {each.partition_index: each.leader_epoch for each in topic.partitions}
        new = NewLinkedTopic(
            name=name,
            topic_id=random_uuid(),
            source_topic=name,
            source_topic_id=UUID(str(topic.topic_id)),
            source_leader_epochs=tuple(epochs[index] for index in range(len(epochs))),
            replication_factor=replication_factor,
            configs=dict(configs or {}),
        )
        (result,) = self.ask(create_linked_topics(LINK, [new]))
        assert result.error_code is ErrorCode.none, result.error_message

    def grow(self, name: str) -> None:
        """Gives a linked topic the partitions that its source has."""
        _, topic = topic_in(self.seen_at, name)
        epochs = {each.partition_index: each.leader_epoch for each in topic.partitions}
        more = MorePartitions(topic=name, source_leader_epochs=tuple(epochs[index] for index in range(len(epochs))))
        (result,) = self.ask(add_linked_partitions([more]))
        assert result.error_code is ErrorCode.none, result.error_message

    def alter(self, **changes: Any) -> Link:
        """Changes the link."""
        return self.ask(alter_link(LinkChange(name=LINK, **changes)))

    def promote(self, *topics: str) -> list[PromotedPartition]:
        """Has topics, or all, follow no longer."""
        return self.ask(promote(LINK, topics))

    def status(self, topic: str, index: int = 0) -> PartitionStatus:
        """How far a linked partition has come."""
        (status,) = [
            each for each in self.ask(link_status()).partitions if (each.topic, each.index) == (topic, index)
        ]
        return status

    def wait_for_state(
        self, topic: str, state: LinkedPartitionState, index: int = 0, *, within_s: float = 30
    ) -> PartitionStatus:
        """Waits until a partition is in a state."""

        def reached() -> PartitionStatus:
            status = self._seen(topic, index)
            if status.state is not state:
                raise ConnectionError(f"it is {status}")
            return status

        return eventually(reached, f"{topic}-{index} is {state}", within_s=within_s)

    def wait_for_end(self, topic: str, offset: int, index: int = 0, *, within_s: float = 60) -> PartitionStatus:
        """Waits until a partition's high watermark is at an offset."""

        def reached() -> PartitionStatus:
            status = self._seen(topic, index)
            if status.high_watermark != offset:
                raise ConnectionError(f"it is {status}")
            return status

        return eventually(reached, f"{topic}-{index} has come to {offset}", within_s=within_s)

    def _seen(self, topic: str, index: int) -> PartitionStatus:
        try:
            return self.status(topic, index)
        except (KafkaError, Unreachable) as error:  # a broker has just been killed
            raise ConnectionError(str(error)) from error


class Target(LinkClient):
    """The cluster that follows, as processes of the test.

    Args:
        cluster: itself.
        source: the bootstrap servers of the other one.
        seen_at: where tests ask the source; by default there.
    """

    def __init__(self, cluster: ReplicatedCluster, source: str, *, seen_at: str = "") -> None:
        super().__init__(source, seen_at=seen_at)
        self.cluster = cluster

    def addresses(self) -> Sequence[str]:
        return [broker.bootstrap for broker in self.cluster.brokers.values()]
