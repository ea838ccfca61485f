"""When a fetch that waits is answered."""

import asyncio
import gc
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from ottla_broker.delayed_fetch import DelayedFetch
from ottla_broker.fetch_reading import FetchTerms, Reading, look, note_told
from ottla_broker.fetch_sessions import FetchSession, FetchSessionCache, SessionPartition
from ottla_broker.outcome import Delayed, Parts
from ottla_broker.partition import Partition
from ottla_broker.replica.leader_replica import FollowerContact
from ottla_core.errors import InvalidRequest, KafkaError
from tests.support.broker.readable_partitions import (
    BROKER,
    FOLLOWER,
    OTHER_FOLLOWER,
    PLENTY_BYTES,
    ReadablePartitions,
    append,
    asked,
    replicate,
    session_of,
)

LONG_S = 60.0
TURNS = 3
"""Of the event loop; what is answered at all by an event is answered by then."""


@pytest.fixture
def partitions(tmp_path: Path) -> Iterator[ReadablePartitions]:
    partitions = ReadablePartitions(tmp_path)
    yield partitions
    partitions.close()


class WaitingReader:
    """A reader whose fetch waits; the answer is how many bytes of records it is given."""

    def __init__(
        self,
        partitions: ReadablePartitions,
        session: FetchSession,
        *,
        min_bytes: int = 1,
        max_wait_s: float = LONG_S,
        keep: bool = False,
        read_committed: bool = False,
    ) -> None:
        self._read_committed = read_committed
        self._partitions = partitions
        self.session = session
        self.only_news = False
        self.looks = 0
        self.delayed: set[Delayed] = set()
        reading = self.look()
        if keep:
            FetchSessionCache(1, lambda: 5).keep(session, 0)
            note_told(session, reading)
            self.only_news = True
            reading = self.look()
        assert reading.size_bytes < min_bytes
        fetch = DelayedFetch(self, session, reading, min_bytes=min_bytes, max_wait_s=max_wait_s, delayed=self.delayed)
        self.fetch = fetch
        self.answered = fetch.answered
        self.looks = 0

    def look(self) -> Reading:
        self.looks += 1
        terms = FetchTerms(PLENTY_BYTES, only_leader=True, read_committed=self._read_committed)
        return look(self.session, terms, self._partitions, only_news=self.only_news)

    def answer(self, reading: Reading) -> Parts:
        return [b"%d" % reading.size_bytes]

    def refuse(self, error: KafkaError) -> Parts:
        return [error.code.name.encode()]

    async def is_answered(self) -> bool:
        for _ in range(TURNS):
            await asyncio.sleep(0)
        return self.answered.done()

    async def result(self) -> bytes:
        parts = await asyncio.wait_for(self.answered, LONG_S)
        assert parts is not None
        assert isinstance(parts[0], bytes)
        return parts[0]


def follower(*, broker_id: int = OTHER_FOLLOWER) -> FollowerContact:
    return FollowerContact(broker_id, 73, 0)


async def test_a_consumer_is_answered_when_the_high_watermark_has_passed_what_was_appended(
    partitions: ReadablePartitions,
) -> None:
    partition = partitions.add()
    reader = WaitingReader(partitions, session_of(asked()))
    size = append(partition)
    assert not await reader.is_answered()
    assert reader.looks == 0, "nothing can be there yet"
    replicate(partition)
    assert await reader.result() == b"%d" % size


async def test_a_consumer_of_a_sole_replica_is_answered_by_the_append(partitions: ReadablePartitions) -> None:
    partition = partitions.add(isr=(BROKER,))
    reader = WaitingReader(partitions, session_of(asked()))
    size = append(partition)
    assert await reader.is_answered()
    assert await reader.result() == b"%d" % size


async def test_a_consumer_of_committed_records_does_not_count_what_is_not_stable(
    partitions: ReadablePartitions, monkeypatch: pytest.MonkeyPatch
) -> None:
    partition = partitions.add(isr=(BROKER,))
    readers = [
        WaitingReader(partitions, session_of(asked()), read_committed=committed) for committed in (True, False)
    ]
    monkeypatch.setattr(Partition, "last_stable_offset", 0)
    size = append(partition)
    assert [await reader.is_answered() for reader in readers] == [False, True]
    monkeypatch.setattr(Partition, "last_stable_offset", 2)
    append(partition)
    assert await readers[0].result() == b"%d" % (2 * size)


async def test_what_was_hidden_when_the_wait_began_counts(partitions: ReadablePartitions) -> None:
    partition = partitions.add()
    append(partition)
    reader = WaitingReader(partitions, session_of(asked()))
    replicate(partition)
    assert await reader.is_answered()


