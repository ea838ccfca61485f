"""Which brokers get the replicas of new partitions. Pure.

Brokers stand on a ring in which racks take turns (A1 B1 C1 A2 B2 …). Each partition's first replica, its preferred
leader, is the next broker of the ring, so that leaders spread evenly over brokers. The other replicas follow on the
ring at a distance that grows with every full turn, so that a broker's partitions are not all mirrored on the same
neighbour; among them, racks that the partition does not use yet come first. Brokers that are about to leave get
replicas only where the others are too few.
"""

from collections.abc import Mapping, Sequence
from itertools import chain, zip_longest

from ottla_core.cluster.state.model import Member
from ottla_core.errors import InvalidReplicaAssignment, InvalidReplicationFactor


def place_replicas(
    brokers: Mapping[int, Member],
    *,
    partitions: range,
    replication_factor: int,
    start: int,
) -> list[tuple[int, ...]]:
    """Return the replicas of each partition, preferred leader first.

    Args:
        brokers: the live brokers.
        partitions: indexes of the partitions to place.
        replication_factor: replicas of each.
        start: where on the ring partition 0 begins; topics that differ in it spread differently.

    Raises:
        InvalidReplicationFactor: there are fewer brokers than replicas.
    """
    if replication_factor > len(brokers):
        raise InvalidReplicationFactor(
            f"Unable to replicate the partition {replication_factor} time(s): the replication factor is larger "
            f"than available brokers: {len(brokers)}"
        )
    staying = {broker_id: member for broker_id, member in brokers.items() if not member.shutting_down}
    if len(staying) >= replication_factor:
        brokers = staying
    ring = _ring(brokers)
    return [_place(ring, brokers, start + index, replication_factor) for index in partitions]


def check_assignment(
    broker_ids: Sequence[int], brokers: Mapping[int, Member], replication_factor: int | None
) -> None:
    """Refuse replicas that a caller chose if they cannot be a partition's.

    Args:
        broker_ids: the chosen replicas.
        brokers: the live brokers.
        replication_factor: how many replicas the topic's other partitions have; None for its first one.

    Raises:
        InvalidReplicaAssignment: says what is wrong.
    """
    if not broker_ids:
        raise InvalidReplicaAssignment("A replica assignment has no brokers; name at least one per partition.")
    for broker_id in broker_ids:
        if broker_id not in brokers:
            raise InvalidReplicaAssignment(
                f"The replica assignment names broker {broker_id}, which is not registered."
            )
    if len(set(broker_ids)) != len(broker_ids):
        raise InvalidReplicaAssignment(f"The replica assignment {list(broker_ids)} names a broker more than once.")
    if replication_factor is not None and len(broker_ids) != replication_factor:
        raise InvalidReplicaAssignment(
            f"The replica assignment {list(broker_ids)} has {len(broker_ids)} replica(s), but the topic's other "
            f"partitions have {replication_factor}."
        )


def _ring(brokers: Mapping[int, Member]) -> list[int]:
    racks: dict[str, list[int]] = {}
    for broker_id in sorted(brokers):
        racks.setdefault(brokers[broker_id].rack or "", []).append(broker_id)
    turns = zip_longest(*(racks[rack] for rack in sorted(racks)))
    return [broker_id for broker_id in chain.from_iterable(turns) if broker_id is not None]


def _place(ring: list[int], brokers: Mapping[int, Member], position: int, replication_factor: int) -> tuple[int, ...]:
    turn, leader_at = divmod(position, len(ring))
    followers_count = len(ring) - 1
    candidates = [
        ring[(leader_at + 1 + (turn + step) % followers_count) % len(ring)] for step in range(followers_count)
    ]
    replicas = [ring[leader_at]]
    used_racks = {brokers[ring[leader_at]].rack}
    while len(replicas) < replication_factor:
        fresh = [broker_id for broker_id in candidates if brokers[broker_id].rack not in used_racks]
        if not fresh:
            used_racks.clear()
            continue
        replicas.append(fresh[0])
        candidates.remove(fresh[0])
        used_racks.add(brokers[fresh[0]].rack)
    return tuple(replicas)
