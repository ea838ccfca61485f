"""Which offsets a sink task commits, and when."""

import pytest
from confluent_kafka import TopicPartition as KafkaTopicPartition

from ottla_connect.task.measures import TaskMeasures
from ottla_connect.task.pipeline.dead_letters import DeadLettersLost
from ottla_connect.task.pipeline.error_handler import ToleranceExceeded
from ottla_connect.task.sink.commits import Commits
from ottla_connect.task.sink.positions import Positions
from ottla_connect.task.sink.topic_identities import TopicIdentities
from ottla_sdk import TopicPartition

A0 = TopicPartition("a", 0)


class Parts:
    """A sink task that has put one record, and everything around its commits; `events` is what happened in order."""

    leased = True  # as the control's

    def __init__(self) -> None:
        self.events: list[str] = []
        self.sought: int | None = None
        self.report_error: Exception | None = None
        self.dead_letters_error: Exception | None = None
        self.positions = Positions()
        self.positions.assign([A0])
        self.positions.read("a", [0], [5])
        self.positions.put()
        identities = TopicIdentities()
        identities.assign({A0: "topic.id=X"})
        self.commits = Commits(
            task=self,
            group=self,
            positions=self.positions,
            identities=identities,
            control=self,
            measures=TaskMeasures("sink"),
            dead_letters=self,
            check_reports=self.check_reports,
            interval_s=60.0,
            timeout_s=5.0,
        )

    def pre_commit(self, offsets):
        self.events.append("pre_commit")
        if self.sought is not None:
            self.positions.move(A0, self.sought)
        return offsets

    def flush(self, timeout_s):
        self.events.append("flush dead letters")
        if self.dead_letters_error is not None:
            raise self.dead_letters_error

    def check_reports(self):
        if self.report_error is not None:
            raise self.report_error

    def commit(self, offsets, metadata, *, wait):
        self.events.append(f"commit {offsets[A0]} {metadata(A0)}")


@pytest.fixture
def parts() -> Parts:
    return Parts()


def test_what_pre_commit_itself_reports_reaches_the_dead_letter_topic_before_offsets_are_committed(parts):
    assert parts.commits.commit([A0], closing=True)
    assert parts.events == ["pre_commit", "flush dead letters", "commit 6 topic.id=X"]


def test_nothing_is_committed_where_a_dead_letter_is_lost(parts):
    parts.dead_letters_error = DeadLettersLost("refused")
    with pytest.raises(DeadLettersLost):
        parts.commits.commit([A0], closing=True)
    assert not any(each.startswith("commit") for each in parts.events)


def test_a_task_that_swallows_the_refusal_of_a_report_commits_nothing(parts):
    parts.report_error = ToleranceExceeded("not tolerated")
    with pytest.raises(ToleranceExceeded):
        parts.commits.commit([A0], closing=False)
    assert parts.events == ["pre_commit"]


def test_nothing_is_asked_or_committed_without_a_lease(parts):
    parts.leased = False
    assert parts.commits.commit([A0], closing=True)
    assert parts.events == []


def test_a_task_that_has_sought_while_a_commit_was_on_its_way_does_not_go_back_to_that(parts):
    parts.commits.commit([A0], closing=False)
    parts.positions.move(A0, 2)
    parts.commits.on_result(None, [KafkaTopicPartition("a", 0, 6)])
    parts.positions.read("a", [0], [2])
    parts.positions.put()
    assert parts.positions.rewind() == {A0: 2}


def test_what_a_task_asks_for_again_in_pre_commit_is_not_committed(parts):
    parts.sought = 2
    assert parts.commits.commit([A0], closing=True)
    assert parts.events == ["pre_commit", "flush dead letters"]
