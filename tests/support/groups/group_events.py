"""Random events for a `GroupShard`, for property tests: requests of all kinds, time, topics, restarts.

An event is a kind and four small numbers, which its function makes something of; so hypothesis can make a failing
list of events shorter and the numbers smaller. `GroupWorld` has clients that remember what they were told, as real
ones do, and a model of what has been committed.
"""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields, replace
from datetime import timedelta
from typing import Any
from uuid import UUID

from kio.index import load_request_schema
from kio.schema.errors import ErrorCode
from kio.static.protocol import Entity

from ottla_core.cluster.state.model import ClusterState
from ottla_core.wire import group_responses as api
from ottla_core.wire.conversion import item_type, message_of
from ottla_core.wire.messages import newest_version, oldest_version
from ottla_group_coordinator.settings import GroupSettings
from tests.support.groups.shard_under_test import (
    ShardUnderTest,
    cluster_of,
    commit_codes,
    commit_request,
    fetch_request,
    subscription,
    topic_id,
)
from tests.support.groups.transactional_offsets import Producer, end, txn_commit
from tests.support.messages.random_messages import random_message

Numbers = tuple[int, int, int, int]
Place = tuple[str, str, int]

GROUPS = ("g", "h", "")
MOSTLY = ("g", "g", "g", "g", "g", "h", "h", "")
TOPICS = ("orders", "payments", "returns")
ASSIGNORS = (("range",), ("range", "sticky"), ("sticky",), ("sticky", "range"))
DURATIONS_MS = (1, 1, 100, 100, 3_000, 6_000, 400_000, 86_400_000)
LONG_TEXT = "x" * 40_000
"""Longer than a key can hold."""

LOST_MEMBERSHIP = frozenset(
    {ErrorCode.unknown_member_id, ErrorCode.fenced_member_epoch, ErrorCode.fenced_instance_id}
)
"""Errors after which a member begins anew."""

REMOVING = frozenset({"cooperate", "advance", "delete_offsets", "delete_groups", "change_topics", "nonsense"})
"""Events after which offsets may be gone."""


@dataclass
class Client:
    """What a member remembers.

    Attributes:
        epoch: or generation.
        owned: partitions by topic id, for members of the consumer protocol.
        followers: ids of the group's members, if this one is the leader.
    """

    group_id: str
    member_id: str = ""
    epoch: int = -1
    instance_id: str | None = None
    owned: tuple[Any, ...] = ()
    followers: tuple[str, ...] = ()


@dataclass
class GroupWorld:
    """A shard, its clients and what they have been told.

    Attributes:
        committed: the last offset that was committed with success.
        clients: by protocol, group and number.
        asked_by: the clients of requests that wait, by token.
        topics: by name, a number that gives the id and the partition count.
        topic_count: how many topics there have ever been.
        written: what open transactions have written, by producer id.
        epochs: of the producers, each of which ends a transaction before it begins another.
    """

    settings: GroupSettings = field(default_factory=GroupSettings)
    committed: dict[Place, int] = field(default_factory=dict)
    clients: dict[tuple[str, str, int], Client] = field(default_factory=dict)
    asked_by: dict[int, Client] = field(default_factory=dict)
    topics: dict[str, tuple[int, int]] = field(default_factory=lambda: {"orders": (1, 3), "payments": (2, 1)})
    topic_count: int = 2
    revision: int = 0
    written: dict[int, dict[Place, set[int]]] = field(default_factory=dict)
    epochs: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.shard = ShardUnderTest(settings=self.settings, state=cluster_of(self.topics))

    def client(self, protocol: str, group: int, number: int) -> Client:
        """One of a few members of a group."""
        group_id = MOSTLY[group]
        return self.clients.setdefault((protocol, group_id, number % 3), Client(group_id))

    def send(self, client: Client, api_key: int, version: int, **values: object) -> None:
        """Send a request and remember what is told to the client, now or later."""
        message = message_of(load_request_schema(api_key, version), **values)
        self.asked_by[self.shard.send(api_key, version, message, client_id=f"client-{client.instance_id}")] = client
        self.listen()

    def listen(self) -> None:
        """Let the clients take from the answers what they need."""
        for token in [token for token in self.asked_by if token in self.shard.answers]:
            take_answer(self.asked_by.pop(token), self.shard.answers[token])

    def step(self, kind: str, numbers: Numbers) -> None:
        """Let something happen, and see that no offset changes or goes without a reason."""
        before = {place for place, _ in self.kept()}
        EVENTS[kind](self, *numbers)
        self.listen()
        kept = dict(self.kept())
        assert all(self.committed[place] == offset for place, offset in kept.items()), "only commits change offsets"
        assert kind in REMOVING or before <= kept.keys(), f"{kind} removes no offset"

    def kept(self) -> Iterator[tuple[Place, int]]:
        """All offsets."""
        offsets = self.shard.shard.offsets
        for group_id in offsets.group_ids:
            for (topic, partition), value in offsets.of_group(group_id).items():
                yield (group_id, topic, partition), value.offset


