"""Reads what a process writes to its standard output and error, and passes it on to the worker's log.

The last lines are kept as they come. Passing lines on costs more than reading them; so a process that writes more
than its budget is not read for a while, and waits in its turn when the pipe is full. No flood keeps the worker from
its other work.
"""

import asyncio
import os
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import structlog

from ottla_connect.processes.line_budget import LineBudget
from ottla_connect.processes.output_lines import LineSplitter, OutputLine, parse_line

READ_SIZE = 8 * 1024
LINES_PER_SECOND = 2000.0
LINES_BURST = 500
PAUSE_MIN_S = 0.05
DRAIN_BYTES_MAX = 1024 * 1024
DRAIN_LINES_MAX = 100

_log_everything = structlog.make_filtering_bound_logger(0)


class OutputReader:
    """Reads one pipe until it is closed."""

    def __init__(
        self, pipe: int, *, keep: Callable[[OutputLine], None], shared: LineBudget, tags: dict[str, Any]
    ) -> None:
        """Begin to read.

        Args:
            pipe: the descriptor of a pipe's reading end, which this takes over.
            keep: called with every line.
            shared: the budget of all processes together.
            tags: what the log's lines are marked with.
        """
        os.set_blocking(pipe, False)
        self._pipe = pipe
        self._keep = keep
        self._budgets: Sequence[LineBudget] = (LineBudget(per_second=LINES_PER_SECOND, burst=LINES_BURST), shared)
        # The process's own loggers have decided what is worth a line.
        self._log = structlog.wrap_logger(None, wrapper_class=_log_everything, **tags)
        self._loop = asyncio.get_running_loop()
        self._splitter = LineSplitter()
        self._waiting: deque[OutputLine] = deque()
        self._pause: asyncio.TimerHandle | None = None
        self._has_ended = False
        self._loop.add_reader(pipe, self._on_readable)

    def tag(self, **tags: Any) -> None:
        """Mark further lines with these, too."""
        self._log = self._log.bind(**tags)

    def close(self) -> None:
        """Read what is left in the pipe, and close it; of a flood only the end is logged."""
        drained = 0
        while not self._has_ended and drained < DRAIN_BYTES_MAX and (size := self._read()):
            drained += size
        self._take(self._splitter.flush())
        if self._pause is not None:
            self._pause.cancel()
        self._loop.remove_reader(self._pipe)
        os.close(self._pipe)
        left_out = max(0, len(self._waiting) - DRAIN_LINES_MAX)
        if left_out:
            self._log.warning("more lines than are logged", lines=left_out)
        for line in list(self._waiting)[left_out:]:
            self._write(line)
        self._waiting.clear()

    def _on_readable(self) -> None:
        self._read()
        self._pass_on()

    def _read(self) -> int:
        try:
            output = os.read(self._pipe, READ_SIZE)
        except BlockingIOError:
            return 0
        if not output:
            self._has_ended = True
            self._loop.remove_reader(self._pipe)
        self._take(self._splitter.feed(output))
        return len(output)

    def _take(self, lines: Iterable[bytes]) -> None:
        for each in lines:
            line = parse_line(each)
            self._keep(line)
            self._waiting.append(line)

    def _pass_on(self) -> None:
        """Log what the budgets allow; if that is not all, read no more until they do."""
        was_paused, self._pause = self._pause is not None, None
        now_s = time.monotonic()
        while self._waiting:
            wait_s = max(each.wait_s(now_s) for each in self._budgets)
            if wait_s > 0:
                self._loop.remove_reader(self._pipe)
                self._pause = self._loop.call_later(max(wait_s, PAUSE_MIN_S), self._pass_on)
                return
            for each in self._budgets:
                each.take()
            self._write(self._waiting.popleft())
        if was_paused and not self._has_ended:
            self._loop.add_reader(self._pipe, self._on_readable)

    def _write(self, line: OutputLine) -> None:
        more = {"logger": line.logger} if line.logger else {}
        if line.trace:
            more["trace"] = line.trace
        getattr(self._log, line.level)(line.message, **more)
