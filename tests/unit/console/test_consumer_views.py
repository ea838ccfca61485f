"""The table of a topic's consumers, and what it says of those that were not asked."""

from ottla_console.views.consumer_table import consumer_rows, gaps
from ottla_operations.groups.topic_consumers import TopicConsumer, TopicConsumers


def consumer(group: str, lag: int | None) -> TopicConsumer:
    return TopicConsumer(group=group, state="empty", type="classic", members=0, assigned=0, committed=1, lag=lag)


FOUND = TopicConsumers(
    consumers={each.group: each for each in (consumer("b", 5), consumer("A-1", 5), consumer("c", None))},
    looked_at=frozenset("bc"),
    groups=3,
)


def test_the_farthest_behind_come_first_and_those_that_do_not_tell_last() -> None:
    rows = consumer_rows(FOUND, "t", {("b", "t"): 1.5, ("b", "other"): 9.0}, "")
    assert [(row.consumer.group, row.seconds) for row in rows] == [("A-1", None), ("b", 1.5), ("c", None)]
    behind = TopicConsumers(consumers={"x": consumer("x", 0), "y": consumer("y", 7), "z": consumer("z", None)})
    assert [row.consumer.group for row in consumer_rows(behind, "t", {}, "")] == ["y", "x", "z"]


def test_consumers_are_searched_by_name() -> None:
    assert [row.consumer.group for row in consumer_rows(FOUND, "t", {}, "1 a")] == ["A-1"]


def test_what_was_not_asked_is_said() -> None:
    assert gaps(FOUND) == ["2 of 3 groups were asked so far; others may read this topic, too"]
    silent = TopicConsumers(looked_at=frozenset("a"), groups=1, silent={"a": "not authorized"}, problems=("no end",))
    assert gaps(silent) == ["no end", "1 group does not tell all; a: not authorized"]
    assert gaps(TopicConsumers()) == []
