"""What clients may do on a broker with access control lists, by every API."""

import base64
import struct
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)
from kio.schema.errors import ErrorCode
from kio.schema.sasl_authenticate.v2.request import SaslAuthenticateRequest
from kio.schema.sasl_handshake.v1.request import SaslHandshakeRequest

from ottla_broker.access.checks import in_handler, open_to_all
from ottla_broker.dispatch import APIS, OWN_APIS
from ottla_core.wire.links_messages import LINKS_KEY
from tests.support.clients.raw_client import RawClient
from tests.support.clients.raw_requests import metadata_request
from tests.support.clients.right_probes import ABSENT, DOOMED, HIDDEN, MINE, PROBES, SEEN, THEIRS, Probe, Things, told
from tests.support.clusters.ottla_cluster import OttlaCluster
from tests.support.clusters.ottla_command import Ottla, ottla_command
from tests.support.eventually import eventually
from tests.support.free_ports import LOOPBACK, free_ports
from tests.support.messages.sparse_request import sparse_request

pytestmark = pytest.mark.slow

TIMEOUT_S = 30
PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
USERS = ("admin", "ann", "bob")
LOGINS = frozenset({17, 36})
TOKENS = frozenset({38, 39, 40, 41})
"""Judged by their owners as well as by rights; `test_sasl_listeners.py` has them."""
NOTHING_TOLD = {
    "ApiVersions",
    "ListGroups",
    "ListTransactions",
    "Metadata of all",
    "Metadata of the cluster",
    "DescribeCluster",
    "DescribeTopicPartitions of all",
}
"""Answered without an error to a client without rights, and with nothing that it may not know."""


class GuardedCluster:
    """A broker with logins and access control lists."""

    def __init__(self, directory: Path):
        (port,) = free_ports(1)
        self.address = f"{LOOPBACK}:{port}"
        users = " ".join(f'user_{name}="{name}"' for name in USERS)
        settings = {
            "listeners": f"LOGINS://{self.address}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,LOGINS:SASL_PLAINTEXT",
            "sasl.enabled.mechanisms": "PLAIN",
            "listener.name.logins.plain.sasl.jaas.config": f"{PLAIN_MODULE} required {users};",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:admin;User:ANONYMOUS",
            "auto.create.topics.enable": "true",
        }
        arguments = [each for name, value in settings.items() for each in ("--set", f"broker:{name}={value}")]
        self.cluster = OttlaCluster(directory, arguments=arguments)

    def settings(self, user: str) -> dict[str, str | int]:
        return {
            "bootstrap.servers": self.address,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": user,
            "sasl.password": user,
            "log_level": 0,
        }

    @contextmanager
    def connection(self, user: str) -> Iterator[RawClient]:
        with RawClient.to(self.address) as client:
            assert client.ask(SaslHandshakeRequest(mechanism="PLAIN")).error_code is ErrorCode.none
            login = SaslAuthenticateRequest(auth_bytes=f"\0{user}\0{user}".encode())
            assert client.ask(login).error_code is ErrorCode.none
            yield client


def binding(
    kind: ResourceType,
    name: str,
    operation: AclOperation,
    *,
    pattern: ResourcePatternType = ResourcePatternType.LITERAL,
    permission: AclPermissionType = AclPermissionType.ALLOW,
    principal: str = "User:ann",
) -> AclBinding:
    return AclBinding(kind, name, pattern, principal, "*", operation, permission)


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuardedCluster]:
    made = GuardedCluster(tmp_path_factory.mktemp("guarded"))
    with made.cluster:
        admin = AdminClient(made.settings("admin"))
        for future in admin.create_topics([NewTopic(name, 1, 1) for name in (SEEN, HIDDEN, DOOMED)]).values():
            future.result(TIMEOUT_S)
        for group in (MINE, THEIRS):
            commit(made.settings("admin"), group)
        yield made


