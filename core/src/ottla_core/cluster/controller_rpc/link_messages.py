"""The values of `link_api` as protobuf messages, and back. Pure."""

from uuid import UUID

from kio.schema.errors import ErrorCode

from ottla_core.cluster.controller_rpc.link_api import (
    DescribedLink,
    LeaderEpochRaise,
    LinkChange,
    LinkedPartitionState,
    LinkedTopic,
    LinkedTopicResult,
    LinkKeeping,
    LinkProblem,
    LinkProblemKind,
    MorePartitions,
    NewLink,
    NewLinkedTopic,
    PartitionStatus,
    PromotedPartition,
    SourceLink,
)
from ottla_core.cluster.state.model import Link
from ottla_core.errors import InvalidRequest
from ottla_proto.gen.ottla import links_pb2 as pb


def uuid_from(value: bytes, what: str) -> UUID:
    """Return an id that a client has sent.

    Raises:
        InvalidRequest: it has not 16 bytes.
    """
    if len(value) != 16:
        raise InvalidRequest(f"{what}: an id has 16 bytes, not {len(value)}")
    return UUID(bytes=value)


def link_to_message(link: Link) -> pb.Link:
    """Return the message of a link."""
    return pb.Link(
        name=link.name,
        id=link.id.bytes,
        source_cluster_id=link.source_cluster_id,
        bootstrap_servers=link.bootstrap_servers,
        settings=link.settings,
        topics=link.topics,
        groups=link.groups,
        paused=link.paused,
        bytes_per_second=link.bytes_per_second,
        properties=link.properties,
        promoted_topics=sorted(link.promoted_topics),
    )


def link_from_message(message: pb.Link) -> Link:
    """Return the link.

    Raises:
        InvalidRequest: its id is none.
    """
    return Link(
        name=message.name,
        id=uuid_from(message.id, "link"),
        source_cluster_id=message.source_cluster_id,
        bootstrap_servers=tuple(message.bootstrap_servers),
        settings=dict(message.settings),
        topics=tuple(message.topics),
        groups=tuple(message.groups),
        paused=message.paused,
        bytes_per_second=message.bytes_per_second if message.HasField("bytes_per_second") else None,
        properties=dict(message.properties),
        promoted_topics=frozenset(message.promoted_topics),
    )


def new_link_to_message(new: NewLink, *, validate_only: bool = False) -> pb.CreateLinkRequest:
    """Return the request to create a link."""
    return pb.CreateLinkRequest(
        link=link_to_message(new.link),
        matching_topics=new.matching_topics,
        source_links=[
            pb.SourceLink(name=each.name, source_cluster_id=each.source_cluster_id, topics=each.topics)
            for each in new.source_links
        ],
        validate_only=validate_only,
        existing=new.existing,
    )


def new_link_from_message(message: pb.CreateLinkRequest) -> NewLink:
    """Return the link to create.

    Raises:
        InvalidRequest: its id is none.
    """
    return NewLink(
        link=link_from_message(message.link),
        matching_topics=tuple(message.matching_topics),
        source_links=tuple(
            SourceLink(name=each.name, source_cluster_id=each.source_cluster_id, topics=tuple(each.topics))
            for each in message.source_links
        ),
        existing=message.existing,
    )


def link_change_to_message(change: LinkChange) -> pb.AlterLinkRequest:
    """Return the request to change a link."""
    return pb.AlterLinkRequest(
        name=change.name,
        paused=change.paused,
        bytes_per_second=change.bytes_per_second,
        bootstrap_servers=_texts(change.bootstrap_servers),
        topics=_texts(change.topics),
        groups=_texts(change.groups),
        settings=[pb.Setting(name=name, value=value) for name, value in change.settings.items()],
        properties=[pb.Setting(name=name, value=value) for name, value in change.properties.items()],
        forgotten_promotions=change.forgotten_promotions,
    )


