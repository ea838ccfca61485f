"""Flows and links as they are shown, whatever workers answer."""

from uuid import UUID

import pytest

from ottla_console.views.mirror_table import copy_rows, flow_rows, grade_of, link_rows, linked_partitions
from ottla_core.cluster.controller_rpc.link_api import (
    DescribedLink,
    LinkedPartitionState,
    LinkKeeping,
    PartitionStatus,
)
from ottla_core.cluster.state.model import Link

RUNNING, WAITING, PAUSED = (LinkedPartitionState(each) for each in ("RUNNING", "WAITING", "PAUSED"))


def link(name: str, *, paused: bool = False) -> DescribedLink:
    made = Link(name=name, id=UUID(int=1), source_cluster_id="s", bootstrap_servers=("a:1", "b:2"), paused=paused)
    return DescribedLink(link=made, topics=())


def status(name: str, topic: str, index: int, state: LinkedPartitionState, here: int, there: int) -> PartitionStatus:
    return PartitionStatus(
        link=name, topic=topic, index=index, state=state, log_end_offset=here, source_end_offset=there
    )


def test_links_show_what_does_not_work_and_how_far_they_are_behind() -> None:
    partitions = [
        status("west", "t", 0, RUNNING, 5, 9),
        status("west", "t", 1, WAITING, 5, -1),
        status("idle", "u", 0, PAUSED, 1, 1),
    ]
    keepings = [LinkKeeping(link="west", broker=1, failure="no answer")]
    idle, west = link_rows([link("west"), link("idle", paused=True)], partitions, keepings)
    assert (west.name, west.source, west.partitions, west.not_working, west.lag) == ("west", "a:1, b:2", 2, 1, 4)
    assert (west.is_in_step, west.is_paused, idle.is_in_step, idle.is_paused) == (False, False, True, True)
    assert (idle.not_working, idle.lag) == (0, 0)


def test_what_does_not_follow_comes_first_then_what_is_furthest_behind() -> None:
    partitions = [
        status("w", "a", 0, RUNNING, 9, 9),
        status("w", "a", 1, RUNNING, 0, 9),
        status("w", "z", 0, WAITING, -1, -1),
    ]
    assert [(each.topic, each.index) for each in linked_partitions(partitions)] == [("z", 0), ("a", 1), ("a", 0)]


def test_flows_and_their_partitions_are_read() -> None:
    document = {
        "name": "west->east", "state": "DEGRADED", "reason": "x", "topics": 1, "partitions": 2, "lag_records": 7,
        "throttle_bytes_per_second": None,
    }  # fmt: skip
    (row,) = flow_rows([document])
    assert (row.name, row.grade, row.partitions, row.lag_records, row.throttle_bytes_per_s) == (
        "west->east", "bad", 2, 7, None,
    )  # fmt: skip
    partition = {"topic": "t", "remote_topic": "west.t", "state": "COPYING", "reason": ""}
    rows = copy_rows(
        {
            "partitions": [
                {**partition, "partition": 0, "lag_records": 1, "lag_seconds": 0.5},
                {**partition, "partition": 1, "lag_records": 70},
                {**partition, "partition": 2, "state": "HALTED", "lag_records": None},
            ]
        }
    )
    assert [(each.partition, each.lag_records, each.grade) for each in rows] == [
        (2, None, "bad"),
        (1, 70, "good"),
        (0, 1, "good"),
    ]


@pytest.mark.parametrize("answer", [None, "x", {}, [1, None], [{"name": 7, "state": [], "partitions": True}]])
def test_what_is_no_flow_breaks_nothing(answer: object) -> None:
    for row in flow_rows(answer):
        assert (row.name, row.partitions) == ("", None)
    assert copy_rows(answer) == []
    assert copy_rows({"partitions": answer}) == [] or isinstance(answer, list)
    assert grade_of("A STATE OF LATER VERSIONS") == "bad"
