"""Starting after a crash: torn tails, damage in the middle, lost indexes, producers and epochs."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from ottla_broker.log.partition.partition_log import PartitionLog
from ottla_broker.log.segments.segment_scan import DamagedBytes, FoundBatch, scan
from ottla_core.errors import CorruptMessage
from ottla_core.wire.record_batch import parse_header
from tests.support.broker.partition_logs import (
    NOW_MS,
    append,
    batch_of,
    open_log,
    problems_in,
    read_batches,
    read_values,
    segment_files,
    small_segments,
)

CONFIG = small_segments()


def written(directory: Path, batches: int = 20, **batch: Any) -> list[tuple[int, bytes | None]]:
    """Write a log of several segments as a crash leaves it; return its records."""
    log = open_log(directory, config=CONFIG)
    for number in range(batches):
        append(log, b"value %d" % number, timestamps=[NOW_MS + number], leader_epoch=number // 8, **batch)
    values = read_values(log)
    log.flush()
    log.abandon()
    return values


def after_crash(directory: Path, recovery_point: int = 0) -> PartitionLog:
    return open_log(directory, config=CONFIG, was_clean=False, recovery_point=recovery_point)


def positions(path: Path) -> Sequence[int]:
    """Where the batches of a segment start."""
    data = path.read_bytes()
    found, position = [], 0
    while position < len(data):
        found.append(position)
        position += parse_header(data, position).size_bytes
    return found


def flip(path: Path, position: int) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= 0x40
    path.write_bytes(data)


def test_an_intact_log_comes_back_whole(tmp_path: Path) -> None:
    values = written(tmp_path)
    with capture_logs() as logs:
        log = after_crash(tmp_path)
    assert read_values(log) == values
    assert [entry for entry in logs if entry["log_level"] in {"warning", "error"}] == []
    assert log.end_offset_for_epoch(0) == (0, 8)
    assert problems_in(tmp_path) == []


@pytest.mark.parametrize("kept", [1, 11, 12, 60, 61, 62, 80])
def test_a_torn_tail_is_cut_and_reported(tmp_path: Path, kept: int) -> None:
    values = written(tmp_path)
    path = segment_files(tmp_path)[-1]
    size = path.stat().st_size
    torn = batch_of(b"never finished", base_offset=len(values))[:kept]
    path.write_bytes(path.read_bytes() + torn)
    with capture_logs() as logs:
        log = after_crash(tmp_path)
    assert read_values(log) == values
    assert path.stat().st_size == size
    (report,) = [entry for entry in logs if entry["log_level"] == "warning"]
    assert report["bytes"] == kept
    assert report["from_offset"] == len(values)
    assert report["position"] == size
    assert append(log, b"next").base_offset == len(values)


def test_zeros_at_the_end_are_a_torn_tail(tmp_path: Path) -> None:
    values = written(tmp_path)
    path = segment_files(tmp_path)[-1]
    path.write_bytes(path.read_bytes() + bytes(5000))
    assert read_values(after_crash(tmp_path)) == values


def test_a_torn_tail_is_cut_even_if_the_stop_is_said_to_have_been_clean(tmp_path: Path) -> None:
    values = written(tmp_path)
    path = segment_files(tmp_path)[-1]
    path.write_bytes(path.read_bytes() + b"\x00\x01\x02")
    assert read_values(open_log(tmp_path, config=CONFIG)) == values


@pytest.mark.parametrize("field", [0, 9, 16, 18, 22, 61, 70])
@pytest.mark.parametrize("segment", [0, 1, -1])
def test_damage_in_the_middle_costs_one_batch_and_is_reported(tmp_path: Path, field: int, segment: int) -> None:
    """Bits flipped in the base offset, length, magic, CRC, attributes and records of a batch."""
    values = written(tmp_path)
    path = segment_files(tmp_path)[segment]
    original = path.read_bytes()
    flip(path, positions(path)[1] + field)
    damaged = path.read_bytes()
    lost = int(path.stem) + 1
    with capture_logs() as logs:
        log = after_crash(tmp_path)
    assert read_values(log) == [value for value in values if value[0] != lost]
    (report,) = [entry for entry in logs if entry["log_level"] == "error"]
    assert (report["first_lost_offset"], report["last_lost_offset"]) == (lost, lost)
    assert Path(report["kept_as"]).read_bytes() == damaged
    assert len(path.read_bytes()) < len(original)
    assert problems_in(tmp_path) == []
    log.close()
    assert read_values(after_crash(tmp_path)) == [value for value in values if value[0] != lost]


def test_a_segment_that_lost_its_end_keeps_the_ones_after_it(tmp_path: Path) -> None:
    values = written(tmp_path)
    first, second = segment_files(tmp_path)[:2]
    cut = positions(first)[-1] + 10
    os.truncate(first, cut)
    with capture_logs() as logs:
        log = after_crash(tmp_path)
    lost = int(second.stem) - 1
    assert read_values(log) == [value for value in values if value[0] != lost]
    assert [entry["first_lost_offset"] for entry in logs if entry["log_level"] == "error"] == [lost]


def test_damage_and_a_torn_tail_together(tmp_path: Path) -> None:
    values = written(tmp_path)
    path = segment_files(tmp_path)[-1]
    path.write_bytes(path.read_bytes() + b"torn")
    flip(path, 70)
    lost = int(path.stem)
    log = after_crash(tmp_path)
    assert read_values(log) == [value for value in values if value[0] != lost]
    assert append(log, b"next").base_offset == len(values)


def test_a_second_damage_keeps_the_first_original_too(tmp_path: Path) -> None:
    written(tmp_path)
    path = segment_files(tmp_path)[0]
    for _ in range(2):
        flip(path, 70)
        after_crash(tmp_path).abandon()
    assert sorted(found.name for found in tmp_path.glob("*.corrupt*")) == [
        f"{path.name}.corrupt",
        f"{path.name}.corrupt.1",
    ]


def test_segments_below_the_recovery_point_are_believed(tmp_path: Path) -> None:
    written(tmp_path)
    path = segment_files(tmp_path)[0]
    flip(path, 70)
    with capture_logs() as logs:
        after_crash(tmp_path, recovery_point=20)
    assert [entry for entry in logs if entry["log_level"] == "error"] == []


@pytest.mark.parametrize("was_clean", [True, False])
@pytest.mark.parametrize("spoil", ["unlink", "odd", "beyond"])
@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_bad_indexes_are_rebuilt(tmp_path: Path, suffix: str, spoil: str, was_clean: bool) -> None:
    values = written(tmp_path)
    before = {path: path.read_bytes() for path in segment_files(tmp_path, suffix)}
    for path in before:
        if spoil == "unlink":
            path.unlink()
        elif spoil == "odd":
            path.write_bytes(path.read_bytes() + b"\0\0\0")
        else:
            path.write_bytes(b"\x7f" * 24)
    log = open_log(tmp_path, config=CONFIG, was_clean=was_clean, recovery_point=20)
    for offset, value in values:
        assert read_values(log, offset)[0] == (offset, value)
        assert log.offset_for_timestamp(NOW_MS + offset) == (offset, NOW_MS + offset, offset // 8)
    assert problems_in(tmp_path) == []
    log.close()


def test_an_index_without_its_segment_is_removed(tmp_path: Path) -> None:
    written(tmp_path)
    stray = tmp_path / f"{999:020d}.index"
    stray.write_bytes(b"")
    after_crash(tmp_path)
    assert not stray.exists()


def test_leftovers_of_deletions_are_removed(tmp_path: Path) -> None:
    written(tmp_path)
    leftovers = [tmp_path / f"{0:020d}.log.deleted", tmp_path / "leader-epoch-checkpoint.tmp"]
    for path in leftovers:
        path.write_bytes(b"x")
    after_crash(tmp_path)
    assert not any(path.exists() for path in leftovers)


@pytest.mark.parametrize("snapshots", ["kept", "lost", "damaged"])
def test_producers_are_known_again(tmp_path: Path, snapshots: str) -> None:
    log = open_log(tmp_path, config=CONFIG)
    for number in range(20):
        append(log, b"v" * 30, producer=(7, 0, number))
    log.abandon()
    for path in segment_files(tmp_path, ".snapshot"):
        if snapshots == "lost":
            path.unlink()
        elif snapshots == "damaged":
            path.write_bytes(b"\0\1bad")
    log = after_crash(tmp_path)
    assert append(log, b"v" * 30, producer=(7, 0, 19)).duplicate
    assert append(log, b"v" * 30, producer=(7, 0, 20)).base_offset == 20


def test_lost_epochs_are_found_in_the_batches(tmp_path: Path) -> None:
    written(tmp_path)
    (tmp_path / "leader-epoch-checkpoint").write_text("garbage")
    log = after_crash(tmp_path)
    assert [tuple(entry) for entry in log.leader_epochs.entries] == [(0, 0), (1, 8), (2, 16)]


def test_a_log_that_ends_before_its_start_begins_anew(tmp_path: Path) -> None:
    written(tmp_path)
    log = open_log(tmp_path, config=CONFIG, was_clean=False, log_start_offset=100)
    assert (log.log_start_offset, log.log_end_offset, read_values(log)) == (100, 100, [])
    assert append(log, b"v").base_offset == 100


def test_damage_under_a_running_broker_is_an_error_and_not_a_gap(tmp_path: Path) -> None:
    written(tmp_path)
    log = open_log(tmp_path, config=CONFIG)
    path = segment_files(tmp_path)[0]
    flip(path, positions(path)[1] + 16)
    with pytest.raises(CorruptMessage, match="damaged at position"):
        read_batches(log, 1, max_bytes=1)


def test_a_batch_inside_a_record_is_not_taken_for_one_of_the_log(tmp_path: Path) -> None:
    """A mirrored segment may be the value of a record; damage before it must not bring it up."""
    inner = batch_of(b"inner", base_offset=1)
    path = tmp_path / "segment"
    outer = batch_of(b"outer " + inner)
    following = batch_of(b"next", base_offset=1)
    path.write_bytes(outer + following)
    flip(path, 66)
    with path.open("rb") as file:
        found = list(scan(file.fileno(), path.stat().st_size, 0, None))
    assert [type(item) for item in found] == [DamagedBytes, FoundBatch]
    assert found[1].position == len(outer)


@pytest.mark.parametrize("inner_offset", [1, 2, 1000])
@pytest.mark.parametrize("lost_bytes", [1, 40, 4000])
def test_a_torn_batch_does_not_bring_up_a_batch_inside_it(tmp_path: Path, inner_offset: int, lost_bytes: int) -> None:
    log = open_log(tmp_path)
    append(log, b"one")
    inner = bytearray(batch_of(b"never appended"))
    inner[:8] = inner_offset.to_bytes(8, "big")
    append(log, bytes(inner) + b"z" * 5000)
    log.flush()
    log.abandon()
    (path,) = segment_files(tmp_path)
    os.truncate(path, path.stat().st_size - lost_bytes)
    log = open_log(tmp_path, was_clean=False)
    assert read_values(log) == [(0, b"one")]
    assert not list(tmp_path.glob("*.corrupt*"))


def test_a_tear_right_behind_a_batch_inside_a_record_does_not_bring_it_up(tmp_path: Path) -> None:
    inner = batch_of(b"never appended")
    outer = batch_of(inner)
    end = outer.index(inner) + len(inner)
    assert findings(tmp_path, outer[:end]) == [DamagedBytes]


def test_a_batch_inside_one_that_lost_its_header_is_not_brought_up(tmp_path: Path) -> None:
    """A block of zeros where the header was, as file systems may leave after a power failure."""
    inner = bytearray(batch_of(b"never appended"))
    outer = batch_of(bytes(inner) + b"z" * 500)
    assert findings(tmp_path, bytes(61) + outer[61:]) == [DamagedBytes]


@pytest.mark.parametrize("torn_bytes", [0, 20, 70])
def test_zeros_in_the_last_segment_cost_only_the_batches_they_hit(tmp_path: Path, torn_bytes: int) -> None:
    torn = offset_by(4, batch_of(b"torn"))[:torn_bytes]
    found = findings(tmp_path, bytes(500) + offset_by(2, batch_of(b"x")) + offset_by(3, batch_of(b"y")) + torn)
    assert found == [DamagedBytes, FoundBatch, FoundBatch, DamagedBytes][: 4 if torn else 3]


def test_two_damaged_batches_in_a_row_cost_only_themselves(tmp_path: Path) -> None:
    path = tmp_path / "segment"
    batches = [offset_by(number, batch_of(b"value")) for number in range(4)]
    path.write_bytes(b"".join(batches))
    for number in (1, 2):
        flip(path, number * len(batches[0]) + 66)
    assert findings(tmp_path, path.read_bytes()) == [FoundBatch, DamagedBytes, FoundBatch]


def offset_by(offset: int, batch: bytes) -> bytes:
    return offset.to_bytes(8, "big") + batch[8:]


def findings(directory: Path, content: bytes) -> list[type]:
    """What a scan finds in a log's last segment of this content."""
    path = directory / "segment"
    path.write_bytes(content)
    with path.open("rb") as file:
        return [type(found) for found in scan(file.fileno(), len(content), 0, None)]


def test_batches_that_go_back_in_offsets_are_damage(tmp_path: Path) -> None:
    path = tmp_path / "segment"
    path.write_bytes(batch_of(b"a", b"b") + batch_of(b"again", base_offset=1) + batch_of(b"c", base_offset=2))
    with path.open("rb") as file:
        found = list(scan(file.fileno(), path.stat().st_size, 0, None))
    assert [type(item) for item in found] == [FoundBatch, DamagedBytes, FoundBatch]


def test_a_scan_finds_batches_across_its_chunks(tmp_path: Path) -> None:
    path = tmp_path / "segment"
    first = batch_of(os.urandom(3_000_000))
    noise = bytes(1_048_570) + b"\2" * 40
    second = batch_of(b"second", base_offset=1)
    path.write_bytes(first + noise + second)
    with path.open("rb") as file:
        found = list(scan(file.fileno(), path.stat().st_size, 0, None))
    assert [item.position for item in found] == [0, len(first), len(first) + len(noise)]
