"""The replication shell of a simulated broker: fetching from leaders, serving followers, proposing in-sync sets.

It is what `replication/fetcher.py`, `fetch_reading.py` and `replication/isr_updates.py` of the broker do with the
pure rules, without sessions, bytes and connections: a fetch asks for one partition, and is asked anew when it gets no
answer.
"""

from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING

from kio.schema.errors import ErrorCode

from ottla_broker.fetch_reading import diverging_epoch
from ottla_broker.partition import Partition
from ottla_broker.replication.follower_replica import FetchPosition
from ottla_broker.replication.isr_updates import REFUSED_FOR_ITS_CONTENT, failed_log_report, lost_log_report
from ottla_broker.replication.leader_replica import FollowerContact, IsrProposal
from ottla_core.cluster.controller_api import InSyncReplica, IsrChange
from ottla_core.cluster.model import Member
from ottla_core.errors import KafkaError, OffsetOutOfRange, StaleBrokerEpoch
from ottla_core.topic_partition import TopicPartition
from tests.simulation.fake_log import NO_RECORDS, Records
from tests.simulation.network import Answer

if TYPE_CHECKING:
    from tests.simulation.simulated_broker import SimulatedBroker

FETCH_RECORDS_MAX = 16
FETCH_WAIT_MS = 500
FETCH_TIMEOUT_MS = 1_500
FETCH_BACKOFF_MS = 200
TOLD_HIGH_WATERMARK_AFTER_MS = 10
ISR_ANSWER_TIMEOUT_MS = 1_000
ISR_RETRY_MS = 300


@dataclass(frozen=True, slots=True)
class FetchRequest:
    """A follower's request for one partition."""

    partition: TopicPartition
    follower: int
    broker_epoch: int
    position: FetchPosition


@dataclass(frozen=True, slots=True)
class FetchAnswer:
    """What the leader answers; `leader_start` and `leader_end` come with OFFSET_OUT_OF_RANGE."""

    error: ErrorCode
    records: Records = NO_RECORDS
    high_watermark: int = 0
    log_start_offset: int = 0
    diverging: tuple[int, int] | None = None
    leader_end_offset: int = 0


@dataclass(slots=True)
class _ParkedFetch:
    request: FetchRequest
    answer: Answer
    is_open: bool = True


@dataclass(slots=True)
class _Following:
    """Whom a partition is fetched from; `attempt` tells the newest fetch from earlier ones."""

    partition: Partition
    leader: int
    leader_epoch: int
    attempt: int


