"""Plans of moves that were shown, and those that the console carries out: one at a time in a cluster.

A movement outlasts the page that began it, and the user's session, so it has a thread and connections of its own,
made with the credentials of whoever began it. When the console ends, what is being moved is cancelled: each partition
is then where it was or where it shall be, and throttles are gone.
"""

import hashlib
import threading
import time
from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

import structlog

from ottla_console.clusters.cluster_kit import ClusterKit
from ottla_core.background import note_failure, start_thread
from ottla_core.topic_partition import TopicPartition
from ottla_operations.cluster.cluster_view import Replicas
from ottla_operations.cluster.movement import AT_ONCE, Movement, Result
from ottla_operations.cluster.movement_plan import MovementPlan, check_still_fits
from ottla_operations.errors import OperationError

PLANS_MAX: Final = 16
PARALLEL: Final = 10
"""How many partitions are copied at once."""
END_WITHIN_S: Final = 10.0

log = structlog.get_logger("movements")


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How far a movement is.

    Attributes:
        title: what it does, such as ``Decommissioning broker 3``.
        user: who began it; empty where nobody signs in.
        partitions, moved: how many are to be moved, and were.
        copied_bytes, size_bytes: how much was copied, and of how much in all.
        interrupts: 0, or how it was asked to end: `ORDERLY` or `AT_ONCE`, of `ottla_operations.cluster.movement`.
        result: how it ended; None while it goes on.
        problem: why it ended early, or what is left to be done by a person; None if nothing is.
        began_s: when it began, in seconds since 1970.
    """

    title: str
    user: str
    partitions: int
    moved: int
    copied_bytes: int
    size_bytes: int
    interrupts: int
    result: Result | None
    problem: str | None
    began_s: float


class RunningMovement:
    """A plan that is being carried out in a thread.

    Args:
        kit: the connections of whoever began it.
        plan: what is carried out.
        title: in words.
        bytes_per_second: the most that a broker copies; None for no limit.
    """

    def __init__(self, kit: ClusterKit, plan: MovementPlan, title: str, bytes_per_second: int | None) -> None:
        self._kit = kit
        self._plan = plan
        self._title = title
        self._bytes_per_second = bytes_per_second
        self._size_bytes = plan.summary().copied_bytes
        self._began_s = time.time()
        self._changed = threading.Condition()
        self._moved = 0
        self._copied_bytes = 0
        self._problem: str | None = None
        self._result: Result | None = None
        self.count = 0
        self._thread: threading.Thread | None = None

    @property
    def is_going_on(self) -> bool:
        """Whether it has not ended."""
        return self._result is None

    def start(self) -> None:
        """Begin."""
        self._thread = start_thread("movement of replicas", self._run)

    def standing(self) -> Standing:
        """Return how far it is."""
        with self._changed:
            return Standing(
                title=self._title,
                user=self._kit.user,
                partitions=len(self._plan.targets),
                moved=self._moved,
                copied_bytes=self._copied_bytes,
                size_bytes=self._size_bytes,
                interrupts=self.count,
                result=self._result,
                problem=self._problem,
                began_s=self._began_s,
            )

    def interrupt(self, kind: int) -> None:
        """Have it begin no more (`ORDERLY`), or cancel what is being moved as well (`AT_ONCE`)."""
        with self._changed:
            self.count = max(self.count, kind)
            self._changed.notify_all()

    def join(self, within_s: float) -> None:
        """Wait until it has ended."""
        if self._thread is not None:
            self._thread.join(within_s)

    def wait(self, duration_s: float) -> None:
        """Wait, but not on after an interrupt; as `Movement` needs it."""
        with self._changed:
            count = self.count
            self._changed.wait_for(lambda: self.count != count, duration_s)

    def copied(self, size_bytes: int) -> None:
        """Note how many bytes were copied in all."""
        with self._changed:
            self._copied_bytes = size_bytes

    def moved(self, name: TopicPartition, replicas: Replicas, done: int) -> None:
        """Note that one more has arrived."""
        with self._changed:
            self._moved = done

    def finishing(self, partitions: int) -> None:
        """Is seen by `interrupts`."""

    def cancelling(self) -> None:
        """Is seen by `interrupts`."""

    def warned(self, message: str) -> None:
        """Note what a person has to see to."""
        with self._changed:
            self._problem = message

    def _run(self) -> None:
        result, problem = Result(), None
        try:
            with self._kit.cluster_admin() as admin:
                plan = self._plan
                movement = Movement(admin, plan.view, plan.targets, plan.sizes, parallel=PARALLEL)
                result = movement.result
                movement.run(self, self, bytes_per_second=self._bytes_per_second)
        except OperationError as error:
            problem = str(error)
        except Exception as error:  # noqa: BLE001 - whoever looks at its page has to learn that it has ended
            note_failure("movement of replicas", error, cluster=self._kit.settings.name)
            problem = "it failed unexpectedly; the console's log says why"
        with self._changed:
            self._problem = ". ".join(each for each in (problem, self._problem) if each) or None
            self._result = result
        log.info(
            "a movement has ended",
            cluster=self._kit.settings.name,
            user=self._kit.user,
            title=self._title,
            moved=len(result.moved),
            failed=len(result.failed),
            problem=self._problem,
        )


class Movements:
    """The plans that were shown, and each cluster's movement: the one that goes on, or else the last one."""

    def __init__(self) -> None:
        self._plans: OrderedDict[tuple[str, str], MovementPlan] = OrderedDict()
        self._running: dict[str, RunningMovement] = {}
        self._lock = threading.Lock()

    def keep(self, cluster: str, plan: MovementPlan) -> str:
        """Keep a plan that is shown; return what it is asked for by."""
        told = repr([(*name, plan.view.partitions[name].replicas, to) for name, to in sorted(plan.targets.items())])
        digest = hashlib.sha256(told.encode("utf-8", "backslashreplace")).hexdigest()
        with self._lock:
            self._plans[cluster, digest] = plan
            self._plans.move_to_end((cluster, digest))
            while len(self._plans) > PLANS_MAX:
                self._plans.popitem(last=False)
        return digest

    def begin(self, kit: ClusterKit, digest: str, title: str, bytes_per_second: int | None) -> RunningMovement:
        """Carry out a plan that was shown; in a thread.

        Raises:
            OperationError: it is not kept any more, or does not fit any more, or something else is being moved.
        """
        cluster = kit.settings.name
        with self._lock:
            plan = self._plans.get((cluster, digest))
        if plan is None:
            raise OperationError("nothing was moved: the plan is not kept any more; look at it again")
        with kit.cluster_admin() as admin:
            check_still_fits(admin, plan)
        with self._lock:
            former = self._running.get(cluster)
            if former is not None and former.is_going_on:
                raise OperationError("nothing was moved: the console is carrying out another plan in this cluster")
            self._running[cluster] = running = RunningMovement(kit, plan, title, bytes_per_second)
            running.start()
        return running

    def of(self, cluster: str) -> RunningMovement | None:
        """Return the movement of a cluster: the one that goes on, or else the last one."""
        return self._running.get(cluster)

    def close(self) -> None:
        """Cancel what is being moved, and wait for it."""
        going_on = [each for each in self._running.values() if each.is_going_on]
        for each in going_on:
            each.interrupt(AT_ONCE)
        until_s = time.monotonic() + END_WITHIN_S
        for each in going_on:
            each.join(max(0.0, until_s - time.monotonic()))
