"""What is made, extended and refused at the target."""

from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from ottla_core.client.cluster_metadata import PartitionMetadata, TopicMetadata
from ottla_mirror.topics.topic_sync import CopiedTopic, MorePartitions, NewTopic, plan_topics

ID = UUID(int=7)


def topic(name: str, partitions: int = 1, error: ErrorCode = ErrorCode.none) -> TopicMetadata:
    found = {
        number: PartitionMetadata(index=number, leader=1, leader_epoch=0, replicas=(1,), error=ErrorCode.none)
        for number in range(partitions)
    }
    return TopicMetadata(name=name, id=ID, is_internal=False, partitions=found, error=error)


def topics(*several: TopicMetadata) -> dict[str, TopicMetadata]:
    return {each.name: each for each in several}


def plan(wanted, source, target=(), *, made=None, others=None, existing="refuse"):
    return plan_topics(
        wanted,
        source=topics(*source),
        target=topics(*target),
        made=made or {},
        made_by_others=others or {},
        existing=existing,
    )


ORDERS = {"orders": "A.orders"}


def test_a_topic_that_the_target_lacks_is_made_with_as_many_partitions():
    found = plan(ORDERS, [topic("orders", 3)])
    assert found.new == (NewTopic(topic="orders", remote_topic="A.orders", partitions=3),)
    assert not found.copied


def test_a_topic_that_the_flow_has_made_is_copied():
    found = plan(ORDERS, [topic("orders", 2)], [topic("A.orders", 2)], made={"A.orders": "orders"})
    assert found.copied == {"orders": CopiedTopic(topic="orders", topic_id=ID, remote_topic="A.orders", partitions=2)}
    assert not found.new
    assert not found.grown


def test_partitions_that_the_source_got_are_added_and_the_others_copied_meanwhile():
    found = plan(ORDERS, [topic("orders", 4)], [topic("A.orders", 2)], made={"A.orders": "orders"})
    assert found.grown == (MorePartitions(topic="orders", remote_topic="A.orders", partitions=4),)
    assert found.copied["orders"].partitions == 2


def test_a_topic_of_the_target_with_more_partitions_is_left_so():
    found = plan(ORDERS, [topic("orders", 2)], [topic("A.orders", 5)], made={"A.orders": "orders"})
    assert not found.grown
    assert found.copied["orders"].partitions == 2


def test_a_topic_that_somebody_else_has_made_is_refused_with_what_to_do():
    found = plan(ORDERS, [topic("orders")], [topic("A.orders")])
    assert not found.copied
    assert not found.new
    assert "A.orders exists at the target, and no mirror has made it" in found.refused["orders"]
    assert "existing.topics=adopt" in found.refused["orders"]


def test_a_topic_that_somebody_else_has_made_is_adopted_if_asked_for():
    assert "orders" in plan(ORDERS, [topic("orders")], [topic("A.orders")], existing="adopt").copied


def test_a_copy_that_another_flow_makes_is_never_adopted():
    found = plan(ORDERS, [topic("orders")], [topic("A.orders")], others={"A.orders": "C->B"}, existing="adopt")
    assert found.refused == {"orders": "A.orders at the target is a copy that the flow C->B makes"}


def test_two_topics_of_one_name_at_the_target_are_not_mixed():
    found = plan({"a": "same", "b": "same"}, [topic("a"), topic("b")])
    assert [each.topic for each in found.new] == ["a"]
    assert found.refused == {"b": "it would be called same at the target, as a is"}


def test_a_copy_of_one_topic_does_not_become_that_of_another():
    found = plan({"b": "same"}, [topic("b")], [topic("same")], made={"same": "a"}, existing="adopt")
    assert found.refused == {"b": "same at the target is the copy of a"}


def test_a_name_that_no_topic_can_have_is_refused():
    found = plan({"orders": "A." + "x" * 250}, [topic("orders")])
    assert "is longer than the max allowed length" in found.refused["orders"]


@pytest.mark.parametrize("error", [ErrorCode.leader_not_available, ErrorCode.topic_authorization_failed])
def test_what_a_cluster_does_not_tell_is_waited_for(error: ErrorCode):
    assert "orders" in plan(ORDERS, [topic("orders", 0, error)]).waiting
    assert (
        "orders"
        in plan(ORDERS, [topic("orders")], [topic("A.orders", 0, error)], made={"A.orders": "orders"}).waiting
    )


def test_copies_of_topics_that_are_gone_are_named_and_no_others():
    found = plan({}, [topic("kept")], [topic("A.orders"), topic("A.kept"), topic("other")],
                 made={"A.orders": "orders", "A.kept": "kept", "A.gone-too": "gone-too"})  # fmt: skip
    assert found.gone == ("A.orders",)
