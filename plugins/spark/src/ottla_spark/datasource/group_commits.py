"""Commits what a stream has read to a consumer group, so that tools for groups show how far it is behind.

Spark never reads these offsets: a stream continues from its checkpoint. So a commit that fails is logged, not raised,
and no batch waits for one. A stream that has come to its end waits for the last one; one that is stopped may not get
to it, because Spark sends SIGTERM to the process that plans batches.

Commits have a client to themselves. A commit that gets no answer is given up by the next call, of which there is one
for each trigger at least, and the client closed, as librdkafka could abort the process
(`ottla_sdk.kafka.coordinator_requests`).
"""

import logging
import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import NamedTuple

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from ottla_sdk.kafka.coordinator_requests import TIMEOUT_MAX_S, close
from ottla_spark.datasource.offsets import Offsets

log = logging.getLogger(__name__)

COMMIT_TIMEOUT_S = 10.0
RETRY_PAUSE_S = 0.2
# The group has no coordinator yet, as on a cluster that has just been started, or another one takes over.
PASSING = frozenset(
    {
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.NOT_COORDINATOR,
    }
)


class _UnderWay(NamedTuple):
    """A commit that was sent.

    Attributes:
        until_s: when it is given up, by the monotonic clock.
    """

    offsets: Offsets
    answer: Future[ConsumerGroupTopicPartitions]
    until_s: float


class GroupCommits:
    """Commits to one group; one commit is under way at a time.

    Args:
        group_id: the group; empty: nothing is committed.
        new_client: makes the client that commits, when it is first needed and after each that was closed.
    """

    def __init__(self, group_id: str, new_client: Callable[[], AdminClient]) -> None:
        self._group_id = group_id
        self._new_client = new_client
        self._client: AdminClient | None = None
        self._wanted: Offsets = {}
        self._committed: Offsets = {}
        self._under_way: _UnderWay | None = None
        self._failed_before = False
        self._will_pass = False

    def commit(self, offsets: Offsets) -> None:
        """Begin to commit these offsets; if the last commit is not done yet, that is left to a later call."""
        if self._group_id and offsets:
            self._wanted = dict(offsets)
            self._begin()

    def finish(self) -> None:
        """Commit what was wanted last, and wait for it; not again, if a commit failed with what does not pass."""
        try:
            self._finish(time.monotonic() + COMMIT_TIMEOUT_S)
        finally:
            self._close()

    def _finish(self, deadline_s: float) -> None:
        self._wait_until(deadline_s)
        if self._failed_before and not self._will_pass:
            return
        self._begin()
        self._wait_until(deadline_s)
        while self._will_pass and time.monotonic() + RETRY_PAUSE_S < deadline_s:
            time.sleep(RETRY_PAUSE_S)
            self._begin()
            self._wait_until(deadline_s)

    def _begin(self) -> None:
        if not self._is_free() or self._wanted == self._committed:
            return
        offsets = self._wanted
        partitions = [TopicPartition(topic, number, offset) for (topic, number), offset in offsets.items()]
        if self._client is None:
            self._client = self._new_client()
        try:
            futures = self._client.alter_consumer_group_offsets(
                [ConsumerGroupTopicPartitions(self._group_id, partitions)], request_timeout=TIMEOUT_MAX_S
            )
        except (KafkaException, ValueError) as error:
            self._warn(str(error))
        else:
            answer = next(iter(futures.values()))
            self._under_way = _UnderWay(offsets, answer, time.monotonic() + COMMIT_TIMEOUT_S)

    def _wait_until(self, deadline_s: float) -> None:
        if self._under_way is not None:
            wait([self._under_way.answer], timeout=max(0.0, deadline_s - time.monotonic()))
            self._is_free()

    def _is_free(self) -> bool:
        """Take note of a commit's answer, or give it up; return whether the next one may be sent."""
        if self._under_way is None:
            return True
        answer = self._under_way.answer
        if not answer.done() and time.monotonic() < self._under_way.until_s:
            return False
        offsets, error = self._under_way.offsets, _error_of(answer)
        self._will_pass = error is not None and error.code() in PASSING
        if error is not None:
            self._warn(error.str())
        else:
            self._committed, self._failed_before = offsets, False
        if answer.done():
            self._under_way = None
        else:
            self._close()
        return True

    def _close(self) -> None:
        """Close the client, and with it give up what is under way."""
        client, self._client, self._under_way = self._client, None, None
        if client is not None:
            close(client)

    def _warn(self, problem: str) -> None:
        if not self._failed_before:
            log.warning("cannot commit to the group %s (commitGroupId): %s", self._group_id, problem)
        self._failed_before = True


def _error_of(commit: Future[ConsumerGroupTopicPartitions]) -> KafkaError | None:
    """Return why a commit failed, for the group or for its first partition that did; or that it takes too long."""
    try:
        partitions = commit.result(timeout=0).topic_partitions or ()
    except TimeoutError:
        reason = f"its coordinator did not answer within {COMMIT_TIMEOUT_S:g} s"
        return KafkaError(KafkaError._TIMED_OUT, reason)  # noqa: SLF001 - a public name
    except KafkaException as failure:
        error: KafkaError = failure.args[0]
        return error
    return next((each.error for each in partitions if each.error is not None), None)
