"""`partition.metadata`: which topic a partition's directory belongs to, by topic id.

A topic may be deleted and created again under the same name while a broker is down; the id tells the two
apart.
"""

from pathlib import Path
from typing import Final
from uuid import UUID

from ottla_broker.log.files.checkpoint_file import replace_file
from ottla_core.errors import CorruptMessage
from ottla_core.kafka_uuid import parse_uuid_text, uuid_text

PARTITION_METADATA: Final = "partition.metadata"
_VERSION: Final = "0"


def write_partition_metadata(directory: Path, topic_id: UUID) -> None:
    """Create the file, durably; raises OSError."""
    replace_file(directory / PARTITION_METADATA, _content(topic_id))


def begin_partition_metadata(directory: Path, topic_id: UUID) -> None:
    """Create the file in a new directory; the log's first flush makes it durable. Raises OSError."""
    (directory / PARTITION_METADATA).write_text(_content(topic_id), encoding="utf-8", newline="\n")


def _content(topic_id: UUID) -> str:
    return f"version: {_VERSION}\ntopic_id: {uuid_text(topic_id)}"


def read_partition_metadata(directory: Path) -> UUID | None:
    """Return the topic id, or None if there is no such file.

    Raises:
        CorruptMessage: the file is damaged.
        OSError: it cannot be read.
    """
    path = directory / PARTITION_METADATA
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return None
    fields = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
    if fields.get("version", "").strip() != _VERSION:
        raise CorruptMessage(f"{path} has version {fields.get('version')}, {_VERSION} is known")
    try:
        return parse_uuid_text(fields.get("topic_id", "").strip())
    except ValueError:
        raise CorruptMessage(f"{path} has no valid topic_id") from None
