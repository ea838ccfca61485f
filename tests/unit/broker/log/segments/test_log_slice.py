"""Slices of files are read whole or not at all."""

from pathlib import Path

import pytest

from ottla_broker.log.segments.log_slice import FileSlice
from ottla_broker.log.segments.segment_file import SegmentFile
from ottla_core.errors import KafkaStorageError


@pytest.fixture
def file(tmp_path: Path) -> SegmentFile:
    path = tmp_path / "segment"
    path.write_bytes(bytes(range(100)))
    return SegmentFile(path)


def test_a_slice_of_a_file_has_its_bytes_and_what_is_left_of_it_the_rest(file: SegmentFile) -> None:
    piece = FileSlice(file, 10, 20)
    assert piece.read() == bytes(range(10, 30))
    assert (piece.after(5).size, piece.after(5).read()) == (15, bytes(range(15, 30)))


def test_what_was_cut_off_meanwhile_is_not_read(file: SegmentFile) -> None:
    kept, lost = FileSlice(file, 0, 50), FileSlice(file, 0, 51)
    file.valid.cut_at(50)
    assert kept.read() == bytes(range(50))
    with pytest.raises(KafkaStorageError, match="was truncated"):
        lost.read()


def test_a_file_that_is_too_short_is_an_error(file: SegmentFile) -> None:
    with pytest.raises(KafkaStorageError, match="shorter than its index says"):
        FileSlice(file, 90, 11).read()
