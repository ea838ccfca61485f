"""Every process in turn is stopped and started again, by this release and by the former one, and no request fails.

Meanwhile idempotent producers write, a group commits, lines of a file go through Connect into another file, and a
topic is mirrored. How long each had to wait at most is printed.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from kio.schema.api_versions.v3.request import ApiVersionsRequest

from ottla_core.cluster.state.features import NEWEST_LEVEL
from tests.support.clients.steady_group import SteadyGroup
from tests.support.clients.steady_writer import SteadyWriter, read_values
from tests.support.clusters.ottla_command import Ottla
from tests.support.clusters.releases import THIS_RELEASE, previous_release
from tests.support.eventually import eventually
from tests.upgrade.rolling_cluster import PARTITIONS, STEADY_TOPIC, RollingCluster, archived

pytestmark = pytest.mark.slow

LINE_INTERVAL_S = 0.02
COPIED_DEADLINE_S = 240.0
MIRRORED = f"here.{STEADY_TOPIC}"


class LineWriter:
    """Appends numbered lines to a file while it is open."""

    def __init__(self, path: Path) -> None:
        self.count = 0
        self._path = path
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._write, name="line writer")

    def __enter__(self) -> "LineWriter":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        self._thread.join()

    def _write(self) -> None:
        with self._path.open("a") as file:
            while not self._ending.wait(LINE_INTERVAL_S):
                file.write(f"line {self.count}\n")
                file.flush()
                self.count += 1


@contextmanager
def load(cluster: RollingCluster) -> Iterator[None]:
    """Uses everything while it is open, and looks then whether all is there and nothing has failed."""
    writers = [SteadyWriter(cluster.bootstrap, STEADY_TOPIC, partition=number) for number in range(PARTITIONS)]
    group = SteadyGroup(cluster.bootstrap, STEADY_TOPIC)
    with LineWriter(cluster.lines) as lines, writers[0], writers[1], group:
        yield
        group.wait_for_commits(5)
        for writer in writers:
            writer.wait_for_acknowledgements(50)
        print(
            f"longest pauses: produce {max(each.longest_pause_s() for each in writers):.2f} s,"
            f" commits {group.longest_pause_s():.2f} s, {group.rebalances} assignments"
        )
    for writer in writers:
        assert writer.failures == []
        writer.check_complete()
    assert group.failures == []
    assert group.skipped() == []
    written = {f"line {number}" for number in range(lines.count)}
    eventually(
        lambda: written <= set(archived(cluster.archive)), "the sink has all lines", within_s=COPIED_DEADLINE_S
    )
    assert set(archived(cluster.archive)) == written
    for number, writer in enumerate(writers):
        check_mirrored(cluster, number, count=max(writer.acknowledged.values()) + 1)


def check_mirrored(cluster: RollingCluster, partition: int, *, count: int) -> None:
    """Checks that the mirror has every record, in order."""
    copied = read_values(cluster.there.bootstrap, MIRRORED, partition, up_to=count)
    original = read_values(cluster.bootstrap, STEADY_TOPIC, partition, up_to=count)
    assert [value for _, value in copied] == [value for _, value in original]


def test_a_rolling_restart_fails_no_request(tmp_path: Path) -> None:
    with RollingCluster(tmp_path, THIS_RELEASE) as cluster, load(cluster):
        for role, exchange in cluster.roles().items():
            print(f"restarting {role}")
            exchange(THIS_RELEASE)


@pytest.mark.requires("history")
def test_the_former_release_is_exchanged_in_any_order_and_back_until_the_level_is_raised(tmp_path: Path) -> None:
    former = previous_release()
    with RollingCluster(tmp_path, former) as cluster, load(cluster):
        asked = ApiVersionsRequest(client_software_name="test", client_software_version="1")
        assert cluster.brokers.ask(asked).supported_features == (), "this is not the former release"
        upgrades = cluster.roles()
        for role, exchange in upgrades.items():
            print(f"upgrading {role}")
            exchange(THIS_RELEASE)
        for role, exchange in reversed(upgrades.items()):
            print(f"going back with {role}")
            exchange(former)
        for role, exchange in reversed(upgrades.items()):
            print(f"upgrading {role}")
            exchange(THIS_RELEASE)
        features = Ottla(cluster.bootstrap)
        shown = {each["feature"]: each for each in features.json("cluster", "features", "show")["features"]}
        assert shown["ottla.version"]["level"] == 1, "nobody has raised it"
        features.run("cluster", "features", "upgrade")
        shown = {each["feature"]: each for each in features.json("cluster", "features", "show")["features"]}
        assert shown["ottla.version"]["level"] == shown["ottla.version"]["max_level"] == NEWEST_LEVEL
        assert shown["transaction.version"]["level"] == shown["transaction.version"]["max_level"] == 2
