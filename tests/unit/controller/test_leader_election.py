"""Which partitions are looked at, and what new ones begin with."""

from dataclasses import replace

import pytest

from ottla_controller.leader_election import elections, first_state, needs_attention, partitions_to_examine
from ottla_controller.partition_change import TopicRules, conclude
from ottla_controller.topic_rules import rules_of_topics
from ottla_core.cluster.state.model import ClusterState, PartitionState, Topic
from tests.support.controller.replica_rules import ID, live, partition, remembered, rules, stand


def test_all_live_replicas_of_a_new_partition_are_in_sync_and_the_first_of_them_leads() -> None:
    assert first_state(ID, 0, (3, 1, 2), live("1@5", "2@6")) == PartitionState(
        topic_id=ID,
        index=0,
        replicas=(3, 1, 2),
        isr=(1, 2),
        leader=1,
        leader_epoch=0,
        leader_broker_epoch=5,
    )


def test_a_broker_about_to_leave_begins_in_sync_only_where_it_is_alone() -> None:
    assert first_state(ID, 0, (1, 2), live("1@5!", "2@6")).isr == (2,)
    assert first_state(ID, 0, (1,), live("1@5!", "2@6")).isr == (1,)


def test_only_partitions_that_must_change_are_returned() -> None:
    fine, orphaned = partition("123", "2@6", index=0), partition("13", "1@5", index=1)
    topic = Topic(name="t", id=ID, partitions=(fine, orphaned))
    changed = elections([(topic, fine), (topic, orphaned)], stand(live("2@6", "3@7")), rules_of=lambda _: rules())
    assert [one.index for one in changed] == [0, 1]  # broker 1 was in sync in both
    assert elections([(topic, changed[0])], stand(live("2@6", "3@7")), rules_of=lambda _: rules()) == []


@pytest.mark.parametrize("present", [("1@5", "2@6", "3@7"), ("1@5", "2@6")])
def test_a_partition_with_somebody_in_sync_who_is_no_replica_stops_no_other_election_and_is_led_by_nobody(
    present: tuple[str, ...],
) -> None:
    contradictory = partition("3", "none", replicas="12")
    fine = partition("12", "none", replicas="12", index=1)
    topic = Topic(name="t", id=ID, partitions=(contradictory, fine))
    pairs = [(topic, contradictory), (topic, fine)]
    (changed,) = elections(pairs, stand(live(*present)), rules_of=lambda _: rules())
    assert (changed.index, changed.leader) == (1, 1)
    mended = replace(contradictory, replicas=(1, 2, 3))
    assert conclude(contradictory, mended, stand(live("3@7")), rules()).leader == 3


def test_a_quick_look_finds_whatever_may_have_to_change() -> None:
    everybody = live("1@5", "2@6", "3@7")
    assert not needs_attention(partition("123", "1@5"), stand(everybody))
    assert needs_attention(partition("123", "1@4"), stand(everybody))
    assert needs_attention(partition("12", "none"), stand(everybody))
    assert needs_attention(partition("123", "1@5"), stand(live("1@5", "2@6")))
    assert needs_attention(partition("123", "1@5"), stand(live("1@5", "2@6!", "3@7")))
    assert needs_attention(partition("123", "1@5"), stand(everybody, remembered("2@4")))
    assert not needs_attention(partition("12", "1@5", eligible="3"), stand(live("1@5", "2@6")))
    assert needs_attention(partition("12", "1@5", eligible="3"), stand(live("1@5", "2@6", "3@9~"), remembered("3@7")))
    assert needs_attention(partition("12", "1@5", adding="2"), stand(everybody))


def names(former: ClusterState | None, new: ClusterState) -> list[str]:
    return [f"{topic.name}{one.index}" for topic, one in partitions_to_examine(former, new)]


def test_only_what_can_have_become_wrong_is_examined() -> None:
    a0, a1, b0 = partition("1", "1@5"), partition("1", "1@5", index=1), partition("1", "1@5")
    a, b = Topic(name="a", id=ID, partitions=(a0, a1)), Topic(name="b", id=ID, partitions=(b0,))
    state = ClusterState(brokers=live("1@5"), topics={"a": a})
    assert names(None, state) == ["a0", "a1"]
    assert names(state, state) == []
    grown = replace(state, topics={"a": a, "b": b})
    assert names(state, grown) == ["b0"]
    written = replace(grown, topics={"a": replace(a, partitions=(a0, replace(a1, leader=2))), "b": b})
    assert names(grown, written) == ["a1"]
    configured = replace(grown, topics={"a": replace(a, configs={"unclean.leader.election.enable": "true"}), "b": b})
    assert names(grown, configured) == ["a0", "a1"]
    restarted = replace(grown, brokers=live("1@6"))
    assert names(grown, restarted) == ["a0", "a1", "b0"]
    unclean = replace(grown, broker_configs={None: {"unclean.leader.election.enable": "true"}})
    assert names(grown, unclean) == ["a0", "a1", "b0"]
    assert names(unclean, replace(unclean, broker_configs={**unclean.broker_configs, 1: {"x": "y"}})) == []


def test_a_partition_without_a_leader_gets_one_when_unclean_election_is_switched_on_for_the_cluster() -> None:
    leaderless = partition("", "none", replicas="12")
    topic = Topic(name="a", id=ID, partitions=(leaderless,))
    former = ClusterState(brokers=live("2@6"), topics={"a": topic})
    new = replace(former, broker_configs={None: {"unclean.leader.election.enable": " True"}})
    (elected,) = elections(
        partitions_to_examine(former, new),
        stand(new.brokers),
        rules_of=rules_of_topics(new.broker_configs[None], TopicRules()),
    )
    assert (elected.leader, elected.isr) == (2, (2,))
