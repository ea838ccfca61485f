"""Settings of a group coordinator, by Kafka's keys; `GroupSettings` is the part that the rules depend on."""

from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from ottla_core.config import ClusterProcessConfig, CommaSeparated
from ottla_core.consumer_group_settings import ConsumerGroupSettings
from ottla_group_coordinator.settings import INT32_MAX, MINUTE_MS, GroupSettings
from ottla_group_coordinator.transactions.settings import TransactionSettings

DEFAULTS = GroupSettings()
TRANSACTION_DEFAULTS = TransactionSettings()
ASSIGNORS = frozenset(DEFAULTS.consumer_assignors)

MigrationPolicy = Annotated[
    Literal["bidirectional", "upgrade", "downgrade", "disabled"],
    BeforeValidator(lambda value: value.lower() if isinstance(value, str) else value),
]


class GroupCoordinatorConfig(ConsumerGroupSettings, ClusterProcessConfig):
    """What a group coordinator can be told; see `ServiceConfig` for where the values come from."""

    group_min_session_timeout_ms: int = Field(
        DEFAULTS.min_session_timeout_ms,
        alias="group.min.session.timeout.ms",
        ge=1,
        le=INT32_MAX,
        description="Milliseconds of the shortest session timeout that a member of a classic group may ask for.",
    )
    group_max_session_timeout_ms: int = Field(
        DEFAULTS.max_session_timeout_ms,
        alias="group.max.session.timeout.ms",
        ge=1,
        le=INT32_MAX,
        description="Milliseconds of the longest session timeout that a member of a classic group may ask for.",
    )
    group_initial_rebalance_delay_ms: int = Field(
        DEFAULTS.initial_rebalance_delay_ms,
        alias="group.initial.rebalance.delay.ms",
        ge=0,
        le=INT32_MAX,
        description="Milliseconds that an empty classic group waits for more members before its first rebalance.",
    )
    group_max_size: int = Field(
        DEFAULTS.group_max_size,
        alias="group.max.size",
        ge=1,
        le=INT32_MAX,
        description="Most members of a classic group.",
    )
    group_consumer_max_size: int = Field(
        DEFAULTS.consumer_group_max_size,
        alias="group.consumer.max.size",
        ge=1,
        le=INT32_MAX,
        description="Most members of a consumer group.",
    )
    group_consumer_assignors: CommaSeparated = Field(
        DEFAULTS.consumer_assignors,
        alias="group.consumer.assignors",
        description="Names of the assignors that consumer groups may use, separated by commas: uniform, range. The "
        "first is the default.",
    )
    group_consumer_migration_policy: MigrationPolicy = Field(
        "bidirectional",
        alias="group.consumer.migration.policy",
        description="Which groups with members may change their protocol: bidirectional, upgrade (classic to "
        "consumer), downgrade (consumer to classic) or disabled.",
    )
    group_consumer_regex_refresh_interval_ms: int = Field(
        DEFAULTS.consumer_regex_refresh_ms,
        alias="group.consumer.regex.refresh.interval.ms",
        ge=10_000,
        le=INT32_MAX,
        description="Milliseconds after which a subscription's pattern is held against the cluster's topics again.",
    )
    offset_metadata_max_bytes: int = Field(
        DEFAULTS.offset_metadata_max_bytes,
        alias="offset.metadata.max.bytes",
        ge=0,
        le=INT32_MAX,
        description="Most bytes of the text that a client may store beside an offset.",
    )
    offsets_retention_minutes: int = Field(
        DEFAULTS.offsets_retention_ms // MINUTE_MS,
        alias="offsets.retention.minutes",
        ge=1,
        le=INT32_MAX,
        description="Minutes for which offsets are kept after their group has become empty or has stopped to "
        "consume the topic.",
    )
    offsets_retention_check_interval_ms: int = Field(
        DEFAULTS.offsets_retention_check_ms,
        alias="offsets.retention.check.interval.ms",
        ge=1,
        description="Milliseconds between two searches for offsets that are too old.",
    )
    offsets_commit_timeout_ms: int = Field(
        5_000,
        alias="offsets.commit.timeout.ms",
        ge=1,
        le=INT32_MAX,
        description="Milliseconds after which a request whose outcome could not be stored is answered with "
        "COORDINATOR_NOT_AVAILABLE.",
    )
    offsets_load_buffer_size: int = Field(
        5 * 1024 * 1024,
        alias="offsets.load.buffer.size",
        ge=1,
        le=64 * 1024 * 1024,
        description="Bytes that are read at a time when a shard is loaded.",
    )

    transaction_max_timeout_ms: int = Field(
        TRANSACTION_DEFAULTS.max_timeout_ms,
        alias="transaction.max.timeout.ms",
        ge=1,
        le=INT32_MAX,
        description="Milliseconds of the longest transaction.timeout.ms that a producer may ask for.",
    )
    transactional_id_expiration_ms: int = Field(
        TRANSACTION_DEFAULTS.expiration_ms,
        alias="transactional.id.expiration.ms",
        ge=1,
        le=INT32_MAX,
        description="Milliseconds after its last transaction for which a transactional id is remembered.",
    )
    transaction_abort_timed_out_transaction_cleanup_interval_ms: int = Field(
        TRANSACTION_DEFAULTS.abort_check_ms,
        alias="transaction.abort.timed.out.transaction.cleanup.interval.ms",
        ge=1,
        le=INT32_MAX,
        description="Milliseconds between two searches for transactions that have taken longer than their producer "
        "said, which are aborted.",
    )
    transaction_remove_expired_transaction_cleanup_interval_ms: int = Field(
        TRANSACTION_DEFAULTS.expiration_check_ms,
        alias="transaction.remove.expired.transaction.cleanup.interval.ms",
        ge=1,
        le=INT32_MAX,
        description="Milliseconds between two searches for transactional ids that need not be remembered any more.",
    )
    transaction_two_phase_commit_enable: bool = Field(
        TRANSACTION_DEFAULTS.two_phase_commit,
        alias="transaction.two.phase.commit.enable",
        description="Whether producers may take part in two-phase commits of other systems (KIP-939). Their "
        "transactions are never aborted for their age, and hold up readers of committed records until they end.",
    )
    transaction_state_log_load_buffer_size: int = Field(
        5 * 1024 * 1024,
        alias="transaction.state.log.load.buffer.size",
        ge=1,
        le=64 * 1024 * 1024,
        description="Bytes that are read at a time when a shard of transactions is loaded.",
    )

    @model_validator(mode="after")
    def _check_together(self) -> Self:
        # In place of the check of the same name above, so that all that is wrong is said at once.
        problems = self.consumer_group_problems()
        if self.group_min_session_timeout_ms > self.group_max_session_timeout_ms:
            problems.append("group.min.session.timeout.ms must not be above group.max.session.timeout.ms")
        unknown = [name for name in self.group_consumer_assignors if name not in ASSIGNORS]
        if unknown or not self.group_consumer_assignors:
            problems.append(
                f"group.consumer.assignors must name at least one of {', '.join(sorted(ASSIGNORS))} and nothing else"
                f" (got {', '.join(self.group_consumer_assignors) or 'none'})"
            )
        if problems:
            raise ValueError("; ".join(problems))
        return self

    def transaction_settings(self) -> TransactionSettings:
        """Return what the rules of transactions depend on."""
        return TransactionSettings(
            max_timeout_ms=self.transaction_max_timeout_ms,
            expiration_ms=self.transactional_id_expiration_ms,
            abort_check_ms=self.transaction_abort_timed_out_transaction_cleanup_interval_ms,
            expiration_check_ms=self.transaction_remove_expired_transaction_cleanup_interval_ms,
            two_phase_commit=self.transaction_two_phase_commit_enable,
        )

    def group_settings(self) -> GroupSettings:
        """Return what the rules of groups depend on."""
        return GroupSettings(
            min_session_timeout_ms=self.group_min_session_timeout_ms,
            max_session_timeout_ms=self.group_max_session_timeout_ms,
            initial_rebalance_delay_ms=self.group_initial_rebalance_delay_ms,
            group_max_size=self.group_max_size,
            consumer_session_timeout_ms=self.group_consumer_session_timeout_ms,
            consumer_min_session_timeout_ms=self.group_consumer_min_session_timeout_ms,
            consumer_max_session_timeout_ms=self.group_consumer_max_session_timeout_ms,
            consumer_heartbeat_interval_ms=self.group_consumer_heartbeat_interval_ms,
            consumer_min_heartbeat_interval_ms=self.group_consumer_min_heartbeat_interval_ms,
            consumer_max_heartbeat_interval_ms=self.group_consumer_max_heartbeat_interval_ms,
            consumer_group_max_size=self.group_consumer_max_size,
            consumer_assignors=self.group_consumer_assignors,
            consumer_migration_policy=self.group_consumer_migration_policy,
            consumer_regex_refresh_ms=self.group_consumer_regex_refresh_interval_ms,
            offset_metadata_max_bytes=self.offset_metadata_max_bytes,
            offsets_retention_ms=self.offsets_retention_minutes * MINUTE_MS,
            offsets_retention_check_ms=self.offsets_retention_check_interval_ms,
        )
