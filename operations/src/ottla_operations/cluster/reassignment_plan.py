"""Plans in the JSON of kafka-reassign-partitions: reading, checking and writing them. Pure.

{"version": 1, "partitions": [{"topic": "flights", "partition": 0, "replicas": [1, 2, 3]}]}

Kafka's plans may also name log directories; only "any" is taken here.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from ottla_core.topic_partition import TopicPartition
from ottla_operations.cluster.cluster_view import ClusterView, Move, Replicas

VERSION = 1
ANY_DIRECTORY = "any"

Plan = dict[TopicPartition, Replicas]


class BadPlan(ValueError):
    """A plan that cannot be read or that does not fit the cluster; the message says why."""


def parse_plan(text: str) -> Plan:
    """Read a plan.

    Raises:
        BadPlan: it is no plan, or names a partition twice, or a broker twice for one partition.
    """
    try:
        document = json.loads(text)
    except ValueError as error:
        raise BadPlan(f"it is no JSON: {error}") from None
    if not isinstance(document, dict) or not isinstance(document.get("partitions"), list):
        raise BadPlan('it has no list "partitions"')
    if document.get("version", VERSION) != VERSION:
        raise BadPlan(f"it has version {document['version']}; only {VERSION} is known")
    plan: Plan = {}
    for number, entry in enumerate(document["partitions"], start=1):
        name, replicas = _read_entry(entry, number)
        if name in plan:
            raise BadPlan(f"it names {name} twice")
        plan[name] = replicas
    if not plan:
        raise BadPlan("it names no partition")
    return plan


def _read_entry(entry: Any, number: int) -> tuple[TopicPartition, Replicas]:
    wanted = '{"topic": NAME, "partition": NUMBER, "replicas": [BROKER, …]}'
    fields = entry if isinstance(entry, dict) else {}
    topic, partition, replicas = (fields.get(key) for key in ("topic", "partition", "replicas"))
    if not (isinstance(topic, str) and topic and _is_number(partition) and isinstance(replicas, list)):
        raise BadPlan(f"its entry {number} is not {wanted}")
    if not replicas or not all(_is_number(broker) for broker in replicas):
        raise BadPlan(f"its entry {number} is not {wanted}")
    assert isinstance(partition, int)
    directories = fields.get("log_dirs") or []
    if any(directory != ANY_DIRECTORY for directory in directories):
        raise BadPlan(f'its entry {number} names log directories; only "{ANY_DIRECTORY}" is possible here')
    name = TopicPartition(topic, partition)
    check_distinct(name, replicas)
    return name, tuple(replicas)


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def check_distinct(name: TopicPartition, replicas: Iterable[int]) -> None:
    """See that no broker is named twice.

    Raises:
        BadPlan: one is.
    """
    seen = set()
    for broker in replicas:
        if broker in seen:
            raise BadPlan(f"broker {broker} is named twice for {name}")
        seen.add(broker)


def check_partitions(names: Iterable[TopicPartition], view: ClusterView) -> None:
    """See that partitions exist.

    Raises:
        BadPlan: one does not.
    """
    topics = view.topics
    for name in names:
        if name.topic not in topics:
            raise BadPlan(f"there is no topic {name.topic}")
        if name not in view.partitions:
            last = topics[name.topic] - 1
            raise BadPlan(f"topic {name.topic} has no partition {name.partition}; its partitions are 0 to {last}")


def check_brokers(plan: Mapping[TopicPartition, Replicas], view: ClusterView) -> None:
    """See that replicas only go to brokers that are there.

    Raises:
        BadPlan: a partition is to get a replica on another one.
    """
    for name, replicas in plan.items():
        for broker in replicas:
            if broker not in view.brokers and broker not in view.partitions[name].replicas:
                present = ", ".join(str(each) for each in view.brokers)
                raise BadPlan(f"{name} cannot go to broker {broker}, which is not there; brokers are {present}")


def plan_document(plan: Mapping[TopicPartition, Replicas]) -> dict[str, Any]:
    """Return a plan as JSON values."""
    return {
        "version": VERSION,
        "partitions": [
            {"topic": name.topic, "partition": name.partition, "replicas": list(replicas)}
            for name, replicas in sorted(plan.items())
        ],
    }


def standing(
    name: TopicPartition, target: Replicas, view: ClusterView, moves: Mapping[TopicPartition, Move]
) -> str | None:
    """Return None if a partition has the replicas that it was to get, else how it stands, in words."""
    if name in moves:
        return "is being moved"
    partition = view.partitions.get(name)
    if partition is None:
        return "does not exist"
    if partition.replicas != target:
        return f"is not being moved and has its replicas on {','.join(str(each) for each in partition.replicas)}"
    return None
