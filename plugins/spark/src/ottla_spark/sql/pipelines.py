"""From `CREATE … AS SELECT` to the settings of a `SparkPipeline` connector. Pure.

The connector gets all that the query needs: each table with its columns as they are known here, the views that were
made in this session, the session's settings of SQL, the query, and one output. Names of tables that a setting's key
cannot have (`daily-flights`) are replaced, and a view gives the query the name that it uses.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ottla_sdk import InvalidConfig
from ottla_spark.job.connector_configs import SparkPipelineConfig
from ottla_spark.sql.sql_errors import SqlProblem
from ottla_spark.sql.statement_kinds import Deploy, DeployedKind
from ottla_spark.sql.tables import Table, canonical
from ottla_spark.statement_splitting import Kind, tokens

CONNECTOR_CLASS = "ottla_spark.SparkPipeline"
SHORT_NAMES = {
    "key": "key.columns",
    "checkpoint": "checkpoint.location",
    "partitions": "topic.creation.default.partitions",
    "replicas": "topic.creation.default.replication.factor",
}
OUTPUT_KEYS = frozenset({
    "topic", "format", "path", "mode", "partition.by", "key.columns", "key.format", "key.schema",
    "delivery.guarantee", "value.columns", "value.format", "value.schema", "value.schema.registry.url",
})  # fmt: skip
TABLE_KEYS = frozenset({"starting.offsets"})
"""Settings of tables that may be said once for all."""
OUTPUT_PREFIX = "options."
CONNECTOR_PREFIXES = ("spark.", "kafka.", "topic.creation.", "producer.override.", "consumer.override.",
                      "admin.override.", "task.", "errors.", "python.")  # fmt: skip
OWN_KEYS = frozenset({"tables", "outputs", "sql"})
_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NO_OUTPUT_NAME = re.compile(r"[^A-Za-z0-9_-]")


def pipeline_config(
    deploy: Deploy,
    tables: Sequence[Table],
    views: Sequence[str],
    *,
    mode: str,
    checkpoint: str,
    spark_settings: Mapping[str, str],
) -> dict[str, str]:
    """Return the connector's settings.

    Args:
        deploy: the statement.
        tables: all that the query reads, also by way of views.
        views: the statements that make the views it uses, in their order.
        mode: the output's, if the statement does not say.
        checkpoint: the folder, if the statement does not say; empty if there is no good guess.
        spark_settings: what the session has of its own, such as its time zone; the statement's go before them.

    Raises:
        SqlProblem: a setting is unknown or bad; the message names all of them.
    """
    said = _said(deploy)
    if not tables:
        raise SqlProblem("the query reads no topic and no table, so there is nothing that a pipeline could follow")
    names = _plain_names(tables)
    config = {"connector.class": CONNECTOR_CLASS, "tasks.max": "1", "checkpoint.location": checkpoint}
    config["tables"] = ",".join(names.values())
    offsets = {key: value for key, value in said.items() if key in TABLE_KEYS}
    for table in tables:
        settings = {**(offsets if table.is_topic else {}), **table.settings}
        config |= {f"tables.{names[table.name]}.{key}": value for key, value in settings.items()}
    aliases = [
        f"CREATE TEMPORARY VIEW {quoted(name)} AS SELECT * FROM {plain}"  # noqa: S608 - quoted, and plain is plain
        for name, plain in names.items()
        if name != plain
    ]
    config["sql"] = ";\n".join([*aliases, *views, deploy.query.text])
    config |= _output(deploy, said, mode)
    config |= spark_settings
    config |= {key: value for key, value in said.items() if not _is_output(key) and key not in TABLE_KEYS}
    _check(deploy, config)
    return config


def output_mode(*, aggregates: bool, sorts: bool) -> str:
    """Return how a query's results change: rows are added, or change, or all are shown anew.

    Args:
        aggregates: whether it has an aggregation over a stream.
        sorts: whether it sorts that aggregation's rows.
    """
    if not aggregates:
        return "append"
    return "complete" if sorts else "update"


def views_used(query: str, views: Mapping[str, str]) -> list[str]:
    """Return the statements of the views that a query uses, also by way of other views, in their order.

    Args:
        query: its text.
        views: the statement of each view of the session, in the order in which they were made.
    """
    needed: set[str] = set()
    unread = [query]
    while unread:
        mentioned = {token.value.lower() for token in tokens(unread.pop()) if token.kind in (Kind.WORD, Kind.NAME)}
        for name, statement in views.items():
            if name.lower() in mentioned and name not in needed:
                needed.add(name)
                unread.append(statement)
    return [statement for name, statement in views.items() if name in needed]


def quoted(name: str) -> str:
    """Return a name as SQL can have it anywhere."""
    return "`" + name.replace("`", "``") + "`"


def pipelines_of(connectors: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return what `SHOW PIPELINES` shows, from the answer to `GET /connectors?expand=info&expand=status`."""
    found = []
    for name, each in sorted(connectors.items()):
        config = each.get("info", {}).get("config", {})
        if is_pipeline(config):
            status = each.get("status", {})
            tasks = status.get("tasks") or [{}]
            found.append(
                {
                    "pipeline": name,
                    "state": tasks[0].get("state") or status.get("connector", {}).get("state", ""),
                    "reads": ", ".join(reads_of(config)),
                    "writes": ", ".join(writes_of(config)),
                }
            )
    return found


