"""The groups that read a topic, those farthest behind first. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass

from ottla_console.views.group_table import state_grade
from ottla_operations.groups.topic_consumers import TopicConsumer, TopicConsumers


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerRow:
    """A group; `seconds` is for how long the first record that it has not committed has waited, None if not known."""

    consumer: TopicConsumer
    seconds: float | None

    @property
    def grade(self) -> str:
        """How its state is marked."""
        return state_grade(self.consumer.state)


def consumer_rows(
    found: TopicConsumers, topic: str, lag_seconds: Mapping[tuple[str, str], float], words: str
) -> list[ConsumerRow]:
    """Return the groups whose names have all words, in whatever case; those whose lag is not known come last."""
    wanted = words.lower().split()
    rows = [
        ConsumerRow(consumer=each, seconds=lag_seconds.get((each.group, topic)))
        for each in found.consumers.values()
        if all(word in each.group.lower() for word in wanted)
    ]
    return sorted(rows, key=_order)


def _order(row: ConsumerRow) -> tuple[int, str]:
    return (1 if row.consumer.lag is None else -row.consumer.lag, row.consumer.group)


def gaps(found: TopicConsumers) -> list[str]:
    """Return what was not looked at, a sentence each."""
    told = list(found.problems)
    if found.not_looked_at:
        told.append(
            f"{len(found.looked_at):,} of {found.groups:,} groups were asked so far; others may read this topic, too"
        )
    if found.silent:
        first = min(found.silent)
        many = "1 group does" if len(found.silent) == 1 else f"{len(found.silent):,} groups do"
        told.append(f"{many} not tell all; {first}: {found.silent[first]}")
    return told
