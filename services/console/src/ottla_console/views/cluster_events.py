"""What has changed between two looks at a cluster, in words, and why, where that can be told. Pure.

A look shows how a cluster is, not what has happened: what changed and changed back between two looks is not seen, and
a cause is named only where the looks themselves show it, or where it was done in this console.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final

from ottla_operations.cluster.cluster_view import ClusterView, OwnSettings, PartitionView, describe_replicas

OF_ONE_LOOK_MAX: Final = 100
"""Of more events between two looks, the others are counted."""
PARTITIONS_SHOWN_MAX: Final = 10
VALUE_SHOWN_MAX: Final = 200
ACTION_EXPLAINS_S: Final = 60.0
"""For how long after an action what it changes may come to be seen."""

GAP_TOLD_S: Final = 30.0
"""If nobody has looked for longer, the time of the look before is shown."""


class EventKind(StrEnum):
    """What an event is about."""

    REACH = "cluster"
    BROKERS = "brokers"
    LEADERS = "leaders"
    IN_SYNC = "in-sync"
    REPLICAS = "replicas"
    TOPICS = "topics"
    SETTINGS = "settings"


KIND_WORDS: Final = {
    EventKind.REACH: "Cluster",
    EventKind.BROKERS: "Brokers",
    EventKind.LEADERS: "Leader elections",
    EventKind.IN_SYNC: "In-sync replicas",
    EventKind.REPLICAS: "Placement",
    EventKind.TOPICS: "Topics",
    EventKind.SETTINGS: "Settings",
}
CLUSTER_ACTIONS: Final = {
    "cluster.elect-preferred-leaders": (EventKind.LEADERS,),
    "cluster.rebalance": (EventKind.LEADERS, EventKind.IN_SYNC, EventKind.REPLICAS),
    "broker.decommission": (EventKind.LEADERS, EventKind.IN_SYNC, EventKind.REPLICAS),
}
"""Actions of the console that change many topics, and what of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that has changed.

    Attributes:
        words: what.
        cause: why, or None where that is not known.
        topic, broker: what it is about; None where it is about neither.
        is_harm: whether something works less well since.
        since_s, at_s: the looks before and after, in seconds since 1970.
    """

    kind: EventKind
    words: str
    cause: str | None = None
    topic: str | None = None
    broker: int | None = None
    is_harm: bool = False
    since_s: float = 0.0
    at_s: float = 0.0


@dataclass(frozen=True, slots=True)
class ActionDone:
    """An action of the console, and when, in seconds since 1970."""

    name: str
    target: str
    user: str
    at_s: float


def view_events(before: ClusterView, after: ClusterView) -> list[Event]:
    """Return what has changed between two looks; what partitions of a topic have in common is one event."""
    events = [*_broker_events(before, after), *_topic_events(before, after)]
    partitions: defaultdict[Event, list[int]] = defaultdict(list)
    for name in before.partitions.keys() & after.partitions.keys():
        for event in _partition_events(before, after, before.partitions[name], after.partitions[name]):
            partitions[event].append(name.partition)
    named = [
        replace(event, words=f"{_numbered(sorted(numbers))}: {event.words}") for event, numbers in partitions.items()
    ]
    named.sort(key=lambda each: (list(EventKind).index(each.kind), each.topic or "", each.words))
    return _bounded([*events, *named])


def setting_events(before: OwnSettings, after: OwnSettings, *, of_brokers: bool) -> list[Event]:
    """Return which settings of topics, or of brokers, are others; of what only one look has, nothing is told."""
    events = []
    for name in sorted(before.keys() & after.keys()):
        for setting in sorted(before[name].keys() | after[name].keys()):
            if setting not in after[name]:
                words = f"{setting} is not set any more"
            elif setting not in before[name] or before[name][setting] != after[name][setting]:
                former = f"; it was {_shown(before[name][setting])}" if setting in before[name] else ""
                words = f"{setting} is {_shown(after[name][setting])}{former}"
            else:
                continue
            topic, broker = (None, int(name)) if of_brokers and name.isdecimal() else (name, None)
            events.append(Event(kind=EventKind.SETTINGS, words=words, topic=topic, broker=broker))
    return _bounded(events)


def explained(events: Iterable[Event], actions: Sequence[ActionDone]) -> Iterator[Event]:
    """Yield events, with what was done in this console as the cause of what it explains."""
    for event in events:
        action = next((each for each in reversed(actions) if _explains(each, event)), None)
        if action is None:
            yield event
        else:
            by = f" by {action.user}" if action.user else ""
            yield replace(event, cause=f"{action.name} in this console{by}")


def chosen(events: Iterable[Event], *, kind: str, words: str) -> list[Event]:
    """Return the events of a kind (all for what is none) whose text has all words, the newest first."""
    wanted = words.lower().split()
    found = [
        each
        for each in events
        if (kind not in set(EventKind) or each.kind == kind)
        and all(word in f"{subject(each)} {each.words} {each.cause or ''}".lower() for word in wanted)
    ]
    return found[::-1]


def subject(event: Event) -> str:
    """Return what an event is about, in words."""
    if event.topic is not None:
        return event.topic
    return "The cluster" if event.broker is None else f"Broker {event.broker}"


@dataclass(frozen=True, slots=True, kw_only=True)
class EventRow:
    """An event as it is shown; `since` is the time before it, None if that was a moment ago."""

    event: Event
    when: str
    since: str | None
    subject: str
    kind: str


def event_rows(events: Iterable[Event]) -> list[EventRow]:
    """Return events as they are shown."""
    return [
        EventRow(
            event=each,
            when=_time(each.at_s),
            since=_time(each.since_s) if each.at_s - each.since_s > GAP_TOLD_S else None,
            subject=subject(each),
            kind=KIND_WORDS[each.kind],
        )
        for each in events
    ]


def _time(at_s: float) -> str:
    return datetime.fromtimestamp(at_s, UTC).strftime("%Y-%m-%d %H:%M:%S")


def _broker_events(before: ClusterView, after: ClusterView) -> Iterator[Event]:
    for broker in sorted(before.brokers.keys() | after.brokers.keys()):
        was, now = before.brokers.get(broker), after.brokers.get(broker)
        if was is None and now is not None:
            yield Event(kind=EventKind.BROKERS, broker=broker, words=f"is in service at {now.host}:{now.port}")
        elif now is None:
            yield Event(kind=EventKind.BROKERS, broker=broker, words="is not in service any more", is_harm=True)
        elif was is not None and (was.host, was.port) != (now.host, now.port):
            words = f"is reached at {now.host}:{now.port}; it was {was.host}:{was.port}"
            yield Event(kind=EventKind.BROKERS, broker=broker, words=words)


def _topic_events(before: ClusterView, after: ClusterView) -> Iterator[Event]:
    was, now = before.topics, after.topics
    for topic in sorted(was.keys() | now.keys()):
        count = f"{now.get(topic, 0):,} partition{'' if now.get(topic) == 1 else 's'}"
        if topic not in was:
            yield Event(kind=EventKind.TOPICS, topic=topic, words=f"was created, with {count}")
        elif topic not in now:
            yield Event(kind=EventKind.TOPICS, topic=topic, words="was deleted")
        elif was[topic] != now[topic]:
            yield Event(kind=EventKind.TOPICS, topic=topic, words=f"has {count}; there were {was[topic]:,}")


def _partition_events(
    before: ClusterView, after: ClusterView, was: PartitionView, now: PartitionView
) -> Iterator[Event]:
    topic = now.name.topic
    if was.leader != now.leader:
        yield _election(after, was, now)
    if was.replicas != now.replicas:
        words = f"replicas on {describe_replicas(now.replicas)}; they were on {describe_replicas(was.replicas)}"
        yield Event(kind=EventKind.REPLICAS, topic=topic, words=words)
    for broker in sorted(set(was.in_sync) - set(now.in_sync)):
        cause = _absence(after, broker) or ("its replica was moved away" if broker not in now.replicas else None)
        is_harm = broker in now.replicas
        words = f"broker {broker} is not in sync any more"
        yield Event(kind=EventKind.IN_SYNC, topic=topic, words=words, cause=cause, is_harm=is_harm)
    for broker in sorted(set(now.in_sync) - set(was.in_sync)):
        cause = "it has got a replica" if broker not in was.replicas else None
        if cause is None and broker not in before.brokers:
            cause = f"broker {broker} has come back"
        yield Event(kind=EventKind.IN_SYNC, topic=topic, words=f"broker {broker} is in sync", cause=cause)


def _election(after: ClusterView, was: PartitionView, now: PartitionView) -> Event:
    topic = now.name.topic
    cause = None if was.leader is None else _absence(after, was.leader)
    if now.leader is None:
        words = f"nobody leads; broker {was.leader} did"
        return Event(kind=EventKind.LEADERS, topic=topic, words=words, cause=cause, is_harm=True)
    if was.leader is None:
        return Event(kind=EventKind.LEADERS, topic=topic, words=f"broker {now.leader} leads; nobody did")
    if cause is None and was.leader not in now.replicas:
        cause = f"the replica of broker {was.leader} was moved away"
    if cause is None and now.replicas[:1] == (now.leader,):
        cause = f"broker {now.leader} is preferred"
    words = f"broker {now.leader} leads; broker {was.leader} did"
    return Event(kind=EventKind.LEADERS, topic=topic, words=words, cause=cause)


def _absence(after: ClusterView, broker: int) -> str | None:
    return None if broker in after.brokers else f"broker {broker} is not in service any more"


def _numbered(partitions: Sequence[int]) -> str:
    told = ", ".join(str(each) for each in partitions[:PARTITIONS_SHOWN_MAX])
    more = len(partitions) - PARTITIONS_SHOWN_MAX
    return f"partition{'' if len(partitions) == 1 else 's'} {told}{f' and {more:,} more' if more > 0 else ''}"


def _shown(value: str | None) -> str:
    if value is None:
        return "a secret"
    if len(value) > VALUE_SHOWN_MAX:
        return f"{value[:VALUE_SHOWN_MAX]}…"
    return value or "empty"


def _bounded(events: Sequence[Event]) -> list[Event]:
    if len(events) <= OF_ONE_LOOK_MAX:
        return list(events)
    rest = Counter(each.kind for each in events[OF_ONE_LOOK_MAX:])
    told = [
        Event(kind=kind, words=f"{count:,} more changes of this kind at the same time")
        for kind, count in rest.items()
    ]
    return [*events[:OF_ONE_LOOK_MAX], *told]


def _explains(action: ActionDone, event: Event) -> bool:
    if not 0 <= event.at_s - action.at_s <= ACTION_EXPLAINS_S:
        return False
    if event.kind in CLUSTER_ACTIONS.get(action.name, ()):
        return True
    return event.topic is not None and action.name.startswith("topic.") and action.target == event.topic
