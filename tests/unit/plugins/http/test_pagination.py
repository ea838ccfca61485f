"""Every way to walk through pages, against a service whose data grow, with restarts behind every record."""

import json
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from ottla_http.json_pointer import JsonPointer
from ottla_http.pagination import (
    LastRecord,
    Misread,
    NextCursor,
    Offset,
    Page,
    PageNumber,
    Pagination,
    RecordNumber,
    WholeAnswer,
)

PAGE = 3
Service = Callable[[Sequence[Any], Any], Page]


def by_cursor(data: Sequence[Any], cursor: Any) -> Page:
    """Says no next cursor at its end."""
    begin = int(cursor or 0)
    more = begin + PAGE < len(data)
    return Page(records=data[begin : begin + PAGE], document={"next": str(begin + PAGE) if more else None})


def by_endless_cursor(data: Sequence[Any], cursor: Any) -> Page:
    """Says a cursor at its end too, from which on there will be more."""
    begin = int(cursor or 0)
    records = data[begin : begin + PAGE]
    return Page(records=records, document={"next": str(begin + len(records))})


def by_link(data: Sequence[Any], cursor: Any) -> Page:
    page = by_cursor(data, (cursor or "x?0").rpartition("?")[2])
    following = page.document["next"]
    return Page(records=page.records, next_link=f"x?{following}" if following else None)


def by_page(data: Sequence[Any], cursor: Any) -> Page:
    return Page(records=data[(cursor - 1) * PAGE :][:PAGE])


def by_offset(data: Sequence[Any], cursor: Any) -> Page:
    return Page(records=data[cursor:][:PAGE])


def since_inclusive(data: Sequence[Any], cursor: Any) -> Page:
    return Page(records=[each for each in data if each["id"] >= (cursor or 0)][: PAGE + 1])


def since_exclusive(data: Sequence[Any], cursor: Any) -> Page:
    return Page(records=[each for each in data if each["id"] > (-1 if cursor == "" else cursor)][:PAGE])


KINDS: Mapping[str, tuple[Callable[[], Pagination], Service]] = {
    "cursor": (lambda: NextCursor(JsonPointer("/next"), initial=""), by_cursor),
    "endless cursor": (lambda: NextCursor(JsonPointer("/next"), initial=""), by_endless_cursor),
    "link": (lambda: NextCursor(None, initial=""), by_link),
    "page": (lambda: PageNumber(first=1, size=PAGE), by_page),
    "offset": (lambda: RecordNumber(first=0, size=PAGE), by_offset),
    "offset without size": (lambda: RecordNumber(first=0, size=0), by_offset),
    "record, inclusive": (lambda: LastRecord(JsonPointer("/id"), initial=""), since_inclusive),
    "record, exclusive": (lambda: LastRecord(JsonPointer("/id"), initial=""), since_exclusive),
}


def data(count: int) -> list[Any]:
    return [{"id": number, "text": f"record {number}"} for number in range(count)]


def walk(
    pagination: Pagination, service: Service, offset: Offset, records: Sequence[Any]
) -> list[tuple[Any, Offset]]:
    """What comes until there is nothing more to be had at once."""
    came: list[tuple[Any, Offset]] = []
    for _ in range(len(records) + 5):
        reading = pagination.read(offset, service(records, offset["cursor"]))
        came += reading.records
        offset = reading.after
        assert not reading.notice
        if reading.is_last:
            assert not pagination.read(offset, service(records, offset["cursor"])).records, "nothing comes again"
            return came
    raise AssertionError(f"it does not end: {came}")


@pytest.mark.parametrize("kind", KINDS)
def test_everything_comes_once(kind: str):
    new, service = KINDS[kind]
    for count in range(11):
        came = walk(new(), service, new().first(), data(count))
        assert [record for record, _ in came] == data(count)


@pytest.mark.parametrize("kind", KINDS)
def test_a_restart_behind_any_record_loses_nothing_and_repeats_nothing(kind: str):
    new, service = KINDS[kind]
    came = walk(new(), service, new().first(), data(10))
    for place, (_, offset) in enumerate(came, start=1):
        again = walk(new(), service, json.loads(json.dumps(offset)), data(10))
        assert [record for record, _ in again] == data(10)[place:]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(20))
