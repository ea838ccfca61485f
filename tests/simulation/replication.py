"""How brokers of a simulation fetch from each other: connections that carry requests and answers as they are.

The follower's side is the real `LeaderFetcher` with its plan, the leader's the real sessions, looks and waits. What
stands between them here, in place of sockets and bytes, keeps what TCP promises: a message arrives once, late or
never, and a connection whose other end is gone is reset, unless that went silently. Large answers come in pieces.
"""

import datetime as dt
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from kio.schema.errors import ErrorCode
from kio.schema.list_offsets.v9.request import ListOffsetsRequest
from kio.schema.list_offsets.v9.response import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from kio.static.primitive import i32Timedelta, i64

from ottla_broker.delayed_fetch import DelayedFetch
from ottla_broker.fetch_reading import FetchTerms, Reading, look, note_told
from ottla_broker.fetch_sessions import FINAL_EPOCH, INITIAL_EPOCH, NO_SESSION, FetchSession, FetchSessionCache
from ottla_broker.outcome import Delayed
from ottla_broker.partition import Partition
from ottla_broker.replica.leader_replica import FollowerContact
from ottla_broker.replication.fetch_connection import ConnectionLostError, FetchReceiver
from ottla_broker.replication.fetch_plan import PlannedFetch
from ottla_broker.replication.offset_search import LATEST
from ottla_core.errors import KafkaError, RequestTimedOut, StaleBrokerEpoch
from ottla_core.wire.replica_fetch_response import FetchedHead, PartitionFetched
from tests.simulation.fake_log import NO_RECORDS, Records
from tests.simulation.network import Answer
from tests.simulation.process import Process

if TYPE_CHECKING:
    from tests.simulation.simulated_broker import SimulatedBroker

FETCH_RECORDS_MAX = 16
FETCH_WAIT_S = 0.5
RETRANSMISSION_MS = 200.0
SPLIT_ANSWERS = 0.2
PIECE_DELAY_MAX_MS = 30.0
ASKED_TIMEOUT_S = 2.0
SILENT_ENDS = 0.3
SESSION_SLOTS = 1000
SESSIONS_FORGOTTEN = 0.01
NO_THROTTLE = i32Timedelta.parse(dt.timedelta(0))
TERMS = FetchTerms(bytes_max=FETCH_RECORDS_MAX, only_leader=True, read_committed=False)


class FetchAnswer(NamedTuple):
    """The answer to a fetch."""

    head: FetchedHead
    partitions: tuple[PartitionFetched, ...] = ()


# The connection


