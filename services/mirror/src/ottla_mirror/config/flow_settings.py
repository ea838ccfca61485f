"""Settings of a flow: those of MirrorMaker 2's connectors (Kafka 4.2) and our own. Pure.

Each may be written for one flow (`A->B.topics`), or without a prefix for all. What the filters and the naming policy
read of them is their own affair: they are given all settings as they were written.
"""

from typing import Literal, Self

from pydantic import Field, model_validator

from ottla_core.config import ServiceConfig

SECONDS_MAX = 10 * 365 * 24 * 3600


class TopicSettings(ServiceConfig):
    """Which topics are copied, and what goes along with them."""

    topic_filter_class: str = Field(
        "DefaultTopicFilter", alias="topic.filter.class", description="Class that says which topics are copied."
    )
    replication_policy_class: str = Field(
        "DefaultReplicationPolicy",
        alias="replication.policy.class",
        description="Class that says what topics are called at the target.",
    )
    config_property_filter_class: str = Field(
        "DefaultConfigPropertyFilter",
        alias="config.property.filter.class",
        description="Class that says which settings of topics are copied.",
    )
    refresh_topics_enabled: bool = Field(
        True, alias="refresh.topics.enabled", description="Whether new topics and partitions are looked for."
    )
    refresh_topics_interval_s: int = Field(
        600,
        alias="refresh.topics.interval.seconds",
        ge=1,
        le=SECONDS_MAX,
        description="Seconds between looks for topics and partitions.",
    )
    sync_topic_configs_enabled: bool = Field(
        True, alias="sync.topic.configs.enabled", description="Whether settings of topics are kept alike."
    )
    sync_topic_configs_interval_s: int = Field(
        600,
        alias="sync.topic.configs.interval.seconds",
        ge=1,
        le=SECONDS_MAX,
        description="Seconds between looks at the topics' settings.",
    )
    sync_topic_acls_enabled: bool = Field(
        False,
        alias="sync.topic.acls.enabled",
        description="Whether access control lists of topics go along to their copies, all but what allows writing.",
    )
    sync_topic_acls_interval_s: int = Field(
        600,
        alias="sync.topic.acls.interval.seconds",
        ge=1,
        le=SECONDS_MAX,
        description="Seconds between looks at access control lists.",
    )
    sync_topic_deletions_enabled: bool = Field(
        False,
        alias="sync.topic.deletions.enabled",
        description="Whether a topic that is deleted at the source is deleted at the target.",
    )
    existing_topics: Literal["refuse", "adopt"] = Field(
        "refuse",
        alias="existing.topics",
        description="What is done with a topic of the target that no mirror has made: refuse to copy "
        "into it, or adopt it, so that what is copied follows what it has.",
    )
    replication_factor: int | None = Field(
        None,
        alias="replication.factor",
        ge=1,
        le=1000,
        description="Replicas of topics at the target; by default 2, or as many as the target has brokers.",
    )
    heartbeats_replication_enabled: bool = Field(
        True,
        alias="heartbeats.replication.enabled",
        description="Whether heartbeats of the source are copied although the topic filter leaves them out.",
    )


