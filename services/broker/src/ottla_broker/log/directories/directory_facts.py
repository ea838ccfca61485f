"""What the log directories of a stopped broker tell of its cluster, for `ottla cluster recover`.

The directories are locked meanwhile, so that no broker uses them, and nothing in them is changed. Everything here
blocks.
"""

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final
from uuid import UUID

from ottla_broker.log.directories.log_directory import (
    CLEAN_SHUTDOWN_MARKER,
    META_PROPERTIES,
    locked,
    parse_partition_directory,
    read_properties,
)
from ottla_broker.log.directories.log_facts import read_log_facts
from ottla_broker.log.files.offset_checkpoint import (
    HIGH_WATERMARK_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    OffsetCheckpoint,
)
from ottla_broker.log.files.shutdown_record import may_lack_records, read_record
from ottla_core.cluster.state.recovery_facts import BrokerFacts, DirectoryFacts, LogFacts
from ottla_core.cluster.state.state_copy import (
    BEHIND_SUFFIX,
    COPY_FILE,
    Ending,
    StateCopy,
    UnreadableCopy,
    decode_copy,
)
from ottla_core.errors import ConfigurationError, CorruptMessage
from ottla_core.kafka_uuid import parse_uuid_text
from ottla_core.topic_partition import TopicPartition

NEVER_LISTED: Final = "it was never written to its end"


def inspect_broker(paths: Sequence[Path]) -> BrokerFacts:
    """Return what the log directories of one broker hold; see `inspected_broker`."""
    with inspected_broker(paths) as facts:
        return facts


@contextmanager
def inspected_broker(paths: Sequence[Path]) -> Iterator[BrokerFacts]:
    """Yield what the log directories of one broker hold; no broker can use them until the context is left.

    Raises:
        ConfigurationError: one is no log directory, is in use, or they belong to several brokers or clusters.
        OSError: one cannot be read.
    """
    paths = [path.absolute() for path in paths]
    owners = {path: _owner(path) for path in paths}
    if len(set(owners.values())) > 1:
        named = "; ".join(f"{path}: broker {owner[0]} of cluster {owner[1]}" for path, owner in owners.items())
        raise ConfigurationError(
            f"The log directories belong to several brokers or clusters: {named}. Inspect each broker by itself"
        )
    broker_id, cluster_id = owners[paths[0]]
    with ExitStack() as stack:
        for path in paths:
            stack.enter_context(locked(path))
        yield _facts_of(paths, broker_id, cluster_id)


def _facts_of(paths: Sequence[Path], broker_id: int, cluster_id: str) -> BrokerFacts:
    inspected_ms = time.time_ns() // 1_000_000
    found = [_inspect(path, cluster_id) for path in paths]
    newest = max((copy for _, copy in found if copy is not None), key=lambda copy: copy.position, default=None)
    return BrokerFacts(
        broker_id=broker_id,
        cluster_id=cluster_id,
        inspected_ms=inspected_ms,
        directories=tuple(directory for directory, _ in found),
        copy=newest,
        # A directory that was away in the last run has an older one, and knows nothing against it.
        copy_is_sure=newest is not None
        and any(each.copy_problem is None and each.copy_position == newest.position for each, _ in found),
    )


def _owner(path: Path) -> tuple[int, str]:
    """Return the broker id and the cluster id of a log directory."""
    try:
        properties = read_properties(path / META_PROPERTIES)
        return int(properties.get("node.id", properties.get("broker.id", ""))), properties["cluster.id"]
    except (FileNotFoundError, NotADirectoryError):
        raise ConfigurationError(
            f"{path} is no log directory of a broker: it has no {META_PROPERTIES}. Name what log.dirs says"
        ) from None
    except (KeyError, ValueError):
        raise ConfigurationError(f"{path / META_PROPERTIES} does not say which broker of which cluster") from None


def _inspect(path: Path, cluster_id: str) -> tuple[DirectoryFacts, StateCopy | None]:
    was_clean = (path / CLEAN_SHUTDOWN_MARKER).exists()
    record = read_record(path)
    lacks = may_lack_records(path, was_clean=was_clean)
    copy, problem = _read_copy(path, cluster_id)
    position = copy.position if copy is not None and problem is None else None
    if problem is None and not record.keeps_copies:
        problem = "a former release has used the directory since, which keeps no copy"
    if problem is None and lacks:
        problem = "the machine went down while the directory was in use, so its newest changes may be lost"
    problems: list[str] = []
    unread: list[tuple[str, int]] = []
    logs = tuple(_logs(path, problems, unread))
    directory = DirectoryFacts(
        path=str(path),
        directory_id=_directory_id(path),
        intact_since=record.intact_since,
        recovery=record.recovery,
        may_lack_records=lacks,
        copy_problem=problem,
        copy_position=position,
        logs=logs,
        unread=tuple(unread),
        problems=tuple(problems),
    )
    return directory, copy


def _directory_id(path: Path) -> UUID | None:
    try:
        return parse_uuid_text(read_properties(path / META_PROPERTIES).get("directory.id", ""))
    except ValueError:
        return None


def _read_copy(path: Path, cluster_id: str) -> tuple[StateCopy | None, str | None]:
    """Return the newest copy of the state in a directory, and what speaks against that it is the newest state."""
    copy, problem = _read_copy_file(path / COPY_FILE, cluster_id)
    if copy is not None and problem is None:
        return copy, None
    behind, _ = _read_copy_file(path / (COPY_FILE + BEHIND_SUFFIX), cluster_id)
    found = [each for each in (copy, behind) if each is not None]
    if behind is not None and copy is None:
        problem = "the disk had refused changes of it"
    return max(found, key=lambda each: each.position, default=None), problem


def _read_copy_file(path: Path, cluster_id: str) -> tuple[StateCopy | None, str | None]:
    try:
        copy, ending = decode_copy(path.read_bytes())
    except FileNotFoundError:
        return None, "there is none"
    except UnreadableCopy as error:
        return None, f"{path} cannot be read: {error}"
    if copy.revision == 0:
        return None, NEVER_LISTED
    if copy.cluster_id != cluster_id:
        return None, f"{path} is of the cluster {copy.cluster_id}"
    return copy, f"{path} is damaged; what was before the damage is used" if ending is Ending.DAMAGED else None


def _logs(path: Path, problems: list[str], unread: list[tuple[str, int]]) -> Iterable[LogFacts]:
    """Yield what the partitions' directories hold, and note those that cannot be read."""
    high_watermarks = _offsets(path / HIGH_WATERMARK_CHECKPOINT, problems)
    log_start_offsets = _offsets(path / LOG_START_OFFSET_CHECKPOINT, problems)
    for directory in sorted(path.iterdir()):
        topic_partition = parse_partition_directory(directory.name)
        if topic_partition is None or not directory.is_dir():
            continue
        try:
            yield read_log_facts(
                directory,
                topic_partition,
                log_start_offset=log_start_offsets.get(topic_partition, 0),
                high_watermark=high_watermarks.get(topic_partition, 0),
            )
        except OSError as error:
            unread.append(topic_partition)
            problems.append(f"{directory} cannot be read: {error.strerror or error}")


def _offsets(path: Path, problems: list[str]) -> dict[TopicPartition, int]:
    try:
        return OffsetCheckpoint(path).read()
    except CorruptMessage as error:
        problems.append(str(error))
        return {}
