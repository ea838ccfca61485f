"""What one look at the logs finds for a reader."""

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from ottla_broker import fetch_reading
from ottla_broker.fetch_reading import FetchTerms, Found, Reading, look, note_told
from ottla_broker.fetch_sessions import FetchSession
from ottla_broker.log.partition.read_isolation import ReadIsolation
from ottla_broker.partition import Partition
from ottla_broker.replica.leader_replica import UNKNOWN_OFFSET, FollowerContact
from ottla_broker.replication.fetch_plan import FetchPlan
from ottla_broker.replication.following import append_from_leader
from ottla_core.wire.record_batch import iterate_batches
from tests.support.broker.partition_logs import NOW_MS, read_batches
from tests.support.broker.readable_partitions import (
    BROKER,
    FOLLOWER,
    OTHER_FOLLOWER,
    PLENTY_BYTES,
    TOPIC,
    ReadablePartitions,
    append,
    asked,
    replicate,
    session_of,
)
from tests.support.controller.replica_rules import live


@pytest.fixture
def partitions(tmp_path: Path) -> Iterator[ReadablePartitions]:
    partitions = ReadablePartitions(tmp_path)
    yield partitions
    partitions.close()


def terms(bytes_max: int = PLENTY_BYTES, **fields: Any) -> FetchTerms:
    return FetchTerms(bytes_max, **{"only_leader": True, "read_committed": False, **fields})


def contact(broker_id: int = FOLLOWER) -> FollowerContact:
    return FollowerContact(broker_id, 72, 0)


def full(session: FetchSession, partitions: ReadablePartitions, **fields: Any) -> list[Found]:
    return look(session, terms(**fields), partitions, only_news=False).found


def news(session: FetchSession, partitions: ReadablePartitions, **fields: Any) -> dict[int, Any]:
    """What a fetch of a session tells, by partition."""
    reading = look(session, terms(**fields), partitions, only_news=True)
    note_told(session, reading)
    return {found.wanted.asked.partition: found.outcome for found in reading.found}


def filled(partitions: ReadablePartitions, index: int = 0, *, batches: int = 1) -> tuple[Partition, int]:
    """A partition with replicated batches, and the size of one."""
    partition = partitions.add(index)
    sizes = [append(partition) for _ in range(batches)]
    replicate(partition)
    return partition, sizes[0]


# What may be read


def test_a_consumer_reads_up_to_the_high_watermark_and_a_follower_to_the_end(partitions: ReadablePartitions) -> None:
    partition, size = filled(partitions)
    append(partition)
    (consumer,) = full(session_of(asked()), partitions)
    assert consumer.outcome.records is not None
    assert (consumer.outcome.records.size, consumer.outcome.high_watermark) == (size, 1)
    (follower,) = full(session_of(asked(), follower=contact(OTHER_FOLLOWER)), partitions)
    assert follower.outcome.records is not None
    assert follower.outcome.records.size == 2 * size


