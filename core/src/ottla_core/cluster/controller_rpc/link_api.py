"""What is asked about links and linked topics, and answered, as plain values. See `links.proto`.

A *link* names a source cluster; a *linked topic* is a topic of it that is followed here, offset by offset. Pure.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from uuid import UUID

from kio.schema.errors import ErrorCode

from ottla_core.cluster.state.model import Link

USE_DEFAULT = -1
UNKNOWN = -1
UNLIMITED = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceLink:
    """A link that the source cluster has itself."""

    name: str
    source_cluster_id: str
    topics: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NewLink:
    """A link to create.

    Attributes:
        link: its `id` is drawn by the caller, so that a repeated request is recognised.
        matching_topics: topics of the source that its patterns match; one that is here already is a reason to refuse.
        source_links: the source's own links, as far as the caller knows them.
        existing: whether the topics are here already, and shall follow; then one that is here is no reason to refuse.
    """

    link: Link
    matching_topics: tuple[str, ...] = ()
    source_links: tuple[SourceLink, ...] = ()
    existing: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkChange:
    """What is to change about a link; None for what stays.

    Attributes:
        bytes_per_second: `UNLIMITED` for no limit.
        settings: new values by name; None removes a setting.
        properties: likewise.
        forgotten_promotions: topics that were promoted, and may be linked again.
    """

    name: str
    paused: bool | None = None
    bytes_per_second: int | None = None
    bootstrap_servers: tuple[str, ...] | None = None
    topics: tuple[str, ...] | None = None
    groups: tuple[str, ...] | None = None
    settings: Mapping[str, str | None] = field(default_factory=dict)
    properties: Mapping[str, str | None] = field(default_factory=dict)
    forgotten_promotions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NewLinkedTopic:
    """A topic to create that follows one of the source.

    Attributes:
        source_leader_epochs: of each partition the leader epoch in the source.
        topic_id: drawn by the caller, so that a repeated request is recognised.
    """

    name: str
    topic_id: UUID
    source_topic: str
    source_topic_id: UUID
    source_leader_epochs: tuple[int, ...]
    replication_factor: int = USE_DEFAULT
    configs: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class MorePartitions:
    """A linked topic that shall have as many partitions as its source; the epochs are those of all, old and new."""

    topic: str
    source_leader_epochs: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkedTopicResult:
    """How the creation or growth of a linked topic ended."""

    topic: str
    error_code: ErrorCode = ErrorCode.none
    error_message: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderEpochRaise:
    """A leader's wish that its epoch be not below that of a batch of the source which it is about to append."""

    topic_id: UUID
    index: int
    link_id: UUID
    leader_epoch: int
    raised_to: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PromotedPartition:
    """A partition that follows no longer, and the leader epoch in which it is written here."""

    topic: str
    index: int
    leader_epoch: int


class LinkedPartitionState(StrEnum):
    """What a linked partition is doing.

    RUNNING: it is fetched. PAUSED: the link is. WAITING: the source, or the partition's leader there, cannot be
    reached. SOURCE_TRUNCATED: the source has another history where this log has records. SOURCE_RECREATED and
    SOURCE_DELETED: the source has another topic of that name, or none. TRANSACTIONAL: the partition's leader here is
    of an earlier release, and the next batch belongs to a transaction. FAILED: the source's records cannot be taken,
    or our disk refuses them. NO_LEADER: nobody leads the partition here, or its leader does not answer.
    """

    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    WAITING = "WAITING"
    SOURCE_TRUNCATED = "SOURCE_TRUNCATED"
    SOURCE_RECREATED = "SOURCE_RECREATED"
    SOURCE_DELETED = "SOURCE_DELETED"
    TRANSACTIONAL = "TRANSACTIONAL"
    FAILED = "FAILED"
    NO_LEADER = "NO_LEADER"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionStatus:
    """How far a linked partition has come.

    Attributes:
        reason: what `state` does not say, for people.
        since_ms: since when it is in that state, in milliseconds since 1970.
        source_end_offset: the source's high watermark as of its last answer, or `UNKNOWN`.
        records_missed: offsets that the source had deleted before they were copied.
        answered_ms: when the source answered last about the partition, or `UNKNOWN`.
    """

    link: str
    topic: str
    index: int
    state: LinkedPartitionState
    reason: str = ""
    since_ms: int = UNKNOWN
    log_end_offset: int = UNKNOWN
    high_watermark: int = UNKNOWN
    source_end_offset: int = UNKNOWN
    records_missed: int = 0
    leader: int = UNKNOWN
    leader_epoch: int = UNKNOWN
    answered_ms: int = UNKNOWN
    log_start_offset: int = UNKNOWN

    @property
    def lag(self) -> int:
        """How many offsets of the source are not here yet, as of its last answer; -1 if that is unknown."""
        if UNKNOWN in (self.source_end_offset, self.log_end_offset):
            return UNKNOWN
        return max(0, self.source_end_offset - self.log_end_offset)


class LinkProblemKind(StrEnum):
    """What about a topic or a group of a link is not as in the source.

    TOPIC_NOT_LINKED: a topic of that name is here and does not follow the link; it is left as it is. TOPIC_PROMOTED:
    it followed, was promoted, and is not here any more; it is not linked again by itself. TOPIC_DELETED: the source
    does not have it any more; it stays here. TOPIC_REFUSED: the controller does not make or change it. GROUP_IN_USE:
    the group has members here, so its offsets are its own affair. GROUP_FAILED: its offsets cannot be read or stored.
    """

    TOPIC_NOT_LINKED = "TOPIC_NOT_LINKED"
    TOPIC_PROMOTED = "TOPIC_PROMOTED"
    TOPIC_DELETED = "TOPIC_DELETED"
    TOPIC_REFUSED = "TOPIC_REFUSED"
    GROUP_IN_USE = "GROUP_IN_USE"
    GROUP_FAILED = "GROUP_FAILED"

    @property
    def is_failure(self) -> bool:
        """Whether it is not so by somebody's will."""
        return self in (LinkProblemKind.TOPIC_REFUSED, LinkProblemKind.GROUP_FAILED)


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkProblem:
    """What is not as in the source, and why; `name` is that of the topic or group."""

    kind: LinkProblemKind
    name: str
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkKeeping:
    """How a link is kept in step with its source.

    Attributes:
        broker: which broker does it.
        failure: why its last look at the source's topics or groups has failed; empty if none has.
        topics_ms: when the look began after which topics were in step, in milliseconds since 1970, or `UNKNOWN`.
        groups_ms: likewise the offsets of groups.
        groups: whose offsets go along.
        problems: the first ones; `problems_left_off` more are not among them.
    """

    link: str
    broker: int
    failure: str = ""
    topics_ms: int = UNKNOWN
    groups_ms: int = UNKNOWN
    groups: int = 0
    problems: tuple[LinkProblem, ...] = ()
    problems_left_off: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkedTopic:
    """A linked topic; `linked_count` of its partitions follow still."""

    name: str
    topic_id: UUID
    source_topic: str
    source_topic_id: UUID
    partition_count: int
    linked_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedLink:
    """A link and its topics."""

    link: Link
    topics: tuple[LinkedTopic, ...]
