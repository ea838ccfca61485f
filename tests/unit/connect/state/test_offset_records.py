"""Keys and values of the offset topic, byte for byte as Kafka's workers write them."""

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla_connect.state.config_records import BadRecord
from ottla_connect.state.offset_records import (
    NotStorable,
    check_storable,
    decode_key,
    decode_value,
    key_of,
    source_partition,
    value_of,
)


@pytest.mark.parametrize(
    ("partition", "key"),
    [
        ({"filename": "/tmp/test.txt"}, '["c",{"filename":"/tmp/test.txt"}]'),
        (
            {"topic": "t", "partition": 0, "cluster": "primary"},  # MirrorMaker's
            '["c",{"cluster":"primary","partition":0,"topic":"t"}]',
        ),
        # As a java.util.HashMap of these yields them.
        (
            {"bucket": 1, "database": 1, "naïve": 1, "host": 1, "topic": 1, "URL": 1},
            '["c",{"bucket":1,"database":1,"naïve":1,"host":1,"topic":1,"URL":1}]',
        ),
        ({"tenant": 1, "kind": 1, "mailbox": 1}, '["c",{"mailbox":1,"kind":1,"tenant":1}]'),
        ({}, '["c",{}]'),
    ],
)
def test_keys_are_kafkas(partition: dict[str, Any], key: str) -> None:
    written = key_of(source_partition("c", partition))
    assert written == key.encode()
    assert decode_key(written) == source_partition("c", partition)


def test_the_order_of_names_makes_no_other_partition_but_values_do() -> None:
    one = source_partition("c", {"a": 1, "b": "x"})
    assert decode_key(b'["c",{"b":"x","a":1}]') == one
    assert decode_key(b'["c", {"a": 1, "b": "x"}]') == one
    assert one.partition() == {"a": 1, "b": "x"}
    assert source_partition("c", {"a": True}) != source_partition("c", {"a": 1})


def test_a_name_that_is_no_text_in_utf_8_is_kept_all_the_same() -> None:
    partition = {"file": "caf\udce9.csv"}
    assert decode_key(key_of(source_partition("c", partition))) == source_partition("c", partition)


def test_values_are_plain_json() -> None:
    assert value_of({"position": 12, "name": "é", "done": True, "none": None}) == (
        '{"position":12,"name":"é","done":true,"none":null}'.encode()
    )
    assert decode_value(b'{"position":12}') == {"position": 12}


@pytest.mark.parametrize(
    "document", [{"a": [1]}, {"a": {"b": 1}}, {1: "a"}, {"a": float("inf")}, {"a": b"x"}, "text"]
)
def test_what_has_no_place_there_is_refused(document: Any) -> None:
    with pytest.raises(NotStorable):
        check_storable(document)


@pytest.mark.parametrize(
    "key", [None, b"x", b'"c"', b"[]", b'["c"]', b"[1,{}]", b'["c",[]]', b'["c",{"a":[1]}]', b"\xff"]
)
def test_other_keys_are_told_apart(key: bytes | None) -> None:
    with pytest.raises(BadRecord):
        decode_key(key)


def test_a_partition_that_is_null_belongs_to_nobody() -> None:
    assert decode_key(b'["c",null]') is None


@given(st.binary(max_size=30) | st.text(alphabet='[]{}",:c1e9', max_size=30).map(str.encode))
def test_no_bytes_raise_anything_else(content: bytes) -> None:
    with contextlib.suppress(BadRecord):
        decode_key(content)
    with contextlib.suppress(BadRecord):
        decode_value(content)


@given(
    st.dictionaries(st.text(max_size=5), st.integers() | st.text(max_size=5) | st.booleans() | st.none(), max_size=30)
)
def test_every_partition_survives_its_key(partition: dict[str, Any]) -> None:
    key = key_of(source_partition("c", partition))
    decoded = decode_key(key)
    assert decoded is not None
    assert decoded.partition() == partition
    assert sorted(json.loads(key)[1]) == sorted(partition)
