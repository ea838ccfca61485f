"""Transactions of the source in a linked log, and what a promotion does with those that are open."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from ottla_broker.links.linked_leading import append_from_source
from ottla_broker.links.linked_partition import LinkedPartition, Next, SourceRange
from ottla_broker.log.appends.append_validation import AppendOrigin
from ottla_broker.log.files.leader_epoch_checkpoint import EpochEntry
from ottla_broker.log.partition.partition_log import PartitionLog
from ottla_broker.log.producers.left_open import promoted_at
from ottla_broker.partition import Partition
from ottla_broker.partition_context import ReplicationContext
from ottla_broker.replica.leader_replica import FollowerContact
from ottla_broker.replication.following import append_from_leader
from ottla_core.cluster.state.model import PartitionState
from ottla_core.errors import KafkaStorageError, PolicyViolation, TransactionCoordinatorFenced
from ottla_core.promotion import PROMOTION_LEAP
from ottla_core.topic_config import TopicConfig
from ottla_core.wire.control_records import PROMOTION_MARKER, TransactionMarker, marker_batch
from ottla_core.wire.replica_fetch_response import PartitionFetched
from tests.support.broker.linked_states import LINK, LINKED
from tests.support.broker.partition_logs import NOW_MS, PARTITION, batch_of, open_log, read_batches

P, Q = 9, 10
LEAP = 5 + PROMOTION_LEAP
PROMOTED = replace(LINKED, link=None, leader_epoch=LEAP, partition_epoch=101)
ELECTED = replace(PROMOTED, leader_epoch=LEAP + 1, partition_epoch=102)

Make = Callable[..., Partition]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    def partition(
        state: PartitionState = LINKED, *, name: str = "log", leads: bool = True, was_clean: bool = True
    ) -> Partition:
        context = ReplicationContext(1, 30_000, lambda: 0, frozenset({1, 2}), time_ms=lambda: NOW_MS)
        made = Partition(PARTITION, open_log(tmp_path / name, was_clean=was_clean), context, state)
        made.apply(state, leads=leads)
        return made

    return partition


def data(*values: bytes, base: int, producer_id: int = P, sequence: int = 0, epoch: int = 3) -> bytes:
    producer = (producer_id, epoch, sequence)
    return batch_of(*values, base_offset=base, leader_epoch=3, producer=producer, is_transactional=True)


def end(base: int, *, commit: bool, producer_id: int = P, epoch: int = 3) -> bytes:
    marker = TransactionMarker(producer_id=producer_id, producer_epoch=epoch, is_commit=commit, coordinator_epoch=7)
    return marker_batch(marker, NOW_MS, base_offset=base, leader_epoch=3)


ABORTED_AND_OPEN = (
    data(b"a", b"b", base=0)
    + end(2, commit=False)
    + data(b"c", base=3, sequence=2)
    + data(b"d", base=4, producer_id=Q)
    + end(5, commit=True)
    + data(b"e", base=6, sequence=3)
)
"""An aborted transaction of P at 0, a committed one at 3, and two that are open: of Q from 4, and of P from 6 on."""


def take(partition: Partition, records: bytes) -> None:
    leader_epoch = partition.state.leader_epoch
    where = {"link": LINK, "end_offset": partition.log.log_end_offset, "now_ms": NOW_MS}
    append_from_source(partition, records, leader_epoch=leader_epoch, **where)  # type: ignore[arg-type]


def replicate(partition: Partition) -> None:
    end_offset = partition.log.log_end_offset
    partition.record_follower_fetch(FollowerContact(2, 72, 0), offset=end_offset, log_start_offset=0)


def follow(partition: Partition, records: bytes, leader_epoch: int) -> None:
    how: dict[str, Any] = {"high_watermark": 0, "log_start_offset": 0, "now_ms": NOW_MS}
    append_from_leader(partition, records, leader_epoch=leader_epoch, **how)


def raw(log: PartitionLog, begin: int = 0) -> bytes:
    return b"".join(bytes(batch) for _, batch in read_batches(log) if _.base_offset >= begin)


def seen(log: PartitionLog) -> dict[str, Any]:
    """What readers of committed records and later writers go by."""
    log.high_watermark = log.log_end_offset
    stable = log.last_stable_offset
    return {
        "stable": stable,
        "aborted": log.aborted_transactions(0, stable),
        "known": {each.producer_id for each in log.producers},
    }


def test_what_is_left_open_is_aborted_although_retention_has_emptied_the_log_and_the_broker_has_crashed(
    make: Make,
) -> None:
    former = make()
    take(former, data(b"a", b"b", base=0))
    former.log.high_watermark = 2
    former.log.update_config(TopicConfig(retention_ms=1000))
    assert former.log.enforce_retention(NOW_MS + 2000)
    former.log.flush()
    leader = make(was_clean=False)
    assert leader.log.has_open_transactions
    leader.apply(PROMOTED, leads=True)
    assert not leader.log.has_open_transactions
    assert raw(leader.log) == abort_markers(leader.log, base=2)


def abort_markers(log: PartitionLog, *, base: int) -> bytes:
    """The marker of a promotion for P."""
    marker = TransactionMarker(producer_id=P, producer_epoch=3, is_commit=False, coordinator_epoch=PROMOTION_MARKER)
    return marker_batch(marker, NOW_MS, base_offset=base, leader_epoch=log.leader_epochs.latest)


def test_a_linked_log_decides_what_its_source_has_decided(make: Make) -> None:
    leader = make()
    take(leader, ABORTED_AND_OPEN)
    assert leader.last_stable_offset == 0, "nothing is replicated"
    replicate(leader)
    assert (leader.log.high_watermark, leader.last_stable_offset) == (7, 4)
    assert leader.log.aborted_transactions(0, 4) == [(P, 0)]
    take(leader, end(7, commit=True, producer_id=Q))
    assert leader.last_stable_offset == 4, "the marker is not replicated"
    replicate(leader)
    assert leader.last_stable_offset == 6


def test_markers_of_a_coordinator_are_refused_while_the_topic_is_linked(make: Make) -> None:
    leader = make()
    take(leader, ABORTED_AND_OPEN)
    with pytest.raises(PolicyViolation):
        leader.append(
            end(0, commit=False),
            now_ms=NOW_MS,
            all_in_sync=True,
            origin=AppendOrigin.COORDINATOR,
            transaction_version=1,
        )


def test_a_promotion_aborts_what_is_open_before_anything_else_is_written(make: Make) -> None:
    leader = make()
    take(leader, ABORTED_AND_OPEN)
    replicate(leader)
    leader.apply(PROMOTED, leads=True)
    assert leader.log.log_end_offset == 9
    assert leader.last_stable_offset == 4, "the markers are not replicated"
    replicate(leader)
    assert leader.last_stable_offset == 9
    assert leader.log.aborted_transactions(0, 9) == [(P, 0), (Q, 4), (P, 6)]


@pytest.mark.parametrize("leads_at_first", [True, False])
def test_a_promotion_aborts_what_is_open_also_where_its_records_have_all_been_deleted(
    make: Make, leads_at_first: bool
) -> None:
    """The former epoch ends then where the log begins, and is known no more."""
    partition = make() if leads_at_first else make(replace(LINKED, leader=2), leads=False)
    partition.log.append_as_follower(ABORTED_AND_OPEN, now_ms=NOW_MS)
    partition.set_high_watermark(7)
    partition.log.delete_records_before(7)
    partition.apply(PROMOTED if leads_at_first else replace(PROMOTED, leader=2), leads=leads_at_first)
    partition.apply(ELECTED, leads=True)
    partition.append(batch_of(b"x", producer=(P, 0, 0)), now_ms=NOW_MS, all_in_sync=True)
    assert seen(partition.log) == {"stable": 10, "aborted": [(P, 0), (Q, 4), (P, 6)], "known": {P}}


def test_another_leader_epoch_or_a_second_look_writes_no_more_markers(make: Make) -> None:
    leader = make()
    take(leader, ABORTED_AND_OPEN)
    for state in (PROMOTED, PROMOTED, ELECTED):
        leader.apply(state, leads=True)
        leader.end_left_open()
        assert leader.log.log_end_offset == 9


def test_a_producer_here_with_the_id_of_one_of_the_source_is_another_one(make: Make) -> None:
    """It begins with a lower epoch than the source's had, and with the first sequence number."""
    leader = make()
    take(leader, ABORTED_AND_OPEN)
    leader.apply(PROMOTED, leads=True)
    appended = leader.append(batch_of(b"x", producer=(P, 0, 0)), now_ms=NOW_MS, all_in_sync=True)
    assert (appended.base_offset, appended.duplicate) == (9, False)


