"""Ottla's Connect workers against Apache Kafka's own broker, which is all that they need."""

from collections import Counter
from pathlib import Path

import pytest

from tests.support.connect.connect_cluster import ConnectCluster
from tests.support.eventually import eventually
from tests.support.reference.reference_kafka import ReferenceKafka

pytestmark = [
    pytest.mark.slow,
    pytest.mark.requires("kafka"),
]

LINES = [f"line {number}" for number in range(5000)]
SETTINGS = {
    "session.timeout.ms": "6000",  # the least that Kafka allows by default
    **{f"{store}.storage.replication.factor": "1" for store in ("config", "offset", "status")},
}


def test_connectors_run_on_apache_kafka(tmp_path: Path) -> None:
    source, target = tmp_path / "in", tmp_path / "out"
    source.mkdir()
    target.mkdir()
    (source / "a.txt").write_text("".join(f"{line}\n" for line in LINES))
    lines = {"topic": "lines", "value.converter": "StringConverter"}
    with (
        ReferenceKafka(tmp_path / "kafka") as kafka,
        ConnectCluster(tmp_path, kafka.bootstrap, workers=2, settings=SETTINGS) as connect,
    ):
        connect.put_connector("in", {"connector.class": "FileSource", "file.path": f"{source}/*.txt", **lines})
        connect.put_connector(
            "out",
            {
                "connector.class": "FileSink",
                "tasks.max": "2",
                "topics": "lines",
                "file.directory": str(target),
                "file.format": "lines",
                "file.roll.ms": "1000",
                "value.converter": "StringConverter",
            },
        )

        def written() -> Counter[str]:
            return Counter(line for each in target.glob("lines/*") for line in each.read_text().splitlines())

        eventually(lambda: written() == Counter(LINES), "every line is in the files, once", within_s=60)
        offsets = connect.request("GET", "/connectors/in/offsets")["offsets"]
        assert [each["offset"]["line"] for each in offsets] == [len(LINES)]
