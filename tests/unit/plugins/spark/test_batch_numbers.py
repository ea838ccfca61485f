"""What is known of a query's batches says whether the next one is to be written."""

import pytest

from ottla_spark.datasource.batch_numbers import NumbersUnusable, Step, WrittenBatch, next_step


def step(last: int | None, number: int, since: int = 0) -> Step:
    written = None if last is None else WrittenBatch(last, 10)
    return next_step(written, number, since=since, place="topic 'numbers'")


@pytest.mark.parametrize(
    ("last", "number", "since", "expected"),
    [
        (None, 0, 0, Step.WRITE),
        (0, 0, 0, Step.SKIP),
        (0, 1, 0, Step.WRITE),
        (17, 17, 0, Step.SKIP),
        (17, 18, 3, Step.WRITE),
        (None, 17, 17, Step.WRITE),
        (4, 17, 17, Step.WRITE),
        (17, 17, 17, Step.SKIP),
    ],
    ids=str,
)
def test_a_batch_is_written_unless_it_is_the_last_one_that_was(
    last: int | None, number: int, since: int, expected: Step
) -> None:
    assert step(last, number, since) is expected


@pytest.mark.parametrize(
    ("last", "number", "since", "said"),
    [
        (None, 1, 0, "this is batch 1, and topic 'numbers' says that no batch is the last one written"),
        (3, 5, 0, "batch 3 is the last one written: numbers are missing"),
        (None, 18, 17, "write the option exactlyOnceSince=18"),
        (16, 18, 17, "batch 16 is the last one written"),
        (6, 5, 0, "this is batch 5, and topic 'numbers' says that batch 6 is written"),
        (6, 5, 5, "batch 6 is written"),
    ],
    ids=str,
)
def test_what_may_be_written_or_not_is_refused(last: int | None, number: int, since: int, said: str) -> None:
    with pytest.raises(NumbersUnusable) as raised:
        step(last, number, since)
    assert said in str(raised.value)


@pytest.mark.parametrize(("written", "planned"), [("", ""), ("", "5f3a"), ("5f3a", ""), ("5f3a", "5f3a")], ids=str)
def test_a_batch_of_the_same_offsets_or_of_unknown_ones_is_the_one_that_was_written(
    written: str, planned: str
) -> None:
    last = WrittenBatch(17, 10, written)
    assert next_step(last, 17, since=0, place="topic 'numbers'", offsets=planned) is Step.SKIP
    assert next_step(last, 18, since=0, place="topic 'numbers'", offsets="0000") is Step.WRITE


def test_another_batch_of_the_same_number_is_not_taken_for_the_one_that_was_written() -> None:
    with pytest.raises(NumbersUnusable, match="a batch of this number is written, but of other offsets"):
        next_step(WrittenBatch(17, 10, "5f3a"), 17, since=0, place="topic 'numbers'", offsets="77b1")


@pytest.mark.parametrize(
    ("offsets", "value"),
    [
        ("", b'{"version": 1, "batch": 17, "records": 336776}'),
        ("5f3a", b'{"version": 1, "batch": 17, "records": 336776, "offsets": "5f3a"}'),
    ],
)
def test_a_number_is_read_as_it_was_written(offsets: str, value: bytes) -> None:
    batch = WrittenBatch(17, 336_776, offsets)
    assert batch.to_value() == value
    assert WrittenBatch.from_value(batch.to_value(), "topic 'numbers'") == batch


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (b"17", "that is no number of a batch: b'17'"),
        (b"\xff", "no number of a batch"),
        (b'{"version": 1, "batch": 17}', "no number of a batch"),
        (b'{"version": 1, "batch": null, "records": 1}', "no number of a batch"),
        (b'{"version": 2, "batch": 17, "records": 1}', "topic 'numbers' has a record of version 2; this release"),
    ],
)
def test_other_records_are_refused(value: bytes, said: str) -> None:
    with pytest.raises(NumbersUnusable) as raised:
        WrittenBatch.from_value(value, "topic 'numbers'")
    assert said in str(raised.value)
