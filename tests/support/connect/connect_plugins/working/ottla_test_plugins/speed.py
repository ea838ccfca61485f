"""A source and a sink that do nothing, so that only the runtime is measured: `python -m benchmarks connect`."""

import json
import time
from collections.abc import Sequence
from pathlib import Path

from ottla_sdk import (
    PluginConfig,
    SinkConnector,
    SinkRecord,
    SinkTask,
    SourceConnector,
    SourceRecord,
    SourceTask,
    setting,
)

BATCH = 500


class SpeedConfig(PluginConfig):
    """Settings of both."""

    count: int = setting("speed.count", doc="How many records there are.", ge=1)
    values: Path | None = setting("speed.values", None, doc="A JSON file with the values, a multiple of 500 of them.")
    path: Path = setting("speed.path", doc="A file for the times of the first record and, from the sink, the last.")
    fresh: bool = setting("speed.fresh", False, doc="Whether the source makes new records, rather than have them.")


class MemorySourceTask(SourceTask[SpeedConfig]):
    """Returns records that it has in memory, 500 at a time."""

    config_model = SpeedConfig
    sent = 0

    def start(self) -> None:
        self.topic = self.settings["topic"]
        assert self.config.values is not None
        self.values = json.loads(self.config.values.read_text())
        self.batches = [self._batch(first) for first in range(0, len(self.values), BATCH)]

    def poll(self) -> Sequence[SourceRecord]:
        if self.sent == 0:
            self.config.path.write_text(json.dumps(_now()))
        if self.sent >= self.config.count:
            self.context.wait(1.0)
            return ()
        first = self.sent % len(self.values)
        self.sent += BATCH
        return self._batch(first) if self.config.fresh else self.batches[first // BATCH]

    def _batch(self, first: int) -> list[SourceRecord]:
        partition = {"memory": 0}
        return [
            SourceRecord(
                topic=self.topic, value=value, source_partition=partition, source_offset={"position": value["id"]}
            )
            for value in self.values[first : first + BATCH]
        ]


class MemorySource(SourceConnector[SpeedConfig]):
    """Its records are in memory."""

    config_model = SpeedConfig
    task_class = MemorySourceTask


class NoOpSinkTask(SinkTask[SpeedConfig]):
    """Forgets what it gets, and writes down when it got the first and the last."""

    config_model = SpeedConfig
    got = 0

    def put(self, records: Sequence[SinkRecord]) -> None:
        if not records:
            return
        if self.got == 0:
            self.began = _now()
        self.got += len(records)
        if self.got >= self.config.count:
            self.config.path.write_text(json.dumps({"first": self.began, "last": _now()}))


class NoOpSink(SinkConnector[SpeedConfig]):
    """Does nothing with its records."""

    config_model = SpeedConfig
    task_class = NoOpSinkTask


def _now() -> dict[str, float]:
    return {"wall_s": time.monotonic(), "cpu_s": time.process_time()}
