"""What may be replaced in mirrors: which topics, groups and settings are copied, and what topics are called. Pure.

The kinds are those of Kafka's MirrorMaker 2 (KIP-382), with its words. A flow's settings name a class for each,
`topic.filter.class` for example, and are its configuration: a filter declares those that it reads in its
`config_model`, and may have settings of its own. All methods are asked often and must neither wait nor reach out to
other systems.
"""

from abc import abstractmethod
from typing import Generic

from ottla_sdk.plugin import ConfigT, Plugin


class TopicFilter(Plugin[ConfigT], Generic[ConfigT]):
    """Says which topics of the source are copied."""

    @abstractmethod
    def should_replicate_topic(self, topic: str) -> bool:
        """Return whether a topic is copied, by its name at the source.

        Internal topics and topics that came from the target are not copied, whatever is returned.
        """

    def close(self) -> None:
        """Give back what was opened."""


class GroupFilter(Plugin[ConfigT], Generic[ConfigT]):
    """Says which consumer groups of the source are translated."""

    @abstractmethod
    def should_replicate_group(self, group: str) -> bool:
        """Return whether a group's offsets are translated, by its id."""

    def close(self) -> None:
        """Give back what was opened."""


class ConfigPropertyFilter(Plugin[ConfigT], Generic[ConfigT]):
    """Says which settings of topics are copied."""

    @abstractmethod
    def should_replicate_config_property(self, name: str) -> bool:
        """Return whether a topic's setting is copied, by its name, such as `retention.ms`."""

    def should_replicate_source_default(self, name: str) -> bool:
        """Return whether a setting that has its default at the source gets the source's default at the target.

        Otherwise it has the target's default there.
        """
        return False

    def close(self) -> None:
        """Give back what was opened."""


class ReplicationPolicy(Plugin[ConfigT], Generic[ConfigT]):
    """Says what topics are called at the target, and tells from a name where a topic came from.

    An *upstream topic* is the topic of which a remote topic is the copy, by its name at its own cluster.
    """

    @abstractmethod
    def format_remote_topic(self, source_alias: str, topic: str) -> str:
        """Return the name at the target of a topic of a source."""

    @abstractmethod
    def topic_source(self, topic: str) -> str | None:
        """Return the alias of the cluster from which a topic was copied; None if it is no copy."""

    @abstractmethod
    def upstream_topic(self, topic: str) -> str | None:
        """Return the name at its source of a topic that is a copy; None if it is none.

        It may be a copy itself.
        """

    def original_topic(self, topic: str) -> str:
        """Return the name of a topic at the cluster where it was written; its own if it is no copy."""
        upstream = self.upstream_topic(topic)
        while upstream is not None and upstream != topic:
            topic, upstream = upstream, self.upstream_topic(upstream)
        return topic

    def heartbeats_topic(self) -> str:
        """Return the name of the topic into which heartbeats are written."""
        return "heartbeats"

    def offset_syncs_topic(self, alias: str) -> str:
        """Return the name of the topic with offset syncs; `alias` is that of the cluster at the other end."""
        return f"mm2-offset-syncs.{alias}.internal"

    def checkpoints_topic(self, alias: str) -> str:
        """Return the name of the topic with checkpoints of the groups of a source."""
        return f"{alias}.checkpoints.internal"

    def is_heartbeats_topic(self, topic: str) -> bool:
        """Return whether a topic has heartbeats, or is a copy of one that has."""
        return self.original_topic(topic) == self.heartbeats_topic()

    def is_checkpoints_topic(self, topic: str) -> bool:
        """Return whether a topic has checkpoints."""
        return topic.endswith(".checkpoints.internal")

    def is_mirror_internal_topic(self, topic: str) -> bool:
        """Return whether mirrors keep something of their own in a topic."""
        return (topic.startswith("mm2") and topic.endswith(".internal")) or self.is_checkpoints_topic(topic)

    def is_internal_topic(self, topic: str) -> bool:
        """Return whether a topic is never copied, because it is a mirror's own or Kafka's."""
        return self.is_mirror_internal_topic(topic) or topic.startswith(("__", "."))
