"""Options of a query whose batches are written exactly once."""

from typing import cast

import pytest
from pyspark.sql.types import StringType, StructType

from ottla_sdk import InvalidConfig
from ottla_spark.datasource.transaction_plan import TransactionPlan, transaction_plan

SCHEMA = cast("StructType", StructType().add("value", StringType()))
BROKERS = {"kafka.bootstrap.servers": "127.0.0.1:9092", "topic": "delays"}


def plan(**options: str) -> TransactionPlan:
    return transaction_plan({**BROKERS, **{key.replace("_", "."): value for key, value in options.items()}}, SCHEMA)


def problems(**options: str) -> dict[str, str]:
    with pytest.raises(InvalidConfig) as raised:
        plan(**options)
    return {each.key: each.message for each in raised.value.problems}


def test_brokers_and_a_topic_are_enough() -> None:
    found = plan()
    assert found.numbers_topic == "ottla-spark-batches"
    assert found.transactional_id("some-query") == "ottla-spark-some-query"
    assert found.since == 0
    assert found.write.topic == "delays"
    assert found.write.settings["transaction.timeout.ms"] == 600_000
    assert found.write.settings["acks"] == "all"
    assert found.consumer_settings["group.id"] == "ottla-spark-reader"
    assert found.admin_settings == {"bootstrap.servers": "127.0.0.1:9092"}


def test_options_have_names_in_any_case() -> None:
    found = plan(BATCHNUMBERSTOPIC="numbers", transactionalidprefix="etl", exactlyoncesince="17")
    assert (found.numbers_topic, found.transactional_id("q"), found.since) == ("numbers", "etl-q", 17)


def test_settings_of_the_transaction_reach_only_the_producer() -> None:
    found = plan(kafka_transaction_timeout_ms="700000", kafka_client_id="me")
    assert found.write.settings["transaction.timeout.ms"] == "700000"
    assert "transaction.timeout.ms" not in {**found.consumer_settings, **found.admin_settings}
    assert found.consumer_settings["client.id"] == "me"


def test_all_that_is_wrong_is_said_at_once() -> None:
    found = problems(
        batchNumbersTopic="a/b",
        transactionalIdPrefix=" ",
        exactlyOnceSince="-1",
        kafka_transactional_id="mine",
    )
    assert found == {
        "batchNumbersTopic": "'a/b' is no name of a topic",
        "transactionalIdPrefix": "is empty",
        "exactlyOnceSince": "has to be the number of a batch, got '-1'",
        "kafka.transactional.id": "transactional ids follow from the query where it writes exactly once; remove it",
    }


def test_numbers_and_records_are_kept_apart() -> None:
    assert "batchNumbersTopic" in problems(batchNumbersTopic="delays")


def test_a_transaction_outlasts_the_delivery_of_its_records() -> None:
    found = problems(kafka_transaction_timeout_ms="60000")
    assert "60000 is less than kafka.delivery.timeout.ms (120000)" in found["kafka.transaction.timeout.ms"]
    assert plan(kafka_transaction_timeout_ms="60000", kafka_delivery_timeout_ms="30000").since == 0
