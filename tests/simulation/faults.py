"""What goes wrong in a simulation, and what its operators do: one thing after another, drawn from the seed.

Each seed has its own mixture, so that some runs are full of one kind of trouble, and others see everything together.
"""

from collections.abc import Collection, Mapping, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any
from uuid import UUID

from ottla_core.cluster.controller_rpc.controller_api import (
    ElectionType,
    NewTopic,
    PartitionAssignment,
    Reassignment,
    TopicReference,
)
from ottla_core.errors import KafkaError
from ottla_core.topic_partition import TopicPartition
from tests.simulation.invariants import BUSY_TOPICS
from tests.simulation.process import Process
from tests.simulation.service_process import LEASE_TTL_MS

if TYPE_CHECKING:
    from tests.simulation.cluster import SimulatedCluster
    from tests.simulation.simulated_broker import SimulatedBroker
    from tests.simulation.simulated_controller import SimulatedController

OPERATOR_TIMEOUT_MS = 5_000
HEAL_INTERVAL_MS = 1_000
PARTITION = TopicPartition("t", 0)
UNNOTICED_LOSS_MS = 5_000
MIDDLE_OF_CHANGES_MS = 60.0
WEIGHTS: Mapping[str, float] = {
    "kill_broker": 3,
    "pause_broker": 2,
    "cut_link": 2,
    "isolate": 2,
    "restart_within_lease": 1,
    "pause_over_lease": 1,
    "kill_controller": 1,
    "pause_controller": 1,
    "depose_controller": 1,
    "lose_answers_of_etcd": 1,
    "stop_etcd": 0.7,
    "kill_member": 0.7,
    "pause_member": 1.5,
    "compact": 0.3,
    "wipe_broker": 1,
    "cut_power": 1,
    "shut_down_broker": 1,
    "reassign": 1,
    "cancel_reassignment": 0.3,
    "reassign_away_and_back": 3,
    "create_or_delete_busy_topic": 2,
    "lose_log": 0.5,
    "fail_fsync": 1,
    "lose_end": 0.5,
    "elect_preferred_leader": 0.5,
    "change_min_insync_replicas": 0.5,
}
"""How often each kind of trouble comes, beside the others; each is a method of `Faults`."""


