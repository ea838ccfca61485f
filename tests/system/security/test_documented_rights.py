"""A Connect worker, a source and a sink work with the rights that the documentation gives them, and with no others.

What it says of mirror workers and links is tried by campaigns of faults (`tests/faults/mirrors`, with ``--secure``).
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.clusters.guarded_cluster import GuardedCluster
from tests.support.connect.connect_cluster import ConnectCluster
from tests.support.documented_rights import PAGE
from tests.support.eventually import eventually

pytestmark = pytest.mark.slow

ONE_REPLICA = {f"{each}.storage.replication.factor": "1" for each in ("config", "offset", "status")}
LINES = ["UA 1545", "AA 1141", "B6 725"]
TEXT = {"value.converter": "StringConverter"}
ONE_FILE = {"file.roll.rows": str(len(LINES))}
"""All lines are one file, and with that their offsets are committed."""


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuardedCluster]:
    users = ("connect-worker", "connect-source", "connect-sink", "connect-admin")
    with GuardedCluster(tmp_path_factory.mktemp("rights"), users) as cluster:
        yield cluster


def change_offsets(connect: ConnectCluster, written: Path) -> None:
    """Shows, alters and deletes the offsets of the sink, whose files have to make way for that."""
    connect.request("PUT", "/connectors/flights-sink/stop")
    path = "/connectors/flights-sink/offsets"
    eventually(lambda: connect.request("GET", path)["offsets"], "the sink has committed")
    for file in written.rglob("*.jsonl"):
        file.unlink()
    partition = {"kafka_topic": "flights", "kafka_partition": 0}
    altered = {"offsets": [{"partition": partition, "offset": {"kafka_offset": 1}}]}

    def is_altered() -> bool:
        try:
            connect.request("PATCH", path, altered)
        except AssertionError as error:  # while the task stops
            raise ConnectionError(str(error)) from error
        return True

    eventually(is_altered, "the sink's offset is altered")
    assert connect.request("GET", path)["offsets"] == altered["offsets"]
    connect.request("DELETE", path)
    assert not connect.request("GET", path)["offsets"]


def test_connect_works_with_the_rights_of_the_page(tmp_path: Path, guarded: GuardedCluster) -> None:
    settings = {
        **ONE_REPLICA,
        **guarded.login("connect-worker"),
        **guarded.login("connect-source", "producer."),
        **guarded.login("connect-sink", "consumer."),
        **guarded.login("connect-admin", "admin."),
        "group.id": "etl",
        "session.timeout.ms": "6000",
        "exactly.once.source.support": "enabled",
    }
    lines, written = tmp_path / "lines.txt", tmp_path / "written"
    written.mkdir()
    lines.write_text("".join(f"{line}\n" for line in LINES))
    source = {"connector.class": "ottla_file.FileSource", "file.path": str(lines), "topic": "flights", **TEXT}
    sink = {
        "connector.class": "ottla_file.FileSink",
        "file.directory": str(written),
        "topics": "flights",
        **TEXT,
        **ONE_FILE,
    }
    with ConnectCluster(tmp_path, guarded.address, workers=1, settings=settings) as connect:
        connect.put_connector("from", source)
        connect.put_connector("flights-sink", sink)

        def is_written() -> bool:
            found = "".join(file.read_text() for file in written.rglob("flights-*.jsonl"))
            return all(line in found for line in LINES)

        eventually(is_written, "the lines are written")
        for name in ("from", "flights-sink"):
            assert set(connect.states(name).values()) == {"RUNNING"}
        change_offsets(connect, written)
        for name in ("from", "flights-sink"):
            connect.request("DELETE", f"/connectors/{name}")
        refused = [line for line in connect.logs().splitlines() if "AUTHORIZATION" in line.upper()]
    assert not refused, f"{PAGE.name} gives too few rights: {refused[:3]}"
