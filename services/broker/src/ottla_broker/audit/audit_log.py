"""The audit log: takes records on the event loop, bounds them, and has a thread write them.

Nothing waits for it. Of each kind a number of records per second is taken and a number may wait for the thread; the
rest is dropped and counted, in metrics and by a record in the log itself. Changes that came to nothing count apart
from those that were made, as any client may ask for what it is refused, and some room is kept for others than the one
who asks most. So neither a client that is refused all the time nor one that may change something of its own takes all
the room from the records of what administrators do.
"""

import threading
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from typing import Final

import structlog

from ottla_broker.audit.audit_records import (
    AuditKind,
    AuditRecord,
    AuditResult,
    Caller,
    bounded,
    cut,
    fields_of,
    fields_of_dropped,
)
from ottla_broker.audit.audit_sinks import AuditSink
from ottla_core.background import start_thread
from ottla_core.clock import Clock
from ottla_core.principal import ANONYMOUS

QUEUED_MAX: Final = 5_000
"""Records of a kind that may wait to be written."""

PAUSE_S: Final = 0.2
"""Between two writes: records are gathered for so long, and dropped ones are reported so often at most."""

CLOSING_S_MAX: Final = 5.0
"""How long a broker that stops waits for the last records to be written."""

SHARE_OF_ONE_MAX: Final = 0.8
"""Of the records of a kind in a second: so much one principal may take, or one address of those that are nobody."""

CLIENTS_KNOWN_MAX: Final = 1_000
"""Of whom it is known how much they have taken; beyond, that of all is forgotten."""

ACCESSES_KNOWN_MAX: Final = 10_000
ACCESS_AGAIN_S: Final = 60.0
"""Who writes or reads a topic all the time has one record of it in so many seconds."""

_NOBODY: Final = str(ANONYMOUS)

_Room = tuple[AuditKind, bool]
"""Of which records share a rate and a queue: the kind, and whether they are about what came to nothing."""

logger = structlog.get_logger("audit")


class RecordRate:
    """How many records may come: so many in a second, and as many at once."""

    def __init__(self, per_second_max: float, now_s: float) -> None:
        self._per_second_max = per_second_max
        self._left = float(per_second_max)
        self._now_s = now_s

    def take(self, now_s: float) -> bool:
        """Return whether a record may come now."""
        refilled = self._left + (now_s - self._now_s) * self._per_second_max
        self._left = min(float(self._per_second_max), refilled)
        self._now_s = now_s
        if self._left < 1:
            return False
        self._left -= 1
        return True