@pytest.mark.parametrize("was_clean", [True, False])
@pytest.mark.parametrize("rolls", [True, False])
def test_a_follower_and_a_broker_that_starts_anew_take_in_the_same(
    make: Make, tmp_path: Path, rolls: bool, was_clean: bool
) -> None:
    leader, follower = make(), make(replace(LINKED, leader=2), name="follower", leads=False)
    take(leader, ABORTED_AND_OPEN)
    follow(follower, ABORTED_AND_OPEN, 5)
    if rolls:
        leader.log.roll(NOW_MS)
    leader.apply(PROMOTED, leads=True)
    follower.apply(replace(PROMOTED, leader=2), leads=False)
    follow(follower, raw(leader.log, 7), LEAP)
    expected = {"stable": 9, "aborted": [(P, 0), (Q, 4), (P, 6)], "known": set()}
    for log in (leader.log, follower.log):
        assert seen(log) == expected
        if was_clean:
            log.close()
    for name in ("log", "follower"):
        assert seen(open_log(tmp_path / name, was_clean=was_clean)) == expected


def test_the_next_leader_writes_the_markers_that_the_first_one_could_not_replicate(make: Make) -> None:
    follower = make(replace(LINKED, leader=2), leads=False)
    follow(follower, ABORTED_AND_OPEN, 5)
    follower.apply(replace(PROMOTED, leader=2), leads=False)
    follower.apply(ELECTED, leads=True)
    assert seen(follower.log) == {"stable": 9, "aborted": [(P, 0), (Q, 4), (P, 6)], "known": set()}


