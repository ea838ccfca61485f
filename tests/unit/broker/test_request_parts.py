"""Cutting long requests, and making one response of the answers."""

from typing import Any

from kio.schema.errors import ErrorCode
from kio.schema.list_offsets.v7 import response as list_offsets_response
from kio.schema.offset_fetch.v9 import response as offset_fetch_response
from kio.static.primitive import i32, i64

from ottla_broker.request_parts import ItemLists, joined_answers, lists_in, parts_of, without_repetitions
from tests.support.messages.sparse_request import sparse_request

TOPICS = (ItemLists("groups", "groups"), ItemLists("topics", "topics"))


def list_offsets(**partitions: int) -> Any:
    topics = [
        {"name": name, "partitions": [{"partition_index": index, "timestamp": -1} for index in range(count)]}
        for name, count in partitions.items()
    ]
    return sparse_request("list_offsets", 7, topics=topics)


def answer(part: Any) -> Any:
    """What a handler would say, with each partition's index for an offset."""
    topics = tuple(
        list_offsets_response.ListOffsetsTopicResponse(
            name=topic.name,
            partitions=tuple(
                list_offsets_response.ListOffsetsPartitionResponse(
                    partition_index=wanted.partition_index,
                    error_code=ErrorCode.none,
                    offset=i64(wanted.partition_index),
                )
                for wanted in topic.partitions
            ),
        )
        for topic in part.topics
    )
    return list_offsets_response.ListOffsetsResponse(throttle_time=None, topics=topics)  # type: ignore[arg-type]


def test_a_request_that_is_cut_gets_the_response_of_the_whole() -> None:
    request = list_offsets(a=3, b=1, c=25, d=2, e=11)
    parts = list(parts_of(request, "topics", 5))
    assert max(sum(len(topic.partitions) for topic in part.message.topics) for part in parts) == 5
    joined = joined_answers([(answer(part.message), part.continues) for part in parts], "topics")
    assert joined == answer(request)


def test_lists_are_cut_at_any_depth() -> None:
    topics = [{"name": "t", "partition_indexes": tuple(range(12))}, {"name": "u", "partition_indexes": (1,)}]
    request = sparse_request("offset_fetch", 9, groups=[{"group_id": "g", "topics": topics}])
    parts = list(parts_of(request, "groups", 5))
    assert [part.continues for part in parts] == [0, 2, 2, 1]

    def told(part: Any) -> Any:
        return offset_fetch_response.OffsetFetchResponse(
            throttle_time=None,  # type: ignore[arg-type]
            groups=tuple(
                offset_fetch_response.OffsetFetchResponseGroup(
                    group_id=group.group_id,
                    error_code=ErrorCode.none,
                    topics=tuple(
                        offset_fetch_response.OffsetFetchResponseTopics(
                            name=topic.name,
                            partitions=tuple(
                                offset_fetch_response.OffsetFetchResponsePartitions(
                                    partition_index=i32(index),
                                    committed_offset=i64(index),
                                    metadata=None,
                                    error_code=ErrorCode.none,
                                )
                                for index in topic.partition_indexes
                            ),
                        )
                        for topic in group.topics
                    ),
                )
                for group in part.groups
            ),
        )

    joined = joined_answers([(told(part.message), part.continues) for part in parts], "groups")
    assert joined == told(request)


def test_what_is_named_twice_is_asked_once() -> None:
    request = sparse_request("metadata", 12, topics=[{"name": "a"}, {"name": "b"}, {"name": "a"}])
    assert [topic.name for topic in without_repetitions(request, TOPICS).topics] == ["a", "b"]
    (part,) = parts_of(request, "topics", 10)
    assert [topic.name for topic in part.message.topics] == ["a", "b"]
    everything = sparse_request("metadata", 12, topics=None)
    assert without_repetitions(everything, TOPICS) is everything


def test_an_error_of_a_whole_response_refuses_the_request() -> None:
    refused = sparse_request("offset_fetch", 5)
    response = offset_fetch_response.OffsetFetchResponse(throttle_time=None, groups=())  # type: ignore[arg-type]
    from kio.schema.offset_fetch.v5.response import OffsetFetchResponse  # noqa: PLC0415 - another version's

    error = OffsetFetchResponse(throttle_time=None, topics=(), error_code=ErrorCode.not_coordinator)  # type: ignore[arg-type]
    assert joined_answers([(response, 0), (error, 0)], "groups") is error
    assert lists_in(type(refused), TOPICS) == ItemLists("topics", "topics")
