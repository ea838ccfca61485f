"""The pages of docs/ and examples/, as a reader goes through them: every command as it stands there, in its order."""

import subprocess
import sys
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.documents.documents import ROOT, WrittenFile, commands, steps
from tests.documents.reader import Reader, own_namespaces, schema_registry

pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class Page:
    """A page whose commands are typed.

    Attributes:
        path: from the repository's root.
        shows: patterns in what commands print, maybe only when they are typed again a little later.
        not_typed: commands that are left out: they would change the environment of all tests, or need a cluster of
            somebody else's.
        in_other_terminals: commands that go on for ever, with what each says when it is ready.
        has_plugin: whether the example of a plugin is installed for the reader, in place of such a command.
        new_plugin: a project that the reader writes and then installs, likewise in place of a command.
        has_registry: whether the reader has a schema registry.
    """

    path: str
    shows: dict[str, str] = field(default_factory=dict)
    not_typed: frozenset[str] = frozenset()
    in_other_terminals: dict[str, str] = field(default_factory=dict)
    has_plugin: bool = False
    new_plugin: str = ""
    has_registry: bool = False

    def commands(self) -> list[str]:
        return commands(ROOT / self.path)


CONSUME = ".venv/bin/ottla consume flights"
OF_THE_TABLE = (
    '.venv/bin/ottla sql -e "SELECT airline, sum(flights), sum(cancelled) '
    'FROM parquet.\\`/tmp/flights/delays\\` GROUP BY airline"'
)
SELECT_BY_CARRIER = '.venv/bin/ottla sql -e "SELECT carrier, count(*) AS flights FROM flights GROUP BY carrier"'
MASTER = "spark-class org.apache.spark.deploy.master.Master"
WORKER = "spark-class org.apache.spark.deploy.worker.Worker"
SECURED = (
    ".venv/bin/ottla cluster describe -b kafka:9093 -X security.protocol=sasl_ssl -X ssl.ca.location=ca.pem "
    "-X sasl.mechanism=SCRAM-SHA-512 -X sasl.username=me -X 'sasl.password=${env:KAFKA_PASSWORD}'"
)
INSTALL_OF_THE_PROJECT = ".venv/bin/pip install --no-build-isolation ./weather"
TYPED = [
    Page(
        "docs/command.md",
        shows={
            CONSUME: '"flight": ?"UA5"',
            f"{CONSUME} -K :": "(?m)^AA:{",
            f"{CONSUME} -f record": '"key": ?"UA"',
            rf"{CONSUME} -f '%t [%p] at %o: %k = %s\n'": r"(?m)^flights \[0\] at 2: UA = {",
            f"{CONSUME} --grep JFK": r"AA1.*\n.*AA3",
            f"""{CONSUME} --filter '.value.carrier == "AA" and .value.dep_delay > 60' -n 5""": (r"^.*AA1.*\n$"),
            f"""{CONSUME} --filter '.headers.trace == "x1"' --filter '.key | startswith("A")'""": (
                r"^.*AA1.*\n.*AA3.*\n$"
            ),
            ".venv/bin/ottla consume orders --schema-registry 127.0.0.1:8081": '"price": ?{"double": ?9.5}',
            ".venv/bin/ottla profile list": "kafka:9093",
            ".venv/bin/ottla --profile here topic list": "flights",
        },
        not_typed=frozenset({SECURED}),
        has_registry=True,
    ),
    Page(
        "docs/clients.md",
        shows={
            ".venv/bin/ottla consume colours": "red",
            ".venv/bin/ottla consume colours --format record": '"key": ?"sky"',
            ".venv/bin/python examples/clients/with_confluent_kafka.py": "100 readings of 10 sensors",
            ".venv/bin/python examples/clients/with_kafka_python.py": "sensor-3: 20.3, 21.3, 22.3",
            ".venv/bin/python examples/clients/with_aiokafka.py": "100 readings of 10 sensors",
            ".venv/bin/ottla group describe readers": "colours",
            ".venv/bin/ottla config describe client-metrics orders": "client_id=orders",
        },
    ),
    Page(
        "docs/transactions.md",
        shows={
            ".venv/bin/ottla consume invoices": "two",
            ".venv/bin/ottla transaction list": r"billing-1.*CompleteCommit",
            ".venv/bin/ottla transaction describe billing-1": "CompleteCommit",
        },
    ),
    Page(
        "docs/operating.md",
        shows={".venv/bin/ottla cluster describe": "broker", ".venv/bin/ottla topic describe orders": "orders"},
    ),
    Page(
        "docs/getting-started.md",
        shows={
            ".venv/bin/ottla doctor": "nothing is wrong",
            ".venv/bin/ottla consume colours": "green",
            ".venv/bin/ottla consume colours --group painters": "yellow|red",
            ".venv/bin/ottla group describe painters": "colours",
            ".venv/bin/python paint.py": "yellow",
        },
        not_typed=frozenset({"make setup"}),
    ),
    Page("docs/sizing.md", shows={".venv/bin/ottla topic describe orders -b 127.0.0.1:19092": "orders"}),
    Page("docs/security.md", shows={"OTTLA_DIR=secured .venv/bin/ottla consume secrets -n 1": "hello"}),
    Page("docs/etcd.md", shows={".venv/bin/ottla status": "etcd-3", ".venv/bin/ottla doctor": "nothing is wrong"}),
    Page(
        "docs/migrating.md",
        shows={
            ".venv/bin/ottla mirror link status kafka": "RUNNING",
            ".venv/bin/ottla doctor": "nothing is wrong",
            ".venv/bin/ottla consume orders --group billing --count 10": r"\d",
            ".venv/bin/ottla group describe billing": "orders",
        },
    ),
    Page(
        "docs/plugins.md",
        shows={
            ".venv/bin/python -m pytest -q weather/tests": "passed",
            ".venv/bin/ottla connect status weather-source": r"task 0\s+RUNNING",
            ".venv/bin/ottla consume readings --count 3": r"(?s)(number.*){3}",
        },
        not_typed=frozenset({".venv/bin/pip wheel --no-deps --wheel-dir wheels ./plugins/sdk"}),
        new_plugin="weather",
    ),
    Page("docs/troubleshooting.md"),
    Page("docs/doctor.md", shows={".venv/bin/ottla doctor": "nothing is wrong"}),
    Page("docs/configuration.md", shows={".venv/bin/ottla-broker --help": "log.retention.hours"}),
    Page(
        "docs/connect.md",
        shows={
            ".venv/bin/ottla connect status people": r"task 0\s+RUNNING",
            ".venv/bin/ottla connect list": "people",
            ".venv/bin/ottla connect offsets show people": r"\d",
        },
    ),
    Page(
        "docs/sql.md",
        shows={
            ".venv/bin/ottla sql -f examples/pipelines/questions.sql": (
                r"name +flights +delay\n.*\n(.+\n){5}carrier +flight +dep_delay\n.*\n(.+\n){3}"
            ),
            ".venv/bin/ottla connect status late_by_airline": r"task 0\s+RUNNING",
            ".venv/bin/ottla connect list": "late_by_airline",
        },
    ),
    Page(
        "docs/spark.md",
        shows={
            ".venv/bin/ottla consume flights --count 1": '"dep_delay"',
            ".venv/bin/ottla connect status delays": r"task 0\s+RUNNING",
            ".venv/bin/ottla consume delays --count 3": '(?s)("mean_delay".*){3}',
            OF_THE_TABLE: r"(?m)^(United|American|Delta) ",
            f"{SELECT_BY_CARRIER} --format json": '"carrier": ?"UA"',
            ".venv/bin/ottla sql -f flights.sql": "hourly",
            ".venv/bin/ottla sql --list-warm": "local",
            ".venv/bin/ottla connect logs delays --task 0": "batch",
            ".venv/bin/ottla group describe connect-delays-topic": "flights",
        },
        in_other_terminals={
            f"{MASTER} --host 127.0.0.1 --port 7077": "New state: ALIVE",
            f"{WORKER} --cores 1 --memory 1g spark://127.0.0.1:7077": "Successfully registered",
        },
        not_typed=frozenset({"sudo apt-get install openjdk-17-jre-headless"}),
    ),
    Page(
        "docs/mirroring.md",
        shows={
            ".venv/bin/ottla mirror link list": "west",
            ".venv/bin/ottla mirror link status": "RUNNING",
            ".venv/bin/ottla consume orders --count 3": r"\d",
            ".venv/bin/ottla mirror list": "RUNNING",
            ".venv/bin/ottla mirror lag 'west->east' --wait --within 120": "west->east",
            ".venv/bin/ottla mirror status 'west->east'": "west.orders",
        },
    ),
    Page(
        "examples/README.md",
        shows={
            ".venv/bin/ottla connect status late-flights": r"task 0\s+RUNNING",
            ".venv/bin/ottla consume late-flights --count 3": r'(?s)("dep_delay":\d{2,}.*){3}',
        },
        not_typed=frozenset(
            f".venv/bin/pip install --no-build-isolation ./examples/{each}" for each in ("plugin", "authorizer")
        ),
        has_plugin=True,
    ),
]


