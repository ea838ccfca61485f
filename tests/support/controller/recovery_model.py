"""One partition's life under a small model of replication, until etcd is lost; for the rules of recovery.

etcd is a list of states, one per revision. Each broker has seen them up to some revision, acts by that one alone, and
its copy of the state is what it has seen. A leader commits what everybody in the in-sync set has, by the larger of
the set that it has seen and the one that it has proposed. The controller sees the newest state at once.
"""

import json
import random
from dataclasses import dataclass, field, replace
from uuid import UUID

from ottla_core.cluster.state import codec
from ottla_core.cluster.state.codec import TopicRecord
from ottla_core.cluster.state.model import NO_LEADER, BrokerRegistration, PartitionState
from ottla_core.cluster.state.recovery_facts import BrokerFacts, DirectoryFacts, LogFacts
from ottla_core.cluster.state.state_copy import StateCopy, StoredValue

CLUSTER_ID = "cluster"
TOPIC, TOPIC_ID = "flights", UUID(int=7)
REPLICAS = (1, 2, 3)
FIRST_REVISION = 10

Record = tuple[int, int]
"""The leader epoch in which it was written, and a number of its own."""


@dataclass(slots=True)
class ModelBroker:
    """One replica.

    Attributes:
        seen: how many states it has seen.
        log: its records.
        high_watermark: as far as it knows.
        checkpoint: the high watermark on its disk.
        proposed: the in-sync set that it has proposed as the leader, until it sees the next state.
        is_up: whether it runs.
    """

    id: int
    seen: int = 1
    log: list[Record] = field(default_factory=list)
    high_watermark: int = 0
    checkpoint: int = 0
    proposed: frozenset[int] = frozenset()
    is_up: bool = True


