"""Asking the controller for the in-sync sets that the leaders here would like to have.

Who may join or has to leave is decided by `replica/leader_replica.py`. This is the shell around it: partitions
are looked at when a follower from outside the set has fetched, when brokers come or go, and, because a follower
leaves by not fetching, every half of `replica.lag.time.max.ms`. All proposals that have come together go out as one
request; while it is under way the next ones gather. The outcome reaches a partition through the cluster state, like
everything that the controller decides; until then the leader goes by the larger of the sets in question.

Replicas here whose logs are lost or have failed are reported to the controller in the same way, whoever leads them,
and again until it has taken note. One whose log has failed, or lacks records, is reported as long as it counts and
another one could.
"""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple, Protocol

import structlog
from kio.schema.errors import ErrorCode

from ottla_broker.partition import Partition
from ottla_broker.partition_context import ReplicationContext
from ottla_broker.partition_table import PartitionTable
from ottla_broker.replica.leader_replica import IsrProposal
from ottla_broker.replication.doubtful_log import must_make_way
from ottla_broker.replication.isr_requests import change_of, failed_log_report, lost_log_report, propose_isr
from ottla_core.background import start_recurring
from ottla_core.cluster.controller_rpc.controller_api import AlteredIsr, IsrChange
from ottla_core.cluster.membership.membership import Membership
from ottla_core.cluster.state.model import ClusterState
from ottla_core.cluster.view.feed import ClusterStateFeed
from ottla_core.errors import KafkaError, RequestTimedOut

CHANGES_PER_REQUEST_MAX = 1000
LOOKED_AT_PER_TURN_MAX = 500
"""Partitions looked at in one turn of the event loop in the regular check, so that requests are not held up."""
ANSWER_TIMEOUT_SECONDS = 5.0
SEEN_TIMEOUT_SECONDS = 5.0
RETRY_SECONDS = 0.5
UNREGISTERED_RETRY_SECONDS = 0.2

REFUSED_FOR_ITS_CONTENT = frozenset({ErrorCode.ineligible_replica, ErrorCode.invalid_request})
"""With any other code the partition is in a state that this leader has not seen, perhaps one that its own proposal
has made: a set that completes a reassignment comes with another leader, and with an error."""

logger = structlog.get_logger("replication")


class IsrController(Protocol):
    """What is needed of `ControllerClient`."""

    async def alter_partitions(
        self, broker_id: int, broker_epoch: int, changes: Sequence[IsrChange], *, timeout_s: float
    ) -> tuple[list[AlteredIsr], int]:
        """Propose in-sync sets; see `ControllerClient`."""


class Roles(Protocol):
    """What is needed of `Reconciler`."""

    def give_roles(self) -> None:
        """Give the partitions held here what the newest cluster state says."""

    def give_roles_again(self, topics: Collection[str]) -> None:
        """The same, also to partitions of some topics whose state has not changed."""


class _Proposed(NamedTuple):
    """A proposal under way, and how large the set is that it replaces."""

    partition: Partition
    proposal: IsrProposal
    former_size: int

    @property
    def is_open(self) -> bool:
        """Whether the partition still waits for the outcome."""
        leader = self.partition.leader
        return leader is not None and leader.proposal is self.proposal


