"""Messages of all processes, read from the forms that they are logged in."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from ottla.local.log_files import LogFile, is_chosen, merged, processes_of
from ottla.local.log_lines import LogLine, LogLineParser, as_json, for_people, is_at_least, process_colours

SERVICE = (
    '{"count": 3, "path": "/a b", "event": "loaded logs", "service": "broker-1", "level": "warning", '
    '"timestamp": "2026-11-23T07:33:58.980000Z"}'
)
ETCD = '{"level":"warn","ts":"2026-11-23T07:33:59.386Z","caller":"x.go:1","msg":"slow","took":"2s"}'
START = "--- 2026-11-23T07:33:52.520+00:00 ottla starts broker-1: python -m ottla_broker"
SUPERVISOR = "2026-11-23 09:33:52,096 INFO    starting etcd-1"


def reader(process: str = "broker-1") -> LogLineParser:
    return LogLineParser(process, lambda _moment: timedelta(hours=2))


def at(second: int, millisecond: int) -> datetime:
    return datetime(2026, 11, 23, 7, 33, second, millisecond * 1000, UTC)


@pytest.mark.parametrize(
    ("line", "time", "level", "text", "fields"),
    [
        (SERVICE, at(58, 980), "warning", "loaded logs", {"count": 3, "path": "/a b"}),
        (ETCD, at(59, 386), "warning", "slow", {"took": "2s"}),
        (START, at(52, 520), "info", "ottla starts broker-1: python -m ottla_broker", {}),
        (SUPERVISOR, at(52, 96), "info", "starting etcd-1", {}),
    ],
)
def test_every_form_says_when_how_grave_and_what(line, time, level, text, fields):
    made = reader().read(line)
    assert (made.time, made.level, made.text, made.fields) == (time, level, text, fields)


def test_other_lines_belong_to_the_one_before():
    reading = reader()
    first = reading.read(SERVICE)
    for line in ("Traceback (most recent call last):", "{no json", '{"event": "without a time"}', "--- what"):
        made = reading.read(line)
        assert (made.time, made.level, made.text) == (first.time, first.level, line)


def test_messages_are_shown_in_one_line_with_their_fields_and_tracebacks_below():
    shown = for_people(reader().read(SERVICE), process_width=10, colour_of=None)
    assert shown.endswith('broker-1   WARNING  loaded logs count=3 path="/a b"')
    failed = json.dumps({**json.loads(SERVICE), "exception": "Traceback\n  File x\n", "event": "\x1b[2J"})
    shown = for_people(reader().read(failed), process_width=1, colour_of=process_colours(["broker-1"]))
    assert "\n  File x" in shown
    assert "\\x1b[2J" in shown
    assert "\x1b[33m" in shown


def test_json_is_as_it_was_logged_and_names_its_process():
    assert as_json(reader().read(SERVICE)) == SERVICE
    assert json.loads(as_json(reader("etcd-1").read(ETCD)))["service"] == "etcd-1"
    made = json.loads(as_json(reader("supervisor").read(SUPERVISOR)))
    assert (made["event"], made["service"], made["level"]) == ("starting etcd-1", "supervisor", "info")


def test_levels_are_ordered():
    line = LogLine(at(1, 0), "p", "warning", "", "")
    assert [is_at_least(line, level) for level in ("debug", "info", "warning", "error", "critical")] == [
        True, True, True, False, False,
    ]  # fmt: skip


def test_processes_are_chosen_by_name_or_role(tmp_path: Path):
    for name in ("broker-1", "broker-2", "group-coordinator-1", "supervisor"):
        (tmp_path / f"{name}.log").touch()
    there = processes_of(tmp_path)
    assert there == ["supervisor", "broker-1", "broker-2", "group-coordinator-1"]
    assert [name for name in there if is_chosen(name, ["broker", "supervisor"])] == [
        "supervisor",
        "broker-1",
        "broker-2",
    ]
    assert [name for name in there if is_chosen(name, ["group-coordinator", "broker-2"])] == there[2:]
    assert [name for name in there if is_chosen(name, [])] == there


def test_files_are_merged_by_time_and_followed_over_halves_of_lines_and_new_files(tmp_path: Path):
    broker, etcd = tmp_path / "broker-1.log", tmp_path / "etcd-1.log"
    broker.write_text(f"{START}\n{SERVICE}\n")
    early = ETCD.replace("07:33:59", "07:33:40")
    etcd.write_text(f"{early}\n")
    files = [LogFile(tmp_path, "etcd-1"), LogFile(tmp_path, "broker-1"), LogFile(tmp_path, "none-1")]
    assert [line.raw for line in merged(file.last() for file in files)] == [early, START, SERVICE]
    with broker.open("a") as more:
        more.write(SERVICE[:10])
        more.flush()
        assert files[1].more() == []
        more.write(f"{SERVICE[10:]}\n")
    assert [line.raw for line in files[1].more()] == [SERVICE]
    broker.unlink()
    broker.write_text(f"{START}\n")
    assert [line.raw for line in files[1].more()] == [START]
    assert files[1].more() == []
