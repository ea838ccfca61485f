"""A `GroupShard` as the shell around it treats it: what is written is kept as bytes, answers must be encodable.

Every turn is checked: each of its records fits into a batch, offsets all into one; each answer is for a request that
waits; every record can be read again. `restart` goes on with another shard that has replayed the bytes.

Records and ends of transactions are kept as what they are; `transactional_offsets` has what asks for them.
"""

import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from itertools import count
from typing import Any, NamedTuple
from uuid import UUID

from kio.index import load_request_schema
from kio.schema.errors import ErrorCode
from kio.static.protocol import Entity

from ottla_core.cluster.state.model import ClusterState, PartitionState, Topic
from ottla_core.wire import group_responses as api
from ottla_core.wire.control_records import TransactionMarker
from ottla_core.wire.conversion import item_type, message_of
from ottla_core.wire.messages import message_codec
from ottla_core.wire.records import Record, encode_batch
from ottla_group_coordinator.group_request import GroupRequest
from ottla_group_coordinator.records import (
    OffsetCommitKey,
    OffsetCommitValue,
    RecordKey,
    RecordValue,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
)
from ottla_group_coordinator.runtime.turn import CoordinatorRecord, TransactionProducer, Turn, VerificationGuard
from ottla_group_coordinator.settings import GroupSettings
from ottla_group_coordinator.shard import GroupShard

START_MS = 1_700_000_000_000
PARTITION = 7
"""The partition of `__consumer_offsets` that the shard is."""
FIRST_COMMIT_WITH_TOPIC_IDS = 10
FIRST_FETCH_WITH_GROUPS = 8


def topic_id(number: int) -> UUID:
    """The id of the topic that was made as this number."""
    return UUID(int=0xABC0000 + number)


def cluster_of(topics: Mapping[str, tuple[int, int]], *, deleted: Mapping[UUID, int] | None = None) -> ClusterState:
    """The state of a cluster with these topics: name → number (which gives its id) and partition count."""
    made = {
        name: Topic(
            name=name,
            id=topic_id(number),
            partitions=tuple(
                PartitionState(
                    topic_id=topic_id(number), index=index, replicas=(1,), isr=(1,), leader=1, leader_epoch=0
                )
                for index in range(partition_count)
            ),
        )
        for name, (number, partition_count) in topics.items()
    }
    return ClusterState(
        topics=made, topics_by_id={topic.id: topic for topic in made.values()}, deleted_topics=deleted or {}
    )


class InTransaction(NamedTuple):
    """A record that was stored in a transaction."""

    key: bytes
    value: bytes
    producer: TransactionProducer
    timestamp_ms: int


class Marked(NamedTuple):
    """The end of a transaction that was stored."""

    marker: TransactionMarker
    timestamp_ms: int


Stored = tuple[bytes, bytes | None] | InTransaction | Marked


