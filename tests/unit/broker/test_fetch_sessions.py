"""Which fetch sessions are kept, and what their next request must be."""

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from ottla_broker import fetch_sessions
from ottla_broker.fetch_sessions import (
    EPOCH_MAX,
    EVICTION_MS_MIN,
    NO_SESSION,
    PARTITIONS_PER_SLOT_MAX,
    FetchSession,
    FetchSessionCache,
    FetchSessionIdNotFound,
    FetchSessionTopicIdError,
    InvalidFetchSessionEpoch,
)
from ottla_broker.replica.leader_replica import FollowerContact
from tests.support.broker.readable_partitions import FOLLOWER, TOPIC, ReadablePartitions, append, asked, session_of

LONG_MS = EVICTION_MS_MIN + 1


def cache_of(slots: int) -> FetchSessionCache:
    ids = count(1)
    return FetchSessionCache(slots, lambda: next(ids))


def reader_of(partitions: int) -> FetchSession:
    return session_of(*map(asked, range(partitions)))


def follower_of(partitions: int) -> FetchSession:
    return session_of(*map(asked, range(partitions)), follower=contact())


def contact(broker_id: int = FOLLOWER, epoch: int = 72, now_ms: int = 0) -> FollowerContact:
    return FollowerContact(broker_id, epoch, now_ms)


def resume(
    cache: FetchSessionCache, session_id: int, epoch: int, follower: FollowerContact | None = None
) -> FetchSession:
    return cache.resume(session_id, epoch, follower, uses_topic_ids=False)


@pytest.fixture
def partitions(tmp_path: Path) -> Iterator[ReadablePartitions]:
    partitions = ReadablePartitions(tmp_path)
    yield partitions
    partitions.close()


# Going on


def test_each_request_of_a_session_carries_the_next_epoch() -> None:
    cache, session = cache_of(1), reader_of(1)
    assert cache.keep(session, 0)
    for epoch in (1, 2, 3):
        assert resume(cache, session.id, epoch) is session
        cache.resumed(session, 0)
    for wrong in (1, 3, 5):
        with pytest.raises(InvalidFetchSessionEpoch):
            resume(cache, session.id, wrong)


def test_epochs_begin_again_at_one() -> None:
    cache, session = cache_of(1), reader_of(1)
    cache.keep(session, 0)
    session.epoch = EPOCH_MAX
    resume(cache, session.id, EPOCH_MAX)
    cache.resumed(session, 0)
    assert session.epoch == 1


def test_a_session_that_is_not_there_is_not_found() -> None:
    with pytest.raises(FetchSessionIdNotFound):
        resume(cache_of(1), 7, 1)


def test_topics_are_named_as_they_were_at_the_beginning() -> None:
    cache, session = cache_of(1), reader_of(1)
    cache.keep(session, 0)
    with pytest.raises(FetchSessionTopicIdError):
        cache.resume(session.id, 1, None, uses_topic_ids=True)


def test_a_session_belongs_to_the_follower_that_began_it() -> None:
    cache, session = cache_of(1), follower_of(1)
    cache.keep(session, 0)
    for other in (None, contact(broker_id=9)):
        with pytest.raises(FetchSessionIdNotFound):
            resume(cache, session.id, 1, other)


def test_a_followers_new_registration_and_the_time_of_its_request_are_taken_over() -> None:
    cache, session = cache_of(1), follower_of(1)
    cache.keep(session, 0)
    known = session.follower
    resume(cache, session.id, 1, contact(epoch=99, now_ms=500))
    assert known is session.follower
    assert known is not None
    assert (known.broker_epoch, known.last_fetch_ms) == (99, 500)


def test_a_session_without_partitions_is_not_kept_any_longer() -> None:
    cache, session = cache_of(1), reader_of(1)
    cache.keep(session, 0)
    session.forget(TOPIC, 0)
    cache.resumed(session, 0)
    assert (len(cache), session.id) == (0, NO_SESSION)


# Slots


def test_ids_of_sessions_differ() -> None:
    ids = iter((5, 5, 5, 6))
    cache = FetchSessionCache(2, lambda: next(ids))
    first, second = reader_of(1), reader_of(1)
    assert cache.keep(first, 0)
    assert cache.keep(second, 0)
    assert (first.id, second.id) == (5, 6)


def test_without_slots_there_are_no_sessions() -> None:
    cache, session = cache_of(0), reader_of(1)
    assert not cache.keep(session, 0)
    assert session.id == NO_SESSION


