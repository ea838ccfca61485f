"""One shard: the groups and offsets kept in one partition of ``__consumer_offsets``, as a pure state machine. Pure.

Events come in through `handle` (a client's request), `advance` (time has passed) and `on_cluster_state` (topics have
changed); each gives a `Turn`. Loading is `replay` for every record of the partition, in order, then `loaded`.

State changes by `write`, which puts a record into the turn and applies it at once, exactly as `replay` will apply
it when the partition is loaded; what an event decides next sees it. The classic protocol's groups live in memory
between stable generations and write snapshots of themselves (`Turn.records` directly).

Nothing is ever rolled back: the shell keeps trying to store a turn until it is stored, or until the shard has another
owner, and then throws the whole shard away.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol
from uuid import UUID

from ottla_core.cluster.state.model import ClusterState
from ottla_core.errors import KafkaError
from ottla_core.wire import group_responses as api
from ottla_core.wire.group_responses import error_response
from ottla_group_coordinator.classic.loading import on_loaded as load_classic_groups
from ottla_group_coordinator.classic.loading import replay_group_metadata
from ottla_group_coordinator.consumer.departure import load_consumer_groups
from ottla_group_coordinator.consumer.replay import CONSUMER_GROUP_REPLAYS
from ottla_group_coordinator.group import Group
from ottla_group_coordinator.group_request import GroupRequest
from ottla_group_coordinator.handlers import (
    consumer_group_describe,
    consumer_group_heartbeat,
    delete_groups,
    describe_groups,
    heartbeat,
    join_group,
    leave_group,
    list_groups,
    offset_commit,
    offset_delete,
    offset_fetch,
    sync_group,
)
from ottla_group_coordinator.offsets import expiry
from ottla_group_coordinator.offsets.loading import replay_offset_commit
from ottla_group_coordinator.offsets.table import OffsetTable
from ottla_group_coordinator.records import GroupMetadataKey, OffsetCommitKey, RecordKey, RecordValue
from ottla_group_coordinator.runtime.errors import CoordinatorLoadInProgress
from ottla_group_coordinator.runtime.timers import Timers
from ottla_group_coordinator.runtime.turn import CoordinatorRecord, Turn
from ottla_group_coordinator.settings import GroupSettings


class Timer(Protocol):
    """A deadline: a frozen dataclass that names what it is about."""

    def __hash__(self) -> int: ...

    def expire(self, shard: "GroupShard", turn: Turn) -> None:
        """Do what is due. What it is about may have gone or changed since the timer was set."""


class GroupShard:
    """The groups of one shard.

    Args:
        settings: of all groups.
        cluster_state: the topics that can be consumed, to begin with.
        draw_uuid: gives a fresh UUID for every member id.

    Attributes:
        groups: by group id.
        groups_being_deleted: ids of groups whose deletion takes several turns; until then nobody may use them.
        offsets: the committed offsets, of groups that exist and of those that only commit.
        offset_cleanup: how far the search for offsets that can be forgotten has come.
        timers: what is due when.
        timestamps_ahead_ms: what is to be added to the time of deadlines for the time of records.
        topic_names_revision: of the cluster state in which topics last came or went, as far as it is known.
    """

    def __init__(
        self, *, settings: GroupSettings, cluster_state: ClusterState, draw_uuid: Callable[[], UUID]
    ) -> None:
        self.settings = settings
        self.cluster_state = cluster_state
        self.topic_names_revision = cluster_state.revision
        self.draw_uuid = draw_uuid
        self.groups: dict[str, Group] = {}
        self.groups_being_deleted: set[str] = set()
        self.offsets = OffsetTable()
        self.offset_cleanup = expiry.OffsetCleanup()
        self.timers: Timers[Timer] = Timers()
        self.timestamps_ahead_ms = 0

    def handle(self, request: GroupRequest, now_ms: int) -> Turn:
        """Take a client's request; it is answered in this turn or in a later one."""
        turn = self._turn(now_ms)
        try:
            self.check_not_being_deleted(getattr(request.message, "group_id", None))
            HANDLERS[request.api_key](self, request, turn)
        except KafkaError as error:
            assert not turn.records, "a request is refused before anything is written"
            refusal = error_response(request.api_key, request.api_version, request.message, error)
            turn.answer(request.token, refusal)
        return turn

    def check_not_being_deleted(self, group_id: str | None) -> None:
        """See that a group may be used; a request of several groups asks for each of them.

        Raises:
            CoordinatorLoadInProgress: part of it is gone already. Clients come again, and find it wholly gone.
        """
        if group_id in self.groups_being_deleted:
            raise CoordinatorLoadInProgress(f"group {group_id} is being deleted")

    def advance(self, now_ms: int) -> Turn:
        """Do what is due at `now_ms`, up to the first timer that writes: what is stored together stays small.

        More may be due then, which `timers.next_deadline_ms` tells.
        """
        turn = self._turn(now_ms)
        while not turn.records and (timer := self.timers.pop_due(now_ms)) is not None:
            timer.expire(self, turn)
        return turn

    def on_cluster_state(self, state: ClusterState, now_ms: int) -> Turn:
        """Take over a newer cluster state: topics may have come, gone or grown."""
        turn = self._turn(now_ms)
        former, self.cluster_state = self.cluster_state, state
        if former.topics.keys() != state.topics.keys():
            self.topic_names_revision = state.revision
        if former.topics is not state.topics:
            for react in ON_TOPICS:
                react(self, turn)
        return turn

    def replay(self, record: CoordinatorRecord) -> None:
        """Apply a record that is stored."""
        REPLAYS[type(record.key)](self, record.key, record.value)

    def loaded(self, now_ms: int) -> Turn:
        """Begin to serve after the last `replay`: every member gets a whole session timeout from here."""
        turn = self._turn(now_ms)
        for begin in ON_LOADED:
            begin(self, turn)
        return turn

    def write(self, turn: Turn, key: RecordKey, value: RecordValue | None) -> None:
        """Store and apply a record; without a value, a tombstone."""
        record = CoordinatorRecord(key, value)
        turn.records.append(record)
        self.replay(record)

    def _turn(self, now_ms: int) -> Turn:
        return Turn(now_ms, now_ms + self.timestamps_ahead_ms)


