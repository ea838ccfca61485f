"""The process of a sink task, as a worker runs it, against a cluster."""

import time

import pytest

from ottla_connect.processes.messages import (
    Failed,
    HealthTold,
    Measured,
    Outlook,
    Paused,
    Running,
    SetPaused,
    TopicsUsed,
)
from ottla_core.clock import boot_time_s
from tests.support.eventually import eventually

pytestmark = pytest.mark.slow


def rows(count, first=0):
    return [{"position": number} for number in range(first, first + count)]


def test_records_are_put_once_and_their_offsets_committed(kafka, connect):
    topic = kafka.topic()
    kafka.publish(topic, *rows(1500), headers=[("h", b"7")], key=b"k")
    first = connect.sink(topics=topic, collect_events="true")
    assert connect.collected.until(1500) == rows(1500)
    assert first.stop() == 0
    record = connect.collected.events("record")[0]
    assert (record["key"], record["headers"]) == ("k", [["h", 7]])
    assert first.all(TopicsUsed) == [TopicsUsed(topics=[topic])]
    events = [each["event"] for each in connect.collected.all_events()]
    assert events[:2] == ["start", "open"]
    assert events[-3:] == ["pre_commit", "close", "stop"]
    readings = first.all(Measured)[-1].values
    assert (readings["sink-record-read-total"], readings["sink-record-send-total"]) == (1500, 1500)
    assert readings["batch-size-max"] == 500


def test_a_task_goes_on_behind_what_was_committed(kafka, connect):
    topic, name = kafka.topic(), connect.name()
    kafka.publish(topic, *rows(10))
    first = connect.sink(topics=topic, name=name)
    connect.collected.until(10)
    eventually(lambda: kafka.committed(f"connect-{name}", topic) == 10, "the offsets are committed while it runs")
    assert first.stop() == 0
    kafka.publish(topic, *rows(5, first=10))
    connect.sink(topics=topic, name=name)
    assert connect.collected.until(15) == rows(15)


def test_a_batch_that_cannot_be_put_now_comes_again_and_nothing_else_meanwhile(kafka, connect):
    topic = kafka.topic()
    kafka.publish(topic, *rows(1200))
    process = connect.sink(
        topics=topic, fault_where="put", fault_kind="retriable", fault_times=3, collect_retry_in_ms=50
    )
    assert connect.collected.until(1200) == rows(1200)
    kafka.publish(topic, *rows(5, first=1200))
    assert connect.collected.until(1205) == rows(1205)
    assert process.stop() == 0
    assert process.all(Measured)[-1].values["total-retries"] == 3
    assert process.log.count("could not put 500 records") == 3
    told = [each.health for each in process.all(HealthTold)]
    assert "WAITING" in [each["state"] for each in told]
    assert told[-1]["state"] == "WORKING"


def test_a_target_that_cannot_be_flushed_now_gets_the_records_again(kafka, connect):
    topic, name = kafka.topic(), connect.name()
    kafka.publish(topic, *rows(10))
    connect.sink(topics=topic, name=name, fault_where="pre_commit", fault_kind="retriable", fault_times=1)
    assert connect.collected.until(20) == rows(10) + rows(10)
    eventually(lambda: kafka.committed(f"connect-{name}", topic) == 10, "the second time it is committed")


@pytest.mark.parametrize(("kind", "fatal"), [("bug", False), ("data", False), ("fatal", True)])
def test_a_put_that_fails_ends_the_process_and_commits_what_went_well(kafka, connect, kind, fatal):
    topic, name = kafka.topic(), connect.name()
    kafka.publish(topic, *rows(10))
    process = connect.sink(
        topics=topic,
        name=name,
        fault_where="put",
        fault_kind=kind,
        fault_after=1,
        consumer_override_max_poll_records=4,
    )
    assert (process.until(Failed).outlook is Outlook.FATAL) is fatal
    assert process.wait() == 1
    assert connect.collected.values() == rows(4)
    assert kafka.committed(f"connect-{name}", topic) == 4


def test_records_that_cannot_be_handled_go_to_the_dead_letter_topic(kafka, connect):
    topic, letters, name = kafka.topic(), f"letters-{time.time_ns():x}", connect.name()
    kafka.publish(topic, b'{"position": 0}', b"no json", b'{"position": 2}', b'{"no": 3}', b'"refused"')
    kafka.publish(topic, b'{"position": 5}', headers=[("h", b"v")], key=b"k")
    process = connect.sink(
        topics=topic,
        name=name,
        transforms="add",
        transforms_add_type="AddOne",
        transforms_add_field="position",
        transforms_add_predicate="object",
        predicates="object",
        predicates_object_type="IsOdd",
        collect_bad_value="{'position': 2}",
        errors_tolerance="all",
        errors_deadletterqueue_topic_name=letters,
        errors_deadletterqueue_topic_replication_factor=1,
        errors_deadletterqueue_context_headers_enable="true",
    )
    assert connect.collected.until(2) == [{"position": 0}, {"position": 6}]
    eventually(lambda: kafka.committed(f"connect-{name}", topic) == 6, "the offsets are committed")
    found = kafka.read(letters)
    assert [each.value() for each in found] == [b"no json", b'{"no": 3}', b'"refused"', b'{"position": 2}']
    headers = [dict(each.headers() or ()) for each in found]
    prefix = "__connect.errors."
    assert [each[prefix + "stage"] for each in headers] == [
        b"VALUE_CONVERTER",
        b"TRANSFORMATION",
        b"TRANSFORMATION",
        b"TASK_PUT",
    ]
    first = headers[0]
    assert first[prefix + "topic"] == topic.encode()
    assert (first[prefix + "partition"], first[prefix + "offset"]) == (b"0", b"1")
    assert (first[prefix + "connector.name"], first[prefix + "task.id"]) == (name.encode(), b"0")
    assert first[prefix + "exception.class.name"] == b"ottla_sdk.errors.DataError"
    assert b"Traceback" in first[prefix + "exception.stacktrace"]
    assert process.stop() == 0
    readings = process.all(Measured)[-1].values
    assert readings["deadletterqueue-produce-requests"] == readings["total-records-skipped"] == 4


