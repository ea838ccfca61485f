"""Groups of the consumer protocol under random events: what must hold however members, topics and coordinators go.

Members are simulated (see `tests.support.groups.simulated_consumers`). Answers get lost, requests come twice, members
fall silent, leave, stop and come back; topics come, grow and go; coordinators die before or after they have stored a
turn and are followed by one that loads the log, or what compaction has left of it.
"""

from datetime import timedelta
from itertools import count
from typing import Any
from uuid import UUID

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from kio.schema.consumer_group_heartbeat.v1.request import ConsumerGroupHeartbeatRequest, TopicPartitions
from kio.schema.errors import ErrorCode

from ottla_core.cluster.state.model import ClusterState, PartitionState, Topic
from ottla_core.wire.group_responses import CONSUMER_GROUP_HEARTBEAT
from ottla_group_coordinator.consumer.group import ConsumerGroup
from ottla_group_coordinator.group_request import GroupRequest
from ottla_group_coordinator.records import decode_key, decode_value, encode_key, encode_value
from ottla_group_coordinator.runtime.turn import CoordinatorRecord, Turn
from ottla_group_coordinator.settings import GroupSettings
from ottla_group_coordinator.shard import GroupShard
from tests.support.groups.simulated_consumers import Partition, SimulatedConsumer

GROUP = "g"
NAMES = ("alpha", "beta", "gamma")
CONSUMERS_MAX = 5
PARTITIONS_MAX = 7
SESSION_MS = 45_000
ROUNDS_TO_SETTLE = 40

subscriptions = st.one_of(
    st.just((frozenset({"alpha"}), "")),
    st.tuples(st.frozensets(st.sampled_from(NAMES), max_size=2), st.sampled_from(["", "a.*", ".*a"])),
)
late_steps = st.sampled_from([None, None, 0, 1, 2])
"""How many heartbeats a member lets pass before it takes over late; None if it does not do that."""

log_record = tuple[bytes, bytes | None]


