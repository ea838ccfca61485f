"""What a classic group says of itself: its states, its topics, its record."""

import io
from itertools import product
from uuid import uuid4

import pytest
from kio.index import load_entity_schema
from kio.serial import entity_writer
from kio.static.constants import EntityType

from ottla_core.cluster.state.model import ClusterState
from ottla_core.wire.conversion import message_of
from ottla_group_coordinator.classic.group import ClassicGroup
from ottla_group_coordinator.classic.join import Joining, join
from ottla_group_coordinator.classic.member import ClassicMember, MemberProtocol, ParkedRequest
from ottla_group_coordinator.classic.snapshot import fits, restore, snapshot
from ottla_group_coordinator.classic.state import PREVIOUS_STATES, ClassicGroupState
from ottla_group_coordinator.classic.subscription import MalformedSubscription, subscribed_topics
from ottla_group_coordinator.errors import GroupIdNotFound, NonEmptyGroup
from ottla_group_coordinator.records import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    decode_value,
    encode_key,
    encode_value,
)
from ottla_group_coordinator.runtime.turn import Turn
from ottla_group_coordinator.settings import GroupSettings
from ottla_group_coordinator.shard import GroupShard

NOW_MS = 1_000


def subscription(version: int, *topics: str) -> bytes:
    """What a consumer puts into JoinGroup."""
    schema = load_entity_schema("consumer_protocol_subscription", version, EntityType.data)
    buffer = io.BytesIO()
    entity_writer(schema)(buffer, message_of(schema, topics=topics, user_data=b"\xff"))
    return version.to_bytes(2, "big") + buffer.getvalue()


def a_member(
    name: str, *, instance_id: str | None = None, metadata: bytes = b"", names: str = "range"
) -> ClassicMember:
    return ClassicMember(
        member_id=name,
        instance_id=instance_id,
        client_id="client",
        client_host="/127.0.0.1",
        rebalance_timeout_ms=60_000,
        session_timeout_ms=10_000,
        protocols=tuple(MemberProtocol(protocol, metadata) for protocol in names.split()),
    )


def a_group(*members: ClassicMember, protocol_type: str = "consumer") -> ClassicGroup:
    """A group in which these members are stable."""
    group = ClassicGroup("g", timestamp_ms=NOW_MS)
    for member in members:
        group.add(member, protocol_type)
        group.park_join(member, ParkedRequest(member.member_id, 9))
    group.enter(ClassicGroupState.PREPARING_REBALANCE, NOW_MS)
    for member in members:
        group.take_join(member)
    group.begin_generation(NOW_MS)
    if members:
        group.enter(ClassicGroupState.STABLE, NOW_MS)
    return group


@pytest.mark.parametrize(("former", "next_"), list(product(ClassicGroupState, repeat=2)))
def test_only_the_transitions_of_the_table_are_possible(former: ClassicGroupState, next_: ClassicGroupState) -> None:
    group = ClassicGroup("g", timestamp_ms=NOW_MS)
    group.state = former
    if former in PREVIOUS_STATES[next_]:
        group.enter(next_, NOW_MS + 1)
        assert (group.state, group.previous_state, group.current_state_timestamp_ms) == (next_, former, NOW_MS + 1)
    else:
        with pytest.raises(AssertionError):
            group.enter(next_, NOW_MS + 1)


def test_there_is_a_way_into_every_state_and_none_out_of_dead() -> None:
    assert set(PREVIOUS_STATES) == set(ClassicGroupState)
    assert all(PREVIOUS_STATES.values())
    assert [state for state, previous in PREVIOUS_STATES.items() if ClassicGroupState.DEAD in previous] == ["Dead"]


@pytest.mark.parametrize("version", range(4))
def test_the_topics_of_a_subscription_of_every_version_are_known(version: int) -> None:
    assert subscribed_topics(subscription(version, "flights", "züge")) == {"flights", "züge"}


def test_a_version_that_is_yet_to_come_is_understood() -> None:
    data = subscription(1, "flights")
    assert subscribed_topics(b"\x00\x63" + data[2:] + b"more") == {"flights"}


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0",
        b"\0\1\0\0\0",
        b"\xff\xff\0\0\0\0",
        b"\0\1\xff\xff\xff\xff",
        b"\0\1\x7f\xff\xff\xff",
        b"\0\1\0\0\0\1\0\5abc",
        b"\0\1\0\0\0\1\xff\xff",
        b"\0\1\0\0\0\1\0\1\xff",
        b"\0\1" + (100_001).to_bytes(4, "big") + 100_001 * b"\0\0",  # more than a request may name
    ],
)
def test_what_is_no_subscription_is_recognised(data: bytes) -> None:
    with pytest.raises(MalformedSubscription):
        subscribed_topics(data)


def test_a_group_of_consumers_is_subscribed_to_the_topics_of_its_members() -> None:
    group = a_group(
        a_member("a", metadata=subscription(1, "flights")), a_member("b", metadata=subscription(3, "trains"))
    )

    assert group.subscribed_topics == frozenset({"flights", "trains"})
    assert [topic for topic in ("flights", "trains", "ships") if group.is_subscribed_to(topic)] == [
        "flights",
        "trains",
    ]
    assert group.offsets_may_expire


