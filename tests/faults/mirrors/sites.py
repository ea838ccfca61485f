"""Two clusters and the mirror workers between them: what a trial of mirrors breaks.

The source is small, and its topics have as many replicas as it has brokers. The target is a cluster like that of
other trials. Faults name their processes, and a name says where it belongs: `west.broker-1`, `east.etcd-1`,
`mirror-2`.
"""

import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.faults.access.secured_clients import LoadUsers
from tests.faults.cluster import START_DEADLINE_S, Cluster, ClusterSettings, python_environment
from tests.faults.cluster_files import log_problems
from tests.faults.cluster_process import ClusterProcess, look_at, wait_until_ready
from tests.faults.fault import BROKER, CONTROLLER, COORDINATOR, Members, site_of
from tests.faults.load import refused_lines
from tests.faults.mirrors.ledger_load import source_rights_of_ledgers, target_rights_of_ledgers
from tests.faults.mirrors.mirror_load import ABILITIES, MIRROR, source_rights, target_rights, worker_names
from tests.faults.mirrors.operated_topics import GROWING, REBORN
from tests.faults.network import Network
from tests.faults.topics import COPIED_TOPICS, GROUP_LOAD_TOPIC, LEDGER, SOURCE, TARGET
from tests.support.eventually import eventually
from tests.support.mirror.mirror_worker import QUICK