class ConsumerGroupEvents(RuleBasedStateMachine):
    """A shard with one group, its log, and the members outside."""

    def __init__(self) -> None:
        super().__init__()
        self.now_ms = 1_000_000_000_000
        self.log: list[log_record] = []
        self.topic_numbers = count(1)
        self.names = count(1)
        self.topics: dict[str, Topic] = {"alpha": self._topic("alpha", 3)}
        self.revision = 1
        self.consumers: list[SimulatedConsumer] = []
        self.shard = self._loaded_shard(self.log)

    # The coordinator

    def _cluster_state(self) -> ClusterState:
        return ClusterState(
            revision=self.revision,
            topics=dict(self.topics),
            topics_by_id={topic.id: topic for topic in self.topics.values()},
        )

    def _topic(self, name: str, partition_count: int, topic_id: UUID | None = None) -> Topic:
        topic_id = topic_id or UUID(int=next(self.topic_numbers))
        return Topic(
            name=name,
            id=topic_id,
            partitions=tuple(
                PartitionState(topic_id=topic_id, index=index, replicas=(1,), isr=(1,), leader=1, leader_epoch=0)
                for index in range(partition_count)
            ),
        )

    def _loaded_shard(self, log: list[log_record]) -> GroupShard:
        shard = GroupShard(
            settings=GroupSettings(consumer_session_timeout_ms=SESSION_MS),
            cluster_state=self._cluster_state(),
            draw_uuid=lambda: UUID(int=0),
        )
        for key_bytes, value_bytes in log:
            key = decode_key(key_bytes)
            assert key is not None
            value = None if value_bytes is None else decode_value(key, value_bytes)
            shard.replay(CoordinatorRecord(key, value))
        shard.loaded(self.now_ms)
        return shard

    def _store(self, turn: Turn) -> None:
        for record in turn.records:
            self.log.append((encode_key(record.key), None if record.value is None else encode_value(record.value)))

    def _compacted(self) -> list[log_record]:
        newest = {key: (number, value) for number, (key, value) in enumerate(self.log)}
        return [(key, value) for key, (_, value) in sorted(newest.items(), key=lambda item: item[1][0]) if value]

    @property
    def group(self) -> ConsumerGroup | None:
        group = self.shard.groups.get(GROUP)
        assert group is None or isinstance(group, ConsumerGroup)
        return group

    # Requests

    def _send(self, values: dict[str, Any]) -> Turn:
        owned: frozenset[Partition] | None = values.pop("topic_partitions")
        by_topic: dict[UUID, list[int]] = {}
        for topic_id, index in sorted(owned or ()):
            by_topic.setdefault(topic_id, []).append(index)
        message = ConsumerGroupHeartbeatRequest(
            group_id=GROUP,
            rebalance_timeout=timedelta(milliseconds=values.pop("rebalance_timeout_ms")),
            topic_partitions=None
            if owned is None
            else tuple(TopicPartitions(topic_id=topic, partitions=tuple(found)) for topic, found in by_topic.items()),
            **values,
        )
        request = GroupRequest(
            token=values["member_id"],
            api_key=CONSUMER_GROUP_HEARTBEAT,
            api_version=1,
            client_id="client",
            client_host="/host",
            message=message,
        )
        turn = self.shard.handle(request, self.now_ms)
        assert [answer.token for answer in turn.answers] == [values["member_id"]]
        return turn

    def _beat(self, consumer: SimulatedConsumer) -> None:
        turn = self._send(consumer.next_request())
        self._store(turn)
        consumer.on_answer(turn.answers[0].response)

    @property
    def speaking(self) -> list[SimulatedConsumer]:
        return [consumer for consumer in self.consumers if not consumer.is_silent]

    def _any(self, data: st.DataObject) -> SimulatedConsumer:
        return self.speaking[data.draw(st.integers(0, len(self.speaking) - 1))]

    # Events

    @initialize(steps_to_revoke=st.integers(0, 1), takes_over=late_steps)
    def begin_with_two_members(self, steps_to_revoke: int, takes_over: int | None) -> None:
        self.join((frozenset({"alpha"}), ""), None, steps_to_revoke, is_static=False, takes_over=takes_over)
        self.join((frozenset({"alpha", "beta"}), "a.*"), None, 1, is_static=True)

    @precondition(lambda self: len(self.consumers) < CONSUMERS_MAX)
    @rule(
        subscription=subscriptions,
        assignor=st.sampled_from([None, None, "range", "uniform"]),
        steps_to_revoke=st.integers(0, 2),
        is_static=st.booleans(),
        takes_over=late_steps,
    )
    def join(
        self,
        subscription: tuple[frozenset[str], str],
        assignor: str | None,
        steps_to_revoke: int,
        is_static: bool,
        takes_over: int | None = None,
    ) -> None:
        name = f"m{next(self.names)}"
        consumer = SimulatedConsumer(
            name=name,
            topics=subscription[0],
            regex=subscription[1],
            instance_id=f"instance-{name}" if is_static else None,
            assignor=assignor,
            steps_to_revoke=steps_to_revoke,
            takes_over_late=takes_over is not None,
            steps_to_take_over=takes_over or 0,
        )
        self.consumers.append(consumer)
        self._beat(consumer)

    @precondition(lambda self: self.speaking)
    @rule(data=st.data())
    def beat(self, data: st.DataObject) -> None:
        self._beat(self._any(data))

    @precondition(lambda self: self.speaking)
    @rule()
    def all_beat(self) -> None:
        for consumer in self.speaking:
            self._beat(consumer)

    @precondition(lambda self: self.speaking)
    @rule(data=st.data())
    def lose_an_answer(self, data: st.DataObject) -> None:
        consumer = self._any(data)
        self._store(self._send(consumer.next_request()))
        consumer.on_no_answer()

    @precondition(lambda self: self.speaking)
    @rule(data=st.data(), restarts_between=st.booleans())
    def take_a_request_twice(self, data: st.DataObject, restarts_between: bool) -> None:
        consumer = self._any(data)
        request = consumer.next_request()
        member = None if self.group is None else self.group.members.get(consumer.name)
        has_missed_more = member is not None and member.epoch != consumer.epoch
        first = self._send(dict(request))
        self._store(first)
        if restarts_between:
            self.shard = self._loaded_shard(self.log)
        is_known = self.group is not None and consumer.name in self.group.reported
        turn = self._send(request)
        self._store(turn)
        answers = [each.answers[0].response for each in (first, turn)]
        if answers[0].error_code is ErrorCode.none and is_known and not has_missed_more:
            assert answers[1].error_code is ErrorCode.none, "who repeats itself loses nothing by it"
        consumer.on_answer(answers[1])

    @precondition(lambda self: self.speaking)
    @rule(data=st.data())
    def die_after_storing(self, data: st.DataObject) -> None:
        consumer = self._any(data)
        self._store(self._send(consumer.next_request()))
        consumer.on_no_answer()
        self.shard = self._loaded_shard(self.log)

    @precondition(lambda self: self.speaking)
    @rule(data=st.data())
    def die_before_storing(self, data: st.DataObject) -> None:
        consumer = self._any(data)
        self._send(consumer.next_request())
        consumer.on_no_answer()
        self.shard = self._loaded_shard(self.log)

    @precondition(lambda self: self.speaking)
    @rule(data=st.data())
    def fall_silent(self, data: st.DataObject) -> None:
        self._any(data).is_silent = True

    @precondition(lambda self: self.speaking)
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        consumer = self._any(data)
        consumer.lose_all()
        self._store(self._send({**consumer.next_request(), "member_epoch": -1}))
        self.consumers.remove(consumer)

    @precondition(lambda self: any(consumer.instance_id for consumer in self.speaking))
    @rule(data=st.data(), comes_back=st.booleans())
    def stop(self, data: st.DataObject, comes_back: bool) -> None:
        consumer = data.draw(st.sampled_from([c.name for c in self.speaking if c.instance_id]))
        stopped = next(c for c in self.consumers if c.name == consumer)
        stopped.lose_all()
        self._store(self._send({**stopped.next_request(), "member_epoch": -2}))
        self.consumers.remove(stopped)
        if comes_back:
            name = f"m{next(self.names)}"
            again = SimulatedConsumer(
                name=name, topics=stopped.topics, regex=stopped.regex, instance_id=stopped.instance_id
            )
            self.consumers.append(again)

    @precondition(lambda self: self.speaking)
    @rule(data=st.data(), subscription=subscriptions)
    def subscribe(self, data: st.DataObject, subscription: tuple[frozenset[str], str]) -> None:
        consumer = self._any(data)
        consumer.topics, consumer.regex = subscription
        consumer.subscription_is_news = True

    @rule(name=st.sampled_from(NAMES), partition_count=st.integers(1, PARTITIONS_MAX))
    def create_or_grow_topic(self, name: str, partition_count: int) -> None:
        present = self.topics.get(name)
        if present is None:
            self.topics[name] = self._topic(name, partition_count)
        else:
            self.topics[name] = self._topic(name, max(partition_count, len(present.partitions)), present.id)
        self._announce_topics()

    @precondition(lambda self: self.topics)
    @rule(data=st.data())
    def delete_topic(self, data: st.DataObject) -> None:
        del self.topics[data.draw(st.sampled_from(sorted(self.topics)))]
        self._announce_topics()

    def _announce_topics(self) -> None:
        self.revision += 1
        self._store(self.shard.on_cluster_state(self._cluster_state(), self.now_ms))

    @rule(duration_ms=st.sampled_from([1, 5_000, 20_000, SESSION_MS]))
    def let_time_pass(self, duration_ms: int) -> None:
        end_ms = self.now_ms + duration_ms
        while (due_ms := self.shard.timers.next_deadline_ms) is not None and due_ms <= end_ms:
            self.now_ms = max(self.now_ms, due_ms)
            self._store(self.shard.advance(self.now_ms))
        self.now_ms = end_ms

    @rule(is_compacted=st.booleans())
    def restart(self, is_compacted: bool) -> None:
        former = state_of(self.group)
        log = self._compacted() if is_compacted else self.log
        self.shard = self._loaded_shard(log)
        assert state_of(self.group) == former, "the log says all there is to know"

    # What must hold

    @invariant()
    def no_partition_is_owned_by_two_members(self) -> None:
        group = self.group
        if group is None:
            return
        owners: dict[Partition, str] = {}
        for member in group.members.values():
            for partition in partitions_of(member.assigned) + partitions_of(member.pending_revocation):
                assert partition not in owners, f"{partition} belongs to {owners[partition]} and {member.member_id}"
                owners[partition] = member.member_id
        for (topic_id, index), owner in owners.items():
            assert group.owner(topic_id, index) == owner
        existing = {topic.id for topic in self.topics.values()}
        for consumer in self.consumers:
            # Who is no member any more has given up by now, as far as it does not sleep; the log will refuse it.
            # Nobody can be given a partition of a topic that is deleted.
            if consumer.name in group.members:
                held = {partition for partition in consumer.owned if partition[0] in existing or partition in owners}
                assert all(owners.get(partition) == consumer.name for partition in held)

    @invariant()
    def epochs_are_in_order(self) -> None:
        group = self.group
        if group is not None:
            assert group.assignment_epoch <= group.epoch
            assert all(member.epoch <= group.assignment_epoch for member in group.members.values())

    def teardown(self) -> None:
        """When all is quiet, every partition is owned, by members that agree on the epoch."""
        for _ in range(ROUNDS_TO_SETTLE):
            self.let_time_pass(5_000)
            for consumer in self.speaking:
                self._beat(consumer)
            self.no_partition_is_owned_by_two_members()
        group = self.group
        if group is None:
            assert not self.speaking
            return
        assert group.members.keys() == {consumer.name for consumer in self.speaking}
        assert group.state_name == ("Stable" if self.speaking else "Empty")
        owned = [partition for consumer in self.speaking for partition in consumer.owned]
        subscribed = group.existing_topics(self._cluster_state().topics)
        expected = [(topic.id, index) for topic in subscribed.values() for index in range(len(topic.partitions))]
        assert sorted(owned) == sorted(expected)
        for consumer in self.speaking:
            assert consumer.epoch == group.epoch == group.assignment_epoch
            names = {topic.name for topic in subscribed.values() if (topic.id, 0) in consumer.owned}
            assert names <= group.subscription(group.members[consumer.name])


def partitions_of(partitions: Any) -> list[Partition]:
    return [(topic_id, index) for topic_id, indexes in partitions.items() for index in indexes]


def state_of(group: ConsumerGroup | None) -> object:
    """Return all that a group knows, but for what it keeps in memory only."""
    if group is None:
        return None
    in_memory = {"checked_topics", "doubted_since_ms", "reported", "loaded_ms", "visible"}
    return {name: value for name, value in vars(group).items() if name not in in_memory}


TestConsumerGroupEvents = ConsumerGroupEvents.TestCase
TestConsumerGroupEvents.settings = settings(max_examples=40, stateful_step_count=40, deadline=None)