@pytest.fixture
def admin(guarded: GuardedCluster) -> Iterator[AdminClient]:
    """Of the administrator; whatever lists a test makes go at its end."""
    client = AdminClient(guarded.settings("admin"))
    yield client
    everything = AclBindingFilter(
        ResourceType.ANY,
        None,
        ResourcePatternType.ANY,
        None,
        None,
        AclOperation.ANY,
        AclPermissionType.ANY,
    )
    for future in client.delete_acls([everything]).values():
        future.result(TIMEOUT_S)


def commit(settings: dict[str, str | int], group: str) -> None:
    """Makes a group that has offsets and no members."""
    consumer = Consumer({**settings, "group.id": group})
    try:
        eventually(lambda: _commits(consumer), "the group has a coordinator")
    finally:
        consumer.close()


def _commits(consumer: Consumer) -> bool:
    try:
        consumer.commit(offsets=[_at(SEEN), _at(HIDDEN)], asynchronous=False)
    except KafkaException:
        return False
    return True


def _at(topic: str) -> TopicPartition:
    return TopicPartition(topic, 0, 0)


def grant(admin: AdminClient, *bindings: AclBinding) -> None:
    for future in admin.create_acls(list(bindings)).values():
        future.result(TIMEOUT_S)


def publish(settings: dict[str, str | int], topic: str) -> KafkaError | None:
    told_errors: list[KafkaError | None] = []
    producer = Producer({**settings, "message.timeout.ms": 10_000})
    producer.produce(topic, b"v", partition=0, on_delivery=lambda error, _: told_errors.append(error))
    assert producer.flush(TIMEOUT_S) == 0
    return told_errors[0]


def things(guarded: GuardedCluster) -> Things:
    with RawClient.to(guarded.cluster.bootstrap) as client:
        topics = client.ask(metadata_request([SEEN, HIDDEN, DOOMED])).topics
    return Things({topic.name: topic.topic_id for topic in topics}, 1)


def test_every_api_has_a_probe_and_a_check() -> None:
    probed = {probe.api_key for probe in PROBES}
    assert set(APIS) - probed <= LOGINS | TOKENS | {55, 71, 72}
    open_ones = {key for key, api in APIS.items() if api.check is open_to_all}
    assert open_ones == LOGINS | {18, 39, 40, 71, 72}
    in_handlers = {key for key, api in APIS.items() if api.check is in_handler}
    assert in_handlers == {0, 1, 3, 10, 16, 20, 24, 28, 38, 41, 60, 66, 75}
    assert OWN_APIS[LINKS_KEY].check is in_handler


INVALID_FOR_EVERYBODY = {"none", "unknown_topic_id", "invalid_request"}


@pytest.mark.parametrize("probe", PROBES, ids=lambda probe: probe.name)
def test_who_has_no_rights_is_told_nothing_and_does_nothing(guarded: GuardedCluster, probe: Probe) -> None:
    known = things(guarded)
    with guarded.connection("bob") as client:
        answer = told(client.ask(probe.request(known)), known)
    errors = set(_errors(answer))
    if probe.name in NOTHING_TOLD:
        assert errors <= {"none"}
        assert HIDDEN not in str(answer)
        assert THEIRS not in str(answer)
        return
    assert errors - {"none"}, answer
    assert all("authorization_failed" in each for each in errors - INVALID_FOR_EVERYBODY), answer


def _errors(answer: Any) -> Iterator[str]:
    if isinstance(answer, dict):
        for name, value in answer.items():
            if name in {"error_code", "partition_error_code"}:
                yield value
            else:
                yield from _errors(value)
    elif isinstance(answer, list):
        for each in answer:
            yield from _errors(each)


