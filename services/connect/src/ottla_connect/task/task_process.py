"""Runs a task in this process: waits until it may begin, puts its parts together, and runs it."""

import gc
import logging
import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NoReturn

from confluent_kafka import Consumer, KafkaError, Message, Producer
from confluent_kafka import TopicPartition as KafkaTopicPartition
from confluent_kafka.admin import AdminClient

from ottla_connect.ids import TaskId, transactional_id
from ottla_connect.processes.messages import HealthTold, Measured, Paused, Running, RunTask, Stopped, TopicsUsed
from ottla_connect.task.channel import Channel
from ottla_connect.task.clients import client_settings, log_client_error, permitted_overrides
from ottla_connect.task.contexts import RunningJobTaskContext, RunningSinkTaskContext, RunningSourceTaskContext
from ottla_connect.task.control import TICK_INTERVAL_S, Control, WantedState
from ottla_connect.task.health import Health
from ottla_connect.task.job.progress import Progress
from ottla_connect.task.job.runner import JobRunner
from ottla_connect.task.lease_watch import EXIT_UNLEASED
from ottla_connect.task.measures import PluginMetrics, TaskMeasures
from ottla_connect.task.pipeline.converters import Converters
from ottla_connect.task.pipeline.dead_letters import DeadLetters, DeadLetterSettings
from ottla_connect.task.pipeline.error_handler import ErrorHandler
from ottla_connect.task.pipeline.errors import ErrorPolicy
from ottla_connect.task.pipeline.transform_chain import TransformChain, make_steps
from ottla_connect.task.process import Process, failure
from ottla_connect.task.settings.connector_settings import BOUNDARY_INTERVAL_KEY, BOUNDARY_KEY
from ottla_connect.task.sink.actions import SinkSettings
from ottla_connect.task.sink.conversion import described as described_message
from ottla_connect.task.sink.group import FROM_START, raise_if_final
from ottla_connect.task.sink.runner import SinkRunner
from ottla_connect.task.sink.subscription import Subscription
from ottla_connect.task.sink.topic_ids import TopicIds
from ottla_connect.task.source.boundaries import Boundaries, Boundary
from ottla_connect.task.source.commits import SourceCommits
from ottla_connect.task.source.runner import SourceRunner
from ottla_connect.task.source.sender import Sender
from ottla_connect.task.source.sender import described as described_record
from ottla_connect.task.source.topic_creation import NewTopicPlan, TopicCreation
from ottla_connect.task.source.transactions import Transactions
from ottla_connect.task.task_traces import TaskTraces
from ottla_connect.task.topic_admin import TopicAdmin
from ottla_connect.task.transactional_client import (
    HANGS_AFTER_S,
    TRANSACTION_TIMEOUT_MS,
    CallWatch,
    transactional_settings,
)
from ottla_sdk import Connector, FatalError, JobTask, RetriableError, SinkTask, SourceRecord, SourceTask, class_name
from ottla_sdk.kafka.hung_consumers import SILENT_TICKS_MAX, ConsumerWatch
from ottla_sdk.runtime.redaction import Redaction

LIST_TOPICS_TIMEOUT_S = 30.0
METADATA_AGE_MAX_MS = 300_000
FLUSH_INTERVAL_KEY = "offset.flush.interval.ms"
BEGIN_WAIT_S = 60.0
LAST_FLUSH_SHARE = 0.8
GARBAGE_THRESHOLD = 50_000
TRANSACTION_INTERVAL_MAX_MS = 13 * 60_000
"""Brokers allow transactions of 15 minutes, unless they are set otherwise."""
EXIT_HUNG = 6
HANGS = (
    f"the consumer hangs: it gave neither records nor statistics for {SILENT_TICKS_MAX * TICK_INTERVAL_S:.0f} s; "
    "the task goes on in another process from what is committed"
)
PRODUCER_HANGS = (
    f"the producer hangs: a call has not come back for {HANGS_AFTER_S:.0f} s; the task goes on in another process "
    "from what is committed"
)

