"""The dead letter topic of a sink: gets records that could not be handled, as they were (DeadLetterQueueReporter)."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from ottla_connect.ids import TaskId
from ottla_connect.task.full_queue import never_has_room
from ottla_connect.task.measures import ErrorMeasures
from ottla_connect.task.pipeline.error_handler import Failure, Unavailable
from ottla_connect.task.pipeline.errors import is_passing
from ottla_sdk import ConnectError, class_name

HEADER_PREFIX = "__connect.errors."
TOPIC_KEY = "errors.deadletterqueue.topic.name"
REPLICATION_FACTOR_KEY = "errors.deadletterqueue.topic.replication.factor"
CONTEXT_HEADERS_KEY = "errors.deadletterqueue.context.headers.enable"
DEFAULT_REPLICATION_FACTOR = 3
FULL_QUEUE_WAIT_S = 0.1

log = logging.getLogger(__name__)

Headers = Sequence[tuple[str, str | bytes | None]]


class DeadLettersLost(ConnectError):
    """Records could not be written to the dead letter topic; their offsets must not be committed."""


class DeadLettersUnavailable(DeadLettersLost, Unavailable):
    """The same, because the brokers are away: trying again later helps."""


@dataclass(frozen=True, slots=True)
class DeadLetterSettings:
    """Where dead letters go."""

    topic: str
    replication_factor: int
    context_headers: bool

    @classmethod
    def of(cls, connector: Mapping[str, str]) -> "DeadLetterSettings | None":
        """Return what a connector's settings say; None if it has no dead letter topic."""
        topic = connector.get(TOPIC_KEY, "").strip()
        if not topic:
            return None
        return cls(
            topic,
            int(connector.get(REPLICATION_FACTOR_KEY, DEFAULT_REPLICATION_FACTOR)),
            connector.get(CONTEXT_HEADERS_KEY, "false").strip().lower() == "true",
        )


class DeadLetters:
    """Writes dead letters.

    Args:
        task: the task.
        settings: where they go.
        make_producer: makes the producer, when the first comes.
        measures: counts.
        redact: takes resolved secrets out of a text, as plugins may put them into their errors.
    """

    def __init__(
        self,
        *,
        task: TaskId,
        settings: DeadLetterSettings,
        make_producer: Callable[[], Producer],
        measures: ErrorMeasures,
        redact: Callable[[str], str],
    ) -> None:
        self._task = task
        self._settings = settings
        self._make_producer = make_producer
        self._measures = measures
        self._redact = redact
        self._producer: Producer | None = None
        self._error: KafkaError | None = None

    def report(self, failure: Failure[Message]) -> None:
        """Write the record of a failure; `flush` says whether it has arrived."""
        if self._producer is None:
            self._producer = self._make_producer()
        message = failure.original
        headers = [*(message.headers() or ())]
        if self._settings.context_headers:
            headers += context_headers(self._task, failure, self._redact)
        _, timestamp_ms = message.timestamp()
        self._measures.dead_letters += 1
        while True:
            is_empty = not len(self._producer)
            try:
                self._producer.produce(
                    self._settings.topic,
                    message.value(),
                    message.key(),
                    on_delivery=self._delivered,
                    timestamp=max(timestamp_ms, 0),
                    headers=headers,
                )
            except BufferError:
                if is_empty:  # waiting is of no use
                    self._delivered(never_has_room().args[0], None)
                    return
                self._producer.poll(FULL_QUEUE_WAIT_S)
                self._check()
            except KafkaException as error:
                self._delivered(error.args[0], None)
                return
            else:
                return

    def flush(self, timeout_s: float) -> None:
        """Wait until all dead letters have arrived.

        Raises:
            DeadLettersLost: one was refused.
            DeadLettersUnavailable: one was not taken for now, or the time is over.
        """
        if self._producer is None:
            return
        left = self._producer.flush(timeout_s)
        self._check()
        if left:
            raise DeadLettersUnavailable(
                f"{left} records did not reach the dead letter topic {self._settings.topic} within {timeout_s:g} s"
            )

    def _check(self) -> None:
        if self._error is not None:
            kind = DeadLettersUnavailable if is_passing(KafkaException(self._error)) else DeadLettersLost
            raise kind(f"the dead letter topic {self._settings.topic} does not take a record: {self._error.str()}")

    def _delivered(self, error: KafkaError | None, message: Message | None) -> None:
        del message
        if error is not None:
            self._measures.dead_letter_failures += 1
            self._error = error
            log.error("a record cannot be written to the dead letter topic %s: %s", self._settings.topic, error.str())


def context_headers(
    task: TaskId, failure: Failure[Message], redact: Callable[[str], str]
) -> list[tuple[str, str | bytes | None]]:
    """Return the headers that say where a dead letter is from and why; names and texts are Kafka Connect's."""
    message, error = failure.original, failure.error
    values = {
        "topic": str(message.topic()),
        "partition": str(message.partition()),
        "offset": str(message.offset()),
        "connector.name": task.connector,
        "task.id": str(task.task),
        "stage": failure.stage.value,
        "class.name": class_name(failure.operator),
        "exception.class.name": class_name(type(error)),
        "exception.message": str(error),
        "exception.stacktrace": failure.trace,
    }
    return [(HEADER_PREFIX + name, redact(value).encode(errors="replace")) for name, value in values.items()]
