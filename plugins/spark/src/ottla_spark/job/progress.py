"""What Spark says about a query's batches, in the words of users of connectors. Pure.

`QueryProgress.of` reads the JSON of a StreamingQueryProgress; the rest is made of that: metrics, a line for the log,
and the document that appears as `progress` of the task's status.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Self

from ottla_spark.job.plan import Table, TopicRead
from ottla_spark.job.topic_names import matches

EPOCH = "1970-01-01"


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryProgress:
    """How far a query is, after one of its batches.

    Attributes:
        batch: its number, from 0; with `rows` 0 the number of the next.
        at: when it began, as Spark says it.
        rows: records that it has read.
        input_rows_per_second: as they came.
        processed_rows_per_second: as they were worked through.
        duration_ms: how long the batch took.
        lag_records: by table, how many records there are that have not been read; only of topics.
        state_rows: rows that windows, joins and deduplication keep.
        state_bytes: memory that they take.
        late_rows: rows that came too late, behind the watermark.
        watermark: the time that has passed for good, in ISO form; empty if there is none yet.
    """

    batch: int
    at: str
    rows: int
    input_rows_per_second: float
    processed_rows_per_second: float
    duration_ms: int
    lag_records: Mapping[str, int] = field(default_factory=dict)
    state_rows: int = 0
    state_bytes: int = 0
    late_rows: int = 0
    watermark: str = ""

    @classmethod
    def of(cls, progress: Mapping[str, Any], tables: Iterable[Table]) -> Self:
        """Return what a StreamingQueryProgress says.

        Args:
            progress: its JSON.
            tables: of the plan; a topic's lag is that of the table that reads it.
        """
        operators = progress.get("stateOperators") or ()
        watermark = str((progress.get("eventTime") or {}).get("watermark", ""))
        return cls(
            batch=int(progress["batchId"]),
            at=str(progress["timestamp"]),
            rows=int(progress.get("numInputRows") or 0),
            input_rows_per_second=_number(progress.get("inputRowsPerSecond")),
            processed_rows_per_second=_number(progress.get("processedRowsPerSecond")),
            duration_ms=int((progress.get("durationMs") or {}).get("triggerExecution", 0)),
            lag_records=_lag(progress.get("sources") or (), tuple(tables)),
            state_rows=sum(int(each.get("numRowsTotal", 0)) for each in operators),
            state_bytes=sum(int(each.get("memoryUsedBytes", 0)) for each in operators),
            late_rows=sum(int(each.get("numRowsDroppedByWatermark", 0)) for each in operators),
            watermark="" if watermark.startswith(EPOCH) else watermark,
        )

    def metrics(self, output: str) -> dict[str, float]:
        """Return gauges by name."""
        gauges: dict[str, float] = {
            f"{output}-batch": self.batch,
            f"{output}-input-rows-per-second": self.input_rows_per_second,
            f"{output}-processed-rows-per-second": self.processed_rows_per_second,
            f"{output}-batch-duration-ms": self.duration_ms,
            f"{output}-state-rows": self.state_rows,
            f"{output}-state-bytes": self.state_bytes,
        }
        if self.lag_records:
            gauges[f"{output}-lag-records"] = sum(self.lag_records.values())
        if self.watermark:
            gauges[f"{output}-watermark-ms"] = _milliseconds(self.watermark)
        return gauges

    def document(self) -> dict[str, Any]:
        """Return what the task's status shows of the query."""
        shown: dict[str, Any] = {
            "batch": self.batch,
            "at": self.at,
            "rows": self.rows,
            "input_rows_per_second": round(self.input_rows_per_second, 1),
            "processed_rows_per_second": round(self.processed_rows_per_second, 1),
            "duration_ms": self.duration_ms,
        }
        if self.lag_records:
            shown["lag_records"] = dict(self.lag_records)
        if self.state_rows or self.state_bytes:
            shown |= {"state_rows": self.state_rows, "state_bytes": self.state_bytes, "late_rows": self.late_rows}
        if self.watermark:
            shown["watermark"] = self.watermark
        return shown

    def line(self, output: str) -> str:
        """Return one line for the log."""
        said = [f"{output}: batch {self.batch}, {self.rows} rows in {self.duration_ms} ms"]
        if self.lag_records:
            said.append(f"{sum(self.lag_records.values())} records behind")
        if self.state_rows:
            said.append(f"{self.state_rows} rows of state")
        if self.late_rows:
            said.append(f"{self.late_rows} rows came too late")
        if self.watermark:
            said.append(f"watermark {self.watermark}")
        return ", ".join(said)


def _number(value: Any) -> float:
    """Return a rate; the first batch has none, which Spark calls NaN or infinite or leaves out."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        return 0.0
    return number if 0 <= number < float("inf") else 0.0


def _milliseconds(timestamp: str) -> float:
    return datetime.fromisoformat(timestamp).timestamp() * 1000


def _lag(sources: Iterable[Mapping[str, Any]], tables: tuple[Table, ...]) -> dict[str, int]:
    lag: dict[str, int] = {}
    for source in sources:
        latest, reached = _offsets(source.get("latestOffset")), _offsets(source.get("endOffset"))
        for topic, partitions in latest.items():
            behind = sum(max(0, end - reached.get(topic, {}).get(each, 0)) for each, end in partitions.items())
            table = next((table.name for table in tables if _reads(table, topic)), topic)
            lag[table] = lag.get(table, 0) + behind
    return lag


def _offsets(value: Any) -> dict[str, dict[str, int]]:
    """Return offsets by topic and partition; none if they are those of something else than topics."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            return {}
    if not isinstance(value, dict):
        return {}
    return {
        topic: {partition: offset for partition, offset in partitions.items() if isinstance(offset, int)}
        for topic, partitions in value.items()
        if isinstance(partitions, dict)
    }


def _reads(table: Table, topic: str) -> bool:
    return table.streaming and isinstance(table.reading, TopicRead) and matches(table.reading, topic)
