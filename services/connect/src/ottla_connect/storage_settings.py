"""Settings of the worker's internal topics, which keep configurations, source offsets and statuses. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from pydantic import Field

from ottla_core.config import ServiceConfig

StoreName = Literal["config", "offset", "status"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageTopic:
    """One of the worker's internal topics.

    Attributes:
        name: its name.
        partitions: how many it gets when it is created; -1 leaves that to the brokers.
        replication_factor: likewise.
        configs: its settings when it is created, without ``cleanup.policy``.
    """

    name: str
    partitions: int
    replication_factor: int
    configs: Mapping[str, str]


class StorageSettings(ServiceConfig):
    """What the internal topics are called, and how they are created."""

    config_storage_topic: str = Field(
        "connect-configs", alias="config.storage.topic", min_length=1, description="Topic of connectors' settings."
    )
    config_storage_replication_factor: int = Field(
        3,
        alias="config.storage.replication.factor",
        ge=-1,
        le=32767,
        description="Its replicas; -1: the brokers' default.",
    )
    offset_storage_topic: str = Field(
        "connect-offsets", alias="offset.storage.topic", min_length=1, description="Topic of source offsets."
    )
    offset_storage_partitions: int = Field(
        25, alias="offset.storage.partitions", ge=-1, description="Its partitions; -1: the brokers' default."
    )
    offset_storage_replication_factor: int = Field(
        3,
        alias="offset.storage.replication.factor",
        ge=-1,
        le=32767,
        description="Its replicas; -1: the brokers' default.",
    )
    status_storage_topic: str = Field(
        "connect-status", alias="status.storage.topic", min_length=1, description="Topic of connectors' statuses."
    )
    status_storage_partitions: int = Field(
        5, alias="status.storage.partitions", ge=-1, description="Its partitions; -1: the brokers' default."
    )
    status_storage_replication_factor: int = Field(
        3,
        alias="status.storage.replication.factor",
        ge=-1,
        le=32767,
        description="Its replicas; -1: the brokers' default.",
    )

    def storage_problems(self) -> list[str]:
        """Return what is wrong with them, as sentences."""
        return [
            f"{store}.storage.{name}: must be positive, or -1 for the brokers' default"
            for store, name, value in (
                ("offset", "partitions", self.offset_storage_partitions),
                ("status", "partitions", self.status_storage_partitions),
                ("config", "replication.factor", self.config_storage_replication_factor),
                ("offset", "replication.factor", self.offset_storage_replication_factor),
                ("status", "replication.factor", self.status_storage_replication_factor),
            )
            if value == 0
        ]

    def storage_topic(self, store: StoreName) -> StorageTopic:
        """Return what the internal topic of a store is called and how it is created."""
        prefix = f"{store}.storage."
        configs = {
            key.removeprefix(prefix): value
            for key, value in (self.model_extra or {}).items()
            if key.startswith(prefix) and key != f"{prefix}cleanup.policy"
        }
        name, partitions, replication_factor = {
            "config": (self.config_storage_topic, 1, self.config_storage_replication_factor),
            "offset": (
                self.offset_storage_topic,
                self.offset_storage_partitions,
                self.offset_storage_replication_factor,
            ),
            "status": (
                self.status_storage_topic,
                self.status_storage_partitions,
                self.status_storage_replication_factor,
            ),
        }[store]
        return StorageTopic(name=name, partitions=partitions, replication_factor=replication_factor, configs=configs)
