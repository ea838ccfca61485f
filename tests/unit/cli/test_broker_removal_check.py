"""What is lost when a local cluster is started with fewer brokers."""

import uuid

import pytest

from ottla.local import broker_removal_check
from ottla.local.broker_removal_check import BrokerRemovalCheck, Undecided, describe_loss, lost_partitions
from ottla_core.cluster.state.model import PartitionState
from ottla_operations.errors import OperationError


def partition(replicas: tuple[int, ...], isr: tuple[int, ...], eligible: tuple[int, ...] = ()) -> PartitionState:
    return PartitionState(
        topic_id=uuid.UUID(int=1), index=0, replicas=replicas, isr=isr, leader=-1, leader_epoch=0,
        eligible_leaders=eligible,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("replicas", "isr", "eligible", "is_lost"),
    [
        ((3,), (3,), (), True),
        ((1,), (1,), (), False),
        ((1, 3), (1, 3), (), False),
        ((1, 3), (3,), (), True),  # broker 1 lacks records
        ((1, 3), (3,), (1,), False),
        ((2, 3), (2, 3), (), True),
        ((3, 2), (), (3,), True),
        ((3, 2), (), (), False),  # nobody may lead it already
    ],
)
def test_a_partition_is_lost_if_all_that_may_lead_it_are_left_out(replicas, isr, eligible, is_lost):
    found = partition(replicas, isr, eligible)
    assert lost_partitions([found], leaving=[2, 3]) == ([found] if is_lost else [])


def test_what_is_lost_is_named_with_what_to_do():
    told = describe_loss([f"t-{number}" for number in range(7)], [2, 3])
    assert "7 partitions" in told
    assert "t-0, t-1, t-2, t-3, t-4 and 2 more" in told
    assert "`ottla topic alter t --replication-factor 3`" in told


@pytest.fixture
def check(tmp_path):
    def for_start(*, before: int, wanted: int, force: bool = False) -> BrokerRemovalCheck:
        return BrokerRemovalCheck(before=before, wanted=wanted, settings=tmp_path / "none", force=force)

    return for_start


@pytest.mark.parametrize("outcome", [["t-0"], Undecided("etcd is away")])
async def test_a_start_with_fewer_brokers_is_refused_and_not_remembered(check, monkeypatch, outcome):
    async def ask(_settings, leaving):
        assert leaving == [3]
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    monkeypatch.setattr(broker_removal_check, "ask", ask)
    start = check(before=3, wanted=2)
    with pytest.raises(OperationError, match="--force"):
        await start()
    assert start.brokers == 3
    forced = check(before=3, wanted=2, force=True)
    await forced()
    assert forced.brokers == 2


@pytest.mark.parametrize(("before", "wanted"), [(1, 3), (2, 2)])
async def test_a_start_with_as_many_or_more_asks_nobody(check, before, wanted):
    start = check(before=before, wanted=wanted)
    await start()
    assert start.brokers == wanted


async def test_what_cannot_be_found_out_is_told(check):
    with pytest.raises(OperationError, match="cannot see what would be lost"):
        await check(before=3, wanted=2)()
