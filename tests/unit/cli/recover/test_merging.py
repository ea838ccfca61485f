"""What a recovery writes besides in-sync sets, and facts of which it makes no plan."""

import json
from dataclasses import replace
from uuid import UUID

import pytest

from ottla.recover.consistency import Contradiction
from ottla.recover.merging import PRODUCER_ID_LEAP
from ottla.recover.partition_rules import LEADER_EPOCH_LEAP, LEADER_EPOCH_LEAP_UNSEEN, Verdict
from ottla_core.cluster.state import codec
from ottla_core.cluster.state.codec import TopicRecord
from ottla_core.cluster.state.model import NO_EPOCH, PartitionState, Recovery, Shard
from ottla_core.cluster.state.recovery_facts import (
    BadFacts,
    BrokerFacts,
    decode_facts,
    encode_facts,
)
from ottla_core.cluster.state.state_copy import StoredValue
from ottla_core.topic_partition import TopicPartition
from tests.support.controller.recovery_plans import FLIGHTS, LINK, directory_id, epoch_of, facts, log, plan, state


def test_the_state_goes_along_as_it_is() -> None:
    copy = state(links__west=b'{"later":1}', configs__groups__g=b'{"configs":{"a":"b"}}')
    made = plan(facts(1, copy), facts(2, copy))
    assert made.cluster_name == "prod"
    for key in ("links/west", "configs/groups/g", "topics/flights", "id"):
        assert made.entries[key] == copy.entries[key].value
    assert made.entries["recovery"] == codec.encode_recovery(Recovery(number=1_000))


def test_fields_of_a_partition_that_are_not_concerned_stay() -> None:
    linked = PartitionState(
        topic_id=FLIGHTS, index=0, replicas=(1, 2), isr=(1,), leader=1, leader_epoch=7, adding=(2,), link=LINK,
        set_aside_up_to=5,
    )  # fmt: skip
    value = json.dumps({**json.loads(codec.encode_partition(linked)), "of_a_later_release": 3}).encode()
    copy = state(**{f"partitions__{FLIGHTS}__0": value})
    written = json.loads(plan(facts(1, copy), facts(2, copy)).entries[f"partitions/{FLIGHTS}/0"])
    assert written["of_a_later_release"] == 3
    assert (written["link"], written["set_aside_up_to"], written["adding"]) == (str(LINK), 5, [2])
    assert (written["isr"], written["leader"], written["leader_broker_epoch"]) == ([1], -1, NO_EPOCH)


def test_leader_epochs_are_above_those_of_the_state_and_of_the_logs() -> None:
    (of_state,) = plan(facts(1, state()), facts(2, state())).partitions
    (of_log,) = plan(facts(1, state(), log(epoch=90)), facts(2, state())).partitions
    assert of_state.state.leader_epoch == 7 + LEADER_EPOCH_LEAP
    assert of_log.state.leader_epoch == 90 + LEADER_EPOCH_LEAP


def test_producer_ids_are_above_all_that_were_seen() -> None:
    counted = state(**{"producer-ids": codec.encode_next_producer_id(5_000)})
    made = plan(
        facts(1, counted, log(highest_producer_id=9_000)), facts(2, counted, log(highest_producer_id=2**62 + 5))
    )
    assert codec.decode_next_producer_id(made.entries["producer-ids"]) == 9_001 + PRODUCER_ID_LEAP


def test_shards_are_owned_anew_under_producer_ids_that_no_log_has() -> None:
    """An ownership of which the copy does not know may have written under the next epoch of the id that it has."""
    shard = Shard(
        topic_partition=TopicPartition("__consumer_offsets", 0),
        coordinator=1,
        coordinator_epoch=33,
        producer_id=4,
        producer_epoch=6,
    )
    copy = state()
    copy = replace(
        copy, entries={**copy.entries, "shards/__consumer_offsets/0": StoredValue(9, codec.encode_shard(shard))}
    )
    made = plan(facts(1, copy), facts(2, copy))
    assert not [key for key in made.entries if key.startswith("shards/")]
    assert codec.decode_next_producer_id(made.entries["producer-ids"]) > shard.producer_id


@pytest.mark.parametrize(
    ("directory", "epoch"),
    [
        ({}, 0),
        ({"intact_since": 20}, 0),  # the controller has attended to the registration of 30
        ({"intact_since": 40}, NO_EPOCH),  # it has not seen that of 40
        ({"intact_since": NO_EPOCH}, NO_EPOCH),
        ({"may_lack_records": True}, NO_EPOCH),
        ({"intact_since": 40, "recovery": 3}, 0),  # counted by another etcd, before the state's last recovery
    ],
)
def test_a_registration_says_whether_records_may_be_lost(directory: dict[str, object], epoch: int) -> None:
    made = plan(facts(1, state(), **directory), facts(2, state()))
    assert epoch_of(made, 1) == epoch
    assert epoch_of(made, 2) == 0


