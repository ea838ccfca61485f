"""The settings that every connector has, whatever its class (Kafka's ConnectorConfig and its two subclasses).

Pure.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator

from ottla_connect.task.source import topic_creation
from ottla_connect.task.source.boundaries import Boundary
from ottla_sdk import CommaSeparated, Importance, PluginConfig, Problem, Width, setting

COMMON = "Common"
TRANSFORMS = "Transforms"
PREDICATES = "Predicates"
ERRORS = "Error Handling"
PROCESSES = "Processes"
EXACTLY_ONCE = "Exactly Once Support"
EXACTLY_ONCE_KEY = "exactly.once.support"
BOUNDARY_KEY = "transaction.boundary"
BOUNDARY_INTERVAL_KEY = "transaction.boundary.interval.ms"
OFFSETS_TOPIC_KEY = "offsets.storage.topic"
TOPIC_CREATION = "Topic Creation"
DEAD_LETTER_TOPIC = "errors.deadletterqueue.topic.name"


def _printable(name: str) -> str:
    if not name.strip():
        raise ValueError("must not be empty")
    if any(ord(each) < 32 or ord(each) == 127 for each in name):
        raise ValueError("must not contain control characters")
    return name


def _distinct(names: tuple[str, ...]) -> tuple[str, ...]:
    if len(set(names)) < len(names):
        raise ValueError("a name stands twice in it")
    return names


def _regular_expression(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"is no regular expression: {error}") from None
    return text


_Name = Annotated[str, AfterValidator(_printable)]
_Names = Annotated[CommaSeparated, AfterValidator(_distinct)]
_Pattern = Annotated[str, AfterValidator(_regular_expression)]

TYPES: Mapping[str, str] = {
    "tasks.max": "INT",
    "key.converter": "CLASS",
    "value.converter": "CLASS",
    "header.converter": "CLASS",
    "errors.deadletterqueue.topic.replication.factor": "SHORT",
}
"""Where Kafka Connect's types are more exact than those that a model's types say."""


class ConnectorSettings(PluginConfig):
    """Settings of connectors of both kinds."""

    name: _Name = setting(
        "name",
        doc="Name of the connector, unique in the cluster.",
        importance=Importance.HIGH,
        group=COMMON,
        display_name="Connector name",
    )
    connector_class: str = setting(
        "connector.class",
        doc="Class of the connector: its full name, its bare name, or an alias.",
        importance=Importance.HIGH,
        group=COMMON,
        width=Width.LONG,
        display_name="Connector class",
    )
    tasks_max: int = setting(
        "tasks.max", 1, doc="Most tasks that the connector may have.", importance=Importance.HIGH, group=COMMON,
        width=Width.SHORT, ge=1,
    )  # fmt: skip
    key_converter: str | None = setting(
        "key.converter", None, doc="Class that converts keys of records; by default the worker's.",
        importance=Importance.LOW, group=COMMON, width=Width.SHORT, display_name="Key converter class",
    )  # fmt: skip
    value_converter: str | None = setting(
        "value.converter", None, doc="Class that converts values of records; by default the worker's.",
        importance=Importance.LOW, group=COMMON, width=Width.SHORT, display_name="Value converter class",
    )  # fmt: skip
    header_converter: str | None = setting(
        "header.converter", None, doc="Class that converts headers of records; by default the worker's.",
        importance=Importance.LOW, group=COMMON, width=Width.SHORT, display_name="Header converter class",
    )  # fmt: skip
    reload_action: Literal["none", "restart"] = setting(
        "config.action.reload", "restart",
        doc="What happens when a config provider says that a value has changed; none of the present providers does.",
        importance=Importance.LOW, group=COMMON, display_name="Reload Action",
    )  # fmt: skip
    offset_flush_interval_ms: int | None = setting(
        "offset.flush.interval.ms", None,
        doc="Milliseconds between commits of offsets; by default the worker's.",
        importance=Importance.LOW, group=COMMON, ge=1,
    )  # fmt: skip
    transforms: _Names = setting(
        "transforms", (), doc="Names for the transforms that records go through, in their order.",
        importance=Importance.LOW, group=TRANSFORMS, width=Width.LONG,
    )  # fmt: skip
    predicates: _Names = setting(
        "predicates", (), doc="Names for the predicates that say to which records transforms apply.",
        importance=Importance.LOW, group=PREDICATES, width=Width.LONG,
    )  # fmt: skip
    errors_retry_timeout: int = setting(
        "errors.retry.timeout", 0,
        doc="Milliseconds for which a failed operation is tried again; 0: not at all, -1: for ever. "
        "A worker may have another default.",
        group=ERRORS, ge=-1, display_name="Retry Timeout for Errors",
    )  # fmt: skip
    errors_retry_delay_max_ms: int = setting(
        "errors.retry.delay.max.ms", 60000,
        doc="Most milliseconds between two tries; they grow up to there and are then spread at random. "
        "A worker may have another default.",
        group=ERRORS, ge=1, display_name="Maximum Delay Between Retries for Errors",
    )  # fmt: skip
    errors_tolerance: Literal["none", "all"] = setting(
        "errors.tolerance", "none",
        doc="Whether a bad record fails its task (none) or is skipped (all). A worker may have another default.",
        group=ERRORS, width=Width.SHORT, display_name="Error Tolerance",
    )  # fmt: skip
    errors_log_enable: bool = setting(
        "errors.log.enable", False,
        doc="Whether errors with records are logged, also those that are tolerated. "
        "A worker may have another default.",
        group=ERRORS, width=Width.SHORT, display_name="Log Errors",
    )  # fmt: skip
    errors_log_include_messages: bool = setting(
        "errors.log.include.messages", False,
        doc="Whether such a log line contains the record. A worker may have another default.",
        group=ERRORS, width=Width.SHORT, display_name="Log Error Details",
    )  # fmt: skip
    task_memory_max_bytes: int | None = setting(
        "task.memory.max.bytes", None,
        doc="Bytes of memory that a process of the connector may use before it is killed; 0: any; "
        "by default the worker's.",
        importance=Importance.LOW, group=PROCESSES, ge=0,
    )  # fmt: skip
    task_restart_attempts_max: int | None = setting(
        "task.restart.attempts.max", None,
        doc="How often in a row what has failed is started again by itself; what cannot start, or a job that cannot "
        "go on, as a server is away is tried for ever; 0: never; by default the worker's.",
        importance=Importance.LOW, group=PROCESSES, ge=0,
    )  # fmt: skip
    task_restart_backoff_ms: int | None = setting(
        "task.restart.backoff.ms", None,
        doc="Milliseconds before the first such restart; they double with each further one; by default the worker's.",
        importance=Importance.LOW, group=PROCESSES, ge=0,
    )  # fmt: skip
    task_restart_backoff_max_ms: int | None = setting(
        "task.restart.backoff.max.ms", None,
        doc="Most milliseconds before a restart; by default the worker's.",
        importance=Importance.LOW, group=PROCESSES, ge=0,
    )  # fmt: skip
    task_restart_reset_ms: int | None = setting(
        "task.restart.reset.ms", None,
        doc="Milliseconds that a task must run before its restarts are counted anew; by default the worker's.",
        importance=Importance.LOW, group=PROCESSES, ge=0,
    )  # fmt: skip


def _lower_case(value: object) -> object:
    return value.lower() if isinstance(value, str) else value


class SourceSettings(ConnectorSettings):
    """Settings of source connectors."""

    exactly_once_support: Annotated[Literal["requested", "required"], BeforeValidator(_lower_case)] = setting(
        EXACTLY_ONCE_KEY, "requested",
        doc="Whether every record must get into its topic exactly once (required: only a connector that says it can, "
        "on workers with exactly.once.source.support=enabled), or at least once where that is not to be had "
        "(requested).",
        group=EXACTLY_ONCE, display_name="Exactly once support",
    )  # fmt: skip
    transaction_boundary: Annotated[Boundary, BeforeValidator(_lower_case)] = setting(
        BOUNDARY_KEY, Boundary.POLL,
        doc="Where transactions end: behind each batch of records (poll), after some time (interval), or where the "
        "connector says (connector).",
        group=EXACTLY_ONCE, display_name="Transaction Boundary",
    )  # fmt: skip
    transaction_boundary_interval_ms: int | None = setting(
        BOUNDARY_INTERVAL_KEY, None,
        doc="Milliseconds after which a transaction ends, for the boundary interval; by default those between "
        "commits of offsets.",
        importance=Importance.LOW, group=EXACTLY_ONCE, ge=1, display_name="Transaction boundary interval",
    )  # fmt: skip

    topic_creation_groups: _Names = setting(
        topic_creation.GROUPS_KEY, (),
        doc="Names of groups of topics; topic.creation.GROUP.* says which topics belong to one and how they are "
        "created.",
        importance=Importance.LOW, group=TOPIC_CREATION, width=Width.LONG, display_name="Topic Creation Groups",
    )  # fmt: skip


class SinkSettings(ConnectorSettings):
    """Settings of sink connectors."""

    topics: CommaSeparated = setting(
        "topics", (), doc="Topics to read, separated by commas.", importance=Importance.HIGH, group=COMMON,
        width=Width.LONG,
    )  # fmt: skip
    topics_regex: _Pattern = setting(
        "topics.regex", "", doc="Regular expression; topics are read whose whole names match it.",
        importance=Importance.HIGH, group=COMMON, width=Width.LONG, display_name="Topics regex",
    )  # fmt: skip
    dead_letter_topic: str = setting(
        DEAD_LETTER_TOPIC, "", doc="Topic for records that could not be handled; empty: none.", group=ERRORS,
        display_name="Dead Letter Queue Topic Name",
    )  # fmt: skip
    dead_letter_replication_factor: int = setting(
        "errors.deadletterqueue.topic.replication.factor", 3,
        doc="Replicas of that topic, if it has to be created; -1: the brokers' default.",
        group=ERRORS, ge=-1, le=32767, display_name="Dead Letter Queue Topic Replication Factor",
    )  # fmt: skip
    dead_letter_headers: bool = setting(
        "errors.deadletterqueue.context.headers.enable", False,
        doc="Whether records in that topic have headers, __connect.errors.*, which say why they are there.",
        group=ERRORS, display_name="Enable Error Context Headers",
    )  # fmt: skip


def sink_problems(settings: Mapping[str, str]) -> Iterator[Problem]:
    """Return what is wrong with a sink's settings taken together (SinkConnectorConfig.validate)."""
    topics = [each.strip() for each in settings.get("topics", "").split(",") if each.strip()]
    pattern = settings.get("topics.regex", "").strip()
    letters = settings.get(DEAD_LETTER_TOPIC, "").strip()
    if topics and pattern:
        for key in ("topics", "topics.regex"):
            yield Problem(key, "topics and topics.regex are both set; set only one of them")
    if not topics and not pattern:
        for key in ("topics", "topics.regex"):
            yield Problem(key, "neither topics nor topics.regex is set; a sink needs one of them")
    if letters and letters in topics:
        yield Problem("topics", f"must not contain the connector's own dead letter topic {letters}")
    if letters and pattern and _matches(pattern, letters):
        yield Problem("topics.regex", f"must not match the connector's own dead letter topic {letters}")


def _matches(pattern: str, topic: str) -> bool:
    try:
        return re.fullmatch(pattern, topic) is not None
    except re.error:
        return False
