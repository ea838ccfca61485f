"""A cluster of two or three of everything, each process of which may be exchanged for one of another release.

Beside the brokers, controllers and coordinators there are two Connect workers with a source and a sink, and a mirror
worker that copies a topic to a second cluster. A process is stopped as `docker stop` does, and started with a program
of a release; the next one is touched only when all is well again, as an operator would do it.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.support.child_process import ChildProcess
from tests.support.clients.raw_requests import metadata_request
from tests.support.clusters.ottla_cluster import OttlaCluster
from tests.support.clusters.releases import Release
from tests.support.clusters.replicated_cluster import ReplicatedCluster
from tests.support.clusters.service_process import GroupCoordinatorProcess
from tests.support.connect.connect_cluster import ConnectCluster
from tests.support.eventually import eventually
from tests.support.mirror.mirror_worker import MirrorWorkerProcess

STEADY_TOPIC, GROUP_TOPIC = "steady", "__consumer_offsets"
PARTITIONS = 2
BACK_DEADLINE_S = 60.0
READY = '"event": "ready"'
SETTINGS = {
    "min.insync.replicas": "2",
    "offsets.topic.replication.factor": "3",
    "offsets.topic.num.partitions": "4",
    "default.replication.factor": "3",
}
MIRROR = {
    "clusters": "here, there",
    "here->there.enabled": "true",
    "here->there.topics": STEADY_TOPIC,
    "replication.factor": "1",
    "checkpoints.topic.replication.factor": "1",
    "heartbeats.topic.replication.factor": "1",
    "offset-syncs.topic.replication.factor": "1",
}


class RollingCluster:
    """All processes, started with one release.

    Attributes:
        brokers: the cluster's, with its controllers and etcd.
        connect: its Connect workers.
        mirror: what copies to `there`.
        lines: the file that the source connector follows.
        archive: the folder into which the sink writes what the source has read.
    """

    def __init__(self, directory: Path, release: Release) -> None:
        self.lines, self.archive = directory / "lines.txt", directory / "archive"
        self._directory = directory
        self._release = release
        self.brokers = ReplicatedCluster(
            directory,
            brokers=3,
            controllers=2,
            broker_settings=SETTINGS,
            controller_settings={"min.insync.replicas": "2"},
        )
        self.coordinators = [
            GroupCoordinatorProcess(directory / f"coordinator-{number}", self.brokers.etcd, number=number)
            for number in (1, 2)
        ]
        self._stack = ExitStack()

    @property
    def bootstrap(self) -> str:
        """The addresses of all brokers."""
        return self.brokers.bootstrap

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            for process in self._servers():
                process.command = self._release.command(process.command)
            stack.enter_context(self.brokers)
            for coordinator in self.coordinators:
                stack.callback(coordinator.kill)
                coordinator.start()
            self.brokers.create_topic(STEADY_TOPIC, partitions=PARTITIONS)
            self._start_connect(stack)
            self._start_mirror(stack)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def _servers(self) -> Iterator[ChildProcess]:
        yield from (each.process for each in self.brokers.controllers)
        yield from (each.process for each in self.coordinators)
        yield from (each.process for each in self.brokers.brokers.values())

    def _start_connect(self, stack: ExitStack) -> None:
        self.lines.touch()
        self.archive.mkdir()
        stores = {f"{store}.storage.replication.factor": "3" for store in ("config", "offset", "status")}
        stores["session.timeout.ms"] = "6000"  # the least that brokers allow by default
        self.connect = ConnectCluster(self._directory, self.bootstrap, workers=2, settings=stores)
        for worker in self.connect.workers:
            worker.process.command = self._release.command(worker.process.command)
        stack.enter_context(self.connect)
        self.connect.put_connector("lines", _source(self.lines))
        self.connect.put_connector("archive", _sink(self.archive))

    def _start_mirror(self, stack: ExitStack) -> None:
        self.there = stack.enter_context(OttlaCluster(self._directory / "there"))
        addresses = {"here.bootstrap.servers": self.bootstrap, "there.bootstrap.servers": self.there.bootstrap}
        self.mirror = MirrorWorkerProcess(self._directory / "mirror", MIRROR | addresses)
        self.mirror.process.command = self._release.command(self.mirror.process.command)
        stack.enter_context(self.mirror)

    # Exchanging processes

    def roles(self) -> dict[str, Callable[[Release], None]]:
        """Return what exchanges all processes of a role, one after the other, in the order that the docs tell."""
        return {
            "controllers": self.exchange_controllers,
            "coordinators": self.exchange_coordinators,
            "brokers": self.exchange_brokers,
            "connect": self.exchange_connect,
            "mirror": self.exchange_mirror,
        }

    def exchange_controllers(self, release: Release) -> None:
        """Exchange one controller after the other."""
        for controller in self.brokers.controllers:
            _exchange_one(controller.process, release)

    def exchange_coordinators(self, release: Release) -> None:
        """Exchange one group coordinator after the other."""
        for coordinator in self.coordinators:
            _exchange_one(coordinator.process, release)

    def exchange_brokers(self, release: Release) -> None:
        """Exchange one broker after the other, each when the replicas of the former are in sync again."""
        for number, broker in self.brokers.brokers.items():
            _stop(broker.process)
            broker.process.command = release.command(broker.process.command)
            broker.start()
            eventually(
                lambda: not self._behind(), f"the replicas of broker {number} are in sync", within_s=BACK_DEADLINE_S
            )

    def exchange_connect(self, release: Release) -> None:
        """Exchange one Connect worker after the other."""
        for worker in self.connect.workers:
            worker.stop()
            worker.process.command = release.command(worker.process.command)
            worker.start()
            worker.wait_until_ready()
            eventually(self._connectors_run, "the connectors run", within_s=BACK_DEADLINE_S)

    def exchange_mirror(self, release: Release) -> None:
        """Exchange the mirror worker."""
        _stop(self.mirror.process)
        self.mirror.process.command = release.command(self.mirror.process.command)
        self.mirror.start()

    def _connectors_run(self) -> bool:
        states = [state for name in ("lines", "archive") for state in self.connect.states(name).values()]
        return len(states) == 4 and set(states) == {"RUNNING"}

    def _behind(self) -> list[str]:
        """Partitions that lack somebody in sync, or a leader."""
        told = self.brokers.ask(metadata_request(None))
        return [
            f"{topic.name}-{each.partition_index}"
            for topic in told.topics
            for each in topic.partitions
            if each.leader_id < 1 or set(each.isr_nodes) != set(each.replica_nodes)
        ]


def _stop(process: ChildProcess) -> None:
    assert process.stop() == 0, f"{process.name} did not stop cleanly; its log ends:\n{process.log_tail()}"


def _exchange_one(process: ChildProcess, release: Release) -> None:
    _stop(process)
    process.command = release.command(process.command)
    starts = _starts(process)
    process.start()

    def ready() -> bool:
        process.check_running()
        return _starts(process) > starts

    eventually(ready, f"{process.name} is ready", within_s=BACK_DEADLINE_S)


def _starts(process: ChildProcess) -> int:
    return process.log.read_text(errors="replace").count(READY)


def _source(lines: Path) -> dict[str, str]:
    return {
        "connector.class": "ottla_file.FileSource",
        "topic": "lines",
        "file.path": str(lines),
        "file.poll.interval.ms": "50",
        "value.converter": "StringConverter",
    }


def _sink(archive: Path) -> dict[str, str]:
    return {
        "connector.class": "ottla_file.FileSink",
        "topics": "lines",
        "value.converter": "StringConverter",
        "file.directory": str(archive),
        "file.content": "record",
        "file.roll.rows": "200",
        "file.roll.ms": "500",
    }


def archived(archive: Path) -> list[Any]:
    """Return the values that the sink has written, in the order of files."""
    finished = [path for path in archive.rglob("*.jsonl") if ".unfinished" not in path.parts]
    return [json.loads(line)["value"] for path in sorted(finished) for line in path.read_text().splitlines()]
