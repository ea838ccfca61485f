"""Pipelines: `CREATE … AS SELECT` as a connector, and what became of it, by way of Connect's REST API."""

import json
import os
import re
import time
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

from pyspark.sql import SparkSession

from ottla_spark.cluster.master import MASTER_KEY, is_local
from ottla_spark.sql.catalog import Catalog
from ottla_spark.sql.checkpoints import default_folder, new_checkpoint, removed
from ottla_spark.sql.connect_rest import CONFLICT, NOT_FOUND, ConnectRest, Refused, connector_path
from ottla_spark.sql.pipelines import is_pipeline, pipeline_config, pipelines_of, reads_of, views_used, writes_of
from ottla_spark.sql.queries import MODES, check_mode, mode_of
from ottla_spark.sql.session_names import analyzed_elsewhere, session_settings
from ottla_spark.sql.sql_errors import SqlProblem
from ottla_spark.sql.statement_kinds import Deploy
from ottla_spark.sql.topics import Topics, near_names

CHECKPOINTS_KEY = "ottla.checkpoint.location"
OWN_CHECKPOINT_KEY = "spark.ottla.checkpoint"
"""A pipeline's setting: the checkpoint that was made for it. One that the user names may have the same form."""
LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
APPEND = "append"
END_TIMEOUT_S = 10.0
LOOK_INTERVAL_S = 0.2
SQL_SETTINGS = "spark.sql."
BROKERS_KEY = "kafka.bootstrap.servers"
SECRET = re.compile(r"secret|password|token|access[.]?key", re.IGNORECASE)
"""Keys whose values Spark hides, too (`spark.redaction.regex`)."""


