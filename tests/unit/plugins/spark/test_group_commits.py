"""What a stream commits to a group, while commits take their time."""

import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any, cast

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from ottla_spark.datasource import group_commits
from ottla_spark.datasource.group_commits import GroupCommits

SURVIVAL_WITHIN_S = 60
GIVES_UP_BEFORE_THE_COORDINATOR_IS_FOUND = """
from confluent_kafka import ConsumerGroupTopicPartitions
from confluent_kafka.admin import AdminClient
from ottla_spark.datasource import group_commits

group_commits.COMMIT_TIMEOUT_S = 0.05
clients = []


def new_client():
    slow = {"bootstrap.servers": "none", "test.mock.num.brokers": 3, "test.mock.broker.rtt": 100, "log_level": 0}
    clients.append(AdminClient(slow))
    clients[-1].list_topics(timeout=20)
    return clients[-1]


for turn in range(2):
    commits = group_commits.GroupCommits(f"late-{turn}", new_client)
    commits.commit({("t", 0): turn})
    # The next trigger comes late. Lookups over the same connections, so the earlier one has been answered before.
    later = [ConsumerGroupTopicPartitions(f"later-{turn}")]
    clients[-1].list_consumer_group_offsets(later, request_timeout=20)[f"later-{turn}"].result(20)
    commits.commit({("t", 0): turn + 1})
    commits.finish()
    stopped = group_commits.GroupCommits(f"stopped-{turn}", new_client)
    stopped.commit({("t", 0): turn})
    stopped.finish()
new_client().list_topics(timeout=20)
print("survived")
"""

FIRST, SECOND, THIRD = ({("t", 0): offset} for offset in (10, 20, 30))


class SlowAdmin:
    """Stands for the clients. Keeps commits until the test answers them, or answers at once."""

    def __init__(self) -> None:
        self.asked: list[tuple[int, Future[ConsumerGroupTopicPartitions]]] = []
        self.answers_at_once = False
        self.failures: list[int] = []
        self.made = 0
        self.closed = 0

    def __exit__(self, *_: object) -> None:
        self.closed += 1

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


def commits_by(admin: SlowAdmin, group: str = "g") -> GroupCommits:
    def new_client() -> AdminClient:
        admin.made += 1
        return cast("AdminClient", admin)

    return GroupCommits(group, new_client)


def committed(commits: GroupCommits, *wanted: Any) -> None:
    for offsets in wanted:
        commits.commit(offsets)


def test_what_is_wanted_during_a_commit_is_committed_before_the_stream_stops(admin: SlowAdmin) -> None:
    commits = commits_by(admin)
    committed(commits, FIRST, SECOND, THIRD)
    assert admin.offsets == [10]

    admin.asked[0][1].set_result(ConsumerGroupTopicPartitions("g", []))
    admin.answers_at_once = True
    commits.finish()

    assert admin.offsets == [10, 30]


def test_the_same_offsets_are_committed_once(admin: SlowAdmin) -> None:
    admin.answers_at_once = True
    commits = commits_by(admin)
    committed(commits, FIRST, FIRST, SECOND)
    commits.finish()
    assert admin.offsets == [10, 20]


def test_a_stream_whose_commit_has_failed_stops_without_another(admin: SlowAdmin) -> None:
    commits = commits_by(admin)
    committed(commits, FIRST, SECOND)
    admin.asked[0][1].set_exception(KafkaException(KafkaError(KafkaError.GROUP_AUTHORIZATION_FAILED)))
    commits.finish()
    assert admin.offsets == [10]


def test_a_stream_ends_with_a_commit_although_its_group_had_no_coordinator_yet(
    admin: SlowAdmin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_commits, "RETRY_PAUSE_S", 0.0)
    commits = commits_by(admin)
    committed(commits, FIRST, SECOND)
    admin.asked[0][1].set_exception(KafkaException(KafkaError(KafkaError.COORDINATOR_LOAD_IN_PROGRESS)))
    admin.failures = [KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_NOT_AVAILABLE]
    admin.answers_at_once = True
    commits.finish()
    assert admin.offsets == [10, 20, 20, 20]
    commits.finish()
    assert admin.offsets == [10, 20, 20, 20], "it was committed again"


def test_a_stop_does_not_wait_for_ever(admin: SlowAdmin, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_commits, "COMMIT_TIMEOUT_S", 0.01)
    commits = commits_by(admin)
    committed(commits, FIRST)
    commits.finish()
    assert admin.offsets == [10]
    assert (admin.made, admin.closed) == (1, 1)


def test_a_commit_without_an_answer_is_given_up_with_its_client(
    admin: SlowAdmin, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    commits = commits_by(admin)
    committed(commits, FIRST, SECOND)
    assert (admin.offsets, admin.made, admin.closed) == ([10], 1, 0)

    monkeypatch.setattr(group_commits, "COMMIT_TIMEOUT_S", 0.0)
    other = commits_by(admin, "h")
    committed(other, FIRST, SECOND)
    assert (admin.offsets, admin.made, admin.closed) == ([10, 10, 20], 3, 1)
    assert "its coordinator did not answer within 0 s" in caplog.text


def test_a_process_survives_coordinators_that_are_found_after_a_commit_was_given_up() -> None:
    program = [sys.executable, "-c", GIVES_UP_BEFORE_THE_COORDINATOR_IS_FOUND]
    ended = subprocess.run(program, capture_output=True, text=True, timeout=SURVIVAL_WITHIN_S, check=False)
    assert (ended.returncode, ended.stdout) == (0, "survived\n"), ended.stderr


def test_without_a_group_nothing_is_committed(admin: SlowAdmin) -> None:
    commits = commits_by(admin, "")
    committed(commits, FIRST)
    commits.finish()
    assert admin.asked == []