def test_a_broker_without_a_directory_that_it_had_has_no_sure_copy() -> None:
    lost = facts(1, state(), directory_id=UUID(int=5))
    (partition,) = plan(lost, facts(2, state(), log(30))).partitions
    assert (partition.verdict, partition.state.isr) == (Verdict.LONGEST_LOG, (2,))


def test_a_replica_whose_log_ends_before_what_was_committed_is_not_in_sync() -> None:
    (partition,) = plan(facts(1, state(), log(3)), facts(2, state(), log(10, high_watermark=8))).partitions
    assert (partition.verdict, partition.state.isr) == (Verdict.IN_SYNC, (2,))


def test_a_replica_without_a_log_is_not_in_sync_unless_nobody_has_one() -> None:
    elsewhere = log(topic="other", topic_id=UUID(int=9))
    (partition,) = plan(facts(1, state(), log(5)), facts(2, state(), elsewhere)).partitions
    assert partition.state.isr == (1,)
    (empty,) = plan(facts(1, state(), elsewhere), facts(2, state(), elsewhere)).partitions
    assert empty.state.isr == (1, 2)


def test_logs_of_topics_that_sure_copies_lack_are_of_deleted_ones() -> None:
    other = log(topic="old", topic_id=UUID(int=9))
    made = plan(facts(1, state(), log(), other), facts(2, state()))
    assert made.rebuilt_topics == ()
    assert any("old" in note for note in made.notes)


def test_without_copies_topics_are_rebuilt_and_keep_everything() -> None:
    made = plan(facts(1, None, log(5), log(7, index=1)), facts(2, None, log(9)))
    assert made.rebuilt_topics == ("flights",)
    record = codec.decode_topic("flights", made.entries["topics/flights"])
    assert (record.id, record.partition_count) == (FLIGHTS, 2)
    assert record.configs == {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}
    assert [each.state.isr for each in made.partitions] == [(2,), (1,)]
    assert made.partitions[0].state.replicas == (1, 2)
    assert any("1, 2" in note and "missing" in note for note in made.notes), "nobody knows which brokers there were"


def test_without_copies_a_partition_without_a_log_shows_that_a_broker_is_missing() -> None:
    found = facts(1, None, log(5), log(7, index=2)), facts(2, None, log(9))
    with pytest.raises(Contradiction, match="flights-1"):
        plan(*found)
    made = plan(*found, without=frozenset({3}))
    begun_anew = made.partitions[1]
    assert (begun_anew.state.isr, begun_anew.may_lack_records) == ((2,), True)


def test_without_copies_a_log_that_cannot_be_read_is_waited_for_where_there_is_no_other() -> None:
    unread = facts(1, None, log(7, index=1), unread=(("flights", 0),))
    made = plan(unread, facts(2, None, log(9, index=1)))
    assert [each.verdict for each in made.partitions] == [Verdict.WAITS, Verdict.LONGEST_LOG]
    assert made.partitions[0].state.replicas == (1,)
    with_another = plan(facts(1, None, log(7, index=1), unread=(("flights", 0),)), facts(2, None, log(9)))
    partition = with_another.partitions[0]
    assert (partition.state.isr, set(partition.state.replicas)) == ((2,), {1, 2})
    assert partition.may_lack_records


def test_without_copies_the_number_of_group_partitions_is_to_be_looked_at() -> None:
    groups = log(5, topic="__consumer_offsets", topic_id=UUID(int=8))
    made = plan(facts(1, None, groups))
    assert any("__consumer_offsets" in note and "1 partition" in note for note in made.notes)


@pytest.mark.parametrize("old_id", [UUID(int=3), UUID(int=12)])
@pytest.mark.parametrize("has_times", [True, False])
def test_of_two_topics_of_one_name_the_one_that_was_created_last_is_rebuilt(old_id: UUID, has_times: bool) -> None:
    """The other one was deleted while its broker was down. Without times, the live one is that of more brokers."""
    new_id = UUID(int=9)
    old = log(5, epoch=40, topic="t", topic_id=old_id, created_ms=1_000 * has_times)
    new = log(1000, epoch=1, topic="t", topic_id=new_id, created_ms=2_000 * has_times)
    made = plan(facts(1, None, new), facts(2, None, new), facts(3, None, old))
    assert codec.decode_topic("t", made.entries["topics/t"]).id == new_id
    assert any(str(old_id) in note for note in made.notes)


def test_a_topic_whose_deletion_a_copy_has_told_is_not_rebuilt() -> None:
    gone = UUID(int=44)
    copy = replace(state(), deleted_topics=frozenset({gone}))
    made = plan(facts(1, copy), facts(2, None, log(), log(topic="gone", topic_id=gone)))
    assert made.rebuilt_topics == ()
    assert any("deleted topic" in note and "gone" in note for note in made.notes)


