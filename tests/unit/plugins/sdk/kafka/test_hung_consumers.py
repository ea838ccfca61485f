"""Consumers that hang: how they are noticed, and that nobody waits for them."""

import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer

from ottla_sdk.kafka.hung_consumers import SILENT_TICKS_MAX, ConsumerWatch, close_within
from tests.support.eventually import eventually


def silent_ticks(watch: ConsumerWatch, count: int) -> bool:
    """Returns what the last of so many ticks says, before each of which a read has returned nothing."""
    hangs = False
    for _ in range(count):
        with watch:
            pass
        hangs = watch.tick()
    return hangs


def test_a_consumer_that_says_nothing_for_long_hangs() -> None:
    watch = ConsumerWatch()
    assert not silent_ticks(watch, SILENT_TICKS_MAX - 1)
    assert silent_ticks(watch, 1)


def test_one_that_never_returns_hangs() -> None:
    watch = ConsumerWatch()
    with watch:
        assert [watch.tick() for _ in range(SILENT_TICKS_MAX)] == [False] * (SILENT_TICKS_MAX - 1) + [True]


def test_one_that_gives_something_now_and_then_does_not() -> None:
    watch = ConsumerWatch()
    for _ in range(3):
        assert not silent_ticks(watch, SILENT_TICKS_MAX - 1)
        watch.heard()
        assert not silent_ticks(watch, 1)


def test_one_that_nobody_uses_need_not_say_anything() -> None:
    watch = ConsumerWatch()
    assert not silent_ticks(watch, 1)
    assert not any(watch.tick() for _ in range(3 * SILENT_TICKS_MAX))


def test_what_it_calls_back_may_take_its_time() -> None:
    watch = ConsumerWatch()
    with watch:
        with watch.elsewhere():
            assert not any(watch.tick() for _ in range(3 * SILENT_TICKS_MAX))
        assert any(watch.tick() for _ in range(SILENT_TICKS_MAX))


def test_a_consumer_without_brokers_still_tells_its_statistics() -> None:
    watch = ConsumerWatch()
    silent_ticks(watch, SILENT_TICKS_MAX - 1)
    consumer = Consumer({"group.id": "g", **watch.settings, "statistics.interval.ms": 50})

    def has_told() -> bool:
        with watch:
            assert consumer.poll(0.1) is None
        return watch._heard

    eventually(has_told, "the statistics have come")
    assert not watch.tick()
    consumer.close()


FREEZES = """
import ctypes
from ottla_sdk.kafka.hung_consumers import ended_if_frozen
with ended_if_frozen({}):
    ctypes.PyDLL(None).usleep(300_000)  # holds Python's lock
with ended_if_frozen({}):
    ctypes.PyDLL(None).sleep(600)
"""


def test_a_call_that_freezes_the_process_ends_it() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", FREEZES.format(60, 0.2)], capture_output=True, text=True, check=False, timeout=60
    )
    assert ended.returncode == 1
    assert "Timeout" in ended.stderr
    assert "line 7" in ended.stderr, "the trace shows which call it was"


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


def test_closing_one_that_fails_is_told_of(caplog: pytest.LogCaptureFixture) -> None:
    class Failing:
        def close(self) -> None:
            raise OSError("broken")

    assert close_within(Failing(), 30)
    assert "could not be closed" in caplog.text
    assert "broken" in caplog.text