FLOW = f"{SOURCE}->{TARGET}"
REST_PORT = 8083
SOURCE_MEMBERS = Members(brokers=2, controllers=1, coordinators=1, etcd=1, site=SOURCE)
TARGET_MEMBERS = Members(brokers=3, controllers=2, coordinators=1, etcd=1, site=TARGET)
SOURCE_FACTOR, TARGET_FACTOR = 2, 3
LEASE_TTL_MS = 8000
"""Longer than in other trials, as there are twice as many processes, which may wait for a processor for long."""
REPLICA_LAG_MAX_MS = "10000"
SOURCE_SERVICES = {
    BROKER: {
        "offsets.topic.replication.factor": str(SOURCE_FACTOR),
        "transaction.state.log.num.partitions": "4",
        "transaction.state.log.replication.factor": str(SOURCE_FACTOR),
        "transaction.state.log.min.isr": "1",
        "min.insync.replicas": "1",
        "replica.lag.time.max.ms": REPLICA_LAG_MAX_MS,
    },
    CONTROLLER: {"min.insync.replicas": "1"},
    COORDINATOR: {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000"},
}
"""So that the source goes on with one broker; what only that one has is not lost, as no disk of it ever is."""
EXACTLY_ONCE = {"exactly.once.source.support": "enabled", "offset.flush.interval.ms": "300"}
WORKER_READY_LINE = b'"event": "serving"'
PROGRAM = ("ottla_mirror",)
STOP_DEADLINE_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteSettings:
    """What differs between trials.

    Attributes:
        programs: what Python runs for roles of the target and for `MIRROR`, in place of the service.
        small_disks: the target's brokers whose disks may run full.
        disk_bytes: how large these are, in memory.
        secure: as in `ClusterSettings`, of both clusters; workers and the link are users of their own there, and
            workers answer those who show a certificate.
        seed: draws the mechanisms of users.
        exactly_once: whether the workers write in transactions.
    """

    programs: Mapping[str, Sequence[str]] = field(default_factory=dict)
    small_disks: Collection[str] = ()
    disk_bytes: int = 0
    secure: bool = False
    seed: int = 0
    exactly_once: bool = False


class Sites:
    """Both clusters and the workers; leaving it kills what still runs.

    Attributes:
        source: the cluster that is mirrored.
        target: the cluster that mirrors it.
        workers: the mirror workers.
        processes: all processes by name.
    """

    def __init__(self, directory: Path, network: Network, settings: SiteSettings) -> None:
        self._directory = directory
        self._network = network
        self._settings = settings
        self._closing = ExitStack()
        self.source = Cluster(
            directory,
            network,
            SOURCE_MEMBERS,
            ClusterSettings(
                services=SOURCE_SERVICES,
                lease_ttl_ms=LEASE_TTL_MS,
                secure=settings.secure,
                users=LoadUsers(
                    rights={**source_rights(), **source_rights_of_ledgers()}, abilities=ABILITIES, seed=settings.seed
                ),
            ),
        )
        self.target = Cluster(
            directory,
            network,
            TARGET_MEMBERS,
            ClusterSettings(
                lease_ttl_ms=LEASE_TTL_MS,
                services={BROKER: {"replica.lag.time.max.ms": REPLICA_LAG_MAX_MS}},
                programs={role: each for role, each in settings.programs.items() if role != MIRROR},
                small_disks=settings.small_disks,
                disk_bytes=settings.disk_bytes,
                secure=settings.secure,
                mirror_workers=worker_names(),
                users=LoadUsers(
                    rights={**target_rights(), **target_rights_of_ledgers()},
                    abilities=ABILITIES,
                    seed=settings.seed + 1,
                ),
            ),
        )
        self.workers = [self._worker(name) for name in worker_names()]
        self.processes: Mapping[str, ClusterProcess] = {
            **self.source.processes,
            **self.target.processes,
            **{worker.name: worker for worker in self.workers},
        }

    def __enter__(self) -> Self:
        try:
            self._closing.enter_context(self.source)
            self._closing.enter_context(self.target)
            self._closing.callback(self._kill_workers)
        except BaseException:
            self._closing.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closing.close()

    def _kill_workers(self) -> None:
        for worker in self.workers:
            worker.kill()

    @property
    def clusters(self) -> tuple[Cluster, Cluster]:
        """Source and target."""
        return self.source, self.target

    def start_workers(self) -> None:
        """Starts the workers and waits until they serve."""
        for worker in self.workers:
            worker.start()
        wait_until_ready(self.workers, within_s=START_DEADLINE_S)

    def rest_url(self, worker: str) -> str:
        """Where a worker answers."""
        scheme = "https" if self._settings.secure else "http"
        return f"{scheme}://{self._network.address_of(worker)}:{REST_PORT}"

    def look(self) -> None:
        """See `Cluster.look`."""
        look_at(self.processes.values())

    def wait_ready(self, *, within_s: float) -> None:
        """Waits until every process is ready."""
        wait_until_ready(self.processes.values(), within_s=within_s)

    def stop(self) -> None:
        """Stops everything cleanly: the workers first, then the target, then the source."""
        for worker in self.workers:
            worker.begin_stop()
            eventually(worker.has_stopped, f"{worker.name} has stopped", within_s=STOP_DEADLINE_S)
        self.target.stop()
        self.source.stop()

    def problems(self) -> Iterator[str]:
        """Processes that ended by themselves, and what they logged that nobody expects."""
        for process in self.processes.values():
            yield from process.problems
        yield from log_problems(self.processes)
        for worker in self.workers:
            for line in refused_lines(worker.log.read_text(errors="replace") if worker.log.exists() else ""):
                yield f"{worker.name} was refused what it may do: {line[:300]}"

    def wipe(self, broker: str) -> None:
        self._cluster_of(broker).wipe(broker)

    def fill_disk(self, broker: str) -> None:
        self._cluster_of(broker).fill_disk(broker)

    def empty_disk(self, broker: str) -> None:
        self._cluster_of(broker).empty_disk(broker)

    def trouble_disk(self, broker: str, mode: str) -> None:
        self._cluster_of(broker).trouble_disk(broker, mode)

    def drop_unsynced(self, broker: str) -> int:
        return self._cluster_of(broker).drop_unsynced(broker)

    def set_clock(self, name: str, jump_s: int) -> None:
        self._cluster_of(name).set_clock(name, jump_s)

    def _cluster_of(self, name: str) -> Cluster:
        return self.source if site_of(name) == SOURCE else self.target

    def _worker(self, name: str) -> ClusterProcess:
        directory = self._directory / name
        directory.mkdir(parents=True, exist_ok=True)
        config = directory / f"{name}.properties"
        config.write_text("".join(f"{key} = {value}\n" for key, value in self._properties(name).items()))
        program = self._settings.programs.get(MIRROR, PROGRAM)
        command = [sys.executable, "-m", *program, "--config", str(config)]
        return ClusterProcess(
            name,
            self._network.inside(name, command),
            log=directory / f"{name}.log",
            ready_line=WORKER_READY_LINE,
            env=python_environment(),
        )

    def _properties(self, name: str) -> dict[str, str]:
        copied = [topic.name for topic in (*COPIED_TOPICS, LEDGER)]
        topics = [*copied, GROUP_LOAD_TOPIC, REBORN.copied, GROWING.copied]
        return {
            **QUICK,
            "clusters": f"{SOURCE}, {TARGET}",
            **_client_properties(self.source, name),
            **_client_properties(self.target, name),
            **(self.target.security.rest_properties(name) if self.target.security is not None else {}),
            f"{FLOW}.enabled": "true",
            f"{FLOW}.topics": ", ".join(topics),
            "group.id": "mirrors",
            "heartbeat.interval.ms": "1000",
            "listeners": self.rest_url(name),
            "replication.factor": str(TARGET_FACTOR),
            "session.timeout.ms": "8000",
            "sync.group.offsets.enabled": "true",
            **(EXACTLY_ONCE if self._settings.exactly_once else {}),
        }


def _client_properties(cluster: Cluster, worker: str) -> dict[str, str]:
    """How a worker comes to a cluster."""
    settings = {"bootstrap.servers": cluster.bootstrap}
    if cluster.clients is not None:
        settings = {
            "bootstrap.servers": cluster.clients.bootstrap_of(worker),
            **cluster.clients.access_of(worker).security_settings,
        }
    return {f"{cluster.members.site}.{key}": value for key, value in settings.items()}


def all_names() -> list[str]:
    """Every process of a trial of mirrors."""
    return [*SOURCE_MEMBERS.all, *TARGET_MEMBERS.all, *worker_names()]