@pytest.mark.parametrize("restarts", [True, False])
def test_where_the_disk_refuses_the_markers_nobody_writes_until_it_takes_them(make: Make, restarts: bool) -> None:
    leader = make()
    take(leader, ABORTED_AND_OPEN)
    with patch.object(PartitionLog, "append_as_follower", side_effect=KafkaStorageError("full")):
        leader.apply(PROMOTED, leads=True)
        with pytest.raises(KafkaStorageError):
            leader.append(batch_of(b"x", producer=(P, 3, 0)), now_ms=NOW_MS, all_in_sync=True)
        leader.end_left_open()
        assert leader.log.log_end_offset == 7
    if restarts:
        leader.log.close()
        leader = make(ELECTED)
    leader.append(batch_of(b"x", producer=(P, 0, 0)), now_ms=NOW_MS, all_in_sync=True)
    replicate(leader)
    assert (leader.log.log_end_offset, leader.last_stable_offset) == (10, 10)
    assert leader.log.aborted_transactions(0, 10) == [(P, 0), (Q, 4), (P, 6)]


def test_who_does_not_lead_or_follows_still_aborts_nothing(make: Make) -> None:
    linked, following = make(), make(replace(LINKED, leader=2), name="follower", leads=False)
    take(linked, ABORTED_AND_OPEN)
    follow(following, ABORTED_AND_OPEN, 5)
    linked.apply(replace(LINKED, leader_epoch=6, partition_epoch=101), leads=True)
    following.apply(replace(PROMOTED, leader=2), leads=False)
    for partition in (linked, following):
        partition.end_left_open()
        assert partition.log.log_end_offset == 7


def test_an_own_transaction_after_a_promotion_outlives_an_election(make: Make) -> None:
    leader = make()
    take(leader, ABORTED_AND_OPEN)
    leader.apply(PROMOTED, leads=True)
    guard = leader.begin_verification(P, 0, 0, supports_epoch_bump=False)
    own = batch_of(b"own", producer=(P, 0, 0), is_transactional=True)
    leader.append(own, now_ms=NOW_MS, all_in_sync=True, verification=guard)
    leader.apply(ELECTED, leads=True)
    replicate(leader)
    assert (leader.log.log_end_offset, leader.last_stable_offset) == (10, 9), "it is open"


def resumed_at(partition: Partition, offset: int) -> LinkedPartition:
    """Return the partition as its link has it, which has found that the source begins there."""
    linked = LinkedPartition(partition, link=LINK, source_topic="t", source_topic_id=UUID(int=71), now_ms=NOW_MS)
    assert linked.resume_within(SourceRange(offset, offset + 20, 3, offset), NOW_MS) is None
    assert linked.fetch_position().offset == offset
    return linked


def answered(linked: LinkedPartition, records: bytes, end_offset: int) -> None:
    fetched = PartitionFetched(linked.topic_id, 0, ErrorCode.none, 20, 0, memoryview(records), None)
    assert linked.take(fetched, log_end_offset=end_offset, now_ms=NOW_MS) is Next.GO_ON


@pytest.mark.parametrize("restarts", [True, False])
def test_what_is_open_before_a_gap_is_not_committed_with_the_next_transaction_of_its_producer(
    make: Make, tmp_path: Path, restarts: bool
) -> None:
    """Its own end was in the gap, and may have been an abort."""
    leader, follower = make(), make(replace(LINKED, leader=2), name="follower", leads=False)
    for each in (leader, follower):
        each.log.append_as_follower(ABORTED_AND_OPEN, now_ms=NOW_MS)
    follows = data(b"f", base=12, epoch=4) + end(13, commit=True, epoch=5)
    answered(resumed_at(leader, 11), follows, 7)
    follow(follower, raw(leader.log, 7), 5)
    expected = {"stable": 14, "aborted": [(P, 0), (Q, 4), (P, 6)], "known": {P}}
    for log in (leader.log, follower.log):
        assert seen(log) == expected
        log.close()
    if restarts:
        for name in ("log", "follower"):
            assert seen(open_log(tmp_path / name)) == expected


