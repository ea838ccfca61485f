"""Commits what a stream has read to a consumer group, so that tools for groups show how far it is behind.

Spark never reads these offsets: a stream continues from its checkpoint. So a commit that fails is logged, not raised,
and no batch waits for one. A stream that has come to its end waits for the last one; one that is stopped may not get
to it, because Spark sends SIGTERM to the process that plans batches.
"""

import logging
import time
from concurrent.futures import Future, wait

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

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


class GroupCommits:
    """Commits to one group; one commit is under way at a time."""

    def __init__(self, group_id: str) -> None:
        self._group_id = group_id
        self._admin: AdminClient | None = None
        self._wanted: Offsets = {}
        self._committed: Offsets = {}
        self._under_way: tuple[Offsets, Future[ConsumerGroupTopicPartitions]] | None = None
        self._failed_before = False
        self._will_pass = False

    def commit(self, admin: AdminClient, offsets: Offsets) -> None:
        """Begin to commit these offsets; if the last commit is not done yet, that is left to a later call."""
        if self._group_id and offsets:
            self._admin, self._wanted = admin, dict(offsets)
            self._begin(admin)

    def finish(self) -> None:
        """Commit what was wanted last, and wait for it; not again, if a commit failed with what does not pass."""
        deadline_s = time.monotonic() + COMMIT_TIMEOUT_S
        self._wait_until(deadline_s)
        if self._admin is None or (self._failed_before and not self._will_pass):
            return
        self._begin(self._admin)
        self._wait_until(deadline_s)
        while self._will_pass and time.monotonic() + RETRY_PAUSE_S < deadline_s:
            time.sleep(RETRY_PAUSE_S)
            self._begin(self._admin)
            self._wait_until(deadline_s)

    def _begin(self, admin: AdminClient) -> None:
        if not self._is_free() or self._wanted == self._committed:
            return
        offsets = self._wanted
        partitions = [TopicPartition(topic, number, offset) for (topic, number), offset in offsets.items()]
        try:
            futures = admin.alter_consumer_group_offsets(
                [ConsumerGroupTopicPartitions(self._group_id, partitions)], request_timeout=COMMIT_TIMEOUT_S
            )
        except (KafkaException, ValueError) as error:
            self._warn(str(error))
        else:
            self._under_way = offsets, next(iter(futures.values()))

    def _wait_until(self, deadline_s: float) -> None:
        if self._under_way is not None:
            wait([self._under_way[1]], timeout=max(0.0, deadline_s - time.monotonic()))
            self._is_free()

    def _is_free(self) -> bool:
        if self._under_way is None:
            return True
        offsets, future = self._under_way
        if not future.done():
            return False
        self._under_way = None
        error = _error_of(future)
        self._will_pass = error is not None and error.code() in PASSING
        if error is not None:
            self._warn(error.str())
        else:
            self._committed, self._failed_before = offsets, False
        return True

    def _warn(self, problem: str) -> None:
        if not self._failed_before:
            log.warning("cannot commit to the group %s (commitGroupId): %s", self._group_id, problem)
        self._failed_before = True


def _error_of(commit: Future[ConsumerGroupTopicPartitions]) -> KafkaError | None:
    """Return why a commit that is done has failed, for the group or for its first partition that has."""
    try:
        partitions = commit.result().topic_partitions or ()
    except KafkaException as failure:
        error: KafkaError = failure.args[0]
        return error
    return next((each.error for each in partitions if each.error is not None), None)
