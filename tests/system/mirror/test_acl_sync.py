"""A mirror worker copies access control lists of topics between two clusters."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
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

from tests.support.clusters.ottla_cluster import OttlaCluster
from tests.support.eventually import eventually
from tests.support.mirror.mirror_worker import MirrorWorkerProcess

pytestmark = pytest.mark.slow

TIMEOUT_S = 30
DEADLINE_S = 60.0
GUARDED = (
    *("--set", "broker:authorizer.class.name=StandardAuthorizer"),
    *("--set", "broker:super.users=User:ANONYMOUS"),
)


def binding(topic: str, operation: AclOperation, principal: str = "User:ann") -> AclBinding:
    return AclBinding(
        ResourceType.TOPIC,
        topic,
        ResourcePatternType.LITERAL,
        principal,
        "*",
        operation,
        AclPermissionType.ALLOW,
    )


def bindings(admin: AdminClient) -> set[AclBinding]:
    everything = AclBindingFilter(
        ResourceType.ANY, None, ResourcePatternType.ANY, None, None, AclOperation.ANY, AclPermissionType.ANY
    )
    return set(admin.describe_acls(everything).result(TIMEOUT_S))


@pytest.fixture
def addresses(tmp_path: Path) -> Iterator[tuple[str, str]]:
    with ExitStack() as running:
        source = running.enter_context(OttlaCluster(tmp_path / "source", arguments=GUARDED))
        target = running.enter_context(OttlaCluster(tmp_path / "target", arguments=GUARDED))
        yield source.bootstrap, target.bootstrap


def test_rights_to_read_go_along_and_rights_to_write_do_not(addresses: tuple[str, str], tmp_path: Path) -> None:
    source, target = (AdminClient({"bootstrap.servers": address}) for address in addresses)
    source.create_topics([NewTopic("orders", 1, 1)])["orders"].result(TIMEOUT_S)
    created = [
        binding("orders", AclOperation.READ),
        binding("orders", AclOperation.WRITE),
        binding("orders", AclOperation.ALL, "User:bob"),
        binding("elsewhere", AclOperation.READ),
    ]
    for future in source.create_acls(created).values():
        future.result(TIMEOUT_S)
    settings = {
        "clusters": "A,B",
        "A.bootstrap.servers": addresses[0],
        "B.bootstrap.servers": addresses[1],
        "A->B.enabled": "true",
        "sync.topic.acls.enabled": "true",
        "sync.topic.acls.interval.seconds": "1",
    }
    wanted = {binding("A.orders", AclOperation.READ), binding("A.orders", AclOperation.READ, "User:bob")}
    with MirrorWorkerProcess(tmp_path / "worker", settings):
        eventually(lambda: bindings(target) == wanted, "the rights are at the target", within_s=DEADLINE_S)
        later = binding("orders", AclOperation.DESCRIBE, "User:cid")
        source.create_acls([later])[later].result(TIMEOUT_S)
        wanted.add(binding("A.orders", AclOperation.DESCRIBE, "User:cid"))
        eventually(lambda: bindings(target) == wanted, "a later right comes, too", within_s=DEADLINE_S)
