"""Commits a sink task's offsets: when it is time, when the task asks, and before partitions are given away."""

import logging
import time
from collections.abc import Callable, Collection, Mapping
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import TopicPartition as KafkaTopicPartition

from ottla_connect.task.control import Control
from ottla_connect.task.measures import TaskMeasures
from ottla_connect.task.pipeline.dead_letters import DeadLetters
from ottla_connect.task.sink.group import Group
from ottla_connect.task.sink.positions import Positions
from ottla_connect.task.sink.topic_identities import TopicIdentities
from ottla_sdk import RetriableError, SinkTask, TopicPartition

FIRST_INTERVAL_S = 1.0
"""The first commit comes soon after the first records, for whoever looks where a new connector is."""

log = logging.getLogger(__name__)


class Commits:
    """Asks the task which offsets are safe, and commits them, unless the lease has run out.

    Args:
        task: the plugin's task.
        group: the consumer.
        positions: how far the task has come.
        identities: which topics the positions are of.
        control: knows the lease.
        measures: readings.
        dead_letters: must have arrived before; None if there are none.
        check_reports: raises if a record was reported that must not be skipped, whatever the task made of that.
        interval_s: seconds between commits.
        timeout_s: seconds after which one is given up.
    """

    def __init__(
        self,
        *,
        task: SinkTask[Any],
        group: Group,
        positions: Positions,
        identities: TopicIdentities,
        control: Control,
        measures: TaskMeasures,
        dead_letters: DeadLetters | None,
        check_reports: Callable[[], None],
        interval_s: float,
        timeout_s: float,
    ) -> None:
        self._task = task
        self._group = group
        self._positions = positions
        self._identities = identities
        self._control = control
        self._measures = measures
        self._dead_letters = dead_letters
        self._check_reports = check_reports
        self._interval_s = interval_s
        self._timeout_s = timeout_s
        self._asked = False
        self._due_s = time.monotonic() + min(FIRST_INTERVAL_S, interval_s)
        self._has_begun = False
        self._begun_s: float | None = None

    def ask(self) -> None:
        """Have a commit soon."""
        self._asked = True

    def are_due(self) -> bool:
        """Return whether it is time to commit, and no commit is under way."""
        now_s = time.monotonic()
        if self._begun_s is not None:
            if now_s < self._begun_s + self._timeout_s:
                return False
            log.warning("a commit of offsets took more than %.1f s", self._timeout_s)
            self._measures.commit_failures += 1
            self._begun_s = None
        return self._asked or now_s >= self._due_s

    def commit(self, partitions: Collection[TopicPartition], *, closing: bool) -> bool:
        """Commit what the task allows; wait for it if the partitions are about to be closed.

        Returns:
            Whether all is well; if not, the task must go on from the last commit.
        """
        if not closing:
            self._asked = False
            self._has_begun |= bool(self._positions.offered(partitions))
            pause_s = self._interval_s if self._has_begun else min(FIRST_INTERVAL_S, self._interval_s)
            self._due_s = time.monotonic() + pause_s
        if not self._control.leased:
            return True
        if not (offered := self._positions.offered(partitions)):
            return True
        began_s = time.monotonic()
        try:
            allowed = self._task.pre_commit(offered)
        except RetriableError as error:
            self._measures.commit_failures += 1
            log.warning("cannot make records safe now, which come again from the last commit on: %s", error)
            return False
        self._require_reports()
        present = self._positions.offered(partitions)  # `pre_commit` may have sought
        allowed = {each: offset for each, offset in allowed.items() if present.get(each) == offered.get(each)}
        offsets, refused = self._positions.to_commit(offered, allowed)
        for each in refused:
            log.warning("the task wants to commit what it must not: %s", each)
        if offsets and self._control.leased:
            self._send(offsets, began_s, wait=closing)
        return True

    def _require_reports(self) -> None:
        """Return if records that were reported, also by `pre_commit`, are where they belong; raise if not."""
        self._check_reports()
        if self._dead_letters is not None:
            self._dead_letters.flush(self._timeout_s)

    def on_result(self, error: KafkaError | None, partitions: list[KafkaTopicPartition]) -> None:
        """Hear how a commit went that was not waited for."""
        began_s, self._begun_s = self._begun_s, None
        if began_s is None:
            return
        failed = error or next((each.error for each in partitions if each.error is not None), None)
        if failed is None:
            offsets = {TopicPartition(each.topic, each.partition): each.offset for each in partitions}
            self._succeeded(offsets, began_s)
        else:
            self._failed(failed)

    def _send(self, offsets: Mapping[TopicPartition, int], began_s: float, *, wait: bool) -> None:
        self._positions.sent(offsets)
        try:
            self._group.commit(offsets, self._identities.metadata, wait=wait)
        except KafkaException as error:
            self._failed(error.args[0])
            return
        if wait:
            self._succeeded(offsets, began_s)
        else:
            self._begun_s = began_s

    def _succeeded(self, offsets: Mapping[TopicPartition, int], began_s: float) -> None:
        self._measures.commits.add((time.monotonic() - began_s) * 1000)
        self._positions.committed(offsets)

    def _failed(self, error: KafkaError) -> None:
        self._measures.commit_failures += 1
        log.error("offsets are not committed: %s", error.str())
