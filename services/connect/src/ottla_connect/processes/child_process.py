"""One process of a connector or task, as the worker sees it, from its start to its end.

It ends by itself, by a signal, or because the worker has it killed: for its memory, for garbage on its channel, for
messages that it does not read, or because it does not end when it should. The first reason counts.
"""

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress

from ottla_connect.processes.channel import Channel
from ottla_connect.processes.exits import Exit, ProcessLimits, exit_reason, memory_reason
from ottla_connect.processes.memory import ProcessMemory
from ottla_connect.processes.messages import Answer, Failed, FromProcess, Message, Stop, Stopped
from ottla_connect.processes.output_lines import OutputLine
from ottla_connect.processes.output_reader import OutputReader
from ottla_connect.processes.process_logs import LineRing

END_WITHIN_S = 5.0
"""After it said that it has failed or stopped, or has closed its channel."""
READ_WITHIN_S = 30.0
LAST_LINES = 40


class ChildProcess:
    """A running process.

    Attributes:
        pid: its process id; 0 until it has started.
        memory_bytes: what it used when that was last looked at; None if its memory is not limited.
    """

    def __init__(
        self,
        limits: ProcessLimits,
        *,
        on_message: Callable[[FromProcess], None],
        on_exit: Callable[[Exit], None],
        request_kill: Callable[[], None],
        keep_line: Callable[[OutputLine], None],
    ) -> None:
        self.pid = 0
        self.memory_bytes: int | None = None
        self._limits = limits
        self._on_message = on_message
        self._on_exit = on_exit
        self._request_kill = request_kill
        self._keep_line = keep_line
        self._channel: Channel | None = None
        self._output: OutputReader | None = None
        self._memory: ProcessMemory | None = None
        self._last_lines = LineRing(lines_max=LAST_LINES)
        self._last_word: str | None = None
        self._killed_because: str | None = None
        self._killed_for_memory: int | None = None
        self._end_by_s: float | None = None
        self._read_by_s: float | None = None
        self._sent_bytes_before = 0
        self._gone: asyncio.Future[Exit] = asyncio.get_running_loop().create_future()

    # What its owner may do.

    def send(self, message: Message) -> None:
        """Send a message without waiting; it is lost if the process has ended."""
        if self._channel is not None:
            self._channel.send(message)

    async def stop(self, grace_s: float) -> None:
        """Ask it to stop, kill it if it has not ended after so many seconds, and return when it has gone."""
        self.send(Stop())
        with suppress(TimeoutError):
            async with asyncio.timeout(grace_s):
                await asyncio.shield(self._gone)
        if not self._gone.done():
            self.kill_because(f"did not stop within {grace_s:g} s")
        await asyncio.shield(self._gone)

    async def gone(self) -> None:
        """Return when it has ended."""
        await asyncio.shield(self._gone)

    def kill(self) -> None:
        """Have it killed."""
        self.kill_because("killed by its worker")

    # What the host does with it.

    def attach(self, channel: Channel, output: OutputReader) -> None:
        """Connect it."""
        self._channel = channel
        self._output = output

    def started(self, pid: int) -> None:
        """Learn that it runs."""
        self.pid = pid
        if self._output is not None:
            self._output.tag(pid=pid)
        if self._limits.memory_bytes:
            self._memory = ProcessMemory(pid)

    def open(self) -> None:
        """Begin to read its messages."""
        if self._channel is not None and not self._gone.done():
            self._channel.open()

    def received(self, message: FromProcess) -> None:
        """Take a message of the process."""
        if isinstance(message, Failed):
            self._last_word = "failed"
        elif isinstance(message, Stopped):
            self._last_word = "stopped"
        elif isinstance(message, Answer):
            self._last_word = "answered"
        self._on_message(message)

    def keep(self, line: OutputLine) -> None:
        """Keep a line of its output."""
        now_s = time.time()
        for text in line.texts():
            self._last_lines.add(now_s, text)
        self._keep_line(line)

    def kill_because(self, reason: str) -> None:
        """Have it killed for this reason, unless there already was one."""
        if self._killed_because is None and not self._gone.done():
            self._killed_because = reason
            self._request_kill()

    def check(self, awake_s: float) -> None:
        """Kill it if it uses too much memory, does not read, or should have ended.

        Args:
            awake_s: seconds on a clock that stands while this worker does not run, lest a pause of the worker count
                against its processes.
        """
        if self._memory is not None and (used := self._memory.used_bytes()) is not None:
            self.memory_bytes = used
            if used > self._limits.memory_bytes and self._killed_because is None:
                self._killed_for_memory = used
                self.kill_because(memory_reason(used, self._limits.memory_bytes))
        if self._channel is not None:
            self._check_end(self._channel, awake_s)
            self._check_reading(self._channel, awake_s)

    def ended(self, exit_code: int | None, signal: int | None) -> None:
        """Learn that it has ended: take what it has left behind, and tell its owner."""
        if self._gone.done():
            return
        try:
            self._take_what_is_left()
        finally:  # also if its owner cannot handle its last message
            end = Exit(
                exit_code=exit_code,
                signal=signal,
                memory_bytes=self._killed_for_memory,
                reason=self._killed_because or exit_reason(exit_code, signal, last_word=self._last_word),
                last_lines=self._last_lines.texts(LAST_LINES),
            )
            self._gone.set_result(end)
            self._on_exit(end)

    @property
    def has_closed_channel(self) -> bool:
        """Whether nothing more can come from it, usually because it has ended."""
        return self._channel is None or self._channel.is_closed

    def _take_what_is_left(self) -> None:
        if self._memory is not None:
            self._memory.close()
            self._memory = None
        if self._output is not None:
            self._output.close()
        if self._channel is not None:
            self._channel.close()

    def _check_end(self, channel: Channel, awake_s: float) -> None:
        if self._last_word is None and not channel.is_closed:
            return
        if self._end_by_s is None:
            self._end_by_s = awake_s + END_WITHIN_S
        elif awake_s > self._end_by_s:
            done = f"had {self._last_word}" if self._last_word else "had closed its channel"
            self.kill_because(f"did not end within {END_WITHIN_S:g} s after it {done}")

    def _check_reading(self, channel: Channel, awake_s: float) -> None:
        has_read = channel.sent_bytes != self._sent_bytes_before
        self._sent_bytes_before = channel.sent_bytes
        if not channel.unsent_bytes:
            self._read_by_s = None
        elif self._read_by_s is None or has_read:
            self._read_by_s = awake_s + READ_WITHIN_S
        elif awake_s > self._read_by_s:
            self.kill_because(f"has not read messages for {READ_WITHIN_S:g} s")
