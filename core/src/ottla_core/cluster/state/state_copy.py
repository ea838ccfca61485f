"""A copy of a cluster's lasting state outside etcd, as bytes: a journal of raw key events. Pure.

Everything below the cluster's prefix is lasting but for the keys that hang on leases (`members/`, `controller`). The
journal begins with its format and whose state it is. Entries follow, each with its length and CRC-32s. An entry holds
changes of keys, as the watch or a listing told them, and the revision up to which the journal is complete with it.
The first entries of a journal are a listing; all but the last of these have the revision 0, for "not complete yet".

Because etcd tells everything in order, every copy that is complete up to a revision *is* the state of that revision.
An entry is written before anybody acts by what it says, so a broker's copy is never behind what the broker has done.

What was being written when the process ended is cut off (`Ending.TORN`): nobody has acted by it. An entry that is
there and is not what its CRC says is damage: what is before it is a true but older state (`Ending.DAMAGED`).
"""

import contextlib
import json
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from uuid import UUID
from zlib import crc32

from ottla_core.cluster.etcd.key_value import KeyChange, KeyValue
from ottla_core.cluster.state import codec
from ottla_core.cluster.state.json_fields import BadValue
from ottla_core.cluster.state.model import Recovery
from ottla_core.errors import OttlaError

MAGIC = b"ottla cluster state 1\n"
"""What a journal begins with; the number is its format."""
MAGIC_OF_ANY_FORMAT = b"ottla cluster state "
COPY_FILE = "cluster-state"
BEHIND_SUFFIX = ".behind"
"""Ends the name of a copy that lacks changes which the disk has refused."""

LEASED = ("members/", "controller")
RECOVERY_KEY = "recovery"
CLUSTER_ID_KEY = "id"
TOPICS = "topics/"
INCOMPLETE = 0
LISTED_KEYS_PER_ENTRY = 500

_SIZE_AND_CRC = struct.Struct(">II")
_HEAD = struct.Struct(">III")
"""An entry's length, its CRC, and the CRC of both: a length that is wrong must not look like a torn end."""
_REVISION = struct.Struct(">Q")
_CHANGE = struct.Struct(">BQII")
_PUT, _DELETION = 1, 2


class UnreadableCopy(OttlaError):
    """A file is no copy of a cluster's state, or of a format that this release does not know."""


class Ending(StrEnum):
    """How a journal ends."""

    WHOLE = "whole"
    TORN = "torn"
    DAMAGED = "damaged"


@dataclass(frozen=True, slots=True)
class StoredValue:
    """What a key held, and the revision of etcd at which it was written."""

    mod_revision: int
    value: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class StateCopy:
    """The lasting state of a cluster at one revision.

    Attributes:
        cluster_name: whose keys these are; not part of them.
        cluster_id: the id of the cluster, "" if none was stored.
        revision: the state is that of this revision; 0 for a copy that was never complete.
        entries: by key, relative to the cluster's prefix.
        deleted_topics: ids of topics whose deletion the journal tells; one that was written anew since does not.
    """

    cluster_name: str
    cluster_id: str
    revision: int
    entries: Mapping[str, StoredValue] = field(default_factory=dict)
    deleted_topics: frozenset[UUID] = frozenset()

    @property
    def recovery(self) -> Recovery:
        """The recovery that the state is of after; revisions of before mean nothing in it."""
        stored = self.entries.get(RECOVERY_KEY)
        return codec.decode_recovery(stored.value) if stored is not None else Recovery()

    @property
    def position(self) -> tuple[int, int]:
        """How new the state is: the larger, the newer, among copies of one cluster."""
        return self.recovery.number, self.revision


def is_lasting(relative_key: str) -> bool:
    """Return whether a key, relative to the prefix, outlives the processes."""
    return not relative_key.startswith(LEASED[0]) and relative_key != LEASED[1]


def encode_beginning(cluster_name: str, cluster_id: str) -> bytes:
    """Return what a journal begins with."""
    return MAGIC + _entry(json.dumps({"cluster_name": cluster_name, "cluster_id": cluster_id}).encode())


def encode_changes(changes: Iterable[KeyChange], revision: int, prefix: str) -> bytes:
    """Return the entry of changes; empty if none is of a lasting key.

    Args:
        changes: in order, all below `prefix`.
        revision: the journal is complete up to this revision with them; `INCOMPLETE` if more are to follow.
        prefix: that of the cluster's keys.
    """
    parts: list[bytes] = []
    for change in changes:
        key = change.key[len(prefix) :]
        if not is_lasting(key):
            continue
        encoded = key.encode()
        if isinstance(change, KeyValue):
            head = _CHANGE.pack(_PUT, change.mod_revision, len(encoded), len(change.value))
            parts += (head, encoded, change.value)
        else:
            parts += (_CHANGE.pack(_DELETION, change.mod_revision, len(encoded), 0), encoded)
    return _entry(_REVISION.pack(revision) + b"".join(parts)) if parts else b""


