"""Connect workers form a group of an Apache Kafka, through TLS and SASL, and Kafka's own tool lists it."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.compat.java.kafka_tools import GROUPS, run_tool
from tests.support.connect.group_workers import GroupWorker, Watch, is_even
from tests.support.eventually import eventually
from tests.support.reference.secured_kafka import SecuredKafka, secured_kafka

pytestmark = [
    pytest.mark.slow,
    pytest.mark.requires("kafka"),
]

CONNECTORS = {"flights": 4, "orders": 2}
GROUP_SETTINGS = {
    "session.timeout.ms": "3000",
    "heartbeat.interval.ms": "200",
    "scheduled.rebalance.max.delay.ms": "1000",
}


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredKafka]:
    with secured_kafka(tmp_path_factory.mktemp("secured")) as running:
        running.settings |= GROUP_SETTINGS
        yield running


def test_workers_with_all_mechanisms_share_the_work_and_the_tool_lists_their_group(kafka: SecuredKafka) -> None:
    mechanisms = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
    workers = [GroupWorker(f"http://{each.lower()}:8083", kafka.login(each), CONNECTORS) for each in mechanisms]
    try:
        with Watch(lambda: workers):
            eventually(lambda: is_even(workers, CONNECTORS), "the work is shared", within_s=60)
            groups = run_tool(GROUPS, "--bootstrap-server", kafka.open, "--list")
            assert re.search(r"^connect-cluster\s+Classic\s+connect\s*$", groups, re.MULTILINE), groups
            workers.pop().kill()  # until that is noticed takes longer than a SASL session lasts
            eventually(lambda: is_even(workers, CONNECTORS), "the work has moved", within_s=60)
            assert not any(worker.losses for worker in workers)
    finally:
        for worker in workers:
            worker.close()


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"sasl.mechanism": "SCRAM-SHA-512", "sasl.password": "wrong"}, "does not accept worker"),
        ({"sasl.mechanism": "PLAIN", "sasl.password": "wrong"}, "does not accept worker"),
        ({"sasl.mechanism": "PLAIN", "ssl.ca.location": "client.pem"}, "certificate"),
    ],
)
def test_who_is_not_let_in_is_told_why(kafka: SecuredKafka, settings: dict[str, str], reason: str) -> None:
    authority = Path(kafka.settings["ssl.ca.location"])
    if "ssl.ca.location" in settings:
        settings = {**settings, "ssl.ca.location": str(authority.with_name(settings["ssl.ca.location"]))}
    worker = GroupWorker("http://a", {**kafka.settings, **settings}, CONNECTORS)
    try:
        failure = eventually(lambda: worker.failure, "the worker gives up", within_s=30)
        assert reason in str(failure)
        assert "wrong" not in str(failure)
    finally:
        worker.close()
