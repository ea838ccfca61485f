"""What the state machine of a sink task tells its shell to do, and what it is told of the present. Pure.

Where an action has an answer, its docstring names the method of `SinkStateMachine` that takes it. A shell carries a
list of actions out in order, each with all that follows from its answer before the next one.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ottla_sdk import SinkRecord, TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkSettings:
    """The settings of a sink task's runtime.

    Attributes:
        poll_records_max: most records in one `put`.
        flush_interval_s: seconds between commits.
        flush_timeout_s: seconds after which a commit is given up.
        incremental: whether the group rebalances incrementally.
        from_start: whether partitions without a commit are read from their start.
    """

    poll_records_max: int
    flush_interval_s: float
    flush_timeout_s: float
    incremental: bool
    from_start: bool


@dataclass(frozen=True, slots=True)
class Moment:
    """The present, as the shell finds it when something happens.

    Attributes:
        now_s: seconds of a monotonic clock.
        leased: whether the task is surely this worker's.
    """

    now_s: float
    leased: bool


# The consumer.


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaveGroup:
    """Give all partitions away, until the topics are subscribed to anew."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """Read at most so many messages, waiting so long for the first; then `messages_read`."""

    count_max: int
    timeout_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """Read these partitions no further."""

    partitions: Collection[TopicPartition]


@dataclass(frozen=True, slots=True, kw_only=True)
class Resume:
    """Read these partitions again."""

    partitions: Collection[TopicPartition]


@dataclass(frozen=True, slots=True, kw_only=True)
class Seek:
    """Go on reading at these offsets."""

    offsets: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitOffsets:
    """Commit these offsets; then `commit_sent` or `commit_refused`, and without waiting later `commit_answered`.

    Attributes:
        offsets: of each partition, that of the next record.
        metadata: of each partition; says which topic the offset is of.
        wait: whether to wait until the offsets are committed.
        began_s: when this commit has begun.
    """

    offsets: Mapping[TopicPartition, int]
    metadata: Mapping[TopicPartition, str]
    wait: bool
    began_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CloseConsumer:
    """Leave the group for good."""


# The plugin's task.


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenPartitions:
    """Tell the task that it has these partitions."""

    partitions: Sequence[TopicPartition]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClosePartitions:
    """Tell the task that it has these partitions no longer."""

    partitions: Sequence[TopicPartition]


@dataclass(frozen=True, slots=True, kw_only=True)
class Convert:
    """Make records of messages, and call `read` with where these are from; then `converted`."""

    messages: Sequence[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Put:
    """Give the task these records; then `put_succeeded`, or `put_failed` if it can take them later."""

    records: list[SinkRecord]


@dataclass(frozen=True, slots=True, kw_only=True)
class PreCommit:
    """Have the task make records safe; then `pre_commit_answered`, or `pre_commit_failed` if it can do so later.

    Attributes:
        offered: up to where records of each partition were put.
        partitions: those that the commit is about.
        closing: whether they are about to be given away.
        began_s: when this commit has begun.
    """

    offered: Mapping[TopicPartition, int]
    partitions: Collection[TopicPartition]
    closing: bool
    began_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SettleReports:
    """Fail unless all records that the task has reported are tolerated and arrive; then `reports_settled`.

    Attributes:
        asked: what the task was asked.
        allowed: the offsets that it allows to commit.
    """

    asked: PreCommit
    allowed: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class StopTask:
    """Stop the task."""


# The cluster's topics.


@dataclass(frozen=True, slots=True, kw_only=True)
class IdentifyTopics:
    """Find out the metadata of the last commit of each partition, and the ids of their topics; then `identified`."""

    partitions: Sequence[TopicPartition]


@dataclass(frozen=True, slots=True, kw_only=True)
class AskTopicIds:
    """Ask for the ids of these topics without waiting for the answer; `topic_ids_found` takes it.

    Attributes:
        ticket: is handed back with the answer; the answer to an old one does not count.
        topics: their names.
    """

    ticket: int
    topics: Collection[str]


# Readings, statuses and logs.


@dataclass(frozen=True, slots=True, kw_only=True)
class TellRunning:
    """The task goes on after a pause."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TellPaused:
    """The task is paused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TellRetry:
    """So many records could not be put for this reason, and are put again in so many seconds."""

    record_count: int
    reason: str
    pause_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TellCommitted:
    """Offsets are committed, which took so many seconds."""

    took_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TellCommitFailed:
    """Offsets are not committed."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TellCommitLate:
    """There was no answer to a commit within so many seconds, and it is waited for no longer."""

    timeout_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Warn:
    """Log this."""

    message: str


ConsumerAction = LeaveGroup | Read | Pause | Resume | Seek | CommitOffsets | CloseConsumer
TaskAction = OpenPartitions | ClosePartitions | Convert | Put | PreCommit | SettleReports | StopTask
ClusterAction = IdentifyTopics | AskTopicIds
Telling = TellRunning | TellPaused | TellRetry | TellCommitted | TellCommitFailed | TellCommitLate | Warn
Action = ConsumerAction | TaskAction | ClusterAction | Telling
