"""Everything that a mirror has to bring along, from Ottla to Ottla; `tests/compat/java` has Kafka at either side."""

from collections.abc import Iterator

import pytest

from tests.support.clusters.ottla_cluster import OttlaCluster
from tests.support.clusters.ottla_command import Ottla
from tests.support.mirror.mirror_content import ALL_TOPICS, check_copies, fill
from tests.support.mirror.mirror_worker import MirrorWorkerProcess

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def clusters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """Addresses of a source that has been filled, and of a target."""
    directory = tmp_path_factory.mktemp("clusters")
    with OttlaCluster(directory / "source") as source, OttlaCluster(directory / "target") as target:
        fill(source.bootstrap)
        yield source.bootstrap, target.bootstrap


def test_copies_have_every_record_as_it_was(
    clusters: tuple[str, str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    source, target = clusters
    settings = {
        "clusters": "west,east",
        "west.bootstrap.servers": source,
        "east.bootstrap.servers": target,
        "west->east.enabled": "true",
        "west->east.topics": "content-.*",
        "replication.factor": "1",
    }
    with MirrorWorkerProcess(tmp_path_factory.mktemp("worker"), settings) as worker:
        command = Ottla(target)
        command.environment["OTTLA_MIRROR_URL"] = worker.url
        command.run("mirror", "lag", "west->east", "--wait", "--within", "90")
        check_copies(source, target, "west", ALL_TOPICS)
        assert command.json("mirror", "list")[0]["state"] == "RUNNING"
        command.run("mirror", "status", "west->east")


def test_linked_topics_have_every_batch_as_it_was(clusters: tuple[str, str]) -> None:
    source, target = clusters
    command = Ottla(target)
    command.run("mirror", "link", "create", "west", "--source", source, "--topics", "content-.*", "--wait")
    found = command.json("mirror", "verify", "content-.*", "--source", source, "--linked", "--wait", "60")
    assert {each["state"] for each in found} == {"equal"}
    assert {each["topic"] for each in found} == {*ALL_TOPICS}
