"""Consumers of the classic protocol as small state machines, which rebalance cooperatively.

A consumer goes round JoinGroup, SyncGroup and Heartbeat. It goes on using what it owns while it joins, says so in its
subscription, and joins once more when an assignment has taken something from it. If it leads, it gives nobody what
somebody else says that he owns, and joins again when the topics have changed.

It may have been removed without knowing. If a Heartbeat tells it so, it gives up everything and joins anew. If it has
begun to join already, it joins anew and goes on using what it has until SyncGroup tells it what it is assigned, as
Java's consumer does. What it says that it owns then counts for less than what others say.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from uuid import UUID

from kio.schema.consumer_protocol_subscription.v3.data import ConsumerProtocolSubscription
from kio.schema.errors import ErrorCode
from kio.schema.heartbeat.v4.request import HeartbeatRequest
from kio.schema.join_group.v9.request import JoinGroupRequest, JoinGroupRequestProtocol
from kio.schema.sync_group.v5.request import SyncGroupRequest, SyncGroupRequestAssignment
from kio.serial import entity_reader
from kio.static.primitive import i32Timedelta
from kio.static.protocol import Entity

from ottla_core.cluster.state.model import ClusterState, Topic
from ottla_group_coordinator.consumer.embedded_protocol import read_assignment, read_subscription, write_assignment
from ottla_group_coordinator.consumer.partitions import Partitions
from tests.support.groups.consumer_group_commands import encoded_subscription
from tests.support.groups.simulated_consumers import Partition

SESSION = i32Timedelta.parse(timedelta(seconds=20))
REBALANCE = i32Timedelta.parse(timedelta(seconds=60))
PROTOCOL = "cooperative-sticky"
VERSION = b"\0\1"


@dataclass
class SimulatedClassicConsumer:
    """One process.

    Attributes:
        next_api: what it sends next: ``join``, ``sync`` or ``heartbeat``.
        is_waiting: whether a request of its is not answered yet.
        owned: what it uses.
        was_removed: whether it is none of the members, or was not for a while since it was told to use that, so that
            others may be told to use the same. It does not know; whoever holds the group sets this.
    """

    name: str
    topics: frozenset[str]
    group_id: str
    member_id: str = ""
    generation: int = -1
    next_api: str = "join"
    is_waiting: bool = False
    owned: set[Partition] = field(default_factory=set)
    was_removed: bool = False
    _others: tuple[tuple[str, bytes], ...] = ()
    _assigned_topics: Mapping[str, Topic] | None = None

    def next_request(self, state: ClusterState) -> Entity:
        """Return what it sends next."""
        self.is_waiting = True
        if self.next_api == "heartbeat" and self._assigned_topics not in (None, state.topics):
            self.next_api = "join"
        identity: dict[str, Any] = {"group_id": self.group_id, "member_id": self.member_id}
        joined: dict[str, Any] = {**identity, "generation_id": self.generation}
        if self.next_api == "heartbeat":
            return HeartbeatRequest(**joined)
        if self.next_api == "sync":
            return SyncGroupRequest(assignments=self._assign(state), **joined)
        metadata = encoded_subscription(
            state, tuple(sorted(self.topics)), _by_topic(self.owned), generation=self.generation
        )
        return JoinGroupRequest(
            session_timeout=SESSION,
            rebalance_timeout=REBALANCE,
            protocol_type="consumer",
            protocols=(JoinGroupRequestProtocol(name=PROTOCOL, metadata=metadata),),
            **identity,
        )

    def _assign(self, state: ClusterState) -> tuple[SyncGroupRequestAssignment, ...]:
        """Divide all partitions among the members; what somebody else owns is given to nobody for now."""
        self._assigned_topics = state.topics if self._others else None
        said = {name: read_subscription(data, state.topics) for name, data in self._others}
        owners = self._owners(state)
        given: dict[str, set[Partition]] = {name: set() for name in said}
        for topic in state.topics.values():
            takers = sorted(name for name, subscription in said.items() if topic.name in subscription.topics)
            for index in range(len(topic.partitions)):
                if takers:
                    taker = takers[index % len(takers)]
                    if owners.get((topic.id, index), {taker}) == {taker}:
                        given[taker].add((topic.id, index))
        return tuple(
            SyncGroupRequestAssignment(
                member_id=name, assignment=write_assignment(_by_topic(partitions), VERSION, state)
            )
            for name, partitions in given.items()
        )

    def _owners(self, state: ClusterState) -> dict[Partition, set[str]]:
        """Return who says that he owns a partition; of several, those whose generation is the newest."""
        found: dict[Partition, tuple[int, set[str]]] = {}
        for name, data in self._others:
            generation = _generation(data)
            for topic_id, indexes in read_subscription(data, state.topics).owned.items():
                for index in indexes:
                    newest, names = found.get((topic_id, index), (generation, set()))
                    if generation >= newest:
                        kept = names if generation == newest else set()
                        found[topic_id, index] = (generation, {*kept, name})
        return {partition: names for partition, (_, names) in found.items()}

    def on_answer(self, response: Any, state: ClusterState) -> None:
        """Take an answer."""
        self.is_waiting = False
        error = response.error_code
        kind = type(response).__name__
        if error is ErrorCode.member_id_required:
            self.member_id = response.member_id
        elif error in {ErrorCode.unknown_member_id, ErrorCode.illegal_generation}:
            self._join_anew(keeps_id=error is ErrorCode.illegal_generation)
        elif error in {ErrorCode.rebalance_in_progress, ErrorCode.coordinator_load_in_progress}:
            if kind == "SyncGroupResponse":
                self.generation = -1
            self.next_api = "join"
        else:
            assert error is ErrorCode.none, response
            if kind == "JoinGroupResponse":
                self.member_id, self.generation = response.member_id, response.generation_id
                self._others = tuple((member.member_id, member.metadata) for member in response.members)
                self.next_api = "sync"
            elif kind == "SyncGroupResponse":
                self._take_over(read_assignment(response.assignment, state.topics).partitions)

    def _take_over(self, told: Partitions) -> None:
        assigned = {(topic_id, index) for topic_id, indexes in told.items() for index in indexes}
        self.next_api = "join" if self.owned - assigned else "heartbeat"
        self.owned, self.was_removed = assigned, False

    def _join_anew(self, *, keeps_id: bool) -> None:
        """Join as one who has missed something; who was joining already gives nothing up for that."""
        if self.next_api == "heartbeat":
            self.owned = set()
        if not keeps_id:
            self.member_id = ""
        self.generation, self.next_api = -1, "join"

    def on_no_answer(self) -> None:
        """Ask again, as a client does that has lost its connection."""
        self.is_waiting = False
        if self.next_api == "sync":
            self.generation, self.next_api = -1, "join"


def _generation(metadata: bytes) -> int:
    """Return the generation in which a consumer was told to own what it says that it owns."""
    return int(entity_reader(ConsumerProtocolSubscription)(memoryview(metadata), len(VERSION))[0].generation_id)


def _by_topic(partitions: set[Partition]) -> Mapping[UUID, frozenset[int]]:
    found: dict[UUID, set[int]] = {}
    for topic_id, index in partitions:
        found.setdefault(topic_id, set()).add(index)
    return {topic_id: frozenset(indexes) for topic_id, indexes in found.items()}
