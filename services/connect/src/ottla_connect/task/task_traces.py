"""What of a task differs where traces are on; chosen once, so that a task without traces runs none of it."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from confluent_kafka import Producer

import ottla_connect
from ottla_connect.config import WorkerConfig
from ottla_connect.ids import TaskId
from ottla_connect.task.sink.conversion import SinkConversion
from ottla_connect.task.source.sender import Sender
from ottla_core.observe.traces import TracedProcess, begin_traces
from ottla_sdk import SinkTask


class TaskTraces:
    """The parts of a task with spans, or without any.

    Attributes:
        make_sender: makes the sender of a source task.
        producer_class: the class of its producer.
        make_conversion: makes the conversion of a sink task.
    """

    def __init__(self, worker: WorkerConfig, task: TaskId) -> None:
        self._task = task
        self.make_sender: Callable[..., Sender] = Sender
        self.producer_class: type[Producer] = Producer
        self.make_conversion: Callable[..., SinkConversion] = SinkConversion
        process = TracedProcess("ottla-connect", str(task), worker.group_id, ottla_connect.__version__)
        self._tracing = tracing = begin_traces(worker, process)
        if tracing is not None:
            # Imports OpenTelemetry.
            from ottla_connect.task.source.send_spans import TracedProducer, TracedSender  # noqa: PLC0415

            self.make_sender = partial(TracedSender, tracing=tracing, connector=task.connector)
            self.producer_class = TracedProducer

    def follow(self, task: SinkTask[Any]) -> None:
        """Have a sink task's batches run within spans."""
        if self._tracing is None:
            return
        from ottla_connect.task.sink.process_spans import ProcessSpans, TracedConversion  # noqa: PLC0415

        spans = ProcessSpans(self._tracing, self._task.connector)
        task.put = spans.traced(task.put)  # type: ignore[method-assign,assignment] # of this object alone
        self.make_conversion = partial(TracedConversion, spans)

    def readings(self) -> Mapping[str, float]:
        """Return what became of the task's spans, by the names of its readings."""
        if self._tracing is None:
            return {}
        return {f"trace-spans-{name}-total": count for name, count in self._tracing.counts.by_outcome().items()}

    def end(self) -> None:
        """Send what is left, within a bound."""
        if self._tracing is not None:
            self._tracing.end()
