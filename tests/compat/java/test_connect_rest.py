"""Ottla's Connect workers answer as Apache Kafka Connect's do: both are asked the same, and their answers compared.

Compared are the status, the media type, whether there is a Location, and the JSON shape: which fields there are and
what kinds of values they have. Settings' names and messages' words are each program's own. Both run on one Ottla
cluster, so this also shows that Kafka Connect itself works on Ottla.

Left out is what is meant to differ: names with a slash (Kafka Connect 4 refuses their URLs).
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.clusters.ottla_cluster import OttlaCluster
from tests.support.eventually import eventually
from tests.support.reference.reference_connect import ReferenceConnect

pytestmark = [
    pytest.mark.slow,
    pytest.mark.requires("kafka"),
]

LINES = 3
JSON = {"Content-Type": "application/json"}
FORGED = {"X-Connect-Authorization": "aaaa", "X-Connect-Request-Signature-Algorithm": "HmacSHA256"}
OPEN_OBJECTS = {"config", "partition", "offset"}
"""Fields whose own fields are the connector's affair."""
MAY_BE_MISSING = {"version", "health"}
"""Kafka Connect tells a version only once a task has started; Ottla adds what a task waits for."""


@dataclass
class Side:
    """One of the two programs.

    Attributes:
        source: settings of a source that follows a file.
        kind: the source's class, in short.
        offset: a partition of it, and its offset.
    """

    name: str
    client: httpx.Client
    source: dict[str, str]
    kind: str
    topic: str
    offset: dict[str, Any] = field(default_factory=dict)

    def state(self, connector: str) -> list[str]:
        """The states of a connector and its tasks."""
        document = self.client.get(f"/connectors/{connector}/status").json()
        if "connector" not in document:
            return []
        return [document["connector"]["state"], *(task["state"] for task in document["tasks"])]


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Side, Side]]:
    """Kafka Connect and Ottla, in this order."""
    directory = tmp_path_factory.mktemp("connect")
    lines = directory / "lines.txt"
    lines.write_text("".join(f"line {number}\n" for number in range(LINES)))
    with (
        OttlaCluster(
            directory / "cluster",
            arguments=("--connect", "1", "--connect-port", "0", "--set", "connect:offset.flush.interval.ms=200"),
        ) as cluster,
        ReferenceConnect(
            directory / "kafka", cluster.bootstrap, settings={"offset.flush.interval.ms": "200"}
        ) as kafka,
        # Jetty closes a connection after it refused a request's body, without saying so: each request has its own.
        httpx.Client(
            base_url=kafka.url, timeout=60.0, trust_env=False, limits=httpx.Limits(max_keepalive_connections=0)
        ) as to_kafka,
        httpx.Client(base_url=_worker_of(cluster), timeout=60.0, trust_env=False) as to_ottla,
    ):
        yield _kafka_side(to_kafka, lines), _ottla_side(to_ottla, lines)


def _worker_of(cluster: OttlaCluster) -> str:
    (url,) = json.loads((cluster.directory / "cluster.json").read_text())["connect"]
    return url


def _kafka_side(client: httpx.Client, lines: Path) -> Side:
    source = {"connector.class": "FileStreamSource", "topic": "of-kafka", "file": str(lines)}
    return Side("Kafka Connect", client, source, "FileStreamSource", "of-kafka")


def _ottla_side(client: httpx.Client, lines: Path) -> Side:
    source = {"connector.class": "FileSource", "topic": "of-ottla", "file.path": str(lines)}
    return Side("Ottla", client, source, "FileSource", "of-ottla")


def test_both_answer_alike(sides):
    differences = []
    for number in range(len(script_of(sides[0]))):
        # Made anew for each step, as it depends on what was learnt.
        (method, path, body, headers), (_, _, other_body, _) = (script_of(side)[number] for side in sides)
        if method == "wait":
            wait_for(sides, path, body)
            continue
        if method == "learn":
            learn_offsets(sides, path)
            continue
        answers = [
            side.client.request(
                method,
                path.replace("KIND", side.kind),
                content=each if isinstance(each, bytes) else None if each is None else json.dumps(each),
                headers=headers,
            )
            for side, each in zip(sides, (body, other_body), strict=True)
        ]
        differences += [f"{method} {path} {body}: {each}" for each in differences_of(*answers)]
    assert not differences, "\n".join(differences)


def wait_for(sides: tuple[Side, Side], connector: str, states: list[str]) -> None:
    """Waits until a connector and its tasks have these states on both sides."""
    for side in sides:
        eventually(lambda side=side: side.state(connector) == states, f"{connector} is {states} at {side.name}")


def learn_offsets(sides: tuple[Side, Side], connector: str) -> None:
    """Waits until a connector has committed, and notes what."""
    for side in sides:
        path = f"/connectors/{connector}/offsets"
        offsets = eventually(
            lambda side=side, path=path: side.client.get(path).json()["offsets"], f"{side.name} has committed"
        )
        side.offset = offsets[0]


