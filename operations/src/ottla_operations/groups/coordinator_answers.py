"""Waits for what groups' coordinators answer to librdkafka's admin client, which must not time out by itself.

Why, `ottla_sdk.kafka.coordinator_requests` says: requests are sent with its `TIMEOUT_MAX_S`, and given up here. A
client that lives on has to be closed then. Who keeps clients asks `is_waiting` after each use.
"""

import time
from concurrent.futures import Future
from typing import TYPE_CHECKING, TypeVar
from weakref import WeakSet

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

Answer = TypeVar("Answer")

_waiting: "WeakSet[AdminClient]" = WeakSet()


class CoordinatorAnswers:
    """Waits for the answers to requests that are sent at about the same time.

    Args:
        client: that has sent them, or is about to, with `TIMEOUT_MAX_S`.
        within_s: from now; for all of them.
    """

    def __init__(self, client: "AdminClient", within_s: float) -> None:
        self._client = client
        self._until_s = time.monotonic() + within_s

    def of(self, future: "Future[Answer]") -> Answer:
        """Return an answer.

        Raises:
            KafkaException: it was refused, or did not come in time.
        """
        from confluent_kafka import KafkaError, KafkaException  # noqa: PLC0415

        try:
            return future.result(max(0.0, self._until_s - time.monotonic()))
        except TimeoutError:
            _waiting.add(self._client)
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT)) from None  # noqa: SLF001 - a public name


def is_waiting(client: "AdminClient") -> bool:
    """Return whether a client may still wait for what was given up, so that it has to be closed."""
    return client in _waiting
