"""Lists of topics and of partitions, pages of lists, charts, forms."""

import pytest

from ottla_console.views.line_chart import line_chart
from ottla_console.views.paging import page_number, page_of
from ottla_console.views.topic_form import BadField, new_topic
from ottla_console.views.topic_partitions import partition_rows
from ottla_console.views.topic_table import TopicQuery, selected, topic_rows
from ottla_core.topic_partition import TopicPartition
from ottla_operations.cluster.cluster_view import BrokerView, ClusterView, PartitionView, ReplicaOnDisk


def view(**topics: list[tuple[int | None, tuple[int, ...], tuple[int, ...]]]) -> ClusterView:
    """A cluster with topics, each with its partitions' leader, replicas and in-sync replicas."""
    found = {
        TopicPartition(topic, number): PartitionView(TopicPartition(topic, number), *partition)
        for topic, partitions in topics.items()
        for number, partition in enumerate(partitions)
    }
    return ClusterView("id", {1: BrokerView(1, "b", 9092, None)}, found)


GOOD, BEHIND, OFFLINE = (1, (1, 2), (1, 2)), (1, (1, 2), (1,)), (None, (2,), (2,))
CLUSTER = view(orders_eu=[GOOD, GOOD], orders_us=[BEHIND], lost=[OFFLINE, GOOD], __consumer_offsets=[GOOD])


def names(query: TopicQuery) -> list[str]:
    return [row.name for row in selected(topic_rows(CLUSTER, None), query)]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (TopicQuery(), ["lost", "orders_eu", "orders_us"]),
        (TopicQuery(words="ORDERS us"), ["orders_us"]),
        (TopicQuery(words="nothing"), []),
        (TopicQuery(shown="attention"), ["lost", "orders_us"]),
        (TopicQuery(shown="internal"), ["__consumer_offsets"]),
        (TopicQuery(shown="every", words="o"), ["__consumer_offsets", "lost", "orders_eu", "orders_us"]),
        (TopicQuery(sort="-partitions"), ["lost", "orders_eu", "orders_us"]),
        (TopicQuery(sort="-state"), ["lost", "orders_us", "orders_eu"]),
        (TopicQuery(sort="-name"), ["orders_us", "orders_eu", "lost"]),
        (TopicQuery(sort="rubbish"), ["lost", "orders_eu", "orders_us"]),
    ],
)
def test_topics_are_searched_filtered_and_sorted(query: TopicQuery, expected: list[str]) -> None:
    assert names(query) == expected


def test_a_second_click_turns_the_order_round() -> None:
    assert TopicQuery().next_sort("size") == "-size"
    assert TopicQuery(sort="-size").next_sort("size") == "size"
    assert TopicQuery(sort="-size").next_sort("name") == "name"


def test_partitions_show_who_is_not_in_sync_and_by_how_much() -> None:
    copies = {2: [ReplicaOnDisk(TopicPartition("orders_us", 0), 100, behind=7)]}
    (row,) = partition_rows(CLUSTER, "orders_us", copies, {("orders_us", 0): 3}, {("orders_us", 0): 10})
    assert (row.state, row.records_max, row.log_bytes) == ("under-replicated", 7, 100)
    assert [(each.broker, each.leads, each.in_sync, each.behind) for each in row.replicas] == [
        (1, True, True, None),
        (2, False, False, 7),
    ]
    assert partition_rows(CLUSTER, "absent", {}, {}, {}) == []


@pytest.mark.parametrize(
    ("number", "expected"), [(1, (1, 1, 50)), (3, (3, 101, 120)), (9, (3, 101, 120)), (0, (1, 1, 50))]
)
def test_a_page_of_a_list(number: int, expected: tuple[int, int, int]) -> None:
    page = page_of(range(120), number)
    assert (page.number, page.first, page.last) == expected
    assert (page.pages, page.total) == (3, 120)


def test_the_page_of_an_empty_list_and_of_a_bad_address() -> None:
    empty = page_of([], 1)
    assert (empty.number, empty.pages, empty.first, empty.last) == (1, 1, 0, 0)
    assert page_number("x") == page_number("") == page_number("9" * 5000) == 1


def test_a_chart_is_read_out_and_stays_within_its_frame() -> None:
    chart = line_chart("Rate", [(0.0, 0.0), (5.0, 8.0), (10.0, 4.0)], ["0", "8/s", "4/s"])
    assert chart is not None
    assert chart.summary == "Rate: 4/s now, 8/s at most in the last 10 seconds"
    assert chart.line == "4.0,92.0 300.0,4.0 596.0,48.0"
    assert line_chart("Rate", [(0.0, 1.0)], ["1"]) is None
    assert line_chart("Rate", [(0.0, 0.0), (0.0, 0.0)], ["0", "0"]) is not None


@pytest.mark.parametrize(
    ("field", "value", "told"),
    [
        ("name", "", "Name"),
        ("name", "..", "Name"),
        ("name", "a/b", "Name"),
        ("name", "x" * 250, "Name"),
        ("partitions", "0", "Partitions"),
        ("partitions", "²", "Partitions"),
        ("replicas", "-1", "Replicas"),
        ("retention_hours", "1.5", "Retention"),
    ],
)
def test_a_form_that_cannot_be_used_names_the_field(field: str, value: str, told: str) -> None:
    with pytest.raises(BadField, match=told):
        new_topic({"name": "flights", field: value})


def test_a_form_describes_a_topic() -> None:
    made = new_topic({"name": " flights ", "partitions": "6", "cleanup": "compact", "retention_hours": "2"})
    assert (made.name, made.partitions, made.replicas) == ("flights", 6, -1)
    assert made.settings == {"cleanup.policy": "compact", "retention.ms": "7200000"}
