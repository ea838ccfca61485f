"""Groups that change their protocol under random events, with members of both (see the simulated consumers).

A run is drawn from a seed, which a failure shows. Members of both protocols come, go and fall silent; topics grow;
coordinators die and are followed by ones that load the log. Who was silent may speak again, long after it was removed
and whatever protocol the group has turned to meanwhile: it is told to join anew, never that there is no such group,
which clients take for final.
"""

import random
from datetime import timedelta
from typing import Any
from uuid import UUID

from hypothesis import given, settings
from hypothesis import strategies as st
from kio.schema.consumer_group_heartbeat.v1.request import ConsumerGroupHeartbeatRequest, TopicPartitions
from kio.schema.errors import ErrorCode
from kio.schema.leave_group.v5.request import LeaveGroupRequest, MemberIdentity
from kio.static.protocol import Entity

from ottla_core.cluster.state.model import ClusterState, PartitionState, Topic
from ottla_group_coordinator.classic.group import ClassicGroup
from ottla_group_coordinator.consumer.group import ConsumerGroup
from ottla_group_coordinator.group_request import GroupRequest
from ottla_group_coordinator.records import decode_key, decode_value, encode_key, encode_value
from ottla_group_coordinator.runtime.turn import CoordinatorRecord, Turn
from ottla_group_coordinator.settings import GroupSettings
from ottla_group_coordinator.shard import GroupShard
from tests.support.groups.simulated_classic_consumers import SimulatedClassicConsumer
from tests.support.groups.simulated_consumers import Partition, SimulatedConsumer

GROUP = "g"
STEPS = 150
ROUNDS_TO_SETTLE = 60
ALPHA = UUID(int=1)

Consumer = SimulatedConsumer | SimulatedClassicConsumer


