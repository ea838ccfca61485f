"""What responses tell of a client's rights while there are no access control lists: it may do everything.

Everything here holds for the reference Kafka without an authorizer as well (`OTTLA_TEST_REFERENCE=1`).
"""

import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from kio.schema.consumer_group_describe.v1.request import ConsumerGroupDescribeRequest
from kio.schema.create_acls.v3 import request as create_acls
from kio.schema.delete_acls.v3 import request as delete_acls
from kio.schema.describe_acls.v3.request import DescribeAclsRequest
from kio.schema.describe_cluster.v2.request import DescribeClusterRequest
from kio.schema.describe_groups.v5.request import DescribeGroupsRequest
from kio.schema.describe_groups.v6.request import DescribeGroupsRequest as DescribeGroupsRequestV6
from kio.schema.describe_topic_partitions.v0 import request as describe_topic_partitions
from kio.schema.errors import ErrorCode
from kio.schema.find_coordinator.v6.request import FindCoordinatorRequest
from kio.schema.metadata.v8 import request as metadata_v8
from kio.schema.metadata.v10 import request as metadata_v10
from kio.schema.metadata.v13 import request as metadata_v13
from kio.schema.types import GroupId, TopicName
from kio.static.primitive import i8, i32

from tests.conftest import TopicFactory
from tests.support.clients.raw_client import RawClient
from tests.support.eventually import eventually

pytestmark = pytest.mark.slow

NOT_ASKED = -(2**31)
READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE = range(3, 9)
CLUSTER_ACTION, DESCRIBE_CONFIGS, ALTER_CONFIGS, IDEMPOTENT_WRITE = range(9, 13)
ON_A_TOPIC = {READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS}
ON_A_GROUP = {READ, DELETE, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS}
ON_THE_CLUSTER = {CREATE, ALTER, DESCRIBE, CLUSTER_ACTION, DESCRIBE_CONFIGS, ALTER_CONFIGS, IDEMPOTENT_WRITE}
FIND_COORDINATOR = FindCoordinatorRequest(key_type=i8(0), coordinator_keys=("no-such-group",))
NOWHERE = TopicName("there-is-no-such-topic")


@pytest.fixture
def client(bootstrap: str) -> Iterator[RawClient]:
    with RawClient.to(bootstrap) as connected:
        yield connected


def operations(bits: int) -> set[int]:
    """The numbers of the bits that are set."""
    return {number for number in range(32) if bits >> number & 1}


def metadata(client: RawClient, version: Any, topic: str, *, asked: bool) -> Any:
    names = (TopicName(topic), NOWHERE)
    named: tuple[Any, ...]
    if version is metadata_v8:
        named = tuple(metadata_v8.MetadataRequestTopic(name=name) for name in names)
    else:
        named = tuple(version.MetadataRequestTopic(name=name, topic_id=None) for name in names)
    flags = {"include_topic_authorized_operations": asked}
    if version is not metadata_v13:
        flags["include_cluster_authorized_operations"] = asked
    return client.ask(version.MetadataRequest(topics=named, allow_auto_topic_creation=False, **flags))


@pytest.mark.parametrize("version", [metadata_v8, metadata_v10, metadata_v13], ids=["v8", "v10", "v13"])
def test_metadata_tells_what_may_be_done_with_topics(
    client: RawClient, new_topic: TopicFactory, version: Any
) -> None:
    topic = new_topic()
    for described in metadata(client, version, topic, asked=True).topics:
        assert operations(described.topic_authorized_operations) == ON_A_TOPIC, described.name
    for described in metadata(client, version, topic, asked=False).topics:
        assert described.topic_authorized_operations == NOT_ASKED


@pytest.mark.parametrize("version", [metadata_v8, metadata_v10], ids=["v8", "v10"])
def test_metadata_told_what_may_be_done_with_the_cluster(
    client: RawClient, new_topic: TopicFactory, version: Any
) -> None:
    topic = new_topic()
    asked = metadata(client, version, topic, asked=True)
    assert operations(asked.cluster_authorized_operations) == ON_THE_CLUSTER
    assert metadata(client, version, topic, asked=False).cluster_authorized_operations == NOT_ASKED


def test_metadata_tells_nothing_of_a_topic_id_that_nobody_has(client: RawClient) -> None:
    unknown = metadata_v13.MetadataRequestTopic(name=None, topic_id=uuid.uuid4())
    answer = client.ask(
        metadata_v13.MetadataRequest(
            topics=(unknown,), allow_auto_topic_creation=False, include_topic_authorized_operations=True
        )
    )
    assert answer.topics[0].error_code is ErrorCode.unknown_topic_id
    assert answer.topics[0].topic_authorized_operations == NOT_ASKED