def installed(project: Path, site: Path) -> None:
    """Installs a package into a folder of its own, as pip does in an environment."""
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([*install, "--disable-pip-version-check", "--target", site, project], check=True, timeout=600)


@pytest.mark.parametrize("page", TYPED, ids=lambda page: page.path)
def test_what_is_expected_stands_on_the_page(page: Page) -> None:
    assert {*page.shows, *page.not_typed, *page.in_other_terminals} <= {*page.commands()}


@pytest.mark.parametrize("page", TYPED, ids=lambda page: page.path)
def test_every_command_of_a_page_works(page: Page, tmp_path: Path) -> None:
    site = tmp_path / "site" if page.has_plugin or page.new_plugin else None
    if site is not None and page.has_plugin:
        for example in ("plugin", "authorizer"):
            installed(ROOT / "examples" / example, site)
    with ExitStack() as stack:
        inside = stack.enter_context(own_namespaces())
        if page.has_registry:
            stack.enter_context(schema_registry(inside))
        reader = stack.enter_context(Reader(tmp_path / "ottla", inside, python_path=site))
        for step in steps((ROOT / page.path).read_text()):
            if isinstance(step, WrittenFile):
                reader.write(step)
            elif step.line.endswith("--follow"):
                assert reader.follow(step, lines=1)
            elif ready := page.in_other_terminals.get(step.line):
                reader.leave_running(step, until=ready)
            elif site is not None and step.line == INSTALL_OF_THE_PROJECT:
                installed(reader.directory / page.new_plugin, site)
            elif step.line not in page.not_typed:
                reader.type(step, until=page.shows.get(step.line, ""))
