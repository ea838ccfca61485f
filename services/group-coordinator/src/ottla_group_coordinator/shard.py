"""One shard: the groups and offsets kept in one partition of ``__consumer_offsets``, as a pure state machine. Pure.

Events come in through `handle` (a client's request), `advance` (time has passed) and `on_cluster_state` (topics have
changed); each gives a `Turn`. Loading is `replay` for every record of the partition, in order, then `loaded`.

State (`shard_state.py`) changes by `write`, which applies a record at once, as `replay` will when the partition is
loaded. The classic protocol's groups live in memory between stable generations and write snapshots of themselves
(`Turn.records` directly). Here are the tables of what handles which request, record and event.

Nothing is ever rolled back: the shell keeps trying to store a turn until it is stored, or until the shard has another
owner, and then throws the whole shard away.
"""

from collections.abc import Callable, Mapping, Sequence
from uuid import UUID

from ottla_core.cluster.state.model import ClusterState
from ottla_core.errors import KafkaError
from ottla_core.wire import group_responses as api
from ottla_core.wire.control_records import TransactionMarker
from ottla_core.wire.group_responses import error_response
from ottla_core.wire.transaction_responses import TXN_OFFSET_COMMIT, WRITE_TXN_MARKERS
from ottla_group_coordinator.classic.loading import on_loaded as load_classic_groups
from ottla_group_coordinator.classic.loading import replay_group_metadata
from ottla_group_coordinator.consumer.departure import load_consumer_groups
from ottla_group_coordinator.consumer.replay import CONSUMER_GROUP_REPLAYS
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
    txn_offset_commit,
    write_txn_markers,
)
from ottla_group_coordinator.offsets import expiry, transactions
from ottla_group_coordinator.offsets.offset_replay import replay_offset_commit
from ottla_group_coordinator.records import GroupMetadataKey, OffsetCommitKey
from ottla_group_coordinator.runtime.turn import CoordinatorRecord, TransactionProducer, Turn
from ottla_group_coordinator.settings import GroupSettings
from ottla_group_coordinator.shard_state import Replay, ShardState


class GroupShard(ShardState):
    """One shard: its state, and what happens to it. See `ShardState` for the arguments and attributes."""

    def __init__(
        self, *, settings: GroupSettings, cluster_state: ClusterState, draw_uuid: Callable[[], UUID]
    ) -> None:
        super().__init__(settings=settings, cluster_state=cluster_state, draw_uuid=draw_uuid, replays=REPLAYS)

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

    def loaded(self, now_ms: int) -> Turn:
        """Begin to serve after the last `replay`: every member gets a whole session timeout from here."""
        turn = self._turn(now_ms)
        for begin in ON_LOADED:
            begin(self, turn)
        return turn

    def replay_producer(self, producer: TransactionProducer, timestamp_ms: int) -> None:
        """Apply that a transaction's producer has written."""
        transactions.replay_producer(self, producer, timestamp_ms)

    def replay_in_transaction(self, record: CoordinatorRecord, producer: TransactionProducer) -> None:
        """Apply an offset that is stored, and counts once the producer's transaction is committed."""
        transactions.replay_in_transaction(self, record, producer)

    def replay_marker(self, marker: TransactionMarker, timestamp_ms: int) -> None:
        """Apply the end of a transaction that is stored."""
        transactions.replay_marker(self, marker, timestamp_ms)

    def _turn(self, now_ms: int) -> Turn:
        return Turn(now_ms, now_ms + self.timestamps_ahead_ms)


Handler = Callable[[ShardState, GroupRequest, Turn], None]
Hook = Callable[[ShardState, Turn], None]

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
    TXN_OFFSET_COMMIT: txn_offset_commit.handle,
    WRITE_TXN_MARKERS: write_txn_markers.handle,
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
