"""The process of a source task, as a worker runs it, against a cluster."""

import json
import signal
import socket
import time

import pytest
from confluent_kafka.admin import ConfigResource

from ottla_connect.processes.messages import (
    CommitOffsets,
    Failed,
    HealthTold,
    Measured,
    Outlook,
    Paused,
    Running,
    SetPaused,
    Stopped,
    TopicsUsed,
)
from ottla_connect.task.control import EXIT_ORPHANED
from tests.support.eventually import eventually

pytestmark = pytest.mark.slow

PARTITION = '{"list": 0}'


def positions(kafka, topic):
    return [each["position"] for each in kafka.values(topic)]


def test_records_reach_the_topic_in_order_and_their_offsets_are_committed(kafka, connect):
    topic = kafka.topic()
    process = connect.source(topic, list_count=1000, list_batch=7)
    eventually(lambda: process.offsets.get(PARTITION) == {"position": 999}, "all offsets are committed")
    assert process.stop() == 0
    assert positions(kafka, topic) == list(range(1000))
    assert process.all(Running) == [Running(version="1.2.3")]
    assert process.all(TopicsUsed) == [TopicsUsed(topics=[topic])]
    assert process.said[-1] == Stopped()
    readings = process.all(Measured)[-1].values
    assert (readings["source-record-poll-total"], readings["source-record-write-total"]) == (1000, 1000)
    assert readings["polls"] > 0
    assert [each.key() for each in kafka.read(topic)][:2] == [b"0", b"1"]


def test_a_task_goes_on_where_the_last_one_has_committed(kafka, connect):
    topic = kafka.topic()
    process = connect.source(topic, list_count=50, offsets={PARTITION: {"position": 39}})
    eventually(lambda: process.offsets[PARTITION] == {"position": 49}, "the rest is committed")
    assert process.stop() == 0
    assert positions(kafka, topic) == list(range(40, 50))


def test_offsets_are_never_ahead_of_the_topic_when_the_process_is_killed(kafka, connect):
    topic = kafka.topic()
    process = connect.source(topic, list_count=0, list_batch=500)
    process.until(CommitOffsets, count=3)
    process.process.kill()
    assert process.wait() == -signal.SIGKILL
    found = positions(kafka, topic)
    assert found == list(range(len(found)))
    assert process.offsets[PARTITION]["position"] < len(found)
    second = connect.source(topic, list_count=len(found) + 100, offsets=process.offsets)
    eventually(
        lambda: second.offsets[PARTITION] == {"position": len(found) + 99}, "the second task has done the rest"
    )
    assert set(positions(kafka, topic)) == set(range(len(found) + 100))


def test_a_poll_that_may_work_later_is_repeated(kafka, connect):
    topic = kafka.topic()
    process = connect.source(topic, list_count=20, fault_where="poll", fault_kind="retriable", fault_times=2)
    eventually(lambda: process.offsets.get(PARTITION) == {"position": 19}, "all offsets are committed")
    assert process.stop() == 0
    assert positions(kafka, topic) == list(range(20))


@pytest.mark.parametrize(("kind", "fatal"), [("bug", False), ("fatal", True)])
def test_a_failing_task_says_why_commits_what_is_safe_and_ends(kafka, connect, kind, fatal):
    topic = kafka.topic()
    process = connect.source(topic, list_batch=5, fault_where="poll", fault_kind=kind, fault_after=1)
    failed = process.until(Failed)
    assert (failed.outlook is Outlook.FATAL) is fatal
    assert failed.reason.startswith("FatalError: poll" if fatal else "ValueError: poll")
    assert "Traceback" in failed.trace
    assert process.wait() == 1
    assert process.offsets == {PARTITION: {"position": 4}}


def test_a_commit_that_fails_is_tried_again_and_only_then_is_the_task_told(kafka, connect, tmp_path):
    committed = tmp_path / "committed"
    process = connect.source(kafka.topic(), list_count=5, list_committed_path=committed)
    process.refuse_commits = "the offsets topic is away"
    process.until(CommitOffsets, count=2)
    assert not committed.exists()
    process.refuse_commits = None
    eventually(lambda: committed.exists() and committed.read_text() == "0 4\n", "the task is told")
    assert "the offsets topic is away" in process.log


def test_topics_are_created_as_the_connector_says(kafka, connect):
    topic = f"created-{time.time_ns():x}"
    process = connect.source(
        topic,
        topic_creation_default_partitions=3,
        topic_creation_default_replication_factor=1,
        topic_creation_default_cleanup_policy="compact",
    )
    eventually(lambda: process.offsets.get(PARTITION) == {"position": 9}, "all offsets are committed")
    assert len(kafka.admin.list_topics(topic, timeout=10).topics[topic].partitions) == 3
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    assert kafka.admin.describe_configs([resource])[resource].result(10)["cleanup.policy"].value == "compact"


