"""Schedules that aim at one rule: what would go wrong without it goes wrong every time. Pure."""

from tests.faults.fault import (
    BROKER,
    CLIENTS,
    CONTROLLER,
    COORDINATOR,
    ETCD,
    Fault,
    HostileBehaviour,
    Kind,
    Members,
    links_between,
)
from tests.faults.schedule import Schedule
from tests.faults.topics import PARTITIONS, UNSURE_TOPIC


def unreplicated_records_at_a_crash(members: Members) -> Schedule:
    """Leaders go on getting records while no follower can fetch, crash, and come back to others that were elected.

    The cut is shorter than the time after which a follower leaves the in-sync set, so the followers may be elected;
    and the brokers crash one after the other, so that each partition's leader is among them.
    """
    brokers = members.of(BROKER)
    faults = []
    begin_s = 2.0
    for broker in brokers:
        faults += [
            Fault(
                kind=Kind.CUT,
                targets=(f"{broker} from other brokers",),
                from_s=begin_s,
                until_s=begin_s + 3,
                links=links_between([broker], brokers),
            ),
            Fault(kind=Kind.KILL, targets=(broker,), from_s=begin_s + 2, until_s=begin_s + 8),
        ]
        begin_s += 14
    return Schedule(tuple(faults), begin_s)


def controller_deposed_while_it_writes(members: Members) -> Schedule:
    """The leading controller is cut off from etcd with a write on its way, and back when others have gone on.

    Needs a `replica.lag.time.max.ms` well below the lease: the leaders notice a paused follower and ask for another
    in-sync set while the controller that is cut off still seems to lead. TCP repeats what it sent then after pauses
    that double, 13 s later and then as long again after that; the cut is over by the former.
    """
    leading, *_ = members.of(CONTROLLER)
    first, *_, last = members.of(BROKER)
    cut = links_between([leading], members.of(ETCD))
    return Schedule(
        (
            Fault(kind=Kind.PAUSE, targets=(last,), from_s=2.0, until_s=8.0),
            Fault(kind=Kind.CUT, targets=(f"{leading} from etcd",), from_s=2.2, until_s=13.5, links=cut),
            Fault(kind=Kind.KILL, targets=(first,), from_s=8.0, until_s=12.0),
        ),
        26.0,
    )


def coordinator_replaced_unknown_to_a_broker(members: Members) -> Schedule:
    """A coordinator and a broker lose etcd together, and others go on: the two know nothing of that.

    The groups' clients commit through other brokers, to the new owner of each shard; the broker that is cut off still
    relays to the former one.
    """
    coordinator, *_ = members.of(COORDINATOR)
    first, *_ = members.of(BROKER)
    away = [coordinator, first]
    links = links_between(away, [*members.of(ETCD), *members.of(CONTROLLER)])
    cut = Fault(
        kind=Kind.CUT, targets=(f"{coordinator} and {first} from etcd",), from_s=4.0, until_s=20.0, links=links
    )
    return Schedule((cut,), 22.0)


def topics_under_operators_while_brokers_restart(members: Members) -> Schedule:
    """Operators' own topics live through one restart of each broker after the other."""
    lives = [
        Fault(kind=Kind.LIFE, targets=(f"life-{number}",), from_s=0.5, until_s=30.0, wanted=str(number))
        for number in range(3)
    ]
    stops = [
        Fault(kind=Kind.STOP, targets=(broker,), from_s=5.0 + 8 * number, until_s=6.0 + 8 * number)
        for number, broker in enumerate(members.of(BROKER))
    ]
    return Schedule((*lives, *stops), 32.0)


def nothing_but_load(_members: Members) -> Schedule:
    """Time for compaction."""
    return Schedule((), 20.0)


def etcd_away_for_longer_than_the_leases(members: Members) -> Schedule:
    """Every registration runs out, and comes back when etcd does."""
    paused = tuple(
        Fault(kind=Kind.PAUSE, targets=members.of(ETCD)[1:], from_s=begin_s, until_s=begin_s + 7.0)
        for begin_s in (2.0, 16.0, 30.0)
    )
    return Schedule(paused, 44.0)