def take_answer(client: Client, response: Any) -> None:
    """Remember what an answer says about the member."""
    code = getattr(response, "error_code", None)
    kind = type(response).__name__
    if kind == "JoinGroupResponse" and code in {ErrorCode.none, ErrorCode.member_id_required}:
        client.member_id, client.epoch = response.member_id, response.generation_id
        client.followers = tuple(member.member_id for member in response.members)
    if kind in {"JoinGroupResponse", "SyncGroupResponse", "HeartbeatResponse"} and code in LOST_MEMBERSHIP:
        client.member_id, client.epoch = "", -1
    elif kind == "ConsumerGroupHeartbeatResponse" and code is ErrorCode.none:
        client.member_id, client.epoch = response.member_id, response.member_epoch
        if response.assignment is not None:
            client.owned = response.assignment.topic_partitions
    elif kind == "ConsumerGroupHeartbeatResponse" and code in LOST_MEMBERSHIP:
        client.epoch, client.owned = 0, ()


def _join(world: GroupWorld, a: int, b: int, c: int, d: int) -> None:
    client = world.client("classic", a, b)
    version = (2, 3, 5, 9)[d % 4]
    client.instance_id = f"i{b % 4}" if d >= 4 else None
    metadata = b"\xff" if c == 6 else subscription(TOPICS[: c % 3 + 1])
    request_type = load_request_schema(api.JOIN_GROUP, version)
    world.send(
        client,
        api.JOIN_GROUP,
        version,
        group_id=client.group_id,
        member_id=client.member_id,
        group_instance_id=client.instance_id,
        session_timeout=timedelta(seconds=(6, 10, 45)[c % 3]),
        rebalance_timeout=timedelta(seconds=(5, 60, 300)[b % 3]),
        protocol_type="connect" if c == 7 else "consumer",
        protocols=tuple(
            message_of(item_type(request_type, "protocols"), name=name, metadata=metadata)
            for name in ASSIGNORS[c % len(ASSIGNORS)]
        ),
    )


def _sync(world: GroupWorld, a: int, b: int, c: int, d: int) -> None:
    client = world.client("classic", a, b)
    if client.epoch < 0:
        _join(world, a, b, c, d)
        return
    item = item_type(load_request_schema(api.SYNC_GROUP, 5), "assignments")
    world.send(
        client,
        api.SYNC_GROUP,
        (2, 5)[d % 2],
        group_id=client.group_id,
        member_id=client.member_id,
        group_instance_id=client.instance_id if d % 2 else None,
        generation_id=client.epoch - (c == 7),
        protocol_type="consumer" if c != 6 else None,
        assignments=tuple(
            message_of(
                item_type(load_request_schema(api.SYNC_GROUP, 2), "assignments") if d % 2 == 0 else item,
                member_id=member_id,
                assignment=bytes((c, place)),
            )
            for place, member_id in enumerate(client.followers)
        ),
    )


