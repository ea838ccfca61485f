"""Slices of files are read whole or not at all."""

import errno
import os
from pathlib import Path
from unittest.mock import patch

import pytest

from ottla_broker.log.segments.log_slice import FileSlice
from ottla_broker.log.segments.segment_file import SegmentFile
from ottla_core.errors import KafkaStorageError


def ignore(_: OSError) -> None:
    """Takes no note of what the disk refuses."""


@pytest.fixture
def file(tmp_path: Path) -> SegmentFile:
    path = tmp_path / "segment"
    path.write_bytes(bytes(range(100)))
    return SegmentFile(path)


def test_a_slice_of_a_file_has_its_bytes_and_what_is_left_of_it_the_rest(file: SegmentFile) -> None:
    piece = FileSlice(file, 10, 20, ignore)
    assert piece.read() == bytes(range(10, 30))
    assert (piece.after(5).size, piece.after(5).read()) == (15, bytes(range(15, 30)))


def test_what_was_cut_off_meanwhile_is_not_read(file: SegmentFile) -> None:
    kept, lost = FileSlice(file, 0, 50, ignore), FileSlice(file, 0, 51, ignore)
    file.valid.cut_at(50)
    assert kept.read() == bytes(range(50))
    with pytest.raises(KafkaStorageError, match="was truncated"):
        lost.read()


def test_a_file_that_is_too_short_is_an_error(file: SegmentFile) -> None:
    with pytest.raises(KafkaStorageError, match="shorter than its index says"):
        FileSlice(file, 90, 11, ignore).read()


def test_a_page_that_cannot_be_read_is_told_as_such_although_those_before_it_can(file: SegmentFile) -> None:
    pread = os.pread

    def refusing(descriptor: int, size: int, position: int) -> bytes:
        if position >= 30:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return pread(descriptor, min(size, 30 - position), position)

    told: list[OSError] = []
    piece = FileSlice(file, 10, 50, told.append)
    with patch.object(os, "pread", refusing):
        with pytest.raises(OSError, match="Input/output error"):
            piece.read()
        piece.look_for_fault()
        assert not told, "what begins here can be read"
        piece.after(20).look_for_fault()
    assert [error.errno for error in told] == [errno.EIO]
