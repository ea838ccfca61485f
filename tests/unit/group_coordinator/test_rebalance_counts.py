"""Which rebalances are counted, and how long they take."""

from ottla_group_coordinator.rebalance_counts import Rebalance, RebalanceCounts
from tests.support.groups.classic_group_commands import classic_scene
from tests.support.groups.consumer_group_commands import consumer_scene


def test_a_rebalance_of_a_classic_group_takes_from_its_first_member_until_the_assignment_is_stored() -> None:
    scene = classic_scene()
    scene.run(["join a version=3", "advance 3s"])
    assert scene.rebalances == [], "the leader has not assigned anything yet"
    scene.run(["advance 1s", "sync a a=0"])
    assert scene.rebalances == [Rebalance("classic", 4_000)]


def test_a_rebalance_that_begins_again_before_its_end_counts_once() -> None:
    scene = classic_scene()
    scene.run(["join a version=3", "advance 3s", "join b version=3", "advance 2s", "join a version=3"])
    assert scene.rebalances == []
    scene.run(["sync a a=0 b=1"])
    assert [(each.protocol, each.took_ms) for each in scene.rebalances] == [("classic", 5_000)]


def test_a_classic_group_that_loses_all_members_completes_no_rebalance() -> None:
    scene = classic_scene()
    scene.run(["join a version=3", "advance 3s", "sync a a=0"])
    scene.rebalances.clear()
    scene.run(["leave a"])
    assert scene.rebalances == []


def test_a_consumer_group_rebalances_with_each_member_that_comes() -> None:
    scene = consumer_scene()
    scene.run(["topics flights=3", "join a topics=flights"])
    scene.run(["join b topics=flights"])
    assert scene.rebalances == [Rebalance("consumer", None)] * 2


def test_counts_are_by_protocol() -> None:
    counts = RebalanceCounts()
    counts.count([Rebalance("classic", 1_500), Rebalance("consumer", None), Rebalance("classic", 500)])
    assert counts.rebalances == {"classic": 2, "consumer": 1}
    assert counts.rebalance_ms == 2_000
