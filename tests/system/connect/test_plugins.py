"""Plugins in real workers: one that the scaffold has written and pip installed, a broken one, and the file plugin.

Two workers share the connectors. They see the plugins by their PYTHONPATH, which is where pip has put them.
"""

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.support.clusters.broker_under_test import group_arguments
from tests.support.clusters.ottla_cluster import OttlaCluster, ottla_command
from tests.support.connect.connect_cluster import ConnectCluster
from tests.support.connect.connect_plugin_path import BROKEN_PLUGINS
from tests.support.eventually import eventually

pytestmark = pytest.mark.slow

ONE_BROKER = {f"{topic}.storage.replication.factor": "1" for topic in ("config", "offset", "status")}
PARTITIONS = 2
DEADLINE_S = 90.0


@dataclass(frozen=True)
class Scene:
    """What runs."""

    bootstrap: str
    connect: ConnectCluster


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    directory = tmp_path_factory.mktemp("plugins")
    site = installed_scaffold(directory)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(site), str(BROKEN_PLUGINS)])}
    arguments = [*group_arguments(), "--set", "group-coordinator:group.min.session.timeout.ms=1000"]
    with OttlaCluster(directory / "cluster", arguments=arguments) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        for future in admin.create_topics([NewTopic(topic, PARTITIONS) for topic in ("readings", "lines")]).values():
            future.result()
        with ConnectCluster(
            directory, cluster.bootstrap, workers=2, settings=ONE_BROKER, environment=environment
        ) as connect:
            yield Scene(cluster.bootstrap, connect)


def installed_scaffold(directory: Path) -> Path:
    """Write a plugin project with the command, install it with pip, and return the folder that it is in."""
    subprocess.run([ottla_command(), "connect", "new-plugin", "weather", "--dir", directory], check=True)
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    site = directory / "site"
    subprocess.run(
        [*install, "--disable-pip-version-check", "--target", site, directory / "weather"], check=True, timeout=120
    )
    return site


def test_an_installed_plugin_is_listed_and_one_that_cannot_be_imported_hurts_no_other(scene: Scene) -> None:
    listed = scene.connect.request("GET", "/connector-plugins?connectorsOnly=false")
    types = {each["class"]: each["type"] for each in listed}
    (broken,) = [each for each in listed if "ottla_broken_plugin" in each["class"]]

    assert types["weather.source.WeatherSource"] == "source"
    assert types["weather.sink.WeatherSink"] == "sink"
    assert types["ottla_file.FileSource"] == "source"
    assert broken["type"] == "broken"
    assert "a_module_that_nobody_has" in json.dumps(broken)


def test_an_installed_plugin_validates_settings(scene: Scene) -> None:
    settings = {"connector.class": "WeatherSource", "name": "w", "topic": "", "weather.interval.ms": "soon"}
    infos = scene.connect.request("PUT", "/connector-plugins/WeatherSource/config/validate", settings)
    wrong = {each["value"]["name"] for each in infos["configs"] if each["value"]["errors"]}

    assert wrong == {"topic", "weather.series", "weather.interval.ms"}


def test_an_installed_plugin_runs(scene: Scene, tmp_path: Path) -> None:
    target = tmp_path / "values.jsonl"
    source = {
        "connector.class": "weather.source.WeatherSource",
        "tasks.max": "2",
        "topic": "readings",
        "weather.series": "a,b,c",
        "weather.interval.ms": "0",
        "weather.count.max": "50",
    }
    sink = {"connector.class": "WeatherSink", "topics": "readings", "weather.path": str(target)}
    scene.connect.put_connector("source", source)
    scene.connect.put_connector("sink", sink)

    def values() -> set[tuple[str, int]]:
        lines = target.read_text().splitlines() if target.exists() else []
        return {(each["series"], each["number"]) for each in map(json.loads, lines)}

    expected = {(series, number) for series in "abc" for number in range(50)}
    eventually(lambda: values() == expected, "all readings are in the file", within_s=DEADLINE_S)
    assert set(scene.connect.states("source").values()) == {"RUNNING"}
    for name in ("source", "sink"):
        scene.connect.request("DELETE", f"/connectors/{name}")


