"""What is to break a rule is refused where it would break nothing, or something else."""

from collections.abc import Callable
from typing import Any

import pytest

from ottla_broker import partition
from ottla_broker.log.compaction import offset_map
from ottla_broker.log.partition.partition_log import PartitionLog
from ottla_broker.partition import Partition
from ottla_broker.replica.leader_replica import LeaderReplica
from ottla_broker.replication import following, truncation
from tests.support.replaced_rule import check_is_rule, replace_rule, rule_replaced


async def asynchronous(*_: Any, **__: Any) -> None:
    """Take anything, and be awaited."""


def anything(*_: Any, **__: Any) -> None:
    """Take anything."""


@pytest.mark.parametrize(
    ("owner", "name"),
    [(LeaderReplica, "moved"), (following, "moved"), (partition, "truncation_offset")],
    ids=["of a class", "of a module", "of another module"],
)
@pytest.mark.parametrize("refused_by", [check_is_rule, rule_replaced, replace_rule])
def test_what_is_not_there_cannot_be_broken(owner: Any, name: str, refused_by: Callable[..., Any]) -> None:
    with pytest.raises(AssertionError, match=f"no .*{name} to break"):
        refused_by(owner, name, anything)


@pytest.mark.parametrize(
    ("owner", "name"),
    [(truncation, "Partition"), (partition, "NO_EPOCH_GIVEN_"), (offset_map, "OffsetMap")],
    ids=["for annotations alone", "a leftover", "by a name of its own only"],
)
def test_what_nobody_reads_there_cannot_be_broken(owner: Any, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partition, "NO_EPOCH_GIVEN_", -1, raising=False)
    with pytest.raises(AssertionError, match="nothing reads"):
        check_is_rule(owner, name, anything)


def test_a_method_that_nobody_calls_cannot_be_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Partition, "left_behind", anything, raising=False)
    with pytest.raises(AssertionError, match="nothing reads"):
        check_is_rule(Partition, "left_behind", anything)


@pytest.mark.parametrize(
    ("owner", "name", "wrong"),
    [
        (LeaderReplica, "is_alone", lambda _self: True),
        (LeaderReplica, "may_be_in_sync", property(lambda _self: True)),
        (LeaderReplica, "may_be_in_sync", asynchronous),
        (truncation, "cut_log", anything),
        (LeaderReplica, "may_be_in_sync", lambda _self: True),
        (LeaderReplica, "high_watermark", lambda _self, _current, _end, *, min_in_sync_replicas: 0),
        (following, "truncation_offset", lambda _log, _epoch, _end, _more: 0),
    ],
)
def test_what_is_not_used_in_the_same_way_breaks_something_else(owner: Any, name: str, wrong: Any) -> None:
    with pytest.raises(AssertionError, match=r"differ|not called as it is"):
        check_is_rule(owner, name, wrong)


def test_a_rule_is_replaced_for_as_long_as_asked_for() -> None:
    real = LeaderReplica.may_be_in_sync
    with rule_replaced(LeaderReplica, "may_be_in_sync", lambda _self, _broker_id: True):
        assert LeaderReplica.may_be_in_sync is not real
    assert LeaderReplica.may_be_in_sync is real


def test_a_rule_is_replaced_for_good(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PartitionLog, "flush", PartitionLog.flush)  # puts it back
    replace_rule(PartitionLog, "flush", anything)
    assert PartitionLog.flush is anything
