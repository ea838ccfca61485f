"""What has changed in a cluster since it is looked at: the differences of successive looks, the newest of them kept.

Settings take long to ask for, so of many topics some are asked for at a time, in turn.
"""

from collections import deque
from dataclasses import replace
from typing import Final

from ottla_console.views.cluster_events import ActionDone, Event, EventKind, explained, setting_events, view_events
from ottla_operations.cluster.cluster_view import ClusterView, OwnSettings

EVENTS_MAX: Final = 2000
ACTIONS_MAX: Final = 50
TOPICS_AT_A_TIME: Final = 100
LOOK_INTERVAL_S_MIN: Final = 1.0
"""Brokers learn of changes one after the other: looks at two of them at a time would show some there and back."""


class EventLog:
    """What one user has seen change in one cluster.

    Attributes:
        events: the oldest first.
    """

    def __init__(self) -> None:
        self.events: deque[Event] = deque(maxlen=EVENTS_MAX)
        self._actions: deque[ActionDone] = deque(maxlen=ACTIONS_MAX)
        self._view: tuple[ClusterView, float] | None = None
        self._topics: dict[str, tuple[dict[str, str | None], float]] = {}
        self._brokers: tuple[OwnSettings, float] = ({}, 0.0)
        self._last_topic = ""
        self._from_before: frozenset[str] = frozenset()
        self._silent_since_s: float | None = None

    def note_view(self, view: ClusterView, at_s: float) -> None:
        """Compare a view with the one before.

        Args:
            view: of the cluster.
            at_s: when it was asked for, in seconds since 1970; one from before the last view is left out.
        """
        if self._silent_since_s is not None:
            self._add([Event(kind=EventKind.REACH, words="answers again")], self._silent_since_s, at_s)
            self._silent_since_s = None
        if self._view is None:
            self._from_before = frozenset(view.topics)
        else:
            before, before_s = self._view
            if at_s - before_s < LOOK_INTERVAL_S_MIN:
                return
            self._add(view_events(before, view), before_s, at_s)
        self._view = (view, at_s)

    def note_silence(self, reason: str, at_s: float) -> None:
        """Note that the cluster could not be looked at; once, until it can be again."""
        if self._silent_since_s is None:
            self._silent_since_s = at_s
            event = Event(kind=EventKind.REACH, words=f"could not be looked at: {reason}", is_harm=True)
            self._add([event], at_s, at_s)

    def next_topics(self, view: ClusterView) -> list[str]:
        """Return the topics whose settings come next; after the last the first."""
        names = sorted(view.topics)
        behind = [each for each in names if each > self._last_topic]
        chosen = (behind or names)[:TOPICS_AT_A_TIME]
        self._last_topic = chosen[-1] if chosen else ""
        return chosen

    def note_settings(self, topics: OwnSettings, brokers: OwnSettings, view: ClusterView, at_s: float) -> None:
        """Compare settings with what they were.

        Args:
            topics: of those that were asked for.
            brokers: of all that answer.
            view: of the cluster; what is not in it is forgotten.
            at_s: when they were asked for, in seconds since 1970.
        """
        for name, found in topics.items():
            # What a topic has that came while the cluster was looked at, was set meanwhile.
            former, former_s = self._topics.get(name, (None if name in self._from_before else {}, at_s))
            if former is not None:
                self._add(setting_events({name: former}, {name: found}, of_brokers=False), former_s, at_s)
            self._topics[name] = (found, at_s)
        there = view.topics
        self._topics = {name: each for name, each in self._topics.items() if name in there}
        self._from_before &= there.keys()
        known, known_s = self._brokers
        self._add(setting_events(known, brokers, of_brokers=True), known_s, at_s)
        # One that does not answer just now is compared with what it was when it does again.
        self._brokers = ({**known, **brokers}, at_s)

    def note_action(self, action: ActionDone) -> None:
        """Note what was done in the console, which explains what is seen next."""
        self._actions.append(action)

    def _add(self, events: list[Event], since_s: float, at_s: float) -> None:
        dated = [replace(each, since_s=since_s, at_s=at_s) for each in events]
        self.events.extend(explained(dated, self._actions))
