"""A follower's fetching from one leader: one connection, one fetch at a time, many partitions.

The next fetch leaves as soon as everything that the last one brought is written, in the same turn of the event
loop. A fetch claims that all below its offset is in this replica's log, so it never leaves earlier: not before the
write, and with `flush.messages` not before the fsync.

What goes wrong with one partition (another leader epoch, a full disk, a damaged batch) pauses that one; what goes
wrong with the connection pauses all of them, until `LeaderLink` has another. Whoever changes what is to be fetched
while the leader holds a fetch back does not have to wait for it.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Final

import structlog
from kio.schema.errors import ErrorCode

from ottla_broker.partition import Partition
from ottla_broker.receive_buffer import BufferPool
from ottla_broker.replication.fetch_connection import ConnectionLostError, LeaderConnection, OpenConnection
from ottla_broker.replication.fetch_plan import FetchPlan, FollowedPartition, PartitionKey
from ottla_broker.replication.fetch_settings import FetchSettings, LeaderAddress
from ottla_broker.replication.following import append_from_leader, diverging_offset
from ottla_broker.replication.leader_link import LeaderLink
from ottla_broker.replication.offset_search import find_common_offset
from ottla_broker.replication.throttle import ReplicationThrottle, is_throttled_follower
from ottla_broker.replication.truncation import cut_at_loss, cut_log
from ottla_core.background import start_detached, start_recurring
from ottla_core.clock import Clock
from ottla_core.errors import CodedError, KafkaError
from ottla_core.wire.replica_fetch_request import ReplicaFetchRequestWriter
from ottla_core.wire.replica_fetch_response import FetchedHead, PartitionFetched

_OUT_OF_RANGE: Final = {ErrorCode.offset_out_of_range, ErrorCode.offset_moved_to_tiered_storage}
_EXPECTED_FAILURES: Final = {
    ErrorCode.unknown_leader_epoch,
    ErrorCode.fenced_leader_epoch,
    ErrorCode.not_leader_or_follower,
    ErrorCode.unknown_topic_id,
    ErrorCode.unknown_topic_or_partition,
}
"""What comes of the leader and its follower hearing of an election, or of a topic, at different times."""

logger = structlog.get_logger("replication")


class LeaderFetcher:
    """Fetches some partitions from one leader until it is closed.

    Attributes:
        leader: where it fetches.
        number: which of this leader's fetchers it is.
        fetched_bytes: of records, since the start.
    """

    def __init__(
        self,
        leader: LeaderAddress,
        number: int,
        settings: FetchSettings,
        *,
        broker_epoch: Callable[[], int],
        clock: Clock,
        pool: BufferPool,
        throttle: ReplicationThrottle,
        open_connection: OpenConnection,
    ) -> None:
        self.leader = leader
        self.number = number
        self.fetched_bytes = 0
        self._settings = settings
        self._broker_epoch = broker_epoch
        self._clock = clock
        self._pool = pool
        self._throttle = throttle
        self._open_connection = open_connection
        self._loop = asyncio.get_running_loop()
        self._client_id = f"broker-{settings.broker_id}-fetcher-{number}"
        self._writer = ReplicaFetchRequestWriter(self._client_id, settings.broker_id, settings.limits)
        self._plan = FetchPlan(self._bytes_max, settings.backoff_ms, self._throttled_ms)
        self._link = LeaderLink(leader, settings, self._open, self._look_again, self._disconnected)
        self._is_hurried = False
        self._timer: asyncio.TimerHandle | None = None
        self._to_flush: dict[PartitionKey, FollowedPartition[Partition]] = {}
        self._unflushed: set[FollowedPartition[Partition]] = set()
        self._is_flushing = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._keep(start_recurring("fetcher", self._link.keep, leader=self.leader.broker_id))

    def __len__(self) -> int:
        return len(self._plan)

    def follow(self, partition: Partition) -> None:
        """Fetch a partition, or ask for it anew if its leader epoch has changed."""
        if self._plan.follow(partition):
            followed = self._plan.get(partition.topic_id, partition.topic_partition.partition)
            assert followed is not None
            if partition.log.flush_is_due:  # another fetcher has left, or a crash, what must not be claimed yet
                self._to_flush[followed.key] = followed
            self._begin(followed)

    def _begin(self, followed: FollowedPartition[Partition]) -> None:
        """Fetch a partition, once its log is one whose end may be claimed; that of one with a gap is merely told."""
        if not followed.partition.log.truncation.is_settled:  # another fetcher has cut it
            self._plan.pause(followed, None)
            self._start(self._settle(followed), followed)
        else:
            self._plan.resume(followed)
        self._look_again()

    def _begin_again(self, followed: FollowedPartition[Partition]) -> None:
        if self._plan.is_present(followed) and not self._link.is_closed:
            self._begin(followed)

    def unfollow(self, partition: Partition) -> None:
        """Fetch a partition no longer; nothing is appended to it after this."""
        self._plan.unfollow((partition.topic_id, partition.topic_partition.partition))

    async def close(self) -> None:
        """Fetch nothing any more."""
        self._cancel_timer()
        self._link.close()
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _start(self, work: Coroutine[None, None, None], followed: FollowedPartition[Partition] | None = None) -> None:
        """Do some work, for all partitions or for one, which is paused for it."""

        def fail() -> None:
            self._link.drop("a fetcher failed unexpectedly")
            if followed is not None:  # or its pause would never end
                self._loop.call_later(self._settings.backoff_ms / 1000, self._begin_again, followed)

        self._keep(start_detached("fetch", work, on_failure=fail, leader=self.leader.broker_id))

    def _keep(self, task: "asyncio.Task[None]") -> None:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _open(self) -> LeaderConnection:
        return await self._open_connection(
            self.leader.host,
            self.leader.port,
            self,
            self._pool,
            writer=self._writer,
            client_id=self._client_id,
            frame_bytes_max=self._settings.frame_bytes_max,
        )

    def on_lost(self, reason: str) -> None:
        """Fetch on when there is another connection."""
        self._link.lost(reason)

    def _disconnected(self) -> None:
        self._cancel_timer()  # else it might have the next connection asked twice, and its own timer cancelled
        self._plan.disconnected()

    def _now_ms(self) -> int:
        return int(self._loop.time() * 1000)

    def _throttled_ms(self, followed: FollowedPartition[Partition], now_ms: int) -> int:
        if not followed.lags or not is_throttled_follower(followed.partition):
            return 0
        return self._throttle.wait_ms(now_ms)

    def _bytes_max(self, followed: FollowedPartition[Partition]) -> int:
        """Return how much to ask for: more of what is far behind, so that the leader need not wait for each write."""
        settings, config = self._settings, followed.partition.log.config
        is_throttled = config.follower_replication_throttled_replicas or config.leader_replication_throttled_replicas
        if not followed.lags or is_throttled:
            return settings.partition_bytes_max
        return max(settings.partition_bytes_max, settings.limits.bytes_max // 2)

    # Asking

    def _look_again(self) -> None:
        """Ask for what has changed: now, or as soon as the leader answers the fetch that is under way."""
        connection = self._link.connection
        if connection is None:
            return
        if not connection.awaits_fetch:
            self._loop.call_soon(self._ask)
        elif not self._is_hurried:
            self._is_hurried = True
            connection.hurry()

    def _ask(self) -> None:
        """Send the next fetch, after an fsync where one is due, or wait until there is something to ask for."""
        connection = self._link.connection
        self._cancel_timer()
        if self._link.is_closed or connection is None or connection.awaits_fetch or self._is_flushing:
            return
        if self._to_flush:
            self._is_flushing = True
            self._start(self._flush())
            return
        planned = self._plan.next_fetch(self._now_ms())
        if (look_ms := self._plan.next_look_ms()) is not None:
            self._timer = self._loop.call_later(max(0.001, look_ms / 1000 - self._loop.time()), self._pause_ended)
        if planned is None:
            return
        self._is_hurried = False
        connection.send_fetch(self._broker_epoch(), planned)

    def _pause_ended(self) -> None:
        self._timer = None
        self._look_again()

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # Taking answers

    def on_partition(self, fetched: PartitionFetched) -> None:
        """Append what came of one partition, or do what its error asks for."""
        followed = self._plan.get(fetched.topic_id, fetched.partition)
        if followed is None or followed.asked is None:
            return
        partition, asked = followed.partition, followed.asked
        log = partition.log
        if log.log_end_offset != followed.end_offset or partition.state.leader_epoch != asked.current_leader_epoch:
            self._plan.moved(followed)  # it is another log by now, or under another leader
            return
        try:
            self._take(followed, fetched)
        except KafkaError as error:
            self._failed(followed, error)
        except Exception as error:  # a bug of ours must not take the other partitions down
            logger.exception("a fetched partition failed unexpectedly", partition=str(partition.topic_partition))
            self._failed(followed, CodedError(ErrorCode.unknown_server_error, str(error)))

    def _take(self, followed: FollowedPartition[Partition], fetched: PartitionFetched) -> None:
        partition, asked = followed.partition, followed.asked
        assert asked is not None
        leader_epoch = asked.current_leader_epoch
        if partition.lacks_records and fetched.error_code in (ErrorCode.none, *_OUT_OF_RANGE):
            self._plan.pause(followed, None)  # the leader is above doubt, as it answers
            self._start(self._cut_where_records_are_lost(followed, leader_epoch), followed)
            return
        if fetched.error_code is not ErrorCode.none:
            if fetched.error_code in _OUT_OF_RANGE:
                self._plan.pause(followed, None)
                self._start(self._find_offset(followed, fetched.error_code), followed)
                return
            raise CodedError(fetched.error_code, f"the leader answered {fetched.error_code.name}")
        now_ms = self._clock.time_ms()
        if fetched.diverging_epoch is not None:
            self._plan.pause(followed, None)
            self._start(self._truncate(followed, fetched.diverging_epoch, leader_epoch), followed)
            return
        log = partition.log
        claimed_nothing = partition.awaits_first_answer
        try:
            append_from_leader(
                partition,
                fetched.records,
                leader_epoch=leader_epoch,
                high_watermark=fetched.high_watermark,
                log_start_offset=fetched.log_start_offset,
                now_ms=now_ms,
            )
        finally:
            if size := len(fetched.records):
                self._count(followed, size)
            if log.log_end_offset != asked.fetch_offset or log.log_start_offset != asked.log_start_offset:
                followed.end_offset = log.log_end_offset
                self._plan.moved(followed)
                if log.flush_is_due:
                    self._to_flush[followed.key] = followed
            elif claimed_nothing:
                self._plan.moved(followed)  # the next fetch counts
        followed.lags = fetched.high_watermark > log.log_end_offset
        if followed.failures:
            self._plan.succeeded(followed)

    def _count(self, followed: FollowedPartition[Partition], size_bytes: int) -> None:
        self.fetched_bytes += size_bytes
        if is_throttled_follower(followed.partition):
            self._throttle.record(size_bytes, self._now_ms())

    async def _truncate(
        self, followed: FollowedPartition[Partition], diverging: tuple[int, int], leader_epoch: int
    ) -> None:
        """Cut a log where it parts from the leader's, and go on from there when that is on the disk."""
        partition = followed.partition
        former_end_offset = partition.log.log_end_offset
        epoch, end_offset = diverging
        try:
            offset = diverging_offset(partition, epoch, end_offset, leader_epoch=leader_epoch)
            await cut_log(
                partition,
                offset,
                leader_epoch=leader_epoch,
                end_offset=former_end_offset,
                now_ms=self._clock.time_ms,
            )
        except KafkaError as error:
            self._failed(followed, error)
        else:
            logger.info(
                "cut a log where it departs from the leader's",
                partition=str(partition.topic_partition),
                former_end_offset=former_end_offset,
                end_offset=partition.log.log_end_offset,
                leader_epoch=leader_epoch,
                diverging_epoch=epoch,
            )
            await self._resume_settled(followed)
        self._look_again()

    async def _cut_where_records_are_lost(self, followed: FollowedPartition[Partition], leader_epoch: int) -> None:
        """Cut a log where its disk has lost records, so that they and all behind them are copied again."""
        partition = followed.partition
        while self._plan.is_present(followed) and (offset := partition.log.lost_from) is not None:
            try:
                was_cut = await cut_at_loss(partition, offset, leader_epoch=leader_epoch, now_ms=self._clock.time_ms)
            except KafkaError as error:
                self._failed(followed, error)
                self._plan.pause(followed, None)
                was_cut = False
            if not was_cut:  # it counts as complete, until the controller has taken note, or the disk refuses
                await asyncio.sleep(self._settings.backoff_ms / 1000)
                continue
            logger.info(
                "cut a log where records are lost", partition=str(partition.topic_partition), end_offset=offset
            )
        await self._settle(followed)

    async def _settle(self, followed: FollowedPartition[Partition]) -> None:
        await self._resume_settled(followed)
        self._look_again()

    async def _resume_settled(self, followed: FollowedPartition[Partition]) -> None:
        """Fetch a partition again once what was cut off its log cannot come back."""
        truncation = followed.partition.log.truncation
        while self._plan.is_present(followed) and not truncation.is_settled:
            try:
                await truncation.settled()
            except KafkaError as error:
                self._failed(followed, error)
                self._plan.pause(followed, None)
                await asyncio.sleep(self._settings.backoff_ms / 1000)
        self._plan.resume(followed)

    def on_answered(self, head: FetchedHead) -> None:
        """Go on with the next fetch."""
        if head.error_code is ErrorCode.none:
            self._plan.answered(head.session_id)
            self._link.answered()
        elif head.error_code in (ErrorCode.fetch_session_id_not_found, ErrorCode.invalid_fetch_session_epoch):
            self._plan.session_refused(head.error_code)
        else:
            self._link.drop(f"it refuses fetches: {head.error_code.name}")
            return
        self._ask()

    async def _flush(self) -> None:
        """Make durable what `flush.messages` says must be, for all partitions at once, then go on."""
        waiting, self._to_flush = tuple(self._to_flush.values()), {}
        try:
            outcomes = await asyncio.gather(
                *(followed.partition.log.flushed(followed.partition.log.log_end_offset) for followed in waiting),
                return_exceptions=True,
            )
        finally:
            self._is_flushing = False
        for followed, outcome in zip(waiting, outcomes, strict=True):
            if outcome is None:
                if followed in self._unflushed:
                    self._unflushed.discard(followed)
                    self._plan.resume(followed)
            elif isinstance(outcome, KafkaError):
                self._failed(followed, outcome)
                self._plan.pause(followed, None)
                self._unflushed.add(followed)
                self._loop.call_later(self._settings.backoff_ms / 1000, self._flush_again, followed)
            else:
                # Not one of them may be claimed before it is durable, whatever has failed.
                self._to_flush.update((each.key, each) for each in waiting if self._plan.is_present(each))
                raise outcome
        self._ask()

    def _flush_again(self, followed: FollowedPartition[Partition]) -> None:
        if self._plan.is_present(followed):
            self._to_flush[followed.key] = followed
            self._look_again()
        else:
            self._unflushed.discard(followed)

    async def _find_offset(self, followed: FollowedPartition[Partition], error: ErrorCode) -> None:
        """Find where to go on with a partition whose log has no part in common with the leader's."""
        connection = self._link.connection
        partition = followed.partition
        try:
            if connection is None:
                raise ConnectionLostError("it was lost before")
            moved = await find_common_offset(
                connection, partition, self._clock.time_ms, lambda: self._plan.is_present(followed)
            )
        except ConnectionLostError:
            self._plan.resume(followed)
        except KafkaError as refused:
            self._failed(followed, refused)
        else:
            if moved:
                await self._resume_settled(followed)
            elif self._plan.is_present(followed):  # the leader's log has changed meanwhile, or it contradicts itself
                self._failed(followed, CodedError(error, "the leader says that it has the offset after all"))
        self._look_again()

    def _failed(self, followed: FollowedPartition[Partition], error: KafkaError) -> None:
        """Try a partition again later, and say so once."""
        self._plan.failed(followed, self._now_ms())
        if followed.failure is error.code:
            return
        followed.failure = error.code
        report = logger.info if error.code in _EXPECTED_FAILURES else logger.warning
        report(
            "cannot fetch a partition; trying again",
            partition=str(followed.partition.topic_partition),
            leader=self.leader.broker_id,
            reason=error.message,
        )