def encode_listing(entries: Sequence[KeyValue], revision: int, prefix: str) -> Iterator[bytes]:
    """Yield the entries of a listing, some hundred keys each, of which the last one makes the journal complete."""
    for start in range(0, len(entries), LISTED_KEYS_PER_ENTRY):
        yield encode_changes(entries[start : start + LISTED_KEYS_PER_ENTRY], INCOMPLETE, prefix)
    yield encode_completion(revision)


def encode_completion(revision: int) -> bytes:
    """Return the entry that says that the journal is complete up to a revision."""
    return _entry(_REVISION.pack(revision))


def decode_copy(data: bytes | memoryview) -> tuple[StateCopy, Ending]:
    """Return the state that a journal describes, and how the journal ends.

    Raises:
        UnreadableCopy: it is no journal, or of an unknown format, or its beginning is damaged.
    """
    view = memoryview(data)
    if bytes(view[: len(MAGIC)]) != MAGIC:
        beginning = bytes(view[: len(MAGIC)])
        if beginning.startswith(MAGIC_OF_ANY_FORMAT):
            raise UnreadableCopy(f"it has the format {beginning[len(MAGIC_OF_ANY_FORMAT) :]!r}, of a later release")
        raise UnreadableCopy("it is no copy of a cluster's state")
    found = _entries(view, len(MAGIC))
    beginning_entry = next(found)
    if isinstance(beginning_entry, Ending):
        raise UnreadableCopy("its beginning is damaged")
    try:
        identity = json.loads(bytes(beginning_entry))
        cluster_name, cluster_id = str(identity["cluster_name"]), str(identity["cluster_id"])
    except (ValueError, KeyError, TypeError):
        raise UnreadableCopy("its beginning is damaged") from None
    entries: dict[str, StoredValue] = {}
    deleted: set[UUID] = set()
    revision = INCOMPLETE
    ending = Ending.WHOLE
    for entry in found:
        if isinstance(entry, Ending):
            ending = entry
            break
        (complete_up_to,) = _REVISION.unpack_from(entry)
        if revision and complete_up_to <= revision:
            continue  # told again, after a listing that had it already
        deleted.update(_apply(entry, entries))
        revision = complete_up_to or revision
    if revision == INCOMPLETE:
        entries = {}
    return StateCopy(
        cluster_name=cluster_name,
        cluster_id=cluster_id,
        revision=revision,
        entries=entries,
        deleted_topics=frozenset(deleted),
    ), ending


def cluster_id_in(entries: Iterable[KeyValue], prefix: str) -> str | None:
    """Return the cluster id that a listing has; None if it has none that can be read."""
    for entry in entries:
        if entry.key == prefix + CLUSTER_ID_KEY:
            try:
                return codec.decode_cluster_id(entry.value)
            except BadValue:
                return None
    return None


def _entry(payload: bytes) -> bytes:
    size_and_crc = _SIZE_AND_CRC.pack(len(payload), crc32(payload))
    return size_and_crc + crc32(size_and_crc).to_bytes(4, "big") + payload


def _entries(view: memoryview, position: int) -> Iterator[memoryview | Ending]:
    """Yield the payloads of the entries, and at last how they end."""
    while position < len(view):
        if len(view) - position < _HEAD.size:
            yield Ending.TORN
            return
        length, crc, head_crc = _HEAD.unpack_from(view, position)
        start = position + _HEAD.size
        if crc32(view[position : position + _SIZE_AND_CRC.size]) != head_crc:
            yield Ending.DAMAGED
            return
        if length > len(view) - start:
            yield Ending.TORN
            return
        payload = view[start : start + length]
        if crc32(payload) != crc or length < _REVISION.size:
            yield Ending.DAMAGED
            return
        yield payload
        position = start + length
    yield Ending.WHOLE


def _apply(entry: memoryview, entries: dict[str, StoredValue]) -> list[UUID]:
    """Make the changes of an entry; return the ids of topics that it deletes."""
    deleted: list[UUID] = []
    position = _REVISION.size
    while position < len(entry):
        kind, mod_revision, key_length, value_length = _CHANGE.unpack_from(entry, position)
        position += _CHANGE.size
        key = bytes(entry[position : position + key_length]).decode()
        position += key_length
        if kind == _PUT:
            entries[key] = StoredValue(mod_revision, bytes(entry[position : position + value_length]))
        elif (former := entries.pop(key, None)) is not None and key.startswith(TOPICS):
            with contextlib.suppress(BadValue):
                deleted.append(codec.decode_topic(key.removeprefix(TOPICS), former.value).id)
        position += value_length
    return deleted
