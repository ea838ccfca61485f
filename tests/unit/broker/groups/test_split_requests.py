"""Requests for several groups are taken apart and put together again."""

from datetime import timedelta
from typing import Any

from kio.schema.delete_groups.v2.request import DeleteGroupsRequest
from kio.schema.delete_groups.v2.response import DeletableGroupResult, DeleteGroupsResponse
from kio.schema.errors import ErrorCode
from kio.schema.types import GroupId
from kio.static.primitive import i32Timedelta

from ottla_broker.groups.split_requests import GroupLists, merge, split
from ottla_core.topic_partition import TopicPartition
from tests.support.groups.group_cluster import group_shard

LISTS = GroupLists(requested="groups_names", answered="results")


def request(*groups: str) -> DeleteGroupsRequest:
    return DeleteGroupsRequest(groups_names=tuple(GroupId(group) for group in groups))


def response(*groups: str, error: ErrorCode = ErrorCode.none) -> DeleteGroupsResponse:
    return DeleteGroupsResponse(
        throttle_time=i32Timedelta.parse(timedelta(0)),
        results=tuple(DeletableGroupResult(group_id=GroupId(group), error_code=error) for group in groups),
    )


def first_letter(group: str) -> TopicPartition:
    return group_shard(ord(group[0]))


def test_a_request_for_one_shard_stays_as_it_is() -> None:
    whole = request("a1", "a2")

    assert split(whole, LISTS, first_letter) == {first_letter("a"): whole}


def test_every_shard_gets_its_groups_in_their_order() -> None:
    parts = split(request("b1", "a1", "b2"), LISTS, first_letter)

    assert parts == {first_letter("b"): request("b1", "b2"), first_letter("a"): request("a1")}


def test_a_request_for_no_group_has_no_parts_and_an_empty_answer() -> None:
    assert split(request(), LISTS, first_letter) == {}
    assert merge(request(), LISTS, DeleteGroupsResponse, []) == response()


def test_the_answer_has_the_groups_in_the_order_of_the_request() -> None:
    answers = [response("b2", "b1"), response("a1", error=ErrorCode.non_empty_group)]

    merged: Any = merge(request("b1", "a1", "b2"), LISTS, DeleteGroupsResponse, answers)

    assert [(r.group_id, r.error_code.name) for r in merged.results] == [
        ("b1", "none"),
        ("a1", "non_empty_group"),
        ("b2", "none"),
    ]


def test_a_group_that_is_named_twice_is_answered_twice() -> None:
    merged: Any = merge(request("a", "b", "a"), LISTS, DeleteGroupsResponse, [response("a", "a"), response("b")])

    assert [r.group_id for r in merged.results] == ["a", "b", "a"]
