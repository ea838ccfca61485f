"""What a cluster tells of its consumer groups, asked through librdkafka's admin client, as plain values.

A group that nobody knows is described by brokers as a dead one without members, or refused; both are `NoSuchGroup`
here. librdkafka has no name for two states of the consumer protocol, in which members are still on their way to their
partitions; both are called `REBALANCING`.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ottla_operations.errors import OperationError
from ottla_operations.groups.coordinator_answers import CoordinatorAnswers
from ottla_operations.kafka_access import REQUEST_TIMEOUT_S, describe_error, plain_errors, topics_of
from ottla_sdk.kafka.coordinator_requests import TIMEOUT_MAX_S

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient, ConsumerGroupDescription

REBALANCING = "rebalancing"
EMPTY = "empty"
STATES = {
    "UNKNOWN": REBALANCING,
    "PREPARING_REBALANCING": "preparing-rebalance",
    "COMPLETING_REBALANCING": "completing-rebalance",
    "STABLE": "stable",
    "DEAD": "dead",
    "EMPTY": EMPTY,
}

LEADER_ATTEMPTS_MAX = 10
LEADER_PAUSE_S = 0.3
"""Offsets are asked for again while leaders change, which takes a second or two."""

Partition = tuple[str, int]


class NoSuchGroup(OperationError):
    """The cluster knows no group of this name."""

    def __init__(self, group: str) -> None:
        super().__init__(f"there is no group {group}")


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSummary:
    """One line of a list of groups."""

    group: str
    state: str
    type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One member of a group.

    Attributes:
        instance_id: of a static member, else None.
        assignment: what it owns.
        target_assignment: what it will own; only the consumer protocol tells that.
    """

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    assignment: tuple[Partition, ...]
    target_assignment: tuple[Partition, ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """A group as its coordinator describes it.

    Attributes:
        assignor: the assignor in use; empty while there are no members.
        coordinator: the broker that answers for it, as HOST:PORT.
    """

    group: str
    state: str
    type: str
    assignor: str
    coordinator: str
    members: tuple[Member, ...]

    def owners(self) -> dict[Partition, Member]:
        """Return who owns which partition."""
        return {partition: member for member in self.members for partition in member.assignment}


def list_groups(client: "AdminClient", bootstrap: str) -> tuple[list[GroupSummary], list[str]]:
    """Return all groups of consumers in order, and what brokers answered that could not tell theirs."""
    from confluent_kafka import KafkaException  # noqa: PLC0415

    with plain_errors(bootstrap):
        result = client.list_consumer_groups(request_timeout=REQUEST_TIMEOUT_S).result()
    groups = [
        GroupSummary(group=each.group_id, state=STATES[each.state.name], type=each.type.name.lower())
        for each in result.valid
    ]
    problems = [
        describe_error(error.args[0] if isinstance(error, KafkaException) else error, bootstrap)
        for error in result.errors or ()
    ]
    return sorted(groups, key=lambda each: each.group), problems


def describe_group(client: "AdminClient", group: str, bootstrap: str) -> Group:
    """Return what a group's coordinator tells.

    Raises:
        NoSuchGroup: there is none of this name.
    """
    from confluent_kafka import KafkaError, KafkaException  # noqa: PLC0415

    with plain_errors(bootstrap, f"group {group}"):
        try:
            answers = CoordinatorAnswers(client, REQUEST_TIMEOUT_S)
            found = answers.of(client.describe_consumer_groups([group], request_timeout=TIMEOUT_MAX_S)[group])
        except KafkaException as exception:
            if exception.args[0].code() == KafkaError.GROUP_ID_NOT_FOUND:
                raise NoSuchGroup(group) from None
            raise
    if STATES[found.state.name] == "dead" and not found.members:
        raise NoSuchGroup(group)
    return _group(found)


def committed_offsets(client: "AdminClient", group: str, bootstrap: str) -> dict[Partition, int]:
    """Return every offset that a group has committed, in order of topics and partitions."""
    from confluent_kafka import ConsumerGroupTopicPartitions  # noqa: PLC0415

    with plain_errors(bootstrap, f"offsets of group {group}"):
        answers = CoordinatorAnswers(client, REQUEST_TIMEOUT_S)
        wanted = [ConsumerGroupTopicPartitions(group)]
        futures = client.list_consumer_group_offsets(wanted, request_timeout=TIMEOUT_MAX_S)
        found = sorted(answers.of(futures[group]).topic_partitions, key=lambda each: (each.topic, each.partition))
    for each in found:
        if each.error is not None:
            raise OperationError(describe_error(each.error, bootstrap, f"{each.topic} partition {each.partition}"))
    return {(each.topic, each.partition): each.offset for each in found if each.offset >= 0}


def log_offsets(
    client: "AdminClient",
    partitions: Iterable[Partition],
    spec: Any,
    bootstrap: str,
    *,
    all_led: bool = True,
    isolation: Any = None,
    pause: Callable[[float], None] = time.sleep,
) -> dict[Partition, int]:
    """Return the offset of each partition that a `confluent_kafka.admin.OffsetSpec` asks for.

    A partition that is not there is left out; so is one that has no such offset.

    Args:
        client: of the cluster.
        partitions: whose offsets are wanted.
        spec: which offset.
        bootstrap: where the client connects, for messages.
        all_led: whether a partition that nobody leads just now is asked about again, and is an error if that goes on;
            else it is left out, too.
        isolation: a `confluent_kafka.IsolationLevel`; by `READ_COMMITTED` a log ends where a transaction is open.
        pause: waits for so many seconds.

    Raises:
        OperationError: the cluster does not answer, or refuses.
    """
    from confluent_kafka import KafkaException, TopicPartition  # noqa: PLC0415

    gone, passing = _offset_errors()
    options = {} if isolation is None else {"isolation_level": isolation}
    offsets: dict[Partition, int] = {}
    wanted = [TopicPartition(topic, number) for topic, number in partitions]
    with plain_errors(bootstrap, "offsets of partitions"):
        for attempt in range(1, LEADER_ATTEMPTS_MAX + 1):
            asked = dict.fromkeys(wanted, spec)
            wanted = []
            futures = client.list_offsets(asked, request_timeout=REQUEST_TIMEOUT_S, **options) if asked else {}
            for partition, future in futures.items():
                try:
                    offset = future.result().offset
                except KafkaException as exception:
                    code = exception.args[0].code()
                    if code in passing and all_led and attempt < LEADER_ATTEMPTS_MAX:
                        wanted.append(partition)
                    elif code not in gone and (all_led or code not in passing):
                        raise
                    continue
                if offset >= 0:
                    offsets[partition.topic, partition.partition] = offset
            if not wanted:
                break
            pause(LEADER_PAUSE_S)
    return offsets


def _offset_errors() -> tuple[frozenset[int], frozenset[int]]:
    """Return the errors by which a partition is not there, and those of one that is about to get a leader.

    A broker may hear of a new leader before or after the client does, so one of them has the newer leader epoch.
    """
    from confluent_kafka import KafkaError  # noqa: PLC0415

    passing = (
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.OFFSET_NOT_AVAILABLE,
        KafkaError._UNKNOWN_PARTITION,  # noqa: SLF001 - public names
        KafkaError._UNKNOWN_TOPIC,  # noqa: SLF001
    )
    return frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART}), frozenset(passing)


