"""Backups of a cluster's lasting state: one JSON file each, with its version, its time and a checksum. Pure."""

import hashlib
import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from ottla_core.cluster.etcd.key_value import KeyValue
from ottla_core.cluster.state.recovery_facts import BadFacts, checked_document, decode_state, encode_state
from ottla_core.cluster.state.state_copy import RECOVERY_KEY, StateCopy, StoredValue, cluster_id_in, is_lasting
from ottla_core.errors import OttlaError

BACKUP_KIND = "ottla-cluster-backup"
BACKUP_VERSION = 1


class NoState(OttlaError):
    """etcd has no cluster of this name, or only a part of one."""


def state_of(entries: Sequence[KeyValue], revision: int, cluster_name: str, prefix: str) -> StateCopy:
    """Return the lasting state of a listing.

    Raises:
        NoState: there is none, or a recovery has not written all of it yet.
    """
    cluster_id = cluster_id_in(entries, prefix)
    if cluster_id is None:
        raise NoState(f"etcd has no cluster of the name {cluster_name}: nothing is below {prefix}")
    state = StateCopy(
        cluster_name=cluster_name,
        cluster_id=cluster_id,
        revision=revision,
        entries={
            key: StoredValue(entry.mod_revision, entry.value)
            for entry in entries
            if is_lasting(key := entry.key[len(prefix) :])
        },
    )
    if RECOVERY_KEY in state.entries and state.recovery.is_unfinished:
        raise NoState(
            f"a recovery of the cluster {cluster_name} in etcd is not finished; there is no whole state yet"
        )
    return state


def encode_backup(state: StateCopy, time_ms: int) -> bytes:
    """Return the content of a backup's file."""
    document = encode_state(state)
    return json.dumps(
        {
            "kind": BACKUP_KIND,
            "version": BACKUP_VERSION,
            "time": datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="seconds"),
            "sha256": _checksum(document),
            "state": document,
        },
        indent=1,
    ).encode()


def decode_backup(document: object) -> tuple[StateCopy, str]:
    """Return the state of a backup, and when it was made.

    Raises:
        BadFacts: it is none, of a later release, or damaged.
    """
    checked = checked_document(document, BACKUP_KIND, BACKUP_VERSION)
    try:
        state = checked["state"]
        if _checksum(state) != checked["sha256"]:
            raise BadFacts("its checksum is another one: the file was changed or is damaged")
        return decode_state(state), str(checked["time"])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise BadFacts(f"a field is missing or wrong: {error!r}") from None


def _checksum(state: Any) -> str:
    return hashlib.sha256(json.dumps(state, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
