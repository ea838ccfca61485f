"""A leader whose partition follows another cluster: what it takes, from whom, and what it forgets when it is cut."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from ottla_broker.links.linked_leading import append_from_source, cut_to_source
from ottla_broker.log.files.leader_epoch_checkpoint import write_leader_epochs
from ottla_broker.log.producers.producer_snapshot import snapshot_path
from ottla_broker.partition import Partition
from ottla_broker.partition_context import ReplicationContext
from ottla_broker.replica.leader_replica import FollowerContact
from ottla_broker.replication.following import append_from_leader
from ottla_core.cluster.state.model import PartitionState
from ottla_core.errors import (
    FencedLeaderEpoch,
    KafkaError,
    NotLeaderOrFollower,
    OutOfOrderSequenceNumber,
    PolicyViolation,
)
from ottla_core.promotion import PROMOTION_LEAP
from ottla_core.topic_config import TopicConfig
from tests.support.broker.linked_states import LINK, LINKED
from tests.support.broker.partition_logs import NOW_MS, PARTITION, batch_of, open_log, read_batches

OWN = replace(LINKED, link=None)
PRODUCER = (9, 0, 0)


@pytest.fixture
def make(tmp_path: Path) -> Callable[..., Partition]:
    def partition(
        state: PartitionState = LINKED, *, name: str = "log", leads: bool = True, was_clean: bool = True
    ) -> Partition:
        context = ReplicationContext(1, 30_000, lambda: 0, frozenset({1, 2}), name_of_link=lambda _id: "west")
        made = Partition(PARTITION, open_log(tmp_path / name, was_clean=was_clean), context, state)
        made.apply(state, leads=leads)
        return made

    return partition


def copied(*values: bytes, base: int = 0, epoch: int = 3, **how: Any) -> bytes:
    return batch_of(*values, base_offset=base, leader_epoch=epoch, **how)


def take(partition: Partition, records: bytes, **changes: Any) -> None:
    asked: dict[str, Any] = {
        "leader_epoch": partition.state.leader_epoch,
        "link": LINK,
        "end_offset": partition.log.log_end_offset,
        "now_ms": NOW_MS,
    }
    append_from_source(partition, records, **{**asked, **changes})


def fetch(partition: Partition, offset: int) -> None:
    partition.record_follower_fetch(FollowerContact(2, 72, 0), offset=offset, log_start_offset=0)


def test_batches_of_the_source_stay_as_they_are_and_the_leader_adds_no_epoch(make: Callable[..., Partition]) -> None:
    partition = make()
    records = copied(b"a", b"b") + copied(b"c", base=2, epoch=4)
    take(partition, records)
    assert b"".join(batch for _, batch in read_batches(partition.log)) == records
    assert partition.log.leader_epochs.entries == ((3, 0), (4, 2))
    partition.apply(replace(LINKED, leader_epoch=6, partition_epoch=101), leads=True)
    assert partition.log.leader_epochs.latest == 4


def test_clients_are_told_which_link_a_partition_follows(make: Callable[..., Partition]) -> None:
    partition = make()
    with pytest.raises(PolicyViolation, match="through link 'west'"):
        partition.append(batch_of(b"x"), now_ms=NOW_MS, all_in_sync=True)
    assert partition.log.log_end_offset == 0


@pytest.mark.parametrize("changes", [{"leader_epoch": 4}, {"link": UUID(int=1)}, {"end_offset": 1}])
def test_an_answer_to_a_question_of_another_time_is_not_appended(
    make: Callable[..., Partition], changes: dict[str, Any]
) -> None:
    partition = make()
    with pytest.raises(FencedLeaderEpoch):
        take(partition, copied(b"a"), **changes)
    assert partition.log.log_end_offset == 0


def test_who_leads_no_longer_or_was_promoted_appends_nothing_of_the_source(make: Callable[..., Partition]) -> None:
    partition = make()
    partition.apply(replace(LINKED, leader=2, leader_epoch=6), leads=False)
    with pytest.raises(NotLeaderOrFollower):
        take(partition, copied(b"a"))
    partition.apply(replace(OWN, leader_epoch=6 + PROMOTION_LEAP), leads=True)
    with pytest.raises(FencedLeaderEpoch):
        take(partition, copied(b"a"))
    assert partition.log.log_end_offset == 0


def test_followers_move_the_high_watermark_as_ever(make: Callable[..., Partition]) -> None:
    partition = make()
    take(partition, copied(b"a", b"b"))
    assert partition.log.high_watermark == 0
    fetch(partition, 2)
    assert partition.log.high_watermark == 2


def with_own_records(make: Callable[..., Partition]) -> Partition:
    """Three records of epoch 5, written here; then the partition follows."""
    partition = make(OWN)
    for _ in range(3):
        partition.append(batch_of(b"own"), now_ms=NOW_MS, all_in_sync=True)
    return partition


FOLLOWING = replace(LINKED, leader_epoch=80_000, partition_epoch=101, set_aside_up_to=5)


def cut(partition: Partition, offset: int, **changes: Any) -> None:
    asked: dict[str, Any] = {"leader_epoch": 80_000, "link": LINK, "end_offset": 3, "now_ms": NOW_MS}
    partition.hold_readers()
    cut_to_source(partition, offset, **{**asked, **changes})
    partition.release_readers()


def raise_epoch(partition: Partition) -> None:
    state = partition.state
    partition.apply(
        replace(state, leader_epoch=state.leader_epoch + 1, partition_epoch=state.partition_epoch + 1), leads=True
    )


def test_after_a_cut_a_follower_counts_only_when_it_has_fetched_again(make: Callable[..., Partition]) -> None:
    partition = with_own_records(make)
    partition.apply(FOLLOWING, leads=True)
    fetch(partition, 3)
    cut(partition, 1)
    assert (partition.log.log_end_offset, partition.log.high_watermark) == (1, 1)
    raise_epoch(partition)
    take(partition, copied(b"a", b"b", base=1, epoch=80_000))
    partition.advance_high_watermark()
    assert partition.log.high_watermark == 1, "the follower has other records at these offsets"
    fetch(partition, 3)
    assert partition.log.high_watermark == 3


def test_who_waits_for_records_that_are_cut_is_not_told_that_they_are_replicated(
    make: Callable[..., Partition],
) -> None:
    partition = with_own_records(make)
    outcomes: list[KafkaError | None] = []
    partition.when_replicated(3, outcomes.append, leader_epoch=5)
    partition.apply(FOLLOWING, leads=True)
    cut(partition, 1)
    raise_epoch(partition)
    take(partition, copied(b"a", b"b", base=1, epoch=80_000))
    fetch(partition, 3)
    assert [type(outcome) for outcome in outcomes] == [NotLeaderOrFollower]


@pytest.mark.parametrize("changes", [{"leader_epoch": 5}, {"link": UUID(int=1)}, {"end_offset": 2}])
def test_nothing_is_cut_that_was_not_set_aside(make: Callable[..., Partition], changes: dict[str, Any]) -> None:
    partition = with_own_records(make)
    partition.apply(FOLLOWING, leads=True)
    with pytest.raises(FencedLeaderEpoch):
        cut(partition, 1, **changes)
    assert partition.log.log_end_offset == 3


def test_records_of_the_source_are_never_cut(make: Callable[..., Partition]) -> None:
    partition = with_own_records(make)
    partition.apply(FOLLOWING, leads=True)
    cut(partition, 2)
    raise_epoch(partition)
    take(partition, copied(b"a", base=2, epoch=80_000))
    with pytest.raises(FencedLeaderEpoch):
        cut(partition, 1, leader_epoch=80_001)


def test_nothing_is_cut_while_consumers_read(make: Callable[..., Partition]) -> None:
    partition = with_own_records(make)
    partition.apply(FOLLOWING, leads=True)
    with pytest.raises(FencedLeaderEpoch):
        cut_to_source(partition, 1, leader_epoch=80_000, link=LINK, end_offset=3, now_ms=NOW_MS)
    assert partition.log.log_end_offset == 3


def test_after_a_cut_nothing_is_appended_or_read_under_the_same_leader_epoch(
    make: Callable[..., Partition],
) -> None:
    """Else consumers behind the cut would go on at other records: only a later epoch has them compare."""
    partition = with_own_records(make)
    partition.apply(FOLLOWING, leads=True)
    partition.check_readable()
    cut(partition, 1)
    with pytest.raises(FencedLeaderEpoch):
        take(partition, copied(b"a", base=1, epoch=80_000))
    with pytest.raises(NotLeaderOrFollower):
        partition.check_readable()
    raise_epoch(partition)
    partition.check_readable()
    take(partition, copied(b"a", base=1, epoch=80_000))


def test_consumers_read_on_where_nothing_was_cut(make: Callable[..., Partition]) -> None:
    partition = make(OWN)
    partition.hold_readers()
    with pytest.raises(NotLeaderOrFollower):
        partition.check_readable()
    partition.release_readers()
    partition.check_readable()


def test_a_promoted_leader_forgets_the_producers_of_the_source(make: Callable[..., Partition]) -> None:
    partition = make()
    take(partition, copied(b"a", producer=PRODUCER))
    partition.apply(replace(OWN, leader_epoch=5 + PROMOTION_LEAP, partition_epoch=101), leads=True)
    appended = partition.append(batch_of(b"b", producer=PRODUCER), now_ms=NOW_MS, all_in_sync=True)
    assert (appended.base_offset, appended.duplicate) == (1, False), "it is another cluster's producer of that id"


@pytest.mark.parametrize("rolls", [False, True])
def test_so_does_a_follower_and_a_broker_that_starts_anew(
    make: Callable[..., Partition], tmp_path: Path, rolls: bool
) -> None:
    """A follower hears of the promotion before it has the first batch behind it, and begins a segment."""
    follower = make(replace(LINKED, leader=2), leads=False)
    epoch = 5 + PROMOTION_LEAP
    how: dict[str, Any] = {"high_watermark": 2, "log_start_offset": 0, "now_ms": NOW_MS}
    append_from_leader(follower, copied(b"a", producer=PRODUCER), leader_epoch=5, **how)
    follower.apply(replace(OWN, leader=2, leader_epoch=epoch, partition_epoch=101), leads=False)
    if rolls:
        follower.log.roll(NOW_MS)
    records = copied(b"b", base=1, epoch=epoch, producer=(10, 0, 0))
    append_from_leader(follower, records, leader_epoch=epoch, **how)
    for log in (follower.log, open_log(tmp_path / "log", was_clean=False)):
        assert log.producers.get(PRODUCER[0]) is None
        assert log.producers.get(10) is not None


@pytest.mark.parametrize("loses_snapshot", [False, True])
def test_a_start_tells_by_the_snapshot_or_by_the_batches_that_producers_are_of_another_cluster(
    make: Callable[..., Partition], tmp_path: Path, loses_snapshot: bool
) -> None:
    """Retention may have removed the batches; a loss of power, what has replaced a snapshot."""
    leader = make()
    take(leader, copied(b"a", producer=PRODUCER))
    leader.log.roll(NOW_MS)
    with_source = snapshot_path(leader.log.directory, 1).read_bytes()
    leader.apply(replace(OWN, leader_epoch=5 + PROMOTION_LEAP, partition_epoch=101), leads=True)
    leader.append(batch_of(b"b", producer=(10, 0, 0)), now_ms=NOW_MS, all_in_sync=True)
    if loses_snapshot:
        snapshot_path(leader.log.directory, 1).write_bytes(with_source)
    else:
        for path in leader.log.directory.glob(f"{0:020d}.*"):
            path.unlink()
    log = open_log(tmp_path / "log", was_clean=False)
    assert (log.producers.get(PRODUCER[0]), log.log_end_offset) == (None, 2)
    assert log.producers.get(10) is not None


def test_a_promoted_leader_forgets_them_although_retention_has_emptied_its_log(
    make: Callable[..., Partition],
) -> None:
    """Also one that knows no leader epoch any more, as after a crash of an earlier version."""
    former = make()
    take(former, copied(b"a", producer=PRODUCER))
    former.log.high_watermark = 1
    former.log.update_config(TopicConfig(retention_ms=1000))
    former.log.enforce_retention(NOW_MS + 2000)
    former.log.flush()
    write_leader_epochs(former.log.directory, [])
    partition = make(was_clean=False)
    assert (partition.log.log_end_offset, partition.log.leader_epochs.latest) == (1, -1)
    assert partition.log.producers.get(PRODUCER[0]) is not None
    partition.apply(replace(OWN, leader_epoch=5 + PROMOTION_LEAP, partition_epoch=101), leads=True)
    assert partition.log.producers.get(PRODUCER[0]) is None


def test_an_election_forgets_no_producers(make: Callable[..., Partition]) -> None:
    partition = make(OWN)
    partition.append(batch_of(b"a", producer=PRODUCER), now_ms=NOW_MS, all_in_sync=True)
    partition.apply(replace(OWN, leader_epoch=6, partition_epoch=101), leads=True)
    with pytest.raises(OutOfOrderSequenceNumber):
        partition.append(batch_of(b"b", producer=(9, 0, 7)), now_ms=NOW_MS, all_in_sync=True)