class SimulatedConnection:
    """A follower's connection to a leader; what the real `LeaderFetcher` knows as a `FetchConnection`."""

    def __init__(self, follower: "SimulatedBroker", leader: "SimulatedBroker", receiver: FetchReceiver) -> None:
        self._follower, self._leader = follower, leader
        self._lives = follower.life, leader.life
        self._receiver = receiver
        self._loop = follower.loop
        self.delayed: set[Delayed] = set()
        self.awaits_fetch = False
        self.last_active = self._loop.time()
        self.usable_until = math.inf
        self.is_closed = False

    @property
    def awaits_answer(self) -> bool:
        """Whether a fetch is under way; questions have a time limit of their own here."""
        return self.awaits_fetch

    @property
    def follower_id(self) -> int:
        """Who fetches."""
        return self._follower.broker_id

    def close(self, reason: str = "") -> None:
        """Close."""
        del reason
        self.is_closed = True
        self.awaits_fetch = False

    def send_fetch(self, broker_epoch: int, planned: PlannedFetch) -> None:
        """Send a fetch."""
        assert not self.awaits_fetch, "one fetch at a time"
        self.awaits_fetch = True
        self.last_active = self._loop.time()

        def answer(content: FetchAnswer) -> None:
            self._carry(self._leader, self._follower, self._on_answer, content)

        self._carry(self._follower, self._leader, self._leader.on_fetch, (self, broker_epoch, planned), answer)

    def hurry(self) -> None:
        """Have the fetch that is under way answered with what there is."""
        self._carry(self._follower, self._leader, self._leader.on_hurry, self)

    async def ask(self, api_key: int, version: int, message: Any) -> Any:
        """Ask for offsets."""
        del api_key, version
        if self.is_closed:
            raise ConnectionLostError("it is closed")
        try:
            return await self._follower.ask(self._leader, self._leader.on_list_offsets, message, ASKED_TIMEOUT_S)
        except RequestTimedOut as error:
            raise ConnectionLostError(str(error)) from None

    def _carry(self, source: Process, target: Process, action: Callable[..., None], *content: Any) -> None:
        network = self._follower.network
        delay_ms = network.delay_ms()
        if network.loses_one():
            delay_ms += RETRANSMISSION_MS
        self._follower.schedule.after(delay_ms, self._arrive, source, target, action, content)

    def _arrive(
        self, source: Process, target: Process, action: Callable[..., None], content: tuple[Any, ...]
    ) -> None:
        if self.is_closed or self._follower.life != self._lives[0]:
            return
        if self._follower.network.is_cut(source.name, target.name):
            self._follower.schedule.after(RETRANSMISSION_MS, self._arrive, source, target, action, content)
        elif not self._leader_is_there():
            self.end()
        else:
            target.deliver(action, content)

    def _leader_is_there(self) -> bool:
        return self._leader.is_running and self._leader.life == self._lives[1]

    def end(self) -> None:
        """Reset the connection, because its other end is gone."""
        if not self.is_closed and self._follower.life == self._lives[0]:
            if self._follower.network.is_cut(self._leader.name, self._follower.name):
                self._follower.schedule.after(RETRANSMISSION_MS, self.end)
            else:
                self._follower.deliver(self._lose, ())

    def _lose(self) -> None:
        if not self.is_closed:
            self.close()
            self._receiver.on_lost("the other end is gone")

    # What arrives

    def _on_answer(self, answer: FetchAnswer) -> None:
        self.last_active = self._loop.time()
        schedule = self._follower.schedule
        pieces = [
            piece for fetched in answer.partitions for piece in _pieces(fetched, schedule.chance(SPLIT_ANSWERS))
        ]
        self._take(pieces, answer.head)

    def _take(self, pieces: list[PartitionFetched], head: FetchedHead) -> None:
        """Show the receiver a piece after the other, with time between those of one partition."""
        while pieces and not self.is_closed:
            piece = pieces.pop(0)
            self._receiver.on_partition(piece)
            if not piece.is_last:
                self._follower.after(
                    self._follower.schedule.between(0.1, PIECE_DELAY_MAX_MS), self._take, pieces, head
                )
                return
        if not self.is_closed:
            self.awaits_fetch = False
            self._receiver.on_answered(head)


def _pieces(fetched: PartitionFetched, is_split: bool) -> list[PartitionFetched]:
    records: Any = fetched.records
    half = len(records) // 2
    if not is_split or not half:
        return [fetched]
    first = fetched._replace(records=Records(records[:half]), is_last=False)  # type: ignore[arg-type]
    return [first, fetched._replace(records=Records(records[half:]))]  # type: ignore[arg-type]


def connector(follower: "SimulatedBroker") -> Callable[..., Any]:
    """Return what the fetchers of a broker open connections with."""

    async def open_connection(
        host: str, _port: int, receiver: FetchReceiver, _pool: Any, **_: Any
    ) -> SimulatedConnection:
        leader = next(broker for broker in follower.cluster.brokers.values() if broker.name == host)
        if not leader.is_running and not follower.network.is_cut(leader.name, follower.name):
            raise ConnectionRefusedError(f"nobody listens at {host}")
        try:
            await follower.ask(leader, leader.on_connect, None, ASKED_TIMEOUT_S)
        except RequestTimedOut as error:
            raise TimeoutError(str(error)) from None
        connection = SimulatedConnection(follower, leader, receiver)
        leader.connections.append(connection)
        return connection

    return open_connection


# The leader


