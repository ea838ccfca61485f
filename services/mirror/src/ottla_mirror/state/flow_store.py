"""The topic `mirror-flows.internal` of a target, followed by all its workers; see `flow_records.py`."""

from collections.abc import Callable, Sequence
from typing import Final

import structlog

from ottla_core.errors import InvalidRecord
from ottla_core.wire.records import Record
from ottla_mirror.internal_topics.internal_topic import InternalTopic
from ottla_mirror.internal_topics.topic_follower import TopicFollower
from ottla_mirror.internal_topics.topic_requests import Entry
from ottla_mirror.state.flow_records import FlowState

READ_ALL_TIMEOUT_S: Final = 60.0

log = structlog.get_logger("flows")


class FlowStore:
    """What the workers of a target share.

    Args:
        topic: where it is kept.
        on_change: called whenever something was read.

    Attributes:
        state: what has been read.
    """

    def __init__(self, topic: InternalTopic, on_change: Callable[[], None]) -> None:
        self.state = FlowState()
        self._topic = topic
        self._on_change = on_change
        self._follower = TopicFollower(topic, on_records=self._apply, on_restart=self.state.clear)

    async def start(self) -> None:
        """Make the topic if it is not there, and read all of it.

        Raises:
            InternalTopicError: it cannot be made or read.
            AuthenticationFailed, UnsupportedByBroker: see `AsyncCluster`.
        """
        await self._topic.ensure()
        await self._follower.catch_up(timeout_s=READ_ALL_TIMEOUT_S)

    async def refresh(self) -> None:
        """Read what has come since; errors as with `start`."""
        await self._follower.catch_up()

    async def write(self, entries: Sequence[Entry]) -> None:
        """Write records, and return when they are stored and read; errors as with `start`."""
        offset = await self._topic.append(entries)
        await self._follower.catch_up(at_least=offset)

    def _apply(self, records: Sequence[Record]) -> None:
        for record in records:
            try:
                self.state.apply(record.key, record.value)
            except InvalidRecord as error:
                log.warning("record passed over", topic=str(self._topic), offset=record.offset, reason=str(error))
        if records:
            self._on_change()
