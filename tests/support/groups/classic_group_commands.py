"""The commands of transcripts about classic groups.

A client is named by its first argument and remembers what it was told (its member id and generation) and how
it joins:

- ``join a version=9 session=10s rebalance=60s instance=i type=consumer protocols=range:x,sticky:y member=… reason=…``
- ``sync a a=0,1 b=2``: with assignments, as the leader does it; also ``generation=``, ``protocol=``, ``type=``.
- ``heartbeat a``, ``leave a b`` (several at once), ``leave instance=i`` (by an administrator).
- ``commit a`` (``commit - generation=-1`` for a client outside of any group), ``describe``.

Those of `transaction_commands` besides. ``member=a-7`` stands for the member id that is shown so, ``member=-`` for
none. All clients are in the group ``g``, unless ``group=`` says otherwise.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

from kio.index import load_request_schema
from kio.schema.errors import ErrorCode
from kio.static.protocol import Entity

from ottla_core.wire import group_responses as api
from ottla_core.wire.conversion import item_type, message_of
from ottla_group_coordinator.classic.group import ClassicGroup
from ottla_group_coordinator.classic.member import ClassicMember
from ottla_group_coordinator.group import Group
from tests.support.groups.group_transcripts import Arguments, Command, Options, Scene, milliseconds
from tests.support.groups.transaction_commands import transaction_commands

NOBODY = "-"


@dataclass
class ClassicClient:
    """What a client knows.

    Attributes:
        how: the options of its last JoinGroup; they hold until it says otherwise.
    """

    member_id: str = ""
    generation: int = -1
    how: Options = field(default_factory=dict)


def classic_scene() -> Scene:
    """Return an empty shard for transcripts about classic groups."""
    return Scene(
        commands=CLASSIC_COMMANDS,
        describe_group=describe_group,
        hidden=frozenset({"client_id", "client_host", "error_message", "leader_epoch", "expire_timestamp"}),
        on_answer=remember,
    )


def transcripts_beside(test_file: str) -> list[Path]:
    """Return the transcripts in the folder beside a test."""
    found = sorted((Path(test_file).parent / "transcripts").glob("*.txt"))
    assert found, "there are transcripts"
    return found


def describe_group(group: Group) -> str:
    """Return how a classic group stands."""
    assert isinstance(group, ClassicGroup)
    parts = [f"{group.state_name} generation={group.generation}"]
    parts += [f"protocol={group.protocol_name}"] if group.protocol_name else []
    parts += ["members=" + ",".join(_describe_member(group, member) for member in group.members.values())]
    parts += ["pending=" + ",".join(sorted(group.pending_join))] if group.pending_join else []
    return " ".join(parts if group.members else parts[:1] + parts[2:])


def _describe_member(group: ClassicGroup, member: ClassicMember) -> str:
    marks = [
        ("leader", member.member_id == group.leader_id),
        ("joining", member.awaiting_join is not None),
        ("syncing", member.awaiting_sync is not None),
    ]
    shown = ",".join(mark for mark, is_set in marks if is_set)
    return f"{member.member_id}({shown})" if shown else member.member_id


def remember(scene: Scene, name: str, response: Entity) -> None:
    """Let a client take from an answer what a real one does."""
    message: Any = response
    client = scene.clients.setdefault(name, ClassicClient())
    if type(response).__name__ == "JoinGroupResponse":
        if message.error_code in {ErrorCode.none, ErrorCode.member_id_required}:
            client.member_id, client.generation = message.member_id, message.generation_id
        elif message.error_code is ErrorCode.unknown_member_id:
            client.member_id, client.generation = "", -1


def _client(scene: Scene, name: str) -> ClassicClient:
    client = scene.clients.setdefault(name, ClassicClient())
    assert isinstance(client, ClassicClient)
    return client


def member_id_shown_as(text: str) -> str:
    """Return a member id in full."""
    if text == NOBODY:
        return ""
    name, _, number = text.rpartition("-")
    return f"{name}-{UUID(int=int(number))}"


def _identity(scene: Scene, name: str, options: Options) -> dict[str, object]:
    """Return the fields by which requests name group, member and instance."""
    client = _client(scene, name)
    member_id = member_id_shown_as(options["member"]) if "member" in options else client.member_id
    return {
        "group_id": options.get("group", client.how.get("group", "g")),
        "member_id": member_id,
        "group_instance_id": options.get("instance", client.how.get("instance")),
        "generation_id": int(options.get("generation", client.generation)),
    }


def _join(scene: Scene, arguments: Arguments, options: Options) -> None:
    (name,) = arguments
    client = _client(scene, name)
    client.how |= {key: value for key, value in options.items() if key != "member"}
    version = int(client.how.get("version", 9))
    protocol_type = item_type(load_request_schema(api.JOIN_GROUP, version), "protocols")
    protocols = [part.partition(":") for part in client.how.get("protocols", "range:x").split(",")]
    scene.request(
        name,
        api.JOIN_GROUP,
        version,
        **_identity(scene, name, options),
        session_timeout=timedelta(milliseconds=milliseconds(client.how.get("session", "10s"))),
        rebalance_timeout=timedelta(milliseconds=milliseconds(client.how.get("rebalance", "60s"))),
        protocol_type=client.how.get("type", "consumer"),
        protocols=tuple(
            message_of(protocol_type, name=protocol, metadata=metadata.encode())
            for protocol, _, metadata in protocols
            if protocol
        ),
        reason=client.how.get("reason"),
    )


_SYNC_OPTIONS = frozenset({"version", "member", "group", "instance", "generation", "protocol", "type"})


def _sync(scene: Scene, arguments: Arguments, options: Options) -> None:
    (name,) = arguments
    version = int(options.get("version", 5))
    part_type = item_type(load_request_schema(api.SYNC_GROUP, version), "assignments")
    scene.request(
        name,
        api.SYNC_GROUP,
        version,
        **_identity(scene, name, options),
        protocol_type=options.get("type"),
        protocol_name=options.get("protocol"),
        assignments=tuple(
            message_of(part_type, member_id=_client(scene, other).member_id, assignment=partitions.encode())
            for other, partitions in options.items()
            if other not in _SYNC_OPTIONS
        ),
    )


def _heartbeat(scene: Scene, arguments: Arguments, options: Options) -> None:
    for name in arguments:
        scene.request(name, api.HEARTBEAT, int(options.get("version", 4)), **_identity(scene, name, options))


def _leave(scene: Scene, arguments: Arguments, options: Options) -> None:
    version = int(options.get("version", 5))
    identities = [_identity(scene, name, options) for name in arguments]
    if not arguments:
        identities = [_identity(scene, NOBODY, {"member": NOBODY, **options})]
    if version < 3:
        scene.request(arguments[0], api.LEAVE_GROUP, version, **identities[0])
        return
    part_type = item_type(load_request_schema(api.LEAVE_GROUP, version), "members")
    scene.request(
        arguments[0] if arguments else "admin",
        api.LEAVE_GROUP,
        version,
        group_id=identities[0]["group_id"],
        members=tuple(message_of(part_type, **identity, reason=options.get("reason")) for identity in identities),
    )


def _commit(scene: Scene, arguments: Arguments, options: Options) -> None:
    (name,) = arguments
    version = int(options.get("version", 9))
    schema = load_request_schema(api.OFFSET_COMMIT, version)
    topic_type = item_type(schema, "topics")
    partition = message_of(item_type(topic_type, "partitions"), partition_index=0, committed_offset=7)
    identity = _identity(scene, name, options)
    scene.request(
        name,
        api.OFFSET_COMMIT,
        version,
        **identity,
        generation_id_or_member_epoch=identity["generation_id"],
        topics=(message_of(topic_type, name=options.get("topic", "flights"), partitions=(partition,)),),
    )


def _describe(scene: Scene, _arguments: Arguments, options: Options) -> None:
    version = int(options.get("version", 6))
    scene.request("admin", api.DESCRIBE_GROUPS, version, groups=(options.get("group", "g"),))


CLASSIC_COMMANDS: Mapping[str, Command] = {
    "join": _join,
    "sync": _sync,
    "heartbeat": _heartbeat,
    "leave": _leave,
    "commit": _commit,
    "describe": _describe,
    **transaction_commands(_identity),
}
