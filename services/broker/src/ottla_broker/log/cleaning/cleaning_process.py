"""The broker's side of a cleaning process: starting it, giving it jobs, reading its results, ending it.

The pipes are written and read by a thread that belongs to the process: there are a few lines per round. It is started
by `subprocess` and not by the event loop, because uvloop forks, which runs gRPC's fork handlers among gRPC's threads,
where `subprocess` does not.
"""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Final, TypeVar

from ottla_broker.log.cleaning.cleaning_answers import CleaningEnded, decode_answer
from ottla_broker.log.compaction.segment_cleaning import CleanedSegment, CleaningJob, MappedKeys

_COMMAND: Final = (sys.executable, "-P", "-m", "ottla_broker.log.cleaning.cleaning_worker")

T = TypeVar("T")


class CleaningFailed(Exception):
    """A job was not done.

    Attributes:
        problem: why.
        is_permanent: it would fail again.
    """

    def __init__(self, problem: str, *, is_permanent: bool = False) -> None:
        super().__init__(problem)
        self.problem = problem
        self.is_permanent = is_permanent


class CleaningProcess:
    """A running process; it does one job at a time.

    Attributes:
        was_ended: it does no further job.
    """

    def __init__(self, thread: ThreadPoolExecutor, process: subprocess.Popen[bytes]) -> None:
        self.was_ended = False
        self._thread = thread
        self._process = process

    @classmethod
    async def start(cls) -> "CleaningProcess":
        """Start a process; raises OSError."""
        thread = ThreadPoolExecutor(1, thread_name_prefix="cleaning process")
        try:
            process = await asyncio.get_running_loop().run_in_executor(thread, _start)
        except OSError:
            thread.shutdown(wait=False)
            raise
        return cls(thread, process)

    @property
    def pid(self) -> int:
        """The process's id."""
        return self._process.pid

    async def run(self, job: CleaningJob) -> AsyncIterator[MappedKeys | CleanedSegment]:
        """Have a job done and yield its results as they come.

        Raises:
            CleaningFailed: it could not be done, or the process ended.
        """
        line = job.to_json().encode() + b"\n"
        try:
            await self._in_thread(lambda: self._write(line))
        except OSError:
            raise CleaningFailed(f"the cleaning process ended with exit code {await self._wait()}") from None
        while answer_line := await self._in_thread(self._read):
            answer = decode_answer(answer_line)
            if not isinstance(answer, CleaningEnded):
                yield answer
            elif answer.problem is not None:
                raise CleaningFailed(answer.problem, is_permanent=answer.is_permanent)
            else:
                return
        raise CleaningFailed(f"the cleaning process ended with exit code {await self._wait()}")

    def _write(self, line: bytes) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line)
        self._process.stdin.flush()

    def _read(self) -> bytes:
        assert self._process.stdout is not None
        return self._process.stdout.readline()

    async def _in_thread(self, call: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, call)

    async def _wait(self) -> int:
        return await self._in_thread(self._process.wait)

    def kill(self) -> None:
        """End the process at once; `close` waits for it."""
        self.was_ended = True
        self._process.kill()

    async def close(self) -> None:
        """End the process and return when it is gone."""
        self.kill()
        await self._wait()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            with suppress(OSError):  # a line that nobody has read
                pipe.close()
        self._thread.shutdown(wait=False)


def _start() -> subprocess.Popen[bytes]:
    # Ctrl-C at a terminal goes to the broker alone, which ends this process when it stops.
    return subprocess.Popen(_COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, process_group=0)
