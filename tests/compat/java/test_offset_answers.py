"""A shard answers requests about offsets as Apache Kafka does: the same requests go to both, in all versions."""

from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from kio.index import load_request_schema, load_response_schema
from kio.schema.errors import ErrorCode
from kio.static.protocol import Entity

from ottla_core.cluster.state.model import ClusterState
from ottla_core.wire import group_responses as api
from ottla_core.wire.conversion import convert, item_type, message_of
from tests.support.clients.raw_client import RawClient
from tests.support.eventually import eventually
from tests.support.groups.shard_under_test import ShardUnderTest, cluster_of, commit_request, fetch_request
from tests.support.reference.reference_kafka import ReferenceKafka

pytestmark = [
    pytest.mark.slow,
    pytest.mark.requires("kafka"),
]

CREATE_TOPICS, METADATA = 19, 3
NOWHERE = UUID(int=9)
CONSUMER = str(UUID(int=77))
STATES: tuple[tuple[str, ...], ...] = ((), ("Empty",), ("eMPTY ",), ("Stable",), ("nonsense",))
TYPES: tuple[tuple[str, ...], ...] = ((), ("Classic",), ("CLASSIC", "consumer"), ("nonsense",))


class Both:
    """Kafka and a shard, which are asked the same."""

    def __init__(self, client: RawClient) -> None:
        self._client = client
        self._shard = ShardUnderTest(state=cluster_of({"orders": (1, 3), "payments": (2, 1)}))
        self._shard.change(with_ids(self._shard.state, create_topics(client)))
        self.orders = self._shard.state.topics["orders"].id
        self.payments = self._shard.state.topics["payments"].id

    def names(self, version: int) -> tuple[Any, Any, Any]:
        """How a version names two topics and one that does not exist."""
        return (self.orders, self.payments, NOWHERE) if version >= 10 else ("orders", "payments", "nowhere")

    def ask(self, api_key: int, version: int, request: Entity) -> Any:
        """Ask both and see that they answer the same, apart from the order of lists."""
        theirs = self._client.ask(request)
        token = self._shard.send(api_key, version, request)
        ours = convert(self._shard.answers[token], load_response_schema(api_key, version))
        assert comparable(ours) == comparable(theirs), request
        return ours

    def ask_with(self, api_key: int, version: int, **values: object) -> Any:
        """Like `ask`, with the fields of the request."""
        return self.ask(api_key, version, message_of(load_request_schema(api_key, version), **values))

    def commit(self, version: int, group_id: str, offsets: dict[tuple[Any, int], int], **values: Any) -> None:
        """Commit to both."""
        self.ask(api.OFFSET_COMMIT, version, commit_request(version, group_id, offsets, **values))

    def fetch(self, version: int, groups: dict[str, Any], **values: Any) -> None:
        """Fetch from both."""
        self.ask(api.OFFSET_FETCH, version, fetch_request(version, groups, **values))

    def delete_offsets(self, group_id: str, **topics: list[int]) -> None:
        """Delete from both."""
        topic_type = item_type(load_request_schema(api.OFFSET_DELETE, 0), "topics")
        partition_type = item_type(topic_type, "partitions")
        asked = tuple(
            message_of(
                topic_type,
                name=name,
                partitions=tuple(message_of(partition_type, partition_index=index) for index in indexes),
            )
            for name, indexes in topics.items()
        )
        self.ask_with(api.OFFSET_DELETE, 0, group_id=group_id, topics=asked)


def create_topics(client: RawClient) -> dict[str, UUID]:
    """Make the topics in Kafka and return their ids; wait until it serves groups."""
    request_type = load_request_schema(CREATE_TOPICS, 7)
    topics = tuple(
        message_of(item_type(request_type, "topics"), name=name, num_partitions=count, replication_factor=1)
        for name, count in (("orders", 3), ("payments", 1))
    )
    client.ask(message_of(request_type, topics=topics, timeout=timedelta(seconds=30)))

    def serves_groups() -> bool:
        finding = message_of(load_request_schema(api.FIND_COORDINATOR, 4), coordinator_keys=("g",))
        if client.ask(finding).coordinators[0].error_code is not ErrorCode.none:
            return False
        described = client.ask(message_of(load_request_schema(api.DESCRIBE_GROUPS, 5), groups=("g",)))
        return bool(described.groups[0].error_code is ErrorCode.none)

    eventually(serves_groups, "Kafka serves groups", within_s=60)
    metadata = client.ask(message_of(load_request_schema(METADATA, 12), topics=None))
    return {topic.name: topic.topic_id for topic in metadata.topics}


def with_ids(state: ClusterState, ids: dict[str, UUID]) -> ClusterState:
    """The state with the topic ids that Kafka has drawn."""
    topics = {name: replace(topic, id=ids[name]) for name, topic in state.topics.items()}
    return replace(state, topics=topics, topics_by_id={topic.id: topic for topic in topics.values()})


def comparable(value: Any) -> Any:
    """A message without the order of its lists and without throttle times."""
    if is_dataclass(value):
        return {f.name: comparable(getattr(value, f.name)) for f in fields(value) if f.name != "throttle_time"}
    return sorted(map(comparable, value), key=repr) if isinstance(value, tuple) else value


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    with ReferenceKafka(tmp_path_factory.mktemp("kafka")) as kafka, RawClient.to(kafka.bootstrap) as client:
        yield Both(client)