def test_a_backup_has_settings_where_copies_are_gone() -> None:
    made = plan(facts(1, None, log(5)), facts(2, None, log(9)), backups=[state()])
    assert made.entries["topics/flights"] == state().entries["topics/flights"].value
    (partition,) = made.partitions
    assert (partition.verdict, partition.state.isr) == (Verdict.LONGEST_LOG, (2,)), "its in-sync set is not believed"


def test_topics_of_a_backup_of_which_there_is_no_log_are_noted() -> None:
    later = codec.encode_topic(TopicRecord(id=UUID(int=66), partition_count=0))
    made = plan(facts(1, None), facts(2, None), backups=[state(topics__later=later)])
    assert any("later" in note and "deleted since" in note for note in made.notes)
    of_copy = plan(facts(1, state(topics__later=later)), facts(2, state(topics__later=later)))
    assert not any("deleted since" in note for note in of_copy.notes)


def test_where_no_logs_were_seen_leader_epochs_are_leapt_over_by_more() -> None:
    (partition,) = plan(backups=[state()]).partitions
    assert partition.state.leader_epoch == 7 + LEADER_EPOCH_LEAP_UNSEEN


def test_partitions_that_moved_since_an_old_state_are_where_their_logs_are() -> None:
    moved = [facts(each, None, log(20)) for each in (3, 4)]
    elsewhere = log(topic="other", topic_id=UUID(int=9))
    made = plan(*moved, facts(1, None, elsewhere), facts(2, None, elsewhere), backups=[state()])
    assert [each.state.replicas for each in made.partitions if each.topic == "flights"] == [(3, 4)]


def test_a_copy_of_after_a_recovery_wins_over_one_of_before() -> None:
    before = state(revision=90_000)
    after = state(revision=60, recovery=codec.encode_recovery(Recovery(number=5)))
    assert plan(facts(1, before), facts(2, after)).newest == after


@pytest.mark.parametrize("as_backup", [False, True])
def test_a_copy_of_a_recovery_that_was_not_finished_is_passed_over(as_backup: bool) -> None:
    half = state(70, recovery=codec.encode_recovery(Recovery(number=9, is_unfinished=True)))
    half = replace(half, entries={key: each for key, each in half.entries.items() if not key.startswith("topics/")})
    made = (
        plan(facts(1, None), facts(2, state(60)), backups=[half])
        if as_backup
        else plan(facts(1, half), facts(2, state(60)))
    )
    assert made.newest == state(60)
    assert "topics/flights" in made.entries
    assert made.partitions[0].verdict is Verdict.LONGEST_LOG, "what broker 1 has acted by is not known"
    assert as_backup or any("not finished" in note for note in made.notes)


def test_the_number_of_a_recovery_is_above_all_that_are_known() -> None:
    def of(number: int, *, is_unfinished: bool = False) -> bytes:
        return codec.encode_recovery(Recovery(number=number, is_unfinished=is_unfinished))

    in_backup = plan(facts(1, None), facts(2, None), backups=[state(60, recovery=of(5_000))])
    in_record = plan(facts(1, None, recovery=7_000), facts(2, None))
    unfinished = plan(facts(1, state(60, recovery=of(9_000, is_unfinished=True))), facts(2, state(60)))
    restored = plan(backups=[state(60, recovery=of(5_000))])
    numbers = [each.recovery.number for each in (in_backup, in_record, unfinished, restored)]
    assert numbers == [5_001, 7_001, 9_001, 5_001]


@pytest.mark.parametrize(
    ("contradicting", "message"),
    [
        ([facts(1, state()), replace(facts(2, state()), cluster_id="theirs")], "several clusters"),
        ([facts(1, state()), facts(1, state()), facts(2, state())], "broker 1 is there twice"),
        ([facts(1, state()), facts(2, state(), directory_id=directory_id(1))], "same directory id"),
        ([facts(1, state())], "not inspected: 2"),
        ([], "nothing to recover from"),
        ([facts(1, state()), facts(2, state(revision=70, links__west=b"{}"))], "not of one history"),
    ],
)
def test_facts_that_contradict_each_other_make_no_plan(contradicting: list[BrokerFacts], message: str) -> None:
    with pytest.raises(Contradiction, match=message):
        plan(*contradicting)


def test_a_broker_that_was_inspected_is_not_given_up() -> None:
    with pytest.raises(Contradiction, match="to be given up"):
        plan(facts(1, state()), facts(2, state()), without=frozenset({2}))


def test_facts_are_the_same_when_they_are_read_again() -> None:
    copy = replace(state(), deleted_topics=frozenset({UUID(int=5)}))
    found = facts(
        1,
        copy,
        log(highest_producer_id=3, created_ms=7),
        intact_since=4,
        copy_problem="it is damaged",
        unread=(("flights", 3),),
    )
    assert decode_facts(json.loads(json.dumps(encode_facts(found)))) == found
    with pytest.raises(BadFacts, match="version 2"):
        decode_facts({**encode_facts(found), "version": 2})
