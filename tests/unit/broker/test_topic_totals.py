"""Totals by topic within a bound."""

from ottla_broker.topic_totals import totals_by_topic


def test_partitions_of_a_topic_are_added_up():
    assert totals_by_topic([("b", 1), ("a", 2), ("b", 4)]) == {"a": 2, "b": 5}


def test_topics_beyond_the_bound_share_one_total():
    assert totals_by_topic([("c", 4), ("a", 1), ("d", 8), ("b", 2)], 2) == {"a": 1, "b": 2, "_other": 12}


def test_a_topic_that_has_the_name_of_the_rest_loses_nothing():
    assert totals_by_topic([("_other", 1), ("b", 2)], 1) == {"_other": 3}
