"""Which topics a sink reads: a list, or those whose whole name matches a regular expression. Pure.

librdkafka's own expressions are POSIX's and match anywhere, Kafka Connect's are like Python's and match whole names;
so the names are matched here, and looked at again every `metadata.max.age.ms`.
"""

import re
from collections.abc import Callable, Iterable, Mapping

from ottla_connect.task.pipeline.transform_chain import aliases

TOPICS_KEY = "topics"
TOPICS_REGEX_KEY = "topics.regex"
INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})
"""A Java consumer leaves these out of what matches an expression."""


class Subscription:
    """The topics that a sink's settings say.

    Args:
        settings: with exactly one of `topics` and `topics.regex`.
        list_topics: returns the names of all topics.
        max_age_s: how long what it returned is good for.
    """

    def __init__(
        self, settings: Mapping[str, str], *, list_topics: Callable[[], Iterable[str]], max_age_s: float
    ) -> None:
        pattern = settings.get(TOPICS_REGEX_KEY, "").strip()
        self._pattern = re.compile(pattern) if pattern else None
        self._topics = None if self._pattern else aliases(settings, TOPICS_KEY)
        self._list_topics = list_topics
        self._max_age_s = max_age_s
        self._due_s = 0.0
        self._last: list[str] | None = None

    def changed(self, now_s: float) -> list[str] | None:
        """Return the topics if they are others than at the last call, else None."""
        if now_s < self._due_s:
            return None
        topics = self._topics
        if self._pattern is not None:
            self._due_s = now_s + self._max_age_s
            names = set(self._list_topics()) - INTERNAL_TOPICS
            topics = sorted(each for each in names if self._pattern.fullmatch(each))
        else:
            self._due_s = float("inf")
        if topics == self._last:
            return None
        self._last = topics
        return topics

    def forget(self) -> None:
        """Let the next call of `changed` return the topics, whatever they are."""
        self._due_s = 0.0
        self._last = None