def script_of(side: Side) -> list[tuple[str, str, Any, dict[str, str]]]:
    """What is asked: method, path, body, headers. Pseudo methods wait for states, and note down an offset."""
    source = side.source
    removed = {"offsets": [{"partition": side.offset.get("partition"), "offset": None}]}
    back = {"offsets": [side.offset]}

    def ask(method: str, path: str, body: Any = None, **headers: str) -> tuple[str, str, Any, dict[str, str]]:
        return method, path, body, headers or ({} if body is None else JSON)

    return [
        ask("GET", "/"),
        ask("GET", "/health"),
        ask("HEAD", "/connectors"),
        ask("GET", "/nothing"),
        ask("PUT", "/connectors", {}),
        ask("GET", "/connectors/none"),
        ask("GET", "/connectors/none/config"),
        ask("GET", "/connectors/none/status"),
        ask("GET", "/connectors/none/tasks"),
        ask("GET", "/connectors/none/tasks-config"),
        ask("GET", "/connectors/none/tasks/0/status"),
        ask("GET", "/connectors/none/tasks/x/status"),
        ask("POST", "/connectors/none/tasks/0/restart"),
        ask("POST", "/connectors/none/restart"),
        ask("POST", "/connectors/none/restart?includeTasks=true"),
        ask("PUT", "/connectors/none/pause"),
        ask("PUT", "/connectors/none/resume"),
        ask("PUT", "/connectors/none/stop"),
        ask("DELETE", "/connectors/none"),
        ask("GET", "/connectors/none/offsets"),
        ask("DELETE", "/connectors/none/offsets"),
        ask("PATCH", "/connectors/none/offsets", {"offsets": [{"partition": {"a": 1}, "offset": {"b": 1}}]}),
        ask("PATCH", "/connectors/none/config", {"a": "b"}),
        ask("POST", "/connectors", b""),
        ask("POST", "/connectors", b"{"),
        ask("POST", "/connectors", b"null"),
        ask("POST", "/connectors", b"[]"),
        ask("POST", "/connectors", b"{} x"),
        ask("POST", "/connectors", b'{"name": "\xff"}'),
        ask("POST", "/connectors", b"{}", **{"Content-Type": "text/plain"}),
        ask("POST", "/connectors", b"{}", **{"Content-Type": "Application/JSON; charset=utf-8"}),
        ask("POST", "/connectors", {"name": "x"}),
        ask("POST", "/connectors", {"name": "x", "config": []}),
        ask("POST", "/connectors", {"name": "x", "config": {}}),
        ask("POST", "/connectors", {"name": "x", "config": {"connector.class": {"a": 1}}}),
        ask("POST", "/connectors", {"name": "x", "config": {"connector.class": "no.such"}}),
        ask("POST", "/connectors", {"name": "x", "config": {**source, "tasks.max": "many"}}),
        ask("POST", "/connectors", {"name": "x", "config": {**source, "name": "y"}}),
        ask("POST", "/connectors", {"name": "x", "config": {**source, "extra": None}}),
        ask("POST", "/connectors", {"name": "x", "config": source, "initial_state": "asleep"}),
        ask("POST", "/connectors", {"name": "x", "config": source, "extra": 5}),
        ask("POST", "/connectors", {"name": "a\tb", "config": source}),
        ask("POST", "/connectors", {"name": "", "config": source}),
        ask("POST", "/connectors", {"name": " first ", "config": {**source, "tasks.max": 1}}),
        ask("POST", "/connectors", {"name": "first", "config": source}),
        ask("POST", "/connectors", {"name": "resting", "config": source, "initial_state": "stopped"}),
        ask("wait", "first", ["RUNNING", "RUNNING"]),
        ask("wait", "resting", ["STOPPED"]),
        ask("learn", "first"),
        ask("GET", "/connectors"),
        ask("GET", "/connectors/"),
        ask("GET", "/connectors?expand=status&expand=info"),
        ask("GET", "/connectors?expand=other"),
        ask("GET", "/connectors/first"),
        ask("GET", "/connectors/first/config"),
        ask("GET", "/connectors/first/status"),
        ask("GET", "/connectors/first/tasks"),
        ask("GET", "/connectors/first/tasks/0/status"),
        ask("GET", "/connectors/first/tasks/7/status"),
        ask("GET", "/connectors/first/offsets"),
        ask("DELETE", "/connectors/first/offsets"),
        ask("PATCH", "/connectors/first/offsets", back),
        ask("POST", "/connectors/first/tasks/0/restart"),
        ask("POST", "/connectors/first/tasks/7/restart"),
        ask("wait", "first", ["RUNNING", "RUNNING"]),
        ask("POST", "/connectors/first/restart"),
        ask("POST", "/connectors/first/restart?includeTasks=true"),
        ask("wait", "first", ["RUNNING", "RUNNING"]),
        ask("POST", "/connectors/first/restart?onlyFailed=true"),
        ask("POST", "/connectors/first/restart?includeTasks=yes&onlyFailed=TRUE"),
        ask("GET", "/connectors/first/topics"),
        ask("PUT", "/connectors/first/topics/reset"),
        ask("GET", "/connectors/nobody/topics"),
        ask("PUT", "/connectors/nobody/topics/reset"),
        ask("PUT", "/connectors/first/pause"),
        ask("wait", "first", ["PAUSED", "PAUSED"]),
        ask("PUT", "/connectors/first/resume", b"x", **{"Content-Type": "text/plain"}),
        ask("PUT", "/connectors/first/stop"),
        ask("wait", "first", ["STOPPED"]),
        ask("GET", "/connectors/first/tasks"),
        ask("GET", "/connectors/first/tasks/0/status"),
        ask("PATCH", "/connectors/first/offsets", back),
        ask("PATCH", "/connectors/first/offsets", removed),
        ask("PATCH", "/connectors/first/offsets", {"offsets": []}),
        ask("PATCH", "/connectors/first/offsets", {"offsets": {}}),
        ask("PATCH", "/connectors/first/offsets", {"unknown": []}),
        ask("DELETE", "/connectors/first/offsets"),
        ask("GET", "/connectors/first/offsets"),
        ask("PUT", "/connectors/first/config", {**source, "name": "other"}),
        ask("PUT", "/connectors/first/config", source),
        ask("PUT", "/connectors/first/config", b"null"),
        ask("PUT", "/connectors/first/config", {"connector.class": side.kind}),
        ask("PUT", "/connectors/new/config", source),
        ask("PATCH", "/connectors/first/config", {"tasks.max": 1, "extra": None}),
        ask("PATCH", "/connectors/first/config", {"topic": None}),
        ask("DELETE", "/connectors/new"),
        ask("POST", "/connectors/first/tasks", b"[]"),
        ask("POST", "/connectors/first/tasks", b"[]", **JSON, **FORGED),
        ask("GET", "/connector-plugins"),
        ask("GET", "/connector-plugins?connectorsOnly=false"),
        ask("GET", "/connector-plugins/none/config"),
        ask("GET", "/connector-plugins/KIND/config"),
        ask("PUT", "/connector-plugins/KIND/config/validate", {**source, "name": "x"}),
        ask("PUT", "/connector-plugins/KIND/config/validate", {"connector.class": "Other"}),
        ask("PUT", "/connector-plugins/KIND/config/validate", b""),
        ask("GET", "/admin/loggers"),
        ask("GET", "/admin/loggers/root"),
        ask("GET", "/admin/loggers/none.such"),
        ask("PUT", "/admin/loggers/some", {"level": "debug"}),
        ask("PUT", "/admin/loggers/some", {"level": "nope"}),
        ask("PUT", "/admin/loggers/some", {}),
        ask("PUT", "/admin/loggers/some", b""),
        ask("PUT", "/admin/loggers/some?scope=cluster", {"level": "INFO"}),
        ask("DELETE", "/connectors/first"),
    ]


