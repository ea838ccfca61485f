"""What becomes of offsets of `ottla consume --group`; the broker is librdkafka's own."""

import signal
from collections.abc import Iterator
from typing import Any

import pytest
import typer
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer

from ottla.commands import consume as command


@pytest.fixture
def bootstrap() -> Iterator[str]:
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    cluster = Producer({"test.mock.num.brokers": 1, "bootstrap.servers": "none", "log_level": 0})
    brokers = cluster.list_topics(timeout=10).brokers.values()
    cluster.produce("t", b"a", partition=0)
    assert cluster.flush(10) == 0
    yield ",".join(f"{broker.host}:{broker.port}" for broker in brokers)
    for number, handler in handlers.items():
        signal.signal(number, handler)


class RefusedConsumer(Consumer):
    """A consumer whose coordinator takes no offsets."""

    def commit(self, *_: Any, **__: Any) -> Any:
        """Fail."""
        raise KafkaException(KafkaError(KafkaError.COORDINATOR_NOT_AVAILABLE))


def test_a_last_commit_that_fails_is_told_by_the_exit_code(
    bootstrap: str, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    monkeypatch.setattr("confluent_kafka.Consumer", RefusedConsumer)
    with pytest.raises(typer.Exit) as ending:
        command.consume(topics=["t"], group="g", count=1, bootstrap=bootstrap)
    assert ending.value.exit_code == 1
    printed = capfdbinary.readouterr()
    assert printed.out == b"a\n"
    assert b"the last offsets were not committed, so their records will be read again" in printed.err


def test_a_last_commit_that_is_taken_ends_well(bootstrap: str, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    command.consume(topics=["t"], group="g", count=1, bootstrap=bootstrap)
    assert capfdbinary.readouterr() == (b"a\n", b"")
