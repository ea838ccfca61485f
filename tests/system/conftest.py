"""Fixtures of the system tests: a broker that may be killed, either Ottla's or the reference Kafka."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.broker_under_test import REFERENCE_VARIABLE
from tests.support.reference_kafka import ReferenceKafka
from tests.support.service_process import RestartableBroker, SingleBrokerServices


@pytest.fixture
def restartable_broker(tmp_path: Path) -> Iterator[RestartableBroker]:
    """A broker of this test's own, running."""
    if os.environ.get(REFERENCE_VARIABLE):
        with ReferenceKafka(tmp_path / "reference-kafka") as kafka:
            yield kafka
    else:
        with SingleBrokerServices(tmp_path) as services:
            yield services.broker
