"""What a stream commits to a group, while commits take their time."""

from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any, cast

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from ottla_spark.datasource import group_commits
from ottla_spark.datasource.group_commits import GroupCommits

FIRST, SECOND, THIRD = ({("t", 0): offset} for offset in (10, 20, 30))


class SlowAdmin:
    """Keeps commits until the test answers them, or answers at once."""

    def __init__(self) -> None:
        self.asked: list[tuple[int, Future[ConsumerGroupTopicPartitions]]] = []
        self.answers_at_once = False
        self.failures: list[int] = []

    def alter_consumer_group_offsets(
        self, groups: Sequence[ConsumerGroupTopicPartitions], request_timeout: float
    ) -> dict[str, Future[ConsumerGroupTopicPartitions]]:
        (group,) = groups
        future: Future[ConsumerGroupTopicPartitions] = Future()
        self.asked.append((group.topic_partitions[0].offset, future))
        if self.answers_at_once and self.failures:
            future.set_exception(KafkaException(KafkaError(self.failures.pop(0))))
        elif self.answers_at_once:
            future.set_result(group)
        return {group.group_id: future}

    @property
    def offsets(self) -> list[int]:
        return [offset for offset, _ in self.asked]


@pytest.fixture
def admin() -> SlowAdmin:
    return SlowAdmin()


def committed(commits: GroupCommits, admin: SlowAdmin, *wanted: Any) -> None:
    for offsets in wanted:
        commits.commit(cast("AdminClient", admin), offsets)


def test_what_is_wanted_during_a_commit_is_committed_before_the_stream_stops(admin: SlowAdmin) -> None:
    commits = GroupCommits("g")
    committed(commits, admin, FIRST, SECOND, THIRD)
    assert admin.offsets == [10]

    admin.asked[0][1].set_result(ConsumerGroupTopicPartitions("g", []))
    admin.answers_at_once = True
    commits.finish()

    assert admin.offsets == [10, 30]


def test_the_same_offsets_are_committed_once(admin: SlowAdmin) -> None:
    admin.answers_at_once = True
    commits = GroupCommits("g")
    committed(commits, admin, FIRST, FIRST, SECOND)
    commits.finish()
    assert admin.offsets == [10, 20]


def test_a_stream_whose_commit_has_failed_stops_without_another(admin: SlowAdmin) -> None:
    commits = GroupCommits("g")
    committed(commits, admin, FIRST, SECOND)
    admin.asked[0][1].set_exception(KafkaException(KafkaError(KafkaError.GROUP_AUTHORIZATION_FAILED)))
    commits.finish()
    assert admin.offsets == [10]


def test_a_stream_ends_with_a_commit_although_its_group_had_no_coordinator_yet(
    admin: SlowAdmin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_commits, "RETRY_PAUSE_S", 0.0)
    commits = GroupCommits("g")
    committed(commits, admin, FIRST, SECOND)
    admin.asked[0][1].set_exception(KafkaException(KafkaError(KafkaError.COORDINATOR_LOAD_IN_PROGRESS)))
    admin.failures = [KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_NOT_AVAILABLE]
    admin.answers_at_once = True
    commits.finish()
    assert admin.offsets == [10, 20, 20, 20]
    commits.finish()
    assert admin.offsets == [10, 20, 20, 20], "it was committed again"


def test_a_stop_does_not_wait_for_ever(admin: SlowAdmin, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_commits, "COMMIT_TIMEOUT_S", 0.01)
    commits = GroupCommits("g")
    committed(commits, admin, FIRST)
    commits.finish()
    assert admin.offsets == [10]


def test_without_a_group_nothing_is_committed(admin: SlowAdmin) -> None:
    commits = GroupCommits("")
    committed(commits, admin, FIRST)
    commits.finish()
    assert admin.asked == []
