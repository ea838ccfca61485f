"""Which partitions `--topic` means."""

import pytest

from ottla_operations.groups.partition_selection import BadSelection, parse_selection, selected_partitions

COUNTS = {"flights": 3, "prices": 2}


def chosen(*texts: str) -> list[tuple[str, int]]:
    return selected_partitions(parse_selection(texts), COUNTS)


def test_a_topic_alone_means_all_its_partitions():
    assert chosen("prices", "flights") == [
        ("flights", 0),
        ("flights", 1),
        ("flights", 2),
        ("prices", 0),
        ("prices", 1),
    ]


def test_partitions_are_named_behind_a_colon_and_add_up():
    assert chosen("flights:2,0", "flights:0", "prices:1") == [("flights", 0), ("flights", 2), ("prices", 1)]


def test_all_partitions_and_one_of_them_are_all():
    assert chosen("prices:1", "prices") == chosen("prices", "prices:1") == [("prices", 0), ("prices", 1)]


@pytest.mark.parametrize("text", ["", ":", ":1", "flights:", "flights:a", "flights:1,", "flights:-1", "flights:1:2"])
def test_what_is_no_selection_is_refused(text):
    with pytest.raises(BadSelection, match="is no selection"):
        chosen(text)


def test_what_is_not_there_is_named():
    with pytest.raises(BadSelection, match="there is no topic weather"):
        chosen("weather")
    with pytest.raises(BadSelection, match="topic prices has no partition 2; its partitions are 0 to 1"):
        chosen("prices:0,2")