class GroupSettings(ServiceConfig):
    """Which consumer groups are translated, and what MirrorMaker's own topics hold."""

    group_filter_class: str = Field(
        "DefaultGroupFilter", alias="group.filter.class", description="Class that says which groups are translated."
    )
    refresh_groups_enabled: bool = Field(
        True, alias="refresh.groups.enabled", description="Whether new groups are looked for."
    )
    refresh_groups_interval_s: int = Field(
        600,
        alias="refresh.groups.interval.seconds",
        ge=1,
        le=SECONDS_MAX,
        description="Seconds between looks for groups.",
    )
    emit_checkpoints_enabled: bool = Field(
        True, alias="emit.checkpoints.enabled", description="Whether translated offsets are written to checkpoints."
    )
    emit_checkpoints_interval_s: int = Field(
        60,
        alias="emit.checkpoints.interval.seconds",
        ge=1,
        le=SECONDS_MAX,
        description="Seconds between checkpoints.",
    )
    checkpoints_topic_replication_factor: int | None = Field(
        None,
        alias="checkpoints.topic.replication.factor",
        ge=1,
        le=1000,
        description="Replicas of the checkpoints topic; by default 3, or as many as the target has brokers.",
    )
    sync_group_offsets_enabled: bool = Field(
        False,
        alias="sync.group.offsets.enabled",
        description="Whether translated offsets become those of the target's groups while these have no members.",
    )
    sync_group_offsets_interval_s: int = Field(
        60,
        alias="sync.group.offsets.interval.seconds",
        ge=1,
        le=SECONDS_MAX,
        description="Seconds between writing them.",
    )
    emit_offset_syncs_enabled: bool = Field(
        True,
        alias="emit.offset-syncs.enabled",
        description="Whether the topic offset-syncs is written, for programs that read MirrorMaker's. Groups are "
        "translated without it.",
    )
    offset_syncs_topic_location: Literal["source", "target"] = Field(
        "source", alias="offset-syncs.topic.location", description="Which cluster has it: source or target."
    )
    offset_syncs_topic_replication_factor: int | None = Field(
        None,
        alias="offset-syncs.topic.replication.factor",
        ge=1,
        le=1000,
        description="Its replicas; by default 3, or as many as the cluster has brokers.",
    )
    offset_lag_max: int = Field(
        100, alias="offset.lag.max", ge=0, description="Most records between two offset syncs of a partition."
    )
    emit_heartbeats_enabled: bool = Field(
        True, alias="emit.heartbeats.enabled", description="Whether heartbeats are written at the target."
    )
    emit_heartbeats_interval_s: int = Field(
        1, alias="emit.heartbeats.interval.seconds", ge=1, le=SECONDS_MAX, description="Seconds between heartbeats."
    )
    heartbeats_topic_replication_factor: int | None = Field(
        None,
        alias="heartbeats.topic.replication.factor",
        ge=1,
        le=1000,
        description="Replicas of the heartbeats topic; by default 3, or as many as the target has brokers.",
    )


class FlowSettings(TopicSettings, GroupSettings):
    """All that a flow can be told."""

    enabled: bool = Field(False, alias="enabled", description="Whether topics are copied.")
    admin_timeout_ms: int = Field(
        60000,
        alias="admin.timeout.ms",
        ge=1,
        description="Milliseconds that an administrative request may take.",
    )
    flush_interval_ms: int = Field(
        1000,
        alias="offset-map.flush.interval.ms",
        ge=10,
        le=600_000,
        description="Milliseconds between two writes of the offset map: as much is read again after a crash.",
    )
    exactly_once_source_support: Literal["disabled", "preparing", "enabled"] = Field(
        "disabled",
        alias="exactly.once.source.support",
        description="Whether records are written in transactions of the target, together with the position: readers "
        "of committed records see each exactly once. preparing is as disabled: no step before is needed.",
    )
    offset_flush_interval_ms: int = Field(
        1000,
        alias="offset.flush.interval.ms",
        ge=10,
        le=600_000,
        description="Milliseconds after which a transaction is committed, where there are any; readers of committed "
        "records see none of its records before.",
    )
    transaction_bytes_max: int = Field(
        16 * 1024 * 1024,
        alias="transaction.max.bytes",
        ge=1,
        description="Bytes of batches after which a transaction is committed; as much is copied again after a crash.",
    )
    refused_batches: Literal["halt", "dead.letter.topic"] = Field(
        "halt",
        alias="refused.batches",
        description="What is done with a batch that the target refuses: its partition halts, or the batch goes to "
        "the topic refused.batches.topic.",
    )
    refused_batches_topic: str = Field(
        "",
        alias="refused.batches.topic",
        description="Topic of the target for refused batches; by default SOURCE.refused.",
        max_length=249,
    )
    throttle_bytes_per_s: int | None = Field(
        None,
        alias="throttle.bytes.per.second",
        ge=1,
        description="Most bytes per second of all workers together; none by default. The REST API can change it.",
    )

    @model_validator(mode="after")
    def _check_combinations(self) -> Self:
        if self.refused_batches_topic and self.refused_batches == "halt":
            raise ValueError("refused.batches.topic: only has a meaning with refused.batches=dead.letter.topic")
        return self

    @property
    def is_transactional(self) -> bool:
        """Whether records are written in transactions."""
        return self.exactly_once_source_support == "enabled"
