"""Statuses are written in the background, the last one of each key, again and again until it works."""

import asyncio
from collections.abc import AsyncIterator, Sequence

import pytest

from ottla_connect.connector_states import State, Status
from ottla_connect.ids import TaskId
from ottla_connect.state import status_store
from ottla_connect.state.config_records import Write
from ottla_connect.state.keyed_log import LogError, MemoryLog, MemoryTopic
from ottla_connect.state.status_records import encode_status, key_of
from ottla_connect.state.status_store import StatusStore
from tests.support.eventually_async import eventually_async

TASK = TaskId("a", 0)


class StubbornLog(MemoryLog):
    """A log whose brokers can be away."""

    def __init__(self, topic: MemoryTopic) -> None:
        super().__init__(topic)
        self.is_away = False
        self.rounds: list[Sequence[Write]] = []

    async def write(self, writes: Sequence[Write], timeout_s: float) -> None:
        self.rounds.append(writes)
        is_away = self.is_away  # a test that has seen this round may change it meanwhile
        await asyncio.sleep(0)
        if is_away:
            raise LogError("the brokers are away")
        await super().write(writes, timeout_s)


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(status_store, "RETRY_FIRST_S", 0.001)
    monkeypatch.setattr(status_store, "RETRY_MAX_S", 0.01)
    monkeypatch.setattr(status_store, "CLOSE_TIMEOUT_S", 0.05)


@pytest.fixture
def topic() -> MemoryTopic:
    return MemoryTopic()


@pytest.fixture
def log(topic: MemoryTopic) -> StubbornLog:
    return StubbornLog(topic)


@pytest.fixture
async def store(log: StubbornLog) -> AsyncIterator[StatusStore]:
    store = StatusStore(log)
    await store.start()
    yield store
    await store.close()


def status(state: State, worker: str = "w:1", generation: int = 1) -> Status:
    return Status(state=state, worker_id=worker, generation=generation)


async def test_a_status_shows_when_it_is_written(store: StatusStore) -> None:
    store.put_task_status(TASK, status(State.RUNNING))
    store.put_connector_status("a", status(State.PAUSED))
    assert store.task_status(TASK) is None
    await eventually_async(lambda: store.task_status(TASK), "the status is written")
    assert store.connector_status("a") == status(State.PAUSED)


async def test_only_the_last_status_of_a_key_is_written(store: StatusStore, topic: MemoryTopic) -> None:
    for generation in range(100):
        store.put_task_status(TASK, status(State.RUNNING, generation=generation))
    await eventually_async(lambda: store.task_status(TASK), "a status is written")
    assert store.task_status(TASK) == status(State.RUNNING, generation=99)
    assert topic.end_offset == 1


async def test_a_status_outlasts_brokers_that_are_away(store: StatusStore, log: StubbornLog) -> None:
    log.is_away = True
    store.put_task_status(TASK, status(State.RUNNING))
    await eventually_async(lambda: len(log.rounds) > 2, "the write has been tried again")
    store.put_task_status(TASK, status(State.FAILED))
    log.is_away = False
    await eventually_async(lambda: store.task_status(TASK), "the status is written")
    assert store.task_status(TASK) == status(State.FAILED)


async def test_a_status_that_another_worker_overtakes_meanwhile_is_given_up(
    store: StatusStore, log: StubbornLog, topic: MemoryTopic
) -> None:
    log.is_away = True
    store.put_task_status(TASK, status(State.FAILED, "w:1", 3))
    await eventually_async(lambda: log.rounds, "the write has been tried")
    newer = status(State.RUNNING, "w:2", 4)
    topic.append(Write(key_of(TASK), encode_status(newer)))
    log.is_away = False
    store.put_connector_status("a", status(State.RUNNING))
    await eventually_async(lambda: store.connector_status("a"), "the other status is written")
    assert store.task_status(TASK) == newer


async def test_a_safe_write_leaves_a_newer_status_alone(store: StatusStore, topic: MemoryTopic) -> None:
    topic.append(Write(key_of(TASK), encode_status(status(State.RUNNING, "w:2", 4))))
    store.put_task_status(TASK, status(State.UNASSIGNED, "w:1", 3), only_if_newer=True)
    store.put_connector_status("a", status(State.RUNNING), only_if_newer=True)
    await eventually_async(lambda: store.connector_status("a"), "the other status is written")
    assert store.task_status(TASK) == status(State.RUNNING, "w:2", 4)


async def test_a_removed_connector_leaves_nothing_not_even_what_still_waits(
    store: StatusStore, topic: MemoryTopic
) -> None:
    store.put_connector_status("a", status(State.RUNNING))
    store.put_task_status(TASK, status(State.RUNNING))
    store.add_topic("a", 0, "t")
    await eventually_async(lambda: store.topics("a"), "all is written")
    store.put_task_status(TaskId("a", 1), status(State.RUNNING))
    store.remove("a")
    await eventually_async(lambda: not topic.entries, "all is removed")
    assert store.task_status(TaskId("a", 1)) is None


@pytest.mark.parametrize("of_task", [False, True])
async def test_the_end_of_a_connector_leaves_the_status_of_its_successor_alone(
    store: StatusStore, log: StubbornLog, topic: MemoryTopic, of_task: bool
) -> None:
    subject = TASK if of_task else "a"
    topic.append(Write(key_of(subject), encode_status(status(State.RUNNING, generation=1))))
    log.is_away = True
    store.remove("a")
    await eventually_async(lambda: log.rounds, "it was tried to write the end")
    newer = status(State.RUNNING, "w:2", generation=2)
    topic.append(Write(key_of(subject), encode_status(newer)))
    tries = len(log.rounds)
    await eventually_async(lambda: len(log.rounds) > tries or not store._waiting, "it was tried again, or given up")
    log.is_away = False
    assert await store.written(5)
    assert (store.task_status(TASK) if of_task else store.connector_status("a")) == newer


async def test_a_topic_is_written_once_and_can_be_forgotten(
    store: StatusStore, log: StubbornLog, topic: MemoryTopic
) -> None:
    for _ in range(3):
        store.add_topic("a", 0, "t")
        await eventually_async(lambda: store.topics("a") == {"t"}, "the topic is known")
    assert topic.end_offset == 1
    store.reset_topics("a")
    await eventually_async(lambda: not store.topics("a"), "the topic is forgotten")
    store.add_topic("a", 1, "t")
    await eventually_async(lambda: store.topics("a"), "the topic is known again")


async def test_the_end_waits_for_what_can_be_written_and_not_for_what_cannot(topic: MemoryTopic) -> None:
    log = StubbornLog(topic)
    store = StatusStore(log)
    await store.start()
    store.put_task_status(TASK, status(State.UNASSIGNED))
    await store.close()
    assert key_of(TASK) in topic.entries
    again = StatusStore(log)
    await again.start()
    log.is_away = True
    again.put_task_status(TASK, status(State.RUNNING))
    await again.close()
    assert topic.end_offset == 1
