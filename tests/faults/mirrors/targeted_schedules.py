"""Schedules for two clusters that aim at one rule. Pure."""

from tests.faults.fault import BROKER, Fault, Kind
from tests.faults.mirrors.mirror_load import worker_names
from tests.faults.mirrors.sites import SOURCE_MEMBERS, TARGET_MEMBERS
from tests.faults.schedule import Schedule


def workers_that_crash() -> Schedule:
    """All workers are killed between two times at which they store positions."""
    kills = [
        Fault(kind=Kind.KILL, targets=worker_names(), from_s=begin_s, until_s=begin_s + 1.0)
        for begin_s in (4.0, 16.0, 28.0)
    ]
    return Schedule(tuple(kills), 34.0)


def brokers_that_crash() -> Schedule:
    """Each broker of both clusters is killed once, so that every partition gets another leader."""
    kills = [
        Fault(kind=Kind.KILL, targets=(broker,), from_s=3.0 + 9 * number, until_s=8.0 + 9 * number)
        for number, broker in enumerate((*SOURCE_MEMBERS.of(BROKER), *TARGET_MEMBERS.of(BROKER)))
    ]
    return Schedule(tuple(kills), 50.0)
