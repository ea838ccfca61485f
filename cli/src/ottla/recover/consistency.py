"""Whether facts of several brokers can be true of one cluster, and whether all brokers are there. Pure."""

from collections import defaultdict
from collections.abc import Collection, Sequence
from itertools import pairwise
from uuid import UUID

from ottla.recover.recovery_draft import registered_in
from ottla_core.cluster.state.recovery_facts import BrokerFacts
from ottla_core.cluster.state.state_copy import StateCopy
from ottla_core.errors import OttlaError


class Contradiction(OttlaError):
    """The facts cannot all be true of one cluster; the message says which."""


def check_consistent(facts: Sequence[BrokerFacts], backups: Sequence[StateCopy]) -> None:
    """See that all facts can be true of one cluster.

    Raises:
        Contradiction: they cannot.
    """
    if not facts and not backups:
        raise Contradiction("there is nothing to recover from: name files of facts, or a backup")
    owners = defaultdict[str, list[str]](list)
    for each in facts:
        owners[each.cluster_id].append(f"broker {each.broker_id}")
    for backup in backups:
        owners[backup.cluster_id].append("a backup")
    if len(owners) > 1:
        raise Contradiction(
            "the facts are of several clusters: "
            + "; ".join(f"{cluster_id} ({', '.join(names)})" for cluster_id, names in sorted(owners.items()))
        )
    brokers = [each.broker_id for each in facts]
    if twice := sorted({each for each in brokers if brokers.count(each) > 1}):
        raise Contradiction(
            f"broker {twice[0]} is there twice: inspect all its log directories at once, and only those in use"
        )
    holders: dict[UUID, str] = {}
    for each in facts:
        for directory in each.directories:
            if directory.directory_id is None:
                continue
            other = holders.setdefault(directory.directory_id, directory.path)
            if other != directory.path:
                raise Contradiction(
                    f"{other} and {directory.path} have the same directory id {directory.directory_id}: one is a "
                    "copy of the other. Name the one that its broker has used last"
                )
    _check_one_history([copy for each in facts if (copy := each.copy) is not None] + list(backups))


def _check_one_history(copies: Sequence[StateCopy]) -> None:
    """See that copies are states of one etcd: what the older one has, the newer one has, or has replaced."""
    ordered = sorted(copies, key=lambda copy: copy.position)
    for older, newer in pairwise(ordered):
        if older.recovery.number != newer.recovery.number:
            continue
        for key, stored in newer.entries.items():
            if stored.mod_revision <= older.revision and older.entries.get(key) != stored:
                raise Contradiction(
                    f"two copies of the state are not of one history: that of revision {newer.revision} has {key} "
                    f"since revision {stored.mod_revision}, and that of revision {older.revision} does not. etcd was "
                    "put back to a snapshot in between; leave out the broker whose copy is of the other history, or "
                    "delete its file cluster-state"
                )


def check_all_there(facts: Sequence[BrokerFacts], newest: StateCopy | None, without: Collection[int]) -> None:
    """See that every registered broker was inspected or is given up.

    Raises:
        Contradiction: one is missing, or is both.
    """
    present = {each.broker_id for each in facts}
    if both := sorted(present.intersection(without)):
        raise Contradiction(f"broker {both[0]} is to be given up, and its log directories were inspected")
    missing = sorted(registered_in(newest).keys() - present - set(without))
    if missing:
        names = ", ".join(map(str, missing))
        raise Contradiction(
            f"brokers are registered whose log directories were not inspected: {names}. Inspect them as well; a "
            f"broker that is lost for good is given up by --without-broker {missing[0]}"
        )
