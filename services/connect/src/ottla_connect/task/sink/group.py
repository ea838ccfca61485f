"""A sink task's membership in its consumer group: reads messages, pauses, seeks, commits, and hears of rebalances.

The consumer calls back only from within its own methods, so everything happens in the thread of the task.
"""

import logging
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Protocol

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message
from confluent_kafka import TopicPartition as KafkaTopicPartition

from ottla_sdk import ConnectError, RetriableError, TopicPartition
from ottla_sdk.kafka.hung_consumers import ConsumerWatch, close_within, ended_if_frozen

SEEK_ATTEMPTS_MAX = 100
SEEK_PAUSE_S = 0.1
CLOSED_WITHIN_S = 30.0
COMMITTED_WITHIN_S = 30.0
START_WITHIN_S = 30.0


FINAL_ERRORS = frozenset(
    {
        KafkaError._AUTHENTICATION,  # noqa: SLF001 - so are librdkafka's own codes called
        KafkaError._AUTO_OFFSET_RESET,  # noqa: SLF001
        KafkaError._FATAL,  # noqa: SLF001
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.FENCED_INSTANCE_ID,
        KafkaError.GROUP_MAX_SIZE_REACHED,
        KafkaError.INCONSISTENT_GROUP_PROTOCOL,
        KafkaError.INVALID_GROUP_ID,
        KafkaError.INVALID_SESSION_TIMEOUT,
    }
)
"""What does not pass by itself, though librdkafka may try again for ever; everything else the consumer gets over.

Those of a group that refuses a member are the ones that Java's AbstractCoordinator gives up at.
"""

FROM_START = frozenset({"earliest", "beginning", "smallest"})
"""Values of `auto.offset.reset` by which a partition without a commit is read from its start."""

OFFSETS_UNKNOWN = "Failed to fetch committed offset"
"""How a message begins when the consumer was not told where to begin; it will not ask again (its issue 5586)."""

log = logging.getLogger(__name__)


class OffsetsUnknown(RetriableError):
    """The consumer does not know where to begin, and never will."""


class ConsumerFailed(ConnectError):
    """The consumer cannot go on."""


