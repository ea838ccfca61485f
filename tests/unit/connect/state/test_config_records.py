"""Records of the config topic, byte for byte as Kafka's workers write them, and what is made of other bytes."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla_connect.connector_states import TargetState
from ottla_connect.ids import TaskId
from ottla_connect.state.config_records import (
    BadRecord,
    CommitRecord,
    ConnectorRecord,
    LoggerRecord,
    RestartRequest,
    SessionKey,
    TargetStateRecord,
    TaskCountRecord,
    TaskRecord,
    Write,
    commit_write,
    connector_write,
    decode,
    logger_write,
    restart_write,
    session_key_write,
    target_state_write,
    task_count_write,
    task_write,
)

SESSION = SessionKey(key=b"\x00\xff" * 16, algorithm="HmacSHA256", created_ms=1700000000000)
RESTART = RestartRequest(connector="flights", include_tasks=True, only_failed=False)

# Kafka's KafkaConfigBackingStore with its JsonConverter, schemas off.
GOLDEN = [
    (
        connector_write("flights", {"name": "flights", "tasks.max": "2", "path": "/é"}),
        b"connector-flights",
        '{"properties":{"name":"flights","tasks.max":"2","path":"/é"}}'.encode(),
        ConnectorRecord("flights", {"name": "flights", "tasks.max": "2", "path": "/é"}),
    ),
    (connector_write("flights", None), b"connector-flights", None, ConnectorRecord("flights", None)),
    (
        task_write(TaskId("a-b-1", 12), {"file": "x"}),
        b"task-a-b-1-12",
        b'{"properties":{"file":"x"}}',
        TaskRecord(TaskId("a-b-1", 12), {"file": "x"}),
    ),
    (commit_write("flights", 2), b"commit-flights", b'{"tasks":2}', CommitRecord("flights", 2)),
    (
        target_state_write("flights", TargetState.STOPPED),
        b"target-state-flights",
        b'{"state":"PAUSED","state.v2":"STOPPED"}',
        TargetStateRecord("flights", TargetState.STOPPED),
    ),
    (
        target_state_write("flights", TargetState.STARTED),
        b"target-state-flights",
        b'{"state":"STARTED","state.v2":"STARTED"}',
        TargetStateRecord("flights", TargetState.STARTED),
    ),
    (
        target_state_write("flights", None),
        b"target-state-flights",
        None,
        TargetStateRecord("flights", None),
    ),
    (
        restart_write(RESTART),
        b"restart-connector-flights",
        b'{"include-tasks":true,"only-failed":false}',
        RESTART,
    ),
    (
        session_key_write(SESSION),
        b"session-key",
        b'{"key":"AP8A/wD/AP8A/wD/AP8A/wD/AP8A/wD/AP8A/wD/AP8=","algorithm":"HmacSHA256",'
        b'"creation-timestamp":1700000000000}',
        SESSION,
    ),
    (
        logger_write("org.example", "DEBUG"),
        b"logger-cluster-org.example",
        b'{"level":"DEBUG"}',
        LoggerRecord("org.example", "DEBUG"),
    ),
]


@pytest.mark.parametrize(("write", "key", "value", "record"), GOLDEN, ids=lambda each: str(each)[:40])
def test_records_are_kafkas_byte_for_byte(write: Write, key: bytes, value: bytes | None, record: object) -> None:
    assert write == Write(key, value)
    assert decode(key, value) == record


def test_a_target_state_of_a_worker_before_kafka_3_5_is_understood() -> None:
    assert decode(b"target-state-x", b'{"state":"PAUSED"}') == TargetStateRecord("x", TargetState.PAUSED)
    odd = b'{"state":"STARTED","state.v2":7}'
    assert decode(b"target-state-x", odd) == TargetStateRecord("x", TargetState.STARTED)


def test_what_a_restart_request_does_not_say_is_false() -> None:
    expected = RestartRequest(connector="x", include_tasks=False, only_failed=False)
    assert decode(b"restart-connector-x", b'{"only-failed":"yes"}') == expected


def test_a_task_count_is_written_as_kafka_connect_does() -> None:
    write = task_count_write("flights", 3)
    assert write == (b"tasks-fencing-flights", b'{"task-count":3}')
    assert decode(*write) == TaskCountRecord("flights", 3)


@pytest.mark.parametrize("value", [None, b"{}", b'{"task-count":-1}', b'{"task-count":"3"}', b'{"task-count":true}'])
def test_a_malformed_task_count_is_refused(value: bytes | None) -> None:
    with pytest.raises(BadRecord):
        decode(b"tasks-fencing-flights", value)


def test_settings_that_are_no_text_become_text_and_nulls_say_nothing() -> None:
    value = b'{"properties":{"a":1,"b":true,"c":null,"d":"x"}}'
    assert decode(b"connector-x", value) == ConnectorRecord("x", {"a": "1", "b": "true", "d": "x"})


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, b"{}"),
        (b"\xff", b"{}"),
        (b"other", b"{}"),
        (b"connector-x", b"not JSON"),
        (b"connector-x", b"\xff\xfe"),
        (b"connector-x", b"[1]"),
        (b"connector-x", b'{"properties":7}'),
        (b"connector-x", b'{"properties":{"a":{"b":"c"}}}'),
        (b"connector-x", b"[" * 100_000),
        (b"task-x", b'{"properties":{}}'),
        (b"task-x-one", b'{"properties":{}}'),
        (b"task-x-99999999", b'{"properties":{}}'),
        (b"task-x-0", None),
        (b"commit-x", b'{"tasks":-1}'),
        (b"commit-x", b'{"tasks":2000000000}'),
        (b"commit-x", b'{"tasks":true}'),
        (b"commit-x", b'{"tasks":"2"}'),
        (b"commit-x", None),
        (b"target-state-x", b'{"state":"RESTING"}'),
        (b"target-state-x", b'{"state":["PAUSED"]}'),
        (b"restart-connector-x", None),
        (b"session-key", b'{"key":"!","algorithm":"a","creation-timestamp":1}'),
        (b"session-key", b'{"key":"AA==","algorithm":"a"}'),
        (b"logger-cluster-x", b'{"level":3}'),
    ],
)
def test_garbage_is_told_apart(key: bytes | None, value: bytes | None) -> None:
    with pytest.raises(BadRecord):
        decode(key, value)


@given(
    prefix=st.sampled_from(["connector-", "task-", "commit-", "target-state-", "session-key", "logger-cluster-", ""]),
    rest=st.binary(max_size=20),
    value=st.none()
    | st.binary(max_size=40)
    | st.text(alphabet='{}[]":,truefalsn0123456789', max_size=40).map(str.encode),
)
def test_no_bytes_raise_anything_else(prefix: str, rest: bytes, value: bytes | None) -> None:
    with contextlib.suppress(BadRecord):
        decode(prefix.encode() + rest, value)
