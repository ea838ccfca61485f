"""One look at the logs for one fetch: what a reader can be given, within its limits. Pure but for the logs.

A fetch looks at the dirty partitions of its session, which for a fetch without a session are all that it names. Each
partition is checked (who may read it here, leader epochs, where the reader's log parts from this one) and read: up to
the log's end for a follower, up to the high watermark for anybody else. That a follower asks for an offset tells that
it has everything before; this is noted with the first look at what it asks. Readers of committed records are given
records up to the last stable offset, and told which transactions among them were aborted; they leave those out.

Source of the rules: Kafka's ReplicaManager and Partition.
"""

from collections.abc import Callable
from contextlib import suppress
from itertools import islice
from typing import Final, NamedTuple, Protocol

from kio.schema.errors import ErrorCode

from ottla_broker.fetch_sessions import NEVER_TOLD, FetchSession, Named, SessionPartition
from ottla_broker.log.partition.read_isolation import ReadIsolation, isolation_of
from ottla_broker.log.segments.log_slice import LogSlice
from ottla_broker.partition import Partition
from ottla_broker.replica.follower_replica import NO_BYTES
from ottla_broker.replica.leader_replica import FollowerContact
from ottla_broker.replica.longest_log import LogReach
from ottla_broker.replication.doubtful_log import check_may_be_followed_by, heard_of_log
from ottla_core.errors import KafkaError, OffsetOutOfRange
from ottla_core.wire.fetch_response import NO_PREFERRED_REPLICA, PartitionFetched
from ottla_core.wire.replica_fetch_request import PartitionFetch

NO_EPOCH = -1
LOOKS_MAX: Final = 10_000
"""Partitions that a fetch of a session looks at, which takes some 50 ms."""

Outcome = PartitionFetched[LogSlice]


class PartitionSource(Protocol):
    """Where partitions are found."""

    def leader_of(self, named: Named, index: int) -> Partition:
        """Return a partition that this broker leads.

        Raises:
            KafkaError: there is none.
        """

    def replica_of(self, named: Named, index: int) -> Partition:
        """Return a partition that this broker holds a replica of.

        Raises:
            KafkaError: there is none.
        """

    def readable_replica(self, named: Named, index: int) -> Partition:
        """Return a partition that this broker leads, or follows while somebody else does.

        Raises:
            KafkaError: there is none.
        """


class FetchTerms(NamedTuple):
    """What a request and the settings say of all its partitions alike.

    Attributes:
        bytes_max: the most to return in all, but for the first batch.
        only_leader: whether the reader knows nothing of reading from followers.
        read_committed: whether the reader wants committed records only.
        preferred_replica: names the replica, other than this one, that a reader had better read an offset of a
            partition from, or `NO_PREFERRED_REPLICA`; None for readers who are at home here.
        is_withheld: says of which partitions a follower must wait for records; None if of none.
        check_may_read: raises KafkaError for a topic that the reader may not read; None if it may read all.
    """

    bytes_max: int
    only_leader: bool
    read_committed: bool
    preferred_replica: Callable[[Partition, int], int] | None = None
    is_withheld: Callable[[Partition], bool] | None = None
    check_may_read: Callable[[Named], None] | None = None


class Found(NamedTuple):
    """What became of one partition.

    Attributes:
        partition: None if it cannot be read here.
        stays_dirty: whether the next look has to include it again.
    """

    wanted: SessionPartition
    partition: Partition | None
    outcome: Outcome
    stays_dirty: bool


class Reading:
    """What one look found.

    Attributes:
        isolation: how far the reader may read.
        found: what the reader is to be told, in order.
        size_bytes: records that were found.
        left_bytes: how many more the response may take.
        is_urgent: whether something other than records has to be told at once.
        has_hidden_records: whether there are records that this reader may not see yet.
    """

    __slots__ = ("found", "has_hidden_records", "is_urgent", "isolation", "left_bytes", "size_bytes")

    def __init__(self, left_bytes: int, isolation: ReadIsolation) -> None:
        self.isolation = isolation
        self.found: list[Found] = []
        self.size_bytes = 0
        self.left_bytes = left_bytes
        self.is_urgent = False
        self.has_hidden_records = False

    @property
    def is_full(self) -> bool:
        """Whether no more records fit. The first batch always does, so that a reader makes progress."""
        return self.left_bytes <= 0 and self.size_bytes > 0