class GroupListener(Protocol):
    """Hears of rebalances; what it raises is raised by the method of `Group` during which it was called."""

    def on_assigned(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        """The task has these too now; return where to read other than from the committed offsets."""

    def on_revoked(self, partitions: Sequence[TopicPartition], *, lost: bool) -> None:
        """The task gives these away; if they are lost, others may have them already."""

    def must_pause(self, partition: TopicPartition) -> bool:
        """Return whether a partition that was just assigned is not to be read yet."""


class Group:
    """The consumer of a sink task.

    Args:
        consumer: it; commits by itself neither offsets nor what was read.
        listener: hears of rebalances.
        incremental: whether rebalances are, as with `cooperative-sticky` and the protocol of KIP-848.
        from_start: whether partitions without a commit are read from their start (`auto.offset.reset`).
        watch: is told when the consumer is used, and what it gives.
    """

    def __init__(
        self,
        consumer: Consumer,
        listener: GroupListener,
        *,
        incremental: bool,
        from_start: bool,
        watch: ConsumerWatch,
    ) -> None:
        self._consumer = consumer
        self._watch = watch
        self._listener = listener
        self._incremental = incremental
        self._from_start = from_start
        self._assigned: set[TopicPartition] = set()
        self._had: set[TopicPartition] = set()  # now or before, so that the consumer may know their start of then
        self._uncommitted: set[TopicPartition] = set()
        self._looked_up: set[TopicPartition] = set()  # the consumer itself asks, or has asked, where they begin
        self._paused: set[TopicPartition] = set()  # in the consumer, which keeps it over rebalances
        self._revoked_meanwhile: set[TopicPartition] = set()
        self._error: Exception | None = None
        self._closed = False

    def subscribe(self, topics: Sequence[str]) -> None:
        """Read these topics from now on."""
        with ended_if_frozen():
            if topics:
                self._consumer.subscribe(
                    list(topics), on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_lost
                )
            else:
                self._consumer.unsubscribe()

    def read(self, count_max: int, timeout_s: float) -> Sequence[Message]:
        """Return the next messages, among them perhaps errors: at most so many, waiting so long for the first.

        Raises:
            Exception: what the listener has raised.
        """
        self._revoked_meanwhile.clear()
        with self._watch:
            messages: Sequence[Message] = self._consumer.consume(count_max, 0)
            if not messages and timeout_s > 0:
                first = self._consumer.poll(timeout_s)
                if first is not None:
                    self._revoked_meanwhile.clear()
                    messages = [first, *self._consumer.consume(count_max - 1, 0)] if count_max > 1 else [first]
        if messages:
            self._watch.heard()
        if self._revoked_meanwhile:
            # What was read before the partition was given away is somebody else's now, or comes again.
            messages = [each for each in messages if _place(each) not in self._revoked_meanwhile]
        self._raise_error()
        return messages

    def lag(self, partitions: Collection[TopicPartition]) -> int | None:
        """Return how many records of these there are behind those read, as far as the consumer has heard of them."""
        known = []
        for place in self._consumer.position(_for_kafka(partitions)):
            with suppress(KafkaException):
                _, end = self._consumer.get_watermark_offsets(place, cached=True)
                if place.offset >= 0 and end >= 0:
                    known.append(max(0, end - place.offset))
        return sum(known) if known else None

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Read these no further until `resume`; messages that are read already come again then."""
        if ours := self._assigned.intersection(partitions):
            self._paused |= ours
            with ended_if_frozen():
                self._consumer.pause(_for_kafka(ours))

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Read these again."""
        if ours := self._assigned.intersection(partitions):
            self._paused -= ours
            with ended_if_frozen():
                self._consumer.resume(_for_kafka(ours))

    def seek(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Go on reading at these offsets.

        Raises:
            OffsetsUnknown: the brokers do not tell where a log begins that is to be read from its start; or the
                consumer has not begun with a partition for seconds, as while it has no leader.
        """
        for place, offset in offsets.items():
            where = KafkaTopicPartition(place.topic, place.partition, self._where(place, offset))
            may_be_asking = self._may_be_asking(place)
            self._seek(where)
            if may_be_asking:
                self._await_lookup(place)
                self._seek(where)

    def committed_metadata(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, str | None]:
        """Return the metadata of the last commit of each partition; None where there is no commit.

        Raises:
            OffsetsUnknown: the group's coordinator does not tell.
        """
        try:
            found = self._consumer.committed(_for_kafka(partitions), timeout=COMMITTED_WITHIN_S)
        except KafkaException as error:
            raise OffsetsUnknown(f"cannot find out what is committed: {error.args[0].str()}") from error
        for each in found:
            if each.error is not None:
                raise OffsetsUnknown(f"cannot find out what is committed of {each.topic}: {each.error.str()}")
            place = TopicPartition(each.topic, each.partition)
            (self._uncommitted.discard if each.offset >= 0 else self._uncommitted.add)(place)
        return {
            TopicPartition(each.topic, each.partition): each.metadata if each.offset >= 0 else None for each in found
        }

    def commit(
        self, offsets: Mapping[TopicPartition, int], metadata: Callable[[TopicPartition], str], *, wait: bool
    ) -> None:
        """Commit offsets, each with metadata; without waiting, the consumer's `on_commit` says how it went.

        Raises:
            KafkaException: they are not committed.
        """
        wanted = [
            KafkaTopicPartition(each.topic, each.partition, offset, metadata(each))
            for each, offset in sorted(offsets.items())
        ]
        if not wait:
            self._consumer.commit(offsets=wanted, asynchronous=True)
            return
        with self._watch:
            results = self._consumer.commit(offsets=wanted, asynchronous=False)
        for result in results or ():
            if result.error is not None:
                raise KafkaException(result.error)

    def close(self) -> None:
        """Leave the group, without telling the listener."""
        self._closed = True
        if not close_within(self._consumer, CLOSED_WITHIN_S):
            log.warning("the consumer could not be closed within %.0f s", CLOSED_WITHIN_S)

    def _seek(self, place: KafkaTopicPartition) -> None:
        for attempt in range(1, SEEK_ATTEMPTS_MAX + 1):
            try:
                with self._watch:
                    self._consumer.seek(place)
            except KafkaException as error:
                # A partition that was just assigned cannot be sought in until librdkafka has begun with it.
                if error.args[0].code() != KafkaError._STATE:  # noqa: SLF001
                    raise
                if attempt == SEEK_ATTEMPTS_MAX:
                    raise OffsetsUnknown(f"cannot begin to read {place.topic}-{place.partition}") from error
                time.sleep(SEEK_PAUSE_S)
            else:
                return

    def _on_assign(self, consumer: Consumer, partitions: list[KafkaTopicPartition]) -> None:
        places = [TopicPartition(each.topic, each.partition) for each in partitions]
        self._assigned.update(places)
        self._revoked_meanwhile.difference_update(places)  # what comes from now on is ours again
        offsets = self._guarded(lambda: self._beginnings(places)) or {}
        self._had.update(places)
        for each, place in zip(partitions, places, strict=True):
            if place in offsets:
                each.offset = offsets[place]
            elif place in self._uncommitted:
                self._looked_up.add(place)
        with ended_if_frozen():
            if self._incremental:
                consumer.incremental_assign(partitions)
            else:
                consumer.assign(partitions)
        paused = {each for each in places if self._listener.must_pause(each)}
        self.pause(paused)
        # Without this, a partition that was given away while it was paused would never be read again.
        self.resume(self._paused.intersection(places) - paused)

    def _beginnings(self, places: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """Return where assigned partitions are read from, if the consumer is not to find that out by itself."""
        wanted = dict(self._listener.on_assigned(places))
        if self._from_start:
            for each in self._uncommitted.intersection(places) & self._had:
                wanted.setdefault(each, 0)
        return {each: self._where(each, offset) for each, offset in wanted.items()}

    def _where(self, place: TopicPartition, offset: int) -> int:
        """Return where to read from an offset on: 0 is the log's beginning, wherever that is by now.

        `auto.offset.reset` would decide instead where the log begins later: it may lead to the log's end. For a
        partition that it has read before, librdkafka takes the log's beginning of then for it. If the topic was
        created anew meanwhile, that is behind records that nobody has read; so the brokers are asked.
        """
        if offset:
            return offset
        if place not in self._had:
            return OFFSET_BEGINNING
        return self._ask_start(place)

    def _ask_start(self, place: TopicPartition) -> int:
        try:
            with self._watch:
                found = self._consumer.get_watermark_offsets(
                    KafkaTopicPartition(place.topic, place.partition), timeout=START_WITHIN_S, cached=False
                )
        except KafkaException as error:
            raise OffsetsUnknown(
                f"cannot find out where {place.topic}-{place.partition} begins: {error.args[0].str()}"
            ) from error
        if found is None:
            raise OffsetsUnknown(f"was not told where {place.topic}-{place.partition} begins")
        return found[0]

    def _may_be_asking(self, place: TopicPartition) -> bool:
        """Return whether the consumer may still ask where a partition without a commit begins."""
        if place not in self._looked_up:
            return False
        return any(each.offset < 0 for each in self._consumer.position(_for_kafka([place])))  # nothing was read yet

    def _await_lookup(self, place: TopicPartition) -> None:
        """Wait until the consumer knows where a partition without a commit begins.

        It has asked by now, as it has taken a seek. Should the answer come after that, librdkafka asks once more, and
        goes there instead. A leader answers in order: behind the answer to another question no such one comes. And
        what the consumer's main thread does for us then, it does when it has taken note of both.
        """
        self._ask_start(place)
        with ended_if_frozen():
            self._consumer.assignment()
        self._looked_up.discard(place)

    def _on_revoke(self, consumer: Consumer, partitions: list[KafkaTopicPartition]) -> None:
        del consumer
        self._give_away(partitions, lost=False)

    def _on_lost(self, consumer: Consumer, partitions: list[KafkaTopicPartition]) -> None:
        del consumer
        self._give_away(partitions, lost=True)

    def _give_away(self, partitions: list[KafkaTopicPartition], *, lost: bool) -> None:
        places = [TopicPartition(each.topic, each.partition) for each in partitions]
        self._revoked_meanwhile.update(places)
        if not self._closed:
            self._guarded(lambda: self._listener.on_revoked(places, lost=lost))
        self._assigned.difference_update(places)
        self._looked_up.difference_update(places)

    def _guarded(
        self, call: Callable[[], Mapping[TopicPartition, int] | None]
    ) -> Mapping[TopicPartition, int] | None:
        """Call the listener; keep what it raises until the consumer's method has returned."""
        try:
            with self._watch.elsewhere():
                return call()
        except Exception as error:  # noqa: BLE001 - raised again by `read`
            self._error = self._error or error
            return None

    def _raise_error(self) -> None:
        if self._error is not None:
            error, self._error = self._error, None
            raise error


def raise_if_final(error: KafkaError) -> None:
    """Raise what the consumer cannot get over, log what it can.

    Raises:
        ConsumerFailed: it cannot.
        OffsetsUnknown: another consumer could.
    """
    if error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001
        return
    if error.fatal() or error.code() in FINAL_ERRORS:
        raise ConsumerFailed(f"the consumer cannot go on: {error.name()}: {error.str()}")
    if error.str().startswith(OFFSETS_UNKNOWN):
        raise OffsetsUnknown(f"the consumer does not know where to begin: {error.name()}: {error.str()}")
    log.warning("%s: %s", error.name(), error.str())


def _for_kafka(partitions: Collection[TopicPartition]) -> list[KafkaTopicPartition]:
    return [KafkaTopicPartition(each.topic, each.partition) for each in sorted(partitions)]


def _place(message: Message) -> TopicPartition:
    return TopicPartition(message.topic() or "", -1 if (number := message.partition()) is None else number)
