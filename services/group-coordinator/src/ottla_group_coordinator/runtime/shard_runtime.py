"""One shard that this process owns, from its assignment until it is another's: fence, load, serve.

Serving goes in rounds. A round takes what has come together (requests, timers, a newer cluster state), lets the pure
`StateMachine` decide on each, stores all records that came of it, and only then gives the answers. What comes in
while records are being stored waits for the next round, so nobody ever reads what is not stored, and the busier
the shard, the larger its batches.

While the log cannot be reached the round is tried on and on, for it cannot be taken back. Those who wait for it are
told COORDINATOR_NOT_AVAILABLE after a while, newcomers at once. The shard's time (`shard_time.py`) stands still while
a round is being stored, because nobody who waits for an answer could show a sign of life meanwhile. A bug in a rule
costs the shard's memory: it is loaded again.
"""

import asyncio
import time
from collections import deque
from collections.abc import Mapping
from enum import StrEnum
from typing import Generic

import structlog

from ottla_core.background import start_vital
from ottla_core.cluster.state.model import ClusterState
from ottla_core.errors import KafkaError, OttlaError
from ottla_group_coordinator.runtime.errors import CoordinatorLoadInProgress, CoordinatorNotAvailable, NotCoordinator
from ottla_group_coordinator.runtime.patience import Patience
from ottla_group_coordinator.runtime.remote_shard_log import BatchRefused, OwnershipLost, RemoteShardLog, SequenceLost
from ottla_group_coordinator.runtime.shard_batches import FENCING_SEQUENCE, BatchPacker, ShardAppend
from ottla_group_coordinator.runtime.shard_context import Machine, ShardContext
from ottla_group_coordinator.runtime.shard_loading import ShardLoader
from ottla_group_coordinator.runtime.shard_round import Round
from ottla_group_coordinator.runtime.shard_time import HOLD_MS_MIN, ShardTime
from ottla_group_coordinator.runtime.turn import CoordinatorRequest, Token
from ottla_group_coordinator.runtime.waiting_request import WaitingRequest

ROUND_S_MAX = 0.01
"""How long a round may decide before it stores what it has, and other shards run."""

ROUND_BYTES_MAX = 1024 * 1024
"""What a round may have written before it stores it."""

QUEUED_MAX = 20_000
"""Requests that may wait for their round."""

WAITING_MAX = 100_000
"""Requests that may wait for their answer, those whose turn was taken included."""

LINGER_S = 0.01
"""How long a request that nobody waits for may wait for another one, to be stored together with it."""

RETURN_MS = 3_000
"""How long time stands still after requests were refused because the log was away: until their clients come again."""

SUCCESSOR_TIMEOUT_S = 5.0
"""How long after the log has told of another writer the cluster state may take to name a later owner."""

RELOAD_PAUSE_S = 1.0
"""Between a failure and loading the shard again."""

log = structlog.get_logger("shard")


class ShardStatus(StrEnum):
    """Where a shard is in its life; `REFUSALS` says what newcomers are told."""

    LOADING = "loading"
    """Fencing former owners and reading the log. Left when everything is replayed."""

    SERVING = "serving"
    """Taking requests. Left when a round is not stored in time, by a failure, and in the end."""

    STUCK = "stuck"
    """A round is not stored in time; it is still tried. Left when it is stored, and in the end."""

    ENDED = "ended"
    """The shard is another's, or nobody's."""


REFUSALS: Mapping[ShardStatus, type[KafkaError]] = {
    ShardStatus.LOADING: CoordinatorLoadInProgress,
    ShardStatus.STUCK: CoordinatorNotAvailable,
    ShardStatus.ENDED: NotCoordinator,
}
"""Nothing is held back until the shard is loaded: a heartbeat behind it on the client's connection would wait as
well, and librdkafka gives up the connection, and the commit, after less than a second."""


class ShardBroken(OttlaError):
    """Memory and log of the shard differ; the log is right."""


