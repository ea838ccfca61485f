"""The folder of a checkpoint: the file `ottla-query.json` in it, and whether Spark has a query's state there.

Local folders are looked at without Spark, so that a wrong one is known before Java starts. Others are reached through
Hadoop's file systems, which Spark has; so are their credentials.
"""

import errno
import hashlib
import json
import os
import re
from abc import ABC, abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ottla_sdk import ConnectError, FatalError, RetriableError
from ottla_sdk.file_policy import permitted_path
from ottla_spark.job.checkpoint_record import FILE_NAME, CheckpointRecord, ForeignCheckpoint
from ottla_spark.job.plan import JobPlan

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BEGUN = "offsets"
"""The folder in which Spark notes the offsets of each batch before it begins with it."""
DIGEST_DIGITS = 16
_SPARKS_OWN = "metadata"
"""The file in which Spark keeps the id of a streaming query."""
_COMPACTED = ".compact"
"""How the name of a batch's file ends in which Spark has put together all up to it."""
_URI = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]+):(//[^/]*)?(?P<path>/.*)?")
_PASSING = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.ESTALE, errno.EAGAIN, errno.ETIMEDOUT})
"""What keeps a file from being read or written for a while."""


class Folder(ABC):
    """A folder on some file system."""

    @abstractmethod
    def read(self, name: str) -> str | None:
        """Return the text of a file, None if there is none."""

    @abstractmethod
    def write(self, name: str, text: str) -> None:
        """Write a file as a whole: a reader finds the old text or the new one."""

    @abstractmethod
    def has(self, name: str) -> bool:
        """Return whether there is a file or folder, in a folder perhaps."""

    @abstractmethod
    def is_empty(self) -> bool:
        """Return whether nothing is in it, or it is not there."""

    @abstractmethod
    def names(self, place: str) -> list[str]:
        """Return the names of the files in a folder of it; none if that is not there."""