def test_rights_hold_from_the_answer_on_and_no_longer_than_the_binding(
    guarded: GuardedCluster, admin: AdminClient
) -> None:
    settings = guarded.settings("ann")
    refused = publish(settings, SEEN)
    assert refused is not None
    assert refused.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    writes = binding(ResourceType.TOPIC, SEEN, AclOperation.WRITE)
    grant(admin, writes)
    assert publish(settings, SEEN) is None
    found = admin.describe_acls(
        AclBindingFilter(
            ResourceType.TOPIC,
            SEEN,
            ResourcePatternType.MATCH,
            None,
            None,
            AclOperation.ANY,
            AclPermissionType.ANY,
        )
    ).result(TIMEOUT_S)
    assert found == [writes]
    (deleted,) = admin.delete_acls(
        [
            AclBindingFilter(
                ResourceType.TOPIC,
                SEEN,
                ResourcePatternType.LITERAL,
                "User:ann",
                None,
                AclOperation.WRITE,
                AclPermissionType.ALLOW,
            )
        ]
    ).values()
    assert deleted.result(TIMEOUT_S) == [writes]
    again = publish(settings, SEEN)
    assert again is not None
    assert again.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED


def test_a_right_that_is_taken_away_ends_the_reading_of_an_open_session(
    guarded: GuardedCluster, admin: AdminClient
) -> None:
    grant(
        admin,
        binding(ResourceType.TOPIC, SEEN, AclOperation.READ),
        binding(ResourceType.GROUP, "readers", AclOperation.READ),
    )
    assert publish(guarded.settings("admin"), SEEN) is None
    consumer = Consumer({**guarded.settings("ann"), "group.id": "readers", "auto.offset.reset": "earliest"})
    try:
        consumer.assign([_at(SEEN)])
        message = consumer.poll(TIMEOUT_S)
        assert message is not None
        assert message.error() is None
        grant(
            admin,
            binding(ResourceType.TOPIC, "s", AclOperation.READ, pattern=ResourcePatternType.PREFIXED,
                    permission=AclPermissionType.DENY),
        )  # fmt: skip
        assert publish(guarded.settings("admin"), SEEN) is None
        codes: list[int] = []
        while KafkaError.TOPIC_AUTHORIZATION_FAILED not in codes:
            message = consumer.poll(TIMEOUT_S)
            assert message is not None, "nothing is told"
            if message.error() is not None:
                codes.append(message.error().code())
    finally:
        consumer.close()


def test_a_request_is_done_in_part_where_some_of_it_may_be_done(guarded: GuardedCluster, admin: AdminClient) -> None:
    grant(
        admin,
        binding(ResourceType.TOPIC, SEEN, AclOperation.ALL),
        binding(ResourceType.GROUP, MINE, AclOperation.ALL),
    )
    known = things(guarded)
    probes = {probe.name: probe for probe in PROBES}
    with guarded.connection("ann") as client:

        def answer(name: str) -> Any:
            return told(client.ask(probes[name].request(known)), known)

        offsets = {each["name"]: each["partitions"][0]["error_code"] for each in answer("ListOffsets")["topics"]}
        assert offsets == {
            SEEN: "none",
            HIDDEN: "topic_authorization_failed",
            ABSENT: "topic_authorization_failed",
        }
        commits = {
            each["name"]: each["partitions"][0]["error_code"] for each in answer("OffsetCommit mine")["topics"]
        }
        assert commits == offsets
        groups = {each["group_id"]: each for each in answer("OffsetFetch")["groups"]}
        assert groups[THEIRS]["error_code"] == "group_authorization_failed"
        fetched = {each["name"]: each["partitions"][0]["error_code"] for each in groups[MINE]["topics"]}
        assert fetched == offsets
        listed = {each["group_id"]: each.get("topics") for each in answer("OffsetFetch of all")["groups"]}
        assert [each["name"] for each in listed[MINE]] == [SEEN]


def test_a_topic_is_made_by_asking_for_it_only_by_who_may_create_it(
    guarded: GuardedCluster, admin: AdminClient
) -> None:
    grant(admin, binding(ResourceType.TOPIC, "made-", AclOperation.DESCRIBE, pattern=ResourcePatternType.PREFIXED))
    with guarded.connection("ann") as client:
        asked = replace(metadata_request(["made-1"]), allow_auto_topic_creation=True)
        (topic,) = client.ask(asked).topics
        assert topic.error_code is ErrorCode.topic_authorization_failed
        grant(admin, binding(ResourceType.TOPIC, "made-1", AclOperation.CREATE))
        (topic,) = client.ask(asked).topics
        assert topic.error_code is ErrorCode.none


