"""What changes of settings come to. Pure.

Topics take the settings of `ottla_core.topic_config`, groups those of `ottla_core.group_config`, and subscriptions to
clients' metrics those of `ottla_core.client_metrics_config`. Brokers take, dynamically, those that provide the
defaults of topic settings in their plainest unit (`log.retention.ms`, not `.hours`), the throttles of replication,
and what `ottla_core.dynamic_broker_config` lists; everything else needs a restart. A change is refused as a whole per
resource; resources of one request are judged in order, each as if those before it were done. Rules and codes are
Kafka's (ConfigurationControlManager, ConfigAdminManager).
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kio.schema.errors import ErrorCode

from ottla_controller.effective_configs import check_broker_configs, check_topic_configs
from ottla_core.client_metrics_config import (
    CLIENT_METRICS_CONFIG_DEFINITIONS,
    SUBSCRIPTIONS_MAX,
    client_metrics_definition,
    read_subscription,
)
from ottla_core.cluster.controller_rpc.controller_api import (
    AlteredResource,
    ConfigChange,
    ConfigOperation,
    ConfigResourceChange,
    ConfigResourceType,
)
from ottla_core.cluster.state.model import ClusterState
from ottla_core.config_definition import ConfigDefinition, ConfigType
from ottla_core.dynamic_broker_config import PROCESS_DEFINITIONS, listener_limit
from ottla_core.errors import InvalidConfig, InvalidRequest, KafkaError, PolicyViolation, UnknownTopicOrPartition
from ottla_core.group_config import ConsumerGroupLimits, check_group_configs, group_definition
from ottla_core.throttle_config import THROTTLE_DEFINITIONS
from ottla_core.topic_config import TOPIC_CONFIG_DEFINITIONS, TopicConfig, definition_of

DYNAMIC_BROKER_CONFIGS: Mapping[str, ConfigDefinition] = {
    definition.synonyms[0].name: definition for definition in TOPIC_CONFIG_DEFINITIONS.values() if definition.synonyms
} | {**THROTTLE_DEFINITIONS, **PROCESS_DEFINITIONS}
"""Broker settings that can change at run time, each with the topic setting whose default it is, or its own."""

CLUSTER_WIDE_CONFIGS = frozenset({"min.insync.replicas", "unclean.leader.election.enable"})
"""Those that must be the same for every broker: who leads must not change what counts as replicated, and who may lead
is decided by the controller."""

NO_OTHER_LIMITS = ConsumerGroupLimits()
_DEFAULTS = TopicConfig()


@dataclass(frozen=True, slots=True)
class TopicTarget:
    """Settings of the topic of this name."""

    name: str


@dataclass(frozen=True, slots=True)
class BrokerTarget:
    """Settings of one broker, or with None of all brokers."""

    broker_id: int | None


@dataclass(frozen=True, slots=True)
class GroupTarget:
    """Settings of the group of this id, whether there is such a group or not."""

    group_id: str


@dataclass(frozen=True, slots=True)
class ClientMetricsTarget:
    """Settings of the subscription to clients' metrics of this name, which is there while it has any."""

    name: str


Target = TopicTarget | BrokerTarget | GroupTarget | ClientMetricsTarget


@dataclass(frozen=True, slots=True)
class ConfigPlan:
    """The answer for one resource and, unless it is refused, all the settings it shall have."""

    result: AlteredResource
    target: Target | None = None
    configs: Mapping[str, str] | None = None


def plan_config_changes(
    resources: Sequence[ConfigResourceChange],
    state: ClusterState,
    *,
    replace_all: bool,
    group_limits: ConsumerGroupLimits = NO_OTHER_LIMITS,
) -> list[ConfigPlan]:
    """Return one plan per resource, in order.

    Args:
        resources: the changes.
        state: the cluster as it is.
        replace_all: settings that a resource's changes do not name lose their value.
        group_limits: what holds for all groups.
    """
    times = Counter((resource.type, resource.name) for resource in resources)
    plans: list[ConfigPlan] = []
    topics = {topic.name: topic.configs for topic in state.topics.values()}
    brokers = dict(state.broker_configs)
    subscriptions = dict(state.client_metrics_configs)
    for resource in resources:
        try:
            if times[resource.type, resource.name] > 1:
                raise InvalidRequest(f"Resource '{resource.name}' appears more than once in the request.")
            target, present = _find(resource, state)
            configs = _changed(target, {} if replace_all else present, resource.changes)
            match target:
                case TopicTarget(name):
                    check_topic_configs(configs, brokers)
                    topics[name] = configs
                case BrokerTarget(broker_id):
                    check_broker_configs(brokers, {**brokers, broker_id: configs}, broker_id, topics)
                    brokers[broker_id] = configs
                case GroupTarget():
                    check_group_configs(configs, group_limits)
                case ClientMetricsTarget(name):
                    read_subscription(configs)
                    subscriptions[name] = configs
                    _check_count(subscriptions, name)
        except KafkaError as error:
            result = AlteredResource(
                type=resource.type, name=resource.name, error_code=error.code, error_message=error.message
            )
            plans.append(ConfigPlan(result))
        else:
            result = AlteredResource(type=resource.type, name=resource.name, error_code=ErrorCode.none)
            plans.append(ConfigPlan(result, target, configs))
    return plans


