"""Where looking at a part of a topic stops, with a consumer that gives what it is asked for at once."""

from itertools import islice

import confluent_kafka
import pytest
from confluent_kafka import Message

from ottla_operations.records.bounded_reading import CONSUME_BYTES, CONSUME_RECORDS_FIRST, Bounds, look

TOPIC = "t"
KIB = 1024


class EagerConsumer:
    """Has a log of messages of one size for each partition.

    Attributes:
        taken_bytes: of each call that has given something.
    """

    def __init__(self, size_bytes):
        self.size_bytes = size_bytes
        self.taken_bytes = []

    def assign(self, partitions):
        self._next = {each.partition: each.offset for each in partitions}

    def consume(self, count, timeout):
        messages = list(islice(self._messages(), count))
        self.taken_bytes.append(sum(len(each.value()) for each in messages))
        return messages

    def _messages(self):
        while True:
            for partition, offset in self._next.items():
                self._next[partition] = offset + 1
                yield Message(topic=TOPIC, partition=partition, offset=offset, value=b"v" * self.size_bytes)

    def close(self):
        pass


def looked(monkeypatch, consumer, *, partitions=1, records=1_000, newest_first=False, **bounds):
    monkeypatch.setattr(confluent_kafka, "Consumer", lambda _: consumer)
    logs = dict.fromkeys(range(partitions), (0, records))
    place = dict.fromkeys(logs, records if newest_first else 0)
    defaults = {"wanted": 10_000, "records_max": 100_000, "kept_bytes_max": 10_000 * KIB, "bytes_max": 1 << 40}
    told = Bounds(**{**defaults, "within_s": 60.0, "block": 400, **bounds})
    return look({"bootstrap.servers": "b:1"}, TOPIC, logs, place, told, newest_first=newest_first)


@pytest.mark.parametrize("newest_first", [False, True])
@pytest.mark.parametrize("partitions", [1, 3])
def test_a_block_that_came_at_once_keeps_no_more_bytes_than_it_may(monkeypatch, newest_first, partitions):
    consumer = EagerConsumer(100 * KIB)
    found = looked(
        monkeypatch, consumer, partitions=partitions, newest_first=newest_first, kept_bytes_max=4_000 * KIB
    )
    assert 20 <= len(found.records) <= 40 + partitions
    assert found.remaining == partitions * 1_000 - len(found.records)


def test_large_records_are_taken_a_few_at_a_time(monkeypatch):
    consumer = EagerConsumer(1024 * KIB)
    looked(monkeypatch, consumer, records=64, kept_bytes_max=1 << 40)
    assert max(consumer.taken_bytes) <= CONSUME_RECORDS_FIRST * consumer.size_bytes
    assert max(consumer.taken_bytes[1:]) <= CONSUME_BYTES


def test_a_record_above_the_bound_is_not_in_the_way(monkeypatch):
    found = looked(monkeypatch, EagerConsumer(5_000 * KIB), records=3, kept_bytes_max=1_000 * KIB)
    assert [each.offset for each in found.records] == [0]
    assert found.place == {0: 1}


def test_small_records_are_taken_many_at_a_time(monkeypatch):
    consumer = EagerConsumer(10)
    found = looked(monkeypatch, consumer, records=20_000, wanted=5_000)
    assert len(found.records) == 5_000
    assert len(consumer.taken_bytes) < 20


def test_what_was_found_is_told(monkeypatch):
    found = looked(monkeypatch, EagerConsumer(10), records=7)
    assert (found.seen, found.seen_bytes, found.remaining) == (7, 70, 0)
