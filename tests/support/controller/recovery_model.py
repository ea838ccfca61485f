"""One partition's life under a small model of replication, until etcd is lost; for the rules of recovery.

etcd is a list of states, one per revision, of the partition and of the brokers' registrations. Each broker has seen
them up to some revision, acts by that one alone, and its copy of the state is what it has seen. A leader commits what
everybody in the in-sync set has, by the larger of the set that it has seen and the one that it has proposed. The
controller sees the newest state at once.

Brokers begin their logs when they first have something to do with them. Images of a broker's disk are taken now and
then, to which it may be put back; a disk may also be lost, which the controller hears of when the broker registers.
"""

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile
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


@dataclass(frozen=True, slots=True)
class Image:
    """What a broker's disk had at a moment, and the broker's epoch at it."""

    epoch: int
    directory: int
    seen: int
    log: tuple[Record, ...]
    checkpoint: int
    has_begun: bool


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
        has_begun: whether there is a log.
        directory: the number of its disk; another one for each that was lost.
        epoch: the broker epoch of its registration.
        images: of its disk.
    """

    id: int
    seen: int = 1
    log: list[Record] = field(default_factory=list)
    high_watermark: int = 0
    checkpoint: int = 0
    proposed: frozenset[int] = frozenset()
    is_up: bool = True
    has_begun: bool = False
    directory: int = 0
    epoch: int = 3
    images: list[Image] = field(default_factory=list)

    def image(self) -> Image:
        """What the disk has now."""
        return Image(self.epoch, self.directory, self.seen, tuple(self.log), self.checkpoint, self.has_begun)


class PartitionHistory:
    """The model.

    Attributes:
        states: by revision, the first is that of the topic's creation.
        registrations: by revision, the epoch and the directory of each broker.
        committed: the longest log that was acknowledged.
    """

    def __init__(self, chance: random.Random, min_insync_replicas: int, *, loses_disks: bool = False) -> None:
        self._chance = chance
        self._min_insync_replicas = min_insync_replicas
        self.brokers = {each: ModelBroker(each) for each in REPLICAS}
        first = PartitionState(topic_id=TOPIC_ID, index=0, replicas=REPLICAS, isr=REPLICAS, leader=1, leader_epoch=0)
        self.states = [first]
        self.registrations = [dict.fromkeys(REPLICAS, (3, 0))]
        self._loses_disks = loses_disks
        self.committed: list[Record] = []
        self._written = 0

    def run(self, steps: int) -> None:
        """Let things happen that are drawn."""
        actions = (
            *[self._append] * 3, *[self._replicate] * 6, *[self._see] * 4, *[self._acknowledge] * 4,
            self._shrink, self._expand, self._crash, self._come_back, self._checkpoint, self._take_image,
            *[self._lose_disk] * self._loses_disks,
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
            broker.has_begun = True
            broker.log.append((self._view(broker).leader_epoch, self._written))

    def _replicate(self, broker: ModelBroker) -> None:
        """A follower fetches from the leader that it knows, which has to know of the same epoch."""
        view = self._view(broker)
        leader = self.brokers.get(view.leader)
        if not broker.is_up or leader is None or leader is broker or not self._leads(leader):
            return
        if self._view(leader).leader_epoch != view.leader_epoch:
            return
        broker.has_begun = True
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
            former = self._view(broker)
            broker.seen += 1
            broker.has_begun = True
            if self._view(broker) is not former:  # a registration alone answers no proposal
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
        # The high watermark of a new leader may be behind what was committed; the beginning of its epoch is not.
        before_epoch = sum(epoch < state.leader_epoch for epoch, _ in broker.log)
        has_all = common_length(joining.log, broker.log) >= max(broker.high_watermark, before_epoch)
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
        """A process starts and registers: it lists the newest state, and leads only what it is elected for anew."""
        if broker.is_up:
            return
        state = self.states[-1]
        if state.leader == broker.id:
            state = replace(state, leader_epoch=state.leader_epoch + 1)
        self._register(broker, state)

    def _register(self, broker: ModelBroker, state: PartitionState) -> None:
        broker.epoch = FIRST_REVISION + len(self.states) + 1
        self._write(state, {**self.registrations[-1], broker.id: (broker.epoch, broker.directory)})
        broker.seen = len(self.states)
        broker.has_begun |= self._chance.random() < 0.9  # it may end before it has created the log
        broker.is_up = True

    def _checkpoint(self, broker: ModelBroker) -> None:
        broker.checkpoint = min(broker.high_watermark, len(broker.log))

    def _take_image(self, broker: ModelBroker) -> None:
        broker.images.append(broker.image())

    def _lose_disk(self, broker: ModelBroker) -> None:
        """A broker that is down gets an empty disk and starts; the controller takes it out of the in-sync set."""
        if broker.is_up:
            return
        broker.directory += 1
        broker.log, broker.has_begun, broker.high_watermark, broker.checkpoint = [], False, 0, 0
        state = self.states[-1]
        isr = tuple(each for each in state.isr if each != broker.id)
        if state.leader == broker.id:
            others = [each for each in isr if self.brokers[each].is_up]
            leader = self._chance.choice(others) if others else NO_LEADER
            state = replace(state, leader=leader, leader_epoch=state.leader_epoch + 1)
        self._register(broker, replace(state, isr=isr))

    def _write(self, state: PartitionState, registrations: dict[int, tuple[int, int]] | None = None) -> None:
        self.states.append(state)
        self.registrations.append(self.registrations[-1] if registrations is None else registrations)

    def noticeable_images(self, broker: int, seen_by_others: int) -> list[Image]:
        """The images of before the broker's last registration, if others have seen that one."""
        found = self.brokers[broker]
        if self.registrations[seen_by_others - 1][broker] != (found.epoch, found.directory):
            return []
        return [each for each in found.images if each.epoch < found.epoch and each.directory == found.directory]

    def facts(
        self,
        broker: int,
        *,
        has_copy: bool = True,
        lost_states: int = 0,
        image: Image | None = None,
        is_unread: bool = False,
    ) -> BrokerFacts:
        """What is found on the disk of a broker.

        Args:
            broker: which one.
            has_copy: whether there is a copy of the state.
            lost_states: how many of the last states are missing in it, because of damage.
            image: the disk was put back to this one.
            is_unread: its log cannot be read.
        """
        found = self.brokers[broker].image() if image is None else image
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
        has_log = found.has_begun and not is_unread
        copy = self.copy(seen) if has_copy else None
        directory = DirectoryFacts(
            path=f"/{broker}",
            directory_id=directory_id(broker, found.directory),
            copy_problem=problem,
            copy_position=copy.position if copy is not None and problem is None else None,
            logs=(log,) if has_log else (),
            unread=((TOPIC, 0),) if found.has_begun and is_unread else (),
        )
        return BrokerFacts(
            broker_id=broker,
            cluster_id=CLUSTER_ID,
            directories=(directory,),
            copy=copy,
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
        for broker, (epoch, directory) in self.registrations[seen - 1].items():
            registration = BrokerRegistration(
                broker_id=broker, broker_epoch=epoch, directory_ids=(directory_id(broker, directory),)
            )
            entries[f"registrations/{broker}"] = StoredValue(
                max(epoch, FIRST_REVISION), codec.encode_registration(registration)
            )
        return StateCopy(cluster_name="ottla", cluster_id=CLUSTER_ID, revision=FIRST_REVISION + seen, entries=entries)


def directory_id(broker: int, number: int) -> UUID:
    """The id of a broker's disk."""
    return UUID(int=100 + broker + 10 * number)


def common_length(log: Sequence[Record], other: Sequence[Record]) -> int:
    """How many of their first records two logs have in common."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(log, other, strict=False)))


def written_partition(entries: dict[str, bytes]) -> dict[str, object]:
    """The partition as a plan writes it."""
    fields: dict[str, object] = json.loads(entries[f"partitions/{TOPIC_ID}/0"])
    return fields
