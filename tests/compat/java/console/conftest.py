"""Three nodes of Apache Kafka with a console beside them, in place of a cluster of ours."""

from collections.abc import Iterator

import pytest
from confluent_kafka.admin import AdminClient
from playwright.sync_api import Browser

from tests.support.console.browser import chromium
from tests.support.console.console_process import ConsoleProcess
from tests.support.reference.reference_kafka import ReferenceKafkaCluster
from tests.support.requirements import require
from tests.system.console.conftest import ShownCluster, page

__all__ = ["browser", "page", "shown_cluster"]

SETTINGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    "auto.create.topics.enable": "false",
}


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One browser for a file's tests: it has an event loop, beside which tests of other files could run none."""
    require("chromium")
    with chromium() as running:
        yield running


@pytest.fixture(scope="module")
def shown_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ShownCluster]:
    """Three brokers of Kafka and a console that is told nothing but their addresses."""
    directory = tmp_path_factory.mktemp("console-on-kafka")
    with ReferenceKafkaCluster(directory, nodes=3, settings=SETTINGS) as kafka:
        console = {
            "clusters": "kafka",
            "cluster.kafka.bootstrap.servers": kafka.bootstrap,
            "audit.log.path": str(directory / "audit.log"),
        }
        with ConsoleProcess(directory, console) as running:
            yield ShownCluster(
                bootstrap=kafka.bootstrap,
                url=running.url,
                admin=AdminClient({"bootstrap.servers": kafka.bootstrap}),
                connect_url="",
                directory=directory,
                files=directory,
                pages="/clusters/kafka",
            )
