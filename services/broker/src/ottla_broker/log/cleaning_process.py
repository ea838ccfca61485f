"""The broker's side of a cleaning process: starting it, giving it jobs, reading its results, ending it."""

import asyncio
import sys
from collections.abc import AsyncIterator
from typing import Final

from ottla_broker.log.cleaning_answers import CleaningEnded, decode_answer
from ottla_broker.log.segment_cleaning import CleanedSegment, CleaningJob, MappedKeys

_WORKER_MODULE: Final = "ottla_broker.log.cleaning_worker"


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
    """A running process; it does one job at a time."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    @classmethod
    async def start(cls) -> "CleaningProcess":
        """Start a process; raises OSError."""
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", _WORKER_MODULE, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
        )
        return cls(process)

    @property
    def pid(self) -> int:
        """The process's id."""
        return self._process.pid

    async def run(self, job: CleaningJob) -> AsyncIterator[MappedKeys | CleanedSegment]:
        """Have a job done and yield its results as they come.

        Raises:
            CleaningFailed: it could not be done, or the process ended.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(job.to_json().encode() + b"\n")
            await self._process.stdin.drain()
        except ConnectionError:
            raise CleaningFailed("the cleaning process has ended") from None
        while line := await self._process.stdout.readline():
            answer = decode_answer(line)
            if not isinstance(answer, CleaningEnded):
                yield answer
            elif answer.problem is not None:
                raise CleaningFailed(answer.problem, is_permanent=answer.is_permanent)
            else:
                return
        raise CleaningFailed(f"the cleaning process ended with exit code {await self._process.wait()}")

    def kill(self) -> None:
        """End the process at once; `close` waits for it."""
        if self._process.returncode is None:
            self._process.kill()

    async def close(self) -> None:
        """End the process and return when it is gone."""
        self.kill()
        await self._process.wait()
