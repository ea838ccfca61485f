"""Copies of the cluster's state in log directories: when they are written, and what a disk may refuse."""

import asyncio
import errno
import os
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ottla_broker.log.directories import cluster_copies, directory_facts, log_directory
from ottla_broker.log.directories.cluster_copies import ClusterCopies
from ottla_broker.log.directories.directory_facts import inspect_broker, inspected_broker
from ottla_broker.log.directories.log_directories import LogDirectories, take_directories
from ottla_core.cluster.etcd.client import Listing
from ottla_core.cluster.etcd.errors import EtcdUnavailable
from ottla_core.cluster.etcd.key_value import KeyValue
from ottla_core.cluster.state import codec
from ottla_core.cluster.state.state_copy import COPY_FILE, StateCopy, decode_copy
from ottla_core.errors import ConfigurationError
from tests.support.eventually_async import eventually_async

PREFIX = "/ottla/test/"
CLUSTER_ID = "ours"


def put(key: str, value: bytes, revision: int) -> KeyValue:
    return KeyValue(key=PREFIX + key, value=value, create_revision=revision, mod_revision=revision)


def id_key(cluster_id: str = CLUSTER_ID) -> KeyValue:
    return put("id", codec.encode_cluster_id(cluster_id), 1)


class Etcd:
    """What etcd would list; an exception in its place is raised."""

    def __init__(self) -> None:
        self.entries: list[KeyValue] = [id_key()]
        self.revision = 1
        self.listings = self.listed_at = 0
        self.is_away = False
        self.holds: Callable[[], bool] = lambda: False
        """Whether the listing is not to go on yet."""

    async def pages(self) -> AsyncIterator[Listing]:
        self.listings += 1
        if self.is_away:
            raise EtcdUnavailable("away")
        self.listed_at = self.revision
        while self.holds():
            await asyncio.sleep(0)  # until what is told meanwhile has been
        for entry in self.entries:
            await asyncio.sleep(0)
            yield Listing((entry,), self.listed_at)


@pytest.fixture
async def directories(tmp_path: Path) -> AsyncIterator[LogDirectories]:
    taken = await take_directories([tmp_path / "a", tmp_path / "b"], node_id=1, cluster_id=CLUSTER_ID)
    yield taken
    taken.release()


@pytest.fixture
def etcd() -> Etcd:
    return Etcd()


@pytest.fixture
async def copies(directories: LogDirectories, etcd: Etcd) -> AsyncIterator[ClusterCopies]:
    copies = ClusterCopies(directories, "test", CLUSTER_ID, etcd.pages)
    keeping = asyncio.create_task(copies.keep())
    yield copies
    keeping.cancel()
    await asyncio.gather(keeping, return_exceptions=True)
    copies.close()


def read(directory: Path) -> StateCopy:
    return decode_copy((directory / COPY_FILE).read_bytes())[0]


