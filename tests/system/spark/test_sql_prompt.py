"""`ottla sql` as people use it: a script over real topics with a Connect worker, and a prompt in a terminal."""

import fcntl
import json
import os
import pty
import re
import select
import struct
import subprocess
import termios
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
import typer
from confluent_kafka import Producer
from pyspark.sql import Row, SparkSession
from typer.testing import CliRunner

from ottla_spark.formats import inference
from ottla_spark.formats.inference import json_columns
from ottla_spark.sql.catalog import Catalog
from ottla_spark.sql.command import register
from ottla_spark.sql.connect_rest import ConnectRest
from ottla_spark.sql.deployment import Deployment
from ottla_spark.sql.sql_errors import SqlProblem
from ottla_spark.sql.topics import Topics
from tests.conftest import TopicFactory
from tests.support.clusters.ottla_cluster import OttlaCluster, ottla_command
from tests.support.connect.connect_cluster import ConnectCluster
from tests.support.eventually import eventually
from tests.support.free_ports import LOOPBACK, free_ports

DEADLINE_S = 240.0
"""Long enough for a busy machine on which Spark starts."""
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]|\x1b[()=>]\w?|\r")
PASTE_MODE_ON, READY = "\x1b[?2004h", "<ready>"
"""The prompt turns it on when it waits for input."""
CTRL_C, CTRL_D = b"\x03", b"\x04"
DELAYS = [("UA", 2.0), ("AA", None), ("UA", 4.0), ("B6", -1.5)]

WORKER = {
    "group.id": "sql-connect",
    "session.timeout.ms": "10000",
    "heartbeat.interval.ms": "1000",
    **{f"{each}.storage.topic": f"sql-{each}" for each in ("config", "offset", "status")},
    **{f"{each}.storage.replication.factor": "1" for each in ("config", "offset", "status")},
}

pytestmark = pytest.mark.slow


def publish(bootstrap: str, topic: str, delays: Sequence[tuple[str, float | None]]) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for carrier, delay in delays:
        producer.produce(topic, json.dumps({"carrier": carrier, "dep_delay": delay}), key=carrier)
    assert producer.flush(30) == 0


def test_a_script_queries_topics_declares_tables_and_deploys_a_pipeline_up_to_its_first_failure(
    bootstrap: str, new_topic: TopicFactory, tmp_path: Path
) -> None:
    flights, airlines = new_topic(partitions=2), new_topic()
    publish(bootstrap, flights, DELAYS)
    (tmp_path / "airlines.csv").write_text("carrier,name\nUA,United\nB6,JetBlue\n")
    script = tmp_path / "script.sql"
    script.write_text(f"""
        -- what is there now; the semicolon; in a comment ends nothing
        SELECT carrier, count(*) AS n, sum(dep_delay) AS d FROM `{flights}` GROUP BY carrier ORDER BY carrier;
        CREATE TABLE airlines WITH (path = '{tmp_path}/airlines.csv', format = csv, options.header = true);
        SELECT name, _key FROM `{flights}` JOIN airlines USING (carrier) WHERE dep_delay > 3;
        CREATE TABLE delays (dep_delay DECIMAL(4, 1)) WITH (topic = {flights}, key.format = bytes);
        CREATE TEMPORARY VIEW late AS SELECT dep_delay FROM delays WHERE dep_delay > 0;
        SELECT max(dep_delay) AS latest FROM late;
        SELECT count(*) AS empty FROM `{airlines}`;
        SELECT carrier FROM `{flights}` WHERE carrier = 'UA' LIMIT 2 EMIT CHANGES;
        SELECT carrier, count(*) AS n FROM `{flights}` GROUP BY carrier ORDER BY n DESC LIMIT 1 EMIT CHANGES;
        SELECT timestamp'2013-01-01 05:00:00' AS at;
        SET TIME ZONE 'Europe/Berlin';
        CREATE TABLE out WITH (key = carrier, checkpoint = '{tmp_path}/out')
          AS SELECT carrier, count(*) AS n FROM `{flights}` GROUP BY carrier EMIT CHANGES;
        SHOW PIPELINES;
        DESCRIBE PIPELINE out;
        DROP PIPELINE out;
        SHOW PIPELINES;
        SELECT 1 AS last;
        SELECT nothing FROM `{flights}`;
        SELECT 'never' AS seen;
    """)
    with ConnectCluster(tmp_path / "connect", bootstrap, workers=1, settings=WORKER) as connect:
        done = subprocess.run(
            [ottla_command(), "sql", "-f", str(script), "--format", "json", "--master", "local[2]",
             "--conf", "spark.sql.shuffle.partitions=1"],
            capture_output=True, text=True, check=False, timeout=DEADLINE_S, stdin=subprocess.DEVNULL,
            env={**os.environ, "OTTLA_BOOTSTRAP": bootstrap, "OTTLA_CONNECT_URL": connect.workers[0].url},
        )  # fmt: skip
    shown = [json.loads(line) for line in done.stdout.splitlines()]
    assert shown[:4] == [
        {"carrier": "AA", "n": 1, "d": None},
        {"carrier": "B6", "n": 1, "d": -1.5},
        {"carrier": "UA", "n": 2, "d": 6.0},
        {"name": "United", "_key": "UA"},
    ], done.stderr
    assert shown[4:10] == [
        {"latest": 4},
        {"empty": 0},
        {"carrier": "UA"},
        {"carrier": "UA"},
        {"carrier": "UA", "n": 2},
        {"at": "2013-01-01T05:00:00Z"},
    ]
    (zone, pipeline, *described, last) = shown[10:]
    assert zone == {"key": "spark.sql.session.timeZone", "value": "Europe/Berlin"}
    settings = {each["property"]: each["value"] for each in described if each["property"].startswith("spark.")}
    assert settings == {"spark.sql.session.timeZone": "Europe/Berlin", "spark.sql.shuffle.partitions": "1"}
    assert (pipeline["pipeline"], pipeline["reads"], pipeline["writes"]) == ("out", flights, "out")
    assert last == {"last": 1}
    assert done.returncode == 1
    assert done.stderr.startswith("ottla: statement 18 (line 21): ")
    assert "nothing" in done.stderr
    assert len(done.stderr.splitlines()) == 1


