"""Mistakes that people make: each is told in one line with what was wrong, and the right exit code, by itself.

A cluster runs throughout. `{name}` in a command stands for an address or a path of this run. Beside the mistakes of
the table stands Ctrl-C in commands that wait: `TOLD_WITHIN_S` is a deadline for a machine under load, not a measure.
"""

import http.server
import os
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.clusters.ottla_cluster import OttlaCluster, ottla_command
from tests.support.eventually import eventually
from tests.support.free_ports import free_port

pytestmark = pytest.mark.slow

TOLD_WITHIN_S = 60
FAILED, USAGE, INTERRUPTED = 1, 2, 130
FOLLOWING_ENDED = 0
"""Ctrl-C is how `--follow` ends, once it has begun to read."""

MISTAKES = [
    # Addresses.
    ("topic list -b 127.0.0.1:{nobody}", FAILED, "(Connection refused); start a local cluster with `ottla up`"),
    ("topic list -b no-such-host.invalid", FAILED, "no address is known for the name no-such-host.invalid"),
    ("topic list -b {bootstrap}:x", USAGE, "write it as HOST:PORT"),
    ("topic list -b 127.0.0.1:{http}", FAILED, "an HTTP server answers there, no Kafka broker"),
    ("consume flights -b 127.0.0.1:{http}", FAILED, "an HTTP server answers there, no Kafka broker"),
    ("topic list -b 127.0.0.1:{silent}", FAILED, "it accepts connections, but did not answer within"),
    ("cluster describe -b 127.0.0.1:{silent}", FAILED, "it accepts connections, but did not answer within"),
    ("group list -X security.protocol=ssl", FAILED, "it speaks no TLS: leave out security.protocol=ssl"),
    (
        "topic list -X security.protocol=sasl_plaintext "
        "-X sasl.mechanism=PLAIN -X sasl.username=u -X sasl.password=${{env:PASSWORD}}",
        FAILED,
        "lets this client not in",
    ),
    ("topic list -X securty.protocol=ssl", FAILED, 'No such configuration property: "securty.protocol"'),
    ("cluster describe -X security.protocol=ssl", FAILED, "it speaks no TLS: leave out security.protocol=ssl"),
    ("cluster describe -X securty.protocol=ssl", FAILED, 'No such configuration property: "securty.protocol"'),
    ("cluster rebalance -X security.protocol", USAGE, "write it as KEY=VALUE"),
    ("connect list --url http://{bootstrap}", FAILED, "what listens there does not speak HTTP"),
    ("connect list --url http://127.0.0.1:{http}", FAILED, "it is no Connect worker"),
    ("connect list --url http://127.0.0.1:{silent}", FAILED, "no answer within"),
    ("connect list --url 127.0.0.1:8083", USAGE, "write it as http://HOST:PORT"),
    # Names of commands and options.
    ("tpic list", USAGE, "did you mean 'topic'?"),
    ("topic creat flights", USAGE, "did you mean 'create'?"),
    ("topic create flights --partition 3", USAGE, "did you mean --partitions?"),
    ("topic create flights --partitions three", USAGE, "'three' is no whole number"),
    ("topic create", USAGE, "missing argument 'TOPIC'"),
    ("consume flights --offset yesterday", USAGE, "yesterday"),
    # Topics, partitions, groups, brokers.
    ("topic create flights", FAILED, "flights was not created: Topic 'flights' already exists"),
    ("topic create fl/ights", FAILED, "fl/ights was not created"),
    ("topic create wide --replication-factor 3", FAILED, "wide was not created"),
    ("topic describe fligths", FAILED, "there is no topic fligths"),
    ("topic delete fligths", FAILED, "fligths was not deleted: there is no such topic"),
    ("topic alter flights --partitions 1", FAILED, "flights was not altered"),
    ("consume fligths", FAILED, "there is no topic fligths; create it with `ottla topic create fligths`"),
    ("consume flights --partition 7", FAILED, "topic flights has no partition 7"),
    ("consume flights --offset 99", FAILED, "has no offset 99"),
    ("produce fligths", FAILED, "there is no topic fligths; create it"),
    ("produce flights {nowhere}", FAILED, "No such file or directory"),
    ("group describe bililng", FAILED, "bililng"),
    ("cluster decommission 9", FAILED, "there is no broker 9"),
    # Settings.
    ("config set topic flights retentio.ms=1", FAILED, "Unknown topic config name: retentio.ms"),
    ("config set topic flights retention.ms=long", FAILED, "retention.ms"),
    ("config set topic flights retention.ms", USAGE, "write it as KEY=VALUE"),
    ("up --dir {fresh} --set log.retention.hours=1", USAGE, "write a setting as ROLE:KEY=VALUE"),
    ("up --dir {fresh} --base-port 0 --set broker:log.retention.hour=1", USAGE, "did you mean log.retention.hours?"),
    ("up --dir {fresh} --base-port 0 --set broker:num.partitions=many", USAGE, "write a whole number (got 'many')"),
    ("up --dir {fresh} --base-port 0 --unset broker:x", USAGE, "broker:x was not set in this directory"),
    # The machine.
    ("up --dir {fresh} --base-port {http}", FAILED, "port {http} is in use, so broker-1 cannot listen"),
    ("up --dir {directory}", FAILED, "a cluster runs in {directory} already (process "),
    ("up --dir /proc/nowhere", FAILED, "cannot use the directory /proc/nowhere"),
    ("status --dir {fresh}", FAILED, "there is no cluster in {fresh}"),
    # Connectors.
    ("connect create {nowhere}", FAILED, "No such file or directory"),
    ("connect status fligths", FAILED, "fligths"),
    ("connect create {unknown_class}", FAILED, "has a connector FileSorce; did you mean FileSource?"),
    ("connect create {unknown_converter}", FAILED, "has a converter JsonConvertr; did you mean JsonConverter?"),
    ("connect delete fligths", FAILED, "fligths"),
    # SQL; other mistakes are told by Spark, when it has started, or stand in spark/test_sql_prompt.py.
    ("sql -f {nowhere}", FAILED, "No such file or directory"),
    ("sql --excute x", USAGE, "did you mean --execute?"),
    ("sql -f {unknown_topic}", FAILED, "there is no topic and no table fligths; did you mean flights?"),
    ("sql -f {unknown_setting}", FAILED, "table x: tpic: there is no such setting; did you mean topic?"),
    ("sql -f {unknown_topic} -b 127.0.0.1:{silent}", FAILED, "it accepts connections, but did not answer within"),
    ("sql -f {unknown_topic} -b 127.0.0.1:{http}", FAILED, "an HTTP server answers there, no Kafka broker"),
    ("sql -f {no_pipeline}", FAILED, "there is no pipeline nothing; SHOW PIPELINES lists what there is"),
    ("sql -f {no_pipeline} --connect-url http://127.0.0.1:{silent}", FAILED, "did not answer: timed out"),
    ("sql -f {no_pipeline} --connect-url http://127.0.0.1:{http}", FAILED, "is no Connect worker"),
]


