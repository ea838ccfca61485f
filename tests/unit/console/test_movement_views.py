"""Lines of plans and of moves, how a movement ended, the limit that is typed."""

import pytest

from ottla_console.views.movement_table import change_rows, ended_words, left_bytes, move_rows, throttle_bytes
from ottla_core.topic_partition import TopicPartition
from ottla_operations.cluster.cluster_view import BrokerView, ClusterView, Move, PartitionView, ReplicaOnDisk
from ottla_operations.cluster.movement import Result
from ottla_operations.cluster.movement_plan import MovementPlan

ZERO, ONE, TWO = (TopicPartition("t", number) for number in range(3))
VIEW = ClusterView(
    "id",
    {number: BrokerView(number, "h", 9092, None) for number in (1, 2, 3)},
    {name: PartitionView(name, 1, (1, 2), (1, 2)) for name in (ZERO, ONE, TWO)},
)


def test_what_has_most_to_be_copied_comes_first_in_a_plan() -> None:
    plan = MovementPlan(VIEW, {ZERO: (2, 1), ONE: (1, 3), TWO: (3, 2)}, {ZERO: 900, ONE: 10, TWO: 50})
    rows = change_rows(plan)
    assert [(each.name, each.copies, each.size_bytes, each.before) for each in rows] == [
        (TWO, 1, 50, (1, 2)),
        (ONE, 1, 10, (1, 2)),
        (ZERO, 0, 900, (1, 2)),  # only the order changes
    ]


def test_a_move_shows_how_much_is_copied_and_left() -> None:
    moves = {ZERO: Move((1, 2, 3), (3,), (2,)), ONE: Move((1, 2, 3), (3,), (2,))}
    disks = {
        1: [ReplicaOnDisk(ZERO, 100), ReplicaOnDisk(ONE, 400)],
        2: [ReplicaOnDisk(ZERO, 100)],
        3: [ReplicaOnDisk(ZERO, 130), ReplicaOnDisk(ONE, 150), ReplicaOnDisk(ONE, 7, is_future=True)],
    }
    rows = move_rows(moves, VIEW, disks)
    assert [(each.name, each.copied_bytes, each.left_bytes) for each in rows] == [(ONE, 150, 250), (ZERO, 100, 0)]
    assert left_bytes(rows) == 250


def test_what_a_silent_broker_has_copied_is_not_known() -> None:
    rows = move_rows({ZERO: Move((1, 2, 3), (3,), (2,))}, VIEW, {1: [ReplicaOnDisk(ZERO, 100)]})
    assert [(each.size_bytes, each.copied_bytes, each.left_bytes) for each in rows] == [(100, None, None)]
    assert left_bytes(rows) is None
    (unknown,) = move_rows({ZERO: Move((1, 2, 3), (3,), (2,))}, VIEW, {3: []})
    assert (unknown.size_bytes, unknown.left_bytes) == (None, None)
    assert move_rows({TopicPartition("deleted", 0): Move((1,), (), ())}, VIEW, {}) == []


def test_how_a_movement_ended_is_told_in_words() -> None:
    assert ended_words(Result(moved=[ZERO]), None) == ("good", "Done: 1 partition moved.")
    assert ended_words(Result(moved=[ZERO], failed={ONE: "no"}), None) == (
        "bad",
        "Ended: 1 partition moved, 1 failed.",
    )
    assert ended_words(Result(cancelled=[ZERO], not_begun=[ONE, TWO]), None) == (
        "advice",
        "Stopped: 0 partitions moved, 1 cancelled and where they were, 2 not begun. A new plan goes on from here.",
    )
    assert ended_words(Result(), "the cluster is gone")[0] == "bad"


def test_a_limit_is_typed_in_megabytes() -> None:
    assert throttle_bytes("  ") is None
    assert throttle_bytes(" 50 ") == 50_000_000
    for typed in ("0", "-1", "1.5", "fast", "1000001", "٣", "9" * 5000):
        with pytest.raises(ValueError, match="megabytes per second from 1 to 1,000,000"):
            throttle_bytes(typed)
