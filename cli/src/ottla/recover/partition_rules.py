"""Who may lead a partition after its cluster's state was lost, by the newest copy of the state and the logs. Pure.

A broker's copy of the state is never behind what the broker has done. So where the copies of all replicas of a
partition are at hand, and nothing speaks against them, the newest one has the in-sync set under which records were
acknowledged last. Then everybody in it has every committed record, as after a restart of the whole cluster.

Where a copy of a replica is missing or doubtful, the in-sync set at hand may be too old: the set may have shrunk
since to the one whose copy is missing. Then the longest log of all replicas leads, alone in the in-sync set, and the
others follow it. The longest is the one whose last leader epoch is the latest, and the longest of these: it has
everything of the others that was ever committed (see `longest_log.py` of the broker). If the only ones that are known
to have everything are away, nobody leads.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from ottla_core.cluster.state.model import NO_EPOCH, NO_LEADER, PartitionState
from ottla_core.cluster.state.recovery_facts import LogFacts

LEADER_EPOCH_LEAP = 1000
"""By so much leader epochs grow: a broker that is away may have led in epochs of which nobody else knows."""
LEADER_EPOCH_MAX = 2**31 - 1

Logs = Mapping[int, LogFacts]
"""The logs of one partition by broker."""


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
        may_lack_records: acknowledged records may be only on brokers that are missing.
        is_rebuilt: nothing is known of it but its logs.
    """

    topic: str
    state: PartitionState
    verdict: Verdict
    longest: int | None = None
    may_lack_records: bool = False
    is_rebuilt: bool = False


def settle(topic: str, newest: PartitionState, logs: Logs, *, present: Collection[int], sure: bool) -> PartitionPlan:
    """Return what becomes of a partition of the newest state.

    Args:
        topic: its topic's name.
        newest: its state in the newest copy.
        logs: its logs, of whichever brokers.
        present: the brokers whose disks were looked at.
        sure: whether the copies of all its replicas are at hand, and nothing speaks against them.
    """
    replicas = newest.replicas if sure else _replicas_with_logs(newest.replicas, logs, present)
    newest = replace(
        newest,
        replicas=replicas,
        adding=tuple(each for each in newest.adding if each in replicas),
        removing=tuple(each for each in newest.removing if each in replicas),
    )
    here = {broker: log for broker, log in logs.items() if broker in replicas}
    plan = _settle_surely(topic, newest, here, present) if sure else _settle_by_length(topic, newest, here, present)
    epochs = (newest.leader_epoch, *(log.last_epoch for log in logs.values()))
    return replace(plan, state=replace(plan.state, leader_epoch=_leapt(max(epochs))))


def rebuild(topic: str, state: PartitionState, logs: Logs) -> PartitionPlan:
    """Return what becomes of a partition of which only the logs are known; `state` names its replicas."""
    plan = settle(topic, replace(state, isr=state.replicas), logs, present=frozenset(logs), sure=False)
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


def _settle_surely(topic: str, newest: PartitionState, logs: Logs, present: Collection[int]) -> PartitionPlan:
    """Keep the in-sync set, but for those whose logs lack what is known to be committed."""
    committed = max((log.high_watermark for log in logs.values()), default=0)

    def has_everything(broker: int) -> bool:
        return broker in logs and logs[broker].end_offset >= committed

    isr = tuple(filter(has_everything, newest.isr))
    eligible = tuple(filter(has_everything, newest.eligible_leaders))
    if not isr and not eligible and logs.keys().isdisjoint(newest.isr):
        isr = tuple(broker for broker in newest.isr if broker in present)  # nobody has begun a log yet
    candidates = {broker: log for broker, log in logs.items() if broker in {*isr, *eligible}}
    longest = longest_log(candidates, (newest.leader, *newest.replicas))
    if not isr and not eligible:
        return _waiting(topic, newest, longest)
    state = _without_leader(replace(newest, isr=isr, eligible_leaders=eligible))
    return PartitionPlan(topic=topic, state=state, verdict=Verdict.IN_SYNC, longest=longest)


def _settle_by_length(topic: str, newest: PartitionState, logs: Logs, present: Collection[int]) -> PartitionPlan:
    """Have the longest log lead alone, unless all who are known to have everything are away."""
    longest = longest_log(logs, (newest.leader, *newest.replicas))
    complete = {*newest.isr, *newest.eligible_leaders}
    missing = complete.difference(present)
    if longest is None:
        if missing:
            return _waiting(topic, newest, None)
        return PartitionPlan(
            topic=topic, state=_without_leader(newest), verdict=Verdict.IN_SYNC
        )  # it never had a log
    if complete and complete.isdisjoint(logs):
        return _waiting(topic, newest, longest)
    state = _without_leader(replace(newest, isr=(longest,), eligible_leaders=()))
    away = set(newest.replicas).difference(present)
    return PartitionPlan(
        topic=topic, state=state, verdict=Verdict.LONGEST_LOG, longest=longest, may_lack_records=bool(away)
    )


def _waiting(topic: str, newest: PartitionState, longest: int | None) -> PartitionPlan:
    """Leave the in-sync set as it is: nobody in it is there, or has what was committed."""
    return PartitionPlan(
        topic=topic, state=_without_leader(newest), verdict=Verdict.WAITS, longest=longest, may_lack_records=True
    )


def _without_leader(state: PartitionState) -> PartitionState:
    """Leave the election to the controller, which sees who is live."""
    return replace(state, leader=NO_LEADER, leader_broker_epoch=NO_EPOCH)


def _replicas_with_logs(replicas: Sequence[int], logs: Logs, present: Collection[int]) -> tuple[int, ...]:
    """Return the replicas by a state that may be old: who is there without a log, while others have one, is none."""
    kept = [each for each in replicas if each in logs or each not in present]
    found = (*kept, *sorted(logs.keys() - set(replicas)))
    return found if logs else tuple(replicas)


def _leapt(epoch: int) -> int:
    return min(epoch + LEADER_EPOCH_LEAP, LEADER_EPOCH_MAX)