def partition_counts(client: "AdminClient", bootstrap: str) -> dict[str, int]:
    """Return how many partitions each topic of the cluster has."""
    with plain_errors(bootstrap):
        topics = topics_of(client)
    return {name: len(topic.partitions) for name, topic in topics.items() if topic.error is None}


def existing(partitions: Iterable[Partition], counts: Mapping[str, int]) -> list[Partition]:
    """Return those partitions that the cluster has."""
    return [(topic, number) for topic, number in partitions if number < counts.get(topic, 0)]


def partition_names(partitions: Sequence[Partition]) -> str:
    """Return partitions in words: ``flights:0,2 prices:1``."""
    topics: dict[str, list[str]] = {}
    for topic, number in partitions:
        topics.setdefault(topic, []).append(str(number))
    return " ".join(f"{topic}:{','.join(numbers)}" for topic, numbers in topics.items())


def _group(found: "ConsumerGroupDescription") -> Group:
    node = found.coordinator
    return Group(
        group=found.group_id,
        state=STATES[found.state.name],
        type=found.type.name.lower(),
        assignor=found.partition_assignor,
        coordinator=f"{node.host}:{node.port}",
        members=tuple(sorted((_member(each) for each in found.members), key=lambda each: each.member_id)),
    )


def _member(found: Any) -> Member:
    target = found.target_assignment
    return Member(
        member_id=found.member_id,
        instance_id=found.group_instance_id or None,
        client_id=found.client_id,
        host=found.host.removeprefix("/"),
        assignment=_partitions(found.assignment),
        target_assignment=None if target is None else _partitions(target),
    )


def _partitions(assignment: Any) -> tuple[Partition, ...]:
    return tuple(sorted((each.topic, each.partition) for each in assignment.topic_partitions))
