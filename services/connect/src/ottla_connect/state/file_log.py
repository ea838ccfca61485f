"""A `KeyedLog` in a file: where a standalone worker keeps source offsets.

Records are appended and brought to the disk before a write returns; writes that come meanwhile share the next round.
As the last value of every key is all that counts, the file is written anew, beside the old one, when most of it is
overtaken. A failed write is answered the same way: what reached the disk of it is unknown, but what was confirmed
before is in memory, so the next write begins a new file with that.
"""

import asyncio
import fcntl
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import structlog

from ottla_connect.state.config_records import Write
from ottla_connect.state.file_records import HEADER, RECORD_BYTES_MAX, DamagedFile, encode, encoded_size, scan
from ottla_connect.state.keyed_log import Entry, LogError, OnEntry
from ottla_core.background import start_detached

COMPACTION_BYTES_MIN = 1024 * 1024
COMPACTION_FACTOR = 2
WAITING_WRITES_MAX = 10_000

log = structlog.get_logger("file log")


class FileLog:
    """A `KeyedLog` in a file.

    Args:
        path: the file; it is made if it is not there, its folder too.
        compaction_bytes_min: the file is not compacted while it is smaller than this.
    """

    def __init__(self, path: Path, *, compaction_bytes_min: int = COMPACTION_BYTES_MIN) -> None:
        self._path = path
        self._compaction_bytes_min = compaction_bytes_min
        self._on_entry: OnEntry | None = None
        self._live: dict[bytes, bytes] = {}
        self._live_size = len(HEADER)
        self._size = 0
        self._offset = 0
        self._descriptor: int | None = None
        self._lock_descriptor: int | None = None
        self._must_rewrite = False
        self._waiting: list[tuple[Sequence[Write], asyncio.Future[None]]] = []
        self._writer: asyncio.Task[None] | None = None

    async def start(self, on_entry: OnEntry) -> None:
        """Read the file.

        Raises:
            LogError: it cannot be opened or read, another process has it open, or it is damaged.
        """
        try:
            writes = await asyncio.to_thread(self._open)
        except (OSError, DamagedFile) as error:
            self._release()
            raise LogError(f"{self._path}: {error}") from None
        self._on_entry = on_entry
        for write in writes:
            self._take(write)

    async def write(self, writes: Sequence[Write], timeout_s: float) -> None:
        """Append records and return when they are on the disk.

        Raises:
            LogError: they are not.
        """
        if self._on_entry is None:
            raise LogError(f"{self._path} is closed")
        if len(self._waiting) >= WAITING_WRITES_MAX:
            raise LogError(f"{self._path}: {WAITING_WRITES_MAX} writes wait for the disk already")
        if any(len(each.key) + len(each.value or b"") > RECORD_BYTES_MAX // 2 for each in writes):
            raise LogError(f"{self._path}: a record is longer than {RECORD_BYTES_MAX // 2} bytes")
        done = asyncio.get_running_loop().create_future()
        self._waiting.append((writes, done))
        if self._writer is None or self._writer.done():
            self._writer = start_detached("writes to a file", self._write_waiting(), path=str(self._path))
        try:
            await asyncio.wait_for(asyncio.shield(done), timeout_s)
        except TimeoutError:
            raise LogError(f"{self._path}: the disk did not answer within {timeout_s:g} s") from None

    async def read_to_end(self, timeout_s: float) -> None:
        """Return at once: nobody else writes to the file."""

    async def close(self) -> None:
        """Finish what is being written and close the file."""
        self._on_entry = None
        if self._writer is not None:
            await self._writer
        self._release()

    async def _write_waiting(self) -> None:
        while self._waiting:
            round_, self._waiting = self._waiting, []
            writes = [write for group, _ in round_ for write in group]
            try:
                await asyncio.to_thread(self._store, writes, dict(self._live) if self._should_rewrite() else None)
            except OSError as error:
                self._must_rewrite = True
                log.error("the file cannot be written", path=str(self._path), reason=str(error))
                for _, done in round_:
                    done.set_exception(LogError(f"{self._path}: {error}"))
                    done.exception()  # whoever waits has it; nobody may wait any more
                continue
            for write in writes:
                self._take(write)
            for _, done in round_:
                done.set_result(None)

    def _should_rewrite(self) -> bool:
        is_large = self._size >= max(self._compaction_bytes_min, COMPACTION_FACTOR * self._live_size)
        return self._must_rewrite or is_large

    def _take(self, write: Write) -> None:
        """Show a record that is stored to the reader, and know it as its key's last."""
        previous = self._live.pop(write.key, None)
        if previous is not None:
            self._live_size -= encoded_size(Write(write.key, previous))
        if write.value is not None:
            self._live[write.key] = write.value
            self._live_size += encoded_size(write)
        entry = Entry(write.key, write.value, self._offset)
        self._offset += 1
        if self._on_entry is not None:
            self._on_entry(entry)

    # What follows runs in another thread, one call at a time.

    def _open(self) -> list[Write]:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._lock()
        self._beside().unlink(missing_ok=True)
        self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        content = self._path.read_bytes()
        scanned = scan(content)
        if scanned.end < len(content):
            log.warning(
                "the file ended within a record that a crash left incomplete; its rest is dropped",
                path=str(self._path),
                dropped_bytes=len(content) - scanned.end,
            )
        if scanned.end < len(content) or not content:
            os.ftruncate(self._descriptor, scanned.end)
            if scanned.end == 0:
                _write_all(self._descriptor, HEADER, 0)
            os.fsync(self._descriptor)
            self._sync_folder()
        self._size = max(scanned.end, len(HEADER))
        return scanned.writes

    def _lock(self) -> None:
        """Keep other processes from the file; the lock is on one beside it, as the file itself gets replaced."""
        lock_path = self._path.with_name(self._path.name + ".lock")
        self._lock_descriptor = os.open(lock_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._lock_descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise OSError("another process uses it") from None

    def _store(self, writes: Sequence[Write], live: Mapping[bytes, bytes] | None) -> None:
        """Append records, or write a new file with `live` and them."""
        if live is not None:
            self._replace([Write(key, value) for key, value in live.items()], writes)
            return
        assert self._descriptor is not None
        content = encode(writes)
        _write_all(self._descriptor, content, self._size)
        os.fdatasync(self._descriptor)
        self._size += len(content)

    def _replace(self, live: Sequence[Write], writes: Sequence[Write]) -> None:
        content = HEADER + encode([*live, *writes])
        beside = self._beside()
        descriptor = os.open(beside, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            _write_all(descriptor, content, 0)
            os.fsync(descriptor)
            beside.replace(self._path)
            self._sync_folder()
        except OSError:
            os.close(descriptor)
            raise
        if self._descriptor is not None:
            os.close(self._descriptor)
        self._descriptor, self._size, self._must_rewrite = descriptor, len(content), False

    def _beside(self) -> Path:
        return self._path.with_name(self._path.name + ".new")

    def _sync_folder(self) -> None:
        folder = os.open(self._path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def _release(self) -> None:
        for descriptor in (self._descriptor, self._lock_descriptor):
            if descriptor is not None:
                os.close(descriptor)
        self._descriptor = self._lock_descriptor = None


def _write_all(descriptor: int, content: bytes, position: int) -> None:
    while content:
        written = os.pwrite(descriptor, content, position)
        content, position = content[written:], position + written
