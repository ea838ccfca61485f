"""What is done about an error with a record: try again, skip it, or fail (Kafka's RetryWithToleranceOperator). Pure.

`ErrorPolicy` decides; it knows no clock. Only what passes by itself is tried again, for `errors.retry.timeout`. What
still fails is skipped under `errors.tolerance=all`, whatever it raises, because the code of transforms and converters
meets data that its author has not thought of. Two things are no fault of the record, and never a reason to skip it. A
`FatalError` says that no other record would fare better. Where something is away (`is_passing`) every record of the
outage would be skipped, so the task fails, and is started anew until it is back; Kafka Connect skips them.
"""

import enum
from collections.abc import Mapping
from dataclasses import dataclass

from confluent_kafka import KafkaError, KafkaException

from ottla_connect.config import WorkerConfig
from ottla_sdk import FatalError, RetriableError

RETRY_DELAY_MIN_MS = 300
DOUBLINGS_MAX = 30
"""Doubling further would only make numbers larger than any delay allowed."""
NO_TIMEOUT = -1
# librdkafka has tried for as long as it was told to when it reports one of these. A topic that is not there may be on
# its way: whoever creates it anew deletes it first, and no record is at fault that comes between.
AWAY_CODES = frozenset(
    {
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.NETWORK_EXCEPTION,
        KafkaError.NOT_ENOUGH_REPLICAS,
        KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        KafkaError.KAFKA_STORAGE_ERROR,
        KafkaError.THROTTLING_QUOTA_EXCEEDED,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError.UNKNOWN_TOPIC_ID,
        KafkaError._MSG_TIMED_OUT,  # noqa: SLF001
        KafkaError._TIMED_OUT,  # noqa: SLF001
        KafkaError._TIMED_OUT_QUEUE,  # noqa: SLF001
        KafkaError._TRANSPORT,  # noqa: SLF001
        KafkaError._ALL_BROKERS_DOWN,  # noqa: SLF001
        KafkaError._UNKNOWN_TOPIC,  # noqa: SLF001
    }
)


class Stage(enum.StrEnum):
    """Where in the pipeline an error happened; the names go into headers of dead letters."""

    TASK_PUT = "TASK_PUT"
    TASK_POLL = "TASK_POLL"
    TRANSFORMATION = "TRANSFORMATION"
    KEY_CONVERTER = "KEY_CONVERTER"
    VALUE_CONVERTER = "VALUE_CONVERTER"
    HEADER_CONVERTER = "HEADER_CONVERTER"
    KAFKA_PRODUCE = "KAFKA_PRODUCE"
    KAFKA_CONSUME = "KAFKA_CONSUME"


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorPolicy:
    """The rules of a connector.

    Attributes:
        tolerant: whether bad records are skipped.
        retry_timeout_ms: how long an operation is tried again; -1: for ever.
        retry_delay_max_ms: the longest pause between two tries.
        logs: whether errors are logged.
        logs_records: whether the records are logged with them.
    """

    tolerant: bool = False
    retry_timeout_ms: int = 0
    retry_delay_max_ms: int = 60_000
    logs: bool = False
    logs_records: bool = False

    @classmethod
    def of(cls, connector: Mapping[str, str], worker: WorkerConfig) -> "ErrorPolicy":
        """Return the rules of a connector's settings; the worker's hold where they say nothing."""

        def text(key: str, default: object) -> str:
            return connector.get(key, str(default)).strip().lower()

        return cls(
            tolerant=text("errors.tolerance", worker.errors_tolerance) == "all",
            retry_timeout_ms=int(text("errors.retry.timeout", worker.errors_retry_timeout)),
            retry_delay_max_ms=int(text("errors.retry.delay.max.ms", worker.errors_retry_delay_max_ms)),
            logs=text("errors.log.enable", worker.errors_log_enable) == "true",
            logs_records=text("errors.log.include.messages", worker.errors_log_include_messages) == "true",
        )

    def retry_delay_ms(self, error: Exception, *, attempt: int, elapsed_ms: float, chance: float) -> float | None:
        """Return how long to wait before the next try, None if there is none.

        Args:
            error: what the last try raised.
            attempt: how many tries there were, from 1.
            elapsed_ms: since the first.
            chance: between 0 and 1; spreads the retries of many tasks once their delays reach the maximum.
        """
        if not is_passing(error):
            return None
        left_ms = float("inf") if self.retry_timeout_ms == NO_TIMEOUT else self.retry_timeout_ms - elapsed_ms
        if left_ms <= 0:
            return None
        delay_ms: float = RETRY_DELAY_MIN_MS << min(attempt - 1, DOUBLINGS_MAX)
        if delay_ms > self.retry_delay_max_ms:
            delay_ms = chance * self.retry_delay_max_ms
        return min(delay_ms, left_ms)

    def tolerates(self, error: Exception) -> bool:
        """Return whether a record with which this has finally failed is skipped."""
        return self.tolerant and not isinstance(error, FatalError) and not is_passing(error)


def is_passing(error: Exception) -> bool:
    """Return whether something else is away or busy, so that the same record may be handled later."""
    if isinstance(error, KafkaException):
        code = error.args[0]
        return isinstance(code, KafkaError) and (code.retriable() or code.code() in AWAY_CODES)
    return isinstance(error, RetriableError)
