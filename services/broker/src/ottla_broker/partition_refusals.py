"""Why a partition refuses a request, as the errors that clients are told."""

from ottla_broker.partition_context import NotEnoughReplicas, NotEnoughReplicasAfterAppend
from ottla_core.cluster.state.model import NO_LEADER, PartitionState
from ottla_core.errors import FencedLeaderEpoch, NotLeaderOrFollower, PolicyViolation, UnknownLeaderEpoch
from ottla_core.topic_partition import TopicPartition

NO_EPOCH_GIVEN = -1


def not_leader(topic_partition: TopicPartition, state: PartitionState, broker_id: int) -> NotLeaderOrFollower:
    """Return the error for a request that only the leader can serve, and this broker does not."""
    if state.leader == broker_id:
        return NotLeaderOrFollower(f"broker {broker_id} is not ready to lead {topic_partition}")
    leader = "nobody" if state.leader == NO_LEADER else f"broker {state.leader}"
    return NotLeaderOrFollower(f"{topic_partition} is led by {leader}, not by broker {broker_id}")


def too_few_replicas(
    topic_partition: TopicPartition, in_sync: int, asked_for: int, *, in_log: bool
) -> NotEnoughReplicas | NotEnoughReplicasAfterAppend:
    """Return the error for records that fewer replicas have, or would get, than `min.insync.replicas` asks for.

    Args:
        topic_partition: where they belong.
        in_sync: how many replicas are in sync.
        asked_for: how many there have to be.
        in_log: whether the records are in the log. Their producer must not be told that they are not.
    """
    message = f"{topic_partition} has {in_sync} replicas in sync, min.insync.replicas asks for {asked_for}"
    return NotEnoughReplicasAfterAppend(message) if in_log else NotEnoughReplicas(message)


def takes_no_writes(topic: str, link: str) -> PolicyViolation:
    """Return the error for a write to a topic whose records are those of another cluster; no client tries again."""
    return PolicyViolation(
        f"{topic} follows a topic of another cluster through link '{link}' and takes no writes until it is promoted"
    )


def check_leader_epoch(topic_partition: TopicPartition, given: int, present: int) -> None:
    """Compare the leader epoch that somebody knows (-1: none) with the present one.

    Raises:
        FencedLeaderEpoch: theirs is older.
        UnknownLeaderEpoch: theirs is newer than what this broker has heard of.
    """
    if given in (NO_EPOCH_GIVEN, present):
        return
    if given < present:
        raise FencedLeaderEpoch(f"{topic_partition} is at leader epoch {present}")
    raise UnknownLeaderEpoch(f"{topic_partition} is at leader epoch {present} here")