def test_consumers_that_do_not_say_what_they_read_may_read_everything() -> None:
    group = a_group(a_member("a", metadata=subscription(1, "flights")), a_member("b", metadata=b"?"))

    assert group.subscribed_topics is None
    assert group.is_subscribed_to("ships")
    assert not group.offsets_may_expire


def test_other_members_than_consumers_read_no_topics_but_keep_their_offsets() -> None:
    group = a_group(a_member("a", metadata=subscription(1, "flights")), protocol_type="connect")

    assert not group.is_subscribed_to("flights")
    assert not group.offsets_may_expire


def test_a_group_without_members_is_subscribed_to_nothing() -> None:
    group = a_group()
    assert not group.is_subscribed_to("flights")
    assert group.offsets_may_expire


def test_the_age_of_offsets_counts_from_when_the_last_member_went_or_from_the_commit() -> None:
    group = a_group(a_member("a"))
    before = group.empty_since_ms

    group.enter(ClassicGroupState.PREPARING_REBALANCE, NOW_MS + 1)
    assert not group.offsets_may_expire
    group.remove("a")
    group.begin_generation(NOW_MS + 2)
    assert (before, group.empty_since_ms) == (None, NOW_MS + 2)

    only_offsets = ClassicGroup("offsets", timestamp_ms=NOW_MS)
    assert only_offsets.empty_since_ms is None
    assert only_offsets.offsets_may_expire


def test_the_protocol_that_most_members_like_best_is_chosen_among_those_that_all_know() -> None:
    group = a_group(
        a_member("a", names="only range sticky"),
        a_member("b", names="sticky range"),
        a_member("c", names="range sticky"),
        a_member("d", names="sticky range"),
    )
    assert group.protocol_name == "range"  # of a draw, what the first member likes

    group.set_protocols(group.members["c"], a_member("c", names="sticky range").protocols)
    assert group.select_protocol() == "sticky"


def test_only_an_empty_group_can_be_deleted() -> None:
    group = a_group(a_member("a"))
    with pytest.raises(NonEmptyGroup):
        group.check_deletable()
    group.state = ClassicGroupState.DEAD
    with pytest.raises(GroupIdNotFound):
        group.check_deletable()
    with pytest.raises(GroupIdNotFound):
        group.check_offset_fetch(None, -1)
    ClassicGroup("empty", timestamp_ms=NOW_MS).check_deletable()


def test_the_tombstone_of_a_group_names_it() -> None:
    ((key, value),) = ClassicGroup("g", timestamp_ms=NOW_MS).tombstones()
    assert (key, value) == (GroupMetadataKey(group="g"), None)


def test_a_group_is_restored_from_its_snapshot() -> None:
    group = a_group(
        a_member("a", metadata=subscription(1, "flights")), a_member("b", instance_id="one", metadata=b"?")
    )
    group.members["b"].assignment = b"everything"
    group.leader_id = "b"

    key, value = snapshot(group)
    assert value is not None
    decoded = decode_value(key, encode_value(value))
    assert isinstance(decoded, GroupMetadataValue)
    restored = restore("g", decoded)

    assert vars(restored) | {"previous_state": None} == vars(group) | {"previous_state": None}


def test_a_record_of_old_has_no_rebalance_timeout_and_no_timestamp() -> None:
    stored = MemberMetadata(
        member_id="a", client_id="c", client_host="/h", session_timeout=30_000, subscription=b"", assignment=b""
    )
    value = GroupMetadataValue(
        protocol_type="consumer", generation=3, protocol="range", leader="gone", members=(stored,)
    )

    group = restore("g", value)

    assert group.members["a"].rebalance_timeout_ms == 30_000
    assert group.current_state_timestamp_ms is None
    assert group.leader_id == "a"
    assert group.state is ClassicGroupState.STABLE


def test_whether_a_group_can_be_stored_is_a_question_of_bytes() -> None:
    record = snapshot(a_group(a_member("a", metadata=bytes(1000))))
    assert record.value is not None
    size = len(encode_key(record.key)) + len(encode_value(record.value))
    assert not fits(record, size)
    assert fits(record, size + 200)


def test_the_topics_of_a_static_member_that_restarts_are_known_at_once() -> None:
    shard = GroupShard(settings=GroupSettings(), cluster_state=ClusterState(), draw_uuid=uuid4)
    group = a_group(a_member("a", instance_id="one", metadata=subscription(1, "flights")))
    shard.groups["g"] = group
    joining = Joining(
        parked=ParkedRequest("token", 9),
        group_id="g",
        member_id="",
        instance_id="one",
        client_id="again",
        client_host="/elsewhere",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=60_000,
        protocol_type="consumer",
        protocols=(MemberProtocol("range", subscription(1, "trains")),),
    )

    join(shard, Turn(NOW_MS, NOW_MS), joining)

    assert group.state is ClassicGroupState.STABLE
    assert group.subscribed_topics == frozenset({"trains"})
    assert [member.client_host for member in group.members.values()] == ["/elsewhere"]
