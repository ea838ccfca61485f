"""What a migration stores, all of it or none; and members from logs of Kafka's whom we would not have let in.

Groups are made with the commands of transcripts. A crash leaves a log that ends after one of the batches into which
a turn was packed.
"""

from collections.abc import Collection
from dataclasses import replace
from itertools import accumulate

import pytest

from ottla_core.wire.record_batch import parse_header
from ottla_group_coordinator.classic.group import ClassicGroup
from ottla_group_coordinator.consumer.embedded_protocol import read_assignment
from ottla_group_coordinator.consumer.group import ConsumerGroup
from ottla_group_coordinator.consumer.member import ConsumerMember, current_assignment_record, metadata_record
from ottla_group_coordinator.consumer.partitions import Partitions, union
from ottla_group_coordinator.records import (
    GROUP_RECORDS,
    ClassicMemberMetadata,
    ClassicProtocol,
    encode_key,
    encode_value,
)
from ottla_group_coordinator.runtime.shard_batches import BatchPacker, ShardProducer
from ottla_group_coordinator.runtime.turn import CoordinatorRecord
from tests.support.groups.consumer_group_commands import consumer_scene, encoded_subscription
from tests.support.groups.group_transcripts import Scene
from tests.support.groups.shard_under_test import read_record

CLASSIC_GROUP = [
    "topics flights=4",
    "settings initial_rebalance_delay_ms=0",
    "classic-join c topics=flights version=3",
    "classic-join d topics=flights version=3",
    "advance 1ms",
    "classic-sync c c=flights:0,1 d=flights:2,3",
    "classic-sync d",
]
MIXED_GROUP = [
    *CLASSIC_GROUP,
    "join a topics=flights instance=one",
    *["classic-join c", "classic-sync c", "classic-join d", "classic-sync d"] * 2,
    "settle a",
]
MIGRATIONS = {
    "join a topics=flights": (CLASSIC_GROUP, {ClassicGroup, ConsumerGroup}),
    "leave a": (MIXED_GROUP, {ConsumerGroup, ClassicGroup}),
    "classic-join e topics=flights instance=one": (MIXED_GROUP, {ConsumerGroup, ClassicGroup}),
}


@pytest.mark.parametrize("command", MIGRATIONS)
def test_a_crash_leaves_a_group_of_one_protocol_or_of_the_other(command: str) -> None:
    former, outcomes = MIGRATIONS[command]
    seen = set()
    for batch_bytes_max in range(500, 3000, 50):
        scene = scene_after(former)
        scene.settings = scene.shard.settings = replace(scene.settings, batch_bytes_max=batch_bytes_max)
        owned = owned_by_c_and_d(scene)
        former_length = len(scene.log)
        scene.run([command])
        seen.add(type(scene.shard.groups["g"]))
        log, scene.log = scene.log, []
        for length in accumulate(lengths_of_batches(log[former_length:], batch_bytes_max), initial=former_length):
            scene.log = log[:length]
            scene.restart()
            assert owned_by_c_and_d(scene) == owned, f"after {length - former_length} records"
    assert seen == outcomes


def scene_after(commands: list[str]) -> Scene:
    scene = consumer_scene()
    scene.run(commands)
    return scene


def owned_by_c_and_d(scene: Scene) -> dict[str, Partitions]:
    group = scene.shard.groups["g"]
    topics = scene.cluster_state.topics
    names = [scene.clients[name].member_id for name in "cd"]
    if isinstance(group, ClassicGroup):
        return {name: read_assignment(group.members[name].assignment, topics).partitions for name in names}
    assert isinstance(group, ConsumerGroup)
    members = [group.members[name] for name in names]
    return {member.member_id: union(member.assigned, member.pending_revocation) for member in members}


def lengths_of_batches(stored: list[tuple[bytes, bytes | None]], batch_bytes_max: int) -> list[int]:
    packer = BatchPacker(ShardProducer(1, 0), 1, batch_bytes_max, GROUP_RECORDS)
    packer.add([CoordinatorRecord(*read_record(*pair)) for pair in stored], 0)
    return [parse_header(each.batch).record_count for each in packer.appends()]


