"""Which batches a reader of committed records takes."""

import struct

from hypothesis import given
from hypothesis import strategies as st

from ottla_core.wire.records import Record, encode_batch
from ottla_operations.mirror.committed_batches import committed_batches
from ottla_operations.mirror.comparable_records import Batch, whole_batches

ABORT, COMMIT = 0, 1


def data(offset: int, producer_id: int, *, is_transactional: bool = True) -> bytes:
    return encode_batch(
        [Record(offset, 1, None, b"%d" % offset, ())],
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=0,
        is_transactional=is_transactional,
    )


def marker(offset: int, producer_id: int, kind: int) -> bytes:
    return encode_batch(
        [Record(offset, 1, struct.pack(">hh", 0, kind), b"", ())],
        producer_id=producer_id,
        producer_epoch=0,
        is_transactional=True,
        is_control=True,
    )


def log(*batches: bytes) -> list[Batch]:
    return whole_batches(memoryview(b"".join(batches)))


def test_transactions_of_several_producers_are_told_apart():
    batches = log(
        data(0, 1), data(1, 2), data(2, -1, is_transactional=False), marker(3, 1, ABORT), data(4, 1),
        marker(5, 2, COMMIT), marker(6, 1, COMMIT),
    )  # fmt: skip
    assert [each.header.base_offset for each in committed_batches(batches, [(1, 0)])] == [1, 2, 4]


steps = st.lists(st.tuples(st.integers(1, 3), st.sampled_from(("data", "abort", "commit", "plain"))), max_size=25)


@given(steps, st.integers(0, 25))
def test_it_takes_what_the_transactions_say_wherever_the_response_begins(history, begin):
    """The oracle plays the history; the response begins in its midst, as a leader tells of transactions that do."""
    row, is_data, open_since, fates = [], [], dict[int, int](), dict[int, tuple[int, int, bool]]()
    for offset, (producer, what) in enumerate(history):
        if what == "plain":
            row.append(data(offset, -1, is_transactional=False))
            is_data.append((offset, None))
        elif what == "data":
            open_since.setdefault(producer, offset)
            row.append(data(offset, producer))
            is_data.append((offset, (producer, open_since[producer])))
        else:
            row.append(marker(offset, producer, ABORT if what == "abort" else COMMIT))
            if producer in open_since:
                first = open_since.pop(producer)
                fates[first] = (producer, offset, what == "abort")
    stable = min(open_since.values(), default=len(history))
    aborted = [
        (producer, first)
        for first, (producer, last, is_aborted) in fates.items()
        if is_aborted and last >= begin and first < stable
    ]
    expected = [
        offset
        for offset, transaction in is_data
        if begin <= offset < stable and (transaction is None or not fates[transaction[1]][2])
    ]
    found = committed_batches(log(*row[begin:stable]), aborted)
    assert [each.header.base_offset for each in found] == expected