class IsrUpdates:
    """Keeps the in-sync sets of the partitions that this broker leads as they should be.

    Attributes:
        shrink_count: sets that were made smaller, as the controller confirmed.
        expand_count: sets that were made larger.
        failed_count: proposals that were refused or not answered.
    """

    def __init__(
        self,
        *,
        context: ReplicationContext,
        partitions: PartitionTable,
        feed: ClusterStateFeed,
        membership: Membership,
        controller: IsrController,
        reconciler: Roles,
    ) -> None:
        self._context = context
        self._partitions = partitions
        self._membership = membership
        self._controller = controller
        self._reconciler = reconciler
        self._feed = feed
        self._due: dict[Partition, None] = {}
        self._lost: dict[Partition, None] = {}
        self._failed: dict[Partition, bool] = {}  # whether it takes no more records, rather than lacking some
        self._resting: set[Partition] = set()
        self._unanswered: list[_Proposed] = []
        self._wake = asyncio.Event()
        self._retry: asyncio.TimerHandle | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._on_failed_log: Callable[[], None] = lambda: None
        self.shrink_count = 0
        self.expand_count = 0
        self.failed_count = 0

    def start(self) -> None:
        """Begin."""
        self._context.on_out_of_sync_fetch = self.look_at
        self._context.on_lost_log = self._report_loss_later
        self._context.on_failed_log = self._report_failure_later
        self._context.live_brokers = _live_brokers(self._feed.state)
        self._tasks = [
            start_recurring("in-sync sets", self._run),
            start_recurring("follower lags", self._check_lags),
        ]
        self._unsubscribe = self._feed.subscribe(self._on_state)

    async def close(self) -> None:
        """Stop; what was proposed may still be carried out."""
        self._unsubscribe()
        if self._retry is not None:
            self._retry.cancel()
        for task in self._tasks:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    def look_at(self, partition: Partition) -> None:
        """Have a partition's in-sync set examined soon."""
        if partition not in self._resting:
            self._due[partition] = None
            self._wake.set()

    def when_a_log_has_failed(self, tell: Callable[[], None]) -> None:
        """Have `tell` called for every log that fails for good, and now if one has."""
        self._on_failed_log = tell
        if any(self._failed.values()):
            tell()

    def _report_loss_later(self, partition: Partition) -> None:
        self._lost[partition] = None
        self._wake.set()

    def _report_failure_later(self, partition: Partition) -> None:
        if partition.has_failed_log and not self._failed.get(partition):
            self._failed[partition] = True
            logger.error("a replica can take no more records", partition=str(partition.topic_partition))
            self._on_failed_log()
            self._reconciler.give_roles_again({partition.topic_partition.topic})  # a follower stops fetching
        elif partition not in self._failed:
            self._failed[partition] = False
            logger.error(
                "a replica lacks committed records; another one takes its place where one can",
                partition=str(partition.topic_partition),
                lost_from=partition.log.lost_from,
            )
        self._wake.set()

    def _look_later(self, partition: Partition) -> None:
        """Examine a partition again after a pause, however often its followers fetch meanwhile."""
        self._resting.add(partition)
        asyncio.get_running_loop().call_later(RETRY_SECONDS, self._end_rest, partition)

    def _end_rest(self, partition: Partition) -> None:
        self._resting.discard(partition)
        self.look_at(partition)

    def _on_state(self, former: ClusterState, new: ClusterState) -> None:
        if former.brokers is new.brokers:
            return
        self._context.live_brokers = _live_brokers(new)
        if self._failed:
            self._wake.set()
        for partition in self._partitions:
            if partition.leads and len(partition.state.isr) < len(partition.state.replicas):
                self.look_at(partition)

    async def _check_lags(self) -> None:
        """Look at everything that is led, again and again."""
        while True:
            await asyncio.sleep(self._context.lag_max_ms / 2000)
            for position, partition in enumerate(self._partitions):
                if position % LOOKED_AT_PER_TURN_MAX == 0:
                    await asyncio.sleep(0)
                if partition.leads:
                    partition.end_left_open()
                    partition.advance_high_watermark()
                    self.look_at(partition)

    async def _run(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            try:
                await self._report_losses()
                await self._report_failures()
                await self._propose()
            except Exception:  # one partition's trouble must not leave all others with the sets they have
                logger.exception("in-sync sets could not be updated; trying again")
                await asyncio.sleep(RETRY_SECONDS)
                self._wake.set()

    def _wake_in(self, seconds: float) -> None:
        """Go on after a pause; one timer serves all who ask, or each pass would begin more of them than it ends."""
        loop = asyncio.get_running_loop()
        due = loop.time() + seconds
        if self._retry is not None:
            if self._retry.when() <= due:
                return
            self._retry.cancel()
        self._retry = loop.call_at(due, self._end_pause)

    def _end_pause(self) -> None:
        self._retry = None
        self._wake.set()

    async def _propose(self) -> None:
        """Ask for everything that is due, as far as this broker is registered."""
        if not self._membership.is_current():
            self._wake_in(UNREGISTERED_RETRY_SECONDS)
            return
        # What is asked for stays there until its outcome is known, whatever fails: it is not proposed a second time.
        self._unanswered = proposed = [earlier for earlier in self._unanswered if earlier.is_open]
        while self._due and len(proposed) < CHANGES_PER_REQUEST_MAX:
            partition, _ = self._due.popitem()
            proposal = propose_isr(partition)
            if proposal is not None:
                proposed.append(_Proposed(partition, proposal, len(partition.state.isr)))
        if self._due:
            self._wake.set()
        if proposed:
            await self._ask(proposed)

    async def _ask(self, proposed: list[_Proposed]) -> None:
        broker_epoch = self._membership.registered_epoch
        try:
            results, revision = await self._controller.alter_partitions(
                self._context.broker_id,
                broker_epoch,
                [change_of(partition, proposal, broker_epoch) for partition, proposal, _ in proposed],
                timeout_s=ANSWER_TIMEOUT_SECONDS,
            )
        except KafkaError as error:
            logger.warning("in-sync sets not updated; trying again", partitions=len(proposed), error=error.message)
            self._ask_again(len(proposed))
            return
        await self._take_over(revision)
        for each, result in zip(proposed, results, strict=True):
            if result.error_code != ErrorCode.none:
                self._refused(each, result)
            elif each.is_open:  # the partition could not be brought in step yet
                self._ask_again(1)
            else:
                self._succeeded(each)

    async def _report_losses(self) -> None:
        """Have the controller take replicas whose logs are lost out of the in-sync sets; again until it has."""
        reported = [partition for partition in self._lost if partition.has_lost_log][:CHANGES_PER_REQUEST_MAX]
        self._lost = dict.fromkeys(partition for partition in self._lost if partition.has_lost_log)
        if not reported or not self._membership.is_current():
            if reported:
                self._wake_in(UNREGISTERED_RETRY_SECONDS)
            return
        try:
            results, revision = await self._controller.alter_partitions(
                self._context.broker_id,
                self._membership.registered_epoch,
                [lost_log_report(partition) for partition in reported],
                timeout_s=ANSWER_TIMEOUT_SECONDS,
            )
            noted = await self._noted(reported, results, revision)
            for partition in noted:
                # Before its roles are given: elected again, it is so by a controller that knows that it is empty.
                partition.has_lost_log, partition.loss_was_told = False, True
                self._lost.pop(partition, None)
            self._reconciler.give_roles_again({partition.topic_partition.topic for partition in reported})
        except KafkaError as error:
            logger.warning("lost logs not reported; trying again", partitions=len(reported), error=error.message)
        if self._lost:
            self._wake_in(RETRY_SECONDS)

    async def _report_failures(self) -> None:
        """Have the controller put others in the place of replicas whose logs have failed; again until it has."""
        self._failed = {each: is_full for each, is_full in self._failed.items() if self._is_held(each)}
        held = tuple(self._failed)
        live = self._feed.state.brokers
        reported = [partition for partition in held if must_make_way(partition, live)][:CHANGES_PER_REQUEST_MAX]
        if not reported:
            return
        if self._membership.is_current():
            try:
                results, revision = await self._controller.alter_partitions(
                    self._context.broker_id,
                    self._membership.registered_epoch,
                    [failed_log_report(partition) for partition in reported],
                    timeout_s=ANSWER_TIMEOUT_SECONDS,
                )
                await self._take_over(revision)
                refused = Counter(result.error_code.name for result in results if result.error_code.value)
                logger.info("unfit logs reported", partitions=len(reported), refused=dict(refused))
            except KafkaError as error:
                logger.warning("unfit logs not reported", partitions=len(reported), error=error.message)
        if any(must_make_way(partition, self._feed.state.brokers) for partition in self._failed):
            self._wake_in(RETRY_SECONDS)

    async def _noted(
        self, reported: Sequence[Partition], results: Sequence[AlteredIsr], revision: int
    ) -> list[Partition]:
        """Return the replicas of whose loss the controller has taken note, once what it decided is seen here.

        By an older state one may still be the leader, elected by a controller that did not know: it would lead, and
        followers that see no more would cut their logs to the end of its own. In a later one it may count anew.

        Raises:
            RequestTimedOut: it is not seen in time.
        """
        await self._feed.wait_for_revision(revision, SEEN_TIMEOUT_SECONDS)
        self._reconciler.give_roles()
        return [
            partition
            for partition, result in zip(reported, results, strict=True)
            if result.error_code is ErrorCode.none and partition.state.partition_epoch <= revision
        ]

    def _is_held(self, partition: Partition) -> bool:
        return self._partitions.get(partition.topic_partition) is partition

    async def _take_over(self, revision: int) -> None:
        """Have the partitions take over what was decided, as soon as this broker sees it."""
        with contextlib.suppress(RequestTimedOut):
            await self._feed.wait_for_revision(revision, SEEN_TIMEOUT_SECONDS)
            self._reconciler.give_roles()

    def _ask_again(self, count: int) -> None:
        """Ask once more for what is open still."""
        self.failed_count += count
        self._wake_in(RETRY_SECONDS)

    def _succeeded(self, proposed: _Proposed) -> None:
        partition, proposal, former_size = proposed
        self.expand_count += len(proposal.isr) > former_size
        self.shrink_count += len(proposal.isr) < former_size
        logger.info("in-sync set changed", partition=str(partition.topic_partition), isr=proposal.isr)
        if set(partition.state.isr) == set(proposal.isr):
            self.look_at(partition)
        else:  # the controller knew better; it may take this broker a moment to see why
            self._look_later(partition)

    def _refused(self, proposed: _Proposed, result: AlteredIsr) -> None:
        partition, proposal, _ = proposed
        self.failed_count += 1
        logger.info(
            "in-sync set refused",
            partition=str(partition.topic_partition),
            isr=proposal.isr,
            code=result.error_code.name,
            error=result.error_message,
        )
        if result.error_code in REFUSED_FOR_ITS_CONTENT:
            partition.isr_proposal_refused(proposal)
            self._look_later(partition)
        else:
            self._ask_again(1)


def _live_brokers(state: ClusterState) -> frozenset[int]:
    """Return who can be in sync: the registered brokers that are not about to stop."""
    return frozenset(member.id for member in state.brokers.values() if not member.shutting_down)
