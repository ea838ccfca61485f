"""The requests about groups and their offsets, and what is read from the answers. Pure.

Offsets are asked for and written in versions that name topics instead of giving their ids, and that all brokers since
Kafka 2.1 know. They serve groups of both protocols.
"""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from kio.schema.errors import ErrorCode
from kio.schema.list_groups.v5.request import ListGroupsRequest
from kio.schema.offset_commit.v6.request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kio.schema.offset_fetch.v5.request import OffsetFetchRequest

from ottla_core.topic_partition import TopicPartition
from ottla_core.wire.conversion import message_of

CONSUMER_PROTOCOLS: Final = frozenset({"", "consumer"})
"""Protocol types of groups that consume: "" are those that only have offsets, of consumers without a group's help."""
_OTHER_TYPES: Final = frozenset({"share", "streams"})
NO_OFFSET: Final = -1
NO_GENERATION: Final = -1
NO_LEADER_EPOCH: Final = -1

IN_USE: Final = frozenset(
    {
        ErrorCode.fenced_member_epoch,
        ErrorCode.illegal_generation,
        ErrorCode.rebalance_in_progress,
        ErrorCode.stale_member_epoch,
        ErrorCode.unknown_member_id,
    }
)
"""What is answered to a commit of nobody when the group has members, who alone may commit."""


MEMBERLESS_STATES: Final = frozenset({"Empty", "Dead", ""})
CLASSIC_TYPES: Final = frozenset({"", "classic"})


class ListedGroup(NamedTuple):
    """What a coordinator says of a group.

    Attributes:
        state: "Empty" if it has no members; "" if there is no such group.
        protocol_type: "" for a group that has only ever had offsets.
        group_type: "classic", "consumer", …; "" where the cluster is older than that.
    """

    state: str
    protocol_type: str
    group_type: str

    @property
    def has_members(self) -> bool:
        """Whether it is being used, so that its offsets are its own affair."""
        return self.state not in MEMBERLESS_STATES

    @property
    def had_members(self) -> bool:
        """Whether it has ever had members, as far as the coordinator remembers."""
        return self.protocol_type != "" or self.group_type.lower() not in CLASSIC_TYPES


ABSENT: Final = ListedGroup("", "", "")


class CommittedOffset(NamedTuple):
    """What a group has committed for a partition."""

    offset: int
    metadata: str


class CommitResult(NamedTuple):
    """The outcome of storing offsets.

    Attributes:
        is_in_use: whether the group has members, so that nothing was stored.
        failures: why partitions were not stored.
    """

    is_in_use: bool
    failures: dict[TopicPartition, str]


def list_request() -> ListGroupsRequest:
    """Return the request for the groups that one broker coordinates."""
    return message_of(ListGroupsRequest)


def listed(response: Any) -> dict[str, ListedGroup]:
    """Return the groups of an answer; their state is unknown (None is not said, "" is) before Kafka 2.6."""
    return {
        each.group_id: ListedGroup(each.group_state, each.protocol_type, each.group_type) for each in response.groups
    }


def consumes(group: ListedGroup) -> bool:
    """Return whether a group is one of consumers, by either protocol."""
    return group.protocol_type in CONSUMER_PROTOCOLS and group.group_type.lower() not in _OTHER_TYPES


def fetch_request(group: str) -> OffsetFetchRequest:
    """Return the request for all offsets of a group."""
    return message_of(OffsetFetchRequest, group_id=group, topics=None)


def fetched(response: Any) -> dict[TopicPartition, CommittedOffset]:
    """Return the offsets of an answer; partitions without one, or with an error, are left out."""
    return {
        TopicPartition(topic.name, int(each.partition_index)): CommittedOffset(
            int(each.committed_offset), each.metadata or ""
        )
        for topic in response.topics
        for each in topic.partitions
        if each.error_code is ErrorCode.none and each.committed_offset > NO_OFFSET
    }


def commit_request(group: str, offsets: Mapping[TopicPartition, CommittedOffset]) -> OffsetCommitRequest:
    """Return the request that stores offsets of a group without members."""
    by_topic: dict[str, list[object]] = {}
    for (topic, partition), committed in offsets.items():
        by_topic.setdefault(topic, []).append(
            message_of(
                OffsetCommitRequestPartition,
                partition_index=partition,
                committed_offset=committed.offset,
                committed_leader_epoch=NO_LEADER_EPOCH,
                committed_metadata=committed.metadata,
            )
        )
    topics = [
        message_of(OffsetCommitRequestTopic, name=topic, partitions=tuple(partitions))
        for topic, partitions in by_topic.items()
    ]
    return message_of(
        OffsetCommitRequest,
        group_id=group,
        generation_id_or_member_epoch=NO_GENERATION,
        member_id="",
        topics=tuple(topics),
    )


def committed(response: Any) -> CommitResult:
    """Return what an answer says of offsets that were to be stored."""
    codes = {
        TopicPartition(topic.name, int(each.partition_index)): ErrorCode(each.error_code)
        for topic in response.topics
        for each in topic.partitions
    }
    is_in_use = any(code in IN_USE for code in codes.values())
    failures = {each: code.name for each, code in codes.items() if code is not ErrorCode.none}
    return CommitResult(is_in_use, {} if is_in_use else failures)