def look(session: FetchSession, terms: FetchTerms, source: PartitionSource, *, only_news: bool) -> Reading:
    """Look at the dirty partitions of a session.

    Of a session that has very many of them the first ones are looked at, and the reader is answered at once so that
    it comes for the others. Followers are not held up in this way.

    Args:
        session: the reader's.
        terms: what the request says.
        source: where partitions are found.
        only_news: leave out what the reader knows already, and look at it no more until something happens to it.
    """
    isolation = isolation_of(is_replica=session.follower is not None, read_committed=terms.read_committed)
    reading = Reading(terms.bytes_max, isolation)
    # Requests of a session may be small however large it is, so the number of looks is limited in its stead.
    looks_max = LOOKS_MAX if only_news and session.follower is None else None
    reading.is_urgent = looks_max is not None and len(session.dirty) > looks_max
    for wanted in tuple(islice(session.dirty, looks_max)):
        if only_news and reading.is_full and not (wanted.is_unrecorded and session.follower):
            continue
        found = _look_at(wanted, session, terms, source, reading)
        records = found.outcome.records
        if records is not None:
            reading.left_bytes -= records.size
            reading.size_bytes += records.size
        # An answer to a fetch that claims nothing is news by itself: the reader may have let go of the one before, as
        # the leader epoch had changed meanwhile, and claims nothing until it has one.
        if not only_news or _claims_nothing(wanted.asked, session) or _is_news(wanted, found.outcome):
            reading.found.append(found)
        elif not found.stays_dirty and found.partition is not None:
            session.settle(wanted, found.partition)
    return reading


def note_told(session: FetchSession, reading: Reading) -> None:
    """Note in a session what its reader has been told."""
    for wanted, partition, outcome, stays_dirty in reading.found:
        if outcome.error_code is not ErrorCode.none or _is_sent_elsewhere(outcome):
            # The reader heeds nothing else of it, so it has to hear the rest when it comes again.
            wanted.told_high_watermark = NEVER_TOLD
            session.move_to_end(wanted)  # so that the others have their turn
            continue
        wanted.told_high_watermark = outcome.high_watermark
        wanted.told_log_start_offset = outcome.log_start_offset
        if outcome.records is not None:
            session.move_to_end(wanted)
        elif not stays_dirty and partition is not None:
            session.settle(wanted, partition)


def _claims_nothing(asked: PartitionFetch, session: FetchSession) -> bool:
    """Return whether a follower wants to hear no more than that this broker leads."""
    return session.follower is not None and asked.max_bytes == NO_BYTES


def _is_sent_elsewhere(outcome: Outcome) -> bool:
    """Return whether the reader has to do something else before there is anything for it here."""
    return outcome.diverging_epoch is not None or outcome.preferred_replica != NO_PREFERRED_REPLICA


def _is_news(wanted: SessionPartition, outcome: Outcome) -> bool:
    """Return whether the reader does not know an outcome yet. Source: Kafka's CachedPartition."""
    return (
        outcome.records is not None
        or outcome.error_code is not ErrorCode.none
        or outcome.high_watermark != wanted.told_high_watermark
        or outcome.log_start_offset != wanted.told_log_start_offset
        or _is_sent_elsewhere(outcome)
    )


def _look_at(
    wanted: SessionPartition, session: FetchSession, terms: FetchTerms, source: PartitionSource, reading: Reading
) -> Found:
    asked = wanted.asked
    try:
        if terms.check_may_read is not None:
            terms.check_may_read(wanted.named)
        find = source.leader_of if terms.only_leader else source.readable_replica
        partition = find(wanted.named, asked.partition)
        if asked.current_leader_epoch != NO_EPOCH:
            partition.check_epoch(asked.current_leader_epoch)
        if session.follower is not None:
            check_may_be_followed_by(partition, session.follower.broker_id)
        else:
            partition.check_readable()
        if asked.last_fetched_epoch != NO_EPOCH:
            diverging = diverging_epoch(partition, asked.last_fetched_epoch, asked.fetch_offset)
            if diverging is not None:
                reading.is_urgent = True
                return Found(wanted, partition, _outcome(partition, terms, None, diverging), True)
        if terms.preferred_replica is not None:
            preferred = terms.preferred_replica(partition, asked.fetch_offset)
            if preferred != NO_PREFERRED_REPLICA:
                reading.is_urgent = True
                return Found(wanted, partition, _outcome(partition, terms, None, None, preferred), True)
        return _read(wanted, partition, session, terms, reading)
    except KafkaError as error:
        if session.follower is not None and error.code is ErrorCode.not_leader_or_follower:
            _note_reach(asked, wanted.named, session.follower, source)
        reading.is_urgent = True
        outcome: Outcome = PartitionFetched(asked.partition, error.code, read_committed=terms.read_committed)
        return Found(wanted, None, outcome, True)


