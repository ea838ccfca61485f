"""Schedules that aim at one rule of transactions: what would go wrong without it goes wrong every time. Pure."""

from tests.faults.fault import BROKER, COORDINATOR, Fault, Kind, Members, links_between
from tests.faults.schedule import Schedule


def nothing_fails(_members: Members) -> Schedule:
    """Writers abort, are overtaken, and send what is outdated all by themselves."""
    return Schedule((), 12.0)


def unreplicated_markers_at_a_crash(members: Members) -> Schedule:
    """Leaders get markers that no follower can fetch, and crash; nobody sends them to the next leaders at once."""
    faults: list[Fault] = []
    begin_s = 2.0
    brokers = members.of(BROKER)
    for broker in brokers:
        cut = links_between([broker], brokers)
        until_s = begin_s + 8
        faults += [
            Fault(
                kind=Kind.CUT,
                targets=(f"{broker} from other brokers",),
                from_s=begin_s,
                until_s=begin_s + 3,
                links=cut,
            ),
            Fault(kind=Kind.KILL, targets=(broker,), from_s=begin_s + 2, until_s=until_s),
            Fault(kind=Kind.PAUSE, targets=members.of(COORDINATOR), from_s=begin_s + 2, until_s=until_s),
        ]
        begin_s += 14
    return Schedule(tuple(faults), begin_s)


def coordinators_killed_while_a_broker_is_away(members: Members) -> Schedule:
    """Ends are decided while a partition's leader cannot take its marker, and who has decided dies meanwhile."""
    faults: list[Fault] = []
    begin_s = 2.0
    for broker in members.of(BROKER):
        faults.append(Fault(kind=Kind.PAUSE, targets=(broker,), from_s=begin_s, until_s=begin_s + 2.5))
        faults.append(
            Fault(kind=Kind.KILL, targets=members.of(COORDINATOR), from_s=begin_s + 1.5, until_s=begin_s + 2.0)
        )
        begin_s += 8
    return Schedule(tuple(faults), begin_s)
