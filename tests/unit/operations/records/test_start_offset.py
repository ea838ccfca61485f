"""What `--offset` means."""

import pytest

from ottla.records.partition_reading import first_offset
from ottla_operations.errors import OperationError
from ottla_operations.records.start_offset import Anchor, BadOffset, StartOffset, parse_start_offset


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("earliest", StartOffset(Anchor.EARLIEST)),
        ("latest", StartOffset(Anchor.LATEST)),
        ("17", StartOffset(Anchor.OFFSET, 17)),
        ("-10", StartOffset(Anchor.BEFORE_END, 10)),
        ("@1357034400000", StartOffset(Anchor.TIME_MS, 1357034400000)),
        ("2013-01-01T10:00", StartOffset(Anchor.TIME_MS, 1357034400000)),
        ("2013-01-01T11:00+01:00", StartOffset(Anchor.TIME_MS, 1357034400000)),
    ],
)
def test_a_place_is_read(text, meant):
    assert parse_start_offset(text) == meant


@pytest.mark.parametrize("text", ["", "first", "1.5", "--1", "2013-13-01", "@"])
def test_what_is_no_place_is_refused(text):
    with pytest.raises(BadOffset, match="is no offset"):
        parse_start_offset(text)


def test_the_last_n_never_reach_before_the_first():
    assert first_offset(StartOffset(Anchor.BEFORE_END, 3), 10, 20, 0) == 17
    assert first_offset(StartOffset(Anchor.BEFORE_END, 30), 10, 20, 0) == 10


def test_an_offset_outside_names_the_partition_and_what_it_holds():
    assert first_offset(StartOffset(Anchor.OFFSET, 20), 10, 20, 4) == 20
    with pytest.raises(OperationError, match="partition 4 has no offset 9; it holds 10 to 19"):
        first_offset(StartOffset(Anchor.OFFSET, 9), 10, 20, 4)
