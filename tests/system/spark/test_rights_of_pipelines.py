"""A program on Spark reads and writes with the rights that the documentation gives to pipelines, no others."""

import uuid
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ottla_spark.datasource.exactly_once import ExactlyOnceWriter
from tests.support.clusters.guarded_cluster import GuardedCluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow

LINES = ["UA 1545", "AA 1141", "B6 725"]


def test_a_pipeline_works_with_the_rights_of_the_page(spark: "SparkSession", tmp_path: Path) -> None:
    with GuardedCluster(tmp_path, ["spark-pipeline"]) as guarded:
        for topic in ("flights", "delays"):
            guarded.ottla.run("topic", "create", topic)
        guarded.ottla.run("produce", "flights", stdin="\n".join(LINES).encode())
        login = {
            "kafka.bootstrap.servers": guarded.address,
            **guarded.login("spark-pipeline", "kafka."),
        }
        read = spark.read.format("ottla").options(**login, subscribe="flights").load()
        rows = read.selectExpr("key", "value")
        rows.write.format("ottla").mode("append").options(**login, topic="delays").save()
        ExactlyOnceWriter({**login, "topic": "delays"}).write(rows, str(uuid.uuid4()), 0)
        told = [record["value"] for record in guarded.ottla.records("delays", "-n", "6")]
    assert sorted(told) == sorted(2 * LINES)
