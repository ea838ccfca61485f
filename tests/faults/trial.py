"""One trial: a cluster under load, the faults of a seed, healing, and everything that must be true afterwards.

The order at the end matters: first the cluster must come back by itself (every process ready, every replica in
sync), then the load is stopped and its last records are answered, then everything is read, and only then the brokers
stop and their files are compared.
"""

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import NamedTuple

from confluent_kafka import KafkaException

from tests.faults import java_load
from tests.faults.access.access_operators import access_operators_of
from tests.faults.access.secured_clients import LoadUsers
from tests.faults.checker import FinalContents, count_sent_again, lost_records, problems_of
from tests.faults.cluster import DISK_BYTES_MIN, Cluster, ClusterSettings
from tests.faults.cluster_files import (
    Partitions,
    all_replica_problems,
    all_sequence_problems,
    committed_in_log,
    log_problems,
    retained_bytes,
    writers_in_log,
)
from tests.faults.cluster_view import ClusterView, partition_versions
from tests.faults.committed_offsets import CommitEvent, offset_problems
from tests.faults.fault import BROKER, CLIENTS, DISK_FAULTS, Kind, Members, id_of
from tests.faults.history import ProducerHistory, ReaderHistory
from tests.faults.hostility import HostileClients
from tests.faults.injection import Injector, possible_kinds
from tests.faults.load import Load, load_rights
from tests.faults.network import LoopbackNetwork, Network, open_network
from tests.faults.operation_schedule import Operated
from tests.faults.operators import Operators
from tests.faults.plan import Outcome, Plan
from tests.faults.schedule import make_schedule, members_of
from tests.faults.state_history import led_by_one, state_problems
from tests.faults.topics import (
    ALL_TOPICS,
    GROUP_LOAD_TOPIC,
    GROUP_TOPIC,
    LOAD_TOPICS,
    PARTITIONS,
    RETENTION_BYTES,
    UNSURE_TOPIC,
    Keeps,
    LoadTopic,
    names_of,
)
from tests.support.eventually import eventually

