"""How far a sink task has come in each partition."""

import pytest

from ottla_connect.task.sink.positions import Positions
from ottla_sdk import TopicPartition

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


def commit(positions: Positions, offsets: dict[TopicPartition, int]) -> None:
    positions.sent(offsets)
    positions.committed(offsets)


@pytest.fixture
def positions() -> Positions:
    made = Positions()
    made.assign([A0, A1])
    return made


def test_what_was_read_is_offered_only_when_it_was_put(positions):
    positions.read("a", [0, 0, 1], [5, 6, 9])
    assert positions.offered([A0, A1]) == {}
    positions.put()
    assert positions.offered([A0, A1]) == {A0: 7, A1: 10}
    assert positions.offered([A1]) == {A1: 10}


def test_what_the_task_allows_is_committed(positions):
    positions.read("a", [0, 1], [5, 9])
    positions.put()
    offered = positions.offered(positions.assigned)
    assert positions.to_commit(offered, offered) == ({A0: 6, A1: 10}, [])
    assert positions.to_commit(offered, {A0: 6}) == ({A0: 6}, [])
    assert positions.to_commit(offered, {}) == ({}, [])


def test_an_offset_that_is_committed_already_is_not_committed_again(positions):
    positions.read("a", [0], [5])
    positions.put()
    commit(positions, {A0: 6})
    assert positions.to_commit({A0: 6}, {A0: 6}) == ({}, [])


def test_where_reading_began_counts_as_committed(positions):
    positions.read("a", [0], [5])
    positions.put()
    assert positions.to_commit({A0: 6}, {A0: 5}) == ({}, [])


def test_a_task_cannot_commit_what_it_was_not_given(positions):
    positions.read("a", [0], [5])
    positions.put()
    chosen, refused = positions.to_commit({A0: 6}, {A0: 7, A1: 1, B0: 3})
    assert chosen == {}
    assert refused == [
        "offset 7 of a-0 is behind the last record put",
        "offset 1 of a-1 is behind the last record put",
        "b-0 is not assigned to this task",
    ]


def test_partitions_that_are_given_away_are_forgotten(positions):
    positions.read("a", [0], [5])
    positions.put()
    positions.sent({A0: 6})
    positions.revoke([A0])
    positions.committed({A0: 6})
    assert positions.assigned == {A1}
    assert positions.offered([A0, A1]) == {}
    positions.assign([A0])
    assert positions.rewind() == {}


def test_going_back_leads_to_the_last_commit_of_each_partition_read_since(positions):
    positions.read("a", [0, 1], [5, 9])
    positions.put()
    commit(positions, {A0: 6, A1: 10})
    positions.read("a", [0], [6])
    positions.put()
    positions.read("a", [0], [7])
    assert positions.rewind() == {A0: 6}
    assert positions.offered([A0, A1]) == {A0: 6, A1: 10}


def test_a_position_that_the_task_chooses_counts_as_committed(positions):
    positions.read("a", [0], [5])
    positions.move(A0, 2)
    positions.put()
    assert positions.offered([A0]) == {A0: 2}
    assert positions.to_commit({A0: 2}, {A0: 2}) == ({}, [])


def test_a_commit_that_succeeds_after_the_task_has_moved_is_none_of_where_it_is_now(positions):
    positions.read("a", [0, 1], [5, 9])
    positions.put()
    positions.sent({A0: 6, A1: 10})
    positions.move(A0, 2)
    positions.committed({A0: 6, A1: 10})
    positions.read("a", [0, 1], [2, 10])
    positions.put()
    assert positions.rewind() == {A0: 2, A1: 10}, "what lies between 2 and 6 would be missed"


def test_a_commit_from_before_a_partition_was_given_away_is_none_of_where_it_came_back(positions):
    positions.read("a", [0], [5])
    positions.put()
    positions.sent({A0: 6})
    positions.revoke([A0])
    positions.assign([A0])
    positions.read("a", [0], [3])
    positions.committed({A0: 6})
    assert positions.rewind() == {A0: 3}


def test_of_two_commits_on_their_way_the_last_one_counts(positions):
    positions.read("a", [0], [5])
    positions.put()
    positions.sent({A0: 6})
    positions.read("a", [0], [6])
    positions.put()
    positions.sent({A0: 7})
    positions.committed({A0: 6})
    assert positions.to_commit({A0: 7}, {A0: 7}) == ({A0: 7}, [])
    positions.committed({A0: 7})
    assert positions.to_commit({A0: 7}, {A0: 7}) == ({}, [])


def test_topics_are_new_once(positions):
    positions.read("a", [0, 1], [1, 1])
    positions.read("b", [0], [1])
    assert positions.take_new_topics() == ["a", "b"]
    positions.read("a", [0], [2])
    assert positions.take_new_topics() == []
