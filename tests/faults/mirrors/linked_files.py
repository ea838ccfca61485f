"""Compares the files of linked partitions on both sides, also while brokers write them."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.faults.cluster import Cluster
from tests.faults.fault import BROKER
from tests.faults.mirrors.link_checker import epoch_problem, replica_problem
from tests.faults.replicas import Batch, replica_batches
from tests.faults.topics import KEEPS, Keeps

ATTEMPTS = 3
"""A batch may be looked at while it is written, and a segment be deleted."""


class LinkedFiles:
    """The files of partitions that have equal batches on both sides.

    Attributes:
        looks: how many replicas were compared with their source.
    """

    def __init__(self, source: Cluster, target: Cluster) -> None:
        self.looks = 0
        self._source = source
        self._target = target

    def problems(self, partitions: Iterator[tuple[str, int]]) -> Iterator[str]:
        """Replicas of the target that are a beginning of no replica of the source."""
        for topic, index in partitions:
            for broker in self._target.members.of(BROKER):
                path = self._target.data_of(broker) / f"{topic}-{index}"
                if path.is_dir() and (problem := self._problem(path, topic)):
                    yield f"{path.name} of {broker} {problem}"

    def epoch_problems(self, leader_epochs: Mapping[tuple[str, int], int]) -> Iterator[str]:
        """Replicas with records of a later epoch than their leader's, by partition."""
        for (topic, index), leader_epoch in sorted(leader_epochs.items()):
            for broker in self._target.members.of(BROKER):
                path = self._target.data_of(broker) / f"{topic}-{index}"
                if problem := epoch_problem(_batches(path), leader_epoch):
                    yield f"{path.name} of {broker} {problem}"

    def _problem(self, target: Path, topic: str) -> str | None:
        problem = None
        for _ in range(ATTEMPTS):
            # The source last: it has everything that was there when the target was read.
            found = _batches(target)
            sources = {
                broker: _batches(self._source.data_of(broker) / target.name)
                for broker in self._source.members.of(BROKER)
            }
            problem = replica_problem(found, sources, has_gaps=KEEPS.get(topic) is Keeps.NEWEST)
            if problem is None:
                self.looks += 1
                return None
        return problem


def _batches(partition: Path) -> list[Batch]:
    for _ in range(ATTEMPTS):
        try:
            return list(replica_batches(partition))
        except FileNotFoundError:
            continue  # retention has deleted a segment meanwhile
    return []
