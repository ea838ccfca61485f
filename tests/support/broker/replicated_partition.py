"""One partition with its replicas' logs, its leaders, and the controller's real rules, driven event by event.

The replicas are a model, as simple as it can be while it may still lose records: a log is a tuple of records, all
distinct; a leader knows how far its followers were when they last fetched, counts as replicated what its largest
possible in-sync set has, and proposes in-sync sets; a follower takes its leader's log over, cutting what differs.
Everybody acts on the state as he last saw it, and proposals travel until they are delivered, also late and out of
order. `check` compares every state that is written with the one before it, and `committed` with the leaders' logs.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from uuid import UUID

from kio.schema.errors import ErrorCode

from ottla_controller.broker_standing import Standings, due_registrations, standings
from ottla_controller.isr_changes import plan_isr_changes
from ottla_controller.leader_election import elections, first_state
from ottla_controller.partition_change import TopicRules, has_valid_leader
from ottla_controller.preferred_leaders import plan_elections
from ottla_controller.reassignment import plan_reassignments
from ottla_controller.unregistration import plan_unregistration
from ottla_core.cluster.controller_rpc.controller_api import ElectionType, InSyncReplica, IsrChange, Reassignment
from ottla_core.cluster.state.model import (
    NO_LEADER,
    BrokerRegistration,
    ClusterState,
    Member,
    PartitionState,
    Role,
    Topic,
)
from ottla_core.errors import KafkaError
from ottla_core.topic_partition import TopicPartition

ID = UUID(int=1)
BROKER_IDS = range(1, 5)

Log = tuple[int, ...]


def common_length(one: Log, other: Log) -> int:
    """How many records two logs share from their beginnings."""
    return next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


@dataclass(frozen=True, slots=True)
class View:
    """What somebody has seen of the cluster, all of one moment."""

    partition: PartitionState
    min_insync: int
    brokers: dict[int, Member]


@dataclass(slots=True)
class Replica:
    """A broker's data, which outlives its processes, and what its present process knows."""

    log: Log = ()
    view: View | None = None
    progress: dict[int, tuple[int, int]] = field(default_factory=dict)
    """As a leader: how far each follower is, with the broker epoch it fetched under."""
    high_watermark: int = 0
    proposed: list[IsrChange] = field(default_factory=list)


