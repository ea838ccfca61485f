"""Of which topics a sink task's positions are."""

from ottla_connect.task.sink.topic_identities import TopicIdentities
from ottla_sdk import TopicPartition

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


def test_partitions_whose_commit_is_of_another_topic_are_told_once():
    identities = TopicIdentities()
    identities.assign({A0: "topic.id=old", A1: "topic.id=new", B0: None})
    assert identities.compare([A0, A1, B0], {"a": "new", "b": "x"}) == {A0}
    assert identities.compare([A0, A1, B0], {"a": "new", "b": "x"}) == set()
    assert [identities.metadata(each) for each in (A0, B0)] == ["topic.id=new", "topic.id=x"]


def test_commits_of_other_programs_and_clusters_without_ids_tell_nothing():
    identities = TopicIdentities()
    identities.assign({A0: "by hand", A1: ""})
    assert identities.compare([A0, A1], {"a": None}) == set()
    assert identities.metadata(A0) == ""
    assert identities.compare([A0, A1], {"a": "x"}) == set()
    assert identities.compare([A0], {}) == set()
    assert identities.compare([A0], {"a": "y"}) == {A0}


def test_a_partition_that_was_given_away_is_forgotten():
    identities = TopicIdentities()
    identities.assign({A0: "topic.id=old"})
    identities.revoke([A0, A1])
    assert identities.metadata(A0) == ""
    identities.assign({A0: None})
    assert identities.compare([A0], {"a": "new"}) == set()
