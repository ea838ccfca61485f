"""Which settings hold for a topic on this broker. Pure.

A topic's own settings come before the dynamic settings of brokers, those before this broker's file, and that before
what is built in. Settings that contradict each other only through a broker's defaults, which the controller could
not know of, must not keep the broker from serving the topic: the dynamic defaults give way first, then its own.

Nor must a setting that only a newer release knows: in a rolling upgrade somebody may set it while this broker runs
the former one. It is left out, as Kafka's brokers leave it out, and counts once the broker knows it.
"""

from collections.abc import Sequence

from ottla_broker.config import BrokerConfig
from ottla_core.cluster.state.model import ClusterState, Topic
from ottla_core.errors import InvalidConfig
from ottla_core.topic_config import TOPIC_CONFIG_DEFINITIONS, TopicConfig, parse_topic_configs, topic_defaults


def effective_topic_config(topic: Topic | None, state: ClusterState, broker: BrokerConfig) -> TopicConfig:
    """Return the settings of a topic, or of one without settings of its own.

    Raises:
        InvalidConfig: the topic's own settings are bad or contradict each other.
    """
    own = {} if topic is None else topic.configs
    overrides = {name: text for name, text in own.items() if name in TOPIC_CONFIG_DEFINITIONS}
    dynamic = {**state.broker_configs.get(None, {}), **state.broker_configs.get(broker.node_id, {})}
    for defaults in ({**broker.topic_settings, **dynamic}, broker.topic_settings):
        try:
            return parse_topic_configs(overrides, topic_defaults(defaults))
        except InvalidConfig:
            continue
    return parse_topic_configs(overrides)


def unknown_settings(topic: Topic) -> Sequence[str]:
    """Return the names of a topic's settings that this release does not know."""
    return sorted(topic.configs.keys() - TOPIC_CONFIG_DEFINITIONS.keys())
