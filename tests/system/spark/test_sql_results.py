"""Results of `ottla sql` that are larger than the memory of Java, and readers that go away."""

import json
import os
import socket
import subprocess
from contextlib import closing
from itertools import islice
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from ottla_spark.sql import row_streams
from ottla_spark.sql.row_streams import ROWS_PER_BATCH_MAX, row_batches
from tests.support.clusters.ottla_cluster import ottla_command
from tests.support.eventually import eventually

DEADLINE_S = 300.0
HEAP_MB = 512
"""Spark starts with no less."""
ROWS, ROW_BYTES = 450_000, 1_600
WIDE = f"SELECT id, repeat(sha2(CAST(id AS STRING), 256), 25) AS x FROM range(0, {ROWS}, 1, 1)"

pytestmark = pytest.mark.slow


def command(bootstrap: str, *arguments: str) -> list[str]:
    return [ottla_command(), "sql", "-b", bootstrap, "--json", "--master", "local[2]", *arguments]


def test_a_partition_larger_than_javas_memory_is_shown_to_its_end(bootstrap: str) -> None:
    assert ROWS * ROW_BYTES > HEAP_MB << 20
    shown = subprocess.Popen(
        command(bootstrap, "--conf", f"spark.driver.memory={HEAP_MB}m", "-e", WIDE),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert shown.stdout is not None
    assert shown.stderr is not None
    count, last = 0, b""
    for line in shown.stdout:
        count, last = count + 1, line
    said = shown.stderr.read().decode()
    assert (shown.wait(DEADLINE_S), said) == (0, "")
    assert count == ROWS
    assert json.loads(last)["id"] == ROWS - 1


def test_a_reader_that_goes_away_ends_the_command_and_java_and_no_file_stays(bootstrap: str, tmp_path: Path) -> None:
    endless = subprocess.Popen(
        command(bootstrap, "-e", "SELECT id FROM range(0, 1000000000000, 1, 1)"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "OTTLA_MARK": str(tmp_path), "TMPDIR": str(tmp_path)},
    )
    assert endless.stdout is not None
    assert endless.stderr is not None
    assert [json.loads(endless.stdout.readline()) for _ in range(2)] == [{"id": 0}, {"id": 1}]
    endless.stdout.close()
    said = endless.stderr.read().decode()
    assert (endless.wait(DEADLINE_S), said) == (0, "")
    eventually(lambda: not of_command(tmp_path), "all of its processes end", within_s=DEADLINE_S)
    assert list(tmp_path.iterdir()) == []


def of_command(mark: Path) -> list[str]:
    """Return the processes that have a mark in their environment."""
    found = []
    for each in Path("/proc").glob("[0-9]*/environ"):
        try:
            if f"OTTLA_MARK={mark}".encode() in each.read_bytes().split(b"\0"):
                found.append(each.parent.name)
        except OSError:
            continue
    return found


def test_rows_come_in_order_and_whole_over_all_partitions(spark: SparkSession) -> None:
    frame = spark.range(0, 5 * ROWS_PER_BATCH_MAX + 7, 1, 3).selectExpr("id", "CAST(id AS STRING) AS s")
    batches = list(row_batches(frame))
    assert [row for batch in batches for row in batch] == frame.collect()
    assert max(map(len, batches)) == ROWS_PER_BATCH_MAX
    assert list(row_batches(frame.where("id < 0"))) == []


def test_where_spark_encrypts_rows_go_no_other_way_and_are_the_same(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_streams, "_encrypts", lambda _: True)
    monkeypatch.setattr(row_streams, "_listening", lambda _: pytest.fail("it listens"))
    frame = spark.range(0, 2_500, 1, 3).selectExpr("id", "CAST(id AS STRING) AS s")
    assert [row for batch in row_batches(frame) for row in batch] == frame.collect()


def test_large_rows_come_in_small_batches(spark: SparkSession) -> None:
    large = spark.range(0, 40, 1, 1).selectExpr("repeat('x', 1048576) AS x")
    assert max(map(len, row_batches(large))) < 20


def test_a_query_that_fails_behind_its_first_rows_fails(spark: SparkSession) -> None:
    failing = spark.range(0, 3_000_000, 1, 1).selectExpr("IF(id = 2999999, raise_error('the last one'), id) AS x")
    with closing(row_batches(failing)) as batches:
        assert next(batches)[0].x == 0
        with pytest.raises(PySparkException, match="the last one"):
            list(batches)


def test_who_wants_no_more_rows_ends_the_job(spark: SparkSession) -> None:
    with closing(row_batches(spark.range(0, 10**12, 1, 1))) as batches:
        assert [len(each) for each in islice(batches, 3)] == [ROWS_PER_BATCH_MAX] * 3
    tracker = spark.sparkContext.statusTracker()
    eventually(lambda: not tracker.getActiveJobsIds(), "no job runs")


def test_rows_of_a_worker_without_the_token_are_not_taken(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    servers = []
    serve = socket.create_server

    def with_intruder(*arguments: object, **options: object) -> socket.socket:
        server = serve(*arguments, **options)  # type: ignore[arg-type]
        intruder = socket.create_connection(server.getsockname()[:2])
        intruder.sendall(bytes(40))
        servers.append(intruder)
        return server

    monkeypatch.setattr(socket, "create_server", with_intruder)
    batches = list(row_batches(spark.range(0, 3, 1, 1)))
    assert [row.id for batch in batches for row in batch] == [0, 1, 2]
    servers[0].close()