@dataclass(frozen=True, slots=True)
class Place:
    """Where the commands run: their environment, and what stands for names in them."""

    environment: dict[str, str]
    names: dict[str, str]

    def run(self, line: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [ottla_command(), *(word.format(**self.names) for word in line.split())],
            input="a line\n", capture_output=True, text=True, check=False,
            timeout=TOLD_WITHIN_S, env=self.environment,
        )  # fmt: skip


class Silent(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("mistakes")
    files = {
        "unknown_class": "name: flights\nconfig:\n  connector.class: FileSorce\n",
        "unknown_converter": (
            "name: f\nconfig:\n  connector.class: FileSource\n  topic: t\n  file.path: /tmp/x\n"
            "  value.converter: JsonConvertr\n"
        ),
        "unknown_topic": "SELECT carrier FROM fligths;\n",
        "unknown_setting": "CREATE TABLE x WITH (tpic = flights);\n",
        "no_pipeline": "DROP PIPELINE nothing;\n",
    }
    for name, text in files.items():
        (folder / name).write_text(text)
    web = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Silent)
    threading.Thread(target=web.serve_forever, daemon=True).start()
    with (
        socket.create_server(("127.0.0.1", 0)) as silent,
        OttlaCluster(folder / "cluster", arguments=("--connect", "1", "--connect-port", "0")) as cluster,
    ):
        worker = next(each for each in cluster.services if each.role == "connect")
        environment = {name: value for name, value in os.environ.items() if not name.startswith("OTTLA_")}
        environment |= {
            "OTTLA_BOOTSTRAP": cluster.bootstrap,
            "OTTLA_CONNECT_URL": f"http://127.0.0.1:{worker.port}",
            "XDG_CONFIG_HOME": str(folder),
            "PASSWORD": "p",
        }
        names = {
            "bootstrap": cluster.bootstrap,
            "directory": str(cluster.directory),
            "fresh": str(folder / "fresh"),
            "http": str(web.server_address[1]),
            "nobody": str(free_port()),
            "nowhere": str(folder / "no-such-file.txt"),
            "silent": str(silent.getsockname()[1]),
            **{name: str(folder / name) for name in files},
        }
        place = Place(environment, names)
        created = place.run("topic create flights --partitions 2")
        assert created.returncode == 0, created.stderr
        yield place
    web.shutdown()
    web.server_close()


