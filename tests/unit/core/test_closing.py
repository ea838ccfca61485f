"""What never closes keeps nobody from going on."""

import threading
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer

from ottla_core.closing import close_within


class HangingConsumer:
    """Its `close` returns when the test allows it."""

    def __init__(self) -> None:
        self.allowed = threading.Event()

    def close(self) -> None:
        self.allowed.wait()


@pytest.fixture
def hanging() -> Iterator[HangingConsumer]:
    consumer = HangingConsumer()
    yield consumer
    consumer.allowed.set()


def test_closing_one_that_hangs_is_given_up(hanging: HangingConsumer) -> None:
    assert not close_within(hanging, 0.01)


def test_closing_any_other_is_waited_for() -> None:
    consumer = Consumer({"group.id": "g"})
    assert close_within(consumer, 30)
    with pytest.raises(RuntimeError):
        consumer.poll(0)
