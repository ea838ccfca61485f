"""Which settings of topics go along."""

from ottla_mirror.topics.topic_configs import (
    DEFAULT_CONFIG,
    STATIC_BROKER_CONFIG,
    TOPIC_CONFIG,
    TopicSetting,
    changes,
    settings_of_new_topic,
    wanted_settings,
)
from ottla_standard.mirror.filters import DefaultConfigPropertyFilter


def properties(**settings: str) -> DefaultConfigPropertyFilter:
    made = DefaultConfigPropertyFilter()
    made.configure({key.replace("_", "."): value for key, value in settings.items()})
    return made


def own(value: str) -> TopicSetting:
    return TopicSetting(value=value, source=TOPIC_CONFIG)


def default(value: str) -> TopicSetting:
    return TopicSetting(value=value, source=DEFAULT_CONFIG)


SOURCE = {
    "cleanup.policy": own("compact"),
    "retention.ms": default("604800000"),
    "min.insync.replicas": own("2"),
    "segment.bytes": TopicSetting(value="1", source=STATIC_BROKER_CONFIG),
    "secret": TopicSetting(value=None, source=TOPIC_CONFIG, is_fixed=True),
}


def test_a_new_topic_gets_what_the_sources_says_of_itself_and_the_filter_lets_through():
    assert settings_of_new_topic(SOURCE, properties()) == {"cleanup.policy": "compact"}


def test_a_default_of_the_source_goes_along_if_asked_for():
    found = settings_of_new_topic(SOURCE, properties(use_defaults_from="source"))
    assert found == {"cleanup.policy": "compact", "retention.ms": "604800000"}


def test_what_differs_is_changed_and_what_the_source_has_taken_back_is_taken_back():
    wanted = wanted_settings(SOURCE, properties())
    target = {
        "cleanup.policy": default("delete"),
        "retention.ms": own("1"),
        "min.insync.replicas": own("1"),
        "segment.bytes": own("5"),
    }
    assert changes(wanted, target) == {"cleanup.policy": "compact", "retention.ms": None}


def test_nothing_is_changed_where_both_say_the_same():
    wanted = wanted_settings(SOURCE, properties())
    assert changes(wanted, {"cleanup.policy": own("compact"), "retention.ms": default("1")}) == {}


def test_settings_that_the_target_does_not_know_are_left_out():
    assert changes({"remote.storage.enable": "true"}, {}) == {}
