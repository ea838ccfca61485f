"""Clients that ask about groups: lent to one question at a time, and closed where a coordinator was silent."""

from collections.abc import Iterator
from typing import cast

import pytest
from confluent_kafka import Producer

from ottla_console.clusters.bounded_threads import BoundedThreads
from ottla_console.clusters.cluster_kit import ClusterKit
from ottla_console.config.cluster_settings import ClusterSettings
from ottla_operations.groups.inspection import committed_offsets
from ottla_operations.groups.several import standings


@pytest.fixture
def kit() -> Iterator[ClusterKit]:
    slow = {"test.mock.num.brokers": 1, "test.mock.broker.rtt": 200, "bootstrap.servers": "none", "log_level": 0}
    cluster = Producer(slow)
    (broker,) = cluster.list_topics(timeout=10).brokers.values()
    settings = ClusterSettings(name="test", bootstrap=f"{broker.host}:{broker.port}")
    kit = ClusterKit(settings, None, cast(BoundedThreads, None))  # questions are asked in this thread
    yield kit
    kit.close()
    cluster.flush(0)


def test_a_client_is_lent_again_after_its_question_was_answered(kit: ClusterKit) -> None:
    with kit.group_client() as first:
        assert committed_offsets(first, "payments", "none") == {}
        with kit.group_client() as second:
            assert second is not first
    with kit.group_client() as third:
        assert third in (first, second)
        third.poll(0)


def test_a_client_that_still_looks_for_a_coordinator_is_closed(kit: ClusterKit) -> None:
    with kit.group_client() as silent:
        (found,) = standings(silent, ["payments"], "none", timeout_s=0.01).values()
    assert found.committed is None
    with pytest.raises(RuntimeError, match="closed"):
        silent.poll(0)
    with kit.group_client() as other:
        assert other is not silent


def test_a_client_that_comes_back_to_a_closed_kit_is_closed(kit: ClusterKit) -> None:
    with kit.group_client() as client:
        kit.close()
    with pytest.raises(RuntimeError, match="closed"):
        client.poll(0)
