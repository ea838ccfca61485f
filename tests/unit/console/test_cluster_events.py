"""What has changed between two looks at a cluster, with the causes that can be told, and what is kept of it."""

from ottla_console.clusters.event_log import EVENTS_MAX, TOPICS_AT_A_TIME, EventLog
from ottla_console.views.cluster_events import (
    OF_ONE_LOOK_MAX,
    ActionDone,
    Event,
    EventKind,
    chosen,
    event_rows,
    explained,
    setting_events,
    view_events,
)
from ottla_core.topic_partition import TopicPartition
from ottla_operations.cluster.cluster_view import BrokerView, ClusterView, PartitionView

Placed = tuple[int | None, tuple[int, ...], tuple[int, ...]]


def view(brokers: tuple[int, ...] = (1, 2, 3), **topics: list[Placed]) -> ClusterView:
    """Topics with partitions of a leader, replicas and in-sync replicas."""
    found = {
        TopicPartition(topic, number): PartitionView(TopicPartition(topic, number), *placed)
        for topic, partitions in topics.items()
        for number, placed in enumerate(partitions)
    }
    return ClusterView("id", {each: BrokerView(each, "h", 9000 + each, None) for each in brokers}, found)


def told(before: ClusterView, after: ClusterView) -> list[tuple[str, str | None, str, str | None, bool]]:
    return [(each.kind, each.topic, each.words, each.cause, each.is_harm) for each in view_events(before, after)]


BEFORE = view(t=[(1, (1, 2), (1, 2)), (2, (2, 3), (2, 3)), (1, (1, 3), (1, 3))])
GONE = "broker 1 is not in service any more"


def test_nothing_is_told_of_what_is_the_same() -> None:
    assert view_events(BEFORE, BEFORE) == []


def test_a_broker_that_goes_is_the_cause_of_elections_and_of_replicas_that_are_not_in_sync() -> None:
    after = view((2, 3), t=[(2, (1, 2), (2,)), (2, (2, 3), (2, 3)), (None, (1, 3), (3,))])
    assert told(BEFORE, after) == [
        ("brokers", None, "is not in service any more", None, True),
        ("leaders", "t", "partition 0: broker 2 leads; broker 1 did", GONE, False),
        ("leaders", "t", "partition 2: nobody leads; broker 1 did", GONE, True),
        ("in-sync", "t", "partitions 0, 2: broker 1 is not in sync any more", GONE, True),
    ]
    assert told(after, BEFORE) == [
        ("brokers", None, "is in service at h:9001", None, False),
        ("leaders", "t", "partition 0: broker 1 leads; broker 2 did", "broker 1 is preferred", False),
        ("leaders", "t", "partition 2: broker 1 leads; nobody did", None, False),
        ("in-sync", "t", "partitions 0, 2: broker 1 is in sync", "broker 1 has come back", False),
    ]


def test_a_replica_that_is_moved_is_the_cause_and_no_harm() -> None:
    after = view(
        t=[
            (3, (3, 2), (3, 2)),
            *((each.leader, each.replicas, each.in_sync) for each in list(BEFORE.partitions.values())[1:]),
        ]
    )
    assert told(BEFORE, after) == [
        (
            "leaders",
            "t",
            "partition 0: broker 3 leads; broker 1 did",
            "the replica of broker 1 was moved away",
            False,
        ),
        ("in-sync", "t", "partition 0: broker 1 is not in sync any more", "its replica was moved away", False),
        ("in-sync", "t", "partition 0: broker 3 is in sync", "it has got a replica", False),
        ("replicas", "t", "partition 0: replicas on 3,2; they were on 1,2", None, False),
    ]


def test_a_follower_that_falls_behind_has_no_cause_that_could_be_told() -> None:
    after = view(t=[(1, (1, 2), (1,)), (2, (2, 3), (2, 3)), (1, (1, 3), (1, 3))])
    assert told(BEFORE, after) == [("in-sync", "t", "partition 0: broker 2 is not in sync any more", None, True)]


def test_topics_come_grow_and_go() -> None:
    one: Placed = (1, (1,), (1,))
    assert [each[1:3] for each in told(view(a=[one], b=[one]), view(b=[one, one], c=[one]))] == [
        ("a", "was deleted"),
        ("b", "has 2 partitions; there were 1"),
        ("c", "was created, with 1 partition"),
    ]


def test_of_very_many_changes_the_rest_is_counted() -> None:
    one: Placed = (1, (1,), (1,))
    events = view_events(view(), view(**{f"t{number:04}": [one] for number in range(OF_ONE_LOOK_MAX + 7)}))
    assert len(events) == OF_ONE_LOOK_MAX + 1
    assert (events[-1].words, events[-1].kind) == ("7 more changes of this kind at the same time", EventKind.TOPICS)
    thousand = [(1, (1, 2), (1, 2))] * 1000
    (event,) = view_events(view(t=thousand), view(t=[(1, (1, 2), (1,))] * 1000))
    assert event.words == "partitions 0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 990 more: broker 2 is not in sync any more"


