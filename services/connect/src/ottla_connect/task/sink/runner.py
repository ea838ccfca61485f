"""Runs a sink task: has the state machine decide what is done next, and does it, with the consumer and the task.

All of it happens in one thread. The answer to each action goes to the machine, which says what follows from it. What
the plugin's task asks for meanwhile, through its context, and the consumer's reports of partitions that come and go
reach the machine as well. The rules are there (`state_machine.py`); nothing is decided here.
"""

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, assert_never

from confluent_kafka import Consumer, KafkaError, KafkaException, Message
from confluent_kafka import TopicPartition as KafkaTopicPartition

from ottla_connect.task.control import Control, WantedState
from ottla_connect.task.health import Health
from ottla_connect.task.measures import TaskMeasures
from ottla_connect.task.pipeline.dead_letters import DeadLetters, DeadLettersLost
from ottla_connect.task.pipeline.error_handler import ErrorHandler, Failure, Interrupted, ToleranceExceeded
from ottla_connect.task.pipeline.errors import Stage
from ottla_connect.task.sink.actions import (
    Action,
    AskTopicIds,
    CloseConsumer,
    ClosePartitions,
    ClusterAction,
    CommitOffsets,
    ConsumerAction,
    Convert,
    IdentifyTopics,
    LeaveGroup,
    Moment,
    OpenPartitions,
    Pause,
    PreCommit,
    Put,
    Read,
    Resume,
    Seek,
    SettleReports,
    SinkSettings,
    StopTask,
    TaskAction,
    TellCommitFailed,
    TellCommitLate,
    TellCommitted,
    Telling,
    TellPaused,
    TellRetry,
    TellRunning,
    Warn,
)
from ottla_connect.task.sink.conversion import SinkConversion
from ottla_connect.task.sink.group import Group
from ottla_connect.task.sink.state_machine import SinkStateMachine
from ottla_connect.task.sink.subscription import Subscription
from ottla_connect.task.sink.topic_check import topics_of
from ottla_connect.task.sink.topic_ids import Question, TopicIds
from ottla_sdk import ConnectError, RetriableError, SinkRecord, SinkTask, TopicPartition
from ottla_sdk.kafka.hung_consumers import ConsumerWatch

LAG_INTERVAL_S = 5.0

log = logging.getLogger(__name__)


