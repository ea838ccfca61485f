"""A stream must not begin, or go on, where Spark would take its batches for written."""

from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest

from ottla_sdk import FatalError
from ottla_spark.job.plan import FormatWrite, JobPlan, Output
from ottla_spark.job.query_text import SqlQuery
from ottla_spark.job.table_log import check_table_log

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Place:
    """The folder of a table, and a checkpoint."""

    def __init__(self, folder: Path) -> None:
        self.table, self.checkpoint = folder / "table", folder / "state" / "delays"
        self.writing = FormatWrite(format="parquet", path=f"file:{self.table}")
        self.output = Output(name="delays", writing=self.writing)
        self.plan = JobPlan(
            connector="delays",
            tables=(),
            query=SqlQuery(query="SELECT 1"),
            outputs=(self.output,),
            checkpoint_location=f"file:{self.checkpoint.parent}",
        )

    def has(self, *, written: list[str], begun: list[int]) -> None:
        """Make what Spark leaves behind."""
        for log, names in ((self.table / "_spark_metadata", written), (self.checkpoint / "offsets", begun)):
            log.mkdir(parents=True)
            for name in names:
                (log / str(name)).write_text("v1")
                (log / f".{name}.crc").write_text("")
        (self.checkpoint / "metadata").write_text("{}")

    def check(self) -> None:
        check_table_log(cast("SparkSession", None), self.plan, self.output, self.writing)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@pytest.mark.parametrize(
    ("written", "begun"),
    [
        ([], []),
        ([], [0]),
        (["0", "1"], [0, 1]),
        (["7", "8", "9.compact"], [7, 8, 9, 10]),
        (["9.compact", "10"], [9, 10]),
    ],
    ids=str,
)
def test_a_query_goes_on_whose_checkpoint_knows_all_batches_of_the_table(
    place: Place, written: list[str], begun: list[int]
) -> None:
    place.has(written=written, begun=begun)
    place.check()


@pytest.mark.parametrize(
    ("written", "begun", "said"),
    [
        (["0"], [], "has begun no batch, but in file:"),
        (["0", "1", "2"], [0, 1], "goes up to batch 1, but in file:"),
        (["8", "9.compact"], [7, 8], "is batch 9 of its query: it was put back to an earlier state"),
        (["9.compact", "10"], [0, 1, 2], "is batch 10 of its query"),
    ],
    ids=str,
)
def test_a_checkpoint_that_was_put_back_is_refused_as_rows_of_its_next_batches_would_be_lost(
    place: Place, written: list[str], begun: list[int], said: str
) -> None:
    place.has(written=written, begun=begun)
    with pytest.raises(FatalError) as raised:
        place.check()
    assert said in str(raised.value)


def test_a_query_without_a_checkpoint_does_not_write_into_the_table_of_another(place: Place) -> None:
    place.has(written=["0"], begun=[])
    (place.checkpoint / "metadata").unlink()
    with pytest.raises(FatalError, match="has no checkpoint at"):
        place.check()
