"""Sends the markers of transactions to the leaders of their partitions, until each has its own.

A shard stores how a transaction ends, and then hands it over here (`carry_out`). The markers that wait for one broker
travel together, many in a message and `MESSAGES_IN_FLIGHT_MAX` messages at once. What fails is
parked and tried again: leaders change, brokers are away, replicas lag. A broker answers a message when it has written
all markers of it, so partitions that took too long have messages of their own (a *lane*) until they are in time
again. When every partition has its marker, the shard is told by a request of the process itself (`MarkersWritten`),
and looks again at what it knows, as all of this takes time.

A partition that the cluster state lacks for longer than a view can be out of date has been deleted, unless its topic
is merely missing (`marker_targets.py`); its marker is dropped. What a shard has forgotten (`forget`) is dropped here;
whoever owns it next sends it anew.

What waits here is bounded by the transactional ids of the shards: each has one end at a time.
"""

import asyncio
import functools
import itertools
import math
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import structlog
from kio.schema.errors import ErrorCode

from ottla_core.background import note_failure
from ottla_core.callback_answer import CallbackAnswer
from ottla_core.cluster.state.model import NO_LEADER, ClusterState
from ottla_core.errors import KafkaError, OttlaError
from ottla_core.shards import GROUP_TOPIC
from ottla_core.slices import Pace
from ottla_core.topic_partition import TopicPartition
from ottla_group_coordinator.markers.internal_request import InternalRequest
from ottla_group_coordinator.markers.marker_counts import MarkerCounts
from ottla_group_coordinator.markers.marker_messages import Item, fits, markers_write, take_items
from ottla_group_coordinator.markers.marker_results import MarkerResult, result_of
from ottla_group_coordinator.markers.marker_targets import GoneTopics, leader_of
from ottla_group_coordinator.markers.pending_end import PAUSE_MIN_MS, PendingEnd
from ottla_group_coordinator.runtime.relay_stream import RelayStream, StreamClosed
from ottla_group_coordinator.runtime.shard_runtime import ShardRuntime
from ottla_group_coordinator.runtime.timers import Timers
from ottla_group_coordinator.transactions.effects import SendMarkers
from ottla_group_coordinator.transactions.requests import MarkersWritten, NumberWanted
from ottla_group_coordinator.transactions.shard import TransactionShard
from ottla_proto.gen.ottla import group_relay_pb2 as pb

MESSAGES_IN_FLIGHT_MAX = 4
"""Messages of one lane that are not answered; what comes meanwhile travels together."""

ANSWER_TIMEOUT_S = 15.0
"""How long a broker may take; it waits itself for replicas for ten seconds."""

MISSING_WARNING_PAUSE_S = 60.0
"""How long there is no further warning about markers of topics that are missing."""

Runtime = ShardRuntime[TransactionShard]

log = structlog.get_logger("markers")


class LeaderMoved(StreamClosed):
    """Another broker leads a partition than the one that was asked."""


class AnswerLate(OttlaError):
    """A broker has taken too long to answer."""


class Lane(NamedTuple):
    """Messages to a broker that are sent and answered independently of others.

    Attributes:
        is_slow: whether they are for partitions that took too long the last time.
    """

    stream: RelayStream
    is_slow: bool


class Sent(NamedTuple):
    """A message that is not answered.

    Attributes:
        items: what it is about.
        numbers: the ownership number that the markers of each item bear.
        answer: the broker's.
        due_s: when nobody waits for it any longer, by the event loop's clock.
    """

    items: Sequence[Item]
    numbers: Sequence[int]
    answer: CallbackAnswer[pb.MarkersWritten]
    due_s: float


