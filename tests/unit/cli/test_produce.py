"""What becomes of each line that `ottla produce` reads; the broker is librdkafka's own, which knows no controller."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from confluent_kafka import Consumer, Producer, TopicPartition

from ottla.commands import produce as command
from ottla.records.publication import Publication
from ottla_operations.errors import OperationError, UsageProblem


@pytest.fixture
def bootstrap(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setattr(command, "_see_to_topic", lambda *_, **__: None)  # which asks a controller
    cluster = Producer({"test.mock.num.brokers": 1, "bootstrap.servers": "none", "log_level": 0})
    brokers = cluster.list_topics(timeout=10).brokers.values()
    yield ",".join(f"{broker.host}:{broker.port}" for broker in brokers)
    cluster.flush(0)


def published(bootstrap: str, count: int) -> list[tuple[bytes | None, Any]]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "none", "log_level": 0})
    partitions = consumer.list_topics("t", timeout=10).topics["t"].partitions
    consumer.assign([TopicPartition("t", number, 0) for number in partitions])
    messages = consumer.consume(count, 10.0)
    consumer.close()
    return sorted(((message.value(), message.headers()) for message in messages), key=lambda each: each[0] or b"")


def test_lines_before_a_file_that_cannot_be_read_are_published_and_counted(
    bootstrap: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = tmp_path / "lines"
    lines.write_text("a\nb\n")
    with pytest.raises(OperationError, match=r"cannot read .*missing"):
        command.produce(topic="t", files=[lines, tmp_path / "missing"], bootstrap=bootstrap)
    assert "published 2 records to t" in capsys.readouterr().err
    assert published(bootstrap, 2) == [(b"a", None), (b"b", None)]


def test_values_of_headers_keep_their_spaces(bootstrap: str, tmp_path: Path) -> None:
    lines = tmp_path / "lines"
    lines.write_text("a\n")
    command.produce(topic="t", files=[lines], headers=["x= 1 ", "x=a=b"], bootstrap=bootstrap)
    assert published(bootstrap, 1) == [(b"a", [("x", b" 1 "), ("x", b"a=b")])]
    with pytest.raises(UsageProblem, match="--header x: write it as NAME=VALUE"):
        command.produce(topic="t", files=[lines], headers=["x"], bootstrap=bootstrap)


def test_lines_before_a_file_that_fails_in_the_middle_are_published_and_counted(
    bootstrap: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = tmp_path / "lines"
    lines.write_text("a\nb\n")
    with pytest.raises(OperationError, match="cannot read /proc/self/mem: Input/output error"):
        command.produce(topic="t", files=[lines, Path("/proc/self/mem")], bootstrap=bootstrap)
    assert "published 2 records to t" in capsys.readouterr().err
    assert published(bootstrap, 2) == [(b"a", None), (b"b", None)]


def test_a_line_that_never_fits_into_the_queue_is_reported_and_not_waited_for(
    bootstrap: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = tmp_path / "lines"
    lines.write_text("a\n" + "b" * 3000 + "\nc\n")
    with pytest.raises(typer.Exit):
        command.produce(topic="t", files=[lines], properties=["queue.buffering.max.kbytes=2"], bootstrap=bootstrap)
    said = capsys.readouterr().err
    assert "not published, line 2: it does not fit into the client's queue (queue.buffering.max.kbytes)" in said
    assert "published 2 records to t, 1 failed" in said
    assert published(bootstrap, 2) == [(b"a", None), (b"c", None)]


def test_headers_and_separators_may_be_bytes_that_are_no_text(bootstrap: str, tmp_path: Path) -> None:
    lines = tmp_path / "lines"
    lines.write_bytes(b"k\xffv\nk\xff\xfe\n")
    header, separator, null_text = map(os.fsdecode, (b"x=\xfd", b"\xff", b"\xfe"))
    command.produce(
        topic="t",
        files=[lines],
        headers=[header],
        key_separator=separator,
        null_text=null_text,
        bootstrap=bootstrap,
    )
    assert published(bootstrap, 2) == [(None, [("x", b"\xfd")]), (b"v", [("x", b"\xfd")])]


def test_an_interrupt_while_an_answer_is_heard_leaves_no_line_out_of_the_report(
    bootstrap: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    class InterruptedPublication(Publication):
        def _outcome_of(self, line_number: int) -> Any:
            hear = super()._outcome_of(line_number)

            def on_delivery(*answer: Any) -> None:
                if line_number == 2:
                    signal.raise_signal(signal.SIGINT)
                hear(*answer)

            return on_delivery

    monkeypatch.setattr(command, "Publication", InterruptedPublication)
    lines = tmp_path / "lines"
    lines.write_text("a\nb\nc\n")
    with pytest.raises(typer.Exit) as ending:
        command.produce(topic="t", files=[lines], bootstrap=bootstrap)
    assert ending.value.exit_code == 130
    said = capsys.readouterr().err
    assert "interrupted with 1 record unconfirmed" in said
    assert "published 2 records to t" in said