def test_settings_show_what_they_were_and_no_secret() -> None:
    before = {"t": {"retention.ms": "1", "gone": "x", "same": "s"}, "unknown": {"a": "1"}}
    after = {"t": {"retention.ms": "2", "new": "", "same": "s"}, "later": {"b": "1"}}
    events = setting_events(before, after, of_brokers=False)
    assert [(each.topic, each.words) for each in events] == [
        ("t", "gone is not set any more"),
        ("t", "new is empty"),
        ("t", "retention.ms is 2; it was 1"),
    ]
    (event,) = setting_events({"7": {}}, {"7": {"ssl.keystore.key": None}}, of_brokers=True)
    assert (event.broker, event.words) == (7, "ssl.keystore.key is a secret")
    (event,) = setting_events({"t": {}}, {"t": {"long": "x" * 5000}}, of_brokers=False)
    assert len(event.words) < 300


def test_what_was_done_in_the_console_explains_what_is_seen_soon_after() -> None:
    actions = [
        ActionDone("topic.set", "t", "ada", 100.0),
        ActionDone("group.delete", "t", "eve", 101.0),
        ActionDone("cluster.rebalance", "prod", "", 100.0),
    ]
    events = [
        Event(kind=EventKind.SETTINGS, topic="t", words="", at_s=105.0),
        Event(kind=EventKind.SETTINGS, topic="u", words="", at_s=105.0),
        Event(kind=EventKind.SETTINGS, topic="t", words="", at_s=99.0),
        Event(kind=EventKind.SETTINGS, topic="t", words="", at_s=500.0),
        Event(kind=EventKind.REPLICAS, topic="u", words="", at_s=105.0),
    ]
    assert [each.cause for each in explained(events, actions)] == [
        "topic.set in this console by ada",
        None,
        None,
        None,
        "cluster.rebalance in this console",
    ]


def test_events_are_chosen_by_kind_and_words_the_newest_first() -> None:
    events = [
        Event(kind=EventKind.TOPICS, topic="flights", words="was created"),
        Event(kind=EventKind.BROKERS, broker=2, words="is in service"),
        Event(kind=EventKind.LEADERS, topic="flights", words="x", cause="Broker 2 is gone"),
    ]
    assert chosen(events, kind="", words="") == events[::-1]
    assert chosen(events, kind="topics", words="FLIGHTS created") == events[:1]
    assert chosen(events, kind="no kind", words="broker 2") == [events[2], events[1]]


def test_a_log_keeps_the_newest_events_and_says_from_when_they_are() -> None:
    log = EventLog()
    one: Placed = (1, (1,), (1,))
    log.note_view(view(), 1000.0)
    log.note_view(view(a=[one]), 1000.5)  # too soon after the other
    assert not log.events
    log.note_view(view(a=[one]), 1002.0)
    log.note_view(view(), 2000.0)
    soon, late = event_rows(log.events)
    assert (soon.when, soon.since) == ("1970-01-01 00:16:42", None)
    assert (late.when, late.since) == ("1970-01-01 00:33:20", "1970-01-01 00:16:42")
    for number in range(2 * EVENTS_MAX):
        log.note_view(view(**({"a": [one]} if number % 2 else {})), 3000.0 + 2 * number)
    assert len(log.events) == EVENTS_MAX


def test_a_cluster_that_cannot_be_looked_at_is_told_once_and_when_it_answers_again() -> None:
    log = EventLog()
    log.note_view(view(), 10.0)
    log.note_silence("no answer", 20.0)
    log.note_silence("no answer", 30.0)
    log.note_view(view(), 100.0)
    assert [(each.words, each.at_s) for each in log.events] == [
        ("could not be looked at: no answer", 20.0),
        ("answers again", 100.0),
    ]


def test_settings_of_many_topics_are_looked_at_in_turn() -> None:
    log = EventLog()
    one: Placed = (1, (1,), (1,))
    names = [f"t{number:04}" for number in range(2 * TOPICS_AT_A_TIME + 1)]
    cluster = view(**{name: [one] for name in names})
    asked = [log.next_topics(cluster) for _ in range(4)]
    assert [each for some in asked[:3] for each in some] == names
    assert asked[3] == asked[0]
    assert log.next_topics(view()) == []


def test_a_setting_is_told_once_and_a_broker_that_was_silent_is_compared_with_what_it_was() -> None:
    log = EventLog()
    cluster = view(t=[(1, (1,), (1,))])
    log.note_view(cluster, 1.0)
    log.note_settings({"t": {}}, {"1": {}, "2": {"a": "1"}}, cluster, 10.0)
    log.note_settings({"t": {"retention.ms": "5"}}, {"1": {}}, cluster, 20.0)
    log.note_settings({}, {"1": {}, "2": {"a": "2"}}, cluster, 30.0)
    log.note_settings({"t": {"retention.ms": "5"}}, {}, cluster, 40.0)
    assert [(each.topic, each.broker, each.words) for each in log.events] == [
        ("t", None, "retention.ms is 5"),
        (None, 2, "a is 2; it was 1"),
    ]


def test_what_a_topic_has_that_came_meanwhile_was_set_meanwhile() -> None:
    log = EventLog()
    one: Placed = (1, (1,), (1,))
    log.note_view(view(old=[one]), 1.0)
    cluster = view(old=[one], new=[one])
    log.note_settings({"old": {"a": "1"}, "new": {"b": "1"}}, {}, cluster, 10.0)
    assert [(each.topic, each.words) for each in log.events] == [("new", "b is 1")]