class MarkerSender:
    """Everything that is under way.

    Args:
        state: returns the newest cluster state.
        stream_of: returns the stream of a broker, or None while it has none.
        any_stream: returns the stream of some broker, likewise.
        unknown_topic_grace_s: how long a topic has to be absent to count as deleted: as long as a view may be old.

    Attributes:
        counts: for metrics.
    """

    def __init__(
        self,
        *,
        state: Callable[[], ClusterState],
        stream_of: Callable[[int], RelayStream | None],
        any_stream: Callable[[], RelayStream | None],
        unknown_topic_grace_s: float,
    ) -> None:
        self.counts = MarkerCounts()
        self._state = state
        self._stream_of = stream_of
        self._any_stream = any_stream
        self._unknown_topic_grace_s = unknown_topic_grace_s
        self._pending: dict[Runtime, dict[str, PendingEnd]] = defaultdict(dict)
        self._runtime_of: dict[PendingEnd, Runtime] = {}
        self._due: deque[PendingEnd] = deque()
        self._parked: Timers[PendingEnd] = Timers()
        self._slow: set[TopicPartition] = set()
        self._queues: dict[Lane, deque[Item]] = defaultdict(deque)
        self._in_flight: dict[Lane, list[Sent]] = defaultdict(list)
        self._flush: asyncio.Handle | None = None
        self._retry: asyncio.TimerHandle | None = None
        self._watch: asyncio.TimerHandle | None = None
        self._tokens = itertools.count()
        self._gone = GoneTopics()
        self._warned_of_missing_s = -MISSING_WARNING_PAUSE_S
        self._is_closed = False

    def __len__(self) -> int:
        """Return how many transactions are not complete."""
        return len(self._runtime_of)

    def carry_out(self, runtime: Runtime, effects: Sequence[SendMarkers]) -> None:
        """Begin to send markers that a shard has decided on and stored.

        What can be sent is on its way to a broker before the shard gives its answers. So the broker that passes on
        the producer's next request has mostly written the markers that it leads, and its guards for the next
        transaction hold (the broker's `transactions/early_guards.py`).
        """
        for order in effects:
            former = self._pending[runtime].pop(order.end.transactional_id, None)
            if former is not None:
                self._forget(former)
            pending = PendingEnd(order)
            self._pending[runtime][order.end.transactional_id] = pending
            self._runtime_of[pending] = runtime
            pending.is_due = True
            self._due.append(pending)
        if not self._is_closed:
            self._send_due()

    def forget(self, runtime: Runtime) -> None:
        """Send nothing more for a shard that is another's now, or that is loaded again."""
        for pending in self._pending.pop(runtime, {}).values():
            self._forget(pending)

    def on_cluster_state(self, former: ClusterState, state: ClusterState) -> None:
        """Turn to new leaders; a broker that was cut off may never answer."""
        self._gone.on_cluster_state(former, state)
        if former.topics is state.topics:
            return
        for lane, messages in tuple(self._in_flight.items()):
            for sent in messages:
                if not sent.answer.is_settled and self._has_moved(lane.stream, sent):
                    lane.stream.give_up(sent.answer, LeaderMoved("another broker leads a partition"))
        self._try_again_until(math.inf)

    def close(self) -> None:
        """Send nothing more."""
        self._is_closed = True
        for handle in (self._flush, self._retry, self._watch):
            if handle is not None:
                handle.cancel()

    # What is due

    def _make_due(self, pending: PendingEnd) -> None:
        self._parked.cancel(pending)
        if not pending.is_due:
            pending.is_due = True
            self._due.append(pending)
            self._send_due_soon()

    def _send_due_soon(self) -> None:
        if self._flush is None and not self._is_closed:
            self._flush = asyncio.get_running_loop().call_soon(self._send_due)

    def _park(self, pending: PendingEnd) -> None:
        """Try again in a moment, and later each time: what cannot be sent must not take the time of what can."""
        if pending in self._parked or pending.is_due:
            return
        due_ms = _now_ms() + pending.take_pause_ms()
        # What is parked at about the same time travels together.
        self._parked.set(pending, due_ms + -due_ms % PAUSE_MIN_MS)
        self._try_again_when_due()

    def _try_again_when_due(self) -> None:
        deadline_ms = self._parked.next_deadline_ms
        if deadline_ms is None or self._is_closed:
            return
        if self._retry is not None:
            if self._retry.when() <= deadline_ms / 1000:
                return
            self._retry.cancel()
        self._retry = asyncio.get_running_loop().call_at(deadline_ms / 1000, self._try_due_again)

    def _try_due_again(self) -> None:
        retry, self._retry = self._retry, None
        assert retry is not None
        # Loops call a little before the time, by as much as their clock can tell.
        self._try_again_until(max(_now_ms(), round(retry.when() * 1000)))
        self._try_again_when_due()

    def _try_again_until(self, until_ms: float) -> None:
        while (pending := self._parked.pop_due(until_ms)) is not None:
            self._make_due(pending)

    def _send_due(self) -> None:
        """Hand what is due to the brokers' queues, and send what they have room for."""
        if self._flush is not None:
            self._flush.cancel()
            self._flush = None
        pace = Pace()
        while self._due:
            pending = self._due.popleft()
            pending.is_due = False
            if pending.is_void:
                continue
            try:
                self._see_to(pending)
            except Exception as error:  # noqa: BLE001 - what nobody comes back to would wait until the shard is loaded
                _note_failure(pending, error)
                self._park(pending)
            if pace.is_over:
                break
        for lane in tuple(self._queues):
            self._send(lane)
        if self._due:
            self._send_due_soon()  # groups of this process have their turn before that

    def _see_to(self, pending: PendingEnd) -> None:
        """Do for a transaction what is to be done next."""
        if not pending.missing:
            self._finish(pending)
        elif pending.needs_number:
            self._want_number(pending)
        else:
            self._queue(pending)

    def _queue(self, pending: PendingEnd) -> None:
        by_lane: dict[Lane, list[TopicPartition]] = defaultdict(list)
        for partition in pending.due():
            stream = self._stream_for(pending, partition)
            if stream is not None:
                by_lane[Lane(stream, partition in self._slow)].append(partition)
        for lane, partitions in by_lane.items():
            # In order, as the answer has results by topic and partition.
            self._queues[lane].append(Item(pending, tuple(sorted(partitions))))
            pending.asked.update(partitions)
        if not pending.missing:
            self._finish(pending)
        elif pending.due():
            self._park(pending)

    def _stream_for(self, pending: PendingEnd, partition: TopicPartition) -> RelayStream | None:
        """Return who is to write a marker, or None while nobody can; drop it if the partition is gone."""
        state = self._state()
        leader = leader_of(state, partition)
        if leader is None:
            if self._is_deleted(pending, partition):
                log.info("marker dropped, as the partition is gone", partition=str(partition))
                pending.missing.discard(partition)
                self.counts.dropped += 1
            return None
        pending.unknown_since_s.pop(partition, None)
        stream = None if leader == NO_LEADER else self._stream_of(leader)
        # Any broker passes on what is for a shard of groups.
        return self._any_stream() if stream is None and partition.topic == GROUP_TOPIC else stream

    def _is_deleted(self, pending: PendingEnd, partition: TopicPartition) -> bool:
        """Return whether a partition that the cluster state lacks has been deleted.

        It was there when it was added to the transaction. A view that is out of date may not show it yet.
        """
        now_s = asyncio.get_running_loop().time()
        since_s = pending.unknown_since_s.setdefault(partition, now_s)
        if now_s - since_s < self._unknown_topic_grace_s:
            return False
        state = self._state()
        if partition.topic in state.topics:
            return True
        if self._gone.is_deleted(state, partition.topic, pending.order.start_ms):
            return True
        if now_s - self._warned_of_missing_s >= MISSING_WARNING_PAUSE_S:
            self._warned_of_missing_s = now_s
            log.warning(
                "a transaction cannot end before a topic is back, of which nobody has seen the deletion; if it is "
                "not to come back, create a topic of its name, and delete that one then",
                partition=str(partition),
                transactional_id=pending.order.end.transactional_id,
            )
        return False

    # To brokers and back

    def _send(self, lane: Lane) -> None:
        queue, in_flight = self._queues[lane], self._in_flight[lane]
        while queue and len(in_flight) < MESSAGES_IN_FLIGHT_MAX:
            items = take_items(queue)
            if not items:
                break
            try:
                self._send_message(lane, in_flight, items)
            except Exception as error:  # noqa: BLE001 - what nobody answers would stay asked for, likewise
                note_failure("sending of markers", error, broker=lane.stream.broker_id, consequence="it is repeated")
                for item in items:
                    self._settle(item, item.pending.number, None)
        if not queue:
            del self._queues[lane]
        if not in_flight:
            del self._in_flight[lane]

    def _send_message(self, lane: Lane, in_flight: list[Sent], items: Sequence[Item]) -> None:
        numbers = [item.pending.number for item in items]
        answer = lane.stream.write_markers(markers_write(items, self._state().topics))
        sent = Sent(items, numbers, answer, asyncio.get_running_loop().time() + ANSWER_TIMEOUT_S)
        in_flight.append(sent)
        answer.when_settled(functools.partial(self._on_settled, lane, sent))
        self._watch_answers(sent.due_s)

    def _on_settled(self, lane: Lane, sent: Sent, answer: CallbackAnswer[pb.MarkersWritten]) -> None:
        """Take a broker's answer at once, as requests may follow that it lets go on; or go on later without one."""
        if answer.error is None:
            self._answered(lane, sent)
        else:
            asyncio.get_running_loop().call_soon(self._answered, lane, sent)

    def _watch_answers(self, due_s: float) -> None:
        if self._watch is None:
            self._watch = asyncio.get_running_loop().call_at(due_s, self._give_up_late)

    def _give_up_late(self) -> None:
        """Go on without the answers that take too long."""
        self._watch = None
        now_s = asyncio.get_running_loop().time()
        in_time: list[float] = []
        for lane, messages in self._in_flight.items():
            for sent in messages:
                if sent.due_s > now_s:
                    in_time.append(sent.due_s)
                else:
                    self._slow.update(partition for item in sent.items for partition in item.partitions)
                    lane.stream.give_up(sent.answer, AnswerLate("timeout"))
        if in_time:
            self._watch_answers(min(in_time))

    def _answered(self, lane: Lane, sent: Sent) -> None:
        """Take a broker's answer, or go on without one."""
        if self._is_closed:
            return
        answer = sent.answer
        results: Sequence[Sequence[int]] | None = None
        if answer.result is None:
            log.info("markers are not answered", broker=lane.stream.broker_id, reason=str(answer.error))
        else:
            results = [result.error_codes for result in answer.result.results]
        self._in_flight[lane].remove(sent)
        if not self._in_flight[lane]:
            del self._in_flight[lane]
        if results is not None and not fits(sent.items, results):
            log.error("a broker's answer about markers is not about what was asked", broker=lane.stream.broker_id)
            results = None
        for position, item in enumerate(sent.items):
            self._settle(item, sent.numbers[position], None if results is None else results[position])
        if lane in self._queues:
            self._send(lane)

    def _settle(self, item: Item, number: int, codes: Sequence[int] | None) -> None:
        """Take what is known now of the markers of one transaction; codes are None where nobody has answered."""
        pending = item.pending
        if pending.is_void:
            return
        pending.asked.difference_update(item.partitions)
        if codes is not None:
            try:
                self._take_codes(item, number, codes)
            except Exception as error:  # noqa: BLE001 - likewise
                _note_failure(pending, error)
            else:
                return
        # Also of those whose codes could not be taken it is not known what becomes of them.
        self.counts.repeated += len(item.partitions)
        pending.in_doubt(item.partitions, number)
        self._park(pending)

    def _take_codes(self, item: Item, number: int, codes: Sequence[int]) -> None:
        """Take a broker's results of the markers of one transaction."""
        pending = item.pending
        is_parked = False
        for partition, code in zip(item.partitions, codes, strict=True):
            is_parked |= self._settle_one(pending, partition, number, code)
        if is_parked:
            self._park(pending)
        else:
            pending.pause_ms = PAUSE_MIN_MS
        if not pending.missing:
            self._finish(pending)

    def _settle_one(self, pending: PendingEnd, partition: TopicPartition, number: int, code: int) -> bool:
        """Take a partition's result; return whether it has to be asked again."""
        result = result_of(code)
        if result is MarkerResult.DONE:
            pending.missing.discard(partition)
            self._slow.discard(partition)
            self.counts.written += 1
            return False
        self.counts.repeated += 1
        if code == ErrorCode.request_timed_out:
            self._slow.add(partition)
        if result is MarkerResult.NUMBER_REFUSED:
            pending.number_refused(number)
        elif code == ErrorCode.request_timed_out or partition.topic == GROUP_TOPIC:
            # A broker that passes a marker on to the owner of a shard of groups may give it up on its way.
            pending.in_doubt((partition,), number)
        if result is not MarkerResult.AGAIN and not pending.is_warned_of:
            pending.is_warned_of = True
            log.warning(
                "marker refused",
                partition=str(partition),
                transactional_id=pending.order.end.transactional_id,
                error=_name(code),
                producer=pending.order.end.identity._asdict(),
                number=number,
            )
        return True

    def _has_moved(self, stream: RelayStream, sent: Sent) -> bool:
        state = self._state()
        return any(
            partition.topic != GROUP_TOPIC and leader_of(state, partition) not in {stream.broker_id, NO_LEADER}
            for item in sent.items
            for partition in item.partitions
        )

    # To shards and back

    def _finish(self, pending: PendingEnd) -> None:
        """Tell the shard that every partition has its marker.

        Unless a request waits for that, it is enough to store it together with what the shard is asked next.
        """
        end = pending.order.end
        shard = self._runtime_of[pending].shard
        is_awaited = shard is not None and end.transactional_id in shard.held
        request = MarkersWritten(token=self._token(), message=end)
        self._submit(pending, request, lambda _: self._done(pending), is_urgent=is_awaited)

    def _want_number(self, pending: PendingEnd) -> None:
        """Have the shard store a later number."""

        def go_on(number: int) -> None:
            if not pending.is_void:
                pending.number = number
                self._make_due(pending)

        self._submit(pending, NumberWanted(token=self._token(), message=pending.wanted_number), go_on)

    def _submit(
        self,
        pending: PendingEnd,
        request: MarkersWritten | NumberWanted,
        on_answer: Callable[[Any], None],
        *,
        is_urgent: bool = True,
    ) -> None:
        def on_refusal(error: KafkaError) -> None:
            # Another owner sends all anew. Otherwise the shard is there again in a moment.
            if not pending.is_void and error.code is not ErrorCode.not_coordinator:
                self._park(pending)

        self._runtime_of[pending].submit(InternalRequest(request, on_answer, on_refusal), is_urgent=is_urgent)

    def _done(self, pending: PendingEnd) -> None:
        if pending.is_void:
            return
        self._pending[self._runtime_of[pending]].pop(pending.order.end.transactional_id, None)
        self._forget(pending)

    def _forget(self, pending: PendingEnd) -> None:
        pending.is_void = True
        self._runtime_of.pop(pending, None)
        self._parked.cancel(pending)
        if not self._runtime_of:
            self._slow.clear()  # also those that were deleted

    def _token(self) -> tuple[str, int]:
        return "markers", next(self._tokens)


def _note_failure(pending: PendingEnd, error: Exception) -> None:
    transactional_id = pending.order.end.transactional_id
    note_failure("end of a transaction", error, transactional_id=transactional_id, consequence="it is tried again")


def _now_ms() -> int:
    return int(asyncio.get_running_loop().time() * 1000)


def _name(code: int) -> str:
    try:
        return ErrorCode(code).name
    except ValueError:
        return f"error {code}"