class LocalFolder(Folder):
    """A folder of this machine."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self, name: str) -> str | None:
        """Return the text of a file, None if there is none."""
        try:
            return (self._path / name).read_text(encoding="utf-8")
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError) as error:
            raise _kind(error)(f"{self._path / name} cannot be read: {error}") from None

    def write(self, name: str, text: str) -> None:
        """Write a file under another name, and rename it."""
        try:
            self._path.mkdir(parents=True, exist_ok=True)
            written = self._path / f".{name}.{os.getpid()}"
            with written.open("w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            written.replace(self._path / name)
        except OSError as error:
            raise _kind(error)(f"{self._path / name} cannot be written: {error.strerror or error}") from None

    def has(self, name: str) -> bool:
        """Return whether there is a file or folder."""
        return (self._path / name).exists()

    def is_empty(self) -> bool:
        """Return whether nothing is in it."""
        return not self._path.exists() or not any(self._path.iterdir())

    def names(self, place: str) -> list[str]:
        """Return the names of the files in a folder of it."""
        try:
            return [path.name for path in (self._path / place).iterdir()]
        except FileNotFoundError:
            return []
        except OSError as error:
            raise _kind(error)(f"{self._path / place} cannot be listed: {error.strerror or error}") from None


class HadoopFolder(Folder):
    """A folder on any file system that Spark knows."""

    def __init__(self, session: "SparkSession", uri: str) -> None:
        context: Any = session.sparkContext
        self._paths = context._jvm.org.apache.hadoop.fs.Path  # noqa: SLF001 - PySpark has no other way to files
        self._uri = uri
        self._files = self._paths(uri).getFileSystem(context._jsc.hadoopConfiguration())  # noqa: SLF001
        self._text = context._jvm.org.apache.commons.io.IOUtils  # noqa: SLF001

    def read(self, name: str) -> str | None:
        """Return the text of a file, None if there is none."""
        if self.has(name):
            return self._text_of(name)
        text = self._text_of(_being_written(name)) if self.has(_being_written(name)) else ""
        return text if _is_whole(text) else None  # the first writing of it was cut short

    def write(self, name: str, text: str) -> None:
        """Write a file under another name, and rename it; where renaming over a file is refused, that goes first."""
        written, target = self._paths(self._uri, _being_written(name)), self._paths(self._uri, name)
        stream = self._files.create(written, True)
        try:
            self._text.write(text, stream, "UTF-8")
        finally:
            stream.close()
        if self._files.exists(target):
            self._files.delete(target, False)
        if not self._files.rename(written, target):
            raise ConnectError(f"{self._uri}/{name} cannot be written: {_being_written(name)} cannot be renamed")

    def has(self, name: str) -> bool:
        """Return whether there is a file or folder."""
        return bool(self._files.exists(self._paths(self._uri, name)))

    def is_empty(self) -> bool:
        """Return whether nothing is in it."""
        folder = self._paths(self._uri)
        return not self._files.exists(folder) or len(self._files.listStatus(folder)) == 0

    def names(self, place: str) -> list[str]:
        """Return the names of the files in a folder of it."""
        folder = self._paths(self._uri, place)
        if not self._files.exists(folder):
            return []
        return [str(each.getPath().getName()) for each in self._files.listStatus(folder)]

    def _text_of(self, name: str) -> str:
        stream = self._files.open(self._paths(self._uri, name))
        try:
            return str(self._text.toString(stream, "UTF-8"))
        finally:
            stream.close()


def _being_written(name: str) -> str:
    return f".{name}.new"


def _is_whole(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def _kind(error: OSError | UnicodeDecodeError) -> type[ConnectError]:
    return RetriableError if isinstance(error, OSError) and error.errno in _PASSING else FatalError


def local_path(location: str) -> Path | None:
    """Return the path that a location names on this machine, as Hadoop reads it; None if it is elsewhere."""
    uri = _URI.fullmatch(location)
    if uri is None:
        return Path(location)
    return Path(uri["path"] or "/") if uri["scheme"].lower() == "file" else None


def folder_at(location: str, session: "SparkSession | None" = None) -> Folder | None:
    """Return the folder at a location; None if it is not on this machine, and there is no Spark yet.

    A path without a scheme is Hadoop's if Spark's settings say so (`fs.defaultFS`), which is known with Spark only.
    """
    path = local_path(location)
    if path is not None:
        permitted_path(path)
    if path is not None and (session is None or _URI.fullmatch(location) or _is_local_by_default(session)):
        return LocalFolder(path)
    return HadoopFolder(session, location) if session is not None else None


def _is_local_by_default(session: "SparkSession") -> bool:
    java: Any = session.sparkContext._jsc  # noqa: SLF001 - PySpark has no other way to it
    return str(java.hadoopConfiguration().get("fs.defaultFS") or "file:").startswith("file:")


def next_batch(folder: Folder, output: str) -> int:
    """Return the number of the batch with which an output's query begins or goes on; one that was not finished again.

    Spark notes a batch in `offsets` before it does it, and in `commits` when it is done.
    """
    begun, done = (last_batch(folder, f"{output}/{log}") for log in (BEGUN, "commits"))
    return begun if begun > done else begun + 1


def offsets_digest(folder: Folder, output: str, number: int) -> str:
    """Return what tells the offsets of an output's batch from others; empty if Spark has noted none."""
    text = folder.read(f"{output}/{BEGUN}/{number}")
    return "" if text is None else hashlib.sha256(text.encode()).hexdigest()[:DIGEST_DIGITS]


def last_batch(folder: Folder, log: str) -> int:
    """Return the number of the last batch in a log of Spark's, a folder with a file for each; -1 if it has none."""
    numbers = (name.removesuffix(_COMPACTED) for name in folder.names(log))
    return max((int(each) for each in numbers if each.isdecimal()), default=-1)


def continued_record(folder: Folder, plan: JobPlan) -> CheckpointRecord:
    """Return the record of a plan that begins in a folder, or goes on in it. Nothing is written.

    Raises:
        ForeignCheckpoint: the folder is another query's.
    """
    text = folder.read(FILE_NAME)
    if text is not None:
        return CheckpointRecord.from_json(text, plan.checkpoint_location).continued(plan)
    for place in ("", *(f"{output.name}/" for output in plan.outputs)):
        if folder.has(place + _SPARKS_OWN):
            raise ForeignCheckpoint(
                f"{plan.checkpoint_location}/{place} has a checkpoint of Spark that no connector has made, as there "
                f"is no {FILE_NAME}, so it is not that of {plan.connector}. Set checkpoint.location to another folder"
            )
    return CheckpointRecord.of(plan)
