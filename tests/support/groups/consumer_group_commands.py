"""The commands of transcripts about groups of the consumer protocol, and about those that migrate.

A client remembers its epoch, what it was told to own, and what it owns. Members of the consumer protocol:

- ``join a topics=flights,planes regex=f.* instance=i assignor=range rebalance=60s rack=r version=1 member=…``
- ``beat a``: a heartbeat that says nothing new; with ``epoch=``, ``owned=flights:0,1;planes:2`` or any of the above.
- ``settle a``: the client takes over what it was told and says so in its next heartbeat, as real ones do.
- ``visible=flights`` of any of these: what the member may describe of what its expression matches; all by default.
- ``leave a``, ``stop a`` (a static member that will be back), ``describe``, ``commit a``.

Members of the classic protocol, whose subscriptions and assignments are real ones:

- ``classic-join a topics=flights owned=flights:0 protocols=range,sticky session=10s rebalance=60s instance=i``;
  ``garbage=sticky`` if what it says under some protocols is illegible
- ``classic-sync a a=flights:0 b=flights:1``, with ``data=…`` if the assignor adds something for its own use;
  ``classic-beat a``, ``classic-leave a``.

Those of `transaction_commands` besides.

Assignments are shown as ``a is told flights[0,1]``. All clients are in the group ``g``, unless ``group=`` says
otherwise.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from uuid import UUID

from kio.index import load_request_schema
from kio.schema.consumer_protocol_subscription.v3.data import ConsumerProtocolSubscription, TopicPartition
from kio.schema.errors import ErrorCode
from kio.serial import entity_writer
from kio.static.primitive import i32
from kio.static.protocol import Entity

from ottla_core.cluster.state.model import ClusterState
from ottla_core.wire import group_responses as api
from ottla_core.wire.conversion import item_type, message_of
from ottla_group_coordinator.classic.group import ClassicGroup
from ottla_group_coordinator.consumer.embedded_protocol import read_assignment, write_assignment
from ottla_group_coordinator.consumer.group import ConsumerGroup
from ottla_group_coordinator.consumer.member import ConsumerMember, MemberState
from ottla_group_coordinator.consumer.partitions import Partitions
from ottla_group_coordinator.group import Group
from tests.support.groups import classic_group_commands
from tests.support.groups.group_transcripts import Arguments, Command, Options, Scene, milliseconds
from tests.support.groups.transaction_commands import transaction_commands

Owned = dict[UUID, frozenset[int]]
SUBSCRIPTION_VERSION = 3
NULL_BYTES = b"\xff\xff\xff\xff"


@dataclass
class GroupClient:
    """What a client knows.

    Attributes:
        member_id: of its own making in the consumer protocol.
        epoch: its member epoch, or its generation.
        owned: what it uses.
        told: what the coordinator has told it to own.
        how: the options with which it has joined.
    """

    member_id: str
    epoch: int = 0
    owned: Partitions = field(default_factory=dict)
    told: Partitions = field(default_factory=dict)
    how: Options = field(default_factory=dict)


def consumer_scene() -> Scene:
    """Return an empty shard for transcripts about groups of the consumer protocol."""
    shown_otherwise = {"assignment", "metadata", "subscription", "supported_protocols", "metadata_hash"}
    dull = {"client_id", "client_host", "error_message", "heartbeat_interval", "previous_member_epoch"}
    dull |= {"leader_epoch", "expire_timestamp", "session_timeout_ms", "classic_member_metadata"}
    return Scene(
        commands=CONSUMER_COMMANDS,
        describe_group=describe_group,
        hidden=frozenset(shown_otherwise | dull),
        on_answer=remember,
    )


def describe_group(group: Group) -> str:
    """Return how a group stands; members that are not stable say so."""
    if isinstance(group, ClassicGroup):
        return "classic " + classic_group_commands.describe_group(group)
    assert isinstance(group, ConsumerGroup)
    members = " ".join(_describe_member(member) for member in group.members.values())
    return f"{group.state_name} {group.epoch}/{group.assignment_epoch} {members}".rstrip()


def _describe_member(member: ConsumerMember) -> str:
    kind = "classic " if member.uses_classic_protocol else ""
    parts = [f"{kind}{member.member_id}@{member.epoch}: {shown(member.assigned)}"]
    if member.pending_revocation:
        parts.append(f"revoking {shown(member.pending_revocation)}")
    if member.state is MemberState.UNRELEASED_PARTITIONS:
        parts.append("waiting")
    return "(" + " ".join(parts) + ")"


def shown(partitions: Partitions) -> str:
    """Return partitions as ``flights[0,1]``; ids are replaced by names later."""
    text = " ".join(
        f"{topic_id}[{','.join(map(str, sorted(partitions[topic_id])))}]" for topic_id in sorted(partitions)
    )
    return text or "nothing"


def remember(scene: Scene, name: str, response: Entity) -> None:
    """Let a client take from an answer what a real one does."""
    message: Any = response
    client = scene.clients.setdefault(name, GroupClient(name))
    kind = type(response).__name__
    if kind == "ConsumerGroupHeartbeatResponse" and message.error_code is ErrorCode.none:
        client.member_id, client.epoch = message.member_id, message.member_epoch
        if message.assignment is not None:
            client.told = {part.topic_id: frozenset(part.partitions) for part in message.assignment.topic_partitions}
            scene.lines.append(f"{name} is told {shown(client.told)}")
    elif kind == "JoinGroupResponse" and message.error_code in {ErrorCode.none, ErrorCode.member_id_required}:
        client.member_id, client.epoch = message.member_id, message.generation_id
    elif kind == "SyncGroupResponse" and message.error_code is ErrorCode.none:
        client.told = read_assignment(message.assignment, scene.cluster_state.topics).partitions
        client.owned = client.told
        scene.lines.append(f"{name} is told {shown(client.told)}")


def client_of(scene: Scene, name: str) -> GroupClient:
    """Return what a client knows."""
    client = scene.clients.setdefault(name, GroupClient(name))
    assert isinstance(client, GroupClient)
    return client


def _partitions(scene: Scene, text: str) -> Owned:
    """Read ``flights:0,1;planes:2``."""
    found = {}
    for part in text.split(";") if text else ():
        name, _, indexes = part.partition(":")
        found[scene.cluster_state.topics[name].id] = frozenset(map(int, indexes.split(",")))
    return found


def _names(text: str | None) -> tuple[str, ...] | None:
    return None if text is None else tuple(filter(None, text.split(",")))


def _send(scene: Scene, name: str, epoch: int, owned: Partitions | None, options: Options) -> None:
    client = client_of(scene, name)
    version = int(options.get("version", client.how.get("version", 1)))
    part_type = item_type(load_request_schema(api.CONSUMER_GROUP_HEARTBEAT, version), "topic_partitions")
    rebalance = options.get("rebalance")
    scene.request(
        name,
        api.CONSUMER_GROUP_HEARTBEAT,
        version,
        frozenset(_names(options["visible"]) or ()) if "visible" in options else None,
        group_id=options.get("group", client.how.get("group", "g")),
        member_id=options.get("member", client.member_id).replace("-none-", ""),
        member_epoch=epoch,
        instance_id=options.get("instance"),
        rack_id=options.get("rack"),
        rebalance_timeout=timedelta(milliseconds=-1 if rebalance is None else milliseconds(rebalance)),
        subscribed_topic_names=_names(options.get("topics")),
        subscribed_topic_regex=options.get("regex"),
        server_assignor=options.get("assignor"),
        topic_partitions=None
        if owned is None
        else tuple(
            message_of(part_type, topic_id=topic_id, partitions=tuple(sorted(indexes)))
            for topic_id, indexes in owned.items()
        ),
    )


def _join(scene: Scene, arguments: Arguments, options: Options) -> None:
    (name,) = arguments
    client = client_of(scene, name)
    client.how = {"rebalance": "60s", **options}
    client.owned, client.told = {}, {}
    _send(scene, name, 0, _partitions(scene, options.get("owned", "")), client.how)


def _identity(client: GroupClient, options: Options) -> Options:
    instance = client.how.get("instance")
    return {**({"instance": instance} if instance else {}), **options}


def _beat(scene: Scene, arguments: Arguments, options: Options) -> None:
    for name in arguments:
        client = client_of(scene, name)
        owned = _partitions(scene, options["owned"]) if "owned" in options else None
        epoch = int(options.get("epoch", client.epoch))
        _send(scene, name, epoch, owned, _identity(client, options))


def _settle(scene: Scene, arguments: Arguments, options: Options) -> None:
    for name in arguments:
        client = client_of(scene, name)
        client.owned = client.told
        _send(scene, name, client.epoch, client.owned, _identity(client, options))


def _leave(scene: Scene, arguments: Arguments, options: Options) -> None:
    for name in arguments:
        _send(scene, name, -1, None, _identity(client_of(scene, name), options))


def _stop(scene: Scene, arguments: Arguments, options: Options) -> None:
    for name in arguments:
        _send(scene, name, -2, None, _identity(client_of(scene, name), options))


def _describe(scene: Scene, _arguments: Arguments, options: Options) -> None:
    scene.request("admin", api.CONSUMER_GROUP_DESCRIBE, 1, group_ids=_names(options.get("group", "g")))


def _commit(scene: Scene, arguments: Arguments, options: Options) -> None:
    (name,) = arguments
    client = client_of(scene, name)
    version = int(options.get("version", 9))
    topic_type = item_type(load_request_schema(api.OFFSET_COMMIT, version), "topics")
    partition = message_of(item_type(topic_type, "partitions"), partition_index=0, committed_offset=7)
    scene.request(
        name,
        api.OFFSET_COMMIT,
        version,
        group_id="g",
        member_id=options.get("member", client.member_id),
        generation_id_or_member_epoch=int(options.get("epoch", client.epoch)),
        topics=(message_of(topic_type, name="flights", partitions=(partition,)),),
    )


# Members of the classic protocol


def encoded_subscription(
    state: ClusterState, topics: tuple[str, ...], owned: Partitions, *, generation: int = -1
) -> bytes:
    """Return a ``ConsumerProtocolSubscription``."""
    named = {
        state.topics_by_id[topic_id].name: indexes
        for topic_id, indexes in owned.items()
        if topic_id in state.topics_by_id
    }
    message = ConsumerProtocolSubscription(
        topics=topics,
        user_data=None,
        owned_partitions=tuple(
            TopicPartition(topic=name, partitions=tuple(sorted(indexes)))  # type: ignore[arg-type]
            for name, indexes in named.items()
        ),
        generation_id=i32(generation),
    )
    output = _Bytes()
    entity_writer(ConsumerProtocolSubscription)(output, message)  # type: ignore[arg-type]
    return SUBSCRIPTION_VERSION.to_bytes(2, "big") + bytes(output)


class _Bytes(bytearray):
    def write(self, data: bytes) -> None:
        self += data


def _classic_identity(client: GroupClient, options: Options) -> dict[str, object]:
    return {
        "group_id": "g",
        "member_id": options.get("member", client.member_id).replace("-none-", ""),
        "group_instance_id": options.get("instance", client.how.get("instance")),
        "generation_id": int(options.get("generation", client.epoch)),
    }


def _classic_join(scene: Scene, arguments: Arguments, options: Options) -> None:
    (name,) = arguments
    client = client_of(scene, name)
    if client.member_id == name:
        client.member_id = ""
    client.how |= {key: value for key, value in options.items() if key not in {"owned", "member"}}
    owned = _partitions(scene, options["owned"]) if "owned" in options else client.owned
    metadata = encoded_subscription(scene.cluster_state, _names(client.how.get("topics", "flights")) or (), owned)
    illegible = client.how.get("garbage", "").split(",")
    version = int(client.how.get("version", 9))
    protocol_type = item_type(load_request_schema(api.JOIN_GROUP, version), "protocols")
    scene.request(
        name,
        api.JOIN_GROUP,
        version,
        **_classic_identity(client, options),
        session_timeout=timedelta(milliseconds=milliseconds(client.how.get("session", "10s"))),
        rebalance_timeout=timedelta(milliseconds=milliseconds(client.how.get("rebalance", "60s"))),
        protocol_type=client.how.get("type", "consumer"),
        protocols=tuple(
            message_of(protocol_type, name=protocol, metadata=b"\0" if protocol in illegible else metadata)
            for protocol in client.how.get("protocols", "range").split(",")
        ),
    )


def _classic_sync(scene: Scene, arguments: Arguments, options: Options) -> None:
    (name,) = arguments
    part_type = item_type(load_request_schema(api.SYNC_GROUP, 5), "assignments")
    metadata = SUBSCRIPTION_VERSION.to_bytes(2, "big")
    scene.request(
        name,
        api.SYNC_GROUP,
        5,
        **_classic_identity(client_of(scene, name), options),
        protocol_type=options.get("type"),
        protocol_name=options.get("protocol"),
        assignments=tuple(
            message_of(
                part_type,
                member_id=client_of(scene, other).member_id,
                assignment=_with_user_data(
                    write_assignment(_partitions(scene, text), metadata, scene.cluster_state), options.get("data")
                ),
            )
            for other, text in options.items()
            if other not in {"type", "protocol", "member", "instance", "generation", "data"}
        ),
    )


def _with_user_data(assignment: bytes, data: str | None) -> bytes:
    """Return an assignment, which has no data of an assignor so far, with some."""
    if data is None:
        return assignment
    assert assignment.endswith(NULL_BYTES)
    return assignment.removesuffix(NULL_BYTES) + len(data).to_bytes(len(NULL_BYTES), "big") + data.encode()


def _classic_beat(scene: Scene, arguments: Arguments, options: Options) -> None:
    for name in arguments:
        scene.request(name, api.HEARTBEAT, 4, **_classic_identity(client_of(scene, name), options))


def _classic_leave(scene: Scene, arguments: Arguments, options: Options) -> None:
    part_type = item_type(load_request_schema(api.LEAVE_GROUP, 5), "members")
    identities = [_classic_identity(client_of(scene, name), options) for name in arguments]
    if not arguments:
        identities = [{"member_id": "", "group_instance_id": options["instance"]}]
    members = tuple(message_of(part_type, **identity) for identity in identities)
    scene.request(arguments[0] if arguments else "admin", api.LEAVE_GROUP, 5, group_id="g", members=members)


def _transactional_identity(scene: Scene, name: str, options: Options) -> dict[str, Any]:
    client = client_of(scene, name)
    return {
        "group_id": "g",
        "member_id": options.get("member", client.member_id),
        "generation_id": int(options.get("epoch", client.epoch)),
        "group_instance_id": options.get("instance", client.how.get("instance")),
    }


CONSUMER_COMMANDS: Mapping[str, Command] = {
    "join": _join,
    "beat": _beat,
    "settle": _settle,
    "leave": _leave,
    "stop": _stop,
    "describe": _describe,
    "commit": _commit,
    "classic-join": _classic_join,
    "classic-sync": _classic_sync,
    "classic-beat": _classic_beat,
    "classic-leave": _classic_leave,
    **transaction_commands(_transactional_identity),
}
