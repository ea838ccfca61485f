"""A `KeyedLog` in a compacted topic (Kafka's KafkaBasedLog).

A `TopicReader` follows all partitions. `read_to_end` asks the brokers for the end offsets, then waits until reading
has come so far; that is known from the records, and from the consumer's reports that it reached the end, as a topic
may end with records that no consumer gets to see (markers of transactions). Transactions that are open then are
waited for: what they bring is the newest, or nothing, when their producer's successor has begun, and nobody knows
before.

Brokers may come and go: the clients reconnect by themselves, and whoever waits gets a `LogError` when the time is
up. A reader may lose its way then, or hang; so the log looks now and then whether it comes to the topic's end, and
one that does not move is replaced. A topic that is deleted, or made anew, or has lost records that were read already,
is the end of the log: `on_failure` is told. The consumer's word for that is not enough, as brokers that start may say
it wrongly.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial

import structlog
from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from ottla_connect.state.config_records import Write
from ottla_connect.state.kafka_clients import (
    AUTO_OFFSET_RESET,
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
from ottla_connect.state.topic_reader import Read, TopicReader
from ottla_connect.storage_settings import StorageTopic
from ottla_core.background import start_recurring

START_TIMEOUT_S = 60.0
READ_ALL_TIMEOUT_S = 600.0
RETRY_S = 0.25
GONE_AFTER_S = 10.0
LOOK_INTERVAL_S = 4.0
LOOK_TIMEOUT_S = 8.0
"""A reader may take so long to connect and to get its first records."""

# What the consumer may say of a topic that is gone, or of one that has lost what it wants to read.
GONE_CODES = frozenset(
    {KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.UNKNOWN_TOPIC_ID, UNKNOWN_TOPIC, UNKNOWN_PARTITION}
)
SUSPICIOUS_CODES = GONE_CODES | {AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE}

Offsets = dict[int, int]
LATEST = OffsetSpec.latest()  # type: ignore[no-untyped-call]

log = structlog.get_logger("internal topics")


class TopicLog:
    """A `KeyedLog` in a topic.

    Args:
        clients: makes its clients.
        producer: writes for it; shared with other logs, and closed by its maker.
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
        self._reader: TopicReader | None = None
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
        self._begin_to_read()
        self._looking = start_recurring("look at a topic", self._look_now_and_then, topic=self._topic.name)
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
        deadline = time.monotonic() + timeout_s
        ends: Offsets = {}
        self._check()
        try:
            async with asyncio.timeout_at(asyncio.get_running_loop().time() + timeout_s):
                ends = await self._reachable_end_offsets(deadline)
                await self._reached(ends)
        except TimeoutError:
            raise self._not_in_time(ends, timeout_s) from None

    async def close(self) -> None:
        """Stop reading."""
        for task in (self._suspicion, self._looking):
            if task is not None:
                task.cancel()
        if self._reader is not None:
            reader, self._reader = self._reader, None
            reader.give_up()
            await reader.end()
        self._failure = self._failure or LogError(f"the log in topic {self._topic.name} is closed")
        self._moved.set()

    def _check(self) -> None:
        if self._failure is not None:
            raise self._failure

    async def _reached(self, ends: Offsets) -> None:
        """Return when everything before these offsets was read."""
        while self._behind(ends):
            self._moved.clear()
            await self._moved.wait()
            self._check()

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

    # The reader.

    def _begin_to_read(self) -> None:
        """Read on from where the log is, with another reader."""
        if self._reader is not None:
            self._reader.give_up()
        self._reader = TopicReader(
            self._topic.name,
            self._positions,
            make_consumer=self._clients.consumer,
            on_batch=self._take,
            on_error=self._take_error,
        )

    async def _look_now_and_then(self) -> None:
        """Replace a reader that comes no further, also if nobody waits for what it reads."""
        stuck: set[int] = set()
        while self._failure is None:
            await asyncio.sleep(LOOK_INTERVAL_S)
            try:
                ends = await self._ask_offsets(LATEST, committed=True)
            except KafkaException:
                continue
            begun_s, begun_at = time.monotonic(), dict(self._positions)
            with suppress(TimeoutError, LogError):
                async with asyncio.timeout(LOOK_TIMEOUT_S):
                    await self._reached(ends)
            behind = self._behind(ends)
            unmoved = {partition for partition, at in behind.items() if at == begun_at[partition]}
            # While many partitions are read from their beginnings, each has to wait for its turn.
            is_stuck = unmoved and (len(unmoved) == len(behind) or unmoved & stuck)
            stuck = unmoved
            if is_stuck and self._reader is not None and self._reader.since_s < begun_s:
                log.info("the topic's reader comes no further, and is replaced", topic=self._topic.name)
                self._begin_to_read()

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
        return await self._ask_offsets(LATEST)

    async def _ask_offsets(self, spec: OffsetSpec, *, committed: bool = False) -> Offsets:
        """Return offsets of all partitions; `committed`: of those ends before which every transaction has ended."""
        assert self._admin is not None
        partitions = {TopicPartition(self._topic.name, each): spec for each in self._positions}
        isolation = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED
        answers = self._admin.list_offsets(partitions, isolation_level=isolation, request_timeout=REQUEST_TIMEOUT_S)
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

    # What the reader says.

    def _take(self, batch: Sequence[Read]) -> None:
        for read in batch:
            if read.error is not None:
                self._take_error(read.error)
            elif read.entry is not None:
                self._show(read.entry)
            self._positions[read.partition] = max(self._positions.get(read.partition, 0), read.position)
        self._moved.set()

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
            self._suspicion = start_recurring(
                "suspicion of a topic", partial(self._follow_up, error.str()), topic=self._topic.name
            )

    async def _follow_up(self, suspicion: str) -> None:
        """Find out what became of the topic: give it up, or go on reading it, which the consumer may have stopped."""
        log.info("the topic may be lost", topic=self._topic.name, reason=suspicion)
        gone_since = None
        while self._reader is not None:
            try:
                if (reason := await self._loss()) is not None:
                    self._fail(reason)
                else:
                    self._begin_to_read()
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
