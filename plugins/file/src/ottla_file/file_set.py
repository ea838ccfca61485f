"""The files of a task: finds them, decides whose turn it is, and sees them through rotation.

Within a family the oldest file is read to its end before the next one begins. Files that are followed take turns;
those that end are read one after the other.

Rotation comes in two ways. Renamed, a file keeps its identity: reading goes on where it was, also when no pattern
matches the new name and also when the task was not running meanwhile. Copied and emptied (`copytruncate`), a file is
found to be shorter, or other, than what was read of it; then the copy, which holds the same bytes before that place,
is read from there to its end before the emptied file is begun anew.
"""

import logging
from collections import deque
from collections.abc import Callable, Sequence

from ottla_file.byte_streams import DamagedFile
from ottla_file.csv_decoder import BadHeader
from ottla_file.discovery import FileId, FoundFile, find_files
from ottla_file.families import is_compressed, is_mine
from ottla_file.followed_file import Batch, FollowedFile, Place, Replaced
from ottla_file.rows import Decoder
from ottla_file.source_config import FileSourceTaskConfig
from ottla_sdk import FatalError, OffsetReader

FILES_MAX = 100_000
OPEN_FILES_MAX = 200
_NS_PER_MS = 1_000_000


class FileSet:
    """The files of one task."""

    def __init__(
        self,
        config: FileSourceTaskConfig,
        *,
        new_decoder: Callable[[], Decoder],
        offsets: OffsetReader,
        log: logging.Logger,
    ) -> None:
        self._config = config
        self._follows = config.follow and config.format != "whole"
        self._new_decoder = new_decoder
        self._offsets = offsets
        self._log = log
        self._files: dict[FileId, FollowedFile] = {}
        self._families: dict[tuple[str, str], list[FollowedFile]] = {}
        self._turns: deque[FollowedFile] = deque()
        self._ignored: set[FileId] = set()  # looks rotated, but nothing was ever read of it
        self._set_aside: dict[FileId, str] = {}  # cannot be read at present, and why
        self._complained: dict[FileId, str] = {}
        self._has_seen_any = False

    def __len__(self) -> int:
        return len(self._files)

    @property
    def finished(self) -> list[FollowedFile]:
        """The files that are read to their end and will not grow; not those that cannot be read."""
        return [file for file in self._files.values() if file.finished and not file.given_up]

    def scan(self) -> None:
        """Look for new, renamed, emptied and removed files.

        Raises:
            OSError: a directory cannot be read.
            FatalError: there are too many files.
        """
        found = self._find()
        self._has_seen_any |= bool(found)
        self._complained = self._set_aside
        self._set_aside = {}
        # A name that a pattern matches is read, whatever the file was called before.
        self._ignored = {identity for identity in self._ignored if identity in found and not found[identity].matched}
        for identity, file in list(self._files.items()):
            if self._files.get(identity) is not file:
                continue  # it was taken for the copy of one before it
            if identity in found:
                self._seen_again(file, found[identity])
            else:
                self._seems_gone(file)
        self._add_new(found)
        if len(self._files) > FILES_MAX:
            raise FatalError(f"file.path matches more than {FILES_MAX} files for this task; divide them")

    def waiting_for(self) -> str | None:
        """Return what has to happen before anything can be read; None if nothing has to.

        That there are no files any more, or none yet of those that are removed when they are read, is in order.

        Raises:
            OSError: a directory cannot be read.
        """
        for identity, problem in self._set_aside.items():
            if identity in self._files:
                return f"{self._files[identity].found.path} cannot be read now: {problem}"
        config = self._config
        if self._has_seen_any or config.done != "leave":
            return None
        if config.task_count > 1 and find_files(config.paths, config.exclude, mine=lambda *_: True, siblings=False):
            return None  # other tasks have them
        return f"there is no file at {', '.join(config.paths)}"

    def next_batch(self, *, now_ns: int) -> tuple[FollowedFile, Batch] | None:
        """Return some rows of some file, or None if there are none now.

        Raises:
            BadHeader: a file's header cannot be used; `scan` and `next_batch` go on with other files.
            DamagedFile: likewise, a compressed file makes no sense. Both messages name the file.
        """
        for _ in range(len(self._turns)):
            if not self._turns:
                break
            file = self._turns[0]
            batch = None
            if file.found.id not in self._set_aside and not self._must_wait(file):
                batch = self._read(file, now_ns)
            if batch is not None:
                if not file.finite:
                    self._turns.rotate(-1)
                return file, batch
            if self._turns and self._turns[0] is file:
                self._turns.rotate(-1)
        return None

    def forget(self, file: FollowedFile) -> None:
        """Take a file out of the set."""
        file.close()
        del self._files[file.found.id]
        self._turns.remove(file)
        self._leave_family(file)

    def close(self) -> None:
        """Close all files."""
        for file in self._files.values():
            file.close()

    def _find(self) -> dict[FileId, FoundFile]:
        config = self._config
        return find_files(
            config.paths,
            config.exclude,
            mine=lambda directory, family: is_mine(
                directory, family, task_index=config.task_index, task_count=config.task_count
            ),
            siblings=self._follows,
        )

    def _seen_again(self, file: FollowedFile, found: FoundFile) -> None:
        if found.path != file.found.path:
            self._log.info("%s is now called %s", file.found.path, found.path)
            if found.bears_family_name or self._family(found) != self._family(file.found):
                self._leave_family(file)
                self._join_family(file, found)
        file.found = found
        # Also if it was gone for a while; that it has a successor is looked at again before it is read.
        file.finite = self._is_finite(found)
        if not file.is_compressed and found.size < file.place.position:
            self._begin_anew(file)

    def _seems_gone(self, file: FollowedFile) -> None:
        if file.is_open and not file.finished:
            file.finite = True  # read to the end through the open descriptor
            return
        if not file.at_end:
            self._log.warning("%s was removed before it was read to its end", file.found.path)
        self.forget(file)

    def _add_new(self, found: dict[FileId, FoundFile]) -> None:
        known = self._files.keys() | self._ignored
        new = [each for identity, each in found.items() if identity not in known]
        # What has the family's own name is its newest member, whatever the clock says.
        new.sort(key=lambda each: (each.bears_family_name, each.modified_ns, each.path))
        replaced = []
        for each, place in zip(new, self._committed_places(new), strict=True):
            if not each.matched and place is None:
                self._ignored.add(each.id)
                continue
            file = self._add(each, place or Place())
            if place is not None and not self._still_holds(file, place):
                replaced.append(file)
        for file in replaced:
            self._begin_anew(file)

    def _still_holds(self, file: FollowedFile, place: Place) -> bool:
        try:
            return file.is_compressed or file.holds(place)
        except OSError:
            return True  # reading will find out

    def _committed_places(self, files: Sequence[FoundFile]) -> list[Place | None]:
        partitions = [{"directory": each.id.directory, "inode": each.id.inode} for each in files]
        offsets = self._offsets.offsets(partitions) if partitions else []
        places = [None if offset is None else Place.from_offset(offset) for offset in offsets]
        return [
            place if place is not None and place.may_be_of(file.id.birth_us) else None
            for file, place in zip(files, places, strict=True)
        ]

    def _add(self, found: FoundFile, place: Place) -> FollowedFile:
        self._log.info("reading %s from position %d on", found.path, place.position)
        file = FollowedFile(
            found,
            self._new_decoder,
            row_bytes_max=self._config.row_bytes_max,
            finite=self._is_finite(found),
            place=place,
        )
        self._files[found.id] = file
        self._turns.append(file)
        self._join_family(file, found)
        return file

    def _is_finite(self, found: FoundFile) -> bool:
        return not self._follows or not found.matched or is_compressed(found.path.name)

    def _join_family(self, file: FollowedFile, found: FoundFile) -> None:
        """Put a file behind the others of its family, but before the one that bears the family's name: it grows."""
        family = self._families.setdefault(self._family(found), [])
        has_newest = bool(family) and family[-1].found.bears_family_name and not found.bears_family_name
        family.insert(len(family) - has_newest, file)

    def _leave_family(self, file: FollowedFile) -> None:
        family = self._families[self._family(file.found)]
        family.remove(file)
        if not family:
            del self._families[self._family(file.found)]

    def _family(self, found: FoundFile) -> tuple[str, str]:
        return found.id.directory, found.family if self._follows else found.path.name

    def _must_wait(self, file: FollowedFile) -> bool:
        family = self._families[self._family(file.found)]
        if family[-1] is not file:
            file.finite = True  # its successor is there
        for older in family:
            if older is file:
                return False
            if not older.at_end and older.found.id not in self._set_aside:
                return True
        raise AssertionError(f"{file.found.path} is not in its family")

    def _read(self, file: FollowedFile, now_ns: int) -> Batch | None:
        if not file.is_open:
            self._close_one_of_many(file)
        try:
            batch = file.read(
                self._config.batch_rows_max, now_ns=now_ns, settle_ns=self._config.settle_ms * _NS_PER_MS
            )
        except Replaced:
            self._begin_anew(file)
            return None
        except (BadHeader, DamagedFile) as error:
            file.give_up()
            raise type(error)(f"{file.found.path}: {error}") from error
        except OSError as error:
            self._put_aside(file, str(error))
            return None
        if batch is None and file.finished:
            file.close()
        return batch

    def _put_aside(self, file: FollowedFile, problem: str) -> None:
        identity = file.found.id
        self._set_aside[identity] = problem
        if self._complained.get(identity) != problem:
            self._log.warning("%s cannot be read now, will try again: %s", file.found.path, problem)
        file.close()

    def _begin_anew(self, file: FollowedFile) -> None:
        """Begin a file anew that was emptied or replaced; what it held may go on in a copy."""
        place = file.place
        self._log.info("%s was emptied or replaced behind position %d", file.found.path, place.position)
        file.restart()
        file.finite = self._is_finite(file.found)
        if not file.found.matched:
            self.forget(file)
        if not self._follows or not place.is_checked or not place.position:
            return
        for found in self._find().values():
            if self._is_copy(found, file, place):
                self._log.info("%s holds what %s held; reading the rest of it first", found.path, file.found.path)
                self._read_copy_first(found, place)
                return

    def _is_copy(self, found: FoundFile, file: FollowedFile, place: Place) -> bool:
        known = self._files.get(found.id)
        if known is file or found.size <= place.position or self._family(found) != self._family(file.found):
            return False
        if is_compressed(found.path.name) or (known is not None and known.is_open):
            return False
        candidate = FollowedFile(
            found, self._new_decoder, row_bytes_max=self._config.row_bytes_max, finite=True, place=place
        )
        try:
            if known is not None and known.place.position and known.holds(known.place):
                return False  # it is read already; otherwise it only has the inode of one that was
            return candidate.holds(place)
        except OSError:
            return False

    def _read_copy_first(self, found: FoundFile, place: Place) -> None:
        if known := self._files.get(found.id):
            self.forget(known)
        self._ignored.discard(found.id)
        copy = self._add(found, place)
        family = self._families[self._family(found)]
        family.remove(copy)
        family.insert(0, copy)  # before the emptied file

    def _close_one_of_many(self, opening: FollowedFile) -> None:
        opened = [file for file in self._files.values() if file.is_open]
        if len(opened) >= OPEN_FILES_MAX:
            min(opened, key=lambda file: (not file.at_end, file is opening)).close()
