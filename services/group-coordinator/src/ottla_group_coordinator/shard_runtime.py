"""One shard that this process owns, from its assignment until it is another's: fence, load, serve.

Serving goes in rounds. A round takes what has come together (requests, timers, a newer cluster state), lets the pure
`GroupShard` decide on each, stores all records that came of it, and only then gives the answers. What comes in
while records are being stored waits for the next round, so nobody ever reads what is not stored, and the busier
the shard, the larger its batches.

While the log cannot be reached the round is tried on and on, for it cannot be taken back. Those who wait for it are
told COORDINATOR_NOT_AVAILABLE after a while, newcomers at once, and the shard's time stands still, because nobody
could show a sign of life meanwhile. A bug in a rule costs the shard's memory: it is loaded again.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum

import structlog

from ottla_core.cluster.model import ClusterState
from ottla_core.errors import KafkaError, OttlaError
from ottla_group_coordinator.coordinator_counts import CoordinatorCounts
from ottla_group_coordinator.epoch_clock import EpochClock
from ottla_group_coordinator.errors import CoordinatorLoadInProgress, CoordinatorNotAvailable, NotCoordinator
from ottla_group_coordinator.shard import GroupShard
from ottla_group_coordinator.shard_batches import FENCING_SEQUENCE, BatchPacker
from ottla_group_coordinator.shard_loading import ShardLoader
from ottla_group_coordinator.shard_log import BatchRefused, OwnershipLost, SequenceLost, ShardLog
from ottla_group_coordinator.turn import Answer, GroupRequest, Token, Turn
from ottla_group_coordinator.waiting_request import WaitingRequest

ROUND_S_MAX = 0.01
"""How long a round may decide before it stores what it has, and other shards run."""

ROUND_BYTES_MAX = 1024 * 1024
"""What a round may have written before it stores it."""

QUEUED_MAX = 20_000
"""Requests that may wait for their round."""

WAITING_MAX = 100_000
"""Requests that may wait for their answer, those whose turn was taken included."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardSurroundings:
    """What all shards of a process share.

    Attributes:
        make_shard: returns an empty shard that knows the present cluster state.
        clock: the time that groups live by.
        counts: for metrics.
        load_permits: bounds how many shards are read at once.
        load_bytes_max: how much is read at a time.
        batch_bytes_max: the size that no batch exceeds.
        commit_timeout_s: how long requests wait for their round to be stored.
        on_sequence_lost: called when a shard can only be continued by a new ownership.
    """

    make_shard: Callable[[], GroupShard]
    clock: EpochClock
    counts: CoordinatorCounts
    load_permits: asyncio.Semaphore
    load_bytes_max: int
    batch_bytes_max: int
    commit_timeout_s: float
    on_sequence_lost: Callable[[], None]


class Round:
    """What came of the turns that are stored together."""

    __slots__ = ("answers", "now_ms", "packer")

    def __init__(self, packer: BatchPacker, now_ms: int) -> None:
        self.packer = packer
        self.now_ms = now_ms
        self.answers: list[Answer] = []

    def add(self, turn: Turn) -> None:
        """Take over a turn's records and answers."""
        if turn.records:
            self.packer.add(turn.records, turn.now_ms)
        self.answers += turn.answers


class ShardBroken(OttlaError):
    """Memory and log of the shard differ; the log is right."""


