"""The index of aborted transactions against a plain list, whether entries are on the disk or wait."""

import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla_broker.log.segments import transaction_index
from ottla_broker.log.segments.transaction_index import (
    AbortedTransaction,
    TransactionIndex,
    problem_in_transaction_index,
    read_transaction_index,
)


def entries_from(drawn: list[tuple[int, int]]) -> list[AbortedTransaction]:
    """Entries that end one after the other, each with the first offset that was undecided then."""
    ends = [10 * (number + 1) for number in range(len(drawn))]
    firsts = [max(0, last - 1 - length) for (length, _), last in zip(drawn, ends, strict=True)]
    return [
        AbortedTransaction(0, producer_id, first, last, min([*firsts[number + 1 :], last + 1]))
        for number, ((_, producer_id), first, last) in enumerate(zip(drawn, firsts, ends, strict=True))
    ]


@given(st.data())
def test_a_search_finds_what_a_plain_list_has(data: st.DataObject) -> None:
    entries = entries_from(data.draw(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 3)), max_size=30)))
    written = data.draw(st.integers(0, len(entries)))
    with tempfile.TemporaryDirectory() as directory, pytest.MonkeyPatch.context() as patched:
        patched.setattr(transaction_index, "_READ_ENTRIES", data.draw(st.integers(1, 4)))
        path = Path(directory) / f"{0:020d}.txnindex"
        index = TransactionIndex.open(path, 0)
        for number, entry in enumerate(entries):
            index.append(entry)
            if number + 1 == written:
                index.write_pending()
        start = data.draw(st.integers(0, 320))
        end = data.draw(st.integers(start, 330))
        found, is_complete = index.overlapping(start, end)
        assert found == [entry for entry in entries if entry.last_offset >= start and entry.first_offset < end]
        assert is_complete == any(entry.last_offset >= start and entry.last_stable_offset >= end for entry in entries)
        assert index.count_below(start) == sum(entry.last_offset < start for entry in entries)

        index.truncate_to_count(index.count_below(start))
        index.write_pending()
        kept = [entry for entry in entries if entry.last_offset < start]
        assert path.exists() == index.has_file
        assert (read_transaction_index(path) if index.has_file else []) == kept
        again = TransactionIndex.open(path, 0)
        assert (again.entry_count, again.has_file) == (len(kept), index.has_file)
        assert again.overlapping(0, 1000)[0] == kept


@pytest.mark.parametrize("size_bytes", [0, 20, 34])
def test_a_file_that_has_become_shorter_fails_the_search(tmp_path: Path, size_bytes: int) -> None:
    index = TransactionIndex.open(tmp_path / f"{0:020d}.txnindex", 0)
    for entry in entries_from([(3, 1), (3, 2), (3, 3)]):
        index.append(entry)
    index.write_pending()
    os.truncate(index.path, size_bytes)
    with pytest.raises(OSError, match="shorter"):
        index.overlapping(0, 1000)


def test_what_cannot_be_right_is_told(tmp_path: Path) -> None:
    path = tmp_path / f"{100:020d}.txnindex"
    assert not problem_in_transaction_index(path, 100, 200)
    index = TransactionIndex.open(path, 100)
    index.append(AbortedTransaction(0, 7, 90, 150, 151))
    index.write_pending()
    assert not problem_in_transaction_index(path, 100, 200)
    assert "ends with" in problem_in_transaction_index(path, 100, 150)
    assert "ends with" in problem_in_transaction_index(path, 151, 200)
    good = path.read_bytes()
    path.write_bytes(b"\0\1" + good[2:])
    assert "ends with" in problem_in_transaction_index(path, 100, 200)
    path.write_bytes(good + b"\0")
    assert "no multiple of 34" in problem_in_transaction_index(path, 100, 200)
