"""Markers, aborted transactions and empty batches stay at the source."""

from ottla_core.wire.consumer_fetch import AbortedTransaction
from ottla_core.wire.record_batch import HEADER_SIZE_BYTES, pack_header, parse_header
from ottla_core.wire.records import Record, encode_batch
from ottla_mirror.copy.deliverable_batches import DeliverableBatches

ABORT, COMMIT = b"\0\0\0\0", b"\0\0\0\1"


def data(offset: int, producer: int = -1) -> bytes:
    record = Record(offset, 1, b"k", b"v")
    return encode_batch([record], producer_id=producer, is_transactional=producer >= 0)


def marker(offset: int, producer: int, kind: bytes) -> bytes:
    record = Record(offset, 1, kind, b"\0" * 6)
    return encode_batch([record], producer_id=producer, is_transactional=True, is_control=True)


def included(batches: list[bytes], aborted: list[AbortedTransaction]) -> list[int]:
    deliverable = DeliverableBatches(aborted)
    headers = [parse_header(each) for each in batches]
    pairs = zip(headers, batches, strict=True)
    return [each.base_offset for each, batch in pairs if deliverable.includes(each, memoryview(batch))]


def test_records_of_aborted_transactions_and_markers_are_left_out():
    batches = [
        data(0),
        data(1, producer=7),
        data(2, producer=8),
        data(3),
        marker(4, 7, ABORT),
        data(5, producer=7),
        marker(6, 8, COMMIT),
        marker(7, 7, COMMIT),
    ]
    assert included(batches, [AbortedTransaction(7, 1)]) == [0, 2, 3, 5]
    assert included(batches, []) == [0, 1, 2, 3, 5]


def test_a_transaction_that_began_before_the_answer_is_left_out_until_its_marker():
    batches = [data(10, producer=7), marker(11, 7, ABORT), data(12, producer=7)]
    assert included(batches, [AbortedTransaction(7, 3)]) == [12]


def test_a_producer_that_aborts_twice_is_left_out_twice():
    batches = [
        data(0, producer=7),
        marker(1, 7, ABORT),
        data(2, producer=7),
        marker(3, 7, ABORT),
        data(4, producer=7),
    ]
    assert included(batches, [AbortedTransaction(7, 2), AbortedTransaction(7, 0)]) == [4]


def test_a_transaction_later_in_the_list_does_not_count_before_its_first_offset():
    batches = [data(0, producer=7), marker(1, 7, COMMIT), data(2, producer=7), marker(3, 7, ABORT)]
    assert included(batches, [AbortedTransaction(7, 2)]) == [0]


def test_a_batch_that_compaction_has_emptied_is_left_out():
    header = parse_header(data(5))._replace(record_count=0, batch_length=HEADER_SIZE_BYTES - 12)
    assert included([pack_header(header, b"")], []) == []
