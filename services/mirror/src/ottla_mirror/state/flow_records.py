"""Records of the topic `mirror-flows.internal` of a target, and what they say together. Pure.

Keys and values are JSON. The last record of a key counts; a record without a value takes back what was said.

================================  ============================================================================
`["flow", NAME]`                  a flow that was created by REST: source, settings
`["steering", NAME]`              whether a flow is paused, and its throttle
`["clusters", NAME]`              the ids of its source and target, which must never become others
`["topic", NAME, REMOTE TOPIC]`   a topic of the target that the flow has made, or is about to make: its source, and
                                  how many partitions that had then
================================  ============================================================================
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ottla_core.errors import InvalidRecord
from ottla_mirror.internal_topics.topic_requests import Entry


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatedFlow:
    """A flow that somebody has created, as it was written."""

    source: str
    target: str
    settings: Mapping[str, str]
    source_settings: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Steering:
    """How a flow is steered.

    Attributes:
        paused: whether it copies nothing.
        has_throttle: whether the throttle below counts, or that of the flow's settings.
        throttle_bytes_per_s: the most bytes per second of all workers together; None for any.
    """

    paused: bool = False
    has_throttle: bool = False
    throttle_bytes_per_s: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterIds:
    """Between which clusters a flow was first run."""

    source: str
    target: str


@dataclass(slots=True)
class FlowState:
    """What the records say.

    Attributes:
        created: flows that were created, by name.
        steering: by flow.
        clusters: by flow.
        topics: by flow: topics of the target and their sources.
        first_partitions: by flow and topic of the target: how many partitions the source had when the flow began
            with it; nothing where that was not noted.
    """

    created: dict[str, CreatedFlow] = field(default_factory=dict)
    steering: dict[str, Steering] = field(default_factory=dict)
    clusters: dict[str, ClusterIds] = field(default_factory=dict)
    topics: dict[str, dict[str, str]] = field(default_factory=dict)
    first_partitions: dict[str, dict[str, int]] = field(default_factory=dict)

    def apply(self, key: bytes | None, value: bytes | None) -> None:
        """Take a record.

        Raises:
            InvalidRecord: it is of no known kind.
        """
        try:
            parts = json.loads(key or b"")
            document = None if value is None else json.loads(value)
            kind, name = parts[0], parts[1]
            if kind == "topic":
                self._take_topic(name, parts[2], document)
            elif kind == "flow":
                _take(self.created, name, None if document is None else CreatedFlow(**document))
            elif kind == "steering":
                _take(self.steering, name, None if document is None else Steering(**document))
            elif kind == "clusters":
                _take(self.clusters, name, None if document is None else ClusterIds(**document))
        except (ValueError, TypeError, LookupError) as error:
            raise InvalidRecord(f"A record of flows cannot be read: {key!r}: {error}") from error

    def made_by(self, flow: str) -> Mapping[str, str]:
        """Return the target's topics that a flow has made, and their sources."""
        return self.topics.get(flow, {})

    def made_by_others(self, flow: str) -> dict[str, str]:
        """Return the target's topics that other flows have made, and the flow's name."""
        return {remote: other for other, topics in self.topics.items() if other != flow for remote in topics}

    def began_with(self, flow: str, remote_topic: str) -> int | None:
        """Return how many partitions a topic's source had when a flow began with it; None if that was not noted."""
        return self.first_partitions.get(flow, {}).get(remote_topic)

    def clear(self) -> None:
        """Forget everything, as it comes again."""
        for each in (self.created, self.steering, self.clusters, self.topics, self.first_partitions):
            each.clear()

    def _take_topic(self, flow: str, remote: str, document: Mapping[str, Any] | None) -> None:
        topics, first = self.topics.setdefault(flow, {}), self.first_partitions.setdefault(flow, {})
        first.pop(remote, None)
        if document is None:
            topics.pop(remote, None)
            return
        topics[remote] = document["topic"]
        if "partitions" in document:
            first[remote] = int(document["partitions"])


def flow_record(name: str, flow: CreatedFlow | None) -> Entry:
    """Return the record of a flow that is created, or deleted (None)."""
    document = None
    if flow is not None:
        document = {
            "source": flow.source,
            "target": flow.target,
            "settings": dict(flow.settings),
            "source_settings": dict(flow.source_settings),
        }
    return _entry(("flow", name), document)


def steering_record(name: str, steering: Steering | None) -> Entry:
    """Return the record of how a flow is steered; None takes it back."""
    document = None
    if steering is not None:
        document = {
            "paused": steering.paused,
            "has_throttle": steering.has_throttle,
            "throttle_bytes_per_s": steering.throttle_bytes_per_s,
        }
    return _entry(("steering", name), document)


def clusters_record(name: str, ids: ClusterIds | None) -> Entry:
    """Return the record of the clusters of a flow; None takes it back."""
    return _entry(("clusters", name), None if ids is None else {"source": ids.source, "target": ids.target})


def topic_record(flow: str, remote_topic: str, topic: str | None, partitions: int | None = None) -> Entry:
    """Return the record of a topic that a flow makes; without a source, that it is gone.

    Args:
        flow: its name.
        remote_topic: the topic at the target.
        topic: its source.
        partitions: how many the source had when the flow began with it.
    """
    document: dict[str, Any] | None = None
    if topic is not None:
        document = {"topic": topic} if partitions is None else {"topic": topic, "partitions": partitions}
    return _entry(("topic", flow, remote_topic), document)


def _entry(key: tuple[str, ...], document: Mapping[str, Any] | None) -> Entry:
    value = None if document is None else json.dumps(document, sort_keys=True).encode()
    return Entry(json.dumps(list(key)).encode(), value)


def _take(states: dict[str, Any], name: str, state: Any) -> None:
    if state is None:
        states.pop(name, None)
    else:
        states[name] = state
