"""Batches that are long to unpack are looked into away from the loop, and with the same result."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from ottla_broker.log.appends import unpacking
from ottla_broker.log.appends.unpacking import LongSearch, is_long
from ottla_broker.log.partition.partition_log import PartitionLog
from ottla_core.errors import InvalidRecord, KafkaStorageError, MessageTooLarge
from ottla_core.topic_config import TopicConfig
from ottla_core.wire.compression import Codec
from ottla_core.wire.record_batch import parse_header
from ottla_core.wire.records import Record, encode_batch
from tests.support.broker.partition_logs import NOW_MS, open_log

COMPACTED = replace(TopicConfig(), cleanup_policy=frozenset({"compact"}))
COUNT = unpacking.RECORDS_AT_ONCE_MAX + 1


def batch_of(count: int, *, codec: Codec = Codec.ZSTD, keyless: int = -1, value: bytes = b"") -> bytes:
    return encode_batch(
        [Record(n, NOW_MS + n, None if n == keyless else b"k", value) for n in range(count)], codec=codec
    )


def append(log: PartitionLog, batch: bytes, looked_into: unpacking.LookedInto | None) -> int:
    return log.append_as_leader(batch, leader_epoch=1, now_ms=NOW_MS, looked_into=looked_into).last_offset


@pytest.mark.parametrize("codec", list(Codec))
async def test_a_batch_of_many_records_is_looked_into_and_appended(tmp_path: Path, codec: Codec) -> None:
    log = open_log(tmp_path, config=COMPACTED)
    batch = batch_of(COUNT, codec=codec)
    looked_into = await log.look_into(batch, NOW_MS)
    assert looked_into is not None
    assert looked_into.has_keys
    assert append(log, batch, looked_into) == COUNT - 1


async def test_a_small_batch_is_left_to_the_append(tmp_path: Path) -> None:
    log = open_log(tmp_path, config=COMPACTED)
    assert await log.look_into(batch_of(10), NOW_MS) is None


async def test_a_few_large_records_are_long_too() -> None:
    batch = batch_of(1, value=bytes(unpacking.UNPACKED_AT_ONCE_BYTES_MAX))
    assert len(batch) < 10_000
    assert is_long(memoryview(batch), parse_header(batch))


async def test_a_record_without_a_key_is_named(tmp_path: Path) -> None:
    log = open_log(tmp_path, config=COMPACTED)
    with pytest.raises(InvalidRecord, match="1 of 2001 records have been rejected, the first at 1234"):
        await log.look_into(batch_of(COUNT, keyless=1234), NOW_MS)


async def test_more_records_than_are_looked_into_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unpacking, "RECORDS_MAX", COUNT - 1)
    with pytest.raises(MessageTooLarge, match=f"{COUNT - 1} is the most"):
        await open_log(tmp_path, config=COMPACTED).look_into(batch_of(COUNT), NOW_MS)


async def test_more_bytes_than_are_looked_into_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unpacking, "UNPACKED_BYTES_MAX", COUNT)
    with pytest.raises(InvalidRecord, match=f"more than the {COUNT} bytes allowed"):
        await open_log(tmp_path, config=COMPACTED).look_into(batch_of(COUNT), NOW_MS)


async def test_a_long_batch_is_packed_anew(tmp_path: Path) -> None:
    log = open_log(tmp_path, config=replace(TopicConfig(), compression_type="lz4"))
    batch = batch_of(COUNT)
    looked_into = await log.look_into(batch, NOW_MS)
    assert looked_into is not None
    assert looked_into.header.codec_id == Codec.LZ4
    assert append(log, batch, looked_into) == COUNT - 1


async def test_settings_that_change_while_a_batch_is_looked_into_have_it_sent_again(tmp_path: Path) -> None:
    log = open_log(tmp_path, config=replace(TopicConfig(), compression_type="lz4"))
    batch = batch_of(COUNT, keyless=7)
    looked_into = await log.look_into(batch, NOW_MS)
    log.update_config(COMPACTED)
    with pytest.raises(KafkaStorageError, match="have just changed"):
        append(log, batch, looked_into)


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
async def test_a_search_by_time_finds_the_same_in_a_long_batch(tmp_path: Path, codec: Codec) -> None:
    log = open_log(tmp_path)
    append(log, batch_of(COUNT, codec=codec), None)
    for number in (0, 1, 1000, COUNT - 1):
        search = log.offset_for_timestamp(NOW_MS + number)
        assert isinstance(search, LongSearch)
        assert await search.run() == (number, NOW_MS + number, 1)
    latest = log.max_timestamp()
    assert isinstance(latest, LongSearch)
    assert await latest.run() == (COUNT - 1, NOW_MS + COUNT - 1, 1)
    assert log.offset_for_timestamp(NOW_MS + COUNT) is None


async def test_others_run_while_a_batch_is_looked_into(tmp_path: Path) -> None:
    log = open_log(tmp_path, config=COMPACTED)
    looking = asyncio.create_task(log.look_into(batch_of(100_000), NOW_MS))
    turns = 0
    while not looking.done():
        await asyncio.sleep(0)
        turns += 1
    assert turns > 5
