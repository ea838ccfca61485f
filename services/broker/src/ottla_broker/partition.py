"""One partition on this broker: its role, its log, and who waits for what happens to it. Pure but for the log.

A partition leads or follows as the cluster state says. Requests and fetchers reach its log only through here, so
that every append and read is checked against the leadership that the caller believes in. As the leader it keeps the
high watermark (`replica/leader_replica.py`); as a follower it takes over the leader's log
(`replica/follower_replica.py`).
"""

from dataclasses import replace
from functools import partial
from typing import Final
from uuid import UUID

import structlog

from ottla_broker.log.appends.append_result import AppendResult
from ottla_broker.log.appends.append_validation import AppendOrigin
from ottla_broker.log.appends.unpacking import LookedInto
from ottla_broker.log.partition.partition_log import PartitionLog
from ottla_broker.log.partition.read_isolation import ReadIsolation
from ottla_broker.log.producers.verification import VerificationGuard
from ottla_broker.log.segments.log_slice import LogSlice
from ottla_broker.partition_context import PartitionWatcher, ReplicationContext, ReplicationNotice
from ottla_broker.partition_refusals import check_leader_epoch, not_leader, takes_no_writes, too_few_replicas
from ottla_broker.replica.follower_replica import FetchPosition
from ottla_broker.replica.leader_replica import FollowerContact, IsrProposal, LeaderReplica
from ottla_broker.replica.longest_log import LogReach, LongestLogSearch
from ottla_broker.replica.loss_read_limit import end_at_loss
from ottla_broker.replication_waits import ReplicationWaits
from ottla_core.cluster.state.model import NO_EPOCH, PartitionState
from ottla_core.errors import KafkaError, NotLeaderOrFollower
from ottla_core.topic_partition import TopicPartition
from ottla_core.wire.record_batch import Buffer

_logger: Final = structlog.get_logger("links")