def _note_reach(asked: PartitionFetch, named: Named, follower: FollowerContact, source: PartitionSource) -> None:
    """Have a replica that does not lead yet know how far the log of a follower reaches, which is all it needs."""
    with suppress(KafkaError):
        partition = source.replica_of(named, asked.partition)
        reach = LogReach(asked.last_fetched_epoch, asked.fetch_offset, asked.max_bytes != NO_BYTES)
        heard_of_log(partition, follower, reach, leader_epoch=asked.current_leader_epoch)


def diverging_epoch(partition: Partition, last_epoch: int, offset: int) -> tuple[int, int] | None:
    """Return where the reader's log parts from this one, as an epoch and its end, or None if it does not (KIP-595).

    Raises:
        OffsetOutOfRange: this log says nothing of that epoch, or begins behind the offset.
    """
    log = partition.log
    epoch, end_offset = log.end_offset_for_epoch(last_epoch)
    if epoch == NO_EPOCH or offset < log.log_start_offset:
        raise OffsetOutOfRange(f"nothing is known of epoch {last_epoch} at {offset} in {partition.topic_partition}")
    return (epoch, end_offset) if epoch < last_epoch or end_offset < offset else None


def _read(
    wanted: SessionPartition, partition: Partition, session: FetchSession, terms: FetchTerms, reading: Reading
) -> Found:
    asked = wanted.asked
    offset = asked.fetch_offset
    follower = session.follower
    records = None
    claims_nothing = _claims_nothing(asked, session)
    if claims_nothing:
        reading.is_urgent = True  # it fetches records only when it has heard
    if not reading.is_full and not claims_nothing and (terms.is_withheld is None or not terms.is_withheld(partition)):
        records = partition.read(
            offset,
            min(asked.max_bytes, max(reading.left_bytes, 0)),
            at_least_one_batch=reading.size_bytes == 0,
            isolation=reading.isolation,
            follower=None if follower is None else follower.broker_id,
        )
    log = partition.log
    if not log.log_start_offset <= offset <= log.log_end_offset:
        # Also if nothing was read as the response is full: a reader that is not told now might never be asked again.
        raise OffsetOutOfRange(f"{partition.topic_partition} has no offset {offset}")
    visible_end_offset = partition.end_for(reading.isolation)
    is_behind = offset < visible_end_offset
    if follower is None:
        if visible_end_offset < log.log_end_offset:
            reading.has_hidden_records = True
    elif (
        not claims_nothing
        and log.log_start_offset <= offset <= log.log_end_offset
        and (wanted.is_unrecorded or _is_forgotten(partition, follower))
    ):
        partition.record_follower_fetch(follower, offset=offset, log_start_offset=asked.log_start_offset)
        wanted.is_unrecorded, wanted.followed = False, partition
    outcome = _outcome(partition, terms, records)
    if records is not None and terms.read_committed and follower is None:
        outcome.aborted = log.aborted_in(offset, records)
    return Found(wanted, partition, outcome, is_behind)


def _is_forgotten(partition: Partition, follower: FollowerContact) -> bool:
    """Return whether the leader does not know any more what the follower has claimed.

    The session need not have heard of that: it watches no partition that has news already. And a follower that has
    nothing to copy does not ask anew by itself.
    """
    return partition.leader is not None and partition.leader.has_forgotten(follower.broker_id)


def _outcome(
    partition: Partition,
    terms: FetchTerms,
    records: LogSlice | None,
    diverging: tuple[int, int] | None = None,
    preferred_replica: int = NO_PREFERRED_REPLICA,
) -> Outcome:
    """Return an outcome with the log's offsets."""
    log = partition.log
    return PartitionFetched(
        partition.topic_partition.partition,
        ErrorCode.none,
        log.high_watermark,
        partition.last_stable_offset,
        log.log_start_offset,
        records,
        terms.read_committed,
        diverging,
        None,
        preferred_replica,
    )