class AuditLog:
    """Takes records and has them written.

    Args:
        sink: where they go.
        clock: tells when something happened.
        per_second_max: records of each kind in a second.
        has_data: whether there are records of data that is written and read.

    Attributes:
        written: how many records were written, by kind.
        has_data: whether there are records of data that is written and read.
    """

    def __init__(self, sink: AuditSink, clock: Clock, *, per_second_max: int, has_data: bool) -> None:
        self.written: Counter[AuditKind] = Counter()
        self.has_data = has_data
        self._sink = sink
        self._clock = clock
        rooms = [(kind, in_vain) for kind in AuditKind for in_vain in (False, True)]
        self._rates: Mapping[_Room, RecordRate] = {
            each: RecordRate(per_second_max, clock.monotonic()) for each in rooms
        }
        self._per_second_of_one_max = max(1.0, per_second_max * SHARE_OF_ONE_MAX)
        self._rates_of_one: dict[tuple[_Room, str], RecordRate] = {}
        self._queues: Mapping[_Room, deque[AuditRecord]] = {each: deque() for each in rooms}
        # By two threads, as additions are not atomic: the event loop counts the first, the writing thread the second.
        self._not_taken: Counter[AuditKind] = Counter()
        self._unwritten: Counter[AuditKind] = Counter()
        self._reported: Counter[AuditKind] = Counter()
        self._accesses: dict[tuple[str, str, str, str], float] = {}
        self._is_failing = False
        self._due = threading.Event()
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin to write."""
        self._thread = start_thread("audit log", self._run)

    def close(self) -> None:
        """Have what was taken written, and end."""
        self._closing.set()
        self._due.set()
        if self._thread is not None:
            self._thread.join(CLOSING_S_MAX)
            if self._thread.is_alive():
                logger.error("the audit log has not been written to its end", waited_s=CLOSING_S_MAX)

    def dropped(self) -> Mapping[AuditKind, int]:
        """Return how many records were dropped so far, by kind."""
        return {kind: self._not_taken[kind] + self._unwritten[kind] for kind in AuditKind}

    def note_denial(
        self, caller: Caller, operation: str, resource: str, errors: Mapping[str, int] | None = None
    ) -> None:
        """Record that a client may not do an operation; errors tell if that was not decided."""
        self._note(AuditKind.DENIAL, caller, (resource,), AuditResult.DENIED, operation=operation, errors=errors)

    def note_change(
        self,
        caller: Caller,
        resources: Sequence[str],
        result: AuditResult,
        errors: Mapping[str, int],
        *,
        in_vain: bool = False,
    ) -> None:
        """Record a request that changes the cluster, or would have if nothing of it was done (`in_vain`)."""
        self._note(AuditKind.ADMINISTRATION, caller, resources, result, errors=errors, in_vain=in_vain)

    def note_access(self, caller: Caller, operation: str, resource: str) -> None:
        """Record that a client writes or reads, unless that was recorded not long ago."""
        access = (caller.principal, caller.address, operation, cut(resource))
        now_s = self._clock.monotonic()
        if now_s < self._accesses.get(access, now_s):
            return
        if len(self._accesses) >= ACCESSES_KNOWN_MAX:
            self._accesses.clear()
        self._accesses[access] = now_s + ACCESS_AGAIN_S
        self._note(AuditKind.DATA, caller, (resource,), AuditResult.ALLOWED, operation=operation)

    def _note(
        self,
        kind: AuditKind,
        caller: Caller,
        resources: Sequence[str],
        result: AuditResult,
        *,
        operation: str = "",
        errors: Mapping[str, int] | None = None,
        in_vain: bool = False,
    ) -> None:
        room = kind, in_vain
        queue = self._queues[room]
        if len(queue) >= QUEUED_MAX or not self._may_come(room, caller):
            self._not_taken[kind] += 1
        else:
            time_ms = self._clock.time_ms()
            kept = bounded(resources)  # what waits is bounded in size as well as in number
            left_out = len(resources) - len(kept)
            queue.append(AuditRecord(time_ms, kind, caller, kept, result, operation, errors, left_out))
        if not self._due.is_set():
            self._due.set()

    def _may_come(self, room: _Room, caller: Caller) -> bool:
        """Return whether a record is taken, by how many have come of late from the caller, and of all."""
        who = caller.address if caller.principal == _NOBODY else caller.principal
        now_s = self._clock.monotonic()
        of_one = self._rates_of_one.get((room, who))
        if of_one is None:
            if len(self._rates_of_one) >= CLIENTS_KNOWN_MAX:
                self._rates_of_one.clear()
            of_one = self._rates_of_one[room, who] = RecordRate(self._per_second_of_one_max, now_s)
        return of_one.take(now_s) and self._rates[room].take(now_s)

    # The thread

    def _run(self) -> None:
        while not self._closing.is_set():
            self._due.wait()
            self._due.clear()
            self._write_all()
            self._closing.wait(PAUSE_S)
        self._write_all()
        self._sink.close()

    def _write_all(self) -> None:
        """Write what waits, in the order in which it happened."""
        taken: list[AuditRecord] = []
        for queue in self._queues.values():
            taken.extend(queue.popleft() for _ in range(len(queue)))
        taken.sort(key=lambda record: record.time_ms)
        records = [fields_of(record) for record in taken]
        dropped = Counter(self.dropped())
        missing = dropped - self._reported
        if missing:
            records.append(fields_of_dropped(self._clock.time_ms(), missing))
        if not records:
            return
        counts = Counter(record.kind for record in taken)
        try:
            self._sink.write(records)
        except OSError as error:
            self._unwritten.update(counts)
            if not self._is_failing:
                logger.error("records are missing in the audit log, which cannot be written", error=str(error))
            self._is_failing = True
            return
        if self._is_failing:
            logger.info("the audit log is written again")
        self._is_failing = False
        self._reported = dropped
        self.written.update(counts)
