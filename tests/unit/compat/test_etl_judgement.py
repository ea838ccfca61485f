"""The judge of ETLs finds what is lost, and tells repeats that have an explanation from those that have none."""

import json

from tests.compat.etl.judgement import LATE, NOT_COMMITTED, Copy, History, Origin, Verdict, history_of, judged

SOURCE = {Origin(0, offset): f"record {offset}" for offset in range(4)}


def note(at_s: float, event: str, **fields: object) -> str:
    return json.dumps({"at_s": at_s, "event": event, **fields})


def assigned(at_s: float) -> str:
    return note(at_s, "assigned", partitions=[0])


def batch(at_s: float, reading: int) -> list[str]:
    """Records 0 to 3, read at a time and written half a second later."""
    return [
        note(at_s, "read", reading=reading, offsets={"0": [0, 1, 2, 3]}),
        note(at_s + 0.5, "published", reading=reading),
        note(at_s + 0.5, "commit asked", offsets={"0": 4}),
    ]


def granted(at_s: float) -> str:
    return note(at_s, "committed", offsets={"0": 4})


def refused(at_s: float, error: str) -> str:
    return note(at_s, "commit refused", offsets={"0": 4}, error=error)


def written(worker: str, reading: int, offsets: range = range(4)) -> list[str]:
    return [f"{worker} {reading} 0 {offset} RECORD {offset}" for offset in offsets]


def read_again(first: list[str], second: list[str]) -> Verdict:
    """Worker a reads everything, and so does worker b."""
    history = history_of({"a": first, "b": second})
    return judged(SOURCE, [*written("a", 1), *written("b", 1)], history)


def test_what_arrives_once_is_well() -> None:
    history = history_of({"a": [assigned(1), *batch(2, 1), granted(3)]})
    verdict = judged(SOURCE, written("a", 1), history)
    assert (verdict.records, verdict.lost, verdict.wrong) == (4, (), ())
    assert (verdict.explained, verdict.unexplained) == ({}, ())


def test_what_does_not_arrive_is_lost() -> None:
    assert judged(SOURCE, written("a", 1, range(1, 4)), History()).lost == (Origin(0, 0),)


def test_another_value_is_wrong() -> None:
    verdict = judged(SOURCE, [*written("a", 1), "a 1 0 0 record 0"], history_of({"a": [assigned(1), *batch(2, 1)]}))
    assert verdict.wrong == (Copy("a", 1, Origin(0, 0), "record 0"),)


def test_a_record_that_is_read_again_though_its_commit_was_acknowledged_is_unexplained() -> None:
    verdict = read_again([assigned(1), *batch(2, 1), granted(3)], [assigned(4), *batch(5, 1)])
    assert len(verdict.unexplained) == 4
    assert "had got 4 acknowledged at 3.000" in verdict.unexplained[0]
    assert not verdict.explained


def test_a_later_commit_covers_earlier_records() -> None:
    beyond = note(3, "committed", offsets={"0": 9})
    verdict = read_again([assigned(1), *batch(2, 1), refused(2.9, "x"), beyond], [assigned(4), *batch(5, 1)])
    assert len(verdict.unexplained) == 4


def test_a_record_that_was_not_committed_may_be_read_again() -> None:
    verdict = read_again([assigned(1), *batch(2, 1)[:2]], [assigned(4), *batch(5, 1)])
    assert verdict.explained == {NOT_COMMITTED: 4}
    assert not verdict.unexplained


def test_a_commit_that_was_refused_explains_a_repeat() -> None:
    verdict = read_again(
        [assigned(1), *batch(2, 1), refused(3, "CommitFailedError: too late")], [assigned(4), *batch(5, 1)]
    )
    assert verdict.explained == {"CommitFailedError": 4}


def test_a_commit_that_was_acknowledged_after_the_next_assignment_explains_a_repeat() -> None:
    verdict = read_again([assigned(1), *batch(2, 1), granted(4.5)], [assigned(4), *batch(5, 1)])
    assert verdict.explained == {LATE: 4}


def test_what_is_read_twice_under_one_assignment_is_unexplained() -> None:
    history = history_of({"a": [assigned(1), *batch(2, 1), refused(3, "x"), *batch(4, 2)]})
    verdict = judged(SOURCE, [*written("a", 1), *written("a", 2)], history)
    assert verdict.unexplained[0] == f"{Origin(0, 0)}: a read it twice under one assignment"
    assert len(verdict.unexplained) == 4


def test_what_stands_twice_in_the_sink_of_one_reading_is_unexplained() -> None:
    history = history_of({"a": [assigned(1), *batch(2, 1), granted(3)]})
    verdict = judged(SOURCE, [*written("a", 1), *written("a", 1, range(1))], history)
    assert verdict.unexplained == (f"{Origin(0, 0)}: stands 2 times in the sink, of one reading by a",)


def test_the_longest_pause_is_that_of_the_whole_group() -> None:
    history = history_of({"a": batch(2, 1) + batch(9, 2), "b": batch(5, 1)})
    assert judged(SOURCE, written("a", 1), history).longest_pause_s == 4.0


def test_refusals_are_counted_by_their_kind() -> None:
    librdkafka = 'KafkaException: KafkaError{code=ILLEGAL_GENERATION,val=22,str="Commit failed"}'
    history = history_of({"a": [*batch(1, 1), refused(2, librdkafka), *batch(3, 2), refused(4, "a.b.C: d")]})
    assert history.refusals == {"ILLEGAL_GENERATION": 1, "C": 1}
