"""The cluster of a trial: etcd members, controllers, group coordinators and brokers, each a process of its own.

Every process has an address of its own (see `network.py`), so all of one kind use the same ports. Leases and
timeouts are short, so that a trial of a minute sees many of them run out. A broker's data lies on a small file system
of its own if its disk is to run full, and a service that will see its clock jump runs with libfaketime.
"""

import os
import shutil
import signal
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

from ottla.local.etcd_binary import find_etcd
from tests.faults import faulty_disk
from tests.faults.access.secured_clients import LoadUsers, SecuredClients
from tests.faults.cluster_process import ClusterProcess, look_at, wait_until_ready
from tests.faults.fault import BROKER, CONTROLLER, COORDINATOR, ETCD, Members, id_of, role_of
from tests.faults.inner_security import InnerSecurity
from tests.faults.network import Network
from tests.faults.synced_files import drop_unsynced
from tests.support.clusters import watched_service
from tests.support.eventually import eventually
from tests.support.machine.small_disk import fill, small_disk

CLUSTER_NAME = "faults"
KAFKA_PORT, RPC_PORT, ETCD_CLIENT_PORT, ETCD_PEER_PORT = 9092, 9000, 2379, 2380
RACKS = ("a", "b", "c")
LEASE_TTL_MS = 3000
REPLICA_LAG_MAX_MS = 4000
ETCD_HEARTBEAT_MS, ETCD_ELECTION_MS = 100, 1000
DISK_BYTES_MIN = 256 * 1024 * 1024
LEFT_ON_FULL_DISK_BYTES = (0, 4096, 64 * 1024, 1024 * 1024)
START_DEADLINE_S = 60.0
STOP_DEADLINE_S = 40.0
LOOK_INTERVAL_S = 0.1
REPOSITORY = Path(__file__).parents[2]
SHARED_MEMORY = Path("/dev/shm")
FAKETIME_LIBRARIES = "/usr/lib/*/faketime/libfaketimeMT.so.1"
READY_LINES = {ETCD: b"ready to serve client requests"}
READY_LINE = b'"event": "ready"'
PROGRAMS = {
    BROKER: ("ottla_broker",),
    CONTROLLER: ("ottla_controller",),
    COORDINATOR: ("ottla_group_coordinator",),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSettings:
    """What differs between clusters.

    Attributes:
        lease_ttl_ms: how long a silent process keeps its place.
        services: more settings, by role.
        programs: what Python runs for each role: a module and its first arguments.
        jumping_clocks: the services whose clocks may be set wrong.
        small_disks: the brokers whose disks may run full.
        disk_bytes: how large these are, in memory.
        faulty_disks: the brokers whose disks may be slow, hang, fail, or lack descriptors.
        watched: whether brokers note how long their event loops were held up.
        secure: whether processes, and brokers among each other, show certificates, etcd knows them as its users, and
            the load has a listener with logins and rights.
        mirror_workers: the mirror workers that have certificates of the cluster for their REST API, if it is secure.
        users: of the load, mirror workers and links in a secure cluster; nobody else may do anything there.
    """

    lease_ttl_ms: int = LEASE_TTL_MS
    services: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    programs: Mapping[str, Sequence[str]] = field(default_factory=dict)
    jumping_clocks: Collection[str] = ()
    small_disks: Collection[str] = ()
    disk_bytes: int = DISK_BYTES_MIN
    faulty_disks: Collection[str] = ()
    watched: bool = False
    secure: bool = False
    mirror_workers: Sequence[str] = ()
    users: LoadUsers = field(default_factory=LoadUsers)


class Cluster:
    """All processes; leaving it kills those that still run and takes the disks away.

    Attributes:
        processes: by name, in the order of their start.
        bootstrap: the addresses of all brokers.
        security: the certificates, if it is secure.
        clients: the users of the load, if it is secure.
    """

    def __init__(self, directory: Path, network: Network, members: Members, settings: ClusterSettings):
        self.members = members
        self.directory = directory
        self._network = network
        self._settings = settings
        self._closing = ExitStack()
        self.bootstrap = ",".join(f"{network.address_of(name)}:{KAFKA_PORT}" for name in members.of(BROKER))
        self.security = (
            InnerSecurity(directory, CLUSTER_NAME, members, network, settings.mirror_workers)
            if settings.secure
            else None
        )
        self.clients = (
            SecuredClients(directory, members, network, settings.users, self.security)
            if self.security is not None
            else None
        )
        self._scheme = "https" if settings.secure else "http"
        self.etcd_endpoints = [
            f"{self._scheme}://{network.address_of(each)}:{ETCD_CLIENT_PORT}" for each in members.of(ETCD)
        ]
        self.processes = {name: self._process(name) for name in members.all}

    def __enter__(self) -> Self:
        try:
            for name in self._settings.small_disks:
                self._closing.enter_context(small_disk(self.disk_of(name), size_bytes=self._settings.disk_bytes))
        except BaseException:
            self._closing.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            for process in self.processes.values():
                process.kill()
            for name in self._settings.jumping_clocks:
                remove_what_faketime_left(self.processes[name].pids)
        finally:
            self._closing.close()

    def start(self) -> None:
        """Starts everything and waits until it is ready; the first controller leads at the beginning."""
        first = self.processes[self.members.of(CONTROLLER)[0]]
        for name in self.members.of(ETCD):
            self.processes[name].start()
        if self.security is not None:
            self.security.make_users(self.etcd_endpoints[0])
        first.start()
        eventually(first.is_ready, f"{first.name} is ready", within_s=START_DEADLINE_S)
        for process in self.processes.values():
            process.start()
        self.wait_ready(within_s=START_DEADLINE_S)

    def look(self) -> None:
        """Sees what has ended, and starts what shall run."""
        look_at(self.processes.values())

    def wait_ready(self, *, within_s: float) -> None:
        """Waits until every process is ready."""
        wait_until_ready(self.processes.values(), within_s=within_s)

    def stop(self) -> None:
        """Stops the services cleanly, one after the other as an operator would, and then etcd."""
        for name in (*self.members.of(BROKER), *self.members.of(COORDINATOR), *self.members.of(CONTROLLER)):
            process = self.processes[name]
            process.begin_stop()
            eventually(process.has_stopped, f"{name} has stopped", within_s=STOP_DEADLINE_S)
        for name in self.members.of(ETCD):
            self.processes[name].kill()

    def etcdctl_options(self) -> list[str]:
        """What etcdctl needs to reach etcd."""
        return [] if self.security is None else self.security.etcdctl_options()

    def problems(self) -> Iterator[str]:
        """Processes that ended by themselves."""
        for process in self.processes.values():
            yield from process.problems

    def kafka_address(self, broker: str) -> tuple[str, int]:
        """Where a broker listens for clients."""
        return self._network.address_of(broker), KAFKA_PORT

    def disk_of(self, broker: str) -> Path:
        """The file system of a broker's data, if it has one of its own."""
        return self.directory / broker / "disk"

    def data_of(self, broker: str) -> Path:
        """A broker's log directory."""
        return self.disk_of(broker) / "data"

    def wipe(self, broker: str) -> None:
        """Deletes a broker's data; it must not run."""
        shutil.rmtree(self.data_of(broker), ignore_errors=True)

    def fill_disk(self, broker: str) -> None:
        """Takes up all the space that is left, or nearly so: the broker writes meanwhile, and takes up the rest."""
        refusals = []
        for leave_bytes in LEFT_ON_FULL_DISK_BYTES:
            try:
                fill(self.disk_of(broker), leave_bytes=leave_bytes)
            except OSError as error:
                refusals.append(f"{leave_bytes}: {error}")
            else:
                return
        raise AssertionError(f"cannot fill the disk of {broker}: {refusals}")

    def empty_disk(self, broker: str) -> None:
        """Undoes `fill_disk`."""
        (self.disk_of(broker) / "ballast").unlink(missing_ok=True)

    def trouble_disk(self, broker: str, mode: str) -> None:
        """Has a broker's disk be in a mode of `faulty_disk.py`; an empty one ends that."""
        control = self._disk_control(broker)
        if mode:
            new = control.with_suffix(".new")
            new.write_text(mode)
            new.replace(control)
        else:
            control.unlink(missing_ok=True)

    def drop_unsynced(self, broker: str) -> int:
        """Has a broker's disk lose what it took while it refused fsyncs; returns the bytes. It must not run."""
        return drop_unsynced(faulty_disk.lost_note(self._disk_control(broker)))

    def set_clock(self, name: str, jump_s: int) -> None:
        """Has a service's wall clock be wrong by some seconds; it notices within a second."""
        clock = self._clock_file(name)
        new = clock.with_suffix(".new")
        new.write_text(f"{jump_s:+d}\n")
        new.replace(clock)

    def longest_delay_s(self, broker: str) -> float:
        """How much CPU time a broker's event loop has spent on something else while others waited, at the longest."""
        return watched_service.longest_delay_seconds(self._delays_file(broker))

    def longest_delay_story(self, broker: str) -> str:
        """What was seen of the broker during that time."""
        return watched_service.longest_delay_story(self._delays_file(broker))

    def memory_peak_bytes(self, broker: str) -> int:
        """The largest resident set of a broker since its last start; it must run."""
        status = Path(f"/proc/{self.processes[broker].pids[-1]}/status").read_text()
        (peak_kib,) = [line.split()[1] for line in status.splitlines() if line.startswith("VmHWM:")]
        return int(peak_kib) * 1024

    def _delays_file(self, name: str) -> Path:
        return self.directory / name / "loop-delay"

    def _disk_control(self, name: str) -> Path:
        return self.directory / name / "disk-fault"

    def _clock_file(self, name: str) -> Path:
        return self.directory / name / "clock"

    def _process(self, name: str) -> ClusterProcess:
        directory = self.directory / name
        directory.mkdir(parents=True, exist_ok=True)
        role = role_of(name)
        command = self._etcd_command(name) if role == ETCD else self._service_command(name)
        return ClusterProcess(
            name,
            self._network.inside(name, command),
            log=directory / f"{name}.log",
            ready_line=READY_LINES.get(role, READY_LINE),
            # etcd closes everything, and then ends by the signal itself.
            clean_exit_codes=(0, -signal.SIGTERM) if role == ETCD else (0,),
            env=self._environment(name),
        )

    def _etcd_command(self, name: str) -> list[str]:
        def peer(member: str) -> str:
            return f"{self._scheme}://{self._network.address_of(member)}:{ETCD_PEER_PORT}"

        client = f"{self._scheme}://{self._network.address_of(name)}:{ETCD_CLIENT_PORT}"
        flags = {
            "name": name,
            "data-dir": str(self.directory / name / "data"),
            "listen-client-urls": client,
            "advertise-client-urls": client,
            "listen-peer-urls": peer(name),
            "initial-advertise-peer-urls": peer(name),
            "initial-cluster": ",".join(f"{each}={peer(each)}" for each in self.members.of(ETCD)),
            "heartbeat-interval": str(ETCD_HEARTBEAT_MS),
            "election-timeout": str(ETCD_ELECTION_MS),
            "log-level": "info",
            **(self.security.etcd_flags(name) if self.security is not None else {}),
        }
        # What is written survives kill -9 without fsync, and the machine does not crash here.
        return [str(find_etcd().path), *(f"--{key}={value}" for key, value in flags.items()), "--unsafe-no-fsync"]

    def _service_command(self, name: str) -> list[str]:
        role = role_of(name)
        address = self._network.address_of(name)
        properties = {
            "node.id": str(id_of(name)),
            "rpc.listener": f"{address}:{RPC_PORT}",
            "etcd.endpoints": ",".join(self.etcd_endpoints),
            "cluster.name": CLUSTER_NAME,
            "member.lease.ttl.ms": str(self._settings.lease_ttl_ms),
        }
        if role == BROKER:
            properties |= {
                "listeners": f"PLAINTEXT://{address}:{KAFKA_PORT}",
                "log.dirs": str(self.data_of(name)),
                "broker.rack": RACKS[(id_of(name) - 1) % len(RACKS)],
                **BROKER_PROPERTIES,
            }
            if self.security is not None:
                properties |= self.security.listener_properties(name, properties["listeners"], address)
            if self.clients is not None:
                properties |= self.clients.broker_properties(properties["listeners"], address)
        if self.security is not None:
            properties |= self.security.process_properties(name)
        if role == CONTROLLER and self.clients is not None:
            properties |= self.clients.controller_properties()
        if role == CONTROLLER:
            properties["min.insync.replicas"] = BROKER_PROPERTIES["min.insync.replicas"]
        properties |= self._settings.services.get(role, {})
        config = self.directory / name / f"{name}.properties"
        config.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
        program = self._settings.programs.get(role, PROGRAMS[role])
        if name in self._settings.faulty_disks:
            program = (faulty_disk.PROGRAM, str(self._disk_control(name)), *program)
        if role == BROKER and self._settings.watched:
            program = (watched_service.PROGRAM, str(self._delays_file(name)), *program)
        return [sys.executable, "-m", *program, "--config", str(config)]

    def _environment(self, name: str) -> dict[str, str]:
        environment = python_environment()
        if name not in self._settings.jumping_clocks:
            return environment
        self.set_clock(name, 0)
        return environment | {
            "LD_PRELOAD": str(faketime_library()),
            "FAKETIME_TIMESTAMP_FILE": str(self._clock_file(name)),
            "FAKETIME_CACHE_DURATION": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "FAKETIME_DISABLE_SHM": "1",
            "NO_FAKE_STAT": "1",
        }


BROKER_PROPERTIES = {
    "auto.create.topics.enable": "false",
    "offsets.topic.num.partitions": "4",
    "offsets.topic.replication.factor": "3",
    "min.insync.replicas": "2",
    "replica.lag.time.max.ms": str(REPLICA_LAG_MAX_MS),
    "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
    # `__consumer_offsets` stays whole all the same: a trial does not fill its first segments.
    "log.cleaner.backoff.ms": "500",
    "log.retention.check.interval.ms": "1000",
    # Small, so that there are many checkpoints to be wrong at a crash.
    "log.flush.offset.checkpoint.interval.ms": "2000",
    "replica.high.watermark.checkpoint.interval.ms": "1000",
}


def python_environment() -> dict[str, str]:
    """Variables for a program of this repository; it may be another copy of it than the installed one."""
    paths = [str(REPOSITORY), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {"PYTHONUNBUFFERED": "1", "PYTHONPATH": os.pathsep.join(paths), "PYTHONDONTWRITEBYTECODE": ""}


def remove_what_faketime_left(pids: Iterable[int]) -> None:
    """Removes the shared memory that libfaketime makes for a process, and leaves there when the process is killed."""
    for pid in pids:
        for name in (f"faketime_shm_{pid}", f"sem.faketime_sem_{pid}"):
            (SHARED_MEMORY / name).unlink(missing_ok=True)


def faketime_library() -> Path | None:
    """Debian's libfaketime, if it is installed."""
    named = os.environ.get("OTTLA_TEST_FAKETIME")
    found = [Path(named)] if named else sorted(Path("/").glob(FAKETIME_LIBRARIES.lstrip("/")))
    return next(iter(found), None)
