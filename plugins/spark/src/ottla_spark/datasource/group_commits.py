"""Commits what a stream has read to a consumer group, so that tools for groups show how far it is behind.

Spark never reads these offsets: a stream continues from its checkpoint. So a commit that fails is logged, not raised,
and nobody waits for it before the stream stops.
"""

import logging
import time
from concurrent.futures import Future, wait

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from ottla_spark.datasource.offsets import Offsets

log = logging.getLogger(__name__)

COMMIT_TIMEOUT_S = 10.0


class GroupCommits:
    """Commits to one group; one commit is under way at a time."""

    def __init__(self, group_id: str) -> None:
        self._group_id = group_id
        self._admin: AdminClient | None = None
        self._wanted: Offsets = {}
        self._committed: Offsets = {}
        self._under_way: tuple[Offsets, Future[ConsumerGroupTopicPartitions]] | None = None
        self._failed_before = False

    def commit(self, admin: AdminClient, offsets: Offsets) -> None:
        """Begin to commit these offsets; if the last commit is not done yet, that is left to a later call."""
        if self._group_id and offsets:
            self._admin, self._wanted = admin, dict(offsets)
            self._begin(admin)

    def finish(self) -> None:
        """Commit what was wanted last, and wait for it; not again, if the last commit failed."""
        deadline_s = time.monotonic() + COMMIT_TIMEOUT_S
        self._wait_until(deadline_s)
        if self._admin is not None and not self._failed_before:
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
        try:
            failed = [each for each in future.result().topic_partitions or () if each.error is not None]
            problem = str(failed[0].error) if failed else ""
        except KafkaException as error:
            problem = str(error.args[0].str())
        if problem:
            self._warn(problem)
        else:
            self._committed, self._failed_before = offsets, False
        return True

    def _warn(self, problem: str) -> None:
        if not self._failed_before:
            log.warning("cannot commit to the group %s (commitGroupId): %s", self._group_id, problem)
        self._failed_before = True