log = logging.getLogger(__name__)


class ConsumerHangs(RetriableError):
    """The consumer will never give anything again."""


class ProducerHangs(RetriableError):
    """The producer will never come back from a call."""


def run_task(channel: Channel, redaction: Redaction, purpose: RunTask) -> None:
    """Run a task until it is to stop; raises what it fails with."""
    control = Control(channel, leased=True, paused=purpose.paused)
    readings = _Readings(control, redaction)
    watch, calls = ConsumerWatch(), CallWatch()

    def on_tick() -> None:
        readings.report()
        hangs: RetriableError | None = ConsumerHangs(HANGS) if watch.tick() else None
        if calls.hangs(time.monotonic()):
            hangs = ProducerHangs(PRODUCER_HANGS)
        if hangs is not None:
            control.send(failure(hangs, redaction))
            os._exit(EXIT_HUNG)

    control.start(on_tick)
    if _await_begin(control):
        parts = TaskParts(channel, redaction, purpose, control, readings, watch=watch, calls=calls)
        try:
            runner = parts.runner()
            _tune_garbage_collection()
            runner.run()
        finally:
            parts.close()
            parts.traces.end()
            readings.report()
    control.send(Stopped())


def _tune_garbage_collection() -> None:
    """Collect garbage less often: a task always has some thousands of records, hardly ever in circles."""
    gc.freeze()
    gc.set_threshold(GARBAGE_THRESHOLD, *gc.get_threshold()[1:])


def _await_begin(control: Control) -> bool:
    """Wait until the task may begin; returns whether it may, rather than is to stop."""
    said = False
    while (wanted := control.wanted_state()) is not WantedState.WORKING:
        if wanted is WantedState.STOPPING:
            return False
        if wanted is WantedState.PAUSED and not said:
            control.send(Paused())
            said = True
        control.await_change(BEGIN_WAIT_S)
    return True


class _Readings:
    """Sends the readings of a task to the worker when they have changed, and what a job says of its progress."""

    def __init__(self, control: Control, redaction: Redaction) -> None:
        self._control = control
        self._last: Mapping[str, float] = {}
        self._reporting = threading.Lock()
        self.measures: TaskMeasures | None = None
        self.metrics = PluginMetrics()
        self.span_readings: Callable[[], Mapping[str, float]] = dict
        self.progress = Progress(control, redaction)
        self.health = Health(
            lambda document: control.send(HealthTold(health=document)),
            redaction.text,
            given=lambda: self.measures.given if self.measures is not None else None,
        )

    def report(self) -> None:
        """Send them: the receiving thread does now and then, and the task at its end, which must not overtake it."""
        with self._reporting:
            runtime = self.measures.readings() if self.measures is not None else {}
            values = {
                **self.metrics.readings(),
                **runtime,
                **self.span_readings(),
                "waiting-time-ms": self.health.waiting_ms(),
            }
            if values != self._last:
                self._last = values
                self._control.send(Measured(values=values))
            self.health.report()
            self.progress.send()


@dataclass(frozen=True, slots=True, kw_only=True)
class _JobActions:
    client_settings: Callable[[Literal["consumer", "producer", "admin"]], Mapping[str, str]]
    ensure_topic: Callable[[str], None]
    report_progress: Callable[[Mapping[str, Any]], None]


def _end_with_all_children() -> NoReturn:
    """End this process; the launcher ends what it has started, as it does whenever a task's process has ended."""
    os._exit(EXIT_UNLEASED)


