"""Where to begin again when the target has lost what it had."""

from typing import Any, Literal
from uuid import UUID

import pytest

from ottla_mirror.copy import partition_start
from ottla_mirror.copy.copy_settings import CopySettings
from ottla_mirror.copy.log_offsets import EARLIEST, LATEST
from ottla_mirror.copy.partition_start import (
    ATTEMPTS_BEFORE_LOST,
    PartitionStart,
    StartOffsets,
    cut_of,
    session_start,
    source_offset_of,
)
from ottla_mirror.copy.partition_work import PartitionWork
from ottla_mirror.model import SourcePartition
from ottla_mirror.offsets.offset_map import OffsetMap
from ottla_mirror.offsets.stored_copy import Session, SessionName, StoredCopy


def test_the_first_record_that_the_target_lacks_is_found():
    offset_map = OffsetMap(10, 0)
    offset_map.append(10, 0, 5)
    offset_map.append(20, 7, 5)
    offset_map.skip_to(30)
    assert source_offset_of(offset_map, 0) == 10
    assert source_offset_of(offset_map, 3) == 13
    assert source_offset_of(offset_map, 5) == 20
    assert source_offset_of(offset_map, 9) == 22
    assert source_offset_of(offset_map, 12) == 30


def copy_of_forty() -> StoredCopy:
    """Forty records, at the same offsets on both sides."""
    offset_map = OffsetMap(0, 0)
    offset_map.append(0, 0, 40)
    session = Session(
        producer_id=9, producer_epoch=0, source_topic_id=UUID(int=1), source_start_offset=0,
        target_topic_id=UUID(int=2), target_start_offset=0, replaces=None,
    )  # fmt: skip
    return StoredCopy(session=session, next_sequence=40, map=offset_map)


@pytest.mark.parametrize(
    ("target_end", "stored_at", "of", "cut_at"),
    [
        (40, -1, 9, None),
        (39, -1, 9, 39),
        (60, 12, 9, 12),
        (30, 12, 9, 12),
        (10, 12, 9, 10),
        (60, 12, 8, None),
    ],
)
def test_the_target_has_lost_what_is_behind_its_end_or_was_replaced(
    target_end: int, stored_at: int, of: int, cut_at: int | None
):
    copied = copy_of_forty()
    beginning = PartitionStart(replaces=SessionName(of, 0), target_cut_at=stored_at)
    assert cut_of(copied, beginning, target_end) == cut_at


def test_a_new_session_begins_where_it_is_asked_for_or_where_the_target_has_lost_records():
    copied = copy_of_forty()
    asked, of_another = (
        PartitionStart(new_session_at=40, replaces=SessionName(9, 0)),
        PartitionStart(new_session_at=40, replaces=SessionName(8, 0)),
    )
    assert session_start(copied, asked, None) == 40
    assert session_start(copied, asked, 30) == 30
    assert session_start(copied, of_another, None) is None
    assert session_start(copied, of_another, 30) == 30
    assert session_start(copied, PartitionStart(), None) is None


@pytest.mark.parametrize(("start", "expected"), [("earliest", [10, 10, 10]), ("latest", [90, 90, 10])])
async def test_only_partitions_that_were_there_when_the_flow_began_begin_at_their_end(
    monkeypatch: pytest.MonkeyPatch, start: Literal["earliest", "latest"], expected: list[int]
) -> None:
    """What was written to an added partition before anybody could look is copied whatever the settings say."""

    async def list_offsets(_cluster: object, leaders: dict[tuple[str, int], int], timestamp: int) -> dict[Any, int]:
        return dict.fromkeys(leaders, {EARLIEST: 10, LATEST: 90}[timestamp])

    monkeypatch.setattr(partition_start, "list_offsets", list_offsets)
    works = [
        PartitionWork(SourcePartition(topic="t", topic_id=UUID(int=1), partition=number), "A.t", 0.0)
        for number in range(3)
    ]
    source: Any = type("View", (), {"cluster": None})()
    target: Any = type("View", (), {"cluster": None})()
    settings = CopySettings(start=start, is_added=lambda partition: partition.partition >= 2)
    found = await StartOffsets(source, target, settings).starts(
        dict.fromkeys(works, PartitionStart()), {}, dict.fromkeys(works, 0), {}
    )
    assert [found[work] for work in works] == expected


async def test_the_first_end_of_a_leader_does_not_count_however_long_there_was_none_before() -> None:
    """Whoever is just elected may not know yet how far its log is replicated."""
    work = PartitionWork(SourcePartition(topic="t", topic_id=UUID(int=1), partition=0), "A.t", 0.0)
    work.target_topic_id, work.failures = UUID(int=2), 100
    view: Any = type("View", (), {"cluster": None})()
    offsets = StartOffsets(view, view, CopySettings())
    stored = {work.partition: copy_of_forty()}

    async def begins(end: int) -> int | None:
        failures: dict[PartitionWork, str] = {}
        starts = await offsets.starts({work: PartitionStart()}, stored, {work: end}, failures)
        assert (work in failures) == (end < 40 and not starts)
        return starts.get(work)

    assert [await begins(30) for _ in range(ATTEMPTS_BEFORE_LOST)] == [None] * ATTEMPTS_BEFORE_LOST
    assert await begins(40) is None, "nothing is lost"
    assert [await begins(30) for _ in range(ATTEMPTS_BEFORE_LOST + 1)] == [*[None] * ATTEMPTS_BEFORE_LOST, 30]


async def test_ends_of_a_topic_that_was_made_anew_since_do_not_count() -> None:
    work = PartitionWork(SourcePartition(topic="t", topic_id=UUID(int=1), partition=0), "A.t", 0.0)
    work.target_topic_id, work.short_ends = UUID(int=3), ATTEMPTS_BEFORE_LOST
    view: Any = type("View", (), {"cluster": None})()
    offsets = StartOffsets(view, view, CopySettings())
    with pytest.MonkeyPatch.context() as patched:

        async def list_offsets(_: object, leaders: dict[tuple[str, int], int], __: int) -> dict[Any, int]:
            return dict.fromkeys(leaders, 0)

        patched.setattr(partition_start, "list_offsets", list_offsets)
        stored = {work.partition: copy_of_forty()}
        assert await offsets.starts({work: PartitionStart()}, stored, {work: 0}, {}) == {work: 0}
    assert work.short_ends == 0
