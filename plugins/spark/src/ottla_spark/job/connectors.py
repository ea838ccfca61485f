"""The three connectors: a check of what can be known without Spark, and one task each."""

import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ottla_sdk import ConnectError, Problem, SinkConnector, SourceConnector, TopicPartition
from ottla_spark.cluster.java import JavaMissing, require_java
from ottla_spark.job.checkpoint import continued_record, folder_at, local_path
from ottla_spark.job.config import JobConfig
from ottla_spark.job.connector_configs import SparkPipelineConfig, SparkSinkConfig, SparkSourceConfig
from ottla_spark.job.plan import PythonFunction
from ottla_spark.job.planning import plan_of
from ottla_spark.job.python_function import FunctionNotFound, load_function
from ottla_spark.job.task import SparkPipelineTask, SparkSinkTask, SparkSourceTask

_OFFSETS_ELSEWHERE = (
    "Spark keeps the offsets in the checkpoint; to begin anew, delete the connector's checkpoint.location, or set "
    "another, and starting.offsets"
)


class SparkSource(SourceConnector[SparkSourceConfig]):
    """Writes anything that Spark reads into a topic: files, tables of databases, lakes; once, or as rows come."""

    config_model = SparkSourceConfig
    task_class = SparkSourceTask

    def check(self) -> Iterable[Problem]:
        """Check Java and the checkpoint."""
        return _problems(self.config, self.settings)

    def check_offsets(
        self, offsets: Sequence[tuple[Mapping[str, Any], Mapping[str, Any] | None]]
    ) -> Iterable[Problem]:
        """Say that there are none."""
        return [Problem("", _OFFSETS_ELSEWHERE)]


class SparkSink(SinkConnector[SparkSinkConfig]):
    """Writes topics into anything that Spark writes: partitioned parquet, lake tables, databases, other topics."""

    config_model = SparkSinkConfig
    task_class = SparkSinkTask

    def check(self) -> Iterable[Problem]:
        """Check Java and the checkpoint."""
        return _problems(self.config, self.settings)

    def task_configs(self, tasks_max: int) -> Sequence[Mapping[str, str]]:
        """Return one task: Spark divides the work."""
        return [dict(self.settings)] if tasks_max else []

    def check_offsets(self, offsets: Mapping[TopicPartition, int | None]) -> Iterable[Problem]:
        """Say that the group's offsets are not read."""
        return [Problem("", _OFFSETS_ELSEWHERE)]


class SparkPipeline(SourceConnector[SparkPipelineConfig]):
    """Makes topics and tables of topics and tables, with SQL or a Python function: joins, windows, deduplication."""

    config_model = SparkPipelineConfig
    task_class = SparkPipelineTask

    def check(self) -> Iterable[Problem]:
        """Check Java, the checkpoint, and the Python function."""
        yield from _problems(self.config, self.settings)
        query = plan_of(self.config, "").query
        if isinstance(query, PythonFunction):
            try:
                load_function(query)
            except FunctionNotFound as error:
                yield Problem("python.function", str(error))

    def check_offsets(
        self, offsets: Sequence[tuple[Mapping[str, Any], Mapping[str, Any] | None]]
    ) -> Iterable[Problem]:
        """Say that there are none."""
        return [Problem("", _OFFSETS_ELSEWHERE)]


def _problems(config: JobConfig, settings: Mapping[str, str]) -> Iterator[Problem]:
    try:
        require_java()
    except JavaMissing as error:
        yield Problem("connector.class", str(error))
    location = config.checkpoint_location
    path = local_path(location)
    if path is None:
        return
    if not path.is_absolute():
        yield Problem("checkpoint.location", f"{location} must be an absolute path, or a URI")
    elif (problem := _not_writable(path)) is not None:
        yield Problem("checkpoint.location", problem)
    elif (folder := folder_at(location)) is not None and settings.get("name"):
        try:
            continued_record(folder, plan_of(config, settings["name"]))
        except ConnectError as error:
            yield Problem("checkpoint.location", str(error))


def _not_writable(path: Path) -> str | None:
    """Return why nothing can be written into a folder, or into the nearest that there is above it."""
    existing = next(each for each in (path, *path.parents) if each.exists())
    if not existing.is_dir():
        return f"{existing} is no folder"
    try:
        with tempfile.NamedTemporaryFile(dir=existing, prefix=".ottla-"):
            return None
    except OSError as error:
        return f"nothing can be written into {existing}: {os.strerror(error.errno or 0)}"


for _plugin in (SparkSource, SparkSink, SparkPipeline):
    _plugin.__module__ = "ottla_spark"  # Configurations name them by this module.
