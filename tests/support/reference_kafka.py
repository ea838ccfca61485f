"""A real single-node Apache Kafka (KRaft) on free loopback ports: the oracle for the suites and the benchmarks.

    with ReferenceKafka(directory) as kafka:
        kafka.bootstrap  # "127.0.0.1:41233"

The storage is formatted at the first start and kept over `stop` and `start`; `kill` is a crash.
Run as a program it starts one and prints its address until it is interrupted:

    python -m tests.support.reference_kafka DIRECTORY [PORT]
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
from tests.support.class_archive import QUICK_START
from tests.support.eventually import eventually
from tests.support.free_ports import LOOPBACK, free_ports
from tests.support.kafka_jars import java_command
from tests.support.raw_client import answers_api_versions

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


class ReferenceKafka:
    """One Kafka node that is broker and controller.

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
    ):
        client_port, controller_port = free_ports(2)
        self.port = port or client_port
        self.directory = directory
        self.data = directory / "data"
        self._controller_port = controller_port
        self._settings = dict(settings or {})
        self._java_options = (*java_options, f"-Dlog4j2.configurationFile={directory / 'log4j2.yaml'}")
        self._config = directory / "server.properties"
        self.process = ChildProcess(
            "reference Kafka",
            java_command("kafka.Kafka", str(self._config), options=self._java_options),
            log=directory / "kafka.log",
        )

    @property
    def bootstrap(self) -> str:
        return f"{LOOPBACK}:{self.port}"

    def start(self) -> None:
        """Formats the storage if it is new, starts Kafka and waits until it answers."""
        if not self._config.exists():
            self._format()
        self.process.start()
        eventually(self._is_ready, "the reference Kafka answers", within_s=START_DEADLINE_S)

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
        cluster_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        command = java_command(
            # The id may begin with a dash, which the tool would take for an option.
            "kafka.tools.StorageTool",
            "format",
            f"--cluster-id={cluster_id}",
            "--config",
            str(self._config),
        )
        subprocess.run(command, check=True, capture_output=True, timeout=START_DEADLINE_S)

    def _properties(self) -> dict[str, str]:
        return {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@{LOOPBACK}:{self._controller_port}",
            "listeners": f"PLAINTEXT://{LOOPBACK}:{self.port},CONTROLLER://{LOOPBACK}:{self._controller_port}",
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
