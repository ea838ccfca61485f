"""Jobs on Spark, as the statuses of their connectors tell of them."""

from typing import Any

import pytest

from ottla_console.views.spark_jobs import spark_jobs
from ottla_spark.job.progress import QueryProgress

PROGRESS = {
    "state": "running",
    **QueryProgress(
        batch=7,
        at="2026-03-01T10:00:00.000Z",
        rows=120,
        input_rows_per_second=40.0,
        processed_rows_per_second=61.5,
        duration_ms=950,
        lag_records={"flights": 5, "weather": 2},
        state_rows=10,
        state_bytes=4096,
        late_rows=1,
        watermark="2026-03-01T09:00:00.000Z",
    ).document(),
}
"""What the plugin itself reports of an output."""


def job(plugin: str, *, state: str = "RUNNING", **task: Any) -> dict[str, Any]:
    own = {"state": state, "worker_id": "w:1"}
    tasks = [{"id": 0, "state": "RUNNING", "worker_id": "w:1", **task}] if state == "RUNNING" else []
    return {
        "status": {"name": "delays", "connector": own, "tasks": tasks, "type": "source"},
        "info": {"config": {"connector.class": plugin, "sql": "SELECT 1"}},
    }


@pytest.mark.parametrize(
    ("plugin", "kind"),
    [
        ("ottla_spark.SparkPipeline", "pipeline"),
        ("SparkSink", "sink"),
        ("ottla_spark.job.connectors.SparkSource", "source"),
    ],
)
def test_jobs_are_known_by_their_plugins(plugin: str, kind: str) -> None:
    (found,) = spark_jobs({"delays": job(plugin), "other": job("ottla_file.FileSource"), "gone": {}})
    assert (found.name, found.kind, found.state, found.grade) == ("delays", kind, "RUNNING", "good")


def test_an_output_has_its_last_batch() -> None:
    (found,) = spark_jobs({"delays": job("SparkPipeline", progress={"outputs": {"topic": PROGRESS, "table": {}}})})
    topic, table = found.outputs
    assert topic.state == "running"
    assert (topic.batch, topic.rows, topic.duration_ms, topic.lag) == (7, 120, 950, 7)
    assert (topic.input_rows_per_s, topic.processed_rows_per_s) == (40.0, 61.5)
    assert (topic.state_rows, topic.state_bytes, topic.late_rows) == (10, 4096, 1)
    assert (table.batch, table.lag, table.watermark) == (None, None, "")


def test_the_last_error_is_told_and_so_is_what_spark_waits_for() -> None:
    (works,) = spark_jobs({"d": job("SparkPipeline", trace="no column x\n at")})
    assert works.error is None  # a trace of before does not count while it runs
    broken = job("SparkPipeline")
    broken["status"]["tasks"][0] |= {"state": "FAILED", "trace": "no column x\n at"}
    assert spark_jobs({"d": broken})[0].error == "no column x"
    assert spark_jobs({"d": job("SparkPipeline", progress={"waits": "no executors"})})[0].error == "no executors"


def test_a_stopped_job_is_stopped_and_has_no_outputs() -> None:
    (found,) = spark_jobs({"d": job("SparkPipeline", state="STOPPED")})
    assert (found.state, found.grade, list(found.outputs)) == ("STOPPED", "", [])


@pytest.mark.parametrize(
    "progress", [None, {}, {"outputs": [1]}, {"outputs": {"a": 1}}, {"outputs": {"a": {"rows": "x"}}}]
)
def test_progress_of_another_form_is_left_out(progress: Any) -> None:
    (found,) = spark_jobs({"d": job("SparkPipeline", progress=progress)})
    assert all(each.rows is None for each in found.outputs)
