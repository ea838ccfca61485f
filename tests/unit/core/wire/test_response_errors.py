"""The errors that are found in responses."""

from dataclasses import replace
from datetime import timedelta

from kio.schema.alter_partition_reassignments.v0.response import AlterPartitionReassignmentsResponse as Reassignments
from kio.schema.alter_partition_reassignments.v0.response import ReassignablePartitionResponse as ReassignedPartition
from kio.schema.alter_partition_reassignments.v0.response import ReassignableTopicResponse as ReassignedTopic
from kio.schema.api_versions.v3.response import ApiVersionsResponse
from kio.schema.delete_groups.v2.response import DeletableGroupResult, DeleteGroupsResponse
from kio.schema.errors import ErrorCode
from kio.schema.offset_commit.v8.response import OffsetCommitResponse, OffsetCommitResponsePartition
from kio.schema.offset_commit.v8.response import OffsetCommitResponseTopic as Topic
from kio.schema.types import GroupId, TopicName
from kio.static.primitive import i32, i32Timedelta

from ottla_core.wire.response_errors import errors_in, outcomes_in

NO_TIME = i32Timedelta.parse(timedelta(0))


def test_errors_of_a_response_itself_are_found():
    refused = ApiVersionsResponse(error_code=ErrorCode.unsupported_version, api_keys=(), throttle_time=NO_TIME)
    assert list(errors_in(refused)) == [ErrorCode.unsupported_version]


def test_every_partition_with_an_error_counts_and_success_does_not():
    codes = (ErrorCode.none, ErrorCode.not_coordinator, ErrorCode.not_coordinator)
    partitions = tuple(
        OffsetCommitResponsePartition(partition_index=i32(number), error_code=code)
        for number, code in enumerate(codes)
    )
    response = OffsetCommitResponse(
        throttle_time=NO_TIME, topics=(Topic(name=TopicName("t"), partitions=partitions),)
    )
    assert list(errors_in(response)) == [ErrorCode.not_coordinator] * 2


def test_a_response_without_errors_has_none():
    result = DeletableGroupResult(group_id=GroupId("g"), error_code=ErrorCode.none)
    assert list(errors_in(DeleteGroupsResponse(throttle_time=NO_TIME, results=(result,)))) == []


def test_what_became_of_each_part_is_told_and_the_whole_counts_only_without_parts_or_with_an_error():
    partitions = tuple(
        OffsetCommitResponsePartition(partition_index=i32(number), error_code=code)
        for number, code in enumerate((ErrorCode.none, ErrorCode.not_coordinator))
    )
    topics = (Topic(name=TopicName("t"), partitions=partitions),)
    assert list(outcomes_in(OffsetCommitResponse(throttle_time=NO_TIME, topics=topics))) == [
        ErrorCode.none,
        ErrorCode.not_coordinator,
    ]
    whole = ApiVersionsResponse(error_code=ErrorCode.none, api_keys=(), throttle_time=NO_TIME)
    assert list(outcomes_in(whole)) == [ErrorCode.none]
    described = Reassignments(throttle_time=NO_TIME, error_code=ErrorCode.none, error_message=None, responses=())
    assert list(outcomes_in(described)) == [ErrorCode.none]
    refused = ReassignedPartition(
        partition_index=i32(0), error_code=ErrorCode.unknown_topic_or_partition, error_message=None
    )
    one = ReassignedTopic(name=TopicName("t"), partitions=(refused,))
    assert list(outcomes_in(replace(described, responses=(one,)))) == [ErrorCode.unknown_topic_or_partition]
