"""Which topics of a source a flow copies. Pure.

Source: `MirrorSourceConnector.shouldReplicateTopic` and `isCycle` in Kafka 4.2.
"""

from typing import Any, Final

from ottla_mirror.config.plugins import FlowPlugins
from ottla_sdk import ReplicationPolicy

FLOWS_TOPIC: Final = "mirror-flows.internal"
MAP_SUFFIX: Final = ".offset-map.internal"


def is_own_topic(topic: str) -> bool:
    """Return whether mirror workers keep something of their own in a topic; such topics are never copied."""
    return topic == FLOWS_TOPIC or topic.endswith(MAP_SUFFIX)


def is_cycle(topic: str, target: str, policy: ReplicationPolicy[Any]) -> bool:
    """Return whether a topic came from the target, directly or by way of other clusters."""
    while True:
        source = policy.topic_source(topic)
        if source is None:
            return False
        if source == target:
            return True
        upstream = policy.upstream_topic(topic)
        if upstream is None or upstream == topic:  # names that do not change say nothing
            return False
        topic = upstream


def is_copied(
    topic: str, *, is_internal: bool, target: str, plugins: FlowPlugins, heartbeats_replicated: bool
) -> bool:
    """Return whether a flow copies a topic.

    Args:
        topic: its name at the source.
        is_internal: whether the source's brokers say that it is theirs.
        target: alias of the target.
        plugins: what decides in the flow.
        heartbeats_replicated: whether heartbeats are copied although the filter leaves them out.
    """
    policy = plugins.policy
    if is_internal or is_own_topic(topic) or policy.is_internal_topic(topic) or is_cycle(topic, target, policy):
        return False
    is_heartbeats = heartbeats_replicated and policy.is_heartbeats_topic(topic)
    return is_heartbeats or plugins.topics.should_replicate_topic(topic)
