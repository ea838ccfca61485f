"""Requests that are read by hand are what kio reads, and what kio refuses is not read by hand."""

import struct
from datetime import timedelta
from typing import Any
from uuid import UUID

from hypothesis import example, given
from hypothesis import strategies as st
from kio.index import load_request_schema

from ottla_core.errors import InvalidRequest
from ottla_core.wire.conversion import item_type, message_of
from ottla_core.wire.frequent_requests import read_frequent_request
from ottla_core.wire.group_responses import HEARTBEAT, JOIN_GROUP, OFFSET_COMMIT
from ottla_core.wire.messages import (
    RequestHeader,
    message_codec,
    newest_version,
    oldest_version,
    read_request_header,
)


def versions(api_key: int) -> st.SearchStrategy[int]:
    return st.integers(oldest_version(api_key), newest_version(api_key))


int32s = st.integers(-(2**31), 2**31 - 1)
int64s = st.integers(-(2**63), 2**63 - 1)
texts = st.one_of(st.text(max_size=12), st.integers(120, 130).map(lambda size: "x" * size))
partitions = st.lists(st.tuples(int32s, int64s, int32s, st.none() | texts), max_size=4)
topics = st.lists(st.tuples(texts, st.uuids() | st.just(UUID(int=0)), partitions), max_size=3)


def heartbeat(version: int, group: str, generation: int, member: str, instance: str | None) -> bytes:
    message = message_of(
        load_request_schema(HEARTBEAT, version),
        group_id=group,
        generation_id=generation,
        member_id=member,
        group_instance_id=instance,
    )
    return frame_of(HEARTBEAT, version, message)


def commit(
    version: int, group: str, generation: int, member: str, instance: str | None, asked: list[Any], retention_ms: int
) -> bytes:
    request = load_request_schema(OFFSET_COMMIT, version)
    topic = item_type(request, "topics")
    partition = item_type(topic, "partitions")
    message = message_of(
        request,
        group_id=group,
        generation_id_or_member_epoch=generation,
        member_id=member,
        group_instance_id=instance,
        retention_time=timedelta(milliseconds=retention_ms),
        topics=tuple(
            message_of(
                topic,
                name=name,
                topic_id=topic_id,
                partitions=tuple(
                    message_of(
                        partition,
                        partition_index=index,
                        committed_offset=offset,
                        committed_leader_epoch=epoch,
                        committed_metadata=metadata,
                    )
                    for index, offset, epoch, metadata in places
                ),
            )
            for name, topic_id, places in asked
        ),
    )
    return frame_of(OFFSET_COMMIT, version, message)


def frame_of(api_key: int, version: int, message: Any) -> bytes:
    header = RequestHeader(api_key, version, 5, "client", 0)
    return message_codec(api_key, version).encode_request(header, message)


def by_hand_and_by_kio(frame: bytes) -> tuple[Any, Any]:
    """Both messages; None where there is none."""
    header = read_request_header(memoryview(frame))
    codec = message_codec(header.api_key, header.api_version)
    try:
        offset = codec.body_offset(memoryview(frame), header)
    except InvalidRequest:
        return None, None
    by_hand = read_frequent_request(header.api_key, header.api_version, frame, offset)
    try:
        return by_hand, codec.read_request(memoryview(frame), header)
    except InvalidRequest:
        return by_hand, None


def check(frame: bytes) -> None:
    """See that what is read by hand is what kio reads, byte by byte of a whole message or of garbage."""
    by_hand, by_kio = by_hand_and_by_kio(frame)
    if by_hand is not None:
        assert type(by_hand) is type(by_kio)
        assert by_hand == by_kio


@given(versions(HEARTBEAT), texts, int32s, texts, st.none() | texts)
def test_heartbeats(version: int, group: str, generation: int, member: str, instance: str | None) -> None:
    check(heartbeat(version, group, generation, member, instance))


@given(versions(OFFSET_COMMIT), texts, int32s, texts, st.none() | texts, topics, st.integers(-1, 2**40))
def test_commits(
    version: int,
    group: str,
    generation: int,
    member: str,
    instance: str | None,
    asked: list[Any],
    retention_ms: int,
) -> None:
    check(commit(version, group, generation, member, instance, asked, retention_ms))


@given(versions(OFFSET_COMMIT), int32s, int64s, int32s)
def test_usual_commits_are_read_by_hand(version: int, generation: int, offset: int, epoch: int) -> None:
    asked = [("flights", UUID(int=7), [(0, offset, epoch, ""), (1, offset, epoch, "note")])]
    by_hand, by_kio = by_hand_and_by_kio(commit(version, "g", generation, "m", None, asked, -1))

    assert by_hand == by_kio
    assert by_hand is not None


def test_usual_heartbeats_are_read_by_hand() -> None:
    for version in range(oldest_version(HEARTBEAT), newest_version(HEARTBEAT) + 1):
        by_hand, by_kio = by_hand_and_by_kio(heartbeat(version, "group", 3, "consumer-1", None))
        assert by_hand == by_kio
        assert by_hand is not None


@given(versions(OFFSET_COMMIT), versions(HEARTBEAT), st.data())
def test_damaged_requests_are_read_by_hand_only_if_kio_reads_them(
    commit_version: int, heartbeat_version: int, data: st.DataObject
) -> None:
    asked = [("flights", UUID(int=7), [(0, 5, 1, "note"), (1, 6, 1, None)]), ("b", UUID(int=0), [])]
    for whole in (
        commit(commit_version, "group", 3, "member", "instance", asked, -1),
        heartbeat(heartbeat_version, "group", 3, "member", "instance"),
    ):
        damaged = bytearray(whole[: data.draw(st.integers(18, len(whole)))])
        for _ in range(data.draw(st.integers(0, 3))):
            damaged[data.draw(st.integers(17, len(damaged) - 1))] = data.draw(st.integers(0, 255))
        check(bytes(damaged))


@given(st.sampled_from([HEARTBEAT, OFFSET_COMMIT]), st.data(), st.binary(max_size=80))
@example(HEARTBEAT, None, b"\x00")
def test_garbage_is_read_by_hand_only_if_kio_reads_it(
    api_key: int, data: st.DataObject | None, garbage: bytes
) -> None:
    version = newest_version(api_key) if data is None else data.draw(versions(api_key))
    check(struct.pack(">hhih", api_key, version, 5, -1) + garbage)


def test_other_apis_are_left_to_kio() -> None:
    assert read_frequent_request(JOIN_GROUP, 9, bytes(100), 0) is None
