"""What a shard keeps, as all rules see it: they change it by records, and nothing here knows a rule.

`write` puts a record into the turn and applies it at once, exactly as `replay` applies it when the partition is
loaded; what an event decides next sees it. What applies which records is a table that the shard's state is given
(`shard.py` has it), so that it stands below all rules.

Pure.
"""

from collections.abc import Callable, Mapping
from typing import Any, Protocol
from uuid import UUID

from ottla_core.cluster.state.model import ClusterState
from ottla_group_coordinator.group import Group
from ottla_group_coordinator.offset_cleanup import OffsetCleanup
from ottla_group_coordinator.offset_table import OffsetTable
from ottla_group_coordinator.pending_offsets import PendingOffsets
from ottla_group_coordinator.records import RecordKey, RecordValue
from ottla_group_coordinator.runtime.errors import CoordinatorLoadInProgress
from ottla_group_coordinator.runtime.timers import Timers
from ottla_group_coordinator.runtime.turn import CoordinatorRecord, Turn
from ottla_group_coordinator.settings import GroupSettings
from ottla_group_coordinator.transaction_producers import TransactionProducers


class Timer(Protocol):
    """A deadline: a frozen dataclass that names what it is about."""

    def __hash__(self) -> int: ...

    def expire(self, shard: "ShardState", turn: Turn) -> None:
        """Do what is due. What it is about may have gone or changed since the timer was set."""


class ShardState:
    """The groups and offsets of one shard.

    Args:
        settings: of all groups.
        cluster_state: the topics that can be consumed, to begin with.
        draw_uuid: gives a fresh UUID for every member id.
        replays: what applies the records of each type, by the class of their key.

    Attributes:
        groups: by group id.
        groups_being_deleted: ids of groups whose deletion takes several turns; until then nobody may use them.
        offsets: the committed offsets, of groups that exist and of those that only commit.
        pending_offsets: the offsets of transactions that have not ended.
        transaction_producers: whose transactions have reached the shard.
        offset_cleanup: how far the search for offsets that can be forgotten has come.
        timers: what is due when.
        timestamps_ahead_ms: what is to be added to the time of deadlines for the time of records.
        topic_names_revision: of the cluster state in which topics last came or went, as far as it is known.
    """

    def __init__(
        self,
        *,
        settings: GroupSettings,
        cluster_state: ClusterState,
        draw_uuid: Callable[[], UUID],
        replays: "Mapping[type, Replay]",
    ) -> None:
        self.settings = settings
        self.cluster_state = cluster_state
        self.topic_names_revision = cluster_state.revision
        self.draw_uuid = draw_uuid
        self.groups: dict[str, Group] = {}
        self.groups_being_deleted: set[str] = set()
        self.offsets = OffsetTable()
        self.pending_offsets = PendingOffsets()
        self.transaction_producers = TransactionProducers(draw_uuid)
        self.offset_cleanup = OffsetCleanup()
        self.timers: Timers[Timer] = Timers()
        self.timestamps_ahead_ms = 0
        self._replays = replays

    def check_not_being_deleted(self, group_id: str | None) -> None:
        """See that a group may be used; a request of several groups asks for each of them.

        Raises:
            CoordinatorLoadInProgress: part of it is gone already. Clients come again, and find it wholly gone.
        """
        if group_id in self.groups_being_deleted:
            raise CoordinatorLoadInProgress(f"group {group_id} is being deleted")

    def replay(self, record: CoordinatorRecord) -> None:
        """Apply a record that is stored."""
        self._replays[type(record.key)](self, record.key, record.value)

    def write(self, turn: Turn, key: RecordKey, value: RecordValue | None) -> None:
        """Store and apply a record; without a value, a tombstone."""
        record = CoordinatorRecord(key, value)
        turn.records.append(record)
        self.replay(record)


Replay = Callable[[ShardState, Any, Any], None]
"""Applies a record: its key, and its value or None."""
