"""Which topics belong together."""

import pytest

from ottla_operations.mirror.topic_pairs import BadPattern, Naming, chosen_topics

NAMES = ["orders", "orders.eu", "__consumer_offsets", "mm2-offset-syncs.b.internal", "heartbeats", "a.heartbeats"]


def test_without_patterns_internal_topics_are_left_out():
    assert chosen_topics(NAMES, []) == ["orders", "orders.eu"]


def test_patterns_match_the_whole_name_and_may_name_internal_topics():
    assert chosen_topics(NAMES, ["orders"]) == ["orders"]
    assert chosen_topics(NAMES, ["orders.*", "heartbeats"]) == ["heartbeats", "orders", "orders.eu"]


def test_a_bad_pattern_is_told():
    with pytest.raises(BadPattern, match=r"\(x"):
        chosen_topics(NAMES, ["(x"])


def test_names_are_those_of_the_policies_of_mirror_maker():
    assert Naming().target_name("orders") == "orders"
    assert Naming(alias="west").target_name("orders") == "west.orders"
    assert Naming(alias="west", separator="-").target_name("orders") == "west-orders"
