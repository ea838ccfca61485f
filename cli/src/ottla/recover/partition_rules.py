"""Who may lead a partition after its cluster's state was lost, by the newest copy of the state and the logs. Pure.

A broker's copy of the state is never behind what the broker has done. So where the copies of all replicas of a
partition are at hand, and nothing speaks against them, the newest one has the in-sync set under which records were
acknowledged last. Then everybody in it has every committed record, as after a restart of the whole cluster.

Where a copy of a replica is missing or doubtful, the in-sync set at hand may be too old: the set may have shrunk
since to the one whose copy is missing. Then the longest log of all replicas leads, alone in the in-sync set, and the
others follow it. The longest is the one whose last leader epoch is the latest, and the longest of these: it has
everything of the others that was ever committed (see `longest_log.py` of the broker).

Of those who are known to have had everything (the in-sync set and the eligible leaders) some may be *hidden*: they
are away, or their log of the partition could not be read, or may be in a directory that was not inspected. If nobody
else is known to have had everything, nobody leads until they are back. Others may *lack* something: their log ends
before what was committed, or is gone, or was put back to an older one. If all do, nobody will come back with more
than there is, and the longest log leads; what they alone had is lost.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from ottla_core.cluster.state.model import NO_EPOCH, NO_LEADER, PartitionState
from ottla_core.cluster.state.recovery_facts import LogFacts

LEADER_EPOCH_LEAP = 1000
"""By so much leader epochs grow: a broker that is away may have led in epochs of which nobody else knows."""
LEADER_EPOCH_LEAP_UNSEEN = 1_000_000
"""Likewise where no logs were looked at, as when a backup is restored; nobody knows how many elections there were."""
LEADER_EPOCH_MAX = 2**31 - 1

Logs = Mapping[int, LogFacts]
"""The logs of one partition by broker."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Brokers:
    """What is known of brokers as replicas of one partition, beside the logs that could be read.

    Attributes:
        present: those of which log directories were inspected.
        partly: those of them with a directory that was not inspected; a later log may be in it.
        unread: those of them with a log of the partition, or what may be one, that could not be read.
        put_back: those of them with a directory that is older than what the broker has done since.
    """

    present: frozenset[int]
    partly: frozenset[int] = frozenset()
    unread: frozenset[int] = frozenset()
    put_back: frozenset[int] = frozenset()

    def may_hide(self, broker: int) -> bool:
        """Return whether a broker may have another log of the partition than is known."""
        return broker not in self.present or broker in self.unread or broker in self.partly

    def is_waited_for(self, broker: int) -> bool:
        """Return whether a broker is live only when it has such a log.

        The controller elects nobody who comes without a directory that it had, but whoever cannot read a log.
        """
        return self.may_hide(broker) and broker not in self.unread


