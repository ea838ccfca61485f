"""Who does not keep up: groups behind what is produced, links and flows that stand still, levels not raised. Pure."""

from collections.abc import Iterator

from ottla_operations.doctor.findings import NAMED_MAX, Facts, Finding, Harm
from ottla_operations.quantities import counted

BEHIND_MIN = 5
"""Minutes; a group falls behind if its next record is older."""
WAITS = "WAITING"
FOLLOWS = ("RUNNING", "PAUSED")
STANDING_FLOWS = ("DEGRADED", "FAILED")


def progress(facts: Facts) -> list[Finding]:
    """Return what stands still or falls behind while the brokers work."""
    return [*_hanging(facts), *_groups(facts), *_links(facts), *_flows(facts), *_levels(facts)]


def _hanging(facts: Facts) -> Iterator[Finding]:
    for each in facts.hanging:
        topic, index = each.partition
        yield Finding(
            Harm.UNAVAILABLE, "transaction-hangs", f"{topic}-{index}",
            f"a transaction of producer {each.producer_id} is open from offset {each.start_offset} on, and no"
            " coordinator will end it: nobody who reads committed records gets further",
            f"ottla transaction abort {topic} {index} --start-offset {each.start_offset} --yes",
        )  # fmt: skip


def _groups(facts: Facts) -> Iterator[Finding]:
    for group in sorted({each.group for each in facts.groups}):
        places = [each for each in facts.groups if each.group == group]
        if lost := [each for each in places if each.committed < each.log_start]:
            deleted = counted(sum(each.log_start - each.committed for each in lost), "record")
            yield Finding(
                Harm.AT_RISK, "group-missed-records", f"group {group}",
                f"{deleted} of {_named([each.place for each in lost])} were deleted before it read them",
                f"ottla group describe {group}",
            )  # fmt: skip
        elif behind := [each for each in places if each.committed < each.overdue_before]:
            records = sum(each.log_end - each.committed for each in behind)
            reading = "" if places[0].has_members else ", and it has no members"
            yield Finding(
                Harm.STALLED, "group-behind", f"group {group}",
                f"it is more than {BEHIND_MIN} minutes behind, {counted(records, 'record')} of"
                f" {_named([each.place for each in behind])}{reading}",
                f"ottla group describe {group}",
            )  # fmt: skip


def _links(facts: Facts) -> Iterator[Finding]:
    """Tell once for each link and reason; a link whose partitions have no leader is told with these."""
    told: dict[tuple[str, str], list[str]] = {}
    for each in facts.links:
        if each.state not in (*FOLLOWS, "NO_LEADER"):
            told.setdefault((each.link, f"{each.state}: {each.reason}"), []).append(each.place)
    for (link, reason), places in told.items():
        yield Finding(
            Harm.STALLED, "link-stands-still", f"link {link}",
            f"{_named(places)} {'do' if len(places) > 1 else 'does'} not follow the source; {reason}",
            f"ottla mirror link status {link}",
        )  # fmt: skip


def _flows(facts: Facts) -> Iterator[Finding]:
    for each in facts.flows:
        if each["state"] in STANDING_FLOWS:
            yield Finding(
                Harm.STALLED, "flow-stands-still", f"flow {each['name']}", each["reason"] or f"it is {each['state']}",
                f"ottla mirror status '{each['name']}'",
            )  # fmt: skip


def _levels(facts: Facts) -> Iterator[Finding]:
    """Tell of brokers of several releases, and of levels that all have and nobody has raised."""
    older: dict[tuple[int, ...], list[str]] = {}
    not_raised: dict[str, str] = {}
    for name in sorted({name for ranges in facts.supported_levels.values() for name in ranges}):
        highest = {broker: ranges.get(name, (0, 0))[1] for broker, ranges in facts.supported_levels.items()}
        newest, common = max(highest.values()), min(highest.values())
        if newest > common:
            brokers = tuple(sorted(broker for broker, each in highest.items() if each < newest))
            older.setdefault(brokers, []).append(f"{name} can be at level {newest}")
        elif (level := facts.levels.get(name, 0)) < common:
            not_raised[name] = f"level {level} of {name}, though all brokers have level {common}"
    for brokers, levels in older.items():
        yield Finding(
            Harm.ADVICE, "releases-differ", f"broker {', '.join(map(str, brokers))}",
            f"older than the others: {' and '.join(levels)} when all brokers have it",
            "ottla cluster features show",
        )  # fmt: skip
    if not_raised:
        yield Finding(
            Harm.ADVICE, "level-not-raised", f"feature {', '.join(not_raised)}",
            f"the cluster is at {' and at '.join(not_raised.values())}",
            "ottla cluster features upgrade --dry-run",
        )  # fmt: skip


def _named(places: list[str]) -> str:
    more = f" and {len(places) - NAMED_MAX:,} more" if len(places) > NAMED_MAX else ""
    return ", ".join(sorted(places)[:NAMED_MAX]) + more
