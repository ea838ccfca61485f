"""How much of a topic a task of the prompt reads."""

import pytest

from ottla_spark.sql.catalog import SLICE_BYTES, SLICE_RECORDS_MAX, slice_records


@pytest.mark.parametrize(
    ("mean_bytes", "records"),
    [(0, SLICE_RECORDS_MAX), (10, SLICE_RECORDS_MAX), (16 << 10, 1024), (SLICE_BYTES, 1), (100 << 20, 1)],
)
def test_a_slice_fits_into_javas_memory_and_has_a_record(mean_bytes: int, records: int) -> None:
    assert slice_records(mean_bytes) == records
