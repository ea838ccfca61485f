"""Members that ask for no patience in a rebalance do not take all of the coordinator's."""

from ottla_group_coordinator.classic.rebalance import JoinTimeout
from ottla_group_coordinator.runtime.turn import Turn
from tests.support.groups.classic_group_commands import classic_scene
from tests.support.groups.group_transcripts import START_MS


def test_absent_static_members_without_a_rebalance_timeout_are_not_looked_for_without_a_pause() -> None:
    scene = classic_scene()
    scene.run(
        [
            "join a version=3",
            "join b instance=one rebalance=0s",
            "join c instance=two rebalance=0s",
            "advance 6s",
            "sync a b=0 c=1",
            "sync b",
            "sync c",
            "leave a",
        ]
    )
    shard = scene.shard
    now_ms = START_MS + 6_000
    due = shard.timers.pop_due(now_ms)
    assert due == JoinTimeout("g")
    due.expire(shard, Turn(now_ms, now_ms))  # by hand: `advance` goes on for as long as a timer is due
    next_ms = shard.timers.next_deadline_ms
    assert next_ms is not None
    assert next_ms > now_ms
