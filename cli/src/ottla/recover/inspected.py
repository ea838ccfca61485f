"""What facts say of brokers, beside their logs: whose copy is sure, who hides something, who was put back. Pure."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from ottla.recover.partition_rules import Brokers
from ottla.recover.recovery_draft import KEYS, registered_in
from ottla_core.cluster.state import codec
from ottla_core.cluster.state.keys import PartitionKey
from ottla_core.cluster.state.model import NO_LEADER, BrokerRegistration
from ottla_core.cluster.state.recovery_facts import BrokerFacts
from ottla_core.cluster.state.state_copy import StateCopy


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspected:
    """The brokers whose log directories were inspected.

    Attributes:
        present: all of them.
        sure: those of which the newest copy has everything that they have done.
        not_inspected: log directories with which brokers were registered, and that were not inspected, by broker.
        put_back: those with a directory that is older than what the broker has done since.
        unread: those with a log that could not be read, by topic and partition.
    """

    present: frozenset[int]
    sure: frozenset[int]
    not_inspected: Mapping[int, frozenset[UUID]]
    put_back: frozenset[int]
    unread: Mapping[tuple[str, int], frozenset[int]]

    @classmethod
    def of(cls, facts: Sequence[BrokerFacts], newest: StateCopy | None, *, is_backup: bool) -> "Inspected":
        """Compare facts with the newest copy of the state; `is_backup` says that no broker has it."""
        registered = registered_in(newest)
        missing = {each.broker_id: _missing_directories(each, registered.get(each.broker_id)) for each in facts}
        put_back = _put_back(facts, newest, registered)
        sure = {each.broker_id for each in facts if each.copy_is_sure and not missing[each.broker_id]} - put_back
        return cls(
            present=frozenset(each.broker_id for each in facts),
            sure=frozenset() if newest is None or is_backup else frozenset(sure),
            not_inspected={broker: ids for broker, ids in missing.items() if ids},
            put_back=put_back,
            unread=_unread(facts),
        )

    def brokers_of(self, topic: str, index: int) -> Brokers:
        """Return what is known of the brokers as replicas of a partition."""
        return Brokers(
            present=self.present,
            partly=frozenset(self.not_inspected),
            unread=self.unread.get((topic, index), frozenset()),
            put_back=self.put_back,
        )


def _missing_directories(facts: BrokerFacts, registration: BrokerRegistration | None) -> frozenset[UUID]:
    known = frozenset[UUID]() if registration is None else frozenset(registration.directory_ids)
    return known.difference(directory.directory_id for directory in facts.directories if directory.directory_id)


def _unread(facts: Iterable[BrokerFacts]) -> Mapping[tuple[str, int], frozenset[int]]:
    """Return who has a log that could not be read, or of which nobody knows the topic's id, by name and partition."""
    found = defaultdict[tuple[str, int], set[int]](set)
    for each in facts:
        for directory in each.directories:
            unknown = ((log.topic, log.index) for log in directory.logs if log.topic_id is None)
            for name in (*directory.unread, *unknown):
                found[name].add(each.broker_id)
    return {name: frozenset(brokers) for name, brokers in found.items()}


def _put_back(
    facts: Iterable[BrokerFacts], newest: StateCopy | None, registered: Mapping[int, BrokerRegistration]
) -> frozenset[int]:
    """Return the brokers with a directory whose copy is of before a registration under which the broker was at work.

    A broker epoch is the revision of etcd at which the broker registered. A broker writes everything into its copies
    before it acts by it, so they are of later revisions, unless a directory was put back to an old backup of it, or
    was not in use any more.
    """
    if newest is None:
        return frozenset()
    epochs = _broker_epochs(newest, registered)
    number = newest.recovery.number

    def is_put_back(each: BrokerFacts) -> bool:
        epoch = epochs.get(each.broker_id, 0)
        positions = [found.copy_position for found in each.directories if found.copy_position is not None]
        return any((revision if recovery == number else 0) < epoch for recovery, revision in positions)

    return frozenset(each.broker_id for each in facts if is_put_back(each))


def _broker_epochs(newest: StateCopy, registered: Mapping[int, BrokerRegistration]) -> Mapping[int, int]:
    """Return the latest epochs under which brokers are known to have been at work."""
    epochs = {broker: registration.broker_epoch for broker, registration in registered.items()}
    for key, stored in newest.entries.items():
        match KEYS.parse(KEYS.prefix + key):
            case PartitionKey() as parsed:
                state = codec.decode_partition(parsed, stored.value, 0)
                if state.leader != NO_LEADER:
                    epochs[state.leader] = max(epochs.get(state.leader, 0), state.leader_broker_epoch)
    return epochs


def notes_of(inspected: Inspected) -> list[str]:
    """Say which brokers were not seen as a whole, a sentence each."""
    found = [
        f"broker {broker} is registered with a log directory that was not inspected, of the id "
        f"{', '.join(map(str, sorted(ids)))}. Inspect all that log.dirs says. What broker {broker} alone has "
        "is waited for until it starts with that directory. If the directory is lost for good, `ottla cluster "
        "elect-leaders --unclean` gives up what was in it"
        for broker, ids in sorted(inspected.not_inspected.items())
    ]
    found += [
        f"broker {broker} has a log directory that is older than the broker's last registration: it was put back to "
        "a backup, or was not in use any more, or the broker ended when it had just registered. What the broker "
        "alone has acknowledged since is lost"
        for broker in sorted(inspected.put_back)
    ]
    return found
