"""A simulated cluster in which nothing goes wrong by itself: a script says what happens, step by step.

Some breaches show in a history of so many steps that no seed can be expected to draw it. `histories.py` has these
histories; here is what they are told with. Messages, disks and clocks take the time that the seed says, and it is
always short. In the end all faults are healed, clients begin, and the invariants must hold as after any other run.
"""

from collections.abc import Callable
from dataclasses import dataclass
from unittest.mock import patch

from ottla_broker.replica.leader_replica import LeaderReplica
from ottla_core.cluster.state.model import PartitionState
from tests.simulation import simulated_controller
from tests.simulation.cluster import NAME, Outcome, SimulatedCluster
from tests.simulation.fake_log import SimulatedLog
from tests.simulation.faults import Faults
from tests.simulation.simulated_broker import Produce

STEP_LIMIT_MS = 10_000.0
ANSWER_TIMEOUT_MS = 1_000
LAG_MAX_MS = 3_000


class ScriptCannotGoOn(AssertionError):
    """Something that a script waits for does not happen."""


class Calm(Faults):
    """No trouble but what a script makes."""

    def on_start(self) -> None:
        """Do nothing."""


@dataclass(frozen=True, slots=True)
class History:
    """What happens to one partition.

    Attributes:
        play: makes it happen.
        replicas: where the partition begins; the first one leads.
        lag_max_ms: `replica.lag.time.max.ms`.
    """

    play: "Callable[[ScriptedCluster], None]"
    replicas: tuple[int, ...]
    lag_max_ms: int = LAG_MAX_MS


