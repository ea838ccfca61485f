"""A producer of the load outlives fatal errors of librdkafka, however they are raised."""

from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from tests.faults.load_programs.numbered_producer import FLUSHES_MAX, failure_of, give_up

FATAL = KafkaError(KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER, "out of order", fatal=True)


def raise_bare() -> None:
    """As confluent-kafka does when deliveries are reported after a fatal error; no class of exceptions matches it."""
    raise FATAL  # type: ignore[misc]


def raise_wrapped() -> None:
    raise KafkaException(FATAL)


def raise_from_callback() -> None:
    raise SystemError("returned a result with an exception set") from KafkaException(FATAL)


@pytest.mark.parametrize("call", [raise_bare, raise_wrapped, raise_from_callback])
def test_a_fatal_error_is_told_however_it_is_raised(call: Callable[[], None]) -> None:
    assert "OUT_OF_ORDER_SEQUENCE_NUMBER" in (failure_of(call) or "")


def test_what_ends_well_has_no_failure() -> None:
    assert failure_of(lambda: 7) is None


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit, ValueError])
def test_what_is_no_failure_of_the_library_goes_on(kind: type[BaseException]) -> None:
    def fail() -> None:
        raise kind

    with pytest.raises(kind):
        failure_of(fail)


class Failing:
    """A producer whose first flushes end with the fatal error."""

    def __init__(self, failures: int) -> None:
        self.failures = failures
        self.calls: list[str] = []

    def purge(self) -> None:
        self.calls.append("purge")

    def flush(self, _timeout_s: float) -> int:
        self.calls.append("flush")
        if self.calls.count("flush") <= self.failures:
            raise_bare()
        return 0


@pytest.mark.parametrize(("failures", "flushes"), [(0, 1), (1, 2), (9, FLUSHES_MAX)])
def test_giving_up_flushes_until_all_is_reported(failures: int, flushes: int) -> None:
    producer: Any = Failing(failures)
    give_up(producer)
    assert producer.calls == ["purge", *["flush"] * flushes]
