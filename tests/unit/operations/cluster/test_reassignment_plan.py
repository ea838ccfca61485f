"""Plans in the JSON of Kafka's tool."""

import json

import pytest

from ottla_core.topic_partition import TopicPartition
from ottla_operations.cluster.cluster_view import BrokerView, ClusterView, Move, PartitionView
from ottla_operations.cluster.reassignment_plan import (
    BadPlan,
    check_brokers,
    check_partitions,
    parse_plan,
    plan_document,
    standing,
)

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
VIEW = ClusterView(
    "c",
    {broker: BrokerView(broker, "h", 1, None) for broker in (1, 2)},
    {T0: PartitionView(T0, 1, (1, 2), (1, 2)), T1: PartitionView(T1, 2, (2, 9), (2,))},
)


def plan_text(*entries: object, **fields: object) -> str:
    return json.dumps({"version": 1, "partitions": list(entries), **fields})


def entry(**fields: object) -> dict[str, object]:
    return {"topic": "t", "partition": 0, "replicas": [1, 2], **fields}


def test_a_plan_of_kafkas_tool_is_read_and_written():
    plan = parse_plan(plan_text(entry(log_dirs=["any", "any"]), entry(partition=1, replicas=[2])))
    assert plan == {T0: (1, 2), T1: (2,)}
    assert parse_plan(json.dumps(plan_document(plan))) == plan


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("not json", "it is no JSON"),
        ("[]", 'it has no list "partitions"'),
        ('{"version": 1}', 'it has no list "partitions"'),
        (plan_text(entry(), version=2), "it has version 2; only 1 is known"),
        (plan_text(), "it names no partition"),
        (plan_text(entry(), entry()), "it names t-0 twice"),
        (plan_text(entry(replicas=[1, 2, 1])), "broker 1 is named twice for t-0"),
        (plan_text(entry(), 7), "its entry 2 is not"),
        (plan_text(entry(topic=None)), "its entry 1 is not"),
        (plan_text(entry(partition=-1)), "its entry 1 is not"),
        (plan_text(entry(partition=True)), "its entry 1 is not"),
        (plan_text(entry(replicas=[])), "its entry 1 is not"),
        (plan_text(entry(replicas=["1"])), "its entry 1 is not"),
        (plan_text(entry(log_dirs=["any", "/data"])), 'its entry 1 names log directories; only "any"'),
    ],
)
def test_what_is_no_plan_is_refused_with_what_was_wrong(text, message):
    with pytest.raises(BadPlan) as problem:
        parse_plan(text)
    assert str(problem.value).startswith(message)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (TopicPartition("u", 0), "there is no topic u"),
        (TopicPartition("t", 2), "topic t has no partition 2; its partitions are 0 to 1"),
    ],
)
def test_a_plan_for_partitions_that_are_not_there_is_refused(name, message):
    with pytest.raises(BadPlan, match=message):
        check_partitions([name], VIEW)


def test_replicas_only_go_to_brokers_that_are_there_but_may_stay_on_one_that_is_away():
    check_brokers({T1: (9, 1)}, VIEW)
    with pytest.raises(BadPlan, match="t-0 cannot go to broker 9, which is not there; brokers are 1, 2"):
        check_brokers({T0: (9, 1)}, VIEW)


def test_how_a_partition_stands_is_told():
    assert standing(T0, (1, 2), VIEW, {}) is None
    assert standing(T0, (1, 2), VIEW, {T0: Move((1, 2), (2,), ())}) == "is being moved"
    assert standing(T0, (2, 1), VIEW, {}) == "is not being moved and has its replicas on 1,2"
    assert standing(TopicPartition("u", 0), (1,), VIEW, {}) == "does not exist"
