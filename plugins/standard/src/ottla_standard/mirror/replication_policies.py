"""What topics are called at the target of a mirror.

Source: DefaultReplicationPolicy and IdentityReplicationPolicy of Kafka 4.2.
"""

from typing import ClassVar

from ottla_sdk import PluginConfig, ReplicationPolicy, setting
from ottla_standard.mirror.filters import JAVA_PACKAGE


class ReplicationPolicyConfig(PluginConfig):
    """Settings of `DefaultReplicationPolicy` and `IdentityReplicationPolicy`."""

    separator: str = setting(
        "replication.policy.separator",
        ".",
        doc="What stands between a source's alias and a topic's name.",
        pattern=r"^[A-Za-z0-9._-]+$",
    )
    separates_internal_topics: bool = setting(
        "replication.policy.internal.topic.separator.enabled",
        True,
        doc="Whether it also stands in the names of the topics for checkpoints and offset syncs; else a dot does.",
    )
    source_alias: str | None = setting(
        "source.cluster.alias", None, doc="The alias of the flow's source, which the worker sets."
    )


class DefaultReplicationPolicy(ReplicationPolicy[ReplicationPolicyConfig]):
    """Puts the source's alias before the names of topics: `A.orders` is the copy of `orders` of the cluster `A`."""

    config_model = ReplicationPolicyConfig
    aliases: ClassVar[tuple[str, ...]] = (f"{JAVA_PACKAGE}.DefaultReplicationPolicy",)

    def format_remote_topic(self, source_alias: str, topic: str) -> str:
        """Return the alias, the separator and the name."""
        return f"{source_alias}{self.config.separator}{topic}"

    def topic_source(self, topic: str) -> str | None:
        """Return what stands before the first separator, if something other than separators follows it."""
        source, separator, rest = topic.partition(self.config.separator)
        # Java's split, by which Kafka goes, drops what is empty at the end.
        return source if separator and rest.replace(self.config.separator, "") else None

    def upstream_topic(self, topic: str) -> str | None:
        """Return what stands behind the first separator."""
        source = self.topic_source(topic)
        return None if source is None else topic[len(source) + len(self.config.separator) :]

    def offset_syncs_topic(self, alias: str) -> str:
        """Return `mm2-offset-syncs.ALIAS.internal`, with the separator."""
        return f"mm2-offset-syncs{self._internal_separator}{alias}{self._internal_suffix}"

    def checkpoints_topic(self, alias: str) -> str:
        """Return `ALIAS.checkpoints.internal`, with the separator."""
        return f"{alias}{self._checkpoints_suffix}"

    def is_checkpoints_topic(self, topic: str) -> bool:
        """Return whether its name ends as such names do."""
        return topic.endswith(self._checkpoints_suffix)

    def is_mirror_internal_topic(self, topic: str) -> bool:
        """Return whether its name begins and ends as such names do."""
        is_own = topic.startswith("mm2") and topic.endswith(self._internal_suffix)
        return is_own or self.is_checkpoints_topic(topic)

    @property
    def _internal_separator(self) -> str:
        return self.config.separator if self.config.separates_internal_topics else "."

    @property
    def _internal_suffix(self) -> str:
        return f"{self._internal_separator}internal"

    @property
    def _checkpoints_suffix(self) -> str:
        return f"{self._internal_separator}checkpoints{self._internal_suffix}"


class IdentityReplicationPolicy(DefaultReplicationPolicy):
    """Leaves topics their names, heartbeats apart: for migrations, where nothing flows back.

    No name says where a topic came from, so a pair of flows there and back cannot be kept from copying in a circle.
    """

    aliases = (f"{JAVA_PACKAGE}.IdentityReplicationPolicy",)

    def format_remote_topic(self, source_alias: str, topic: str) -> str:
        """Return the same name, but of heartbeats."""
        return super().format_remote_topic(source_alias, topic) if self._is_heartbeats(topic) else topic

    def topic_source(self, topic: str) -> str | None:
        """Return the flow's source, as any topic may be a copy."""
        return super().topic_source(topic) if self._is_heartbeats(topic) else self.config.source_alias

    def upstream_topic(self, topic: str) -> str | None:
        """Return the same name, but of heartbeats."""
        return super().upstream_topic(topic) if self._is_heartbeats(topic) else topic

    def _is_heartbeats(self, topic: str) -> bool:
        return topic.endswith(self.heartbeats_topic())
