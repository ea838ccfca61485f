"""Ottla's services as single processes that a test may kill and start again: etcd, controller, coordinators, broker.

`ottla up` looks after its processes, so a test that crashes a broker starts the services itself, each by its own
command and a properties file. The broker keeps its port and data over restarts. Member leases are short, so that
a killed broker's place is free again soon.
"""

import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from tests.faults import faulty_disk
from tests.support.child_process import ChildProcess
from tests.support.clients.raw_client import RawClient, Silence
from tests.support.clients.raw_requests import metadata_request
from tests.support.clusters.etcd_process import EtcdProcess
from tests.support.eventually import eventually
from tests.support.free_ports import LOOPBACK, free_ports

START_DEADLINE_S = 60.0
MEMBER_LEASE_TTL_MS = 1500
NODE_ID = 1


class RestartableBroker(Protocol):
    """A broker that tests may crash: `BrokerProcess` below, or `ReferenceKafka`."""

    data: Path
    process: ChildProcess

    @property
    def bootstrap(self) -> str: ...

    def start(self) -> None:
        """Starts it on the data of its last run and waits until it answers."""

    def stop(self) -> None:
        """A clean stop."""

    def kill(self) -> None:
        """A crash."""


class ControllerProcess:
    """One `ottla-controller`."""

    def __init__(
        self,
        directory: Path,
        etcd: EtcdProcess,
        *,
        number: int = NODE_ID,
        logs: Path | None = None,
        settings: Mapping[str, str] | None = None,
        watch: bool = False,
    ):
        (self.rpc_port,) = free_ports(1)
        properties = {
            "node.id": str(number),
            "rpc.listener": f"{LOOPBACK}:{self.rpc_port}",
            **_etcd_properties(etcd),
            **(settings or {}),
        }
        self.process = _service("ottla-controller", directory, properties, logs, watch)

    def start(self) -> None:
        self.process.start()

    def stop(self) -> None:
        self.process.stop()


class GroupCoordinatorProcess:
    """One `ottla-group-coordinator`; after a kill its successor waits until the lease has run out."""

    def __init__(
        self,
        directory: Path,
        etcd: EtcdProcess,
        *,
        number: int = NODE_ID,
        logs: Path | None = None,
        settings: Mapping[str, str] | None = None,
        watch: bool = False,
    ):
        (rpc_port,) = free_ports(1)
        properties = {
            "node.id": str(number),
            "rpc.listener": f"{LOOPBACK}:{rpc_port}",
            **_etcd_properties(etcd),
            **(settings or {}),
        }
        self.process = _service("ottla-group-coordinator", directory, properties, logs, watch)

    def start(self) -> None:
        self.process.start()

    def stop(self) -> None:
        self.process.stop()

    def kill(self) -> None:
        self.process.kill()


class BrokerProcess:
    """One `ottla-broker`.

    Attributes:
        number: its id.
        data: its only log directory.

    With `disk_control` its disk is in the mode that this file says (`tests/faults/faulty_disk.py`).
    """

    def __init__(
        self,
        directory: Path,
        etcd: EtcdProcess,
        *,
        number: int = NODE_ID,
        data: Path | None = None,
        logs: Path | None = None,
        settings: Mapping[str, str] | None = None,
        more_listeners: Sequence[str] = (),
        watch: bool = False,
        disk_control: Path | None = None,
        environment: Mapping[str, str] | None = None,
    ):
        self.number = number
        self.port, self.rpc_port = free_ports(2)
        self.data = data or directory / "data"
        properties = {
            "node.id": str(number),
            "listeners": ",".join((f"PLAINTEXT://{LOOPBACK}:{self.port}", *more_listeners)),
            "rpc.listener": f"{LOOPBACK}:{self.rpc_port}",
            "log.dirs": str(self.data),
            **_etcd_properties(etcd),
            **(settings or {}),
        }
        self.process = _service("ottla-broker", directory, properties, logs, watch, disk_control, environment)

    @property
    def bootstrap(self) -> str:
        return f"{LOOPBACK}:{self.port}"

    def start(self) -> None:
        self.process.start()
        eventually(self.is_ready, "the broker answers and knows itself", within_s=START_DEADLINE_S)

    def stop(self) -> None:
        self.process.stop()

    def kill(self) -> None:
        self.process.kill()

    def is_ready(self) -> bool:
        self.process.check_running()
        try:
            with RawClient(LOOPBACK, self.port) as client:
                known = client.ask(metadata_request([])).brokers
        except (OSError, Silence):
            return False
        return (LOOPBACK, self.port) in [(member.host, member.port) for member in known]


