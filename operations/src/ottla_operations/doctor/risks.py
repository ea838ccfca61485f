"""What works now and is left so that a failure does harm: too few copies, moves that nobody finished. Pure."""

from collections.abc import Iterator

from ottla_operations.cluster.cluster_view import PartitionView
from ottla_operations.cluster.throttles import TOPIC_SETTINGS
from ottla_operations.doctor.findings import NAMED_MAX, Facts, Finding, Harm, named
from ottla_operations.quantities import counted

MIN_IN_SYNC = "min.insync.replicas"
ASKED = (MIN_IN_SYNC, *TOPIC_SETTINGS)
"""The settings of topics that tell about hazards."""


def hazards(facts: Facts) -> list[Finding]:
    """Return what is no failure yet."""
    return [*_too_few_copies(facts), *_moves(facts), *_throttles(facts)]


def _too_few_copies(facts: Facts) -> Iterator[Finding]:
    """Find topics that lose records, or refuse them, with the next broker; one broker alone allows nothing better."""
    if facts.view is None or len(facts.view.brokers) < 2:
        return
    by_topic: dict[str, list[PartitionView]] = {}
    for each in facts.view.partitions.values():
        by_topic.setdefault(each.name.topic, []).append(each)
    single, strict = [], []
    for topic, partitions in by_topic.items():
        if any(each.leader is None or each.name in facts.moves for each in partitions):
            continue  # told otherwise
        copies = min(len(each.replicas) for each in partitions)
        if copies == 1:
            single.append(topic)
        elif int(facts.settings.get(topic, {}).get(MIN_IN_SYNC, "1")) >= copies:
            strict.append(topic)
    if single:
        copies = min(3, len(facts.view.brokers))
        yield Finding(
            Harm.ADVICE, "single-copy", _topics(single),
            f"{counted(len(single), 'topic')} with one copy: a broker that fails takes its partitions away",
            f"ottla topic alter {single[0]} --replication-factor {copies}",
        )  # fmt: skip
    if strict:
        least = min(len(each.replicas) for each in by_topic[strict[0]]) - 1
        yield Finding(
            Harm.ADVICE, "min-insync-allows-no-failure", _topics(strict),
            f"{MIN_IN_SYNC} is the number of copies: one broker away stops all that is produced with acks=all",
            f"ottla config set topic {strict[0]} {MIN_IN_SYNC}={least}",
        )  # fmt: skip


def _moves(facts: Facts) -> Iterator[Finding]:
    if facts.view is None or not facts.moves:
        return
    waited_for = sorted(
        {broker for move in facts.moves.values() for broker in move.adding} - facts.view.brokers.keys()
    )
    moving = [each for each in facts.view.partitions.values() if each.name in facts.moves]
    yield Finding(
        Harm.AT_RISK if waited_for else Harm.ADVICE,
        "reassignment-stuck" if waited_for else "reassignment-unfinished",
        named(moving),
        f"{counted(len(moving), 'partition')} on the way to other brokers"
        + (f", of which {', '.join(map(str, waited_for))} is away" if waited_for else ""),
        "ottla cluster reassign --cancel" if waited_for else "ottla cluster reassign --list",
    )  # fmt: skip


def _throttles(facts: Facts) -> Iterator[Finding]:
    """Find throttles without a move: they hold back a copy that catches up after its broker was away."""
    if facts.moves:
        return
    held = [topic for topic, known in facts.settings.items() if any(known.get(name) for name in TOPIC_SETTINGS)]
    if held:
        yield Finding(
            Harm.ADVICE, "throttle-left-behind", _topics(held),
            "copying is throttled though nothing moves: a copy that was away catches up slowly",
            f"ottla config delete topic {held[0]} {' '.join(TOPIC_SETTINGS)}",
        )  # fmt: skip


def _topics(names: list[str]) -> str:
    more = f" and {len(names) - NAMED_MAX:,} more" if len(names) > NAMED_MAX else ""
    return f"topic {', '.join(sorted(names)[:NAMED_MAX])}{more}"
