"""What keeps connectors from their work, by their statuses."""

import time

from ottla_operations.connect.connector_problems import hindrance_lines, hindrances, shown_state, total


def status(connector, *tasks):
    return {
        "name": "flights",
        "type": "source",
        "connector": {"worker_id": "w", **connector},
        "tasks": [{"id": number, "worker_id": "w", **each} for number, each in enumerate(tasks)],
    }


RUNNING = {"state": "RUNNING"}
WORKING = {"state": "RUNNING", "health": {"state": "WORKING", "records_per_second": 5.0, "lag": 3}}


def test_what_works_or_shall_not_work_is_no_hindrance():
    assert hindrances(status(RUNNING, WORKING, RUNNING)) == []
    for resting in ("PAUSED", "STOPPED", "RESTARTING"):
        assert hindrances(status({"state": resting}, {"state": resting})) == []
    assert total(status(RUNNING, WORKING, WORKING), "lag") == 6
    assert total(status(RUNNING, RUNNING), "lag") is None


def test_whoever_waits_or_has_failed_is_named_with_the_reason_and_the_times():
    now_ms = time.time() * 1000
    waits = {
        "state": "RUNNING",
        "health": {
            "state": "WAITING",
            "reason": "there is no file at /a.csv",
            "since_ms": now_ms - 200_000,
            "next_try_ms": now_ms + 30_900,
        },
    }
    failed = {"state": "FAILED", "trace": "FatalError: wrong password\n\nTraceback"}
    document = status(RUNNING, waits, failed, {"state": "UNASSIGNED"})
    assert shown_state(document["tasks"][0]) == "RUNNING, waiting"
    assert list(hindrance_lines([document], now_ms)) == [
        "flights, task 0, does not work for 3 min, next try in 31 s: there is no file at /a.csv",
        "flights, task 1, does not work: FatalError: wrong password",
        "flights, task 2, does not work yet: it is still being started",
    ]


def test_workers_of_kafka_connect_say_nothing_of_health():
    assert shown_state(RUNNING) == "RUNNING"
    assert hindrances(status({"state": "FAILED"}))[0].reason == "it has failed"
