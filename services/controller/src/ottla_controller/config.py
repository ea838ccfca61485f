"""Settings of a controller."""

from pydantic import Field, field_validator

from ottla_core.config import EtcdSettings


class ControllerConfig(EtcdSettings):
    """What a controller can be told; see `ServiceConfig` for where the values come from."""

    node_id: int = Field(alias="node.id", ge=0, description="This controller's id, unique among controllers.")
    rpc_listener: str = Field(
        "127.0.0.1:9090",
        alias="rpc.listener",
        description="host:port that the gRPC server listens on; port 0 lets the system choose one.",
    )
    rpc_advertised_listener: str | None = Field(
        None,
        alias="rpc.advertised.listener",
        description="host:port that other processes reach the gRPC server at; by default where it listens.",
    )
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
    log_level: str = Field(
        "info",
        alias="log.level",
        pattern="^(debug|info|warning|error)$",
        description="Least severe level that is logged: debug, info, warning or error.",
    )

    @field_validator("rpc_listener", "rpc_advertised_listener")
    @classmethod
    def _is_an_address(cls, value: str | None) -> str | None:
        if value is not None:
            split_address(value)
        return value


def split_address(address: str) -> tuple[str, int]:
    """Return host and port of `host:port` or `[ipv6]:port`.

    Raises:
        ValueError: it is no such address.
    """
    host, colon, port = address.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not host or not port.isdecimal() or int(port) > 65535:
        raise ValueError(f"write it as host:port, not {address!r}")
    return host, int(port)
