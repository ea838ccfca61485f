"""Which topics a sink task's records are from, for sinks that keep offsets in their target.

Offsets say something only together with the topic that they are of. A topic that was deleted and created anew begins
with offset 0, so whoever goes by the old one's offsets takes the new one's records for written.
"""

import time

from ottla_sdk.context import SinkTaskContext
from ottla_sdk.errors import RetriableError

AGE_MAX_S = 1.0
"""How long an answer is good enough where nothing says that it is wrong; each question costs a request."""


class TopicIdentity:
    """The topics' ids, as far as a task has asked for them."""

    def __init__(self, context: SinkTaskContext) -> None:
        self._context = context
        self._ids: dict[str, str | None] = {}
        self._asked_s: dict[str, float] = {}

    def ask(self, topic: str) -> str | None:
        """Return the id of the topic that bears this name now; None if the cluster gives none.

        Raises:
            RetriableError: no broker answers, or there is no such topic now.
        """
        found = self._context.topic_id(topic)
        self._ids[topic] = found
        self._asked_s[topic] = time.monotonic()
        return found

    def ask_if_possible(self, topic: str, *, age_max_s: float = AGE_MAX_S) -> str | None:
        """Return an answer that is at most so old, or the last one while no broker answers or the topic is gone."""
        if time.monotonic() - self._asked_s.get(topic, -age_max_s) >= age_max_s:
            try:
                return self.ask(topic)
            except RetriableError:
                pass
        return self._ids.get(topic)


def is_another(topic_id: str | None, known: str | None) -> bool:
    """Return whether a topic is another one than that which is known; without ids nobody can tell, so it is not."""
    return topic_id is not None and known is not None and topic_id != known
