"""Offsets of partitions whose leaders change while they are asked for."""

from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, cast

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from ottla_operations.errors import OperationError
from ottla_operations.groups.inspection import LEADER_ATTEMPTS_MAX, log_offsets


@dataclass
class Found:
    offset: int


class ChangingCluster:
    """Answers with an error for a partition so many times, and with an offset after that."""

    def __init__(self, failures: Mapping[int, tuple[int, int]]) -> None:
        self.left = {number: times for number, (_, times) in failures.items()}
        self.codes = {number: code for number, (code, _) in failures.items()}
        self.asked: list[list[int]] = []

    def list_offsets(self, wanted: Mapping[TopicPartition, Any], **_: Any) -> dict[TopicPartition, "Future[Found]"]:
        self.asked.append([place.partition for place in wanted])
        return {place: self._answer(place.partition) for place in wanted}

    def _answer(self, number: int) -> "Future[Found]":
        future: Future[Found] = Future()
        if self.left.get(number, 0) > 0:
            self.left[number] -= 1
            future.set_exception(KafkaException(KafkaError(self.codes[number])))
        else:
            future.set_result(Found(100 + number))
        return future


def offsets_of(cluster: ChangingCluster, *, all_led: bool) -> dict[int, int]:
    found = log_offsets(
        cast(AdminClient, cluster),
        [("flights", 0), ("flights", 1)],
        OffsetSpec.latest(),  # type: ignore[no-untyped-call] # the library's
        "127.0.0.1:9092",
        all_led=all_led,
        pause=lambda _: None,
    )
    return {number: offset for (_, number), offset in found.items()}


@pytest.mark.parametrize(
    "code",
    [
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.OFFSET_NOT_AVAILABLE,
    ],
)
def test_a_partition_whose_leader_changes_is_asked_about_again_or_left_out(code: int) -> None:
    cluster = ChangingCluster({1: (code, 2)})
    assert offsets_of(cluster, all_led=True) == {0: 100, 1: 101}
    assert cluster.asked == [[0, 1], [1], [1]]
    assert offsets_of(ChangingCluster({1: (code, 2)}), all_led=False) == {0: 100}


def test_a_partition_that_gets_no_leader_is_an_error_in_the_end() -> None:
    cluster = ChangingCluster({1: (KafkaError.LEADER_NOT_AVAILABLE, 1000)})
    with pytest.raises(OperationError, match="Leader not available"):
        offsets_of(cluster, all_led=True)
    assert len(cluster.asked) == LEADER_ATTEMPTS_MAX


def test_what_is_refused_is_told_at_once_and_what_is_gone_is_left_out() -> None:
    refused = ChangingCluster({1: (KafkaError.TOPIC_AUTHORIZATION_FAILED, 1000)})
    with pytest.raises(OperationError):
        offsets_of(refused, all_led=False)
    assert len(refused.asked) == 1
    assert offsets_of(ChangingCluster({0: (KafkaError.UNKNOWN_TOPIC_OR_PART, 1)}), all_led=True) == {1: 101}