@pytest.mark.parametrize(("line", "code", "words"), MISTAKES, ids=[line for line, _, _ in MISTAKES])
def test_a_mistake_is_told_in_a_line(place: Place, line: str, code: int, words: str) -> None:
    done = place.run(line)
    assert done.returncode == code, done.stderr
    assert words.format(**place.names) in done.stderr
    for riddle in ("Traceback", "internal error", "Value error", "PUT /", "GET /"):
        assert riddle not in done.stderr
    assert len([each for each in done.stderr.splitlines() if each.startswith("ottla: ")]) == 1


def test_a_full_disk_is_told(place: Place) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [ottla_command(), "topic", "list"],
            stdout=full, stderr=subprocess.PIPE, text=True, check=False, timeout=TOLD_WITHIN_S, env=place.environment,
        )  # fmt: skip
    assert done.returncode == FAILED
    assert "No space left on device" in done.stderr
    assert "Traceback" not in done.stderr


def has_connected(pid: int) -> bool:
    """Whether a process has an open socket, or has begun to wait on its input: imports are over then."""
    try:
        return any(str(each.readlink()).startswith("socket:") for each in Path(f"/proc/{pid}/fd").iterdir())
    except OSError:
        return False


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("topic list -b 127.0.0.1:{silent}", INTERRUPTED),
        ("cluster describe -b 127.0.0.1:{silent}", INTERRUPTED),
        ("group list -b 127.0.0.1:{silent}", INTERRUPTED),
        ("config describe topic flights -b 127.0.0.1:{silent}", INTERRUPTED),
        ("connect list --url http://127.0.0.1:{silent}", INTERRUPTED),
        ("produce flights", INTERRUPTED),
        ("bench produce --topic flights --rate 1", INTERRUPTED),
        ("consume flights --follow", FOLLOWING_ENDED),
        ("consume flights --follow --group billing", FOLLOWING_ENDED),
    ],
)
def test_ctrl_c_ends_a_command(place: Place, line: str, code: int) -> None:
    command = subprocess.Popen(
        [ottla_command(), *(word.format(**place.names) for word in line.split())],
        stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=place.environment,
    )  # fmt: skip
    try:
        eventually(lambda: has_connected(command.pid), f"{line} has connected")
        command.send_signal(signal.SIGINT)
        _, told = command.communicate(timeout=TOLD_WITHIN_S)
    finally:
        command.kill()
    assert command.returncode in (code, INTERRUPTED), told
    assert "Traceback" not in told
