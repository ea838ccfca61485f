"""Fetches from one broker of the source, for all partitions that it leads: one fetch at a time.

Between two fetches it looks at those partitions only with which something has happened. While a partition has enough
to send it leaves the fetch session; as it can come back with the next request only, a broker's wait is short then.
Where the others have nothing new, it waits here before it asks for them again, and a partition that is to come back
ends that wait at once: else the source would be asked two hundred times a second for nothing.
"""

import asyncio
from contextlib import suppress
from typing import Final, Protocol

import structlog
from kio.schema.errors import ErrorCode

from ottla_core.client.cluster import AsyncCluster
from ottla_core.client.cluster_metadata import NO_TOPIC_ID
from ottla_core.client.errors import AuthenticationFailed, Unreachable, UnsupportedByBroker
from ottla_core.client.pipelined_connection import PipelinedConnection
from ottla_core.errors import InvalidResponse
from ottla_core.wire.consumer_fetch import (
    FETCH_KEY,
    FIRST_FLEXIBLE_VERSION,
    FIRST_VERSION_BY_TOPIC_ID,
    NEWEST_VERSION,
    OLDEST_VERSION,
    FetchAnswer,
    FetchAsked,
    IsolationLevel,
    PartitionAnswer,
    TopicKey,
    fetch_request_body,
    read_fetch_response,
)
from ottla_core.wire.replica_fetch_request import FetchLimits
from ottla_mirror.copy.copy_settings import CopySettings
from ottla_mirror.copy.fetch_session import FetchSession
from ottla_mirror.copy.partition_work import PartitionWork
from ottla_mirror.copy.single_request import ask_raw

SHORT_WAIT_MS: Final = 5
IDLE_PAUSE_S: Final = 0.02
"""Between fetches of partitions without news while others have enough to send. It is how much later news may come."""
COPIED_SHARE: Final = 16
"""Records that are less than this part of an answer are copied out of it, so that they do not keep all of it."""
log = structlog.get_logger("mirror")


class FetchOwner(Protocol):
    """Whom a fetcher tells."""

    def reserve(self, broker_id: int) -> int:
        """Return how many bytes a fetch may bring; they are set aside for it."""

    def release(self, broker_id: int) -> None:
        """Set nothing aside for a fetch any more."""

    async def wait_for_room(self) -> None:
        """Wait until more may be fetched."""

    def on_fetched(self, work: PartitionWork, answer: PartitionAnswer, records: memoryview) -> None:
        """Take the answer about a partition."""

    def on_source_failed(self, works: list[PartitionWork], reason: str) -> None:
        """Take note that a broker does not answer."""


