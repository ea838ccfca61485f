"""The broker's settings for replication; keys, units and defaults are Kafka's."""

import re

from pydantic import Field

from ottla_core.config import ClusterProcessConfig
from ottla_core.trace_settings import TraceSettings

MAX_INT = 2**31 - 1
RACK_AWARE_SELECTOR = "org.apache.kafka.common.replica.RackAwareReplicaSelector"


class ReplicationConfig(TraceSettings, ClusterProcessConfig):
    """Settings of leaders and followers."""

    replica_lag_time_max_ms: int = Field(
        30_000,
        alias="replica.lag.time.max.ms",
        ge=1,
        description="Milliseconds after which a follower that has not caught up is no longer in sync.",
    )
    controlled_shutdown_enable: bool = Field(
        True,
        alias="controlled.shutdown.enable",
        description="Whether a broker that is told to stop hands over what it leads first.",
    )
    num_replica_fetchers: int = Field(
        1,
        alias="num.replica.fetchers",
        ge=1,
        le=1000,
        description="Connections over which this broker fetches from each leader.",
    )
    replica_fetch_max_bytes: int = Field(
        1024 * 1024,
        alias="replica.fetch.max.bytes",
        ge=0,
        le=MAX_INT,
        description="Bytes of records to fetch of one partition at a time; one batch is always fetched.",
    )
    replica_fetch_min_bytes: int = Field(
        1,
        alias="replica.fetch.min.bytes",
        ge=0,
        le=MAX_INT,
        description="Bytes of records that a follower waits for.",
    )
    replica_fetch_wait_max_ms: int = Field(
        500,
        alias="replica.fetch.wait.max.ms",
        ge=0,
        le=MAX_INT,
        description="Milliseconds that a follower waits for replica.fetch.min.bytes.",
    )
    replica_fetch_response_max_bytes: int = Field(
        10 * 1024 * 1024,
        alias="replica.fetch.response.max.bytes",
        ge=0,
        le=MAX_INT,
        description="Bytes of records to fetch of all partitions at a time; one batch is always fetched.",
    )
    replica_fetch_backoff_ms: int = Field(
        1000,
        alias="replica.fetch.backoff.ms",
        ge=0,
        le=MAX_INT,
        description="Milliseconds after which at the latest a fetch that failed is tried again.",
    )
    replica_socket_timeout_ms: int = Field(
        30_000,
        alias="replica.socket.timeout.ms",
        ge=1,
        le=MAX_INT,
        description="Milliseconds without any byte after which a follower, at the latest, connects anew.",
    )
    max_incremental_fetch_session_cache_slots: int = Field(
        1000,
        alias="max.incremental.fetch.session.cache.slots",
        ge=0,
        le=MAX_INT,
        description="Fetch sessions that are kept; readers without one name all their partitions in each request.",
    )
    replica_selector_class: str = Field(
        "",
        alias="replica.selector.class",
        pattern=f"^({re.escape(RACK_AWARE_SELECTOR)})?$",
        description=f"{RACK_AWARE_SELECTOR} has consumers read from a replica in their rack; empty: from the leader.",
    )
