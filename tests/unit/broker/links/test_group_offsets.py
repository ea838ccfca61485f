"""Which offsets of a source's group become those of the group here."""

from dataclasses import replace

import pytest

from ottla_broker.links.group_offsets import offsets_to_store
from ottla_broker.links.keeping_report import PROBLEMS_TOLD_MAX, KeepingReport
from ottla_core.client.group.offset_requests import CommittedOffset
from ottla_core.cluster.controller_rpc.link_api import (
    UNKNOWN,
    LinkedPartitionState,
    LinkProblem,
    LinkProblemKind,
    PartitionStatus,
)
from ottla_core.topic_partition import TopicPartition

ORDERS = TopicPartition("orders", 0)
STATUS = PartitionStatus(
    link="west",
    topic="orders",
    index=0,
    state=LinkedPartitionState.RUNNING,
    log_start_offset=10,
    high_watermark=80,
    log_end_offset=90,
)


@pytest.mark.parametrize(("offset", "stored"), [(50, 50), (80, 80), (85, 80), (100, 80), (10, 10), (3, 10)])
def test_offsets_are_the_sources_within_what_is_committed_here(offset: int, stored: int) -> None:
    found = offsets_to_store({ORDERS: CommittedOffset(offset, "note")}, {ORDERS: STATUS})
    assert found == {ORDERS: CommittedOffset(stored, "note")}


@pytest.mark.parametrize(
    "status",
    [
        None,
        replace(STATUS, high_watermark=UNKNOWN),
        *(
            replace(STATUS, state=state)
            for state in LinkedPartitionState
            if state is not LinkedPartitionState.RUNNING
        ),
    ],
)
def test_nothing_is_stored_of_a_partition_that_is_not_known_to_follow(status: PartitionStatus | None) -> None:
    assert offsets_to_store({ORDERS: CommittedOffset(50, "")}, {ORDERS: status} if status else {}) == {}


def test_a_report_tells_failures_first_and_not_more_than_its_bound() -> None:
    report = KeepingReport("west", 1)
    taken = LinkProblem(kind=LinkProblemKind.TOPIC_NOT_LINKED, name="t")
    refused = LinkProblem(kind=LinkProblemKind.TOPIC_REFUSED, name="u")
    report.topics_in_step([taken] * PROBLEMS_TOLD_MAX + [refused], 1000)
    told = report.told()
    assert (told.problems[0], len(told.problems), told.problems_left_off) == (refused, PROBLEMS_TOLD_MAX, 1)
    report.failed("groups", "no answer")
    assert report.told().failure == "groups: no answer"
    report.rests()
    assert report.told().failure == ""
    report.failed("groups", "no answer")
    report.groups_in_step((), 3, 2000)
    told = report.told()
    assert (told.failure, told.groups, told.topics_ms, told.groups_ms) == ("", 3, 1000, 2000)