def test_a_refused_record_fails_the_task_where_errors_are_not_tolerated(kafka, connect):
    topic, name = kafka.topic(), connect.name()
    kafka.publish(topic, *rows(3))
    process = connect.sink(topics=topic, name=name, collect_bad_value="{'position': 1}")
    assert "TASK_PUT failed" in process.until(Failed).reason
    assert process.wait() == 1
    assert kafka.committed(f"connect-{name}", topic) is None


def test_a_sink_may_keep_its_own_offsets(kafka, connect):
    topic, name = kafka.topic(), connect.name()
    kafka.publish(topic, *rows(10))
    process = connect.sink(topics=topic, name=name, collect_seek_to=6, collect_commits="false")
    assert connect.collected.until(4) == rows(4, first=6)
    assert process.stop() == 0
    assert kafka.committed(f"connect-{name}", topic) in {None, 1}, "the first record may be committed under its lease"


def test_two_tasks_share_the_partitions_and_one_takes_over_what_the_other_leaves(kafka, connect):
    topic, name = kafka.topic(partitions=4), connect.name()
    first = connect.sink(topics=topic, name=name, collect_events="true")
    first.until(Running)
    second = connect.sink(topics=topic, name=name, collect_events="true", task=1)

    def owners():
        held: dict[int, int] = {}
        for event in connect.collected.all_events():
            for _, partition in event.get("partitions", ()):
                if event["event"] == "open":
                    held[partition] = event["task"]
                elif held.get(partition) == event["task"]:
                    del held[partition]
        return sorted(held.values())

    eventually(lambda: owners() == [0, 0, 1, 1], "both have two partitions")
    for partition in range(4):
        kafka.publish(topic, *rows(50, first=100 * partition), partition=partition)
    connect.collected.until(200)
    assert first.stop() == 0
    eventually(lambda: owners() == [1, 1, 1, 1], "the second has all")
    for partition in range(4):
        kafka.publish(topic, *rows(50, first=100 * partition + 50), partition=partition)
    found = connect.collected.until(400)
    assert len(found) == 400
    assert {each["position"] for each in found} == {
        100 * partition + number for partition in range(4) for number in range(100)
    }
    assert second.stop() == 0


def test_topics_that_match_an_expression_are_found_also_when_they_come_later(kafka, connect):
    first, later = kafka.topic(), kafka.topic()
    pattern = f"({first}|{later}-new)"
    kafka.publish(first, *rows(1))
    connect.sink(topics_regex=pattern, consumer_override_metadata_max_age_ms=500)
    connect.collected.until(1)
    kafka.publish(f"{later}-new", *rows(1, first=9))
    assert connect.collected.until(2) == [{"position": 0}, {"position": 9}]


def test_a_paused_task_puts_nothing_and_stays_in_its_group(kafka, connect):
    topic, name = kafka.topic(), connect.name()
    process = connect.sink(topics=topic, name=name, collect_events="true")
    kafka.publish(topic, *rows(1))
    connect.collected.until(1)
    process.send(SetPaused(paused=True))
    process.until(Paused)
    eventually(lambda: kafka.committed(f"connect-{name}", topic) == 1, "what was put is committed")
    kafka.publish(topic, *rows(5, first=1))
    time.sleep(0.7)  # how long nothing may happen
    assert connect.collected.values() == rows(1)
    process.send(SetPaused(paused=False))
    assert connect.collected.until(6) == rows(6)
    assert len(connect.collected.events("open")) == 1


def test_a_task_without_a_lease_puts_and_commits_nothing(kafka, connect):
    topic, name = kafka.topic(), connect.name()
    connect.worker["offset.flush.interval.ms"] = "60000"
    process = connect.sink(topics=topic, name=name, lease=False)
    kafka.publish(topic, *rows(1))

    def renewed():
        process.lease(2.0)
        return connect.collected.values()

    eventually(renewed, "the first record is put")
    eventually(lambda: boot_time_s() > process.leased_until_s, "the lease has run out")
    kafka.publish(topic, *rows(1, first=1))
    time.sleep(0.7)  # how long nothing may happen
    assert connect.collected.values() == rows(1)
    assert process.stop() == 0
    assert kafka.committed(f"connect-{name}", topic) in {None, 1}, "the first record may be committed under its lease"
