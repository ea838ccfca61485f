"""Which errors are tried again, for how long, and after which pauses."""

import pytest
from confluent_kafka import KafkaError, KafkaException

from ottla_connect.config import WorkerConfig
from ottla_connect.task.pipeline.errors import ErrorPolicy
from ottla_sdk import DataError, FatalError, RetriableError

RETRIABLE = RetriableError("later")


def delay(policy: ErrorPolicy, attempt: int, elapsed_ms: float = 0.0, error: Exception = RETRIABLE) -> float | None:
    return policy.retry_delay_ms(error, attempt=attempt, elapsed_ms=elapsed_ms, chance=0.5)


def test_nothing_is_tried_again_by_default():
    assert delay(ErrorPolicy(), 1) is None


def test_pauses_double_up_to_the_maximum_and_are_spread_there():
    policy = ErrorPolicy(retry_timeout_ms=-1, retry_delay_max_ms=1000)
    assert [delay(policy, attempt) for attempt in (1, 2, 3, 60)] == [300, 600, 500, 500]


def test_the_last_pause_ends_with_the_timeout():
    policy = ErrorPolicy(retry_timeout_ms=1000)
    assert delay(policy, 2, elapsed_ms=900) == 100
    assert delay(policy, 3, elapsed_ms=1000) is None


def test_only_retriable_errors_are_tried_again():
    policy = ErrorPolicy(retry_timeout_ms=-1)
    assert delay(policy, 1, error=DataError("bad")) is None
    assert delay(policy, 1, error=ValueError("bug")) is None


@pytest.mark.parametrize(
    "error",
    [
        RETRIABLE,
        *(
            KafkaException(KafkaError(code))
            for code in (KafkaError._MSG_TIMED_OUT, KafkaError._UNKNOWN_TOPIC, 3, 7, 19)
        ),
    ],
)
def test_what_is_away_is_never_a_reason_to_skip_a_record(error):
    assert not ErrorPolicy(tolerant=True).tolerates(error)


@pytest.mark.parametrize(
    "error", [DataError("bad"), KeyError("field"), KafkaException(KafkaError(KafkaError.MSG_SIZE_TOO_LARGE))]
)
def test_whatever_a_record_fails_with_is_tolerated_if_errors_are(error):
    assert ErrorPolicy(tolerant=True).tolerates(error)
    assert not ErrorPolicy().tolerates(error)


def test_fatal_errors_are_never_tolerated():
    assert not ErrorPolicy(tolerant=True).tolerates(FatalError("password refused"))


def test_a_connector_says_more_than_the_worker():
    worker = WorkerConfig.parse({"errors.tolerance": "all", "errors.retry.timeout": "5", "errors.log.enable": "true"})
    assert ErrorPolicy.of({}, worker) == ErrorPolicy(tolerant=True, retry_timeout_ms=5, logs=True)
    assert ErrorPolicy.of(
        {
            "errors.tolerance": "none",
            "errors.retry.timeout": "-1",
            "errors.retry.delay.max.ms": "7",
            "errors.log.enable": "FALSE",
            "errors.log.include.messages": "true",
        },
        worker,
    ) == ErrorPolicy(retry_timeout_ms=-1, retry_delay_max_ms=7, logs_records=True)