@dataclass
class ShardUnderTest:
    """A shard with its log and its clients.

    Attributes:
        log: what was stored; keys and values where they count at once.
        waiting: API and version of the requests that are not answered, by token.
        answers: what came for each token.
        turn_records: what the last turn wrote.
    """

    settings: GroupSettings = field(default_factory=GroupSettings)
    state: ClusterState = field(default_factory=ClusterState)
    now_ms: int = START_MS
    log: list[Stored] = field(default_factory=list)
    waiting: dict[int, tuple[int, int]] = field(default_factory=dict)
    answers: dict[int, Any] = field(default_factory=dict)
    turn_records: list[CoordinatorRecord] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._uuids = count(1)
        self._tokens = count(1)
        self.restart()

    def restart(self) -> None:
        """Go on with another coordinator, which knows what was stored and nothing else; nobody's request waits."""
        self.waiting.clear()
        self.shard = self.replayed()
        self._take(self.shard.loaded(self.now_ms))

    def replayed(self) -> GroupShard:
        """Another shard with the same log, not yet told that it is loaded."""
        shard = GroupShard(
            settings=self.settings, cluster_state=self.state, draw_uuid=lambda: UUID(int=next(self._uuids))
        )
        for stored in self.log:
            replay(shard, stored)
        return shard

    def send(
        self,
        api_key: int,
        api_version: int,
        message: Entity,
        *,
        client_id: str = "app",
        only_forward: bool = False,
        sets_all_back: bool = False,
        verification_guard: int | None = None,
    ) -> int:
        """Send a request and return its token."""
        token = next(self._tokens)
        self.waiting[token] = (api_key, api_version)
        request = GroupRequest(
            token=token,
            api_key=api_key,
            api_version=api_version,
            client_id=client_id,
            client_host="/127.0.0.1",
            message=message,
            only_forward=only_forward,
            sets_all_back=sets_all_back,
            verification_guard=verification_guard,
            partition=PARTITION,
        )
        self._take(self.shard.handle(request, self.now_ms))
        return token

    def ask(
        self,
        api_key: int,
        api_version: int,
        message: Entity,
        *,
        only_forward: bool = False,
        sets_all_back: bool = False,
        verification_guard: int | None = None,
    ) -> Any:
        """Send a request that is answered at once, and return the response, or the guard in its place."""
        token = self.send(
            api_key,
            api_version,
            message,
            only_forward=only_forward,
            sets_all_back=sets_all_back,
            verification_guard=verification_guard,
        )
        return self.answers[token]

    def ask_with(self, api_key: int, api_version: int, **values: object) -> Any:
        """Like `ask`, with the fields of the request."""
        return self.ask(api_key, api_version, message_of(load_request_schema(api_key, api_version), **values))

    def advance(self, duration_ms: int) -> None:
        """Let time pass, timer by timer."""
        end_ms = self.now_ms + duration_ms
        while (due_ms := self.shard.timers.next_deadline_ms) is not None and due_ms <= end_ms:
            self.now_ms = max(self.now_ms, due_ms)
            self._take(self.shard.advance(self.now_ms))
        self.now_ms = end_ms

    def change(self, state: ClusterState) -> None:
        """Let topics come, go or grow."""
        self.state = state
        self._take(self.shard.on_cluster_state(state, self.now_ms))

    def offsets(self, group_id: str) -> dict[tuple[str, int], OffsetCommitValue]:
        """A group's offsets, copied."""
        return dict(self.shard.offsets.of_group(group_id))

    def _take(self, turn: Turn) -> None:
        self.turn_records = turn.records
        stored = [
            (encode_key(record.key), None if record.value is None else encode_value(record.value))
            for record in turn.records
        ]
        assert all(self._fits([record]) for record in stored), "every record fits into a batch"
        if any(isinstance(record.key, OffsetCommitKey) for record in turn.records):
            assert self._fits(stored), "offsets are stored together"
        for record, (key_bytes, value_bytes) in zip(turn.records, stored, strict=True):
            assert read_record(key_bytes, value_bytes) == tuple(record)
        assert not (turn.records and turn.markers), "a turn writes records, or ends transactions"
        if turn.transaction is None:
            self.log += stored
        for key_bytes, value_bytes in stored if turn.transaction is not None else ():
            assert value_bytes is not None, "nothing is deleted in a transaction"
            assert turn.transaction is not None
            self.log.append(InTransaction(key_bytes, value_bytes, turn.transaction, turn.timestamp_ms))
        self.log += [Marked(marker, turn.timestamp_ms) for marker in turn.markers]
        for token, response in turn.answers:
            assert isinstance(token, int)
            codec = message_codec(*self.waiting.pop(token))
            if not isinstance(response, VerificationGuard):
                codec.encode_response(1, response)
            self.answers[token] = response

    def _fits(self, stored: list[tuple[bytes, bytes | None]]) -> bool:
        batch = encode_batch([Record(index, self.now_ms, *record) for index, record in enumerate(stored)])
        return len(batch) <= self.settings.batch_bytes_max


def replay(shard: GroupShard, stored: Stored) -> None:
    """Apply what was stored, as a load does."""
    if isinstance(stored, Marked):
        shard.replay_marker(*stored)
    elif isinstance(stored, InTransaction):
        shard.replay_producer(stored.producer, stored.timestamp_ms)
        record = CoordinatorRecord(*read_record(stored.key, stored.value))
        shard.replay_in_transaction(record, stored.producer)
    else:
        shard.replay(CoordinatorRecord(*read_record(*stored)))


def read_record(key_bytes: bytes, value_bytes: bytes | None) -> tuple[RecordKey, RecordValue | None]:
    """Read what we wrote."""
    key = decode_key(key_bytes)
    assert key is not None
    return key, None if value_bytes is None else decode_value(key, value_bytes)


def commit_request(
    version: int,
    group_id: str,
    offsets: Mapping[tuple[str | UUID | None, int], int],
    *,
    metadata: str | None = "",
    leader_epoch: int = -1,
    **values: object,
) -> Entity:
    """An OffsetCommit; topics are named, or given by id since version 10."""
    request_type = load_request_schema(api.OFFSET_COMMIT, version)
    topic_type = item_type(request_type, "topics")
    partition_type = item_type(topic_type, "partitions")
    name_field = "topic_id" if version >= FIRST_COMMIT_WITH_TOPIC_IDS else "name"
    topics = [
        message_of(
            topic_type,
            **{name_field: topic},
            partitions=tuple(
                message_of(
                    partition_type,
                    partition_index=index,
                    committed_offset=offset,
                    committed_leader_epoch=leader_epoch,
                    committed_metadata=metadata,
                )
                for (of_topic, index), offset in offsets.items()
                if of_topic == topic
            ),
        )
        for topic in dict.fromkeys(topic for topic, _ in offsets)
    ]
    outside = {"generation_id_or_member_epoch": -1, "member_id": ""}
    return message_of(request_type, group_id=group_id, topics=tuple(topics), **{**outside, **values})


