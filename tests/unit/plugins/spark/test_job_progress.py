"""What Spark says about a batch becomes metrics, a line and a document."""

from typing import Any

import pytest

from ottla_spark.formats.format import Format
from ottla_spark.job.plan import FormatRead, Table, TopicRead
from ottla_spark.job.progress import QueryProgress

JSON = Format(name="json", schema="a INT")
TABLES = (
    Table(name="flights", streaming=True, reading=TopicRead(topics=("raw-flights",), key=JSON, value=JSON)),
    Table(name="rest", streaming=True, reading=TopicRead(pattern="other-.*", key=JSON, value=JSON)),
    Table(name="files", streaming=True, reading=FormatRead(format="csv", path="/data")),
)


def progress(**changes: Any) -> dict[str, Any]:
    """As `StreamingQueryProgress.json()` has it, of a windowed aggregation in a later batch."""
    return {
        "id": "04e20af8-15d4-4a63-804f-cf094b926541",
        "runId": "f54529ce-202d-4b8a-b909-cea7b05dd605",
        "name": "delays",
        "timestamp": "2026-11-22T07:42:40.123Z",
        "batchId": 7,
        "batchDuration": 812,
        "numInputRows": 1200,
        "inputRowsPerSecond": 400.25,
        "processedRowsPerSecond": 1477.8,
        "durationMs": {"addBatch": 700, "triggerExecution": 812},
        "eventTime": {"watermark": "2013-01-01T08:00:00.000Z", "max": "2013-01-01T09:00:00.000Z"},
        "stateOperators": [
            {
                "operatorName": "stateStoreSave",
                "numRowsTotal": 40,
                "memoryUsedBytes": 5000,
                "numRowsDroppedByWatermark": 2,
            },
            {"operatorName": "dedupe", "numRowsTotal": 2, "memoryUsedBytes": 100, "numRowsDroppedByWatermark": 0},
        ],
        "sources": [
            {
                "description": "ottla",
                "startOffset": {"raw-flights": {"0": 0, "1": 0}},
                "endOffset": {"raw-flights": {"0": 600, "1": 600}},
                "latestOffset": {"raw-flights": {"0": 650, "1": 600}},
            },
            {
                "description": "ottla",
                "endOffset": '{"other-1": {"0": 5}}',
                "latestOffset": '{"other-1": {"0": 5, "1": 3}}',
            },
            {"description": "FileStreamSource[file:/data]", "endOffset": {"logOffset": 3}, "latestOffset": None},
        ],
        "sink": {"description": "ForeachBatchSink", "numOutputRows": -1},
        **changes,
    }


def test_a_batch_in_numbers() -> None:
    made = QueryProgress.of(progress(), TABLES)
    assert made.metrics("delays") == {
        "delays-batch": 7,
        "delays-input-rows-per-second": 400.25,
        "delays-processed-rows-per-second": 1477.8,
        "delays-batch-duration-ms": 812,
        "delays-state-rows": 42,
        "delays-state-bytes": 5100,
        "delays-lag-records": 53,
        "delays-watermark-ms": 1357027200000.0,
    }
    assert made.document() == {
        "batch": 7,
        "at": "2026-11-22T07:42:40.123Z",
        "rows": 1200,
        "input_rows_per_second": 400.2,
        "processed_rows_per_second": 1477.8,
        "duration_ms": 812,
        "lag_records": {"flights": 50, "rest": 3},
        "state_rows": 42,
        "state_bytes": 5100,
        "late_rows": 2,
        "watermark": "2013-01-01T08:00:00.000Z",
    }
    assert made.line("delays") == (
        "delays: batch 7, 1200 rows in 812 ms, 53 records behind, 42 rows of state, 2 rows came too late, "
        "watermark 2013-01-01T08:00:00.000Z"
    )


def test_a_query_without_topics_state_and_time() -> None:
    bare = progress(sources=[], stateOperators=[], eventTime={})
    made = QueryProgress.of(bare, TABLES)
    assert made.metrics("copy").keys() >= {"copy-batch", "copy-state-rows"}
    assert {"copy-lag-records", "copy-watermark-ms"}.isdisjoint(made.metrics("copy"))
    assert made.line("copy") == "copy: batch 7, 1200 rows in 812 ms"
    assert {"lag_records", "state_rows", "watermark"}.isdisjoint(made.document())


@pytest.mark.parametrize("rate", ["NaN", "Infinity", float("nan"), float("inf"), None, -1.0])
def test_the_first_batch_has_no_rate(rate: object) -> None:
    made = QueryProgress.of(progress(inputRowsPerSecond=rate), TABLES)
    assert made.input_rows_per_second == 0


def test_a_watermark_of_1970_is_none() -> None:
    assert QueryProgress.of(progress(eventTime={"watermark": "1970-01-01T00:00:00.000Z"}), TABLES).watermark == ""


def test_a_topic_that_is_read_beyond_what_was_its_end_has_no_lag() -> None:
    source = {"endOffset": {"raw-flights": {"0": 9}}, "latestOffset": {"raw-flights": {"0": 7}}}
    assert QueryProgress.of(progress(sources=[source]), TABLES).lag_records == {"flights": 0}
