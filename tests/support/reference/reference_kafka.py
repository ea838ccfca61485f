"""A real Apache Kafka (KRaft) on free loopback ports: the oracle for the suites and the benchmarks.

    with ReferenceKafka(directory) as kafka:
        kafka.bootstrap  # "127.0.0.1:41233"

The storage is formatted at the first start and kept over `stop` and `start`; `kill` is a crash.
Run as a program it starts one and prints its address until it is interrupted:

    python -m tests.support.reference.reference_kafka DIRECTORY [PORT]

`ReferenceKafkaCluster` is several nodes, each broker and controller.
"""

import base64
import subprocess
import sys
import uuid
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.support.child_process import ChildProcess
from tests.support.clients.raw_client import answers_api_versions
from tests.support.eventually import eventually
from tests.support.free_ports import LOOPBACK, free_ports
from tests.support.reference.java_class_archive import QUICK_START
from tests.support.reference.kafka_jars import java_command

START_DEADLINE_S = 90.0
LOG4J = """\
Configuration:
  Appenders:
    Console:
      name: out
      PatternLayout:
        pattern: "[%d] %p %m (%c)%n"
  Loggers:
    Root:
      level: INFO
      AppenderRef:
        - ref: out
"""


def new_cluster_id() -> str:
    """A random id as Kafka's storage tool makes them."""
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")


class ReferenceKafka:
    """One Kafka node that is broker and controller.

    Args:
        directory: where it keeps everything.
        port: of the client listener; 0 takes a free one.
        settings: on top of its own.
        java_options: of its JVM; by default those of a quick start.
        node_id: its id.
        controller_ports: by node id, those of all controllers of its cluster; by default it is alone.
        cluster_id: of its cluster; by default a new one.

    Attributes:
        port: of the client listener.
        data: Kafka's log directory.
    """

    def __init__(
        self,
        directory: Path,
        *,
        port: int = 0,
        settings: Mapping[str, str] | None = None,
        java_options: tuple[str, ...] = ("-Xmx512m", "-Xms256m", *QUICK_START),
        node_id: int = 1,
        controller_ports: Mapping[int, int] | None = None,
        cluster_id: str = "",
    ):
        client_port, controller_port = free_ports(2)
        self.port = port or client_port
        self.directory = directory
        self.data = directory / "data"
        self._node_id = node_id
        self._controller_ports = controller_ports or {node_id: controller_port}
        self._cluster_id = cluster_id or new_cluster_id()
        self._settings = dict(settings or {})
        self._java_options = (*java_options, f"-Dlog4j2.configurationFile={directory / 'log4j2.yaml'}")
        self._config = directory / "server.properties"
        self.process = ChildProcess(
            "reference Kafka",
            java_command("kafka.Kafka", str(self._config), options=self._java_options),
            log=directory / "kafka.log",
        )

    @property
    def controller_address(self) -> str:
        """Where it listens as a controller."""
        return f"{LOOPBACK}:{self._controller_ports[self._node_id]}"

    @property
    def bootstrap(self) -> str:
        return f"{LOOPBACK}:{self.port}"

    def start(self) -> None:
        """Formats the storage if it is new, starts Kafka and waits until it answers."""
        self.begin()
        self.wait_until_ready()

    def begin(self) -> None:
        """Formats the storage if it is new, and starts Kafka."""
        if not self._config.exists():
            self._format()
        self.process.start()

    def wait_until_ready(self, within_s: float = START_DEADLINE_S) -> None:
        """Waits until it answers, which needs a majority of its cluster's controllers."""
        eventually(self._is_ready, "the reference Kafka answers", within_s=within_s)

    def stop(self) -> None:
        self.process.stop()

    def kill(self) -> None:
        self.process.kill()

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.process.kill()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _is_ready(self) -> bool:
        self.process.check_running()
        return answers_api_versions(LOOPBACK, self.port)

    def _format(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        (self.directory / "log4j2.yaml").write_text(LOG4J)
        self._config.write_text("".join(f"{key}={value}\n" for key, value in self._properties().items()))
        command = java_command(
            # The id may begin with a dash, which the tool would take for an option.
            "kafka.tools.StorageTool",
            "format",
            f"--cluster-id={self._cluster_id}",
            "--config",
            str(self._config),
        )
        subprocess.run(command, check=True, capture_output=True, timeout=START_DEADLINE_S)

    def _properties(self) -> dict[str, str]:
        return {
            "process.roles": "broker,controller",
            "node.id": str(self._node_id),
            "controller.quorum.voters": ",".join(
                f"{number}@{LOOPBACK}:{port}" for number, port in self._controller_ports.items()
            ),
            "listeners": f"PLAINTEXT://{LOOPBACK}:{self.port},CONTROLLER://{self.controller_address}",
            "advertised.listeners": f"PLAINTEXT://{LOOPBACK}:{self.port}",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": str(self.data),
            "offsets.topic.replication.factor": "1",
            "offsets.topic.num.partitions": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
            **self._settings,
        }


class ReferenceKafkaCluster:
    """Several Kafka nodes, each broker and controller, with ids from 1.

    Attributes:
        nodes: by id.
    """

    def __init__(
        self,
        directory: Path,
        *,
        nodes: int,
        settings: Mapping[str, str] | None = None,
        java_options: tuple[str, ...] = ("-Xmx512m", "-Xms256m", *QUICK_START),
    ):
        ids = range(1, nodes + 1)
        ports = free_ports(2 * nodes)
        controller_ports = dict(zip(ids, ports[nodes:], strict=True))
        cluster_id = new_cluster_id()
        self.nodes = {
            node_id: ReferenceKafka(
                directory / f"kafka-{node_id}",
                port=port,
                settings=settings,
                java_options=java_options,
                node_id=node_id,
                controller_ports=controller_ports,
                cluster_id=cluster_id,
            )
            for node_id, port in zip(ids, ports, strict=False)
        }

    @property
    def bootstrap(self) -> str:
        return ",".join(node.bootstrap for node in self.nodes.values())

    def __enter__(self) -> Self:
        try:
            for node in self.nodes.values():
                node.begin()
            for node in self.nodes.values():
                node.wait_until_ready(START_DEADLINE_S * len(self.nodes))
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """Ends all nodes at once: those that go last would miss a majority, and wait for it."""
        for node in self.nodes.values():
            node.kill()


def main(arguments: list[str]) -> None:
    """Runs a reference Kafka until interrupted."""
    directory = Path(arguments[0])
    port = int(arguments[1]) if len(arguments) > 1 else 0
    with ReferenceKafka(directory, port=port) as kafka:
        print(f"{kafka.bootstrap} pid {kafka.process.pid} log {kafka.process.log}", flush=True)
        try:
            kafka.process.wait(within_s=86_400)
        except KeyboardInterrupt:
            return


if __name__ == "__main__":
    main(sys.argv[1:])
