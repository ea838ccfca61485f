"""What all shards of a process share."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ottla_core.clock import Clock
from ottla_group_coordinator.runtime.awake_clock import AwakeClock
from ottla_group_coordinator.runtime.coordinator_counts import CoordinatorCounts
from ottla_group_coordinator.runtime.state_machine import RecordFormat, StateMachine

if TYPE_CHECKING:
    from ottla_group_coordinator.runtime.shard_runtime import ShardRuntime

Machine = TypeVar("Machine", bound=StateMachine)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardContext(Generic[Machine]):
    """What all shards of a process share that have the same kind of state machine.

    Attributes:
        make_shard: returns an empty state machine that knows the present cluster state.
        record_format: of its records.
        count_stored: told what turns have `counted`, once they are stored.
        carry_out: told the effects of turns, once they are stored, and by which shard; must not raise.
        on_unloaded: told which shard has lost its memory: effects of before are void.
        awake_clock: the time that this process was awake.
        clock: the system's clock.
        counts: for metrics.
        load_permits: bounds how many shards are read at once.
        load_bytes_max: how much is read at a time.
        batch_bytes_max: the size that no batch exceeds.
        commit_timeout_s: how long requests wait for their round to be stored.
        on_sequence_lost: called when a shard can only be continued by a new ownership.
        on_epoch_seen: called when that has to have a later producer epoch than the one given.
    """

    make_shard: Callable[[], Machine]
    record_format: RecordFormat
    count_stored: Callable[[Iterable[Any]], None]
    awake_clock: AwakeClock
    clock: Clock
    counts: CoordinatorCounts
    load_permits: asyncio.Semaphore
    load_bytes_max: int
    batch_bytes_max: int
    commit_timeout_s: float
    on_sequence_lost: Callable[[], None]
    on_epoch_seen: Callable[[int], None]
    carry_out: "Callable[[ShardRuntime[Machine], Sequence[Any]], None]" = lambda _runtime, _effects: None
    on_unloaded: "Callable[[ShardRuntime[Machine]], None]" = lambda _runtime: None
