"""What happens to classic groups when a shard is loaded: records become groups, and sessions begin anew.

Source: `GroupMetadataManager.onLoaded` in Kafka.
"""

from ottla_group_coordinator.classic.group import ClassicGroup
from ottla_group_coordinator.classic.rebalance import forget_timers, prepare_rebalance, renew_session
from ottla_group_coordinator.classic.snapshot import restore
from ottla_group_coordinator.classic.state import ClassicGroupState
from ottla_group_coordinator.records import GroupMetadataKey, GroupMetadataValue
from ottla_group_coordinator.runtime.turn import Turn
from ottla_group_coordinator.shard_state import ShardState


def replay_group_metadata(shard: ShardState, key: GroupMetadataKey, value: GroupMetadataValue | None) -> None:
    """Apply a group's snapshot, or its removal."""
    former = shard.groups.get(key.group)
    if isinstance(former, ClassicGroup):
        forget_timers(shard, former)
    if value is not None:
        shard.groups[key.group] = restore(key.group, value)
    elif isinstance(former, ClassicGroup):
        former.state = ClassicGroupState.DEAD
        del shard.groups[key.group]


def on_loaded(shard: ShardState, turn: Turn) -> None:
    """Give every member a whole session.

    Groups that were stored to be rebalanced are; so are those that are over the maximum, which lose who joins last.
    """
    for group in shard.groups.values():
        if not isinstance(group, ClassicGroup):
            continue
        for member in group.members.values():
            renew_session(shard, group, member, turn.now_ms)
        is_leaderless = bool(group.members) and group.leader_id is None
        if is_leaderless:
            group.leader_id = next(iter(group.members))
        if is_leaderless or len(group.members) > shard.settings.group_max_size:
            prepare_rebalance(shard, turn, group)