def link_change_from_message(message: pb.AlterLinkRequest) -> LinkChange:
    """Return what is to change."""
    return LinkChange(
        name=message.name,
        paused=message.paused if message.HasField("paused") else None,
        bytes_per_second=message.bytes_per_second if message.HasField("bytes_per_second") else None,
        bootstrap_servers=(
            tuple(message.bootstrap_servers.values) if message.HasField("bootstrap_servers") else None
        ),
        topics=tuple(message.topics.values) if message.HasField("topics") else None,
        groups=tuple(message.groups.values) if message.HasField("groups") else None,
        settings={each.name: each.value if each.HasField("value") else None for each in message.settings},
        properties={each.name: each.value if each.HasField("value") else None for each in message.properties},
        forgotten_promotions=tuple(message.forgotten_promotions),
    )


def new_linked_topic_to_message(new: NewLinkedTopic) -> pb.NewLinkedTopic:
    """Return the message of a linked topic to create."""
    return pb.NewLinkedTopic(
        name=new.name,
        topic_id=new.topic_id.bytes,
        source_topic=new.source_topic,
        source_topic_id=new.source_topic_id.bytes,
        source_leader_epochs=new.source_leader_epochs,
        replication_factor=new.replication_factor,
        configs=[pb.Setting(name=name, value=value) for name, value in new.configs.items()],
    )


def new_linked_topic_from_message(message: pb.NewLinkedTopic) -> NewLinkedTopic:
    """Return the linked topic to create.

    Raises:
        InvalidRequest: an id is none.
    """
    return NewLinkedTopic(
        name=message.name,
        topic_id=uuid_from(message.topic_id, message.name),
        source_topic=message.source_topic,
        source_topic_id=uuid_from(message.source_topic_id, message.source_topic),
        source_leader_epochs=tuple(message.source_leader_epochs),
        replication_factor=message.replication_factor,
        configs={each.name: each.value if each.HasField("value") else None for each in message.configs},
    )


def more_partitions_to_message(more: MorePartitions) -> pb.MorePartitions:
    """Return the message of a linked topic's growth."""
    return pb.MorePartitions(topic=more.topic, source_leader_epochs=more.source_leader_epochs)


def more_partitions_from_message(message: pb.MorePartitions) -> MorePartitions:
    """Return the growth that is wanted."""
    return MorePartitions(topic=message.topic, source_leader_epochs=tuple(message.source_leader_epochs))


def result_to_message(result: LinkedTopicResult) -> pb.LinkedTopicResult:
    """Return the message of how one topic's change ended."""
    return pb.LinkedTopicResult(
        topic=result.topic, error_code=result.error_code.value, error_message=result.error_message or ""
    )


def result_from_message(message: pb.LinkedTopicResult) -> LinkedTopicResult:
    """Return how one topic's change ended."""
    return LinkedTopicResult(
        topic=message.topic,
        error_code=ErrorCode(message.error_code),
        error_message=message.error_message or None,
    )


def raise_to_message(wanted: LeaderEpochRaise) -> pb.LeaderEpochRaise:
    """Return the message of a leader epoch to raise."""
    return pb.LeaderEpochRaise(
        topic_id=wanted.topic_id.bytes,
        index=wanted.index,
        link_id=wanted.link_id.bytes,
        leader_epoch=wanted.leader_epoch,
        raised_to=wanted.raised_to,
    )


def raise_from_message(message: pb.LeaderEpochRaise) -> LeaderEpochRaise:
    """Return the leader epoch to raise."""
    return LeaderEpochRaise(
        topic_id=UUID(bytes=message.topic_id),
        index=message.index,
        link_id=UUID(bytes=message.link_id),
        leader_epoch=message.leader_epoch,
        raised_to=message.raised_to,
    )


def promoted_to_message(promoted: PromotedPartition) -> pb.PromotedPartition:
    """Return the message of a promoted partition."""
    return pb.PromotedPartition(topic=promoted.topic, index=promoted.index, leader_epoch=promoted.leader_epoch)


