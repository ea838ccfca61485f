"""What is known of a cluster outside etcd: from the log directories of its brokers. Pure.

Facts are gathered on each broker's host (`ottla cluster recover inspect`), written to a file, and put together where
the cluster's state is recovered. The file is JSON with a version; the state's values are the texts that etcd had.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from ottla_core.cluster.state.model import NO_EPOCH
from ottla_core.cluster.state.state_copy import StateCopy, StoredValue
from ottla_core.errors import OttlaError

FACTS_KIND = "ottla-recovery-facts"
FACTS_VERSION = 1

Json = Mapping[str, Any]


class BadFacts(OttlaError):
    """A file holds no facts, or those of a later release."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFacts:
    """One partition's log as it lies on a disk.

    Attributes:
        topic: the topic's name, by the directory's.
        index: the partition.
        topic_id: by `partition.metadata`; None if that is missing or unreadable.
        last_epoch: the leader epoch of the last record, -1 if there is none and nobody knows any more.
        end_offset: the offset after the last whole record; what was torn by a crash does not count.
        high_watermark: up to here everything was committed, by the checkpoint; 0 if it does not say.
        highest_producer_id: of its records and snapshots, -1 if there is none.
        created_ms: when its directory was made, by `partition.metadata`; 0 if unknown.
    """

    topic: str
    index: int
    topic_id: UUID | None
    last_epoch: int
    end_offset: int
    high_watermark: int = 0
    highest_producer_id: int = -1
    created_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectoryFacts:
    """One log directory.

    Attributes:
        path: where it lay.
        directory_id: its identity, None if it has none.
        intact_since: the broker epoch since which nothing was lost in it, by its shutdown record; see `Member`.
        recovery: after which recovery of the state that epoch was counted.
        may_lack_records: the machine went down while it was in use, or an fsync has failed.
        copy_problem: why its copy of the state may not be the newest; None if nothing speaks against it.
        copy_position: how new its copy is (`StateCopy.position`); None if it has none that is whole.
        logs: the partitions in it.
        unread: topic and partition of logs in it that could not be read.
        problems: what could not be read, a sentence each.
    """

    path: str
    directory_id: UUID | None
    intact_since: int = 0
    recovery: int = 0
    may_lack_records: bool = False
    copy_problem: str | None = None
    copy_position: tuple[int, int] | None = None
    logs: tuple[LogFacts, ...] = ()
    unread: tuple[tuple[str, int], ...] = ()
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerFacts:
    """What the log directories of one broker have.

    Attributes:
        broker_id: by `meta.properties`.
        cluster_id: likewise.
        directories: those that were inspected.
        copy: the newest copy of the state in them, None if there is none.
        copy_is_sure: nothing speaks against that this is all that the broker has acted by.
        inspected_ms: when, by the clock of the broker's host.
    """

    broker_id: int
    cluster_id: str
    directories: tuple[DirectoryFacts, ...]
    copy: StateCopy | None = None
    copy_is_sure: bool = False
    inspected_ms: int = 0

    @property
    def was_unclean(self) -> bool:
        """Whether a directory may lack records since its last use, or since one that it does not remember."""
        return any(each.may_lack_records or each.intact_since == NO_EPOCH for each in self.directories)


def encode_facts(facts: BrokerFacts) -> Json:
    """Return the document of a file of facts."""
    return {
        "kind": FACTS_KIND,
        "version": FACTS_VERSION,
        "broker": facts.broker_id,
        "cluster_id": facts.cluster_id,
        "directories": [_encode_directory(each) for each in facts.directories],
        "copy": None if facts.copy is None else encode_state(facts.copy),
        "copy_is_sure": facts.copy_is_sure,
        "inspected_ms": facts.inspected_ms,
    }


