"""Whatever brokers, disks, proposals and administrators do: states are sound, and no committed record is lost.

The rules are the controller's own; the replicas around them are a model
(`tests.support.broker.replicated_partition`).
"""

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from ottla_controller.configs import ConfigPlan, TopicTarget
from ottla_controller.topic_rules import MIN_INSYNC_REPLICAS, partitions_to_clear
from ottla_core.cluster.controller_rpc.controller_api import AlteredResource, ElectionType
from ottla_core.cluster.state.model import ClusterState, PartitionState, Topic
from tests.support.broker.replicated_partition import BROKER_IDS, ID, ReplicatedPartition

EVENTS = (
    *("start", "die", "lose disk", "shut down", "see", "append", "fetch", "propose", "shrink", "deliver", "attend"),
    *("see", "see all", "append", "fetch", "replicate", "deliver", "attend", "half attend"),
    *("elect preferred", "elect uncleanly", "reassign", "cancel", "unregister", "change minimum"),
)
brokers = st.sampled_from(list(BROKER_IDS))
events = st.lists(st.tuples(st.sampled_from(EVENTS), brokers, brokers), max_size=80)


def clear(partition: PartitionState, min_insync: int) -> PartitionState | None:
    """What is written before another minimum holds."""
    topic = Topic(name="t", id=ID, partitions=(partition,))
    plan = ConfigPlan(AlteredResource(type=2, name="t"), TopicTarget("t"), {MIN_INSYNC_REPLICAS: str(min_insync)})
    cleared = list(partitions_to_clear(plan, ClusterState(topics={"t": topic}, topics_by_id={ID: topic})))
    return cleared[0] if cleared else None


def play(scene: ReplicatedPartition, event: str, one: int, other: int) -> None:
    match event:
        case "start":
            scene.start(one)
        case "die":
            scene.die(one)
        case "lose disk":
            scene.lose_disk(one)
        case "shut down":
            scene.shut_down(one)
        case "see":
            scene.see(one)
        case "see all":
            for broker_id in BROKER_IDS:
                scene.see(broker_id)
        case "append":
            for broker_id in BROKER_IDS:
                scene.append(broker_id)
        case "fetch":
            scene.fetch(one, other)
        case "replicate":
            for broker_id in (*BROKER_IDS, *BROKER_IDS):
                scene.fetch(broker_id, 9)
        case "propose" | "shrink":
            scene.propose(one, shrinks=event == "shrink")
        case "deliver":
            scene.deliver(one * other)
        case "attend" | "half attend":
            scene.attend(dies_before_remembering=event == "half attend")
        case _:
            administer(scene, event, one, other)


def administer(scene: ReplicatedPartition, event: str, one: int, other: int) -> None:
    match event:
        case "elect preferred":
            scene.elect(ElectionType.PREFERRED)
        case "elect uncleanly":
            scene.elect(ElectionType.UNCLEAN)
        case "reassign":
            scene.reassign(tuple(dict.fromkeys((one, other, 1 + (one + other) % 4))))
        case "cancel":
            scene.reassign(None)
        case "unregister":
            scene.unregister(one)
        case "change minimum":
            scene.change_minimum(min(one, 3), clear)
        case _:
            raise AssertionError(event)


@settings(max_examples=300, deadline=None)
@given(events, st.integers(1, 3), st.integers(1, 4))
def test_random_events(story: list[tuple[str, int, int]], min_insync: int, replication_factor: int) -> None:
    scene = ReplicatedPartition(min_insync, replication_factor)
    for event, one, other in story:
        play(scene, event, one, other)
    heal(scene)


def heal(scene: ReplicatedPartition) -> None:
    """When all brokers are up and the controller has looked, whoever has the records leads, and all get in sync."""
    for broker_id in BROKER_IDS:
        scene.start(broker_id)
    scene.attend()
    had_records = bool(scene.partition.isr or scene.partition.eligible_leaders)
    if not had_records:
        scene.elect(ElectionType.UNCLEAN)
    assert scene.partition.leader in BROKER_IDS
    for _ in range(2):
        play(scene, "see all", 1, 1)
        for _ in range(4):
            play(scene, "replicate", 1, 1)
        for broker_id in BROKER_IDS:
            scene.propose(broker_id, shrinks=False)
        scene.deliver(len(scene.proposals) - 1)
    assert set(scene.partition.isr) == set(scene.partition.replicas)
    assert not scene.partition.adding
    assert not scene.partition.removing
    assert scene.partition == replace(scene.partition, eligible_leaders=())
