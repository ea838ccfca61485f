"""Connect workers that run nothing but their membership, each in a thread with an event loop of its own.

What a worker would run is only noted, together with the lease, so that a test can ask at any time who works on what:
`running` is empty when the lease is over, as it is in a real worker, whose tasks stop by themselves then. Freezing
blocks the event loop, as SIGSTOP does; killing closes the connections without a word.
"""

import asyncio
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from typing import Any

from ottla_connect.config import WorkerConfig
from ottla_connect.group.membership import Assignment, GroupView, Membership, Revoked
from ottla_connect.group.work import NO_WORK, Work, union

CLOSE_DEADLINE_S = 10.0


class GroupWorker:
    """One worker of a group; its methods are for the test's thread.

    Attributes:
        url: its REST API's, which it has not.
        work: what it runs, as far as its lease allows it.
        assignments: all that it was told.
        losses: how often it was told that the membership is lost.
        lease_s: until when (CLOCK_MONOTONIC) its tasks may work.
    """

    def __init__(self, url: str, settings: Mapping[str, str], connectors: Mapping[str, int]):
        self.url = url
        self.work = NO_WORK
        self.assignments: list[Assignment] = []
        self.losses = 0
        self._view = GroupView(0, dict(connectors))
        self.lease_s = 0.0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=url, daemon=True)
        self._thread.start()
        self._membership = self._call(self._start(WorkerConfig.parse(settings)))

    @property
    def running(self) -> Work:
        """What it works on at this moment."""
        work = self.work
        return work if time.monotonic() < self.lease_s else NO_WORK

    @property
    def assignment(self) -> Assignment | None:
        assignment: Assignment | None = self._membership.assignment
        return assignment

    @property
    def failure(self) -> BaseException | None:
        """Why its membership ended, if it has."""
        return self._membership.failed.exception() if self._membership.failed.done() else None

    def configure(self, connectors: Mapping[str, int]) -> None:
        """Lets it read another configuration, and ask for a rebalance, as a herder does."""
        self._view = GroupView(self._view.config_offset + 1, dict(connectors))
        self._loop.call_soon_threadsafe(self._membership.request_rejoin, "the connectors have changed")

    def freeze(self, duration_s: float) -> None:
        """Holds up its event loop, as a process that the system does not let run."""
        self._loop.call_soon_threadsafe(time.sleep, duration_s)  # how long it is silent is what is tried

    def kill(self) -> None:
        """Ends it as SIGKILL would: the coordinator sees no LeaveGroup."""
        self.work = NO_WORK
        self._call(self._vanish())
        self._end()

    def close(self) -> None:
        """Leaves the group."""
        self.work = NO_WORK
        if self._thread.is_alive():
            self._call(self._membership.close())
            self._end()

    async def _start(self, settings: WorkerConfig) -> Membership:
        membership = Membership(
            settings,
            url=self.url,
            view=lambda: self._view,
            on_assigned=self._take,
            on_lost=self._lose,
            on_lease=self._keep,
        )
        await membership.start()
        return membership

    async def _vanish(self) -> None:
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._membership._client.forget()

    async def _take(self, assignment: Assignment, revoked: Revoked) -> None:
        self.work = assignment.work
        self.assignments.append(assignment)

    async def _lose(self) -> None:
        self.work = NO_WORK
        self.losses += 1

    def _keep(self, until_s: float) -> None:
        self.lease_s = until_s

    def _call(self, coroutine: Any) -> Any:
        future: Future[Any] = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        return future.result(CLOSE_DEADLINE_S)

    def _end(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(CLOSE_DEADLINE_S)
        self._loop.close()


class Watch:
    """Looks all the time whether something runs on two workers.

    Attributes:
        shared: what was seen to; it should stay empty.
    """

    def __init__(self, workers: Callable[[], Iterable[GroupWorker]], *, interval_s: float = 0.005):
        self.shared = NO_WORK
        self._workers = workers
        self._interval_s = interval_s
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> "Watch":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        assert not self.shared, f"{self.shared} ran on two workers"

    def _look(self) -> None:
        while not self._stop.wait(self._interval_s):
            seen = NO_WORK
            for worker in list(self._workers()):
                running = worker.running
                self.shared |= seen & running
                seen |= running


def is_even(workers: Iterable[GroupWorker], connectors: Mapping[str, int]) -> bool:
    """Whether the workers run everything, and nobody runs more than one more of either kind than anybody else."""
    works = [worker.running for worker in workers]
    loads = ([len(work.connectors) for work in works], [len(work.tasks) for work in works])
    all_run = union(works) == GroupView(0, connectors).work
    return all_run and all(max(counts) - min(counts) <= 1 for counts in loads)
