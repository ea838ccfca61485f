"""Carrying out a plan: a few partitions at a time, until all are where they shall be or somebody interrupts.

The cluster itself moves a partition once it was asked to; here it is asked for the next one when one is done. So at
any moment every partition is where it was, where it shall be, or one of the few that are being moved. After a first
Ctrl-C nothing more is begun and those few are waited for; after a second one they are cancelled, which takes them
back to where they were. The throttles are taken away at the end in every case.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol

from ottla_core.topic_partition import TopicPartition
from ottla_operations.cluster.cluster_view import (
    BrokerView,
    ClusterView,
    ConfigChange,
    Disks,
    Move,
    Outcomes,
    Replicas,
)
from ottla_operations.cluster.throttles import involved_brokers, throttle_removal, throttle_settings
from ottla_operations.errors import OperationError

POLL_S = 0.5
ORDERLY, AT_ONCE = 1, 2
"""How many interrupts ask for which end."""
REQUEST_PARTITIONS_MAX = 1000
POLLS_UNTIL_LOST = 20
"""How often a partition may be neither moving nor where it shall be, as brokers learn of both a little later."""
ELECTION_POLLS = 20


class Admin(Protocol):
    """What of `ClusterAdmin` is needed."""

    def view(self) -> ClusterView: ...  # noqa: D102
    def moves(self) -> Mapping[TopicPartition, Move]: ...  # noqa: D102
    def disks(self, brokers: Iterable[BrokerView]) -> Disks: ...  # noqa: D102
    def reassign(self, targets: Mapping[TopicPartition, Replicas | None]) -> Outcomes: ...  # noqa: D102
    def elect_leaders(self, names: Sequence[TopicPartition]) -> Outcomes: ...  # noqa: D102
    def alter_configs(self, changes: Iterable[ConfigChange]) -> None: ...  # noqa: D102


class Waiting(Protocol):
    """Waits, and counts interrupts.

    Attributes:
        count: how many came: `ORDERLY`, `AT_ONCE`.
    """

    count: int

    def wait(self, duration_s: float) -> None: ...  # noqa: D102


class Progress(Protocol):
    """Who is told how far a movement is."""

    def copied(self, size_bytes: int) -> None:
        """So many bytes have been copied in all."""

    def moved(self, name: TopicPartition, replicas: Replicas, done: int) -> None:
        """A partition has arrived, the so manieth one."""

    def finishing(self, partitions: int) -> None:
        """A first interrupt was heard: so many partitions are on the way, and are waited for."""

    def cancelling(self) -> None:
        """A second interrupt was heard."""

    def warned(self, message: str) -> None:
        """Something was left undone that a person has to see to."""


@dataclass(slots=True)
class Result:
    """How a plan ended.

    Attributes:
        moved: partitions that are where they shall be.
        failed: why others are not.
        cancelled: partitions whose move was undone.
        not_begun: partitions that an interrupt came before.
    """

    moved: list[TopicPartition] = field(default_factory=list)
    failed: dict[TopicPartition, str] = field(default_factory=dict)
    cancelled: list[TopicPartition] = field(default_factory=list)
    not_begun: list[TopicPartition] = field(default_factory=list)


class Movement:
    """A plan that is being carried out.

    Args:
        admin: the cluster.
        view: the cluster before.
        targets: the replicas that partitions are to get.
        sizes: bytes of one copy of each partition.
        parallel: how many partitions may move at once.
    """

    def __init__(
        self,
        admin: Admin,
        view: ClusterView,
        targets: Mapping[TopicPartition, Replicas],
        sizes: Mapping[TopicPartition, int],
        *,
        parallel: int,
    ) -> None:
        self._admin = admin
        self._before = {name: view.partitions[name].replicas for name in targets}
        self._brokers = view.brokers
        self._targets = targets
        self._sizes = sizes
        self._parallel = parallel
        # What only changes the order of replicas copies nothing, so it does not have to take turns.
        self._waiting = deque(sorted(targets, key=lambda name: (bool(self._added(name)), name)))
        self._moving: dict[TopicPartition, int] = {}  # and how often it was found neither moving nor moved
        self._copied_bytes = 0
        self._told_bytes = 0
        self.result = Result()

    def run(self, interrupts: Waiting, progress: Progress, *, bytes_per_second: int | None = None) -> Result:
        """Move everything, with or without a throttle, and have the preferred leaders elected.

        Raises:
            OperationError: the cluster cannot be reached any more.
        """
        with self._throttled(bytes_per_second, progress):
            heard = 0
            while self._moving or (self._waiting and not interrupts.count):
                if not interrupts.count:
                    self._begin_more()
                elif interrupts.count > heard:
                    heard = interrupts.count
                    self._heed(heard, progress)
                has_news = self._settle(progress)
                if self._moving and not has_news:
                    self._measure(progress)
                    interrupts.wait(POLL_S)
        self.result.not_begun = list(self._waiting)
        self._elect_preferred(interrupts)
        return self.result

    def _begin_more(self) -> None:
        copying = sum(1 for name in self._moving if self._added(name))
        names: list[TopicPartition] = []
        while self._waiting and len(names) < REQUEST_PARTITIONS_MAX:
            copying += bool(self._added(self._waiting[0]))
            if copying > self._parallel:
                break
            names.append(self._waiting.popleft())
        if not names:
            return
        outcomes = self._admin.reassign({name: self._targets[name] for name in names})
        for name in names:
            refusal = outcomes.get(name)
            if refusal is None:
                self._moving[name] = 0
            else:
                self.result.failed[name] = refusal.message

    def _heed(self, interrupt: int, progress: Progress) -> None:
        if interrupt < AT_ONCE:
            progress.finishing(len(self._moving))
            return
        progress.cancelling()
        for name, refusal in self._admin.reassign(dict.fromkeys(self._moving)).items():
            # One that has just arrived has no move to cancel.
            if refusal is None and self._moving.pop(name, None) is not None:
                self.result.cancelled.append(name)

    def _settle(self, progress: Progress) -> bool:
        """Find out which partitions have arrived, and which never will; return whether there were any."""
        moves = self._admin.moves()
        settled = [name for name in self._moving if name not in moves]
        if not settled:
            return False
        before = len(self._moving)
        partitions = self._admin.view().partitions
        for name in settled:
            partition = partitions.get(name)
            if partition is not None and partition.replicas == self._targets[name]:
                del self._moving[name]
                self.result.moved.append(name)
                self._copied_bytes += self._size_of_move(name)
                self._tell(progress, self._copied_bytes)
                progress.moved(name, self._targets[name], len(self.result.moved))
                continue
            self._moving[name] += 1
            if self._moving[name] > POLLS_UNTIL_LOST:
                del self._moving[name]
                self.result.failed[name] = (
                    "it does not exist any more" if partition is None else "somebody else cancelled its move"
                )
        return len(self._moving) < before

    def _measure(self, progress: Progress) -> None:
        added = {broker for name in self._moving for broker in self._added(name)}
        disks = self._admin.disks(self._brokers[broker] for broker in added if broker in self._brokers)
        copied_bytes = self._copied_bytes
        for broker, replicas in disks.items():
            for replica in replicas:
                if replica.partition in self._moving and broker in self._added(replica.partition):
                    copied_bytes += min(replica.size_bytes, self._sizes.get(replica.partition, 0))
        self._tell(progress, copied_bytes)

    def _tell(self, progress: Progress, copied_bytes: int) -> None:
        """Tell how much was copied; never less than before, though a copy in the making may shrink."""
        self._told_bytes = max(self._told_bytes, copied_bytes)
        progress.copied(self._told_bytes)

    def _added(self, name: TopicPartition) -> Replicas:
        return tuple(broker for broker in self._targets[name] if broker not in self._before[name])

    def _size_of_move(self, name: TopicPartition) -> int:
        return self._sizes.get(name, 0) * len(self._added(name))

    @contextmanager
    def _throttled(self, bytes_per_second: int | None, progress: Progress) -> Iterator[None]:
        if bytes_per_second is None:
            yield
            return
        changes = throttle_settings(self._before, self._targets, bytes_per_second)
        try:
            self._admin.alter_configs(changes)
            yield
        finally:
            topics = {name.topic for name in self._targets}
            brokers = involved_brokers(self._before, self._targets)
            try:
                self._admin.alter_configs(throttle_removal(sorted(topics), brokers))
            except OperationError as error:
                progress.warned(f"throttles were not removed; `ottla cluster reassign --verify` does it: {error}")

    def _elect_preferred(self, interrupts: Waiting) -> None:
        """Have those brokers lead that stand first now."""
        remaining = self.result.moved
        for attempt in range(ELECTION_POLLS):
            view = self._admin.view()
            remaining = [
                name
                for name in remaining
                if (found := view.partitions.get(name)) is not None and found.leader != self._targets[name][0]
            ]
            if not remaining or interrupts.count >= AT_ONCE:
                return
            if attempt:
                interrupts.wait(POLL_S)
            outcomes = self._admin.elect_leaders(remaining)
            if all(refusal is None or refusal.is_needless for refusal in outcomes.values()) and attempt:
                return