def test_a_description_of_topics_always_tells(client: RawClient, new_topic: TopicFactory) -> None:
    topics = tuple(describe_topic_partitions.TopicRequest(name=TopicName(name)) for name in (new_topic(), NOWHERE))
    answer = client.ask(
        describe_topic_partitions.DescribeTopicPartitionsRequest(topics=topics, response_partition_limit=i32(10))
    )
    for described in answer.topics:
        assert operations(described.topic_authorized_operations) == ON_A_TOPIC, described.name


def describe_cluster(client: RawClient, *, asked: bool) -> Any:
    return client.ask(
        DescribeClusterRequest(
            include_cluster_authorized_operations=asked, endpoint_type=i8(1), include_fenced_brokers=False
        )
    )


def test_a_description_of_the_cluster_tells_when_asked(client: RawClient) -> None:
    asked = describe_cluster(client, asked=True)
    assert operations(asked.cluster_authorized_operations) == ON_THE_CLUSTER
    assert describe_cluster(client, asked=False).cluster_authorized_operations == NOT_ASKED


def described_group(client: RawClient, request_type: Any, name: str, *, asked: bool) -> Any:
    """The group as its coordinator describes it, once there is one."""
    group_id = GroupId(name)
    key = "group_ids" if request_type is ConsumerGroupDescribeRequest else "groups"
    request = request_type(**{key: (group_id,)}, include_authorized_operations=asked)
    loading = {ErrorCode.coordinator_not_available, ErrorCode.not_coordinator, ErrorCode.coordinator_load_in_progress}
    answers: list[Any] = []

    def answered() -> bool:
        client.ask(FIND_COORDINATOR)  # has the groups' topic created
        answers.append(client.ask(request).groups[0])
        return answers[-1].error_code not in loading

    eventually(answered, "the group is described")
    return answers[-1]


def test_a_description_of_groups_tells_when_asked(client: RawClient) -> None:
    dead = described_group(client, DescribeGroupsRequest, "no-such-group", asked=True)
    assert dead.error_code is ErrorCode.none
    assert operations(dead.authorized_operations) == ON_A_GROUP
    assert described_group(client, DescribeGroupsRequest, "no-such-group", asked=False).authorized_operations == (
        NOT_ASKED
    )


@pytest.mark.parametrize("request_type", [DescribeGroupsRequestV6, ConsumerGroupDescribeRequest])
def test_a_group_that_is_refused_has_no_operations(client: RawClient, request_type: Any) -> None:
    refused = described_group(client, request_type, "no-such-group", asked=True)
    assert refused.error_code is ErrorCode.group_id_not_found
    assert refused.authorized_operations == NOT_ASKED


# Access control lists

ANY = i8(1)


def test_access_control_lists_are_described_as_disabled(client: RawClient) -> None:
    answer = client.ask(
        DescribeAclsRequest(
            resource_type_filter=ANY,
            resource_name_filter=None,
            pattern_type_filter=ANY,
            principal_filter=None,
            host_filter=None,
            operation=ANY,
            permission_type=ANY,
        )
    )
    assert answer.error_code is ErrorCode.security_disabled
    assert answer.error_message == "No Authorizer is configured on the broker"
    assert answer.resources == ()


def test_access_control_lists_are_not_created(client: RawClient) -> None:
    wanted = create_acls.AclCreation(
        resource_type=i8(2),
        resource_name="t",
        resource_pattern_type=i8(3),
        principal="User:somebody",
        host="*",
        operation=i8(READ),
        permission_type=i8(3),
    )
    answer = client.ask(create_acls.CreateAclsRequest(creations=(wanted, wanted)))
    assert [result.error_code for result in answer.results] == [ErrorCode.security_disabled] * 2


def test_access_control_lists_are_not_deleted(client: RawClient) -> None:
    doomed = delete_acls.DeleteAclsFilter(
        resource_type_filter=ANY,
        resource_name_filter=None,
        pattern_type_filter=ANY,
        principal_filter=None,
        host_filter=None,
        operation=ANY,
        permission_type=ANY,
    )
    answer = client.ask(delete_acls.DeleteAclsRequest(filters=(doomed,)))
    assert [result.error_code for result in answer.filter_results] == [ErrorCode.security_disabled]