def _heartbeat(world: GroupWorld, a: int, b: int, c: int, _d: int) -> None:
    client = world.client("classic", a, b)
    world.send(
        client,
        api.HEARTBEAT,
        4,
        group_id=client.group_id,
        member_id=client.member_id,
        group_instance_id=client.instance_id,
        generation_id=client.epoch - (c == 7),
    )


def _leave(world: GroupWorld, a: int, b: int, c: int, _d: int) -> None:
    client = world.client("classic", a, b)
    if c % 2:
        world.send(client, api.LEAVE_GROUP, 2, group_id=client.group_id, member_id=client.member_id)
        return
    item = item_type(load_request_schema(api.LEAVE_GROUP, 5), "members")
    members = tuple(
        message_of(item, member_id=other.member_id if c < 6 else "", group_instance_id=other.instance_id)
        for other in (client, world.client("classic", a, b + 1))[: 1 + c % 3]
    )
    world.send(client, api.LEAVE_GROUP, 5, group_id=client.group_id, members=members)


def _consumer_heartbeat(world: GroupWorld, a: int, b: int, c: int, d: int) -> None:
    client = world.client("consumer", a, b)
    version = 1 if d % 4 else 0
    epoch = {0: 0, 1: 0, 6: client.epoch - 1, 7: client.epoch + 1}.get(c, client.epoch)
    if d == 7:
        epoch = -1 if c % 2 else -2
    if not client.member_id and d < 6:
        epoch = 0
    joins = epoch == 0
    if joins:
        client.instance_id = f"i{b % 4}" if c == 1 else None
        client.member_id = client.member_id or (str(UUID(int=7_000 + b)) if version else "")
    item = item_type(load_request_schema(api.CONSUMER_GROUP_HEARTBEAT, version), "topic_partitions")
    owned = tuple(
        message_of(item, topic_id=topic.topic_id, partitions=topic.partitions[: None if c != 5 else -1])
        for topic in client.owned
    )
    world.send(
        client,
        api.CONSUMER_GROUP_HEARTBEAT,
        version,
        group_id=client.group_id,
        member_id=client.member_id,
        member_epoch=epoch,
        instance_id=client.instance_id,
        rebalance_timeout=timedelta(seconds=5 if b % 2 else 300) if joins else timedelta(milliseconds=-1),
        subscribed_topic_names=TOPICS[: d % 3 + 1] if joins or c == 4 else None,
        subscribed_topic_regex=("pay.*", "[", ".*", "(?i)ORD")[b % 4] if d % 4 == 3 and version else None,
        server_assignor=(None, "range", "uniform", None)[b % 4],
        topic_partitions=() if joins else (None if c == 2 else owned),
    )


def _cooperate(world: GroupWorld, a: int, b: int, c: int, d: int) -> None:
    """Let the members of a group do for a while what well-behaved ones do."""
    for _ in range(4):
        for number in range(1 + c % 3):
            client = world.client("classic", a, number)
            if b % 4 and client not in world.asked_by.values():
                _join(world, a, number, c % 2, d)
            if b >= 4:
                _consumer_heartbeat(world, a, number, 3, d % 4)
        world.shard.advance(3_000)
        world.listen()
        for number in range(3):
            client = world.client("classic", a, number)
            if client.epoch >= 0 and client.member_id and client not in world.asked_by.values():
                _sync(world, a, number, c % 2, 1)