def test_a_gap_has_room_for_as_many_ends_as_it_has_offsets(make: Make) -> None:
    leader = make()
    take(leader, ABORTED_AND_OPEN)
    answered(resumed_at(leader, 8), data(b"f", base=8, sequence=4), 7)
    assert seen(leader.log) == {"stable": 6, "aborted": [(P, 0), (Q, 4)], "known": {P}}


def test_where_a_source_has_deleted_nothing_what_is_open_goes_on(make: Make) -> None:
    """As behind records that compaction has removed."""
    leader = make()
    take(leader, ABORTED_AND_OPEN)
    linked = LinkedPartition(leader, link=LINK, source_topic="t", source_topic_id=UUID(int=71), now_ms=NOW_MS)
    answered(linked, end(11, commit=True) + end(12, commit=True, producer_id=Q), 7)
    assert seen(leader.log) == {"stable": 13, "aborted": [(P, 0)], "known": {P, Q}}


def test_a_truncation_takes_a_marker_back_and_its_abort_along(make: Make) -> None:
    leader = make()
    take(leader, ABORTED_AND_OPEN)
    leader.log.truncate_to(2, NOW_MS)
    assert seen(leader.log) == {"stable": 0, "aborted": [], "known": {P}}
    take(leader, end(2, commit=True))
    assert seen(leader.log) == {"stable": 3, "aborted": [], "known": {P}}


def test_a_chain_of_links_takes_the_markers_of_a_promotion_as_they_are(make: Make) -> None:
    """Or a former source that follows the cluster that was promoted, with the transaction open there, too."""
    promoted, follower = make(), make(name="next")
    for each in (promoted, follower):
        take(each, ABORTED_AND_OPEN)
    promoted.apply(PROMOTED, leads=True)
    follower.apply(replace(LINKED, leader_epoch=LEAP, partition_epoch=101), leads=True)
    take(follower, raw(promoted.log, 7))
    assert raw(follower.log) == raw(promoted.log)
    assert seen(follower.log) == {"stable": 9, "aborted": [(P, 0), (Q, 4), (P, 6)], "known": set()}


def test_a_link_to_a_promoted_cluster_leaves_the_markers_to_that_one(make: Make) -> None:
    promoted, follower = make(), make(name="next")
    for each in (promoted, follower):
        take(each, ABORTED_AND_OPEN)
    promoted.apply(PROMOTED, leads=True)
    follower.apply(replace(LINKED, leader_epoch=LEAP, partition_epoch=101), leads=True)
    first_marker = read_batches(promoted.log, 7)[0][1]
    take(follower, first_marker)
    follower.apply(replace(LINKED, leader_epoch=LEAP + 1, partition_epoch=102), leads=True)
    follower.end_left_open()
    assert follower.log.log_end_offset == 8, "the second one comes from there"


def test_the_markers_of_an_only_replica_count_at_once(make: Make) -> None:
    alone = {"replicas": (1,), "isr": (1,)}
    leader = make(replace(LINKED, **alone))  # type: ignore[arg-type]
    take(leader, ABORTED_AND_OPEN)
    leader.apply(replace(PROMOTED, **alone), leads=True)  # type: ignore[arg-type]
    assert (leader.log.high_watermark, leader.last_stable_offset) == (9, 9)


def test_no_coordinator_may_write_what_looks_like_the_marker_of_a_promotion(make: Make) -> None:
    leader = make(replace(LINKED, link=None))
    marker = TransactionMarker(producer_id=P, producer_epoch=3, is_commit=False, coordinator_epoch=PROMOTION_MARKER)
    with pytest.raises(TransactionCoordinatorFenced):
        leader.append(
            marker_batch(marker, NOW_MS), now_ms=NOW_MS, all_in_sync=True,
            origin=AppendOrigin.COORDINATOR, transaction_version=1,
        )  # fmt: skip


@pytest.mark.parametrize(
    ("epochs", "offset"),
    [
        ([], -1),
        ([(3, 0), (5, 10)], -1),
        ([(3, 0), (LEAP, 10)], 10),
        ([(3, 0), (LEAP, 10), (LEAP + 1, 20)], 10),
        ([(3, 0), (LEAP, 10), (2 * LEAP, 20), (2 * LEAP + 1, 30)], 20),
        ([(LEAP, 10), (LEAP + 1, 20)], -1),
    ],
)
def test_a_promotion_is_where_epochs_leap_and_not_where_the_first_known_one_begins(
    epochs: list[tuple[int, int]], offset: int
) -> None:
    assert promoted_at([EpochEntry(*each) for each in epochs]) == offset
