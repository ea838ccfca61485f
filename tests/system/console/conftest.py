"""A cluster with a console beside it, as `ottla up --console` starts them, and a browser."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from playwright.sync_api import Browser, Page

from tests.support.clusters.ottla_cluster import OttlaCluster
from tests.support.console.browser import chromium, new_page
from tests.support.free_ports import LOOPBACK, free_ports
from tests.support.requirements import require


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownCluster:
    """A cluster, the address of its console, and a client of our own that looks at effects.

    Attributes:
        url: of the console.
        directory: of the cluster.
        pages: the path of the cluster's pages.
    """

    directory: Path

    bootstrap: str
    url: str
    admin: AdminClient
    pages: str = "/clusters/local"


@pytest.fixture(scope="session")
def shown_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ShownCluster]:
    """Three brokers and a console."""
    (port,) = free_ports(1)
    directory = tmp_path_factory.mktemp("console") / "cluster"
    with OttlaCluster(directory, brokers=3, arguments=["--console", "--console-port", str(port)]) as cluster:
        yield ShownCluster(
            directory=directory,
            bootstrap=cluster.bootstrap,
            url=f"http://{LOOPBACK}:{port}",
            admin=AdminClient({"bootstrap.servers": cluster.bootstrap}),
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