class SourceFetcher:
    """The fetcher of one broker.

    Args:
        cluster: the source.
        broker_id: the broker.
        settings: how much to fetch.
        owner: whom to tell.
    """

    def __init__(self, cluster: AsyncCluster, broker_id: int, settings: CopySettings, owner: FetchOwner) -> None:
        self._cluster = cluster
        self._broker_id = broker_id
        self._settings = settings
        self._owner = owner
        self._works: dict[tuple[TopicKey, int], PartitionWork] = {}
        self._changed: dict[PartitionWork, None] = {}
        self._has_changed = asyncio.Event()
        self._generations: dict[PartitionWork, int] = {}
        self._excluded: set[PartitionWork] = set()
        self._without_id: set[PartitionWork] = set()
        self._all: set[PartitionWork] = set()
        self._connection: PipelinedConnection | None = None
        self._version = 0
        self._session: FetchSession[PartitionWork] = FetchSession(OLDEST_VERSION)

    def add(self, work: PartitionWork) -> None:
        """Fetch a partition from now on."""
        self._all.add(work)
        if work.partition.topic_id == NO_TOPIC_ID:
            self._without_id.add(work)
        self.touch(work)

    def remove(self, work: PartitionWork) -> None:
        """Fetch it no more."""
        if work in self._all:
            self._all.discard(work)
            self._excluded.discard(work)
            self._without_id.discard(work)
            self._generations.pop(work, None)
            self.touch(work)

    def touch(self, work: PartitionWork) -> None:
        """Look at a partition before the next fetch: it may be wanted otherwise than before."""
        self._changed[work] = None
        self._has_changed.set()

    def on_room(self, work: PartitionWork) -> None:
        """Take note that so little of a partition is waiting to be sent that more may be fetched."""
        if work in self._excluded and self._is_wanted(work):
            self.touch(work)

    @property
    def is_idle(self) -> bool:
        """Whether it has nothing to fetch any more."""
        return not self._all

    def close(self) -> None:
        """Close the connection; `run` has to be cancelled."""
        if self._connection is not None:
            self._connection.close()

    async def run(self) -> None:
        """Fetch, for ever."""
        failures = 0
        while True:
            if not self._all or (not self._changed and not self._session.members):
                self._has_changed.clear()
                if not self._changed:
                    await self._has_changed.wait()
                if not self._all:
                    self._changed.clear()
                    self._forget_session()
                    continue
            if self._excluded and not self._changed:
                await self._wait_for_change(IDLE_PAUSE_S)
            await self._owner.wait_for_room()
            try:
                await self._fetch()
                failures = 0
            except (Unreachable, AuthenticationFailed, UnsupportedByBroker, InvalidResponse) as error:
                self.close()
                self._connection = None
                self._owner.on_source_failed(list(self._all), str(error))
                pause_s = min(self._settings.backoff_s_min * 2**failures, self._settings.backoff_s_max)
                failures = min(failures + 1, 16)
                await asyncio.sleep(pause_s)

    async def _wait_for_change(self, wait_s: float) -> None:
        self._has_changed.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                await self._has_changed.wait()

    async def _fetch(self) -> None:
        connection = await self._usable_connection()
        changed = {each: self._asked(each) for each in self._changed}
        self._changed.clear()
        plan = self._session.plan(changed)
        if not self._session.members:
            return
        wait_ms = SHORT_WAIT_MS if self._excluded else self._settings.fetch_wait_ms
        try:
            body = fetch_request_body(
                self._version,
                FetchLimits(wait_ms, 1, self._owner.reserve(self._broker_id)),
                isolation_level=IsolationLevel.READ_COMMITTED,
                session=plan.session,
                asked=plan.asked,
                forgotten=plan.forgotten,
            )
            frame = await ask_raw(
                connection,
                FETCH_KEY,
                self._version,
                (body,),
                is_flexible=self._version >= FIRST_FLEXIBLE_VERSION,
                timeout_s=self._settings.answer_timeout_s,
            )
        finally:
            # No other fetcher has its turn before the batches of this answer are counted.
            self._owner.release(self._broker_id)
        answer = read_fetch_response(frame, self._version)
        if answer.error_code is not ErrorCode.none:
            log.info("a fetch session is begun anew", broker=self._broker_id, reason=answer.error_code.name)
            self._session.begin_anew()
            await asyncio.sleep(self._settings.backoff_s_min)
            return
        self._session.on_answered(answer.session_id)
        self._hand_out(answer, len(frame))

    def _hand_out(self, answer: FetchAnswer, frame_bytes: int) -> None:
        for each in answer.partitions:
            work = self._works.get((each.topic, each.partition))
            if work is None or work not in self._all:
                continue
            asked = self._session.members.get(work)
            is_current = self._generations.get(work) == work.generation
            if (
                work.copy is None
                or asked is None
                or not is_current
                or asked[1].fetch_offset != work.copy.fetch_offset
            ):
                self.touch(work)
                continue  # it was asked from another offset than it needs now
            records = each.records
            if len(records) * COPIED_SHARE < frame_bytes:
                records = memoryview(bytearray(records))
            self._owner.on_fetched(work, each, records)
            self.touch(work)

    def _is_wanted(self, work: PartitionWork) -> bool:
        copy = work.copy
        if work not in self._all or copy is None or not work.may_fetch or not copy.takes():
            return False
        return copy.unsent_bytes < self._settings.partition_bytes_max

    def _asked(self, work: PartitionWork) -> tuple[TopicKey, FetchAsked] | None:
        """Return how a partition is to be fetched; None for not at all."""
        key = self._key(work)
        if not self._is_wanted(work):
            if work in self._all and work.copy is not None and work.copy.takes() and work.may_fetch:
                self._excluded.add(work)
            else:
                self._excluded.discard(work)
            return None
        self._excluded.discard(work)
        copy = work.copy
        assert copy is not None
        self._works[key, work.partition.partition] = work
        self._generations[work] = work.generation
        return key, FetchAsked(
            work.partition.partition,
            work.source_leader_epoch,
            copy.fetch_offset,
            copy.last_leader_epoch,
            self._settings.partition_bytes_max,
        )

    def _key(self, work: PartitionWork) -> TopicKey:
        return work.partition.topic_id if self._version >= FIRST_VERSION_BY_TOPIC_ID else work.partition.topic

    async def _usable_connection(self) -> PipelinedConnection:
        connection = self._connection
        has_ids = not self._without_id
        if connection is not None and connection.is_usable and (has_ids or self._version < FIRST_VERSION_BY_TOPIC_ID):
            return connection
        if connection is not None:
            connection.close()
        connection = self._connection = await self._cluster.open_pipelined(self._broker_id)
        newest = NEWEST_VERSION if has_ids else FIRST_VERSION_BY_TOPIC_ID - 1
        self._version = connection.version_among(FETCH_KEY, OLDEST_VERSION, newest)
        self._forget_session()
        return connection

    def _forget_session(self) -> None:
        self._session = FetchSession(self._version)
        self._works.clear()
        self._changed = dict.fromkeys(self._all)
