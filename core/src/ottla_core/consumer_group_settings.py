"""What every service that has to do with groups of the consumer protocol is told alike.

Coordinators go by it, controllers check settings of single groups against it, and brokers describe it. Keys, units
and defaults are Kafka's.
"""

from typing import Self

from pydantic import Field, model_validator

from ottla_core.config import ServiceConfig
from ottla_core.config_definition import INT32_MAX
from ottla_core.group_config import ConsumerGroupLimits

DEFAULTS = ConsumerGroupLimits()


class ConsumerGroupSettings(ServiceConfig):
    """Sessions and heartbeats of the consumer protocol (KIP-848)."""

    group_consumer_session_timeout_ms: int = Field(
        DEFAULTS.session_timeout_ms,
        alias="group.consumer.session.timeout.ms",
        ge=1,
        le=INT32_MAX,
        description="Milliseconds without a heartbeat after which a member of a consumer group (KIP-848) is removed.",
    )
    group_consumer_min_session_timeout_ms: int = Field(
        DEFAULTS.session_timeout_ms_min,
        alias="group.consumer.min.session.timeout.ms",
        ge=1,
        le=INT32_MAX,
        description="Milliseconds of the shortest session timeout that a single consumer group may be given.",
    )
    group_consumer_max_session_timeout_ms: int = Field(
        DEFAULTS.session_timeout_ms_max,
        alias="group.consumer.max.session.timeout.ms",
        ge=1,
        le=INT32_MAX,
        description="Milliseconds of the longest session timeout that a single consumer group may be given.",
    )
    group_consumer_heartbeat_interval_ms: int = Field(
        DEFAULTS.heartbeat_interval_ms,
        alias="group.consumer.heartbeat.interval.ms",
        ge=1,
        le=INT32_MAX,
        description="Milliseconds between heartbeats of a member of a consumer group; less than its session timeout.",
    )
    group_consumer_min_heartbeat_interval_ms: int = Field(
        DEFAULTS.heartbeat_interval_ms_min,
        alias="group.consumer.min.heartbeat.interval.ms",
        ge=1,
        le=INT32_MAX,
        description="Milliseconds of the shortest heartbeat interval that a single consumer group may be given.",
    )
    group_consumer_max_heartbeat_interval_ms: int = Field(
        DEFAULTS.heartbeat_interval_ms_max,
        alias="group.consumer.max.heartbeat.interval.ms",
        ge=1,
        le=INT32_MAX,
        description="Milliseconds of the longest heartbeat interval that a single consumer group may be given.",
    )

    @model_validator(mode="after")
    def _check_together(self) -> Self:
        if problems := self.consumer_group_problems():
            raise ValueError("; ".join(problems))
        return self

    def consumer_group_problems(self) -> list[str]:
        """Return what does not go together."""
        problems = []
        if self.group_consumer_heartbeat_interval_ms >= self.group_consumer_session_timeout_ms:
            problems.append(
                "group.consumer.heartbeat.interval.ms must be below group.consumer.session.timeout.ms, or members "
                "are removed between two heartbeats"
            )
        if self.group_consumer_min_session_timeout_ms > self.group_consumer_max_session_timeout_ms:
            problems.append(
                "group.consumer.min.session.timeout.ms must not be above group.consumer.max.session.timeout.ms"
            )
        if self.group_consumer_min_heartbeat_interval_ms > self.group_consumer_max_heartbeat_interval_ms:
            problems.append(
                "group.consumer.min.heartbeat.interval.ms must not be above group.consumer.max.heartbeat.interval.ms"
            )
        return problems

    def consumer_group_limits(self) -> ConsumerGroupLimits:
        """Return what the rules depend on."""
        return ConsumerGroupLimits(
            session_timeout_ms=self.group_consumer_session_timeout_ms,
            session_timeout_ms_min=self.group_consumer_min_session_timeout_ms,
            session_timeout_ms_max=self.group_consumer_max_session_timeout_ms,
            heartbeat_interval_ms=self.group_consumer_heartbeat_interval_ms,
            heartbeat_interval_ms_min=self.group_consumer_min_heartbeat_interval_ms,
            heartbeat_interval_ms_max=self.group_consumer_max_heartbeat_interval_ms,
        )
