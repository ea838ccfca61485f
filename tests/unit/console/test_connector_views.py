"""Connectors, their parts, settings and offsets, and the workers that run them."""

from typing import Any

import pytest

from ottla_console.views.connector import (
    TRACE_CHARACTERS_MAX,
    connector_parts,
    dead_letter_topic,
    has_failed,
    secret_keys,
    shown_config,
)
from ottla_console.views.connector_offsets import offset_rows, offsets_mark
from ottla_console.views.connector_table import AskedWorker, connector_rows, selected_connectors, worker_rows
from ottla_sdk.runtime.redaction import HIDDEN

WORKER = "10.0.0.5:8083"


def status(name: str, *tasks: dict[str, Any], state: str = "RUNNING", worker: str = WORKER) -> dict[str, Any]:
    numbered = [{"id": number, "worker_id": worker, **each} for number, each in enumerate(tasks)]
    return {"name": name, "connector": {"state": state, "worker_id": worker}, "tasks": numbered, "type": "sink"}


EXPANDED = {
    "billing": {
        "status": status(
            "billing",
            {"state": "RUNNING", "health": {"state": "WORKING", "records_per_second": 2.5, "lag": 4}},
            {"state": "RUNNING", "health": {"state": "WAITING", "reason": "the database is away", "lag": 3}},
        ),
        "info": {"config": {"connector.class": "sql.Sink"}},
    },
    "audit": {
        "status": status("audit", {"state": "FAILED", "trace": "Broken: row 7\n  at line 1"}),
        "info": {"config": {"connector.class": "file.Sink"}},
    },
    "idle": {"status": status("idle", state="STOPPED"), "info": {"config": {"connector.class": "file.Sink"}}},
    "gone": {"info": {"config": {}}},
}


def test_a_row_sums_up_the_tasks_and_names_the_first_problem() -> None:
    audit, billing, idle = connector_rows(EXPANDED)
    assert (billing.running, billing.tasks, billing.records_per_s, billing.lag) == (2, 2, 2.5, 7)
    assert (billing.grade, billing.problem) == ("advice", "task 1: the database is away")
    assert (audit.running, audit.grade, audit.problem) == (0, "bad", "task 0: Broken: row 7")
    assert (idle.grade, idle.problem, idle.lag) == ("", None, None)


@pytest.mark.parametrize(
    ("words", "state", "expected"),
    [
        ("", "", ["audit", "billing", "idle"]),
        ("FILE", "", ["audit", "idle"]),
        ("file idle", "", ["idle"]),
        ("", "problem", ["audit", "billing"]),
        ("", "STOPPED", ["idle"]),
        ("", "rubbish", []),
    ],
)
def test_connectors_are_searched_and_filtered(words: str, state: str, expected: list[str]) -> None:
    assert [each.name for each in selected_connectors(connector_rows(EXPANDED), words, state)] == expected


def test_workers_are_those_that_were_asked_and_those_that_run_something() -> None:
    asked = [
        AskedWorker(url="http://user:word@10.0.0.5:8083", version="4.2", health="healthy"),
        AskedWorker(url="http://10.0.0.9:8083", problem="nobody there"),
    ]
    other = {"status": status("other", {"state": "RUNNING"}, worker="10.0.0.6:8083")}
    known, unasked, silent = worker_rows(asked, {**EXPANDED, "other": other})
    assert (known.address, known.health, known.connectors, known.tasks) == (WORKER, "healthy", 3, 3)
    assert (unasked.address, unasked.health, unasked.connectors, unasked.tasks) == ("10.0.0.6:8083", "", 1, 1)
    assert (silent.grade, silent.problem, silent.tasks) == ("bad", "nobody there", 0)
    assert [each.tasks for each in worker_rows(asked, None)] == [None, None]


def test_the_parts_of_a_connector_have_their_errors_within_bounds() -> None:
    failed = status("audit", {"state": "FAILED", "trace": "Broken\n" + "x" * TRACE_CHARACTERS_MAX})
    own, task = connector_parts(failed)
    assert (own.number, own.state, own.reason, own.trace) == (None, "RUNNING", None, "")
    assert (task.number, task.state, task.grade, task.reason) == (0, "FAILED", "bad", "Broken")
    assert len(task.trace) == TRACE_CHARACTERS_MAX + 1
    assert has_failed(failed)
    assert not has_failed(EXPANDED["idle"]["status"])


def test_secrets_are_hidden_by_declaration_by_name_and_in_urls() -> None:
    config = {
        "name": "c",
        "house.rule": "s3cret",
        "connection.password": "s3cret",
        "connection.url": "postgresql://me:s3cret@db/flights",
        "api.token": "${env:TOKEN}",
        "topics": "flights",
    }
    definitions = [{"name": "house.rule", "type": "PASSWORD"}, {"name": "topics", "type": "LIST"}]
    secrets = secret_keys(config, definitions)
    assert secrets == {"house.rule", "connection.password", "connection.url"}
    shown = shown_config(config, secrets)
    assert "s3cret" not in str(shown)
    assert shown["house.rule"] == HIDDEN
    assert (shown["api.token"], shown["topics"]) == ("${env:TOKEN}", "flights")


def test_without_the_plugins_word_only_a_few_settings_are_shown() -> None:
    config = {"name": "c", "connector.class": "x.Y", "house.rule": "s3cret"}
    assert secret_keys(config, None) == {"house.rule"}


def test_sinks_alone_have_dead_letters() -> None:
    config = {"errors.deadletterqueue.topic.name": " letters "}
    assert dead_letter_topic(config, "sink") == "letters"
    assert dead_letter_topic(config, "source") is None
    assert dead_letter_topic({}, "sink") is None


def sink_offset(partition: int, offset: int) -> dict[str, Any]:
    return {"partition": {"kafka_topic": "t", "kafka_partition": partition}, "offset": {"kafka_offset": offset}}


def test_offsets_are_in_the_order_of_their_partitions() -> None:
    assert offset_rows([sink_offset(10, 5), sink_offset(2, 1234)]) == [("t 2", "1,234"), ("t 10", "5")]
    source: list[dict[str, Any]] = [
        {"partition": {"file": "<b>"}, "offset": {"line": 3}},
        {"partition": {"file": "a"}, "offset": None},
    ]
    assert offset_rows(source) == [('{"file": "<b>"}', '{"line": 3}'), ('{"file": "a"}', "null")]


def test_the_mark_of_offsets_tells_other_ones_and_minds_no_order() -> None:
    mark = offsets_mark([sink_offset(0, 1), sink_offset(1, 1)])
    assert offsets_mark([sink_offset(1, 1), sink_offset(0, 1)]) == mark
    assert offsets_mark([sink_offset(0, 1), sink_offset(1, 2)]) != mark
    assert offsets_mark([]) != mark