def is_pipeline(config: Mapping[str, str]) -> bool:
    """Return whether a connector is a pipeline."""
    return config.get("connector.class", "").rpartition(".")[2] == CONNECTOR_CLASS.rpartition(".")[2]


def reads_of(config: Mapping[str, str]) -> list[str]:
    """Return what a pipeline reads, one phrase each."""
    return [_place(config, "tables", name) for name in _listed(config.get("tables", ""))]


def writes_of(config: Mapping[str, str]) -> list[str]:
    """Return what a pipeline writes, one phrase each."""
    return [_place(config, "outputs", name) for name in _listed(config.get("outputs", ""))]


def _place(config: Mapping[str, str], kind: str, name: str) -> str:
    prefix = f"{kind}.{name}."
    form = config.get(prefix + "format", "")
    if form and form != "topic":
        return f"{form} {config.get(prefix + 'path', '')}".strip()
    return config.get(prefix + "topic") or config.get(prefix + "pattern") or name


def _said(deploy: Deploy) -> dict[str, str]:
    said = {canonical(key): value for key, value in deploy.settings.items()}
    said = {SHORT_NAMES.get(key, key): value for key, value in said.items()}
    known = (OUTPUT_KEYS | TABLE_KEYS | set(SparkPipelineConfig.keys())) - OWN_KEYS
    unknown = [key for key in said if key not in known and not key.startswith((OUTPUT_PREFIX, *CONNECTOR_PREFIXES))]
    if unknown:
        own = ", ".join(sorted({*known, *SHORT_NAMES} - {key for key in known if key.endswith("*")}))
        raise SqlProblem(f"{deploy.name}: there is no setting {', '.join(sorted(unknown))}; there are {own}")
    return said


def _is_output(key: str) -> bool:
    return key in OUTPUT_KEYS or key.startswith(OUTPUT_PREFIX)


def _output(deploy: Deploy, said: Mapping[str, str], mode: str) -> dict[str, str]:
    settings = {key: value for key, value in said.items() if _is_output(key)}
    if "path" in settings:
        settings.setdefault("format", "parquet")
    is_topic = settings.get("format", "topic") == "topic"
    if deploy.kind is DeployedKind.TOPIC and not is_topic:
        raise SqlProblem(f"a topic has no format {settings['format']} or path; write CREATE TABLE {deploy.name} …")
    if is_topic:
        settings.setdefault("topic", deploy.name)
    settings.setdefault("mode", mode)
    name = _NO_OUTPUT_NAME.sub("_", deploy.name)
    config = {f"outputs.{name}.{key}": value for key, value in settings.items()}
    if is_topic:
        # -1 is the broker's own default.
        config["topic.creation.default.partitions"] = "-1"
        config["topic.creation.default.replication.factor"] = "-1"
    return {"outputs": name, **config}


def _plain_names(tables: Iterable[Table]) -> dict[str, str]:
    """Return, by the name of each table, one that a setting's key can have."""
    plain: dict[str, str] = {}
    for table in tables:
        name = table.name
        if _PLAIN_NAME.fullmatch(name) is None:
            name = re.sub(r"\W", "_", name, flags=re.ASCII)
            name = name if not name[0].isdigit() else f"_{name}"
        while name.lower() in {each.lower() for each in plain.values()}:
            name += "_"
        plain[table.name] = name
    return plain


def _check(deploy: Deploy, config: Mapping[str, str]) -> None:
    if not config["checkpoint.location"]:
        raise SqlProblem(
            f"{deploy.name}: say in which folder its workers keep how far it has come: WITH (checkpoint = '…')"
        )
    try:
        SparkPipelineConfig.parse(config)
    except InvalidConfig as error:
        raise SqlProblem(f"{deploy.name}: {error}") from None


def _listed(text: str) -> list[str]:
    return [each.strip() for each in text.split(",") if each.strip()]
