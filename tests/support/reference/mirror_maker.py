"""A real MirrorMaker 2 of Apache Kafka in dedicated mode: the peer of benchmarks and the oracle of formats."""

from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.support.child_process import ChildProcess
from tests.support.reference.kafka_jars import java_command
from tests.support.reference.reference_kafka import LOG4J

MAIN_CLASS = "org.apache.kafka.connect.mirror.MirrorMaker"
PERFORMANCE_OPTIONS = (
    *("-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-XX:InitiatingHeapOccupancyPercent=35"),
    "-XX:+ExplicitGCInvokesConcurrent",
)
"""What Kafka's scripts give to a JVM."""
REPLICATION_FACTORS = (
    *("checkpoints.topic", "heartbeats.topic", "offset-syncs.topic"),
    *("offset.storage", "status.storage", "config.storage"),
)


class MirrorMaker:
    """One process with the flow from a cluster to another.

    Args:
        directory: where it keeps its settings and its log.
        source: alias and address of one cluster.
        target: alias and address of the other.
        topics: what `source->target.topics` says.
        settings: on top of these.
        heap: of the JVM, such as ``1g``.
    """

    def __init__(
        self,
        directory: Path,
        source: tuple[str, str],
        target: tuple[str, str],
        *,
        topics: str = ".*",
        settings: Mapping[str, str] | None = None,
        heap: str = "1g",
    ) -> None:
        flow = f"{source[0]}->{target[0]}"
        properties = {
            "clusters": f"{source[0]},{target[0]}",
            f"{source[0]}.bootstrap.servers": source[1],
            f"{target[0]}.bootstrap.servers": target[1],
            f"{flow}.enabled": "true",
            f"{flow}.topics": topics,
            "replication.factor": "1",
            **{f"{each}.replication.factor": "1" for each in REPLICATION_FACTORS},
            "refresh.topics.interval.seconds": "2",
            **(settings or {}),
        }
        directory.mkdir(parents=True, exist_ok=True)
        config, logging = directory / "mm2.properties", directory / "log4j2.yaml"
        config.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
        logging.write_text(LOG4J)
        options = (f"-Xms{heap}", f"-Xmx{heap}", *PERFORMANCE_OPTIONS, f"-Dlog4j2.configurationFile={logging}")
        self.process = ChildProcess(
            "MirrorMaker 2",
            java_command(MAIN_CLASS, str(config), options=options),
            log=directory / "mirror-maker.log",
        )

    def __enter__(self) -> Self:
        self.process.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.kill()