def test_what_is_added_comes_once_wherever_the_source_was(kind: str, seed: int):
    new, service = KINDS[kind]
    chance = random.Random(seed)
    count, offset, came = 0, new().first(), list[Any]()
    for _ in range(12):
        count += chance.choice([0, 1, 1, 2, 5])
        step = walk(new(), service, offset, data(count))
        if step and chance.random() < 0.5:
            step = step[: chance.randrange(1, len(step) + 1)]  # a crash behind this one
        came += [record for record, _ in step]
        offset = step[-1][1] if step else offset
    came += [record for record, _ in walk(new(), service, offset, data(count))]
    assert came == data(count)


def test_records_with_the_same_time_are_told_apart():
    pagination = LastRecord(JsonPointer("/at"), initial="")
    records = [{"at": "2026-01-01T00:00:00Z", "id": number} for number in range(4)]
    came = pagination.read(pagination.first(), Page(records=records[:2]))
    assert [record["id"] for record, _ in came.records] == [0, 1]
    more = pagination.read(came.after, Page(records=records))
    assert [record["id"] for record, _ in more.records] == [2, 3]
    assert pagination.read(more.after, Page(records=records)).is_last


@pytest.mark.parametrize(
    ("records", "message"),
    [
        ([{"id": 2}, {"id": 1}], "1 comes behind 2"),
        ([{"id": "2026-01-02"}, {"id": "2026-01-01"}], "must sort records by /id"),
        ([{"id": None}], "no text or number at /id"),
        ([{}], "no text or number at /id"),
        (["text"], "no text or number at /id"),
    ],
)
def test_records_without_an_order_are_refused(records: list[Any], message: str):
    pagination = LastRecord(JsonPointer("/id"), initial="")
    with pytest.raises(Misread, match=message):
        pagination.read(pagination.first(), Page(records=records))


def test_a_service_that_does_not_heed_the_cursor_is_noticed():
    pagination = LastRecord(JsonPointer("/id"), initial="")
    with pytest.raises(Misread, match="none from before the cursor"):
        pagination.read({"cursor": 7, "seen": []}, Page(records=data(3)))


def test_ids_that_have_no_order_are_cursors_all_the_same():
    pagination = LastRecord(JsonPointer("/id"), initial="")
    reading = pagination.read(pagination.first(), Page(records=[{"id": "b"}, {"id": "a"}]))
    assert reading.after["cursor"] == "a"


def test_a_page_that_has_changed_is_searched_for_the_last_record():
    pagination = PageNumber(first=1, size=10)
    reading = pagination.read(pagination.first(), Page(records=["a", "b", "c"]))
    changed = pagination.read(reading.after, Page(records=["b", "c", "d"]))
    assert [record for record, _ in changed.records] == ["d"]
    assert "record 3 is now record 2" in changed.notice
    gone = pagination.read(reading.after, Page(records=["x", "y"]))
    assert [record for record, _ in gone.records] == ["x", "y"]
    assert "comes again" in gone.notice


def test_an_offset_that_a_user_has_set_needs_no_check():
    reading = PageNumber(first=1, size=10).read({"cursor": 1, "record": 2}, Page(records=["a", "b", "c"]))
    assert [record for record, _ in reading.records] == ["c"]


def test_a_cursor_of_another_kind_is_refused():
    with pytest.raises(Misread, match="'abc', which is no whole number"):
        RecordNumber(first=0, size=0).read({"cursor": "abc"}, Page(records=[]))
    with pytest.raises(Misread, match="next cursor at /next is a dict"):
        NextCursor(JsonPointer("/next"), initial="").read(
            {"cursor": ""}, Page(records=[], document={"next": {"a": 1}})
        )


def test_a_whole_answer_comes_again_when_it_has_changed():
    pagination = WholeAnswer(skip_unchanged=True)
    first = pagination.read(pagination.first(), Page(records=["a", "b"]))
    assert [record for record, _ in first.records] == ["a", "b"]
    assert not pagination.read(first.after, Page(records=["a", "b"])).records
    assert [record for record, _ in pagination.read(first.after, Page(records=["a", "c"])).records] == ["a", "c"]
    begun = first.records[0][1]
    assert [record for record, _ in pagination.read(begun, Page(records=["a", "b"])).records] == ["b"]
    assert [record for record, _ in pagination.read(begun, Page(records=["b"])).records] == ["b"]
    always = WholeAnswer(skip_unchanged=False)
    assert [record for record, _ in always.read(first.after, Page(records=["a", "b"])).records] == ["a", "b"]