def promoted_from_message(message: pb.PromotedPartition) -> PromotedPartition:
    """Return the promoted partition."""
    return PromotedPartition(topic=message.topic, index=message.index, leader_epoch=message.leader_epoch)


def described_to_message(described: DescribedLink) -> pb.DescribedLink:
    """Return the message of a link with its topics."""
    return pb.DescribedLink(
        link=link_to_message(described.link),
        topics=[
            pb.LinkedTopic(
                name=topic.name,
                topic_id=topic.topic_id.bytes,
                source_topic=topic.source_topic,
                source_topic_id=topic.source_topic_id.bytes,
                partition_count=topic.partition_count,
                linked_count=topic.linked_count,
            )
            for topic in described.topics
        ],
    )


def described_from_message(message: pb.DescribedLink) -> DescribedLink:
    """Return the link with its topics."""
    return DescribedLink(
        link=link_from_message(message.link),
        topics=tuple(
            LinkedTopic(
                name=topic.name,
                topic_id=UUID(bytes=topic.topic_id),
                source_topic=topic.source_topic,
                source_topic_id=UUID(bytes=topic.source_topic_id),
                partition_count=topic.partition_count,
                linked_count=topic.linked_count,
            )
            for topic in message.topics
        ),
    )


def status_to_message(status: PartitionStatus) -> pb.PartitionStatus:
    """Return the message of a partition's status."""
    return pb.PartitionStatus(
        link=status.link,
        topic=status.topic,
        index=status.index,
        state=status.state.value,
        reason=status.reason,
        since_ms=status.since_ms,
        log_end_offset=status.log_end_offset,
        high_watermark=status.high_watermark,
        source_end_offset=status.source_end_offset,
        records_missed=status.records_missed,
        leader=status.leader,
        leader_epoch=status.leader_epoch,
        answered_ms=status.answered_ms,
        log_start_offset=status.log_start_offset,
    )


def status_from_message(message: pb.PartitionStatus) -> PartitionStatus:
    """Return a partition's status; a state that this version does not know is shown as FAILED."""
    known = message.state in LinkedPartitionState.__members__
    return PartitionStatus(
        link=message.link,
        topic=message.topic,
        index=message.index,
        state=LinkedPartitionState(message.state) if known else LinkedPartitionState.FAILED,
        reason=message.reason if known else f"{message.state}: {message.reason}",
        since_ms=message.since_ms,
        log_end_offset=message.log_end_offset,
        high_watermark=message.high_watermark,
        source_end_offset=message.source_end_offset,
        records_missed=message.records_missed,
        leader=message.leader,
        leader_epoch=message.leader_epoch,
        answered_ms=message.answered_ms,
        log_start_offset=message.log_start_offset,
    )


def keeping_to_message(keeping: LinkKeeping) -> pb.LinkKeeping:
    """Return the message of how a link is kept in step."""
    return pb.LinkKeeping(
        link=keeping.link,
        broker=keeping.broker,
        failure=keeping.failure,
        topics_ms=keeping.topics_ms,
        groups_ms=keeping.groups_ms,
        groups=keeping.groups,
        problems=[
            pb.LinkProblem(kind=each.kind.value, name=each.name, reason=each.reason) for each in keeping.problems
        ],
        problems_left_off=keeping.problems_left_off,
    )


def keeping_from_message(message: pb.LinkKeeping) -> LinkKeeping:
    """Return how a link is kept in step; problems of kinds that this version does not know are left off."""
    known = [each for each in message.problems if each.kind in LinkProblemKind.__members__]
    return LinkKeeping(
        link=message.link,
        broker=message.broker,
        failure=message.failure,
        topics_ms=message.topics_ms,
        groups_ms=message.groups_ms,
        groups=message.groups,
        problems=tuple(
            LinkProblem(kind=LinkProblemKind(each.kind), name=each.name, reason=each.reason) for each in known
        ),
        problems_left_off=message.problems_left_off + len(message.problems) - len(known),
    )


def _texts(values: tuple[str, ...] | None) -> pb.Texts | None:
    return None if values is None else pb.Texts(values=values)
