"""Sinks that keep offsets in a target and tell tests when they are about to change them."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ottla_sdk import Connector, TopicPartition, hookimpl, setting
from ottla_sql import SqlSink
from ottla_sql.sink.config import SqlSinkConfig


class TellingSqlSinkConfig(SqlSinkConfig):
    """Settings of `TellingSqlSink`."""

    told: Path = setting("told.path", doc="A file that gets the id of a process that is about to change offsets.")


class TellingSqlSink(SqlSink):
    """The SQL sink; its process says who it is before it changes offsets."""

    config_model = TellingSqlSinkConfig
    config: TellingSqlSinkConfig

    def change_offsets(self, offsets: Mapping[TopicPartition, int | None]) -> None:
        written = self.config.told.with_suffix(".new")
        written.write_text(str(os.getpid()))
        written.rename(self.config.told)
        super().change_offsets(offsets)


@hookimpl
def ottla_connectors() -> list[type[Connector[Any]]]:
    return [TellingSqlSink]