async def test_bytes_of_several_appends_add_up_and_cost_one_look(partitions: ReadablePartitions) -> None:
    first, second = (partitions.add(index, isr=(BROKER,)) for index in range(2))
    size = append(first)
    reader = WaitingReader(partitions, session_of(asked(0), asked(1)), min_bytes=3 * size)
    append(second)
    assert not await reader.is_answered()
    assert reader.looks == 0
    append(first)
    assert await reader.result() == b"%d" % (3 * size)
    assert reader.looks == 1


async def test_a_follower_is_answered_by_the_append(partitions: ReadablePartitions) -> None:
    partition = partitions.add()
    reader = WaitingReader(partitions, session_of(asked(), follower=follower()), keep=True)
    size = append(partition)
    assert await reader.is_answered()
    assert await reader.result() == b"%d" % size


async def test_a_follower_hears_of_the_high_watermark_a_moment_later(partitions: ReadablePartitions) -> None:
    partition = partitions.add()
    append(partition)
    reader = WaitingReader(partitions, session_of(asked(0, 1), follower=follower()), keep=True)
    replicate(partition)
    assert not await reader.is_answered(), "records may come along"
    assert await reader.result() == b"0"


async def test_a_follower_that_moved_the_high_watermark_itself_hears_of_it(partitions: ReadablePartitions) -> None:
    partition = partitions.add()
    session = session_of(asked(), follower=follower(broker_id=FOLLOWER))
    reader = WaitingReader(partitions, session, keep=True)
    append(partition)
    await reader.result()
    session.ask("flights", asked(0, 1))
    reading = reader.look()
    assert [found.outcome.high_watermark for found in reading.found] == [1]
    again = DelayedFetch(reader, session, reading, min_bytes=1, max_wait_s=LONG_S, delayed=set())
    assert await again.answered == [b"0"]


async def test_an_election_is_told_at_once_and_a_changed_in_sync_set_is_not(partitions: ReadablePartitions) -> None:
    partition = partitions.add()
    reader = WaitingReader(partitions, session_of(asked()))
    partition.apply(replace(partition.state, isr=(BROKER,), partition_epoch=101), leads=True)
    assert not await reader.is_answered()
    partition.apply(replace(partition.state, leader=FOLLOWER, leader_epoch=1), leads=False)
    assert await reader.is_answered()


async def test_when_its_time_is_up_it_is_answered_with_what_there_is(partitions: ReadablePartitions) -> None:
    partition = partitions.add(isr=(BROKER,))
    size = append(partition)
    reader = WaitingReader(partitions, session_of(asked()), min_bytes=10 * size, max_wait_s=0.01)
    assert await reader.result() == b"%d" % size


async def test_it_can_be_hurried_and_refused(partitions: ReadablePartitions) -> None:
    partitions.add()
    hurried, refused = (WaitingReader(partitions, session_of(asked())) for _ in range(2))
    hurried.fetch.hurry()
    refused.fetch.refuse(InvalidRequest())
    assert (await hurried.result(), await refused.result()) == (b"0", b"invalid_request")
    for reader in (hurried, refused):
        assert (reader.delayed, reader.session.waiting) == (set(), None)


@pytest.mark.parametrize("how", ["answered", "cancelled"])
async def test_afterwards_nothing_of_it_is_left(partitions: ReadablePartitions, how: str) -> None:
    partition = partitions.add(isr=(BROKER,))
    reader = WaitingReader(partitions, session_of(asked()))
    assert reader.delayed == {reader.fetch}
    if how == "answered":
        append(partition)
        await reader.result()
    else:
        reader.answered.cancel()
        assert await reader.is_answered()
    assert (reader.delayed, reader.session.waiting) == (set(), None)
    assert [wanted.watched for wanted in reader.session] == [None]
    append(partition)
    assert reader.looks <= 1


async def test_a_fetch_without_a_session_is_no_work_for_the_garbage_collector(partitions: ReadablePartitions) -> None:
    partition = partitions.add(isr=(BROKER,))
    gc.collect()
    gc.disable()
    try:
        reader = WaitingReader(partitions, session_of(asked()))
        append(partition)
        await reader.result()
        assert await reader.is_answered()
        del reader.fetch  # which refers to the reader
        del reader
        assert not [each for each in gc.get_objects() if isinstance(each, FetchSession | SessionPartition)]
    finally:
        gc.enable()


async def test_a_kept_session_goes_on_watching_what_has_no_news(partitions: ReadablePartitions) -> None:
    partition = partitions.add(isr=(BROKER,))
    reader = WaitingReader(partitions, session_of(asked()), keep=True)
    reader.fetch.hurry()
    (wanted,) = reader.session
    assert wanted.watched is partition
    assert not reader.session.dirty


async def test_what_goes_wrong_is_raised_to_the_connection(partitions: ReadablePartitions) -> None:
    partitions.add()
    reader = WaitingReader(partitions, session_of(asked()))
    reader._partitions = None  # type: ignore[assignment]  # a bug of ours, whatever it is
    reader.fetch.hurry()
    with pytest.raises(AttributeError):
        await reader.answered
    assert reader.session.waiting is None
