"""What the worker wants of this process right now, and what it is asked and answers.

A thread receives the worker's messages; the main thread, which runs the plugin, looks at `wanted` before everything
it does. A process whose worker has gone ends at once: whoever takes the work over must not find it still working.
"""

import enum
import itertools
import logging
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ottla_connect.processes.messages import (
    CheckTransactions,
    CommitOffsets,
    Lease,
    Message,
    OffsetKeysRead,
    OffsetsCommitted,
    OffsetsRead,
    ReadOffsetKeys,
    ReadOffsets,
    SetLogLevel,
    SetPaused,
    Stop,
    ToProcess,
    TransactionCheck,
    TransactionsChecked,
)
from ottla_connect.state.offset_records import check_storable
from ottla_connect.task.channel import Channel, ChannelClosed
from ottla_core.background import start_thread
from ottla_core.clock import boot_time_s
from ottla_sdk import RetriableError

EXIT_ORPHANED = 4
TICK_INTERVAL_S = 5.0
READ_TIMEOUT_S = 60.0
CHECK_TIMEOUT_S = 120.0

_Answer = OffsetsRead | OffsetKeysRead | TransactionsChecked

log = logging.getLogger(__name__)


class WantedState(enum.Enum):
    """What the process is to do."""

    WORKING = enum.auto()
    """Go on."""
    PAUSED = enum.auto()
    """Nothing, but finish and commit what is on its way."""
    UNLEASED = enum.auto()
    """Nothing at all: another worker may have the task."""
    STOPPING = enum.auto()
    """Finish, commit, and end."""


class OffsetsUnavailable(RetriableError):
    """Source offsets could not be read; they can be when the brokers that have them are back."""


class NoTransactions(RetriableError):
    """The task may not write in transactions now; its worker starts it again when that may have changed."""


class PendingCommit:
    """A `CommitOffsets` under way.

    Attributes:
        number: of the request.
        done: whether the answer has come.
        error: why the offsets are not stored; None if they are.
    """

    def __init__(self, number: int) -> None:
        self.number = number
        self.done = False
        self.error: str | None = None