def test_a_session_that_nobody_uses_makes_way_for_any_other() -> None:
    cache = cache_of(2)
    unused, used = reader_of(5), reader_of(5)
    assert cache.keep(unused, 0)
    assert cache.keep(used, 0)
    assert not cache.keep(reader_of(1), EVICTION_MS_MIN)
    cache.resumed(used, LONG_MS)
    assert cache.keep(reader_of(1), LONG_MS)
    assert (unused.id, used.id > 0, cache.eviction_count) == (NO_SESSION, True, 1)


def test_a_larger_session_displaces_a_smaller_one_that_is_not_young() -> None:
    cache, small, large = cache_of(2), reader_of(2), reader_of(4)
    cache.keep(small, 0)
    cache.keep(large, 0)
    assert not cache.keep(reader_of(9), 1000), "both are young"
    for session in (small, large):
        cache.resumed(session, LONG_MS)
    assert not cache.keep(reader_of(2), LONG_MS), "it has to be larger"
    assert cache.keep(reader_of(3), LONG_MS)
    assert (small.id, large.id > 0) == (NO_SESSION, True)


def test_a_follower_displaces_any_reader_at_once_and_no_reader_displaces_a_follower() -> None:
    cache, reader = cache_of(1), reader_of(100)
    cache.keep(reader, 0)
    follower = follower_of(1)
    assert cache.keep(follower, 0)
    assert reader.id == NO_SESSION
    cache.resumed(follower, LONG_MS)
    assert not cache.keep(reader_of(1000), LONG_MS)
    assert not cache.keep(follower_of(1), LONG_MS)
    assert cache.keep(follower_of(2), LONG_MS)


def test_what_grows_is_displaced_by_its_new_size() -> None:
    cache, session = cache_of(1), reader_of(1)
    cache.keep(session, 0)
    session.ask(TOPIC, asked(1))
    session.ask(TOPIC, asked(2))
    cache.resumed(session, LONG_MS)
    assert cache.partition_count == 3
    assert not cache.keep(reader_of(2), LONG_MS)
    session.forget(TOPIC, 1)
    session.forget(TOPIC, 2)
    cache.resumed(session, LONG_MS)
    assert cache.partition_count == 1
    assert cache.keep(reader_of(2), LONG_MS)


def test_readers_cannot_fill_the_memory_with_partitions() -> None:
    cache = cache_of(2)
    assert not cache.keep(reader_of(2 * PARTITIONS_PER_SLOT_MAX + 1), 0)
    session = reader_of(2 * PARTITIONS_PER_SLOT_MAX)
    assert cache.keep(session, 0)
    session.ask(TOPIC, asked(2 * PARTITIONS_PER_SLOT_MAX))
    cache.resumed(session, 0)
    assert (session.id, len(cache), cache.partition_count) == (NO_SESSION, 0, 0)
    assert cache.keep(follower_of(2 * PARTITIONS_PER_SLOT_MAX + 1), 0), "followers need theirs"


# Watching


def test_a_session_that_grows_too_large_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch_sessions, "SESSION_PARTITIONS_MAX", 5)
    cache = cache_of(1000)
    assert not cache.keep(reader_of(6), 0)
    session, follower = reader_of(5), follower_of(6)
    assert cache.keep(session, 0)
    assert cache.keep(follower, 0)
    session.ask("another", asked(0))
    cache.resumed(session, 1)
    assert session.id == NO_SESSION
    cache.resumed(follower, 1)
    assert follower.id != NO_SESSION


def test_a_session_that_is_displaced_watches_nothing_and_its_wait_ends(partitions: ReadablePartitions) -> None:
    class Waiting:
        hurried = 0

        def hurry(self) -> None:
            self.hurried += 1

    partition, cache, session = partitions.add(), cache_of(1), reader_of(1)
    cache.keep(session, 0)
    (wanted,) = session
    session.settle(wanted, partition)
    waiting = Waiting()
    session.waiting = waiting  # type: ignore[assignment]  # nothing else is asked of it
    cache.remove(session.id)
    append(partition)
    assert (waiting.hurried, wanted.watched, session.dirty) == (1, None, {})


def test_a_session_that_nobody_uses_hears_of_a_partition_once(partitions: ReadablePartitions) -> None:
    partition, session = partitions.add(isr=(1,)), reader_of(1)
    (wanted,) = session
    session.settle(wanted, partition)
    assert not session.dirty
    append(partition)
    assert wanted in session.dirty
    assert wanted.watched is None


def test_a_forgotten_partition_is_not_watched(partitions: ReadablePartitions) -> None:
    partition, session = partitions.add(isr=(1,)), reader_of(1)
    (wanted,) = session
    session.settle(wanted, partition)
    session.forget(TOPIC, 0)
    append(partition)
    assert (wanted.watched, session.dirty, session.size) == (None, {}, 0)
    session.forget(TOPIC, 0)
    assert session.size == 0