class Replication:
    """Both sides of replication on one broker, for one life."""

    def __init__(self, broker: "SimulatedBroker") -> None:
        self._broker = broker
        self._following: dict[TopicPartition, _Following] = {}
        self._attempts = count()
        self._lost: dict[Partition, None] = {}
        self._failed: dict[Partition, None] = {}
        self._is_reporting = False
        self._contacts: dict[int, FollowerContact] = {}
        self._parked: dict[TopicPartition, list[_ParkedFetch]] = {}
        self._told_later: set[TopicPartition] = set()
        self._due: dict[TopicPartition, Partition] = {}
        self._asked: tuple[Partition, IsrProposal] | None = None
        self._settled_by: int | None = None
        broker.after(broker.context.lag_max_ms / 2, self._check_lags)

    # Following

    def follow(self, partition: Partition, leader: Member) -> None:
        """Fetch a partition from a leader, as the reconciler asks."""
        name, epoch = partition.topic_partition, partition.state.leader_epoch
        following = self._following.get(name)
        if following is None or following.partition is not partition or following.leader_epoch != epoch:
            self._following[name] = _Following(partition, leader.id, epoch, next(self._attempts))
            self._fetch(name, self._following[name].attempt)

    def unfollow(self, partition: Partition) -> None:
        """Fetch a partition no longer."""
        following = self._following.get(partition.topic_partition)
        if following is not None and following.partition is partition:
            del self._following[partition.topic_partition]

    def on_state(self) -> None:
        """Go on if this state shows the outcome of a proposal, or who could take a failed replica's place."""
        if self._failed:
            self._broker.after(0, self._report)
        if self._settled_by is not None and self._broker.state.revision >= self._settled_by:
            self._broker.give_roles()
            self._settle()

    def _fetch(self, name: TopicPartition, attempt: int) -> None:
        following = self._following.get(name)
        if following is None or following.attempt != attempt:
            return
        broker = self._broker
        partition = following.partition
        leader = broker.cluster.brokers[following.leader]
        position = partition.fetch_position()
        request = FetchRequest(name, broker.broker_id, broker.registered_epoch, position)

        def answered(answer: FetchAnswer | None) -> None:
            following = self._following.get(name)
            if following is None or following.attempt != attempt:
                if broker.partitions.get(name) is partition:  # it crossed an election: the rules have to refuse it
                    self._take(partition, position, answer)
                return
            following.attempt = next(self._attempts)
            delay_ms = self._take(partition, position, answer)
            if delay_ms:
                broker.after(delay_ms, self._fetch, name, following.attempt)
            else:
                self._fetch(name, following.attempt)

        broker.network.call(broker, leader, leader.on_fetch, request, answered, FETCH_TIMEOUT_MS)

    def _take(self, partition: Partition, position: FetchPosition, answer: FetchAnswer | None) -> float:
        """Carry out an answer; return how long to wait before the next fetch."""
        broker = self._broker
        epoch = position.leader_epoch
        if answer is None:
            return FETCH_BACKOFF_MS
        try:
            if answer.error is ErrorCode.offset_out_of_range:
                self._find_offset(partition, epoch, answer)
            elif answer.error is not ErrorCode.none:
                return FETCH_BACKOFF_MS
            elif answer.diverging is not None:
                former = partition.log.log_end_offset
                end = partition.diverging_offset(*answer.diverging, leader_epoch=epoch)
                partition.truncate_to(end, leader_epoch=epoch, now_ms=broker.now_ms())
                broker.note("cuts {} from {} to {}: the leader says epoch {} ends at {}", partition.topic_partition,
                            former, end, *answer.diverging)  # fmt: skip
            else:
                partition.append_from_leader(
                    answer.records,  # type: ignore[arg-type]
                    leader_epoch=epoch,
                    high_watermark=answer.high_watermark,
                    log_start_offset=answer.log_start_offset,
                    now_ms=broker.now_ms(),
                )
        except KafkaError:
            return FETCH_BACKOFF_MS
        return 0.0

    def _find_offset(self, partition: Partition, epoch: int, answer: FetchAnswer) -> None:
        log = partition.log
        now_ms = self._broker.now_ms()
        if answer.leader_end_offset < log.log_end_offset:
            partition.truncate_to(answer.leader_end_offset, leader_epoch=epoch, now_ms=now_ms)
        elif answer.log_start_offset > log.log_end_offset:
            partition.restart_at(answer.log_start_offset, leader_epoch=epoch, now_ms=now_ms)
        self._broker.note("goes on with {} at {}", partition.topic_partition, log.log_end_offset)

    # Leading

    def on_fetch(self, request: FetchRequest, answer: Answer) -> None:
        """Serve a follower, now or when there is something for it."""
        broker = self._broker
        try:
            self._check_follower(request)
            partition = broker.leader_of(request.partition)
            found = self._look(partition, request)
            contact = self._contact(request)
            if found.diverging is None and found.error is ErrorCode.none:
                position = request.position
                partition.record_follower_fetch(
                    contact, offset=position.offset, log_start_offset=position.log_start_offset
                )
        except KafkaError as error:
            answer(FetchAnswer(error.code))
            return
        if found.records or found.diverging or found.error is not ErrorCode.none:
            answer(found)
            return
        parked = _ParkedFetch(request, answer)
        self._parked.setdefault(request.partition, []).append(parked)
        broker.after(FETCH_WAIT_MS, self._answer_parked, parked)

    def _check_follower(self, request: FetchRequest) -> None:
        """Refuse a fetch under a registration that is known to be replaced."""
        member = self._broker.state.brokers.get(request.follower)
        if member is not None and request.broker_epoch < member.epoch:
            raise StaleBrokerEpoch(f"broker {request.follower} has registered anew since")

    def _contact(self, request: FetchRequest) -> FollowerContact:
        contact = self._contacts.get(request.follower)
        now_ms = self._broker.now_ms()
        if contact is None or contact.broker_epoch != request.broker_epoch:
            contact = self._contacts[request.follower] = FollowerContact(
                request.follower, request.broker_epoch, now_ms
            )
        contact.last_fetch_ms = now_ms
        return contact

    def _look(self, partition: Partition, request: FetchRequest) -> FetchAnswer:
        position = request.position
        partition.check_epoch(position.leader_epoch)
        log = partition.log
        try:
            if position.last_fetched_epoch >= 0:
                diverging = diverging_epoch(partition, position.last_fetched_epoch, position.offset)
                if diverging is not None:
                    return FetchAnswer(ErrorCode.none, diverging=diverging)
            records = partition.read(position.offset, FETCH_RECORDS_MAX, at_least_one_batch=True, to_log_end=True)
        except OffsetOutOfRange as error:
            return FetchAnswer(
                error.code, log_start_offset=log.log_start_offset, leader_end_offset=log.log_end_offset
            )
        found: Records = records or NO_RECORDS  # type: ignore[assignment]
        return FetchAnswer(ErrorCode.none, found, log.high_watermark, log.log_start_offset)

    def _answer_parked(self, parked: _ParkedFetch) -> None:
        if not parked.is_open:
            return
        parked.is_open = False
        self._parked[parked.request.partition].remove(parked)
        try:
            partition = self._broker.leader_of(parked.request.partition)
            parked.answer(self._look(partition, parked.request))
        except KafkaError as error:
            parked.answer(FetchAnswer(error.code))

    def _answer_all_parked(self, name: TopicPartition) -> None:
        self._told_later.discard(name)
        for parked in tuple(self._parked.get(name, ())):
            self._answer_parked(parked)

    def on_append(self, partition: Partition, size_bytes: int) -> None:
        """Followers that wait get what is new."""
        del size_bytes
        if self._parked.get(partition.topic_partition):
            self._broker.after(0, self._answer_all_parked, partition.topic_partition)

    def on_high_watermark(self, partition: Partition) -> None:
        """Followers that wait are told a little later, for the next records may come along."""
        name = partition.topic_partition
        if partition.leads and name not in self._told_later:
            self._told_later.add(name)
            self._broker.after(TOLD_HIGH_WATERMARK_AFTER_MS, self._answer_all_parked, name)

    def on_change(self, partition: Partition) -> None:
        """Followers that wait are told that somebody else leads."""
        self._broker.role_changed(partition)
        if partition.leads:
            self.look_at(partition)
        if self._parked.get(partition.topic_partition):
            self._broker.after(0, self._answer_all_parked, partition.topic_partition)

    # Lost and failed logs

    def report_failed(self, partition: Partition) -> None:
        """Have the controller learn that a log has failed, as long as somebody could take its replica's place."""
        if partition not in self._failed:
            self._failed[partition] = None
            self._broker.give_roles_again(partition.topic_partition.topic)
        self._report()

    def report_lost(self, partition: Partition) -> None:
        """Have the controller learn that a log is lost, again and again until it has."""
        self._lost[partition] = None
        self._report()

    def _report(self) -> None:
        broker = self._broker
        self._lost = dict.fromkeys(partition for partition in self._lost if partition.has_lost_log)
        failed = [partition for partition in self._failed if partition.must_make_way(broker.state.brokers)]
        if self._is_reporting or not (self._lost or failed):
            return
        controller = broker.state.controller
        if controller is None or not broker.is_registered():
            self._report_later()
            return
        partition = next(iter(self._lost), None) or failed[0]
        change = lost_log_report(partition) if partition in self._lost else failed_log_report(partition)
        broker.note("reports that its log of {} is lost or has failed", partition.topic_partition)

        def answered(answer: tuple[ErrorCode, int] | None) -> None:
            self._is_reporting = False
            if answer is not None and answer[0] is ErrorCode.none and change.lost_log:
                partition.has_lost_log, partition.loss_was_told = False, True
                broker.give_roles_again(partition.topic_partition.topic)
            self._report_later()

        self._is_reporting = True
        target = broker.cluster.controllers[controller.id]
        request = (broker.broker_id, broker.registered_epoch, change)
        broker.network.call(broker, target, target.on_alter_partitions, request, answered, ISR_ANSWER_TIMEOUT_MS)

    def _report_later(self) -> None:
        self._broker.after(ISR_RETRY_MS, self._report)

    # In-sync sets

    def _check_lags(self) -> None:
        for partition in self._broker.partitions:
            if partition.leads:
                partition.advance_high_watermark()
                self.look_at(partition)
        self._broker.after(self._broker.context.lag_max_ms / 2, self._check_lags)

    def look_at(self, partition: Partition) -> None:
        """Have a partition's in-sync set examined."""
        self._due[partition.topic_partition] = partition
        if self._asked is None:
            self._propose()

    def _propose(self) -> None:
        broker = self._broker
        if self._asked is not None:
            return
        if not broker.is_registered():
            if self._due:
                broker.after(ISR_RETRY_MS, self._propose)
            return
        while self._due:
            _, partition = self._due.popitem()
            proposal = partition.propose_isr()
            if proposal is not None:
                self._ask(partition, proposal)
                return

    def _ask(self, partition: Partition, proposal: IsrProposal) -> None:
        """Send a proposal to whoever seems to be the controller."""
        broker = self._broker
        controller = broker.state.controller
        self._asked = (partition, proposal)
        if controller is None or not broker.is_registered():
            broker.after(ISR_RETRY_MS, self._ask_again)
            return
        change = _change(partition, proposal, broker.broker_id, broker.registered_epoch)
        broker.note("asks for isr {} in place of {} of {} (partition epoch {})", list(proposal.isr),
                    list(partition.state.isr), partition.topic_partition, proposal.partition_epoch)  # fmt: skip
        target = broker.cluster.controllers[controller.id]
        request = (broker.broker_id, broker.registered_epoch, change)
        broker.network.call(
            broker, target, target.on_alter_partitions, request, self._answered, ISR_ANSWER_TIMEOUT_MS
        )

    def _is_open(self) -> bool:
        assert self._asked is not None
        partition, proposal = self._asked
        return partition.leader is not None and partition.leader.proposal is proposal

    def _ask_again(self) -> None:
        if self._asked is None:
            return
        if self._is_open():
            self._ask(*self._asked)
        else:
            self._asked = None
            self._propose()

    def _answered(self, answer: tuple[ErrorCode, int] | None) -> None:
        assert self._asked is not None
        partition, proposal = self._asked
        if answer is None or answer[0] in (ErrorCode.not_controller, ErrorCode.stale_broker_epoch):
            self._broker.after(ISR_RETRY_MS, self._ask_again)
            return
        error, revision = answer
        if error is ErrorCode.none:
            self._settle_when_seen(revision)
            return
        self._broker.note("is refused isr {} of {}: {}", list(proposal.isr), partition.topic_partition, error.name)
        if error not in REFUSED_FOR_ITS_CONTENT:
            self._broker.after(ISR_RETRY_MS, self._ask_again)
            return
        partition.isr_proposal_refused(proposal)
        self._asked = None
        self._broker.after(ISR_RETRY_MS, self.look_at, partition)

    def _settle_when_seen(self, revision: int) -> None:
        """Go on when the outcome has reached the partition."""
        self._settled_by = revision
        self.on_state()

    def _settle(self) -> None:
        assert self._asked is not None
        partition, proposal = self._asked
        self._asked = self._settled_by = None
        if partition.leader is not None and partition.leader.proposal is proposal:
            partition.isr_proposal_refused(proposal)
        self.look_at(partition)


def _change(partition: Partition, proposal: IsrProposal, own_id: int, own_epoch: int) -> IsrChange:
    return IsrChange(
        topic_id=partition.topic_id,
        index=partition.topic_partition.partition,
        leader_epoch=proposal.leader_epoch,
        partition_epoch=proposal.partition_epoch,
        isr=tuple(
            InSyncReplica(broker_id=one, broker_epoch=own_epoch if one == own_id else epoch)
            for one, epoch in zip(proposal.isr, proposal.broker_epochs, strict=True)
        ),
    )
