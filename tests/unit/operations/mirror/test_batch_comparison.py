"""Comparing batches of a byte-exact copy."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla_core.wire.record_batch import HEADER_SIZE_BYTES, LEADER_EPOCH_OFFSET
from ottla_core.wire.records import Record, encode_batch
from ottla_operations.mirror.batch_comparison import BatchComparison
from ottla_operations.mirror.comparable_records import Batch, whole_batches
from ottla_operations.mirror.differences import Kind


def batch(first_offset: int, count: int = 3, *, epoch: int = 4, value: bytes = b"value") -> bytes:
    return encode_batch([Record(first_offset + n, 1, b"k", value, ()) for n in range(count)], leader_epoch=epoch)


def log(*batches: bytes) -> list[Batch]:
    return whole_batches(memoryview(b"".join(batches)))


def compared(source: Sequence[Batch], target: Sequence[Batch]) -> BatchComparison:
    comparison = BatchComparison()
    comparison.add_source(source)
    comparison.add_target(target)
    return comparison


@given(st.lists(st.integers(1, 4), max_size=8), st.integers(0, 8))
def test_a_prefix_of_the_source_is_no_difference_and_the_rest_is_known(counts, copied):
    offsets = [sum(counts[:n]) for n in range(len(counts))]
    batches = log(*(batch(offset, count) for offset, count in zip(offsets, counts, strict=True)))
    found = compared(batches, batches[:copied])
    assert found.difference is None
    assert found.records == sum(counts[:copied])
    assert found.source_left == (offsets[copied] if copied < len(offsets) else None)
    assert found.target_left is None


@pytest.mark.parametrize(
    ("other", "kind"),
    [
        (batch(3, value=b"other"), Kind.BYTES),
        (batch(3, 2), Kind.BYTES),
        (batch(4), Kind.MISSING),
        (batch(2), Kind.EXTRA),
        (batch(3, epoch=5), Kind.LEADER_EPOCH),
    ],
)
def test_every_difference_is_told_by_its_kind(other, kind):
    found = compared(log(batch(0), batch(3)), log(batch(0), other))
    assert found.batches == 1
    assert found.difference is not None
    assert (found.difference.kind, found.difference.source_offset) == (kind, 3)


@pytest.mark.parametrize("side", ["source", "target"])
def test_equal_crcs_over_damaged_bytes_are_a_difference(side):
    damaged = bytearray(batch(0))
    damaged[HEADER_SIZE_BYTES + 4] ^= 1
    rows = {"source": log(batch(0)), "target": log(batch(0)), side: log(bytes(damaged))}
    difference = compared(rows["source"], rows["target"]).difference
    assert difference is not None
    assert difference.kind is Kind.CORRUPT
    assert side in difference.detail


@given(st.integers(LEADER_EPOCH_OFFSET, len(batch(0)) - 1), st.integers(1, 255))
def test_no_byte_can_differ_unnoticed(position, change):
    changed = bytearray(batch(0))
    changed[position] ^= change
    try:
        target = log(bytes(changed))
    except Exception as error:  # noqa: BLE001 - an impossible header is noticed, too
        assert str(error)  # noqa: PT017
        return
    found = compared(log(batch(0)), target)
    assert found.difference is not None or not target
