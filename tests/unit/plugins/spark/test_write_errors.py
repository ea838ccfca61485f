"""What librdkafka reports about a record becomes the one error that a person needs; its class says what helps."""

import pytest
from confluent_kafka import KafkaError

from ottla_sdk import ConnectError, FatalError, RetriableError
from ottla_spark.datasource.errors import MissingTopic
from ottla_spark.datasource.writing_errors import Failure, RecordRefused, RecordsUndelivered, error_of


def error_for(code: int, *, partition: int = -1, problem: str = "") -> ConnectError:
    first = Failure(code=code, reason=KafkaError(code).str(), topic="flights", partition=partition)
    return error_of(first, failed_count=7, brokers="127.0.0.1:9092", connection_problem=problem)


@pytest.mark.parametrize(
    ("code", "kind", "said"),
    [
        (KafkaError._UNKNOWN_TOPIC, MissingTopic, "topic 'flights' does not exist at 127.0.0.1:9092"),
        (KafkaError.UNKNOWN_TOPIC_OR_PART, MissingTopic, "ottla topic create flights"),
        (KafkaError._UNKNOWN_PARTITION, MissingTopic, "has no partition 4"),
        (KafkaError.MSG_SIZE_TOO_LARGE, RecordRefused, "kafka.max.request.size"),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, RecordRefused, "partition 4"),
        (KafkaError._MSG_TIMED_OUT, RecordsUndelivered, "7 records were not acknowledged"),
    ],
)
def test_each_kind_of_failure_says_what_it_is_and_where(code: int, kind: type[ConnectError], said: str) -> None:
    error = error_for(code, partition=4)
    assert type(error) is kind
    assert said in str(error)


def test_trying_again_helps_where_brokers_were_lost_and_nowhere_else() -> None:
    assert isinstance(error_for(KafkaError._MSG_TIMED_OUT), RetriableError)
    assert isinstance(error_for(KafkaError.NOT_ENOUGH_REPLICAS), RetriableError)
    assert isinstance(error_for(KafkaError._UNKNOWN_TOPIC), FatalError)
    assert isinstance(error_for(KafkaError.MSG_SIZE_TOO_LARGE), FatalError)


def test_what_was_seen_of_the_connections_is_said_where_records_got_lost() -> None:
    assert "last seen: Connection refused" in str(error_for(KafkaError._MSG_TIMED_OUT, problem="Connection refused"))
