"""The throttles of replication: replicas by topic, rates by broker."""

import pytest

from ottla_core.errors import InvalidConfig
from ottla_core.throttle_config import (
    FOLLOWER_THROTTLED_RATE,
    LEADER_THROTTLED_RATE,
    THROTTLE_DEFINITIONS,
    UNLIMITED,
    throttle_rate,
)
from ottla_core.topic_config import TopicConfig, parse_topic_configs

REPLICAS = "leader.replication.throttled.replicas"


@pytest.mark.parametrize(
    ("text", "replicas"),
    [("0:1,1:2", {"0:1", "1:2"}), (" 0:1 , 12:34 ", {"0:1", "12:34"}), ("*", {"*"}), ("", set())],
)
def test_throttled_replicas_are_partitions_and_brokers_or_all(text: str, replicas: set[str]) -> None:
    assert parse_topic_configs({REPLICAS: text}).leader_replication_throttled_replicas == replicas


@pytest.mark.parametrize("text", ["0", "0:", "0:1:2", "a:1", "*,0:1", "0-1", "0:-1"])
def test_anything_else_is_refused_in_kafkas_words(text: str) -> None:
    with pytest.raises(InvalidConfig, match=rf"{REPLICAS} must be the literal '\*' or a list of replicas in the"):
        parse_topic_configs({REPLICAS: text})


def test_no_replica_is_throttled_unless_somebody_says_so() -> None:
    assert TopicConfig().follower_replication_throttled_replicas == frozenset()
    assert throttle_rate(LEADER_THROTTLED_RATE, 1, {}) == UNLIMITED


def test_a_brokers_own_rate_comes_before_that_of_all_brokers() -> None:
    configs = {None: {LEADER_THROTTLED_RATE: "5", FOLLOWER_THROTTLED_RATE: "6"}, 1: {LEADER_THROTTLED_RATE: "7"}}
    assert throttle_rate(LEADER_THROTTLED_RATE, 1, configs) == 7
    assert throttle_rate(LEADER_THROTTLED_RATE, 2, configs) == 5
    assert throttle_rate(FOLLOWER_THROTTLED_RATE, 1, configs) == 6


@pytest.mark.parametrize("text", ["-1", "fast", "1.5"])
def test_a_rate_is_a_number_of_bytes(text: str) -> None:
    with pytest.raises(InvalidConfig):
        THROTTLE_DEFINITIONS[LEADER_THROTTLED_RATE].parse(text)
