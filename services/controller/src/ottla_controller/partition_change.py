"""What every change of a partition comes to in the end. Pure.

Whatever is wanted of a partition (another in-sync set, other replicas, another leader, or just a look because brokers
came or went), `conclude` makes a consistent state of it, in this order:

1. The in-sync set (ISR) keeps those that deserve it: live, and, as long as others remain, neither restarted nor
   departing. One that has lost data is out in any case, so the ISR may become empty. So is one that comes back from
   an unclean shutdown, as long as any other one, alive or not, is believed to have everything (KIP-966).
2. A reassignment whose target replicas are all in sync is completed.
3. The leader stays if it can. Else the first replica in the ISR leads; else one of the eligible leaders (see 4),
   alone in the ISR; else, where unclean election is allowed, any live replica, alone in the ISR, and none that is
   being added where there is another; else nobody.
4. While the ISR is smaller than `min.insync.replicas`, whoever has left it is an eligible leader, because the high
   watermark has not moved since (KIP-966). At that size or above, and after an unclean election, nobody is.
5. The leader epoch grows when the leader changes or leads under another registration, and when a replica is removed.

A broker leads under the registration that it was elected with. Hence a leader is valid while it is live under that
registration; one that is back under another is replaced like one that is gone, and preferably by another replica.

Source of the rules: Kafka's PartitionChangeBuilder and ReplicationControlManager, KIP-966, KIP-455.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from ottla_controller.broker_standing import Standings
from ottla_core.cluster.state.model import NO_EPOCH, NO_LEADER, PartitionState, Topic


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRules:
    """What a topic's settings say about its replicas."""

    min_insync_replicas: int = 1
    allows_unclean: bool = False


RulesOf = Callable[[Topic], TopicRules]


@dataclass(frozen=True, slots=True)
class _Choice:
    leader: int
    isr: tuple[int, ...]
    is_unclean: bool = False


def has_valid_leader(partition: PartitionState, standings: Standings) -> bool:
    """Return whether the leader is live under the registration that it was elected with."""
    leader = standings.live.get(partition.leader)
    return leader is not None and leader.epoch == partition.leader_broker_epoch


def conclude(
    former: PartitionState,
    wanted: PartitionState,
    standings: Standings,
    rules: TopicRules,
    *,
    prefer_first: bool = False,
) -> PartitionState:
    """Return the state that a change ends in; `former` itself if nothing changes.

    The state keeps the `partition_epoch` of the former one, for compare-and-set.

    Args:
        former: the partition as it is.
        wanted: the same with another `isr`, `replicas`, `adding` and `removing`, as far as a change is wanted; its
            leader and eligible leaders are not looked at.
        standings: the live brokers.
        rules: the topic's.
        prefer_first: the first replica shall lead if it is in sync.
    """
    if _is_contradictory(former) and _is_contradictory(wanted):
        return _without_leader(former)
    lost = _lost(former, standings)
    has_records = {*former.isr, *former.eligible_leaders} - lost
    in_sync = tuple(broker_id for broker_id in wanted.isr if broker_id not in lost)
    target = _with_reassignment_completed(replace(wanted, isr=_deserving(in_sync, former, standings)))
    eligible = tuple(broker_id for broker_id in target.replicas if broker_id in has_records)
    choice = _choose_leader(former, target, eligible, standings, rules, prefer_first=prefer_first)
    concluded = replace(
        target,
        isr=choice.isr,
        eligible_leaders=() if choice.is_unclean else _eligible_leaders(target, eligible, choice.isr, rules),
        leader=choice.leader,
        leader_broker_epoch=standings.live[choice.leader].epoch if choice.leader != NO_LEADER else NO_EPOCH,
        leader_epoch=former.leader_epoch,
        partition_epoch=former.partition_epoch,
    )
    if _needs_leader_epoch(former, concluded):
        concluded = replace(concluded, leader_epoch=former.leader_epoch + 1)
    return former if concluded == former else concluded


def without_log(broker_id: int, partition: PartitionState, standings: Standings, rules: TopicRules) -> PartitionState:
    """Return the state that follows from a replica's having lost its log, like a broker's having lost a directory.

    If it leads, that ends, and the leader epoch grows even if it is elected again, uncleanly: offsets are used again.
    """
    leads = partition.leader == broker_id
    former = replace(partition, leader=NO_LEADER, leader_broker_epoch=NO_EPOCH) if leads else partition
    wanted = replace(former, isr=tuple(one for one in partition.isr if one != broker_id))
    lost = replace(standings, lost=standings.lost | {broker_id}, fit=standings.fit - {broker_id})
    concluded = conclude(former, wanted, lost, rules)
    return replace(concluded, leader_epoch=partition.leader_epoch + 1) if leads else concluded


def without_failed_log(
    broker_id: int, partition: PartitionState, standings: Standings, rules: TopicRules
) -> PartitionState:
    """Return the state that follows from a replica's taking no more records; `partition` itself if nothing does.

    What it has may be lost with its next start, so it makes way for whoever is live and has everything. While there
    is nobody, it stays what it is: it can serve readers, and others can copy what it has and take over.
    """
    has_everything = {*partition.isr, *partition.eligible_leaders} - _lost(partition, standings)
    if broker_id not in has_everything or has_everything.isdisjoint(standings.live.keys() - {broker_id}):
        return partition
    return without_log(broker_id, partition, standings, rules)