def test_a_record_that_is_too_large_goes_by_the_tolerance_for_errors(kafka, connect):
    settings = {"producer_override_message_max_bytes": 1000, "list_count": 3, "list_batch": 3}
    bad = "transforms_x_static_value"
    extra = {
        "transforms": "x",
        "transforms_x_type": "InsertField$Value",
        "transforms_x_static_field": "filler",
        bad: "x" * 5000,
        "transforms_x_predicate": "odd",
        "predicates": "odd",
        "predicates_odd_type": "IsOdd",
    }
    strict, lenient = kafka.topic(), kafka.topic()
    failed = connect.source(strict, **settings, **extra).until(Failed)
    assert "KAFKA_PRODUCE" in failed.reason
    process = connect.source(lenient, errors_tolerance="all", errors_log_enable="true", **settings, **extra)
    eventually(lambda: process.offsets.get(PARTITION) == {"position": 2}, "all offsets are committed")
    assert positions(kafka, lenient) == [0, 2]
    eventually(
        lambda: any(each.values["total-records-skipped"] == 1 for each in process.all(Measured)),
        "the skipped record is counted",
    )
    assert process.stop() == 0
    assert any("KAFKA_PRODUCE" in each["message"] and each["level"] == "error" for each in process.log_records)


def test_a_task_works_only_while_it_has_a_lease(kafka, connect):
    topic = kafka.topic()
    process = connect.source(topic, list_count=0, list_pause_ms=5, lease=False)

    def renewed():
        process.lease(2.0)
        return positions(kafka, topic)

    eventually(renewed, "it has begun")

    def stood_still():
        before = len(positions(kafka, topic))
        commits = len(process.all(CommitOffsets))
        time.sleep(0.3)  # how long nothing may happen
        return len(positions(kafka, topic)) == before and len(process.all(CommitOffsets)) == commits

    eventually(stood_still, "it has stopped working without a lease")
    assert process.process.is_alive()
    count = len(positions(kafka, topic))
    process.lease()
    eventually(lambda: len(positions(kafka, topic)) > count, "it goes on with a new lease")
    assert process.stop() == 0
    found = positions(kafka, topic)
    assert found == list(range(len(found)))


def test_a_task_that_begins_paused_starts_when_it_is_resumed_and_pauses_again(kafka, connect):
    topic = kafka.topic()
    process = connect.source(topic, list_count=0, list_pause_ms=5, paused=True)
    process.until(Paused)
    assert process.all(Running) == []
    process.send(SetPaused(paused=False))
    process.until(Running)
    process.until(CommitOffsets)
    process.send(SetPaused(paused=True))
    process.until(Paused, count=2)
    eventually(
        lambda: process.offsets[PARTITION]["position"] == len(positions(kafka, topic)) - 1,
        "all that was sent is committed",
    )
    process.send(SetPaused(paused=False))
    process.until(Running, count=2)
    assert process.stop() == 0


def test_a_process_whose_worker_has_gone_ends(kafka, connect):
    process = connect.source(kafka.topic(), list_count=0, list_pause_ms=5)
    process.until(Running)
    process._ours.shutdown(socket.SHUT_RDWR)
    assert process.wait() == EXIT_ORPHANED


def test_a_crash_in_native_code_leaves_its_trace_in_the_output(kafka, connect):
    process = connect.source(kafka.topic(), fault_where="poll", fault_kind="segfault")
    assert process.wait() == -signal.SIGSEGV
    assert "Fatal Python error: Segmentation fault" in process.log
    assert "in poll" in process.log


def test_secrets_are_resolved_in_the_process_and_stay_there(kafka, connect, tmp_path):
    secrets = tmp_path / "secrets.properties"
    secrets.write_text(f"topic={kafka.topic()}\n")
    connect.worker |= {"config.providers": "file", "config.providers.file.class": "FileConfigProvider"}
    reference = f"${{file:{secrets}:topic}}"
    process = connect.source(reference, fault_where="poll", fault_after=1, list_batch=3)
    assert process.wait() == 1
    topic = secrets.read_text().strip().partition("=")[2]
    assert positions(kafka, topic) == [0, 1, 2]
    assert json.dumps(process.all(Failed)[0].trace).count(topic) == 0
    assert topic not in process.log


def test_a_source_that_cannot_be_read_says_so_until_it_can(kafka, connect):
    topic = kafka.topic()
    process = connect.source(topic, list_count=3, fault_where="poll", fault_kind="retriable", fault_times=3)
    waiting = process.until(HealthTold).health
    assert waiting["state"] == "WAITING"
    assert waiting["reason"]
    eventually(lambda: process.all(HealthTold)[-1].health["state"] == "WORKING", "it works")
    assert process.stop() == 0


def test_a_file_source_without_a_file_says_what_it_waits_for(kafka, connect):
    missing = connect.directory / "none.csv"
    process = connect.source(kafka.topic(), connector_class="FileSource", file_path=missing, file_format="csv")
    assert process.until(HealthTold).health["reason"] == f"there is no file at {missing}"
    missing.write_text("a\n1\n")
    eventually(lambda: process.all(HealthTold)[-1].health["state"] == "WORKING", "it works")
