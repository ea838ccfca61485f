"""A cluster with a console beside it, as `ottla up --console` starts them, and a browser."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from playwright.sync_api import Browser, Page

from tests.support.clusters.ottla_cluster import OttlaCluster
from tests.support.clusters.secured_listeners import SecuredListeners
from tests.support.clusters.service_process import GroupCoordinatorProcess
from tests.support.console.browser import chromium, new_page
from tests.support.console.console_process import ConsoleProcess
from tests.support.free_ports import LOOPBACK, free_ports
from tests.support.requirements import require
from tests.support.servers.issuer import Issuer


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownCluster:
    """A cluster, the address of its console, and a client of our own that looks at effects.

    Attributes:
        url: of the console.
        directory: of the cluster.
        files: a folder of the test's own.
        connect_url: of the cluster's Connect worker.
        pages: the path of the cluster's pages.
    """

    bootstrap: str
    url: str
    admin: AdminClient
    connect_url: str
    directory: Path
    files: Path
    pages: str = "/clusters/local"


ONE_REPLICA = {
    "broker:offsets.topic.replication.factor": "1",
    **{f"connect:{store}.storage.replication.factor": "1" for store in ("config", "offset", "status")},
}
"""So that a test can empty a broker: with three replicas of a topic on three brokers, none can be."""


@pytest.fixture(scope="session")
def shown_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ShownCluster]:
    """Three brokers, a Connect worker and a console."""
    (port,) = free_ports(1)
    files = tmp_path_factory.mktemp("console")
    directory = files / "cluster"
    settings = [word for name, value in ONE_REPLICA.items() for word in ("--set", f"{name}={value}")]
    arguments = ["--connect", "1", "--connect-port", "0", "--console", "--console-port", str(port), *settings]
    with OttlaCluster(directory, brokers=3, arguments=arguments) as cluster:
        (worker,) = json.loads((directory / "cluster.json").read_text())["connect"]
        yield ShownCluster(
            bootstrap=cluster.bootstrap,
            url=f"http://{LOOPBACK}:{port}",
            admin=AdminClient({"bootstrap.servers": cluster.bootstrap}),
            connect_url=worker,
            directory=directory,
            files=files,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardedConsole:
    """A console of a cluster with logins and access control lists.

    `owner` may do everything there, `ann` what the lists say; the password of both is `secured_listeners.PASSWORD`.

    Attributes:
        url: of the console.
        sasl: address of the brokers' listener with logins.
        issuer: whose bearer tokens the brokers take, for the audience `secured_listeners.AUDIENCE`.
        admin: a client of our own, which may do everything.
        audit: file of the console's audit log.
        pages: the path of the cluster's pages.
    """

    url: str
    sasl: str
    bootstrap: str
    admin: AdminClient
    audit: Path
    issuer: Issuer
    pages: str = "/clusters/guarded"


@contextmanager
def coordinator_of(secured: SecuredListeners, directory: Path) -> Iterator[None]:
    """Runs a group coordinator beside the broker."""
    process = GroupCoordinatorProcess(directory / "coordinator", secured.cluster.etcd)
    process.start()
    try:
        yield
    finally:
        process.stop()


@pytest.fixture(scope="session")
def guarded_console(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuardedConsole]:
    """A broker where users log in, and a console that masks some fields."""
    directory = tmp_path_factory.mktemp("signed-in")
    access = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:owner;User:ANONYMOUS",
    }
    with SecuredListeners(directory, access) as secured, coordinator_of(secured, directory):
        settings = {
            "clusters": "guarded",
            "cluster.guarded.bootstrap.servers": secured.addresses["SASL_PLAINTEXT"],
            "cluster.guarded.client.security.protocol": "SASL_PLAINTEXT",
            "cluster.guarded.client.sasl.mechanism": "PLAIN",
            "audit.log.path": str(directory / "audit.log"),
            "masking.rules": "cards,people",
            "masking.rule.cards.topics": "payments*",
            "masking.rule.cards.fields": "$.card.number",
            "masking.rule.cards.how": "last:4",
            "masking.rule.cards.exempt": "owner",
            "masking.rule.people.topics": "payments*",
            "masking.rule.people.fields": "key,header:who",
            "masking.rule.people.how": "hash",
            "masking.rule.people.exempt": "owner",
        }
        with ConsoleProcess(directory, settings) as running:
            yield GuardedConsole(
                url=running.url,
                sasl=secured.addresses["SASL_PLAINTEXT"],
                bootstrap=secured.addresses["PLAINTEXT"],
                admin=AdminClient({"bootstrap.servers": secured.addresses["PLAINTEXT"]}),
                audit=directory / "audit.log",
                issuer=secured.issuer,
            )


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """One browser for all tests."""
    require("chromium")
    with chromium() as running:
        yield running


@pytest.fixture
def page(browser: Browser, shown_cluster: ShownCluster) -> Iterator[Page]:
    """A page of the console, in a profile of its own."""
    with new_page(browser, shown_cluster.url) as opened:
        yield opened