def test_a_consumer_of_committed_records_reads_up_to_the_last_stable_offset(
    partitions: ReadablePartitions, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The test says where it is; `test_transactional_partitions.py` has transactions."""
    partition, size = filled(partitions, batches=3)
    assert partition.last_stable_offset == partition.log.high_watermark == 3
    append(partition)
    monkeypatch.setattr(Partition, "last_stable_offset", 2)
    found = {
        read_committed: look(session_of(asked()), terms(read_committed=read_committed), partitions, only_news=False)
        for read_committed in (False, True)
    }
    outcomes = {read_committed: reading.found[0].outcome for read_committed, reading in found.items()}
    assert {committed: outcome.records.size for committed, outcome in outcomes.items() if outcome.records} == {
        False: 3 * size,
        True: 2 * size,
    }
    assert {(outcome.high_watermark, outcome.last_stable_offset) for outcome in outcomes.values()} == {(3, 2)}
    (follower,) = full(session_of(asked(), follower=contact(OTHER_FOLLOWER)), partitions)
    assert follower.outcome.records is not None
    assert (follower.outcome.records.size, follower.outcome.last_stable_offset) == (4 * size, 2)

    at_the_end = look(session_of(asked(0, 2)), terms(read_committed=True), partitions, only_news=False)
    assert (at_the_end.found[0].outcome.records, at_the_end.has_hidden_records) == (None, True)


def test_that_there_are_hidden_records_is_noted(partitions: ReadablePartitions) -> None:
    partition, _ = filled(partitions)
    assert not look(session_of(asked(0, 1)), terms(), partitions, only_news=False).has_hidden_records
    append(partition)
    assert look(session_of(asked(0, 1)), terms(), partitions, only_news=False).has_hidden_records


def test_a_replica_that_follows_is_read_only_by_who_knows_of_that(partitions: ReadablePartitions) -> None:
    partitions.add(leads=False)
    (refused,) = full(session_of(asked()), partitions)
    assert refused.outcome.error_code is ErrorCode.not_leader_or_follower
    (read,) = full(session_of(asked()), partitions, only_leader=False)
    assert read.outcome.error_code is ErrorCode.none


def test_another_leader_epoch_is_an_error(partitions: ReadablePartitions) -> None:
    partition, _ = filled(partitions)
    partition.apply(replace(partition.state, leader_epoch=5), leads=True)
    outcomes = [full(session_of(asked(0, leader_epoch=epoch)), partitions)[0].outcome for epoch in (4, 5, 6)]
    assert [outcome.error_code for outcome in outcomes] == [
        ErrorCode.fenced_leader_epoch,
        ErrorCode.none,
        ErrorCode.unknown_leader_epoch,
    ]


def test_a_log_that_has_parted_from_this_one_hears_where(partitions: ReadablePartitions) -> None:
    partition, _ = filled(partitions)
    partition.apply(replace(partition.state, leader_epoch=5), leads=True)
    append(partition)
    reading = look(
        session_of(asked(0, 2, last_fetched_epoch=0), follower=contact()), terms(), partitions, only_news=False
    )
    assert (reading.found[0].outcome.diverging_epoch, reading.is_urgent) == ((0, 1), True)
    (agreeing,) = full(session_of(asked(0, 1, last_fetched_epoch=0)), partitions)
    assert agreeing.outcome.diverging_epoch is None
    (from_the_future,) = full(session_of(asked(0, 1, last_fetched_epoch=9)), partitions)
    assert from_the_future.outcome.error_code is ErrorCode.offset_out_of_range


def test_a_leader_that_lacks_records_has_nobody_cut_who_may_have_them(partitions: ReadablePartitions) -> None:
    """Until it makes way for that replica, which may be back before this leader sees it."""
    partition, _ = filled(partitions)
    partition.log.lost_from = 1
    parted = session_of(asked(0, 7, last_fetched_epoch=0), follower=contact())
    for complete in (
        {"isr": (BROKER, FOLLOWER), "eligible_leaders": ()},
        {"isr": (BROKER,), "eligible_leaders": (FOLLOWER,)},
    ):
        partition.apply(replace(partition.state, **complete), leads=True)
        (refused,) = full(parted, partitions)
        assert refused.outcome.error_code is ErrorCode.not_leader_or_follower
    partition.apply(replace(partition.state, isr=(BROKER,), eligible_leaders=()), leads=True)
    (told,) = full(parted, partitions)
    assert told.outcome.diverging_epoch == (0, 1), "nobody knows of it, and what this log has is what counts"


def test_a_follower_with_a_gap_claims_nothing(partitions: ReadablePartitions) -> None:
    """Else its leader would take it into the in-sync set by its end, and it could be elected with the gap."""
    leading, _ = filled(partitions, batches=3)
    copied = b"".join(batch for _, batch in read_batches(leading.log))
    following = partitions.add(1, leads=False)
    append_from_leader(following, copied, leader_epoch=0, high_watermark=3, log_start_offset=0, now_ms=NOW_MS)
    for lost_from, claimed in ((1, UNKNOWN_OFFSET), (None, 3)):
        following.log.lost_from = lost_from
        plan = FetchPlan[Partition](lambda _: PLENTY_BYTES, 1000)
        plan.follow(following)
        planned = plan.next_fetch(0)
        assert planned is not None
        (wanted,) = planned.asked[following.topic_id]
        (found,) = full(session_of(wanted._replace(partition=0), follower=contact(OTHER_FOLLOWER)), partitions)
        assert found.outcome.error_code is ErrorCode.none, "it hears that the leader is above doubt"
        assert leading.leader is not None
        assert leading.leader.followers[OTHER_FOLLOWER].log_end_offset == claimed


def test_a_gap_is_not_copied_while_another_replica_may_have_what_is_lost(partitions: ReadablePartitions) -> None:
    """Who has copied it would pass for complete, and could lead before the one that has everything."""
    leading = partitions.add(isr=(BROKER,))
    sizes = [append(leading) for _ in range(4)]
    leading.log.lost_from = 2

    def given(offset: int, broker_id: int) -> int:
        (found,) = full(session_of(asked(0, offset), follower=contact(broker_id)), partitions)
        return found.outcome.records.size if found.outcome.records is not None else 0

    assert given(1, FOLLOWER) == sizes[1], "the other one has not been heard"
    assert given(3, OTHER_FOLLOWER) == sizes[3], "it may have what is lost"
    assert given(2, FOLLOWER) == 0
    leading.leader.followers[OTHER_FOLLOWER].is_asked_for = False  # type: ignore[union-attr]
    assert given(2, FOLLOWER) == sizes[2] + sizes[3], "nobody has it, as far as anybody knows"
    (consumer,) = full(session_of(asked(0, 1)), partitions)
    assert consumer.outcome.high_watermark == 4, "consumers are given what there is"
    assert consumer.outcome.records is not None


@pytest.mark.parametrize(
    ("offset", "given", "story"),
    [
        (2, (), "its log ends where the loss begins"),
        (3, (), "its log ends within the loss"),
        (4, (4, 5), "behind the loss; another gap may be a loss as well"),
        (6, (), "its log ends within that one"),
        (7, (7,), "it lacks nothing that another one may have"),
    ],
)
def test_a_follower_whose_log_ends_within_a_gap_waits_as_well(
    partitions: ReadablePartitions, offset: int, given: tuple[int, ...], story: str
) -> None:
    whole = partitions.add(1)
    for _ in range(8):
        append(whole)
    batches = [batch for _, batch in read_batches(whole.log)]
    leading = partitions.add(isr=(BROKER,))
    for number in (0, 1, 4, 5, 7):  # offsets 2, 3 and 6 are lost
        leading.log.append_as_follower(batches[number], now_ms=NOW_MS)
    leading.log.lost_from = 2

    def read(broker_id: int, at: int) -> list[int]:
        full(session_of(asked(0, at), follower=contact(broker_id)), partitions)
        found = leading.read(
            at, PLENTY_BYTES, at_least_one_batch=True, isolation=ReadIsolation.LOG_END, follower=broker_id
        )
        if found is None:
            return []
        data = os.pread(found.file.fileno(), found.size, found.position)
        return [header.base_offset for header, _ in iterate_batches(data)]

    behind = [number for number in (4, 5, 7) if number >= offset]
    assert read(OTHER_FOLLOWER, 8) == []
    assert read(FOLLOWER, offset) == list(given), story
    assert read(OTHER_FOLLOWER, offset) == behind, "nobody else has more"
    assert read(FOLLOWER, offset) == behind, "nor has this one"


def test_a_refused_follower_tells_how_far_its_log_reaches(partitions: ReadablePartitions) -> None:
    """To one that was elected although it may lack records: it does not lead before it knows that of all."""
    partition, _ = filled(partitions)
    partition.log.may_lack_end = True
    partition.apply(replace(partition.state, leader_epoch=5), leads=True)
    assert partition.search is not None
    for leader_epoch in (4, 5):
        session = session_of(asked(0, 7, last_fetched_epoch=3, leader_epoch=leader_epoch), follower=contact())
        (refused,) = full(session, partitions)
        assert refused.outcome.error_code is ErrorCode.not_leader_or_follower
        missing = partition.search.missing({FOLLOWER}, live(f"{FOLLOWER}@{contact().broker_epoch}"))
        assert missing == ((FOLLOWER,) if leader_epoch == 4 else ())


# Limits


def test_the_first_batch_comes_whole_and_the_rest_within_the_limit(partitions: ReadablePartitions) -> None:
    _, size = filled(partitions, 0, batches=2)
    filled(partitions, 1)
    outcomes = [found.outcome for found in full(session_of(asked(0), asked(1)), partitions, bytes_max=1)]
    assert [outcome.records and outcome.records.size for outcome in outcomes] == [size, None]
    assert outcomes[1].high_watermark == 1


def test_in_a_session_what_does_not_fit_keeps_its_turn(partitions: ReadablePartitions) -> None:
    sizes = [filled(partitions, index, batches=2)[1] for index in range(3)]
    session = session_of(*map(asked, range(3)))
    turns = [list(news(session, partitions, bytes_max=sizes[0])) for _ in range(6)]
    assert turns == [[0], [1], [2], [0], [1], [2]]


def test_a_batch_that_does_not_fit_any_more_stays_to_be_read(partitions: ReadablePartitions) -> None:
    _, size = filled(partitions, 0)
    filled(partitions, 1)
    session = session_of(asked(0), asked(1))
    for _ in range(2):
        told = news(session, partitions, bytes_max=size + size // 2)
        assert sum(outcome.records is not None for outcome in told.values()) == 1
    assert len(session.dirty) == 2


# Sessions


def test_a_partition_without_news_is_not_looked_at(partitions: ReadablePartitions) -> None:
    for index in range(3):
        filled(partitions, index)
    session = session_of(*(asked(index, 1) for index in range(3)))
    news(session, partitions)
    partitions.finds = 0
    assert news(session, partitions) == {}
    assert partitions.finds == 0
    partition = partitions.get(1)
    assert partition is not None
    append(partition)
    replicate(partition)
    assert news(session, partitions).keys() == {1}
    assert partitions.finds == 1


def test_a_follower_hears_of_records_before_they_are_replicated_and_of_the_high_watermark(
    partitions: ReadablePartitions,
) -> None:
    partition = partitions.add()
    session = session_of(asked(), follower=contact(OTHER_FOLLOWER))
    news(session, partitions)
    append(partition)
    assert news(session, partitions)[0].records is not None
    session.ask(TOPIC, asked(0, 1))
    assert news(session, partitions) == {}
    replicate(partition)
    told = news(session, partitions)[0]
    assert (told.records, told.high_watermark) == (None, 1)
    assert news(session, partitions) == {}


def test_a_reader_that_knows_an_error_hears_when_it_is_gone(partitions: ReadablePartitions) -> None:
    session = session_of(asked())
    assert news(session, partitions)[0].error_code is ErrorCode.unknown_topic_or_partition
    assert news(session, partitions)[0].error_code is ErrorCode.unknown_topic_or_partition
    partitions.add()
    assert news(session, partitions)[0].error_code is ErrorCode.none
    assert news(session, partitions) == {}


def test_of_a_large_session_a_part_is_looked_at_and_all_have_their_turn(
    partitions: ReadablePartitions, monkeypatch: pytest.MonkeyPatch
) -> None:
    """None of these partitions is here, so each has an error, and none is ever settled."""
    monkeypatch.setattr(fetch_reading, "LOOKS_MAX", 10)
    session = session_of(*(asked(index) for index in range(25)))
    told = [set(news(session, partitions)) for _ in range(5)]
    assert [len(each) for each in told] == [10] * 5
    assert set().union(*told[:3]) == set(range(25))
    assert look(session, terms(), partitions, only_news=True).is_urgent
    assert len(full(session, partitions)) == 25
    follower = session_of(*(asked(index) for index in range(25)), follower=contact())
    assert len(news(follower, partitions)) == 25


def test_who_is_sent_elsewhere_and_stays_does_not_keep_others_from_their_turn(
    partitions: ReadablePartitions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetch_reading, "LOOKS_MAX", 2)
    for index in range(5):
        filled(partitions, index)
    session = session_of(*(asked(index) for index in range(5)))
    told = [set(news(session, partitions, preferred_replica=lambda _, __: FOLLOWER)) for _ in range(3)]
    assert set().union(*told) == set(range(5))


def test_a_reader_of_many_partitions_is_answered_at_once_until_all_were_looked_at(
    partitions: ReadablePartitions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetch_reading, "LOOKS_MAX", 2)
    session = session_of(*(asked(index) for index in range(3)))
    for index in range(3):
        filled(partitions, index)
    readings = []
    for _ in range(2):
        readings.append(look(session, terms(), partitions, only_news=True))
        note_told(session, readings[-1])
        for found in readings[-1].found:
            session.ask(TOPIC, asked(found.wanted.asked.partition, 1))
    given = [
        {found.wanted.asked.partition for found in reading.found if found.outcome.records} for reading in readings
    ]
    assert given[0] | given[1] == {0, 1, 2}
    for _ in range(3):
        news(session, partitions)
    assert not session.dirty


def test_a_partition_made_anew_is_watched_instead_of_the_former(partitions: ReadablePartitions) -> None:
    partitions.add(isr=(BROKER,))
    session = session_of(asked())
    news(session, partitions)
    partitions.remove()
    successor = partitions.add(isr=(BROKER,))
    assert news(session, partitions) == {}, "both are empty"
    append(successor)
    assert news(session, partitions)[0].records is not None


# Followers


def followed(partition: Partition, broker_id: int = FOLLOWER) -> int:
    assert partition.leader is not None
    return partition.leader.followers[broker_id].log_end_offset


def test_a_followers_position_is_noted_when_it_asks_and_no_more_than_once(partitions: ReadablePartitions) -> None:
    partition = partitions.add()
    append(partition)
    session = session_of(asked(0, 1), follower=contact())
    told = news(session, partitions)
    assert (followed(partition), told[0].high_watermark) == (1, 1), "the answer has what the fetch has moved"
    (wanted,) = session
    assert not wanted.is_unrecorded


def test_positions_are_noted_though_the_response_is_full(partitions: ReadablePartitions) -> None:
    first, size = filled(partitions, 0)
    second = partitions.add(1)
    append(second)
    session = session_of(asked(0, 0), asked(1, 1), follower=contact())
    news(session, partitions, bytes_max=size)
    assert (followed(first), followed(second)) == (0, 1)


def test_a_position_is_noted_again_when_the_leader_has_forgotten_it(partitions: ReadablePartitions) -> None:
    partition, _ = filled(partitions)
    session = session_of(asked(0, 1), follower=contact())
    news(session, partitions)
    partition.apply(replace(partition.state, leader_epoch=3), leads=True)
    assert followed(partition) == -1
    news(session, partitions)
    assert followed(partition) == 1


def test_a_leader_learns_that_a_follower_takes_its_partition_out_of_a_session(partitions: ReadablePartitions) -> None:
    first, second = partitions.add(0), partitions.add(1)
    session = session_of(asked(0), asked(1), follower=contact())
    news(session, partitions)
    assert first.leads_without_registration(1_000)
    session.forget(TOPIC, 0)
    assert not first.leads_without_registration(1_000), "it may follow another leader by now"
    assert second.leads_without_registration(1_000)


def test_a_position_outside_the_log_or_of_a_log_that_has_parted_is_not_noted(partitions: ReadablePartitions) -> None:
    partition, _ = filled(partitions)
    partition.apply(replace(partition.state, leader_epoch=5), leads=True)
    for wrong in (asked(0, 7), asked(0, 2, last_fetched_epoch=0)):
        news(session_of(wrong, follower=contact()), partitions)
        assert followed(partition) == -1


def test_who_holds_no_replica_is_no_follower(partitions: ReadablePartitions) -> None:
    partitions.add()
    told = news(session_of(asked(), follower=contact(9)), partitions)
    assert told[0].error_code is ErrorCode.not_leader_or_follower


def test_what_is_withheld_waits_and_is_looked_at_again(partitions: ReadablePartitions) -> None:
    filled(partitions)
    session = session_of(asked(), follower=contact(OTHER_FOLLOWER))
    assert news(session, partitions, is_withheld=lambda _: True)[0].records is None
    assert news(session, partitions, is_withheld=lambda _: True) == {}
    assert news(session, partitions, is_withheld=lambda _: False)[0].records is not None


# Other replicas


def test_a_reader_that_is_sent_elsewhere_gets_no_records(partitions: ReadablePartitions) -> None:
    filled(partitions)
    session = session_of(asked())
    for _ in range(2):
        reading: Reading = look(session, terms(preferred_replica=lambda _, __: FOLLOWER), partitions, only_news=True)
        note_told(session, reading)
        (found,) = reading.found
        assert (found.outcome.preferred_replica, found.outcome.records) == (FOLLOWER, None)
        assert reading.is_urgent
    assert news(session, partitions, preferred_replica=lambda _, __: -1)[0].records is not None
