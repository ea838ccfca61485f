"""How the rows of a query are shown."""

from collections.abc import Iterator
from datetime import UTC, datetime
from unittest.mock import MagicMock

import pytest

from ottla_spark.sql import queries
from ottla_spark.sql.queries import COLLECTED_ROWS_MAX, Piece, show_all
from ottla_spark.sql.row_streams import ROWS_PER_BATCH_MAX
from ottla_spark.sql.sql_errors import SqlProblem


def shown(monkeypatch: pytest.MonkeyPatch, count: int, rows_max: int | None) -> tuple[list[Piece], int]:
    """Return what is emitted of so many rows, and how many batches were read of Spark."""
    read = 0

    def batches(*_: object) -> Iterator[list[int]]:
        nonlocal read
        for first in range(0, count, ROWS_PER_BATCH_MAX):
            read += 1
            yield list(range(first, min(first + ROWS_PER_BATCH_MAX, count)))

    frame, work = MagicMock(columns=["a"]), MagicMock()
    frame.limit.side_effect = lambda most: MagicMock(collect=lambda: list(range(min(most, count))))
    for name, stand_in in {"row_batches": batches, "_has_few_rows": lambda _: False, "_zone": lambda _: None}.items():
        monkeypatch.setattr(queries, name, stand_in)
    show_all(frame, work, rows_max)
    return [call.args[0] for call in work.emit.call_args_list[1:]], read


@pytest.mark.parametrize(
    ("most", "is_collected"), [(None, False), (0, True), (COLLECTED_ROWS_MAX, True), (COLLECTED_ROWS_MAX + 1, False)]
)
def test_the_rows_of_a_limit_are_collected_as_spark_then_reads_no_more_than_it_needs(
    monkeypatch: pytest.MonkeyPatch, most: int | None, is_collected: bool
) -> None:
    frame = MagicMock(columns=["a"])
    plan = frame._jdf.queryExecution.return_value.optimizedPlan.return_value
    plan.nodeName.return_value = "Filter"
    plan.maxRows.return_value.isDefined.return_value = most is not None
    plan.maxRows.return_value.get.return_value = most
    frame.collect.return_value = []
    monkeypatch.setattr(queries, "row_batches", lambda *_: (each for each in ()))
    monkeypatch.setattr(queries, "_zone", lambda _: None)
    show_all(frame, MagicMock(), None)
    assert frame.collect.called is is_collected


def test_a_time_that_python_does_not_have_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    frame = MagicMock(columns=["a"])
    frame.limit.return_value.collect.side_effect = lambda: datetime.fromtimestamp(1_717_200_000_000, UTC)
    monkeypatch.setattr(queries, "_has_few_rows", lambda _: False)
    monkeypatch.setattr(queries, "_zone", lambda _: None)
    with pytest.raises(SqlProblem, match=r"year 56385 is out of range.*CAST"):
        show_all(frame, MagicMock(), 5)


@pytest.mark.parametrize("count", [0, 1, ROWS_PER_BATCH_MAX, 3 * ROWS_PER_BATCH_MAX, 3 * ROWS_PER_BATCH_MAX + 1])
@pytest.mark.parametrize("rows_max", [None, 1, COLLECTED_ROWS_MAX, COLLECTED_ROWS_MAX + 1, 3 * ROWS_PER_BATCH_MAX])
def test_no_more_rows_than_asked_for_are_shown_or_kept(
    monkeypatch: pytest.MonkeyPatch, count: int, rows_max: int | None
) -> None:
    pieces, read = shown(monkeypatch, count, rows_max)
    wanted = count if rows_max is None else min(count, rows_max)
    rows: list[object] = [row for piece in pieces for row in piece.rows]
    assert rows == list(range(wanted))
    assert [piece.is_cut for piece in pieces] == [False] * (len(pieces) - 1) + [count > wanted]
    assert max(len(piece.rows) for piece in pieces) <= ROWS_PER_BATCH_MAX
    collects = rows_max is not None and rows_max <= COLLECTED_ROWS_MAX
    assert read == (0 if collects else -(-min(count, wanted + 1) // ROWS_PER_BATCH_MAX))
