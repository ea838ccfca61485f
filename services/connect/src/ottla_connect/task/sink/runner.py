"""Runs a sink task: reads its partitions, puts records, repeats what could not be put, commits what the task allows.

All of it happens in one thread. Offsets are committed only up to where the task has said that its records are safe
(`pre_commit`), and before partitions are given away; so a crash means that some records come again, never that one is
missed. While a batch waits to be put again, and while the connector is paused, partitions are paused and the consumer
goes on polling, which keeps the task in its group.
"""

import logging
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from confluent_kafka import Consumer, KafkaError, Message
from confluent_kafka import TopicPartition as KafkaTopicPartition

from ottla_connect.task.control import Control, Standing
from ottla_connect.task.health import Health
from ottla_connect.task.measures import TaskMeasures
from ottla_connect.task.pipeline.dead_letters import DeadLetters
from ottla_connect.task.pipeline.error_handler import ErrorHandler, Failure, Interrupted, ToleranceExceeded
from ottla_connect.task.pipeline.errors import Stage
from ottla_connect.task.sink.commits import Commits
from ottla_connect.task.sink.conversion import SinkConversion
from ottla_connect.task.sink.group import Group
from ottla_connect.task.sink.positions import Positions
from ottla_connect.task.sink.redelivery import Redelivery
from ottla_connect.task.sink.subscription import Subscription
from ottla_connect.task.sink.topic_check import TopicCheck
from ottla_connect.task.sink.topic_identities import TopicIdentities
from ottla_connect.task.sink.topic_ids import TopicIds
from ottla_sdk import RetriableError, SinkRecord, SinkTask, TopicPartition
from ottla_sdk.kafka.hung_consumers import ConsumerWatch

READ_WAIT_S = 0.25
"""How long a read waits for records, and so how soon a task hears that it is to stop."""
LEASE_WAIT_S = 1.0
LAG_INTERVAL_S = 5.0

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkSettings:
    """What a sink's runner goes by.

    Attributes:
        poll_records_max: most records in one `put`.
        flush_interval_s: seconds between commits.
        flush_timeout_s: seconds after which a commit is given up.
        incremental: whether the group rebalances incrementally.
    """

    poll_records_max: int
    flush_interval_s: float
    flush_timeout_s: float
    incremental: bool


