"""Comparisons of a cluster with its source: one at a time for each target, in a thread of its own, with an end."""

import asyncio
import threading
from dataclasses import dataclass
from typing import Final

from ottla_console.clusters.cluster_kit import ClusterKit
from ottla_console.views.verification_view import Found, Wanted, found_of
from ottla_core.background import note_failure, start_thread
from ottla_operations.errors import OperationError
from ottla_operations.mirror.comparing import compared, reader_of
from ottla_operations.mirror.topic_pairs import Naming
from ottla_operations.mirror.verification import Rules

WITHIN_S: Final = 3600.0
AT_ONCE_MAX: Final = 2
"""Comparisons read whole topics and decode them, which pages have to share the processor with."""
END_WITHIN_S: Final = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a comparison is.

    Attributes:
        wanted: what is compared.
        offsets_total: how many offsets of the source are gone through; None until that is known.
        found: the result; None while it goes on, or where it has failed.
        problem: why it has failed or was ended; None else.
    """

    wanted: Wanted
    offsets: int
    offsets_total: int | None
    size_bytes: int
    found: Found | None
    problem: str | None

    @property
    def is_over(self) -> bool:
        """Whether it has ended."""
        return self.found is not None or self.problem is not None


class RunningVerification:
    """A comparison.

    Args:
        source: connections to the cluster that is copied.
        target: connections to its copy.
        wanted: what is compared.
    """

    def __init__(self, source: ClusterKit, target: ClusterKit, wanted: Wanted) -> None:
        self._source = source
        self._target = target
        self._wanted = wanted
        self._lock = threading.Lock()
        self._offsets = self._size_bytes = 0
        self._offsets_total: int | None = None
        self._found: Found | None = None
        self._problem: str | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[Found] | None = None
        self._is_ended = False
        self._thread: threading.Thread | None = None

    @property
    def user(self) -> str:
        """Who has begun it."""
        return self._target.user

    def start(self) -> None:
        """Begin."""
        self._thread = start_thread("comparison of clusters", self._run)

    def progress(self) -> Progress:
        """Return how far it is."""
        with self._lock:
            return Progress(
                wanted=self._wanted,
                offsets=self._offsets,
                offsets_total=self._offsets_total,
                size_bytes=self._size_bytes,
                found=self._found,
                problem=self._problem,
            )

    def end(self) -> None:
        """Have it end."""
        with self._lock:
            self._is_ended = True
            if self._loop is not None and self._task is not None and not self._task.done():
                self._loop.call_soon_threadsafe(self._task.cancel)

    def join(self, within_s: float) -> None:
        """Wait until it has ended."""
        if self._thread is not None:
            self._thread.join(within_s)

    def _run(self) -> None:
        found, problem = None, None
        try:
            found = asyncio.run(self._within_time())
        except asyncio.CancelledError:
            problem = "it was ended before everything was compared"
        except TimeoutError:
            problem = f"it was ended after {WITHIN_S:.0f} s; compare fewer topics at a time"
        except OperationError as error:
            problem = str(error)
        except Exception as error:  # noqa: BLE001 - whoever looks at its page has to learn that it has ended
            note_failure("comparison of clusters", error, cluster=self._target.settings.name)
            problem = "it failed unexpectedly; the console's log says why"
        with self._lock:
            self._loop = self._task = None
            self._found, self._problem = found, problem

    async def _within_time(self) -> Found:
        with self._lock:
            self._loop, self._task = asyncio.get_running_loop(), asyncio.current_task()
            if self._is_ended:
                raise asyncio.CancelledError
        async with asyncio.timeout(WITHIN_S):
            return await self._compared()

    async def _compared(self) -> Found:
        outcomes = await compared(
            reader_of(self._source.settings.bootstrap, self._source.config, "source"),
            reader_of(self._target.settings.bootstrap, self._target.config, "target"),
            self._wanted.patterns,
            Naming(alias=self._wanted.alias or None),
            Rules(is_linked=self._wanted.is_linked),
            begun=self._begun,
            advanced=self._advanced,
        )
        return found_of(outcomes)

    def _begun(self, offsets: int) -> None:
        with self._lock:
            self._offsets_total = offsets

    def _advanced(self, offsets: int, size_bytes: int) -> None:
        with self._lock:
            self._offsets += offsets
            self._size_bytes += size_bytes


class Verifications:
    """The comparison of each target: the one that goes on, or else the last one."""

    def __init__(self) -> None:
        self._running: dict[str, RunningVerification] = {}

    def begin(self, source: ClusterKit, target: ClusterKit, wanted: Wanted) -> None:
        """Begin one.

        Raises:
            OperationError: one goes on in this cluster, or enough elsewhere.
        """
        going_on = [name for name, each in self._running.items() if not each.progress().is_over]
        if target.settings.name in going_on:
            raise OperationError("a comparison of this cluster goes on; wait for it, or end it")
        if len(going_on) >= AT_ONCE_MAX:
            raise OperationError("the console compares enough clusters at the moment; try again later")
        self._running[target.settings.name] = running = RunningVerification(source, target, wanted)
        running.start()

    def of(self, cluster: str) -> RunningVerification | None:
        """Return the comparison of a target."""
        return self._running.get(cluster)

    def close(self) -> None:
        """End all."""
        for each in self._running.values():
            each.end()
        for each in self._running.values():
            each.join(END_WITHIN_S)
