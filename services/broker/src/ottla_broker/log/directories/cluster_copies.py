"""The copies of the cluster's lasting state in the log directories, from which `ottla cluster recover` rebuilds it.

Each log directory has one, `cluster-state`, a journal (`ottla_core/cluster/state/state_copy.py`) that begins with a
listing. What the watch tells is appended before anybody in this process sees it, with one write(2), so that kill -9
loses nothing; an fsync follows soon, in a thread. A journal that has grown is written anew from a listing of etcd,
page by page, into a temporary file, while what the watch tells meanwhile goes into both.

A disk that refuses a change leaves a copy that lacks something. It is renamed to `cluster-state.behind` at once, as
it may not count as the newest any more, and written anew as soon as the disk takes it. The broker goes on meanwhile:
what the disk refuses of the logs is told to producers, and what the copies of other directories and brokers have
makes up for this one. It is logged, and counted (`behind`). A file that lacks nothing stays where no new one can be
written in its place.

A listing of another cluster, or one without a cluster id, such as that of an emptied etcd, replaces nothing; nor does
one of an earlier revision than what this process was told.
"""

import asyncio
import contextlib
import os
import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from itertools import islice
from pathlib import Path
from typing import Final

import structlog

from ottla_broker.log.directories.log_directories import LogDirectories
from ottla_broker.log.files.checkpoint_file import TEMPORARY_SUFFIX, FsyncFailed, sync_descriptor, sync_directory
from ottla_core.cluster.etcd.client import Listing
from ottla_core.cluster.etcd.errors import EtcdError
from ottla_core.cluster.etcd.key_value import KeyChange, KeyValue
from ottla_core.cluster.state.keys import KeySpace
from ottla_core.cluster.state.state_copy import (
    BEHIND_SUFFIX,
    COPY_FILE,
    INCOMPLETE,
    cluster_id_in,
    encode_beginning,
    encode_changes,
    encode_completion,
    encode_listing,
)

GROWTH_BYTES_MIN: Final = 16 * 1024 * 1024
"""How much a journal may grow before it is written anew; a larger listing may grow by its own size."""
PENDING_BYTES_MAX: Final = 16 * 1024 * 1024
"""What may come while a copy is written anew; if more does, that is given up and begun again."""
ENTRIES_PER_WRITE: Final = 4
"""Of a listing, at once, so that little of it is in memory twice."""
SYNC_PAUSE_S: Final = 0.1
"""How long changes are gathered for the next fsync."""
RETRY_S_MIN: Final = 2.0
RETRY_S_MAX: Final = 20.0
"""After which time a copy that could not be written anew is tried again, the longer the oftener that has failed."""

FIRST_DRAFT: Final = 1

Pages = Callable[[], AsyncIterator[Listing]]
OnRefusal = Callable[[Path, OSError], None]
"""Told which log directory's disk has refused what."""

_logger: Final = structlog.get_logger("cluster copies")


class ClusterCopy:
    """The copy in one log directory. Its methods run on the event loop but for `draft_…`, which block.

    Attributes:
        directory: the log directory.
        is_behind: the file lacks changes, or there is none.
        is_dirty: it has changes that are not fsynced.
    """

    def __init__(self, directory: Path, on_refusal: OnRefusal) -> None:
        self.directory = directory
        self._on_refusal = on_refusal
        self.is_behind = True
        self.is_dirty = False
        self._path = directory / COPY_FILE
        self._descriptor = -1
        self._size_bytes = self._listing_bytes = 0
        self._was_told = False

    @property
    def has_grown(self) -> bool:
        """Whether it is time to write it anew."""
        return self._size_bytes - self._listing_bytes > max(GROWTH_BYTES_MIN, self._listing_bytes)

    def append(self, data: bytes) -> None:
        """Write changes behind those so far; a refusal leaves the copy behind."""
        if self.is_behind:
            return
        try:
            _write_all(self._descriptor, data)
        except OSError as error:
            self.fall_behind(error)
            return
        self._size_bytes += len(data)
        self.is_dirty = True

    def fall_behind(self, error: OSError) -> None:
        """Let the file count as the newest state no longer."""
        self._close()
        self.is_behind = True
        self._on_refusal(self.directory, error)
        if not self._was_told:
            _logger.error(
                "the copy of the cluster's state lacks changes until the disk takes it again",
                directory=str(self.directory), problem=str(error),
            )  # fmt: skip
            self._was_told = True
        try:
            if self._path.exists():
                self._path.replace(self._behind_path)
        except OSError as problem:  # the logs of such a directory are refused as well, and tell
            _logger.error("a copy that lacks changes cannot be marked", file=str(self._path), problem=str(problem))

    def spare(self, error: OSError) -> None:
        """Tell of a refusal, and keep a file that lacks nothing: no other one could be written in its place."""
        self._on_refusal(self.directory, error)
        if not self._was_told:
            _logger.warning(
                "the copy of the cluster's state cannot be written anew; it goes on growing",
                directory=str(self.directory), problem=str(error),
            )  # fmt: skip
            self._was_told = True

    def draft_begin(self, number: int) -> tuple[Path, int]:
        """Return path and descriptor of a new, empty file; the first one removes what a killed process left.

        Raises:
            OSError: the disk refuses it.
        """
        if number == FIRST_DRAFT:
            for left in self.directory.glob(f"{COPY_FILE}.*{TEMPORARY_SUFFIX}"):
                _remove(left)
        path = self._path.with_name(f"{COPY_FILE}.{number}{TEMPORARY_SUFFIX}")
        return path, os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC, 0o600)

    def replace(self, draft: Path, descriptor: int, listing_bytes: int, since: Sequence[bytes]) -> None:
        """Have a finished draft take the place of the file, with what was told since it was begun; raises OSError."""
        for data in since:
            _write_all(descriptor, data)
        draft.replace(self._path)
        self._close()
        self._descriptor = descriptor
        self._listing_bytes = listing_bytes
        self._size_bytes = listing_bytes + sum(map(len, since))
        self.is_behind, self.is_dirty = False, True
        if self._was_told:
            _logger.info("the copy of the cluster's state is complete again", directory=str(self.directory))
            self._was_told = False
        _remove(self._behind_path)

    def duplicate(self) -> int:
        """Return another descriptor of the file, for an fsync in a thread; raises OSError."""
        descriptor = os.dup(self._descriptor)
        self.is_dirty = False
        return descriptor

    def close(self) -> None:
        """Let go of the file, which keeps what it has."""
        self._close()
        self.is_behind = True

    @property
    def _behind_path(self) -> Path:
        return self._path.with_name(COPY_FILE + BEHIND_SUFFIX)

    def _close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


