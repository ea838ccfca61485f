"""The last lines of every process are kept, and no more than that."""

from ottla_connect.processes.process_logs import LineRing, ProcessLogs


def test_lines_bear_their_time() -> None:
    logs = ProcessLogs()
    logs.add("flights", 1, 1_767_225_600.25, ["one", "two"])
    assert logs.lines("flights", 1, 10) == ["2026-01-01T00:00:00.250Z one", "2026-01-01T00:00:00.250Z two"]
    assert logs.lines("flights", 1, 1) == ["2026-01-01T00:00:00.250Z two"]
    assert logs.lines("flights", 1, 0) == []
    assert logs.lines("flights", None, 10) == []


def test_old_lines_make_room_by_number_and_by_size() -> None:
    ring = LineRing(lines_max=3, characters_max=10)
    for number in range(5):
        ring.add(0, f"{number}")
    assert ring.texts(10) == ["2", "3", "4"]
    ring.add(0, "123456789")
    assert ring.texts(10) == ["4", "123456789"]
    ring.add(0, "a line that is longer than all that is kept")
    assert ring.texts(10) == ["a line that is longer than all that is kept"]


def test_what_was_silent_longest_is_forgotten_first() -> None:
    logs = ProcessLogs(processes_max=2)
    logs.add("a", None, 0, ["line"])
    logs.add("b", None, 0, ["line"])
    logs.add("a", None, 0, ["line"])
    logs.add("c", None, 0, ["line"])
    assert logs.lines("a", None, 1)
    assert logs.lines("c", None, 1)
    assert not logs.lines("b", None, 1)
