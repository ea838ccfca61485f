"""Which topics a sink reads."""

from ottla_connect.task.sink.subscription import Subscription


def test_a_list_of_topics_never_changes():
    subscription = Subscription({"topics": "b, a,b"}, list_topics=lambda: (), max_age_s=10)
    assert subscription.changed(0.0) == ["b", "a"]
    assert subscription.changed(1e9) is None


def test_an_expression_matches_whole_names_and_is_tried_again_after_a_while():
    topics = ["flights", "flights-2024", "my-flights", "__consumer_offsets"]
    subscription = Subscription({"topics.regex": r"flights(-\d+)?|__.*"}, list_topics=lambda: topics, max_age_s=10)
    assert subscription.changed(0.0) == ["flights", "flights-2024"]
    topics.append("flights-2025")
    assert subscription.changed(9.9) is None
    assert subscription.changed(10.0) == ["flights", "flights-2024", "flights-2025"]
    assert subscription.changed(20.0) is None


def test_no_topic_may_match_yet():
    topics: list[str] = []
    subscription = Subscription({"topics.regex": "x"}, list_topics=lambda: topics, max_age_s=10)
    assert subscription.changed(0.0) == []
    assert subscription.changed(10.0) is None
    topics.append("x")
    assert subscription.changed(20.0) == ["x"]
