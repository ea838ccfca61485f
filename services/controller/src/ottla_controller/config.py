"""Settings of a controller."""

from typing import Annotated

from pydantic import BeforeValidator, Field

from ottla_core.config import SECRET, ClusterProcessConfig
from ottla_core.consumer_group_settings import ConsumerGroupSettings
from ottla_core.errors import ConfigurationError
from ottla_core.scram import BootstrapUser, parse_bootstrap_users
from ottla_core.trace_settings import TraceSettings


def _bootstrap_users(value: object) -> object:
    if not isinstance(value, str):
        return value
    try:
        return parse_bootstrap_users(value)
    except ConfigurationError as error:
        raise ValueError(str(error)) from None


BootstrapUsers = Annotated[tuple[BootstrapUser, ...], BeforeValidator(_bootstrap_users)]


class ControllerConfig(ConsumerGroupSettings, TraceSettings, ClusterProcessConfig):
    """What a controller can be told; see `ServiceConfig` for where the values come from."""

    num_partitions: int = Field(
        1, alias="num.partitions", ge=1, description="Partitions of a topic created without saying how many."
    )
    default_replication_factor: int = Field(
        1,
        alias="default.replication.factor",
        ge=1,
        description="Replicas of a topic created without saying how many.",
    )
    unclean_leader_election_enable: bool = Field(
        False,
        alias="unclean.leader.election.enable",
        description="Whether, on topics that do not say, a replica outside the in-sync set may lead when no other "
        "is left; loses records.",
    )
    min_insync_replicas: int = Field(
        1,
        alias="min.insync.replicas",
        ge=1,
        description="In-sync replicas without which nothing counts as replicated, on topics that do not say; must be "
        "what the brokers' own files say.",
    )
    auto_leader_rebalance_enable: bool = Field(
        True,
        alias="auto.leader.rebalance.enable",
        description="Whether leaderships go back to the preferred leaders by themselves.",
    )
    leader_imbalance_per_broker_percentage: int = Field(
        10,
        alias="leader.imbalance.per.broker.percentage",
        ge=0,
        le=100,
        description="Percentage of the partitions preferring a broker that others may lead before these go back.",
    )
    scram_bootstrap_users: Annotated[BootstrapUsers, SECRET] = Field(
        (),
        alias="scram.bootstrap.users",
        description="Users of SCRAM that are created in a cluster that has no users: "
        "SCRAM-SHA-512=[name=NAME,password=PASSWORD], separated by semicolons, as in Kafka's "
        "`kafka-storage format --add-scram`. For the first administrator, and for brokers that log in to each other.",
    )
    delegation_token_expiry_check_interval_ms: int = Field(
        3_600_000,
        alias="delegation.token.expiry.check.interval.ms",
        ge=100,
        description="Milliseconds between two looks for delegation tokens that have expired, which are deleted.",
    )
    leader_imbalance_check_interval_seconds: int = Field(
        300,
        alias="leader.imbalance.check.interval.seconds",
        ge=1,
        description="Seconds between looks at whether leaderships should go back to the preferred leaders.",
    )
