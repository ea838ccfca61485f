"""Topics have the names that MirrorMaker 2 gives them, and these are understood as it does."""

import random
import subprocess
from pathlib import Path

import pytest

from ottla_standard.mirror.replication_policies import DefaultReplicationPolicy, IdentityReplicationPolicy
from tests.support.reference.kafka_jars import kafka_classpath

pytestmark = [pytest.mark.slow, pytest.mark.requires("kafka")]

SOURCE = Path(__file__).with_name("MirrorNames.java")
WORDS = ("orders", "A", "B", "heartbeats", "internal", "checkpoints", "mm2-offset-syncs", "mm2-configs", "__c", "")
PARTS_MAX = 4
TOPICS = 300


@pytest.mark.parametrize(("separator", "is_internal_too"), [(".", True), ("_", True), ("_", False), ("--", False)])
def test_random_names_mean_the_same(separator: str, is_internal_too: bool) -> None:
    chance = random.Random(f"{separator}{is_internal_too}")
    topics = sorted(
        {
            chance.choice((separator, ".")).join(chance.choices(WORDS, k=chance.randint(1, PARTS_MAX)))
            for _ in range(TOPICS)
        }
        - {""}
    )
    enabled = str(is_internal_too).lower()
    command = ["java", "-cp", kafka_classpath(), str(SOURCE), "A", separator, enabled, *topics]
    told = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout.splitlines()
    assert told == list(lines(separator, enabled, topics))


def lines(separator: str, enabled: str, topics: list[str]):
    for policy in (DefaultReplicationPolicy(), IdentityReplicationPolicy()):
        policy.configure(
            {
                "replication.policy.separator": separator,
                "replication.policy.internal.topic.separator.enabled": enabled,
                "source.cluster.alias": "A",
            }
        )
        yield f"{policy.offset_syncs_topic('A')}\t{policy.checkpoints_topic('A')}"
        for topic in topics:
            yield "\t".join(
                [
                    policy.format_remote_topic("A", topic),
                    java(policy.topic_source(topic)),
                    java(policy.upstream_topic(topic)),
                    policy.original_topic(topic),
                    java(policy.is_heartbeats_topic(topic)),
                    java(policy.is_checkpoints_topic(topic)),
                    java(policy.is_internal_topic(topic)),
                ]
            )


def java(value: object) -> str:
    """A value as Java writes it."""
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
