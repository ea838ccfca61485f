"""What a follower asks for next, and its side of a fetch session."""

from dataclasses import dataclass, field
from typing import cast
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from ottla_broker.partition import Partition
from ottla_broker.replica.follower_replica import FetchPosition
from ottla_broker.replication.fetch_plan import (
    FIRST_PAUSE_MS,
    SESSION_EPOCH_MAX,
    FetchPlan,
    FollowedPartition,
    PlannedFetch,
)
from ottla_core.cluster.state.model import PartitionState
from ottla_core.topic_partition import TopicPartition
from ottla_core.wire.replica_fetch_request import PartitionFetch

TOPIC = UUID(int=7)
BYTES_MAX = 1000
PAUSE_MS_MAX = 1000
SESSION = 55


@dataclass
class FakePartition:
    """What the plan needs of a partition."""

    index: int
    end_offset: int = 0
    topic_id: UUID = TOPIC
    topic_partition: TopicPartition = field(init=False)
    state: PartitionState = field(init=False)

    def __post_init__(self) -> None:
        self.topic_partition = TopicPartition("flights", self.index)
        self.elect(4)

    def elect(self, leader_epoch: int) -> None:
        self.state = PartitionState(
            topic_id=self.topic_id, index=self.index, replicas=(1, 2), isr=(1,), leader=1, leader_epoch=leader_epoch
        )

    def fetch_position(self) -> FetchPosition:
        return FetchPosition(self.end_offset, 3, self.state.leader_epoch, 0)


def partition(index: int, end_offset: int = 0) -> Partition:
    return cast("Partition", FakePartition(index, end_offset))


def follow(plan: FetchPlan, index: int) -> FollowedPartition:
    assert plan.follow(partition(index))
    followed = plan.get(TOPIC, index)
    assert followed is not None
    return followed


def grow(followed: FollowedPartition, plan: FetchPlan, end_offset: int) -> None:
    cast("FakePartition", followed.partition).end_offset = end_offset
    plan.moved(followed)


@pytest.fixture
def plan() -> FetchPlan:
    return FetchPlan(lambda _followed: BYTES_MAX, PAUSE_MS_MAX)


def indexes(planned: PlannedFetch | None) -> list[int]:
    assert planned is not None
    return [asked.partition for partitions in planned.asked.values() for asked in partitions]


def begin_session(plan: FetchPlan) -> None:
    plan.next_fetch(0)
    plan.answered(SESSION)


def test_nothing_is_asked_while_nothing_is_followed(plan: FetchPlan) -> None:
    assert plan.next_fetch(0) is None


def test_the_first_fetch_names_every_partition_and_opens_a_session(plan: FetchPlan) -> None:
    plan.follow(partition(0, 17))
    plan.follow(partition(1))
    planned = plan.next_fetch(0)
    assert planned == PlannedFetch(
        (0, 0),
        {TOPIC: [PartitionFetch(0, 4, 17, 3, 0, BYTES_MAX), PartitionFetch(1, 4, 0, 3, 0, BYTES_MAX)]},
        {},
    )


def test_in_a_session_only_what_has_moved_is_named(plan: FetchPlan) -> None:
    moving = follow(plan, 0)
    plan.follow(partition(1))
    begin_session(plan)
    grow(moving, plan, 5)
    planned = plan.next_fetch(0)
    assert planned == PlannedFetch((SESSION, 1), {TOPIC: [PartitionFetch(0, 4, 5, 3, 0, BYTES_MAX)]}, {})


def test_when_nothing_has_moved_a_session_s_fetch_names_nothing(plan: FetchPlan) -> None:
    plan.follow(partition(0))
    begin_session(plan)
    assert plan.next_fetch(0) == PlannedFetch((SESSION, 1), {}, {})
    plan.answered(SESSION)
    assert plan.next_fetch(0) == PlannedFetch((SESSION, 2), {}, {})


