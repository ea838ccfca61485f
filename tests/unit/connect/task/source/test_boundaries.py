"""Where the transactions of a source task end."""

import pytest

from ottla_connect.task.source.boundaries import Boundaries, Boundary, End
from ottla_sdk import SourceRecord


def records(count):
    return [SourceRecord(topic="t", source_partition={}, source_offset={"n": number}) for number in range(count)]


def boundaries(kind, *, interval_s=10.0):
    return Boundaries(kind, interval_s=interval_s, now_s=0.0)


def test_a_transaction_ends_behind_each_batch_by_default():
    rule, batch = boundaries(Boundary.POLL), records(3)
    assert list(rule.parts(batch)) == [(batch, End.NONE)]
    assert rule.end_of_batch(0.0) is End.COMMIT
    assert not rule.is_due(1000.0)
    assert (rule.ends_at_rest, rule.context) == (True, None)


def test_a_transaction_ends_when_its_interval_is_over_with_a_batch_or_without_one():
    rule = boundaries(Boundary.INTERVAL)
    assert rule.end_of_batch(9.9) is End.NONE
    assert not rule.is_due(9.9)
    assert rule.end_of_batch(10.0) is End.COMMIT
    assert rule.is_due(10.0)
    rule.ended(12.0)
    assert not rule.is_due(21.9)
    assert rule.is_due(22.0)


def test_a_task_ends_transactions_behind_some_records_of_a_batch():
    rule, batch = boundaries(Boundary.CONNECTOR), records(6)
    assert rule.context is not None
    rule.context.commit_on(batch[1])
    rule.context.abort_on(batch[4])
    assert list(rule.parts(batch)) == [
        (batch[:2], End.COMMIT),
        (batch[2:5], End.ABORT),
        (batch[5:], End.NONE),
    ]
    assert list(rule.parts(batch)) == [(batch, End.NONE)], "what was said counts once"
    assert not rule.ends_at_rest


def test_records_are_known_as_objects_even_if_they_are_equal():
    rule, batch = boundaries(Boundary.CONNECTOR), records(1) + records(1)
    assert rule.context is not None
    rule.context.commit_on(batch[1])
    assert list(rule.parts(batch)) == [(batch, End.COMMIT)]


@pytest.mark.parametrize(("said", "end"), [("commit", End.COMMIT), ("abort", End.ABORT)])
def test_a_task_ends_a_transaction_behind_a_batch(said, end):
    rule = boundaries(Boundary.CONNECTOR)
    assert rule.end_of_batch(1000.0) is End.NONE
    getattr(rule.context, said)()
    assert list(rule.parts([])) == []
    assert rule.end_of_batch(0.0) is end
    assert rule.end_of_batch(0.0) is End.NONE
