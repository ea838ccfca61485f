"""Schedules that aim at one rule of transactions: what would go wrong without it goes wrong every time. Pure."""

from tests.faults.fault import BROKER, COORDINATOR, Fault, Kind, Members
from tests.faults.schedule import Schedule


def nothing_fails(_members: Members) -> Schedule:
    """Writers abort, are overtaken, and send what is outdated all by themselves."""
    return Schedule((), 12.0)


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