def test_a_partition_that_is_followed_no_longer_leaves_the_session(plan: FetchPlan) -> None:
    gone = follow(plan, 0)
    plan.follow(partition(1))
    begin_session(plan)
    plan.unfollow(gone.key)
    assert plan.get(TOPIC, 0) is None
    assert plan.next_fetch(0) == PlannedFetch((SESSION, 1), {}, {TOPIC: [0]})
    plan.answered(SESSION)
    assert plan.next_fetch(0) == PlannedFetch((SESSION, 2), {}, {})


def test_when_nothing_is_left_in_the_session_nothing_is_asked(plan: FetchPlan) -> None:
    gone = follow(plan, 0)
    begin_session(plan)
    plan.unfollow(gone.key)
    assert plan.next_fetch(0) is None
    plan.follow(partition(1))
    assert plan.next_fetch(0) == PlannedFetch(
        (SESSION, 1), {TOPIC: [PartitionFetch(1, 4, 0, 3, 0, BYTES_MAX)]}, {TOPIC: [0]}
    )


def test_a_partition_that_is_followed_again_at_once_is_asked_for_and_not_forgotten(plan: FetchPlan) -> None:
    followed = follow(plan, 0)
    begin_session(plan)
    plan.unfollow(followed.key)
    plan.follow(followed.partition)
    planned = plan.next_fetch(0)
    assert planned is not None
    assert (indexes(planned), planned.forgotten) == ([0], {})


def test_a_failed_partition_is_left_out_for_ever_longer_times(plan: FetchPlan) -> None:
    failing = follow(plan, 0)
    plan.follow(partition(1))
    begin_session(plan)
    now_ms, pauses = 0, []
    for _ in range(8):
        plan.failed(failing, now_ms)
        planned = plan.next_fetch(now_ms)
        assert planned is not None
        assert planned.forgotten == {TOPIC: [0]}
        plan.answered(SESSION)
        end_ms = plan.next_look_ms()
        assert end_ms is not None
        assert indexes(plan.next_fetch(end_ms - 1)) == []
        assert indexes(plan.next_fetch(end_ms)) == [0]
        pauses.append(end_ms - now_ms)
        now_ms = end_ms
    assert pauses == [FIRST_PAUSE_MS << shift for shift in range(6)] + [PAUSE_MS_MAX] * 2
    plan.succeeded(failing)
    plan.failed(failing, now_ms)
    assert plan.next_look_ms() == now_ms + FIRST_PAUSE_MS


def test_what_happens_to_a_paused_partition_does_not_end_its_pause(plan: FetchPlan) -> None:
    followed = follow(plan, 0)
    begin_session(plan)
    plan.failed(followed, 0)
    grow(followed, plan, 5)
    assert plan.next_fetch(1) is None


def test_following_a_partition_again_in_the_same_leader_epoch_changes_nothing(plan: FetchPlan) -> None:
    followed = follow(plan, 0)
    begin_session(plan)
    assert not plan.follow(followed.partition)
    assert plan.next_fetch(0) == PlannedFetch((SESSION, 1), {}, {})


def test_a_new_leader_epoch_has_a_partition_asked_for_anew_and_ends_its_pause(plan: FetchPlan) -> None:
    former = follow(plan, 0)
    begin_session(plan)
    plan.failed(former, 0)
    cast("FakePartition", former.partition).elect(5)
    assert plan.follow(former.partition)
    assert plan.next_fetch(1) == PlannedFetch((SESSION, 1), {TOPIC: [PartitionFetch(0, 5, 0, 3, 0, BYTES_MAX)]}, {})
    plan.answered(SESSION)
    assert plan.next_fetch(10 * FIRST_PAUSE_MS) == PlannedFetch((SESSION, 2), {}, {})  # the old pause is void


def test_a_partition_that_is_unfollowed_while_paused_stays_away(plan: FetchPlan) -> None:
    followed = follow(plan, 0)
    begin_session(plan)
    plan.failed(followed, 0)
    plan.unfollow(followed.key)
    plan.resume(followed)
    assert plan.next_fetch(10_000) is None