Handler = Callable[[GroupShard, GroupRequest, Turn], None]
Replay = Callable[[GroupShard, Any, Any], None]
Hook = Callable[[GroupShard, Turn], None]

HANDLERS: Mapping[int, Handler] = {
    api.JOIN_GROUP: join_group.handle,
    api.HEARTBEAT: heartbeat.handle,
    api.LEAVE_GROUP: leave_group.handle,
    api.SYNC_GROUP: sync_group.handle,
    api.DESCRIBE_GROUPS: describe_groups.handle,
    api.CONSUMER_GROUP_HEARTBEAT: consumer_group_heartbeat.handle,
    api.CONSUMER_GROUP_DESCRIBE: consumer_group_describe.handle,
    api.OFFSET_COMMIT: offset_commit.handle,
    api.OFFSET_FETCH: offset_fetch.handle,
    api.OFFSET_DELETE: offset_delete.handle,
    api.LIST_GROUPS: list_groups.handle,
    api.DELETE_GROUPS: delete_groups.handle,
}
"""What takes the requests of each API; the list of what a shard can be asked."""

REPLAYS: Mapping[type, Replay] = {
    OffsetCommitKey: replay_offset_commit,
    GroupMetadataKey: replay_group_metadata,
    **CONSUMER_GROUP_REPLAYS,
}
"""What applies the records of each type, by the class of their key; without a value, they remove something."""

ON_LOADED: Sequence[Hook] = (load_classic_groups, load_consumer_groups, expiry.on_loaded)
"""What happens when all records have been replayed."""

ON_TOPICS: Sequence[Hook] = (expiry.on_topics,)
"""What happens when topics have come, gone or grown; `cluster_state` is the new state then."""
