"""Records that a sink could not take are offered again, in their order."""

from ottla_connect.task.sink.redelivery import Redelivery
from ottla_sdk import SinkRecord, TopicPartition


def record(partition: int) -> SinkRecord:
    return SinkRecord(topic="renamed", offset=1, original_topic="t", original_partition=partition)


def test_pauses_double_until_the_batch_is_put():
    redelivery = Redelivery()
    for due_s in (100.3, 100.6, 101.2):
        redelivery.keep([record(0)], 100.0, None)
        assert round(redelivery.due_s, 3) == due_s
    redelivery.done()
    assert not redelivery
    redelivery.keep([record(0)], 100.0, None)
    assert round(redelivery.due_s, 3) == 100.3


def test_pauses_do_not_grow_for_ever():
    redelivery = Redelivery()
    for _ in range(20):
        redelivery.keep([], 0.0, None)
    assert redelivery.due_s == 30.0


def test_the_task_may_say_how_long_to_wait():
    redelivery = Redelivery()
    redelivery.keep([record(0)], 5.0, 2.5)
    assert redelivery.due_s == 7.5


def test_records_of_partitions_that_are_given_away_are_dropped():
    redelivery = Redelivery()
    redelivery.keep([record(0), record(1)], 0.0, None)
    redelivery.drop({TopicPartition("t", 0)})
    assert [each.original_partition for each in redelivery.records] == [1]
    assert redelivery