def test_what_comes_late_of_an_earlier_leader_epoch_changes_nothing(plan: FetchPlan) -> None:
    former = follow(plan, 0)
    begin_session(plan)
    cast("FakePartition", former.partition).elect(5)
    assert plan.follow(former.partition)
    plan.failed(former, 0)
    plan.pause(former, None)
    plan.moved(former)
    assert indexes(plan.next_fetch(0)) == [0]
    plan.answered(SESSION)
    plan.resume(former)
    assert plan.next_fetch(1 << 40) == PlannedFetch((SESSION, 2), {}, {})


def test_a_partition_can_be_left_out_until_it_is_resumed(plan: FetchPlan) -> None:
    followed = follow(plan, 0)
    begin_session(plan)
    plan.pause(followed, None)
    assert plan.next_look_ms() is None
    assert plan.next_fetch(1 << 40) is None
    plan.resume(followed)
    assert indexes(plan.next_fetch(1 << 40)) == [0]


def test_a_session_that_is_gone_is_opened_anew(plan: FetchPlan) -> None:
    plan.follow(partition(0))
    plan.follow(partition(1))
    begin_session(plan)
    plan.next_fetch(0)
    plan.session_refused(ErrorCode.fetch_session_id_not_found)
    planned = plan.next_fetch(0)
    assert planned is not None
    assert planned.session == (0, 0)
    assert indexes(planned) == [0, 1]


@pytest.mark.parametrize("how", ["refused", "disconnected"])
def test_a_session_whose_state_is_not_known_is_closed_and_opened_anew(plan: FetchPlan, how: str) -> None:
    gone = follow(plan, 0)
    plan.follow(partition(1))
    begin_session(plan)
    plan.unfollow(gone.key)
    if how == "refused":
        plan.next_fetch(0)
        plan.session_refused(ErrorCode.invalid_fetch_session_epoch)
    else:
        plan.disconnected()
    planned = plan.next_fetch(0)
    assert planned is not None
    assert (planned.session, indexes(planned), planned.forgotten) == ((SESSION, 0), [1], {})


def test_paused_partitions_are_left_out_of_a_new_session(plan: FetchPlan) -> None:
    paused = follow(plan, 0)
    plan.follow(partition(1))
    begin_session(plan)
    plan.failed(paused, 0)
    plan.disconnected()
    assert indexes(plan.next_fetch(0)) == [1]
    plan.answered(SESSION)
    assert indexes(plan.next_fetch(FIRST_PAUSE_MS)) == [0]


def test_a_leader_without_room_for_sessions_is_asked_for_everything_each_time_what_moved_last(
    plan: FetchPlan,
) -> None:
    for index in range(3):
        plan.follow(partition(index))
    plan.next_fetch(0)
    moving = plan.get(TOPIC, 0)
    assert moving is not None
    grow(moving, plan, 5)
    plan.answered(0)
    planned = plan.next_fetch(0)
    assert planned is not None
    assert (planned.session, indexes(planned)) == ((0, 0), [1, 2, 0])


def test_the_session_epoch_goes_on_at_one_after_the_largest(plan: FetchPlan) -> None:
    plan.follow(partition(0))
    begin_session(plan)
    plan._session_epoch = SESSION_EPOCH_MAX  # thousands of millions of fetches later
    plan.next_fetch(0)
    plan.answered(SESSION)
    assert plan.next_fetch(0) == PlannedFetch((SESSION, 1), {}, {})


def test_throttled_partitions_are_left_out_until_the_rate_has_room() -> None:
    waits = {0: 300}
    plan = FetchPlan(
        lambda _followed: BYTES_MAX,
        PAUSE_MS_MAX,
        lambda followed, now_ms: max(0, waits.get(followed.key[1], 0) - now_ms),
    )
    plan.follow(partition(0))
    plan.follow(partition(1))
    assert indexes(plan.next_fetch(0)) == [1]
    plan.answered(SESSION)
    assert plan.next_look_ms() == 300
    assert indexes(plan.next_fetch(299)) == []
    assert indexes(plan.next_fetch(300)) == [0]
