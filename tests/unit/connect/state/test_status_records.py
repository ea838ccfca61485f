"""Records of the status topic, byte for byte as Kafka's workers write them."""

import dataclasses

import pytest

from ottla_connect.connector_states import State, Status
from ottla_connect.ids import TaskId
from ottla_connect.state.config_records import BadRecord
from ottla_connect.state.status_records import (
    Subject,
    TopicUse,
    decode_status,
    encode_status,
    encode_topic_use,
    key_of,
    subject_of,
)

RUNNING = Status(state=State.RUNNING, worker_id="10.0.0.1:8083", generation=7)


def test_a_status_is_kafkas() -> None:
    assert encode_status(RUNNING) == b'{"state":"RUNNING","trace":null,"worker_id":"10.0.0.1:8083","generation":7}'
    failed = Status(state=State.FAILED, worker_id="w:1", trace="boom\n at x", generation=8, version="1.2")
    assert encode_status(failed) == (
        b'{"state":"FAILED","trace":"boom\\n at x","worker_id":"w:1","generation":8,"version":"1.2"}'
    )
    assert decode_status(encode_status(RUNNING)) == RUNNING
    assert decode_status(encode_status(failed)) == failed


def test_a_tasks_progress_is_in_its_status() -> None:
    working = dataclasses.replace(RUNNING, progress={"rows": 7, "tables": {"flights": {"lag": 0}}})
    assert decode_status(encode_status(working)) == working


def test_a_used_topic_is_kafkas() -> None:
    assert encode_topic_use(TopicUse("a", "t"), 3, 1700000000000) == (
        b'{"topic":{"name":"t","connector":"a","task":3,"discoverTimestamp":1700000000000}}'
    )


@pytest.mark.parametrize(
    ("subject", "key"),
    [
        ("a-b", b"status-connector-a-b"),
        (TaskId("a-b-1", 3), b"status-task-a-b-1-3"),
        (TopicUse("a:b", "t.1"), b"status-topic-t.1:connector-a:b"),
    ],
)
def test_keys_are_kafkas(subject: Subject, key: bytes) -> None:
    assert key_of(subject) == key
    assert subject_of(key) == subject


@pytest.mark.parametrize(
    "key", [None, b"", b"\xff", b"x", b"status-connector-", b"status-task-a", b"status-task-a-x", b"status-topic-t"]
)
def test_other_keys_are_told_apart(key: bytes | None) -> None:
    with pytest.raises(BadRecord):
        subject_of(key)


@pytest.mark.parametrize(
    "value",
    [
        b"x",
        b"[]",
        b'{"state":"DESTROYED","worker_id":"w","generation":1}',
        b'{"state":"RUNNING","generation":1}',
        b'{"state":"RUNNING","worker_id":"w","generation":"1"}',
        b'{"state":{},"worker_id":"w","generation":1}',
    ],
)
def test_other_values_are_told_apart(value: bytes) -> None:
    with pytest.raises(BadRecord):
        decode_status(value)
