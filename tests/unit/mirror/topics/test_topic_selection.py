"""Which topics are copied: filters decide, but never over what is internal or came from the target."""

import pytest

from ottla_mirror.config.mirror_config import MirrorConfig
from ottla_mirror.topics.topic_selection import is_copied, is_cycle

CLUSTERS = {"clusters": "A,B", "A.bootstrap.servers": "a:1", "B.bootstrap.servers": "b:1", "A->B.enabled": "true"}


def plugins(**settings: str):
    written = {key.replace("_", "."): value for key, value in settings.items()}
    return MirrorConfig.parse({**CLUSTERS, **written}).flows["A->B"].plugins


def copied(topic: str, *, is_internal: bool = False, heartbeats: bool = True, **settings: str) -> bool:
    return is_copied(
        topic,
        is_internal=is_internal,
        target="B",
        plugins=plugins(**settings),
        heartbeats_replicated=heartbeats,
    )


@pytest.mark.parametrize("topic", ["orders", "C.orders", "C.A.orders", "x.internal"])
def test_topics_of_this_cluster_and_of_others_are_copied(topic: str):
    assert copied(topic)


@pytest.mark.parametrize(
    "topic",
    ["B.orders", "C.B.orders", "__consumer_offsets", "mm2-offset-syncs.B.internal", "C.checkpoints.internal"],
)
def test_what_came_from_the_target_or_is_internal_is_not(topic: str):
    assert not copied(topic)


def test_what_mirror_workers_keep_for_themselves_is_never_copied():
    everything = {"topics_exclude": "nothing"}
    assert not copied("mirror-flows.internal", **everything)
    assert not copied("C.offset-map.internal", **everything)


def test_topics_of_the_brokers_are_never_copied():
    assert not copied("orders", is_internal=True)


def test_heartbeats_are_copied_although_the_filter_leaves_them_out():
    assert copied("heartbeats", topics="orders")
    assert copied("C.heartbeats", topics="orders")
    assert not copied("heartbeats", topics="orders", heartbeats=False)
    assert not copied("B.heartbeats", topics="orders")


def test_names_that_stay_say_nothing_of_a_cycle():
    policy = plugins(replication_policy_class="IdentityReplicationPolicy").policy
    assert not is_cycle("orders", "B", policy)