def differences_of(kafka: httpx.Response, ottla: httpx.Response) -> Iterator[str]:
    """What is other in Ottla's answer than in Kafka Connect's."""
    if kafka.status_code != ottla.status_code:
        yield f"status {kafka.status_code} {kafka.text[:200]} / {ottla.status_code} {ottla.text[:200]}"
        return
    if ("location" in kafka.headers) != ("location" in ottla.headers):
        yield "only one has a Location"
    if bool(kafka.content) != bool(ottla.content):
        yield f"body {kafka.text[:200]!r} / {ottla.text[:200]!r}"
    elif kafka.content:
        # Kafka Connect leaves the media type of some errors out.
        kinds = {answer.headers.get("content-type", "application/json") for answer in (kafka, ottla)}
        if len(kinds) != 1:
            yield f"media types {kinds}"
        yield from shape_differences(kafka.json(), ottla.json(), "")


def shape_differences(kafka: Any, ottla: Any, where: str) -> Iterator[str]:
    """Which fields only one has, and which have values of other kinds; null fits everything."""
    if kafka is None or ottla is None:
        return
    if kind(kafka) != kind(ottla):
        yield f"{where or 'the body'}: {kind(kafka)} / {kind(ottla)}"
    elif isinstance(kafka, dict) and where.rpartition(".")[2] not in OPEN_OBJECTS:
        if (fields := (kafka.keys() ^ ottla.keys()) - MAY_BE_MISSING) and not _names_connectors(where, kafka, ottla):
            yield f"{where or 'the body'}: fields {', '.join(sorted(fields))} are only in one"
        for key in kafka.keys() & ottla.keys():
            yield from shape_differences(kafka[key], ottla[key], f"{where}.{key}")
    elif isinstance(kafka, list) and kafka and ottla:
        yield from shape_differences(kafka[0], ottla[0], f"{where}[]")


def _names_connectors(where: str, kafka: dict[str, Any], ottla: dict[str, Any]) -> bool:
    """Whether an object's fields are names of settings or loggers."""
    return not where and ("connector.class" in kafka or "root" in ottla)


def kind(value: Any) -> str:
    """The kind of a JSON value."""
    return {dict: "object", list: "array", str: "string", bool: "boolean", int: "number", float: "number"}[
        type(value)
    ]
