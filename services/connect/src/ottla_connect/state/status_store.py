"""The statuses of connectors and tasks and the topics they use, kept in the status topic.

Nobody waits for a status to be written, and it must not be lost to a broker that restarts. So what is to be written
waits here, one value for each key, the last; a task in the background writes it and tries again until it is stored
or no longer true. Readers see a status when it is read back.
"""

import asyncio
from dataclasses import dataclass

import structlog

from ottla_connect.connector_states import Status
from ottla_connect.ids import TaskId
from ottla_connect.state.config_records import BadRecord, Write
from ottla_connect.state.keyed_log import Entry, KeyedLog, LogError
from ottla_connect.state.status_records import Subject, TopicUse, encode_status, encode_topic_use, key_of
from ottla_connect.state.status_view import StatusView
from ottla_core.background import start_recurring
from ottla_core.clock import Clock, SystemClock

WRITE_TIMEOUT_S = 30.0
CLOSE_TIMEOUT_S = 5.0
RETRY_FIRST_S = 0.3
RETRY_MAX_S = 10.0
ROUND_SIZE_MAX = 1000
# A worker writes about what it runs; more keys than this only wait if something is badly wrong.
WAITING_MAX = 100_000

log = structlog.get_logger("status store")


@dataclass(frozen=True, slots=True)
class _Pending:
    """A write that waits: its value, and the status behind it or removed by it, as other workers may overtake it."""

    value: bytes | None
    status: Status | None = None
    only_if_newer: bool = False
    removed: Status | None = None


class StatusStore:
    """What workers say of the connectors and tasks that they run.

    Args:
        records: the status topic.
        clock: dates the first use of topics.
    """

    def __init__(self, records: KeyedLog, clock: Clock | None = None) -> None:
        self._log = records
        self._clock = clock or SystemClock()
        self._view = StatusView()
        self._waiting: dict[Subject, _Pending] = {}
        self._has_work = asyncio.Event()
        self._is_idle = asyncio.Event()
        self._is_idle.set()
        self._writer: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Read everything.

        Raises:
            LogError: it cannot be read.
        """
        await self._log.start(self._take)
        self._writer = start_recurring("writes of statuses", self._write_waiting)

    async def close(self) -> None:
        """Write what waits, if that works at once, and stop."""
        if self._writer is not None:
            try:
                await asyncio.wait_for(self._is_idle.wait(), CLOSE_TIMEOUT_S)
            except TimeoutError:
                log.warning("statuses could not be written before the end", count=len(self._waiting))
            self._writer.cancel()
            await asyncio.wait([self._writer])
            self._writer = None
        await self._log.close()

    async def written(self, timeout_s: float) -> bool:
        """Wait until everything that was put is written; returns whether it is, within the time."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._is_idle.wait()
        except TimeoutError:
            return False
        return True

    def connector_status(self, name: str) -> Status | None:
        """Return a connector's status; None if nobody has said anything."""
        return self._view.status(name)

    def task_status(self, task: TaskId) -> Status | None:
        """Return a task's status; None if nobody has said anything."""
        return self._view.status(task)

    def topics(self, name: str) -> frozenset[str]:
        """Return the topics that a connector has used since it was created or they were reset."""
        return self._view.topics(name)

    def put_connector_status(self, name: str, status: Status, *, only_if_newer: bool = False) -> None:
        """Have a connector's status written; `only_if_newer`: unless another worker has said something later."""
        self._put_status(name, status, only_if_newer)

    def put_task_status(self, task: TaskId, status: Status, *, only_if_newer: bool = False) -> None:
        """Have a task's status written; `only_if_newer`: unless another worker has said something later."""
        self._put_status(task, status, only_if_newer)

    def add_topic(self, name: str, task: int, topic: str) -> None:
        """Have it written that a connector uses a topic, unless that is known."""
        use = TopicUse(name, topic)
        waiting = self._waiting.get(use)
        if waiting is None and topic in self._view.topics(name):
            return
        if waiting is None or waiting.value is None:
            self._put(use, _Pending(encode_topic_use(use, task, self._clock.time_ms())))

    def reset_topics(self, name: str) -> None:
        """Forget which topics a connector has used."""
        for subject in self._known(name):
            if isinstance(subject, TopicUse):
                self._put(subject, _Pending(None))

    def remove(self, name: str) -> None:
        """Forget everything about a connector that was deleted."""
        for subject in self._known(name):
            self._put_removal(subject)

    def remove_task(self, task: TaskId) -> None:
        """Forget a task that is no more."""
        self._put_removal(task)

    def _known(self, name: str) -> list[Subject]:
        waiting = [subject for subject in self._waiting if _connector_of(subject) == name]
        return [*dict.fromkeys([*self._view.subjects(name), *waiting])]

    def _put_status(self, subject: str | TaskId, status: Status, only_if_newer: bool) -> None:
        if not only_if_newer or self._view.may_replace(subject, status):
            self._put(subject, _Pending(encode_status(status), status, only_if_newer))

    def _put_removal(self, subject: Subject) -> None:
        removed = None if isinstance(subject, TopicUse) else self._view.status(subject)
        self._put(subject, _Pending(None, removed=removed))

    def _put(self, subject: Subject, pending: _Pending) -> None:
        if subject not in self._waiting and len(self._waiting) >= WAITING_MAX:
            log.error("too many statuses wait to be written; one is dropped", subject=str(subject))
            return
        self._waiting[subject] = pending
        self._is_idle.clear()
        self._has_work.set()

    async def _write_waiting(self) -> None:
        pause_s = RETRY_FIRST_S
        while True:
            await self._has_work.wait()
            round_ = dict(list(self._waiting.items())[:ROUND_SIZE_MAX])
            try:
                await self._log.write(
                    [Write(key_of(subject), pending.value) for subject, pending in round_.items()], WRITE_TIMEOUT_S
                )
            except LogError as error:
                log.warning("statuses are not written yet", count=len(self._waiting), reason=str(error))
                await asyncio.sleep(pause_s)
                pause_s = min(pause_s * 2, RETRY_MAX_S)
                self._drop_overtaken(round_)
            else:
                pause_s = RETRY_FIRST_S
                self._drop(round_)
            if not self._waiting:
                self._has_work.clear()
                self._is_idle.set()

    def _drop(self, written: dict[Subject, _Pending]) -> None:
        for subject, pending in written.items():
            if self._waiting.get(subject) is pending:
                del self._waiting[subject]

    def _drop_overtaken(self, tried: dict[Subject, _Pending]) -> None:
        """Forget what another worker has overtaken meanwhile: this one's word is no longer the last."""
        overtaken: dict[Subject, _Pending] = {
            subject: pending
            for subject, pending in tried.items()
            if not isinstance(subject, TopicUse) and self._is_overtaken(subject, pending)
        }
        self._drop(overtaken)

    def _is_overtaken(self, subject: str | TaskId, pending: _Pending) -> bool:
        if pending.status is not None:
            return not self._view.may_replace(subject, pending.status)
        current = self._view.status(subject)
        # What was created anew under the name runs in a later generation.
        return pending.removed is not None and current is not None and current.generation > pending.removed.generation

    def _take(self, entry: Entry) -> None:
        try:
            self._view.take(entry.key, entry.value)
        except BadRecord as problem:
            log.warning("a record of the status topic is ignored", offset=entry.offset, reason=str(problem))


def _connector_of(subject: Subject) -> str:
    return subject if isinstance(subject, str) else subject.connector
