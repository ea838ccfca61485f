"""Filters by regular expressions: include, exclude, and the latter wins.

Source: DefaultTopicFilter, DefaultGroupFilter, DefaultConfigPropertyFilter of Kafka 4.2, with their defaults.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Literal

from ottla_sdk import (
    CommaSeparated,
    ConfigPropertyFilter,
    GroupFilter,
    PluginConfig,
    Problem,
    TopicFilter,
    setting,
)
from ottla_standard.java_regex import compile_java

JAVA_PACKAGE = "org.apache.kafka.connect.mirror"

TOPICS_EXCLUDED = (r"mm2.*\.internal", r".*\.replica", "__.*")
GROUPS_EXCLUDED = ("console-consumer-.*", "connect-.*", "__.*")
PROPERTIES_EXCLUDED = (
    r"follower\.replication\.throttled\.replicas",
    r"leader\.replication\.throttled\.replicas",
    r"message\.timestamp\.difference\.max\.ms",
    r"message\.timestamp\.type",
    r"unclean\.leader\.election\.enable",
    r"min\.insync\.replicas",
)


def any_of(patterns: Iterable[str]) -> re.Pattern[str]:
    """Return a pattern that matches what one of these matches; without any, it matches nothing."""
    return re.compile("|".join(f"(?:{compile_java(each).pattern})" for each in patterns) or r"(?!)")


class Patterns(PluginConfig):
    """Settings all of whose lists are lists of regular expressions."""

    def check(self) -> Iterable[Problem]:
        """Return which of them are none."""
        for name, info in type(self).model_fields.items():
            value = getattr(self, name)
            for pattern in value if isinstance(value, tuple) else ():
                try:
                    compile_java(pattern)
                except ValueError as error:
                    yield Problem(info.alias or name, f"{pattern!r}: {error}")


class TopicFilterConfig(Patterns):
    """Settings of `DefaultTopicFilter`."""

    include: CommaSeparated = setting(
        "topics", (".*",), doc="Topics to copy: names and regular expressions, separated by commas."
    )
    exclude: CommaSeparated = setting(
        "topics.exclude", TOPICS_EXCLUDED, doc="Topics not to copy, likewise; they count before `topics`."
    )


class DefaultTopicFilter(TopicFilter[TopicFilterConfig]):
    """Copies topics whose whole name matches `topics` and not `topics.exclude`."""

    config_model = TopicFilterConfig
    aliases = (f"{JAVA_PACKAGE}.DefaultTopicFilter",)

    def configure(self, settings: Mapping[str, str]) -> None:
        """Compile the patterns."""
        super().configure(settings)
        self._include, self._exclude = any_of(self.config.include), any_of(self.config.exclude)

    def should_replicate_topic(self, topic: str) -> bool:
        """Return whether it is included and not excluded."""
        return bool(self._include.fullmatch(topic)) and not self._exclude.fullmatch(topic)


class GroupFilterConfig(Patterns):
    """Settings of `DefaultGroupFilter`."""

    include: CommaSeparated = setting(
        "groups", (".*",), doc="Consumer groups to translate: ids and regular expressions, separated by commas."
    )
    exclude: CommaSeparated = setting(
        "groups.exclude", GROUPS_EXCLUDED, doc="Groups not to translate, likewise; they count before `groups`."
    )


class DefaultGroupFilter(GroupFilter[GroupFilterConfig]):
    """Translates groups whose whole id matches `groups` and not `groups.exclude`."""

    config_model = GroupFilterConfig
    aliases = (f"{JAVA_PACKAGE}.DefaultGroupFilter",)

    def configure(self, settings: Mapping[str, str]) -> None:
        """Compile the patterns."""
        super().configure(settings)
        self._include, self._exclude = any_of(self.config.include), any_of(self.config.exclude)

    def should_replicate_group(self, group: str) -> bool:
        """Return whether it is included and not excluded."""
        return bool(self._include.fullmatch(group)) and not self._exclude.fullmatch(group)


class ConfigPropertyFilterConfig(Patterns):
    """Settings of `DefaultConfigPropertyFilter`."""

    exclude: CommaSeparated = setting(
        "config.properties.exclude",
        PROPERTIES_EXCLUDED,
        doc="Settings of topics not to copy: names and regular expressions, separated by commas.",
    )
    use_defaults_from: Literal["source", "target"] = setting(
        "use.defaults.from",
        "target",
        doc="Whose default a setting has at the target that has its default at the source: source or target.",
    )


class DefaultConfigPropertyFilter(ConfigPropertyFilter[ConfigPropertyFilterConfig]):
    """Copies settings whose whole name does not match `config.properties.exclude`."""

    config_model = ConfigPropertyFilterConfig
    aliases = (f"{JAVA_PACKAGE}.DefaultConfigPropertyFilter",)

    def configure(self, settings: Mapping[str, str]) -> None:
        """Compile the patterns."""
        super().configure(settings)
        self._exclude = any_of(self.config.exclude)

    def should_replicate_config_property(self, name: str) -> bool:
        """Return whether it is not excluded."""
        return not self._exclude.fullmatch(name)

    def should_replicate_source_default(self, name: str) -> bool:
        """Return whether `use.defaults.from` is `source`."""
        return self.config.use_defaults_from == "source"