class SimulatedFetch:
    """A follower's request, as its leader's real look and wait know it; see `handlers/fetch.py`."""

    def __init__(self, service: "FollowerService", follower: FollowerContact, planned: PlannedFetch) -> None:
        self._service = service
        session_id, epoch = planned.session
        if service.forgets_a_session():
            service.sessions.remove(session_id)
        self._wants_session = epoch == INITIAL_EPOCH
        if epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            service.sessions.remove(session_id)
            self.session = FetchSession(follower=follower, uses_topic_ids=True)
        else:
            self.session = service.sessions.resume(session_id, epoch, follower, uses_topic_ids=True)
        for topic_id, asked in planned.asked.items():
            for one in asked:
                self.session.ask(topic_id, one)
        for topic_id, indexes in planned.forgotten.items():
            for index in indexes:
                self.session.forget(topic_id, index)
        if self.session.id != NO_SESSION:
            service.sessions.resumed(self.session, service.now_ms())
        self._is_incremental = self.session.id != NO_SESSION

    def look(self) -> Reading:
        """Look at what the logs have now."""
        return look(self.session, TERMS, self._service.partitions, only_news=self._is_incremental)

    def answer(self, reading: Reading) -> Any:
        """Return the answer, and note what it tells."""
        if self._wants_session:
            self._service.sessions.keep(self.session, self._service.now_ms())
        if self.session.id != NO_SESSION:
            note_told(self.session, reading)
        fetched = tuple(
            PartitionFetched(
                found.wanted.named,  # type: ignore[arg-type]
                found.wanted.asked.partition,
                found.outcome.error_code,
                found.outcome.high_watermark,
                found.outcome.log_start_offset,
                found.outcome.records or NO_RECORDS,  # type: ignore[arg-type]
                found.outcome.diverging_epoch,
            )
            for found in reading.found
        )
        return FetchAnswer(FetchedHead(ErrorCode.none, self.session.id), fetched)

    def refuse(self, error: KafkaError) -> Any:
        """Return the answer that tells of an error of the whole request."""
        return FetchAnswer(FetchedHead(error.code, NO_SESSION))


class FollowerService:
    """What a broker does for its followers, in one life."""

    def __init__(self, broker: "SimulatedBroker") -> None:
        random = broker.schedule.random
        self._broker = broker
        self.now_ms = broker.now_ms
        self.sessions = FetchSessionCache(SESSION_SLOTS, lambda: random.randint(1, 2**31 - 1))

    @property
    def partitions(self) -> Any:
        """What the broker holds."""
        return self._broker.partitions

    def forgets_a_session(self) -> bool:
        """Return whether somebody else's session has taken the place of one."""
        return self._broker.schedule.chance(SESSIONS_FORGOTTEN)

    def on_fetch(
        self, connection: SimulatedConnection, broker_epoch: int, planned: PlannedFetch, answer: Answer
    ) -> None:
        """Answer a fetch, now or when there is something for the follower."""
        try:
            self.check_follower(connection.follower_id, broker_epoch)
            contact = FollowerContact(connection.follower_id, broker_epoch, self.now_ms())
            fetch = SimulatedFetch(self, contact, planned)
        except KafkaError as error:
            answer(FetchAnswer(FetchedHead(error.code, NO_SESSION)))
            return
        reading = fetch.look()
        if reading.size_bytes or reading.is_urgent or not fetch.session.size:
            answer(fetch.answer(reading))
            return
        waiting = DelayedFetch(
            fetch, fetch.session, reading, min_bytes=1, max_wait_s=FETCH_WAIT_S, delayed=connection.delayed
        )
        waiting.answered.add_done_callback(lambda answered: answer(answered.result()))

    def check_follower(self, follower: int, broker_epoch: int) -> None:
        """Refuse a fetch under a registration that is known to be replaced."""
        state = self._broker.state
        member, registration = state.brokers.get(follower), state.registrations.get(follower)
        known = max(member.epoch if member else 0, registration.broker_epoch if registration else 0)
        if broker_epoch < known:
            raise StaleBrokerEpoch(f"broker {follower} has registered anew since")

    def list_offsets(self, request: ListOffsetsRequest) -> ListOffsetsResponse:
        """Answer with an end of a log."""
        (topic,) = request.topics
        (asked,) = topic.partitions
        error, offset = ErrorCode.none, -1
        try:
            partition: Partition = self.partitions.leader_of(topic.name, asked.partition_index)
            partition.check_epoch(asked.current_leader_epoch)
            log = partition.log
            offset = log.log_end_offset if asked.timestamp == LATEST else log.log_start_offset
        except KafkaError as refused:
            error = refused.code
        found = ListOffsetsPartitionResponse(
            partition_index=asked.partition_index, error_code=error, offset=i64(offset)
        )
        return ListOffsetsResponse(
            throttle_time=NO_THROTTLE,
            topics=(ListOffsetsTopicResponse(name=topic.name, partitions=(found,)),),
        )

    # What happens to partitions

    def on_append(self, partition: Partition, size_bytes: int) -> None:
        """Nothing: the sessions hear of it themselves."""

    def on_high_watermark(self, partition: Partition) -> None:
        """Nothing: the sessions hear of it themselves."""

    def on_change(self, partition: Partition) -> None:
        """Note who leads."""
        self._broker.role_changed(partition)
