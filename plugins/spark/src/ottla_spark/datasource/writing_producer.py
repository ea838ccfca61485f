"""The producers of a Python worker: one per task at a time, kept for the next task, thrown away after any failure.

Nothing that was not written goes unnoticed: librdkafka reports each record exactly once, acknowledged or failed;
failures are counted, and a task is finished only when no record is without its report (`flush` returns 0) and none
has failed. Reports of acknowledged records are counted down inside the client and never reach Python, where they
would cost nearly as much as sending.

Brokers that do not answer a new producer are an error after `CONNECT_TIMEOUT_S`, a topic that does not exist (and
that brokers do not make by themselves) after `topic.metadata.propagation.max.ms`, 10 s, and brokers that were lost in
between after `message.timeout.ms`, two minutes as in Java's client (`kafka.delivery.timeout.ms` for users).
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Lock
from time import monotonic

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from ottla_spark.datasource.client_options import BOOTSTRAP, Settings
from ottla_spark.datasource.errors import ClusterUnreachable, MissingTopic, new_client
from ottla_spark.datasource.writing_errors import (
    LOGIN_REFUSED,
    Failure,
    LoginRefused,
    RecordRefused,
    RecordsUndelivered,
    error_of,
)
from ottla_spark.datasource.writing_rows import Record

CONNECT_TIMEOUT_S = 15.0
CONNECT_STEP_S = 2.0
QUEUE_FULL_WAIT_S = 0.01
FLUSH_STEP_S = 0.5
IDLE_PRODUCERS_MAX = 4


def check_settings(settings: Settings) -> None:
    """Have librdkafka say what it thinks of the settings; nothing is sent.

    Raises:
        InvalidConfig: it does not take them.
    """
    new_client(Producer, _Reports().settings(settings))


@dataclass(slots=True)
class _Reports:
    """What librdkafka has told about a producer's records and connections."""

    failed_count: int = 0
    first: Failure | None = None
    connection_problem: str = ""
    is_login_refused: bool = False

    def settings(self, settings: Settings) -> dict[str, object]:
        """Return a producer's settings with these reports as its callbacks."""
        return {
            "log_level": 2,  # connections that break and come back are no news in the log of an executor
            **settings,
            "delivery.report.only.error": True,
            "on_delivery": self.undelivered,
            "error_cb": self.disturbed,
        }

    def undelivered(self, error: KafkaError | None, record: Message) -> None:
        if error is None:
            return
        self.failed_count += 1
        if self.first is None:
            topic, partition = record.topic() or "", record.partition()
            self.first = Failure(
                code=error.code(),
                reason=error.str(),
                topic=topic,
                partition=-1 if partition is None else partition,
            )

    def disturbed(self, error: KafkaError) -> None:
        self.connection_problem = error.str()
        self.is_login_refused = self.is_login_refused or error.code() in LOGIN_REFUSED