def test_bindings_that_can_be_for_nothing_are_refused_alone(guarded: GuardedCluster, admin: AdminClient) -> None:
    right = binding(ResourceType.TOPIC, SEEN, AclOperation.READ)
    wrong = binding(ResourceType.BROKER, "another-cluster", AclOperation.ALTER)
    outcomes = admin.create_acls([right, wrong])
    outcomes[right].result(TIMEOUT_S)
    with pytest.raises(KafkaException, match="kafka-cluster"):
        outcomes[wrong].result(TIMEOUT_S)


def test_garbage_after_the_group_of_a_frequent_request_closes_the_connection(guarded: GuardedCluster) -> None:
    with guarded.connection("ann") as client:
        body = struct.pack(">hhi", 8, 8, 7) + struct.pack(">h", -1) + b"\0" + bytes([len(MINE) + 1]) + MINE.encode()
        client.send_frame(body + b"\xff" * 3)
        assert client.is_closed()


def test_the_command_adds_lists_and_removes_rights_and_applies_files(
    guarded: GuardedCluster, admin: AdminClient, tmp_path: Path
) -> None:
    del admin  # removes at the end what is left
    ottla = Ottla(guarded.cluster.bootstrap)
    ottla.run("acl", "add", "ann", "read,write", "topic:seen*", "group:mine")
    ottla.run("acl", "add", "*", "all", "topic:hidden", "--deny", "--host", "10.0.0.5")
    shown = ottla.json("acl", "list", "--resource", "topic:seen-1")["acls"]
    assert {(each["operation"], each["principal"]) for each in shown} == {("read", "User:ann"), ("write", "User:ann")}
    ottla.run("acl", "remove", "ann", "write", "topic:seen*", "group:mine", "--yes")
    assert len(ottla.json("acl", "list", "--principal", "ann")["acls"]) == 2

    file = tmp_path / "rights.yaml"
    file.write_text(
        "principals:\n  ann:\n    - allow: read\n      resources: topic:seen*\n"
        "    - allow: all\n      resources: group:g\n"
    )
    planned = ottla.json("acl", "apply", str(file), "--dry-run")
    assert not planned["applied"]
    assert [each["resource"] for each in planned["added"]] == ["group:g"]
    assert [each["resource"] for each in planned["removed"]] == ["group:mine"]
    assert b"nothing was changed" in ottla.run("acl", "apply", str(file), fails_with=1).stderr
    ottla.run("acl", "apply", str(file), "--yes")
    assert ottla.json("acl", "apply", str(file), "--yes")["added"] == []
    assert len(ottla.json("acl", "list")["acls"]) == 3


def test_many_bindings_are_created_shown_and_deleted(guarded: GuardedCluster, admin: AdminClient) -> None:
    many = [binding(ResourceType.TOPIC, f"t{number}", AclOperation.READ) for number in range(3000)]
    grant(admin, *many)
    ottla = Ottla(guarded.cluster.bootstrap)
    assert len(ottla.json("acl", "list", "--principal", "ann")["acls"]) == len(many)


