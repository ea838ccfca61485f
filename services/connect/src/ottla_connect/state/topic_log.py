"""A `KeyedLog` in a compacted topic (Kafka's KafkaBasedLog).

A thread follows all partitions with a consumer of its own and hands what it reads to the event loop, a batch at a
time, waiting until one is dealt with. `read_to_end` asks the brokers for the end offsets, then waits until reading
has come so far; that is known from the records, and from the consumer's reports that it reached the end, as a topic
may end with records that no consumer gets to see (markers of transactions).

Brokers may come and go: the clients reconnect by themselves, and whoever waits gets a `LogError` when the time is
up. A consumer may lose its way then, or hang; so the log looks now and then whether it has come to its end, and one
that has not moved meanwhile is replaced. A topic that is deleted, or made anew, or has lost records that were read
already, is the end of the log: `on_failure` is told. The consumer's word for that is not enough, as brokers that
start may say it wrongly.
"""

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import structlog
from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, OffsetSpec

from ottla_connect.state.config_records import Write
from ottla_connect.state.kafka_clients import (
    AUTO_OFFSET_RESET,
    PARTITION_EOF,
    REQUEST_TIMEOUT_S,
    UNKNOWN_PARTITION,
    UNKNOWN_TOPIC,
    KafkaClients,
    reason_of,
)
from ottla_connect.state.keyed_log import Entry, LogError, OnEntry
from ottla_connect.state.shared_round import SharedRound
from ottla_connect.state.topic_creation import ensure_topic
from ottla_connect.state.topic_producer import TopicProducer
from ottla_connect.storage_settings import StorageTopic
from ottla_core.closing import close_within

START_TIMEOUT_S = 60.0
READ_ALL_TIMEOUT_S = 600.0
POLL_S = 0.2
BATCH_SIZE_MAX = 1000
RETRY_S = 0.25
GONE_AFTER_S = 10.0
LOOK_INTERVAL_S = 10.0
LOOK_TIMEOUT_S = 10.0
REPLACED_WITHIN_S = 1.0
CLOSED_WITHIN_S = 5.0

# What the consumer may say of a topic that is gone, or of one that has lost what it wants to read.
GONE_CODES = frozenset(
    {KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.UNKNOWN_TOPIC_ID, UNKNOWN_TOPIC, UNKNOWN_PARTITION}
)
SUSPICIOUS_CODES = GONE_CODES | {AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE}

Offsets = dict[int, int]

log = structlog.get_logger("internal topics")


class _Read(NamedTuple):
    """What the consumer said of a partition: a record, that its end is reached, or an error."""

    partition: int
    position: int
    entry: Entry | None
    error: KafkaError | None