class Verdict(StrEnum):
    """How a partition comes out of a recovery."""

    IN_SYNC = "in sync"
    """The in-sync set of the newest state, which is known to be the newest."""
    LONGEST_LOG = "longest log"
    """The longest log leads alone, as a newer in-sync set may have been lost."""
    WAITS = "waits"
    """Nobody leads until a broker is back that alone has everything."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionPlan:
    """What becomes of one partition.

    Attributes:
        topic: its topic's name.
        state: what is written.
        verdict: by which rule.
        longest: the broker with the longest log, None if there is no log.
        may_lack_records: acknowledged records may be only where nobody has looked, or lost.
        is_rebuilt: nothing is known of it but its logs.
        former_replicas: those of the newest state, if the partition has others by its logs.
    """

    topic: str
    state: PartitionState
    verdict: Verdict
    longest: int | None = None
    may_lack_records: bool = False
    is_rebuilt: bool = False
    former_replicas: tuple[int, ...] | None = None


def settle(topic: str, newest: PartitionState, logs: Logs, *, brokers: Brokers, sure: bool) -> PartitionPlan:
    """Return what becomes of a partition of the newest state.

    Args:
        topic: its topic's name.
        newest: its state in the newest copy.
        logs: its logs, of whichever brokers.
        brokers: what is known of them.
        sure: whether the copies of all its replicas are at hand, and nothing speaks against them.
    """
    if sure:
        logs = {broker: log for broker, log in logs.items() if broker in newest.replicas}
    plan = _settle(topic, newest, logs, brokers, sure=sure)
    replicas = newest.replicas if sure else _moved(newest.replicas, logs, brokers)
    leaders = {*plan.state.isr, *plan.state.eligible_leaders}
    replicas = (
        *replicas,
        *sorted(leaders.difference(replicas)),
    )  # whoever may lead is a replica, whatever else holds
    epochs = (newest.leader_epoch, *(log.last_epoch for log in logs.values()))
    state = replace(
        plan.state,
        replicas=replicas,
        adding=tuple(each for each in newest.adding if each in replicas),
        removing=tuple(each for each in newest.removing if each in replicas),
        leader_epoch=_leapt(max(epochs), LEADER_EPOCH_LEAP if brokers.present else LEADER_EPOCH_LEAP_UNSEEN),
    )
    former = newest.replicas if set(replicas) != set(newest.replicas) else None
    return replace(plan, state=state, former_replicas=former)


def rebuild(topic: str, state: PartitionState, logs: Logs, brokers: Brokers) -> PartitionPlan:
    """Return what becomes of a partition of which only the logs are known; `state` names its replicas."""
    plan = settle(topic, replace(state, isr=state.replicas), logs, brokers=brokers, sure=False)
    return replace(plan, is_rebuilt=True)


def longest_log(logs: Logs, preferred: Sequence[int]) -> int | None:
    """Return who has the longest log, None if there is none.

    A log that retention has emptied may not know its last epoch any more. All that it had was committed, so no log
    that ends before it counts.

    Args:
        logs: by broker.
        preferred: of equally long ones the first of these is taken.
    """
    emptied_up_to = max((log.end_offset for log in logs.values() if log.last_epoch == NO_EPOCH), default=0)
    known = {broker: log for broker, log in logs.items() if log.end_offset >= emptied_up_to}
    order = [*(each for each in preferred if each in known), *sorted(known.keys() - set(preferred))]
    return max(order, key=lambda each: (known[each].last_epoch, known[each].end_offset), default=None)


def _settle(topic: str, newest: PartitionState, logs: Logs, brokers: Brokers, *, sure: bool) -> PartitionPlan:
    """Say who may lead, by what is known of those who have had everything."""
    # Of equally long logs rather that of a broker that the controller will not miss a directory of.
    preferred = sorted((newest.leader, *newest.replicas), key=lambda each: each in brokers.partly)
    longest = longest_log(logs, preferred)
    complete = {*newest.isr, *newest.eligible_leaders}
    hidden = {each for each in complete if brokers.may_hide(each)}
    whole = {each for each in complete - hidden - brokers.put_back if _has_everything(each, logs)}
    may_lack = any(brokers.may_hide(each) or each in brokers.put_back for each in newest.replicas)
    state = _without_leader(newest)
    if not complete or (hidden and not whole):
        returning = {each for each in hidden if brokers.is_waited_for(each)}
        return PartitionPlan(
            topic=topic, state=_kept(state, returning), verdict=Verdict.WAITS, longest=longest, may_lack_records=True
        )
    if sure and whole:
        candidates = {broker: log for broker, log in logs.items() if broker in whole}
        longest = longest_log(candidates, preferred)
        return PartitionPlan(topic=topic, state=_kept(state, whole), verdict=Verdict.IN_SYNC, longest=longest)
    if longest is None:
        state = _kept(state, whole or complete)
        return PartitionPlan(topic=topic, state=state, verdict=Verdict.IN_SYNC, may_lack_records=may_lack)
    return PartitionPlan(
        topic=topic,
        state=replace(state, isr=(longest,), eligible_leaders=()),
        verdict=Verdict.WAITS if brokers.is_waited_for(longest) else Verdict.LONGEST_LOG,
        longest=longest,
        may_lack_records=may_lack or not whole,
    )


def _has_everything(broker: int, logs: Logs) -> bool:
    """Return whether a broker lacks nothing that is known to be committed; no log is as good as empty ones."""
    if broker not in logs:
        return all(log.end_offset == 0 for log in logs.values())
    return logs[broker].end_offset >= max(log.high_watermark for log in logs.values())


def _kept(state: PartitionState, brokers: Collection[int]) -> PartitionState:
    """Leave some brokers in the in-sync set and among the eligible leaders."""
    return replace(
        state,
        isr=tuple(each for each in state.isr if each in brokers),
        eligible_leaders=tuple(each for each in state.eligible_leaders if each in brokers),
    )


def _without_leader(state: PartitionState) -> PartitionState:
    """Leave the election to the controller, which sees who is live."""
    return replace(state, leader=NO_LEADER, leader_broker_epoch=NO_EPOCH)


def _moved(replicas: Sequence[int], logs: Logs, brokers: Brokers) -> tuple[int, ...]:
    """Return the replicas by a state that may be old.

    Where brokers have logs that are no replicas, the partition has moved to them, away from replicas without one.
    """
    others = sorted(logs.keys() - set(replicas))
    kept = [each for each in replicas if not others or each in logs or brokers.may_hide(each)]
    return (*kept, *others)


def _leapt(epoch: int, leap: int) -> int:
    return min(epoch + leap, LEADER_EPOCH_MAX)