class RecordProducer:
    """An idempotent producer for the records of one task at a time."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._reports = _Reports()
        self._producer = new_client(Producer, self._reports.settings(settings))
        self._is_connected = False

    def send(self, records: Iterable[Record]) -> int:
        """Hand over records in order, waiting while the queue is full; return how many.

        Raises:
            ConnectError: one of them cannot be written, or an earlier one was not.
        """
        producer, produce = self._producer, self._producer.produce
        count = 0
        for record in records:
            if not self._is_connected:
                self._connect(str(record[0]))
            try:
                produce(*record)
            except BufferError:
                self._send_when_there_is_room(record)
            except KafkaException as error:
                self._fail(error.args[0], record)
            count += 1
        producer.poll(0)
        self._check()
        return count

    def finish(self) -> None:
        """Wait until every record is acknowledged.

        Raises:
            ConnectError: some were not.
        """
        while self._producer.flush(FLUSH_STEP_S):
            self._check()
        self._check()
        self._reports.connection_problem = ""  # is over, and none of the next task's

    def discard(self) -> None:
        """Drop whatever is not sent yet; the producer is of no use afterwards."""
        self._producer.purge()
        self._producer.flush(FLUSH_STEP_S)  # takes the reports, without which the client would stay in memory

    def _connect(self, topic: str) -> None:
        """Ask the brokers about a topic, so that brokers that do not answer are known as such, and soon.

        Raises:
            ClusterUnreachable: none answered within `CONNECT_TIMEOUT_S`.
            LoginRefused: they do not let this client in.
        """
        brokers, deadline_s = self.settings[BOOTSTRAP], monotonic() + CONNECT_TIMEOUT_S
        while True:
            try:
                self._producer.list_topics(topic, timeout=CONNECT_STEP_S)
            except KafkaException as error:
                self._producer.poll(0)  # has told what is wrong with the connections
                seen = self._reports.connection_problem or error.args[0].str()
                if self._reports.is_login_refused:
                    raise LoginRefused(f"the brokers at {brokers} refuse the connection: {seen}") from None
                if monotonic() > deadline_s:
                    waited = f"within {CONNECT_TIMEOUT_S:.0f} s"
                    raise ClusterUnreachable(f"no broker at {brokers} answered {waited}: {seen}") from None
            else:
                self._is_connected = True
                return

    def _send_when_there_is_room(self, record: Record) -> None:
        while True:
            if len(self._producer) == 0:
                raise RecordRefused(
                    f"a record for topic {record[0]!r} is larger than the whole queue; raise kafka.buffer.memory"
                )
            self._producer.poll(QUEUE_FULL_WAIT_S)
            self._check()
            try:
                self._producer.produce(*record)
            except BufferError:
                continue
            except KafkaException as error:
                self._fail(error.args[0], record)
            return

    def _fail(self, error: KafkaError, record: Record) -> None:
        """Count a record that was not even queued, and raise."""
        partition = record[3] if len(record) > 3 else -1
        self._reports.failed_count += 1
        self._reports.first = self._reports.first or Failure(
            code=error.code(), reason=error.str(), topic=record[0], partition=partition
        )
        self._check()

    def _check(self) -> None:
        reports = self._reports
        if reports.first is not None:
            error = error_of(
                reports.first,
                failed_count=reports.failed_count,
                brokers=str(self.settings[BOOTSTRAP]),
                connection_problem=reports.connection_problem,
            )
            if isinstance(error, MissingTopic) and self._is_there(reports.first):
                raise RecordsUndelivered(f"{reports.failed_count} records were not written: {reports.first.reason}")
            raise error

    def _is_there(self, failure: Failure) -> bool:
        """Return whether what was missing is there now: it is new, or a broker that has just started lacked it."""
        try:
            topic = self._producer.list_topics(failure.topic, timeout=CONNECT_STEP_S).topics[failure.topic]
        except (KafkaException, KeyError):
            return False
        return topic.error is None and len(topic.partitions) > max(failure.partition, 0)


class ProducerPool:
    """Producers that no task uses at the moment, by their settings; making one costs a connection to each broker."""

    def __init__(self, idle_max: int = IDLE_PRODUCERS_MAX) -> None:
        self._idle: list[RecordProducer] = []  # the one that was used last is the last
        self._idle_max = idle_max
        self._lock = Lock()

    @contextmanager
    def lent(self, settings: Settings) -> Iterator[RecordProducer]:
        """Yield a producer that nobody else has; if the block fails, it is not used again."""
        producer = self._taken(settings) or RecordProducer(settings)
        try:
            yield producer
        except BaseException:
            producer.discard()
            raise
        with self._lock:
            self._idle.append(producer)
            del self._idle[: -self._idle_max]

    def _taken(self, settings: Settings) -> RecordProducer | None:
        with self._lock:
            for place in reversed(range(len(self._idle))):
                if self._idle[place].settings == settings:
                    return self._idle.pop(place)
        return None


PRODUCERS = ProducerPool()