class Terminal:
    """A program in a terminal of its own.

    Attributes:
        process: the program.
    """

    def __init__(self, process: "subprocess.Popen[bytes]", terminal: int) -> None:
        self.process = process
        self._terminal = terminal
        self._screen = ""

    def type(self, keys: bytes) -> None:
        os.write(self._terminal, keys)

    def wait_for(self, text: str) -> None:
        """Reads on until it shows a text, and forgets what came before."""

        def shown() -> bool:
            if select.select([self._terminal], [], [], 0)[0]:
                shown_now = os.read(self._terminal, 65_536).decode(errors="replace").replace(PASTE_MODE_ON, READY)
                self._screen += ESCAPES.sub("", shown_now)
            return text in self._screen

        eventually(shown, f"the screen shows {text!r}", within_s=DEADLINE_S)
        self._screen = self._screen.partition(text)[2]

    def drain(self) -> None:
        while select.select([self._terminal], [], [], 0)[0]:
            try:
                if not os.read(self._terminal, 65_536):
                    return
            except OSError:
                return


@contextmanager
def terminal(command: Sequence[str], environment: dict[str, str]) -> Iterator[Terminal]:
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 160, 0, 0))
    process = subprocess.Popen(
        # The terminal becomes that of the program's session, so that it sends the signal for Ctrl-C.
        ["setsid", "--ctty", *command],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**os.environ, **environment},
    )
    os.close(theirs)
    try:
        yield Terminal(process, ours)
    finally:
        process.kill()
        process.wait()
        os.close(ours)


