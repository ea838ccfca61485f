"""Producers with transactions: what is set whatever users say, and what errors mean."""

import time

import pytest
from confluent_kafka import KafkaError, KafkaException

from ottla_connect.config import WorkerConfig
from ottla_connect.ids import TaskId
from ottla_connect.task.pipeline.error_handler import Interrupted
from ottla_connect.task.transactional_client import (
    HANGS_AFTER_S,
    CallWatch,
    TaskFenced,
    TransactionAborted,
    failure_of,
    patiently,
    transactional_settings,
)
from ottla_sdk import FatalError

TASK = TaskId("flights", 2)


def settings(connector=None, **worker):
    config = WorkerConfig.parse({"bootstrap.servers": "a:1,b:2", "group.id": "etl", **worker})
    return transactional_settings(config, connector or {}, TASK, {"client.id": "c"}, timeout_ms=60_000)


def test_the_id_is_that_of_kafka_connect_whatever_users_say():
    own = {"producer.override.transactional.id": "mine", "producer.override.enable.idempotence": "false"}
    found = settings(own)
    assert found["transactional.id"] == "etl-flights-2"
    assert found["enable.idempotence"] == "true"


@pytest.mark.parametrize(("timeout_ms", "expected"), [(None, "60000"), ("5000", "5000")])
def test_a_record_is_tried_for_as_long_as_its_transaction_lasts(timeout_ms, expected):
    own = {"producer.override.transaction.timeout.ms": timeout_ms} if timeout_ms else {}
    found = settings(own)
    assert found["transaction.timeout.ms"] == expected
    assert [value for key, value in found.items() if key.endswith(("message.timeout.ms", "delivery.timeout.ms"))] == [
        expected
    ]


def test_records_and_offsets_must_be_in_one_cluster():
    assert settings({"producer.override.bootstrap.servers": "b:2, a:1"})
    with pytest.raises(FatalError, match="in one cluster"):
        settings({"producer.override.bootstrap.servers": "other:1"})


def test_what_a_failure_means():
    fenced = failure_of(KafkaError(KafkaError._FENCED, "old epoch", True), "etl-flights-2")
    assert isinstance(fenced, TaskFenced)
    assert "etl-flights-2" in str(fenced)
    assert isinstance(failure_of(KafkaError(KafkaError.INVALID_PRODUCER_EPOCH), "x"), TaskFenced)
    assert isinstance(failure_of(KafkaError(KafkaError.INVALID_TXN_STATE), "x"), TransactionAborted)
    useless = failure_of(KafkaError(KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "no", True), "x")
    assert not isinstance(useless, TaskFenced | TransactionAborted)


def test_a_call_that_does_not_come_back_is_noticed_but_not_time_between_calls():
    watch, seen = CallWatch(), []

    def call(timeout_s):
        seen.append([watch.hangs(time.monotonic() + later_s) for later_s in (HANGS_AFTER_S - 1, HANGS_AFTER_S + 1)])

    watch.watched(call)(1.0)
    assert seen == [[False, True]]
    assert not watch.hangs(time.monotonic() + HANGS_AFTER_S + 1)


def test_a_call_is_repeated_as_long_as_its_error_says_so_and_nobody_gives_it_up():
    errors = [KafkaError(KafkaError._TIMED_OUT, "", False, True)] * 2 + [None]
    calls = []

    def call(timeout_s):
        calls.append(timeout_s)
        if (error := errors[len(calls) - 1]) is not None:
            raise KafkaException(error)

    patiently(call, is_given_up=lambda: False)
    assert len(calls) == 3
    calls.clear()
    with pytest.raises(Interrupted):
        patiently(call, is_given_up=lambda: True)
    errors[0] = KafkaError(KafkaError.INVALID_TXN_STATE)
    calls.clear()
    with pytest.raises(KafkaException):
        patiently(call, is_given_up=lambda: False)
    assert len(calls) == 1