class PartitionHistory:
    """The model.

    Attributes:
        states: by revision, the first is that of the topic's creation.
        committed: the longest log that was acknowledged.
    """

    def __init__(self, chance: random.Random, min_insync_replicas: int) -> None:
        self._chance = chance
        self._min_insync_replicas = min_insync_replicas
        self.brokers = {each: ModelBroker(each) for each in REPLICAS}
        first = PartitionState(topic_id=TOPIC_ID, index=0, replicas=REPLICAS, isr=REPLICAS, leader=1, leader_epoch=0)
        self.states = [first]
        self.committed: list[Record] = []
        self._written = 0

    def run(self, steps: int) -> None:
        """Let things happen that are drawn."""
        actions = (
            *[self._append] * 3, *[self._replicate] * 6, *[self._see] * 4, *[self._acknowledge] * 4,
            self._shrink, self._expand, self._crash, self._come_back, self._checkpoint,
        )  # fmt: skip
        for _ in range(steps):
            self._chance.choice(actions)(self._chance.choice(list(self.brokers.values())))

    def _view(self, broker: ModelBroker) -> PartitionState:
        return self.states[broker.seen - 1]

    def _leads(self, broker: ModelBroker) -> bool:
        return broker.is_up and self._view(broker).leader == broker.id

    def _append(self, broker: ModelBroker) -> None:
        if self._leads(broker):
            self._written += 1
            broker.log.append((self._view(broker).leader_epoch, self._written))

    def _replicate(self, broker: ModelBroker) -> None:
        """A follower fetches from the leader that it knows, which has to know of the same epoch."""
        view = self._view(broker)
        leader = self.brokers.get(view.leader)
        if not broker.is_up or leader is None or leader is broker or not self._leads(leader):
            return
        if self._view(leader).leader_epoch != view.leader_epoch:
            return
        same = 0
        while same < min(len(leader.log), len(broker.log)) and leader.log[same] == broker.log[same]:
            same += 1
        count = self._chance.randint(1, 4)
        broker.log[same:] = leader.log[same : same + count] if same == len(broker.log) else []
        broker.high_watermark = min(leader.high_watermark, len(broker.log))

    def _in_sync(self, leader: ModelBroker) -> frozenset[int]:
        return frozenset(self._view(leader).isr) | leader.proposed

    def _acknowledge(self, broker: ModelBroker) -> None:
        if not self._leads(broker) or len(self._view(broker).isr) < self._min_insync_replicas:
            return
        epoch = self._view(broker).leader_epoch
        ends = [len(broker.log)]
        for each in self._in_sync(broker) - {broker.id}:
            follower = self.brokers[each]
            if self._view(follower).leader_epoch != epoch or not follower.is_up:
                return  # it has not fetched in this epoch since
            same = 0
            while same < min(len(broker.log), len(follower.log)) and broker.log[same] == follower.log[same]:
                same += 1
            ends.append(same)
        broker.high_watermark = max(broker.high_watermark, min(ends))
        if broker.high_watermark > len(self.committed):
            self.committed = broker.log[: broker.high_watermark]

    def _see(self, broker: ModelBroker) -> None:
        if broker.is_up and broker.seen < len(self.states):
            broker.seen += 1
            broker.proposed = frozenset()

    def _shrink(self, broker: ModelBroker) -> None:
        state = self.states[-1]
        if self._leads(broker) and self._view(broker) is state and len(state.isr) > 1:
            gone = self._chance.choice([each for each in state.isr if each != broker.id])
            broker.proposed = frozenset(state.isr)
            self._write(replace(state, isr=tuple(each for each in state.isr if each != gone)))

    def _expand(self, broker: ModelBroker) -> None:
        state = self.states[-1]
        outside = [each for each in REPLICAS if each not in state.isr]
        if not self._leads(broker) or self._view(broker) is not state or not outside:
            return
        joining = self.brokers[self._chance.choice(outside)]
        has_all = joining.log[: broker.high_watermark] == broker.log[: broker.high_watermark]
        if joining.is_up and has_all and self._view(joining).leader_epoch == state.leader_epoch:
            broker.proposed = frozenset((*state.isr, joining.id))
            self._write(replace(state, isr=tuple(each for each in REPLICAS if each in {*state.isr, joining.id})))

    def _crash(self, broker: ModelBroker) -> None:
        """A process ends; the controller elects somebody else if that is possible."""
        if not broker.is_up:
            return
        broker.is_up = False
        broker.proposed = frozenset()
        state = self.states[-1]
        others = tuple(each for each in state.isr if each != broker.id and self.brokers[each].is_up)
        if broker.id not in state.isr or not others:
            return
        is_leader = state.leader == broker.id
        leader = self._chance.choice(others) if is_leader else state.leader
        epoch = state.leader_epoch + is_leader
        if state.leader == NO_LEADER:
            return
        self._write(
            replace(
                state,
                isr=tuple(each for each in state.isr if each != broker.id),
                leader=leader,
                leader_epoch=epoch,
            )
        )

    def _come_back(self, broker: ModelBroker) -> None:
        """A process starts: it lists the newest state, and leads only what it is elected for anew."""
        if broker.is_up:
            return
        state = self.states[-1]
        if state.leader == broker.id:
            self._write(replace(state, leader_epoch=state.leader_epoch + 1))
        broker.seen = len(self.states)
        broker.is_up = True

    def _checkpoint(self, broker: ModelBroker) -> None:
        broker.checkpoint = min(broker.high_watermark, len(broker.log))

    def _write(self, state: PartitionState) -> None:
        self.states.append(state)

    def facts(self, broker: int, *, has_copy: bool = True, lost_states: int = 0) -> BrokerFacts:
        """What is found on the disk of a broker.

        Args:
            broker: which one.
            has_copy: whether there is a copy of the state.
            lost_states: how many of the last states are missing in it, because of damage.
        """
        found = self.brokers[broker]
        seen = max(1, found.seen - lost_states)
        log = LogFacts(
            topic=TOPIC,
            index=0,
            topic_id=TOPIC_ID,
            last_epoch=found.log[-1][0] if found.log else -1,
            end_offset=len(found.log),
            high_watermark=found.checkpoint,
        )
        problem = None if has_copy and not lost_states else "it is gone, or damaged"
        directory = DirectoryFacts(
            path=f"/{broker}", directory_id=UUID(int=100 + broker), copy_problem=problem, logs=(log,)
        )
        return BrokerFacts(
            broker_id=broker,
            cluster_id=CLUSTER_ID,
            directories=(directory,),
            copy=self.copy(seen) if has_copy else None,
            copy_is_sure=problem is None,
        )

    def copy(self, seen: int) -> StateCopy:
        """The copy of a broker that has seen so many states."""
        entries = {
            "id": StoredValue(1, codec.encode_cluster_id(CLUSTER_ID)),
            f"topics/{TOPIC}": StoredValue(
                FIRST_REVISION, codec.encode_topic(TopicRecord(id=TOPIC_ID, partition_count=1))
            ),
            f"partitions/{TOPIC_ID}/0": StoredValue(
                FIRST_REVISION + seen, codec.encode_partition(self.states[seen - 1])
            ),
        }
        for broker in REPLICAS:
            registration = BrokerRegistration(
                broker_id=broker, broker_epoch=3, directory_ids=(UUID(int=100 + broker),)
            )
            entries[f"registrations/{broker}"] = StoredValue(4, codec.encode_registration(registration))
        return StateCopy(cluster_name="ottla", cluster_id=CLUSTER_ID, revision=FIRST_REVISION + seen, entries=entries)


def written_partition(entries: dict[str, bytes]) -> dict[str, object]:
    """The partition as a plan writes it."""
    fields: dict[str, object] = json.loads(entries[f"partitions/{TOPIC_ID}/0"])
    return fields