class Migration:
    """A shard with one group, its log, and the members outside."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.now_ms = 1_000_000_000_000
        self.log: list[tuple[bytes, bytes | None]] = []
        self.partition_count = 4
        self.consumers: list[Consumer] = []
        self.silent: list[Consumer] = []
        self.waiting: dict[int, SimulatedClassicConsumer] = {}
        self.tokens = self.names = self.uuids = 0
        self.protocols_seen: set[type] = set()
        self.restart()

    @property
    def state(self) -> ClusterState:
        partitions = tuple(
            PartitionState(topic_id=ALPHA, index=index, replicas=(1,), isr=(1,), leader=1, leader_epoch=0)
            for index in range(self.partition_count)
        )
        topic = Topic(name="alpha", id=ALPHA, partitions=partitions)
        return ClusterState(revision=self.partition_count, topics={"alpha": topic}, topics_by_id={ALPHA: topic})

    def restart(self) -> None:
        self.shard = GroupShard(
            settings=GroupSettings(initial_rebalance_delay_ms=1_000),
            cluster_state=self.state,
            draw_uuid=self._draw_uuid,
        )
        for key_bytes, value_bytes in self.log:
            key = decode_key(key_bytes)
            assert key is not None
            value = None if value_bytes is None else decode_value(key, value_bytes)
            self.shard.replay(CoordinatorRecord(key, value))
        self._take(self.shard.loaded(self.now_ms))
        for consumer in self.waiting.values():
            consumer.on_no_answer()
        self.waiting.clear()

    @property
    def members(self) -> set[str]:
        group = self.shard.groups.get(GROUP)
        assert group is None or isinstance(group, ClassicGroup | ConsumerGroup)
        return set() if group is None else set(group.members)

    def _draw_uuid(self) -> UUID:
        self.uuids += 1
        return UUID(int=self.uuids)

    def _take(self, turn: Turn) -> None:
        for record in turn.records:
            self.log.append((encode_key(record.key), None if record.value is None else encode_value(record.value)))
        for answer in turn.answers:
            consumer = self.waiting.pop(answer.token, None)  # type: ignore[call-overload]
            if consumer is not None:
                consumer.on_answer(answer.response, self.state)
        self.protocols_seen.add(type(self.shard.groups.get(GROUP)))
        for consumer in self.consumers + self.silent:
            if isinstance(consumer, SimulatedClassicConsumer) and consumer.member_id not in self.members:
                consumer.was_removed = True

    def _handle(self, api_key: int, api_version: int, message: Entity, waiter: Any = None) -> Turn:
        self.tokens += 1
        if waiter is not None:
            self.waiting[self.tokens] = waiter
        request = GroupRequest(
            token=self.tokens,
            api_key=api_key,
            api_version=api_version,
            client_id="client",
            client_host="/host",
            message=message,
        )
        return self.shard.handle(request, self.now_ms)

    # What members do

    def beat(self, consumer: Consumer) -> None:
        if isinstance(consumer, SimulatedConsumer):
            turn = self._heartbeat(consumer.next_request())
            self._take(turn)
            response: Any = turn.answers[-1].response
            assert response.error_code is not ErrorCode.group_id_not_found, "a group that changes never vanishes"
            consumer.on_answer(response)
        elif not consumer.is_waiting:
            message = consumer.next_request(self.state)
            self._take(self._handle(message.__api_key__, message.__version__, message, consumer))  # type: ignore[attr-defined]

    def _heartbeat(self, values: dict[str, Any]) -> Turn:
        owned = values.pop("topic_partitions")
        indexes = tuple(sorted(index for _, index in owned or ()))
        message = ConsumerGroupHeartbeatRequest(
            group_id=GROUP,
            rebalance_timeout=timedelta(milliseconds=values.pop("rebalance_timeout_ms")),
            topic_partitions=None
            if owned is None
            else tuple([TopicPartitions(topic_id=ALPHA, partitions=indexes)] if indexes else []),  # type: ignore[arg-type]
            **values,
        )
        return self._handle(68, 1, message)

    def leave(self, consumer: Consumer) -> None:
        self.consumers.remove(consumer)
        if isinstance(consumer, SimulatedConsumer):
            consumer.lose_all()
            self._take(self._heartbeat({**consumer.next_request(), "member_epoch": -1}))
        elif consumer.member_id:
            self.forget(consumer)
            members = (MemberIdentity(member_id=consumer.member_id),)
            self._take(self._handle(13, 5, LeaveGroupRequest(group_id=GROUP, members=members)))

    def forget(self, consumer: Consumer) -> None:
        self.waiting = {token: waiter for token, waiter in self.waiting.items() if waiter is not consumer}

    def join(self) -> None:
        self.names += 1
        name, topics = f"m{self.names}", frozenset({"alpha"})
        consumer: Consumer = (
            SimulatedConsumer(name, topics, steps_to_revoke=self.random.randrange(3))
            if self.random.random() < 0.4
            else SimulatedClassicConsumer(name, topics, GROUP)
        )
        self.consumers.append(consumer)
        self.beat(consumer)

    # Events

    def step(self) -> None:
        dice = self.random.random()
        if dice < 0.08 and len(self.consumers) < 5:
            self.join()
        elif dice < 0.12 and self.consumers:
            self.leave(self.random.choice(self.consumers))
        elif dice < 0.14 and self.consumers:
            consumer = self.random.choice(self.consumers)
            self.consumers.remove(consumer)
            self.forget(consumer)
            self.silent.append(consumer)
        elif dice < 0.15 and any(isinstance(consumer, SimulatedConsumer) for consumer in self.silent):
            consumer = next(consumer for consumer in self.silent if isinstance(consumer, SimulatedConsumer))
            self.silent.remove(consumer)
            self.consumers.append(consumer)
            self.beat(consumer)
        elif dice < 0.17:
            self.partition_count = min(self.partition_count + 1, 9)
            self._take(self.shard.on_cluster_state(self.state, self.now_ms))
        elif dice < 0.20:
            self.restart()
        elif dice < 0.31:
            self.let_time_pass(self.random.choice([1, 1_000, 3_000, 3_000, 12_000]))
        elif self.consumers:
            self.beat(self.random.choice(self.consumers))

    def let_time_pass(self, duration_ms: int) -> None:
        end_ms = self.now_ms + duration_ms
        while (due_ms := self.shard.timers.next_deadline_ms) is not None and due_ms <= end_ms:
            self.now_ms = max(self.now_ms, due_ms)
            self._take(self.shard.advance(self.now_ms))
        self.now_ms = end_ms

    # What must hold

    def check(self) -> None:
        """No partition is used by two members that are in the group.

        Who was removed does not know yet, and may use what others have got since.
        """
        group = self.shard.groups.get(GROUP)
        users: dict[Partition, str] = {}
        for consumer in self.consumers + self.silent:
            if isinstance(consumer, SimulatedConsumer):
                member_id, is_member = consumer.name, consumer.name in self.members
            else:
                member_id, is_member = consumer.member_id, not consumer.was_removed
            for partition in consumer.owned if is_member else ():
                assert partition not in users, f"{partition} is used by {users[partition]} and {member_id}"
                users[partition] = member_id
                if isinstance(group, ConsumerGroup):
                    assert group.owner(*partition) == member_id

    def settle(self) -> None:
        for _ in range(ROUNDS_TO_SETTLE):
            self.let_time_pass(3_000)
            for consumer in self.consumers:
                self.beat(consumer)
                self.check()
        group = self.shard.groups.get(GROUP)
        if not self.consumers:
            return
        assert group is not None
        assert group.state_name == "Stable"
        speaks_new = any(isinstance(consumer, SimulatedConsumer) for consumer in self.consumers)
        assert isinstance(group, ConsumerGroup if speaks_new else ClassicGroup)
        used = sorted(partition for consumer in self.consumers for partition in consumer.owned)
        assert used == [(ALPHA, index) for index in range(self.partition_count)]


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_no_partition_is_used_twice_while_a_group_changes_its_protocol(seed: int) -> None:
    migration = Migration(seed)
    for _ in range(STEPS):
        migration.step()
        migration.check()
    migration.settle()


def test_the_simulation_sees_upgrades_and_downgrades() -> None:
    seen = set()
    for seed in range(5):
        migration = Migration(seed)
        for _ in range(STEPS):
            migration.step()
        seen |= migration.protocols_seen
    assert {ClassicGroup, ConsumerGroup} <= seen
