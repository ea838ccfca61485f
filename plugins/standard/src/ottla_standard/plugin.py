"""The hooks of the standard plugins."""

from collections.abc import Sequence
from typing import Any

import ottla_standard
from ottla_sdk import (
    ConfigPropertyFilter,
    ConfigProvider,
    Converter,
    GroupFilter,
    Predicate,
    ReplicationPolicy,
    TopicFilter,
    Transform,
    hookimpl,
)
from ottla_standard.mirror.filters import DefaultConfigPropertyFilter, DefaultGroupFilter, DefaultTopicFilter
from ottla_standard.mirror.replication_policies import DefaultReplicationPolicy, IdentityReplicationPolicy


@hookimpl
def ottla_converters() -> Sequence[type[Converter[Any]]]:
    """Return the converters."""
    return ottla_standard.CONVERTERS


@hookimpl
def ottla_transforms() -> Sequence[type[Transform[Any]]]:
    """Return the single message transforms."""
    return ottla_standard.TRANSFORMS


@hookimpl
def ottla_predicates() -> Sequence[type[Predicate[Any]]]:
    """Return the predicates."""
    return ottla_standard.PREDICATES


@hookimpl
def ottla_config_providers() -> Sequence[type[ConfigProvider[Any]]]:
    """Return the config providers."""
    return ottla_standard.CONFIG_PROVIDERS


@hookimpl
def ottla_topic_filters() -> Sequence[type[TopicFilter[Any]]]:
    """Return the filters of topics."""
    return (DefaultTopicFilter,)


@hookimpl
def ottla_group_filters() -> Sequence[type[GroupFilter[Any]]]:
    """Return the filters of consumer groups."""
    return (DefaultGroupFilter,)


@hookimpl
def ottla_config_property_filters() -> Sequence[type[ConfigPropertyFilter[Any]]]:
    """Return the filters of topics' settings."""
    return (DefaultConfigPropertyFilter,)


@hookimpl
def ottla_replication_policies() -> Sequence[type[ReplicationPolicy[Any]]]:
    """Return the policies by which topics are named."""
    return (DefaultReplicationPolicy, IdentityReplicationPolicy)
