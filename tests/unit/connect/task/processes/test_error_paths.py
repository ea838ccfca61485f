"""What a task's process tells of errors, and what it does with records while something else is away."""

import time
from contextlib import suppress
from pathlib import Path

import pytest
from confluent_kafka import KafkaException

from ottla_connect.processes.messages import CommitOffsets, Failed, Outlook, Progressed, Stop
from tests.support.connect.connect_process import ConnectProcess
from tests.support.eventually import eventually
from tests.unit.connect.task.processes.conftest import Connect

pytestmark = pytest.mark.slow

SECRET = "plant3d-marker"


@pytest.fixture
def reference(connect: Connect, tmp_path: Path) -> str:
    """A reference to a secret, which plugins put into what they say."""
    secrets = tmp_path / "secrets.properties"
    secrets.write_text(f"url=https://me:{SECRET}@example.org\n")
    connect.worker |= {"config.providers": "file", "config.providers.file.class": "FileConfigProvider"}
    return f"${{file:{secrets}:url}}"


def fault_options(where: str, **fault: object) -> dict[str, object]:
    """Settings with which a sink, its transform or its converter fails in this method."""
    options = {"fault_where": where, **{f"fault_{key}": value for key, value in fault.items()}}
    if where == "apply":
        return {"transforms": "f", "transforms_f_type": "Faulty"} | _below("transforms_f_", options)
    if where in ("serialize", "deserialize"):
        return {"value_converter": "FaultyText"} | _below("value_converter_", options)
    return options


def _below(prefix: str, options: dict[str, object]) -> dict[str, object]:
    return {f"{prefix}{key}": value for key, value in options.items()}


def end(process: ConnectProcess) -> None:
    """Have it stop, unless it has failed already, and wait until it has ended."""
    with suppress(BrokenPipeError):
        process.send(Stop())
    process.wait()


def check_nothing_tells(process: ConnectProcess, reference: str) -> None:
    """Whatever the process has sent or logged names the reference, not what it stands for."""
    sent = repr(process.all(object))
    assert SECRET not in sent + process.log
    assert reference in sent + process.log


@pytest.mark.parametrize(
    ("where", "kind"),
    [
        *(("put", kind) for kind in ("data", "bug", "fatal", "retriable")),
        ("start", "bug"),
        ("pre_commit", "retriable"),
        ("close", "bug"),
        ("apply", "retriable"),
        ("deserialize", "data"),
    ],
)
def test_no_error_of_a_sink_tells_a_secret(kafka, connect, reference, where, kind):
    topic = kafka.topic()
    kafka.publish(topic, {"position": 1})
    options = fault_options(where, kind=kind, says=reference)
    process = connect.sink(topics=topic, errors_log_enable="true", **options)
    if where == "close":
        connect.collected.until(1)
        end(process)
    else:
        eventually(lambda: reference in process.log + repr(process.all(object)), "it has told of its error")
        end(process)
    check_nothing_tells(process, reference)


@pytest.mark.parametrize("where", ["put", "apply", "deserialize"])
def test_no_dead_letter_tells_a_secret(kafka, connect, reference, where):
    topic, letters = kafka.topic(), f"letters-{time.time_ns():x}"
    kafka.publish(topic, {"position": 1})
    options = {"collect_bad_value": "{'position': 1}", "collect_bad_says": reference}
    if where != "put":
        options = fault_options(where, kind="data", says=reference)
    process = connect.sink(
        topics=topic,
        errors_tolerance="all",
        errors_deadletterqueue_topic_name=letters,
        errors_deadletterqueue_topic_replication_factor=1,
        errors_deadletterqueue_context_headers_enable="true",
        **options,
    )
    eventually(lambda: has_records(kafka, letters), "a dead letter")
    (letter,) = kafka.read(letters)
    headers = dict(letter.headers() or ())
    assert SECRET not in repr(headers)
    for name in ("message", "stacktrace"):
        assert reference.encode() in headers[f"__connect.errors.exception.{name}"]
    end(process)
    assert SECRET not in process.log


def test_no_progress_of_a_job_tells_a_secret(connect, reference):
    settings = {"connector.class": "ProgramJob", "job.path": str(connect.directory / "job")}
    process = connect._task(settings, {"fault_says": reference})
    assert process.until(Progressed).progress["says"] == [reference]
    end(process)
    check_nothing_tells(process, reference)


@pytest.mark.parametrize("where", ["apply", "deserialize"])
def test_what_is_away_for_a_while_costs_no_record_though_errors_are_tolerated(kafka, connect, where):
    topic, letters, name = kafka.topic(), f"letters-{time.time_ns():x}", connect.name()
    kafka.publish(topic, *[{"position": number} for number in range(5)])
    options = {
        "name": name,
        "topics": topic,
        "errors_tolerance": "all",
        "errors_deadletterqueue_topic_name": letters,
        "errors_deadletterqueue_topic_replication_factor": 1,
    }
    first = connect.sink(**options, **fault_options(where, kind="retriable", after=2))
    assert first.until(Failed).outlook is Outlook.PASSING
    assert first.wait() == 1
    assert kafka.committed(f"connect-{name}", topic) is None
    connect.sink(**options)  # it is back
    assert connect.collected.until(5) == [{"position": number} for number in range(5)]
    assert kafka.read(letters) == []


@pytest.mark.parametrize("away", ["registry", "brokers"])
def test_a_source_passes_no_record_over_while_something_is_away(kafka, connect, away):
    options = {
        "registry": fault_options("serialize", kind="retriable"),
        "brokers": {
            "producer_override_bootstrap_servers": "127.0.0.1:1",
            "producer_override_delivery_timeout_ms": "1000",
            "producer_override_request_timeout_ms": "500",
        },
    }[away]
    process = connect.source(kafka.topic(), errors_tolerance="all", offset_flush_interval_ms=50, **options)
    assert process.until(Failed).outlook is Outlook.PASSING
    assert process.wait() == 1
    assert process.all(CommitOffsets) == []


def has_records(kafka, topic):
    """Whether a topic has any; one that was just made may have no leader yet."""
    try:
        return topic in kafka.admin.list_topics(timeout=10).topics and kafka.read(topic)
    except KafkaException:
        return False