# Members from elsewhere


def mixed_group_of(*protocols: str, illegible: Collection[str] = ("foo",)) -> Scene:
    """A group of a classic member, whose protocols are given, and one of the consumer protocol."""
    scene = scene_after(["topics flights=2", "join a topics=flights"])
    metadata = encoded_subscription(scene.cluster_state, ("flights",), {})
    classic = ClassicMemberMetadata(
        session_timeout_ms=10_000,
        supported_protocols=tuple(
            ClassicProtocol(name=name, metadata=b"\0" if name in illegible else metadata) for name in protocols
        ),
    )
    member = ConsumerMember(
        member_id="c", epoch=1, subscribed_topic_names=frozenset({"flights"}), rebalance_timeout_ms=9, classic=classic
    )
    load(scene, metadata_record("g", member), current_assignment_record("g", member))
    scene.clients["c"] = replace(scene.clients["a"], member_id="c", epoch=1)
    return scene


def load(scene: Scene, *records: CoordinatorRecord) -> None:
    for key, value in records:
        assert value is not None
        scene.log.append((encode_key(key), encode_value(value)))
    scene.restart()


def test_a_group_that_would_agree_on_something_illegible_is_not_downgraded() -> None:
    scene = mixed_group_of("foo", "range")
    assert "a < ConsumerGroupHeartbeat member_id=a member_epoch=-1" in scene.run(["leave a"])
    assert isinstance(scene.shard.groups["g"], ConsumerGroup)


def test_a_group_in_which_something_else_is_illegible_is_downgraded() -> None:
    scene = mixed_group_of("range", "foo")
    scene.run(["leave a"])
    assert isinstance(scene.shard.groups["g"], ClassicGroup)


def test_a_member_that_cannot_be_told_its_assignment_is_refused() -> None:
    scene = mixed_group_of("foo", "range")
    assert "c < SyncGroup INCONSISTENT_GROUP_PROTOCOL" in scene.run(["classic-sync c"])


def test_a_classic_group_in_which_something_is_illegible_is_not_upgraded() -> None:
    scene = scene_after(
        [
            "topics flights=1",
            "settings initial_rebalance_delay_ms=0",
            "classic-join c topics=flights protocols=range,foo garbage=foo version=3",
            "advance 1ms",
            "classic-sync c c=flights:0",
        ]
    )
    assert scene.run(["join a topics=flights"]) == ["a < ConsumerGroupHeartbeat GROUP_ID_NOT_FOUND"]


@pytest.mark.parametrize(
    ("assignor", "is_upgraded"), [("custom", False), ("range", False), ("sticky", True), ("cooperative-sticky", True)]
)
def test_data_that_an_assignor_needs_keeps_a_group_from_its_upgrade_and_what_librdkafka_echoes_does_not(
    assignor: str, is_upgraded: bool
) -> None:
    scene = scene_after(
        [
            "topics flights=1",
            "settings initial_rebalance_delay_ms=0",
            f"classic-join c topics=flights protocols={assignor} version=3",
            "advance 1ms",
            "classic-sync c c=flights:0 data=mine",
        ]
    )
    scene.run(["join a topics=flights"])
    assert isinstance(scene.shard.groups["g"], ConsumerGroup) is is_upgraded


def test_a_stored_expression_that_is_not_valid_matches_nothing() -> None:
    scene = scene_after(["topics flights=1", "join a topics=flights"])
    member = ConsumerMember(member_id="b", subscribed_topic_regex="(?=f)", rebalance_timeout_ms=9)
    load(scene, metadata_record("g", member))
    scene.run(["beat a"])
    group = scene.shard.groups["g"]
    assert isinstance(group, ConsumerGroup)
    assert group.expressions["(?=f)"].topics == frozenset()
