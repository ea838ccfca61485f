"""What reading fails with. The class says whether trying again helps; the message is all that a person needs."""

from collections.abc import Callable
from typing import Any, TypeVar

from confluent_kafka import KafkaException

from ottla_sdk import FatalError, InvalidConfig, Problem, RetriableError

Client = TypeVar("Client")


class MissingTopic(FatalError):
    """A topic or partition that a query names does not exist."""


class OffsetsUnusable(FatalError):
    """Starting or ending offsets do not fit the partitions that there are."""


class DataLost(FatalError):
    """Records that a query still had to read are gone, and `failOnDataLoss` is true."""


class ClusterUnreachable(RetriableError):
    """No broker answered in time."""


class ReadRefused(FatalError):
    """A broker answers, but does not let this client read, or sends what cannot be read."""


class ReadFailed(RetriableError):
    """No record came in time, or a broker could not answer."""


def new_client(kind: Callable[[dict[str, Any]], Client], settings: dict[str, Any]) -> Client:
    """Return a client with these settings.

    Raises:
        InvalidConfig: librdkafka does not take them.
    """
    try:
        return kind(settings)
    except (KafkaException, TypeError, ValueError) as error:
        said = error.args[0].str() if isinstance(error, KafkaException) else str(error)
        raise InvalidConfig([Problem("kafka.*", f"{said} (a client option of the query)")]) from None
