"""What the handlers make of requests: every version, and what must not be believed."""

from datetime import timedelta
from typing import Any

import pytest
from kio.index import load_request_schema
from kio.schema.index import api_key_map, schema_name_map

from ottla_core.errors import InvalidRequest
from ottla_core.wire import group_responses as api
from ottla_core.wire.conversion import item_type, message_of
from ottla_group_coordinator.classic.group import ClassicGroup
from ottla_group_coordinator.classic.join import Joining
from ottla_group_coordinator.classic.member import MemberProtocol
from ottla_group_coordinator.group_request import GroupRequest
from ottla_group_coordinator.handlers import join_group
from ottla_group_coordinator.settings import GroupSettings
from tests.support.groups.classic_group_commands import classic_scene


def versions_of(api_key: int) -> list[int]:
    return sorted(schema_name_map[api_key_map[api_key]])


PROTOCOL = item_type(load_request_schema(api.JOIN_GROUP, 9), "protocols")


def read_join(version: int = 9, client_id: str = "client", **values: Any) -> Joining:
    """What the handler reads of a JoinGroup."""
    schema = load_request_schema(api.JOIN_GROUP, version)
    fields = {"group_id": "g", "session_timeout": timedelta(seconds=10), "protocol_type": "consumer"}
    request = GroupRequest(
        token="token",
        api_key=api.JOIN_GROUP,
        api_version=version,
        client_id=client_id,
        client_host="/host",
        message=message_of(schema, **fields | values),
    )
    return join_group.read(request, GroupSettings())


@pytest.mark.parametrize("version", versions_of(api.JOIN_GROUP))
def test_every_version_of_join_group_joins_and_is_refused(version: int) -> None:
    scene = classic_scene()
    scene.run([f"join a version={version}", f"join a version={version}", "advance 6s"])
    (outcome,) = [line for line in scene.run([f"join b version={version} type=connect"]) if line.startswith("b <")]
    assert outcome == "b < JoinGroup INCONSISTENT_GROUP_PROTOCOL"
    assert scene.run(["describe"])[0].count("member_id=a-") == (1 if version >= 4 else 2)


@pytest.mark.parametrize("version", [version for version in versions_of(api.JOIN_GROUP) if version >= 5])
def test_every_version_that_knows_static_members_takes_over(version: int) -> None:
    scene = classic_scene()
    scene.run([f"join a instance=one version={version}", f"join b instance=one version={version}", "advance 6s"])
    scene.run(["sync b b=0"])
    (_, answer, _) = scene.run([f"join c instance=one version={version}"])
    assert answer.startswith("c < JoinGroup generation_id=1 protocol_type=consumer protocol_name=range leader=one-")
    assert ("skip_assignment" in answer) == (version >= 9)


@pytest.mark.parametrize(
    ("api_key", "command"),
    [(api.SYNC_GROUP, "sync a a=0"), (api.HEARTBEAT, "heartbeat a"), (api.LEAVE_GROUP, "leave a")],
    ids=["sync", "heartbeat", "leave"],
)
def test_every_version_of_a_members_other_requests_works_and_is_refused(api_key: int, command: str) -> None:
    for version in versions_of(api_key):
        scene = classic_scene()
        scene.run(["join a version=3", "advance 3s"])
        outcome = "\n".join(scene.run([f"{command} version={version} generation=1"]))
        assert "a < " in outcome
        assert "UNKNOWN" not in outcome
        assert "UNKNOWN_MEMBER_ID" in "\n".join(scene.run([f"{command} version={version} member=a-99"]))


@pytest.mark.parametrize("version", versions_of(api.DESCRIBE_GROUPS))
def test_every_version_of_describe_groups_describes(version: int) -> None:
    scene = classic_scene()
    scene.run(["join a version=3", "advance 3s", "sync a a=0"])
    (described,) = scene.run([f"describe version={version}"])
    assert "group_state=Stable protocol_type=consumer protocol_data=range members=[{member_id=a-1" in described


def test_a_client_without_a_rebalance_timeout_has_that_of_its_session() -> None:
    assert read_join(version=0).rebalance_timeout_ms == 10_000
    assert read_join(rebalance_timeout=timedelta(milliseconds=-1)).rebalance_timeout_ms == 10_000
    assert read_join(rebalance_timeout=timedelta(seconds=7)).rebalance_timeout_ms == 7_000


def test_a_protocol_that_is_named_twice_counts_once() -> None:
    named = [("range", b"first"), ("sticky", b""), ("range", b"second")]

    joining = read_join(protocols=tuple(message_of(PROTOCOL, name=name, metadata=data) for name, data in named))

    assert joining.protocols == (MemberProtocol("range", b"first"), MemberProtocol("sticky", b""))


LONGEST = "x" * 32_767


@pytest.mark.parametrize(
    "values",
    [
        {"group_id": LONGEST + "x"},
        {"protocol_type": LONGEST + "x"},
        {"protocols": (message_of(PROTOCOL, name=LONGEST + "x"),)},
        {"group_instance_id": LONGEST[36:]},
        {"client_id": LONGEST[36:]},
        {"group_id": "é" * 16_384},
    ],
    ids=["group id", "type", "protocol", "instance id", "client id", "in bytes"],
)
def test_names_that_no_record_can_hold_are_refused(values: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest, match="longer than 32767"):
        read_join(**values)


def test_the_longest_names_are_taken() -> None:
    joining = read_join(
        client_id=LONGEST[37:],
        group_id=LONGEST,
        protocol_type=LONGEST,
        protocols=(message_of(PROTOCOL, name=LONGEST),),
    )
    assert joining.group_id == LONGEST


def test_a_member_with_the_longest_names_can_be_stored() -> None:
    scene = classic_scene()
    name = LONGEST[37:]
    scene.run([f"join {name} version=3 protocols={LONGEST}:x type={LONGEST}", "advance 3s", f"sync {name}"])
    scene.run(["restart"])
    group = scene.shard.groups["g"]
    assert isinstance(group, ClassicGroup)
    assert [len(member_id) for member_id in group.members] == [32_767]
