"""A recovery plan in the making: the keys that etcd is to get, and how they are read and changed. Pure."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ottla.recover.partition_rules import PartitionPlan
from ottla_core.cluster.state import codec
from ottla_core.cluster.state.codec import TopicRecord
from ottla_core.cluster.state.keys import KeySpace, RegistrationKey, TopicKey
from ottla_core.cluster.state.model import BrokerRegistration
from ottla_core.cluster.state.state_copy import StateCopy

KEYS = KeySpace("any")
"""Keys of copies are relative to the prefix; this one is put before them to have them parsed."""


@dataclass(slots=True)
class RecoveryDraft:
    """A plan in the making.

    Attributes:
        entries: the values by key, relative to the prefix.
        partitions: what becomes of each partition.
        rebuilt: topics of which only the logs were known.
        notes: what else is to be known.
    """

    entries: dict[str, bytes]
    partitions: list[PartitionPlan] = field(default_factory=list)
    rebuilt: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def topics_in(entries: Mapping[str, bytes]) -> Iterable[tuple[str, TopicRecord]]:
    """Yield the topics of a state, by name."""
    for key, value in entries.items():
        match KEYS.parse(KEYS.prefix + key):
            case TopicKey(name):
                yield name, codec.decode_topic(name, value)


def changed(value: bytes, fields: Mapping[str, object]) -> bytes:
    """Return a value with other fields; those that this release does not know stay."""
    return json.dumps({**json.loads(value), **fields}, separators=(",", ":")).encode()


def registered_in(newest: StateCopy | None) -> dict[int, BrokerRegistration]:
    """Return what a copy remembers of brokers, by id."""
    found: dict[int, BrokerRegistration] = {}
    for key, stored in ({} if newest is None else newest.entries).items():
        match KEYS.parse(KEYS.prefix + key):
            case RegistrationKey(broker_id) as parsed:
                found[broker_id] = codec.decode_registration(parsed, stored.value, stored.mod_revision)
    return found
