"""The same answers as Kafka's StandardAuthorizer gives: each API with each right that matters, there and here.

A client, ann, is given one set of rights after the other on both clusters, and sends the same requests to both. Who
is named in the answers, with which errors and which rights, has to be the same, but for what `ALIKE` says.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from kio.schema.create_acls.v3.request import AclCreation, CreateAclsRequest
from kio.schema.delete_acls.v3.request import DeleteAclsFilter, DeleteAclsRequest
from kio.schema.errors import ErrorCode
from kio.schema.sasl_authenticate.v2.request import SaslAuthenticateRequest
from kio.schema.sasl_handshake.v1.request import SaslHandshakeRequest
from kio.static.primitive import i8

from tests.support.clients.raw_client import Closed, RawClient
from tests.support.clients.raw_requests import metadata_request
from tests.support.clients.right_probes import DOOMED, HIDDEN, MINE, PROBES, SEEN, THEIRS, Probe, Things, told
from tests.support.clusters.ottla_cluster import OttlaCluster
from tests.support.eventually import eventually
from tests.support.free_ports import LOOPBACK, free_ports
from tests.support.reference.reference_kafka import ReferenceKafka

TIMEOUT_S = 60
USERS = " ".join(f'user_{name}="{name}"' for name in ("admin", "ann"))
PLAIN_LOGIN = f"org.apache.kafka.common.security.plain.PlainLoginModule required {USERS};"
AUTHORIZER = {
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.logins.plain.sasl.jaas.config": PLAIN_LOGIN,
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:admin;User:ANONYMOUS",
}
ALLOW, DENY = 3, 2
LITERAL, PREFIXED = 3, 4
TOPIC, GROUP, CLUSTER = 2, 3, 4
CLUSTER_NAME = "kafka-cluster"
READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE, ACTION, DESCRIBE_CONFIGS, ALTER_CONFIGS, IDEMPOTENT = range(3, 13)
ALL = 2

Right = tuple[int, str, int, int, int]
"""Kind, name, pattern, operation, permission."""


def one(kind: int, name: str, operation: int, *, pattern: int = LITERAL, permission: int = ALLOW) -> Right:
    return kind, name, pattern, operation, permission


OPERATIONS = {
    TOPIC: (ALL, READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS),
    GROUP: (ALL, READ, DELETE, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS),
    CLUSTER: (ALL, CREATE, ALTER, DESCRIBE, ACTION, DESCRIBE_CONFIGS, ALTER_CONFIGS, IDEMPOTENT),
}
NAMES = {TOPIC: "seen", GROUP: "mine", CLUSTER: CLUSTER_NAME}
RIGHTS: Mapping[str, Sequence[Right]] = {
    "nothing": (),
    **{
        f"{kind}-{operation}": (one(kind, NAMES[kind], operation, pattern=LITERAL if kind == CLUSTER else PREFIXED),)
        for kind, operations in OPERATIONS.items()
        for operation in operations
    },
    "reader": (one(TOPIC, SEEN, READ), one(GROUP, MINE, READ)),
    "reader by wildcards": (one(TOPIC, "*", READ), one(GROUP, "*", READ)),
    "all but": (
        one(TOPIC, "*", ALL),
        one(GROUP, "*", ALL),
        one(TOPIC, "hid", ALL, pattern=PREFIXED, permission=DENY),
        one(GROUP, THEIRS, ALL, permission=DENY),
    ),
    "no describing": (one(TOPIC, SEEN, ALL), one(TOPIC, SEEN, DESCRIBE, permission=DENY), one(GROUP, MINE, ALL)),
    "group alone": (one(GROUP, MINE, ALL),),
    "everything": (one(TOPIC, "*", ALL), one(GROUP, "*", ALL), one(CLUSTER, CLUSTER_NAME, ALL)),
}


def _without_topics_of_refusals(answer: Any) -> Any:
    return {"error_code": answer["error_code"]} if answer["error_code"] != "none" else answer


def _no_member(answer: Any) -> Any:
    return {"error_code": answer["error_code"].replace("group_id_not_found", "unknown_member_id")}


def _loaded(answer: Any) -> Any:
    return {"error_code": answer["error_code"].replace("coordinator_load_in_progress", "none")}


ALIKE: Mapping[str, Callable[[Any], Any]] = {
    # aiokafka does not look at the error of the whole answer, so partitions are named as well.
    "OffsetFetch of one": _without_topics_of_refusals,
    # Clients take the former for final; a group that has no members is told like one that has others.
    **dict.fromkeys(
        ("ConsumerGroupHeartbeat mine", "ConsumerGroupHeartbeat theirs", "ConsumerGroupHeartbeat hidden"), _no_member
    ),
    # Kafka asks its controller for ids while the first clients wait.
    "InitProducerId": _loaded,
    # Which APIs there are is no question of rights.
    "ApiVersions": lambda _answer: "anything",
}
"""By probe: what answers that differ for another reason than rights are taken for."""

_numbers = count()


@dataclass
class Cluster:
    """One of both, with a listener for logins and a plain one.

    Attributes:
        logins: address of the former.
        plain: address of the latter, where everybody is a super user.
    """

    name: str
    logins: str
    plain: str
    broker_id: int
    admin: AdminClient = field(init=False)

    def __post_init__(self) -> None:
        self.admin = AdminClient({"bootstrap.servers": self.plain, "log_level": 0})

    def prepare(self) -> Things:
        """Has what probes are about be there, also what clients with enough rights have deleted."""
        futures = self.admin.create_topics(
            [
                NewTopic(each, 1, 1, config={"retention.ms": "-1"})  # the records of probes are old
                for each in (SEEN, HIDDEN, DOOMED)
            ]
        )
        for future in futures.values():
            try:
                future.result(TIMEOUT_S)
            except KafkaException as error:
                if error.args[0].name() != "TOPIC_ALREADY_EXISTS":
                    raise
        for group in (MINE, THEIRS, "mine-doomed"):
            consumer = Consumer({"bootstrap.servers": self.plain, "group.id": group, "log_level": 0})
            try:
                eventually(lambda consumer=consumer: _commits(consumer), "the group has offsets", within_s=TIMEOUT_S)
            finally:
                consumer.close()
        with RawClient.to(self.plain) as client:
            topics = client.ask(metadata_request([SEEN, HIDDEN, DOOMED])).topics
        return Things({topic.name: topic.topic_id for topic in topics}, self.broker_id)

    def grant(self, rights: Sequence[Right]) -> None:
        """Gives ann these rights in place of those before, and waits until the broker goes by them."""
        with RawClient.to(self.plain) as client:
            everything = DeleteAclsFilter(
                resource_type_filter=i8(1),
                resource_name_filter=None,
                pattern_type_filter=i8(1),
                principal_filter="User:ann",
                host_filter=None,
                operation=i8(1),
                permission_type=i8(1),
            )
            client.ask(DeleteAclsRequest(filters=(everything,)))
            creations = tuple(
                AclCreation(
                    resource_type=i8(kind),
                    resource_name=name,
                    resource_pattern_type=i8(pattern),
                    principal="User:ann",
                    host="*",
                    operation=i8(operation),
                    permission_type=i8(permission),
                )
                for kind, name, pattern, operation, permission in rights
            )
            if creations:
                answer = client.ask(CreateAclsRequest(creations=creations))
                assert {each.error_code for each in answer.results} == {ErrorCode.none}, answer
            # Kafka's broker learns of topics and lists from one log, in their order.
            marker = f"marker-{next(_numbers)}"
            self.admin.create_topics([NewTopic(marker, 1, 1)])[marker].result(TIMEOUT_S)
            eventually(
                lambda: client.ask(metadata_request([marker])).topics[0].error_code is ErrorCode.none,
                "the broker knows the newest topic",
                within_s=TIMEOUT_S,
            )
            self.admin.delete_topics([marker])[marker].result(TIMEOUT_S)

    def answer(self, probe: Probe, things: Things) -> Any:
        with self._as_ann() as client:
            try:
                return told(client.ask(probe.request(things)), things)
            except Closed:
                return "the connection is closed"

    @contextmanager
    def _as_ann(self) -> Iterator[RawClient]:
        with RawClient.to(self.logins) as client:
            assert client.ask(SaslHandshakeRequest(mechanism="PLAIN")).error_code is ErrorCode.none
            assert client.ask(SaslAuthenticateRequest(auth_bytes=b"\0ann\0ann")).error_code is ErrorCode.none
            yield client


def _commits(consumer: Consumer) -> bool:
    try:
        offsets = [TopicPartition(SEEN, 0, 0), TopicPartition(HIDDEN, 0, 0)]
        consumer.commit(offsets=offsets, asynchronous=False)
    except KafkaException:
        return False
    return True


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Cluster, Cluster]]:
    with ExitStack() as running:
        kafka = ReferenceKafka(tmp_path_factory.mktemp("kafka"))
        logins, ours = (f"{LOOPBACK}:{port}" for port in free_ports(2))
        listeners = f"PLAINTEXT://{kafka.bootstrap},LOGINS://{logins}"
        kafka._settings |= {
            **AUTHORIZER,
            "listeners": f"{listeners},CONTROLLER://{kafka.controller_address}",
            "advertised.listeners": listeners,
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,LOGINS:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
            "offsets.topic.num.partitions": "2",
            "auto.create.topics.enable": "false",
        }
        settings = {
            **AUTHORIZER,
            "listeners": f"LOGINS://{ours}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,LOGINS:SASL_PLAINTEXT",
            "auto.create.topics.enable": "false",
            "offsets.topic.num.partitions": "2",
        }
        arguments = [each for name, value in settings.items() for each in ("--set", f"broker:{name}={value}")]
        cluster = OttlaCluster(tmp_path_factory.mktemp("ottla") / "cluster", arguments=arguments)
        running.enter_context(kafka)
        running.enter_context(cluster)
        yield (
            Cluster("kafka", logins, kafka.bootstrap, 1),
            Cluster("ottla", ours, cluster.bootstrap, 1),
        )


@pytest.mark.parametrize("rights", RIGHTS)
def test_the_same_answers_as_kafkas(both: tuple[Cluster, Cluster], rights: str) -> None:
    kafka, ottla = both
    things = {each.name: each.prepare() for each in both}
    for each in both:
        each.grant(RIGHTS[rights])
    differing: dict[str, Any] = {}
    for probe in PROBES:
        alike = ALIKE.get(probe.name, lambda answer: answer)
        expected = alike(kafka.answer(probe, things["kafka"]))
        found = alike(ottla.answer(probe, things["ottla"]))
        if found != expected:
            differing[probe.name] = {"kafka": expected, "ottla": found}
    assert not differing, "\n".join(f"{name}:\n  {each}" for name, each in differing.items())
