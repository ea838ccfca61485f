"""What clients do on a running broker stands in its audit log."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from ottla_broker.audit.audited_requests import changed_resources
from ottla_core.wire.messages import api_name
from tests.support.clients.raw_client import RawClient
from tests.support.clients.raw_requests import metadata_request
from tests.support.clients.right_probes import DOOMED, HIDDEN, PROBES, SEEN, Things
from tests.support.clusters.ottla_cluster import OttlaCluster
from tests.support.eventually import eventually
from tests.support.free_ports import LOOPBACK, free_ports

pytestmark = pytest.mark.slow

TIMEOUT_S = 30
PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"


class AuditedCluster:
    """A broker with logins, access control lists and an audit log."""

    def __init__(self, directory: Path):
        (port,) = free_ports(1)
        self.address = f"{LOOPBACK}:{port}"
        self.path = directory / "audit.log"
        settings = {
            "listeners": f"LOGINS://{self.address}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,LOGINS:SASL_PLAINTEXT",
            "sasl.enabled.mechanisms": "PLAIN",
            "listener.name.logins.plain.sasl.jaas.config": f'{PLAIN_MODULE} required user_admin="a" user_bob="b";',
            "authorizer.class.name": "StandardAuthorizer",
            "super.users": "User:admin;User:ANONYMOUS",
            "audit.log.path": str(self.path),
            "audit.log.data.enable": "true",
        }
        arguments = [each for name, value in settings.items() for each in ("--set", f"broker:{name}={value}")]
        self.cluster = OttlaCluster(directory / "cluster", arguments=arguments)

    def settings(self, user: str) -> dict[str, str | int | float | bool]:
        return {
            "bootstrap.servers": self.address,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": user,
            "sasl.password": user[0],
            "client.id": f"{user}-tool",
            "log_level": 0,
        }

    def records(self, **sought: object) -> list[Mapping[str, Any]]:
        """Returns the records that have certain fields."""
        found = [json.loads(line) for line in self.path.read_text().splitlines()]
        return [each for each in found if all(each.get(name) == value for name, value in sought.items())]


@pytest.fixture(scope="module")
def audited(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AuditedCluster]:
    made = AuditedCluster(tmp_path_factory.mktemp("audited"))
    with made.cluster:
        yield made


def create(audited: AuditedCluster, user: str, topic: str) -> None:
    client = AdminClient(audited.settings(user))  # must outlive the result
    client.create_topics([NewTopic(topic, 1, 1)])[topic].result(TIMEOUT_S)


def test_changes_are_recorded_with_their_result(audited: AuditedCluster) -> None:
    create(audited, "admin", "orders")
    with pytest.raises(KafkaException):
        create(audited, "admin", "orders")
    sought = {"kind": "administration", "api": "CreateTopics", "resources": ["TOPIC:orders"]}
    eventually(lambda: len(audited.records(**sought)) == 2, "both attempts are recorded")
    done, failed = audited.records(**sought)
    assert (done["principal"], done["address"], done["listener"]) == ("User:admin", LOOPBACK, "LOGINS")
    assert (done["client_id"], done["result"]) == ("admin-tool", "done")
    assert (failed["result"], failed["errors"]) == ("failed", {"TOPIC_ALREADY_EXISTS": 1})


def test_what_is_refused_is_recorded(audited: AuditedCluster) -> None:
    with pytest.raises(KafkaException):
        create(audited, "bob", "forbidden")
    eventually(lambda: audited.records(principal="User:bob", api="CreateTopics", kind="denial"), "it is recorded")
    (denial,) = audited.records(principal="User:bob", api="CreateTopics", kind="denial")
    assert (denial["operation"], denial["resources"]) == ("CREATE", ["TOPIC:forbidden"])
    eventually(lambda: audited.records(principal="User:bob", kind="administration"), "the request is, too")
    (request,) = audited.records(principal="User:bob", kind="administration")
    assert request["result"] == "denied"


def test_who_writes_to_a_topic_is_recorded_once(audited: AuditedCluster) -> None:
    create(audited, "admin", "written")
    producer = Producer(audited.settings("admin"))
    for _ in range(3):
        producer.produce("written", b"v")
        assert producer.flush(TIMEOUT_S) == 0
    create(audited, "admin", "written-after")
    eventually(lambda: audited.records(resources=["TOPIC:written-after"]), "all before is recorded")
    (access,) = audited.records(kind="data", resources=["TOPIC:written"], principal="User:admin")
    assert (access["api"], access["operation"], access["result"]) == ("Produce", "WRITE", "allowed")


def test_the_log_goes_on_in_a_new_file_when_it_is_moved(audited: AuditedCluster) -> None:
    create(audited, "admin", "before")
    eventually(lambda: audited.records(resources=["TOPIC:before"]), "it is recorded")
    audited.path.rename(audited.path.with_suffix(".1"))
    create(audited, "admin", "after")
    eventually(lambda: audited.path.exists() and audited.records(resources=["TOPIC:after"]), "it is recorded")
    assert not audited.records(resources=["TOPIC:before"])
    assert audited.path.stat().st_mode & 0o777 == 0o600


def test_each_request_that_changes_the_cluster_has_one_record(audited: AuditedCluster) -> None:
    for topic in (SEEN, HIDDEN, DOOMED):
        create(audited, "admin", topic)
    with RawClient.to(audited.cluster.bootstrap) as client:
        topics = client.ask(metadata_request([SEEN, HIDDEN, DOOMED])).topics
        things = Things({topic.name: topic.topic_id for topic in topics}, 1)
        sent: Counter[str] = Counter()
        for probe in PROBES:
            message = probe.request(things)
            if changed_resources(probe.api_key, message, things.names.get) is not None:
                client.ask(message)
                sent[api_name(probe.api_key)] += 1
    assert len(sent) > 10
    sought = {"principal": "User:ANONYMOUS", "kind": "administration"}

    def recorded() -> Counter[str]:
        return Counter(record["api"] for record in audited.records(**sought))

    eventually(lambda: recorded() == sent, "each is recorded")
    assert not [record for record in audited.records(**sought) if record["result"] == "unanswered"]
