"""A log in a file survives crashes, and tells when it has been damaged."""

import asyncio
import os
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla_connect.state.config_records import Write
from ottla_connect.state.file_log import FileLog
from ottla_connect.state.file_records import HEADER, DamagedFile, encode, encoded_size, scan
from ottla_connect.state.keyed_log import Entry, LogError

WRITES = st.lists(st.builds(Write, st.binary(max_size=8), st.none() | st.binary(max_size=12)), min_size=1, max_size=8)


async def opened(path: Path, *, compaction_bytes_min: int = 10**6) -> tuple[FileLog, dict[bytes, bytes]]:
    """Returns a log and what it shows: the last value of every key."""
    shown: dict[bytes, bytes] = {}

    def show(entry: Entry) -> None:
        assert entry.key is not None
        shown.pop(entry.key, None)
        if entry.value is not None:
            shown[entry.key] = entry.value

    log = FileLog(path, compaction_bytes_min=compaction_bytes_min)
    await log.start(show)
    return log, shown


async def contents(path: Path) -> dict[bytes, bytes]:
    log, shown = await opened(path)
    await log.close()
    return shown


async def put(log: FileLog, *writes: tuple[bytes, bytes | None]) -> None:
    await log.write([Write(key, value) for key, value in writes], 5.0)


async def test_what_was_written_is_there_again(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "offsets"
    log, shown = await opened(path)
    await put(log, (b"a", b"1"), (b"b", b""), (b"c", b"3"))
    await put(log, (b"a", b"2"), (b"c", None))
    assert shown == {b"a": b"2", b"b": b""}
    await log.close()
    assert await contents(path) == {b"a": b"2", b"b": b""}


async def test_a_write_returns_when_it_is_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    fdatasync = os.fdatasync
    monkeypatch.setattr(os, "fdatasync", lambda each: (synced.append(os.fstat(each).st_size), fdatasync(each)))
    log, _ = await opened(tmp_path / "offsets")
    await put(log, (b"a", b"1"))
    assert synced == [(tmp_path / "offsets").stat().st_size]
    await asyncio.gather(*(put(log, (b"%d" % number, b"x")) for number in range(100)))
    assert len(synced) <= 3, "writes that come together share a round"
    await log.close()


async def test_the_file_is_compacted_when_most_of_it_is_overtaken(tmp_path: Path) -> None:
    path = tmp_path / "offsets"
    log, shown = await opened(path, compaction_bytes_min=1000)
    for number in range(150):
        await put(log, (b"key %d" % (number % 5), b"value %d" % number))
    assert path.stat().st_size < 2000
    expected = dict(shown)
    await log.close()
    assert len(expected) == 5
    assert await contents(path) == expected
    assert sorted(each.name for each in tmp_path.iterdir()) == ["offsets", "offsets.lock"]


async def test_a_record_that_a_crash_left_incomplete_is_dropped_and_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "offsets"
    log, _ = await opened(path)
    await put(log, (b"a", b"1"))
    await put(log, (b"b", b"2"))
    await log.close()
    path.write_bytes(path.read_bytes()[:-1])
    log, shown = await opened(path)
    assert shown == {b"a": b"1"}
    assert "dropped" in capsys.readouterr().out
    await put(log, (b"c", b"3"))
    await log.close()
    assert await contents(path) == {b"a": b"1", b"c": b"3"}


async def test_damage_with_records_behind_it_is_not_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "offsets"
    log, _ = await opened(path)
    await put(log, (b"a", b"1"))
    await put(log, (b"b", b"2"))
    await log.close()
    content = bytearray(path.read_bytes())
    content[len(HEADER) + 18] ^= 1
    path.write_bytes(content)
    with pytest.raises(LogError, match="damaged, and records follow"):
        await opened(path)
    assert path.read_bytes() == content


@pytest.mark.parametrize(
    ("content", "reason"),
    [(b"\xac\xed\x00\x05sr", "Kafka's standalone worker"), (b"a=b\n", "does not begin")],
)
async def test_other_files_are_refused(tmp_path: Path, content: bytes, reason: str) -> None:
    path = tmp_path / "offsets"
    path.write_bytes(content)
    with pytest.raises(LogError, match=reason):
        await opened(path)
    assert path.read_bytes() == content


async def test_two_processes_cannot_use_a_file_at_once(tmp_path: Path) -> None:
    log, _ = await opened(tmp_path / "offsets")
    with pytest.raises(LogError, match="another process uses it"):
        await opened(tmp_path / "offsets")
    await log.close()
    assert await contents(tmp_path / "offsets") == {}


async def test_after_a_failed_write_the_file_is_begun_anew_with_what_was_confirmed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "offsets"
    log, shown = await opened(path)
    await put(log, (b"a", b"1"))

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fdatasync", full)
        with pytest.raises(LogError, match="No space left"):
            await put(log, (b"a", b"2"))
        patch.setattr(os, "fsync", full)
        with pytest.raises(LogError, match="No space left"):
            await put(log, (b"a", b"3"))
    assert shown == {b"a": b"1"}
    await put(log, (b"b", b"4"))
    await log.close()
    assert await contents(path) == {b"a": b"1", b"b": b"4"}


async def test_a_disk_that_hangs_does_not_hang_the_writer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log, _ = await opened(tmp_path / "offsets")
    answers = threading.Event()
    monkeypatch.setattr(os, "fdatasync", lambda _: answers.wait())
    with pytest.raises(LogError, match="did not answer within"):
        await log.write([Write(b"a", b"1")], 0.01)
    answers.set()
    await log.close()
    assert await contents(tmp_path / "offsets") == {b"a": b"1"}


def written(groups: Sequence[Sequence[Write]]) -> bytes:
    return HEADER + b"".join(encode(group) for group in groups)


@given(WRITES)
def test_records_are_read_as_they_were_written(writes: list[Write]) -> None:
    content = written([writes])
    assert scan(content) == (writes, len(content))
    assert len(content) == len(HEADER) + sum(map(encoded_size, writes))


@given(WRITES, st.data())
def test_a_file_cut_anywhere_gives_the_records_before_the_cut(writes: list[Write], data: st.DataObject) -> None:
    content = written([writes])
    cut = data.draw(st.integers(0, len(content)))
    found, end = scan(content[:cut])
    assert found == writes[: len(found)]
    assert end <= cut
    if len(found) < len(writes) and cut >= len(HEADER):
        assert end + encoded_size(writes[len(found)]) > cut


@given(WRITES, st.data())
def test_a_changed_byte_is_noticed_or_is_in_the_last_record(writes: list[Write], data: st.DataObject) -> None:
    content = bytearray(written([writes]))
    index = data.draw(st.integers(0, len(content) - 1))
    content[index] ^= data.draw(st.integers(1, 255))
    try:
        found = scan(bytes(content)).writes
    except DamagedFile:
        return
    assert found == writes[:-1]