class TaskParts:
    """Makes the parts of a task's runner out of settings."""

    def __init__(
        self,
        channel: Channel,
        redaction: Redaction,
        purpose: RunTask,
        control: Control,
        readings: _Readings,
        *,
        watch: ConsumerWatch,
        calls: CallWatch,
    ) -> None:
        self._watch = watch
        self._calls = calls
        self._id = TaskId(purpose.connector, purpose.task)
        self._control = control
        self._readings = readings
        self._process = Process.make(channel, redaction, purpose.worker)
        self._worker = self._process.worker
        self.traces = TaskTraces(self._worker, self._id)
        readings.span_readings = self.traces.readings
        self._connector = self._process.providers.resolve(purpose.connector_settings)
        self._settings = self._process.providers.resolve(purpose.settings)
        self._policy = ErrorPolicy.of(self._connector, self._worker)
        self._flush_interval_s = (
            int(self._connector.get(FLUSH_INTERVAL_KEY, self._worker.offset_flush_interval_ms)) / 1000
        )
        self._flush_timeout_s = self._worker.offset_flush_timeout_ms / 1000
        self._closers: list[Callable[[], None]] = []
        self._on_running: Callable[[], None] = lambda: None
        self._health = readings.health

    def runner(self) -> SourceRunner | SinkRunner | JobRunner:
        """Return what runs the task; its kind says which."""
        lookup = self._process.lookup
        kind = lookup.find(self._connector.get("connector.class", ""), Connector)
        version = lookup.version(kind)

        def on_running() -> None:
            self._control.send(Running(version=version))
            self._health.runs(runs=True)

        self._on_running = on_running
        if issubclass(kind.task_class, JobTask):
            return self._job(kind.task_class)
        task = kind.task_class()
        task.configure(self._settings)
        self._converters = Converters.make(self._connector, self._process.worker_settings, lookup)
        self._closers.append(self._converters.close)
        if isinstance(task, SourceTask):
            return self._source(task)
        if isinstance(task, SinkTask):
            return self._sink(task)
        raise FatalError(f"{class_name(kind.task_class)} is no SourceTask, SinkTask or JobTask")

    def close(self) -> None:
        """Close converters, transforms and config providers."""
        for close in (*self._closers, self._process.providers.close):
            try:
                close()
            except Exception:
                log.exception("could not close in order")

    def _on_paused(self) -> None:
        self._health.runs(runs=False)
        self._control.send(Paused())

    def _job(self, kind: Callable[[], JobTask[Any]]) -> JobRunner:
        progress = self._readings.progress

        def make() -> JobTask[Any]:
            task = kind()
            task.configure(self._settings)
            task.context = RunningJobTaskContext(
                self._id, self._control, self._readings.metrics, self._health, actions
            )
            return task

        def pause() -> None:
            progress.forget()
            self._on_paused()

        actions = _JobActions(
            client_settings=lambda client: self._worker.client_config(
                client, permitted_overrides(client, self._worker, self._connector)
            ),
            ensure_topic=self._prepare_topic(),
            report_progress=progress.report,
        )
        return JobRunner(
            make=make,
            control=self._control,
            on_running=self._on_running,
            on_paused=pause,
            end=_end_with_all_children,
        )

    def _source(self, task: SourceTask[Any]) -> SourceRunner:
        measures = self._readings.measures = TaskMeasures("source")
        boundaries = self._boundaries() if self._worker.has_transactional_sources else None
        task.context = RunningSourceTaskContext(
            self._id,
            self._control,
            self._readings.metrics,
            self._health,
            boundaries.context if boundaries is not None else None,
        )
        handler = ErrorHandler[SourceRecord](
            task=str(self._id),
            policy=self._policy,
            measures=measures.errors,
            wait=self._control.wait,
            described=described_record,
            on_wait=self._health.waits,
        )
        chain = TransformChain(make_steps(self._connector, self._process.lookup), handler)
        self._closers.append(chain.close)
        producers: list[Producer] = []

        def make_producer(on_error: Callable[[KafkaError], None]) -> Producer:
            settings = self._client("producer", "producer") if boundaries is None else self._transactional_settings()
            made = self.traces.producer_class(
                {**settings, "error_cb": on_error}, logger=logging.getLogger("librdkafka")
            )
            producers.append(made)
            return made

        sender = self.traces.make_sender(
            make_producer=make_producer,
            converters=self._converters,
            chain=chain,
            handler=handler,
            control=self._control,
            measures=measures,
            on_topic=self._prepare_topic() if boundaries is None else self._prepare_topic_of_transactions(),
            drops_refused=boundaries is None,
        )
        commits: SourceCommits | Transactions
        if boundaries is not None:
            commits = self._transactions(task, sender, producers[0], boundaries, measures)
        else:
            commits = SourceCommits(
                task=task,
                control=self._control,
                measures=measures,
                take=sender.take_committable,
                interval_s=self._flush_interval_s,
                timeout_s=self._flush_timeout_s,
            )
        return SourceRunner(
            task=task,
            control=self._control,
            sender=commits if isinstance(commits, Transactions) else sender,
            commits=commits,
            measures=measures,
            health=self._health,
            flush_timeout_s=self._last_flush_timeout_s(),
            on_running=self._on_running,
            on_paused=self._on_paused,
        )

    def _transactions(
        self,
        task: SourceTask[Any],
        sender: Sender,
        producer: Producer,
        boundaries: Boundaries,
        measures: TaskMeasures,
    ) -> Transactions:
        return Transactions(
            name=self._id.connector,
            task=task,
            sender=sender,
            producer=producer,
            transactional_id=transactional_id(self._worker.group_id, self._id),
            offsets_topic=self._worker.offset_storage_topic,
            boundaries=boundaries,
            control=self._control,
            measures=measures,
            calls=self._calls,
        )

    def _boundaries(self) -> Boundaries:
        kind = Boundary(self._connector.get(BOUNDARY_KEY, Boundary.POLL).strip().lower())
        return Boundaries(kind, interval_s=self._boundary_interval_ms() / 1000, now_s=time.monotonic())

    def _boundary_interval_ms(self) -> int:
        return int(self._connector.get(BOUNDARY_INTERVAL_KEY, self._flush_interval_s * 1000))

    def _transactional_settings(self) -> dict[str, Any]:
        # A transaction must not time out before its interval ends, and its commit has to come after that.
        lasts_ms = TRANSACTION_TIMEOUT_MS
        if self._connector.get(BOUNDARY_KEY, "").strip().lower() == Boundary.INTERVAL:
            lasts_ms += min(self._boundary_interval_ms(), TRANSACTION_INTERVAL_MAX_MS)
        own = {"client.id": f"connector-producer-{self._id}"}
        return transactional_settings(self._worker, self._connector, self._id, own, timeout_ms=lasts_ms)

    def _prepare_topic_of_transactions(self) -> Callable[[str], None]:
        prepare = self._prepare_topic()

        def prepare_unless_of_offsets(topic: str) -> None:
            if topic == self._worker.offset_storage_topic:
                raise FatalError(f"a source that writes in transactions must not write to the offsets topic {topic}")
            prepare(topic)

        return prepare_unless_of_offsets

    def _last_flush_timeout_s(self) -> float:
        """Return how long the task may flush at its end, so that it can still say that it has stopped."""
        graceful_s = self._worker.task_shutdown_graceful_timeout_ms / 1000
        return min(self._flush_timeout_s, graceful_s * LAST_FLUSH_SHARE) if graceful_s else self._flush_timeout_s

    def _sink(self, task: SinkTask[Any]) -> SinkRunner:
        self.traces.follow(task)
        measures = self._readings.measures = TaskMeasures("sink")
        consumer_overrides = permitted_overrides("consumer", self._worker, self._connector)
        consumer = self._client("consumer", "consumer")
        strategy = consumer.get("partition.assignment.strategy", "")
        settings = SinkSettings(
            poll_records_max=self._worker.poll_records_max(consumer_overrides),
            flush_interval_s=self._flush_interval_s,
            flush_timeout_s=self._flush_timeout_s,
            incremental="cooperative-sticky" in strategy or consumer.get("group.protocol") == "consumer",
            from_start=consumer.get("auto.offset.reset") in FROM_START,
        )
        runner = SinkRunner(
            task=task,
            control=self._control,
            settings=settings,
            measures=measures,
            health=self._health,
            on_running=self._on_running,
            on_paused=self._on_paused,
            on_topics=self._used,
        )
        task.context = RunningSinkTaskContext(self._id, self._control, self._readings.metrics, self._health, runner)
        letters = self._dead_letters(measures)
        handler = ErrorHandler[Message](
            task=str(self._id),
            policy=self._policy,
            measures=measures.errors,
            wait=self._control.wait,
            described=described_message,
            on_wait=self._health.waits,
            reporters=(letters,) if letters is not None else (),
        )
        chain = TransformChain(make_steps(self._connector, self._process.lookup), handler)
        self._closers.append(chain.close)

        def make_consumer(on_commit: Callable[[KafkaError | None, list[KafkaTopicPartition]], None]) -> Consumer:
            return Consumer(
                {**consumer, **self._watch.settings, "error_cb": raise_if_final, "on_commit": on_commit},
                logger=logging.getLogger("librdkafka"),
            )

        runner.connect(
            make_consumer=make_consumer,
            make_subscription=lambda made: self._subscription(made, consumer),
            conversion=self.traces.make_conversion(
                converters=self._converters,
                chain=chain,
                handler=handler,
                keep_messages=letters is not None,
                on_error=raise_if_final,
            ),
            handler=handler,
            dead_letters=letters,
            watch=self._watch,
            topic_ids=TopicIds(self._admin),
        )
        return runner

    def _subscription(self, consumer: Consumer, settings: Mapping[str, Any]) -> Subscription:
        def list_topics() -> Iterable[str]:
            with self._watch:
                return list(consumer.list_topics(timeout=LIST_TOPICS_TIMEOUT_S).topics)

        age_ms = settings.get("metadata.max.age.ms") or settings.get("topic.metadata.refresh.interval.ms")
        return Subscription(
            {**self._connector, **self._settings},
            list_topics=list_topics,
            max_age_s=int(age_ms or METADATA_AGE_MAX_MS) / 1000,
        )

    def _dead_letters(self, measures: TaskMeasures) -> DeadLetters | None:
        settings = DeadLetterSettings.of(self._connector)
        if settings is None:
            return None
        TopicAdmin(self._admin).ensure(
            NewTopicPlan(
                name=settings.topic, partitions=1, replication_factor=settings.replication_factor, configs={}
            )
        )
        return DeadLetters(
            task=self._id,
            settings=settings,
            make_producer=lambda: Producer(
                {**self._client("producer", "dlq-producer"), "error_cb": log_client_error},
                logger=logging.getLogger("librdkafka"),
            ),
            measures=measures.errors,
            redact=self._process.redaction.text,
        )

    def _prepare_topic(self) -> Callable[[str], None]:
        creation = TopicCreation.of(self._connector if self._worker.topic_creation_enable else {})
        admin = TopicAdmin(self._admin)

        def prepare(topic: str) -> None:
            if creation:
                admin.ensure(creation.plan(topic))
            self._used([topic])

        return prepare

    def _used(self, topics: list[str]) -> None:
        if self._worker.topic_tracking_enable:
            self._control.send(TopicsUsed(topics=topics))

    def _admin(self) -> AdminClient:
        return AdminClient(self._client("admin", "adminclient"), logger=logging.getLogger("librdkafka"))

    def _client(self, kind: Any, name: str) -> dict[str, Any]:
        own = {"client.id": f"connector-{name}-{self._id}"}
        if kind == "consumer":
            own["group.id"] = f"connect-{self._id.connector}"
        return client_settings(kind, self._worker, self._connector, own)
