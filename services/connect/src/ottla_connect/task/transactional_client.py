"""Producers with transactions for source tasks: their settings, and how long their calls are repeated.

librdkafka's calls of transactions say with each error whether they may be repeated, whether the transaction has to be
aborted, or whether the producer is of no use any more.
"""

import time
from collections.abc import Callable, Mapping
from typing import Any

from confluent_kafka import KafkaError, KafkaException

from ottla_connect.config import WorkerConfig
from ottla_connect.ids import TaskId, transactional_id
from ottla_connect.task.clients import client_settings
from ottla_connect.task.pipeline.error_handler import Interrupted
from ottla_sdk import ConnectError, FatalError, RetriableError

CALL_S = 1.0
HANGS_AFTER_S = 60.0
BACKOFF_S = 0.1
TRANSACTION_TIMEOUT_MS = 60_000
TRANSACTION_TIMEOUT = "transaction.timeout.ms"
DELIVERY_TIMEOUTS = ("message.timeout.ms", "delivery.timeout.ms")
FENCED_CODES = frozenset(
    {KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH, KafkaError.PRODUCER_FENCED}  # noqa: SLF001 - public
)


class TaskFenced(ConnectError):
    """Somebody else writes under the task's transactional id by now."""


class TransactionAborted(RetriableError):
    """A transaction could not be committed; the task goes on from the offsets that are."""


class CallWatch:
    """Notices that a call into librdkafka does not come back, long after its time limit.

    A producer that waited while brokers were paused has been seen to do so (2.16); nothing but another process helps.
    """

    def __init__(self) -> None:
        self._since_s: float | None = None

    def __enter__(self) -> None:
        self._since_s = time.monotonic()

    def __exit__(self, *_: object) -> None:
        self._since_s = None

    def hangs(self, now_s: float) -> bool:
        """Return whether a call is under way that will not come back; any thread may ask, by the monotonic clock."""
        since_s = self._since_s
        return since_s is not None and now_s - since_s > HANGS_AFTER_S

    def watched(self, call: Callable[[float], object]) -> Callable[[float], object]:
        """Return the same call, watched."""

        def call_watched(timeout_s: float) -> None:
            with self:
                call(timeout_s)

        return call_watched


def transactional_settings(
    worker: WorkerConfig, connector: Mapping[str, str], task: TaskId, own: Mapping[str, str], *, timeout_ms: int
) -> dict[str, Any]:
    """Return librdkafka's settings for the producer of a source task that writes in transactions.

    What transactions need is set whatever the worker and the connector say, as in Kafka Connect.

    Args:
        worker: the worker's settings.
        connector: the connector's.
        task: which one.
        own: the task's defaults.
        timeout_ms: how long a transaction may last, unless the worker or the connector says otherwise.

    Raises:
        ClientSettingError: some setting has no counterpart in librdkafka.
        OverrideRefused: the worker's policy does not allow an override.
        FatalError: the producer's brokers are others than the worker's, where the offsets are.
    """
    settings = client_settings("producer", worker, connector, {**own, TRANSACTION_TIMEOUT: str(timeout_ms)})
    settings |= {"enable.idempotence": "true", "transactional.id": transactional_id(worker.group_id, task)}
    if _addresses(settings["bootstrap.servers"]) != frozenset(worker.bootstrap_servers):
        raise FatalError(
            "producer.override.bootstrap.servers, or the worker's producer.bootstrap.servers, names other brokers "
            "than the worker's bootstrap.servers. A source's records and offsets must be in one cluster to be "
            "committed together"
        )
    for key in DELIVERY_TIMEOUTS:
        # Connect's default is to try for ever; a record cannot be tried for longer than its transaction lasts.
        if key in settings and int(settings[key]) > int(settings[TRANSACTION_TIMEOUT]):
            settings[key] = settings[TRANSACTION_TIMEOUT]
    return settings


def _addresses(text: str) -> frozenset[str]:
    return frozenset(each.strip() for each in text.split(","))


def patiently(call: Callable[[float], object], *, is_given_up: Callable[[], bool]) -> None:
    """Make a call of librdkafka that takes a time limit, again and again as long as its error says that this helps.

    Raises:
        Interrupted: it is given up.
        KafkaException: it does not help.
    """
    while True:
        try:
            call(CALL_S)
        except KafkaException as error:
            failure: KafkaError = error.args[0]
            if not failure.retriable():
                raise
            if is_given_up():
                raise Interrupted from error
            time.sleep(BACKOFF_S)
        else:
            return


def failure_of(error: KafkaError, transactional: str) -> Exception:
    """Return what a task fails with whose transaction cannot go on."""
    said = f"{error.name()}: {error.str()}"
    if error.code() in FENCED_CODES:
        return TaskFenced(
            f"the task is fenced ({said}): a later start of it has taken over its transactional id {transactional}, "
            f"or a transaction has lasted longer than {TRANSACTION_TIMEOUT}. What it wrote last is not committed. If "
            "it happens again, let transactions be smaller (transaction.boundary=poll) or last longer "
            f"(producer.override.{TRANSACTION_TIMEOUT})"
        )
    if error.fatal() or error.code() == KafkaError._FATAL:  # noqa: SLF001 - public
        return ConnectError(f"the producer with the transactional id {transactional} cannot go on: {said}")
    return TransactionAborted(
        f"a transaction of {transactional} was aborted, and is repeated from the last committed offsets: {said}"
    )