class Faults(Process):
    """Makes trouble until it is told to stop; as a process it is the operator who asks the controller for things.

    Args:
        often: what is to go wrong much more often than anything else, whatever the seed says.
    """

    def __init__(self, cluster: "SimulatedCluster", often: Collection[str] = ()) -> None:
        super().__init__("operator", cluster.schedule)
        self._cluster = cluster
        self._ended = False
        self._topic_ids = count(1_000)
        random = cluster.schedule.random
        weights = WEIGHTS.values()
        self._weights = [weight * random.choice((0.1, 1, 1, 3)) for weight in weights]
        for name in often:
            self._weights[list(WEIGHTS).index(name)] += sum(weights) / 2
        self._pause_max_ms = random.choice((600.0, 1_500.0, 4_000.0))
        self._outage_max_ms = random.choice((500.0, 2_500.0, 6_000.0))

    def on_start(self) -> None:
        """Begin with the first trouble."""
        self._cluster.network.make_trouble()
        self._cluster.etcd.make_trouble()
        self._plan_next()

    def _plan_next(self) -> None:
        self.after(self.schedule.between(20, self._pause_max_ms), self._make_trouble)

    def _make_trouble(self) -> None:
        if not self._ended:
            (kind,) = self.schedule.random.choices(list(WEIGHTS), self._weights)
            getattr(self, f"_{kind}")()
            self._plan_next()

    def heal(self) -> None:
        """End all trouble: mend the network, resume and restart everybody, also who is about to shut down."""
        self._ended = True
        self.after(HEAL_INTERVAL_MS, self.heal)
        self._cluster.network.heal()
        self._cluster.etcd.heal()
        for process in self._cluster.processes:
            if not process.is_running:
                process.start()
            elif process.is_paused:
                process.resume()
        for broker in self._brokers:
            if broker.has_failed_log and broker.broker_id != self._cluster.partition.leader:
                self._kill(broker)  # a leader has to make way first

    def _outage_ms(self) -> float:
        """Return how long something lasts; short ones are as likely as long ones."""
        return float(10 * (self._outage_max_ms / 10) ** self.schedule.random.random())

    def _found_running(self, processes: Sequence[Process]) -> list[Process]:
        return [process for process in processes if process.is_running and not process.is_paused]

    def _running(self, processes: Sequence[Process]) -> Process | None:
        running = self._found_running(processes)
        return self.schedule.random.choice(running) if running else None

    @property
    def _brokers(self) -> list["SimulatedBroker"]:
        return list(self._cluster.brokers.values())

    @property
    def _controllers(self) -> list[Process]:
        return list(self._cluster.controllers.values())

    # Processes

    def _kill(self, process: Process | None) -> None:
        if process is not None:
            process.kill()
            self.after(self._outage_ms(), self._restart, process)

    def _restart(self, process: Process) -> None:
        if not process.is_running:
            process.start()

    def _pause(self, process: Process | None, duration_ms: float | None = None) -> None:
        if process is not None:
            process.pause()
            self.after(duration_ms or self._outage_ms(), self._resume, process, process.life)

    def _resume(self, process: Process, life: int) -> None:
        if process.is_paused and process.life == life:
            process.resume()

    def _kill_broker(self) -> None:
        self._kill(self._running(self._brokers))

    def _restart_within_lease(self) -> None:
        """Kill a broker, and start it again while its registration is there; perhaps twice."""
        broker = self._running(self._brokers)
        if broker is not None:
            broker.kill()
            self.after(self.schedule.between(10, LEASE_TTL_MS / 2), self._restart, broker)
            if self.schedule.chance(0.3):
                self.after(LEASE_TTL_MS / 2, self._kill_again, broker, broker.life + 1)

    def _kill_again(self, process: Process, life: int) -> None:
        if process.is_running and process.life == life and not self._ended:
            self._kill(process)

    def _about_a_lease_ms(self) -> float:
        return LEASE_TTL_MS * self.schedule.between(0.8, 1.8)

    def _pause_over_lease(self) -> None:
        """Stop a broker for about as long as its lease."""
        self._pause(self._running(self._brokers), self._about_a_lease_ms())

    def _kill_controller(self) -> None:
        self._kill(self._running(self._controllers))

    def _pause_broker(self) -> None:
        self._pause(self._running(self._brokers))

    def _pause_controller(self) -> None:
        self._pause(self._running(self._controllers))

    def _depose_controller(self) -> None:
        """Ask the controller for changes, and stop it in the middle of them until another one may lead."""
        controller = self._leading_controller()
        if controller is not None and controller in self._found_running(self._controllers):
            self._create_or_delete_busy_topic()
            self._reassign()
            self.after(
                self.schedule.between(0, MIDDLE_OF_CHANGES_MS), self._stop_changes, controller, controller.life
            )

    def _stop_changes(self, controller: Process, life: int) -> None:
        if controller.is_running and controller.life == life and not controller.is_paused and not self._ended:
            self._pause(controller, self._about_a_lease_ms())

    def _stop_etcd(self) -> None:
        """Stop all of etcd's members."""
        stop = self._kill if self.schedule.chance(0.5) else self._pause
        for member in self._cluster.etcd.members:
            if member.is_running and not member.is_paused:
                stop(member)

    def _kill_member(self) -> None:
        self._kill(self._running(self._cluster.etcd.members))

    def _pause_member(self) -> None:
        """Stall a member of etcd: its watches stay, and bring nothing."""
        self._pause(self._running(self._cluster.etcd.members))

    def _lose_answers_of_etcd(self) -> None:
        """Let most writes go without an answer for a while, and many be carried out late."""
        self._cluster.etcd.lose_answers()
        self.after(self._outage_ms(), self._answer_as_before)

    def _answer_as_before(self) -> None:
        if not self._ended:
            self._cluster.etcd.make_trouble()

    def _compact(self) -> None:
        self._cluster.etcd.compact()

    def _shut_down_broker(self) -> None:
        broker: SimulatedBroker | None = self._running(self._brokers)  # type: ignore[assignment]
        if broker is not None and broker.is_registered():
            broker.shut_down()

    def _wipe_broker(self) -> None:
        """Take a broker's disk, if another electable replica has every committed record."""
        self._lose_records("wipe")

    def _cut_power(self) -> None:
        """Take what a broker has not fsynced, under the same condition."""
        self._lose_records("lose_power")

    def _lose_records(self, how: str) -> None:
        partition = self._cluster.partition
        joining = [
            broker
            for broker in self._brokers
            if broker.broker_id in partition.replicas and broker.broker_id not in partition.isr
        ]
        brokers = joining if joining and self.schedule.chance(0.5) else self._brokers
        broker: SimulatedBroker | None = self._running(brokers)  # type: ignore[assignment]
        if broker is not None and self._cluster.invariants.may_wipe(broker.broker_id):
            broker.kill()
            self._cluster.invariants.wiped(broker.broker_id)
            getattr(broker, how)()
            self.after(self._outage_ms(), self._restart, broker)
            if self.schedule.chance(0.5):  # nobody who could tell by its fetches hears of it
                others = [other for other in self._brokers if other is not broker]
                self._cut([(broker.name, other.name) for other in others], UNNOTICED_LOSS_MS)

    def _lose_log(self) -> None:
        """Kill a broker and take its log of the partition alone, of which its checkpoints still tell."""
        broker: SimulatedBroker | None = self._running(self._brokers)  # type: ignore[assignment]
        invariants = self._cluster.invariants
        if broker is not None and invariants.may_wipe(broker.broker_id) and broker.has_checkpointed(PARTITION):
            broker.kill()
            invariants.wiped(broker.broker_id)
            broker.lose_log(PARTITION)
            self.after(self._outage_ms(), self._restart, broker)

    def _lose_end(self) -> None:
        """Kill a broker and take the end of its log, of which its checkpoints still tell."""
        broker: SimulatedBroker | None = self._running(self._brokers)  # type: ignore[assignment]
        invariants = self._cluster.invariants
        if broker is not None and invariants.may_wipe(broker.broker_id) and broker.has_checkpointed(PARTITION):
            log = broker.disk.logs[PARTITION]
            end_offset = self.schedule.random.randint(log.log_start_offset, log.checkpointed_high_watermark)
            if 0 < end_offset < log.checkpointed_high_watermark:
                broker.kill()
                invariants.wiped(broker.broker_id)
                broker.lose_end(PARTITION, end_offset)
                self.after(self._outage_ms(), self._restart, broker)

    def _fail_fsync(self) -> None:
        """Have an fsync of a broker's log fail; it may be killed before anybody hears of it."""
        broker: SimulatedBroker | None = self._running(self._brokers)  # type: ignore[assignment]
        invariants = self._cluster.invariants
        if broker is not None and PARTITION in broker.disk.logs and invariants.may_wipe(broker.broker_id):
            invariants.wiped(broker.broker_id)
            broker.fail_log(PARTITION)
            if self.schedule.chance(0.3):
                self._kill(broker)
            else:
                self.after(10 * self._outage_ms(), self._repair, broker, broker.life)

    def _repair(self, broker: "SimulatedBroker", life: int) -> None:
        """Restart a broker with a failed log, but only when it has made way."""
        if broker.is_running and broker.life == life and broker.broker_id != self._cluster.partition.leader:
            self._kill(broker)

    # Links

    def _cut_link(self) -> None:
        """Cut the link between two processes, one way or both."""
        one, other = self.schedule.random.sample(self._cluster.processes, 2)
        self._cut([(one.name, other.name), (other.name, one.name)][: self.schedule.random.choice((1, 2))])

    def _isolate(self) -> None:
        """Cut all links of a process, or those that bring something to it, or those that take something from it."""
        process = self.schedule.random.choice(self._cluster.processes)
        others = [other for other in self._cluster.processes if other is not process]
        incoming = [(other.name, process.name) for other in others]
        outgoing = [(process.name, other.name) for other in others]
        self._cut(self.schedule.random.choice((incoming, outgoing, incoming + outgoing)))

    def _cut(self, links: list[tuple[str, str]], duration_ms: float | None = None) -> None:
        self.note("cuts {}", ", ".join(f"{source} -> {target}" for source, target in links))
        for link in links:
            self._cluster.network.cut(*link)
        self.after(duration_ms or self._outage_ms(), self._mend, links)

    def _mend(self, links: list[tuple[str, str]]) -> None:
        self.note("mends {}", ", ".join(f"{source} -> {target}" for source, target in links))
        for link in links:
            self._cluster.network.mend(*link)

    # Operations

    def _leading_controller(self) -> "SimulatedController | None":
        leader = self._cluster.etcd.state.controller
        return self._cluster.controllers[leader.id] if leader is not None else None

    def ask(self, what: str, handler_name: str, request: object) -> None:
        controller = self._leading_controller()
        if controller is None:
            return
        self.note("asks for {}", what)
        handler = getattr(controller, handler_name)
        self._cluster.network.call(self, controller, handler, request, self._told, OPERATOR_TIMEOUT_MS)

    def _told(self, answer: Any) -> None:
        match answer:
            case ([result], int(revision)):
                self.note("is told {}, revision {}", result.error_code.name, revision)
            case KafkaError():
                self.note("is told {}: {}", answer.code.name, answer.message)
            case _:
                self.note("is told nothing")

    def _reassign(self) -> None:
        random = self.schedule.random
        targets = tuple(random.sample(sorted(self._cluster.brokers), random.choice((2, 3, 3, 3))))
        self.ask(f"replicas {list(targets)}", "on_reassign", Reassignment(topic="t", index=0, replicas=targets))

    def _reassign_away_and_back(self) -> None:
        """Take the partition from a follower, and give it back before that can have carried it out everywhere."""
        partition = self._cluster.partition
        followers = [one for one in partition.replicas if one != partition.leader]
        if len(followers) > 1 and not partition.adding and not partition.removing:
            away = self.schedule.random.choice(followers)
            targets = tuple(one for one in partition.replicas if one != away)
            self._create_or_delete_busy_topic()
            self.ask(f"replicas {list(targets)}", "on_reassign", Reassignment(topic="t", index=0, replicas=targets))
            self.after(self._outage_ms() / 4, self._give_back, partition.replicas)

    def _give_back(self, replicas: tuple[int, ...]) -> None:
        self.ask(f"replicas {list(replicas)}", "on_reassign", Reassignment(topic="t", index=0, replicas=replicas))

    def _create_or_delete_busy_topic(self) -> None:
        """Create a topic that keeps brokers busy, or delete it, perhaps to create it anew at once."""
        etcd = self._cluster.etcd
        random = self.schedule.random
        name = random.choice(BUSY_TOPICS)
        topic = etcd.state.topics.get(name)
        if topic is not None:
            self.ask(f"an end of {name}", "on_delete_topic", TopicReference(name=name))
        live = sorted(etcd.state.brokers)
        if not live or (topic is not None and self.schedule.chance(0.5)):
            return
        assignments = tuple(
            PartitionAssignment(index=index, broker_ids=tuple(random.sample(live, min(2, len(live)))))
            for index in range(random.choice((1, 1, 3)))
        )
        new = NewTopic(name=name, assignments=assignments, topic_id=UUID(int=next(self._topic_ids)))
        self.ask(f"{name} with the id {new.topic_id.int}", "on_create_topic", new)
        if self.schedule.chance(0.3):
            self.after(self._outage_ms(), self.ask, f"an end of {name}", "on_delete_topic", TopicReference(name=name))

    def _cancel_reassignment(self) -> None:
        if self._cluster.partition.adding or self._cluster.partition.removing:
            cancellation = Reassignment(topic="t", index=0, replicas=None)
            self.ask("an end of the reassignment", "on_reassign", cancellation)

    def _elect_preferred_leader(self) -> None:
        request = (ElectionType.PREFERRED, TopicPartition("t", 0))
        self.ask("the preferred leader", "on_elect", request)

    def _change_min_insync_replicas(self) -> None:
        topic = self._cluster.etcd.state.topics["t"]
        count = "1" if topic.configs["min.insync.replicas"] == "2" else "2"
        self.ask(f"min.insync.replicas={count}", "on_configure", ("min.insync.replicas", count))
