"""Settings of a controller."""

from pydantic import Field

from ottla_core.config import ClusterProcessConfig


class ControllerConfig(ClusterProcessConfig):
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