class Control:
    """Hears what the worker says, and asks it for offsets.

    Args:
        channel: to the worker; nothing else may receive from it once `start` was called.
        leased: whether the process may work only while it has a lease.
        paused: whether it begins paused.
        end: ends the process at once.
    """

    def __init__(
        self,
        channel: Channel,
        *,
        leased: bool,
        paused: bool = False,
        end: Callable[[int], Any] = os._exit,  # also when plugin code hangs in the main thread
    ) -> None:
        self._channel = channel
        self._leased_until_s = 0.0 if leased else float("inf")
        self._paused = paused
        self._stopping = False
        self._end = end
        self._changed = threading.Condition()
        self._changes = 0
        self._requests = itertools.count(1)
        self._asked: dict[int, _Answer | None] = {}
        self._commits: dict[int, PendingCommit] = {}
        self._on_tick: Callable[[], None] | None = None

    def start(self, on_tick: Callable[[], None] | None = None) -> None:
        """Begin to receive; `on_tick` is called by the receiving thread every few seconds."""
        self._on_tick = on_tick
        start_thread("control", self._receive)

    @property
    def stopping(self) -> bool:
        """Whether the worker has asked the process to stop."""
        return self._stopping

    @property
    def leased(self) -> bool:
        """Whether the task is surely this worker's, right now."""
        return boot_time_s() < self._leased_until_s

    @property
    def lease_left_s(self) -> float:
        """For how many seconds it still is; none or fewer if it may be another's."""
        return self._leased_until_s - boot_time_s()

    def wanted_state(self) -> WantedState:
        """Return what the process is to do."""
        if self._stopping:
            return WantedState.STOPPING
        if not self.leased:
            return WantedState.UNLEASED
        return WantedState.PAUSED if self._paused else WantedState.WORKING

    def await_change(self, timeout_s: float | None = None) -> None:
        """Wait until the worker has said something, or `notify` was called, since the last time."""
        with self._changed:
            self._changed.wait_for(lambda: self._changes > 0, timeout_s)
            self._changes = 0

    def notify(self) -> None:
        """End `await_change`."""
        with self._changed:
            self._changes += 1
            self._changed.notify_all()

    def wait(self, seconds: float) -> bool:
        """Wait, or return earlier when the process is to stop; returns whether it is."""
        with self._changed:
            return self._changed.wait_for(lambda: self._stopping, max(seconds, 0.0))

    def send(self, message: Message) -> None:
        """Send a message to the worker; any thread may."""
        try:
            self._channel.send(message)
        except ChannelClosed:
            self._end(EXIT_ORPHANED)

    def read_offsets(self, partitions: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any] | None]:
        """Return the committed offsets of source partitions.

        Raises:
            OffsetsUnavailable: they could not be read, or not in time.
            NotStorable: these are no partitions that could have offsets.
        """
        if not partitions:
            return ()
        for each in partitions:
            check_storable(each)
        number = next(self._requests)
        question = ReadOffsets(request=number, partitions=[dict(each) for each in partitions])
        answer = self._ask(number, question, READ_TIMEOUT_S)
        if answer is None:
            raise OffsetsUnavailable(f"the committed offsets did not come within {READ_TIMEOUT_S:.0f} s")
        assert isinstance(answer, OffsetsRead)
        if answer.error is not None:
            raise OffsetsUnavailable(f"the committed offsets cannot be read: {answer.error}")
        return answer.offsets

    def read_offset_keys(self, partitions: Sequence[Mapping[str, Any]]) -> list[list[bytes]]:
        """Return the keys in the offsets topic of source partitions: that to write under, and others that are to end.

        Raises:
            OffsetsUnavailable: they could not be read, or not in time.
            NotStorable: these are no partitions that could have offsets.
        """
        for each in partitions:
            check_storable(each)
        number = next(self._requests)
        question = ReadOffsetKeys(request=number, partitions=[dict(each) for each in partitions])
        answer = self._ask(number, question, READ_TIMEOUT_S)
        if answer is None:
            raise OffsetsUnavailable(f"the keys of offsets did not come within {READ_TIMEOUT_S:.0f} s")
        assert isinstance(answer, OffsetKeysRead)
        if answer.error is not None:
            raise OffsetsUnavailable(f"the keys of offsets cannot be read: {answer.error}")
        return [[key.encode("latin-1") for key in keys] for keys in answer.keys]

    def check_transactions(self, check: TransactionCheck) -> None:
        """Return if the task may write in transactions, as far as this check goes.

        Raises:
            NoTransactions: it may not, the worker does not know, or the process is to stop.
        """
        number = next(self._requests)
        question = CheckTransactions(request=number, check=check)
        answer = self._ask(number, question, CHECK_TIMEOUT_S, until_stopping=True)
        if answer is None:
            raise NoTransactions(
                f"the worker wants the task to stop, or gave no answer within {CHECK_TIMEOUT_S:.0f} s"
            )
        assert isinstance(answer, TransactionsChecked)
        if answer.error is not None:
            raise NoTransactions(answer.error)

    def _ask(
        self, number: int, question: Message, timeout_s: float, *, until_stopping: bool = False
    ) -> _Answer | None:
        with self._changed:
            self._asked[number] = None
        self.send(question)
        with self._changed:
            self._changed.wait_for(
                lambda: self._asked[number] is not None or (until_stopping and self._stopping), timeout_s
            )
            return self._asked.pop(number)

    def commit_offsets(self, offsets: Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]]) -> PendingCommit:
        """Ask the worker to store source offsets; the result says when it has."""
        number = next(self._requests)
        pending = PendingCommit(number)
        with self._changed:
            self._commits[number] = pending
        self.send(
            CommitOffsets(request=number, offsets=[(dict(partition), dict(offset)) for partition, offset in offsets])
        )
        return pending

    def await_commit(self, pending: PendingCommit, timeout_s: float) -> bool:
        """Wait for the answer to a commit; returns whether it has come."""
        with self._changed:
            return self._changed.wait_for(lambda: pending.done, max(timeout_s, 0.0))

    def forget_commit(self, pending: PendingCommit) -> None:
        """Stop waiting for the answer to a commit."""
        with self._changed:
            self._commits.pop(pending.number, None)

    def _receive(self) -> None:
        next_tick_s = time.monotonic() + TICK_INTERVAL_S
        try:
            while True:
                message = self._channel.receive(max(next_tick_s - time.monotonic(), 0.0))
                if message is not None:
                    self._handle(message)
                if time.monotonic() >= next_tick_s:
                    next_tick_s = time.monotonic() + TICK_INTERVAL_S
                    if self._on_tick is not None:
                        self._on_tick()
        except ChannelClosed:
            self._end(EXIT_ORPHANED)
        except BaseException:
            log.exception("cannot understand the worker any more")
            self._end(EXIT_ORPHANED)
            raise

    def _handle(self, message: ToProcess) -> None:
        with self._changed:
            match message:
                case Lease():
                    self._leased_until_s = max(message.until_s, self._leased_until_s)
                case SetPaused():
                    self._paused = message.paused
                case Stop():
                    self._stopping = True
                case OffsetsRead() | OffsetKeysRead() | TransactionsChecked():
                    if message.request in self._asked:
                        self._asked[message.request] = message
                case OffsetsCommitted():
                    if (pending := self._commits.pop(message.request, None)) is not None:
                        pending.error = message.error
                        pending.done = True
                case SetLogLevel():
                    set_log_level(message.logger, message.level)
                case _:
                    log.warning("the worker sent a %s, which comes too late", type(message).__name__)
            self._changes += 1
            self._changed.notify_all()


def set_log_level(logger: str, level: str) -> None:
    """Log from this level in a logger and those below it; ``root`` is all of them."""
    number = logging.getLevelNamesMapping().get(level.upper())
    if number is None:
        log.warning("there is no log level %r", level)
        return
    logging.getLogger("" if logger == "root" else logger).setLevel(number)
