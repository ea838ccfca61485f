"""Records of a transaction count from its commit marker on, those of an aborted one never; others go on meanwhile."""

import pytest

from ottla_core.errors import InvalidRecord
from ottla_core.wire.record_batch import parse_header
from ottla_core.wire.records import Record, encode_batch
from ottla_mirror.internal_topics.decided_records import DecidedRecords, ReadBatch, read_batch

ABORT, COMMIT = b"\0\0\0\0", b"\0\0\0\1"


def batch(offset: int, *values: str, producer: int = -1) -> ReadBatch:
    records = [Record(offset + place, 0, b"k", value.encode()) for place, value in enumerate(values)]
    encoded = encode_batch(records, producer_id=producer, producer_epoch=0, is_transactional=producer >= 0)
    return read_batch(parse_header(encoded), memoryview(encoded), 0)


def marker(offset: int, key: bytes, producer: int) -> ReadBatch:
    record = Record(offset, 0, key, b"\0" * 6)
    encoded = encode_batch([record], producer_id=producer, producer_epoch=0, is_transactional=True, is_control=True)
    return read_batch(parse_header(encoded), memoryview(encoded), 0)


def told(records: list[Record]) -> list[str]:
    return [(each.value or b"").decode() for each in records]


def test_a_committed_transaction_counts_when_its_marker_is_read_and_holds_up_nobody_else() -> None:
    decided = DecidedRecords()
    assert told(decided.take([batch(0, "a", "b", producer=7), batch(2, "c"), batch(3, "d", producer=8)])) == ["c"]
    assert decided.undecided == 3
    assert told(decided.take([marker(4, COMMIT, 8), batch(5, "e", producer=7)])) == ["d"]
    assert told(decided.take([marker(6, COMMIT, 7)])) == ["a", "b", "e"]
    assert decided.undecided == 0


def test_an_aborted_transaction_never_counts_and_the_next_of_its_producer_does() -> None:
    decided = DecidedRecords()
    found = decided.take([batch(0, "a", producer=7), marker(1, ABORT, 7), batch(2, "b", producer=7)])
    assert found == []
    assert told(decided.take([marker(3, COMMIT, 7)])) == ["b"]


def test_a_marker_without_records_before_it_means_nothing() -> None:
    assert DecidedRecords().take([marker(0, COMMIT, 7), marker(1, ABORT, 8)]) == []


def test_what_was_read_before_a_topic_was_made_anew_does_not_count() -> None:
    decided = DecidedRecords()
    decided.take([batch(0, "a", producer=7)])
    decided.clear()
    assert decided.take([marker(0, COMMIT, 7)]) == []


@pytest.mark.parametrize("key", [b"\0", b"\0\0\0\7"])
def test_a_marker_of_a_kind_that_nobody_knows_is_refused(key: bytes) -> None:
    with pytest.raises(InvalidRecord):
        DecidedRecords().take([batch(0, "a", producer=7), marker(1, key, 7)])
