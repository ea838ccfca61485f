"""Jobs on Spark that Connect's workers run, with the last batch of each of their outputs. Pure.

Their tasks report progress by output; the status has it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ottla_console.views.connector_table import CLASS_KEY, lasting_hindrances, state_grade
from ottla_operations.connect.connector_problems import shown_state

PACKAGE: Final = "ottla_spark."
KINDS: Final[Mapping[str, str]] = {"SparkPipeline": "pipeline", "SparkSource": "source", "SparkSink": "sink"}
OUTPUTS_MAX: Final = 100
TEXT_MAX: Final = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """A query of a job after its last batch; what it does not tell is None or empty.

    Attributes:
        state: of the query, such as running.
        batch: its number.
        at: when it began, in UTC.
        rows: records that it read.
        input_rows_per_s, processed_rows_per_s: as they came, and as they were worked through.
        duration_ms: how long it took.
        lag: records that are still to be read, of all tables.
        state_rows, state_bytes: that windows, joins and deduplication keep.
        late_rows: rows that came too late.
        watermark: the time that has passed for good, in UTC.
    """

    name: str
    state: str
    batch: int | None
    at: str
    rows: int | None
    input_rows_per_s: float | None
    processed_rows_per_s: float | None
    duration_ms: int | None
    lag: int | None
    state_rows: int | None
    state_bytes: int | None
    late_rows: int | None
    watermark: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkJob:
    """A job.

    Attributes:
        kind: pipeline, source, or sink.
        state: of its task, or of the connector where it has none.
        error: what keeps it from its work, or None.
    """

    name: str
    kind: str
    state: str
    grade: str
    error: str | None
    outputs: Sequence[Output]


def spark_jobs(expanded: Mapping[str, Mapping[str, Any]]) -> list[SparkJob]:
    """Return the jobs among the connectors of ``/connectors?expand=status&expand=info``, by name."""
    return [found for name in sorted(expanded) if (found := _job(name, expanded[name])) is not None]


def _job(name: str, document: Mapping[str, Any]) -> SparkJob | None:
    status, config = document.get("status"), (document.get("info") or {}).get("config") or {}
    plugin = str(config.get(CLASS_KEY, ""))
    short = plugin.rpartition(".")[2]
    if not status or not (plugin.startswith(PACKAGE) or short in KINDS):
        return None
    tasks, hindered = status["tasks"], lasting_hindrances(status)
    part = tasks[0] if tasks and status["connector"]["state"] == "RUNNING" else status["connector"]
    return SparkJob(
        name=name,
        kind=KINDS.get(short, str(status.get("type", ""))),
        state=shown_state(part),
        grade=state_grade(str(part["state"]), waits=bool(hindered)),
        error=hindered[0].reason[:TEXT_MAX] if hindered else _waits(tasks),
        outputs=list(_outputs(tasks)),
    )


def _waits(tasks: Sequence[Mapping[str, Any]]) -> str | None:
    """Return why Spark does not begin, such as a cluster without executors; None if it does not say so."""
    said = [str(waits) for task in tasks if (waits := (task.get("progress") or {}).get("waits"))]
    return said[0][:TEXT_MAX] if said else None


def _outputs(tasks: Sequence[Mapping[str, Any]]) -> Iterator[Output]:
    for task in tasks:
        outputs = (task.get("progress") or {}).get("outputs")
        for name, said in list(outputs.items())[:OUTPUTS_MAX] if isinstance(outputs, dict) else ():
            if isinstance(said, dict):
                yield _output(str(name), said)


def _output(name: str, said: Mapping[str, Any]) -> Output:
    lag = said.get("lag_records")
    return Output(
        name=name,
        state=str(said.get("state", ""))[:100],
        batch=_whole(said.get("batch")),
        at=str(said.get("at", ""))[:40],
        rows=_whole(said.get("rows")),
        input_rows_per_s=_number(said.get("input_rows_per_second")),
        processed_rows_per_s=_number(said.get("processed_rows_per_second")),
        duration_ms=_whole(said.get("duration_ms")),
        lag=sum(_whole(each) or 0 for each in lag.values()) if isinstance(lag, dict) else None,
        state_rows=_whole(said.get("state_rows")),
        state_bytes=_whole(said.get("state_bytes")),
        late_rows=_whole(said.get("late_rows")),
        watermark=str(said.get("watermark", ""))[:40],
    )


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