def test_a_list_that_cannot_be_read_refuses_what_it_may_deny_until_it_is_deleted(
    guarded: GuardedCluster, admin: AdminClient
) -> None:
    allowed = binding(ResourceType.TOPIC, SEEN, AclOperation.READ)
    admin.create_acls([allowed])[allowed].result(TIMEOUT_S)
    (etcd,) = [each for each in guarded.cluster.recorded() if each.role == "etcd"]

    def write(key: str, value: str) -> None:
        document = {name: base64.b64encode(text.encode()).decode() for name, text in (("key", key), ("value", value))}
        httpx.post(f"http://{LOOPBACK}:{etcd.port}/v3/kv/put", json=document, trust_env=False).raise_for_status()

    def seen_by_ann() -> ErrorCode:
        with guarded.connection("ann") as client:
            code: ErrorCode = client.ask(metadata_request([SEEN])).topics[0].error_code
            return code

    def status() -> str:
        command = [ottla_command(), "status", "--dir", str(guarded.cluster.directory)]
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout

    def remove_denials() -> None:
        denials = AclBindingFilter(
            ResourceType.ANY,
            None,
            ResourcePatternType.ANY,
            "User:*",
            None,
            AclOperation.ANY,
            AclPermissionType.DENY,
        )
        for future in admin.delete_acls([denials]).values():
            future.result(TIMEOUT_S)

    eventually(lambda: seen_by_ann() is ErrorCode.none, "ann sees the topic")
    write(f"/ottla/ottla/acls/{uuid4()}", "{")
    eventually(lambda: seen_by_ann() is ErrorCode.topic_authorization_failed, "ann sees it no more")
    eventually(lambda: "not ready" in status(), "the status shows that something is wrong")
    log = (guarded.cluster.directory / "logs" / "broker-1.log").read_text()
    assert "access control lists cannot be read" in log
    assert SEEN in admin.list_topics(timeout=TIMEOUT_S).topics
    remove_denials()
    eventually(lambda: seen_by_ann() is ErrorCode.none, "ann sees it again")
    eventually(lambda: "not ready" not in status(), "nothing is wrong any more")


def test_a_member_with_an_expression_is_given_the_topics_that_it_may_describe_now(
    guarded: GuardedCluster, admin: AdminClient
) -> None:
    """Rights that come and go count on the open connection, from the next heartbeat on."""
    group = f"expressive-{uuid4()}"
    rights = [
        binding(ResourceType.GROUP, group, AclOperation.READ),
        binding(ResourceType.TOPIC, SEEN, AclOperation.READ),
    ]
    later = binding(ResourceType.TOPIC, HIDDEN, AclOperation.DESCRIBE)
    for future in admin.create_acls(rights).values():
        future.result(TIMEOUT_S)
    wanted = f"{SEEN}|{HIDDEN}"
    commit(guarded.settings("admin"), MINE)  # the group's coordinator serves
    with guarded.connection("admin") as client:
        ids = {topic.name: topic.topic_id for topic in client.ask(metadata_request([SEEN, HIDDEN])).topics}
    told: dict[UUID, tuple[int, ...]] = {}
    epoch, member = 0, str(uuid4())
    with guarded.connection("ann") as client:

        def beat() -> set[UUID]:
            """What the member has after another heartbeat, in which it reports what it was told."""
            nonlocal epoch, told
            owned = [{"topic_id": topic, "partitions": partitions} for topic, partitions in told.items()]
            answer = client.ask(
                sparse_request(
                    "consumer_group_heartbeat",
                    1,
                    group_id=group,
                    member_id=member,
                    member_epoch=epoch,
                    rebalance_timeout=60_000,
                    subscribed_topic_regex=wanted if epoch == 0 else None,
                    subscribed_topic_names=None,
                    topic_partitions=owned,
                )
            )
            if answer.error_code is ErrorCode.none:
                epoch = answer.member_epoch
                if answer.assignment is not None:
                    told = {each.topic_id: each.partitions for each in answer.assignment.topic_partitions}
            return set(told)

        eventually(lambda: beat() == {ids[SEEN]}, "the topic that ann may read is given to it")
        admin.create_acls([later])[later].result(TIMEOUT_S)
        eventually(lambda: beat() == {ids[SEEN], ids[HIDDEN]}, "so is the other one when ann may describe it")
        remove = AclBindingFilter(
            ResourceType.TOPIC,
            HIDDEN,
            ResourcePatternType.LITERAL,
            "User:ann",
            None,
            AclOperation.DESCRIBE,
            AclPermissionType.ANY,
        )
        admin.delete_acls([remove])[remove].result(TIMEOUT_S)
        eventually(lambda: beat() == {ids[SEEN]}, "and it is taken away with the right")