def _commit(world: GroupWorld, a: int, b: int, c: int, d: int) -> None:
    client = world.client("classic" if b % 2 else "consumer", a, b // 2)
    outside = b < 2
    version = (2, 7, 9, 10)[d % 4]
    name = TOPICS[c % 3]
    topic: Any = name
    if version == 10:
        topic = world.shard.state.topics[name].id if name in world.shard.state.topics else UUID(int=5)
    offset = 100 * c + 10 * b + d
    values: dict[str, Any] = (
        {}
        if outside
        else {
            "member_id": client.member_id,
            "generation_id_or_member_epoch": client.epoch - (d == 7),
            "group_instance_id": client.instance_id if version == 9 else None,
        }
    )
    if d == 4:
        values["retention_time"] = timedelta(hours=1)
    request = commit_request(
        version,
        client.group_id,
        {(topic, index): offset for index in (0, c // 2)},
        metadata=("", "note")[c % 2],
        **values,
    )
    codes = commit_codes(world.shard.ask(api.OFFSET_COMMIT, version, request))
    for (_, index), code in codes.items():
        if code == "none":
            world.committed[client.group_id, name, index] = offset


def _txn_commit(world: GroupWorld, a: int, b: int, c: int, d: int) -> None:
    client = world.client("classic" if b % 2 else "consumer", a, b // 2)
    producer = _producer(world, d)
    name, offset = TOPICS[c % 3], 100 * c + 10 * b + d + 1_000
    version = 2 if b < 2 else 5
    values: dict[str, Any] = {"member_id": client.member_id, "generation_id": client.epoch - (c == 7)}
    codes = txn_commit(
        world.shard,
        producer,
        client.group_id,
        {(name, index): offset for index in (0, c // 2)},
        version=version,
        **(values if b < 6 else {}),
    )
    for (_, index), code in codes.items():
        if code == "none":
            written = world.written.setdefault(producer.id, {})
            written.setdefault((client.group_id, name, index), set()).add(offset)


def _txn_end(world: GroupWorld, _a: int, b: int, _c: int, d: int) -> None:
    former = _producer(world, d)
    world.epochs[former.id] = former.epoch + 1
    assert end(world.shard, (_producer(world, d), bool(b % 4))) == ["none"]
    written = world.written.pop(former.id, {})
    for place, offset in world.kept():
        if b % 4 and offset in written.get(place, ()):
            world.committed[place] = offset


def _producer(world: GroupWorld, number: int) -> Producer:
    id_ = 70 + number % 2
    return Producer(id_, world.epochs.get(id_, 0))


def _fetch(world: GroupWorld, a: int, b: int, c: int, d: int) -> None:
    client = world.client("consumer", a, b)
    version = (1, 2, 7, 8, 9, 10)[d % 6]
    if c % 2 and version > 1:
        request = fetch_request(version, {client.group_id: None}, require_stable=b % 2 == 0)
    else:
        topic: Any = next(iter(world.shard.state.topics_by_id), None) if version == 10 else TOPICS[b % 3]
        member: dict[str, Any] = {"member_id": client.member_id, "member_epoch": client.epoch} if c == 4 else {}
        request = fetch_request(version, {client.group_id: [(topic, [0, 1])]}, **member)
    world.shard.ask(api.OFFSET_FETCH, version, request)


def _delete_offsets(world: GroupWorld, a: int, b: int, _c: int, _d: int) -> None:
    topic_type = item_type(load_request_schema(api.OFFSET_DELETE, 0), "topics")
    partitions = tuple(
        message_of(item_type(topic_type, "partitions"), partition_index=index) for index in range(b + 1)
    )
    topics = (message_of(topic_type, name=TOPICS[b % 3], partitions=partitions),)
    world.shard.ask_with(api.OFFSET_DELETE, 0, group_id=GROUPS[a % 3], topics=topics)


def _delete_groups(world: GroupWorld, a: int, b: int, _c: int, _d: int) -> None:
    names = tuple(dict.fromkeys((GROUPS[a % 3], GROUPS[b % 3])))
    world.shard.send(api.DELETE_GROUPS, 2, message_of(load_request_schema(api.DELETE_GROUPS, 2), groups_names=names))


def _look(world: GroupWorld, _a: int, _b: int, _c: int, d: int) -> None:
    world.shard.ask_with(api.LIST_GROUPS, d % 6)
    world.shard.ask_with(api.DESCRIBE_GROUPS, d % 7, groups=GROUPS)
    world.shard.ask_with(api.CONSUMER_GROUP_DESCRIBE, d % 2, group_ids=GROUPS)


def _advance(world: GroupWorld, a: int, _b: int, _c: int, _d: int) -> None:
    world.shard.advance(DURATIONS_MS[a])


def _change_topics(world: GroupWorld, a: int, b: int, c: int, _d: int) -> None:
    name, state = TOPICS[a % 3], world.shard.state
    world.revision += 1
    deleted = state.deleted_topics
    if name in world.topics:
        number, partition_count = world.topics[name]
        if b < 3:
            world.topics[name] = (number, partition_count + 1 + c)
        elif b < 7:
            deleted = {**deleted, topic_id(number): world.revision}
            del world.topics[name]
    if name not in world.topics and b != 5:
        world.topic_count += 1
        world.topics[name] = (world.topic_count, 1 + c)
    world.shard.change(_state(world, deleted, missing=name if b == 7 else None))


def _state(world: GroupWorld, deleted: Any, missing: str | None) -> ClusterState:
    shown = {name: topic for name, topic in world.topics.items() if name != missing}
    return replace(cluster_of(shown, deleted=deleted), revision=world.revision)


def _restart(world: GroupWorld, _a: int, _b: int, _c: int, _d: int) -> None:
    world.asked_by.clear()
    world.shard.restart()


APIS = (
    api.JOIN_GROUP,
    api.SYNC_GROUP,
    api.HEARTBEAT,
    api.LEAVE_GROUP,
    api.DESCRIBE_GROUPS,
    api.LIST_GROUPS,
    api.DELETE_GROUPS,
    api.OFFSET_FETCH,
    api.CONSUMER_GROUP_HEARTBEAT,
    api.CONSUMER_GROUP_DESCRIBE,
    api.OFFSET_COMMIT,
    api.OFFSET_DELETE,
)


def _nonsense(world: GroupWorld, a: int, b: int, c: int, d: int) -> None:
    """Any request, with now and then a group or a member that exists, or a text that no record can hold."""
    source = random.Random(a + 8 * b + 64 * c + 512 * d)
    api_key = source.choice(APIS)
    version = source.randrange(
        max(oldest_version(api_key), 1 if api_key == api.OFFSET_FETCH else 0), newest_version(api_key) + 1
    )
    message: Entity = random_message(source, load_request_schema(api_key, version))
    known = {
        "group_id": source.choice((*GROUPS, LONG_TEXT)),
        "member_id": source.choice([*(client.member_id for client in world.clients.values()), "", LONG_TEXT]),
        "group_instance_id": source.choice([None, "i1", LONG_TEXT]),
        "instance_id": source.choice([None, "i1", LONG_TEXT]),
        "protocol_type": source.choice(["consumer", LONG_TEXT]),
        "server_assignor": source.choice([None, "range"]),
        "subscribed_topic_regex": source.choice([None, "o.*", "(", LONG_TEXT]),
    }
    names = {f.name for f in fields(message) if source.random() < 0.6}
    message = replace(message, **{name: value for name, value in known.items() if name in names})
    token = world.shard.send(api_key, version, message)
    if api_key == api.OFFSET_COMMIT:
        _believe_commits(world, message, world.shard.answers[token])


def _believe_commits(world: GroupWorld, message: Any, response: Any) -> None:
    names = {topic.id: topic.name for topic in world.shard.state.topics.values()}
    for asked, told in zip(message.topics, response.topics, strict=True):
        name = asked.name if hasattr(asked, "name") else names.get(asked.topic_id, "")
        for partition, result in zip(asked.partitions, told.partitions, strict=True):
            if result.error_code is ErrorCode.none:
                world.committed[message.group_id, name, partition.partition_index] = partition.committed_offset


EVENTS: dict[str, Callable[[GroupWorld, int, int, int, int], None]] = {
    "join": _join,
    "sync": _sync,
    "heartbeat": _heartbeat,
    "leave": _leave,
    "consumer_heartbeat": _consumer_heartbeat,
    "cooperate": _cooperate,
    "commit": _commit,
    "txn_commit": _txn_commit,
    "txn_end": _txn_end,
    "fetch": _fetch,
    "delete_offsets": _delete_offsets,
    "delete_groups": _delete_groups,
    "look": _look,
    "advance": _advance,
    "change_topics": _change_topics,
    "restart": _restart,
    "nonsense": _nonsense,
}
