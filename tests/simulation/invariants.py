"""What must hold at every step of a simulation.

A record is *committed* once any leader's high watermark has passed it: from then on consumers may see it, and
producers who asked for acks=all have its acknowledgement. The *electable set* of a partition, in the newest state
that etcd holds, is its in-sync set together with its eligible leaders: those that the controller may make the leader.
The rule that everything rests on:

    Every replica of the electable set, alive or not, has every committed record on its disk, unless its disk was
    wiped since, or it lost power. (So no acknowledged record is lost while one of them lives.)

Disks are only wiped, and power only fails, while another electable replica, with its disk, has every committed
record. Beyond that rule:

- Each leader epoch of a partition has one leader that writes, and a leader epoch and offset name one record. A leader
  takes over nothing from others.
- A leader of the newest leader epoch has every committed record.
- No leader takes a replica into the in-sync set that knows of records that its disk has lost.
- All logs are equal up to their high watermarks; none is cut below its own, but where its disk has lost records.
- A high watermark does not go back otherwise, and a follower's is never ahead of all that was committed.
- What a consumer is given was committed. (Committed records are never replaced, so none it saw disappears.)
- An acknowledged record (acks=all) is on as many disks as `min.insync.replicas` asks for.
- Who leads is registered, and has seen what etcd knew before the longest age of a view.
- Only the leading controller writes cluster state, and a topic that was deleted stays so.
- In etcd: in-sync set and eligible leaders are among the replicas and have no member in common, the leader is in
  the in-sync set, leader epochs never go back and grow with every change of the leader.

An unclean election is allowed to lose records, and so is that of the last electable replica, if that has lost power
or records. Then what is committed begins anew with the elected leader's log. Where nothing but a script makes
trouble, no other replica that lives may have more of it; nor one that does not, if the last one knows of a loss.
"""

import traceback
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from uuid import UUID

from ottla_broker.partition import Partition
from ottla_core.cluster.state.model import NO_EPOCH, NO_LEADER, BrokerRegistration, ClusterState, PartitionState
from ottla_core.topic_partition import TopicPartition
from tests.simulation.fake_etcd import KEYS
from tests.simulation.fake_log import InvariantViolated, Record, Records, SimulatedLog
from tests.simulation.process import CLOCK_DRIFT_MAX
from tests.simulation.service_process import VIEW_AGE_MAX_MS

if TYPE_CHECKING:
    from tests.simulation.cluster import SimulatedCluster
    from tests.simulation.simulated_broker import SimulatedBroker

LEASE_ERROR_MS = 10.0
"""More than what the clocks of processes make of a lease's time."""
WRITTEN_BY_THE_CONTROLLER = {"topics", "partitions", "registrations"}

BUSY_TOPICS = ("busy-1", "busy-2")
"""Topics without records that come and go, to keep brokers busy. They come before the other one in every state, so a
pass over all that has changed is at them first."""


@dataclass(slots=True)
class _History:
    """What is known of one partition, over all its leaders.

    Attributes:
        committed: the committed records by offset.
        writers: the broker that writes in each leader epoch.
        written: the record at each offset of each leader epoch.
        wiped: electable replicas whose disks are gone.
        attended: those that were such replicas once, until the controller had attended to that.
    """

    committed: list[Record | None] = field(default_factory=list)
    writers: dict[int, int] = field(default_factory=dict)
    written: dict[tuple[int, int], Record] = field(default_factory=dict)
    wiped: set[int] = field(default_factory=set)
    attended: set[int] = field(default_factory=set)


