"""What writing fails with, besides what reading can fail with too (`errors.py`), and which of them a failure means.

The class says whether trying again helps; the message is all that a person needs.
"""

from dataclasses import dataclass

from confluent_kafka import KafkaError

from ottla_sdk import ConnectError, FatalError, RetriableError
from ottla_spark.datasource.errors import MissingTopic


class RecordRefused(FatalError):
    """A record that can never be written as it is: too large, not allowed, without a topic."""


class LoginRefused(FatalError):
    """Brokers answer, but not to this client: wrong user, password, certificate or protocol."""


class RecordsUndelivered(RetriableError):
    """Records were not acknowledged in time, or the connection to the brokers broke for good."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Why a record was not written.

    Attributes:
        code: librdkafka's or Kafka's.
        reason: the same in words.
        topic: where it was to go; empty if that is unknown.
        partition: likewise; negative if it had none yet.
    """

    code: int
    reason: str
    topic: str = ""
    partition: int = -1


# librdkafka's own codes, which the Python client gives names with an underscore.
_NO_SUCH_TOPIC: int = KafkaError._UNKNOWN_TOPIC  # noqa: SLF001
_NO_SUCH_PARTITION: int = KafkaError._UNKNOWN_PARTITION  # noqa: SLF001
_INVALID_ARGUMENT: int = KafkaError._INVALID_ARG  # noqa: SLF001
LOGIN_REFUSED: frozenset[int] = frozenset({KafkaError._AUTHENTICATION, KafkaError._SSL})  # noqa: SLF001

_MISSING_TOPIC = frozenset({_NO_SUCH_TOPIC, KafkaError.UNKNOWN_TOPIC_OR_PART})
_REFUSED = frozenset(
    {
        KafkaError.MSG_SIZE_TOO_LARGE,
        KafkaError.RECORD_LIST_TOO_LARGE,
        KafkaError.INVALID_RECORD,
        KafkaError.INVALID_MSG,
        KafkaError.TOPIC_EXCEPTION,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.POLICY_VIOLATION,
        _INVALID_ARGUMENT,
    }
)
_TOO_LARGE = frozenset({KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.RECORD_LIST_TOO_LARGE})


def error_of(first: Failure, *, failed_count: int, brokers: str, connection_problem: str) -> ConnectError:
    """Return the error that a task ends with.

    Args:
        first: the first record that was not written, and why.
        failed_count: how many were not.
        brokers: their addresses, as the user wrote them.
        connection_problem: the last one that the client saw; empty if none.
    """
    if first.code in _MISSING_TOPIC:
        return MissingTopic(
            f"topic {first.topic!r} does not exist at {brokers}; create it (ottla topic create {first.topic}) or "
            "correct its name"
        )
    if first.code == _NO_SUCH_PARTITION:
        return MissingTopic(
            f"topic {first.topic!r} has no partition {first.partition} at {brokers}; correct the column 'partition', "
            "or leave it out"
        )
    where = f"topic {first.topic!r}" + (f" partition {first.partition}" if first.partition >= 0 else "")
    if first.code in _REFUSED:
        hint = "; raise kafka.max.request.size, and the topic's max.message.bytes" if first.code in _TOO_LARGE else ""
        return RecordRefused(f"a record for {where} at {brokers} cannot be written: {first.reason}{hint}")
    seen = f"; last seen: {connection_problem}" if connection_problem else ""
    return RecordsUndelivered(
        f"{failed_count} records were not acknowledged, the first one for {where} at {brokers}: {first.reason}{seen}"
    )
