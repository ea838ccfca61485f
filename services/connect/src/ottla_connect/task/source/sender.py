"""Sends a source task's records: transforms and converts them, produces them, and follows what is acknowledged.

Records that have nothing but keys and values are converted many at a time, others one by one; nothing is made for a
record but what the converters and the producer make. One with which something goes wrong goes through the error
handler.
"""

import logging
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from ottla_connect.task.control import Control, WantedState
from ottla_connect.task.full_queue import never_has_room
from ottla_connect.task.measures import TaskMeasures
from ottla_connect.task.pipeline.converters import Converters, check_count
from ottla_connect.task.pipeline.error_handler import (
    DROPPED,
    ErrorHandler,
    Failure,
    Interrupted,
    ToleranceExceeded,
    Unavailable,
)
from ottla_connect.task.pipeline.errors import Stage
from ottla_connect.task.pipeline.transform_chain import TransformChain
from ottla_connect.task.source.in_flight import CommittableOffset, InFlight, Run, SourcePartition, identity
from ottla_sdk import ConnectError, ConnectRecord, Converter, Header, SourceRecord

FULL_QUEUE_WAIT_S = 0.1
LEASE_WAIT_S = 1.0
SLICE_RECORDS_MAX = 1000
ANY_PARTITION = -1
PURGED = frozenset({KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT})  # noqa: SLF001 - librdkafka's own codes
USELESS = frozenset(
    {KafkaError._FATAL, KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH}  # noqa: SLF001 - librdkafka's own codes
)
"""With these, a producer cannot go on; the last one is said to a producer with transactions only."""
NOW = 0

log = logging.getLogger(__name__)

_columns = attrgetter(
    "topic",
    "source_partition",
    "partition",
    "timestamp_ms",
    "headers",
    "key_schema",
    "key",
    "value_schema",
    "value",
)

DeliveryCallback = Callable[[KafkaError | None, Message], None]
RawHeaders = list[tuple[str, str | bytes | None]]
Produced = tuple[bytes | None, bytes | None, RawHeaders | None]


class ProducerFailed(ConnectError):
    """The producer cannot go on, or a record was refused and errors are not tolerated.

    Attributes:
        error: why the producer cannot go on; None if that is not what is the matter.
    """

    def __init__(self, message: str, error: KafkaError | None = None) -> None:
        super().__init__(message)
        self.error = error


class _Delivery:
    """What the producer reports to about the records of a run."""

    __slots__ = ("_on_error", "_run")

    def __init__(self, run: Run, on_error: Callable[[Run, KafkaError, Message], None]) -> None:
        self._run = run
        self._on_error = on_error

    def report(self, error: KafkaError | None, message: Message) -> None:
        """Hear that a record is acknowledged, or refused."""
        if error is None:
            self._run.outstanding -= 1
        else:
            self._on_error(self._run, error, message)


