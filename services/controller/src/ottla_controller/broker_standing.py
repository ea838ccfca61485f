"""What the live brokers are worth as replicas. Pure.

A broker is live while it is registered. What it said when it registered is compared with what the controller
remembers of it (`BrokerRegistration`), and that makes four kinds of live brokers special until the controller has
attended to them: those that are *departing* (they have said that they will shut down), those that have *restarted*
(back under another registration, so they were away, even if nobody saw that), those of them that had an *unclean*
shutdown (a power failure, say, so they may lack what was not fsynced), and those that have *lost* data (back without
a log directory they had before).
"""

from collections.abc import Mapping
from dataclasses import dataclass

from ottla_core.cluster.state.model import NO_EPOCH, BrokerRegistration, Member

Brokers = Mapping[int, Member]
Registrations = Mapping[int, BrokerRegistration]


@dataclass(frozen=True, slots=True)
class Standings:
    """The live brokers, and which of them are special.

    Attributes:
        live: every live broker by id.
        departing: those about to leave.
        restarted: those whose present registration was not attended to yet.
        unclean: those of them that may have lost records since the registration that was attended to.
        lost: those that lack a log directory which they had under an earlier registration.
        fit: live brokers that are none of these.
    """

    live: Brokers
    departing: frozenset[int] = frozenset()
    restarted: frozenset[int] = frozenset()
    unclean: frozenset[int] = frozenset()
    lost: frozenset[int] = frozenset()
    fit: frozenset[int] = frozenset()


def standings(brokers: Brokers, registrations: Registrations) -> Standings:
    """Return how the live brokers stand, given what is remembered of them."""
    departing = frozenset(broker_id for broker_id, member in brokers.items() if member.shutting_down)
    known = [
        (member, registrations[broker_id]) for broker_id, member in brokers.items() if broker_id in registrations
    ]
    restarted = frozenset(member.id for member, former in known if former.broker_epoch != member.epoch)
    unclean = frozenset(
        member.id for member, former in known if member.id in restarted and _was_unclean(member, former.broker_epoch)
    )
    lost = frozenset(
        member.id for member, former in known if not set(former.directory_ids).issubset(member.directory_ids)
    )
    return Standings(
        live=brokers,
        departing=departing,
        restarted=restarted,
        unclean=unclean,
        lost=lost,
        fit=frozenset(brokers.keys() - departing - restarted - lost),
    )


def _was_unclean(member: Member, former_epoch: int) -> bool:
    """Return whether a broker may have lost records since an earlier registration; also in between two later ones."""
    return member.intact_since == NO_EPOCH or former_epoch < member.intact_since


def due_registrations(brokers: Brokers, registrations: Registrations) -> list[BrokerRegistration]:
    """Return what is to be remembered of brokers that are new or different, once all that follows has been done.

    They keep the `revision` of those they replace, for compare-and-set.
    """
    due: list[BrokerRegistration] = []
    for broker_id, member in brokers.items():
        former = registrations.get(broker_id)
        registration = BrokerRegistration(
            broker_id=broker_id,
            broker_epoch=member.epoch,
            directory_ids=member.directory_ids,
            rack=member.rack,
            features=member.features,
            revision=former.revision if former is not None else 0,
        )
        if registration != former:
            due.append(registration)
    return due