class ReplicatedPartition:
    """The partition and the cluster around it; public methods are events, and do nothing where they cannot be."""

    def __init__(self, min_insync: int, replication_factor: int) -> None:
        self.revision = 100
        self.brokers: dict[int, Member] = {}
        self.registrations: dict[int, BrokerRegistration] = {}
        self.directories = {broker_id: UUID(int=broker_id) for broker_id in BROKER_IDS}
        self.replicas = {broker_id: Replica() for broker_id in BROKER_IDS}
        self.min_insync = min_insync
        self.proposals: list[tuple[int, int, IsrChange]] = []
        self.committed: Log = ()
        self.next_record = 0
        self.lost_clean = False
        for broker_id in BROKER_IDS:
            self.start(broker_id)
        self._remember()
        replicas = tuple(BROKER_IDS)[:replication_factor]
        self.partition = replace(first_state(ID, 0, replicas, self.brokers), partition_epoch=self._next_revision())
        for broker_id in BROKER_IDS:
            self.see(broker_id)

    # Processes.

    def start(self, broker_id: int) -> None:
        """A process starts, perhaps before anybody saw that the former one is gone."""
        self.brokers[broker_id] = Member(
            role=Role.BROKER,
            id=broker_id,
            epoch=self._next_revision(),
            incarnation=UUID(int=1),
            rpc_address="h:1",
            version="1",
            directory_ids=(self.directories[broker_id],),
        )
        self.replicas[broker_id] = Replica(log=self.replicas[broker_id].log)

    def die(self, broker_id: int) -> None:
        """A process ends."""
        self.brokers.pop(broker_id, None)

    def lose_disk(self, broker_id: int) -> None:
        """The disk of a process that does not run is exchanged, unless nobody else has what was committed."""
        if broker_id in self.brokers:
            return
        self.directories[broker_id] = UUID(int=1000 + self._next_revision())
        self.replicas[broker_id] = Replica()

    def shut_down(self, broker_id: int) -> None:
        """A process says that it will end."""
        if broker_id in self.brokers:
            self.brokers[broker_id] = replace(self.brokers[broker_id], shutting_down=True)
            self._next_revision()

    def see(self, broker_id: int) -> None:
        """A process sees the newest state."""
        replica = self.replicas[broker_id]
        former = replica.view
        replica.view = View(self.partition, self.min_insync, dict(self.brokers))
        if former is None or former.partition.leader_epoch != self.partition.leader_epoch:
            replica.progress = {}
            replica.proposed = []
        replica.proposed = [p for p in replica.proposed if p.partition_epoch >= self.partition.partition_epoch]

    # Replication.

    def append(self, broker_id: int) -> None:
        """A leader takes a record."""
        if self._leads(broker_id):
            self.next_record += 1
            self.replicas[broker_id].log += (self.next_record,)
            self._commit(broker_id)

    def fetch(self, broker_id: int, count: int) -> None:
        """A follower asks its leader for records: this tells how far it is, and gets it some more."""
        follower = self.replicas[broker_id]
        if broker_id not in self.brokers or follower.view is None:
            return
        leader_id = follower.view.partition.leader
        if leader_id in {NO_LEADER, broker_id} or not self._leads(leader_id):
            return
        leader = self.replicas[leader_id]
        assert leader.view is not None
        known = leader.view.brokers.get(broker_id)
        if (
            leader.view.partition.leader_epoch != follower.view.partition.leader_epoch
            or broker_id not in leader.view.partition.replicas
            or known is None
            or known.epoch != self.brokers[broker_id].epoch
        ):
            return
        shared = common_length(follower.log, leader.log)
        if shared == len(follower.log):
            leader.progress[broker_id] = (shared, known.epoch)
            self._commit(leader_id)
        follower.log = follower.log[:shared] + leader.log[shared : shared + count]

    def propose(self, broker_id: int, shrinks: bool) -> None:
        """A leader sends a proposal: all that are far enough, or without those that are not at its log's end."""
        if not self._leads(broker_id):
            return
        leader = self.replicas[broker_id]
        view = leader.view
        assert view is not None
        needed = len(leader.log) if shrinks else leader.high_watermark
        candidates = view.partition.isr if shrinks else view.partition.replicas
        far_enough = [
            one
            for one in candidates
            if one != broker_id
            and one in view.brokers
            and leader.progress.get(one, (-1, 0)) >= (needed, 0)
            and leader.progress[one][1] == view.brokers[one].epoch
        ]
        change = IsrChange(
            topic_id=ID,
            index=0,
            leader_epoch=view.partition.leader_epoch,
            partition_epoch=view.partition.partition_epoch,
            isr=tuple(
                InSyncReplica(broker_id=one, broker_epoch=view.brokers[one].epoch)
                for one in (broker_id, *far_enough)
                if one in view.brokers
            ),
        )
        leader.proposed.append(change)
        self.proposals.append((broker_id, view.partition.leader_broker_epoch, change))

    def deliver(self, number: int) -> None:
        """The controller gets one of the proposals under way."""
        if not self.proposals:
            return
        broker_id, epoch, change = self.proposals.pop(number % len(self.proposals))
        if broker_id not in self.brokers or self.brokers[broker_id].epoch != epoch:
            return
        (plan,) = plan_isr_changes(
            broker_id, epoch, [change], self.state.topics_by_id, self.standings, rules_of=self._rules_of()
        )
        assert (plan.partition is None) == (
            plan.result.error_code not in {ErrorCode.none, ErrorCode.new_leader_elected}
        )
        self._write(plan.partition)

    # The controller.

    def attend(self, *, dies_before_remembering: bool = False) -> None:
        """The controller looks at the partition and then writes down that it knows the brokers."""
        topic = self.state.topics["t"]
        for elected in elections([(topic, self.partition)], self.standings, rules_of=self._rules_of()):
            self._write(elected)
        if not dies_before_remembering:
            self._remember()

    def elect(self, type_: ElectionType) -> None:
        """Somebody asks for an election."""
        plans = plan_elections(type_, [TopicPartition("t", 0)], self.state, self.standings, rules_of=self._rules_of())
        if plans[0].partition is not None:
            had_records = {*self.partition.isr, *self.partition.eligible_leaders}
            unclean = plans[0].partition.leader not in had_records - self.standings.lost
            self._write(plans[0].partition, unclean=unclean)

    def reassign(self, replicas: tuple[int, ...] | None) -> None:
        """Somebody asks for other replicas, or to cancel."""
        plans = plan_reassignments(
            [Reassignment(topic="t", index=0, replicas=replicas)],
            self.state,
            self.standings,
            rules_of=self._rules_of(),
            allow_replication_factor_change=True,
        )
        self._write(plans[0].partition)

    def unregister(self, broker_id: int) -> None:
        """Somebody has a broker forgotten, whose disk then is of no use any more."""
        try:
            changed, registration = plan_unregistration(
                broker_id, self.state, self.standings, rules_of=self._rules_of()
            )
        except KafkaError:
            return
        for partition in changed:
            self._write(partition)
        del self.registrations[registration.broker_id]
        self.lose_disk(broker_id)

    def change_minimum(self, min_insync: int, clears: Callable[[PartitionState, int], PartitionState | None]) -> None:
        """Somebody sets another `min.insync.replicas`; `clears` tells what is written before that."""
        self._write(clears(self.partition, min_insync))
        self.see(1 + self.revision % 4)
        self.min_insync = min_insync
        self._next_revision()

    # What everything is judged by.

    @property
    def state(self) -> ClusterState:
        topic = Topic(name="t", id=ID, partitions=(self.partition,))
        return ClusterState(
            brokers=self.brokers,
            registrations=self.registrations,
            topics={"t": topic},
            topics_by_id={ID: topic},
        )

    @property
    def standings(self) -> Standings:
        return standings(self.brokers, self.registrations)

    def check(self, former: PartitionState, new: PartitionState) -> None:
        """A state is sound, and follows upon the former one."""
        assert new.replicas
        assert len(set(new.replicas)) == len(new.replicas)
        assert set(new.isr) <= set(new.replicas)
        assert set(new.eligible_leaders) <= set(new.replicas) - set(new.isr)
        assert new.leader == NO_LEADER or new.leader in new.isr
        assert new.leader != NO_LEADER or not new.isr
        assert set(new.adding) <= set(new.replicas)
        assert set(new.removing) < set(new.replicas)
        if len(new.isr) >= min(self.min_insync, len(new.replicas)):
            assert not new.eligible_leaders
        assert new.leader_epoch >= former.leader_epoch
        leadership = (new.leader, new.leader_broker_epoch)
        if leadership != (former.leader, former.leader_broker_epoch):
            assert new.leader_epoch == former.leader_epoch + 1
            assert new.leader == NO_LEADER or has_valid_leader(new, self.standings)

    def _rules_of(self) -> Callable[[Topic], TopicRules]:
        rules = TopicRules(min_insync_replicas=self.min_insync)
        return lambda _: rules

    def _next_revision(self) -> int:
        self.revision += 1
        return self.revision

    def _remember(self) -> None:
        for due in due_registrations(self.brokers, self.registrations):
            self.registrations[due.broker_id] = replace(due, revision=self._next_revision())

    def _write(self, partition: PartitionState | None, *, unclean: bool = False) -> None:
        if partition is None:
            return
        assert partition.partition_epoch == self.partition.partition_epoch
        self.check(self.partition, partition)
        elected = partition.leader_epoch != self.partition.leader_epoch and partition.leader != NO_LEADER
        self.partition = replace(partition, partition_epoch=self._next_revision())
        if elected:
            log = self.replicas[partition.leader].log
            kept = common_length(log, self.committed)
            assert unclean or kept == len(self.committed), "a leader lacks what was committed"
            self.committed = self.committed[:kept]

    def _leads(self, broker_id: int) -> bool:
        """Whether a live process takes itself for the leader, under the registration that it has."""
        view = self.replicas[broker_id].view
        member = self.brokers.get(broker_id)
        return (
            view is not None
            and member is not None
            and view.partition.leader == broker_id
            and view.partition.leader_broker_epoch == member.epoch
        )

    def _commit(self, leader_id: int) -> None:
        """Move a leader's high watermark to what its largest possible in-sync set has."""
        leader = self.replicas[leader_id]
        view = leader.view
        assert view is not None
        if len(view.partition.isr) < min(view.min_insync, len(view.partition.replicas)):
            return
        largest = {*view.partition.isr, *(member.broker_id for change in leader.proposed for member in change.isr)}
        ends = [len(leader.log) if one == leader_id else leader.progress.get(one, (0, 0))[0] for one in largest]
        leader.high_watermark = max(leader.high_watermark, min(ends))
        replicated = leader.log[: leader.high_watermark]
        if len(replicated) > len(self.committed):
            assert common_length(replicated, self.committed) == len(self.committed), "two leaders have committed"
            self.committed = replicated
