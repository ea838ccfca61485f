"""Ottla's Connect workers against Apache Kafka's own broker, which is all that they need."""

import os
import random
import signal
from collections import Counter
from pathlib import Path

import pytest

from tests.support.connect.committed_lines import CommittedCounts, read_all
from tests.support.connect.connect_cluster import ConnectCluster
from tests.support.connect.connect_plugin_path import environment_with_test_plugins
from tests.support.eventually import eventually
from tests.support.reference.reference_kafka import ReferenceKafka

pytestmark = [
    pytest.mark.slow,
    pytest.mark.requires("kafka"),
]

LINES = [f"line {number}" for number in range(5000)]
SETTINGS = {
    "session.timeout.ms": "6000",  # the least that Kafka allows by default
    **{f"{store}.storage.replication.factor": "1" for store in ("config", "offset", "status")},
}


def test_connectors_run_on_apache_kafka(tmp_path: Path) -> None:
    source, target = tmp_path / "in", tmp_path / "out"
    source.mkdir()
    target.mkdir()
    (source / "a.txt").write_text("".join(f"{line}\n" for line in LINES))
    lines = {"topic": "lines", "value.converter": "StringConverter"}
    with (
        ReferenceKafka(tmp_path / "kafka") as kafka,
        ConnectCluster(tmp_path, kafka.bootstrap, workers=2, settings=SETTINGS) as connect,
    ):
        connect.put_connector("in", {"connector.class": "FileSource", "file.path": f"{source}/*.txt", **lines})
        connect.put_connector(
            "out",
            {
                "connector.class": "FileSink",
                "tasks.max": "2",
                "topics": "lines",
                "file.directory": str(target),
                "file.format": "lines",
                "file.roll.ms": "1000",
                "value.converter": "StringConverter",
            },
        )

        def written() -> Counter[str]:
            return Counter(line for each in target.glob("lines/*") for line in each.read_text().splitlines())

        eventually(lambda: written() == Counter(LINES), "every line is in the files, once", within_s=60)
        offsets = connect.request("GET", "/connectors/in/offsets")["offsets"]
        assert [each["offset"]["line"] for each in offsets] == [len(LINES)]


def test_sources_write_every_record_once_to_apache_kafka_though_tasks_and_workers_are_killed(tmp_path: Path) -> None:
    seed = int(os.environ.get("OTTLA_TEST_SEED", random.randrange(1 << 32)))
    print(f"OTTLA_TEST_SEED={seed}")
    chance = random.Random(seed)
    settings = {**SETTINGS, "exactly.once.source.support": "enabled", "task.restart.backoff.max.ms": "2000"}
    one_broker = {f"transaction.state.log.{key}": "1" for key in ("replication.factor", "min.isr")}
    with (
        ReferenceKafka(tmp_path / "kafka", settings=one_broker) as kafka,
        ConnectCluster(
            tmp_path, kafka.bootstrap, workers=2, settings=settings, environment=environment_with_test_plugins()
        ) as connect,
    ):
        connect.put_connector("list", list_source(tasks=2))
        eventually(lambda: connect.states("list").get("list-1") == "RUNNING", "both tasks run", within_s=60)
        with CommittedCounts(
            kafka.bootstrap, ["list"], lambda message: (message.key(), message.value())
        ) as committed:

            def grow() -> None:
                before = committed.distinct("list")
                eventually(lambda: committed.distinct("list") > before + 100, "more is committed", within_s=60)

            for _ in range(3):
                grow()
                running = eventually(lambda: connect.processes().get("list-0"), "the task runs", within_s=60)
                os.kill(running[0], signal.SIGKILL)
                grow()
                worker = chance.choice(connect.workers)
                worker.kill()
                worker.start()
                worker.wait_until_ready()
            connect.put_connector("list", list_source(tasks=1))  # two tasks are fenced for a sole one
            eventually(lambda: "list-1" not in connect.states("list"), "there is one task", within_s=60)
            grow()
        connect.request("PUT", "/connectors/list/stop")
        eventually(lambda: connect.states("list") == {"list": "STOPPED"}, "the connector has stopped", within_s=60)
        offsets = connect.request("GET", "/connectors/list/offsets")["offsets"]
        counts = Counter(str(each.value()) for each in read_all(kafka.bootstrap, ["list"]))
    assert [value for value, count in counts.items() if count > 1] == []
    assert len(counts) == sum(each["offset"]["position"] + 1 for each in offsets)


def list_source(*, tasks: int) -> dict[str, str]:
    return {
        "connector.class": "ottla_test_plugins.ListSource",
        "tasks.max": str(tasks),
        "topic": "list",
        "list.tasks": str(tasks),
        "list.count": "0",
        "list.pause.ms": "50",
        "list.exactly.once": "yes",
        "exactly.once.support": "required",
        "transaction.boundary": "interval",
        "transaction.boundary.interval.ms": "300",
    }