class ShardRuntime:
    """A shard for the time of one ownership.

    Args:
        shard_log: its log.
        surroundings: what it shares with others.

    Attributes:
        log: its log.
        status: where it is in its life.
        shard: its groups, while it serves.
    """

    def __init__(self, shard_log: ShardLog, surroundings: ShardSurroundings) -> None:
        self.log = shard_log
        self.status = ShardStatus.LOADING
        self.shard: GroupShard | None = None
        self._shared = surroundings
        self._queue: deque[GroupRequest] = deque()
        self._waiting: dict[Token, WaitingRequest] = {}
        self._newer_state: ClusterState | None = None
        self._work = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_deadline_ms = 0
        self._stood_still_ms = 0
        self._stuck_since_ms = 0
        self._taking: GroupRequest | None = None
        self._is_finishing = False
        self._task: asyncio.Task[None] | None = None

    @property
    def index(self) -> int:
        """The partition of ``__consumer_offsets``."""
        return self.log.shard

    def start(self) -> None:
        """Begin to fence, load and serve."""
        self._task = asyncio.create_task(self._run(), name=f"shard {self.index}")

    def submit(self, waiting: WaitingRequest) -> None:
        """Take a request into the next round, or refuse it."""
        refusal = self._refusal()
        if refusal is not None:
            self._shared.counts.refused[refusal.code.name] += 1
            waiting.refuse(refusal)
            return
        request = waiting.request
        self._waiting[request.token] = waiting
        self._queue.append(request)
        self._work.set()

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

    def _now_ms(self) -> int:
        return self._shared.clock.now_ms() - self._stood_still_ms

    async def _run(self) -> None:
        try:
            while not self._is_finishing:
                await self._load_and_serve()
        except OwnershipLost as error:
            log.info("shard given up", shard=self.index, reason=str(error))
        except SequenceLost as error:
            log.error("shard given up", shard=self.index, reason=str(error))
            self._shared.on_sequence_lost()
        finally:
            self._end()

    async def _load_and_serve(self) -> None:
        """Serve from the log until the end, or until memory and log differ."""
        try:
            if self.log.next_sequence == FENCING_SEQUENCE:
                await self.log.fence(self._now_ms())
            await self._serve(await self._load())
        except (OwnershipLost, SequenceLost):
            raise
        except Exception as error:
            is_bug = not isinstance(error, OttlaError)
            log.error("shard failed; loading it again", shard=self.index, reason=repr(error), exc_info=is_bug)
            self.shard, self.status = None, ShardStatus.LOADING
            self._shared.counts.failures += 1
            self._refuse_all(CoordinatorLoadInProgress())
            await asyncio.sleep(RELOAD_PAUSE_S)

    def _end(self) -> None:
        self.status = ShardStatus.ENDED
        self.shard = None
        if self._timer is not None:
            self._timer.cancel()
        self._refuse_all(NotCoordinator())

    def _refuse_all(self, error: KafkaError) -> None:
        waiting, self._waiting = self._waiting, {}
        self._queue.clear()
        for request in waiting.values():
            request.refuse(error)

    # Loading

    async def _load(self) -> GroupShard:
        began_s = time.perf_counter()
        counts = self._shared.counts
        async with self._shared.load_permits:
            shard = self._shared.make_shard()
            self._newer_state = None
            loader = ShardLoader(self.log, shard, bytes_max=self._shared.load_bytes_max)
            await loader.load()
        took_s = time.perf_counter() - began_s
        counts.loads += 1
        counts.load_s += took_s
        counts.loaded_records += loader.record_count
        counts.unreadable_records += loader.unreadable_count
        log.info("shard loaded", shard=self.index, records=loader.record_count, seconds=round(took_s, 3))
        return shard

    # Serving

    async def _serve(self, shard: GroupShard) -> None:
        self.shard, self.status = shard, ShardStatus.SERVING
        await self._complete(self._decide(shard, is_first=True))
        while not self._is_finishing:
            self._wake_at_deadline(shard)
            if not self._queue:
                await self._work.wait()
            else:
                await asyncio.sleep(0)
            self._work.clear()
            self.log.check_owner()
            if not self._is_finishing:
                await self._complete(self._decide(shard))

    def _decide(self, shard: GroupShard, *, is_first: bool = False) -> Round:
        """Take the turns of a round.

        Raises:
            ShardBroken: a rule failed.
        """
        now_ms = self._now_ms()
        packer = BatchPacker(self.log.producer, self.log.next_sequence, self._shared.batch_bytes_max)
        taken = Round(packer, now_ms)
        try:
            if is_first:
                taken.add(shard.loaded(now_ms))
            if self._newer_state is not None:
                state, self._newer_state = self._newer_state, None
                taken.add(shard.on_cluster_state(state, now_ms))
            self._take_turns(shard, taken)
        except Exception:
            log.exception("a rule failed", shard=self.index, request=self._taking)
            if self._taking is not None and (waiting := self._waiting.pop(self._taking.token, None)) is not None:
                waiting.refuse(KafkaError("the group coordinator failed unexpectedly; its log says why"))
            raise ShardBroken("a rule failed") from None
        finally:
            self._taking = None
        return taken

    def _take_turns(self, shard: GroupShard, taken: Round) -> None:
        """Let the shard decide on timers and requests until the round is full."""
        now_ms, packer, queue = taken.now_ms, taken.packer, self._queue
        end_s = time.perf_counter() + ROUND_S_MAX
        while (deadline_ms := shard.timers.next_deadline_ms) is not None and deadline_ms <= now_ms:
            taken.add(shard.advance(now_ms))
            if packer.size_bytes >= ROUND_BYTES_MAX or time.perf_counter() >= end_s:
                return
        while queue:
            self._taking = queue.popleft()
            taken.add(shard.handle(self._taking, now_ms))
            self._taking = None
            if packer.size_bytes >= ROUND_BYTES_MAX or time.perf_counter() >= end_s:
                return

    async def _complete(self, taken: Round) -> None:
        """Store what a round has written and give its answers."""
        batches = taken.packer.batches()
        if batches:
            await self._store(batches, taken)
        if taken.answers:
            self.log.check_owner()
            for token, response in taken.answers:
                waiting = self._waiting.pop(token, None)
                if waiting is not None:
                    waiting.answer(response)

    async def _store(self, batches: list[bytes], taken: Round) -> None:
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        timeout = loop.call_later(self._shared.commit_timeout_s, self._on_stuck, taken)
        try:
            await self.log.append(batches)
        except BatchRefused as error:
            self._refuse_round(taken, KafkaError("what was to be stored is refused by the log"))
            raise ShardBroken(f"a round cannot be stored: {error}") from None
        finally:
            timeout.cancel()
        if self.status is ShardStatus.STUCK:
            self._stood_still_ms += self._shared.clock.now_ms() - self._stuck_since_ms
            self.status = ShardStatus.SERVING
            log.info("stored at last", shard=self.index)
        counts = self._shared.counts
        counts.appends += 1
        counts.append_batches += len(batches)
        counts.append_bytes += taken.packer.size_bytes
        counts.append_s += loop.time() - began_s

    def _on_stuck(self, taken: Round) -> None:
        """Tell those who wait for a round that is not stored in time, and those behind it."""
        log.warning("a round is not stored in time; still trying", shard=self.index)
        self._shared.counts.append_timeouts += 1
        self.status = ShardStatus.STUCK
        self._stuck_since_ms = self._shared.clock.now_ms()
        self._refuse_round(taken, CoordinatorNotAvailable())
        while self._queue:
            self._waiting.pop(self._queue.popleft().token).refuse(CoordinatorNotAvailable())

    def _refuse_round(self, taken: Round, error: KafkaError) -> None:
        for token, _ in taken.answers:
            waiting = self._waiting.pop(token, None)
            if waiting is not None:
                waiting.refuse(error)
        taken.answers.clear()

    def _wake_at_deadline(self, shard: GroupShard) -> None:
        """Let the next round begin when the next timer is due, if nothing comes before."""
        deadline_ms = shard.timers.next_deadline_ms
        if deadline_ms is None or (self._timer is not None and self._timer_deadline_ms <= deadline_ms):
            return  # a timer that comes early looks again
        if self._timer is not None:
            self._timer.cancel()
        delay_s = max(0, deadline_ms - self._now_ms()) / 1000
        self._timer = asyncio.get_running_loop().call_later(delay_s, self._on_deadline)
        self._timer_deadline_ms = deadline_ms

    def _on_deadline(self) -> None:
        self._timer = None
        self._work.set()
