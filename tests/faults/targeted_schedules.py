"""Schedules that aim at one rule: what would go wrong without it goes wrong every time. Pure."""

from tests.faults.fault import BROKER, CONTROLLER, ETCD, Fault, Kind, Members, links_between
from tests.faults.schedule import Schedule


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
    in-sync set while the controller that is cut off still seems to lead.
    """
    leading, *_ = members.of(CONTROLLER)
    first, *_, last = members.of(BROKER)
    cut = links_between([leading], members.of(ETCD))
    return Schedule(
        (
            Fault(kind=Kind.PAUSE, targets=(last,), from_s=2.0, until_s=12.0),
            Fault(kind=Kind.CUT, targets=(f"{leading} from etcd",), from_s=2.2, until_s=22.0, links=cut),
            Fault(kind=Kind.KILL, targets=(first,), from_s=12.0, until_s=16.0),
        ),
        26.0,
    )