def test_ctrl_c_ends_a_statement_and_not_the_prompt_and_no_process_is_left(
    bootstrap: str, new_topic: TopicFactory, tmp_path: Path
) -> None:
    topic = new_topic()
    publish(bootstrap, topic, DELAYS)
    environment = {
        "OTTLA_BOOTSTRAP": bootstrap, "XDG_STATE_HOME": str(tmp_path), "TERM": "xterm", "PROMPT_TOOLKIT_NO_CPR": "1",
    }  # fmt: skip
    with terminal(
        [ottla_command(), "sql", "--master", "local[2]", "--conf", "spark.sql.shuffle.partitions=1"], environment
    ) as prompt:
        prompt.wait_for(bootstrap)
        prompt.wait_for(READY)
        prompt.type(b"SELECT carrier, count(*) AS n\r")
        prompt.type(f"FROM `{topic}` GROUP BY carrier EMIT CHANGES;\r".encode())
        prompt.wait_for("─")
        prompt.wait_for("B6")
        publish(bootstrap, topic, [("NEW", 1.0)])
        prompt.wait_for("NEW")
        prompt.type(CTRL_C)
        prompt.wait_for(READY)
        prompt.type(b"SELECT nothing FROM;\r")
        prompt.wait_for("ottla: ")
        prompt.wait_for(READY)
        prompt.type(b"SELECT concat('still', 'there') AS x;\r")
        prompt.wait_for("stillthere")
        prompt.wait_for(READY)
        java = java_below(prompt.process.pid)
        assert java
        prompt.type(CTRL_D)
        eventually(lambda: prompt.drain() or prompt.process.poll() is not None, "it ends", within_s=DEADLINE_S)
        assert prompt.process.returncode == 0
        assert not any(Path(f"/proc/{pid}").exists() for pid in java)
    assert "GROUP BY carrier EMIT CHANGES;" in (tmp_path / "ottla" / "sql_history").read_text()


def java_below(pid: int) -> list[int]:
    """The Java processes that a process has started."""
    children = [
        int(child)
        for thread in Path(f"/proc/{pid}/task").iterdir()
        for child in (thread / "children").read_text().split()
    ]
    return [child for child in children if Path(f"/proc/{child}/comm").read_text().strip() == "java"]


def test_a_few_rows_of_a_topic_are_constants_for_spark_and_the_same_as_it_reads(
    spark: SparkSession, bootstrap: str, new_topic: TopicFactory
) -> None:
    topic = new_topic(partitions=2)
    publish(bootstrap, topic, DELAYS)
    catalog = Catalog(Topics(bootstrap, {}), {"kafka.bootstrap.servers": bootstrap})

    def rows(statement: str) -> tuple[str, list[Row]]:
        frame, _ = catalog.analyzed(spark, statement)
        leaves = frame._jdf.queryExecution().optimizedPlan().collectLeaves()
        return leaves.apply(0).nodeName(), frame.collect()

    columns = f"SELECT *, _key AS k FROM `{topic}`"
    name, few = rows(f"{columns} LIMIT 3")
    assert (name, len(few)) == ("LocalRelation", 3)
    name, whole = rows(columns)
    assert name != "LocalRelation"
    assert len(whole) == len(DELAYS)
    assert set(few) < set(whole)
    assert sorted(rows(f"{columns} LIMIT 100")[1]) == sorted(whole)

    spark.sql("CREATE OR REPLACE TEMPORARY VIEW counted AS SELECT count(*) AS n FROM range(7)")
    try:
        assert rows("SELECT n FROM counted LIMIT 5")[1] == [Row(n=7)]
    finally:
        spark.catalog.dropTempView("counted")
        catalog.drop_views(spark)


@pytest.mark.parametrize(
    "records",
    [
        ['{"a": 1, "b": "x"}', '{"a": 2.5, "c": null}', '{"b": "2013-01-01T05:00:00Z"}'],
        [
            '{"at": "2013-01-01T05:00:00Z", "n": {"x": [1, 2], "y": {}}}',
            '{"at": "2013-01-02 06:00:00", "n": {"z": true}}',
        ],
        ['{"a": 1}', '{"a": "NaN", "b": NaN}', '{"a": [1]}', '{"b": 123456789012345678901234567890}'],
        ['{"l": []}', '{"l": [{"x": 1}, {"y": null}]}', '{"e": {}}'],
    ],
)
def test_a_schema_that_is_inferred_without_a_job_is_that_of_a_job(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, records: list[str]
) -> None:
    at_once = json_columns(spark, [each.encode() for each in records], where="the values")
    monkeypatch.setattr(inference, "AT_ONCE_MAX", 0)
    assert json_columns(spark, [each.encode() for each in records], where="the values") == at_once


