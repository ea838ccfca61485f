"""Settings of a worker that hold for every connector and task which does not say otherwise itself."""

from typing import Literal

from pydantic import Field

from ottla_core.config import ServiceConfig

GIB = 1024**3


class TaskDefaults(ServiceConfig):
    """What holds for connectors and tasks that do not say otherwise themselves."""

    key_converter: str = Field(
        "JsonConverter", alias="key.converter", description="Class that converts keys of records."
    )
    value_converter: str = Field(
        "JsonConverter", alias="value.converter", description="Class that converts values of records."
    )
    header_converter: str = Field(
        "SimpleHeaderConverter", alias="header.converter", description="Class that converts headers of records."
    )
    offset_flush_interval_ms: int = Field(
        60000,
        alias="offset.flush.interval.ms",
        ge=1,
        description="Milliseconds between commits of a task's offsets.",
    )
    offset_flush_timeout_ms: int = Field(
        5000,
        alias="offset.flush.timeout.ms",
        ge=1,
        description="Milliseconds that a commit of offsets may take before it is given up until the next.",
    )
    task_shutdown_graceful_timeout_ms: int = Field(
        5000,
        alias="task.shutdown.graceful.timeout.ms",
        ge=0,
        description="Milliseconds that tasks have to stop by themselves before they are killed.",
    )
    task_memory_max_bytes: int = Field(
        GIB,
        alias="task.memory.max.bytes",
        ge=0,
        description="Bytes of memory that the process of a connector or task may use before it is killed; 0: any.",
    )
    task_restart_attempts_max: int = Field(
        10,
        alias="task.restart.attempts.max",
        ge=0,
        description="How often in a row a failed task is started again by itself; what cannot start, or a job that "
        "cannot go on, as a server is away is tried for ever; 0: never.",
    )
    task_restart_backoff_ms: int = Field(
        1000,
        alias="task.restart.backoff.ms",
        ge=0,
        description="Milliseconds before a failed task's first restart; they double with each further one.",
    )
    task_restart_backoff_max_ms: int = Field(
        60000, alias="task.restart.backoff.max.ms", ge=0, description="Most milliseconds before a restart."
    )
    task_restart_reset_ms: int = Field(
        600000,
        alias="task.restart.reset.ms",
        ge=0,
        description="Milliseconds that a task must run before its restarts are counted anew.",
    )
    errors_tolerance: Literal["none", "all"] = Field(
        "none",
        alias="errors.tolerance",
        description="Whether a bad record fails its task (none) or is skipped (all).",
    )
    errors_retry_timeout: int = Field(
        0,
        alias="errors.retry.timeout",
        ge=-1,
        description="Milliseconds for which a failed operation is tried again; 0: not at all, -1: for ever.",
    )
    errors_retry_delay_max_ms: int = Field(
        60000, alias="errors.retry.delay.max.ms", ge=1, description="Most milliseconds between two such attempts."
    )
    errors_log_enable: bool = Field(
        False, alias="errors.log.enable", description="Whether errors with records are logged."
    )
    errors_log_include_messages: bool = Field(
        False, alias="errors.log.include.messages", description="Whether such a log line contains the record."
    )
    topic_creation_enable: bool = Field(
        True,
        alias="topic.creation.enable",
        description="Whether source connectors may have their topics created by topic.creation.* settings.",
    )
