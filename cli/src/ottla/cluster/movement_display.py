"""Showing how far a movement is: a progress bar where a person watches a terminal, else a line per partition."""

import sys
from types import TracebackType
from typing import Self

from ottla.output import note, progress_bar
from ottla_core.topic_partition import TopicPartition
from ottla_operations.cluster.cluster_view import Replicas, describe_replicas
from ottla_operations.quantities import counted, human_bytes


class MovementDisplay:
    """Progress of a plan on standard error.

    Args:
        partitions: how many are to be moved.
        size_bytes: how much is to be copied in all.
    """

    def __init__(self, partitions: int, size_bytes: int) -> None:
        self._partitions = partitions
        self._size_bytes = size_bytes
        self._is_terminal = sys.stderr.isatty()
        self._bar = progress_bar("copied")
        # Every partition counts for something, or moving empty ones would show no progress at all.
        self._share = max(1, size_bytes // max(1, partitions) // 100)
        self._done = 0
        self._task = self._bar.add_task("moving", total=size_bytes + self._share * partitions, copied="")

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def copied(self, size_bytes: int) -> None:
        """Show how many bytes have been copied in all."""
        self._bar.update(
            self._task,
            completed=size_bytes + self._share * self._done,
            description=f"{self._done} of {self._partitions} partitions",
            copied=f"{human_bytes(size_bytes)} of {human_bytes(self._size_bytes)}",
        )

    def moved(self, name: TopicPartition, replicas: Replicas, done: int) -> None:
        """Show that a partition has arrived."""
        self._done = done
        if not self._is_terminal:
            note(f"{name} is on {describe_replicas(replicas)} ({done} of {self._partitions})")

    def finishing(self, partitions: int) -> None:
        """Say what a first interrupt did."""
        self._bar.say(f"waiting for {counted(partitions, 'partition')} on the way; Ctrl-C cancels them")

    def cancelling(self) -> None:
        """Say what a second one did."""
        self._bar.say("cancelling what is being moved")

    def warned(self, message: str) -> None:
        """Say what was left undone."""
        note(f"ottla: {message}")
