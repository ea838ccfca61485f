"""The growth of topics: rates, sizes and charts of them, in a memory that stays bounded."""

import pytest

from ottla_console.views import topic_growth
from ottla_console.views.numbers import bytes_change_text, span_text
from ottla_console.views.topic_growth import LONG_POINTS_MAX, RECENT_POINTS_MAX, TOPICS_MAX, TopicHistories
from ottla_operations.activity.activity import TopicActivity


def seen(topic: str, records_per_s: float, log_bytes: int, *, offline: int = 0) -> TopicActivity:
    return TopicActivity(
        topic=topic,
        partitions=1,
        records_per_s=records_per_s,
        log_bytes=log_bytes,
        under_replicated=0,
        offline=offline,
    )


def test_growth_is_known_from_the_second_moment_on() -> None:
    histories = TopicHistories()
    histories.note(1_000.0, 5.0, [seen("t", 2.0, 100)])
    assert histories.of("t") is None
    histories.note(1_005.0, 5.0, [seen("t", 10.0, 150)])  # too soon for a moment, and yet counted
    histories.note(1_010.0, 5.0, [seen("t", 4.0, 400)])
    found = histories.of("t")
    assert found is not None
    assert (found.span_s, found.records, found.grown_bytes) == (10.0, 70.0, 300.0)
    assert found.bytes_in_a_day == 300.0 * 8640
    assert [(each.title, each.newest) for each in found.charts] == [
        ("Records produced per second", "7.0/s"),
        ("Size of one copy", "400 B"),
    ]
    histories.note(1_020.0, 10.0, [seen("t", 0.0, 100)])
    found = histories.of("t")
    assert found is not None
    assert found.grown_bytes == 0
    assert [(each.title, each.newest, each.highest) for each in found.charts] == [
        ("Records produced per second", "0/s", "7.0/s"),
        ("Growth of one copy", "0 B/s", "30 B/s"),
        ("Size of one copy", "100 B", "400 B"),
    ]
    assert histories.of("unknown") is None


def test_a_moment_without_a_leader_is_no_point() -> None:
    histories = TopicHistories()
    histories.note(0.0, 5.0, [seen("t", 1.0, 100)])
    histories.note(10.0, 10.0, [seen("t", 0.0, 0, offline=1)])
    assert histories.of("t") is None
    histories.note(20.0, 10.0, [seen("t", 1.0, 120)])
    found = histories.of("t")
    assert found is not None
    assert (found.span_s, found.grown_bytes) == (20.0, 20.0)


def test_the_last_hours_have_charts_of_their_own() -> None:
    histories = TopicHistories()
    for number in range(400):
        histories.note(30.0 * number, 30.0, [seen("t", 1.0, 1000 * number)])
    found = histories.of("t")
    assert found is not None
    sizes = [each for each in found.charts if each.title == "Size of one copy"]
    assert [(each.newest, span_text(each.spans_s)) for each in sizes] == [
        ("399.0 kB", "15 minutes"),
        ("390.0 kB", "3 hours"),
    ]


def test_another_topic_has_nothing_of_the_one_whose_place_it_gets() -> None:
    histories = TopicHistories()
    for at_s in (0.0, 10.0):
        histories.note(at_s, 10.0, [seen("kept", 1.0, 5), seen("deleted", 9.0, 900)])
    histories.note(20.0, 10.0, [seen("kept", 1.0, 5)])
    assert histories.of("deleted") is None
    for at_s in (30.0, 40.0):
        histories.note(at_s, 10.0, [seen("kept", 1.0, 5), seen("new", 3.0, 70)])
    found = histories.of("new")
    assert found is not None
    assert (found.span_s, found.records) == (10.0, 30.0)
    assert histories.topics == 2
    kept = histories.of("kept")
    assert kept is not None
    assert kept.span_s == 40.0


def test_topics_and_numbers_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic_growth, "TOPICS_MAX", 4)
    histories = TopicHistories()
    at_s = 0.0
    for number in range(2 * LONG_POINTS_MAX):  # other topics each time
        for step in range(2):
            at_s += 900.0
            topics = [seen(f"t-{number}-{each}", 9.0 - each, 1 + step) for each in range(6)]
            histories.note(at_s, 900.0, topics)
        assert histories.topics == 4
        assert histories.of(f"t-{number}-3") is not None
        assert histories.of(f"t-{number}-5") is None
        histories.use(f"t-{number}-5")  # makes the one that grows least make way
        assert histories.of(f"t-{number}-3") is None
    moments = RECENT_POINTS_MAX + LONG_POINTS_MAX
    assert histories.numbers <= 4 * (2 * moments + 2)
    at_s += 900.0
    histories.note(at_s, 900.0, [*topics])
    assert histories.topics == 4


def test_five_thousand_topics_take_as_much_as_is_said() -> None:
    histories = TopicHistories()
    topics = [seen(f"t-{number}", 0.0, number) for number in range(TOPICS_MAX + 10)]
    for number in range(3):
        histories.note(10.0 * number, 10.0, topics)
    assert histories.topics == TOPICS_MAX
    assert histories.numbers == TOPICS_MAX * (3 * 2 + 1 * 2 + 2)


@pytest.mark.parametrize(
    ("count", "told"), [(1500, "+1.5 kB"), (-1500, "−1.5 kB"), (0, "0 B")], ids=["more", "less", "as before"]
)
def test_a_change_of_a_size_has_a_sign(count: float, told: str) -> None:
    assert bytes_change_text(count) == told


def test_a_span_is_told_in_a_unit_that_fits() -> None:
    spans = [0.4, 1, 119, 120, 900, 7_199, 7_200, 86_400]
    assert [span_text(each) for each in spans] == [
        "0 seconds",
        "1 second",
        "119 seconds",
        "2 minutes",
        "15 minutes",
        "120 minutes",
        "2 hours",
        "24 hours",
    ]
