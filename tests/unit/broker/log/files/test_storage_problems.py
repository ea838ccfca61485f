"""A disk that refuses again and again is told of once, then in counts, and when it is over."""

import errno
import os
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from ottla_broker.log.files.storage_problems import StorageProblems
from ottla_core.errors import KafkaStorageError
from tests.support.broker.log_stores import CONFIG, FLIGHTS, TOPIC_ID, store_in
from tests.support.broker.partition_logs import append

FULL = OSError(errno.ENOSPC, "No space left on device")
DAMAGED = OSError(errno.EIO, "Input/output error")
HERE, THERE = Path("/data/one"), Path("/data/two")
APPENDS = 50


def events(logged: list[dict[str, object]]) -> list[tuple[object, object]]:
    return [(line["event"], line.get("more", line.get("count"))) for line in logged]


def test_refusals_are_told_at_the_beginning_then_as_a_count_and_when_they_are_over() -> None:
    problems = StorageProblems()
    with capture_logs() as logged:
        for _ in range(100):
            problems.note(HERE, "append to", FULL, "full")
        problems.tell()
        for _ in range(20):
            problems.note(HERE, "append to", FULL, "still full")
        problems.tell()
        assert problems.is_present
        problems.tell()
        problems.tell()
    assert events(logged) == [
        ("storage error", None),
        ("storage errors go on", 99),
        ("storage errors go on", 20),
        ("no such storage error any more", 120),
    ]
    assert logged[2]["latest"] == "still full"
    assert not problems.is_present


def test_one_that_is_not_repeated_is_not_counted() -> None:
    problems = StorageProblems()
    with capture_logs() as logged:
        problems.note(HERE, "append to", FULL, "full")
        problems.tell()
        assert problems.is_present, "no whole interval has passed"
        problems.tell()
    assert events(logged) == [("storage error", None), ("no such storage error any more", 1)]


def test_each_kind_is_told_of_in_each_directory_and_again_when_it_is_back() -> None:
    problems = StorageProblems()
    kinds = [
        (HERE, "append to", FULL),
        (THERE, "append to", FULL),
        (HERE, "append to", DAMAGED),
        (HERE, "read", DAMAGED),
    ]
    with capture_logs() as logged:
        for _ in range(2):
            for directory, action, error in 3 * kinds:
                problems.note(directory, action, error, "refused")
            for _ in range(3):
                problems.tell()
    assert [event for event, _ in events(logged)].count("storage error") == 2 * len(kinds)
    assert sorted(problems.counts()) == [(HERE, "append to", 12), (HERE, "read", 6), (THERE, "append to", 6)]


def test_who_wants_to_know_is_told_of_the_first_and_of_the_end_of_the_last() -> None:
    problems = StorageProblems()
    told: list[bool] = []
    problems.on_change = lambda: told.append(problems.is_present)
    problems.note(HERE, "append to", FULL, "full")
    problems.note(THERE, "append to", FULL, "full")
    problems.tell()
    problems.note(THERE, "append to", FULL, "full")
    problems.tell()
    assert told == [True]
    problems.tell()
    assert told == [True, False]


async def test_a_full_disk_does_not_fill_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> int:
        raise FULL

    async with store_in(tmp_path) as store:
        logs = [
            await store.create(FLIGHTS._replace(partition=number), TOPIC_ID, CONFIG, is_new=True) for number in (0, 1)
        ]
        with capture_logs() as logged, monkeypatch.context() as patches:
            patches.setattr(os, "pwritev", refuse)
            for log in APPENDS * logs:
                with pytest.raises(KafkaStorageError):
                    append(log, b"value")
            await store._duties.tell_storage_problems()
        assert events(logged) == [("storage error", None), ("storage errors go on", 2 * APPENDS - 1)]
        assert list(store.storage_problems.counts()) == [(tmp_path, "append to", 2 * APPENDS)]
        append(logs[0], b"value")