def test_the_first_session_leaves_an_archive_of_classes_with_which_the_next_one_starts(
    bootstrap: str, tmp_path: Path
) -> None:
    environment = {key: value for key, value in os.environ.items() if key != "JDK_JAVA_OPTIONS"}
    environment |= {"XDG_CACHE_HOME": str(tmp_path), "OTTLA_BOOTSTRAP": bootstrap}
    command = [ottla_command(), "sql", "--json", "--master", "local[1]", "-e", "SELECT 1 AS one"]
    first = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=DEADLINE_S)
    assert (first.returncode, first.stdout, first.stderr) == (0, '{"one": 1}\n', "")
    (archive,) = (tmp_path / "ottla" / "spark-classes").iterdir()
    assert archive.suffix == ".jsa"
    assert archive.stat().st_size > 10 << 20

    made = archive.stat().st_ino
    second = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=DEADLINE_S)
    assert (second.returncode, second.stdout, second.stderr) == (0, '{"one": 1}\n', "")
    assert archive.stat().st_ino == made
    assert [*archive.parent.iterdir()] == [archive]


def test_a_pipeline_is_not_given_to_a_worker_of_another_cluster(
    bootstrap: str, new_topic: TopicFactory, tmp_path: Path
) -> None:
    topic = new_topic()
    config = {
        "connector.class": "ottla_spark.SparkPipeline",
        "checkpoint.location": str(tmp_path / "checkpoint"),
        "tables": "t",
        "tables.t.topic": topic,
        "sql": "SELECT 1",
        "outputs": "o",
        "outputs.o.topic": topic,
    }
    topics = Topics(bootstrap, {})
    with (
        OttlaCluster(tmp_path / "other") as other,
        ConnectCluster(tmp_path / "connect", other.bootstrap, workers=1, settings=WORKER) as connect,
    ):
        deployment = Deployment(ConnectRest(connect.workers[0].url), {})
        with pytest.raises(SqlProblem, match=f"belongs to another cluster .* than that at {bootstrap} "):
            deployment.create("elsewhere", config, topics)
        assert not deployment.exists("elsewhere")
        deployment.create("named", {**config, "kafka.bootstrap.servers": bootstrap}, topics)
        deployment.create("own", config, Topics(other.bootstrap, {}))


@pytest.mark.parametrize(
    ("arguments", "exit_code", "said"),
    [
        (["-b", "{unused}", "-e", "SELECT 1"], 1, "cannot reach {unused} (Connection refused); start"),
        (["-b", "localhost:many", "-e", "SELECT 1"], 2, "--bootstrap localhost:many: write it as HOST:PORT"),
        (["-e", "SELECT 1", "-f", "x.sql"], 2, "--execute and --file cannot be used together"),
        (["-f", "/nowhere/x.sql"], 1, "/nowhere/x.sql: No such file or directory"),
        (["-e", "SELECT 1", "-X", "acks"], 2, "--property acks: write it as KEY=VALUE"),
        (["-e", "SELECT 1", "--conf", "executor=1"], 2, "--conf executor=1: its settings begin with spark."),
        (["-b", "{bootstrap}", "-e", "SELECT 1", "--connect", "worker:8083"], 2, "write it as http://HOST:PORT"),
        (["-b", "{bootstrap}", "-e", "SELECT 1", "-X", "no.such=1"], 2, "--property: No such configuration property"),
        (["-b", "{bootstrap}", "-e", "CREATE TABLE x WITH (topic = no-such)"], 1, "there is no topic no-such"),
        (["-b", "{bootstrap}", "-e", "SHOW PIPELINES", "--connect", "http://{unused}"], 1, "reach a Connect worker"),
        (["-b", "{bootstrap}", "-e", "SELECT a FROM nosuch EMIT CHANGES"], 1, "there is no topic and no table"),
        (["-b", "{bootstrap}", "-e", "DESCRIBE nosuch"], 1, "there is no topic and no table nosuch"),
    ],
)  # fmt: skip
def test_bad_input_is_one_line_and_needs_no_spark(
    bootstrap: str, arguments: list[str], exit_code: int, said: str
) -> None:
    (port,) = free_ports(1)
    names = {"bootstrap": bootstrap, "unused": f"{LOOPBACK}:{port}"}
    app = typer.Typer()
    register(app)
    done = CliRunner().invoke(app, [each.format(**names) for each in arguments])
    assert done.exit_code == exit_code, done.output
    assert done.stderr.startswith("ottla: ")
    assert said.format(**names) in done.stderr
    assert len(done.stderr.splitlines()) == 1
