"""Two workers' config stores over one log see the same configuration."""

import pytest

from ottla_connect.connector_states import TargetState
from ottla_connect.ids import TaskId
from ottla_connect.state.config_records import SessionKey, Write, connector_write
from ottla_connect.state.config_store import (
    ConfigChange,
    ConfigStore,
    ConnectorChanged,
    ConnectorRemoved,
    LoggerLevelChanged,
    RestartRequest,
    RestartRequested,
    SessionKeyChanged,
    TargetStateChanged,
    TaskConfigsChanged,
)
from ottla_connect.state.keyed_log import LogError, MemoryLog, MemoryTopic


async def store_on(topic: MemoryTopic) -> tuple[ConfigStore, list[ConfigChange]]:
    store, changes = ConfigStore(MemoryLog(topic)), list[ConfigChange]()
    await store.start(changes.append)
    return store, changes


async def test_what_one_worker_writes_all_see() -> None:
    topic = MemoryTopic()
    one, _ = await store_on(topic)
    other, changes = await store_on(topic)
    await one.put_connector("a", {"name": "a"}, TargetState.PAUSED)
    await one.put_task_configs("a", [{"n": "0"}, {"n": "1"}])
    await one.put_target_state("a", TargetState.STARTED)
    request = RestartRequest(connector="a", include_tasks=True, only_failed=False)
    await one.put_restart_request(request)
    await one.put_session_key(SessionKey(key=b"k", algorithm="HmacSHA256", created_ms=1))
    await one.put_logger_level("root", "DEBUG")
    assert changes == [
        ConnectorChanged("a"),
        TaskConfigsChanged("a"),
        TargetStateChanged("a"),
        RestartRequested(request),
        SessionKeyChanged(),
        LoggerLevelChanged("root", "DEBUG"),
    ]
    assert other.state == one.state
    assert other.state.task_configs("a")[TaskId("a", 1)] == {"n": "1"}
    await one.remove_connector("a")
    assert changes[-1] == ConnectorRemoved("a")
    assert other.state.connectors == {}


async def test_a_worker_that_comes_later_knows_all_but_is_told_of_nothing_past() -> None:
    topic = MemoryTopic()
    one, _ = await store_on(topic)
    await one.put_connector("a", {"name": "a"}, None)
    await one.put_restart_request(RestartRequest(connector="a", include_tasks=True, only_failed=False))
    later, changes = await store_on(topic)
    assert later.state.connectors == {"a": {"name": "a"}}
    assert changes == []


async def test_garbage_in_the_log_is_passed_over() -> None:
    topic = MemoryTopic()
    store, changes = await store_on(topic)
    for write in (Write(b"connector-a", b"\xff"), Write(b"what", b"{}"), connector_write("a", {"x": "1"})):
        topic.append(write)
    assert store.state.connectors == {"a": {"x": "1"}}
    assert store.state.offset == 3
    assert changes == [ConnectorChanged("a")]


async def test_after_the_end_nothing_is_written() -> None:
    store, _ = await store_on(MemoryTopic())
    await store.close()
    with pytest.raises(LogError):
        await store.put_connector("a", {}, None)


async def test_a_connector_does_not_begin_as_one_of_its_name_ended_whose_end_was_stored_in_part() -> None:
    topic = MemoryTopic()
    store, _ = await store_on(topic)
    await store.put_connector("a", {"name": "a"}, TargetState.STOPPED)
    topic.append(connector_write("a", None))
    await store.put_connector("a", {"name": "a"}, None)
    later, _ = await store_on(topic)
    assert store.state.target_states == later.state.target_states == {"a": TargetState.STARTED}
