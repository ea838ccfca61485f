"""Topic settings: Kafka's names, defaults, limits and messages."""

import pytest

from ottla_core.errors import InvalidConfig, InvalidTopic
from ottla_core.topic_config import TOPIC_CONFIG_DEFINITIONS, TopicConfig, parse_topic_configs, topic_defaults
from ottla_core.topic_name import canonical_topic_name, check_topic_name


def test_overrides_are_parsed_into_types() -> None:
    config = parse_topic_configs(
        {
            "retention.ms": " 5 ",
            "cleanup.policy": "compact, delete",
            "preallocate": "TRUE",
            "min.cleanable.dirty.ratio": "0.1",
        }
    )

    assert config.retention_ms == 5
    assert config.cleanup_policy == {"compact", "delete"}
    assert config.preallocate is True
    assert config.min_cleanable_dirty_ratio == 0.1


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("no.such.key", "1", "Unknown topic config name: no.such.key"),
        ("retention.ms", "abc", "Invalid value abc for configuration retention.ms: Not a number of type LONG"),
        ("retention.ms", "-2", "Invalid value -2 for configuration retention.ms: Value must be at least -1"),
        ("segment.bytes", "99999999999", "Value must be no more than 2147483647"),
        (
            "cleanup.policy",
            "foo",
            "Invalid value foo for configuration cleanup.policy: String must be one of: compact, delete",
        ),
        (
            "compression.type",
            "brotli",
            "String must be one of: uncompressed, zstd, lz4, snappy, gzip, producer",
        ),
        ("preallocate", "yes", "Expected value to be either true or false"),
        ("min.cleanable.dirty.ratio", "1.5", "Value must be no more than 1"),
        ("min.cleanable.dirty.ratio", "nan", "Invalid value nan"),
    ],
)
def test_a_bad_override_is_refused_in_kafkas_words(name: str, value: str, reason: str) -> None:
    with pytest.raises(InvalidConfig) as raised:
        parse_topic_configs({name: value})

    assert reason in raised.value.message


def test_settings_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(InvalidConfig, match=r"min.compaction.lag.ms \(9\) > max.compaction.lag.ms \(3\)"):
        parse_topic_configs({"min.compaction.lag.ms": "9", "max.compaction.lag.ms": "3"})


def test_every_bad_override_is_named() -> None:
    with pytest.raises(InvalidConfig) as raised:
        parse_topic_configs({"a.b": "1", "segment.ms": "0"})

    assert "a.b" in raised.value.message
    assert "segment.ms" in raised.value.message


def test_every_definition_formats_its_default_so_that_it_parses_back() -> None:
    for definition in TOPIC_CONFIG_DEFINITIONS.values():
        default = getattr(TopicConfig(), definition.attribute)
        assert definition.parse(definition.format(default)) == default


def test_broker_settings_give_defaults_in_their_own_units() -> None:
    assert topic_defaults({"log.retention.minutes": "2", "log.retention.hours": "9"}).retention_ms == 120_000
    assert topic_defaults({"log.retention.hours": "-1"}).retention_ms == -1
    with pytest.raises(InvalidConfig, match=r"log.retention.hours"):
        topic_defaults({"log.retention.hours": "x"})


@pytest.mark.parametrize("name", ["", ".", "..", "a b", "a/b", "ä", "a" * 250])
def test_an_illegal_topic_name_is_refused(name: str) -> None:
    with pytest.raises(InvalidTopic, match="Topic name is invalid"):
        check_topic_name(name)


def test_a_legal_topic_name_passes_and_may_collide() -> None:
    check_topic_name("a" * 249)
    check_topic_name("__flights.of_2013-01")
    assert canonical_topic_name("a.b") == canonical_topic_name("a_b")
    assert canonical_topic_name("a.b") != canonical_topic_name("a-b")
