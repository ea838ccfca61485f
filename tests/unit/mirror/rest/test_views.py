"""What workers know of a flow comes together in one status, and one state with its reason."""

import pytest

from ottla_mirror.rest.entities import FlowInfo, PartitionStatus, TopicStatus
from ottla_mirror.rest.views import _NOTHING_COPIED, FlowPart, flow_lag, flow_status, flow_summary

ONE, TWO = "http://one", "http://two"


def info(*, paused: bool = False) -> FlowInfo:
    return FlowInfo(name="A->B", source="A", target="B", origin="created", paused=paused,
                    throttle_bytes_per_second=None, settings={}, source_settings={})  # fmt: skip


def partition(
    number: int, *, state: str = "COPYING", worker: str = ONE, reason: str = "", **known
) -> PartitionStatus:
    values = {**_NOTHING_COPIED, "lag_records": 0, **known}
    return PartitionStatus(topic="orders", remote_topic="A.orders", partition=number, state=state, reason=reason,
                           worker_id=worker, **values)  # fmt: skip


def topic(*, state: str = "COPIED", reason: str = "", partitions: int = 2) -> TopicStatus:
    return TopicStatus(topic="orders", remote_topic="A.orders", partitions=partitions, state=state, reason=reason)


def leader(*partitions: PartitionStatus, topics=None, problem: str = "") -> FlowPart:
    return FlowPart(worker_id=ONE, leads=True, has_looked=True, problem=problem, partitions=list(partitions),
                    topics=[topic()] if topics is None else topics)  # fmt: skip


def follower(*partitions: PartitionStatus, problem: str = "") -> FlowPart:
    return FlowPart(
        worker_id=TWO, leads=False, has_looked=False, problem=problem, partitions=list(partitions), topics=[]
    )


def state(*parts: FlowPart, paused: bool = False, unreached: tuple[str, ...] = ()) -> tuple[str, str]:
    status = flow_status(info(paused=paused), parts, unreached)
    return status.state, status.reason


def test_all_workers_together_have_all_partitions():
    status = flow_status(info(), [leader(partition(1)), follower(partition(0, worker=TWO))], [])
    assert [(each.partition, each.worker_id) for each in status.partitions] == [(0, TWO), (1, ONE)]
    assert [(each.worker_id, each.partitions, each.leads) for each in status.workers] == [
        (ONE, 1, True),
        (TWO, 1, False),
    ]
    assert (status.state, status.reason) == ("RUNNING", "")


def test_a_partition_that_no_worker_has_is_told():
    status = flow_status(info(), [leader(partition(1))], [])
    assert [(each.partition, each.state) for each in status.partitions] == [(0, "UNASSIGNED"), (1, "COPYING")]
    assert status.state == "STARTING"


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ([follower()], ("STARTING", "no worker leads yet that has looked at the topics")),
        ([leader(problem="the source is away")], ("FAILED", "the source is away")),
        ([leader(partition(0), partition(1), problem="hm")], ("DEGRADED", "hm")),
        (
            [leader(partition(0), partition(1, state="HALTED", reason="too large"))],
            ("DEGRADED", "orders-1: too large"),
        ),
        ([leader(topics=[topic(state="REFUSED", reason="it exists")])], ("DEGRADED", "orders: it exists")),
        ([leader(topics=[])], ("RUNNING", "")),
    ],
)
def test_the_state_says_the_worst_and_why(parts, expected):
    if (parts[0].topics and parts[0].topics[0].state == "REFUSED") or (parts[0].topics and not parts[0].partitions):
        parts[0].topics[0].partitions = 0
    assert state(*parts) == expected


def test_a_paused_flow_is_paused_and_a_worker_that_does_not_answer_is_told():
    assert state(leader(partition(0), partition(1)), paused=True) == ("PAUSED", "")
    assert state(leader(partition(0), partition(1)), unreached=("two is away",)) == ("DEGRADED", "two is away")


def test_lag_is_added_up_where_it_is_known():
    status = flow_status(
        info(),
        [
            leader(
                partition(0, lag_records=30, lag_bytes=300, lag_seconds=4.0, records_per_second=10.0, source_end=100),
                partition(1, lag_records=None, lag_bytes=None, lag_seconds=None),
            )
        ],
        [],
    )
    lag = flow_lag(status)
    assert (lag.lag_records, lag.lag_bytes, lag.lag_seconds, lag.partitions_unknown) == (30, 300, 4.0, 1)
    assert lag.seconds_left == 3.0
    assert flow_summary(info(), status).lag_records is None