class SingleBrokerServices:
    """An etcd, a controller, group coordinators and a broker, started in this order and stopped in the other.

    The broker's data and the services' logs may lie elsewhere than in `directory`. Most tests of a single broker need
    no consumer groups, so there are no coordinators unless they are asked for. With `watch` each process notes in
    `delays_file` of its directory how long its event loop was held up (`watched_service`).
    """

    def __init__(
        self,
        directory: Path,
        *,
        data: Path | None = None,
        logs: Path | None = None,
        coordinators: int = 0,
        broker_settings: Mapping[str, str] | None = None,
        controller_settings: Mapping[str, str] | None = None,
        coordinator_settings: Mapping[str, str] | None = None,
        watch: bool = False,
    ):
        self.etcd = EtcdProcess(directory / "etcd")
        self.controller = ControllerProcess(
            directory / "controller", self.etcd, logs=logs, settings=controller_settings, watch=watch
        )
        self.coordinators = [
            GroupCoordinatorProcess(
                directory / f"group-coordinator-{number}",
                self.etcd,
                number=number,
                logs=None if logs is None else logs / f"group-coordinator-{number}",
                settings=coordinator_settings,
                watch=watch,
            )
            for number in range(1, coordinators + 1)
        ]
        self.broker = BrokerProcess(
            directory / "broker", self.etcd, data=data, logs=logs, settings=broker_settings, watch=watch
        )

    def __enter__(self) -> Self:
        try:
            (self.etcd.directory).mkdir(parents=True, exist_ok=True)
            self.etcd.start()
            self.controller.start()
            for coordinator in self.coordinators:
                coordinator.start()
            self.broker.start()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def _end(self) -> None:
        try:
            self.broker.stop()
            for coordinator in self.coordinators:
                coordinator.stop()
            self.controller.stop()
        finally:
            self.broker.kill()
            for coordinator in self.coordinators:
                coordinator.kill()
            self.controller.process.kill()
            self.etcd.stop()


def service_command(name: str) -> str:
    """The installed command of a service, next to the running interpreter or on PATH."""
    beside = Path(sys.executable).parent / name
    found = str(beside) if beside.exists() else shutil.which(name)
    assert found, f"the `{name}` command is not installed in this environment"
    return found


def _etcd_properties(etcd: EtcdProcess) -> dict[str, str]:
    return {
        "etcd.endpoints": etcd.endpoint,
        "cluster.name": "test",
        "member.lease.ttl.ms": str(MEMBER_LEASE_TTL_MS),
    }


def delays_file(directory: Path) -> Path:
    """Where a watched service notes how long its event loop was held up."""
    return directory / "loop-delay"


def _service(
    name: str,
    directory: Path,
    properties: Mapping[str, str],
    logs: Path | None,
    watch: bool,
    disk_control: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> ChildProcess:
    directory.mkdir(parents=True, exist_ok=True)
    config = directory / f"{name}.properties"
    config.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
    program = [service_command(name)]
    if watch:
        module = f"{name.replace('-', '_')}.app"
        program = [
            sys.executable,
            "-m",
            "tests.support.clusters.watched_service",
            str(delays_file(directory)),
            module,
        ]
    elif disk_control is not None:
        program = [sys.executable, "-m", faulty_disk.PROGRAM, str(disk_control), name.replace("-", "_")]
    return ChildProcess(
        name, [*program, "--config", str(config)], log=(logs or directory) / f"{name}.log", env=environment
    )
