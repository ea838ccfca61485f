"""A source that counts."""

import os
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ottla_sdk import CommaSeparated, Problem, SourceConnector, SourceRecord, SourceTask, setting
from ottla_test_plugins.faults import FaultConfig, Faults

TASK_KEY = "list.task"


class ListSourceConfig(FaultConfig):
    """Settings of `ListSource`, and of its tasks, which also get `list.task`."""

    topic: str = setting("topic", doc="The topic to write to.")
    count: int = setting("list.count", 10, doc="Records of each task; 0: without end.", ge=0)
    batch: int = setting("list.batch", 5, doc="Records in a batch.", ge=1)
    pause_ms: int = setting("list.pause.ms", 0, doc="How long to wait before each batch.", ge=0)
    tasks: int = setting("list.tasks", 1, doc="How many tasks to make.", ge=0)
    password: str = setting("list.password", "", doc="Goes into the tasks' settings.")
    committed_path: Path | None = setting("list.committed.path", None, doc="What is committed is written here.")
    tell_pid: bool = setting("list.tell.pid", False, doc="Whether records say which process made them.")
    exactly_once: str = setting("list.exactly.once", "", doc="What it says of that: yes, no, or nothing.")
    commit_on: CommaSeparated = setting("list.commit.on", (), doc="Positions behind which transactions end.")
    abort_on: CommaSeparated = setting("list.abort.on", (), doc="Positions behind which transactions are aborted.")
    reconfigure_path: Path | None = setting("list.reconfigure.path", None, doc="Makes as many tasks as this says.")


class ListTaskConfig(ListSourceConfig):
    """Settings of a task."""

    task: int = setting(TASK_KEY, doc="The task's number.")


class ListSourceTask(SourceTask[ListTaskConfig]):
    """Returns records whose value is `{"task": …, "position": …}`, on from the committed offset."""

    config_model = ListTaskConfig

    def start(self) -> None:
        self.faults = Faults(self.config)
        self.faults.at("start")
        self.partition = {"list": self.config.task}
        offset = self.context.offsets.offset(self.partition)
        self.position = 0 if offset is None else int(offset["position"]) + 1
        self.context.log.info("starts at %d", self.position)

    def poll(self) -> Sequence[SourceRecord]:
        self.context.metrics.add("polls")
        config = self.config
        left = config.batch if config.count == 0 else min(config.batch, config.count - self.position)
        if left <= 0:
            self.context.wait(0.05)
            return ()
        if config.pause_ms:
            self.context.wait(config.pause_ms / 1000)
        self.faults.at("poll")
        first = self.position
        self.position += left
        records = [
            SourceRecord(
                topic=config.topic,
                key=str(number),
                value={"task": config.task, "position": number} | ({"pid": os.getpid()} if config.tell_pid else {}),
                source_partition=self.partition,
                source_offset={"position": number},
            )
            for number in range(first, first + left)
        ]
        self._end_transactions(records)
        return records

    def _end_transactions(self, records: Sequence[SourceRecord]) -> None:
        if (transaction := self.context.transaction_context) is None:
            return
        for record in records:
            position = str(record.source_offset["position"])
            if position in self.config.commit_on:
                transaction.commit_on(record)
            if position in self.config.abort_on:
                transaction.abort_on(record)

    def committed(self, offsets: Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]]) -> None:
        if self.config.committed_path is not None:
            with self.config.committed_path.open("a") as file:
                for partition, offset in offsets:
                    file.write(f"{partition['list']} {offset['position']}\n")

    def stop(self) -> None:
        if hasattr(self, "faults"):
            self.faults.at("stop")


class ListSource(SourceConnector[ListSourceConfig]):
    """Makes tasks that count."""

    config_model = ListSourceConfig
    task_class = ListSourceTask
    aliases = ("org.example.ListSourceConnector",)

    def check(self) -> Iterable[Problem]:
        Faults(self.config).at("check")
        if self.config.password == "wrong":
            yield Problem("list.password", "the list does not like it")

    def check_offsets(
        self, offsets: Sequence[tuple[Mapping[str, Any], Mapping[str, Any] | None]]
    ) -> Iterable[Problem]:
        for partition, offset in offsets:
            if "list" not in partition:
                yield Problem("", f"{dict(partition)} is no partition of a list")
            elif offset is not None and not isinstance(offset.get("position"), int):
                yield Problem("", f"{dict(offset)} has no position")

    def exactly_once_support(self) -> bool | None:
        return {"yes": True, "no": False}.get(self.config.exactly_once)

    def can_define_transaction_boundaries(self) -> bool:
        return bool(self.config.commit_on)

    def start(self) -> None:
        self.faults = Faults(self.config)
        self.faults.at("start")
        if self.config.reconfigure_path is not None:
            threading.Thread(target=self._watch, args=(self.config.reconfigure_path,), daemon=True).start()

    def task_configs(self, tasks_max: int) -> Sequence[Mapping[str, str]]:
        self.faults.at("task_configs")
        count = self.config.tasks
        if (path := self.config.reconfigure_path) is not None and path.exists():
            count = int(path.read_text())
        return [{**self.settings, TASK_KEY: str(task)} for task in range(min(count, tasks_max))]

    def stop(self) -> None:
        if hasattr(self, "faults"):
            self.faults.at("stop")

    def _watch(self, path: Path) -> None:
        last = path.read_text() if path.exists() else ""
        while True:
            time.sleep(0.02)  # between two looks at the file
            now = path.read_text() if path.exists() else ""
            if now != last:
                last = now
                if now == "fail":
                    self.context.fail(ValueError("the list is gone"))
                else:
                    self.context.request_task_reconfiguration()