class Deployment:
    """Where pipelines run.

    Args:
        connect: the workers.
        spark_settings: Spark's that the command line says. Pipelines get those of SQL, too, and the master of a
            cluster; what is of this machine or secret stays here.
    """

    def __init__(self, connect: ConnectRest, spark_settings: Mapping[str, str]) -> None:
        self._connect = connect
        master = spark_settings.get(MASTER_KEY, "")
        self._master = {MASTER_KEY: master} if master and not is_local(master) else {}
        self._sql_settings = _of_sql(spark_settings)

    def configured(self, spark: SparkSession, catalog: Catalog, deploy: Deploy) -> dict[str, str]:
        """Return the settings of the connector that carries out a statement, which Spark has checked.

        Raises:
            SqlProblem: it cannot be a pipeline.
            PySparkException: Spark does not understand the query, or cannot run it as a stream.
        """
        if deploy.query.rows_max is not None:
            raise SqlProblem("a pipeline goes on for ever; leave out LIMIT")
        views = views_used(deploy.query.text, catalog.temporary_views)
        frame, tables = analyzed_elsewhere(spark, catalog, deploy.query.text, views)
        for table in tables:
            if table.name.lower() not in catalog.declared and catalog.is_empty(table):
                raise SqlProblem(
                    f"the topic {table.topic} is empty, so nobody knows its columns; say them: "
                    f"CREATE TABLE {table.name} (… STRING, …) WITH (topic = '{table.topic}')"
                )
        mode = APPEND
        if frame.isStreaming:
            said = {key.lower(): value.lower() for key, value in deploy.settings.items()}
            to_files = "path" in said or said.get("format", "topic") != "topic"
            mode = said.get("mode") or (APPEND if to_files else mode_of(frame))
            if mode in MODES:
                check_mode(frame, mode)
        checkpoint = self._checkpoint(spark, deploy.name)
        config = pipeline_config(
            deploy,
            tables,
            views,
            mode=mode,
            checkpoint=checkpoint,
            spark_settings={**self._master, **self._sql_settings, **set_in(spark)},
        )
        is_named = config["checkpoint.location"] != checkpoint
        return config if is_named else {**config, OWN_CHECKPOINT_KEY: checkpoint}

    def create(self, name: str, config: Mapping[str, str], topics: Topics) -> str:
        """Have the workers run a pipeline, and return what to tell of it.

        Args:
            name: the pipeline's.
            config: its settings.
            topics: of the cluster that they were checked with.

        Raises:
            SqlProblem: they do not, or their topics are those of another cluster.
        """
        if BROKERS_KEY not in {key.lower() for key in config}:
            self._check_cluster(topics)
        try:
            self._connect.ask("POST", "/connectors", {"name": name, "config": dict(config)})
        except Refused as refusal:
            if refusal.status == CONFLICT:
                raise SqlProblem(f"there is a connector {name} already; DROP PIPELINE {name} removes it") from None
            raise
        return f"created {name}: {', '.join(reads_of(config))} → {', '.join(writes_of(config))}"

    def exists(self, name: str) -> bool:
        """Return whether there is a connector of this name."""
        return name in self._connect.ask("GET", "/connectors")

    def all(self) -> list[dict[str, Any]]:
        """Return what `SHOW PIPELINES` shows."""
        return pipelines_of(self._connect.ask("GET", "/connectors?expand=info&expand=status"))

    def described(self, name: str) -> dict[str, str]:
        """Return what `DESCRIBE PIPELINE` shows.

        Raises:
            SqlProblem: there is none.
        """
        config = self._config(name)
        status = self._status(name)
        connector, tasks = status.get("connector", {}), status.get("tasks") or [{}]
        found = {
            "state": tasks[0].get("state") or connector.get("state", ""),
            "worker": tasks[0].get("worker_id") or connector.get("worker_id", ""),
            "problem": (tasks[0].get("trace") or connector.get("trace") or "").strip().partition("\n")[0],
            "reads": ", ".join(reads_of(config)),
            "writes": ", ".join(writes_of(config)),
            "checkpoint": config.get("checkpoint.location", ""),
            "sql": config.get("sql", ""),
            **{key: value for key, value in config.items() if key.startswith("spark.") and key != OWN_CHECKPOINT_KEY},
        }
        shown = {key: value for key, value in found.items() if value}
        return {**shown, **dict(_flat("progress", tasks[0].get("progress") or {}))}

    def drop(self, name: str, *, if_exists: bool, keep_checkpoint: bool = False) -> str:
        """End a pipeline, and return what to tell of it.

        Args:
            name: the pipeline's.
            if_exists: whether none is no problem.
            keep_checkpoint: whether its checkpoint stays in any case.

        Raises:
            SqlProblem: there is none.
        """
        try:
            config = self._config(name)
            self._connect.ask("DELETE", connector_path(name))
        except Refused as refusal:
            if if_exists and refusal.status == NOT_FOUND:
                return f"there is no pipeline {name}"
            raise
        checkpoint = config.get("checkpoint.location", "")
        is_own = checkpoint == config.get(OWN_CHECKPOINT_KEY)
        if is_own and not keep_checkpoint and self._has_ended(name) and removed(checkpoint, name):
            return f"dropped {name} with its checkpoint; what it wrote stays"
        return (
            f"dropped {name}; what it wrote stays, and so does its checkpoint: WITH (checkpoint = '{checkpoint}') "
            "goes on with it, else remove that folder"
        )

    def _has_ended(self, name: str) -> bool:
        """Return whether a deleted pipeline works no more, in a while."""
        deadline = time.monotonic() + END_TIMEOUT_S
        while self._status(name):
            if time.monotonic() > deadline:
                return False
            time.sleep(LOOK_INTERVAL_S)
        return True

    def _config(self, name: str) -> Mapping[str, str]:
        try:
            config: Mapping[str, str] = self._connect.ask("GET", connector_path(name, "config"))
        except Refused as refusal:
            if refusal.status != NOT_FOUND:
                raise
            near = near_names(name, [each["pipeline"] for each in self.all()])
            meant = f"; did you mean {' or '.join(near)}?" if near else "; SHOW PIPELINES lists what there is"
            raise Refused(f"there is no pipeline {name}{meant}", NOT_FOUND) from None
        if not is_pipeline(config):
            raise SqlProblem(f"{name} is a connector, but no pipeline; `ottla connect` handles it")
        return config

    def _status(self, name: str) -> Mapping[str, Any]:
        """Return a connector's status; nothing while no worker has said anything of it."""
        try:
            status: Mapping[str, Any] = self._connect.ask("GET", connector_path(name, "status"))
        except Refused as refusal:
            if refusal.status != NOT_FOUND:
                raise
            return {}
        return status

    def _check_cluster(self, topics: Topics) -> None:
        """Check that the workers' cluster, whose topics a pipeline reads and writes, is the prompt's."""
        theirs, ours = self._connect.ask("GET", "/").get("kafka_cluster_id"), topics.cluster_id()
        if theirs and ours and theirs != ours:
            raise SqlProblem(
                f"the Connect worker at {self._connect.url} belongs to another cluster ({theirs}) than that at "
                f"{topics.bootstrap} ({ours}), with which the pipeline was checked: name a worker of this cluster "
                f"with --connect-url, or say what the pipeline is to use: WITH ({BROKERS_KEY} = '…')"
            )

    def _checkpoint(self, spark: SparkSession, name: str) -> str:
        """Return the folder for a pipeline's checkpoint; empty if its worker may be on another machine."""
        folder = spark.conf.get(CHECKPOINTS_KEY, None)
        if folder:
            return new_checkpoint(folder, name)
        if any(urlsplit(url.strip()).hostname not in LOOPBACK for url in self._connect.url.split(",")):
            return ""
        return new_checkpoint(str(default_folder(os.environ)), name)


def set_in(spark: SparkSession) -> dict[str, str]:
    """Return the settings of SQL that a session has got by `SET`, as pipelines get them."""
    return _of_sql(session_settings(spark))


def _of_sql(settings: Mapping[str, str]) -> dict[str, str]:
    """Return the settings that change what a query means, without secrets, as everybody sees connectors' settings."""
    return {key: value for key, value in settings.items() if key.startswith(SQL_SETTINGS) and not SECRET.search(key)}


def _flat(prefix: str, document: Any) -> Iterator[tuple[str, str]]:
    """Yield each plain value of a document with the path to it."""
    if isinstance(document, Mapping):
        for key, value in document.items():
            yield from _flat(f"{prefix}.{key}", value)
    elif document is not None:
        yield prefix, document if isinstance(document, str) else json.dumps(document, ensure_ascii=False)