def replicas_shuffled_beside_big_topics(members: Members) -> Schedule:
    """Replicas leave a busy broker and come back to it, and then the others crash."""
    faults: list[Fault] = []
    *others, _last = members.of(BROKER)
    for begin_s in (2.0, 24.0):
        for topic in ("fruit", "metal", "recent"):
            faults += [
                Fault(
                    kind=Kind.SHUFFLE,
                    targets=(f"{topic}-{index}",),
                    from_s=begin_s,
                    until_s=begin_s + 8.0,
                    wanted="60",
                )
                for index in range(3)
            ]
        faults += [
            Fault(kind=Kind.KILL, targets=(broker,), from_s=begin_s + 6.0 + number, until_s=begin_s + 10.0)
            for number, broker in enumerate(others)
        ]
    return Schedule(tuple(faults), 44.0)


def truncated_epochs_at_a_crash(members: Members) -> Schedule:
    """A follower truncates, is killed before it flushes, leads, and is asked by a replica with the former history.

    Of the topic whose leaders may be elected uncleanly, with its replicas on the first three brokers: the third one
    writes alone (epoch A), is killed, the other two write on (epoch B), and the second one stops cleanly, so that its
    file says where B begins. Then the first one is paused with what it has of B; the third one leads again, the
    second one cuts off B, takes over A, and is killed; and it leads when the first one is back, which has to be told
    to cut off B. A fourth broker is always there, since clients forget brokers that metadata does not name.
    """
    first, second, third, *others = members.of(BROKER)
    assert others, "clients need a broker that stays"
    topic, end_s = UNSURE_TOPIC.name, 62.0
    moves = [
        Fault(kind=Kind.REASSIGN, targets=(f"{topic}-{index}",), from_s=0.2, until_s=end_s - 1, wanted="1,2,3")
        for index in range(PARTITIONS)
    ]
    unclean = "unclean.leader.election.enable=true"
    return Schedule(
        (
            *moves,
            Fault(kind=Kind.SETTINGS, targets=(topic,), from_s=1.0, until_s=end_s - 1, wanted=unclean),
            Fault(kind=Kind.KILL, targets=(first, second), from_s=6.0, until_s=14.0),
            Fault(kind=Kind.KILL, targets=(third,), from_s=13.9, until_s=26.0),
            Fault(kind=Kind.STOP, targets=(second,), from_s=21.0, until_s=22.5),
            Fault(kind=Kind.PAUSE, targets=(first,), from_s=25.0, until_s=45.0),
            Fault(kind=Kind.KILL, targets=(second,), from_s=25.0, until_s=33.0),
            Fault(kind=Kind.KILL, targets=(second,), from_s=38.0, until_s=42.0),
            Fault(kind=Kind.KILL, targets=(third,), from_s=40.0, until_s=55.0),
        ),
        end_s,
    )


def disks_that_lose_what_is_not_fsynced(members: Members) -> Schedule:
    """One broker after the other; each is back in sync before the next one's turn."""
    return _one_after_the_other(members, Kind.UNSYNCED_DISK, seconds=7.0)


def disk_that_loses_records_while_the_others_are_away(members: Members) -> Schedule:
    """Who has lost what was not fsynced is the first to be back, and has to wait for those who have everything."""
    first, *others = members.of(BROKER)
    return Schedule(
        (
            Fault(kind=Kind.UNSYNCED_DISK, targets=(first,), from_s=3.0, until_s=15.0),
            Fault(kind=Kind.KILL, targets=tuple(others), from_s=9.0, until_s=22.0),
        ),
        25.0,
    )


def disks_that_hang(members: Members) -> Schedule:
    """One broker after the other, for longer than its lease."""
    return _one_after_the_other(members, Kind.STALLED_DISK, seconds=7.0)


def disks_that_refuse_writes(members: Members) -> Schedule:
    """One broker after the other."""
    return _one_after_the_other(members, Kind.REFUSING_DISK, seconds=3.0, wanted="EIO")


def _one_after_the_other(members: Members, kind: Kind, *, seconds: float, wanted: str = "") -> Schedule:
    faults = []
    begin_s = 3.0
    for broker in members.of(BROKER):
        faults.append(Fault(kind=kind, targets=(broker,), from_s=begin_s, until_s=begin_s + seconds, wanted=wanted))
        begin_s += seconds + 7.0
    return Schedule(tuple(faults), begin_s)


def hostile_clients_alone(_members: Members) -> Schedule:
    """Nothing fails, so that whatever honest clients are told holds with one acknowledgement, too."""
    wanted = ", ".join(HostileBehaviour)
    hostile = Fault(kind=Kind.HOSTILE, targets=(CLIENTS,), from_s=1.0, until_s=19.0, wanted=wanted)
    return Schedule((hostile,), 20.0)