class ShardRuntime(Generic[Machine]):
    """A shard for the time of one ownership.

    Args:
        shard_log: its log.
        context: what it shares with others.

    Attributes:
        log: its log.
        status: where it is in its life.
        shard: its state machine, while it serves.
    """

    def __init__(self, shard_log: RemoteShardLog, context: ShardContext[Machine]) -> None:
        self.log = shard_log
        self.status = ShardStatus.LOADING
        self.shard: Machine | None = None
        self._shared = context
        self._queue: deque[CoordinatorRequest] = deque()
        self._waiting: dict[Token, WaitingRequest] = {}
        self._newer_state: ClusterState | None = None
        self._work = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_deadline_ms = 0
        self._lingering: asyncio.TimerHandle | None = None
        self._time = ShardTime(context.awake_clock, context.clock)
        self._ahead_of_timers: int | None = None
        self._taking: CoordinatorRequest | None = None
        self._storing: Round | None = None
        self._patience = Patience(context.commit_timeout_s, self._on_stuck)
        self._is_finishing = False
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to fence, load and serve."""
        self._task = start_vital("shard", self._run())

    def submit(self, waiting: WaitingRequest, *, is_urgent: bool = True) -> None:
        """Take a request into the next round, or refuse it; that round begins at once, or after `LINGER_S`."""
        refusal = self._refusal()
        if refusal is not None:
            self._shared.counts.refused[refusal.code.name] += 1
            waiting.refuse(refusal)
            return
        request = waiting.request
        self._waiting[request.token] = waiting
        self._queue.append(request)
        if is_urgent:
            self._work.set()
        elif self._lingering is None:
            self._lingering = asyncio.get_running_loop().call_later(LINGER_S, self._on_lingered)

    def on_cluster_state(self, state: ClusterState) -> None:
        """Take a cluster state with other topics into the next round."""
        self._newer_state = state
        self._work.set()

    async def finish(self, timeout_s: float) -> None:
        """Let the round that is being stored be stored and answered, then end."""
        self._is_finishing = True
        self._work.set()
        if self._task is not None and self.status is ShardStatus.SERVING:
            await asyncio.wait({self._task}, timeout=timeout_s)
        self.end()

    def end(self) -> None:
        """Throw the shard away: it is another's."""
        if self._task is not None:
            self._task.cancel()
        self._end()

    async def wait_ended(self) -> None:
        """Return when nothing of the shard runs any more."""
        if self._task is not None:
            await asyncio.wait({self._task})

    def _refusal(self) -> KafkaError | None:
        if self._is_finishing or (self.status is not ShardStatus.SERVING and not self.log.is_owner()):
            return NotCoordinator()
        if self.status is not ShardStatus.SERVING:
            return REFUSALS[self.status]()
        if len(self._queue) >= QUEUED_MAX or len(self._waiting) >= WAITING_MAX:
            return CoordinatorNotAvailable("too many requests wait")
        return None

    async def _run(self) -> None:
        try:
            while not self._is_finishing:
                await self._load_and_serve()
        except OwnershipLost as error:
            log.info("shard given up", shard=str(self.log.shard), reason=str(error))
            self._end()
            await asyncio.sleep(SUCCESSOR_TIMEOUT_S)  # cancelled when the cluster state names another owner
            log.error("no later owner is known but to the log", shard=str(self.log.shard), epoch=error.seen_epoch)
            if error.seen_epoch is not None:
                self._shared.on_epoch_seen(error.seen_epoch)
            else:
                self._shared.on_sequence_lost()
        except SequenceLost as error:
            log.error("shard given up", shard=str(self.log.shard), reason=str(error))
            self._shared.on_sequence_lost()
        finally:
            self._end()

    async def _load_and_serve(self) -> None:
        """Serve from the log until the end, or until memory and log differ."""
        try:
            if self.log.next_sequence == FENCING_SEQUENCE:
                await self.log.fence(self._time.timestamp_ms())
            elif self.log.is_end_in_doubt:
                await self.log.go_behind(self._time.timestamp_ms())
            await self._serve(await self._load())
        except (OwnershipLost, SequenceLost):
            raise
        except Exception as error:
            is_bug = not isinstance(error, OttlaError)
            log.error(
                "shard failed; loading it again", shard=str(self.log.shard), reason=repr(error), exc_info=is_bug
            )
            self.shard, self.status = None, ShardStatus.LOADING
            self._shared.on_unloaded(self)
            self._shared.counts.failures += 1
            self._refuse_all(CoordinatorLoadInProgress())
            await asyncio.sleep(RELOAD_PAUSE_S)

    def _end(self) -> None:
        self.status = ShardStatus.ENDED
        self.shard = None
        self._shared.on_unloaded(self)
        for timer in (self._timer, self._lingering):
            if timer is not None:
                timer.cancel()
        self._patience.close()
        self._refuse_all(NotCoordinator())

    def _refuse_all(self, error: KafkaError) -> None:
        waiting, self._waiting = self._waiting, {}
        self._queue.clear()
        self._ahead_of_timers = None
        for request in waiting.values():
            request.refuse(error)

    # Loading

    async def _load(self) -> Machine:
        began_s = time.perf_counter()
        counts = self._shared.counts
        async with self._shared.load_permits:
            shard = self._shared.make_shard()
            self._newer_state = None
            loader = ShardLoader(self.log, shard, self._shared.record_format, bytes_max=self._shared.load_bytes_max)
            await loader.load()
        if loader.newest_timestamp_ms is not None:
            self._time.go_on_from(loader.newest_timestamp_ms)
        took_s = time.perf_counter() - began_s
        counts.loads += 1
        counts.load_s += took_s
        counts.loaded_records += loader.record_count
        counts.unreadable_records += loader.unreadable_count
        log.info("shard loaded", shard=str(self.log.shard), records=loader.record_count, seconds=round(took_s, 3))
        return shard

    # Serving

    async def _serve(self, shard: Machine) -> None:
        self.shard, self.status = shard, ShardStatus.SERVING
        await self._complete(self._decide(shard, is_first=True))
        while not self._is_finishing:
            self._wake_at_deadline(shard)
            if self._work.is_set():
                await asyncio.sleep(0)
            else:
                await self._work.wait()
            self._work.clear()
            if not self._is_finishing:
                await self._complete(self._decide(shard))

    def _decide(self, shard: Machine, *, is_first: bool = False) -> Round:
        """Take the turns of a round.

        Raises:
            ShardBroken: a rule failed.
        """
        now_ms = self._time.now_ms()
        shard.timestamps_ahead_ms = self._time.timestamp_ms() - now_ms
        packer = BatchPacker(
            self.log.producer, self.log.next_sequence, self._shared.batch_bytes_max, self._shared.record_format
        )
        taken = Round(packer)
        try:
            if is_first:
                taken.add(shard.loaded(now_ms))
            if self._newer_state is not None:
                state, self._newer_state = self._newer_state, None
                taken.add(shard.on_cluster_state(state, now_ms))
            self._take_turns(shard, taken, now_ms)
            if self._queue:
                self._work.set()  # the round is full
        except Exception:
            log.exception("a rule failed", shard=str(self.log.shard), request=self._taking)
            if self._taking is not None and (waiting := self._waiting.pop(self._taking.token, None)) is not None:
                waiting.refuse(KafkaError("the group coordinator failed unexpectedly; its log says why"))
            raise ShardBroken("a rule failed") from None
        finally:
            self._taking = None
        return taken

    def _take_turns(self, shard: Machine, taken: Round, now_ms: int) -> None:
        """Let the shard decide on requests and timers until the round is full."""
        packer, queue = taken.packer, self._queue
        end_s = time.perf_counter() + ROUND_S_MAX
        while True:
            if self._is_timers_turn(shard, now_ms):
                taken.add(shard.advance(now_ms))
            elif queue:
                self._taking = queue.popleft()
                turn = shard.handle(self._taking, now_ms)
                taken.tells_what_is_stored |= self._taking.tells_what_is_stored and bool(turn.answers)
                taken.add(turn)
                self._taking = None
                if self._ahead_of_timers:
                    self._ahead_of_timers -= 1
            else:
                return
            if packer.size_bytes >= ROUND_BYTES_MAX or time.perf_counter() >= end_s:
                return

    def _is_timers_turn(self, shard: Machine, now_ms: int) -> bool:
        """Return whether a timer is due, and what was there before it was seen to be due has had its turn.

        What is there may be the sign of life for want of which the timer would remove a member. What comes later
        does not keep timers from their turn, however busy the shard is.
        """
        deadline_ms = shard.timers.next_deadline_ms
        if deadline_ms is None or deadline_ms > now_ms:
            self._ahead_of_timers = None
            return False
        if self._ahead_of_timers is None:
            self._ahead_of_timers = len(self._queue)
        return self._ahead_of_timers == 0

    async def _complete(self, taken: Round) -> None:
        """Store what a round has written and give its answers."""
        appends = taken.packer.appends()
        if appends or taken.tells_what_is_stored:
            await self._store(appends, taken)
        if taken.counted:
            self._shared.count_stored(taken.counted)
        if taken.answers or taken.effects:
            self.log.check_owner()
            if taken.effects:
                self._shared.carry_out(self, taken.effects)
            for token, response in taken.answers:
                waiting = self._waiting.pop(token, None)
                if waiting is not None:
                    waiting.answer(response)

    async def _store(self, appends: list[ShardAppend], taken: Round) -> None:
        """Store batches, or see that nobody else has: either tells whether the shard is still ours."""
        loop = asyncio.get_running_loop()
        began_s, began_ms = loop.time(), self._shared.awake_clock.now_ms()
        self._storing = taken
        self._patience.begin()
        try:
            # Without this, a former owner whose view of the cluster state lags would tell offsets of old, or that no
            # group has to be set back.
            await (self.log.append(appends) if appends else self.log.confirm(self._time.timestamp_ms()))
        except BatchRefused as error:
            self._refuse_round(taken, KafkaError("what was to be stored is refused by the log"))
            raise ShardBroken(f"a round cannot be stored: {error}") from None
        finally:
            self._patience.end()
            self._storing = None
        self._time.hold(max(0, self._shared.awake_clock.now_ms() - began_ms - HOLD_MS_MIN))
        if self.status is ShardStatus.STUCK:
            self._time.hold(RETURN_MS)
            self.status = ShardStatus.SERVING
            log.info("stored at last", shard=str(self.log.shard))
        if appends:
            self._count(appends, taken, loop.time() - began_s)

    def _count(self, appends: list[ShardAppend], taken: Round, took_s: float) -> None:
        counts = self._shared.counts
        counts.appends += 1
        counts.append_batches += sum(1 + len(each.preceding) for each in appends)
        counts.append_bytes += taken.packer.size_bytes
        counts.append_s += took_s

    def _on_stuck(self) -> None:
        """Tell those who wait for the round that is not stored in time, and those behind it."""
        assert self._storing is not None, "only while a round is being stored it may take too long"
        log.warning("a round is not stored in time; still trying", shard=str(self.log.shard))
        self._shared.counts.append_timeouts += 1
        self.status = ShardStatus.STUCK
        self._refuse_round(self._storing, CoordinatorNotAvailable())
        while self._queue:
            self._waiting.pop(self._queue.popleft().token).refuse(CoordinatorNotAvailable())
        self._ahead_of_timers = None

    def _refuse_round(self, taken: Round, error: KafkaError) -> None:
        for token, _ in taken.answers:
            waiting = self._waiting.pop(token, None)
            if waiting is not None:
                waiting.refuse(error)
        taken.answers.clear()

    def _wake_at_deadline(self, shard: Machine) -> None:
        """Let the next round begin when the next timer is due, if nothing comes before."""
        deadline_ms = shard.timers.next_deadline_ms
        if deadline_ms is None or (self._timer is not None and self._timer_deadline_ms <= deadline_ms):
            return  # a timer that comes early looks again
        if self._timer is not None:
            self._timer.cancel()
        delay_s = self._time.until_ms(deadline_ms) / 1000
        self._timer = asyncio.get_running_loop().call_later(delay_s, self._on_deadline)
        self._timer_deadline_ms = deadline_ms

    def _on_lingered(self) -> None:
        self._lingering = None
        if self._queue:
            self._work.set()

    def _on_deadline(self) -> None:
        """Let a round begin if a timer is due; the one for which this was set may have been moved or cancelled."""
        self._timer = None
        shard = self.shard
        if shard is None:
            return
        deadline_ms = shard.timers.next_deadline_ms
        if deadline_ms is not None and deadline_ms <= self._time.now_ms():
            self._work.set()
        else:
            self._wake_at_deadline(shard)