def decode_facts(document: object) -> BrokerFacts:
    """Return the facts of a document.

    Raises:
        BadFacts: it holds none.
    """
    checked = checked_document(document, FACTS_KIND, FACTS_VERSION)
    try:
        copy = checked["copy"]
        return BrokerFacts(
            broker_id=int(checked["broker"]),
            cluster_id=str(checked["cluster_id"]),
            directories=tuple(_decode_directory(each) for each in checked["directories"]),
            copy=None if copy is None else decode_state(copy),
            copy_is_sure=bool(checked["copy_is_sure"]),
            inspected_ms=int(checked["inspected_ms"]),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise BadFacts(f"a field is missing or wrong: {error!r}") from None


def checked_document(document: object, kind: str, version: int) -> Json:
    """Return a document of a kind and version.

    Raises:
        BadFacts: it is another one.
    """
    if not isinstance(document, dict) or document.get("kind") != kind:
        raise BadFacts(f"it is no file of the kind {kind}")
    if document.get("version") != version:
        raise BadFacts(f"it has version {document.get('version')}, and this release reads version {version}")
    return document


def encode_state(state: StateCopy) -> Json:
    """Return the document of a cluster's lasting state."""
    return {
        "cluster_name": state.cluster_name,
        "cluster_id": state.cluster_id,
        "revision": state.revision,
        "deleted_topics": sorted(map(str, state.deleted_topics)),
        "entries": [
            {"key": key, "mod_revision": stored.mod_revision, "value": stored.value.decode(errors="surrogateescape")}
            for key, stored in sorted(state.entries.items())
        ],
    }


def decode_state(document: Json) -> StateCopy:
    """Return the state of a document; raises KeyError, TypeError or ValueError if it is malformed."""
    return StateCopy(
        cluster_name=str(document["cluster_name"]),
        cluster_id=str(document["cluster_id"]),
        revision=int(document["revision"]),
        deleted_topics=frozenset(map(UUID, document.get("deleted_topics", ()))),
        entries={
            str(each["key"]): StoredValue(int(each["mod_revision"]), each["value"].encode(errors="surrogateescape"))
            for each in document["entries"]
        },
    )


def _encode_directory(directory: DirectoryFacts) -> Json:
    return {
        "path": directory.path,
        "directory_id": _text_of(directory.directory_id),
        "intact_since": directory.intact_since,
        "recovery": directory.recovery,
        "may_lack_records": directory.may_lack_records,
        "copy_problem": directory.copy_problem,
        "copy_position": None if directory.copy_position is None else list(directory.copy_position),
        "unread": [list(each) for each in directory.unread],
        "problems": list(directory.problems),
        "logs": [
            {
                "topic": log.topic,
                "partition": log.index,
                "topic_id": _text_of(log.topic_id),
                "last_epoch": log.last_epoch,
                "end_offset": log.end_offset,
                "high_watermark": log.high_watermark,
                "highest_producer_id": log.highest_producer_id,
                "created_ms": log.created_ms,
            }
            for log in directory.logs
        ],
    }


def _decode_directory(document: Json) -> DirectoryFacts:
    position = document["copy_position"]
    return DirectoryFacts(
        path=str(document["path"]),
        directory_id=_uuid_of(document["directory_id"]),
        intact_since=int(document["intact_since"]),
        recovery=int(document["recovery"]),
        may_lack_records=bool(document["may_lack_records"]),
        copy_problem=None if document["copy_problem"] is None else str(document["copy_problem"]),
        copy_position=None if position is None else (int(position[0]), int(position[1])),
        unread=tuple((str(topic), int(index)) for topic, index in document["unread"]),
        problems=tuple(str(each) for each in document["problems"]),
        logs=tuple(
            LogFacts(
                topic=str(each["topic"]),
                index=int(each["partition"]),
                topic_id=_uuid_of(each["topic_id"]),
                last_epoch=int(each["last_epoch"]),
                end_offset=int(each["end_offset"]),
                high_watermark=int(each["high_watermark"]),
                highest_producer_id=int(each["highest_producer_id"]),
                created_ms=int(each["created_ms"]),
            )
            for each in document["logs"]
        ),
    )


def _text_of(identity: UUID | None) -> str | None:
    return None if identity is None else str(identity)


def _uuid_of(text: str | None) -> UUID | None:
    return None if text is None else UUID(text)