class SinkRunner:
    """Runs one sink task, from start to stop; it is also what the plugin's context acts upon.

    Args:
        task: the plugin's task, configured.
        control: says when to work.
        settings: what it goes by.
        measures: readings.
        health: is told what is waited for.
        on_running: called when the task has started, and when it goes on after a pause.
        on_paused: called when it has paused.
        on_topics: called with topics that are read for the first time.
    """

    def __init__(
        self,
        *,
        task: SinkTask[Any],
        control: Control,
        settings: SinkSettings,
        measures: TaskMeasures,
        health: Health,
        on_running: Callable[[], None],
        on_paused: Callable[[], None],
        on_topics: Callable[[list[str]], None],
    ) -> None:
        self._task = task
        self._control = control
        self._settings = settings
        self._measures = measures
        self._health = health
        self._on_running = on_running
        self._on_paused = on_paused
        self._on_topics = on_topics
        self._positions = Positions()
        self._lag_due_s = 0.0
        self._redelivery = Redelivery()
        self._held: list[Message] = []
        self._seeks: dict[TopicPartition, int] = {}
        self._paused_by_task: set[TopicPartition] = set()
        self._paused = False
        self._standing_by = False
        self._asked_pause_s: float | None = None
        self._report_error: Exception | None = None

    def connect(
        self,
        *,
        make_consumer: Callable[[Callable[[KafkaError | None, list[KafkaTopicPartition]], None]], Consumer],
        make_subscription: Callable[[Consumer], Subscription],
        conversion: SinkConversion,
        handler: ErrorHandler[Message],
        dead_letters: DeadLetters | None,
        watch: ConsumerWatch,
        topic_ids: TopicIds,
    ) -> None:
        """Take the parts that need the runner itself, or exist only once the task may begin."""
        identities = TopicIdentities()
        self._topic_ids = topic_ids
        self._topic_check = TopicCheck(topic_ids, identities, interval_s=self._settings.flush_interval_s)
        consumer = make_consumer(self._on_commit_result)
        self._group = Group(consumer, self, incremental=self._settings.incremental, watch=watch)
        self._subscription = make_subscription(consumer)
        self._conversion = conversion
        self._handler = handler
        self._commits = Commits(
            task=self._task,
            group=self._group,
            positions=self._positions,
            identities=identities,
            control=self._control,
            measures=self._measures,
            dead_letters=dead_letters,
            check_reports=self._raise_report_error,
            interval_s=self._settings.flush_interval_s,
            timeout_s=self._settings.flush_timeout_s,
        )

    def run(self) -> None:
        """Work until the task is to stop; raises what it fails with."""
        failed = True
        try:
            self._task.start()
            self._on_running()
            self._loop()
            failed = False
        finally:
            self._close(quietly=failed)

    # What the plugin's context does.

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        """The partitions that the task has."""
        return self._positions.assigned

    def topic_id(self, topic: str) -> str | None:
        """Ask the cluster which topic bears this name now."""
        return self._topic_ids.ask(topic)

    def seek(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Go on reading there, from the next read on."""
        wanted = {TopicPartition(*place): offset for place, offset in offsets.items()}
        self._seeks.update(wanted)
        for place in wanted.keys() & self._positions.assigned:
            # Not only with the read: a commit before that must not be of what the task has asked for again.
            self._positions.move(place, wanted[place])

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Read no more of these."""
        places = set(partitions)
        self._paused_by_task |= places
        self._group.pause(places)

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Read of these again."""
        places = set(partitions)
        self._paused_by_task -= places
        if not (self._paused or self._redelivery):
            self._group.resume(places)

    def retry_in(self, milliseconds: int) -> None:
        """Try the next failed `put` again after this time."""
        self._asked_pause_s = milliseconds / 1000

    def request_commit(self) -> None:
        """Commit before the next read."""
        self._commits.ask()

    def report(self, record: SinkRecord, error: Exception) -> None:
        """Go by the rules for errors."""
        failure = Failure(self._conversion.message_of(record), Stage.TASK_PUT, type(self._task), error)
        try:
            self._handler.drop(failure)
        except ToleranceExceeded as exceeded:
            self._report_error = exceeded  # a task that swallows it must not go on as if nothing was
            raise

    def _raise_report_error(self) -> None:
        if self._report_error is not None:
            raise self._report_error

    # What the consumer's group says.

    def on_assigned(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Open partitions; return where the task wants to begin in them."""
        self._positions.assign(partitions)
        self._measures.partitions = len(self._positions.assigned)
        if partitions:
            log.info("has partitions %s now", _named(partitions))
            anew = self._topic_check.assigned(self._group.committed_metadata(partitions))
            self._seeks.update(dict.fromkeys(anew, 0))
            self._task.open(partitions)
        wanted = {each: self._seeks.pop(each) for each in partitions if each in self._seeks}
        for each, offset in wanted.items():
            self._positions.move(each, offset)
        return wanted

    def on_revoked(self, partitions: Sequence[TopicPartition], *, lost: bool) -> None:
        """Commit and close partitions; what was read of them but not put is forgotten."""
        log.info("%s partitions %s", "has lost" if lost else "gives away", _named(partitions))
        try:
            if not lost:
                self._commits.commit(partitions, closing=True)
        finally:
            self._forget(partitions)
            self._task.close(partitions)

    def must_pause(self, partition: TopicPartition) -> bool:
        """Return whether a partition that was just assigned is not to be read yet."""
        return self._paused or bool(self._redelivery) or partition in self._paused_by_task

    # The loop.

    def _loop(self) -> None:
        while (standing := self._control.standing()) is not Standing.STOPPING:
            if standing is Standing.UNLEASED:
                self._stand_by()
                continue
            self._standing_by = False
            self._set_paused(standing is Standing.PAUSED)
            if (topics := self._subscription.changed(time.monotonic())) is not None:
                self._group.subscribe(topics)
            self._begin_new_topics()
            self._look_how_far_behind(time.monotonic())
            if self._commits.are_due():
                self._commit()
            self._apply_seeks()
            try:
                if self._paused:
                    self._read_and_hold(READ_WAIT_S)
                elif self._redelivery:
                    self._redeliver()
                else:
                    self._read_and_put()
            except Interrupted:
                return

    def _stand_by(self) -> None:
        """Leave the group: another worker may run the task, and a member that does not read holds all others up."""
        if not self._standing_by:
            self._standing_by = True
            log.info("may not work without a lease, and leaves its group until there is one")
            self._group.subscribe([])
            self._subscription.forget()
        # Without a lease nothing is committed as partitions are given away; what is read before that goes with them.
        self._read_and_hold(LEASE_WAIT_S)

    def _read_and_put(self) -> None:
        if self._held:
            messages, self._held = self._held, []
        else:
            messages = list(self._group.read(self._settings.poll_records_max, READ_WAIT_S))
        records = self._conversion.convert(messages, self._positions)
        self._measures.taken += len(messages)
        if topics := self._positions.take_new_topics():
            self._on_topics(topics)
        self._put(records)

    def _read_and_hold(self, timeout_s: float) -> None:
        """Read, so that the task stays in its group, and keep what comes until it may be put."""
        messages = self._group.read(1, timeout_s)
        # In one statement with the read, the list of before it would come back with what was revoked meanwhile.
        self._held += messages

    def _redeliver(self) -> None:
        left_s = self._redelivery.due_s - time.monotonic()
        self._read_and_hold(min(max(left_s, 0.0), READ_WAIT_S))
        if self._redelivery and time.monotonic() >= self._redelivery.due_s and self._control.leased:
            self._put(self._redelivery.records)

    def _put(self, records: list[SinkRecord]) -> None:
        if not self._control.leased:  # it ran out while records were converted
            self._redelivery.keep(records, time.monotonic(), 0.0)
            self._group.pause(self._positions.assigned)
            return
        began_s = time.monotonic()
        self._health.begins()
        try:
            self._task.put(records)
            self._raise_report_error()
        except RetriableError as error:
            self._keep_for_redelivery(records, error)
            return
        if records:
            measures = self._measures
            measures.batches.add(len(records))
            measures.batch_time_ms.add((time.monotonic() - began_s) * 1000)
            measures.given += len(records)
        self._health.works()
        self._measures.active = 0
        self._asked_pause_s = None
        self._positions.put()
        if self._redelivery:
            self._redelivery.done()
            self._group.resume(self._positions.assigned - self._paused_by_task)

    def _keep_for_redelivery(self, records: list[SinkRecord], error: RetriableError) -> None:
        self._measures.errors.retries += 1
        self._measures.active = len(records)
        if not self._redelivery:
            self._group.pause(self._positions.assigned)
        now_s = time.monotonic()
        self._redelivery.keep(records, now_s, self._asked_pause_s)
        self._asked_pause_s = None
        pause_s = self._redelivery.due_s - now_s
        log.warning("could not put %d records, tries again in %.1f s: %s", len(records), pause_s, error)
        self._health.waits(str(error), pause_s)

    def _set_paused(self, paused: bool) -> None:
        if paused == self._paused:
            return
        self._paused = paused
        if paused:
            self._group.pause(self._positions.assigned)
            self._commit()
            self._on_paused()
        else:
            if not self._redelivery:
                self._group.resume(self._positions.assigned - self._paused_by_task)
            self._on_running()

    def _apply_seeks(self) -> None:
        wanted = {place: offset for place, offset in self._seeks.items() if place in self._positions.assigned}
        if wanted:
            self._seeks = {place: offset for place, offset in self._seeks.items() if place not in wanted}
            self._go_to(wanted)

    def _go_to(self, offsets: Mapping[TopicPartition, int]) -> None:
        self._redelivery.drop(offsets.keys())
        self._drop_held(offsets.keys())
        for place, offset in offsets.items():
            self._positions.move(place, offset)
        self._group.seek(offsets)

    def _forget(self, partitions: Collection[TopicPartition]) -> None:
        self._topic_check.revoked(partitions)
        self._positions.revoke(partitions)
        self._measures.partitions = len(self._positions.assigned)
        self._redelivery.drop(partitions)
        self._drop_held(partitions)
        self._paused_by_task.difference_update(partitions)
        self._seeks = {place: offset for place, offset in self._seeks.items() if place not in partitions}

    def _drop_held(self, partitions: Collection[TopicPartition]) -> None:
        self._held = [each for each in self._held if (each.topic(), each.partition()) not in partitions]

    def _commit(self) -> None:
        if not self._commits.commit(self._positions.assigned, closing=False):
            self._redelivery.done()
            self._go_to(self._positions.rewind())
            if not self._paused:
                self._group.resume(self._positions.assigned - self._paused_by_task)

    def _on_commit_result(self, error: KafkaError | None, partitions: list[KafkaTopicPartition]) -> None:
        self._commits.on_result(error, partitions)

    def _look_how_far_behind(self, now_s: float) -> None:
        if now_s >= self._lag_due_s:
            self._lag_due_s = now_s + LAG_INTERVAL_S
            self._health.lags(self._group.lag(self._positions.assigned))

    def _begin_new_topics(self) -> None:
        """Begin topics at their start that were created anew, when what was read of the former ones is put."""
        if self._redelivery or self._held:
            return
        if anew := self._topic_check.look(time.monotonic(), self._positions.assigned):
            self._go_to(dict.fromkeys(anew, 0))

    # The end.

    def _close(self, *, quietly: bool) -> None:
        """Commit, close all partitions, stop the task; after a failure what fails here too is only logged."""
        partitions = sorted(self._positions.assigned)
        failure: Exception | None = None
        for step in (
            *(
                (lambda: self._commits.commit(partitions, closing=True), lambda: self._task.close(partitions))
                if partitions
                else ()
            ),
            self._task.stop,
            self._group.close,
        ):
            try:
                step()
            except Exception as error:
                log.exception("could not stop in order")
                failure = failure or error
        self._positions.revoke(partitions)
        if failure is not None and not quietly:
            raise failure


def _named(partitions: Iterable[TopicPartition]) -> str:
    return ", ".join(f"{each.topic}-{each.partition}" for each in sorted(partitions))
