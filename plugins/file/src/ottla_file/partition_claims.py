"""What a sink keeps on the disk about a partition beside its files: which task has it, and which topic it is of.

A task that takes a partition over writes its own token over the former owner's, then removes unfinished files, then
looks which records are in finished ones. A task that finishes a file has created it before, reads the token, and
renames the file; so whatever the order, either it sees a foreign token, or its file is removed, or its successor sees
the finished file.
"""

import os
import secrets
from pathlib import Path
from urllib.parse import quote

from ottla_sdk import TopicPartition
from ottla_sdk.file_policy import permitted_path

UNFINISHED = ".unfinished"
TOPICS = ".topics"


class Ownership:
    """A task's hold of a partition, until another task takes it."""

    def __init__(self, directory: Path, connector: str, partition: TopicPartition) -> None:
        """Take the partition from its holder.

        Raises:
            OSError: the token cannot be written.
        """
        self._path = unfinished_directory(directory, connector) / "owners" / _name(partition)
        self._token = secrets.token_hex(16)
        _write(self._path, self._token, fsync=False)

    def is_held(self) -> bool:
        """Return whether no other task has taken the partition.

        Raises:
            OSError: the token cannot be read.
        """
        try:
            return self._path.read_text() == self._token
        except FileNotFoundError:
            return False


def owned_partitions(directory: Path, connector: str) -> list[TopicPartition]:
    """Return the partitions that tasks of a connector have ever had.

    Raises:
        OSError: that cannot be read.
    """
    try:
        names = sorted(path.name for path in (unfinished_directory(directory, connector) / "owners").iterdir())
    except FileNotFoundError:
        return []
    found = (name.rpartition("-") for name in names)
    # What `_write` has not renamed yet ends with letters.
    return [TopicPartition(topic, int(number)) for topic, _, number in found if topic and number.isdecimal()]


def unfinished_directory(directory: Path, connector: str) -> Path:
    """Return where a connector's unfinished files are."""
    return directory / UNFINISHED / quote(connector, safe="")


def topic_of_files(directory: Path, connector: str, partition: TopicPartition) -> str | None:
    """Return the id of the topic whose records a partition's finished files hold; None if it is not known.

    Raises:
        OSError: it cannot be read.
    """
    try:
        return _topic_path(directory, connector, partition).read_text() or None
    except FileNotFoundError:
        return None


def keep_topic(directory: Path, connector: str, partition: TopicPartition, topic_id: str, *, fsync: bool) -> None:
    """Keep of which topic a partition's finished files are.

    Raises:
        OSError: it cannot be written.
    """
    _write(_topic_path(directory, connector, partition), topic_id, fsync=fsync)


def sync_directory(path: Path) -> None:
    """Wait until the names in a directory are on the disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _topic_path(directory: Path, connector: str, partition: TopicPartition) -> Path:
    return directory / TOPICS / quote(connector, safe="") / _name(partition)


def _name(partition: TopicPartition) -> str:
    return f"{partition.topic}-{partition.partition}"


def _write(path: Path, text: str, *, fsync: bool) -> None:
    """Write a small file all at once."""
    permitted_path(path.parent).mkdir(parents=True, exist_ok=True)
    new = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    try:
        with new.open("w") as file:
            file.write(text)
            file.flush()
            if fsync:
                os.fsync(file.fileno())
        new.rename(path)
    except BaseException:
        new.unlink(missing_ok=True)
        raise
    if fsync:
        sync_directory(path.parent)