class ReportsNotSettled(ConnectError):
    """A dead letter was not taken. No `DataError`, which a plugin may take for one about a record of its own."""


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
        self._lag_due_s = 0.0
        self._question: tuple[int, Question] | None = None
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
        self._machine = SinkStateMachine[Message](self._settings, self._now())
        consumer = make_consumer(self._on_commit_result)
        settings = self._settings
        self._group = Group(
            consumer, self, incremental=settings.incremental, from_start=settings.from_start, watch=watch
        )
        self._subscription = make_subscription(consumer)
        self._conversion = conversion
        self._handler = handler
        self._dead_letters = dead_letters
        self._topic_ids = topic_ids

    def run(self) -> None:
        """Work until the task is to stop; raises what it fails with."""
        failed = True
        try:
            self._task.start()
            self._on_running()
            self._loop()
            failed = False
        finally:
            self._end(quietly=failed)

    # What the plugin's context does.

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        """The partitions that the task has."""
        return self._machine.assignment

    def topic_id(self, topic: str) -> str | None:
        """Ask the cluster which topic bears this name now."""
        return self._topic_ids.ask(topic)

    def seek(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Go on reading there, from the next read on."""
        self._machine.task_seeks({TopicPartition(*place): offset for place, offset in offsets.items()})

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Read no more of these."""
        self._carry_out(self._machine.task_pauses(set(partitions)))

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Read of these again."""
        self._carry_out(self._machine.task_resumes(set(partitions)))

    def retry_in(self, milliseconds: int) -> None:
        """Try the next failed `put` again after this time."""
        self._machine.task_retries_in(milliseconds / 1000)

    def request_commit(self) -> None:
        """Commit before the next read."""
        self._machine.task_asks_to_commit()

    def report(self, record: SinkRecord, error: Exception) -> None:
        """Go by the rules for errors."""
        failure = Failure(self._conversion.message_of(record), Stage.TASK_PUT, type(self._task), error)
        try:
            self._handler.drop(failure)
        except ToleranceExceeded as exceeded:
            self._report_error = exceeded  # a task that swallows it must not go on as if nothing was
            raise

    def settle_reports(self) -> None:
        """Wait until all dead letters have arrived."""
        try:
            self._flush_dead_letters()
        except DeadLettersLost as lost:
            self._report_error = lost  # likewise; and it is what the task fails with
            raise ReportsNotSettled(str(lost)) from lost

    def _flush_dead_letters(self) -> None:
        if self._dead_letters is not None:
            self._dead_letters.flush(self._settings.flush_timeout_s)

    @contextmanager
    def _reports_first(self) -> Iterator[None]:
        """Call the task; what has become of its reports counts before what it makes of that."""
        try:
            yield
        finally:
            self._raise_report_error()

    def _raise_report_error(self) -> None:
        if self._report_error is not None:
            raise self._report_error

    # What the consumer's group says.

    def on_assigned(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Open partitions; return where the task wants to begin in them."""
        if partitions:
            log.info("has partitions %s now", _named(partitions))
        actions = self._machine.assigned(partitions)
        self._measures.partitions = len(self._machine.assignment)
        self._carry_out(actions)
        return self._machine.beginnings(partitions)

    def on_revoked(self, partitions: Sequence[TopicPartition], *, lost: bool) -> None:
        """Commit and close partitions; what was read of them but not put is forgotten."""
        log.info("%s partitions %s", "has lost" if lost else "gives away", _named(partitions))
        try:
            self._carry_out(self._machine.revoked(partitions, self._now(), lost=lost))
        finally:
            actions = self._machine.given_away(partitions)
            self._measures.partitions = len(self._machine.assignment)
            self._carry_out(actions)

    def must_pause(self, partition: TopicPartition) -> bool:
        """Return whether a partition that was just assigned is not to be read yet."""
        return self._machine.must_pause(partition)

    def _on_commit_result(self, error: KafkaError | None, partitions: list[KafkaTopicPartition]) -> None:
        failed = error or next((each.error for each in partitions if each.error is not None), None)
        offsets = {TopicPartition(each.topic, each.partition): each.offset for each in partitions}
        reason = None if failed is None else failed.str()
        self._carry_out(self._machine.commit_answered(offsets, reason, self._now()))

    # The loop.

    def _now(self) -> Moment:
        return Moment(time.monotonic(), self._control.leased)

    def _loop(self) -> None:
        while (wanted := self._control.wanted_state()) is not WantedState.STOPPING:
            try:
                if wanted is WantedState.UNLEASED:
                    self._carry_out(self._machine.stand_by())
                else:
                    self._turn(paused=wanted is WantedState.PAUSED)
            except Interrupted:
                return

    def _turn(self, *, paused: bool) -> None:
        self._carry_out(self._machine.work(self._now(), paused=paused))
        if (topics := self._subscription.changed(time.monotonic())) is not None:
            self._group.subscribe(topics)
        self._hear_topic_ids()
        self._look_how_far_behind(time.monotonic())
        self._carry_out(self._machine.tick(self._now()))
        self._carry_out(self._machine.proceed(self._now()))

    def _hear_topic_ids(self) -> None:
        if self._question is None or not self._question[1].is_answered():
            return
        (ticket, question), self._question = self._question, None
        found: Mapping[str, str | None] = {}
        try:
            found = question.result()
        except RetriableError as error:
            log.debug("does not know whether the topics are still the same: %s", error)
        self._machine.topic_ids_found(ticket, found)

    def _look_how_far_behind(self, now_s: float) -> None:
        if now_s >= self._lag_due_s:
            self._lag_due_s = now_s + LAG_INTERVAL_S
            self._health.lags(self._group.lag(self._machine.assignment))

    def _end(self, *, quietly: bool) -> None:
        """Commit, close all partitions, stop the task; after a failure what fails here too is only logged."""
        failure: Exception | None = None
        for action in self._machine.end(self._now()):
            try:
                self._carry_out([action])
            except Exception as error:
                log.exception("could not stop in order")
                failure = failure or error
        if failure is not None and not quietly:
            raise failure

    # What the machine wants done.

    def _carry_out(self, actions: Iterable[Action]) -> None:
        """Do all of it in order, each with what follows from its answer before the next."""
        for action in actions:
            self._do(action)

    def _do(self, action: Action) -> None:
        if isinstance(action, ConsumerAction):
            self._do_with_consumer(action)
        elif isinstance(action, TaskAction):
            self._do_with_task(action)
        elif isinstance(action, ClusterAction):
            self._ask_cluster(action)
        else:
            self._tell(action)

    def _do_with_consumer(self, action: ConsumerAction) -> None:
        match action:
            case Read():
                messages = self._group.read(action.count_max, action.timeout_s)
                self._carry_out(self._machine.messages_read(messages, self._now()))
            case Pause():
                self._group.pause(action.partitions)
            case Resume():
                self._group.resume(action.partitions)
            case Seek():
                self._group.seek(action.offsets)
            case CommitOffsets():
                self._commit(action)
            case LeaveGroup():
                log.info("may not work without a lease, and leaves its group until there is one")
                self._group.subscribe([])
                self._subscription.forget()
            case CloseConsumer():
                self._group.close()
            case _:
                assert_never(action)

    def _do_with_task(self, action: TaskAction) -> None:
        match action:
            case Convert():
                self._convert(action)
            case Put():
                self._put(action.records)
            case PreCommit():
                self._pre_commit(action)
            case SettleReports():
                self._settle_reports(action)
            case OpenPartitions():
                self._task.open(action.partitions)
            case ClosePartitions():
                self._task.close(action.partitions)
            case StopTask():
                self._task.stop()
            case _:
                assert_never(action)

    def _convert(self, action: Convert) -> None:
        records = self._conversion.convert(action.messages, self._machine)
        self._measures.taken += len(action.messages)
        if topics := self._machine.take_new_topics():
            self._on_topics(topics)
        self._carry_out(self._machine.converted(records, self._now()))

    def _put(self, records: list[SinkRecord]) -> None:
        began_s = time.monotonic()
        self._health.begins()
        try:
            with self._reports_first():
                self._task.put(records)
        except RetriableError as error:
            self._carry_out(self._machine.put_failed(records, str(error), self._now()))
            return
        if records:
            measures = self._measures
            measures.batches.add(len(records))
            measures.batch_time_ms.add((time.monotonic() - began_s) * 1000)
            measures.given += len(records)
        self._health.works()
        self._measures.active = 0
        self._carry_out(self._machine.put_succeeded())

    def _pre_commit(self, action: PreCommit) -> None:
        try:
            with self._reports_first():
                allowed = self._task.pre_commit(action.offered)
        except RetriableError as error:
            self._measures.commit_failures += 1
            log.warning("cannot make records safe now, which come again from the last commit on: %s", error)
            self._carry_out(self._machine.pre_commit_failed(action))
            return
        self._carry_out(self._machine.pre_commit_answered(action, allowed))

    def _settle_reports(self, action: SettleReports) -> None:
        self._raise_report_error()
        self._flush_dead_letters()
        self._carry_out(self._machine.reports_settled(action, self._now()))

    def _commit(self, action: CommitOffsets) -> None:
        try:
            self._group.commit(action.offsets, action.metadata.__getitem__, wait=action.wait)
        except KafkaException as error:
            self._carry_out(self._machine.commit_refused(error.args[0].str()))
            return
        self._carry_out(self._machine.commit_sent(action, self._now()))

    def _ask_cluster(self, action: ClusterAction) -> None:
        match action:
            case IdentifyTopics(partitions=partitions):
                committed = self._group.committed_metadata(partitions)
                # Without an answer it would never show if a topic is created anew before the next one.
                found = self._topic_ids.ask_all(topics_of(partitions))
                self._carry_out(self._machine.identified(partitions, committed, found))
            case AskTopicIds():
                self._question = (action.ticket, self._topic_ids.begin(action.topics))
            case _:
                assert_never(action)

    def _tell(self, action: Telling) -> None:
        match action:
            case TellRunning():
                self._on_running()
            case TellPaused():
                self._on_paused()
            case TellRetry(record_count=count, reason=reason, pause_s=pause_s):
                self._measures.errors.retries += 1
                self._measures.active = count
                log.warning("could not put %d records, tries again in %.1f s: %s", count, pause_s, reason)
                self._health.waits(reason, pause_s)
            case TellCommitted():
                self._measures.commits.add(action.took_s * 1000)
            case TellCommitFailed():
                self._measures.commit_failures += 1
                log.error("offsets are not committed: %s", action.reason)
            case TellCommitLate():
                self._measures.commit_failures += 1
                log.warning("a commit of offsets took more than %.1f s", action.timeout_s)
            case Warn():
                log.warning("%s", action.message)
            case _:
                assert_never(action)


def _named(partitions: Iterable[TopicPartition]) -> str:
    return ", ".join(f"{each.topic}-{each.partition}" for each in sorted(partitions))