@pytest.mark.parametrize("version", range(2, 11))
def test_commits_outside_of_groups(both: Both, version: int) -> None:
    orders, payments, nowhere = both.names(version)
    group_id = f"commits-{version}"
    both.commit(version, group_id, {(orders, 0): 5, (orders, 2): 7, (payments, 0): 1})
    both.commit(version, group_id, {(orders, 3): 5, (orders, -1): 5, (payments, 0): 2, (nowhere, 0): 3})
    both.commit(version, group_id, {(orders, 1): -7}, metadata=None)
    both.commit(version, group_id, {(orders, 1): 8}, metadata="x" * 4096)
    both.commit(version, group_id, {(orders, 1): 9}, metadata="x" * 4097)
    both.commit(version, group_id, {})
    both.commit(version, "", {(orders, 0): 5})
    for who in ({"member_id": "m"}, {"member_id": "m", "generation_id_or_member_epoch": 3}):
        both.commit(version, group_id, {(orders, 0): 5, (nowhere, 0): 3}, **who)
        both.commit(version, f"none-{version}", {(orders, 0): 5}, **who)
        both.commit(version, f"none-{version}", {(nowhere, 0): 5}, **who)
    for fetch_version in range(1, 11):
        names = both.names(fetch_version)
        both.fetch(fetch_version, {group_id: [(name, [0, 1, 2, 3]) for name in names]})
        if fetch_version > 1:
            both.fetch(fetch_version, {group_id: None})


@pytest.mark.parametrize("version", range(1, 11))
def test_fetches(both: Both, version: int) -> None:
    orders, payments, nowhere = both.names(version)
    both.commit(9, "fetches", {("orders", 0): 5, ("payments", 0): 6}, metadata="note")
    both.commit(3, "fetches-expiring", {("orders", 0): 5}, retention_time=timedelta(hours=1))
    for group_id in ("fetches", "fetches-expiring", "nobody", ""):
        both.fetch(version, {group_id: [(orders, [0, 1, 3]), (payments, [0]), (nowhere, [0])]})
        both.fetch(version, {group_id: []})
        if version >= 2:
            both.fetch(version, {group_id: None})
        if version >= 7:
            both.fetch(version, {group_id: None}, require_stable=True)
    if version >= 8:
        both.fetch(version, {"fetches": None, "nobody": [(orders, [0])], "fetches-expiring": None})


def test_deletions(both: Both) -> None:
    both.commit(9, "deletions", {("orders", 0): 5, ("orders", 1): 6, ("payments", 0): 7})
    both.delete_offsets("deletions", orders=[0, 3, -1, 2], payments=[0], nowhere=[0])
    both.delete_offsets("deletions", orders=[])
    both.delete_offsets("deletions")
    both.fetch(9, {"deletions": None})
    for group_id in ("nobody", ""):
        both.delete_offsets(group_id, orders=[0])
        both.delete_offsets(group_id, nowhere=[0])
    for version in range(3):
        both.commit(9, f"deletions-{version}", {("orders", 0): 5})
        names = (f"deletions-{version}", "nobody", f"deletions-{version}", "")
        both.ask_with(api.DELETE_GROUPS, version, groups_names=names)
        both.fetch(9, {f"deletions-{version}": None})


@pytest.mark.parametrize("version", range(6))
def test_lists_of_groups(both: Both, version: int) -> None:
    both.commit(9, "listed", {("orders", 0): 5})
    for states in STATES:
        for types in TYPES:
            filters: dict[str, Any] = {"states_filter": states, "types_filter": types}
            both.ask_with(api.LIST_GROUPS, version, **filters)


MEMBERS: tuple[tuple[int, str], ...] = (
    (1, CONSUMER),
    (0, CONSUMER),
    (2, CONSUMER),
    (-1, CONSUMER),
    (-1, ""),
    (1, "other"),
    (1, ""),
)


def test_members_of_the_consumer_protocol(both: Both) -> None:
    both.ask_with(
        api.CONSUMER_GROUP_HEARTBEAT,
        1,
        group_id="modern",
        member_id=CONSUMER,
        member_epoch=0,
        rebalance_timeout=timedelta(seconds=30),
        subscribed_topic_names=("orders",),
        topic_partitions=(),
    )
    for epoch, member_id in MEMBERS:
        for version in range(2, 11):
            orders, _, _ = both.names(version)
            who = {"member_id": member_id, "generation_id_or_member_epoch": epoch}
            both.commit(version, "modern", {(orders, 0): 3}, **who)
        for version in (8, 9, 10):
            orders, _, _ = both.names(version)
            named = member_id if epoch >= 0 else member_id or None  # Kafka fails on an epoch of nobody
            who = {"member_id": named, "member_epoch": epoch} if version >= 9 else {}
            both.fetch(version, {"modern": [(orders, [0])]}, **who)
    both.delete_offsets("modern", orders=[0], payments=[0])
    both.ask_with(api.DELETE_GROUPS, 2, groups_names=("modern",))
