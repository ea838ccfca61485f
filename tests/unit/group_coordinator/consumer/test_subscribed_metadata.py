"""The number that stands for the topics of a group."""

from uuid import UUID

from ottla_core.cluster.state.model import PartitionState, Topic
from ottla_group_coordinator.consumer.subscribed_metadata import NO_TOPICS, metadata_hash


def topic(name: str, number: int, partition_count: int) -> Topic:
    topic_id = UUID(int=number)
    partitions = tuple(
        PartitionState(topic_id=topic_id, index=index, replicas=(1,), isr=(1,), leader=1, leader_epoch=0)
        for index in range(partition_count)
    )
    return Topic(name=name, id=topic_id, partitions=partitions)


def test_no_topics_are_zero() -> None:
    assert metadata_hash([]) == NO_TOPICS


def test_the_order_does_not_matter() -> None:
    assert metadata_hash([topic("a", 1, 1), topic("b", 2, 1)]) == metadata_hash([topic("b", 2, 1), topic("a", 1, 1)])


def test_whatever_an_assignment_depends_on_changes_the_number() -> None:
    variants = [[topic("a", 1, 1)], [topic("a", 1, 2)], [topic("a", 2, 1)], [topic("b", 1, 1)], []]
    variants.append([topic("a", 1, 1), topic("b", 2, 1)])
    assert len({metadata_hash(variant) for variant in variants}) == len(variants)


def test_the_number_stays_the_same_between_releases() -> None:
    assert metadata_hash([topic("flights", 1, 3)]) == -7337855375706603454
