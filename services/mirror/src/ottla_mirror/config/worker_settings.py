"""Settings of a mirror worker itself: its REST API, its place in the groups of workers, its memory."""

from typing import Self

from pydantic import Field, model_validator

from ottla_core.config import CommaSeparated, MetricsSettings
from ottla_core.rest.settings import DEFAULT_HOST, Listener, Listeners, RestSettings

DEFAULT_PORT = 8084
MEBIBYTE = 1024 * 1024
INT32_MAX = 2**31 - 1
DEFAULT_PROVIDERS = ("file", "env")


class WorkerSettings(MetricsSettings, RestSettings):
    """What holds for the whole process."""

    listeners: Listeners = Field(
        (Listener("http", DEFAULT_HOST, DEFAULT_PORT),),
        alias="listeners",
        description="URLs that the REST API listens on, separated by commas: http://HOST:PORT or https://HOST:PORT. "
        "No host means every interface; port 0 takes any free one. Who reaches it may do everything, unless "
        "rest.authentication.methods or listeners.https.ssl.client.auth is set; other workers reach this one by it.",
    )
    clusters: CommaSeparated = Field(
        alias="clusters", min_length=1, description="Aliases of the clusters, separated by commas."
    )
    group_id: str = Field(
        "ottla-mirror",
        alias="group.id",
        min_length=1,
        description="Name of the group that the workers form at each target.",
    )
    session_timeout_ms: int = Field(
        10000,
        alias="session.timeout.ms",
        ge=1,
        le=INT32_MAX,
        description="Milliseconds after which a silent worker loses its partitions to the others.",
    )
    heartbeat_interval_ms: int = Field(
        1000,
        alias="heartbeat.interval.ms",
        ge=1,
        le=INT32_MAX,
        description="Milliseconds between heartbeats; less than session.timeout.ms.",
    )
    rebalance_timeout_ms: int = Field(
        20000,
        alias="rebalance.timeout.ms",
        ge=1,
        le=INT32_MAX,
        description="Milliseconds that workers have to join a rebalance.",
    )
    memory_max_bytes: int = Field(
        128 * MEBIBYTE,
        alias="memory.max.bytes",
        ge=8 * MEBIBYTE,
        description=(
            "Most bytes of batches that the worker holds between source and target, in equal shares for its flows, "
            "of 4 MiB at least. Answers that are just received come on top, and up to 16 MiB for each cluster that "
            "are kept for its next answers."
        ),
    )
    flows_topic_replication_factor: int | None = Field(
        None,
        alias="flows.topic.replication.factor",
        ge=1,
        description="Replicas of the topic mirror-flows.internal; by default 3, or as many as there are brokers.",
    )
    map_topic_replication_factor: int | None = Field(
        None,
        alias="offset-map.topic.replication.factor",
        ge=1,
        description="Replicas of the topics for offset maps; by default 3, or as many as there are brokers.",
    )
    config_providers: CommaSeparated = Field(
        DEFAULT_PROVIDERS,
        alias="config.providers",
        description="Names of config providers, separated by commas. Those called file and env need no class.",
    )
    log_level: str = Field(
        "info",
        alias="log.level",
        pattern="^(debug|info|warning|error)$",
        description="Least severe level that is logged: debug, info, warning or error.",
    )

    @model_validator(mode="after")
    def _check_combinations(self) -> Self:
        if self.heartbeat_interval_ms >= self.session_timeout_ms:
            raise ValueError("heartbeat.interval.ms: must be less than session.timeout.ms")
        return self
