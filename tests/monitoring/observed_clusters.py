"""Two clusters with work going on, and a Prometheus that scrapes them.

The first is a source: topics that a mirror worker and a link of the second take. The second has producers, a group,
connectors of which one fails, a mirror worker and a link. Prometheus looks every second.
"""

import json
import subprocess
import threading
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import yaml
from confluent_kafka import Consumer, Producer

from deploy.monitoring.rules import RULES
from ottla.local.plan import MIRROR_ALIAS
from tests.support.child_process import ChildProcess
from tests.support.clusters.ottla_cluster import OttlaCluster, ottla_command
from tests.support.eventually import eventually
from tests.support.free_ports import LOOPBACK, free_ports

PORTS = ("--connect", "1", "--connect-port", "0", "--mirror", "1", "--mirror-port", "0")
SOURCE_ALIAS = "west"
PAUSE_S = 0.1
CONNECTORS: Mapping[str, Mapping[str, str]] = {
    "made": {"connector.class": "ottla_datagen.DatagenSource", "topic": "made", "datagen.quickstart": "orders"},
    "stored": {
        "connector.class": "ottla_file.FileSink",
        "topics": "written",
        "errors.tolerance": "all",
        "file.roll.ms": "2000",
    },
    "wrong": {"connector.class": "ottla_file.FileSource", "topic": "made", "file.format": "json"},
}
"""A source, a sink, and a source whose task fails."""


class Prometheus:
    """A server that scrapes clusters.

    Args:
        directory: where it keeps everything.
        clusters: directories of local clusters, by the name of the cluster.
    """

    def __init__(self, directory: Path, clusters: Mapping[str, Path]) -> None:
        (port,) = free_ports(1)
        self.url = f"http://{LOOPBACK}:{port}"
        settings = directory / "prometheus.yml"
        document = {
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": [str(RULES)],
            "scrape_configs": [
                {
                    "job_name": name,
                    "file_sd_configs": [{"files": [str(path / "prometheus-targets.json")]}],
                    "relabel_configs": [{"target_label": "cluster", "replacement": name}],
                }
                for name, path in clusters.items()
            ],
        }
        settings.write_text(yaml.safe_dump(document))
        command = [
            "prometheus", f"--config.file={settings}", f"--storage.tsdb.path={directory / 'data'}",
            f"--web.listen-address={LOOPBACK}:{port}",
        ]  # fmt: skip
        self.process = ChildProcess("prometheus", command, log=directory / "prometheus.log")

    def ask(self, path: str, **parameters: str) -> Any:
        """The data of an answer of its HTTP API; an error's text is the message."""
        url = f"{self.url}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        try:
            with urllib.request.urlopen(url, timeout=30) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{parameters}: {error.read().decode()}") from None
        except urllib.error.URLError as error:
            raise ConnectionError(str(error)) from None

    def query(self, expression: str) -> Sequence[Any]:
        """The series that an expression has now."""
        found: Sequence[Any] = self.ask("query", query=expression)["result"]
        return found


@contextmanager
def observed_clusters(directory: Path) -> Iterator[Prometheus]:
    """Yields a Prometheus that watches both clusters, until all work has begun."""
    with ExitStack() as stack:
        source = stack.enter_context(OttlaCluster(directory / "source", brokers=1))
        target = stack.enter_context(OttlaCluster(directory / "target", brokers=2, arguments=PORTS))
        watched = Prometheus(directory, {"source": source.directory, "target": target.directory})
        watched.process.start()
        stack.callback(watched.process.stop)
        ask_for_clients_metrics(target)
        stack.enter_context(traffic(source.bootstrap, ["copied", "linked"]))
        stack.enter_context(traffic(target.bootstrap, ["written"]))
        begin_work(source, target, directory)
        eventually(lambda: watched.query("up"), "Prometheus answers", within_s=60)
        yield watched


def ask_for_clients_metrics(cluster: OttlaCluster) -> None:
    """Have clients push their metrics every second; those that run already ask again after five minutes."""
    subscription = ["metrics=org.apache.kafka.", "interval.ms=1000"]
    command("config", "set", "client-metrics", "all", *subscription, "--bootstrap", cluster.bootstrap)


def begin_work(source: OttlaCluster, target: OttlaCluster, directory: Path) -> None:
    """Make connectors, a flow and a link."""
    files = {
        "stored": {"file.directory": str(directory / "stored")},
        "wrong": {"file.path": str(directory / "no.json")},
    }
    (directory / "stored").mkdir()
    (directory / "no.json").write_text("this is no JSON\n")
    url = f"http://{LOOPBACK}:{port_of(target, 'connect')}"
    for name, settings in CONNECTORS.items():
        config = {**settings, **files.get(name, {}), "tasks.max": "1"}
        answer = httpx.put(f"{url}/connectors/{name}/config", json=config, timeout=60, trust_env=False)
        assert answer.is_success, answer.text
    flow = f"{SOURCE_ALIAS}->{MIRROR_ALIAS}"
    mirrors = f"http://{LOOPBACK}:{port_of(target, 'mirror')}"
    command("mirror", "create", flow, "--source", source.bootstrap, "--topics", "copied", "--mirror-url", mirrors)
    link = ["--source", source.bootstrap, "--topics", "linked", "--bootstrap", target.bootstrap]
    command("mirror", "link", "create", "from-source", *link)


def command(*arguments: str) -> None:
    done = subprocess.run([ottla_command(), *arguments], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, f"{arguments}: {done.stdout}{done.stderr}"


def port_of(cluster: OttlaCluster, role: str) -> int:
    return next(service.port for service in cluster.services if service.role == role)


@contextmanager
def traffic(bootstrap: str, topics: Sequence[str]) -> Iterator[None]:
    """Writes to topics and reads them in a group, until it is left; the topics are there when it is entered."""
    for topic in topics:
        command("topic", "create", topic, "--partitions", "2", "--bootstrap", bootstrap)
    ended = threading.Event()
    thread = threading.Thread(target=_work, args=(bootstrap, list(topics), ended), daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(60)


def _work(bootstrap: str, topics: list[str], ended: threading.Event) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    group = {"group.id": "readers", "auto.offset.reset": "earliest", "auto.commit.interval.ms": 500}
    consumer = Consumer({"bootstrap.servers": bootstrap, **group})
    consumer.subscribe(topics)
    transactional = Producer({"bootstrap.servers": bootstrap, "transactional.id": "observed"})
    transactional.init_transactions(60)
    while not ended.is_set():
        for topic in topics:
            producer.produce(topic, b'{"a": 1}')
        producer.poll(0)
        transactional.begin_transaction()
        transactional.produce(topics[0], b'{"a": 1}')
        transactional.commit_transaction(60)
        consumer.consume(100, PAUSE_S)
    producer.flush(10)
    consumer.close()
