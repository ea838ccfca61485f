"""Reads an internal topic from its start, and later what has come since.

Records that were written in a transaction are told once it is committed, and those of aborted ones never
(`decided_records.py`).

A topic that was made anew, or does not have the offset any more from which to go on, is read again from its start.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final
from uuid import UUID

import structlog

from ottla_core.errors import InvalidRecord
from ottla_core.wire.records import Record
from ottla_mirror.internal_topics.decided_records import DecidedRecords
from ottla_mirror.internal_topics.errors import InternalTopicError, OffsetGone
from ottla_mirror.internal_topics.internal_topic import OPERATION_TIMEOUT_S, InternalTopic

READ_PAUSE_S: Final = 0.05
MISSING_S: Final = 3.0

log = structlog.get_logger("internal topics")


class TopicFollower:
    """Follows one topic.

    Args:
        topic: the topic, which exists.
        on_records: is told the records, in order, those of a fetch at once; what it raises, `catch_up` raises.
        on_restart: is told that all records come again, from the start of the topic as it is now.
    """

    def __init__(
        self,
        topic: InternalTopic,
        *,
        on_records: Callable[[Sequence[Record]], None],
        on_restart: Callable[[], None],
    ) -> None:
        self._topic = topic
        self._on_records = on_records
        self._on_restart = on_restart
        self._decided = DecidedRecords()
        self._reading = asyncio.Lock()
        self._topic_id: UUID | None = None
        self._offset = 0
        self._begun = 0
        self._done = 0

    async def catch_up(self, *, at_least: int = -1, timeout_s: float = OPERATION_TIMEOUT_S) -> None:
        """Read all that was acknowledged before this call.

        Args:
            at_least: read beyond this offset in any case, which a leader that was just elected may not show yet.
            timeout_s: when to give up.

        Raises:
            InternalTopicError: the topic cannot be read, in this time.
            AuthenticationFailed, UnsupportedByBroker: see `AsyncCluster`.
        """
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + timeout_s
        wanted = self._begun + 1
        async with self._reading:
            if self._done >= wanted and self._offset > at_least:
                return  # somebody has begun to read after this call, and has come to the end
            self._begun += 1
            begun = self._begun
            await self._check_topic(deadline_s - loop.time())
            end = await self._topic.end_offset(deadline_s - loop.time())
            if end < self._offset:  # it was cut, and may have got other records at offsets that were read
                await self._restart(deadline_s - loop.time())
            end = max(end, at_least + 1)
            while self._offset < end:
                if loop.time() >= deadline_s:
                    raise InternalTopicError(f"{self._topic} could not be read to offset {end} in {timeout_s:g} s")
                before = self._offset
                await self._read_once(deadline_s - loop.time())
                if self._offset == before:
                    await asyncio.sleep(READ_PAUSE_S)
            self._done = begun

    async def _check_topic(self, timeout_s: float) -> None:
        """Begin anew with a topic of another id."""
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + min(timeout_s, MISSING_S)
        # A broker may not have heard yet of a topic that was just made.
        while (topic_id := await self._topic.topic_id(timeout_s)) is None:
            if loop.time() >= deadline_s:
                raise InternalTopicError(f"{self._topic} is not there")
            await asyncio.sleep(READ_PAUSE_S)
        if topic_id != self._topic_id:
            await self._restart(timeout_s)
            self._topic_id = topic_id

    async def _read_once(self, timeout_s: float) -> None:
        try:
            found = await self._topic.fetch(self._offset, timeout_s)
        except OffsetGone as error:
            log.warning("reading anew", topic=str(self._topic), reason=str(error))
            await self._restart(timeout_s)
            return
        decided = self._decided.copy()
        try:
            records = decided.take(found.batches)
        except InvalidRecord as error:
            raise InternalTopicError(f"{self._topic} cannot be read at offset {self._offset}: {error}") from error
        self._on_records(records)
        self._decided = decided  # not before: what was refused has to be refused again
        self._offset = found.next_offset

    async def _restart(self, timeout_s: float) -> None:
        self._offset = await self._topic.start_offset(timeout_s)
        self._decided.clear()
        self._on_restart()
