"""The formats in which workers speak through the coordinator are Kafka Connect's."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla_connect.group.work import NO_WORK, Work
from ottla_connect.group.worker_protocol import (
    COMPATIBLE,
    CONFIG_MISMATCH,
    SESSIONED,
    MalformedWorkerMessage,
    WorkerAssignment,
    WorkerState,
    decode_assignment,
    decode_state,
    encode_assignment,
    encode_state,
)
from ottla_connect.ids import TaskId

ASSIGNMENT = WorkerAssignment(
    leader="w-1",
    leader_url="http://a:1/",
    config_offset=258,
    assigned=Work(frozenset({"jdbc"}), frozenset({TaskId("jdbc", 0), TaskId("jdbc", 2)})),
    revoked=Work(frozenset(), frozenset({TaskId("s3", 1)})),
    delay_ms=10000,
)
# Written by hand from the schemas in Kafka's ConnectProtocol and IncrementalCooperativeConnectProtocol.
ASSIGNMENT_BYTES = bytes.fromhex(
    "0002"  # version
    "0000"  # error
    "0003 772d31"  # leader
    "000b 687474703a2f2f613a312f"  # leader url
    "0000000000000102"  # config offset
    "00000001 0004 6a646263 00000003 ffffffff 00000000 00000002"  # assigned: jdbc itself, jdbc-0, jdbc-2
    "00000001 0002 7333 00000001 00000001"  # revoked: s3-1
    "00002710"  # delay
)
STATE_BYTES = (
    bytes.fromhex("0002 000b 687474703a2f2f623a322f 0000000000000007")
    + len(ASSIGNMENT_BYTES).to_bytes(4, "big")
    + ASSIGNMENT_BYTES
)
FIRST_STATE_BYTES = bytes.fromhex("0001 000b 687474703a2f2f623a322f ffffffffffffffff ffffffff")


def test_an_assignment_is_written_as_kafka_connect_writes_it():
    assert encode_assignment(ASSIGNMENT, SESSIONED) == ASSIGNMENT_BYTES
    assert decode_assignment(ASSIGNMENT_BYTES) == ASSIGNMENT


def test_the_protocols_differ_in_their_version_alone():
    assert encode_assignment(ASSIGNMENT, COMPATIBLE) == b"\x00\x01" + ASSIGNMENT_BYTES[2:]
    assert decode_assignment(b"\x00\x01" + ASSIGNMENT_BYTES[2:]) == ASSIGNMENT


def test_a_state_carries_the_assignment_that_the_worker_has():
    state = WorkerState(url="http://b:2/", config_offset=7, allocation=ASSIGNMENT)
    assert encode_state(state, SESSIONED) == STATE_BYTES
    assert decode_state(STATE_BYTES) == state
    assert state.work == ASSIGNMENT.assigned


def test_a_worker_that_runs_nothing_has_a_null_allocation():
    state = WorkerState(url="http://b:2/", config_offset=-1)
    assert encode_state(state, COMPATIBLE) == FIRST_STATE_BYTES
    assert decode_state(FIRST_STATE_BYTES) == state
    assert state.work == NO_WORK


def test_fields_that_an_older_worker_does_not_send_take_their_defaults():
    assert decode_state(FIRST_STATE_BYTES[:-4]) == WorkerState(url="http://b:2/", config_offset=-1)
    short = decode_assignment(ASSIGNMENT_BYTES[:-4])
    assert (short.assigned, short.revoked, short.delay_ms) == (ASSIGNMENT.assigned, ASSIGNMENT.revoked, 0)


def test_null_arrays_are_no_work():
    data = bytes.fromhex("0001 0001 0000 0000 0000000000000005 ffffffff ffffffff 00000000")
    assert decode_assignment(data) == WorkerAssignment(error=CONFIG_MISMATCH, config_offset=5)


def test_what_a_later_version_adds_behind_is_passed_over():
    assert decode_assignment(b"\x00\x03" + ASSIGNMENT_BYTES[2:] + b"new") == ASSIGNMENT


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "worker assignment: 2 bytes of its version at 0 do not fit into 0"),
        (b"\xff\xff" + ASSIGNMENT_BYTES[2:], "its version is -1"),
        (ASSIGNMENT_BYTES[:7], "3 bytes of its leader at 6 do not fit into 7"),
        (ASSIGNMENT_BYTES[:4] + b"\xff\xff" + ASSIGNMENT_BYTES[6:], "the length of its leader is -1"),
        (ASSIGNMENT_BYTES[:6] + b"\xff\xfe\xfd" + ASSIGNMENT_BYTES[9:], "its leader is no UTF-8"),
        (ASSIGNMENT_BYTES + b"\x00", "1 bytes are left behind its end"),
        (bytes.fromhex("0002 0000 0000 0000 0000000000000005 7fffffff"), "assigned cannot have 2147483647 elements"),
        (bytes.fromhex("0002 0000 0000 0000 0000000000000005 fffffffe"), "assigned cannot have -2 elements"),
        (
            bytes.fromhex("0002 0000 0000 0000 0000000000000005 00000001 0001 78 00000001 fffffffe"),
            "assigned has a task x--2",
        ),
    ],
)
def test_bytes_that_are_no_assignment_are_refused_with_the_reason(data: bytes, message: str):
    with pytest.raises(MalformedWorkerMessage, match=message):
        decode_assignment(data)


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(data: bytes):
    for read in (decode_assignment, decode_state):
        with contextlib.suppress(MalformedWorkerMessage):
            read(data)


NAMES = st.text(max_size=12)
WORKS = st.builds(
    Work,
    st.frozensets(NAMES, max_size=5),
    st.frozensets(st.builds(TaskId, NAMES, st.integers(0, 2**31 - 1)), max_size=9),
)


@given(
    st.builds(
        WorkerAssignment,
        error=st.integers(0, 1),
        leader=NAMES,
        leader_url=NAMES,
        config_offset=st.integers(-1, 2**63 - 1),
        assigned=WORKS,
        revoked=WORKS,
        delay_ms=st.integers(0, 2**31 - 1),
    ),
    st.sampled_from([SESSIONED, COMPATIBLE]),
)
def test_what_is_written_is_read_again(assignment: WorkerAssignment, protocol: str):
    assert decode_assignment(encode_assignment(assignment, protocol)) == assignment
    state = WorkerState(url=assignment.leader_url, config_offset=3, allocation=assignment)
    assert decode_state(encode_state(state, protocol)) == state