Drafts = dict[ClusterCopy, tuple[Path, int]]
"""Path and descriptor of what is to replace a copy."""
OnDraftRefused = Callable[[ClusterCopy, OSError], None]


class ClusterCopies:
    """The copies in all log directories of a broker; a `StateCopier` of its feed.

    Args:
        directories: the log directories, which this process holds; those that fail are left out.
        cluster_name: whose state.
        cluster_id: the id of the cluster to which the directories belong.
        pages: lists the cluster's keys in etcd.

    Attributes:
        cluster_id: the same.
        on_refusal: told when a disk refuses a copy, each time.
    """

    def __init__(self, directories: LogDirectories, cluster_name: str, cluster_id: str, pages: Pages) -> None:
        self._directories = directories
        self._prefix = KeySpace(cluster_name).prefix
        self.cluster_id = cluster_id
        self._beginning = encode_beginning(cluster_name, cluster_id)
        self._pages = pages
        self.on_refusal: OnRefusal = lambda _directory, _error: None
        self._copies = {
            directory.path: ClusterCopy(directory.path, self._note_refusal) for directory in directories.online()
        }
        self._pending: list[list[bytes]] = []
        self._drafts = 0
        self._newest_listing = 0
        self._told_revision = INCOMPLETE
        self._woken = asyncio.Event()

    def behind(self) -> int:
        """Return in how many log directories the copy lacks changes."""
        return sum(copy.is_behind for copy in self._online())

    async def listed(self, entries: Sequence[KeyValue], revision: int) -> None:
        """Replace all copies by a complete listing; returns when it is written."""
        if cluster_id_in(entries, self._prefix) != self.cluster_id or revision < self._told_revision:
            _logger.error(
                "a listing of etcd that is not this cluster's, or went back, is not copied", revision=revision
            )
            return
        self._told_revision = revision
        self._newest_listing += 1  # what is being written anew meanwhile is older

        async def pages() -> AsyncIterator[Iterable[bytes]]:
            encoded = encode_listing(entries, revision, self._prefix)
            while page := list(islice(encoded, ENTRIES_PER_WRITE)):
                yield page

        await self._write_anew(tuple(self._online()), pages(), lack_it=True)

    def changed(self, changes: Sequence[KeyChange], revision: int) -> None:
        """Append changes to all copies."""
        self._told_revision = max(self._told_revision, revision)
        data = encode_changes(changes, revision, self._prefix)
        if not data:
            return
        for pending in self._pending:
            pending.append(data)
        for copy in self._online():
            copy.append(data)
        self._woken.set()

    async def keep(self) -> None:
        """Fsync what was appended, and write anew what has grown or is behind; does not return."""
        pause_s, not_before_s = RETRY_S_MIN, 0.0
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause_s if self._due() else None):
                    await self._woken.wait()
            self._woken.clear()
            await self._sync()
            if (due := self._due()) and time.monotonic() >= not_before_s:
                await self._write_anew(due, self._listed_pages(), lack_it=False)
                pause_s = min(2 * pause_s, RETRY_S_MAX) if self._due() else RETRY_S_MIN
                not_before_s = time.monotonic() + pause_s if self._due() else 0.0
            await asyncio.sleep(SYNC_PAUSE_S)

    def close(self) -> None:
        """Let go of the files; what was not fsynced is the kernel's."""
        for copy in self._copies.values():
            copy.close()

    def _note_refusal(self, directory: Path, error: OSError) -> None:
        self.on_refusal(directory, error)

    def _due(self) -> tuple[ClusterCopy, ...]:
        """Return the copies to be written anew."""
        return tuple(copy for copy in self._online() if copy.is_behind or copy.has_grown)

    def _online(self) -> Iterable[ClusterCopy]:
        return (self._copies[each.path] for each in self._directories.online() if each.path in self._copies)

    async def _sync(self) -> None:
        for copy in tuple(self._online()):
            if copy.is_dirty:
                try:
                    await asyncio.to_thread(_sync_and_close, copy.duplicate(), copy.directory)
                except FsyncFailed as error:
                    copy.fall_behind(error)
                except OSError:  # such as too many open files: the kernel has it, and takes it later
                    copy.is_dirty = True
                    self._woken.set()

    async def _listed_pages(self) -> AsyncIterator[Iterable[bytes]]:
        """Yield etcd's present listing as entries, page by page, the last one completes it.

        Raises:
            EtcdError: it cannot be read.
            _OtherCluster: it is of another cluster, or an earlier one than what was told.
        """
        is_ours = False
        revision, told_before = INCOMPLETE, self._told_revision
        async for page in self._pages():
            is_ours = is_ours or cluster_id_in(page.entries, self._prefix) == self.cluster_id
            revision = page.revision
            yield (encode_changes(page.entries, INCOMPLETE, self._prefix),)
        if not is_ours or revision < told_before:
            raise _OtherCluster
        yield (encode_completion(revision),)

    async def _write_anew(
        self, copies: Sequence[ClusterCopy], pages: AsyncIterator[Iterable[bytes]], *, lack_it: bool
    ) -> None:
        """Write copies from a listing, and what is told meanwhile behind it.

        `lack_it`: the files that are there lack what the listing says. Otherwise they stay where the disk refuses.
        """

        def refused(copy: ClusterCopy, error: OSError) -> None:
            (copy.fall_behind if lack_it or copy.is_behind else copy.spare)(error)

        self._drafts += 1
        listing, pending = self._newest_listing, list[bytes]()
        self._pending.append(pending)
        drafts: Drafts = {}
        try:
            for copy in copies:
                try:
                    drafts[copy] = await asyncio.to_thread(copy.draft_begin, self._drafts)
                except OSError as error:
                    refused(copy, error)
            size_bytes = await _write_drafts(drafts, self._beginning, pages, refused)
            if listing != self._newest_listing or sum(map(len, pending)) > PENDING_BYTES_MAX:
                return
            # Nothing is awaited from here on, or what is told meanwhile would be missing.
            for copy in tuple(drafts):
                draft, descriptor = drafts[copy]
                try:
                    copy.replace(draft, descriptor, size_bytes, pending)
                    del drafts[copy]
                except OSError as error:
                    refused(copy, error)
        except EtcdError as error:
            _logger.info("a copy of the cluster's state is not written anew yet", problem=str(error))
        except _OtherCluster:
            _logger.error("etcd is not this cluster's, or went back; the copies stay as they are")
        finally:
            self._pending = [each for each in self._pending if each is not pending]
            for draft, descriptor in drafts.values():
                os.close(descriptor)
                _remove(draft)
            self._woken.set()


