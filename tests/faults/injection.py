"""Letting faults happen to a cluster when their time comes, and undoing them.

Everything happens in the calling thread, one step after the other: a process must be started by a thread that lives
as long as the trial (it is killed with the thread that started it), and steps that race would not repeat.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from tests.faults import faulty_disk
from tests.faults.cluster import faketime_library
from tests.faults.cluster_process import ClusterProcess
from tests.faults.fault import BROKER, DISK_FAULTS, MIRROR_OPERATIONS, OPERATIONS, Fault, Kind, role_of
from tests.faults.hostility import HostileClients
from tests.faults.network import Network
from tests.faults.schedule import Schedule

LOOK_INTERVAL_S = 0.05
DISK_MODES = {
    Kind.SLOW_DISK: faulty_disk.SLOW,
    Kind.BROKEN_DISK: faulty_disk.BROKEN,
    Kind.UNSYNCED_DISK: faulty_disk.UNSYNCED,
    Kind.STALLED_DISK: faulty_disk.STALLED,
    Kind.REFUSING_DISK: faulty_disk.REFUSED,
    Kind.NO_DESCRIPTORS: faulty_disk.NO_DESCRIPTORS,
}

Tell = Callable[[str], None]


class Victims(Protocol):
    """What faults happen to: a `Cluster`, or several with what runs beside them."""

    @property
    def processes(self) -> Mapping[str, ClusterProcess]:
        """All processes by name."""

    def look(self) -> None:
        """See `Cluster.look`."""

    def wipe(self, broker: str) -> None:
        """See `Cluster.wipe`."""

    def fill_disk(self, broker: str) -> None:
        """See `Cluster.fill_disk`."""

    def empty_disk(self, broker: str) -> None:
        """See `Cluster.empty_disk`."""

    def trouble_disk(self, broker: str, mode: str) -> None:
        """See `Cluster.trouble_disk`."""

    def drop_unsynced(self, broker: str) -> int:
        """See `Cluster.drop_unsynced`."""

    def set_clock(self, name: str, jump_s: int) -> None:
        """See `Cluster.set_clock`."""


class OperatorsAtWork(Protocol):
    """Who carries out operations."""

    def begin(self, fault: Fault) -> None:
        """Begins an operation."""

    def end(self, fault: Fault) -> None:
        """Undoes it."""

    def note_crash(self, now_s: float) -> None:
        """A broker was killed."""


@dataclass(frozen=True, slots=True)
class Step:
    """The beginning or the end of a fault."""

    at_s: float
    fault: Fault
    is_end: bool


def steps_of(schedule: Schedule) -> list[Step]:
    """All beginnings and ends in the order of time."""
    steps = [Step(fault.from_s, fault, is_end=False) for fault in schedule.faults]
    steps += [Step(fault.until_s, fault, is_end=True) for fault in schedule.faults]
    return sorted(steps, key=lambda step: (step.at_s, step.is_end))


def possible_kinds(network: Network, *, is_root: bool) -> frozenset[Kind]:
    """What this machine lets happen."""
    kinds = {Kind.KILL, Kind.STOP, Kind.PAUSE, Kind.WIPE, Kind.HOSTILE, *DISK_FAULTS, *OPERATIONS}
    if network.can_fail:
        kinds |= {Kind.CUT, Kind.SLOW}
    if is_root:
        kinds.add(Kind.FULL_DISK)
    if faketime_library() is not None:
        kinds.add(Kind.CLOCK)
    return frozenset(kinds)


class Injector:
    """Carries out schedules.

    Attributes:
        begun_s: when the last schedule began, by the monotonic clock.
    """

    def __init__(
        self,
        cluster: Victims,
        network: Network,
        operators: OperatorsAtWork,
        hostile: HostileClients | None,
        tell: Tell,
    ) -> None:
        self._cluster = cluster
        self._network = network
        self._operators = operators
        self._hostile = hostile
        self._tell = tell
        self.begun_s = time.monotonic()

    def carry_out(self, schedule: Schedule, look: Callable[[], None]) -> None:
        """Lets every fault happen and undoes it; returns when the schedule's time is over.

        Args:
            schedule: what shall happen.
            look: called again and again; it may raise to end the trial.
        """
        self.begun_s = time.monotonic()
        for step in steps_of(schedule):
            self._wait_until(step.at_s, look)
            self._tell(
                f"{time.monotonic() - self.begun_s:6.1f} s {'end of' if step.is_end else 'begin'} {step.fault}"
            )
            if step.fault.kind in OPERATIONS | MIRROR_OPERATIONS:
                self._change_links(step)
                (self._operators.end if step.is_end else self._operators.begin)(step.fault)
            else:
                (self._undo if step.is_end else self._let_happen)(step.fault)
        self._wait_until(schedule.seconds, look)

    def _change_links(self, step: Step) -> None:
        """Some operations have links cut while they last."""
        if step.fault.links:
            (self._network.mend if step.is_end else self._network.cut)(step.fault.links)

    def _wait_until(self, at_s: float, look: Callable[[], None]) -> None:
        while True:
            self._cluster.look()
            look()
            left_s = self.begun_s + at_s - time.monotonic()
            if left_s <= 0:
                return
            time.sleep(min(left_s, LOOK_INTERVAL_S))  # between two looks, until the moment that the schedule names

    def _let_happen(self, fault: Fault) -> None:
        processes = [self._cluster.processes[name] for name in fault.targets if name in self._cluster.processes]
        match fault.kind:
            case Kind.KILL:
                self._kill(processes)
            case Kind.WIPE:
                self._kill(processes)
                for process in processes:
                    self._cluster.wipe(process.name)
            case Kind.STOP:
                for process in processes:
                    process.begin_stop()
            case Kind.PAUSE:
                for process in processes:
                    process.pause()
            case Kind.CUT:
                self._network.cut(fault.links)
            case Kind.SLOW:
                for name in fault.targets:
                    self._network.slow_down(name, fault.rate_kbit)
            case Kind.FULL_DISK:
                for name in fault.targets:
                    self._cluster.fill_disk(name)
            case kind if kind in DISK_MODES:
                for name in fault.targets:
                    self._cluster.trouble_disk(name, f"{DISK_MODES[kind]} {fault.wanted or fault.jump_s}")
            case Kind.CLOCK:
                for name in fault.targets:
                    self._cluster.set_clock(name, fault.jump_s)
            case Kind.HOSTILE:
                assert self._hostile is not None
                self._hostile.begin(fault)

    def _kill(self, processes: Sequence[ClusterProcess]) -> None:
        for process in processes:
            process.kill()
            if role_of(process.name) == BROKER:
                self._operators.note_crash(time.monotonic())

    def _undo(self, fault: Fault) -> None:
        processes = [self._cluster.processes[name] for name in fault.targets if name in self._cluster.processes]
        match fault.kind:
            case Kind.KILL | Kind.WIPE | Kind.STOP:
                for process in processes:
                    process.start()
            case Kind.PAUSE:
                for process in processes:
                    process.resume()
            case Kind.CUT:
                self._network.mend(fault.links)
            case Kind.SLOW:
                for name in fault.targets:
                    self._network.speed_up(name)
            case Kind.FULL_DISK:
                for name in fault.targets:
                    self._cluster.empty_disk(name)
            case Kind.BROKEN_DISK | Kind.UNSYNCED_DISK:
                # What a write or fsync has left behind is in doubt, so only a new start ends it.
                self._kill(processes)
                for process in processes:
                    lost_bytes = self._cluster.drop_unsynced(process.name)
                    self._tell(f"{process.name} has lost {lost_bytes} bytes that were not fsynced")
                    self._cluster.trouble_disk(process.name, "")
                    process.start()
            case kind if kind in DISK_MODES:
                for name in fault.targets:
                    self._cluster.trouble_disk(name, "")
            case Kind.CLOCK:
                for name in fault.targets:
                    self._cluster.set_clock(name, 0)
            case Kind.HOSTILE:
                assert self._hostile is not None
                self._hostile.end(fault)
