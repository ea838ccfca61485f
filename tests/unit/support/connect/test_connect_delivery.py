"""The checks of the faults test notice what they are for."""

import json
from pathlib import Path

from tests.support.connect.connect_delivery import (
    AppendResult,
    Committed,
    Origin,
    SourceTaskId,
    overlap_problems,
    sink_problems,
    source_problems,
)

TASK = SourceTaskId("src", 0)


def appended(position: int, append_ms: int, pid: int = 1) -> AppendResult:
    return AppendResult(TASK, position, pid, append_ms)


def test_records_that_were_there_before_their_offsets_are_well() -> None:
    records = [appended(0, 10), appended(1, 20), appended(1, 90), appended(2, 30)]
    assert not list(source_problems(records, [Committed(TASK, 1, 20), Committed(TASK, 2, 30)]))


def test_a_missing_position_is_noticed() -> None:
    (problem,) = source_problems([appended(0, 10), appended(2, 10)], [Committed(TASK, 2, 50)])
    assert "position 1 is committed and not in the topic" in problem


def test_an_offset_ahead_of_its_records_is_noticed() -> None:
    records = [appended(0, 10), appended(1, 40), appended(2, 30)]
    (problem,) = source_problems(records, [Committed(TASK, 0, 10), Committed(TASK, 2, 35)])
    assert "offset 2 was committed 5 ms before" in problem


def test_a_gap_above_what_is_committed_is_noticed() -> None:
    (problem,) = source_problems([appended(0, 10), appended(2, 20)], [Committed(TASK, 0, 50)])
    assert "position 1 is missing" in problem


def test_processes_that_write_at_the_same_time_are_noticed() -> None:
    apart = [appended(0, 10, pid=1), appended(1, 20, pid=1), appended(1, 30, pid=2)]
    assert not list(overlap_problems(apart))
    (problem,) = overlap_problems([*apart, appended(2, 33, pid=1)])
    assert "process 2 wrote 3 ms before process 1 was done" in problem


def test_a_record_that_is_not_in_the_sink_is_noticed(tmp_path: Path) -> None:
    target = tmp_path / "sink.jsonl"
    lines = [{"event": "start"}, {"event": "record", "topic": "t", "partition": 0, "offset": 7}]
    target.write_text("".join(json.dumps(line) + "\n" for line in lines) + '{"event": "rec')
    assert not list(sink_problems("sink", target, [Origin("t", 0, 7)]))
    (problem,) = sink_problems("sink", target, [Origin("t", 0, 7), Origin("t", 0, 8)])
    assert problem.startswith("sink: 1 records are missing")