def led_by_the_longest_log(broker_id: int, partition: PartitionState, standings: Standings) -> PartitionState:
    """Return the state in which a live replica leads because its log is the longest.

    The elected leader may lack committed records, and so may everybody else: hence nobody but the new leader is in
    sync, or eligible. The leader epoch grows even if it is the elected one, so that nobody who goes by the former
    state copies from it.
    """
    return replace(
        partition,
        isr=(broker_id,),
        eligible_leaders=(),
        leader=broker_id,
        leader_broker_epoch=standings.live[broker_id].epoch,
        leader_epoch=partition.leader_epoch + 1,
    )


def _is_contradictory(partition: PartitionState) -> bool:
    return not set(partition.isr).issubset(partition.replicas)


def _without_leader(partition: PartitionState) -> PartitionState:
    """Have nobody lead a partition of which somebody is in sync that is no replica; no rule here writes such a state.

    To elect a replica might cut committed records, and to take the other out of the in-sync set would forget who has
    them. A reassignment that takes it in mends the partition.
    """
    if partition.leader == NO_LEADER:
        return partition
    epoch = partition.leader_epoch + 1
    return replace(partition, leader=NO_LEADER, leader_broker_epoch=NO_EPOCH, leader_epoch=epoch)


def _lost(former: PartitionState, standings: Standings) -> frozenset[int]:
    """Return who lacks records that others have, or may lack them.

    What came of it for the leader was decided when it was elected under its present registration. Those that had an
    unclean shutdown may lack what was not fsynced; but where everybody had one, nobody has more to offer.
    """
    attended = {former.leader} if has_valid_leader(former, standings) else set()
    lost = standings.lost - attended
    unclean = standings.unclean - attended
    has_everything = {*former.isr, *former.eligible_leaders} - lost - unclean
    return lost | unclean if has_everything else lost


def _deserving(isr: Sequence[int], former: PartitionState, standings: Standings) -> tuple[int, ...]:
    """Return who stays in sync of those that have everything."""
    live = tuple(broker_id for broker_id in isr if broker_id in standings.live)
    steady = tuple(broker_id for broker_id in live if _is_steady(broker_id, former, standings))
    staying = tuple(broker_id for broker_id in steady or live if broker_id not in standings.departing)
    return staying or steady or live


def _is_steady(broker_id: int, former: PartitionState, standings: Standings) -> bool:
    """Return whether a live replica was never away, so that it still has what it had not written to disk."""
    if broker_id == former.leader:
        return has_valid_leader(former, standings)
    return broker_id not in standings.restarted


def _with_reassignment_completed(partition: PartitionState) -> PartitionState:
    if not partition.adding and not partition.removing:
        return partition
    replicas = tuple(broker_id for broker_id in partition.replicas if broker_id not in partition.removing)
    if not replicas or not set(replicas).issubset(partition.isr):
        return partition
    isr = tuple(broker_id for broker_id in partition.isr if broker_id in replicas)
    return replace(partition, replicas=replicas, isr=isr, adding=(), removing=())


def _choose_leader(
    former: PartitionState,
    target: PartitionState,
    eligible: Sequence[int],
    standings: Standings,
    rules: TopicRules,
    *,
    prefer_first: bool,
) -> _Choice:
    isr = target.isr
    if isr:
        if prefer_first and target.replicas[0] in isr:
            return _Choice(target.replicas[0], isr)
        if former.leader in isr and has_valid_leader(former, standings):
            return _Choice(former.leader, isr)
        return _Choice(next(broker_id for broker_id in target.replicas if broker_id in isr), isr)
    live = [broker_id for broker_id in eligible if broker_id in standings.live]
    if live:
        leader = min(
            live,
            key=lambda broker_id: (
                not _is_steady(broker_id, former, standings),
                broker_id in standings.departing,
            ),
        )
        return _Choice(leader, (leader,))
    if rules.allows_unclean:
        anyone = [broker_id for broker_id in target.replicas if broker_id in standings.live]
        if anyone:
            leader = min(
                anyone,
                key=lambda one: (
                    one in standings.lost,
                    one in target.adding,  # it may have copied hardly anything yet
                    one in standings.unclean,
                    one in standings.departing,
                ),
            )
            return _Choice(leader, (leader,), is_unclean=True)
    return _Choice(NO_LEADER, ())


def _eligible_leaders(
    target: PartitionState, eligible: Sequence[int], isr: Sequence[int], rules: TopicRules
) -> tuple[int, ...]:
    if len(isr) >= min(rules.min_insync_replicas, len(target.replicas)):
        return ()
    return tuple(broker_id for broker_id in eligible if broker_id not in isr)


def _needs_leader_epoch(former: PartitionState, concluded: PartitionState) -> bool:
    return (
        concluded.leader != former.leader
        or concluded.leader_broker_epoch != former.leader_broker_epoch
        or not set(former.replicas).issubset(concluded.replicas)
    )
