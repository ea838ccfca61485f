"""What many groups at once are like: their members and committed offsets, asked for together.

What a group does not tell, because it is gone or refused to this user, is told in words beside its name; the other
groups are shown all the same.
"""

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ottla_operations.groups.coordinator_answers import CoordinatorAnswers
from ottla_operations.groups.inspection import STATES, Partition
from ottla_operations.kafka_access import REQUEST_TIMEOUT_S, describe_error, plain_errors
from ottla_sdk.kafka.coordinator_requests import TIMEOUT_MAX_S

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupStanding:
    """How one group stands.

    Attributes:
        state: in our words; None where it is not told.
        members: how many there are; None where it is not told.
        assignments: what each member reads.
        committed: the offset that it reads next, by partition; None where it is not told.
        problem: why something is not told, or None.
    """

    state: str | None = None
    members: int | None = None
    assignments: Sequence[Sequence[Partition]] = ()
    committed: Mapping[Partition, int] | None = field(default=None)
    problem: str | None = None


def standings(
    client: "AdminClient", groups: Sequence[str], bootstrap: str, *, timeout_s: float = REQUEST_TIMEOUT_S
) -> dict[str, GroupStanding]:
    """Return how groups stand; all requests are under way at once, so ask for a page of groups, not for thousands.

    Args:
        client: of the cluster.
        groups: their names.
        bootstrap: where the client connects, for messages.
        timeout_s: of all requests; a group whose coordinator takes longer has that for a problem.

    Raises:
        OperationError: the client cannot send requests.
    """
    from confluent_kafka import ConsumerGroupTopicPartitions  # noqa: PLC0415

    if not groups:
        return {}
    with plain_errors(bootstrap, "groups"):
        answers = CoordinatorAnswers(client, timeout_s)
        described = client.describe_consumer_groups(list(groups), request_timeout=TIMEOUT_MAX_S)
        offsets: dict[str, Future[Any]] = {}
        for group in groups:  # librdkafka takes one group in a request
            wanted = [ConsumerGroupTopicPartitions(group)]
            offsets |= client.list_consumer_group_offsets(wanted, request_timeout=TIMEOUT_MAX_S)
    return {group: _standing(answers, described[group], offsets[group], bootstrap) for group in groups}


def _standing(
    answers: CoordinatorAnswers, described: "Future[Any]", offsets: "Future[Any]", bootstrap: str
) -> GroupStanding:
    group, no_group = _answer(answers, described, bootstrap)
    found, no_offsets = _answer(answers, offsets, bootstrap)
    committed = None
    if found is not None:
        committed = {
            (each.topic, each.partition): each.offset
            for each in found.topic_partitions
            if each.error is None and each.offset >= 0
        }
    return GroupStanding(
        state=None if group is None else STATES[group.state.name],
        members=None if group is None else len(group.members),
        assignments=() if group is None else tuple(_reads(each) for each in group.members),
        committed=committed,
        problem=no_group or no_offsets,
    )


def _reads(member: Any) -> tuple[Partition, ...]:
    return tuple((each.topic, each.partition) for each in member.assignment.topic_partitions)


def _answer(answers: CoordinatorAnswers, future: "Future[Any]", bootstrap: str) -> tuple[Any, str | None]:
    from confluent_kafka import KafkaException  # noqa: PLC0415

    try:
        return answers.of(future), None
    except KafkaException as exception:
        return None, describe_error(exception.args[0], bootstrap)