def _find(resource: ConfigResourceChange, state: ClusterState) -> tuple[Target, Mapping[str, str]]:
    """Return what is meant and the settings it has."""
    if resource.type == ConfigResourceType.TOPIC:
        topic = state.topics.get(resource.name)
        if topic is None:
            raise UnknownTopicOrPartition(f"Topic '{resource.name}' does not exist.")
        return TopicTarget(topic.name), topic.configs
    if resource.type == ConfigResourceType.BROKER:
        broker_id = _broker_id(resource.name)
        return BrokerTarget(broker_id), state.broker_configs.get(broker_id, {})
    if resource.type == ConfigResourceType.GROUP:
        if not resource.name:
            raise InvalidRequest("Default group resources are not allowed.")
        return GroupTarget(resource.name), state.group_configs.get(resource.name, {})
    if resource.type == ConfigResourceType.CLIENT_METRICS:
        if not resource.name:
            raise InvalidRequest("Subscription name can't be empty")
        return ClientMetricsTarget(resource.name), state.client_metrics_configs.get(resource.name, {})
    raise InvalidRequest(
        f"Settings of {ConfigResourceType.name_of(resource.type)} '{resource.name}' cannot be changed here."
    )


def _check_count(subscriptions: dict[str, Mapping[str, str]], name: str) -> None:
    """See that a changed subscription is not one too many; one that is gone or refused is counted no more."""
    if not subscriptions[name]:
        del subscriptions[name]
    elif len(subscriptions) > SUBSCRIPTIONS_MAX:
        del subscriptions[name]
        raise PolicyViolation(
            f"The cluster has {SUBSCRIPTIONS_MAX} subscriptions to clients' metrics, which is the most;"
            " delete one, or join several"
        )


def _broker_id(name: str) -> int | None:
    if not name:
        return None
    if not name.isdecimal():
        raise InvalidRequest(f"A broker is named by its id, not '{name}'.")
    return int(name)


def _changed(target: Target, present: Mapping[str, str], changes: Sequence[ConfigChange]) -> Mapping[str, str]:
    repeated = [name for name, times in Counter(change.name for change in changes).items() if times > 1]
    if repeated:
        raise InvalidRequest(f"Settings appear more than once in the request: {', '.join(repeated)}")
    configs = dict(present)
    for change in changes:
        if change.operation is ConfigOperation.DELETE:
            configs.pop(change.name, None)
            continue
        definition = _definition(target, change.name)
        if change.value is None:
            raise InvalidRequest(f"Null value not supported for {change.name}; delete the setting instead.")
        if change.operation is ConfigOperation.SET:
            configs[change.name] = change.value
        else:
            present_text = configs.get(change.name, _default(target, definition))
            configs[change.name] = _with_words(definition, present_text, change)
    return configs


def _default(target: Target, definition: ConfigDefinition) -> str:
    """Return where a setting without a value of its own begins when words are appended or removed."""
    if isinstance(target, ClientMetricsTarget):
        return CLIENT_METRICS_CONFIG_DEFINITIONS[definition.name].default
    return definition.format(getattr(_DEFAULTS, definition.attribute, ""))


def _with_words(definition: ConfigDefinition, present: str, change: ConfigChange) -> str:
    """Return a list setting with words appended or removed."""
    if definition.type is not ConfigType.LIST:
        raise InvalidConfig(
            f"Can't {change.operation.name} to {change.name}: its type is {definition.type}, not list."
        )
    words = _words(present)
    for word in _words(change.value or ""):
        if change.operation is ConfigOperation.APPEND and word not in words:
            words.append(word)
        elif change.operation is ConfigOperation.SUBTRACT and word in words:
            words.remove(word)
    return ",".join(words)


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _definition(target: Target, name: str) -> ConfigDefinition:
    match target:
        case TopicTarget():
            return definition_of(name)
        case BrokerTarget(broker_id):
            if broker_id is not None and name in CLUSTER_WIDE_CONFIGS:
                raise InvalidConfig(f"Broker config {name} cannot be changed for a single broker")
            found = DYNAMIC_BROKER_CONFIGS.get(name) or listener_limit(name)
            if found is None:
                raise InvalidConfig(f"Broker config {name} is unknown or cannot be changed dynamically")
            return found
        case GroupTarget():
            return group_definition(name)
        case ClientMetricsTarget():
            return client_metrics_definition(name)