class Partition:
    """A replica that this broker holds.

    Attributes:
        context: what it shares with this broker's other partitions.
        traffic: counts what goes into and out of its topic.
        state: what the controller decided last.
        leads: whether this broker is the leader under its present registration.
        was_begun_anew: the log stands in place of one that has been here, and has not come as far as what is
            committed. Who counts this replica as one that has every committed record goes by the former log.
        awaits_first_answer: no leader has answered a fetch since the log was begun anew. Until then fetches claim
            nothing: the leader of an empty partition would have this replica elected by its first fetch, before the
            answer tells that nothing is committed, and this replica would take that as due to its former log.
        loss_was_told: the controller has once taken note that this replica has lost its log.
        has_lost_log: the log had to be begun anew although this replica counts as one that has every committed
            record. It neither leads nor follows until the controller has taken it out of the in-sync set.
        holds_readers: consumers have to wait, since records are about to be cut off; see `links.linked_leading`.
        cut_in_epoch: the leader epoch in which records were cut off here, or `NO_EPOCH`. Under it consumers read
            nothing more and nothing is appended: only a later one tells consumers to compare their positions.
        search: for the longest log, while this replica was elected and does not lead, as it may lack records that
            others have.
    """

    __slots__ = (
        "_leader",
        "_led_epoch",
        "_may_have_left_open",
        "_unreplicated",
        "_watchers",
        "awaits_first_answer",
        "context",
        "cut_in_epoch",
        "has_lost_log",
        "holds_readers",
        "leads",
        "log",
        "loss_was_told",
        "search",
        "state",
        "topic_id",
        "topic_partition",
        "traffic",
        "was_begun_anew",
    )

    def __init__(
        self, topic_partition: TopicPartition, log: PartitionLog, context: ReplicationContext, state: PartitionState
    ) -> None:
        self.topic_partition = topic_partition
        self.topic_id: UUID = state.topic_id
        self.log = log
        self.state = state
        self.leads = False
        self.has_lost_log = False
        self.was_begun_anew = False
        self.awaits_first_answer = False
        self.loss_was_told = False
        self.holds_readers = False
        self.cut_in_epoch = NO_EPOCH
        self.search: LongestLogSearch | None = None
        self.context = context
        self.traffic = context.traffic.of(topic_partition.topic)
        self._leader: LeaderReplica | None = None
        self._led_epoch = NO_EPOCH
        self._may_have_left_open = False
        self._watchers: set[PartitionWatcher] = set()
        self._unreplicated = ReplicationWaits()
        log.when_failed(self._log_failed)

    @property
    def broker_id(self) -> int:
        """This broker."""
        return self.context.broker_id

    @property
    def has_failed_log(self) -> bool:
        """Whether the log takes no more appends until this broker is restarted, and may lose what was not fsynced.

        Such a replica counts for nothing: it moves no high watermark and claims no offsets, and leads on, for readers
        alone, only while nobody else can.
        """
        return self.log.failure is not None

    @property
    def lacks_records(self) -> bool:
        """Whether the disk has lost committed records of the log.

        Such a replica is out of the in-sync set before it could be elected, unless nobody else has everything: then
        it leads, if its log is the longest, as what it has is better than nothing, until somebody else can. It
        follows nobody before it is out of the set, and then copies again all from the first lost record on.
        """
        return self.log.lost_from is not None

    @property
    def knows_of_lost_end(self) -> bool:
        """Whether the last of the committed records are lost here, so that any other log may be longer."""
        return self.log.lost_from is not None and self.log.lost_from >= self.log.log_end_offset

    def tell_if_unfit(self) -> None:
        """Have the controller know of a log that has failed or lacks records."""
        if self.has_failed_log or self.lacks_records:
            self._log_failed()

    def _log_failed(self) -> None:
        if self.context.on_failed_log is not None:
            self.context.on_failed_log(self)

    @property
    def is_only_replica(self) -> bool:
        """Whether nobody else can be elected, so that leadership outlives a lost registration."""
        return self.state.replicas == (self.broker_id,)

    @property
    def min_in_sync_replicas(self) -> int:
        """`min.insync.replicas`, but no more than there are replicas. Source: Kafka's Partition.effectiveMinIsr."""
        return min(self.log.config.min_insync_replicas, len(self.state.replicas))

    @property
    def leader(self) -> LeaderReplica | None:
        """What this broker knows of the followers, while it leads."""
        return self._leader

    def apply(self, state: PartitionState, *, leads: bool) -> None:
        """Take over what the controller decided; a new leader epoch is recorded in the log."""
        former, led = self.state, self.leads
        if leads and self.broker_id not in state.isr:  # an only replica goes on, though nobody has elected it
            state = replace(state, isr=(self.broker_id,), eligible_leaders=())
        self.state = state
        if self.counts_as_complete(state) and not self.counts_as_complete(former) and not self.knows_of_lost_end:
            self.log.may_lack_end = False  # a leader above doubt has taken it in, or it was found to be the longest
        if not leads:
            self.search = None
        leads = self.leads = leads and not self._must_search()
        if leads:
            if self.is_only_replica:
                self.log.lost_from = None  # nobody has what is lost, and what is here is all that there is
            now_ms = self.context.monotonic_ms()
            if self._leader is None or self._leader.state.leader_epoch != state.leader_epoch:
                if state.link is None:  # else all epochs in the log are the source's
                    self.log.start_leader_epoch(state.leader_epoch)
                self._leader = LeaderReplica(
                    self.broker_id,
                    state,
                    self.log.log_end_offset,
                    now_ms,
                    led_this_epoch_before=self._led_epoch == state.leader_epoch,
                )
                self._led_epoch = state.leader_epoch
                self.log.void_verifications()  # another leader may have ended what was open when they were begun
            else:
                self._leader.take_over(state, now_ms)
            self.advance_high_watermark()
            self._may_have_left_open = self.log.has_open_transactions
        else:
            self._leader = None
            self._may_have_left_open = False
            self._unreplicated.give_up(self.not_leader)
            self.log.void_verifications()
        if led != leads or former is not state:
            self.tell_change()
            self.tell_if_unfit()
            self._tell_link(former)
        self.end_left_open()

    # Whether another log is longer

    def _must_search(self) -> bool:
        """Begin, or go on with, a search for the longest log if this replica must not lead without one."""
        if self.is_only_replica or not self.log.may_lack_end:
            self.search = None
            return False
        if self.search is None or self.search.leader_epoch != self.state.leader_epoch:
            self.search = LongestLogSearch(
                self.broker_id, self.state.leader_epoch, self._log_reach(), self.context.monotonic_ms()
            )
        if self.context.on_search is not None:
            self.context.on_search(self)
        return True

    def _log_reach(self) -> LogReach:
        return LogReach(self.log.leader_epochs.latest, self.log.log_end_offset, not self.lacks_records)

    def counts_as_complete(self, state: PartitionState) -> bool:
        """Return whether a state takes this replica for one that has every committed record, and may lead."""
        return self.broker_id in state.isr or self.broker_id in state.eligible_leaders

    def step_down(self) -> None:
        """Lead no longer, whatever the state says: the partition is about to go."""
        self.leads = False
        self.search = None
        self._leader = None
        self._may_have_left_open = False
        self._unreplicated.give_up(self.not_leader)
        self.log.void_verifications()
        self.tell_change()
        self._tell_link(self.state)

    def check_epoch(self, leader_epoch: int) -> None:
        """Compare the leader epoch that somebody knows (-1: none) with the present one.

        Raises:
            FencedLeaderEpoch: theirs is older.
            UnknownLeaderEpoch: theirs is newer than what this broker has heard of.
        """
        check_leader_epoch(self.topic_partition, leader_epoch, self.state.leader_epoch)

    # Giving up what was written here

    def hold_readers(self) -> None:
        """Have consumers wait who would read here, until a later leader epoch or `release_readers`."""
        self.holds_readers = True
        self.tell_change()

    def release_readers(self) -> None:
        """Have consumers wait no longer, unless records were cut off under this leader epoch."""
        self.holds_readers = False
        self.tell_change()

    @property
    def may_be_cut(self) -> bool:
        """Whether the log's last record is from before it followed a source, and may be none of the source's."""
        return NO_EPOCH < self.log.leader_epochs.latest <= self.state.set_aside_up_to

    @property
    def was_cut(self) -> bool:
        """Whether records were cut off under the present leader epoch."""
        return self.cut_in_epoch == self.state.leader_epoch != NO_EPOCH

    def check_readable(self) -> None:
        """See that what consumers read here is not about to be cut off, or has been without their knowing.

        Raises:
            NotLeaderOrFollower: it is; clients come again.
        """
        if self.holds_readers or self.was_cut:
            raise NotLeaderOrFollower(f"{self.topic_partition} gives up records that its source does not have")

    # Leading

    def append(
        self,
        records: bytes | memoryview,
        *,
        now_ms: int,
        all_in_sync: bool,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        looked_into: LookedInto | None = None,
        verification: VerificationGuard | None = None,
        transaction_version: int | None = None,
    ) -> AppendResult:
        """Append one batch as the leader.

        Args:
            records: exactly one record batch.
            now_ms: the broker's clock, for timestamps.
            all_in_sync: whether the producer waits for all in-sync replicas (acks=all).
            origin: who has made the batch.
            looked_into: what the log's `look_into` returned for it.
            verification: the guard with which a client's batch may begin a transaction; see `needs_verification`.
            transaction_version: of the transaction that a marker ends; a marker needs it.

        Raises:
            KafkaError: the batch is refused; the log is unchanged.
        """
        leader = self._leader
        if leader is None:
            raise self.not_leader()
        if self.state.link is not None:
            self.check_takes_writes()
        if self._may_have_left_open:  # else a producer of the same id would go on with another cluster's transaction
            self._abort_left_open(leader)
        if all_in_sync and len(self.state.isr) < self.min_in_sync_replicas:
            in_sync, asked_for = len(self.state.isr), self.min_in_sync_replicas
            raise too_few_replicas(self.topic_partition, in_sync, asked_for, in_log=self.log.has_batch(records))
        former_end_offset = self.log.log_end_offset
        appended = self.log.append_as_leader(
            records,
            leader_epoch=self.state.leader_epoch,
            now_ms=now_ms,
            origin=origin,
            looked_into=looked_into,
            verification=verification,
            transaction_version=transaction_version,
        )
        if not appended.duplicate:
            self.has_grown(leader, former_end_offset, len(records))
            traffic = self.traffic
            traffic.produced_bytes += len(records)
            traffic.produced_records += appended.last_offset - appended.base_offset + 1
        return appended

    def end_left_open(self) -> None:
        """End what a source has left open here, if that is due; the next write or look tries again what fails."""
        leader = self._leader
        if leader is None or not self._may_have_left_open:
            return
        try:
            self._abort_left_open(leader)
        except KafkaError as error:
            _logger.warning(
                "transactions of a source could not be ended; trying again",
                partition=str(self.topic_partition),
                error=error.message,
            )

    def _abort_left_open(self, leader: LeaderReplica) -> None:
        """Append the markers for it, as the leader of a partition that follows no source any more."""
        log = self.log
        if self.state.link is not None:  # markers come from the source, which may have been promoted in its turn
            return
        former_end_offset = log.log_end_offset
        size_bytes = 0
        try:
            size_bytes = log.abort_left_open(leader_epoch=self.state.leader_epoch, now_ms=self.context.time_ms())
            self._may_have_left_open = False
        finally:
            if log.log_end_offset != former_end_offset:
                self.has_grown(leader, former_end_offset, size_bytes)

    def needs_verification(self, records: Buffer) -> bool:
        """Return whether a client's batch begins a transaction here, of which its coordinator has to be asked."""
        return self.log.transactions.needs_verification(records)

    def begin_verification(
        self, producer_id: int, producer_epoch: int, base_sequence: int, *, supports_epoch_bump: bool
    ) -> VerificationGuard:
        """Return the guard with which a batch that begins a transaction may be appended.

        It is to be taken before the coordinator is asked, and becomes void by whatever shows that the answer may no
        longer hold: a marker, a later epoch, a new leader epoch; or that it has been used.

        Args:
            producer_id: the producer.
            producer_epoch: its epoch.
            base_sequence: the batch's.
            supports_epoch_bump: whether the epoch is raised at each end of a transaction (version 2).

        Raises:
            NotLeaderOrFollower: this broker does not lead.
            InvalidProducerEpoch: a later epoch of the producer has been seen.
        """
        if self._leader is None:
            raise self.not_leader()
        return self.log.transactions.begin_verification(
            producer_id, producer_epoch, base_sequence, supports_epoch_bump=supports_epoch_bump
        )

    def stands(self, guard: VerificationGuard) -> bool:
        """Return whether a guard has not become void."""
        return self.log.transactions.verifications.is_valid(guard, guard.producer_id, guard.producer_epoch)

    def has_grown(self, leader: LeaderReplica, former_end_offset: int, size_bytes: int) -> None:
        """Take note of what was appended as the leader."""
        if leader.followers:
            leader.appended(former_end_offset, self.context.monotonic_ms())
        if leader.is_alone:
            self.advance_high_watermark()
        if self._watchers:
            for watcher in tuple(self._watchers):
                watcher.on_append(self, size_bytes)

    def check_takes_writes(self) -> None:
        """See that the partition's records are not those of another cluster.

        Raises:
            PolicyViolation: they are; no client tries again.
        """
        if self.state.link is not None:
            raise takes_no_writes(self.topic_partition.topic, self.context.name_of_link(self.state.link))

    def when_replicated(self, end_offset: int, notify: ReplicationNotice, *, leader_epoch: int) -> None:
        """Have `notify` called, now or later, when every in-sync replica has what lies below an offset.

        It is told an error if this broker leads no longer by then, so that the records may get lost, or if the
        in-sync set has become too small. `leader_epoch` is the one in which the records were appended: if there was
        an election since, those of another leader may lie below the offset.
        """
        if self._leader is None:
            notify(self.not_leader())
        elif self.state.leader_epoch != leader_epoch:
            notify(NotLeaderOrFollower(f"{self.topic_partition} was no longer at leader epoch {leader_epoch}"))
        elif self.log.high_watermark >= end_offset:
            notify(self._too_few_replicas())
        else:
            self._unreplicated.add(end_offset, notify)

    def no_longer_wait(self, notify: ReplicationNotice) -> None:
        """Undo `when_replicated`."""
        self._unreplicated.remove(notify)

    def record_follower_fetch(self, contact: FollowerContact, *, offset: int, log_start_offset: int) -> None:
        """Note that a follower has everything below `offset`, because it fetches from there.

        Raises:
            NotLeaderOrFollower: this broker does not lead, or the other one holds no replica.
        """
        leader = self._leader
        if leader is None:
            raise self.not_leader()
        progress = leader.followers.get(contact.broker_id)
        if progress is None:
            raise NotLeaderOrFollower(f"broker {contact.broker_id} holds no replica of {self.topic_partition}")
        if progress.contact is not None and contact.broker_epoch < progress.contact.broker_epoch:
            raise NotLeaderOrFollower(f"broker {contact.broker_id} has fetched under a later registration already")
        progress.fetched(contact, offset, log_start_offset, self.log.log_end_offset)
        self.advance_high_watermark()
        tell = self.context.on_out_of_sync_fetch
        if tell is not None and contact.broker_id not in self.state.isr:
            tell(self)

    def follower_has_left(self, broker_id: int) -> None:
        """Note that a follower fetches this partition no longer, though perhaps others that this broker leads."""
        if self._leader is not None:
            self._leader.stopped_fetching(broker_id)

    def advance_high_watermark(self) -> None:
        """Move the high watermark to where the replicas allow; a passing of time can be the reason too."""
        leader = self._leader
        if leader is None:
            return
        context = self.context
        log = self.log
        if log.high_watermark == log.log_end_offset:
            return
        if log.failure is not None:  # its own records may be lost, so they must not count as replicated to it
            return
        if not leader.followers and not self.state.eligible_leaders:
            self.set_high_watermark(log.log_end_offset)  # as below, for the many logs that have one replica
            return
        high_watermark = leader.high_watermark(
            log.high_watermark,
            log.log_end_offset,
            min_in_sync_replicas=self.min_in_sync_replicas,
            now_ms=context.monotonic_ms(),
            lag_max_ms=context.lag_max_ms,
            live=context.live_brokers,
        )
        self.set_high_watermark(high_watermark)

    def forget_followers(self, reason: str) -> None:
        """Forget what is known of the followers, since their logs may have what was cut off here.

        Args:
            reason: told to those who wait for records to be replicated.
        """
        self._unreplicated.give_up(lambda: NotLeaderOrFollower(reason))
        self._leader = LeaderReplica(
            self.broker_id,
            self.state,
            self.log.log_end_offset,
            self.context.monotonic_ms(),
            led_this_epoch_before=True,
        )
        self.tell_change()

    def isr_proposal_refused(self, proposal: IsrProposal) -> None:
        """Note that the controller refused what `propose_isr` returned."""
        if self._leader is not None:
            self._leader.refused(proposal)
            self.advance_high_watermark()

    def leads_without_registration(self, within_ms: int) -> bool:
        """Return whether nobody else can have been elected, although this broker's registration may have lapsed."""
        if self._leader is None:
            return False
        return self.is_only_replica or self._leader.cannot_be_replaced(
            self.context.monotonic_ms(),
            within_ms,
            allows_unclean=self.log.config.unclean_leader_election_enable,
        )

    # Following

    def fetch_position(self) -> FetchPosition:
        """Return from where this replica has to fetch."""
        log = self.log
        return FetchPosition(
            log.log_end_offset,
            log.leader_epochs.latest,
            self.state.leader_epoch,
            log.log_start_offset,
            claims_all=not (self.lacks_records or self.awaits_first_answer),
        )

    # Reading

    @property
    def last_stable_offset(self) -> int:
        """Below it every transaction is decided, and the decision replicated; at most the high watermark."""
        return self.log.last_stable_offset

    def end_for(self, isolation: ReadIsolation) -> int:
        """Return the offset at which the partition ends for a reader."""
        if isolation is ReadIsolation.LOG_END:
            return self.log.log_end_offset
        return self.log.high_watermark if isolation is ReadIsolation.HIGH_WATERMARK else self.last_stable_offset

    def read(
        self,
        offset: int,
        max_bytes: int,
        *,
        at_least_one_batch: bool,
        isolation: ReadIsolation = ReadIsolation.HIGH_WATERMARK,
        follower: int | None = None,
    ) -> LogSlice | None:
        """Return record data from `offset` up to where the reader may read, or None if there is none.

        Args:
            offset: where to start.
            max_bytes: the most to return.
            at_least_one_batch: return the first batch even if it is larger.
            isolation: how far the reader may read.
            follower: which broker it is that follows, for its log is not to get a gap that need not be.

        Raises:
            OffsetOutOfRange: the offset is before the log start or after the end.
        """
        log = self.log
        end_offset = self.end_for(isolation)
        if follower is not None and log.lost_from is not None:
            end_offset = end_at_loss(
                offset,
                log.lost_from,
                end_offset,
                contiguous_end=log.contiguous_end,
                another_may_reach_beyond=partial(self._another_may_reach_beyond, follower),
            )
        return log.read(offset, max_bytes=max_bytes, end_offset=end_offset, at_least_one_batch=at_least_one_batch)

    def _another_may_reach_beyond(self, follower: int, offset: int) -> bool:
        context = self.context
        return self._leader is not None and self._leader.another_may_reach_beyond(
            offset,
            follower,
            now_ms=context.monotonic_ms(),
            lag_max_ms=context.lag_max_ms,
            live=context.live_brokers,
        )

    def watch(self, watcher: PartitionWatcher) -> None:
        """Tell `watcher` what happens from now on."""
        self._watchers.add(watcher)

    def unwatch(self, watcher: PartitionWatcher) -> None:
        """Undo `watch`."""
        self._watchers.discard(watcher)

    def not_leader(self) -> NotLeaderOrFollower:
        """Return the error for a request that only the leader can serve."""
        return not_leader(self.topic_partition, self.state, self.broker_id)

    def set_high_watermark(self, offset: int) -> None:
        """Move the high watermark, and tell those who wait for it."""
        if offset == self.log.high_watermark:
            return
        self.log.high_watermark = offset
        self.log.forget_replicated_transactions()
        for watcher in tuple(self._watchers):
            watcher.on_high_watermark(self)
        self._unreplicated.release(offset, self._too_few_replicas)

    def _too_few_replicas(self) -> KafkaError | None:
        """Return the error for records that are replicated, but to fewer replicas than asked for."""
        assert self._leader is not None
        in_sync, asked_for = self._leader.in_sync_count_max, self.min_in_sync_replicas
        return (
            None if in_sync >= asked_for else too_few_replicas(self.topic_partition, in_sync, asked_for, in_log=True)
        )

    def _tell_link(self, former: PartitionState) -> None:
        if self.context.on_link is not None and (self.state.link or former.link) is not None:
            self.context.on_link(self, former)

    def tell_change(self) -> None:
        """Have everybody look again who watches, because role, in-sync set or start offset have changed."""
        for watcher in tuple(self._watchers):
            watcher.on_change(self)
