"""Creating many logs at a time: those that are asked for together share a turn at the checkpoints, and a thread.

A new log costs a handful of short system calls. A turn and a thread for each of a thousand logs would cost several
times as much as the logs themselves, because every call hands the interpreter to and fro. So whatever has been asked
for while one round was under way makes the next one.
"""

import asyncio
from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from ottla_broker.log.background import Background
from ottla_broker.log.directories.directory_checkpoints import DirectoryCheckpoints
from ottla_broker.log.directories.log_creation import create_log
from ottla_broker.log.directories.log_directory import LogDirectory
from ottla_broker.log.loading.log_loading import LoadRequest
from ottla_broker.log.partition.partition_log import PartitionLog
from ottla_core.background import start_awaited

_LOGS_PER_ROUND_MAX: Final = 100

_Outcome = PartitionLog | Exception


@dataclass(frozen=True, slots=True)
class _Wanted:
    """A log that somebody waits for."""

    directory: LogDirectory
    request: LoadRequest
    topic_id: UUID
    created: asyncio.Future[PartitionLog]


class BatchedCreation:
    """Creates the logs of one store, in rounds."""

    def __init__(self, checkpoints: DirectoryCheckpoints, executor: Executor, background: Background) -> None:
        self._checkpoints = checkpoints
        self._executor = executor
        self._background = background
        self._waiting: list[_Wanted] = []
        self._rounds: asyncio.Task[None] | None = None

    async def create(self, directory: LogDirectory, request: LoadRequest, topic_id: UUID) -> PartitionLog:
        """Create a log; checkpoints of the directory say nothing of an older one of its name by then.

        Raises:
            OSError: the disk refuses; nothing of the log is left.
        """
        created: asyncio.Future[PartitionLog] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Wanted(directory, request, topic_id, created))
        if self._rounds is None:
            self._rounds = start_awaited("creation of logs", self._create_all())
        return await created

    async def _create_all(self) -> None:
        try:
            while self._waiting:
                round_ = self._waiting[:_LOGS_PER_ROUND_MAX]
                del self._waiting[:_LOGS_PER_ROUND_MAX]
                for directory in {wanted.directory.path: wanted.directory for wanted in round_}.values():
                    await self._create_in(directory, [wanted for wanted in round_ if wanted.directory is directory])
        finally:
            self._rounds = None

    async def _create_in(self, directory: LogDirectory, round_: Sequence[_Wanted]) -> None:
        outcomes: Sequence[_Outcome]
        try:
            await self._checkpoints.make_room_for(directory, [wanted.request.topic_partition for wanted in round_])
            outcomes = await asyncio.get_running_loop().run_in_executor(
                self._executor, _create_each, round_, self._background
            )
        except Exception as error:  # noqa: BLE001 - it is raised where the logs are waited for
            outcomes = [error] * len(round_)
        for wanted, outcome in zip(round_, outcomes, strict=True):
            if wanted.created.done():
                continue  # nobody waits any more
            if isinstance(outcome, Exception):
                wanted.created.set_exception(outcome)
            else:
                wanted.created.set_result(outcome)


def _create_each(round_: Sequence[_Wanted], background: Background) -> list[_Outcome]:
    """Create one log after the other; one that fails keeps no other from being created."""
    outcomes: list[_Outcome] = []
    for wanted in round_:
        try:
            outcomes.append(create_log(wanted.request, wanted.topic_id, background))
        except Exception as error:  # noqa: BLE001 - it is raised where the log is waited for
            outcomes.append(error)
    return outcomes