class TopicLog:
    """A `KeyedLog` in a topic.

    Args:
        clients: makes its clients.
        producer: writes for it; shared with other logs, and closed by whoever made it.
        topic: the topic.
        setting: the worker's setting that names it, for messages.
        single_partition: whether the order of all records counts.
        on_failure: called once if the log cannot go on.
    """

    def __init__(
        self,
        clients: KafkaClients,
        producer: TopicProducer,
        topic: StorageTopic,
        *,
        setting: str,
        single_partition: bool,
        on_failure: Callable[[LogError], None],
    ) -> None:
        self._clients = clients
        self._producer = producer
        self._topic = topic
        self._setting = setting
        self._single_partition = single_partition
        self._on_failure = on_failure
        self._on_entry: OnEntry | None = None
        self._admin: AdminClient | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._closing = threading.Event()
        self._must_begin_anew = threading.Event()
        self._reader_since_s = 0.0
        self._dealt_with = threading.Event()
        self._topic_id = ""
        self._positions: Offsets = {}
        self._moved = asyncio.Event()
        self._failure: LogError | None = None
        self._suspicion: asyncio.Task[None] | None = None
        self._looking: asyncio.Task[None] | None = None
        self._end_offsets = SharedRound(self._ask_end_offsets)

    async def start(self, on_entry: OnEntry) -> None:
        """Make the topic or check it, and read all of it.

        Raises:
            LogError: the cluster cannot be reached, the topic cannot be used, or it could not be read.
        """
        self._loop = asyncio.get_running_loop()
        self._on_entry = on_entry
        self._admin = self._clients.admin()
        partitions = await ensure_topic(
            self._admin,
            self._topic,
            setting=self._setting,
            single_partition=self._single_partition,
            timeout_s=START_TIMEOUT_S,
        )
        self._topic_id = await self._ask_topic_id()
        self._positions = dict.fromkeys(range(partitions), 0)
        self._producer.start()
        consumer = self._clients.consumer(self._pass_error_on)
        self._thread = threading.Thread(
            target=self._read, args=(consumer,), name=f"reader of {self._topic.name}", daemon=True
        )
        self._thread.start()
        self._looking = asyncio.create_task(self._look_now_and_then())
        await self.read_to_end(READ_ALL_TIMEOUT_S)

    async def write(self, writes: Sequence[Write], timeout_s: float) -> None:
        """Append records, those of one key in their order, and return when all in-sync replicas have them.

        Raises:
            LogError: they have not, or not in time; the records may still be stored.
        """
        self._check()
        await self._producer.write(self._topic.name, writes, timeout_s)

    async def read_to_end(self, timeout_s: float) -> None:
        """Return when everything was read that was stored before this call.

        Raises:
            LogError: the brokers do not answer, or reading did not come so far in time.
        """
        begun_s = time.monotonic()
        begun_at = dict(self._positions)
        ends: Offsets = {}
        self._check()
        try:
            async with asyncio.timeout_at(asyncio.get_running_loop().time() + timeout_s):
                ends = await self._reachable_end_offsets(begun_s + timeout_s)
                while self._behind(ends):
                    self._moved.clear()
                    await self._moved.wait()
                    self._check()
        except TimeoutError:
            if begun_s > self._reader_since_s and any(
                begun_at[each] == at for each, at in self._behind(ends).items()
            ):
                self._must_begin_anew.set()
            raise self._not_in_time(ends, timeout_s) from None

    async def close(self) -> None:
        """Stop reading."""
        self._closing.set()
        self._dealt_with.set()
        for task in (self._suspicion, self._looking):
            if task is not None:
                task.cancel()
        if self._thread is not None:
            await asyncio.to_thread(self._thread.join)
            self._thread = None
        self._failure = self._failure or LogError(f"the log in topic {self._topic.name} is closed")
        self._moved.set()

    def _check(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _behind(self, ends: Offsets) -> Offsets:
        """Return the positions of the partitions that were not read to these ends."""
        return {partition: at for partition, at in self._positions.items() if at < ends.get(partition, 0)}

    def _not_in_time(self, ends: Offsets, timeout_s: float) -> LogError:
        what = f"topic {self._topic.name} could not be read to its end within {timeout_s:g} s"
        if not ends:
            return LogError(f"{what}: the brokers did not say where it is")
        places = [
            f"partition {partition} at {at} of {ends[partition]}" for partition, at in self._behind(ends).items()
        ]
        return LogError(f"{what}: {', '.join(places)}")

    async def _look_now_and_then(self) -> None:
        """Read to the end though nobody has asked for it, which replaces a consumer that comes no further."""
        while self._failure is None:
            await asyncio.sleep(LOOK_INTERVAL_S)
            try:
                await self.read_to_end(LOOK_TIMEOUT_S)
            except LogError as error:
                log.info("the end of the topic was not reached", topic=self._topic.name, reason=str(error))

    # The end.

    async def _reachable_end_offsets(self, deadline: float) -> Offsets:
        while True:
            try:
                return await self._end_offsets.join()
            except KafkaException as error:
                if time.monotonic() + RETRY_S > deadline:
                    raise LogError(f"topic {self._topic.name}: {reason_of(error)}") from None
                await asyncio.sleep(RETRY_S)
                self._check()

    async def _ask_end_offsets(self) -> Offsets:
        return await self._ask_offsets(OffsetSpec.latest())  # type: ignore[no-untyped-call]

    async def _ask_offsets(self, spec: OffsetSpec) -> Offsets:
        assert self._admin is not None
        partitions = {TopicPartition(self._topic.name, each): spec for each in self._positions}
        answers = self._admin.list_offsets(partitions, request_timeout=REQUEST_TIMEOUT_S)
        try:
            results = await asyncio.gather(*(asyncio.wrap_future(each) for each in answers.values()))
        except KafkaException as error:
            if error.args[0].code() == KafkaError.FENCED_LEADER_EPOCH:
                # The leader was elected anew. librdkafka would ask with the old epoch for ever.
                await asyncio.to_thread(self._admin.list_topics, self._topic.name, REQUEST_TIMEOUT_S)
            raise
        return {partition.partition: result.offset for partition, result in zip(answers, results, strict=True)}

    async def _ask_topic_id(self) -> str:
        assert self._admin is not None
        name = self._topic.name
        described = self._admin.describe_topics(TopicCollection([name]), request_timeout=REQUEST_TIMEOUT_S)
        return str((await asyncio.wrap_future(described[name])).topic_id)

    # The reader's thread.

    def _read(self, consumer: Consumer) -> None:
        try:
            self._assign(consumer)
            while not self._closing.is_set():
                if self._must_begin_anew.is_set():
                    hangs = not close_within(consumer, REPLACED_WITHIN_S)
                    log.info("the topic's reader is replaced", topic=self._topic.name, hangs=hangs)
                    consumer = self._clients.consumer(self._pass_error_on)
                    self._assign(consumer)
                message = consumer.poll(POLL_S)
                batch = []
                while message is not None:
                    batch.append(_read_of(message))
                    message = consumer.poll(0) if len(batch) < BATCH_SIZE_MAX else None
                if batch:
                    self._hand_over(batch)
        except (LogError, KafkaException) as error:
            assert self._loop is not None
            self._loop.call_soon_threadsafe(self._fail, f"cannot be read any more: {reason_of(error)}")
        else:
            close_within(consumer, CLOSED_WITHIN_S)

    def _assign(self, consumer: Consumer) -> None:
        """Have a new consumer read on; one that has read may hang, and must not be assigned anything."""
        consumer.assign(
            [
                TopicPartition(self._topic.name, partition, position or OFFSET_BEGINNING)
                for partition, position in self._positions.items()
            ]
        )
        self._reader_since_s = time.monotonic()
        self._must_begin_anew.clear()

    def _pass_error_on(self, error: KafkaError) -> None:
        assert self._loop is not None
        if not self._closing.is_set():
            self._loop.call_soon_threadsafe(self._take_error, error)

    def _hand_over(self, batch: Sequence[_Read]) -> None:
        """Have the event loop take a batch, and wait until it has: the next one could outgrow memory otherwise."""
        assert self._loop is not None
        self._dealt_with.clear()
        self._loop.call_soon_threadsafe(self._take, batch)
        while not self._dealt_with.wait(POLL_S) and not self._closing.is_set():
            pass

    # Back in the event loop.

    def _take(self, batch: Sequence[_Read]) -> None:
        for read in batch:
            if read.error is not None:
                self._take_error(read.error)
            elif read.entry is not None:
                self._show(read.entry)
            self._positions[read.partition] = max(self._positions.get(read.partition, 0), read.position)
        self._moved.set()
        self._dealt_with.set()

    def _show(self, entry: Entry) -> None:
        assert self._on_entry is not None
        try:
            self._on_entry(entry)
        except Exception:
            # One record that breaks its reader must not keep all later ones from it.
            log.exception("a record could not be applied", topic=self._topic.name, offset=entry.offset)

    def _take_error(self, error: KafkaError) -> None:
        if error.code() not in SUSPICIOUS_CODES:
            log.info("the topic cannot be read at the moment", topic=self._topic.name, reason=error.str())
        elif self._suspicion is None or self._suspicion.done():
            self._suspicion = asyncio.create_task(self._follow_up(error.str()))

    async def _follow_up(self, suspicion: str) -> None:
        """Find out what became of the topic: give it up, or go on reading it, which the consumer may have stopped."""
        log.info("the topic may be lost", topic=self._topic.name, reason=suspicion)
        gone_since = None
        while not self._closing.is_set():
            try:
                if (reason := await self._loss()) is not None:
                    self._fail(reason)
                else:
                    self._must_begin_anew.set()
            except KafkaException as error:
                if error.args[0].code() not in GONE_CODES:
                    gone_since = None
                elif gone_since is None:
                    gone_since = time.monotonic()
                elif time.monotonic() - gone_since > GONE_AFTER_S:
                    self._fail("is gone")
                    return
            else:
                return
            await asyncio.sleep(RETRY_S)

    async def _loss(self) -> str | None:
        """Return in what way the topic is not the one that was read; None if it is."""
        if await self._ask_topic_id() != self._topic_id:
            return "was deleted and made anew"
        starts = await self._ask_offsets(OffsetSpec.earliest())  # type: ignore[no-untyped-call]
        ends = await self._ask_end_offsets()
        lost = [
            partition
            for partition, position in self._positions.items()
            if ends[partition] < position or (position and starts[partition] > position)
        ]
        return f"has lost records of partitions {lost} that were read already" if lost else None

    def _fail(self, reason: str) -> None:
        if self._failure is not None:
            return
        self._failure = LogError(f"topic {self._topic.name} ({self._setting}) {reason}")
        log.error("an internal topic is lost", reason=str(self._failure))
        self._moved.set()
        self._on_failure(self._failure)


def _read_of(message: Message) -> _Read:
    partition, offset = message.partition() or 0, message.offset() or 0
    error = message.error()
    if error is None:
        return _Read(partition, offset + 1, Entry(_bytes(message.key()), _bytes(message.value()), offset), None)
    if error.code() == PARTITION_EOF:
        return _Read(partition, offset, None, None)
    return _Read(partition, 0, None, error)


def _bytes(value: object) -> bytes | None:
    assert value is None or isinstance(value, bytes), "nothing decodes what the consumer reads"
    return value
