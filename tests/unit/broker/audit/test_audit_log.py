"""The audit log is bounded, keeps kinds apart, tells what it lacks, and outlives files that cannot be written."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from ottla_broker.audit import audit_log as audit_log_module
from ottla_broker.audit.audit_log import ACCESS_AGAIN_S, QUEUED_MAX, AuditLog
from ottla_broker.audit.audit_records import (
    RESOURCES_MAX,
    TEXT_CHARACTERS_MAX,
    AuditKind,
    AuditResult,
    Caller,
    line,
)
from ottla_broker.audit.audit_sinks import AuditFile
from tests.support.eventually import eventually

ANN = Caller(principal="User:ann", address="10.0.0.9", listener="LOGINS", client_id="tool", api_key=19)


class StandingClock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def time_ms(self) -> int:
        return int(self.now_s * 1000)

    def monotonic(self) -> float:
        return self.now_s


class Collected:
    """A sink that keeps what is written, or refuses it."""

    def __init__(self) -> None:
        self.records: list[Mapping[str, object]] = []
        self.is_full = False
        self.is_closed = False

    def write(self, records: Sequence[Mapping[str, object]]) -> None:
        if self.is_full:
            raise OSError(28, "No space left on device")
        self.records.extend(records)

    def close(self) -> None:
        self.is_closed = True


def audit_log(
    sink: Collected, clock: StandingClock, *, per_second_max: int = 100, has_data: bool = False
) -> AuditLog:
    return AuditLog(sink, clock, per_second_max=per_second_max, has_data=has_data)


def written(audit: AuditLog, sink: Collected) -> list[Mapping[str, object]]:
    """Returns what a log has written when it is closed."""
    audit.start()
    audit.close()
    assert sink.is_closed
    return sink.records


def test_a_record_says_who_did_what_with_which_result() -> None:
    sink, clock = Collected(), StandingClock()
    audit = audit_log(sink, clock)
    audit.note_denial(ANN, "CREATE", "TOPIC:t")
    clock.now_s += 1
    audit.note_change(ANN, ["TOPIC:u"], AuditResult.FAILED, {"TOPIC_ALREADY_EXISTS": 1})
    common = {
        "principal": "User:ann",
        "address": "10.0.0.9",
        "listener": "LOGINS",
        "client_id": "tool",
        "api": "CreateTopics",
    }
    assert written(audit, sink) == [
        {
            "time": "1970-01-01T00:16:40.000Z",
            "kind": "denial",
            **common,
            "operation": "CREATE",
            "resources": ["TOPIC:t"],
            "result": "denied",
        },
        {
            "time": "1970-01-01T00:16:41.000Z",
            "kind": "administration",
            **common,
            "resources": ["TOPIC:u"],
            "result": "failed",
            "errors": {"TOPIC_ALREADY_EXISTS": 1},
        },
    ]
    assert audit.written == {AuditKind.DENIAL: 1, AuditKind.ADMINISTRATION: 1}


def test_a_flood_of_denials_takes_no_room_from_what_administrators_do_and_is_told_of() -> None:
    sink = Collected()
    audit = audit_log(sink, StandingClock(), per_second_max=5)
    for _ in range(10):
        audit.note_denial(ANN, "CREATE", "TOPIC:t")
    audit.note_change(ANN, ["TOPIC:u"], AuditResult.DONE, {})
    records = written(audit, sink)
    assert [record["kind"] for record in records] == ["denial"] * 4 + ["administration", "dropped"]
    assert records[-1]["dropped"] == {"denial": 6}
    assert audit.dropped()[AuditKind.DENIAL] == 6


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (ANN, replace(ANN, principal="User:admin")),
        (replace(ANN, principal="User:ANONYMOUS"), replace(ANN, principal="User:ANONYMOUS", address="10.0.0.1")),
    ],
    ids=["users", "addresses"],
)
def test_who_changes_something_of_its_own_all_the_time_leaves_room_for_others(one: Caller, other: Caller) -> None:
    """As by deleting records of a topic of its own, while an administrator does what nobody shall know of."""
    sink, clock = Collected(), StandingClock()
    audit = audit_log(sink, clock, per_second_max=10)
    for _ in range(100):
        audit.note_change(one, ["TOPIC:own"], AuditResult.DONE, {})
        clock.now_s += 0.001
    audit.note_change(other, ["TOPIC:theirs"], AuditResult.DONE, {})
    records = written(audit, sink)
    assert [record["resources"] for record in records if "resources" in record].count(["TOPIC:own"]) == 8
    assert ["TOPIC:theirs"] in [record.get("resources") for record in records]


def test_how_much_each_has_taken_is_kept_of_so_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_log_module, "CLIENTS_KNOWN_MAX", 3)
    audit = audit_log(Collected(), StandingClock())
    for number in range(20):
        audit.note_denial(replace(ANN, principal=f"User:{number}"), "CREATE", "TOPIC:t")
        assert len(audit._rates_of_one) <= 3


@pytest.mark.parametrize("result", [AuditResult.DENIED, AuditResult.FAILED])
def test_a_flood_of_changes_that_come_to_nothing_takes_no_room_from_changes_that_were_made(
    result: AuditResult,
) -> None:
    sink = Collected()
    audit = audit_log(sink, StandingClock(), per_second_max=5)
    for _ in range(10):
        audit.note_change(ANN, ["TOPIC:t"], result, {"SOME_ERROR": 1}, in_vain=True)
    audit.note_change(ANN, ["TOPIC:u"], AuditResult.DONE, {})
    audit.note_change(ANN, ["TOPIC:v"], AuditResult.FAILED, {"SOME_ERROR": 1})
    records = written(audit, sink)
    assert [record.get("resources") for record in records] == [["TOPIC:u"], ["TOPIC:v"], *[["TOPIC:t"]] * 4, None]
    assert records[-1]["dropped"] == {"administration": 6}
    assert audit.written == {AuditKind.ADMINISTRATION: 6}


def test_no_more_than_so_many_records_wait() -> None:
    sink = Collected()
    audit = audit_log(sink, StandingClock(), per_second_max=2 * QUEUED_MAX)
    for _ in range(QUEUED_MAX + 5):
        audit.note_denial(ANN, "CREATE", "TOPIC:t")
    assert audit.dropped()[AuditKind.DENIAL] == 5
    assert len(written(audit, sink)) == QUEUED_MAX + 1


def test_more_records_come_as_time_passes() -> None:
    sink, clock = Collected(), StandingClock()
    audit = audit_log(sink, clock, per_second_max=5)
    for _ in range(5):
        audit.note_denial(ANN, "CREATE", "TOPIC:t")
    clock.now_s += 0.25
    audit.note_denial(ANN, "CREATE", "TOPIC:t")
    assert audit.dropped()[AuditKind.DENIAL] == 1


def test_who_reads_all_the_time_has_one_record_of_it_for_a_while() -> None:
    sink, clock = Collected(), StandingClock()
    audit = audit_log(sink, clock, has_data=True)
    for _ in range(3):
        audit.note_access(ANN, "READ", "TOPIC:t")
    audit.note_access(ANN, "WRITE", "TOPIC:t")
    clock.now_s += ACCESS_AGAIN_S
    audit.note_access(ANN, "READ", "TOPIC:t")
    assert [record["operation"] for record in written(audit, sink)] == ["READ", "WRITE", "READ"]


def test_what_is_known_of_accesses_has_no_long_names() -> None:
    audit = audit_log(Collected(), StandingClock(), has_data=True)
    for number in range(10):
        audit.note_access(ANN, "READ", f"TOPIC:{'n' * 20_000}{number}")
    assert all(len(text) <= TEXT_CHARACTERS_MAX + 1 for access in audit._accesses for text in access)


def test_what_a_full_disk_refuses_is_told_when_there_is_room_again() -> None:
    sink, clock = Collected(), StandingClock()
    sink.is_full = True
    audit = audit_log(sink, clock)
    audit.start()
    audit.note_denial(ANN, "CREATE", "TOPIC:lost")
    eventually(lambda: audit.dropped()[AuditKind.DENIAL] == 1, "the record is given up")
    sink.is_full = False
    audit.note_denial(ANN, "CREATE", "TOPIC:t")
    audit.close()
    assert [record.get("resources") for record in sink.records] == [["TOPIC:t"], None]
    assert sink.records[-1]["dropped"] == {"denial": 1}


def test_what_clients_choose_is_cut_and_cannot_forge_a_line() -> None:
    names = [f"TOPIC:{'n' * 5000}"] * (RESOURCES_MAX + 2)
    sink = Collected()
    audit = audit_log(sink, StandingClock())
    caller = Caller("User:eve", "10.0.0.9", "LOGINS", 'x"}\n{"kind":"administration', 19)
    audit.note_change(caller, names, AuditResult.DONE, {})
    (fields,) = written(audit, sink)
    text = line(fields)
    assert text.count(b"\n") == 1
    assert len(text) < (RESOURCES_MAX + 3) * (TEXT_CHARACTERS_MAX + 20)
    read = json.loads(text)
    assert read["client_id"] == caller.client_id
    assert read["resources_left_out"] == 2


def test_a_file_is_for_its_owner_and_a_new_one_is_begun_when_it_is_moved(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    sink = AuditFile(path)
    sink.write([{"number": 1}])
    assert path.stat().st_mode & 0o777 == 0o600
    path.rename(tmp_path / "audit.log.1")
    sink.write([{"number": 2}])
    sink.write([{"number": 3}])
    sink.close()
    assert (tmp_path / "audit.log.1").read_text() == '{"number":1}\n'
    assert path.read_text() == '{"number":2}\n{"number":3}\n'
