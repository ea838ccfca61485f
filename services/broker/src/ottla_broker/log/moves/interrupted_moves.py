"""Moves between log directories that a stop or a crash interrupted: found at the start, and settled.

A move ends with a rename of the copy to the partition's name; the former directory is renamed to `*-delete` right
after that. Before, the copy gets a file `moved-from` with the ids of the directories that an older log of the
partition may lie in. So if two directories have the partition, the one with that file is the log, even if the other
one's disk was away for a while. A copy that was not renamed yet only says where the log was to go: it is made anew,
as nothing tells whether it is of the same log. Everything here blocks.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, NamedTuple
from uuid import UUID

import structlog

from ottla_broker.log.directories.log_directory import LogDirectory, parse_future_directory, set_aside_name
from ottla_broker.log.files.checkpoint_file import replace_file, sync_directory
from ottla_broker.log.files.log_disposal import LogDisposal
from ottla_core.kafka_uuid import parse_uuid_text, uuid_text
from ottla_core.topic_partition import TopicPartition

MOVED_FROM: Final = "moved-from"

_logger: Final = structlog.get_logger("log.moves")


class InterruptedMove(NamedTuple):
    """A move to take up again."""

    topic_partition: TopicPartition
    target: LogDirectory
    path: Path


def mark_moved(path: Path, former: Iterable[UUID]) -> None:
    """Note in a partition's directory where older logs of it may lie; raises OSError."""
    replace_file(path / MOVED_FROM, "".join(f"{uuid_text(directory_id)}\n" for directory_id in former))


def moved_from(path: Path) -> set[UUID]:
    """Return the ids of the directories that older logs may lie in; raises OSError."""
    try:
        lines = (path / MOVED_FROM).read_text(encoding="utf-8", errors="replace").split()
    except FileNotFoundError:
        return set()
    found = set()
    for line in lines:
        try:
            found.add(parse_uuid_text(line))
        except ValueError:
            _logger.warning("an unreadable directory id is passed over", file=str(path / MOVED_FROM), found=line)
    return found


def retire_former(path: Path, topic_partition: TopicPartition) -> Path:
    """Rename the directory that a log has left, so that it is removed later; raises OSError."""
    target = path.with_name(set_aside_name(topic_partition, LogDisposal.DELETE))
    path.rename(target)
    sync_directory(target.parent)
    return target


def settle_interrupted_moves(directories: Sequence[LogDirectory]) -> list[InterruptedMove]:
    """Finish the moves that were all but done, and return those to take up again; raises OSError.

    Args:
        directories: those that are online.
    """
    present = {(directory.path, key): path for directory in directories for key, path in directory.partitions()}
    by_id = {directory.directory_id: directory for directory in directories}
    for (_, topic_partition), path in tuple(present.items()):
        former = moved_from(path)
        for directory in (by_id[directory_id] for directory_id in former if directory_id in by_id):
            older = present.pop((directory.path, topic_partition), None)
            if older is not None:
                _logger.info("finishing the move of a partition", partition=str(topic_partition), to=str(path))
                retire_former(older, topic_partition)
        _forget_former(path, former, former - by_id.keys())
    return _copies(directories, {topic_partition for _, topic_partition in present})


def _forget_former(path: Path, former: set[UUID], left: set[UUID]) -> None:
    if former and not left:
        (path / MOVED_FROM).unlink(missing_ok=True)
    elif left != former:
        mark_moved(path, left)


def _copies(directories: Sequence[LogDirectory], present: set[TopicPartition]) -> list[InterruptedMove]:
    """Return the copies that were being made; those of logs that are not here are left alone."""
    found: dict[TopicPartition, InterruptedMove] = {}
    for directory in directories:
        for path in sorted(directory.path.iterdir()):
            topic_partition = parse_future_directory(path.name)
            if topic_partition is None:
                continue
            if topic_partition in present and topic_partition not in found:
                found[topic_partition] = InterruptedMove(topic_partition, directory, path)
            else:
                _logger.warning(
                    "a copy of a partition is in nobody's use; remove it if the partition is not missing",
                    directory=str(path),
                )
    return list(found.values())