class _OtherCluster(Exception):
    """etcd does not have the cluster id of the log directories, or went back."""


async def _write_drafts(
    drafts: Drafts, beginning: bytes, pages: AsyncIterator[Iterable[bytes]], refused: OnDraftRefused
) -> int:
    """Write a listing into all drafts, fsync them, and return its size in bytes; those that fail are dropped."""
    size_bytes = await _write_to_all(drafts, (beginning,), refused)
    async for page in pages:
        size_bytes += await _write_to_all(drafts, page, refused)
    for copy, (_, descriptor) in tuple(drafts.items()):
        try:
            await asyncio.to_thread(sync_descriptor, descriptor)
        except OSError as error:
            _drop(drafts, copy)
            refused(copy, error)
    return size_bytes


async def _write_to_all(drafts: Drafts, entries: Iterable[bytes], refused: OnDraftRefused) -> int:
    data = await asyncio.to_thread(b"".join, entries)
    for copy, (_, descriptor) in tuple(drafts.items()):
        try:
            await asyncio.to_thread(_write_all, descriptor, data)
        except OSError as error:
            _drop(drafts, copy)
            refused(copy, error)
    return len(data)


def _drop(drafts: Drafts, copy: ClusterCopy) -> None:
    draft, descriptor = drafts.pop(copy)
    os.close(descriptor)
    _remove(draft)


def _write_all(descriptor: int, data: bytes) -> None:
    """Write all of it; raises OSError, and then any part of it may be there."""
    written = os.write(descriptor, data)
    while written < len(data):
        written += os.write(descriptor, memoryview(data)[written:])


def _sync_and_close(descriptor: int, directory: Path) -> None:
    try:
        sync_descriptor(descriptor)
    finally:
        os.close(descriptor)
    sync_directory(directory)


def _remove(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        _logger.error("a temporary file is left", file=str(path), problem=str(error))
