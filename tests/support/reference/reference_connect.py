"""A real Apache Kafka Connect worker on a free loopback port: the oracle for what the REST API answers."""

from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

import httpx

from tests.support.child_process import ChildProcess
from tests.support.eventually import eventually
from tests.support.free_ports import LOOPBACK, free_port
from tests.support.reference.kafka_jars import java_command
from tests.support.reference.reference_kafka import LOG4J

START_DEADLINE_S = 90.0
MAIN_CLASS = "org.apache.kafka.connect.cli.ConnectDistributed"
JSON_CONVERTER = "org.apache.kafka.connect.json.JsonConverter"


class ReferenceConnect:
    """One distributed worker.

    Attributes:
        url: of its REST API.
    """

    def __init__(self, directory: Path, bootstrap: str, *, settings: Mapping[str, str] | None = None):
        self.url = f"http://{LOOPBACK}:{free_port()}"
        self._directory = directory
        plugins = directory / "plugins"
        self._settings = {
            "bootstrap.servers": bootstrap,
            "listeners": self.url,
            "group.id": "reference-connect",
            "key.converter": JSON_CONVERTER,
            "value.converter": JSON_CONVERTER,
            "plugin.path": str(plugins),
            **{f"{store}.storage.topic": f"reference-{store}" for store in ("config", "offset", "status")},
            **{f"{store}.storage.replication.factor": "1" for store in ("config", "offset", "status")},
            **(settings or {}),
        }
        plugins.mkdir(parents=True)
        config, logging = directory / "connect.properties", directory / "log4j2.yaml"
        config.write_text("".join(f"{key}={value}\n" for key, value in self._settings.items()))
        logging.write_text(LOG4J)
        options = (
            *("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto"),
            f"-Dlog4j2.configurationFile={logging}",
        )
        self.process = ChildProcess(
            "reference Kafka Connect",
            java_command(MAIN_CLASS, str(config), options=options),
            log=directory / "connect.log",
        )

    def __enter__(self) -> Self:
        self.process.start()
        try:
            eventually(self._is_healthy, "Kafka Connect is healthy", within_s=START_DEADLINE_S)
        except BaseException:
            self.process.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.stop()

    def _is_healthy(self) -> bool:
        self.process.check_running()
        try:
            return httpx.get(f"{self.url}/health", timeout=15.0, trust_env=False).status_code == 200
        except httpx.TransportError:
            return False