class Sender:
    """Sends records in their order.

    Args:
        make_producer: makes one with `acks=all`; it calls back with errors that are about no single record.
        converters: of the connector.
        chain: its transforms.
        handler: what is done about errors.
        control: says when to work.
        measures: readings.
        on_topic: called before the first record goes to a topic; what it raises fails the task.
        drops_refused: whether the task goes on without records that the brokers refuse, if errors are tolerated; a
            transaction cannot be committed without them.
    """

    def __init__(
        self,
        *,
        make_producer: Callable[[Callable[[KafkaError], None]], Producer],
        converters: Converters,
        chain: TransformChain[SourceRecord],
        handler: ErrorHandler[SourceRecord],
        control: Control,
        measures: TaskMeasures,
        on_topic: Callable[[str], None],
        drops_refused: bool = True,
    ) -> None:
        self._producer = make_producer(self._on_client_error)
        self._converters = converters
        self._chain = chain
        self._handler = handler
        self._control = control
        self._measures = measures
        self._on_topic = on_topic
        self._drops_refused = drops_refused
        self._in_flight = InFlight()
        self._topics: set[str] = set()
        self._produced = 0
        self._dropped = 0
        self._error: Exception | None = None

    def send(self, records: Sequence[SourceRecord]) -> None:
        """Hand all records to the producer; waits while its queue is full.

        Raises:
            ToleranceExceeded: a record cannot be handled, and errors are not tolerated.
            WrongCount: a converter has returned too few results, or too many.
            ProducerFailed: the producer cannot go on.
            Interrupted: the task is to stop, and not all records were handed over.
        """
        for first in range(0, len(records), SLICE_RECORDS_MAX):
            some = records[first : first + SLICE_RECORDS_MAX]
            if self._chain or not self._send_alike(some):
                self._send_each(some)

    def _send_alike(self, records: Sequence[SourceRecord]) -> bool:
        """Send records of one source partition and topic that have nothing but keys and values.

        Returns:
            Whether they are such, and can be converted; if not, nothing was done.

        Raises:
            WrongCount: a converter has returned too few results, or too many.
        """
        first, count = records[0], len(records)
        topics, places, partitions, times, headers, key_schemas, keys, value_schemas, values = zip(
            *map(_columns, records), strict=True
        )
        topic = first.topic
        if (
            topic not in self._topics
            or topics.count(topic) < count
            or places.count(first.source_partition) < count
            or partitions.count(None) < count
            or times.count(None) < count
            or any(headers)
        ):
            return False
        key, value = self._converters.key, self._converters.value
        try:
            key_texts = key.serialize_many(topic, key_schemas, keys)
            value_texts = value.serialize_many(topic, value_schemas, values)
        except Exception:  # noqa: BLE001 - one of them is bad, and is treated as such by itself
            return False
        check_count(key, topic, key_texts, count)
        check_count(value, topic, value_texts, count)
        self._produce_all(topic, records, key_texts, value_texts)
        return True

    def _produce_all(
        self,
        topic: str,
        records: Sequence[SourceRecord],
        keys: Sequence[bytes | None],
        values: Sequence[bytes | None],
    ) -> None:
        """Produce records of one source partition that have nothing but keys and values, converted."""
        run = self._in_flight.begin(dict(records[0].source_partition))
        produce, report = self._producer.produce, _Delivery(run, self._undelivered).report
        done = dropped = 0
        try:
            for done, (value, key) in enumerate(zip(values, keys, strict=True)):
                try:
                    try:
                        produce(topic, value, key, ANY_PARTITION, report)
                    except BufferError:
                        self._produce_patiently((topic, value, key, ANY_PARTITION, report))
                except KafkaException as error:
                    self._refuse(records[done], error.args[0])
                    dropped += 1
            done = len(records)
        finally:
            run.outstanding += done - dropped
            if done:
                run.offset = records[done - 1].source_offset
            run.seal()
            self._produced += done
            self._dropped += dropped

    def _send_each(self, records: Sequence[SourceRecord]) -> None:
        key_of, value_of = self._converters.key.serialize, self._converters.value.serialize
        chain = self._chain or None
        produce, topics = self._producer.produce, self._topics
        runs = _OpenRuns(self._in_flight, self._undelivered)
        run, delivered = runs.last
        place: SourcePartition | None = None
        try:
            for record in records:
                if record.source_partition is not place and record.source_partition != place:
                    place = record.source_partition
                    run, delivered = runs.of(place)
                changed: ConnectRecord | None = record if chain is None else chain.apply(record, record)
                if changed is None:
                    self._drop(run, record)
                    continue
                topic, raw = changed.topic, changed.headers
                try:
                    key = key_of(topic, changed.key_schema, changed.key, raw)
                    value = value_of(topic, changed.value_schema, changed.value, raw)
                    headers = self._headers(topic, raw) if raw else None
                except Exception:  # noqa: BLE001 - the other way decides about whatever a converter raises
                    converted = self._carefully(changed, record)
                    if converted is None:
                        self._drop(run, record)
                        continue
                    key, value, headers = converted
                if topic not in topics:
                    self._on_topic(topic)
                    topics.add(topic)
                partition = ANY_PARTITION if changed.partition is None else changed.partition
                timestamp_ms = changed.timestamp_ms or NOW
                try:
                    try:
                        produce(topic, value, key, partition, delivered, delivered, timestamp_ms, headers)
                    except BufferError:
                        self._produce_patiently(
                            (topic, value, key, partition, delivered, delivered, timestamp_ms, headers)
                        )
                except KafkaException as error:
                    self._refuse(record, error.args[0])
                    self._drop(run, record)
                    continue
                run.outstanding += 1
                run.offset = record.source_offset
            self._produced += len(records)
        finally:
            runs.seal()

    def serve(self) -> None:
        """Hear what was acknowledged meanwhile.

        Raises:
            ProducerFailed: a record was refused, and errors are not tolerated; or nothing works any more.
            Unavailable: the brokers were away for longer than the producer waits.
        """
        self._producer.poll(0)
        waiting = len(self._producer)
        self._measures.active = waiting
        self._measures.given = max(self._produced - waiting - self._dropped, 0)
        if self._error is not None:
            raise self._error

    def flush(self, timeout_s: float) -> int:
        """Wait until everything is acknowledged; returns how many records are not, when the time is over."""
        left = self._producer.flush(max(timeout_s, 0.0))
        self._measures.active = left
        return left

    def take_committable(self) -> dict[str, CommittableOffset]:
        """Return the source offsets that have become safe to commit since the last call, by partition's identity."""
        return self._in_flight.take_committable()

    def close(self) -> None:
        """Give up what is not acknowledged; its offsets are not committed."""
        self._producer.purge()
        self._producer.flush(0)

    def _drop(self, run: Run, record: SourceRecord) -> None:
        """Go on without a record; its offset may be committed when all before it is acknowledged."""
        run.offset = record.source_offset
        self._dropped += 1

    def _produce_patiently(self, arguments: tuple[Any, ...]) -> None:
        """Produce a record for which the queue has no room yet.

        Raises:
            KafkaException: it never has.
            ProducerFailed, Unavailable: as `serve`.
            Interrupted: the task is to stop.
        """
        while True:
            self._producer.poll(FULL_QUEUE_WAIT_S)
            if self._error is not None:
                raise self._error
            wanted = self._control.wanted_state()
            if wanted is WantedState.STOPPING:
                raise Interrupted
            if wanted is WantedState.UNLEASED:
                self._control.await_change(LEASE_WAIT_S)
                continue
            is_empty = not len(self._producer)
            try:
                self._producer.produce(*arguments)
            except BufferError:
                if is_empty:  # waiting is of no use
                    raise never_has_room() from None
                continue
            return

    def _on_client_error(self, error: KafkaError) -> None:
        """Hear of an error that is not about a single record."""
        if error.fatal() or error.code() == KafkaError._AUTHENTICATION:  # noqa: SLF001
            self._error = ProducerFailed(f"the producer cannot go on: {error.name()}: {error.str()}", error)
        else:
            log.warning("%s: %s", error.name(), error.str())

    def _headers(self, topic: str, headers: Sequence[Header]) -> RawHeaders:
        converter = self._converters.header
        return [(each.key, converter.serialize_header(topic, each)) for each in headers]

    def _carefully(self, changed: ConnectRecord, record: SourceRecord) -> Produced | None:
        topic, raw = changed.topic, changed.headers
        key, value, header = self._converters.key, self._converters.value, self._converters.header
        results: list[Any] = []
        steps: tuple[tuple[Callable[[], Any], Stage, Converter[Any]], ...] = (
            (lambda: self._headers(topic, raw) if raw else None, Stage.HEADER_CONVERTER, header),
            (lambda: key.serialize(topic, changed.key_schema, changed.key, raw), Stage.KEY_CONVERTER, key),
            (lambda: value.serialize(topic, changed.value_schema, changed.value, raw), Stage.VALUE_CONVERTER, value),
        )
        for operation, stage, converter in steps:
            result = self._handler.attempt(operation, record, stage, type(converter))
            if result is DROPPED:
                return None
            results.append(result)
        return results[1], results[2], results[0]

    def _refuse(self, record: SourceRecord, error: KafkaError) -> None:
        if error.fatal() or error.code() in USELESS:
            raise ProducerFailed(f"the producer cannot go on: {error.name()}: {error.str()}", error)
        self._measures.errors.failures += 1
        self._handler.drop(Failure(record, Stage.KAFKA_PRODUCE, Sender, KafkaException(error)))

    def _undelivered(self, run: Run, error: KafkaError, message: Message) -> None:
        """Hear that the brokers, or the client itself, refuse a record that was in the queue."""
        if error.code() in PURGED:
            return  # by `close`: it is no bad record, and its run stays open, so that it is read again
        record = SourceRecord(
            topic=message.topic() or "",
            partition=message.partition(),
            key=message.key(),
            value=message.value(),
            source_partition=run.partition,
            source_offset={},
        )
        try:
            self._refuse(record, error)
        except Unavailable as failure:
            self._error = self._error or failure
        except (ToleranceExceeded, ProducerFailed) as failure:
            useless = failure.error if isinstance(failure, ProducerFailed) else None
            self._error = self._error or ProducerFailed(
                f"a record for topic {record.topic} was refused: {error.name()}: {error.str()}", useless
            )
            self._error.__cause__ = failure
        else:
            if not self._drops_refused:
                self._error = self._error or ProducerFailed(
                    f"a record for topic {record.topic} was refused, and a transaction cannot be committed without "
                    f"it, whatever errors.tolerance says: {error.name()}: {error.str()}"
                )
            run.outstanding -= 1
            self._dropped += 1