class Invariants:
    """Watches all logs, and every state that etcd holds.

    Attributes:
        acknowledged: how many records were acknowledged with acks=all.
        consumed: how many records consumers were given.
        elections: how often leaders changed.
        allows_unclean: whether a loss may be the consequence of an unclean election.
        elected_the_last: whether it may be that of an election of the last replica, which had lost power.
        is_calm: whether nothing keeps live replicas from being heard.
        knows_of_loss: whether a replica knows that it has lost committed records.
    """

    def __init__(self, cluster: "SimulatedCluster") -> None:
        self._cluster = cluster
        self._histories: dict[TopicPartition, _History] = {}
        self._agreed: dict[SimulatedLog, int] = {}
        self._changed: dict[SimulatedLog, None] = {}
        self._state_changed = False
        self.acknowledged_count = 0
        self.consumed_count = 0
        self.election_count = 0
        self.allows_unclean = False
        self.elected_the_last = False
        self.is_calm = False
        self.knows_of_loss = False
        self._gone: set[UUID] = set()
        self._left_ms: dict[tuple[int, int], float] = {}
        self._violation: InvariantViolated | None = None

    def history(self, name: TopicPartition) -> _History:
        """Return what is known of a partition."""
        history = self._histories.get(name)
        if history is None:
            history = self._histories[name] = _History()
        return history

    def committed_count(self, name: TopicPartition) -> int:
        """Return how many records of a partition are committed."""
        return len(self.history(name).committed)

    # What logs tell

    def leader_appended(self, log: SimulatedLog, offset: int, record: Record) -> None:
        """A leader has written a record."""
        history = self.history(log.topic_partition)
        epoch = record[0]
        writer = history.writers.setdefault(epoch, log.broker_id)
        if writer != log.broker_id:
            self._violated("one leader per epoch", f"brokers {writer} and {log.broker_id} write in epoch {epoch}")
        if history.written.setdefault((epoch, offset), record) != record:
            self._violated(
                "one record per leader epoch and offset",
                f"broker {log.broker_id} writes a second one at {offset} in {epoch}",
            )

    def follower_appended(self, log: SimulatedLog) -> None:
        """A follower takes over what a leader has answered."""
        partition = self._partition(log)
        if partition is not None and partition.leads:
            self._violated("a leader takes over nothing", f"broker {log.broker_id} leads")

    def began_to_lead(self, log: SimulatedLog, epoch: int) -> None:
        """A broker takes up its leadership of a leader epoch."""
        if log.topic_partition.topic in BUSY_TOPICS:
            return
        history = self.history(log.topic_partition)
        newest = self._cluster.etcd.state.topics[log.topic_partition.topic].partitions[log.topic_partition.partition]
        if epoch != newest.leader_epoch or self.allows_unclean or self._has(log, len(history.committed)):
            return
        if self.is_calm and log.broker_id in history.wiped:
            self._begin_with_the_longest(log.topic_partition, newest)
            return
        self._violated(
            "a leader has every committed record",
            f"broker {log.broker_id} leads in epoch {epoch}, {len(history.committed)} records are committed, its "
            f"log {self._describe(log)}",
        )

    def retired(self, log: SimulatedLog) -> None:
        """A broker holds a log no longer."""
        self._agreed.pop(log, None)
        self._state_changed = True

    def is_cut_at_loss(self, log: SimulatedLog) -> None:
        """A log is about to be cut where its disk has lost records, so that they are copied again."""
        name = log.topic_partition
        kept = self._kept_count(name, log.broker_id)
        if self.is_calm and all(
            self._kept_count(name, other) < kept for other in self._cluster.brokers if other != log.broker_id
        ):
            self._violated(
                "what is cut to be copied again is elsewhere",
                f"nobody but broker {log.broker_id} has {kept} committed records",
            )

    def truncated(self, log: SimulatedLog, offset: int) -> None:
        """Everything from an offset on is gone."""
        self._cluster.brokers[log.broker_id].note("cuts its log of {} at {}", log.topic_partition, offset)
        if self._agreed.get(log, 0) > offset:
            self._agreed[log] = offset
        if offset < log.high_watermark and not (self.allows_unclean or log.is_cut_at_loss) and offset > 0:
            self._violated(
                "no log is cut below its high watermark",
                f"broker {log.broker_id} cuts its log at {offset}, its high watermark is {log.high_watermark}",
            )
        self._changed[log] = None
        self._state_changed = True

    def high_watermark_moved(self, log: SimulatedLog, former: int) -> None:
        """The high watermark is another one; looked at when the step is over."""
        if log.high_watermark < former and not (self.allows_unclean or log.is_cut_at_loss):
            self._violated(
                "no high watermark goes back",
                f"that of broker {log.broker_id} goes from {former} to {log.high_watermark}",
            )
        self._changed[log] = None

    def acknowledged(self, log: SimulatedLog, offset: int, number: int) -> None:
        """A leader is about to tell a producer that a record is safe."""
        self.acknowledged_count += 1
        if self.allows_unclean:
            return
        self.after_step()
        committed = self.history(log.topic_partition).committed
        record = committed[offset] if offset < len(committed) else None
        if record is None or record[1] != number:
            self._violated("only committed records are acknowledged", f"record {number} at {offset} is not committed")
        history = self.history(log.topic_partition)
        brokers = self._cluster.brokers
        holders = {one for one in brokers if self._has(self._log(one, log.topic_partition), offset + 1)}
        partition = self._partition(log)
        assert partition is not None
        wanted = partition.min_in_sync_replicas
        # A leader that has not heard yet whose loss was attended to goes by what that replica had told before.
        holders |= history.wiped | (history.attended & set(partition.state.isr))
        if len(holders) < wanted:
            self._violated(
                "acknowledged records are on min.insync.replicas disks",
                f"record {number} at {offset} is on {len(holders)} disks, {wanted} are asked for",
            )

    def consumed(self, log: SimulatedLog, records: Records) -> None:
        """A consumer is about to be given records."""
        self.consumed_count += len(records)
        if self.allows_unclean:
            return
        self.after_step()
        committed = self.history(log.topic_partition).committed
        for offset, record in records:
            if offset >= len(committed) or committed[offset] != record:
                self._violated(
                    "consumers see committed records only",
                    f"broker {log.broker_id} gives {record} at {offset}, which is not committed",
                )

    def goes_by(self, broker: "SimulatedBroker") -> None:
        """A broker leads, as its lease and its view of the cluster say."""
        now_ms = self._cluster.schedule.now_ms
        left_ms = self._left_ms.get((broker.broker_id, broker.registered_epoch))
        if left_ms is not None and now_ms - left_ms > LEASE_ERROR_MS:
            self._violated(
                "nobody leads under a registration that is over",
                f"{broker.name} has lost its own of epoch {broker.registered_epoch} {now_ms - left_ms:.0f} ms ago",
            )
        unseen_ms = self._cluster.etcd.written_ms(broker.state.revision + 1)
        if unseen_ms is not None and now_ms - unseen_ms > VIEW_AGE_MAX_MS * (1 + 2 * CLOCK_DRIFT_MAX):
            self._violated(
                "nobody leads by a view of the cluster that is out of date",
                f"{broker.name} has not seen what was written {now_ms - unseen_ms:.0f} ms ago",
            )

    def unexpected(self, what: str, error: BaseException) -> None:
        """Something has failed that should not."""
        if isinstance(error, InvariantViolated):
            self._violation = self._violation or error
            raise error
        trace = "".join(traceback.format_exception(error))
        self._violated("nothing fails unexpectedly", f"{what}: {trace}")

    # What etcd tells

    def written(self, sender: str, keys: Sequence[str]) -> None:
        """Somebody is about to write."""
        mine = [key for key in keys if key.removeprefix(KEYS.prefix).partition("/")[0] in WRITTEN_BY_THE_CONTROLLER]
        leader = self._cluster.etcd.state.controller
        if mine and (leader is None or leader.rpc_address != sender):
            holder = leader.rpc_address if leader is not None else "nobody"
            self._violated("only the leading controller writes", f"{sender} writes {mine}, but {holder} leads")

    def state_changed(self, former: ClusterState, state: ClusterState) -> None:
        """Compare a new revision with the one before."""
        self._forget_wiped(state)
        if former.brokers is not state.brokers:
            for broker_id, member in former.brokers.items():
                present = state.brokers.get(broker_id)
                if present is None or present.epoch != member.epoch:
                    self._left_ms[broker_id, member.epoch] = self._cluster.schedule.now_ms
        if former.topics is state.topics:
            return
        if came_back := self._gone & state.topics_by_id.keys():
            self._violated("deleted topics stay deleted", f"{came_back} have come back")
        self._gone |= former.topics_by_id.keys() - state.topics_by_id.keys()
        for name, topic in state.topics.items():
            before = former.topics.get(name)
            if before is not None and before.id != topic.id:
                before = None
            for partition in topic.partitions:
                known = before.partitions[partition.index] if before else None
                if known is not partition:
                    self._check_partition(TopicPartition(name, partition.index), known, partition)
        self._state_changed = True

    def _check_partition(
        self, name: TopicPartition, former: PartitionState | None, partition: PartitionState
    ) -> None:
        isr, eligible = set(partition.isr), set(partition.eligible_leaders)
        if not isr | eligible <= set(partition.replicas):
            self._violated("ISR inside replicas", f"{partition}")
        if isr & eligible:
            self._violated("ISR and eligible leaders have no member in common", f"{partition}")
        if partition.leader != NO_LEADER and partition.leader not in isr:
            self._violated("the leader is in sync", f"{partition}")
        if former is None:
            return
        same_leader = (former.leader, former.leader_broker_epoch) == (
            partition.leader,
            partition.leader_broker_epoch,
        )
        if partition.leader_epoch < former.leader_epoch + (not same_leader):
            self._violated("every election has its own leader epoch", f"{former} became {partition}")
        if same_leader:
            # Who has just lost records may still be taken in for what it had; the controller attends to it then.
            for broker_id in isr - {*former.isr, *self.history(name).wiped}:
                log = self._log(broker_id, name)
                if log is not None and log.lost_from is not None:
                    self._violated("who joins the in-sync set lacks no records", f"broker {broker_id} joins {name}")
        self.election_count += partition.leader != former.leader
        electable = {*former.isr, *former.eligible_leaders}
        if partition.leader_epoch != former.leader_epoch and electable <= self.history(name).wiped:
            if self.is_calm:  # what the last one is worth shows when it begins to lead
                if partition.leader not in {NO_LEADER, *electable}:
                    self._begin_with_the_longest(name, partition)
            elif partition.leader in electable and self._has_its_disk(partition.leader):
                self.elected_the_last = self.allows_unclean = True  # nobody has more than this one (KIP-966)
                self._begin_anew(name, partition)
        if self.allows_unclean and partition.leader != NO_LEADER and partition.leader not in electable:
            self._begin_anew(name, partition)

    def _begin_with_the_longest(self, name: TopicPartition, partition: PartitionState) -> None:
        """One leads who may lack committed records: that loses what no other replica has, and nothing else."""
        brokers = self._cluster.brokers
        kept = self._kept_count(name, partition.leader)
        for other in partition.replicas:
            if (self.knows_of_loss or brokers[other].is_registered()) and self._kept_count(name, other) > kept:
                self._violated(
                    "nobody leads without records that another replica has",
                    f"broker {partition.leader} has {kept} committed records in epoch {partition.leader_epoch}, "
                    f"broker {other} has {self._kept_count(name, other)}",
                )
        if kept < len(self.history(name).committed):
            self.elected_the_last = self.allows_unclean = True
            self._begin_anew(name, partition)

    def _kept_count(self, name: TopicPartition, broker_id: int) -> int:
        """Return how many of the committed records a replica has, from the first on."""
        log = self._log(broker_id, name)
        committed = self.history(name).committed
        pairs = zip(log.records if log is not None else (), committed, strict=False)
        return next((offset for offset, (own, one) in enumerate(pairs) if own not in (None, one)),
                    min(len(log.records) if log is not None else 0, len(committed)))  # fmt: skip

    def _begin_anew(self, name: TopicPartition, partition: PartitionState) -> None:
        """An unclean election may lose records: what its leader has is what counts from now on."""
        history = self.history(name)
        log = self._log(partition.leader, name)
        kept = log.records[: len(history.committed)] if log is not None else []
        history.committed = list(kept)
        self._agreed.clear()

    # Disks

    def may_wipe(self, broker_id: int) -> bool:
        """Return whether another electable replica of every partition lives and has all that is committed."""
        brokers = self._cluster.brokers
        return all(
            any(
                one not in {broker_id, *history.wiped}
                and brokers[one].is_registered()
                and self._has(self._log(one, name), len(history.committed))
                for one in self._electable(name)
            )
            for name, history in self._histories.items()
            if name.topic in self._cluster.etcd.state.topics and name.topic not in BUSY_TOPICS
        )

    def wiped(self, broker_id: int) -> None:
        """A broker has lost its disk."""
        for history in self._histories.values():
            history.wiped.add(broker_id)

    def intact_again(self) -> None:
        """A broker has registered since its loss; the controller may have attended to that before it knows."""
        self._forget_wiped(self._cluster.etcd.state)

    def _forget_wiped(self, state: ClusterState) -> None:
        """Expect everything again of those whose loss the controller has attended to.

        Until then they may be taken back into the in-sync set for what they had.
        """
        for name, history in self._histories.items():
            for broker_id in tuple(history.wiped):
                registration = state.registrations.get(broker_id)
                if (
                    registration is not None
                    and self._has_attended(registration)
                    and name not in self._cluster.brokers[broker_id].disk.vanished
                    and broker_id not in self._electable(name, state)
                ):
                    history.wiped.discard(broker_id)
                    history.attended.add(broker_id)

    def _has_its_disk(self, broker_id: int) -> bool:
        """Return whether a broker has lost power, if anything, and not its disk."""
        registration = self._cluster.etcd.state.registrations.get(broker_id)
        return registration is not None and (
            self._cluster.brokers[broker_id].disk.directory_id in registration.directory_ids
        )

    def _has_attended(self, registration: BrokerRegistration) -> bool:
        """Return whether the controller has seen a registration since the loss."""
        disk = self._cluster.brokers[registration.broker_id].disk
        return (
            disk.directory_id in registration.directory_ids
            and NO_EPOCH < disk.intact_since <= registration.broker_epoch
        )

    def _electable(self, name: TopicPartition, state: ClusterState | None = None) -> tuple[int, ...]:
        topic = (state or self._cluster.etcd.state).topics.get(name.topic)
        if topic is None or name.partition >= len(topic.partitions):
            return ()
        partition = topic.partitions[name.partition]
        return (*partition.isr, *partition.eligible_leaders)

    # Looking at everything that has changed

    def after_step(self) -> None:
        """Check what a step can have broken."""
        if self._violation is not None:
            raise self._violation
        if self._changed:
            changed, self._changed = self._changed, {}
            for log in changed:
                self._check_log(log)
        if self._state_changed:
            self._state_changed = False
            for name, history in self._histories.items():
                if history.committed:
                    self._check_electable(name, history)

    def _check_log(self, log: SimulatedLog) -> None:
        """Compare a log with what is committed, up to its high watermark."""
        broker = self._cluster.brokers[log.broker_id]
        if broker.disk.logs.get(log.topic_partition) is not log:
            return
        history = self.history(log.topic_partition)
        high_watermark = log.high_watermark
        committed = history.committed
        if high_watermark > len(committed):
            partition = self._partition(log)
            if partition is None or not partition.leads:
                if self.allows_unclean:
                    return
                self._violated(
                    "only leaders commit",
                    f"broker {log.broker_id} follows with the high watermark {high_watermark}, "
                    f"{len(committed)} records are committed",
                )
            if log.records[len(committed) - 1 : len(committed)] == committed[-1:] or self._agrees(
                log, len(committed)
            ):
                committed += log.records[len(committed) : high_watermark]
                self._check_electable(log.topic_partition, history)
        if not self._agrees(log, high_watermark) and not self.allows_unclean:
            at = next(i for i in range(high_watermark) if log.records[i] not in (None, committed[i]))
            self._violated(
                "logs are equal up to the high watermark",
                f"broker {log.broker_id} has {log.records[at]} at {at}, {committed[at]} is committed",
            )

    def _check_electable(self, name: TopicPartition, history: _History) -> None:
        """See that every electable replica has everything that is committed."""
        topic = self._cluster.etcd.state.topics.get(name.topic)
        if topic is None or self.allows_unclean:
            return
        partition = topic.partitions[name.partition]
        for broker_id in (*partition.isr, *partition.eligible_leaders):
            if broker_id not in history.wiped and not self._has(self._log(broker_id, name), len(history.committed)):
                self._violated(
                    "every electable replica has every committed record",
                    f"broker {broker_id} may lead {name} (isr {list(partition.isr)}, eligible "
                    f"{list(partition.eligible_leaders)}) but lacks committed records: {len(history.committed)} are "
                    f"committed, its log {self._describe(self._log(broker_id, name))}",
                )

    def _describe(self, log: SimulatedLog | None) -> str:
        if log is None:
            return "does not exist"
        return f"ends at {log.log_end_offset} and agrees up to {self._agreed.get(log, 0)}"

    def _log(self, broker_id: int, name: TopicPartition) -> SimulatedLog | None:
        return self._cluster.brokers[broker_id].disk.logs.get(name)

    def _partition(self, log: SimulatedLog) -> Partition | None:
        partitions = self._cluster.brokers[log.broker_id].partitions
        return partitions.get(log.topic_partition) if partitions is not None else None

    def _has(self, log: SimulatedLog | None, count: int) -> bool:
        """Return whether a log has the first `count` committed records."""
        return count == 0 or (log is not None and log.log_end_offset >= count and self._agrees(log, count))

    def _agrees(self, log: SimulatedLog, count: int) -> bool:
        """Return whether a log has nothing else below `count` than what is committed; remembers how far it looked."""
        committed = self.history(log.topic_partition).committed
        agreed = self._agreed.get(log, 0)
        count = min(count, len(committed), log.log_end_offset)
        records = log.records
        if agreed < count and records[agreed:count] == committed[agreed:count]:
            agreed = count
        while agreed < count and (records[agreed] is None or records[agreed] == committed[agreed]):
            agreed += 1
        self._agreed[log] = agreed
        return agreed >= count

    def _violated(self, rule: str, what: str) -> None:
        """Raise, and raise again when the step is over: a shell may report an error and go on."""
        self._violation = InvariantViolated(f"{rule}: {what}")
        raise self._violation