WRITTEN_TOPICS = [topic.name for topic in ALL_TOPICS]
FACTOR = 3
FIRST_RECORDS = 200
CREATE_DEADLINE_S = 60.0
READY_DEADLINE_S = 60.0
IN_SYNC_DEADLINE_S = 45.0
LOOP_DELAY_S_MAX = 1.0
"""CPU time; `tests/fuzz/test_loop_delay.py` asks for less, of one request at a time."""
MEMORY_BYTES_MAX = 768 * 1024 * 1024
"""What requests that are arriving and answers that are not read may take of a broker, and the broker itself."""
DISK_BYTES_PER_SECOND = 512 * 1024
"""More than the load writes, so that a long trial does not fill the disks by itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialPlan(Plan):
    """What a trial of one cluster is to be.

    Attributes:
        members: which processes there are, if their number is not to be drawn from the seed.
        factor: replicas of each partition.
        services: settings of services, by role.
        groups: whether there are consumer groups.
        java: whether Kafka's own clients are among the load.
    """

    members: Members | None = None
    factor: int = FACTOR
    services: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    groups: bool = True
    java: bool = False


def run_trial(plan: TrialPlan) -> Outcome:
    """Runs a trial to its end, and removes all of it but the directory."""
    begun_s = time.monotonic()
    plan.directory.mkdir(parents=True)
    members = plan.members or members_of(plan.seed)
    names = [*members.all, CLIENTS]
    with ExitStack() as closing:
        network: Network = LoopbackNetwork(names) if plan.loopback else open_network(names)
        closing.callback(network.close)
        kinds = plan.kinds & possible_kinds(network, is_root=os.geteuid() == 0)
        operated = Operated(
            topics=[topic.name for topic in LOAD_TOPICS],
            partitions=PARTITIONS,
            factor=plan.factor,
            unclean_topic=UNSURE_TOPIC.name,
        )
        schedule = plan.schedule or make_schedule(
            plan.seed, members, seconds=plan.seconds, kinds=kinds, operated=operated
        )
        (plan.directory / "schedule.txt").write_text(f"seed {plan.seed}\n{schedule}\n")
        settings = ClusterSettings(
            programs=plan.programs,
            services=plan.services,
            jumping_clocks=schedule.targets_of(Kind.CLOCK),
            small_disks=schedule.targets_of(Kind.FULL_DISK),
            disk_bytes=max(DISK_BYTES_MIN, int(plan.seconds * DISK_BYTES_PER_SECOND)),
            faulty_disks=frozenset().union(*map(schedule.targets_of, DISK_FAULTS)),
            watched=True,
            secure=plan.secure,
            users=LoadUsers(rights=load_rights(), abilities=java_load.ABILITIES, seed=plan.seed),
        )
        cluster = closing.enter_context(Cluster(plan.directory, network, members, settings))
        outcome = Outcome(plan.seed, schedule, plan.directory, command_of(plan))
        try:
            _Trial(plan, network, cluster, outcome).run()
        except (AssertionError, OSError, KafkaException) as error:
            outcome.problems.append(f"the trial came to an end early: {error}")
        outcome.problems += [*cluster.problems(), *log_problems(cluster.processes)]
    outcome.took_s = time.monotonic() - begun_s
    return outcome


def command_of(plan: TrialPlan) -> str:
    """See `Plan.command`."""
    factor = ["--factor", str(plan.factor)] if plan.factor != FACTOR else []
    return plan.command(*factor, *(["--java"] if plan.java else []))


class Noted(NamedTuple):
    """What clients have noted, and what the cluster held afterwards."""

    produced: ProducerHistory
    readers: list[ReaderHistory]
    final: FinalContents
    committed: list[CommitEvent]


class _Trial:
    """The steps of a trial whose cluster and network exist."""

    def __init__(self, plan: TrialPlan, network: Network, cluster: Cluster, outcome: Outcome):
        self._plan = plan
        self._network = network
        self._cluster = cluster
        self._outcome = outcome
        self._view = ClusterView(cluster)
        self._story = plan.directory / "story.txt"
        addresses = {id_of(name): cluster.kafka_address(name) for name in cluster.members.of(BROKER)}
        self._operators = Operators(addresses, seed=plan.seed, factor=plan.factor)
        self._access = access_operators_of(cluster, seed=plan.seed)
        self._hostile = HostileClients(plan.directory / "load", network, cluster.bootstrap, seed=plan.seed)

    def run(self) -> None:
        self._tell("start")
        self._cluster.start()
        self._view.create_topics(self._topics, factor=self._plan.factor)
        assert not (missing := self._view.wait_in_sync(within_s=CREATE_DEADLINE_S)), missing
        self._access.prepare()
        try:
            with self._load() as load:
                eventually(
                    lambda: load.produced().acknowledged_count > FIRST_RECORDS,
                    "records flow",
                    within_s=CREATE_DEADLINE_S,
                )
                self._tell("faults")
                self._access.begin()
                injector = Injector(self._cluster, self._network, self._operators, self._hostile, self._tell)
                injector.carry_out(self._outcome.schedule, load.check)
                self._tell("healing")
                noted = self._heal(load)
                unsure_id = self._operators.id_of_topic(UNSURE_TOPIC.name)
        finally:
            self._hostile.close()
            self._operators.close()
            self._access.close()
        self._tell("comparing replicas")
        partitions = self._view.settled()
        self._outcome.problems += self._topic_problems({topic for topic, _ in partitions})
        versions = list(partition_versions(self._cluster.etcd_endpoints, self._cluster.etcdctl_options()))
        self._outcome.problems += state_problems(versions)
        unsure = led_by_one(versions, unsure_id)
        self._outcome.problems += [*self._hostile.problems, *self._load_problems()]
        self._cluster.stop()
        self._outcome.problems += all_replica_problems(self._cluster, partitions)
        self._judge(noted, partitions, steadily_led=[(UNSURE_TOPIC.name, index) for index in unsure])
        self._tell("end")

    @property
    def _topics(self) -> list[LoadTopic]:
        groups = [LoadTopic(GROUP_LOAD_TOPIC, Keeps.EVERYTHING, {})] if self._plan.groups else []
        return [*ALL_TOPICS, *groups, *self._access.topics]

    def _load(self) -> Load:
        return Load(
            self._plan.directory / "load",
            self._network,
            self._cluster.bootstrap,
            groups=self._plan.groups,
            java=self._plan.java,
            seed=self._plan.seed,
            clients=self._cluster.clients,
        )

    def _heal(self, load: Load) -> Noted:
        """Waits until all is well again, stops the load, reads everything, and returns what clients have noted."""
        self._cluster.wait_ready(within_s=READY_DEADLINE_S)
        self._operators.finish()
        missing = self._view.wait_in_sync(within_s=IN_SYNC_DEADLINE_S)
        self._outcome.problems += [f"not in sync {IN_SYNC_DEADLINE_S:g} s after healing: {each}" for each in missing]
        self._operators.look()
        self._outcome.problems += self._operators.problems
        self._outcome.problems += self._access.finish(self._view)
        self._tell("stopping the load")
        before = load.produced().acknowledged_count
        eventually(
            lambda: load.produced().acknowledged_count > before + FIRST_RECORDS,
            "records flow after healing",
            within_s=CREATE_DEADLINE_S,
        )
        load.stop_producers()
        final = self._view.read_everything(WRITTEN_TOPICS)
        load.stop_readers()
        group_problems, committed = self._stop_groups(load)
        self._outcome.problems += [*group_problems, *load.refusals()]
        return Noted(load.produced(), load.seen(), final, committed)

    def _topic_problems(self, found: set[str]) -> Iterator[str]:
        """Topics that are missing, and such as were deleted and are back."""
        wanted = {topic.name for topic in self._topics} | self._operators.topics
        yield from (f"topic {name} is gone" for name in sorted(wanted - found))
        known = wanted | {GROUP_TOPIC} | self._operators.perhaps_created
        yield from (f"topic {name} is back after its deletion" for name in sorted(found - known))

    def _load_problems(self) -> Iterator[str]:
        """Brokers that were kept too busy, or took too much memory, by whatever clients did."""
        for broker in self._cluster.members.of(BROKER):
            if (delay_s := self._cluster.longest_delay_s(broker)) > LOOP_DELAY_S_MAX:
                story = self._cluster.longest_delay_story(broker)
                yield f"the event loop of {broker} was held up for {delay_s:.2f} s of CPU time: {story}"
            if (peak_bytes := self._cluster.memory_peak_bytes(broker)) > MEMORY_BYTES_MAX:
                yield f"{broker} took {peak_bytes >> 20} MiB of memory"

    def _judge(self, noted: Noted, partitions: Partitions, *, steadily_led: Sequence[tuple[str, int]]) -> None:
        """Compares what clients have noted with what the brokers, which have stopped, have in their files.

        Args:
            noted: what clients have noted.
            partitions: of all topics.
            steadily_led: where one acknowledgement was enough, since nobody else has ever led.
        """
        cluster, outcome = self._cluster, self._outcome
        writers = writers_in_log(cluster, partitions)
        outcome.problems += problems_of(noted.produced, noted.readers, noted.final, writers)
        outcome.problems += [
            f"with acks=1 and one leader: {problem}"
            for problem in lost_records(noted.produced, noted.final, keeping=[Keeps.NOTHING_SURE], only=steadily_led)
        ]
        outcome.problems += all_sequence_problems(cluster, partitions)
        outcome.problems += offset_problems(noted.committed, committed_in_log(cluster, partitions))
        outcome.problems += self._retention_problems(partitions)
        compacted = names_of(Keeps.LAST_VALUES)
        kept = sum(len(records) for (topic, _), records in noted.final.items() if topic in compacted)
        outcome.counts = {
            "acknowledged": noted.produced.acknowledged_count,
            "unanswered": noted.produced.failed_count,
            "seen": sum(reader.seen_count for reader in noted.readers),
            "told of commits": len(noted.committed),
            "sent again in a new epoch": count_sent_again(noted.final, writers),
            "compacted away": noted.produced.count_of(compacted) - kept,
            "lost with acks=1": len(list(lost_records(noted.produced, noted.final, keeping=[Keeps.NOTHING_SURE]))),
            "partitions with acks=1 and one leader": len(steadily_led),
            "ms of the longest delay": round(1000 * max(map(cluster.longest_delay_s, cluster.members.of(BROKER)))),
            **{f"operators: {what}": count for what, count in sorted(self._operators.counts.items())},
            **self._access.told_counts(),
            **{f"hostile: {what}": count for what, count in sorted(self._hostile.counts.items())},
        }

    def _retention_problems(self, partitions: Partitions) -> Iterator[str]:
        """Logs that have deleted more than `retention.bytes` allows."""
        for topic in names_of(Keeps.NEWEST):
            for log, begins_at, size_bytes in retained_bytes(self._cluster, partitions, topic):
                if begins_at > 0 and size_bytes < RETENTION_BYTES:
                    yield f"{log} begins at {begins_at} and has {size_bytes} bytes, fewer than {RETENTION_BYTES}"

    def _stop_groups(self, load: Load) -> tuple[list[str], list[CommitEvent]]:
        """What was wrong with the groups, and what they were told; a member that does not end is a problem, too."""
        try:
            return load.stop_groups()
        except AssertionError as error:
            return [str(error)], []

    def _tell(self, what: str) -> None:
        with self._story.open("a") as story:
            story.write(f"{time.strftime('%H:%M:%S', time.gmtime())} {what}\n")