class _OpenRuns:
    """The runs of one call of `send`, by source partition; the same object is found without looking into it.

    Attributes:
        last: the run that was asked for last, and what the producer shall call for its records.
    """

    def __init__(self, in_flight: InFlight, on_error: Callable[[Run, KafkaError, Message], None]) -> None:
        self._in_flight = in_flight
        self._on_error = on_error
        self._by_object: dict[int, tuple[Run, DeliveryCallback]] = {}
        self._by_identity: dict[str, tuple[Run, DeliveryCallback]] = {}
        self.last: tuple[Run, DeliveryCallback] = _reported_to(Run({}), on_error)

    def of(self, partition: SourcePartition) -> tuple[Run, DeliveryCallback]:
        """Return the run of a source partition."""
        found = self._by_object.get(id(partition))
        if found is None:
            key = identity(partition)
            found = self._by_identity.get(key)
            if found is None:
                found = self._by_identity[key] = _reported_to(self._in_flight.begin(dict(partition)), self._on_error)
            self._by_object[id(partition)] = found
        self.last = found
        return found

    def seal(self) -> None:
        """Nothing more will come."""
        for run, _ in self._by_identity.values():
            run.seal()


def _reported_to(run: Run, on_error: Callable[[Run, KafkaError, Message], None]) -> tuple[Run, DeliveryCallback]:
    return run, _Delivery(run, on_error).report


def described(record: SourceRecord) -> str:
    """Return a record in words, for the log."""
    return (
        f"{{topic='{record.topic}', partition={record.partition}, key={record.key!r:.200}, "
        f"value={record.value!r:.1000}, sourcePartition={dict(record.source_partition)}, "
        f"sourceOffset={dict(record.source_offset)}}}"
    )