def commit_codes(response: Any) -> dict[tuple[Any, int], str]:
    """The error of each partition, by name."""
    return {
        (topic.name if hasattr(topic, "name") else topic.topic_id, partition.partition_index): (
            partition.error_code.name
        )
        for topic in response.topics
        for partition in topic.partitions
    }


def fetch_request(
    version: int,
    groups: Mapping[str, Iterable[tuple[str | UUID | None, Iterable[int]]] | None],
    *,
    require_stable: bool = False,
    **of_group: object,
) -> Entity:
    """An OffsetFetch of these groups' topics, None for all topics."""
    request_type = load_request_schema(api.OFFSET_FETCH, version)
    group_type = item_type(request_type, "groups") if version >= FIRST_FETCH_WITH_GROUPS else request_type
    topic_type = item_type(group_type, "topics")
    name_field = "topic_id" if version >= FIRST_COMMIT_WITH_TOPIC_IDS else "name"
    made = tuple(
        message_of(
            group_type,
            group_id=group_id,
            require_stable=require_stable,
            topics=None
            if topics is None
            else tuple(
                message_of(topic_type, **{name_field: topic}, partition_indexes=tuple(indexes))
                for topic, indexes in topics
            ),
            **of_group,
        )
        for group_id, topics in groups.items()
    )
    return (
        made[0]
        if group_type is request_type
        else message_of(request_type, groups=made, require_stable=require_stable)
    )


def fetched(topics: Iterable[Any]) -> dict[tuple[Any, int], tuple[int, str]]:
    """The offset and the error of each partition."""
    return {
        (topic.name if hasattr(topic, "name") else topic.topic_id, partition.partition_index): (
            partition.committed_offset,
            partition.error_code.name,
        )
        for topic in topics
        for partition in topic.partitions
    }


def with_deleted(state: ClusterState, name: str, revision: int) -> ClusterState:
    """The state after a topic was deleted."""
    gone = state.topics[name]
    return replace(
        state,
        topics={other: topic for other, topic in state.topics.items() if other != name},
        topics_by_id={id_: topic for id_, topic in state.topics_by_id.items() if id_ != gone.id},
        deleted_topics={**state.deleted_topics, gone.id: revision},
    )


def subscription(topics: Iterable[str]) -> bytes:
    """What a consumer says about itself when it joins (version 0 of Kafka's ConsumerProtocolSubscription)."""
    names = [topic.encode() for topic in topics]
    packed = b"".join(struct.pack(">h", len(name)) + name for name in names)
    return struct.pack(">hi", 0, len(names)) + packed + struct.pack(">i", -1)


def join_classic(
    under_test: ShardUnderTest, group_id: str, topics: Iterable[str], *, protocol_type: str = "consumer"
) -> tuple[str, int]:
    """Let a member join an empty group and get its assignment; the first rebalance must not be delayed.

    Returns its member id and the generation.
    """
    version = 3  # the last in which a member need not come twice
    request_type = load_request_schema(api.JOIN_GROUP, version)
    protocol = message_of(item_type(request_type, "protocols"), name="range", metadata=subscription(topics))
    joining = under_test.send(
        api.JOIN_GROUP,
        version,
        message_of(
            request_type,
            group_id=group_id,
            session_timeout=timedelta(days=1),
            rebalance_timeout=timedelta(minutes=1),
            protocol_type=protocol_type,
            protocols=(protocol,),
        ),
    )
    under_test.advance(0)
    joined = under_test.answers[joining]
    assert joined.error_code is ErrorCode.none
    synced = under_test.ask_with(
        api.SYNC_GROUP, 3, group_id=group_id, generation_id=joined.generation_id, member_id=joined.member_id
    )
    assert synced.error_code is ErrorCode.none
    return joined.member_id, joined.generation_id


def leave_classic(under_test: ShardUnderTest, group_id: str, member_id: str) -> None:
    """Let a member leave."""
    left = under_test.ask_with(api.LEAVE_GROUP, 2, group_id=group_id, member_id=member_id)
    assert left.error_code is ErrorCode.none
    under_test.advance(0)