def test_lines_of_rotated_logs_end_up_in_files_though_tasks_and_workers_are_killed(
    scene: Scene, tmp_path: Path
) -> None:
    logs, archive = tmp_path / "logs", tmp_path / "archive"
    logs.mkdir()
    archive.mkdir()
    written = Logs(logs)
    written.write(300)
    scene.connect.put_connector("logs", log_settings(logs))
    scene.connect.put_connector("archive", archive_settings(archive))
    for victim in ("logs-0", "archive-0", "archive-1", "worker"):
        count = len(values_of(archive))
        written.write(200)
        eventually(lambda since=count: len(values_of(archive)) > since, "lines arrive", within_s=DEADLINE_S)
        written.rotate()
        written.write(200)
        kill(scene.connect, victim)
    eventually(lambda: values_of(archive) >= written.lines, "all lines are in files", within_s=DEADLINE_S)
    eventually(lambda: rows_of(archive) == rows_of_topic(scene.bootstrap, "lines"), "the files hold the topic")

    assert values_of(archive) == written.lines
    for name in ("logs", "archive"):
        scene.connect.request("DELETE", f"/connectors/{name}")


class Logs:
    """Three logs that are written in turn, and rotated by renaming."""

    def __init__(self, directory: Path) -> None:
        self.lines: set[str] = set()
        self._files = [directory / f"{name}.log" for name in ("a", "b", "c")]
        self._rotations = 0

    def write(self, count: int) -> None:
        for number in range(count):
            line = f"line {len(self.lines)}"
            self.lines.add(line)
            with self._files[number % len(self._files)].open("a") as file:
                file.write(f"{line}\n")

    def rotate(self) -> None:
        self._rotations += 1
        for file in self._files:
            file.rename(file.with_name(f"{file.name}.{self._rotations}"))


def log_settings(directory: Path) -> Mapping[str, str]:
    return {
        "connector.class": "ottla_file.FileSource",
        "tasks.max": "2",
        "topic": "lines",
        "file.path": f"{directory}/*.log*",
        "file.poll.interval.ms": "50",
        "file.scan.interval.ms": "100",
        "file.batch.rows.max": "50",
        "value.converter": "StringConverter",
    }


def archive_settings(directory: Path) -> Mapping[str, str]:
    return {
        "connector.class": "ottla_file.FileSink",
        "tasks.max": "2",
        "topics": "lines",
        "value.converter": "StringConverter",
        "file.directory": str(directory),
        "file.content": "record",
        "file.roll.rows": "70",
        "file.roll.ms": "500",
    }


def kill(connect: ConnectCluster, victim: str) -> None:
    """Kill a task's process, or a worker with all its processes, which is started again."""
    if victim == "worker":
        worker = connect.workers[0]
        worker.kill()
        worker.start()
        worker.wait_until_ready()
        return
    (pid,) = eventually(lambda: connect.processes().get(victim), f"{victim} runs", within_s=DEADLINE_S)
    os.kill(pid, signal.SIGKILL)


def records_of(directory: Path) -> list[dict[str, Any]]:
    finished = [path for path in directory.rglob("*.jsonl") if ".unfinished" not in path.parts]
    return [json.loads(line) for path in finished for line in path.read_text().splitlines()]


def values_of(directory: Path) -> set[str]:
    return {record["value"] for record in records_of(directory)}


def rows_of(directory: Path) -> Counter[tuple[int, int, str]]:
    return Counter((record["partition"], record["offset"], record["value"]) for record in records_of(directory))


def rows_of_topic(bootstrap: str, topic: str) -> Counter[tuple[int, int, str]]:
    """Return partition, offset and value of all records of a topic."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "check", "enable.partition.eof": True})
    rows: Counter[tuple[int, int, str]] = Counter()
    ended = 0
    try:
        consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in range(PARTITIONS)])
        while ended < PARTITIONS:
            message = consumer.poll(DEADLINE_S)
            assert message is not None, f"{topic} does not end"
            if message.error():
                ended += 1
            else:
                rows[message.partition() or 0, message.offset() or 0, (message.value() or b"").decode()] += 1
    finally:
        consumer.close()
    return rows
