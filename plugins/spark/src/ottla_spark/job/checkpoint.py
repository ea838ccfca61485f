"""The folder of a checkpoint: the file `ottla-query.json` in it, and whether Spark has a query's state there.

Local folders are looked at without Spark, so that a wrong one is known before Java starts. Others are reached through
Hadoop's file systems, which Spark has; so are their credentials.
"""

import os
from abc import ABC, abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from ottla_sdk import FatalError
from ottla_spark.job.checkpoint_record import FILE_NAME, CheckpointRecord, ForeignCheckpoint
from ottla_spark.job.plan import JobPlan

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SPARKS_OWN = "metadata"
"""The file in which Spark keeps the id of a streaming query."""


class Folder(ABC):
    """A folder on some file system."""

    @abstractmethod
    def read(self, name: str) -> str | None:
        """Return the text of a file, None if there is none."""

    @abstractmethod
    def write(self, name: str, text: str) -> None:
        """Write a file as a whole: whoever reads it finds the old text or the new one."""

    @abstractmethod
    def has(self, name: str) -> bool:
        """Return whether there is a file or folder, in a folder perhaps."""

    @abstractmethod
    def is_empty(self) -> bool:
        """Return whether nothing is in it, or it is not there."""


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
            raise FatalError(f"{self._path / name} cannot be read: {error}") from None

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
            raise FatalError(f"{self._path / name} cannot be written: {error.strerror or error}") from None

    def has(self, name: str) -> bool:
        """Return whether there is a file or folder."""
        return (self._path / name).exists()

    def is_empty(self) -> bool:
        """Return whether nothing is in it."""
        return not self._path.exists() or not any(self._path.iterdir())


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
        found = next((each for each in (name, _being_written(name)) if self.has(each)), None)
        if found is None:
            return None
        stream = self._files.open(self._paths(self._uri, found))
        try:
            return str(self._text.toString(stream, "UTF-8"))
        finally:
            stream.close()

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
        self._files.rename(written, target)

    def has(self, name: str) -> bool:
        """Return whether there is a file or folder."""
        return bool(self._files.exists(self._paths(self._uri, name)))

    def is_empty(self) -> bool:
        """Return whether nothing is in it."""
        folder = self._paths(self._uri)
        return not self._files.exists(folder) or len(self._files.listStatus(folder)) == 0


def _being_written(name: str) -> str:
    return f".{name}.new"


def local_path(location: str) -> Path | None:
    """Return the path that a location names on this machine; None if it is elsewhere."""
    if not location.lower().startswith("file:"):
        return None if "://" in location else Path(location)
    return Path(unquote(urlsplit(location).path))


def folder_at(location: str, session: "SparkSession | None" = None) -> Folder | None:
    """Return the folder at a location; None if it is not on this machine, and there is no Spark yet."""
    path = local_path(location)
    if path is not None:
        return LocalFolder(path)
    return HadoopFolder(session, location) if session is not None else None


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
