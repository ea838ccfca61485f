"""A script of `ottla sql` whose reader goes away (`| head`): whether that is told depends on what is left undone."""

import pytest

from ottla_spark.sql.scripts import run_script
from ottla_spark.sql.sql_errors import ReaderGone, SqlProblem


def closes_after_first(text: str) -> bool:
    """Run a statement whose result nobody reads to its end."""
    assert text.startswith("SELECT 1")
    raise ReaderGone


@pytest.mark.parametrize("rest", ["", "SELECT 2; SHOW TOPICS"])
def test_a_script_that_would_only_show_more_has_nothing_to_tell(rest: str) -> None:
    with pytest.raises(ReaderGone):
        run_script(f"SELECT 1; {rest}", closes_after_first)


@pytest.mark.parametrize(
    "change",
    ["CREATE PIPELINE p AS SELECT 1", "DROP PIPELINE p", "INSERT INTO copies SELECT 1", "DROP PIPELINE"],
)
def test_a_statement_that_is_left_undone_is_named(change: str) -> None:
    with pytest.raises(SqlProblem, match=r"nobody reads the result of statement 1, .* at line 3 was not carried out"):
        run_script(f"SELECT 1;\nSELECT 2;\n{change};", closes_after_first)
