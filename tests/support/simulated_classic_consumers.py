"""Consumers of the classic protocol as small state machines, which rebalance cooperatively.

A consumer goes round JoinGroup, SyncGroup and Heartbeat. It goes on using what it owns while it joins, says so in its
subscription, and joins once more when an assignment has taken something from it. If it leads, it gives nobody what
somebody else says that he owns.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from uuid import UUID

from kio.schema.errors import ErrorCode
from kio.schema.heartbeat.v4.request import HeartbeatRequest
from kio.schema.join_group.v9.request import JoinGroupRequest, JoinGroupRequestProtocol
from kio.schema.sync_group.v5.request import SyncGroupRequest, SyncGroupRequestAssignment
from kio.static.protocol import Entity

from ottla_core.cluster.model import ClusterState
from ottla_group_coordinator.consumer.embedded_protocol import read_assignment, read_subscription, write_assignment
from ottla_group_coordinator.consumer.partitions import Partitions
from tests.support.consumer_group_commands import encoded_subscription
from tests.support.simulated_consumers import Partition

SESSION = timedelta(seconds=20)
REBALANCE = timedelta(seconds=60)
PROTOCOL = "cooperative-sticky"
VERSION = b"\0\1"


@dataclass
class SimulatedClassicConsumer:
    """One process.

    Attributes:
        next_api: what it sends next: ``join``, ``sync`` or ``heartbeat``.
        is_waiting: whether a request of its is not answered yet.
        owned: what it uses.
    """

    name: str
    topics: frozenset[str]
    group_id: str
    member_id: str = ""
    generation: int = -1
    next_api: str = "join"
    is_waiting: bool = False
    owned: set[Partition] = field(default_factory=set)
    _others: tuple[tuple[str, bytes], ...] = ()

    def next_request(self, state: ClusterState) -> Entity:
        """Return what it sends next."""
        self.is_waiting = True
        identity: dict[str, Any] = {"group_id": self.group_id, "member_id": self.member_id}
        if self.next_api == "heartbeat":
            return HeartbeatRequest(generation_id=self.generation, **identity)
        if self.next_api == "sync":
            return SyncGroupRequest(generation_id=self.generation, assignments=self._assign(state), **identity)
        metadata = encoded_subscription(state, tuple(sorted(self.topics)), _by_topic(self.owned))
        return JoinGroupRequest(
            session_timeout=SESSION,
            rebalance_timeout=REBALANCE,
            protocol_type="consumer",
            protocols=(JoinGroupRequestProtocol(name=PROTOCOL, metadata=metadata),),
            **identity,
        )

    def _assign(self, state: ClusterState) -> tuple[SyncGroupRequestAssignment, ...]:
        """Divide all partitions among the members; what somebody else owns is given to nobody for now."""
        said = {name: read_subscription(data, state.topics) for name, data in self._others}
        owners = {
            (topic_id, index): name
            for name, subscription in said.items()
            for topic_id, indexes in subscription.owned.items()
            for index in indexes
        }
        given: dict[str, set[Partition]] = {name: set() for name in said}
        for topic in state.topics.values():
            takers = sorted(name for name, subscription in said.items() if topic.name in subscription.topics)
            for index in range(len(topic.partitions)):
                if takers:
                    taker = takers[index % len(takers)]
                    if owners.get((topic.id, index), taker) == taker:
                        given[taker].add((topic.id, index))
        return tuple(
            SyncGroupRequestAssignment(
                member_id=name, assignment=write_assignment(_by_topic(partitions), VERSION, state)
            )
            for name, partitions in given.items()
        )

    def on_answer(self, response: Any, state: ClusterState) -> None:
        """Take an answer."""
        self.is_waiting = False
        error = response.error_code
        kind = type(response).__name__
        if error is ErrorCode.unknown_member_id:
            self.member_id = ""
            self.lose_all()
        elif error is ErrorCode.illegal_generation:
            self.lose_all()
        elif error is ErrorCode.member_id_required:
            self.member_id = response.member_id
        elif error is ErrorCode.rebalance_in_progress:
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
        self.owned = assigned

    def lose_all(self) -> None:
        """Give everything up and join anew."""
        self.generation, self.next_api, self.owned = -1, "join", set()

    def on_no_answer(self) -> None:
        """Ask again, as a client does that has lost its connection."""
        self.is_waiting = False
        if self.next_api == "sync":
            self.next_api = "join"


def _by_topic(partitions: set[Partition]) -> Mapping[UUID, frozenset[int]]:
    found: dict[UUID, set[int]] = {}
    for topic_id, index in partitions:
        found.setdefault(topic_id, set()).add(index)
    return {topic_id: frozenset(indexes) for topic_id, indexes in found.items()}
