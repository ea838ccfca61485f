"""Waiting until all brokers know of a change."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import cast

import pytest

from ottla_console.clusters import settling
from ottla_console.clusters.cluster_kit import ClusterKit
from ottla_console.clusters.settling import wait_until_shown
from ottla_core.topic_partition import TopicPartition
from ottla_operations.cluster.cluster_view import BrokerView, ClusterView, PartitionView

BROKERS = {number: BrokerView(number, "127.0.0.1", 9092 + number, None) for number in (1, 2, 3)}


def seen(topic: str | None) -> ClusterView:
    partitions = [] if topic is None else [PartitionView(TopicPartition(topic, 0), 1, (1,), (1,))]
    return ClusterView("cluster", BROKERS, {each.name: each for each in partitions})


class LateCluster:
    """Brokers that hear of a topic after so many looks; None for one that does not answer."""

    def __init__(self, looks: dict[int, int | None]) -> None:
        self.left = looks
        self.asked: list[int] = []

    @contextmanager
    def cluster_admin(self) -> Iterator["LateCluster"]:
        yield self

    def view(self) -> ClusterView:
        return seen("flights")

    def view_of(self, broker: BrokerView) -> ClusterView | None:
        self.asked.append(broker.id)
        left = self.left[broker.id]
        if left is None:
            return None
        self.left[broker.id] = max(left - 1, 0)
        return seen("flights" if left == 0 else None)


def wait(cluster: LateCluster) -> None:
    wait_until_shown(cast(ClusterKit, cluster), lambda view: "flights" in view.topics)


def test_every_broker_that_answers_has_to_know(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settling, "LOOK_INTERVAL_S", 0.0)
    cluster = LateCluster({1: 2, 2: None, 3: 1})
    wait(cluster)
    assert cluster.left == {1: 0, 2: None, 3: 0}
    assert sorted(cluster.asked) == [1, 1, 1, 2, 3, 3]


def test_a_broker_that_never_hears_of_it_ends_no_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settling, "LOOK_INTERVAL_S", 0.0)
    monkeypatch.setattr(settling, "SETTLED_WITHIN_S", 0.05)
    cluster = LateCluster({1: 10**9, 2: 0, 3: 0})
    wait(cluster)
    assert cluster.left[1] != 0
