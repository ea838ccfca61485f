"""The values of `link_api`, each with the protobuf message that carries it. Pure."""

from typing import Final

from ottla_core.cluster.controller_rpc.link_api import (
    DescribedLink,
    LeaderEpochRaise,
    LinkChange,
    LinkedPartitionState,
    LinkedTopicResult,
    LinkKeeping,
    LinkProblemKind,
    MorePartitions,
    NewLink,
    NewLinkedTopic,
    PartitionStatus,
    PromotedPartition,
)
from ottla_core.cluster.controller_rpc.message_pair import MessagePair
from ottla_core.cluster.state.model import Link
from ottla_proto.gen.ottla import links_pb2 as pb

LINK: Final = MessagePair(Link, pb.Link, except_for=["revision"])
NEW_LINK: Final = MessagePair(NewLink, pb.CreateLinkRequest, except_for=["validate_only"], parts=[LINK])
LINK_CHANGE: Final = MessagePair(LinkChange, pb.AlterLinkRequest)
NEW_LINKED_TOPIC: Final = MessagePair(NewLinkedTopic, pb.NewLinkedTopic)
MORE_PARTITIONS: Final = MessagePair(MorePartitions, pb.MorePartitions)
LINKED_TOPIC_RESULT: Final = MessagePair(LinkedTopicResult, pb.LinkedTopicResult)
LEADER_EPOCH_RAISE: Final = MessagePair(LeaderEpochRaise, pb.LeaderEpochRaise)
PROMOTED_PARTITION: Final = MessagePair(PromotedPartition, pb.PromotedPartition)
DESCRIBED_LINK: Final = MessagePair(DescribedLink, pb.DescribedLink, parts=[LINK])
PARTITION_STATUS: Final = MessagePair(PartitionStatus, pb.PartitionStatus)
LINK_KEEPING: Final = MessagePair(LinkKeeping, pb.LinkKeeping)


def status_from_message(message: pb.PartitionStatus) -> PartitionStatus:
    """Return a partition's status; a state that this release does not know is shown as FAILED."""
    if message.state not in LinkedPartitionState.__members__:
        shown = pb.PartitionStatus()
        shown.CopyFrom(message)
        shown.state, shown.reason = LinkedPartitionState.FAILED.value, f"{message.state}: {message.reason}"
        return PARTITION_STATUS.from_message(shown)
    return PARTITION_STATUS.from_message(message)


def keeping_from_message(message: pb.LinkKeeping) -> LinkKeeping:
    """Return how a link is kept in step; problems of kinds that this release does not know are left off."""
    known = [each for each in message.problems if each.kind in LinkProblemKind.__members__]
    shown = pb.LinkKeeping()
    shown.CopyFrom(message)
    del shown.problems[:]
    shown.problems.extend(known)
    shown.problems_left_off += len(message.problems) - len(known)
    return LINK_KEEPING.from_message(shown)