class ScriptedCluster(SimulatedCluster):
    """A cluster that goes through a history."""

    def __init__(self, seed: int, name: str, history: History, rule: str = "") -> None:
        super().__init__(seed, rule=rule)
        self.options["history"] = [name]
        self._history = history
        self._numbers = iter(range(1_000_000, 2_000_000))
        self.faults = Calm(self)
        self.network.delay_max_ms = 1.0
        self.etcd.watch_delay_max_ms = 2.0
        self.disk_delay_max_ms = 2.0
        self.lag_max_ms = history.lag_max_ms
        self.min_insync_replicas = 1
        self.invariants.allows_unclean = False
        self.invariants.is_calm = True

    def run(self) -> Outcome:
        """Go through the history and recovery; leaders change only by what the script does."""
        with patch.object(simulated_controller.CONFIG, "auto_leader_rebalance_enable", False):
            return super().run()

    def choose_replicas(self) -> tuple[int, ...]:
        """Return where the partition begins."""
        return self._history.replicas

    def go_through_trouble(self) -> None:
        """Have the script make it."""
        self.faults.start()
        self.until("a controller leads", lambda: self.etcd.state.controller is not None)
        self.until("all see the partition", self._is_seen)
        leader, *followers = self._history.replicas
        self.until("all replicas fetch", lambda: self.leads(leader) and all(map(self._follows, followers)))
        self._history.play(self)
        self.start_clients()

    def _is_seen(self) -> bool:
        processes = (*self.brokers.values(), *self.controllers.values())
        return all(process.state.revision == self.etcd.revision for process in processes)

    def _follows(self, broker_id: int) -> bool:
        return NAME in self.brokers[broker_id].disk.logs and self.fetch_epoch_of(broker_id) is not None

    # What scripts wait for

    def until(self, what: str, is_so: Callable[[], bool]) -> None:
        """Let things happen one by one until something is so.

        Raises:
            ScriptCannotGoOn: it does not become so.
        """
        schedule = self.schedule
        limit_ms = schedule.now_ms + STEP_LIMIT_MS
        while not is_so():
            if schedule.next_ms > limit_ms:
                raise ScriptCannotGoOn(f"it does not happen that {what}; the partition is {self.partition}")
            schedule.step()
            self.invariants.after_step()

    def pass_ms(self, duration_ms: float) -> None:
        """Let time pass."""
        self.schedule.run_until(self.schedule.now_ms + duration_ms, self.invariants.after_step)

    def log(self, broker_id: int) -> SimulatedLog:
        """Return a replica's log."""
        return self.brokers[broker_id].disk.logs[NAME]

    def leader_replica(self, broker_id: int) -> LeaderReplica | None:
        """Return what a broker knows of its followers; None while it does not lead."""
        partitions = self.brokers[broker_id].partitions
        partition = partitions.get(NAME) if partitions is not None else None
        return partition.leader if partition is not None else None

    def leads(self, broker_id: int) -> bool:
        """Return whether a broker is the leader, and has taken that up."""
        leader = self.leader_replica(broker_id)
        return leader is not None and leader.state.leader_epoch == self.partition.leader_epoch

    def has_proposed(self, broker_id: int) -> bool:
        """Return whether a leader has asked for another in-sync set."""
        leader = self.leader_replica(broker_id)
        return leader is not None and leader.proposal is not None

    def fetch_epoch_of(self, follower: int) -> int | None:
        """Return under which registration a follower has fetched from the present leader last, if it has."""
        leader = self.leader_replica(self.partition.leader)
        progress = leader.followers.get(follower) if leader is not None else None
        return progress.contact.broker_epoch if progress is not None and progress.contact is not None else None

    def until_state(self, what: str, is_so: Callable[[PartitionState], bool]) -> None:
        """Wait for a state of the partition in etcd."""
        self.until(what, lambda: is_so(self.partition))

    def until_led_by(self, broker_id: int) -> None:
        """Wait for an election and for the leader to know of it."""
        self.until(f"broker {broker_id} leads", lambda: self.partition.leader == broker_id and self.leads(broker_id))

    def until_in_sync(self, *brokers: int) -> None:
        """Wait for an in-sync set."""
        self.until_state(f"{brokers} are in sync", lambda state: set(state.isr) == set(brokers))

    def until_equal(self, *brokers: int) -> None:
        """Wait until replicas have the same records, and know that these are committed."""
        first = self.log(brokers[0])
        self.until(
            f"{brokers} have everything",
            lambda: all(
                log.records == first.records and log.high_watermark == first.log_end_offset
                for log in map(self.log, brokers)
            ),
        )

    # What scripts do

    def send(self, broker_id: int) -> None:
        """Send a record to a broker, with acks=1, whoever leads."""
        request = Produce(NAME, next(self._numbers), all_in_sync=False)
        broker = self.brokers[broker_id]
        self.network.call(self.faults, broker, broker.on_produce, request, self._told, ANSWER_TIMEOUT_MS)

    def _told(self, answer: object) -> None:
        self.faults.note("is told {}", "nothing" if answer is None else str(answer))

    def append(self, broker_id: int, count: int) -> None:
        """Have a leader append records."""
        log = self.log(broker_id)
        end_offset = log.log_end_offset + count
        for _ in range(count):
            self.send(broker_id)
        self.until(f"broker {broker_id} has appended", lambda: log.log_end_offset == end_offset)

    def cut(self, sources: list[str], targets: list[str]) -> None:
        """Let nothing through from some processes to others."""
        for source in sources:
            for target in targets:
                self.network.cut(source, target)
        self.faults.note("cuts {} -> {}", ", ".join(sources), ", ".join(targets))

    def mend(self, sources: list[str], targets: list[str]) -> None:
        """Undo `cut`."""
        for source in sources:
            for target in targets:
                self.network.mend(source, target)
        self.faults.note("mends {} -> {}", ", ".join(sources), ", ".join(targets))

    def restart(self, broker_id: int) -> None:
        """Kill a broker and start it at once, before its registration is over."""
        broker = self.brokers[broker_id]
        broker.kill()
        broker.start()

    def restart_without_power(self, broker_id: int) -> None:
        """The same with a loss of all that was not fsynced."""
        broker = self.brokers[broker_id]
        if not self.invariants.may_wipe(broker_id) or not self._would_lose_records(broker_id):
            raise ScriptCannotGoOn(f"broker {broker_id} would lose nothing, or too much")
        broker.kill()
        self.invariants.wiped(broker_id)
        broker.lose_power(loses_all=True)
        broker.start()

    def lose_power(self, broker_id: int) -> None:
        """Take all that was not fsynced from a broker that is down, whoever else has it."""
        self.invariants.wiped(broker_id)
        self.brokers[broker_id].lose_power(loses_all=True)

    def lose_end(self, broker_id: int, end_offset: int) -> None:
        """Take the end of the log from a broker that is down, and have it know by its checkpoints."""
        self.invariants.wiped(broker_id)
        self.invariants.knows_of_loss = True
        self.brokers[broker_id].lose_end(NAME, end_offset)

    def lose_middle(self, broker_id: int, offset: int, end_offset: int) -> None:
        """Take a part of the log from a broker that is down, and have it know by what is behind."""
        self.invariants.wiped(broker_id)
        self.invariants.knows_of_loss = True
        self.log(broker_id).lose_middle(offset, end_offset)

    def _would_lose_records(self, broker_id: int) -> bool:
        log = self.log(broker_id)
        return log.durable_end_offset < log.log_end_offset


ETCD = ["etcd-1", "etcd-2", "etcd-3"]
CONTROLLERS = ["controller-1", "controller-2"]
