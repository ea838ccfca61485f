"""Where a linked partition goes on when the source has nothing at its end, and what its status says."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from ottla_broker.links.linked_partition import LinkedPartition, Next, SourceRange
from ottla_broker.partition import Partition
from ottla_broker.partition_context import ReplicationContext
from ottla_broker.replica.follower_replica import FetchPosition
from ottla_core.cluster.controller_rpc.link_api import UNKNOWN, LinkedPartitionState
from ottla_core.cluster.state.model import PartitionState
from ottla_core.wire.replica_fetch_response import PartitionFetched
from tests.support.broker.partition_logs import PARTITION, batch_of, open_log

LINK = UUID(int=70)
SOURCE_TOPIC = UUID(int=71)
STATE = PartitionState(
    topic_id=UUID(int=1),
    index=0,
    replicas=(1,),
    isr=(1,),
    leader=1,
    leader_epoch=5,
    leader_broker_epoch=71,
    link=LINK,
)

Make = Callable[..., LinkedPartition]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    def linked(*values: bytes, state: PartitionState = STATE) -> LinkedPartition:
        partition = Partition(PARTITION, open_log(tmp_path / "log"), ReplicationContext(1, 30_000, lambda: 0), state)
        partition.apply(state, leads=True)
        made = LinkedPartition(partition, link=LINK, source_topic="t", source_topic_id=SOURCE_TOPIC, now_ms=1000)
        made.source_leader_epoch = 3
        if values:
            assert made.take(answer(batch_of(*values, leader_epoch=3)), log_end_offset=0, now_ms=2000) is Next.GO_ON
        return made

    return linked


def answer(
    records: bytes = b"",
    *,
    error: ErrorCode = ErrorCode.none,
    high_watermark: int = 10,
    diverging: tuple[int, int] | None = None,
) -> PartitionFetched:
    return PartitionFetched(SOURCE_TOPIC, 0, error, high_watermark, 0, memoryview(records), diverging)


def test_a_partition_is_fetched_from_its_end_with_the_epoch_of_its_last_record(make: Make) -> None:
    linked = make(b"a", b"b")
    assert linked.fetch_position() == FetchPosition(2, 3, 3, -1)
    status = linked.status("west")
    assert (status.state, status.log_end_offset, status.source_end_offset, status.lag) == ("RUNNING", 2, 10, 8)
    assert (status.since_ms, status.answered_ms) == (2000, 2000)


def test_a_partition_that_was_not_answered_yet_has_no_lag(make: Make) -> None:
    status = make().status("west")
    assert (status.state, status.lag, status.answered_ms) == ("WAITING", UNKNOWN, UNKNOWN)


def test_a_source_with_another_history_stops_it(make: Make) -> None:
    linked = make(b"a", b"b")
    assert linked.take(answer(diverging=(3, 1)), log_end_offset=2, now_ms=3000) is Next.STOPPED
    assert linked.state is LinkedPartitionState.SOURCE_TRUNCATED
    assert linked.take(answer(), log_end_offset=2, now_ms=4000) is Next.GO_ON, "it is what it was again"
    assert linked.state is LinkedPartitionState.RUNNING


@pytest.mark.parametrize(
    ("error", "what", "state"),
    [
        (ErrorCode.offset_out_of_range, Next.FIND_START, "RUNNING"),
        (ErrorCode.not_leader_or_follower, Next.LOOK, "WAITING"),
        (ErrorCode.topic_authorization_failed, Next.STOPPED, "FAILED"),
    ],
)
def test_errors_of_the_source(make: Make, error: ErrorCode, what: Next, state: str) -> None:
    linked = make(b"a")
    assert linked.take(answer(error=error), log_end_offset=1, now_ms=3000) is what
    assert linked.state == state


def test_a_source_that_has_deleted_what_comes_next_leaves_a_gap_that_is_counted_once(make: Make) -> None:
    linked = make(b"a", b"b")
    assert linked.resume_within(SourceRange(7, 20, 3, 7), 3000) is None
    assert (linked.records_missed, linked.fetch_position()) == (5, FetchPosition(7, -1, 3, -1))
    assert linked.resume_within(SourceRange(9, 20, 3, 9), 3000) is None
    assert (linked.records_missed, linked.fetch_position().offset) == (7, 9)
    records = batch_of(b"j", base_offset=9, leader_epoch=3)
    assert linked.take(answer(records), log_end_offset=2, now_ms=4000) is Next.GO_ON
    assert linked.fetch_position() == FetchPosition(10, 3, 3, -1)


def test_a_log_without_records_begins_where_the_sources_does_and_has_missed_nothing(make: Make) -> None:
    linked = make()
    assert linked.resume_within(SourceRange(7, 20), 3000) == 7
    assert linked.records_missed == 0


@pytest.mark.parametrize("found", [SourceRange(7, 20, 3, 1), SourceRange(0, 1, 3, 2)])
def test_a_gap_does_not_hide_that_the_source_has_lost_records(make: Make, found: SourceRange) -> None:
    linked = make(b"a", b"b")
    assert linked.resume_within(found, 3000) is None
    assert linked.state is LinkedPartitionState.SOURCE_TRUNCATED
    assert linked.fetch_position().offset == 2


def test_what_was_written_here_is_not_followed_by_a_gap_that_nothing_can_be_compared_across(make: Make) -> None:
    linked = make(b"a", b"b")
    linked.partition.state = replace(STATE, set_aside_up_to=3)
    assert linked.take(answer(diverging=(2, 1)), log_end_offset=2, now_ms=3000) is Next.SET_ASIDE
    assert linked.parted_at == (2, 1)
    linked.resume_within(SourceRange(7, 20, 3, 7), 3000)
    assert linked.state is LinkedPartitionState.SOURCE_TRUNCATED
    assert linked.fetch_position().offset == 2


def test_a_batch_of_a_later_epoch_waits_until_the_leaders_is_raised(make: Make) -> None:
    linked = make(b"a")
    records = batch_of(b"b", base_offset=1, leader_epoch=5) + batch_of(b"c", base_offset=2, leader_epoch=8)
    assert linked.take(answer(records), log_end_offset=1, now_ms=3000) is Next.RAISE_EPOCH
    assert (linked.wanted_epoch, linked.partition.log.log_end_offset) == (8, 2)
