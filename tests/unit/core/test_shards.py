"""A group's shard is the one that Kafka would choose, however often it is asked for."""

import pytest

from ottla_core import shards
from ottla_core.shards import GROUP_TOPIC, HASHES_KEPT_MAX, KEPT_ID_CHARACTERS_MAX, shard_of


@pytest.mark.parametrize(
    ("group_id", "java_hash"),
    [
        ("", 0),
        ("a", 97),
        ("hello", 99162322),
        ("polygenelubricants", 0x80000000),
        ("\N{GRINNING FACE}", 1772899),
        ("a" * 300, 2623562432),
    ],
)
def test_the_shard_follows_from_javas_hash(group_id: str, java_hash: int) -> None:
    for shard_count in (50, 7, 50):
        found = shard_of(group_id, shard_count)
        assert found == (GROUP_TOPIC, (java_hash & 0x7FFFFFFF) % shard_count)
        assert shard_of(group_id, shard_count) is found, "a name is made once"


def test_ids_that_are_kept_are_few_and_short() -> None:
    kept = shards._kept_java_hash
    for number in range(HASHES_KEPT_MAX + 100):
        shard_of(f"group-{number}", 50)
    assert kept.cache_info().currsize == HASHES_KEPT_MAX

    misses = kept.cache_info().misses
    shard_of("g" * (KEPT_ID_CHARACTERS_MAX + 1), 50)
    assert kept.cache_info().misses == misses
