"""A fault waits until a batch has written something and is not done."""

from pathlib import Path

import pytest

from tests.support.spark.spark_faults_moments import Moment, file_count, latest_batch


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    for folder in ("offsets", "commits"):
        (tmp_path / folder).mkdir()
    return tmp_path


def noted(checkpoint: Path, folder: str, batch: int) -> None:
    (checkpoint / folder / str(batch)).touch()
    (checkpoint / folder / f".{batch}.crc").touch()


def test_the_moment_comes_when_a_batch_has_written_something(checkpoint: Path) -> None:
    written = 5
    moment = Moment(checkpoint, lambda: written)
    assert not moment.has_come()
    noted(checkpoint, "offsets", 0)
    assert not moment.has_come(), "the batch has written nothing yet"
    written = 6
    assert moment.has_come()
    noted(checkpoint, "commits", 0)
    assert not moment.has_come(), "the batch is done"
    noted(checkpoint, "offsets", 1)
    assert not moment.has_come(), "what was written is of the batch before"
    written = 7
    assert moment.has_come()


def test_batches_are_numbers_and_an_empty_folder_has_none(checkpoint: Path) -> None:
    assert latest_batch(checkpoint / "offsets") == -1
    for batch in (9, 10):
        noted(checkpoint, "offsets", batch)
    assert latest_batch(checkpoint / "offsets") == 10


def test_only_files_of_rows_are_counted(tmp_path: Path) -> None:
    (tmp_path / "_spark_metadata").mkdir()
    (tmp_path / "part-0.parquet").touch()
    (tmp_path / ".part-0.parquet.crc").touch()
    assert file_count(tmp_path) == 1
