"""The checker of the crash tests must itself notice loss, duplicates, reordering and invented records."""

import pytest

from tests.support.clients.delivery_check import DeliveryLog, ReadRecord, Stream, delivery_problems

STREAM = Stream(producer=0, partition=0)
OTHER = Stream(producer=1, partition=0)


def log_of(acknowledged: int, *, sent: int | None = None, stream: Stream = STREAM) -> DeliveryLog:
    log = DeliveryLog()
    for _ in range(acknowledged if sent is None else sent):
        log.next_number(stream)
    for number in range(acknowledged):
        log.acknowledge(stream, number, number)
    return log


def read_of(*numbers: int, stream: Stream = STREAM) -> list[ReadRecord]:
    return [ReadRecord(stream, number, offset) for offset, number in enumerate(numbers)]


def test_a_kept_promise_has_no_problems() -> None:
    assert delivery_problems(log_of(3), read_of(0, 1, 2)) == []


def test_records_whose_acknowledgement_was_lost_may_be_there() -> None:
    assert delivery_problems(log_of(2, sent=4), read_of(0, 1, 2)) == []


def test_streams_may_interleave() -> None:
    log = DeliveryLog()
    read = []
    for offset in range(6):
        stream = (STREAM, OTHER)[offset % 2]
        number = log.next_number(stream)
        log.acknowledge(stream, number, offset)
        read.append(ReadRecord(stream, number, offset))
    assert delivery_problems(log, read) == []


@pytest.mark.parametrize(
    ("read", "expected"),
    [
        pytest.param(read_of(0, 2), "acknowledged 1 (offset 1) is lost", id="loss"),
        pytest.param(read_of(), "acknowledged 0 (offset 0) is lost", id="everything lost"),
        pytest.param(read_of(0, 1, 1, 2), "1 is there 2 times", id="duplicate"),
        pytest.param(read_of(0, 1, 2, 3, 3), "3 is there 2 times", id="unacknowledged duplicate"),
        pytest.param(read_of(1, 0, 2), "0 follows 1", id="reorder"),
        pytest.param(read_of(0, 1, 2, 9), "9 was never sent", id="invented"),
    ],
)
def test_a_broken_promise_is_noticed(read: list[ReadRecord], expected: str) -> None:
    assert any(expected in problem for problem in delivery_problems(log_of(3, sent=5), read))


def test_a_record_at_another_offset_than_acknowledged_is_noticed() -> None:
    read = [ReadRecord(STREAM, 0, 0), ReadRecord(STREAM, 1, 5)]
    problems = delivery_problems(log_of(2), read)
    assert problems == [f"{STREAM}: 1 was acknowledged at offset 1 and stands at 5"]


def test_a_snapshot_is_not_changed_by_later_acknowledgements() -> None:
    log = log_of(1)
    before = log.snapshot()
    log.acknowledge(STREAM, log.next_number(STREAM), 1)
    assert delivery_problems(before, read_of(0)) == []
    assert delivery_problems(log, read_of(0)) != []
