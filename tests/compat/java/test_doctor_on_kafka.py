"""`ottla doctor` at Apache Kafka: nothing is wrong with a cluster that is well, and no part of it goes unseen."""

import json
from pathlib import Path

import pytest

from tests.support.clusters.doctor import Doctor
from tests.support.reference.reference_kafka import ReferenceKafka

pytestmark = [
    pytest.mark.slow,
    pytest.mark.requires("kafka"),
]


def test_nothing_is_wrong_with_kafka(tmp_path: Path) -> None:
    with ReferenceKafka(tmp_path / "kafka") as kafka:
        doctor = Doctor({"OTTLA_BOOTSTRAP": kafka.bootstrap})
        doctor.expect(besides="level-not-raised")  # Kafka has levels of its own that are not raised by themselves
        assert json.loads(doctor.ottla("doctor", "--json").stdout)["not_seen"] == []
