"""In which pieces records are taken apart."""

from ottla_operations.queries.record_slices import SLICE_BYTES, SLICE_RECORDS, rows_at_once, slices


def test_pieces_follow_each_other_and_are_bounded_in_bytes_and_records() -> None:
    half = SLICE_BYTES // 2
    sizes = [(0, 0, half), (1, 1, half), (2, 2, 1), (3, 3, 3 * SLICE_BYTES), (4, 4, 0), (5, 5, 10)]
    assert list(slices(sizes)) == [(0, 1), (2, 2), (3, 3), (4, 5)]
    many = [(each, each + 999, 1000) for each in range(0, 2 * SLICE_RECORDS, 1000)]
    assert list(slices(many)) == [(0, SLICE_RECORDS - 1), (SLICE_RECORDS, 2 * SLICE_RECORDS - 1)]


def test_no_records_have_no_pieces() -> None:
    assert list(slices([])) == []


def test_small_records_are_looked_at_in_thousands_and_large_ones_one_by_one() -> None:
    assert rows_at_once(200) == SLICE_RECORDS
    assert rows_at_once(1_000_000) == 4
    assert rows_at_once(SLICE_BYTES + 1) == 1
    assert rows_at_once(0) == SLICE_RECORDS
