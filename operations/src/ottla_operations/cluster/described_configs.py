"""Settings of topics and brokers as a cluster describes them: value, where it comes from, what it means."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from kio.schema.errors import ErrorCode
from kio.static.primitive import i8

from ottla_core.client.errors import Unreachable
from ottla_operations.cluster.cluster_admin import ClusterAdmin, describe_code
from ottla_operations.cluster.cluster_view import BROKER_RESOURCE, TOPIC_RESOURCE, BrokerView, OwnSettings
from ottla_operations.errors import OperationError


class ConfigSource(IntEnum):
    """Where a value comes from, by Kafka's numbers."""

    UNKNOWN = 0
    TOPIC = 1
    BROKER = 2
    ALL_BROKERS = 3
    BROKER_FILE = 4
    DEFAULT = 5
    BROKER_LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8


SOURCE_WORDS = {
    ConfigSource.TOPIC: "this topic",
    ConfigSource.BROKER: "one broker, set at run time",
    ConfigSource.ALL_BROKERS: "all brokers, set at run time",
    ConfigSource.BROKER_FILE: "the broker's configuration",
    ConfigSource.DEFAULT: "default",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedConfig:
    """One setting.

    Attributes:
        value: None for a secret, or where there is none.
        documentation: what it means; empty where the cluster does not tell.
        otherwise: the value that holds without the setting of the resource itself; None where nobody tells.
    """

    name: str
    value: str | None
    source: ConfigSource
    is_sensitive: bool
    is_read_only: bool
    documentation: str
    otherwise: str | None = None

    @property
    def is_own(self) -> bool:
        """Whether it is set for this resource itself."""
        return self.source is ConfigSource.TOPIC

    @property
    def source_words(self) -> str:
        """Where it comes from, for people."""
        return SOURCE_WORDS.get(self.source, "unknown")


def described_configs(
    admin: ClusterAdmin, resource_type: int, name: str, *, keys: Sequence[str] | None = None
) -> list[DescribedConfig]:
    """Return the settings of a topic or broker in the order of their names.

    Args:
        admin: the cluster.
        resource_type: Kafka's number, as in `cluster_view`.
        name: of the topic or broker.
        keys: the settings; None for all.

    Raises:
        OperationError: the cluster refuses.
    """
    from kio.schema.describe_configs.v4 import request as describe_configs_v4  # noqa: PLC0415

    resource = describe_configs_v4.DescribeConfigsResource(
        resource_type=i8(resource_type), resource_name=name, configuration_keys=None if keys is None else tuple(keys)
    )
    request = describe_configs_v4.DescribeConfigsRequest(
        resources=(resource,), include_synonyms=True, include_documentation=True
    )
    (result,) = admin.ask(request).results
    if result.error_code != ErrorCode.none:
        raise OperationError(f"the settings of {name}: {describe_code(result.error_code, result.error_message)}")
    found = [
        DescribedConfig(
            name=each.name,
            value=each.value,
            source=_source(each.config_source),
            is_sensitive=each.is_sensitive,
            is_read_only=each.read_only,
            documentation=each.documentation or "",
            otherwise=next(
                (other.value for other in each.synonyms if _source(other.source) != ConfigSource.TOPIC), None
            ),
        )
        for each in result.configs
    ]
    return sorted(found, key=lambda each: each.name)


def own_topic_settings(admin: ClusterAdmin, topics: Iterable[str]) -> OwnSettings:
    """Return what is set for topics themselves; a topic that may not be looked at is left out.

    Raises:
        OperationError: the cluster cannot be asked.
    """
    request = _own_request(TOPIC_RESOURCE, topics)
    return _own(admin.ask(request), {ConfigSource.TOPIC}) if request.resources else {}


def own_broker_settings(admin: ClusterAdmin, brokers: Iterable[BrokerView]) -> OwnSettings:
    """Return what is set at run time for brokers, and for all of them; one that does not answer is left out.

    Raises:
        OperationError: a broker refuses as a whole.
    """
    found: OwnSettings = {}
    for broker in brokers:
        try:
            answer = admin.ask_broker(broker, _own_request(BROKER_RESOURCE, [str(broker.id)]))
        except Unreachable:
            continue
        found |= _own(answer, {ConfigSource.BROKER, ConfigSource.ALL_BROKERS})
    return found


def _own_request(resource_type: int, names: Iterable[str]) -> Any:
    from kio.schema.describe_configs.v4 import request as describe_configs_v4  # noqa: PLC0415

    resources = tuple(
        describe_configs_v4.DescribeConfigsResource(
            resource_type=i8(resource_type), resource_name=name, configuration_keys=None
        )
        for name in names
    )
    return describe_configs_v4.DescribeConfigsRequest(
        resources=resources, include_synonyms=False, include_documentation=False
    )


def _own(answer: Any, sources: set[ConfigSource]) -> OwnSettings:
    return {
        result.resource_name: {
            each.name: None if each.is_sensitive else each.value or ""
            for each in result.configs
            if _source(each.config_source) in sources
        }
        for result in answer.results
        if result.error_code == ErrorCode.none
    }


def _source(number: int) -> ConfigSource:
    return ConfigSource(number) if number in set(ConfigSource) else ConfigSource.UNKNOWN
