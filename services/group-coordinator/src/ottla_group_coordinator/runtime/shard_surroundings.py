"""What all shards of a process share."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from ottla_core.clock import Clock
from ottla_group_coordinator.runtime.attention import Attention
from ottla_group_coordinator.runtime.coordinator_counts import CoordinatorCounts
from ottla_group_coordinator.shard import GroupShard


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardSurroundings:
    """What all shards of a process share.

    Attributes:
        make_shard: returns an empty shard that knows the present cluster state.
        attention: the time that this process was awake.
        clock: the system's clock.
        counts: for metrics.
        load_permits: bounds how many shards are read at once.
        load_bytes_max: how much is read at a time.
        batch_bytes_max: the size that no batch exceeds.
        commit_timeout_s: how long requests wait for their round to be stored.
        on_sequence_lost: called when a shard can only be continued by a new ownership.
        on_epoch_seen: called when that has to have a later producer epoch than the one given.
    """

    make_shard: Callable[[], GroupShard]
    attention: Attention
    clock: Clock
    counts: CoordinatorCounts
    load_permits: asyncio.Semaphore
    load_bytes_max: int
    batch_bytes_max: int
    commit_timeout_s: float
    on_sequence_lost: Callable[[], None]
    on_epoch_seen: Callable[[int], None]