@contextmanager
def refusing(monkeypatch: pytest.MonkeyPatch, directory: Path) -> Iterator[None]:
    """The disk of a log directory is full: every write to a copy in it is refused halfway."""
    write = os.write

    def refuse(descriptor: int, data: bytes) -> int:
        if Path(f"/proc/self/fd/{descriptor}").readlink().parent == directory:
            write(descriptor, bytes(data)[: len(data) // 2])
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(descriptor, data)

    with monkeypatch.context() as patched:
        patched.setattr(cluster_copies.os, "write", refuse)
        yield


async def test_a_listing_is_in_all_directories_when_it_is_told(copies: ClusterCopies, tmp_path: Path) -> None:
    await copies.listed([id_key(), put("topics/a", b"a", 3), put("members/broker/1", b"m", 4)], 5)
    for directory in (tmp_path / "a", tmp_path / "b"):
        assert read(directory).revision == 5
        assert set(read(directory).entries) == {"id", "topics/a"}
    assert copies.behind() == 0


async def test_a_change_is_in_the_files_as_soon_as_it_was_told(copies: ClusterCopies, tmp_path: Path) -> None:
    await copies.listed([id_key()], 1)
    copies.changed([put("topics/a", b"a", 2)], 2)
    assert read(tmp_path / "a").entries["topics/a"].value == b"a"  # nothing was awaited


@pytest.mark.parametrize("entries", [[], [id_key("another")], [put("topics/a", b"a", 9)]])
async def test_a_listing_of_another_cluster_or_an_empty_one_replaces_nothing(
    copies: ClusterCopies, tmp_path: Path, entries: list[KeyValue]
) -> None:
    await copies.listed([id_key(), put("topics/a", b"a", 3)], 3)
    await copies.listed(entries, 9)
    assert read(tmp_path / "a").revision == 3


async def test_an_etcd_that_went_back_replaces_nothing(
    copies: ClusterCopies, etcd: Etcd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_copies, "GROWTH_BYTES_MIN", 10)
    await copies.listed([id_key()], 5)
    etcd.revision = 6
    copies.changed([put("topics/a", b"a" * 2000, 7)], 7)  # which makes it grow too much
    await eventually_async(lambda: etcd.listings >= 1, "it is listed")
    await copies.listed([id_key()], 6)
    assert read(tmp_path / "a").revision == 7


async def test_a_copy_that_the_disk_refuses_is_marked_at_once_and_written_anew_later(
    copies: ClusterCopies, etcd: Etcd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_copies, "RETRY_S_MIN", 0.05)
    await copies.listed([id_key()], 1)
    etcd.entries, etcd.revision = [id_key(), put("topics/a", b"a", 2)], 2
    with refusing(monkeypatch, tmp_path / "a"):
        copies.changed([put("topics/a", b"a", 2)], 2)
        assert not (tmp_path / "a" / COPY_FILE).exists(), "it does not pass for the newest state"
        assert (tmp_path / "a" / "cluster-state.behind").exists()
        assert read(tmp_path / "b").revision == 2, "the other directory's goes on"
        assert copies.behind() == 1
        await eventually_async(lambda: etcd.listings >= 2, "it is tried again")
        assert copies.behind() == 1
    await eventually_async(lambda: copies.behind() == 0, "it is written anew")
    assert read(tmp_path / "a").revision == 2
    assert not (tmp_path / "a" / "cluster-state.behind").exists()


@contextmanager
def refusing_drafts(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No disk has room for a new file; what is appended to files that are there still fits."""
    write = os.write

    def refuse(descriptor: int, data: bytes) -> int:
        if Path(f"/proc/self/fd/{descriptor}").readlink().suffix == ".tmp":
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(descriptor, data)

    with monkeypatch.context() as patched:
        patched.setattr(cluster_copies.os, "write", refuse)
        yield


async def test_a_copy_that_lacks_nothing_stays_when_it_cannot_be_written_anew(
    copies: ClusterCopies, etcd: Etcd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_copies, "GROWTH_BYTES_MIN", 10)
    monkeypatch.setattr(cluster_copies, "RETRY_S_MIN", 0.05)
    refused: list[Path] = []
    copies.on_refusal = lambda directory, _error: refused.append(directory)
    await copies.listed([id_key()], 1)
    etcd.entries, etcd.revision = [id_key(), put("topics/a", b"a" * 2000, 2)], 2
    with refusing_drafts(monkeypatch):
        copies.changed([put("topics/a", b"a" * 2000, 2)], 2)  # which makes it grow too much
        await eventually_async(lambda: len(refused) >= 4, "both are tried twice")
        copies.changed([put("topics/b", b"b", 3)], 3)
        assert copies.behind() == 0
        assert [read(tmp_path / each).revision for each in ("a", "b")] == [3, 3]
    etcd.entries, etcd.revision = [*etcd.entries, put("topics/b", b"b", 3)], 3
    grown = (tmp_path / "a" / COPY_FILE).stat().st_ino
    await eventually_async(lambda: (tmp_path / "a" / COPY_FILE).stat().st_ino != grown, "it is written anew")


async def test_a_copy_that_a_listing_could_not_replace_lacks_what_it_says(
    copies: ClusterCopies, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await copies.listed([id_key()], 1)
    with refusing_drafts(monkeypatch):
        await copies.listed([id_key(), put("topics/a", b"a", 2)], 2)
    assert copies.behind() == 2
    assert (tmp_path / "a" / "cluster-state.behind").exists()


async def test_a_copy_that_cannot_be_fsynced_for_want_of_a_descriptor_is_fsynced_later(
    copies: ClusterCopies, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await copies.listed([id_key()], 1)
    synced: list[bool] = []

    def out_of_descriptors(_descriptor: int) -> int:
        synced.append(False)
        raise OSError(errno.EMFILE, "Too many open files")

    with monkeypatch.context() as patched:
        patched.setattr(cluster_copies.os, "dup", out_of_descriptors)
        copies.changed([put("topics/a", b"a", 2)], 2)
        await eventually_async(lambda: len(synced) >= 4, "it is tried again")
    assert copies.behind() == 0
    await eventually_async(lambda: not any(each.is_dirty for each in copies._copies.values()), "it is fsynced")


async def test_files_that_a_killed_process_has_begun_are_removed(copies: ClusterCopies, tmp_path: Path) -> None:
    (tmp_path / "a" / "cluster-state.7.tmp").write_bytes(b"half")
    await copies.listed([id_key()], 1)
    assert not list((tmp_path / "a").glob("cluster-state.*.tmp"))


async def test_what_is_told_while_a_copy_is_written_anew_is_in_it(
    copies: ClusterCopies, etcd: Etcd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_copies, "GROWTH_BYTES_MIN", 100)
    await copies.listed([id_key()], 1)
    etcd.entries, etcd.revision = [id_key(), *(put(f"topics/{n}", b"x" * 200, 2 + n) for n in range(200))], 202
    copies.changed([put("topics/big", b"b" * 1000, 202)], 202)  # which makes it grow too much
    revision = 202
    etcd.holds = lambda: etcd.revision <= etcd.listed_at + 2

    def tell_until_written_anew() -> bool:
        nonlocal revision
        revision += 1
        etcd.revision = revision
        copies.changed([put(f"topics/told-{revision}", b"t", revision)], revision)
        return "topics/7" in read(tmp_path / "a").entries

    await eventually_async(tell_until_written_anew, "it is written anew")
    found = read(tmp_path / "a").entries
    assert etcd.listings == 1
    assert revision > etcd.listed_at + 2, "some were told meanwhile"
    assert [
        f"topics/told-{each}"
        for each in range(etcd.listed_at + 1, revision + 1)
        if f"topics/told-{each}" not in found
    ] == []


async def test_without_etcd_the_copies_stay_as_they_are(
    copies: ClusterCopies, etcd: Etcd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_copies, "GROWTH_BYTES_MIN", 10)
    await copies.listed([id_key()], 1)
    etcd.is_away = True
    copies.changed([put("topics/a", b"a" * 2000, 2)], 2)
    await eventually_async(lambda: etcd.listings >= 1, "it is tried")
    copies.changed([put("topics/b", b"b", 3)], 3)
    assert read(tmp_path / "a").revision == 3
    assert copies.behind() == 0


async def test_facts_tell_a_copy_that_is_behind_or_damaged_from_a_sure_one(
    directories: LogDirectories, copies: ClusterCopies, tmp_path: Path
) -> None:
    await copies.listed([id_key(), put("topics/a", codec.encode_cluster_id("x"), 3)], 5)
    directories.release()
    a, b = tmp_path / "a", tmp_path / "b"
    assert inspect_broker([a, b]).copy_is_sure
    (a / COPY_FILE).rename(a / "cluster-state.behind")
    facts = inspect_broker([a])
    assert not facts.copy_is_sure
    assert facts.copy is not None
    assert facts.copy.revision == 5
    data = bytearray((b / COPY_FILE).read_bytes())
    data[-1] ^= 1
    (b / COPY_FILE).write_bytes(data)
    damaged = inspect_broker([b])
    assert not damaged.copy_is_sure
    (b / COPY_FILE).unlink()
    assert inspect_broker([b]).copy is None


async def test_a_copy_is_sure_only_if_no_other_directory_of_the_broker_has_a_newer_one(
    directories: LogDirectories, copies: ClusterCopies, tmp_path: Path
) -> None:
    await copies.listed([id_key()], 5)
    directories.release()
    a, b = tmp_path / "a", tmp_path / "b"
    stale = (a / COPY_FILE).read_bytes()
    await copies.listed([id_key()], 9)
    assert inspect_broker([a, b]).copy_is_sure
    (a / COPY_FILE).write_bytes(stale)  # as of a disk that was away in the last run
    assert inspect_broker([a, b]).copy_is_sure, "the other one has everything"
    (b / COPY_FILE).rename(b / "cluster-state.behind")
    facts = inspect_broker([a, b])
    assert facts.copy is not None
    assert (facts.copy.revision, facts.copy_is_sure) == (9, False)


async def test_a_directory_is_marked_as_closed_cleanly_only_when_its_copy_is_durable(
    directories: LogDirectories, copies: ClusterCopies, monkeypatch: pytest.MonkeyPatch
) -> None:
    await copies.listed([id_key()], 5)
    synced: list[Path] = []

    def refuse(path: Path) -> None:
        synced.append(path)
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(log_directory, "sync_file", refuse)
    for directory in directories:
        with pytest.raises(OSError, match="Input/output"):
            directory.mark_clean()
        assert not (directory.path / log_directory.CLEAN_SHUTDOWN_MARKER).exists()
    assert [path.name for path in synced] == [COPY_FILE, COPY_FILE]


async def test_no_broker_can_use_directories_while_a_plan_is_made_of_them(
    directories: LogDirectories, tmp_path: Path
) -> None:
    directories.release()
    with inspected_broker([tmp_path / "a"]) as facts:
        assert facts.inspected_ms > 0
        with pytest.raises(ConfigurationError, match="in use"):
            inspect_broker([tmp_path / "a"])
    inspect_broker([tmp_path / "a"])


async def test_facts_name_logs_that_cannot_be_read_and_say_how_new_each_copy_is(
    directories: LogDirectories, copies: ClusterCopies, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await copies.listed([id_key()], 5)
    directories.release()
    a, b = tmp_path / "a", tmp_path / "b"
    (a / "flights-3").mkdir()
    (b / COPY_FILE).rename(b / "cluster-state.behind")

    def refuse(*_arguments: object, **_more: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(directory_facts, "read_log_facts", refuse)
    found = inspect_broker([a, b])
    assert [each.unread for each in found.directories] == [(("flights", 3),), ()]
    assert [each.copy_position for each in found.directories] == [(0, 5), None]
    assert "Input/output error" in found.directories[0].problems[0]


async def test_a_copy_that_a_former_release_may_have_left_behind_is_not_sure(
    directories: LogDirectories, copies: ClusterCopies, tmp_path: Path
) -> None:
    await copies.listed([id_key()], 5)
    directories.release()
    record = tmp_path / "a" / "shutdown-record"
    record.write_text("".join(line for line in record.read_text().splitlines(True) if "recovery" not in line))
    assert not inspect_broker([tmp_path / "a"]).copy_is_sure
    assert inspect_broker([tmp_path / "b"]).copy_is_sure
