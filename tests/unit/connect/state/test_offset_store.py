"""Offsets of source connectors: what one worker stores, all read."""

import pytest

from ottla_connect.state.config_records import Write
from ottla_connect.state.keyed_log import LogError, MemoryLog, MemoryTopic
from ottla_connect.state.offset_store import OffsetStore

FILE = {"file": "a.csv", "line": True}


async def store_on(topic: MemoryTopic) -> OffsetStore:
    store = OffsetStore(MemoryLog(topic))
    await store.start()
    return store


async def test_what_one_worker_stores_another_reads() -> None:
    topic = MemoryTopic()
    one, other = await store_on(topic), await store_on(topic)
    await one.write("c", [(FILE, {"position": 7}), ({"file": "b.csv"}, {"position": 1})])
    assert await other.read("c", [{"line": True, "file": "a.csv"}, {"file": "x"}]) == [{"position": 7}, None]
    assert await other.read("another", [FILE]) == [None]
    assert sorted(str(pair) for pair in await other.all("c")) == sorted(
        str(pair) for pair in [(FILE, {"position": 7}), ({"file": "b.csv"}, {"position": 1})]
    )


async def test_no_offset_removes_a_partitions_and_removal_all_of_a_connectors() -> None:
    topic = MemoryTopic()
    store = await store_on(topic)
    await store.write("c", [(FILE, {"position": 7}), ({"file": "b.csv"}, {"position": 1})])
    await store.write("d", [(FILE, {"position": 9})])
    await store.write("c", [(FILE, None)])
    assert await store.all("c") == [({"file": "b.csv"}, {"position": 1})]
    await store.remove("c")
    assert await store.all("c") == []
    assert await store.all("d") == [(FILE, {"position": 9})]
    assert len(topic.entries) == 1


async def test_a_key_that_another_program_wrote_in_its_own_order_is_used_on() -> None:
    topic = MemoryTopic()
    theirs = b'["c",{"partition":0, "topic":"t","cluster":"x"}]'
    topic.append(Write(theirs, b'{"offset":1}'))
    store = await store_on(topic)
    partition = {"cluster": "x", "partition": 0, "topic": "t"}
    assert await store.read("c", [partition]) == [{"offset": 1}]
    await store.write("c", [(partition, {"offset": 2})])
    assert list(topic.entries) == [theirs]
    assert await store.read("c", [partition]) == [{"offset": 2}]


async def test_of_two_keys_for_a_partition_the_later_counts_and_the_other_goes_with_the_next_write() -> None:
    topic = MemoryTopic()
    store = await store_on(topic)
    topic.append(Write(b'["c",{"a":1,"b":2}]', b'{"offset":1}'))
    topic.append(Write(b'["c",{"b":2,"a":1}]', b'{"offset":2}'))
    assert await store.read("c", [{"a": 1, "b": 2}]) == [{"offset": 2}]
    await store.write("c", [({"a": 1, "b": 2}, {"offset": 3})])
    assert list(topic.entries) == [b'["c",{"b":2,"a":1}]']


async def test_of_two_keys_for_a_partition_the_later_written_counts_in_whatever_order_they_are_read() -> None:
    topic = MemoryTopic()
    store = await store_on(topic)
    older, newer = b'["c",{"a":1,"b":2}]', b'["c",{"b":2,"a":1}]'
    topic.append(Write(newer, b'{"offset":2}'), timestamp_ms=2_000)
    topic.append(Write(older, b'{"offset":1}'), timestamp_ms=1_000)
    partition = {"a": 1, "b": 2}
    assert await store.read("c", [partition]) == [{"offset": 2}]
    assert await store.keys("c", [partition]) == [[newer, older]]
    topic.append(Write(older, b'{"offset":3}'), timestamp_ms=3_000)
    assert await store.read("c", [partition]) == [{"offset": 3}]


async def test_garbage_in_the_log_is_passed_over() -> None:
    topic = MemoryTopic()
    store = await store_on(topic)
    for key, value in [
        (b"x", b"{}"),
        (b'["c",{"a":1}]', b"[]"),
        (b'["c",null]', b"{}"),
        (b'["c",{"a":1}]', b'{"o":1}'),
    ]:
        topic.append(Write(key, value))
    assert await store.all("c") == [({"a": 1}, {"o": 1})]


async def test_what_cannot_be_stored_is_refused_before_anything_is() -> None:
    topic = MemoryTopic()
    store = await store_on(topic)
    with pytest.raises(LogError, match="position in a partition or offset must be text"):
        await store.write("c", [({"file": "ok"}, {"position": 1}), (FILE, {"position": [1]})])
    with pytest.raises(LogError):
        await store.read("c", [{"file": {"a": 1}}])
    assert topic.end_offset == 0


async def test_who_writes_offsets_by_itself_learns_the_keys_that_are_in_use_and_those_that_are_to_end() -> None:
    topic = MemoryTopic()
    older = b'["c",{"partition":0, "topic":"t","cluster":"x"}]'
    newer = b'["c",{"topic":"t","cluster":"x","partition":0}]'
    topic.append(Write(older, b'{"offset":1}'))
    topic.append(Write(newer, b'{"offset":2}'))
    store = await store_on(topic)
    keys = await store.keys("c", [{"cluster": "x", "partition": 0, "topic": "t"}, {"file": "b"}])
    assert keys == [[newer, older], [b'["c",{"file":"b"}]']]
    with pytest.raises(LogError):
        await store.keys("c", [{"nested": {}}])
