"""A sink that writes down what happens to it."""

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ottla_sdk import DataError, SinkConnector, SinkRecord, SinkTask, TopicPartition, setting
from ottla_test_plugins.faults import FaultConfig, Faults


class CollectingSinkConfig(FaultConfig):
    """Settings of `CollectingSink` and its tasks."""

    path: Path | None = setting("collect.path", None, doc="A file that gets a line of JSON for every event.")
    events: bool = setting("collect.events", False, doc="Whether to write down not only records.")
    bad_value: str = setting("collect.bad.value", "", doc="Records with this value are reported as errant.")
    bad_says: str = setting("collect.bad.says", "", doc="What their error says in addition.")
    seek_to: int = setting(
        "collect.seek.to", -1, doc="Where to go on reading when partitions are opened; -1: nowhere."
    )
    commits: bool = setting("collect.commits", True, doc="Whether it lets the runtime commit offsets.")
    retry_in_ms: int = setting("collect.retry.in.ms", 0, doc="How long to wait for the next try; 0: no matter.")


class CollectingSinkTask(SinkTask[CollectingSinkConfig]):
    """Appends to a file; every line is written at once, so that it survives whatever comes."""

    config_model = CollectingSinkConfig

    def start(self) -> None:
        self.faults = Faults(self.config)
        self.faults.at("start")
        self._file = (
            os.open(self.config.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644) if self.config.path else -1
        )
        self._event("start")

    def open(self, partitions: Sequence[TopicPartition]) -> None:
        self._event("open", partitions=sorted(partitions))
        self.faults.at("open")
        if self.config.seek_to >= 0:
            self.context.seek(dict.fromkeys(partitions, self.config.seek_to))

    def put(self, records: Sequence[SinkRecord]) -> None:
        if not records:
            return
        if self.config.retry_in_ms:
            self.context.retry_in(self.config.retry_in_ms)
        self.faults.at("put")
        self.context.metrics.add("rows", len(records))
        lines = []
        for record in records:
            if self.config.bad_value and self.config.bad_value == str(record.value):
                self.context.report(record, DataError(f"the target refuses it{self.config.bad_says}"))
                continue
            lines.append(
                json.dumps(
                    {
                        "event": "record",
                        "topic": record.topic,
                        "partition": record.original_partition,
                        "offset": record.offset,
                        "key": record.key,
                        "value": record.value,
                        "headers": [[each.key, each.value] for each in record.headers],
                        "task": self.context.task,
                        "pid": os.getpid(),
                    }
                )
            )
        self._write(lines)

    def pre_commit(self, offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        self.faults.at("pre_commit")
        self._event("pre_commit", offsets=[[*partition, offset] for partition, offset in sorted(offsets.items())])
        return offsets if self.config.commits else {}

    def close(self, partitions: Sequence[TopicPartition]) -> None:
        self._event("close", partitions=sorted(partitions))
        self.faults.at("close")

    def stop(self) -> None:
        if hasattr(self, "_file"):
            self._event("stop")
        if hasattr(self, "faults"):
            self.faults.at("stop")

    def _event(self, event: str, **details: Any) -> None:
        if self.config.events:
            self._write([json.dumps({"event": event, "task": self.context.task, "pid": os.getpid(), **details})])

    def _write(self, lines: list[str]) -> None:
        if lines and self._file >= 0:
            os.write(self._file, ("\n".join(lines) + "\n").encode())


class CollectingSink(SinkConnector[CollectingSinkConfig]):
    """Writes records into a file that tests read."""

    config_model = CollectingSinkConfig
    task_class = CollectingSinkTask

    def start(self) -> None:
        Faults(self.config).at("start")
